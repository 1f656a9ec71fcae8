//! Means of service times with their errors, in integers.

use units::{Duration, Share};

use drive_profile::findings::Figure;

/// A time beyond this multiple of the median is an outlier.
const LATE_TIMES: u64 = 10;
/// The least excess of an outlier over the median.
const LATE_MIN: Duration = Duration::from_millis(5);

/// The probability that a mean of `samples` samples is within twice its standard error: Student's t
/// at 2.
pub(crate) fn confidence(samples: usize) -> Share {
    Share::from_percent(match samples {
        0..=1 => 0,
        2 => 70,
        3 => 81,
        4 => 86,
        5..=9 => 88,
        10..=29 => 92,
        _ => 95,
    })
}

/// The median. `None` without times.
pub(crate) fn median(times: &[Duration]) -> Option<Duration> {
    quantile(times, Share::from_percent(50))
}

/// The quantile `share` of the times.
pub(crate) fn quantile(times: &[Duration], share: Share) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let last = u64::try_from(sorted.len()).ok()?.checked_sub(1)?;
    let nth = u128::from(last) * u128::from(share.ppb()) / u128::from(Share::ALL.ppb());
    sorted.get(usize::try_from(nth).ok()?).copied()
}

/// Whether a time is an outlier, which means exclude.
pub(crate) fn is_outlier(time: Duration, median: Duration) -> bool {
    time > median * LATE_TIMES && time > median + LATE_MIN
}

/// The mean and its standard error. `None` without times.
pub(crate) fn mean(times: &[Duration]) -> Option<Figure<Duration>> {
    let nanos = times.iter().map(|time| u128::from(time.as_nanos()));
    let count = u128::try_from(times.len()).ok().filter(|count| *count > 0)?;
    let mean = nanos.clone().sum::<u128>() / count;
    let squares = nanos.map(|nanos| nanos.abs_diff(mean).saturating_pow(2));
    let squares = squares.fold(0_u128, u128::saturating_add);
    let spread = if count > 1 { (squares / (count * (count - 1))).isqrt() } else { mean };
    let time = |nanos: u128| Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    Some(Figure {
        value: time(mean),
        spread: time(spread),
        samples: u32::try_from(times.len()).unwrap_or(u32::MAX),
        confidence: confidence(times.len()),
    })
}

/// The mean without outliers.
pub(crate) fn mean_without_outliers(times: &[Duration]) -> Option<Figure<Duration>> {
    let median = median(times)?;
    let mean_without_outliers: Vec<_> =
        times.iter().copied().filter(|time| !is_outlier(*time, median)).collect();
    mean(&mean_without_outliers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_says_how_far_it_may_be_off_and_leaves_out_what_is_late() {
        let mut times: Vec<_> = (0..100).map(|nth| Duration::from_micros(90 + nth % 21)).collect();
        let figure = mean(&times).expect("samples");
        assert!((99..=101).contains(&figure.value.as_micros()), "{figure:?}");
        assert!((500..=700).contains(&figure.spread.as_nanos()), "{figure:?}");
        times.push(Duration::from_secs(1));
        assert_eq!(mean_without_outliers(&times).expect("samples"), figure);
        assert_eq!(mean(&[]), None);
    }
}
