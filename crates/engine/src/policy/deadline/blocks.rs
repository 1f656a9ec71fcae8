//! A stream's requests: when each is released, and what became of it (RTAS 2000, §3.1).

use std::collections::VecDeque;

use units::{DiskTime, Instant, Operation};

use crate::StreamContract;

#[derive(Clone, Copy, Debug)]
struct QueuedRequest {
    at: Instant,
    /// Whether it is one of the stream's blocks.
    covered: bool,
}

#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) stream: StreamContract,
    /// The requests in the volume's queue.
    asked: VecDeque<QueuedRequest>,
    /// When the first of them is released, if it is a block, and the stream has begun.
    release: Option<Instant>,
    /// No release after that one is sooner.
    expected: Instant,
    /// Whether releases are given.
    joined: bool,
    /// The disk time that the first request has had, if it is begun.
    spent: Option<DiskTime>,
    /// Whether the arm has to find its way back to it.
    interrupted: bool,
}

impl Blocks {
    pub(super) fn new(stream: StreamContract) -> Self {
        Self {
            stream,
            asked: VecDeque::new(),
            release: None,
            expected: Instant::ZERO,
            joined: false,
            spent: None,
            interrupted: false,
        }
    }

    /// A request comes to the queue.
    pub(super) fn comes(&mut self, operation: &Operation, now: Instant) {
        self.asked.push_back(QueuedRequest { at: now, covered: self.stream.covers(operation) });
        if self.asked.len() == 1 {
            self.head_comes(Instant::ZERO);
        }
    }

    /// Requests that were queued before the stream was there are none of it.
    pub(super) fn takes_over(&mut self, queued: usize) {
        let other = QueuedRequest { at: Instant::ZERO, covered: false };
        self.asked = (0..queued).map(|_| other).collect();
    }

    /// From now on there are releases.
    pub(super) fn joins(&mut self, now: Instant) {
        (self.joined, self.expected) = (true, now);
        self.head_comes(now);
    }

    /// Gives the first request its release, which is `soonest` at the soonest.
    fn head_comes(&mut self, soonest: Instant) {
        self.release = None;
        let Some(asked) = self.asked.front().filter(|asked| asked.covered && self.joined) else {
            return;
        };
        let release = asked.at.max(self.expected).max(soonest);
        self.release = Some(release);
        self.expected = release + self.stream.task.period();
    }

    /// The first request's last command goes to the drive. Its deadline, if it has one.
    pub(super) fn leaves(&mut self, now: Instant) -> Option<Instant> {
        let left = self.asked.pop_front().expect("who is served has asked");
        let deadline = self.deadline();
        (self.spent, self.interrupted) = (None, false);
        // Who waited behind a request that is none of the stream's comes now: nobody can have counted on it before.
        self.head_comes(if left.covered { Instant::ZERO } else { now });
        deadline
    }

    /// The first request has had so much, and goes on. The way back, if there was one, is no part of what it was
    /// admitted with, and took at most `preemption`.
    pub(super) fn has_had(&mut self, took: DiskTime, preemption: DiskTime) {
        let way = if core::mem::take(&mut self.interrupted) { preemption } else { DiskTime::ZERO };
        let spent = self.spent.unwrap_or_default();
        self.spent = Some(spent + (took - way).max(DiskTime::ZERO));
    }

    /// Somebody else has the arm now. Whether that interrupts a request.
    pub(super) fn loses_arm(&mut self) -> bool {
        self.interrupted = self.spent.is_some();
        self.interrupted
    }

    /// Whether the first request has had disk time.
    pub(super) fn is_begun(&self) -> bool {
        self.spent.is_some()
    }

    /// What is left of the first request at worst, its next command taking `head`, and the way back to it `preemption`.
    pub(super) fn left(&self, head: DiskTime, preemption: DiskTime) -> DiskTime {
        let way = if self.interrupted { preemption } else { DiskTime::ZERO };
        (self.stream.task.cost() - self.spent.unwrap_or_default() + way).max(head)
    }

    /// When the first request is released.
    pub(super) fn release(&self) -> Option<Instant> {
        self.release
    }

    /// When the first request is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.release.map(|release| release + self.stream.task.period())
    }

    /// No request that is not released by `now` is released before then.
    pub(super) fn next_release(&self, now: Instant) -> Instant {
        self.release.filter(|release| *release > now).unwrap_or(self.expected.max(now))
    }
}
