//! A stream's requests: when each is released, and what became of it (RTAS 2000, §3.1).

use std::collections::VecDeque;

use units::{DiskTime, Instant, Operation};

use crate::Stream;
use crate::request::Kept;

#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Instant,
    /// Whether it is one of the stream's blocks.
    covered: bool,
}

#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) stream: Stream,
    /// The requests in the volume's queue.
    asked: VecDeque<Asked>,
    /// When the first of them is released, if it is a block, and the stream has begun.
    release: Option<Instant>,
    /// No release after that one is sooner.
    expected: Instant,
    /// Whether releases are given.
    joined: bool,
    /// The disk time that the first request has had, if it is begun.
    spent: Option<DiskTime>,
    pub(super) kept: Kept,
}

impl Blocks {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            asked: VecDeque::new(),
            release: None,
            expected: Instant::ZERO,
            joined: false,
            spent: None,
            kept: Kept::default(),
        }
    }

    /// A request comes to the queue.
    pub(super) fn comes(&mut self, operation: &Operation, now: Instant) {
        self.asked.push_back(Asked { at: now, covered: self.stream.covers(operation) });
        if self.asked.len() == 1 {
            self.head_comes(Instant::ZERO);
        }
    }

    /// Requests that were queued before the stream was there are none of it. What was kept before is.
    pub(super) fn takes_over(&mut self, queued: usize, kept: Kept) {
        self.kept = kept;
        let other = Asked { at: Instant::ZERO, covered: false };
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
        self.spent = None;
        // Who waited behind a request that is none of the stream's comes now: nobody can have counted on it before.
        self.head_comes(if left.covered { Instant::ZERO } else { now });
        deadline
    }

    /// The first request has had so much, and goes on.
    pub(super) fn has_had(&mut self, took: DiskTime) {
        self.spent = Some(self.spent.unwrap_or_default() + took);
    }

    /// Whether the first request has had disk time.
    pub(super) fn is_begun(&self) -> bool {
        self.spent.is_some()
    }

    /// What is left of the first request at worst, its next command taking `head`.
    pub(super) fn left(&self, head: DiskTime) -> DiskTime {
        (self.stream.task.cost() - self.spent.unwrap_or_default()).max(head)
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

    /// A request that was due then is answered.
    pub(super) fn answered(&mut self, deadline: Instant, now: Instant) {
        if now <= deadline {
            self.kept.met += 1;
        } else {
            self.kept.missed += 1;
            self.kept.lateness_max = self.kept.lateness_max.max(now.since(deadline));
        }
    }
}
