//! Seeded random number generators. One seed gives one sequence, on every machine and in every
//! version: experiments are repeated by their seed, and a pool stores a `random` layout as its
//! seed.
//!
//! | type | algorithm | used by |
//! |---|---|---|
//! | [`SeededRng`] | PCG XSL RR 128/64 (O'Neill, 2014) | simulations, workloads, tests |
//! | [`SplitMix64`] | `SplitMix64` (Steele, Lea, Flood: OOPSLA 2014) | random layouts of a pool |
//! | [`WeylRng`] | Weyl sequence and a multiply-xorshift mixer | random faults of a disk |
//!
//! The algorithms differ because each sequence is part of something that is stored or published.
//! The conversion of 64 bits to a number is here too, so that it does not change either.

use units::{Duration, Share};

/// A generator of 64 random bits a step.
trait Generator {
    fn next_u64(&mut self) -> u64;
}

/// The upper 64 bits of a product: `bits` scaled to a number under `bound`, and the lower 64.
fn scale(bits: u64, bound: u64) -> (u64, u64) {
    let product = u128::from(bits) * u128::from(bound);
    let low = u64::try_from(product & u128::from(u64::MAX)).expect("64 bits");
    (u64::try_from(product >> 64).expect("64 bits"), low)
}

/// PCG XSL RR 128/64: a linear congruential generator of 128 bits whose output is its two halves
/// combined and rotated.
#[derive(Clone, Debug)]
struct Pcg64 {
    state: u128,
    increment: u128,
}

impl Pcg64 {
    const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;

    fn new(seed: u128, stream: u128) -> Self {
        let increment = (stream << 1) | 1;
        let mut generator = Self { state: seed.wrapping_add(increment), increment };
        generator.step();
        generator
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(Self::MULTIPLIER).wrapping_add(self.increment);
    }
}

impl Generator for Pcg64 {
    #[expect(clippy::cast_possible_truncation, reason = "the output function takes the halves")]
    fn next_u64(&mut self) -> u64 {
        self.step();
        let halves = (self.state >> 64) as u64 ^ self.state as u64;
        halves.rotate_right((self.state >> 122) as u32)
    }
}

/// A weakly mixed counter: each step adds `increment` to the state and mixes the sum.
fn weyl(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    *state
}

/// The `SplitMix64` generator.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.next_u64()
    }

    /// The next number below `end`. The multiplication favours some numbers by at most
    /// `end` / 2⁶⁴; nothing is rejected, so that each number consumes one step.
    ///
    /// # Panics
    /// If `end` is zero.
    pub fn below(&mut self, end: u32) -> u32 {
        assert!(end > 0, "the upper bound is zero");
        let (drawn, _) = scale(self.next_u64(), u64::from(end));
        u32::try_from(drawn).expect("less than its end")
    }
}

impl Generator for SplitMix64 {
    fn next_u64(&mut self) -> u64 {
        let bits = weyl(&mut self.0);
        let bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }
}

/// A Weyl sequence, mixed by two multiplications and shifts.
#[derive(Clone, Debug)]
pub struct WeylRng(u64);

impl WeylRng {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.next_u64()
    }

    /// True with probability `share`.
    pub fn chance(&mut self, share: Share) -> bool {
        self.next_u64() % u64::from(Share::ALL.ppb()) < u64::from(share.ppb())
    }
}

impl Generator for WeylRng {
    fn next_u64(&mut self) -> u64 {
        let bits = weyl(&mut self.0);
        let bits = (bits ^ (bits >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let bits = (bits ^ (bits >> 29)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        bits ^ (bits >> 32)
    }
}

/// The generator of simulations: one seed, and a stream for each use of it.
#[derive(Clone, Debug)]
pub struct SeededRng(Pcg64);

impl SeededRng {
    /// The generator of `stream` in the run with this seed. Streams do not overlap.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Pcg64::new(u128::from(seed), u128::from(stream)))
    }

    /// A uniform number below `bound`.
    ///
    /// # Panics
    /// On a bound of zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number under zero");
        // Lemire's multiplication. The few draws that would favour some numbers are rejected; the
        // threshold needs a division, which is made only for a draw that may lie below it.
        loop {
            let (number, low) = scale(self.0.next_u64(), bound);
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return number;
            }
        }
    }

    /// The time between two independent events: exponentially distributed, with this mean.
    ///
    /// Drawn by von Neumann's comparison of uniform numbers, which needs no logarithm: the same
    /// nanoseconds on every machine.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let mut whole = 0_u64;
        loop {
            let first = self.0.next_u64();
            let (mut last, mut falls) = (first, 1_u32);
            loop {
                let next = self.0.next_u64();
                if next >= last {
                    break;
                }
                (last, falls) = (next, falls + 1);
            }
            if falls % 2 == 1 {
                let part = (u128::from(mean.as_nanos()) * u128::from(first)) >> 64;
                let part = u64::try_from(part).expect("a part of the mean");
                return mean * whole + Duration::from_nanos(part);
            }
            whole += 1;
        }
    }

    /// A uniformly random permutation, in place (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            let other = usize::try_from(self.below(index as u64 + 1)).expect("under the index");
            items.swap(index, other);
        }
    }

    /// True with probability `share`.
    pub fn chance(&mut self, share: Share) -> bool {
        self.below(u64::from(Share::ALL.ppb())) < u64::from(share.ppb())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        let mut rng = SeededRng::new(1, 0);
        let numbers: Vec<u64> = (0..6).map(|_| rng.below(1_000_000)).collect();
        assert_eq!(numbers, SeededRng::new(1, 0).take(6));
        assert_ne!(numbers, SeededRng::new(1, 1).take(6), "another stream, another sequence");
        assert_ne!(numbers, SeededRng::new(2, 0).take(6), "another seed, another sequence");
    }

    /// The reference implementations' outputs: PCG's demo of `pcg64` (seed 42, stream 54), and
    /// `SplitMix64` of seed 1234567.
    #[test]
    fn the_sequences_are_the_published_ones() {
        let mut pcg = Pcg64::new(42, 54);
        let expected = [
            0x86B1_DA1D_7206_2B68,
            0x1304_AA46_C985_3D39,
            0xA367_0E9E_0DD5_0358,
            0xF909_0E52_9A7D_AE00,
            0xC85B_9FD8_3799_6F2C,
            0x6061_21F8_E391_9196,
        ];
        assert_eq!([(); 6].map(|()| pcg.next_u64()), expected);
        let mut split = SplitMix64::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([(); 2].map(|()| split.draw()), expected);
    }

    #[test]
    fn numbers_are_uniform() {
        let mut rng = SeededRng::new(7, 3);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[usize::try_from(rng.below(10)).expect("under ten")] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn times_between_independent_events_have_their_mean_and_their_deviation() {
        let mut rng = SeededRng::new(3, 1);
        let mean = Duration::from_millis(20);
        let draws: Vec<f64> =
            (0..100_000).map(|_| rng.exponential(mean).as_millis_f64() / 20.0).collect();
        let average = draws.iter().sum::<f64>() / 1e5;
        let square = draws.iter().map(|draw| (draw - average).powi(2)).sum::<f64>() / 1e5;
        let beyond = draws.iter().filter(|draw| **draw > 3.0).count();
        assert!((average - 1.0).abs() < 0.01 && (square - 1.0).abs() < 0.03, "{average} {square}");
        // e^-3 of them are over three times the mean.
        assert!((4_750..5_210).contains(&beyond), "{beyond}");
    }

    impl SeededRng {
        fn take(mut self, numbers: usize) -> Vec<u64> {
            (0..numbers).map(|_| self.below(1_000_000)).collect()
        }
    }
}
