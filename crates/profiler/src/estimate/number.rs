//! Between the integers that figures are kept in and the fractions that estimates are made of.
//!
//! Sums, products, quotients and square roots are the same on every machine; nothing else is used.

use units::{Duration, Instant};

/// In ns.
#[expect(clippy::cast_precision_loss, reason = "exact for hundred days")]
pub(crate) fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// In ns since the beginning.
#[expect(clippy::cast_precision_loss, reason = "exact for hundred days")]
pub(crate) fn instant_ns(instant: Instant) -> f64 {
    instant.as_nanos() as f64
}

/// As a fraction, which counts and sizes of disks fit without loss.
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

/// To the nearest whole; nothing below zero.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub(crate) fn round(number: f64) -> u64 {
    (number + 0.5).clamp(0.0, 9e18) as u64
}

/// To the nearest whole, no more than a `u32` holds.
pub(crate) fn round_u32(number: f64) -> u32 {
    u32::try_from(round(number)).unwrap_or(u32::MAX)
}

/// So many ns; none below zero.
pub(crate) fn duration(nanos: f64) -> Duration {
    Duration::from_nanos(round(nanos))
}

/// The instant so many ns after the beginning.
pub(crate) fn instant(nanos: f64) -> Instant {
    Instant::from_nanos(round(nanos))
}

/// What is left of `number` after whole parts.
pub(crate) fn fraction(number: f64) -> f64 {
    number - number.floor()
}

/// A middle one of what is spread as a bell is less certain than a mean by this factor.
pub(crate) const MEDIAN_ERROR_FACTOR: f64 = 1.25;

/// The mean of some, and its standard error.
pub(crate) fn mean(values: &[f64]) -> (f64, f64) {
    let count = real(values.len() as u64);
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>();
    (mean, (square / (count * (count - 1.0).max(1.0))).sqrt())
}

/// The middle of some, and its standard error.
pub(crate) fn median_with_error(of: &[f64]) -> (f64, f64) {
    let middle = median(of.to_vec()).unwrap_or(0.0);
    let away = of.iter().map(|one| (one - middle).abs()).collect();
    // Of what is spread as a bell is, half is this part of a standard deviation away.
    let deviation = median(away).unwrap_or(0.0) / 0.674;
    (middle, MEDIAN_ERROR_FACTOR * deviation / real(of.len() as u64).sqrt())
}

/// The middle one, or the lower of the two; nothing of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len().checked_sub(1)? / 2;
    values.get(middle).copied()
}
