//! A disk that fails when it is told to, for tests of whoever stands before it.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use units::{Extent, Instant, Op, Sectors};

use crate::{Allocation, Completion, Disk, Failure, IoMethod, Job, Parts, ServiceTimes, Waker};

/// FaultKind becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It fails, without having done anything.
    Fails(Failure),
    /// It does not end, until the faults are lifted; then it begins.
    Stalls,
}

/// Which commands something becomes of.
#[derive(Clone, Copy, Debug)]
pub struct FaultRule {
    /// Those that do this; `None`: all.
    pub op: Option<Op>,
    /// Those that touch one of these sectors; `None`: all.
    pub extent: Option<Extent>,
    /// So many such commands are spared.
    pub after: u64,
    /// FaultKind becomes of the others.
    pub kind: FaultKind,
}

#[derive(Default)]
struct Script {
    faults: Vec<FaultRule>,
    waker: Option<Waker>,
}

/// The faults of a disk, which a test adds and lifts while it runs.
#[derive(Clone, Default)]
pub struct FaultScript(Arc<Mutex<Script>>);

impl FaultScript {
    fn state(&self) -> MutexGuard<'_, Script> {
        // Nobody panics while holding the lock; should it happen, the faults are still whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, from the next command on.
    pub fn add(&self, fault: FaultRule) {
        self.state().faults.push(fault);
    }

    /// No more faults. FaultKind stalled goes on.
    pub fn lift(&self) {
        let mut state = self.state();
        state.faults.clear();
        let waker = state.waker.clone();
        drop(state);
        if let Some(waker) = waker {
            waker();
        }
    }

    /// FaultKind becomes of a command: what the first of the faults that mean it says.
    fn strike(&self, job: &Job) -> Option<FaultKind> {
        let (op, extent) = (job.operation.op, job.operation.extent);
        let mut state = self.state();
        let meant = |fault: &&mut FaultRule| {
            fault.op.is_none_or(|of| of == op)
                && fault.extent.is_none_or(|of| of.start < extent.end() && extent.start < of.end())
        };
        let fault = state.faults.iter_mut().find(meant)?;
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        Some(fault.kind)
    }

    fn are_lifted(&self) -> bool {
        self.state().faults.is_empty()
    }
}

/// A disk with faults.
pub struct ScriptedFaults {
    disk: Box<dyn Disk>,
    faults: FaultScript,
    stalled: Vec<Job>,
    failed: VecDeque<(Completion, Instant)>,
}

impl ScriptedFaults {
    /// The disk, which these faults strike.
    pub fn new(disk: Box<dyn Disk>, faults: FaultScript) -> Self {
        Self { disk, faults, stalled: Vec::new(), failed: VecDeque::new() }
    }
}

impl Disk for ScriptedFaults {
    fn capacity(&self) -> Sectors {
        self.disk.capacity()
    }

    fn submit(&mut self, job: Job, now: Instant) {
        match self.faults.strike(&job) {
            None => self.disk.submit(job, now),
            Some(FaultKind::Stalls) => self.stalled.push(job),
            Some(FaultKind::Fails(failure)) => {
                let finished = Completion { tag: job.tag, result: Err(failure), delay: None };
                self.failed.push_back((finished, now));
            }
        }
    }

    fn start(&mut self) {
        self.disk.start();
    }

    fn completion_fd(&self) -> Option<BorrowedFd<'_>> {
        self.disk.completion_fd()
    }

    fn has_completions(&mut self) -> bool {
        self.disk.has_completions()
    }

    fn io_method(&self) -> Option<IoMethod> {
        self.disk.io_method()
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
        if !self.stalled.is_empty() && self.faults.are_lifted() {
            for job in self.stalled.drain(..) {
                self.disk.submit(job, now);
            }
        }
        let failed = self.failed.pop_front().map(|(finished, _)| finished);
        failed.or_else(|| self.disk.reap(now))
    }

    fn allocation(&mut self, extent: Extent) -> Option<(Allocation, Sectors)> {
        self.disk.allocation(extent)
    }

    fn read_blocking(&mut self, extent: Extent) -> Result<Vec<u8>, Failure> {
        self.disk.read_blocking(extent)
    }

    fn completes_synchronously(&self) -> bool {
        self.disk.completes_synchronously()
    }

    fn parts(&self) -> Option<Parts> {
        self.disk.parts()
    }

    fn times(&self) -> Option<ServiceTimes> {
        self.disk.times()
    }
}
