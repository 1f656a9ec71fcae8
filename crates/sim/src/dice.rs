//! The rng. Seeded, and rolled nowhere else.
//!
//! The generator is PCG XSL RR 128/64, whose sequence is published and does not change with the
//! library; how a roll becomes a number is written here, so that it does not change either.

use rand_core::Rng;
use rand_pcg::Pcg64;
use units::{Duration, Share};

/// A stream of rolls.
#[derive(Clone, Debug)]
pub struct Dice(Pcg64);

impl Dice {
    /// The rng of `stream` in the run with this seed. Streams do not overlap.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Pcg64::new(u128::from(seed), u128::from(stream)))
    }

    /// A number under `bound`, each as likely as any other.
    ///
    /// # Panics
    /// On a bound of zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number under zero");
        // Lemire's multiplication, rejecting the few rolls that would favour some numbers; which
        // those are has to be worked out for few rolls only.
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            let low = u64::try_from(product & u128::from(u64::MAX)).expect("64 bits");
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return u64::try_from(product >> 64).expect("64 bits");
            }
        }
    }

    /// A time between two events that come independently of one another, `mean` apart on the mean.
    ///
    /// Drawn by von Neumann's comparison of uniform rolls, which needs no logarithm: the same
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

    /// Puts things into an order, each as likely as any other.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for place in (1..things.len()).rev() {
            let other = usize::try_from(self.below(place as u64 + 1)).expect("under the place");
            things.swap(place, other);
        }
    }

    /// Yes, with this probability.
    pub fn chance(&mut self, share: Share) -> bool {
        self.below(u64::from(Share::ALL.ppb())) < u64::from(share.ppb())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        let mut rng = Dice::new(1, 0);
        let rolls: Vec<u64> = (0..6).map(|_| rng.below(1_000_000)).collect();
        assert_eq!(rolls, Dice::new(1, 0).take(6));
        assert_ne!(rolls, Dice::new(1, 1).take(6), "another stream, another sequence");
        assert_ne!(rolls, Dice::new(2, 0).take(6), "another seed, another sequence");
    }

    #[test]
    fn rolls_are_even() {
        let mut rng = Dice::new(7, 3);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[usize::try_from(rng.below(10)).expect("under ten")] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn times_between_independent_events_have_their_mean_and_their_deviation() {
        let mut rng = Dice::new(3, 1);
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

    impl Dice {
        fn take(mut self, rolls: usize) -> Vec<u64> {
            (0..rolls).map(|_| self.below(1_000_000)).collect()
        }
    }
}
