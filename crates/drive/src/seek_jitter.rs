//! Seek jitter: the variation of seek times.
//!
//! Seek curves are means. On measured drives single seeks deviate from them by up to about a
//! millisecond (FAST 2003, section 3.4), which a scheduler that predicts the position of the head
//! has to tolerate. The variation comes from a sequence in the drive's state: the same seed gives
//! the same seeks.

use units::Duration;

/// The standard deviation is at most this fraction of a movement's time: short seeks vary less.
const PART: u64 = 8;
/// The largest deviation, in standard deviations: twelve draws from [0, 1) less 6.
pub(crate) const JITTER_DEVIATIONS_MAX: u64 = 6;
/// The number of uniform draws whose sum is approximately normal.
const DRAWS: u32 = 12;

/// The variation of seek times: approximately normal, with a standard deviation of `spread` or an
/// eighth of the movement, whichever is less, and never more than six of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeekJitter {
    spread: Duration,
    state: u64,
}

impl SeekJitter {
    /// Variation with a standard deviation of `spread`, from the sequence that begins at `seed`;
    /// `None` if the spread is zero.
    pub(crate) fn new(spread: Duration, seed: u64) -> Option<Self> {
        (spread > Duration::ZERO).then_some(Self { spread, state: seed })
    }

    /// The varied time of a movement whose mean is `time`.
    pub(crate) fn of(&mut self, time: Duration) -> Duration {
        let spread = self.spread.as_nanos().min(time.as_nanos() / PART);
        // The sum of twelve draws from [0, 2^32) has a variance of 2^64: less its mean it is a
        // deviation in 2^-32.
        let sum: u64 = (0..DRAWS).map(|_| self.draw() >> 32).sum();
        let deviation = i128::from(sum) - (i128::from(DRAWS) << 31);
        let by = (deviation * i128::from(spread)) >> 32;
        let varied = (i128::from(time.as_nanos()) + by).max(0);
        Duration::from_nanos(u64::try_from(varied).expect("a time, not below zero"))
    }

    /// The next number of a sequence that passes the usual tests of randomness (Steele, Lea and
    /// Flood, 2014).
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn movements_vary_about_their_mean_as_told_and_short_ones_less() {
        for (time, expected) in [(10_000_u64, 500.0), (800, 100.0)] {
            let mut jitter =
                SeekJitter::new(Duration::from_micros(500), 7).expect("a spread above zero");
            let count = 40_000;
            let draws: Vec<f64> = (0..count)
                .map(|_| jitter.of(Duration::from_micros(time)).as_millis_f64() * 1e3)
                .collect();
            let mean = draws.iter().sum::<f64>() / f64::from(count);
            let square = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / f64::from(count);
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let off = (mean - time as f64).abs();
            assert!(off < 0.02 * expected, "a mean of {mean} us for {time}");
            assert!((square.sqrt() / expected - 1.0).abs() < 0.02, "{} us", square.sqrt());
        }
    }

    #[test]
    fn one_seed_one_sequence() {
        let mut ones = SeekJitter::new(Duration::from_micros(500), 1).expect("a spread above zero");
        let mut same = ones;
        let mut others =
            SeekJitter::new(Duration::from_micros(500), 2).expect("a spread above zero");
        let time = Duration::from_millis(9);
        assert!((0..100).all(|_| ones.of(time) == same.of(time)));
        assert!((0..100).any(|_| ones.of(time) != others.of(time)));
    }
}
