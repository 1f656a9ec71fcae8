//! Why a disk that has requests has no command in flight: for reports of where a request's time
//! went.

use crate::{Engine, RequestId, VolumeId};

/// The reason for which the disk idles although there is work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleReason {
    /// The disk is held for a request whose command is sent so that the head arrives as the sector
    /// does.
    RotationalWait {
        /// The request.
        request: RequestId,
        /// Its volume.
        volume: VolumeId,
    },
    /// The disk anticipates the next request of this volume's sequential run.
    Anticipation(VolumeId),
    /// No volume with work is eligible: volumes are at their limits, or deadlines leave no slack.
    Ineligible,
}

impl Engine {
    /// The reason why the engine issues nothing, as of the last [`Engine::poll`] that returned
    /// `None`; `None` if commands are in flight or no request is queued.
    pub fn idle_reason(&self) -> Option<IdleReason> {
        if !self.issued.is_empty() {
            return None;
        }
        if let Some(active) = self.active.filter(|active| active.waits_for_rotation) {
            let request = self.pending(active.slot).request.id;
            debug_assert!(self.queued > 0, "the disk waits for a queued request");
            return Some(IdleReason::RotationalWait { request, volume: active.volume });
        }
        if let Some(volume) = self.policy.anticipating() {
            return Some(IdleReason::Anticipation(volume));
        }
        (self.queued > 0).then_some(IdleReason::Ineligible)
    }
}
