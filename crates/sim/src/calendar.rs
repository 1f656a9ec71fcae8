//! What happens when. Equal instants keep the order in which they were entered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Instant;

#[derive(Debug)]
pub(crate) struct Calendar<T> {
    entries: BinaryHeap<Reverse<Entry<T>>>,
    next: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Instant,
    sequence: u64,
    what: T,
}

impl<T> Calendar<T> {
    pub(crate) fn new() -> Self {
        Self { entries: BinaryHeap::new(), next: 0 }
    }

    pub(crate) fn enter(&mut self, at: Instant, what: T) {
        let sequence = self.next;
        self.next += 1;
        self.entries.push(Reverse(Entry { at, sequence, what }));
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.entries.peek().map(|Reverse(entry)| entry.at)
    }

    /// The next entry, if it is due at `now`.
    pub(crate) fn take(&mut self, now: Instant) -> Option<T> {
        if self.next_at()? > now {
            return None;
        }
        self.entries.pop().map(|Reverse(entry)| entry.what)
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
        let mut calendar = Calendar::new();
        let at = Instant::from_nanos(5);
        for what in ["first", "second", "third"] {
            calendar.enter(at, what);
        }
        calendar.enter(Instant::from_nanos(4), "before them");
        assert_eq!(calendar.take(Instant::from_nanos(3)), None);
        let order: Vec<_> = std::iter::from_fn(|| calendar.take(at)).collect();
        assert_eq!(order, ["before them", "first", "second", "third"]);
    }
}
