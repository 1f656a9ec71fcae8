//! The rotation period, from instants that are whole revolutions apart, some of them observed late.
//!
//! A loaded host observes some completions late, by milliseconds, and none early. Late ones distort
//! means over intervals, so the search maximises the coherence of phases, which a late one merely
//! lowers. Phases that are coherent at a frequency are coherent at its multiples, and at no
//! fraction of it: of all frequencies of equal coherence the lowest is the spindle's.

use crate::estimate::angle::wrap;
use crate::estimate::number::real;

/// The slowest and the fastest spindle, in Hz: 2,400 and 36,000 revolutions per minute.
const FREQUENCIES: (f64, f64) = (40.0, 600.0);
/// The least coherence of a period: 1 for equal phases, 0 for random ones.
const COHERENCE_MIN: f64 = 0.4;
/// The highest coherence by chance.
const COHERENCE_BY_CHANCE: f64 = 0.3;
/// The share of the highest coherence that counts as equal to it.
const AS_GOOD: f64 = 0.9;
/// The share of the highest coherence that may turn out to be equal to it.
const RIVAL: f64 = 0.6;
/// The relative difference within which frequencies are equal.
const ALIKE: f64 = 0.002;
/// The least number of instants of one block.
const INSTANTS_MIN: usize = 4;

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Found {
    /// The rotation period, in ns.
    Period(f64),
    /// More instants are needed.
    Undecided,
    /// There is no period.
    Nothing,
}

/// The longest period of which all intervals of each block are multiples.
pub(crate) fn search<'a>(blocks: impl Iterator<Item = &'a [f64]>) -> Found {
    let blocks: Vec<&[f64]> = blocks.filter(|times| times.len() >= INSTANTS_MIN).collect();
    let span = blocks.iter().map(|times| times[times.len() - 1] - times[0]).fold(0.0, f64::max);
    if span <= 0.0 {
        return Found::Nothing;
    }
    // The width of a peak is the inverse of the time span.
    let step = 0.2e9 / span;
    let mut peaks: Vec<(f64, f64)> = Vec::new();
    let (mut hertz, mut rising, mut last) = (FREQUENCIES.0, true, (0.0, 0.0));
    while hertz < FREQUENCIES.1 {
        let now = coherence(&blocks, hertz);
        if rising && now < last.1 && last.1 > 0.5 * COHERENCE_BY_CHANCE {
            peaks.push(refine_peak(&blocks, last.0, step));
        }
        (rising, last, hertz) = (now > last.1, (hertz, now), hertz + step);
    }
    decide(&peaks)
}

/// The lowest frequency that the best peak's is a multiple of, and that is as coherent.
///
/// Rounds of nearly equal durations make side peaks, which are lower than the main one, and the
/// less so the fewer rounds there are. A side peak that is nearly as high, or a fraction of the
/// frequency that is not quite as coherent, requires more reads.
fn decide(peaks: &[(f64, f64)]) -> Found {
    let most = peaks.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1));
    let Some((hertz, best)) = most.filter(|(_, coherence)| *coherence >= COHERENCE_BY_CHANCE)
    else {
        return Found::Nothing;
    };
    if best < COHERENCE_MIN {
        return Found::Undecided;
    }
    // Fractions and multiples of one rotation are at whole multiples of each other's frequency.
    let multiple = |of: f64, one: f64| {
        let times = of / one;
        (times - (times + 0.5).floor()).abs() < ALIKE * times
    };
    let lowest = peaks.iter().find(|peak| peak.1 >= AS_GOOD * best && multiple(hertz, peak.0));
    let Some(&(chosen, _)) = lowest else { return Found::Undecided };
    let rival = |peak: &&(f64, f64)| {
        let below = peak.0 < chosen * (1.0 - ALIKE) && multiple(chosen, peak.0);
        let aside = !multiple(peak.0, chosen) && peak.1 >= AS_GOOD * best;
        aside || below && peak.1 >= RIVAL * best
    };
    if peaks.iter().any(|peak| rival(&peak)) {
        return Found::Undecided;
    }
    Found::Period(1e9 / chosen)
}

/// The peak next to a frequency, and its height.
fn refine_peak(blocks: &[&[f64]], hertz: f64, step: f64) -> (f64, f64) {
    let mut best = (hertz, 0.0);
    let mut width = step;
    for _ in 0..3 {
        let middle = best.0;
        for nth in -10..=10 {
            let near = middle + width * f64::from(nth) / 10.0;
            let found = coherence(blocks, near);
            if found > best.1 {
                best = (near, found);
            }
        }
        width /= 5.0;
    }
    best
}

/// The coherence of each block's phases at a frequency: the squared length of their mean vector,
/// less its expectation for random phases.
fn coherence(blocks: &[&[f64]], hertz: f64) -> f64 {
    let (mut sum, mut weight) = (0.0, 0.0);
    for times in blocks {
        let (mut across, mut along) = (0.0, 0.0);
        for time in *times {
            let revolutions = (time - times[0]) * hertz / 1e9;
            across += sine(revolutions);
            along += sine(revolutions + 0.25);
        }
        let count = real(times.len() as u64);
        sum += (across * across + along * along) / count - 1.0;
        weight += count - 1.0;
    }
    sum / weight
}

/// A parabola for each half of a sine, which is the same on every machine.
fn sine(revolutions: f64) -> f64 {
    let phase = wrap(revolutions);
    8.0 * phase * (1.0 - 2.0 * phase.abs())
}

/// The most repetitions of a fit without its outliers.
const ROUNDS: u32 = 6;
/// The deviation of an outlier, in standard deviations, which are taken from the median distance:
/// late instants do not move it.
const FAR: f64 = 3.5;
/// The standard deviation of a normal distribution in units of its median distance from the centre.
const DEVIATION: f64 = 1.4826;
/// The least timing error, in ns.
const EXACT: f64 = 1_000.0;

/// The common slope of lines through points (time, revolutions), one line for each block. Outliers
/// are excluded, so that late instants do not tilt the lines.
pub(crate) fn slope(blocks: &[&[(f64, f64)]]) -> Option<f64> {
    let mut kept: Vec<Vec<(f64, f64)>> = blocks.iter().map(|reads| reads.to_vec()).collect();
    let mut slope = least_squares(&kept)?;
    for _ in 0..ROUNDS {
        let levels: Vec<f64> = blocks
            .iter()
            .map(|reads| median(reads.iter().map(|(time, revolutions)| time - slope * revolutions)))
            .collect();
        let off = |level: f64, read: &(f64, f64)| (read.0 - slope * read.1 - level).abs();
        let all = blocks.iter().zip(&levels);
        let distances = all.flat_map(|(reads, level)| reads.iter().map(|read| off(*level, read)));
        let reach = FAR * (DEVIATION * median(distances)).max(EXACT);
        for ((reads, level), kept) in blocks.iter().zip(&levels).zip(&mut kept) {
            *kept = reads.iter().filter(|read| off(*level, read) < reach).copied().collect();
        }
        slope = least_squares(&kept)?;
    }
    Some(slope)
}

fn least_squares(blocks: &[Vec<(f64, f64)>]) -> Option<f64> {
    let (mut products, mut squares) = (0.0, 0.0);
    for reads in blocks {
        let count = real(reads.len().max(1) as u64);
        let time = reads.iter().map(|read| read.0).sum::<f64>() / count;
        let revolutions = reads.iter().map(|read| read.1).sum::<f64>() / count;
        for read in reads {
            products += (read.0 - time) * (read.1 - revolutions);
            squares += (read.1 - revolutions) * (read.1 - revolutions);
        }
    }
    (squares > 0.0).then(|| products / squares)
}

/// The upper median, and 0 without numbers.
pub(crate) fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

/// The standard deviation with distances limited to five of it: that of a normal distribution, and
/// larger by the contribution of late instants.
pub(crate) fn deviation(distances: &[f64]) -> f64 {
    let count = real(distances.len().max(1) as u64);
    let mut square = distances.iter().map(|off| off * off).sum::<f64>() / count;
    for _ in 0..64 {
        let most = 25.0 * square;
        square = distances.iter().map(|off| (off * off).min(most)).sum::<f64>() / count;
    }
    square.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instants that are 1 to 16 revolutions apart, each delayed by `late`.
    fn instants(period: f64, count: u32, late: impl Fn(u32) -> f64) -> Vec<f64> {
        let (mut revolutions, mut word) = (0_u32, 12_345_u32);
        (0..count)
            .map(|nth| {
                word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                revolutions += 1 + (word >> 28);
                f64::from(revolutions) * period + late(nth)
            })
            .collect()
    }

    fn search_two(blocks: &[Vec<f64>; 2]) -> Found {
        search(blocks.iter().map(Vec::as_slice))
    }

    #[test]
    fn a_harmonic_is_never_taken_for_the_rotation_however_exact_instants_are() {
        for period in [4e6, 5_997_000.0, 8_333_333.0, 11_111_111.0, 16_666_667.0] {
            for late in [0.0, 20e3, 1e6] {
                let of = |nth: u32| f64::from(nth % 7 / 5) * late;
                let found = search_two(&[instants(period, 32, of), instants(period, 31, of)]);
                let Found::Period(found) = found else { panic!("{period} {late}: {found:?}") };
                assert!((found / period - 1.0).abs() < 1e-3, "{period} {late}: {found}");
            }
        }
    }

    #[test]
    fn instants_that_follow_nothing_have_no_period() {
        for seed in 1..=20_u32 {
            let of = |nth: u32| {
                let word = (nth + 100 * seed).wrapping_mul(2_654_435_761);
                f64::from((word ^ (word >> 15)).wrapping_mul(2_246_822_519)) / 1e2
            };
            let found =
                search_two(&[instants(43e6, 32, of), instants(43e6, 31, |nth| of(nth + 50))]);
            assert!(!matches!(found, Found::Period(_)), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn late_points_do_not_tilt_a_line() {
        let line: Vec<(f64, f64)> = (0..400_u32)
            .map(|nth| {
                // The later half is on a loaded host: every third is late by a millisecond or two.
                let late = if nth > 200 && nth % 3 == 0 { 2e6 } else { 0.0 };
                (f64::from(nth) * 6e6 + late, f64::from(nth))
            })
            .collect();
        let found = slope(&[&line]).expect("a line");
        assert!((found / 6e6 - 1.0).abs() < 1e-9, "{found}");
    }
}
