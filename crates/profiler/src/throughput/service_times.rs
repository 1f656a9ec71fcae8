//! Means with their errors, in integers.

use units::{Duration, Share};

use drive_profile::findings::Figure;

/// What takes so many times as long as the median is no sample of the same thing.
const LATE_TIMES: u64 = 10;
/// But nothing is late by less than this.
const LATE_MIN: Duration = Duration::from_millis(5);

/// How sure a mean of so many samples is to lie within twice its standard error: Student's t at 2.
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

/// The median; none of none.
pub(crate) fn median(times: &[Duration]) -> Option<Duration> {
    quantile(times, Share::from_percent(50))
}

/// The time that `share` of the times are no longer than.
pub(crate) fn quantile(times: &[Duration], share: Share) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let last = u64::try_from(sorted.len()).ok()?.checked_sub(1)?;
    let nth = u128::from(last) * u128::from(share.ppb()) / u128::from(Share::ALL.ppb());
    sorted.get(usize::try_from(nth).ok()?).copied()
}

/// What of `times` is much later than its like, and is left out of means.
pub(crate) fn is_late(time: Duration, median: Duration) -> bool {
    time > median * LATE_TIMES && time > median + LATE_MIN
}

/// The mean and its standard error; nothing of nothing.
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

/// The mean of what is not late.
pub(crate) fn usual(times: &[Duration]) -> Option<Figure<Duration>> {
    let median = median(times)?;
    let usual: Vec<_> = times.iter().copied().filter(|time| !is_late(*time, median)).collect();
    mean(&usual)
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
        assert_eq!(usual(&times).expect("samples"), figure);
        assert_eq!(mean(&[]), None);
    }
}
