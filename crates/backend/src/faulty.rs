//! A disk that fails when it is told to, for tests of whoever stands before it.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use units::{Extent, Instant, Op, Sectors};

use crate::{Access, Disk, Failure, Finished, Job, Parts, Space, Times, Waker};

/// What becomes of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It fails, without having done anything.
    Fails(Failure),
    /// It does not end, until the faults are lifted; then it begins.
    Stalls,
}

/// Which commands something becomes of.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Those that do this; `None`: all.
    pub op: Option<Op>,
    /// Those that touch one of these sectors; `None`: all.
    pub extent: Option<Extent>,
    /// So many such commands are spared.
    pub after: u64,
    /// What becomes of the others.
    pub what: What,
}

#[derive(Default)]
struct State {
    faults: Vec<Fault>,
    waker: Option<Waker>,
}

/// The faults of a disk, which a test adds and lifts while it runs.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<State>>);

impl Faults {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nobody panics while holding the lock; should it happen, the faults are still whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, from the next command on.
    pub fn add(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// No more faults. What stalled goes on.
    pub fn lift(&self) {
        let mut state = self.state();
        state.faults.clear();
        let waker = state.waker.clone();
        drop(state);
        if let Some(waker) = waker {
            waker();
        }
    }

    /// What becomes of a command: what the first of the faults that mean it says.
    fn strike(&self, job: &Job) -> Option<What> {
        let (op, extent) = (job.operation.op, job.operation.extent);
        let mut state = self.state();
        let meant = |fault: &&mut Fault| {
            fault.op.is_none_or(|of| of == op)
                && fault.extent.is_none_or(|of| of.start < extent.end() && extent.start < of.end())
        };
        let fault = state.faults.iter_mut().find(meant)?;
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        Some(fault.what)
    }

    fn are_lifted(&self) -> bool {
        self.state().faults.is_empty()
    }
}

/// A disk with faults.
pub struct Faulty {
    disk: Box<dyn Disk>,
    faults: Faults,
    stalled: Vec<Job>,
    failed: VecDeque<(Finished, Instant)>,
}

impl Faulty {
    /// The disk, which these faults strike.
    pub fn new(disk: Box<dyn Disk>, faults: Faults) -> Self {
        Self { disk, faults, stalled: Vec::new(), failed: VecDeque::new() }
    }
}

impl Disk for Faulty {
    fn capacity(&self) -> Sectors {
        self.disk.capacity()
    }

    fn submit(&mut self, job: Job, now: Instant) {
        match self.faults.strike(&job) {
            None => self.disk.submit(job, now),
            Some(What::Stalls) => self.stalled.push(job),
            Some(What::Fails(failure)) => {
                let finished = Finished { tag: job.tag, result: Err(failure), late: None };
                self.failed.push_back((finished, now));
            }
        }
    }

    fn start(&mut self) {
        self.disk.start();
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.disk.bell()
    }

    fn rings(&mut self) -> bool {
        self.disk.rings()
    }

    fn access(&self) -> Option<Access> {
        self.disk.access()
    }

    fn wake_by(&mut self, waker: Waker) {
        self.faults.state().waker = Some(Arc::clone(&waker));
        self.disk.wake_by(waker);
    }

    fn next_event(&self) -> Option<Instant> {
        let failed = self.failed.front().map(|(_, since)| *since);
        failed.into_iter().chain(self.disk.next_event()).min()
    }

    fn reap(&mut self, now: Instant) -> Option<Finished> {
        if !self.stalled.is_empty() && self.faults.are_lifted() {
            for job in self.stalled.drain(..) {
                self.disk.submit(job, now);
            }
        }
        let failed = self.failed.pop_front().map(|(finished, _)| finished);
        failed.or_else(|| self.disk.reap(now))
    }

    fn space(&mut self, extent: Extent) -> Option<(Space, Sectors)> {
        self.disk.space(extent)
    }

    fn read_now(&mut self, extent: Extent) -> Result<Vec<u8>, Failure> {
        self.disk.read_now(extent)
    }

    fn is_prompt(&self) -> bool {
        self.disk.is_prompt()
    }

    fn parts(&self) -> Option<Parts> {
        self.disk.parts()
    }

    fn times(&self) -> Option<Times> {
        self.disk.times()
    }
}
