//! Requests that are not answered, and what is left of them to do.

use units::{DiskTime, Instant, Op, Operation, Sectors};

use crate::limits::TRIM_MAX;
use crate::preempt::Executor;
use crate::request::{Outcome, Request};
use crate::{Execution, Settings};

/// A request's place in the engine.
pub(crate) type Slot = u32;

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
    /// How often others went before it since it last transferred something.
    pub(crate) preemptions: u8,
    /// Whether a flush ends it: its pieces rode the drive's memory, and it is to be durable.
    pub(crate) owes_flush: bool,
    /// Whether its volume was of a higher class when it came.
    pub(crate) urgent: bool,
    pub(crate) outcome: Outcome,
    pub(crate) disk_time: DiskTime,
    /// What its commands were expected to take.
    pub(crate) estimate: DiskTime,
    /// The request behind it in its volume's queue, and what that one asks for: with it the next head is known
    /// without a look at a request that nobody has touched for long.
    pub(crate) behind: Option<(Slot, Operation)>,
}

const _: () = assert!(size_of::<Option<Pending>>() == 128);

impl Pending {
    /// Whether commands have been issued for all of it. A flush, which has no sectors, is issued with its only
    /// command.
    pub(crate) fn issued_whole(&self) -> bool {
        self.started.is_some()
            && self.issued == self.request.operation.extent.len
            && !self.owes_flush
    }

    pub(crate) fn left(&self) -> Remainder {
        let (operation, issued) = (self.request.operation, self.issued);
        Remainder { operation, issued, owes_flush: self.owes_flush }
    }
}

/// What is left to issue of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remainder {
    pub(crate) operation: Operation,
    pub(crate) issued: Sectors,
    pub(crate) owes_flush: bool,
}

impl Remainder {
    /// The command that the request goes on with.
    pub(crate) fn piece(&self, settings: &Settings, executor: Option<&Executor>) -> Operation {
        let operation = self.operation;
        let (_, rest) = operation.extent.split_at(self.issued);
        if self.owes_flush && rest.is_empty() {
            return Operation::flush();
        }
        let writes = operation.op == Op::Write;
        // Under deadlines every write is done in its own time: nobody pays for what the drive would still have to write.
        let timely = settings.policy.has_deadlines();
        let longest = match operation.op {
            Op::Trim => TRIM_MAX,
            Op::Read | Op::Write | Op::Flush | Op::WriteZeroes | Op::Seek => settings.command_max,
        };
        let piece = match (settings.execution, operation.op) {
            (Execution::Whole { split: Some(split) }, Op::Read | Op::Write) => split,
            (Execution::Preemptible(how), Op::Read | Op::Write)
                if !writes || how.preempt_writes && !timely =>
            {
                match executor {
                    Some(executor) => executor.piece(operation.op, rest),
                    None => how.chunk.unwrap_or(longest),
                }
            }
            _ => longest,
        };
        let extent = rest.split_at(piece.min(longest)).0;
        // The last chunk of a write goes through to the disk: what the drive still had to write would be done in the
        // time of whoever comes next (FAST 2003 §3.1.3).
        let cut = settings.execution.preemptible().is_some_and(|how| how.preempt_writes);
        let through = writes && cut && extent.end() == operation.extent.end();
        let forced = timely && matches!(operation.op, Op::Write | Op::WriteZeroes);
        let fua = !self.owes_flush && (operation.fua || through || forced);
        Operation { extent, fua, ..operation }
    }
}
