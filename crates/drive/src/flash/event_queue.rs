//! EventKind will happen inside the drive, in the order of time.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use units::{Duration, Instant};

use super::pieces::{DieId, Slot};

/// EventKind happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventKind {
    /// The cells of a die are done with what they did, unless its turn has passed since.
    Array(DieId, u32),
    /// EventKind a die read has left its register.
    Left(DieId),
    /// The next piece from the host is in the buffer.
    Arrived,
    /// The host has its answer.
    Answered(Slot),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) at: Instant,
    /// EventKind was entered first happens first.
    sequence: u64,
    pub(super) kind: EventKind,
    /// How much later, at the soonest, a read is answered because of it. None: that depends on who
    /// waits.
    pub(super) least: Option<Duration>,
}

/// The events to come.
#[derive(Clone, Debug)]
pub(super) struct EventQueue {
    events: BinaryHeap<Reverse<Event>>,
    entered: u64,
}

impl EventQueue {
    pub(super) fn new(capacity: usize) -> Self {
        Self { events: BinaryHeap::with_capacity(capacity), entered: 0 }
    }

    pub(super) fn enter(&mut self, at: Instant, kind: EventKind, least: Option<Duration>) {
        self.entered += 1;
        self.events.push(Reverse(Event { at, sequence: self.entered, kind, least }));
    }

    /// The next event, if it happens by `now`.
    pub(super) fn take(&mut self, now: Instant) -> Option<Event> {
        let Reverse(next) = self.events.peek()?;
        (next.at <= now).then(|| self.events.pop().expect("it was seen").0)
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        self.events.peek().map(|Reverse(event)| event.at)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Event> {
        self.events.iter().map(|Reverse(event)| event)
    }
}
