//! A measured value with its error.

use units::Share;

/// A measured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure<T> {
    /// The value.
    pub value: T,
    /// The standard error of the value, in its unit.
    pub spread: T,
    /// The number of samples that the value was computed from.
    pub samples: u32,
    /// The probability that the true value is within two standard errors, or that the value is
    /// exact where `spread` is zero.
    pub confidence: Share,
}
