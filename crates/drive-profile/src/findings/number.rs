//! Conversions between the integers of figures and the fractions of estimates.

use units::Duration;

/// A duration in ns.
#[expect(clippy::cast_precision_loss, reason = "exact for a hundred days")]
pub(crate) fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// A count as a fraction.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

/// The nearest integer, and 0 for a negative number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
pub(crate) fn round(number: f64) -> u64 {
    (number + 0.5).clamp(0.0, 9e18) as u64
}

/// A duration of `nanos` ns, and zero for a negative number.
pub(crate) fn duration(nanos: f64) -> Duration {
    Duration::from_nanos(round(nanos))
}
