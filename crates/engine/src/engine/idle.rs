//! Why a disk that has requests has no command: for whoever explains where a request's time went.

use crate::{Engine, RequestId, VolumeId};

/// For whom, or for what, the disk idles although there is work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleReason {
    /// A request has the disk, and its command is sent when the head arrives as the sector does.
    RotationalWait {
        /// Which one.
        request: RequestId,
        /// Whose.
        volume: VolumeId,
    },
    /// A sequential run is waited for to go on.
    Anticipation(VolumeId),
    /// Nobody who has work may have the disk now: volumes are at their limits, or deadlines leave no slack.
    Ineligible,
}

impl Engine {
    /// Why it issues nothing, as of the last [`Engine::poll`] that said `None`; nothing where commands are in the drive, or
    /// nobody asks for any.
    pub fn idle_reason(&self) -> Option<IdleReason> {
        if !self.issued.is_empty() {
            return None;
        }
        if let Some(held) = self.held.filter(|held| held.idles) {
            let request = self.pending(held.slot).request.id;
            return Some(IdleReason::RotationalWait { request, volume: held.volume });
        }
        if let Some(volume) = self.policy.anticipating() {
            return Some(IdleReason::Anticipation(volume));
        }
        (self.queued > 0).then_some(IdleReason::Ineligible)
    }
}
