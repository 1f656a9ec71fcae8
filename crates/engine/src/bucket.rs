//! The token bucket: disk time that fills at a share of wall time.
//!
//! Perfect in the long run: the fraction of a nanosecond that a refill leaves is kept, so that no share
//! drifts however often the level is asked for. The level stays within [−cap − [`DEBT_MAX`], cap]; while its
//! volume has work, up to twice the cap: who waits for others must not lose by it, who is idle saves up one
//! period's worth and no more (RTAS 2008 §4.4).

use units::{DiskTime, Duration, Instant, Share};

/// How far under −cap a volume's own commands may bring the level. A drive that stalls for half a minute in
/// the middle of a volume's command is not that volume's doing.
pub(crate) const DEBT_MAX: DiskTime = DiskTime::from_millis(1_000);

/// A moment as a signed number of nanoseconds since the beginning: a deadline may lie before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) i64);

impl Moment {
    pub(crate) fn at(instant: Instant) -> Self {
        Self(i64::try_from(instant.as_nanos()).unwrap_or(i64::MAX))
    }

    /// The instant, or the beginning for what lies before it.
    pub(crate) fn instant(self) -> Instant {
        Instant::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    level: DiskTime,
    /// What the last refill left, in 10⁻⁹ ns.
    fraction: u32,
    at: Instant,
    share: Share,
    cap: DiskTime,
    working: bool,
}

impl Bucket {
    /// A bucket that fills at `share` and holds one `period`'s worth, with `level` in it.
    pub(crate) fn new(share: Share, period: Duration, level: DiskTime, now: Instant) -> Self {
        let cap = share.of(period);
        Self { level: level.min(cap), fraction: 0, at: now, share, cap, working: false }
    }

    pub(crate) fn full(share: Share, period: Duration, now: Instant) -> Self {
        Self::new(share, period, share.of(period), now)
    }

    pub(crate) fn cap(&self) -> DiskTime {
        self.cap
    }

    /// From now on its volume has work to do, or has none.
    pub(crate) fn work(&mut self, working: bool, now: Instant) {
        self.level(now);
        self.working = working;
        self.level = self.level.min(self.ceiling());
    }

    fn ceiling(&self) -> DiskTime {
        if self.working { self.cap + self.cap } else { self.cap }
    }

    /// Fills it up to `now`, and says how much is in it.
    pub(crate) fn level(&mut self, now: Instant) -> DiskTime {
        let elapsed = now.since(self.at);
        self.at = now;
        let earned = u128::from(elapsed.as_nanos()) * u128::from(self.share.ppb())
            + u128::from(self.fraction);
        self.fraction = u32::try_from(earned % PPB).expect("a remainder");
        let earned = DiskTime::from_nanos(i64::try_from(earned / PPB).unwrap_or(i64::MAX / 2));
        self.level = self.ceiling().min(self.level + earned);
        self.level
    }

    /// Takes `amount`, which may be negative: a correction.
    pub(crate) fn take(&mut self, amount: DiskTime, now: Instant) {
        self.level(now);
        self.level = self.ceiling().min((self.level - amount).max(-self.cap - DEBT_MAX));
    }

    /// Replaces an estimate that was taken by what it came to, with what lies under −cap forgiven: time out
    /// of the slack is owed to nobody.
    pub(crate) fn settle_slack(&mut self, estimate: DiskTime, actual: DiskTime, now: Instant) {
        let before = self.level(now) + estimate;
        self.level = self.ceiling().min((before - actual).max(before.min(-self.cap)));
    }

    /// When the bucket holds `amount`, if nothing is taken until then; in the past if it already does. `None`
    /// if it never will, because it fills at nothing.
    pub(crate) fn holds_at(&self, amount: DiskTime) -> Option<Moment> {
        let ppb = i128::from(self.share.ppb());
        if ppb == 0 {
            return None;
        }
        let missing = i128::from((amount - self.level).as_nanos()) * i128::from(WHOLE);
        let wait = missing.div_euclid(ppb) + i128::from(missing.rem_euclid(ppb) != 0);
        let moment = i128::from(self.at.as_nanos()) + wait;
        Some(Moment(i64::try_from(moment).unwrap_or(i64::MAX)))
    }

    /// From now on it fills at `share` and holds one `period`'s worth. What is in it stays, up to that.
    pub(crate) fn change(&mut self, share: Share, period: Duration, now: Instant) {
        let (level, working) = (self.level(now), self.working);
        *self = Self::new(share, period, level, now);
        self.working = working;
    }
}

const WHOLE: u32 = Share::ALL.ppb();
const PPB: u128 = WHOLE as u128;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn no_bucket_holds_more_than_one_period() {
        let mut bucket = Bucket::full(Share::from_percent(30), SECOND, Instant::ZERO);
        assert_eq!(bucket.level(at(90_000_000_000)), DiskTime::from_millis(300));
    }

    #[test]
    fn who_waits_with_work_loses_nothing_and_who_rests_again_keeps_one_period() {
        let mut bucket = Bucket::full(Share::from_percent(30), SECOND, Instant::ZERO);
        bucket.work(true, Instant::ZERO);
        assert_eq!(bucket.level(at(500_000_000)), DiskTime::from_millis(450));
        bucket.work(false, at(500_000_000));
        assert_eq!(bucket.level(at(500_000_000)), DiskTime::from_millis(300));
    }

    #[test]
    fn a_deadline_lies_in_the_past_when_the_bucket_can_pay_already() {
        let mut bucket = Bucket::full(Share::from_percent(50), SECOND, Instant::ZERO);
        let moment = bucket.holds_at(DiskTime::from_millis(20)).expect("it fills");
        assert_eq!(moment, Moment(-960_000_000));
        bucket.take(DiskTime::from_millis(500), Instant::ZERO);
        let moment = bucket.holds_at(DiskTime::from_millis(20)).expect("it fills");
        assert_eq!(moment, Moment(40_000_000));
        let nothing = Bucket::full(Share::NONE, SECOND, Instant::ZERO);
        assert_eq!(nothing.holds_at(DiskTime::from_nanos(1)), None);
    }

    #[test]
    fn slack_is_owed_to_nobody() {
        let mut bucket = Bucket::full(Share::from_percent(10), SECOND, Instant::ZERO);
        for _ in 0..100 {
            bucket.take(DiskTime::from_millis(20), Instant::ZERO);
            let (estimate, actual) = (DiskTime::from_millis(20), DiskTime::from_millis(15));
            bucket.settle_slack(estimate, actual, Instant::ZERO);
        }
        assert_eq!(bucket.level(Instant::ZERO), DiskTime::from_millis(-100));
    }

    proptest! {
        #[test]
        fn a_share_does_not_drift_however_often_it_is_asked(
            ppb in 1_u32..=1_000_000_000,
            steps in prop::collection::vec(1_u64..50_000_000, 1..200),
        ) {
            let share = Share::from_ppb(ppb);
            let period = PERIOD_FOR_TEST;
            let mut bucket = Bucket::new(share, period, DiskTime::ZERO, Instant::ZERO);
            let mut now = Instant::ZERO;
            for step in &steps {
                now += Duration::from_nanos(*step);
                bucket.level(now);
            }
            prop_assert_eq!(bucket.level(now), share.of(now.since(Instant::ZERO)).min(share.of(period)));
        }

        #[test]
        fn at_its_deadline_a_bucket_can_pay_and_a_moment_before_it_cannot(
            ppb in 1_000_u32..=1_000_000_000, amount in 1_i64..50_000_000,
        ) {
            let share = Share::from_ppb(ppb);
            let amount = DiskTime::from_nanos(amount);
            let bucket = Bucket::new(share, Duration::from_secs(100_000), DiskTime::ZERO, Instant::ZERO);
            let deadline = bucket.holds_at(amount).expect("it fills").instant();
            prop_assert!(bucket.clone().level(deadline) >= amount);
            let before = deadline.saturating_sub(Duration::from_nanos(1));
            prop_assert!(bucket.clone().level(before) < amount);
        }
    }

    const PERIOD_FOR_TEST: Duration = Duration::from_secs(20);
}
