//! The interface between an engine and its policies.

use std::sync::Arc;

use drive_profile::Profile;
use units::{DiskTime, Instant, Operation, Sectors};

use super::switch_costs::Positioning;
use crate::accounting::estimate::Class;
use crate::limits::JOINT_VOLUMES_MAX;
use crate::request::{DeadlineStats, ServiceDemand};
use crate::stream::Granularity;
use crate::{Contract, LatencyStats, Settings, VolumeId};

/// The volume whose head goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// This volume.
    Volume(VolumeId),
    /// None before this instant, unless a request is submitted or a command completes.
    Wait(Instant),
    /// None: no volume has a request.
    Nothing,
}

/// Volumes of which one goes next: the one whose request is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    volumes: [VolumeId; JOINT_VOLUMES_MAX],
    count: usize,
}

impl Candidates {
    pub(crate) fn push(&mut self, volume: VolumeId) {
        assert!(self.count < JOINT_VOLUMES_MAX, "candidates are bounded");
        debug_assert!(self.iter().all(|other| other != volume), "a volume is a candidate once");
        self.volumes[self.count] = volume;
        self.count += 1;
    }

    pub(crate) fn count(&self) -> usize {
        debug_assert!(self.count <= JOINT_VOLUMES_MAX, "candidates are bounded");
        self.count
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = VolumeId> + '_ {
        debug_assert!(self.count <= JOINT_VOLUMES_MAX, "candidates are bounded");
        self.volumes[..self.count].iter().copied()
    }
}

/// What a policy noted of a command at its dispatch, to be corrected at its completion.
///
/// The estimate and the time of the dispatch are not side by side: as neighbours they are copied at
/// once, right after each was written by itself, and the processor waits for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct DispatchRecord {
    /// The estimate with which the volume was debited.
    pub(crate) estimate: DiskTime,
    /// Whether the time is slack: no other volume's reserve was due.
    pub(crate) from_slack: bool,
    /// The class of the estimate: an estimator that learns from completions learns about this
    /// class.
    pub(crate) class: Class,
    /// The positioning because of the volume served before.
    pub(crate) positioning: Positioning,
    /// Whether it goes in the joint quantum of another volume.
    pub(crate) joins: bool,
    /// Whether the disk is held for the rest of its request: no other volume is served before.
    /// The engine says so.
    pub(crate) holds: bool,
    /// When it was dispatched.
    pub(crate) at: Instant,
    /// The volume in whose command's rotational wait it is carried out, if it is. The engine says
    /// so.
    pub(crate) lender: Option<VolumeId>,
    /// What it is to the guarantees by deadlines of `spindle`.
    pub(crate) guarded: GuardedAs,
}

/// What a command is to the guarantees by deadlines of `spindle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardedAs {
    /// There was no such guarantee when it was dispatched.
    Nothing,
    /// A command of a volume without a guarantee, with its worst case: the slack pays for it, and
    /// others may be in the drive beside it.
    Slack { worst: DiskTime },
    /// A command of a volume with a guarantee, alone in the drive; `is_real`: because of that.
    Alone { is_real: bool },
}

impl DispatchRecord {
    /// A record of a policy that learns nothing from completions.
    pub(crate) fn new(estimate: DiskTime, from_slack: bool) -> Self {
        assert!(estimate >= DiskTime::ZERO, "an estimate is not negative: {estimate}");
        let (class, positioning) = (Class::default(), Positioning::OwnCost);
        let guarded = GuardedAs::Nothing;
        let at = Instant::ZERO;
        let (joins, holds, lender) = (false, false, None);
        Self { estimate, from_slack, class, positioning, joins, holds, at, lender, guarded }
    }
}

/// A head that goes to the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dispatch<'a> {
    /// Its volume.
    pub(crate) volume: VolumeId,
    /// The command.
    pub(crate) command: &'a Operation,
    /// Whether it is the last command of a request.
    pub(crate) ends_request: bool,
    /// The requests whose last command it is: several only where the policy lets commands gather.
    pub(crate) ended: u32,
    /// The volume's next head.
    pub(crate) next: Option<&'a Operation>,
    /// Whether it is dispatched out of order because of its priority.
    pub(crate) urgent: bool,
}

/// One scheduling policy of one disk.
pub(crate) trait Policy: core::fmt::Debug + Send {
    /// Adds a volume; its number is the next one.
    fn add_volume(&mut self, contract: Contract, now: Instant);

    /// Changes a volume's contract.
    fn change_contract(&mut self, volume: VolumeId, contract: Contract, now: Instant);

    /// Gives the number of a removed volume to another with this contract and nothing queued or in
    /// service. No state of the old one is kept.
    fn reset_volume(&mut self, volume: VolumeId, contract: Contract, now: Instant);

    /// The settings have another period, over which shares are kept, and other batches.
    fn change_period(&mut self, settings: &Settings, now: Instant);

    /// What is known of the disk.
    fn set_profile(&mut self, profile: &Arc<Profile>) {
        let _ = profile;
    }

    /// The static slack ΔL that the admitted tasks leave from now on (Clockwise, RTAS 2000).
    fn set_static_slack(&mut self, slack: DiskTime) {
        let _ = slack;
    }

    /// Requests with deadlines, and all beside them, become commands in another way from now on, if
    /// no released request is queued; the drive is idle. Returns whether that is so. The engine
    /// tells the heads that are others then.
    fn change_granularity(&mut self, granularity: Granularity, now: Instant) -> bool {
        let _ = (granularity, now);
        true
    }

    /// The deadlines met and missed by a stream; `None` if the policy keeps none for it.
    fn deadline_stats(&self, volume: VolumeId) -> Option<DeadlineStats> {
        let _ = volume;
        None
    }

    /// The requests of a bounded latency; `None` if the policy keeps none for the volume.
    fn latency_stats(&self, volume: VolumeId) -> Option<LatencyStats> {
        let _ = volume;
        None
    }

    /// A request for `operation` arrived in `volume`'s queue. `head` is its head if the queue was
    /// empty.
    fn queued(
        &mut self,
        volume: VolumeId,
        operation: &Operation,
        head: Option<&Operation>,
        now: Instant,
    );

    /// Whether the request for `operation`, which arrives in `volume`'s queue now, is covered by a
    /// guarantee of its own: then it goes ahead of those that are not. Asked once, before
    /// [`Policy::queued`].
    fn goes_ahead(&mut self, volume: VolumeId, operation: &Operation, now: Instant) -> bool {
        let _ = (volume, operation, now);
        false
    }

    /// The head of `volume`'s queue is another one from now on: guarantees by deadlines have begun
    /// or ended, the granularity has changed, or a request has gone ahead.
    fn head_changed(&mut self, volume: VolumeId, head: &Operation, now: Instant) {
        let _ = (volume, head, now);
    }

    /// The volume whose head goes next, given that the drive can take a command and that `running`
    /// are in flight.
    fn pick(&mut self, running: usize, now: Instant) -> Pick;

    /// The volumes of which one goes in the place of `volume`, which was picked: the one whose
    /// request is chosen among those of all of them. None: it goes itself. Only asked where the
    /// positioning times of requests are predicted.
    fn candidates(&mut self, volume: VolumeId, now: Instant) -> Candidates {
        let _ = (volume, now);
        Candidates::default()
    }

    /// Whether `volume`, which goes next, is another one than was served last, so that all volumes
    /// pay for the change. Only asked where positioning times are predicted.
    fn changes_to(&self, volume: VolumeId) -> bool {
        let _ = volume;
        false
    }

    /// The disk time that is left to `volume`, which was picked, beside what it has in the drive,
    /// if it then goes to another one. Only asked where positioning times are predicted.
    fn time_left(&self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        let _ = (volume, now);
        None
    }

    /// Whether the drive gets several commands of the volume that was picked, as many as it holds,
    /// and serves them in its own order. Only asked where positioning times are not predicted.
    fn fills_drive(&self, now: Instant) -> bool {
        let _ = now;
        false
    }

    /// Whether several volumes use a drive that works for several commands at a time: what is in it
    /// beyond what keeps it busy would be in the way of another volume's.
    fn divides_drive(&self) -> bool {
        false
    }

    /// Whether the disk is to be held no longer for a request of `volume`, of which the drive has
    /// buffered a part: that is flushed next, and the rest goes later. Asked before each command of
    /// such a request.
    fn ends_hold(&mut self, volume: VolumeId, now: Instant) -> bool {
        let _ = (volume, now);
        false
    }

    /// The most sectors that the next command of `volume`, which was picked, transfers. It covers
    /// that much of the queue as one command as long as requests follow each other on the disk and
    /// are of one kind, and may end inside a request. `None`: a command belongs to one request.
    ///
    /// `head` and `next` are pieces of single requests all the same. Only asked under
    /// [`Execution::Whole`](crate::Execution::Whole) without a split.
    fn gather(&self, volume: VolumeId) -> Option<Sectors> {
        let _ = volume;
        None
    }

    /// The head that [`Policy::pick`] named goes to the drive.
    fn dispatched(&mut self, dispatch: Dispatch<'_>, now: Instant) -> DispatchRecord;

    /// A command of `volume` had the service time `took`. Returns what the volume is charged for
    /// it.
    fn completed(
        &mut self,
        volume: VolumeId,
        record: DispatchRecord,
        took: DiskTime,
        now: Instant,
    ) -> DiskTime;

    /// Whether a read of another volume, one without a reserve, may be carried out in the
    /// rotational wait of the next command of `volume`, which was picked: freeblock scheduling.
    fn lends_wait(&self, volume: VolumeId, urgent: bool) -> bool {
        let _ = (volume, urgent);
        false
    }

    /// Whether what was carried out in the waits of `volume` counts as part of the time of its
    /// command that completes: [`Policy::completed`] is told so.
    fn counts_lent(&self, volume: VolumeId) -> bool {
        let _ = volume;
        false
    }

    /// The head of a volume that is eligible goes to the drive in the rotational wait of another
    /// volume's command.
    fn dispatched_freeblock(&mut self, dispatch: Dispatch<'_>, now: Instant) -> DispatchRecord {
        let _ = now;
        unreachable!("no wait is lent to {:?}", dispatch.volume)
    }

    /// Such a command of `volume` has completed. The volume is charged `took`.
    fn completed_freeblock(&mut self, volume: VolumeId, took: DiskTime, now: Instant) {
        let _ = now;
        unreachable!("no wait was lent to {volume:?} for {took}")
    }

    /// What commands took and no volume has been charged yet.
    fn uncharged(&self) -> DiskTime {
        DiskTime::ZERO
    }

    /// Whether `volume`, which has a head, may be served out of order.
    fn is_eligible(&mut self, volume: VolumeId, now: Instant) -> bool {
        let _ = (volume, now);
        true
    }

    /// The level of the volume's reserve bucket; `None` if the policy keeps none.
    fn balance(&mut self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        let _ = (volume, now);
        None
    }

    /// What the volume's requests have demanded so far; `None` if the policy does not tell their
    /// own service times from the costs of switching.
    fn service_demand(&self, volume: VolumeId, now: Instant) -> Option<ServiceDemand> {
        let _ = (volume, now);
        None
    }

    /// The volume for whose next request the disk idles (anticipatory scheduling).
    fn anticipating(&self) -> Option<VolumeId> {
        None
    }

    /// The disk idled for `volume` for `idle`, and the volume is charged for it.
    fn idle_charged(&mut self, volume: VolumeId, idle: DiskTime, now: Instant) {
        let _ = (volume, idle, now);
    }

    /// Panics if the policy's state is inconsistent.
    fn invariants(&self) {}
}
