//! Numbers in lines of text, read exactly: never through floating point.

use core::str::FromStr;

use units::Duration;

use crate::error::Fault;

/// The decimals that are read; the ones after them are below a nanosecond.
const FRACTION_DIGITS_MAX: usize = 18;

/// Nanoseconds in a number of units of `unit` ns, rounded down.
pub(crate) fn nanos(text: &str, unit: u64) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX)];
    let digits = u32::try_from(fraction.len()).ok()?;
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let whole = u128::from(whole.parse::<u64>().ok()?) * u128::from(unit);
    Some(whole + part * u128::from(unit) / 10_u128.pow(digits))
}

/// A time in units of `unit` ns.
pub(crate) fn time(text: &str, unit: u64, expected: &'static str) -> Result<u128, Fault> {
    nanos(text, unit).ok_or_else(|| Fault::of(text, expected))
}

/// A duration in units of `unit` ns.
pub(crate) fn duration(text: &str, unit: u64, expected: &'static str) -> Result<Duration, Fault> {
    let nanos = nanos(text, unit).and_then(|nanos| u64::try_from(nanos).ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| Fault::of(text, expected))
}

/// A whole number.
pub(crate) fn number<T: FromStr>(text: &str, expected: &'static str) -> Result<T, Fault> {
    // The standard library accepts `+5`; these formats do not.
    let number = text.parse().ok().filter(|_| text.starts_with(|c: char| c.is_ascii_digit()));
    number.ok_or_else(|| Fault::of(text, expected))
}

/// Exactly `N` fields of a line; `line` is the expected form.
pub(crate) fn fields<'a, const N: usize>(
    text: &'a str,
    all: impl Iterator<Item = &'a str>,
    line: &'static str,
) -> Result<[&'a str; N], Fault> {
    let mut fields = [""; N];
    let mut count = 0;
    for field in all {
        if count == N {
            return Err(Fault::of(text, line));
        }
        fields[count] = field;
        count += 1;
    }
    if count == N { Ok(fields) } else { Err(Fault::of(text, line)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        assert_eq!(nanos("13.191135", 1_000_000), Some(13_191_135));
        assert_eq!(nanos("4757.708232", 1_000), Some(4_757_708));
        assert_eq!(nanos("128166372003061629", 100), Some(12_816_637_200_306_162_900));
        assert_eq!(nanos("0.0000000000000000000000001", 1_000_000), Some(0));
        for bad in ["", ".5", "-1", "+1", "1e3", "1.2.3", "0x10", "99999999999999999999"] {
            assert_eq!(nanos(bad, 1), None, "{bad}");
        }
    }
}
