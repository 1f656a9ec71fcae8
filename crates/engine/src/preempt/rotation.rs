//! The angle under the head, tracked from completions: a phase-locked estimator.
//!
//! The disk rotates at about the period of the profile; each completion of a command that ended at
//! a known sector shows its angle. A completion is never observed earlier than it happened and
//! sometimes later (a busy CPU), so an observation earlier than predicted is taken at once, and a
//! later one gradually.
//!
//! One that is late by more than half a revolution looks like an early one: an angle recurs. No
//! drive is early by much, so a large step is taken once observations a revolution apart show it.
//! Taken at once, a completion of hgst-7k8 that was noticed 5 ms late put the mark 3.3 ms early,
//! and the next ten predictions were off: two of them ended the trust in predictions.

use units::{Angle, Duration, Instant};

/// The EWMA divisor for completions that are later than predicted.
const LATE_DIVISOR: i64 = 8;
/// An observation that is early by more than this part of a revolution, beside the drift, is a late
/// one if no others show the same.
const EARLY_PART: u64 = 8;

/// The rotation of the spindle as completions have shown it.
#[derive(Clone, Debug)]
pub(crate) struct RotationTracker {
    period: Duration,
    error_ppb: u32,
    /// When the index mark was under the head, as far as is known, and when that was last
    /// confirmed.
    mark: Option<(Instant, Instant)>,
    /// The observations since the last one that was not early by much, if there were any.
    early: Option<Early>,
}

/// Observations in succession that were early by much.
#[derive(Clone, Copy, Debug)]
struct Early {
    since: Instant,
    /// The lateness of the least early one, in ns: negative.
    least: i64,
}

impl RotationTracker {
    pub(crate) const fn new(period: Duration, error_ppb: u32) -> Self {
        assert!(period.as_nanos() > 0, "a disk rotates");
        Self { period, error_ppb, mark: None, early: None }
    }

    /// The first instant from `from` on at which `angle` is under the head; `None` while nothing is
    /// known.
    pub(crate) fn next(&self, angle: Angle, from: Instant) -> Option<Instant> {
        let (mark, _) = self.mark?;
        let due = mark.as_nanos() + angle.time(self.period).as_nanos();
        let period = self.period.as_nanos();
        let (from, due) = (i128::from(from.as_nanos()), i128::from(due));
        let wait = (due - from).rem_euclid(i128::from(period));
        debug_assert!(wait < i128::from(period), "a passage is less than a revolution away");
        Some(Instant::from_nanos(u64::try_from(from + wait).expect("an instant")))
    }

    /// The angle under the head at `at`; `None` while nothing is known.
    pub(crate) fn angle_at(&self, at: Instant) -> Option<Angle> {
        let mark = self.next(Angle::ZERO, at)?;
        debug_assert!(mark >= at, "the index mark passes later");
        Some(Angle::ZERO - Angle::swept(mark.since(at), self.period))
    }

    /// By how much [`RotationTracker::next`] may be off at `now` because of drift alone.
    pub(crate) fn drift(&self, now: Instant) -> Duration {
        let Some((_, seen)) = self.mark else { return self.period };
        let nanos = u128::from(now.saturating_since(seen).as_nanos()) * u128::from(self.error_ppb);
        Duration::from_nanos(u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX))
    }

    /// Takes in that `angle` was under the head at `at`, or a little before. Returns the lateness
    /// against the prediction, in ns and within half a revolution.
    pub(crate) fn observe(&mut self, angle: Angle, at: Instant) -> i64 {
        let period = i128::from(self.period.as_nanos());
        let Some(expected) = self.next(angle, at) else {
            let since = angle.time(self.period);
            self.mark = Some((at.saturating_sub(since), at));
            return 0;
        };
        // `expected` is the next passage: the previous one may be nearer.
        let ahead = i128::from(expected.since(at).as_nanos());
        let late = if ahead * 2 > period { period - ahead } else { -ahead };
        let late = i64::try_from(late).expect("within a revolution");
        let drift = i64::try_from(self.drift(at).as_nanos()).unwrap_or(i64::MAX);
        let correction = match self.early_step(late, drift, at) {
            Some(step) => step,
            None if late <= 0 => late,
            None => late.min(drift + late / LATE_DIVISOR),
        };
        debug_assert!(correction <= late.max(0), "a correction is at most the lateness");
        let (mark, _) = self.mark.expect("there was a next");
        let mark = i128::from(mark.as_nanos()) + i128::from(correction);
        // There are no instants before the epoch: the mark advances by whole revolutions.
        let mark = if mark < 0 { mark + period } else { mark };
        self.mark = Some((Instant::from_nanos(u64::try_from(mark).expect("an instant")), at));
        debug_assert!(i128::from(late.unsigned_abs()) * 2 <= period, "within half a revolution");
        late
    }

    /// The correction by an observation at `at` that is early by more than the `drift` explains;
    /// `None` for any other. All are in ns.
    fn early_step(&mut self, late: i64, drift: i64, at: Instant) -> Option<i64> {
        let plausible = i64::try_from((self.period / EARLY_PART).as_nanos()).unwrap_or(i64::MAX);
        debug_assert!(drift >= 0 && plausible > 0, "a revolution takes time");
        if late >= -drift.saturating_add(plausible) {
            self.early = None;
            return None;
        }
        let before = self.early.unwrap_or(Early { since: at, least: late });
        let least = before.least.max(late);
        debug_assert!(late <= least && least < 0, "all of them are early: {late}, {least}");
        let is_shown = at.saturating_since(before.since) >= self.period;
        self.early = if is_shown { None } else { Some(Early { least, ..before }) };
        Some(if is_shown { least } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_nanos(8_333_333);

    /// When `angle` passes for the `nth` time on a disk whose revolution takes `real` and whose
    /// mark passed at `mark`.
    fn passes(real: u64, mark: u64, angle: Angle, nth: u64) -> Instant {
        let part = (u64::from(angle.0) * real) >> 32;
        Instant::from_nanos(mark + nth * real + part)
    }

    #[test]
    fn it_follows_a_spindle_whose_period_differs_from_the_profile() {
        for real in [8_333_000_u64, 8_333_333, 8_333_700] {
            let mut phase = RotationTracker::new(PERIOD, 50_000);
            let mut worst = 0;
            for nth in 1..4_000_u64 {
                let angle =
                    Angle(u32::try_from(nth * 2_654_435_761 % (1 << 32)).expect("an angle"));
                let at = passes(real, 1_234_567, angle, nth * 3);
                let late = phase.observe(angle, at);
                worst = if nth < 10 { 0 } else { worst.max(late.abs()) };
            }
            // Three revolutions pass between two observations: the drift between them is not
            // predicted, earlier drift is.
            assert!(worst < 20_000, "{worst} ns at a revolution of {real}");
        }
    }

    #[test]
    fn a_completion_that_was_noticed_late_moves_it_little() {
        let mut phase = RotationTracker::new(PERIOD, 0);
        phase.observe(Angle::ZERO, Instant::from_nanos(0));
        for nth in 1..100_u64 {
            let noticed = if nth % 10 == 0 { 800_000 } else { 0 };
            phase.observe(Angle::ZERO, Instant::from_nanos(nth * 8_333_333 + noticed));
        }
        let next = phase.next(Angle::ZERO, Instant::from_nanos(100 * 8_333_333 - 4_000_000));
        let off = next.expect("known").as_nanos().abs_diff(100 * 8_333_333);
        assert!(off < 120_000, "{off} ns off");
    }

    /// By how much the next passage of the mark is off, in ns, where it passes at each multiple of
    /// the period. Each observation is the number of quarters of a revolution since the first one,
    /// and how late it was noticed.
    fn off_after(observed: &[(u64, u64)]) -> u64 {
        let mut phase = RotationTracker::new(PERIOD, 50_000);
        let quarter = |quarters: u64| quarters * PERIOD.as_nanos() / 4;
        for &(quarters, late) in observed {
            let angle = Angle(u32::try_from((quarters % 4) << 30).expect("an angle"));
            phase.observe(angle, Instant::from_nanos(quarter(quarters) + late));
        }
        let last = observed.last().expect("some").0;
        let mark = quarter(4 * (last / 4 + 10));
        let next = phase.next(Angle::ZERO, Instant::from_nanos(mark - quarter(2)));
        next.expect("known").as_nanos().abs_diff(mark)
    }

    #[test]
    fn a_completion_that_was_noticed_half_a_revolution_late_and_more_is_not_an_early_one() {
        let early: Vec<_> = (0..20).map(|quarters| (quarters, 0)).collect();
        for late in [4_300_000, 5_000_000, 6_500_000, 7_200_000] {
            let off = off_after(&[&early[..], &[(20, late)]].concat());
            assert!(off < 1_000, "one of them, {late} ns late: {off} ns off");
            // Two at once, as a thread that did not run finds them: the second is late by less than
            // half a revolution, of which a part is taken.
            let two = [(20, late), (21, late - PERIOD.as_nanos() / 4)];
            let off = off_after(&[&early[..], &two].concat());
            assert!(off <= PERIOD.as_nanos() / 16, "two of them, {late} ns late: {off} ns off");
        }
    }

    #[test]
    fn a_mark_that_was_taken_too_late_is_mended_after_a_revolution() {
        for late in [1_500_000, 3_000_000, 4_000_000] {
            let mut observed = vec![(0, late)];
            observed.extend((1..8).map(|quarters| (quarters, 0)));
            let off = off_after(&observed);
            assert!(off < 1_000, "the first one {late} ns late: {off} ns off");
        }
    }

    #[test]
    fn nothing_is_predicted_before_the_first_observation() {
        let phase = RotationTracker::new(PERIOD, 0);
        assert_eq!(phase.next(Angle::ZERO, Instant::ZERO), None);
        assert_eq!(phase.drift(Instant::ZERO), PERIOD);
    }
}
