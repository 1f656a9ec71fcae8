//! Who has had how much lately: a moving average that can be kept in order.
//!
//! Each volume's past decays by half every [`HALF_LIFE`]. All of them decay alike, so instead of shrinking the
//! past we let the present weigh more: disk time spent at t is added with weight 2^(t / half-life), and the
//! order of the sums is the order of the averages at any moment, with nothing to do while time goes by.
//! Between powers of two the weight is a straight line. Every [`EPOCH_HALF_LIVES`] the sums are scaled back.

use units::{DiskTime, Duration, Instant};

use crate::Weight;

/// The average looks back over "the last few seconds" (RTAS 2008 §3).
pub(crate) const HALF_LIFE: Duration = Duration::from_secs(2);

const EPOCH_HALF_LIVES: u32 = 48;
const WEIGHT_ONE: u32 = 16;

/// A weighted sum: it orders volumes, and means nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecentUsage(u128);

/// What a nanosecond of disk time weighs, as time goes by.
#[derive(Debug)]
pub(crate) struct DecayClock {
    epoch: Instant,
}

impl DecayClock {
    pub(crate) fn new(now: Instant) -> Self {
        Self { epoch: now }
    }

    /// How many halvings every sum must be scaled back by, when it is time to.
    pub(crate) fn turn(&mut self, now: Instant) -> Option<u32> {
        let half_lives = now.since(self.epoch).as_nanos() / HALF_LIFE.as_nanos();
        if half_lives < u64::from(EPOCH_HALF_LIVES) {
            return None;
        }
        self.epoch += HALF_LIFE * half_lives;
        Some(u32::try_from(half_lives).unwrap_or(u32::MAX))
    }

    /// What `nanos` nanoseconds weigh at `now`. 63 bits of time, 17 of the line's weight and 48 of half-lives
    /// fit the 128.
    fn weigh(&self, nanos: u64, now: Instant) -> u128 {
        let since = now.since(self.epoch).as_nanos();
        let (whole, rest) = (since / HALF_LIFE.as_nanos(), since % HALF_LIFE.as_nanos());
        assert!(whole <= u64::from(EPOCH_HALF_LIVES), "the sums were not scaled back");
        let line = (1_u64 << WEIGHT_ONE) + (rest << WEIGHT_ONE) / HALF_LIFE.as_nanos();
        (u128::from(nanos) * u128::from(line)) << whole
    }
}

const _: () = assert!(i64::BITS - 1 + WEIGHT_ONE + 1 + EPOCH_HALF_LIVES <= u128::BITS);
const _: () = assert!(HALF_LIFE.as_nanos() < 1 << (u64::BITS - WEIGHT_ONE));

impl RecentUsage {
    /// Adds disk time spent now by a volume of this weight.
    ///
    /// # Panics
    /// If it is negative: time is not unspent.
    pub(crate) fn spend(
        &mut self,
        (amount, weight): (DiskTime, Weight),
        now: Instant,
        weights: &DecayClock,
    ) {
        let nanos = u64::try_from(amount.as_nanos()).expect("time is not unspent");
        self.0 = self.0.saturating_add(part(weights.weigh(nanos, now), weight));
    }

    /// The same disk time, of a volume whose weight has changed.
    #[must_use]
    pub(crate) fn reweighed(self, from: Weight, to: Weight) -> Self {
        if from == to { self } else { Self(part(self.0.saturating_mul(from.as_u32().into()), to)) }
    }

    /// The same, `halvings` half-lives of weight lighter.
    #[must_use]
    pub(crate) fn scaled_back(self, halvings: u32) -> Self {
        Self(self.0.checked_shr(halvings).unwrap_or(0))
    }
}

/// A division of 128 bits, which most volumes need not pay for.
fn part(sum: u128, weight: Weight) -> u128 {
    if weight == Weight::ONE { sum } else { sum / u128::from(weight.as_u32()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn what_was_long_ago_counts_less() {
        let weights = DecayClock::new(Instant::ZERO);
        let (mut old, mut new) = (RecentUsage::default(), RecentUsage::default());
        old.spend((DiskTime::from_millis(100), Weight::ONE), at(1), &weights);
        new.spend((DiskTime::from_millis(60), Weight::ONE), at(5), &weights);
        assert!(new > old, "60 ms now outweigh 100 ms two half-lives ago");
    }

    #[test]
    fn scaling_back_keeps_the_order() {
        let mut weights = DecayClock::new(Instant::ZERO);
        let (mut less, mut more) = (RecentUsage::default(), RecentUsage::default());
        less.spend((DiskTime::from_millis(15), Weight::ONE), at(90), &weights);
        more.spend((DiskTime::from_millis(16), Weight::ONE), at(90), &weights);
        let halvings = weights.turn(at(100)).expect("50 half-lives have gone by");
        let (less, more) = (less.scaled_back(halvings), more.scaled_back(halvings));
        assert!(less < more);
        assert_eq!(weights.turn(at(100)), None);
    }
}
