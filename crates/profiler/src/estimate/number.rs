//! Conversions between the integers of figures and the fractions of estimates.
//!
//! Only sums, products, quotients and square roots are used, which are the same on every machine.

use units::{Duration, Instant};

/// A duration in ns.
#[expect(clippy::cast_precision_loss, reason = "exact for hundred days")]
pub(crate) fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// An instant in ns since the start of the clock.
#[expect(clippy::cast_precision_loss, reason = "exact for hundred days")]
pub(crate) fn instant_ns(instant: Instant) -> f64 {
    instant.as_nanos() as f64
}

/// A count as a fraction.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) const fn real(count: u64) -> f64 {
    count as f64
}

/// A signed integer as a fraction.
#[expect(clippy::cast_precision_loss, reason = "differences of addresses are far below 2^53")]
pub(crate) const fn signed(number: i64) -> f64 {
    number as f64
}

/// The integer part of a number, and 0 for a negative one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub(crate) fn floor(number: f64) -> u64 {
    number.max(0.0) as u64
}

/// The nearest integer, and 0 for a negative number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub(crate) fn round(number: f64) -> u64 {
    (number + 0.5).clamp(0.0, 9e18) as u64
}

/// The nearest integer, limited to a `u32`.
pub(crate) fn round_u32(number: f64) -> u32 {
    u32::try_from(round(number)).unwrap_or(u32::MAX)
}

/// A duration of `nanos` ns, and zero for a negative number.
pub(crate) fn duration(nanos: f64) -> Duration {
    Duration::from_nanos(round(nanos))
}

/// The instant `nanos` ns after the start of the clock.
pub(crate) fn instant(nanos: f64) -> Instant {
    Instant::from_nanos(round(nanos))
}

/// The fractional part of a number.
pub(crate) fn fraction(number: f64) -> f64 {
    number - number.floor()
}

/// The standard error of a median of normally distributed values, relative to that of their mean.
pub(crate) const MEDIAN_ERROR_FACTOR: f64 = 1.25;

/// The mean and its standard error.
pub(crate) fn mean(values: &[f64]) -> (f64, f64) {
    let count = real(values.len() as u64);
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>();
    (mean, (square / (count * (count - 1.0).max(1.0))).sqrt())
}

/// The median and its standard error.
pub(crate) fn median_with_error(of: &[f64]) -> (f64, f64) {
    let middle = median(of.to_vec()).unwrap_or(0.0);
    let away = of.iter().map(|one| (one - middle).abs()).collect();
    // The median distance of a normal distribution from its centre, in standard deviations.
    let deviation = median(away).unwrap_or(0.0) / 0.674;
    (middle, MEDIAN_ERROR_FACTOR * deviation / real(of.len() as u64).sqrt())
}

/// The median, or the lower of the two middle values. `None` without values.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}
