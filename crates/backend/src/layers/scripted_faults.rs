//! A disk that fails on command, for tests of what stands before it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use units::{Extent, Instant, Op};

use crate::disk::{Completion, Disk, Failure, Job, Waker};
use crate::layers::forward;

/// What a fault does to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The command fails without any effect.
    Fails(Failure),
    /// The command is held until no fault stalls commands, and starts then.
    Stalls,
}

/// A fault, and the commands that it applies to.
#[derive(Clone, Copy, Debug)]
pub struct FaultRule {
    /// Commands of this kind; `None`: all.
    pub op: Option<Op>,
    /// Commands that touch one of these sectors; `None`: all.
    pub extent: Option<Extent>,
    /// The number of matching commands that pass first.
    pub after: u64,
    /// What happens to the others.
    pub kind: FaultKind,
}

#[derive(Default)]
struct Script {
    faults: Vec<FaultRule>,
    waker: Option<Waker>,
}

/// The faults of a disk; a test adds and lifts them while the disk is in use.
#[derive(Clone, Default)]
pub struct FaultScript(Arc<Mutex<Script>>);

impl FaultScript {
    fn state(&self) -> MutexGuard<'_, Script> {
        // No code panics while it holds the lock; if one did, the script would still be valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fault, from the next command on.
    pub fn add(&self, fault: FaultRule) {
        self.state().faults.push(fault);
    }

    /// Removes all faults. Stalled commands start.
    pub fn lift(&self) {
        self.lift_where(|_| true);
    }

    /// Removes the faults that stall commands, which start. The others stay.
    pub fn lift_stalls(&self) {
        self.lift_where(|kind| kind == FaultKind::Stalls);
    }

    fn lift_where(&self, is_lifted: impl Fn(FaultKind) -> bool) {
        let mut state = self.state();
        state.faults.retain(|fault| !is_lifted(fault.kind));
        let waker = state.waker.clone();
        drop(state);
        if let Some(waker) = waker {
            waker();
        }
    }

    /// What happens to a command, by the first rule that applies to it.
    fn fault_of(&self, job: &Job) -> Option<FaultKind> {
        let (op, extent) = (job.operation.op, job.operation.extent);
        let mut state = self.state();
        let applies = |fault: &&mut FaultRule| {
            fault.op.is_none_or(|of| of == op)
                && fault.extent.is_none_or(|of| of.start < extent.end() && extent.start < of.end())
        };
        let fault = state.faults.iter_mut().find(applies)?;
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        Some(fault.kind)
    }

    /// Whether no command stalls.
    fn stalls_none(&self) -> bool {
        self.state().faults.iter().all(|fault| fault.kind != FaultKind::Stalls)
    }
}

/// The layer that injects scripted faults.
pub struct ScriptedFaults {
    disk: Box<dyn Disk>,
    faults: FaultScript,
    stalled: Vec<Job>,
    failed: VecDeque<(Completion, Instant)>,
}

impl ScriptedFaults {
    /// Applies these faults to the disk.
    pub fn new(disk: Box<dyn Disk>, faults: FaultScript) -> Self {
        Self { disk, faults, stalled: Vec::new(), failed: VecDeque::new() }
    }
}

impl Disk for ScriptedFaults {
    forward!(capacity start completion_fd has_completions io_method write_cache);
    forward!(completes_synchronously allocation read_blocking parts times);

    fn submit(&mut self, job: Job, now: Instant) {
        match self.faults.fault_of(&job) {
            None => self.disk.submit(job, now),
            Some(FaultKind::Stalls) => self.stalled.push(job),
            Some(FaultKind::Fails(failure)) => {
                self.failed.push_back((job.failed(failure), now));
            }
        }
    }

    fn set_waker(&mut self, waker: Waker) {
        self.faults.state().waker = Some(Arc::clone(&waker));
        self.disk.set_waker(waker);
    }

    fn next_event(&self) -> Option<Instant> {
        let failed = self.failed.front().map(|(_, since)| *since);
        failed.into_iter().chain(self.disk.next_event()).min()
    }

    fn reap(&mut self, now: Instant) -> Option<Completion> {
        if !self.stalled.is_empty() && self.faults.stalls_none() {
            for job in self.stalled.drain(..) {
                self.disk.submit(job, now);
            }
        }
        let failed = self.failed.pop_front().map(|(finished, _)| finished);
        failed.or_else(|| self.disk.reap(now))
    }
}
