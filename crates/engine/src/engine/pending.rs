//! Requests that are not answered, and the remainder of each.

use units::{DiskTime, Instant, Op, Operation, Sectors};

use crate::limits::TRIM_MAX;
use crate::preempt::Executor;
use crate::request::{Outcome, Request};
use crate::stream::Granularity;
use crate::{Execution, ForcedWrites, Settings};

pub(crate) use crate::request::Slot;

/// Whether a flush ends a request: its pieces go to the drive's write buffer, and it is to be
/// durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnFlush {
    /// None does, or it is in the drive.
    None,
    /// One does. The drive has buffered no piece since the last one.
    Owed,
    /// The drive has buffered pieces: it is flushed before another volume is served.
    Buffered,
    /// So it has, and is flushed next: another volume waits. The rest of the request follows later.
    Next,
}

impl OwnFlush {
    /// What a request begins with: `is_owed`, whether a flush ends it.
    pub(crate) const fn new(is_owed: bool) -> Self {
        if is_owed { Self::Owed } else { Self::None }
    }

    pub(crate) fn is_owed(self) -> bool {
        self != Self::None
    }

    /// Whether the drive has buffered pieces that are not flushed.
    pub(crate) fn is_buffered(self) -> bool {
        debug_assert!(self == Self::None || self.is_owed(), "what is buffered is flushed");
        matches!(self, Self::Buffered | Self::Next)
    }

    /// After this command of the request, of which all pieces are issued if `is_last`.
    pub(crate) fn after(self, op: Op, is_last: bool) -> Self {
        match (self, op) {
            (Self::None, _) => Self::None,
            (_, Op::Flush) if is_last => Self::None,
            (_, Op::Flush) => Self::Owed,
            _ => Self::Buffered,
        }
    }
}

/// A request that is not answered.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Pending {
    pub(crate) request: Request,
    pub(crate) submitted: Instant,
    pub(crate) started: Option<Instant>,
    /// Sectors for which commands have been issued.
    pub(crate) issued: Sectors,
    /// Commands in the drive.
    pub(crate) running: u16,
    /// How often it was preempted since it last transferred something.
    pub(crate) preemptions: u8,
    pub(crate) own_flush: OwnFlush,
    /// Whether its volume had high priority when it arrived.
    pub(crate) urgent: bool,
    pub(crate) outcome: Outcome,
    pub(crate) disk_time: DiskTime,
    /// The sum of the estimates of its commands.
    pub(crate) estimate: DiskTime,
    /// The list link: the next request in its volume's queue, and the operation of that request.
    /// With it the next head is known without touching a request that is not in the CPU cache.
    pub(crate) next_in_queue: Option<(Slot, Operation)>,
}

const _: () = assert!(size_of::<Option<Pending>>() == 128);

impl Pending {
    /// Whether commands have been issued for all of it. A flush, which has no sectors, is issued
    /// with its only command.
    pub(crate) fn issued_whole(&self) -> bool {
        debug_assert!(
            self.issued <= self.request.operation.extent.len,
            "no sector is issued twice"
        );
        self.started.is_some()
            && self.issued == self.request.operation.extent.len
            && !self.own_flush.is_owed()
    }

    pub(crate) fn remainder(&self) -> Remainder {
        let is_owed = self.own_flush.is_owed();
        debug_assert!(!is_owed || self.request.operation.fua, "a flush stands for FUA");
        let (operation, issued) = (self.request.operation, self.issued);
        Remainder { operation, issued, own_flush: self.own_flush }
    }
}

/// A part of a merged command that failed: a command of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    pub(crate) slot: Slot,
    pub(crate) offset: Sectors,
    pub(crate) operation: Operation,
}

/// What the next command of a request depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) executor: Option<&'a Executor>,
    /// The most that one command of it reads or writes.
    pub(crate) command_max: Sectors,
    /// Whether requests have deadlines: then every write is charged for all of its work, and no
    /// later command pays for destaging it.
    pub(crate) beside: Option<BesideDeadlines>,
}

/// How a request becomes commands where requests have deadlines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BesideDeadlines {
    pub(crate) granularity: Granularity,
    /// Whether its own volume has deadlines.
    pub(crate) has_deadlines: bool,
}

impl BesideDeadlines {
    /// Whether a read or a write is split into chunks. Whole requests of volumes with deadlines are
    /// admitted as such; other reads are split all the same, as nothing is promised to them.
    fn is_split(self, writes: bool, settings: &Settings) -> bool {
        let splits_writes = settings.forced_chunk().is_some();
        debug_assert!(settings.execution.preemptible().is_some(), "requests may be split");
        match self.granularity {
            Granularity::Chunks => !writes || splits_writes,
            Granularity::Whole => !writes && !self.has_deadlines,
        }
    }
}

/// The part of a request for which no command has been issued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remainder {
    pub(crate) operation: Operation,
    pub(crate) issued: Sectors,
    pub(crate) own_flush: OwnFlush,
}

impl Remainder {
    /// The next command of the request.
    pub(crate) fn piece(&self, pieces: &Pieces<'_>) -> Operation {
        let Pieces { settings, executor, command_max, beside } = *pieces;
        let operation = self.operation;
        assert!(self.issued <= operation.extent.len, "no sector is issued twice");
        let (_, rest) = operation.extent.split_at(self.issued);
        if self.own_flush == OwnFlush::Next || self.own_flush.is_owed() && rest.is_empty() {
            return Operation::flush();
        }
        let writes = operation.op == Op::Write;
        let longest = match operation.op {
            Op::Trim => TRIM_MAX,
            Op::Read | Op::Write | Op::Flush | Op::WriteZeroes | Op::Seek => command_max,
        };
        let piece = match (settings.execution, operation.op) {
            (Execution::Whole { split: Some(split) }, Op::Read | Op::Write) => split,
            (Execution::Preemptible(how), Op::Read | Op::Write)
                if beside.map_or(!writes || how.preempt_writes, |beside| {
                    beside.is_split(writes, settings)
                }) =>
            {
                match executor {
                    Some(executor) => executor.piece(operation.op, rest),
                    None => how.chunk.unwrap_or(longest),
                }
            }
            _ => longest,
        };
        let extent = rest.split_at(piece.min(longest)).0;
        // The last chunk of a write is forced to the media: otherwise the drive would destage it in
        // the time of the next request (FAST 2003 §3.1.3).
        let cut = settings.execution.preemptible().is_some_and(|how| how.preempt_writes);
        let through = writes && cut && extent.end() == operation.extent.end();
        let forced = beside.is_some() && matches!(operation.op, Op::Write | Op::WriteZeroes);
        let is_flushed = self.own_flush.is_owed()
            || settings.forced_writes != ForcedWrites::Fua && writes && beside.is_none();
        let fua = !is_flushed && (operation.fua || through || forced);
        assert!(extent.len <= rest.len, "a piece is a part of the remainder");
        debug_assert_eq!(extent.is_empty(), operation.op == Op::Flush, "a piece has sectors");
        debug_assert!(operation.extent.contains(extent), "a piece lies in its request");
        Operation { extent, fua, ..operation }
    }
}
