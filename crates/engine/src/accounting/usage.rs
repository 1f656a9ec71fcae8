//! Recent disk time per volume: an exponentially decaying sum that can be kept in order.
//!
//! Each volume's past decays by half every [`HALF_LIFE`]. All sums decay alike, so instead of
//! reducing the past the present is scaled up: disk time spent at t is added with weight 2^(t /
//! half-life). The order of the sums is the order of the averages at any moment, and no update is
//! needed while time passes. Between powers of two the weight is linear. Every [`EPOCH_HALF_LIVES`]
//! the sums are scaled back.

use units::{DiskTime, Duration, Instant};

use crate::Weight;

/// The average covers "the last few seconds" (Zygaria, RTAS 2008 §3).
pub(crate) const HALF_LIFE: Duration = Duration::from_secs(2);

const EPOCH_HALF_LIVES: u32 = 48;
const WEIGHT_ONE: u32 = 16;

/// A weighted sum. It orders volumes; its value has no other meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecentUsage(u128);

/// The weight of a nanosecond of disk time as time passes.
#[derive(Debug)]
pub(crate) struct DecayClock {
    epoch: Instant,
    /// When every sum is to be scaled back.
    due: Instant,
}

impl DecayClock {
    pub(crate) fn new(now: Instant) -> Self {
        Self { epoch: now, due: now + HALF_LIFE * u64::from(EPOCH_HALF_LIVES) }
    }

    /// The number of halvings by which every sum must be scaled back, if that is due.
    pub(crate) fn rescale_due(&mut self, now: Instant) -> Option<u32> {
        if now < self.due { None } else { Some(self.rescale(now)) }
    }

    #[cold]
    #[inline(never)]
    fn rescale(&mut self, now: Instant) -> u32 {
        let half_lives = now.since(self.epoch).as_nanos() / HALF_LIFE.as_nanos();
        *self = Self::new(self.epoch + HALF_LIFE * half_lives);
        assert!(self.epoch <= now, "an epoch begins in the past");
        assert!(now.since(self.epoch) < HALF_LIFE, "less than a half-life is left");
        u32::try_from(half_lives).unwrap_or(u32::MAX)
    }

    /// The weight of `nanos` nanoseconds at `now`. 63 bits of time, 17 of the linear part and 48 of
    /// half-lives fit 128 bits.
    fn weigh(&self, nanos: u64, now: Instant) -> u128 {
        let since = now.since(self.epoch).as_nanos();
        let (whole, rest) = (since / HALF_LIFE.as_nanos(), since % HALF_LIFE.as_nanos());
        assert!(whole <= u64::from(EPOCH_HALF_LIVES), "the sums were not scaled back");
        let line = (1_u64 << WEIGHT_ONE) + (rest << WEIGHT_ONE) / HALF_LIFE.as_nanos();
        debug_assert!(line < 1 << (WEIGHT_ONE + 1), "the weight doubles once in a half-life");
        let weight = (u128::from(nanos) * u128::from(line)) << whole;
        debug_assert!(weight >= u128::from(nanos), "a weight is at least one");
        weight
    }
}

const _: () = assert!(i64::BITS - 1 + WEIGHT_ONE + 1 + EPOCH_HALF_LIVES <= u128::BITS);
const _: () = assert!(HALF_LIFE.as_nanos() < 1 << (u64::BITS - WEIGHT_ONE));

impl RecentUsage {
    /// Adds disk time spent at `now` by a volume of this weight.
    ///
    /// # Panics
    /// On a negative amount: spent time does not come back.
    pub(crate) fn spend(
        &mut self,
        (amount, weight): (DiskTime, Weight),
        now: Instant,
        clock: &DecayClock,
    ) {
        let nanos = u64::try_from(amount.as_nanos()).expect("spent time does not come back");
        let before = self.0;
        self.0 = self.0.saturating_add(divide(clock.weigh(nanos, now), weight));
        debug_assert!(self.0 >= before, "usage grows");
    }

    /// The same disk time, of a volume whose weight has changed.
    #[must_use]
    pub(crate) fn reweighed(self, from: Weight, to: Weight) -> Self {
        if from == to {
            self
        } else {
            let usage = Self(divide(self.0.saturating_mul(from.as_u32().into()), to));
            debug_assert!(from > to || usage <= self, "a larger weight counts less");
            usage
        }
    }

    /// The same usage, scaled down by `halvings` half-lives.
    #[must_use]
    pub(crate) fn scaled_back(self, halvings: u32) -> Self {
        debug_assert!(halvings >= EPOCH_HALF_LIVES, "sums are scaled back by an epoch at least");
        let scaled = Self(self.0.checked_shr(halvings).unwrap_or(0));
        debug_assert!(scaled <= self, "usage decays");
        scaled
    }
}

/// Divides by the weight. Most volumes have weight 1 and avoid the 128-bit division.
fn divide(sum: u128, weight: Weight) -> u128 {
    let part = if weight == Weight::ONE { sum } else { sum / u128::from(weight.as_u32()) };
    debug_assert!(part <= sum, "a weight divides");
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn older_disk_time_counts_less() {
        let clock = DecayClock::new(Instant::ZERO);
        let (mut old, mut new) = (RecentUsage::default(), RecentUsage::default());
        old.spend((DiskTime::from_millis(100), Weight::ONE), at(1), &clock);
        new.spend((DiskTime::from_millis(60), Weight::ONE), at(5), &clock);
        assert!(new > old, "60 ms now outweigh 100 ms two half-lives earlier");
    }

    #[test]
    fn scaling_back_keeps_the_order() {
        let mut clock = DecayClock::new(Instant::ZERO);
        let (mut less, mut more) = (RecentUsage::default(), RecentUsage::default());
        less.spend((DiskTime::from_millis(15), Weight::ONE), at(90), &clock);
        more.spend((DiskTime::from_millis(16), Weight::ONE), at(90), &clock);
        let halvings = clock.rescale_due(at(100)).expect("50 half-lives have passed");
        let (less, more) = (less.scaled_back(halvings), more.scaled_back(halvings));
        assert!(less < more);
        assert_eq!(clock.rescale_due(at(100)), None);
    }
}
