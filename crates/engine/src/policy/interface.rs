//! The interface between an engine and its policies.

use std::sync::Arc;

use drive_profile::Profile;
use units::{DiskTime, Instant, Operation};

use super::switch_costs::Positioning;
use crate::accounting::estimate::Class;
use crate::request::DeadlineStats;
use crate::{Contract, Settings, VolumeId};

/// Whose head goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// This volume's.
    Volume(VolumeId),
    /// Nobody's before then, unless something is submitted or completes.
    Wait(Instant),
    /// Nobody's: no volume has anything to do.
    Nothing,
}

/// What a policy said of a command when it was dispatched, to be put right when it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DispatchRecord {
    /// What the volume was debited.
    pub(crate) estimate: DiskTime,
    /// Whether the time came out of the slack: nobody else's reserve was waiting for it.
    pub(crate) slack: bool,
    /// What kind of command it was taken for: whoever learns from completions learns about this kind.
    pub(crate) class: Class,
    /// How its volume came to the arm.
    pub(crate) way: Positioning,
}

impl DispatchRecord {
    /// A ticket of somebody who learns nothing.
    pub(crate) fn new(estimate: DiskTime, slack: bool) -> Self {
        Self { estimate, slack, class: Class::default(), way: Positioning::OwnCost }
    }
}

/// A head that goes to the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dispatch<'a> {
    /// Whose it is.
    pub(crate) volume: VolumeId,
    /// What the drive is told to do.
    pub(crate) command: &'a Operation,
    /// Whether it is the last command of its request.
    pub(crate) ends_request: bool,
    /// The volume's next head.
    pub(crate) next: Option<&'a Operation>,
    /// Whether it goes before its turn, for its class.
    pub(crate) urgent: bool,
}

pub(crate) trait Policy: core::fmt::Debug + Send {
    /// A volume joins; its number is the next one.
    fn add(&mut self, contract: Contract, now: Instant);

    /// A volume's contract changes.
    fn change(&mut self, volume: VolumeId, contract: Contract, now: Instant);

    /// A number that a volume had is another's now: one with this contract and nothing queued or in service. Nothing of
    /// the old one is left.
    fn reset_volume(&mut self, volume: VolumeId, contract: Contract, now: Instant);

    /// The settings have another period, over which shares are kept, and other batches.
    fn change_period(&mut self, settings: &Settings, now: Instant);

    /// What is known of the disk.
    fn set_profile(&mut self, profile: &Arc<Profile>) {
        let _ = profile;
    }

    /// What is admitted leaves so much slack from now on (RTAS 2000's ΔL).
    fn set_static_slack(&mut self, slack: DiskTime) {
        let _ = slack;
    }

    /// What became of a stream's deadlines; `None` if the policy keeps none for it.
    fn deadline_stats(&self, volume: VolumeId) -> Option<DeadlineStats> {
        let _ = volume;
        None
    }

    /// A request for `asked` came to `volume`'s queue. `head` is its head if the queue was empty before.
    fn queued(
        &mut self,
        volume: VolumeId,
        asked: &Operation,
        head: Option<&Operation>,
        now: Instant,
    );

    /// Whose head goes next, given that the drive can take one and that `running` commands are in it.
    fn pick(&mut self, running: usize, now: Instant) -> Pick;

    /// The head that [`Policy::pick`] named is on its way.
    fn dispatched(&mut self, dispatch: Dispatch<'_>, now: Instant) -> DispatchRecord;

    /// A command of `volume` took `took`. What it is charged for it.
    fn completed(
        &mut self,
        volume: VolumeId,
        ticket: DispatchRecord,
        took: DiskTime,
        now: Instant,
    ) -> DiskTime;

    /// What commands took and nobody has been charged yet.
    fn uncharged(&self) -> DiskTime {
        DiskTime::ZERO
    }

    /// Whether `volume`, which has a head, may go before its turn.
    fn is_eligible(&mut self, volume: VolumeId, now: Instant) -> bool {
        let _ = (volume, now);
        true
    }

    /// What is in the volume's reserve bucket; `None` if the policy keeps none.
    fn balance(&mut self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        let _ = (volume, now);
        None
    }

    /// Whether the disk is being kept waiting, and for whom.
    fn anticipating(&self) -> Option<VolumeId> {
        None
    }

    /// The disk was kept waiting for `volume` for so long.
    fn lingered(&mut self, volume: VolumeId, waited: DiskTime, now: Instant) {
        let _ = (volume, waited, now);
    }

    /// Panics if the policy's own books do not agree.
    fn invariants(&self) {}
}
