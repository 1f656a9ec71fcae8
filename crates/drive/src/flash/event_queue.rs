//! The pending events inside the drive, in order of time.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use units::{Duration, Instant};

use super::pieces::{DieId, Slot};

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventKind {
    /// The cells of a die have finished an operation; ignored if the die has begun another since.
    Array(DieId, u32),
    /// The data of a read has left the die's register.
    Left(DieId),
    /// The next piece from the host is in the buffer.
    Arrived,
    /// The host has its answer.
    Answered(Slot),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) at: Instant,
    /// Events at one instant happen in the order in which they were entered.
    sequence: u64,
    pub(super) kind: EventKind,
    /// A lower bound on the time from this event to a read's completion. `None`: it depends on the
    /// waiting commands.
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
