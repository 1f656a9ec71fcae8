//! What goes into an engine and what comes out: events, actions, and the values they carry.

use units::{DiskTime, Duration, Extent, Instant, Operation, Sectors};

use crate::{ClosestCalls, Contract, Purpose, VolumeId};

/// The submitter's number of a request. The engine only returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The index of a request in the engine.
pub(crate) type Slot = u32;

/// The number of a command, in the order of issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// A client's request on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Returned in the [`Reply`].
    pub id: RequestId,
    /// The volume that is charged.
    pub volume: VolumeId,
    /// The operation; its extent is one of the disk's.
    pub operation: Operation,
}

/// A command to the drive: a piece of a request, or of several that follow each other on the disk
/// ([`Engine::command_pieces`](crate::Engine::command_pieces)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// To be returned in [`Event::Completed`].
    pub id: CommandId,
    /// The request that it is part of; the first one of several.
    pub request: RequestId,
    /// The volume that is charged.
    pub volume: VolumeId,
    /// The operation for the drive.
    pub operation: Operation,
    /// The offset of the piece in the (first) request's buffer.
    pub offset: Sectors,
    /// Its purpose. Only a [`Purpose::Transfer`] moves its request's data.
    pub purpose: Purpose,
}

/// How a command, and then its request, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Successfully.
    Done,
    /// The disk failed; the data must not be used. The engine never retries: the client decides.
    Failed,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The request.
    pub request: RequestId,
    /// Its volume.
    pub volume: VolumeId,
    /// How it ended: [`Outcome::Failed`] if any of its commands failed.
    pub outcome: Outcome,
    /// Its service time in disk time.
    pub disk_time: DiskTime,
    /// The sum of the estimates at its commands' dispatch; zero under a policy that estimates
    /// nothing.
    pub estimate: DiskTime,
    /// The time from its submission to the start of its first command.
    pub waited: Duration,
}

/// An event that the driver reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client submits a request. Its extent lies inside the disk; the volume exists.
    Submit(Request),
    /// As [`Event::Submit`], of a request that the volume's others do not wait for: they go before
    /// it until it is due. Where requests go in the order of arrival, it is as any other.
    SubmitDeferred(Request),
    /// A command has completed.
    Completed {
        /// The command; it was issued and has not completed before.
        command: CommandId,
        /// How it ended.
        outcome: Outcome,
    },
    /// A contract that [`crate::Engine::admits`] accepted takes effect.
    ContractChanged {
        /// The volume.
        volume: VolumeId,
        /// The new value.
        contract: Contract,
    },
    /// A volume is removed; all of its requests have been answered. Its number may be given to
    /// another.
    VolumeRemoved {
        /// The volume; it was added and has not been removed.
        volume: VolumeId,
    },
    /// Shares are kept over another period from now on.
    PeriodChanged {
        /// The new value.
        period: Duration,
        /// The length of a batch from now on: at most the period.
        batch: Duration,
    },
    /// What would be prefetched for a volume in rotational waits, until the next such event. It has
    /// no effect but with [`FreePrefetch::ToHost`](crate::FreePrefetch).
    PrefetchOffered {
        /// The volume; it was added and has not been removed.
        volume: VolumeId,
        /// Where it would begin, and the most of it; `None`: nothing.
        extent: Option<Extent>,
    },
}

/// An action that the driver carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this command to the drive.
    Issue(Command),
    /// Answer the client.
    Reply(Reply),
}

/// The resources that a volume has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeUsage {
    /// Disk time charged at completions; estimates of commands in flight are not included.
    pub disk_time: DiskTime,
    /// The part of it in which the disk idled for this volume's next request (anticipatory
    /// scheduling).
    pub anticipation: DiskTime,
    /// Requests answered.
    pub requests: u64,
    /// Requests that failed; they are in `requests` too.
    pub failures: u64,
    /// Sectors of the answered reads and writes.
    pub sectors: Sectors,
    /// When a request of the volume was last answered.
    pub last_reply: Option<Instant>,
}

/// What a volume's requests have demanded so far of the disk itself, and the pauses of its client:
/// both would be the same if the volume were alone on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceDemand {
    /// Service times, without the positioning that changes of volume added and without idle time.
    pub service: DiskTime,
    /// The time in which it had no request outstanding.
    pub think: Duration,
}

/// The deadlines that a stream has met and missed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadlineStats {
    /// Blocks answered by their deadline.
    pub met: u64,
    /// Blocks answered later.
    pub missed: u64,
    /// The largest lateness of an answer.
    pub max_lateness: Duration,
    /// The bytes of the stream, where each byte is promised a time: see [`StreamBytes`].
    pub bytes: StreamBytes,
}

/// The bytes of a stream, by what became of what was promised for each, however it was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamBytes {
    /// Answered by the time that was promised.
    pub met: Sectors,
    /// Answered later.
    pub missed: Sectors,
    /// Asked for by requests that ended a run of bytes within a block: they begin another block.
    pub out_of_order: Sectors,
    /// Asked for earlier than the bandwidth, one block, and the jitter of half a period allow.
    pub beyond_rate: Sectors,
    /// Not of the stream: outside of its range, trims, and writes of zeroes.
    pub outside: Sectors,
    /// Transferred by short commands because the client sends one request at a time.
    pub not_gathered: Sectors,
    /// Asked for, all but those outside.
    pub asked: Sectors,
    /// The least times that answers left to the times that were promised.
    pub closest: ClosestCalls,
}

impl core::ops::AddAssign for StreamBytes {
    fn add_assign(&mut self, other: Self) {
        self.met += other.met;
        self.missed += other.missed;
        self.out_of_order += other.out_of_order;
        self.beyond_rate += other.beyond_rate;
        self.outside += other.outside;
        self.not_gathered += other.not_gathered;
        self.asked += other.asked;
        self.closest = self.closest.merged(&other.closest);
        debug_assert!(self.met >= other.met, "a sum of counts");
    }
}

impl StreamBytes {
    /// Counts `len` that were promised by `due` and are answered at `now`.
    pub(crate) fn answered(&mut self, len: Sectors, due: Instant, now: Instant) {
        let count = if now <= due { &mut self.met } else { &mut self.missed };
        *count += len;
        debug_assert!(*count >= len, "a count only grows");
        self.closest.count(due, now);
    }

    /// Those that are not real time: more than the contract covers, or not what it covers. Bytes
    /// that are both out of order and beyond the rate count twice.
    pub fn beyond(&self) -> Sectors {
        let beyond = self.out_of_order + self.beyond_rate + self.outside;
        debug_assert!(beyond >= self.outside, "a sum of counts");
        beyond
    }
}

impl DeadlineStats {
    /// Counts a request that was due at `deadline` and is answered at `now`.
    pub(crate) fn answered(&mut self, deadline: Instant, now: Instant) {
        if now <= deadline {
            self.met += 1;
        } else {
            self.missed += 1;
            debug_assert!(now > deadline, "a missed deadline has passed");
            self.max_lateness = self.max_lateness.max(now.since(deadline));
        }
        let is_any_late = self.max_lateness > Duration::ZERO;
        debug_assert_eq!(is_any_late, self.missed > 0, "a missed deadline has a lateness");
    }
}
