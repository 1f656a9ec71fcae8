//! The dice. Seeded, and rolled nowhere else.
//!
//! The generator is PCG XSL RR 128/64, whose sequence is published and does not change with the library; how a
//! roll becomes a number is written here, so that it does not change either.

use rand_core::Rng;
use rand_pcg::Pcg64;
use units::Share;

/// A stream of rolls.
#[derive(Clone, Debug)]
pub struct Dice(Pcg64);

impl Dice {
    /// The dice of `stream` in the run with this seed. Streams do not overlap.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Pcg64::new(u128::from(seed), u128::from(stream)))
    }

    /// A number under `bound`, each as likely as any other.
    ///
    /// # Panics
    /// On a bound of zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number under zero");
        // Lemire's multiplication, rejecting the few rolls that would favour some numbers; which those are has to
        // be worked out for few rolls only.
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            let low = u64::try_from(product & u128::from(u64::MAX)).expect("64 bits");
            if low >= bound || low >= bound.wrapping_neg() % bound {
                return u64::try_from(product >> 64).expect("64 bits");
            }
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
        let mut dice = Dice::new(1, 0);
        let rolls: Vec<u64> = (0..6).map(|_| dice.below(1_000_000)).collect();
        assert_eq!(rolls, Dice::new(1, 0).take(6));
        assert_ne!(rolls, Dice::new(1, 1).take(6), "another stream, another sequence");
        assert_ne!(rolls, Dice::new(2, 0).take(6), "another seed, another sequence");
    }

    #[test]
    fn rolls_are_even() {
        let mut dice = Dice::new(7, 3);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[usize::try_from(dice.below(10)).expect("under ten")] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    impl Dice {
        fn take(mut self, rolls: usize) -> Vec<u64> {
            (0..rolls).map(|_| self.below(1_000_000)).collect()
        }
    }
}
