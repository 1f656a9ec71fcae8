//! Closest calls: the least time that answers have left to their deadlines, since the start and in
//! each window of a minute.
//!
//! A driver that reads a window's closest call once in each window has them all: the window before
//! the present one is complete, and is there until the next begins.

use units::{Duration, Instant};

/// The closest calls of one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClosestCalls {
    /// The closest call since the start.
    all: Option<Duration>,
    /// The window of the last answer.
    window: u64,
    /// The closest call in that window.
    current: Option<Duration>,
    /// The closest call in the window before that one.
    previous: Option<Duration>,
}

impl ClosestCalls {
    /// The length of a window.
    pub const WINDOW: Duration = Duration::from_secs(60);

    /// The number of the window that `now` is in.
    pub const fn window_at(now: Instant) -> u64 {
        now.as_nanos() / Self::WINDOW.as_nanos()
    }

    /// Counts an answer at `now` that was due at `deadline`.
    pub(crate) fn count(&mut self, deadline: Instant, now: Instant) {
        let left = deadline.saturating_since(now);
        let least = |closest: Option<Duration>| closest.into_iter().chain([left]).min();
        let window = Self::window_at(now);
        debug_assert!(window >= self.window, "answers are in the order of time");
        if window != self.window {
            self.previous = self.in_window(window.saturating_sub(1));
            (self.window, self.current) = (window, None);
        }
        (self.all, self.current) = (least(self.all), least(self.current));
        debug_assert!(self.all <= self.current, "the closest call of all is the least");
    }

    /// The closest call since the start: zero if an answer was late; `None` before the first one.
    pub const fn all(&self) -> Option<Duration> {
        self.all
    }

    /// The closest call in this window: `None` without an answer in it, and if the window is older
    /// than the one before the last answer's.
    pub const fn in_window(&self, window: u64) -> Option<Duration> {
        if window == self.window {
            self.current
        } else if window.saturating_add(1) == self.window {
            self.previous
        } else {
            None
        }
    }

    /// The closest calls of two disks together.
    #[must_use]
    pub(crate) fn merged(&self, other: &Self) -> Self {
        let window = self.window.max(other.window);
        let least = |one: Option<Duration>, two| one.into_iter().chain(two).min();
        let within = |window| least(self.in_window(window), other.in_window(window));
        Self {
            all: least(self.all, other.all),
            window,
            current: within(window),
            previous: window.checked_sub(1).and_then(within),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// An answer at `at` seconds that left `left` milliseconds.
    fn answer(calls: &mut ClosestCalls, at: u64, left: u64) {
        let now = Instant::ZERO + MS(at * 1_000);
        calls.count(now + MS(left), now);
    }

    #[test]
    fn a_window_has_its_own_closest_call_until_the_next_but_one_begins() {
        let mut calls = ClosestCalls::default();
        assert_eq!((calls.all(), calls.in_window(0)), (None, None));
        for (at, left) in [(1, 30), (59, 20), (61, 50), (119, 40)] {
            answer(&mut calls, at, left);
        }
        let of = |calls: &ClosestCalls| [0, 1, 2, 3].map(|window| calls.in_window(window));
        assert_eq!(of(&calls), [Some(MS(20)), Some(MS(40)), None, None]);
        answer(&mut calls, 239, 70);
        assert_eq!(of(&calls), [None, None, None, Some(MS(70))], "window 2 had no answer");
        assert_eq!(calls.all(), Some(MS(20)));
    }

    #[test]
    fn a_late_answer_is_a_call_of_zero() {
        let mut calls = ClosestCalls::default();
        let now = Instant::ZERO + MS(5);
        calls.count(Instant::ZERO + MS(4), now);
        assert_eq!((calls.all(), calls.in_window(0)), (Some(Duration::ZERO), calls.all()));
    }

    #[test]
    fn of_two_disks_the_closest_call_in_each_window_is_the_lesser() {
        let (mut one, mut two) = (ClosestCalls::default(), ClosestCalls::default());
        answer(&mut one, 5, 10);
        answer(&mut one, 65, 40);
        answer(&mut two, 66, 30);
        answer(&mut two, 125, 60);
        for merged in [one.merged(&two), two.merged(&one)] {
            assert_eq!(merged.all(), Some(MS(10)));
            let windows = [0, 1, 2].map(|window| merged.in_window(window));
            assert_eq!(windows, [None, Some(MS(30)), Some(MS(60))]);
        }
    }
}
