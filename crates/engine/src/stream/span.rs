//! Spans of time.

use units::Instant;

/// From `start` to before `end`. Every request of the task is released in it, and due in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// When the first request may be released.
    pub start: Instant,
    /// When the last request is due: [`Instant::FAR_FUTURE`] for a task that stays.
    pub end: Instant,
}

impl Span {
    /// All of time.
    pub const ALWAYS: Self = Self { start: Instant::ZERO, end: Instant::FAR_FUTURE };

    /// Whether there is a moment in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether there is no moment in it.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }
}
