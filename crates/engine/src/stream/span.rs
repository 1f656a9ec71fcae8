//! Spans of time.

use units::Instant;

/// From `start` until before `end`. Every request of the task is released in it, and due in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// When the first request may be released.
    pub start: Instant,
    /// When the last request is due: [`Instant::FAR_FUTURE`] for a task that stays.
    pub end: Instant,
}

impl Span {
    /// All time.
    pub const ALWAYS: Self = Self { start: Instant::ZERO, end: Instant::FAR_FUTURE };

    /// Whether the spans intersect.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether it has begun at `now`, and has not ended.
    pub fn contains(&self, now: Instant) -> bool {
        debug_assert!(now < Instant::FAR_FUTURE, "a span that stays ends at no instant");
        self.start <= now && now < self.end
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }
}
