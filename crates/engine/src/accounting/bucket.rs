//! The token bucket: disk time that accrues at a share of wall time.
//!
//! The accrual is exact: the fraction of a nanosecond that a refill leaves is kept, so that no
//! share drifts however often the level is read. The level of an idle volume's bucket lies within
//! [−cap − [`DEBT_MAX`], cap]. While the volume has work, and for one period after that, it may
//! reach twice the cap and [`CREDIT_MAX`]: a volume must not lose disk time by waiting for others,
//! nor by a short pause between two requests. An idle volume accumulates at most one period's worth
//! (Zygaria, RTAS 2008 §4.4).

use units::{DiskTime, Duration, Instant, Share};

/// The most by which a volume's own commands may bring the level below −cap. A drive that stalls
/// for half a minute during a command is not charged to the command's volume in full.
pub(crate) const DEBT_MAX: DiskTime = DiskTime::from_millis(1_000);

/// The most by which the level of a waiting volume may exceed twice the cap. This is far more than
/// other volumes can be served before it while the reserves add up to at most the disk: a bound for
/// a disk that stalls.
pub(crate) const CREDIT_MAX: DiskTime = DiskTime::from_millis(1_000);

/// A signed number of nanoseconds since the epoch: a deadline may lie before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SignedInstant(pub(crate) i64);

impl SignedInstant {
    pub(crate) fn at(instant: Instant) -> Self {
        Self(i64::try_from(instant.as_nanos()).unwrap_or(i64::MAX))
    }

    /// The instant; the epoch for what lies before it.
    pub(crate) fn instant(self) -> Instant {
        let instant = Instant::from_nanos(u64::try_from(self.0).unwrap_or(0));
        debug_assert!(Self::at(instant) >= self, "an instant before the epoch becomes the epoch");
        instant
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    level: DiskTime,
    /// The remainder of the last refill, in 10⁻⁹ ns.
    fraction: u32,
    at: Instant,
    share: Share,
    period: Duration,
    cap: DiskTime,
    /// The instant from which the bucket holds at most the cap: far in the future while its volume
    /// has work.
    capped_from: Instant,
}

impl Bucket {
    /// A bucket that fills at `share` and holds one `period`'s worth, with `level` in it.
    pub(crate) fn new(share: Share, period: Duration, level: DiskTime, now: Instant) -> Self {
        let cap = share.of(period);
        assert!(period > Duration::ZERO, "a bucket holds one period's worth");
        assert!(cap >= DiskTime::ZERO, "a share of a period is not negative");
        let level = level.min(cap);
        let bucket = Self { level, fraction: 0, at: now, share, period, cap, capped_from: now };
        bucket.invariants();
        bucket
    }

    pub(crate) fn full(share: Share, period: Duration, now: Instant) -> Self {
        let bucket = Self::new(share, period, share.of(period), now);
        debug_assert_eq!(bucket.level, bucket.cap, "a full bucket holds its cap");
        bucket
    }

    pub(crate) fn cap(&self) -> DiskTime {
        self.cap
    }

    /// The share of wall time that it accrues.
    pub(crate) fn share(&self) -> Share {
        self.share
    }

    /// What it accrues in `time`.
    pub(crate) fn part_of(&self, time: DiskTime) -> DiskTime {
        let nanos = u64::try_from(time.as_nanos()).expect("a length of time");
        self.share.of(Duration::from_nanos(nanos))
    }

    /// Lowers the level to `most`, if it is higher.
    pub(crate) fn forfeit_above(&mut self, most: DiskTime, now: Instant) {
        assert!(most >= DiskTime::ZERO, "only credit is forfeited");
        self.level = self.level(now).min(most);
        self.invariants();
    }

    /// Whether it never fills.
    pub(crate) fn is_none(&self) -> bool {
        self.share.is_none()
    }

    /// Notes whether the volume has work from `now` on.
    pub(crate) fn set_has_work(&mut self, has_work: bool, now: Instant) {
        self.level(now);
        let had_work = self.capped_from == Instant::FAR_FUTURE;
        if has_work {
            self.capped_from = Instant::FAR_FUTURE;
        } else if had_work {
            self.capped_from = now + self.period;
        }
        let is_uncapped = self.capped_from == Instant::FAR_FUTURE;
        debug_assert_eq!(is_uncapped, has_work, "a volume with work accumulates beyond the cap");
        self.invariants();
    }

    fn ceiling(&self) -> DiskTime {
        let may_exceed = self.at < self.capped_from;
        let ceiling = if may_exceed { self.cap + self.cap + CREDIT_MAX } else { self.cap };
        debug_assert!(ceiling >= self.cap, "a bucket holds its cap at least");
        ceiling
    }

    /// Refills the bucket up to `now` and returns its level.
    pub(crate) fn level(&mut self, now: Instant) -> DiskTime {
        // The level is read several times per event, and the remainder is less than a nanosecond.
        if now != self.at {
            let elapsed = now.since(self.at).as_nanos();
            self.at = now;
            let earned = self.accrue(elapsed);
            self.level = self.ceiling().min(self.level + earned);
        }
        debug_assert!(self.level <= self.ceiling(), "{} over {}", self.level, self.ceiling());
        self.level
    }

    /// What `elapsed` nanoseconds and the remainder amount to. The new remainder is kept.
    fn accrue(&mut self, elapsed: u64) -> DiskTime {
        let (ppb, fraction) = (u64::from(self.share.ppb()), u64::from(self.fraction));
        // Under 18 s the product fits 64 bits, whose division costs a tenth.
        let short = elapsed.checked_mul(ppb).and_then(|earned| earned.checked_add(fraction));
        let (earned, rest) = if let Some(earned) = short {
            (earned / PPB, earned % PPB)
        } else {
            let earned = u128::from(elapsed) * u128::from(ppb) + u128::from(fraction);
            let rest = u64::try_from(earned % u128::from(PPB)).expect("a remainder");
            (u64::try_from(earned / u128::from(PPB)).unwrap_or(u64::MAX), rest)
        };
        self.fraction = u32::try_from(rest).expect("a remainder");
        debug_assert!(self.fraction < WHOLE, "a remainder is less than a nanosecond");
        debug_assert!(earned <= elapsed, "a share is at most the whole");
        DiskTime::from_nanos(i64::try_from(earned).unwrap_or(i64::MAX / 2))
    }

    /// Debits `amount`. A negative amount is a correction.
    pub(crate) fn take(&mut self, amount: DiskTime, now: Instant) {
        self.level(now);
        self.level = self.ceiling().min((self.level - amount).max(-self.cap - DEBT_MAX));
        debug_assert!(self.level >= -self.cap - DEBT_MAX, "debt is bounded: {self:?}");
        debug_assert_eq!(self.at, now, "a debit is preceded by a refill");
        self.invariants();
    }

    /// Replaces a debited estimate by the actual service time, and forgives what lies below
    /// −`debt_max`: slack is not reserved, so its use leaves no debt beyond that, at most one
    /// period's worth.
    pub(crate) fn settle_slack(
        &mut self,
        debt_max: DiskTime,
        (estimate, actual): (DiskTime, DiskTime),
        now: Instant,
    ) {
        assert!(actual >= DiskTime::ZERO, "a service time is not negative: {actual}");
        assert!(estimate >= DiskTime::ZERO, "an estimate is not negative: {estimate}");
        assert!(debt_max >= DiskTime::ZERO, "a debt is not negative: {debt_max}");
        let before = self.level(now) + estimate;
        let floor = before.min(-debt_max.min(self.cap));
        self.level = self.ceiling().min((before - actual).max(floor));
        assert!(self.level >= floor, "slack takes no level below one period's debt");
        self.invariants();
    }

    /// When the bucket holds `amount`, if nothing is debited until then; in the past if it already
    /// does. `None` if it never will, because its share is zero.
    pub(crate) fn holds_at(&self, amount: DiskTime) -> Option<SignedInstant> {
        self.holds_with(amount, Share::NONE)
    }

    /// The same if `other` of wall time accrues besides.
    pub(crate) fn holds_with(&self, amount: DiskTime, other: Share) -> Option<SignedInstant> {
        if self.share.is_none() {
            return None;
        }
        let ppb = i64::from(self.share.ppb()) + i64::from(other.ppb());
        let missing = amount - self.level;
        let at = self.holds_soon(missing, ppb).unwrap_or_else(|| self.holds_ever(missing, ppb));
        debug_assert_eq!(
            missing > DiskTime::ZERO,
            at > SignedInstant::at(self.at),
            "only what is missing takes time"
        );
        Some(at)
    }

    /// When it has accrued `missing`, if each step of the sum fits 64 bits: 128 bits cost ten times
    /// as much.
    fn holds_soon(&self, missing: DiskTime, ppb: i64) -> Option<SignedInstant> {
        debug_assert!(ppb > 0, "a share of zero accrues nothing");
        let missing = missing.as_nanos().checked_mul(i64::from(WHOLE))?;
        let wait = missing / ppb + i64::from(missing % ppb > 0);
        i64::try_from(self.at.as_nanos()).ok()?.checked_add(wait).map(SignedInstant)
    }

    /// The same for any amount.
    fn holds_ever(&self, missing: DiskTime, ppb: i64) -> SignedInstant {
        debug_assert!(ppb > 0, "a share of zero accrues nothing");
        let missing = i128::from(missing.as_nanos()) * i128::from(WHOLE);
        let ppb = i128::from(ppb);
        let wait = missing / ppb + i128::from(missing % ppb > 0);
        let moment = i128::from(self.at.as_nanos()) + wait;
        SignedInstant(i64::try_from(moment).unwrap_or(i64::MAX))
    }

    /// From now on it holds what it accrues in `period`. The level stays, up to that.
    pub(crate) fn change_period(&mut self, period: Duration, now: Instant) {
        self.change(self.share, period, now);
        debug_assert_eq!(self.period, period, "the period is the new one");
    }

    /// From now on it fills at `share` and holds one `period`'s worth. The level stays, up to that.
    pub(crate) fn change(&mut self, share: Share, period: Duration, now: Instant) {
        let (level, capped_from) = (self.level(now), self.capped_from);
        *self = Self::new(share, period, level, now);
        self.capped_from = capped_from;
        debug_assert!(self.level <= level, "a change gives no disk time");
        self.invariants();
    }

    /// Checks the bucket at the end of each mutation, in debug and simulation builds.
    fn invariants(&self) {
        debug_assert!(self.fraction < WHOLE, "a remainder is less than a nanosecond");
        debug_assert!(self.level <= self.ceiling(), "{} over {}", self.level, self.ceiling());
        debug_assert_eq!(self.cap, self.share.of(self.period), "the cap is one period's worth");
    }
}

const WHOLE: u32 = Share::ALL.ppb();
const PPB: u64 = WHOLE as u64;

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
    fn a_backlogged_volume_loses_nothing_and_an_idle_one_keeps_one_periods_worth() {
        let mut bucket = Bucket::full(Share::from_percent(30), SECOND, Instant::ZERO);
        bucket.set_has_work(true, Instant::ZERO);
        assert_eq!(bucket.level(at(500_000_000)), DiskTime::from_millis(450));
        bucket.set_has_work(false, at(500_000_000));
        assert_eq!(bucket.level(at(1_000_000_000)), DiskTime::from_millis(600));
        assert_eq!(bucket.level(at(1_500_000_000)), DiskTime::from_millis(300));
    }

    #[test]
    fn a_deadline_lies_in_the_past_when_the_bucket_can_pay_already() {
        let mut bucket = Bucket::full(Share::from_percent(50), SECOND, Instant::ZERO);
        let moment = bucket.holds_at(DiskTime::from_millis(20)).expect("it fills");
        assert_eq!(moment, SignedInstant(-960_000_000));
        bucket.take(DiskTime::from_millis(500), Instant::ZERO);
        let moment = bucket.holds_at(DiskTime::from_millis(20)).expect("it fills");
        assert_eq!(moment, SignedInstant(40_000_000));
        let nothing = Bucket::full(Share::NONE, SECOND, Instant::ZERO);
        assert_eq!(nothing.holds_at(DiskTime::from_nanos(1)), None);
    }

    #[test]
    fn slack_leaves_no_debt_beyond_one_period() {
        let mut bucket = Bucket::full(Share::from_percent(10), SECOND, Instant::ZERO);
        for _ in 0..100 {
            bucket.take(DiskTime::from_millis(20), Instant::ZERO);
            let (estimate, actual) = (DiskTime::from_millis(20), DiskTime::from_millis(15));
            bucket.settle_slack(bucket.cap(), (estimate, actual), Instant::ZERO);
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
            let accrued = share.of(now.since(Instant::ZERO));
            prop_assert_eq!(bucket.level(now), accrued.min(share.of(period)));
        }

        #[test]
        fn at_its_deadline_a_bucket_can_pay_and_a_moment_before_it_cannot(
            ppb in 1_000_u32..=1_000_000_000, amount in 1_i64..50_000_000,
        ) {
            let share = Share::from_ppb(ppb);
            let amount = DiskTime::from_nanos(amount);
            let period = Duration::from_secs(100_000);
            let bucket = Bucket::new(share, period, DiskTime::ZERO, Instant::ZERO);
            let deadline = bucket.holds_at(amount).expect("it fills").instant();
            prop_assert!(bucket.clone().level(deadline) >= amount);
            let before = deadline.saturating_sub(Duration::from_nanos(1));
            prop_assert!(bucket.clone().level(before) < amount);
        }
    }

    #[test]
    fn the_short_sum_and_the_long_one_agree() {
        for ppb in [1, 7, 300_000_000, 999_999_999, 1_000_000_000] {
            let mut bucket = Bucket::full(Share::from_percent(50), SECOND, at(1_000_003));
            bucket.fraction = 999_999_999;
            for missing in [-3_000_000_007, -1, 0, 1, 2, 999_999_999, 9_000_000_001, i64::MAX / 2] {
                let missing = DiskTime::from_nanos(missing);
                if let Some(soon) = bucket.holds_soon(missing, ppb) {
                    assert_eq!(soon, bucket.holds_ever(missing, ppb), "{missing} at {ppb}");
                }
            }
            for elapsed in [1, 17_000_000_000, 18_446_744_073, 40_000_000_001, u64::MAX] {
                let share = Share::from_ppb(u32::try_from(ppb).expect("a share"));
                let mut bucket = Bucket { share, fraction: 999_999_999, ..bucket };
                let earned =
                    u128::from(elapsed) * u128::from(share.ppb()) + u128::from(bucket.fraction);
                let whole = i64::try_from(earned / 1_000_000_000).unwrap_or(i64::MAX / 2);
                assert_eq!(
                    bucket.accrue(elapsed),
                    DiskTime::from_nanos(whole),
                    "{elapsed} at {ppb}"
                );
                assert_eq!(u128::from(bucket.fraction), earned % 1_000_000_000);
            }
        }
    }

    const PERIOD_FOR_TEST: Duration = Duration::from_secs(20);
}
