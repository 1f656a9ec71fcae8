//! Quantities as people write them: `4KiB`, `1.5ms`, `30%`, `60/s`.
//!
//! A number is digits with an optional fraction of up to nine digits; it is read exactly, never
//! through floating point. Units are required, except on a size of bytes.

use core::fmt;
use core::str::FromStr;

use crate::{Bytes, Duration, Share};

/// A quantity that could not be read. Its text says what was found and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    found: String,
    accepted: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found `{}`, expected {}", self.found, self.accepted)
    }
}

impl std::error::Error for ParseError {}

/// A rate of events, exactly: `events` every `per`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The mean time between two events.
    pub interval: Duration,
}

const FRACTION_DIGITS_MAX: usize = 9;
const NUMBER_CHARS_MAX: usize = 40;

/// Reads `text` as a number and a unit out of `units` (name, size in the base unit); exact, or
/// `None`.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    if text.len() > NUMBER_CHARS_MAX {
        return None;
    }
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim_start());
    let size = units.iter().find(|(name, _)| *name == unit)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    let denominator = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let numerator = u128::from(whole.parse::<u64>().ok()?)
        .checked_mul(denominator)?
        .checked_add(u128::from(fraction.parse::<u64>().ok()?))?
        .checked_mul(u128::from(size))?;
    // A fraction of the base unit is a slip of the pen, not a quantity.
    if numerator % denominator != 0 {
        return None;
    }
    u64::try_from(numerator / denominator).ok()
}

fn refused(text: &str, accepted: &'static str) -> ParseError {
    ParseError { found: text.chars().take(NUMBER_CHARS_MAX).collect(), accepted }
}

impl FromStr for Bytes {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        const UNITS: &[(&str, u64)] = &[
            ("", 1),
            ("B", 1),
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("TiB", 1 << 40),
            ("kB", 1_000),
            ("KB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("TB", 1_000_000_000_000),
        ];
        scaled(text, UNITS)
            .map(Bytes)
            .ok_or_else(|| refused(text, "a size such as `4KiB`, `1MB` or `20GiB`"))
    }
}

impl FromStr for Duration {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        const UNITS: &[(&str, u64)] = &[
            ("ns", 1),
            ("us", 1_000),
            ("µs", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("m", 60_000_000_000),
            ("min", 60_000_000_000),
            ("h", 3_600_000_000_000),
        ];
        scaled(text, UNITS)
            .map(Duration::from_nanos)
            .ok_or_else(|| refused(text, "a time such as `300us`, `20ms`, `85s` or `2h`"))
    }
}

impl FromStr for Share {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        scaled(text, &[("%", 10_000_000)])
            .filter(|ppb| *ppb <= u64::from(Share::ALL.ppb()))
            .and_then(|ppb| u32::try_from(ppb).ok())
            .map(Share::from_ppb)
            .ok_or_else(|| refused(text, "a share from `0%` to `100%`"))
    }
}

impl Share {
    /// Reads a share as a factor of at most 1, such as `0.5`, or with its unit, such as `50%`.
    ///
    /// # Errors
    /// The text is neither, or above the whole.
    pub fn from_factor(text: &str) -> Result<Self, ParseError> {
        scaled(text, &[("", 1_000_000_000), ("%", 10_000_000)])
            .filter(|ppb| *ppb <= u64::from(Self::ALL.ppb()))
            .and_then(|ppb| u32::try_from(ppb).ok())
            .map(Self::from_ppb)
            .ok_or_else(|| refused(text, "a factor from `0` to `1` or a share from `0%` to `100%`"))
    }
}

impl FromStr for Rate {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        const ACCEPTED: &str = "a rate above zero such as `60/s` or `0.5/s`";
        // Thousand-millionths of an event a second, so that `0.5/s` is exact.
        let rate = text
            .trim()
            .strip_suffix("/s")
            .and_then(|number| scaled(number, &[("", 1_000_000_000)]))
            .filter(|rate| *rate > 0)
            .ok_or_else(|| refused(text, ACCEPTED))?;
        let nanos = 1_000_000_000_u128 * 1_000_000_000 / u128::from(rate);
        match u64::try_from(nanos) {
            Ok(nanos @ 1..) => Ok(Self { interval: Duration::from_nanos(nanos) }),
            _ => Err(refused(text, ACCEPTED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly() {
        assert_eq!("4KiB".parse(), Ok(Bytes(4096)));
        assert_eq!("20.5GB".parse(), Ok(Bytes(20_500_000_000)));
        assert_eq!("1.5 ms".parse(), Ok(Duration::from_micros(1_500)));
        assert_eq!("70%".parse(), Ok(Share::from_percent(70)));
        assert_eq!("33.3333333%".parse(), Ok(Share::from_ppb(333_333_333)));
        assert_eq!("60/s".parse(), Ok(Rate { interval: Duration::from_nanos(16_666_666) }));
        assert_eq!("0.5/s".parse(), Ok(Rate { interval: Duration::from_secs(2) }));
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_what_would_be() {
        for bad in ["", "-1s", "1e3s", "4", "s", "1.s", ".5s", "1.0000000001s", "99999999999999h"] {
            assert!(bad.parse::<Duration>().is_err(), "{bad}");
        }
        for bad in ["101%", "70", "-1%", "NaN%", "1000000000000%"] {
            assert!(bad.parse::<Share>().is_err(), "{bad}");
        }
        for bad in ["4QiB", "0.3B", "99999999999999999999", "16777216TiB"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad}");
        }
        for bad in ["0/s", "60", "60/m", "9000000000000000000/s"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
        let message = "70".parse::<Share>().expect_err("no unit").to_string();
        assert_eq!(message, "found `70`, expected a share from `0%` to `100%`");
    }
}
