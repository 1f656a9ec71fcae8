//! What just-in-time seeks may cost.
//!
//! A transfer that was sent just in time and arrives late has lost a revolution that it would not
//! have lost if it had been sent at once. The disk's time earns an allowance for such losses; while
//! it is spent, transfers allow for as much variation as the profile states.

use units::{Duration, Instant};

/// The share of the disk's time that may be lost, one in this number.
const LOST_SHARE: u64 = 100;
/// The most revolutions that can be saved up, or owed.
const SAVED_MAX: u64 = 4;

/// The allowance, in ns of disk time, above the most that can be owed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossBudget {
    allowance: Duration,
    period: Duration,
    since: Instant,
}

impl LossBudget {
    /// The allowance of a disk whose revolution takes `period`: one revolution.
    pub(super) const fn new(period: Duration) -> Self {
        assert!(period.as_nanos() > 0, "a disk rotates");
        let allowance = Duration::from_nanos(period.as_nanos() * (SAVED_MAX + 1));
        Self { allowance, period, since: Instant::ZERO }
    }

    /// A command has completed at `now`.
    pub(super) fn passed(&mut self, now: Instant) {
        let earned = now.saturating_since(self.since) / LOST_SHARE;
        self.since = self.since.max(now);
        self.allowance = (self.allowance + earned).min(self.period * (2 * SAVED_MAX));
        debug_assert!(self.since >= now, "time does not run backwards");
    }

    /// `time` was lost, or is expected to be: at most a revolution.
    pub(super) fn lost(&mut self, time: Duration) {
        debug_assert!(time <= self.period, "what comes round is there after a revolution");
        self.allowance = self.allowance.saturating_sub(time);
        debug_assert!(self.allowance <= self.period * (2 * SAVED_MAX), "it is bounded");
    }

    /// Whether more was lost than earned.
    pub(super) fn is_spent(&self) -> bool {
        debug_assert!(self.period > Duration::ZERO, "a disk rotates");
        self.allowance < self.period * SAVED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One in a hundred of the time, and at most what was saved before.
    #[test]
    fn losses_stay_within_their_share_of_the_time_and_what_was_saved() {
        let period = Duration::from_millis(8);
        for every in [1_u64, 2, 5, 10] {
            let mut budget = LossBudget::new(period);
            let (mut lost, mut now) = (0_u64, Instant::ZERO);
            for nth in 0..10_000_u64 {
                now += Duration::from_millis(10);
                budget.passed(now);
                if nth % every == 0 && !budget.is_spent() {
                    budget.lost(period);
                    lost += period.as_nanos();
                }
            }
            let share = now.since(Instant::ZERO).as_nanos() / LOST_SHARE;
            assert!(lost <= share + period.as_nanos() * 2, "{lost} ns of {share}, every {every}");
            assert!(lost * 10 >= share * 9, "what may be lost is used: {lost} of {share}");
        }
    }

    #[test]
    fn a_quiet_hour_saves_up_a_few_revolutions_and_no_more() {
        let period = Duration::from_millis(8);
        let mut budget = LossBudget::new(period);
        budget.passed(Instant::ZERO + Duration::from_secs(3_600));
        let mut lost = 0;
        while !budget.is_spent() {
            budget.lost(period);
            lost += 1;
        }
        assert_eq!(lost, SAVED_MAX + 1);
    }
}
