//! The health of a disk: failures, the oldest command in flight, and whether its flushes can be
//! trusted.
//!
//! After a failed flush, data written before it may be lost, and the next flush would succeed
//! without reporting it. The disk is then poisoned: no write and no flush is sent until it is
//! reopened, and the clients see the errors. Reads go on, so that the data can be copied.
//!
//! A disk that is given up is offline though its device may answer yet: each command in flight is
//! answered as failed, and what the device says of it later is dropped. It is reopened once the
//! device has answered them all.

use std::collections::VecDeque;

use units::{Duration, Instant, Op, Sectors};

use crate::buffers::Buffers;
use crate::disk::{Completion, Disk, Failure, Job, Tag, Waker};
use crate::layers::forward;
use crate::layers::reopen::ReopenRequest;
use crate::layers::slow_disk::{SlowDisk, SlowDiskRule};
use crate::memory::NullDisk;

/// How often commands in flight are looked through for one that stalls.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// What a disk can serve, the best state first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthState {
    /// Every command.
    #[default]
    Healthy,
    /// Reads only: a flush failed. Cure: find out what is lost, and reopen it.
    Poisoned,
    /// Nothing: the device has been removed, or was given up as too slow. Cure: attach it again, or
    /// replace it, and reopen it.
    Offline,
}

/// The health of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// What it can serve.
    pub state: HealthState,
    /// Reads that failed at the disk.
    pub read_failures: u64,
    /// Other commands that failed at the disk.
    pub write_failures: u64,
    /// Commands that were not sent because of the state of the disk.
    pub refused: u64,
    /// The oldest command in flight, and its age: the first sign of a stalled disk.
    pub oldest: Option<(Op, Duration)>,
}

/// The layer that tracks the health of a disk.
pub struct HealthMonitor {
    disk: Box<dyn Disk>,
    health: Health,
    /// The jobs in flight.
    in_flight: Vec<InFlight>,
    /// The jobs of a disk that was given up which the device has not answered.
    given_up: Vec<Tag>,
    /// Whether the disk can be too slow, and how slow it was so far.
    slow: Option<SlowDiskRule>,
    /// When the commands in flight were looked through last for one that stalls.
    scanned: Option<Instant>,
    /// The jobs that were refused, until they are reaped.
    refused: VecDeque<(Completion, Instant)>,
    reopening: Option<ReopenRequest>,
    /// Jobs submitted since a reopening was requested.
    held: Vec<Job>,
    waker: Option<Waker>,
}

struct InFlight {
    tag: Tag,
    op: Op,
    fua: bool,
    since: Instant,
}

impl HealthMonitor {
    /// Monitors a healthy disk.
    pub fn new(disk: Box<dyn Disk>) -> Self {
        let (in_flight, refused, held) = (Vec::new(), VecDeque::new(), Vec::new());
        let (reopening, waker, health) = (None, None, Health::default());
        let (given_up, slow, scanned) = (Vec::new(), None, None);
        Self { disk, health, in_flight, given_up, slow, scanned, refused, reopening, held, waker }
    }

    /// Monitors a disk that is not there.
    pub fn offline(disk: Box<dyn Disk>) -> Self {
        let mut monitor = Self::new(disk);
        monitor.health.state = HealthState::Offline;
        monitor
    }

    /// Watches for slow answers from now on.
    pub fn watch_for_slowness(&mut self, rule: SlowDiskRule) {
        self.slow = Some(rule);
    }

    /// Whether the disk that serves is too slow. Its answers are counted, and it is called after
    /// each of them; its commands in flight are looked through once a second.
    pub fn slowness(&mut self, now: Instant) -> Option<SlowDisk> {
        let rule = self.slow.filter(|_| self.health.state == HealthState::Healthy)?;
        let scans = self.scanned.is_none_or(|at| now.since(at) >= SCAN_INTERVAL);
        if scans {
            self.scanned = Some(now);
        }
        let oldest = scans.then(|| self.health(now).oldest).flatten();
        rule.verdict(oldest.map(|(_, age)| age))
    }

    /// Takes the disk for failed: it is offline, and all its commands in flight have failed.
    pub fn give_up(&mut self, now: Instant) {
        self.health.state = HealthState::Offline;
        for in_flight in core::mem::take(&mut self.in_flight) {
            let (tag, failure) = (in_flight.tag, Failure::Offline);
            self.record_failure(&in_flight, failure);
            self.given_up.push(tag);
            // The device may yet use the buffers.
            let data = Buffers::default();
            let result = Err(failure);
            self.refused.push_back((Completion { tag, result, data, delay: None }, now));
        }
        assert!(self.in_flight.is_empty(), "all have been answered");
    }

    /// Reopens the disk when no command is in flight, which [`Disk::reap`] finds. A healthy disk
    /// is not reopened, unless that was asked for.
    pub fn reopen(&mut self, reopening: ReopenRequest) {
        if self.health.state == HealthState::Healthy && !reopening.is_forced {
            (reopening.on_done)(Err("is healthy: there is nothing to reopen".to_owned()));
        } else if self.reopening.is_some() {
            (reopening.on_done)(Err("is already being reopened".to_owned()));
        } else if !self.given_up.is_empty() {
            let count = self.given_up.len();
            let text = format!("has not answered {count} commands since it was given up as slow");
            (reopening.on_done)(Err(text));
        } else {
            self.reopening = Some(reopening);
        }
    }

    /// Reopens the disk, if requested and if no command is in flight.
    fn reopen_now(&mut self, now: Instant) {
        if !self.in_flight.is_empty() {
            return;
        }
        assert!(self.given_up.is_empty(), "what was given up has been answered");
        let Some(ReopenRequest { open, on_done, .. }) = self.reopening.take() else { return };
        let old = core::mem::replace(&mut self.disk, Box::new(NullDisk::new(Sectors::ZERO)));
        let opened = open(old).map(|disk| {
            self.disk = disk;
            self.health.state = HealthState::Healthy;
            if let Some(rule) = &mut self.slow {
                rule.reset();
            }
            if let Some(waker) = &self.waker {
                self.disk.set_waker(Waker::clone(waker));
            }
        });
        if opened.is_err() {
            // The old disk has been closed.
            self.health.state = HealthState::Offline;
        }
        for job in core::mem::take(&mut self.held) {
            self.submit(job, now);
        }
        on_done(opened);
    }

    /// The health at `now`.
    pub fn health(&self, now: Instant) -> Health {
        let oldest = self.in_flight.iter().min_by_key(|in_flight| in_flight.since);
        let oldest = oldest.map(|in_flight| (in_flight.op, now.since(in_flight.since)));
        Health { oldest, ..self.health }
    }

    /// What it can serve.
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

    /// Fails a job without sending it to the disk.
    pub fn refuse(&mut self, job: Job, failure: Failure, now: Instant) {
        self.health.refused += 1;
        self.refused.push_back((job.failed(failure), now));
    }

    fn record_failure(&mut self, in_flight: &InFlight, failure: Failure) {
        if in_flight.op == Op::Read {
            self.health.read_failures += 1;
        } else {
            self.health.write_failures += 1;
        }
        // A forced write is a write and a flush, and the error does not say which of them failed.
        // A full disk has done neither.
        let forced = in_flight.fua && in_flight.op.writes() && failure != Failure::NoSpace;
        if failure == Failure::Offline {
            self.health.state = HealthState::Offline;
        } else if self.health.state == HealthState::Healthy && (in_flight.op == Op::Flush || forced)
        {
            self.health.state = HealthState::Poisoned;
        }
    }
}

impl Disk for HealthMonitor {
    forward!(capacity start completion_fd has_completions io_method write_cache);
    forward!(completes_synchronously allocation read_blocking parts times);

    fn submit(&mut self, job: Job, now: Instant) {
        let (tag, operation) = (job.tag, job.operation);
        if self.reopening.is_some() {
            return self.held.push(job);
        }
        if let Some(failure) = self.refuses(operation.op) {
            return self.refuse(job, failure, now);
        }
        self.in_flight.push(InFlight { tag, op: operation.op, fua: operation.fua, since: now });
        self.disk.submit(job, now);
    }

    fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(Waker::clone(&waker));
        self.disk.set_waker(waker);
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
            self.reopen_now(now);
        }
        let finished = loop {
            let finished = self.disk.reap(now)?;
            let Some(index) = self.given_up.iter().position(|tag| *tag == finished.tag) else {
                break finished;
            };
            self.given_up.swap_remove(index);
        };
        let index = self.in_flight.iter().position(|in_flight| in_flight.tag == finished.tag);
        let in_flight = self.in_flight.swap_remove(index.expect("a completed job was in flight"));
        if let Some(rule) = &mut self.slow {
            rule.answered(now.since(in_flight.since));
        }
        if let Err(failure) = finished.result {
            self.record_failure(&in_flight, failure);
        }
        Some(finished)
    }
}
