//! The requests of a stream: the release and the deadline of each (Clockwise, RTAS 2000 §3.1).

use std::collections::VecDeque;

use units::{DiskTime, Instant, Operation};

use crate::StreamContract;
use crate::stream::{Granularity, Task};

#[derive(Clone, Copy, Debug)]
struct QueuedRequest {
    at: Instant,
    /// Whether it is one of the stream's blocks.
    covered: bool,
}

#[derive(Debug)]
pub(in crate::policy) struct Blocks {
    pub(in crate::policy) stream: StreamContract,
    /// At which its requests are served.
    granularity: Granularity,
    /// The requests in the volume's queue.
    queue: VecDeque<QueuedRequest>,
    /// The release of the first of them, if it is a block and the stream is active.
    release: Option<Instant>,
    /// The earliest next release.
    expected: Instant,
    /// Whether requests are released.
    is_active: bool,
    /// The disk time that the first request has had, if it has begun.
    spent: Option<DiskTime>,
    /// Whether it needs positioning again because it was preempted.
    interrupted: bool,
}

impl Blocks {
    pub(in crate::policy) fn new(stream: StreamContract, granularity: Granularity) -> Self {
        Self {
            stream,
            granularity,
            queue: VecDeque::new(),
            release: None,
            expected: Instant::ZERO,
            is_active: false,
            spent: None,
            interrupted: false,
        }
    }

    /// The task of its requests, as they are served.
    pub(in crate::policy) fn task(&self) -> Task {
        debug_assert!(self.stream.task.cost() > DiskTime::ZERO, "a request takes time");
        self.stream.task.at(self.granularity)
    }

    /// Its requests are served at another granularity from now on. None is released.
    pub(in crate::policy) fn set_granularity(&mut self, granularity: Granularity) {
        debug_assert!(self.stream.task.cost() > DiskTime::ZERO, "a request takes time");
        self.granularity = granularity;
        // What the slack has served of a request says nothing of the rest at the other one.
        self.spent = self.spent.map(|_| DiskTime::ZERO);
    }

    /// A request arrives in the queue.
    pub(in crate::policy) fn on_arrival(&mut self, operation: &Operation, now: Instant) {
        let last = self.queue.back();
        debug_assert!(last.is_none_or(|last| last.at <= now), "requests arrive in order");
        self.queue.push_back(QueuedRequest { at: now, covered: self.stream.covers(operation) });
        if self.queue.len() == 1 {
            self.release_head(Instant::ZERO);
        }
    }

    /// Requests queued before the stream began are not part of it.
    pub(in crate::policy) fn rebuild(&mut self, queued: usize) {
        let other = QueuedRequest { at: Instant::ZERO, covered: false };
        assert!(!self.is_active, "a stream is rebuilt before its activation");
        assert!(self.release.is_none(), "nothing is released before the activation");
        self.queue = (0..queued).map(|_| other).collect();
    }

    /// Releases requests from now on.
    pub(in crate::policy) fn activate(&mut self, now: Instant) {
        assert!(!self.is_active, "a stream is activated once");
        assert!(self.release.is_none(), "nothing is released before the activation");
        (self.is_active, self.expected) = (true, now);
        self.release_head(now);
    }

    /// Releases the first request, at `soonest` at the earliest.
    fn release_head(&mut self, soonest: Instant) {
        self.release = None;
        let Some(queue) = self.queue.front().filter(|request| request.covered && self.is_active)
        else {
            return;
        };
        let release = queue.at.max(self.expected).max(soonest);
        assert!(release >= self.expected, "releases are a period apart");
        self.release = Some(release);
        self.expected = release + self.stream.task.period();
        debug_assert!(self.expected > release, "releases are a period apart");
    }

    /// The first request's last command is dispatched. Returns its deadline, if it has one.
    pub(in crate::policy) fn on_dispatch(&mut self, now: Instant) -> Option<Instant> {
        let remaining = self.queue.pop_front().expect("a dispatched request was queued");
        let deadline = self.deadline();
        debug_assert!(deadline.is_none() || remaining.covered, "only a block has a deadline");
        (self.spent, self.interrupted) = (None, false);
        // A block that waited behind a request outside the stream is released now: admission cannot
        // have assumed an earlier release.
        self.release_head(if remaining.covered { Instant::ZERO } else { now });
        deadline
    }

    /// The first request has had the service time `took` and goes on. A return positioning, if
    /// there was one, is not part of the admitted cost and took at most `preemption`.
    pub(in crate::policy) fn on_partial_service(&mut self, took: DiskTime, preemption: DiskTime) {
        debug_assert!(!self.queue.is_empty(), "a begun request is queued");
        debug_assert!(preemption >= DiskTime::ZERO, "a positioning takes time");
        let return_cost =
            if core::mem::take(&mut self.interrupted) { preemption } else { DiskTime::ZERO };
        let spent = self.spent.unwrap_or_default();
        assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        self.spent = Some(spent + (took - return_cost).max(DiskTime::ZERO));
    }

    /// Another volume is served now. Returns whether that interrupts a request.
    pub(in crate::policy) fn preempt(&mut self) -> bool {
        debug_assert!(self.spent.is_none() || !self.queue.is_empty(), "a begun request is queued");
        self.interrupted = self.spent.is_some();
        self.interrupted
    }

    /// Whether the first request has begun.
    pub(in crate::policy) fn is_begun(&self) -> bool {
        self.spent.is_some()
    }

    /// The worst case of the rest of the first request, whose next command takes `head` at most,
    /// with a return positioning of `preemption`.
    pub(in crate::policy) fn remaining(&self, head: DiskTime, preemption: DiskTime) -> DiskTime {
        debug_assert!(head >= DiskTime::ZERO, "a worst case is not negative: {head}");
        let return_cost = if self.interrupted { preemption } else { DiskTime::ZERO };
        (self.task().cost() - self.spent.unwrap_or_default() + return_cost).max(head)
    }

    /// When the first request is released.
    pub(in crate::policy) fn release(&self) -> Option<Instant> {
        debug_assert!(self.release.is_none() || self.is_active, "an active stream releases");
        self.release
    }

    /// When the first request is due.
    pub(in crate::policy) fn deadline(&self) -> Option<Instant> {
        self.release.map(|release| release + self.stream.task.period())
    }

    /// The earliest release of a request that is not released by `now`.
    pub(in crate::policy) fn next_release(&self, now: Instant) -> Instant {
        let next = self.release.filter(|release| *release > now).unwrap_or(self.expected.max(now));
        debug_assert!(next >= now, "a further request is not released in the past");
        next
    }
}
