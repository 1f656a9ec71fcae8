//! What has become of a disk: what failed, what hangs, and whether what it says can be believed.
//!
//! A flush that failed says that something written before is lost, and not what; the next one would succeed and say nothing
//! of it. So from then on nothing is written and nothing flushed until the disk is opened again, with whoever wrote knowing.
//! Reads go on: what is there can be copied.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use units::{Duration, Extent, Instant, Op, Sectors};

use crate::{
    Allocation, Completion, Disk, Failure, IoMethod, Job, NullDisk, Parts, ReopenRequest,
    ServiceTimes, Tag, Waker,
};

/// What a disk is good for, from the best on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthState {
    /// Everything.
    #[default]
    Healthy,
    /// A flush failed: it is only read. Cure: see what is lost, and open it again.
    Poisoned,
    /// It is not there any more: nothing is asked of it. Cure: bring it back, and open it again.
    Offline,
}

/// How a disk is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// What it is good for.
    pub state: HealthState,
    /// Reads that failed at the disk.
    pub read_failures: u64,
    /// Everything else that failed at the disk.
    pub write_failures: u64,
    /// Commands that were not sent, for the state of the disk.
    pub refused: u64,
    /// For how long the oldest of the commands under way has been: a disk that stalls shows here first.
    pub oldest: Option<(Op, Duration)>,
}

/// A disk under watch.
pub struct HealthMonitor {
    disk: Box<dyn Disk>,
    health: Health,
    /// What the disk has.
    running: Vec<Running>,
    /// What it was not given.
    refused: VecDeque<(Completion, Instant)>,
    reopening: Option<ReopenRequest>,
    /// What came since it was asked for.
    kept: Vec<Job>,
    waker: Option<Waker>,
}

struct Running {
    tag: Tag,
    op: Op,
    fua: bool,
    since: Instant,
}

impl HealthMonitor {
    /// The disk, of which nothing bad is known.
    pub fn new(disk: Box<dyn Disk>) -> Self {
        let (running, refused, kept) = (Vec::new(), VecDeque::new(), Vec::new());
        let (reopening, waker, health) = (None, None, Health::default());
        Self { disk, health, running, refused, reopening, kept, waker }
    }

    /// Opens the disk again as soon as nothing is under way, which [`Disk::reap`] sees. Not one that is well.
    pub fn reopen(&mut self, reopening: ReopenRequest) {
        if self.health.state == HealthState::Healthy {
            (reopening.on_done)(Err("is well: there is nothing to open again".to_owned()));
        } else if self.reopening.is_some() {
            (reopening.on_done)(Err("is being opened again".to_owned()));
        } else {
            self.reopening = Some(reopening);
        }
    }

    /// If that was asked for, and nothing is under way.
    fn open(&mut self, now: Instant) {
        if !self.running.is_empty() {
            return;
        }
        let Some(ReopenRequest { open, on_done }) = self.reopening.take() else { return };
        let old = core::mem::replace(&mut self.disk, Box::new(NullDisk::new(Sectors::ZERO)));
        let opened = open(old).map(|disk| {
            self.disk = disk;
            self.health.state = HealthState::Healthy;
            if let Some(waker) = &self.waker {
                self.disk.set_waker(Waker::clone(waker));
            }
        });
        if opened.is_err() {
            // What was has been closed.
            self.health.state = HealthState::Offline;
        }
        for job in core::mem::take(&mut self.kept) {
            self.submit(job, now);
        }
        on_done(opened);
    }

    /// How it is.
    pub fn health(&self, now: Instant) -> Health {
        let oldest = self.running.iter().min_by_key(|running| running.since);
        let oldest = oldest.map(|running| (running.op, now.since(running.since)));
        Health { oldest, ..self.health }
    }

    /// What it is good for.
    pub const fn state(&self) -> HealthState {
        self.health.state
    }

    fn refuses(&self, op: Op) -> Option<Failure> {
        match self.health.state {
            HealthState::Healthy => None,
            HealthState::Poisoned => (op != Op::Read).then_some(Failure::Io),
            HealthState::Offline => Some(Failure::Offline),
        }
    }

    fn note(&mut self, running: &Running, failure: Failure) {
        if running.op == Op::Read {
            self.health.read_failures += 1;
        } else {
            self.health.write_failures += 1;
        }
        // A forced write is a write and a flush, and nobody says which of them failed; but a full disk has done neither.
        let forced = running.fua && running.op.writes() && failure != Failure::NoSpace;
        if failure == Failure::Offline {
            self.health.state = HealthState::Offline;
        } else if self.health.state == HealthState::Healthy && (running.op == Op::Flush || forced) {
            self.health.state = HealthState::Poisoned;
        }
    }
}

impl Disk for HealthMonitor {
    fn capacity(&self) -> Sectors {
        self.disk.capacity()
    }

    fn submit(&mut self, job: Job, now: Instant) {
        let (tag, operation) = (job.tag, job.operation);
        if self.reopening.is_some() {
            return self.kept.push(job);
        }
        if let Some(failure) = self.refuses(operation.op) {
            self.health.refused += 1;
            self.refused.push_back((Completion { tag, result: Err(failure), delay: None }, now));
            return;
        }
        self.running.push(Running { tag, op: operation.op, fua: operation.fua, since: now });
        self.disk.submit(job, now);
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
        self.waker = Some(Waker::clone(&waker));
        self.disk.set_waker(waker);
    }

    fn completes_synchronously(&self) -> bool {
        self.disk.completes_synchronously()
    }

    fn next_event(&self) -> Option<Instant> {
        let refused = self.refused.front().map(|(_, since)| *since);
        refused.into_iter().chain(self.disk.next_event()).min()
    }

    fn reap(&mut self, now: Instant) -> Option<Completion> {
        if let Some((finished, _)) = self.refused.pop_front() {
            return Some(finished);
        }
        if self.reopening.is_some() {
            self.open(now);
        }
        let finished = self.disk.reap(now)?;
        let place = self.running.iter().position(|running| running.tag == finished.tag);
        let running = self.running.swap_remove(place.expect("what has ended was given"));
        if let Err(failure) = finished.result {
            self.note(&running, failure);
        }
        Some(finished)
    }

    fn allocation(&mut self, extent: Extent) -> Option<(Allocation, Sectors)> {
        self.disk.allocation(extent)
    }

    fn read_blocking(&mut self, extent: Extent) -> Result<Vec<u8>, Failure> {
        self.disk.read_blocking(extent)
    }

    fn parts(&self) -> Option<Parts> {
        self.disk.parts()
    }

    fn times(&self) -> Option<ServiceTimes> {
        self.disk.times()
    }
}
