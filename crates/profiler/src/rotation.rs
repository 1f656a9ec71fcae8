//! One turn of the spindle, and how steady it is; or that nothing turns.
//!
//! A few blocks far apart are read one after the other, round and round: more of them than the drive's memory keeps,
//! so that each comes off the media each time. Reads of one block end whole turns apart. The lowest frequency of which
//! all intervals are multiples is that of the spindle; with the time over which turns are counted it becomes exact.

use units::{Duration, Share};

use crate::bench::{Bench, Halt};
use crate::circle::{nearest, real, whole, wrap};
use crate::findings::{Figure, Reason, Stage};
use crate::limits::REFERENCES_MAX;
use crate::probe::{Block, Probe, Sample};

/// The slowest and the fastest spindle that is looked for, in Hz: 2,400 and 36,000 turns a minute.
const FREQUENCIES: (f64, f64) = (40.0, 600.0);
/// Intervals are multiples of a turn if they are off by less than this part of it on the mean; it is a quarter for
/// intervals that have nothing to do with it.
const OFF_MAX: f64 = 0.12;
/// Reads that a period is looked for in, at least.
const SEARCH_READS: u32 = 64;
/// A read that ends so far from its turn is an outlier.
const LATE: f64 = 0.2;
/// Blocks between two references: 32 MiB, which no drive reads ahead.
const APART: u64 = 65_536;
/// How long turns are counted.
const COUNTED: Duration = Duration::from_secs(15);
/// The same in a quick measurement.
const COUNTED_QUICK: Duration = Duration::from_secs(6);

/// What is known of the spindle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// One turn.
    pub period: Figure<Duration>,
    /// One turn, in ps: the figure above is rounded.
    pub period_picos: u64,
    /// The standard deviation of single completions about the turn: the noise of what was timed.
    pub noise: Duration,
    /// By how much the spindle was off its mean turn over seconds, at most, beyond what noise explains.
    pub wander: Duration,
    /// How many reads elsewhere made the drive forget a block.
    pub forgets: u32,
    /// A read that takes less than this came out of the drive's memory; nothing if the drive keeps nothing.
    pub hit_below: Duration,
}

/// Whether there is a spindle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spindle {
    /// There is.
    Turns(Rotation),
    /// Nothing turns: completions follow no period.
    Still,
}

/// Reads of one reference block, and the turns until each.
#[derive(Clone, Debug, Default)]
struct Reference {
    at: Block,
    /// When its reads ended, and turns since the first.
    reads: Vec<(f64, f64)>,
}

/// Measures the spindle.
///
/// # Errors
/// If time is over before anything is known.
pub fn rotation(bench: &mut Bench<'_>) -> Result<Spindle, Halt> {
    let quick = bench.budget().quick;
    let left = bench.left();
    bench.begin(Stage::Rotation, left);
    let mut probe = Probe::new(bench);
    let mut count = 2;
    let mut found = None;
    while count <= REFERENCES_MAX {
        let references = references(&probe, count);
        let rounds = (SEARCH_READS / count).max(5);
        let times = watch(&mut probe, &references, rounds)?;
        if let Some(period) = search(&times) {
            probe.period = period;
            found = Some(references);
            break;
        }
        // Half as many again: one more than it keeps would do.
        count += (count / 2).max(1);
    }
    let spindle = match found {
        None => Spindle::Still,
        Some(references) => {
            let counted = if quick { COUNTED_QUICK } else { COUNTED };
            Spindle::Turns(refine(&mut probe, references, counted)?)
        }
    };
    bench.findings.spindle = Some(spindle);
    bench.findings.finish(Stage::Rotation);
    Ok(spindle)
}

/// Blocks far apart, the last first.
fn references(probe: &Probe<'_, '_>, count: u32) -> Vec<Reference> {
    let apart = (APART / probe.block).min(probe.blocks / u64::from(REFERENCES_MAX + 1)).max(1);
    let block = |nth: u32| (u64::from(count - nth) * apart).min(probe.blocks - 1);
    (0..count).map(|nth| Reference { at: block(nth), reads: Vec::new() }).collect()
}

/// Reads the references round by round, with pauses that have nothing to do with anything.
fn watch(
    probe: &mut Probe<'_, '_>,
    references: &[Reference],
    rounds: u32,
) -> Result<Vec<Vec<f64>>, Halt> {
    let mut times = vec![Vec::new(); references.len()];
    for _ in 0..rounds {
        for (reference, times) in references.iter().zip(&mut times) {
            let pause = probe.even() * 1e7;
            let until = probe.now() + pause;
            probe.bench.wait_until(probe.instant(until));
            times.extend(probe.read(reference.at)?.map(|(_, sample)| sample.time));
        }
    }
    Ok(times)
}

/// The longest time that all intervals are multiples of.
fn search(times: &[Vec<f64>]) -> Option<f64> {
    let intervals: Vec<f64> =
        times.iter().flat_map(|times| times.windows(2).map(|pair| pair[1] - pair[0])).collect();
    let count = u32::try_from(intervals.len()).unwrap_or(u32::MAX);
    if count < SEARCH_READS / 2 {
        return None;
    }
    let longest = intervals.iter().copied().fold(0.0, f64::max) / 1e9;
    let off = |hertz: f64| {
        let sum: f64 = intervals.iter().map(|time| wrap(time * hertz / 1e9).abs()).sum();
        sum / f64::from(count)
    };
    let step = 0.1 / longest;
    let (mut hertz, mut best) = (FREQUENCIES.0, (OFF_MAX, None));
    while hertz < FREQUENCIES.1 {
        if off(hertz) < 2.0 * OFF_MAX {
            for near in (-5..=5).map(|nth| hertz + step * f64::from(nth) / 10.0) {
                let off = off(near);
                if off < best.0 {
                    best = (off, Some(1e9 / near));
                }
            }
        }
        hertz += step;
    }
    // Noise is a smaller part of a turn than of any part of a turn, so that multiples of the frequency fit less well.
    best.1
}

/// Counts turns for so long.
fn refine(
    probe: &mut Probe<'_, '_>,
    mut references: Vec<Reference>,
    counted: Duration,
) -> Result<Rotation, Halt> {
    let hit_below = memory(probe, &references)?;
    probe.hit = hit_below;
    let end = probe.now() + real(counted.as_nanos());
    while probe.now() < end {
        for reference in &mut references {
            match probe.sample(reference.at) {
                Ok(None) => {}
                Ok(Some(sample)) => count(probe, reference, &sample),
                Err(halt) if residuals(&references, probe.period).len() < 8 => return Err(halt),
                // What was counted is enough for a figure.
                Err(_) => return Ok(summary(probe, &references, hit_below)),
            }
        }
        if let Some(period) = slope(&references) {
            probe.period = period;
        }
    }
    Ok(summary(probe, &references, hit_below))
}

/// Adds a read to those of its reference, unless it is off.
fn count(probe: &mut Probe<'_, '_>, reference: &mut Reference, sample: &Sample) {
    let turns = match reference.reads.last() {
        None => 0.0,
        Some((time, turns)) => {
            let more = (sample.time - time) / probe.period;
            if wrap(more).abs() > LATE {
                let lba = probe.lba(reference.at);
                probe.bench.outlier(lba, Reason::Late);
                return;
            }
            turns + real(nearest(more))
        }
    };
    reference.reads.push((sample.time, turns));
}

/// The time of a turn that fits all references best.
fn slope(references: &[Reference]) -> Option<f64> {
    let (mut products, mut squares) = (0.0, 0.0);
    for reference in references {
        let (time, turns) = means(&reference.reads);
        for read in &reference.reads {
            products += (read.0 - time) * (read.1 - turns);
            squares += (read.1 - turns) * (read.1 - turns);
        }
    }
    (squares > 0.0).then(|| products / squares)
}

fn means(reads: &[(f64, f64)]) -> (f64, f64) {
    let count = f64::from(u32::try_from(reads.len().max(1)).unwrap_or(u32::MAX));
    let sum = |of: fn(&(f64, f64)) -> f64| reads.iter().map(of).sum::<f64>() / count;
    (sum(|read| read.0), sum(|read| read.1))
}

/// When each read ended, and by how much later than turns of this length say.
fn residuals(references: &[Reference], period: f64) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    for reference in references.iter().filter(|reference| reference.reads.len() > 1) {
        let (time, turns) = means(&reference.reads);
        let off = |read: &(f64, f64)| (read.0, read.0 - time - (read.1 - turns) * period);
        all.extend(reference.reads.iter().map(off));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// The figures of the spindle.
fn summary(probe: &mut Probe<'_, '_>, references: &[Reference], hit: f64) -> Rotation {
    let residuals = residuals(references, probe.period);
    let count = u32::try_from(residuals.len()).unwrap_or(u32::MAX);
    let of = f64::from(count.max(1));
    let square = residuals.iter().map(|(_, off)| off * off).sum::<f64>() / of;
    let noise = square.sqrt();
    let span = match (residuals.first(), residuals.last()) {
        (Some(first), Some(last)) => (last.0 - first.0) / probe.period,
        _ => 1.0,
    };
    // The error of a slope through evenly spread points.
    let error = noise * (12.0 / of).sqrt() / span.max(1.0);
    let wander = wander(&residuals, noise);
    probe.sigma = noise / probe.period;
    let nanos = |time: f64| Duration::from_nanos(nearest(time));
    let sure = if error / probe.period < 5e-6 { 99 } else { 90 };
    Rotation {
        period: Figure {
            value: nanos(probe.period),
            spread: Duration::from_nanos(whole(error) + 1),
            samples: count,
            confidence: Share::from_percent(if count < 100 { 50 } else { sure }),
        },
        period_picos: nearest(probe.period * 1e3),
        noise: nanos(noise),
        wander: nanos(wander),
        forgets: u32::try_from(references.len()).unwrap_or(u32::MAX),
        hit_below: nanos(hit),
    }
}

/// The largest mean of a tenth of the residuals, less what noise explains.
fn wander(residuals: &[(f64, f64)], noise: f64) -> f64 {
    let size = (residuals.len() / 10).max(8);
    let of = f64::from(u32::try_from(size).unwrap_or(u32::MAX));
    let largest = residuals
        .chunks_exact(size)
        .map(|part| (part.iter().map(|(_, off)| off).sum::<f64>() / of).abs())
        .fold(0.0, f64::max);
    (largest - 3.0 * noise / of.sqrt()).max(0.0)
}

/// What a read takes at most that comes out of the drive's memory, in ns: a block that was just read is read again. Nothing
/// if that takes as long as off the media.
fn memory(probe: &mut Probe<'_, '_>, references: &[Reference]) -> Result<f64, Halt> {
    let mut again = Vec::new();
    for reference in references.iter().cycle().take(16) {
        let Some((_, first)) = probe.read(reference.at)? else { continue };
        // Long enough for the drive to have read on, and not a number of whole turns.
        let until = first.time + (2.3 + probe.even()) * probe.period;
        probe.bench.wait_until(probe.instant(until));
        again.extend(probe.read(reference.at)?.map(|(took, _)| took));
    }
    again.sort_by(f64::total_cmp);
    let (Some(median), Some(upper)) = (again.get(again.len() / 2), again.get(again.len() * 7 / 8))
    else {
        return Ok(0.0);
    };
    // Off the media a quarter of all would be more than a quarter of a turn apart.
    let apart = upper - median;
    Ok(if apart < probe.period / 8.0 { upper + 2.5 * apart + probe.period / 50.0 } else { 0.0 })
}
