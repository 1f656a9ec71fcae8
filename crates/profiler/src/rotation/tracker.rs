//! Tracks the rotation from the completions of reads from the media.
//!
//! A completion is observed a constant delay after its last sector has passed, plus noise. The
//! delay cannot be separated from the disk's phase, and need not be: all instants here are those at
//! which a read *would be observed to complete*, so that the delay cancels in every difference.
//!
//! The period is known beforehand to some parts per million. The remainder is a line through the
//! differences of predicted and observed instants, with exponentially decreasing weights.

use units::{Angle, Duration, Instant};

use crate::estimate::number::{instant_ns, ns, real};

/// One revolution in 2⁻³² of a revolution.
const FULL_REVOLUTION: f64 = 4_294_967_296.0;
/// The number of completions after which a weight has decayed to below one half.
const MEMORY: f64 = 2_500.0;
/// The least prior evidence of the period, in s²: a noise of 0.2 ms and an uncertainty of 20 parts
/// per million make 100.
const PRIOR_MIN: f64 = 100e18;
/// The prior evidence after counting revolutions, in squares of that time: two means of forty
/// completions at its ends make six.
const COUNTED: f64 = 6.0;
/// The most prior evidence, because the speed of a spindle wanders.
const PRIOR_MAX: f64 = 250_000e18;
/// The initial deviation of completions, in ns.
const NOISE_FIRST: f64 = 300_000.0;
/// The least error of a map, in ns.
const NOISE_LEAST: f64 = 25_000.0;
/// A completion further off, in standard deviations, is a cache hit or from a remapped sector.
const OUTLIER: f64 = 4.5;
/// A larger deviation counts as this one, in standard deviations.
const CLIPPED: f64 = 2.5;
/// The number of consecutive outliers after which the phase is acquired again.
const LOST: u32 = 12;
/// The number of completions that determine the phase.
const SETTLED: u32 = 24;

/// The state of the rotation.
#[derive(Clone, Debug)]
pub(crate) struct RotationTracker {
    period: f64,
    /// An instant at which angle 0 would be observed.
    origin: f64,
    /// The line's origin, and weighted sums of times and differences relative to it.
    mean_at: f64,
    weight: f64,
    times: f64,
    squares: f64,
    offs: f64,
    products: f64,
    /// The mean square of the residuals.
    noise: f64,
    prior: f64,
    seen: u32,
    outliers: u32,
}

/// What a completion indicates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Observation {
    /// It matches the prediction, this number of revolutions later.
    Revolutions(f64),
    /// It is earlier than any passing of the sector: not from the media.
    Early,
    /// It matches no passing of the sector.
    Outlier,
}

impl RotationTracker {
    /// A tracker of a rotation whose period was measured over `counted` time.
    pub(crate) fn new(period: Duration, counted: Duration) -> Self {
        let counted = ns(counted);
        Self {
            period: ns(period),
            prior: (COUNTED * counted * counted).clamp(PRIOR_MIN, PRIOR_MAX),
            origin: 0.0,
            mean_at: 0.0,
            weight: 0.0,
            times: 0.0,
            squares: 0.0,
            offs: 0.0,
            products: 0.0,
            noise: NOISE_FIRST * NOISE_FIRST / 4.0,
            seen: 0,
            outliers: 0,
        }
    }

    /// The rotation period, in ns.
    pub(crate) fn period(&self) -> f64 {
        self.period * (1.0 + self.slope())
    }

    /// The standard deviation of completions about their prediction, in ns.
    pub(crate) fn noise(&self) -> f64 {
        self.noise.sqrt().max(NOISE_LEAST)
    }

    /// Whether enough completions were observed for predictions.
    pub(crate) fn is_settled(&self) -> bool {
        self.seen >= SETTLED
    }

    fn slope(&self) -> f64 {
        if self.weight < 1.0 {
            return 0.0;
        }
        let (time, off) = (self.times / self.weight, self.offs / self.weight);
        let spread = self.squares - self.times * time;
        (self.products - self.times * off) / (spread + self.prior)
    }

    /// The deviation at `time` from a rotation of the nominal period since the first observation.
    fn drift(&self, time: f64) -> f64 {
        if self.weight < 1.0 {
            return 0.0;
        }
        let mean = self.times / self.weight;
        self.offs / self.weight + self.slope() * (time - self.mean_at - mean)
    }

    /// The time in which an angle passes.
    pub(crate) fn sweep(&self, angle: Angle) -> f64 {
        f64::from(angle.0) / FULL_REVOLUTION * self.period
    }

    /// The first instant from `from` on at which `angle` would be observed.
    pub(crate) fn next(&self, angle: Angle, from: f64) -> f64 {
        // The revolutions are nominal; the drift holds their deviation.
        let base = self.origin + self.drift(from) + self.sweep(angle);
        let next = base + ((from - base) / self.period).ceil() * self.period;
        // One ns more on either side for rounding.
        let revolution = from - 1.0..from + self.period + 1.0;
        assert!(revolution.contains(&next), "the next passing is within a revolution");
        next
    }

    /// The angle under the head at `time`.
    pub(crate) fn angle(&self, time: f64) -> Angle {
        let revolutions = (time - self.origin - self.drift(time)) / self.period;
        let angle = (revolutions - revolutions.floor()) * FULL_REVOLUTION;
        Angle(
            u32::try_from(crate::estimate::number::round(angle) % (1 << 32))
                .expect("a part of a turn"),
        )
    }

    /// The delay of a passing of `end` that was observed at `seen`, relative to the prediction.
    /// `None` if the deviation is too large for a passing.
    pub(crate) fn off(&self, end: Angle, seen: Instant) -> Option<f64> {
        let seen = instant_ns(seen);
        let off = seen - self.next(end, seen - self.period / 2.0);
        (off.abs() <= OUTLIER * self.noise()).then_some(off)
    }

    /// Records that a read ending at `end` was observed to complete at `seen`, with the first
    /// possible passing predicted at `predicted`, and classifies it.
    pub(crate) fn observe(&mut self, end: Angle, seen: Instant, predicted: f64) -> Observation {
        let seen = instant_ns(seen);
        if self.seen == 0 {
            self.origin = seen - self.sweep(end);
            self.mean_at = seen;
            self.accumulate(seen, 0.0);
            return Observation::Revolutions(0.0);
        }
        let half = self.period / 2.0;
        let off = seen - self.next(end, seen - half);
        let limit = (OUTLIER * self.noise()).min(half);
        if off.abs() > limit && self.is_settled() {
            self.outliers += 1;
            if self.outliers >= LOST {
                *self = Self {
                    noise: self.noise,
                    prior: self.prior,
                    ..Self::new(
                        Duration::from_nanos(crate::estimate::number::round(self.period)),
                        Duration::ZERO,
                    )
                };
            }
            return if seen < predicted - limit {
                Observation::Early
            } else {
                Observation::Outlier
            };
        }
        self.outliers = 0;
        let revolutions = ((seen - off - predicted) / self.period + 0.5).floor();
        if revolutions < 0.0 {
            return Observation::Early;
        }
        let share = 1.0 / real(u64::from(self.seen + 1)).min(MEMORY);
        let clip = CLIPPED * self.noise();
        let off = off.clamp(-clip, clip);
        // The limited deviations are missing from the squares: a twentieth for a normal
        // distribution.
        self.noise += (1.05 * off * off - self.noise) * share.min(0.05);
        self.accumulate(seen, off + self.drift(seen));
        Observation::Revolutions(revolutions)
    }

    fn accumulate(&mut self, seen: f64, off: f64) {
        let moved = seen - self.mean_at;
        // The line's origin moves with the latest completion, so that the squares stay small.
        self.squares += moved * moved * self.weight - 2.0 * moved * self.times;
        self.products -= moved * self.offs;
        self.times -= moved * self.weight;
        self.mean_at = seen;
        let keep = 1.0 - 1.0 / MEMORY;
        for sum in [
            &mut self.weight,
            &mut self.times,
            &mut self.squares,
            &mut self.offs,
            &mut self.products,
        ] {
            *sum *= keep;
        }
        // The latest completion is at the line's origin, and adds to the sums without its time.
        self.weight += 1.0;
        self.offs += off;
        self.seen = self.seen.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Completions of a disk whose period is `ppm` longer than nominal, with triangular noise of ±
    /// `noise` ns.
    fn followed(ppm: f64, noise: f64) -> (RotationTracker, f64) {
        let believed = Duration::from_millis(8);
        let period = 8e6 * (1.0 + ppm / 1e6);
        let mut rotation = RotationTracker::new(believed, Duration::ZERO);
        let (mut worst, mut now) = (0.0_f64, 3e6);
        for nth in 0..4_000_u64 {
            let angle = Angle(u32::try_from(nth * 2_654_435_761 % (1 << 32)).expect("small"));
            let pass = |from: f64| {
                let base = f64::from(angle.0) / FULL_REVOLUTION * period;
                base + ((from - base) / period).ceil() * period
            };
            let true_pass = pass(now + 4e6);
            let predicted = rotation.next(angle, now + 4e6);
            if nth > 2_000 {
                let off = (predicted - true_pass + period / 2.0).rem_euclid(period) - period / 2.0;
                worst = worst.max(off.abs());
            }
            let draw = |salt: u64| {
                crate::estimate::number::fraction(real(nth + salt) * 0.618_033_988_749_895)
            };
            let off = (draw(0)
                + crate::estimate::number::fraction(real(nth) * 0.754_877_666_246_693)
                - 1.0)
                * noise;
            now = true_pass + off;
            rotation.observe(angle, crate::estimate::number::instant(now), predicted);
        }
        (rotation, worst)
    }

    #[test]
    fn sectors_are_predicted_to_a_tenth_of_the_noise() {
        let (rotation, worst) = followed(9.0, 400_000.0);
        assert!(worst < 40_000.0, "{worst} ns off");
        assert!((rotation.period() / 8e6 - 1.0 - 9e-6).abs() < 4e-6, "{}", rotation.period());
    }

    #[test]
    fn without_noise_only_the_period_s_error_remains() {
        let (_, worst) = followed(7.0, 0.0);
        assert!(worst < 2_000.0, "{worst} ns off");
    }
}
