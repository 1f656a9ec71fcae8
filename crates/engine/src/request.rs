//! What goes into an engine and what comes out: events, actions, and the values they carry.

use units::{DiskTime, Duration, Instant, Operation, Sectors};

use crate::{Contract, Purpose, VolumeId};

/// The submitter's own name for a request. The engine only gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One command's name: its number in the order of issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// Something a volume wants done, on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Given back in the [`Reply`].
    pub id: RequestId,
    /// Who pays.
    pub volume: VolumeId,
    /// What to do; the extent is one of the disk's.
    pub operation: Operation,
}

/// A piece of a request that the drive executes as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// To be given back in [`Event::Completed`].
    pub id: CommandId,
    /// Whose piece it is.
    pub request: RequestId,
    /// Who pays.
    pub volume: VolumeId,
    /// What the drive is told to do.
    pub operation: Operation,
    /// Where in the request's buffer the piece begins.
    pub offset: Sectors,
    /// What it is for. Only a [`Purpose::Transfer`] moves its request's data.
    pub purpose: Purpose,
}

/// How a command, and then its request, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Done,
    /// The disk could not; its data is not to be jit_enabled. Never retried: the client decides.
    Failed,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Which one.
    pub request: RequestId,
    /// Whose.
    pub volume: VolumeId,
    /// How it ended. [`Outcome::Failed`] if any of its commands failed.
    pub outcome: Outcome,
    /// The disk time that it took.
    pub disk_time: DiskTime,
    /// The disk time that it had been expected to take, when its commands were dispatched; nothing under a policy that
    /// expects nothing.
    pub estimate: DiskTime,
    /// From its submission to the start of its first command.
    pub waited: Duration,
}

/// What the world tells the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client wants something done. Its extent lies inside the disk; the volume exists.
    Submit(Request),
    /// The drive is done with a command.
    Completed {
        /// Which one; it was issued and has not completed before.
        command: CommandId,
        /// How it ended.
        outcome: Outcome,
    },
    /// A contract that [`crate::Engine::admits`] has said yes to takes effect.
    ContractChanged {
        /// Whose.
        volume: VolumeId,
        /// The new one.
        contract: Contract,
    },
    /// A volume leaves; all its requests have been answered. Its number may be given to another.
    VolumeRemoved {
        /// Which one; it was added and has not been removed.
        volume: VolumeId,
    },
    /// Shares are kept over another period from now on.
    PeriodChanged {
        /// The new one.
        period: Duration,
        /// How long a batch is from now on: at most the period.
        batch: Duration,
    },
}

/// What the engine wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Hand this to the drive.
    Issue(Command),
    /// Tell the client.
    Reply(Reply),
}

/// What a volume has had so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeUsage {
    /// Disk time charged, by completions; what was estimated but has not completed is not in it.
    pub disk_time: DiskTime,
    /// Of that, time in which the disk was kept waiting for this volume's next request.
    pub anticipation: DiskTime,
    /// Requests answered.
    pub requests: u64,
    /// Requests that failed; they are in `requests` too.
    pub failures: u64,
    /// Sectors of the answered reads and writes.
    pub sectors: Sectors,
    /// When the volume last had an answer.
    pub last_reply: Option<Instant>,
}

/// What became of a stream's deadlines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadlineStats {
    /// Blocks answered by their deadline.
    pub met: u64,
    /// Blocks answered later.
    pub missed: u64,
    /// The latest answer after its deadline.
    pub max_lateness: Duration,
}

impl DeadlineStats {
    /// A request that was due at `deadline` is answered.
    pub(crate) fn answered(&mut self, deadline: Instant, now: Instant) {
        if now <= deadline {
            self.met += 1;
        } else {
            self.missed += 1;
            self.max_lateness = self.max_lateness.max(now.since(deadline));
        }
    }
}
