//! The event queue of a simulation. Events at equal instants keep the order of their insertion.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Instant;

#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    entries: BinaryHeap<Reverse<Entry<T>>>,
    next: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Instant,
    sequence: u64,
    event: T,
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Self {
        Self { entries: BinaryHeap::new(), next: 0 }
    }

    pub(crate) fn schedule(&mut self, at: Instant, event: T) {
        let sequence = self.next;
        self.next += 1;
        self.entries.push(Reverse(Entry { at, sequence, event }));
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.entries.peek().map(|Reverse(entry)| entry.at)
    }

    /// Removes the next event, if it is due at `now`.
    pub(crate) fn take(&mut self, now: Instant) -> Option<T> {
        if self.next_at()? > now {
            return None;
        }
        self.entries.pop().map(|Reverse(entry)| entry.event)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_instants_keep_their_order() {
        let mut queue = EventQueue::new();
        let at = Instant::from_nanos(5);
        for event in ["first", "second", "third"] {
            queue.schedule(at, event);
        }
        queue.schedule(Instant::from_nanos(4), "before them");
        assert_eq!(queue.take(Instant::from_nanos(3)), None);
        let order: Vec<_> = std::iter::from_fn(|| queue.take(at)).collect();
        assert_eq!(order, ["before them", "first", "second", "third"]);
    }
}
