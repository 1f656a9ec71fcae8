//! The rotation period and its steadiness, or that nothing rotates.
//!
//! A few distant blocks are read in rounds: more of them than the drive's cache holds, so that each
//! read is served from the media. Reads of one block complete whole revolutions apart. The lowest
//! frequency of which all intervals are multiples is the spindle's. Counting revolutions over time
//! refines it.

use units::{Duration, Share};

use crate::bench::{Bench, StopReason};
use crate::estimate::angle::{centre, wrap};
use crate::estimate::number::{floor, real, round};
use crate::layout::block::{Block, Sample};
use crate::layout::probe::Probe;
use crate::limits::REFERENCES_MAX;
use crate::rotation::period::{self, Found, deviation, median};
use drive_profile::findings::{Figure, OutlierReason, Rotation, Spindle, Stage};

/// The least number of reads in a period search.
const SEARCH_READS: u32 = 64;
/// The least number of reads of each block in a period search.
const ROUNDS_MIN: u32 = 6;
/// The number of reads that detect cache hits.
const HIT_READS: usize = 16;
/// A read further than this from a whole revolution is an outlier, in revolutions.
const LATE: f64 = 0.2;
/// Four in five cache hits complete further than this from the block's passing, in revolutions.
const HIT_PHASE_OFF: f64 = 0.1;
/// The least spread of the service times of reads from the media, in ns: three eighths of the
/// shortest revolution.
const MEDIA_SPREAD_MIN: f64 = 600_000.0;
/// The number of reads that complete too early by more than chance.
const SOON_MIN: usize = 4;
/// The number of reads of a block that identifies late ones.
const READS_MIN: usize = 5;
/// After this number of late reads in a row, the read before them was late.
const LATE_IN_A_ROW: u32 = 3;
/// The most repetitions of an undecided search.
const UNDECIDED_MAX: u32 = 4;
/// The longest pause between rounds, in ns. Shorter pauses are absorbed by the rotational wait, and
/// rounds of a constant number of revolutions would fit fractions of a revolution as well.
const PAUSE_ROUND: f64 = 4e7;
/// The longest pause as a share of a round: rounds of many reads have nearly equal durations, and
/// all reads would be in phase with one round more or less.
const PAUSE_SHARE: f64 = 0.5;
/// The longest pause between reads, in ns.
const PAUSE: f64 = 1e7;
/// Blocks between two references: 32 MiB, more than any drive reads ahead.
const APART: u64 = 65_536;
/// References whose phases differ by less than this, in revolutions, may have one phase. Three in
/// ten random blocks do.
const ONE_PHASE: f64 = 0.15;
/// The number of random blocks that decide it.
const RANDOM_READS: u32 = 30;
/// The time of the period search.
const SEARCH_TIME: Duration = Duration::from_secs(120);
/// The time of the period search in a quick profile.
const SEARCH_TIME_QUICK: Duration = Duration::from_secs(25);
/// The time in which revolutions are counted.
const COUNT_TIME: Duration = Duration::from_secs(15);
/// The time in which revolutions are counted in a quick profile.
const COUNT_TIME_QUICK: Duration = Duration::from_secs(6);

/// Reads of one reference block, and the revolutions before each.
#[derive(Clone, Debug, Default)]
struct Reference {
    at: Block,
    /// The completion times of its reads, and the revolutions since the first.
    reads: Vec<(f64, f64)>,
    /// The number of late reads, in all and in a row.
    late: u32,
    late_in_a_row: u32,
}

/// Reads of one reference block for the period search.
#[derive(Clone, Debug, Default)]
struct Reads {
    /// Completion times.
    ends: Vec<f64>,
    /// Service times, in ns.
    took: Vec<f64>,
}

/// Measures the rotation.
///
/// # Errors
/// If the total budget is exhausted or the progress sink requests a stop before a result. The
/// period search has less time than the budget, which leaves time for the other stages.
pub fn rotation(bench: &mut Bench<'_>) -> Result<Spindle, StopReason> {
    let quick = bench.budget().quick;
    bench.begin(Stage::Rotation, if quick { SEARCH_TIME_QUICK } else { SEARCH_TIME });
    let mut probe = Probe::new(bench);
    let found = match search_period(&mut probe) {
        Err(StopReason::OutOfTime) if probe.bench.spent() < probe.bench.budget().total => {
            SearchResult::Undecided
        }
        found => found?,
    };
    let left = probe.bench.budget().total.saturating_sub(probe.bench.spent());
    probe.bench.begin(Stage::Rotation, left);
    let still = match found {
        SearchResult::Rotating(references) => {
            let counted = if quick { COUNT_TIME_QUICK } else { COUNT_TIME };
            let revolutions = Spindle::Rotating(refine(&mut probe, references, counted)?);
            bench.findings.spindle = Some(revolutions);
            bench.findings.finish(Stage::Rotation);
            return Ok(revolutions);
        }
        SearchResult::Undecided => {
            "rotation: undecided, too many completions were late or out of phase".to_owned()
        }
        SearchResult::NotRotating => "not rotating: reads of one block have no period".to_owned(),
        SearchResult::Ticks => format!(
            "not rotating: reads of all blocks complete at the ticks of a clock, {} apart",
            Duration::from_nanos(round(probe.period))
        ),
    };
    bench.findings.add_note(still);
    bench.findings.spindle = Some(Spindle::NotRotating);
    bench.findings.finish(Stage::Rotation);
    Ok(Spindle::NotRotating)
}

/// The result of the period search.
enum SearchResult {
    /// The device rotates with the probe's period, and reads of these blocks are served from the
    /// media.
    Rotating(Vec<Reference>),
    /// The device does not rotate.
    NotRotating,
    /// A clock with the probe's period delays completions, and nothing rotates.
    Ticks,
    /// The reads do not decide it.
    Undecided,
}

/// Searches for a period with a growing number of blocks, until the cache holds none of them.
fn search_period(probe: &mut Probe<'_, '_>) -> Result<SearchResult, StopReason> {
    let mut count = 2;
    let (mut found, mut undecided) = (None, false);
    while count <= REFERENCES_MAX {
        let references = references(probe, count);
        let rounds = (SEARCH_READS / count).max(ROUNDS_MIN);
        let mut reads = vec![Reads::default(); references.len()];
        let mut seen = Found::Undecided;
        for _ in 0..UNDECIDED_MAX {
            if are_cache_hits(read_rounds(probe, &references, rounds, &mut reads)?) {
                seen = Found::Nothing;
                break;
            }
            seen = period::search(reads.iter().map(|reads| reads.ends.as_slice()));
            if seen != Found::Undecided {
                break;
            }
        }
        undecided |= seen == Found::Undecided;
        if let Found::Period(period) = seen {
            probe.period = period;
            if let Some(phase) = common_phase(&reads, period)
                && is_everywhere(probe, phase)?
            {
                return Ok(SearchResult::Ticks);
            }
            found = Some(references);
            if !has_cache_hits(&reads, period) {
                break;
            }
        }
        // One and a half times as many: one block more than the cache holds suffices.
        count += (count / 2).max(1);
    }
    Ok(match (found, undecided) {
        (Some(references), _) => SearchResult::Rotating(references),
        (None, true) => SearchResult::Undecided,
        (None, false) => SearchResult::NotRotating,
    })
}

/// The phase of all references, if they have a single one.
fn common_phase(reads: &[Reads], period: f64) -> Option<f64> {
    let middle = |ends: &[f64]| {
        let phases: Vec<f64> = ends.iter().map(|end| end / period).collect();
        centre(&phases, LATE).map(|centre| centre.mean)
    };
    let all: Vec<f64> = reads.iter().filter_map(|reads| middle(&reads.ends)).collect();
    let first = *all.first()?;
    all.iter().all(|phase| wrap(phase - first).abs() < ONE_PHASE).then_some(first)
}

/// Whether random blocks complete at this phase, which no rotating disk does.
fn is_everywhere(probe: &mut Probe<'_, '_>, phase: f64) -> Result<bool, StopReason> {
    let (mut on, mut off) = (0, 0);
    for _ in 0..RANDOM_READS {
        let until = probe.now() + probe.next_random() * PAUSE;
        probe.bench.wait_until(probe.instant(until));
        let at = floor(probe.next_random() * real(probe.blocks - 1));
        let Some((_, sample)) = probe.read(at)? else { continue };
        let near = wrap(sample.time / probe.period - phase).abs() < ONE_PHASE;
        *(if near { &mut on } else { &mut off }) += 1;
    }
    Ok(on > 2 * off)
}

/// Distant blocks, the last one first.
fn references(probe: &Probe<'_, '_>, count: u32) -> Vec<Reference> {
    let apart = (APART / probe.block).min(probe.blocks / u64::from(REFERENCES_MAX + 1)).max(1);
    let block = |nth: u32| (u64::from(count - nth) * apart).min(probe.blocks.saturating_sub(2));
    (0..count).map(|nth| Reference { at: block(nth), ..Reference::default() }).collect()
}

/// Reads the references in rounds with pseudo-random pauses. The service times in ns.
fn read_rounds(
    probe: &mut Probe<'_, '_>,
    references: &[Reference],
    rounds: u32,
    reads: &mut [Reads],
) -> Result<Vec<f64>, StopReason> {
    let mut all = Vec::new();
    let mut longest_round = PAUSE_ROUND;
    for _ in 0..rounds {
        let (began, mut longest) = (probe.now(), longest_round);
        for (reference, reads) in references.iter().zip(&mut *reads) {
            let pause = probe.next_random() * longest;
            longest = PAUSE;
            let until = probe.now() + pause;
            probe.bench.wait_until(probe.instant(until));
            if let Some((took, sample)) = probe.read(reference.at)? {
                reads.ends.push(sample.time);
                reads.took.push(took);
                all.push(took);
            }
        }
        longest_round = longest_round.max((probe.now() - began) * PAUSE_SHARE);
    }
    Ok(all)
}

/// Whether most of these reads were cache hits: their service times are equal, unlike those of
/// reads that wait for a sector. The longer half is ignored, because it contains the late
/// observations.
fn are_cache_hits(mut took: Vec<f64>) -> bool {
    took.sort_by(f64::total_cmp);
    let (Some(lower), Some(median)) = (took.get(took.len() / 8), took.get(took.len() / 2)) else {
        return false;
    };
    median - lower < MEDIA_SPREAD_MIN
}

/// Whether some of these reads were cache hits, given the period: these complete at any phase, and
/// sooner than reads that waited. A late observation has any phase too, but a longer time.
fn has_cache_hits(reads: &[Reads], period: f64) -> bool {
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for reads in reads {
        let phases: Vec<f64> = reads.ends.iter().map(|end| end / period).collect();
        let Some(revolution) = centre(&phases, LATE) else { continue };
        for (phase, took) in phases.iter().zip(&reads.took) {
            let kind = if wrap(phase - revolution.mean).abs() > LATE { &mut off } else { &mut on };
            kind.push(*took);
        }
    }
    let usual = median(on.into_iter());
    let soon = off.iter().filter(|took| **took < usual).count();
    soon >= SOON_MIN && soon * 3 >= off.len() * 2
}

/// Counts revolutions for the given time.
fn refine(
    probe: &mut Probe<'_, '_>,
    mut references: Vec<Reference>,
    counted: Duration,
) -> Result<Rotation, StopReason> {
    let cache_hit_max = hit_time_max(probe, &references)?;
    probe.hit_max = cache_hit_max;
    let began = probe.now();
    let end = began + real(counted.as_nanos());
    let mut again = began + 20.0 * probe.period;
    while probe.now() < end {
        for reference in &mut references {
            match probe.sample(reference.at) {
                Ok(None) => {}
                Ok(Some(sample)) => count(probe, reference, &sample),
                Err(halt) if residuals(&references, probe.period).len() < 8 => return Err(halt),
                // The reads so far suffice for a figure.
                Err(_) => return Ok(summary(probe, &references, cache_hit_max)),
            }
        }
        // The period is updated whenever the time since the first read has grown by an eighth, so
        // that the next count of revolutions is unambiguous.
        if probe.now() > again {
            again += (again - began) / 8.0;
            if let Some(period) = slope(&references) {
                probe.period = period;
            }
        }
    }
    if let Some(period) = slope(&references) {
        probe.period = period;
    }
    Ok(summary(probe, &references, cache_hit_max))
}

/// Adds a read to its reference, unless it is an outlier.
fn count(probe: &mut Probe<'_, '_>, reference: &mut Reference, sample: &Sample) {
    let revolutions = match reference.reads.last() {
        None => 0.0,
        Some((time, revolutions)) => {
            let more = (sample.time - time) / probe.period;
            if wrap(more).abs() > LATE {
                reference.late += 1;
                reference.late_in_a_row += 1;
                if reference.late_in_a_row > LATE_IN_A_ROW {
                    // The first read was late instead.
                    reference.reads.clear();
                    reference.late_in_a_row = 0;
                }
                let lba = probe.lba(reference.at);
                probe.bench.outlier(lba, OutlierReason::Late);
                return;
            }
            revolutions + real(round(more))
        }
    };
    reference.late_in_a_row = 0;
    reference.reads.push((sample.time, revolutions));
}

/// The period that fits all references best. Few reads of a block do not identify the late ones.
fn slope(references: &[Reference]) -> Option<f64> {
    let reads: Vec<&[(f64, f64)]> =
        references.iter().map(|reference| reference.reads.as_slice()).collect();
    let reads: Vec<_> = reads.into_iter().filter(|reads| reads.len() >= READS_MIN).collect();
    period::slope(&reads)
}

/// Completion times, and their deviations from a rotation of this period.
fn residuals(references: &[Reference], period: f64) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    for reference in references.iter().filter(|reference| reference.reads.len() > 1) {
        let level = median(reference.reads.iter().map(|read| read.0 - read.1 * period));
        let off = |read: &(f64, f64)| (read.0, read.0 - read.1 * period - level);
        all.extend(reference.reads.iter().map(off));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// The figures of the rotation.
fn summary(probe: &mut Probe<'_, '_>, references: &[Reference], hit: f64) -> Rotation {
    let residuals = residuals(references, probe.period);
    let count = u32::try_from(residuals.len()).unwrap_or(u32::MAX);
    let of = f64::from(count.max(1));
    // Late completions count with a limited deviation, as in the probes.
    let late: u32 = references.iter().map(|reference| reference.late).sum();
    let late = (0..late).map(|_| LATE * probe.period);
    let distances: Vec<f64> = residuals.iter().map(|(_, off)| *off).chain(late).collect();
    let noise = deviation(&distances);
    let span = match (residuals.first(), residuals.last()) {
        (Some(first), Some(last)) => (last.0 - first.0) / probe.period,
        _ => 1.0,
    };
    // The standard error of a slope through evenly spread points.
    let error = noise * (12.0 / of).sqrt() / span.max(1.0);
    let wander = wander(&residuals, noise);
    probe.sigma = noise / probe.period;
    let nanos = |time: f64| Duration::from_nanos(round(time));
    let sure = if error / probe.period < 5e-6 { 99 } else { 90 };
    Rotation {
        period: Figure {
            value: nanos(probe.period),
            spread: Duration::from_nanos(floor(error) + 1),
            samples: count,
            confidence: Share::from_percent(if count < 100 { 50 } else { sure }),
        },
        period_picos: round(probe.period * 1e3),
        noise: nanos(noise),
        wander: nanos(wander),
        eviction_reads: u32::try_from(references.len()).unwrap_or(u32::MAX),
        cache_hit_max: nanos(hit),
    }
}

/// The largest mean deviation of a tenth of the residuals, less the part that noise explains.
fn wander(residuals: &[(f64, f64)], noise: f64) -> f64 {
    let size = (residuals.len() / 10).max(8);
    let of = f64::from(u32::try_from(size).unwrap_or(u32::MAX));
    let largest = residuals
        .chunks_exact(size)
        .map(|part| (part.iter().map(|(_, off)| off).sum::<f64>() / of).abs())
        .fold(0.0, f64::max);
    (largest - 3.0 * noise / of.sqrt()).max(0.0)
}

/// The longest service time of a cache hit, in ns. It reads a block again, and the block behind it,
/// which drives read ahead: some drives cache nothing else. Zero if both come from the media: then
/// they complete at the phase of the first read, whatever their service time.
fn hit_time_max(probe: &mut Probe<'_, '_>, references: &[Reference]) -> Result<f64, StopReason> {
    let mut most = 0.0_f64;
    for behind in [0, 1] {
        let (mut off_turn, mut reads) = (Vec::new(), 0);
        for reference in references.iter().cycle().take(HIT_READS) {
            let Some((_, first)) = probe.read(reference.at)? else { continue };
            // The pause is long enough for read-ahead, and not a whole number of revolutions.
            let until = first.time + (2.3 + probe.next_random()) * probe.period;
            probe.bench.wait_until(probe.instant(until));
            let Some((took, again)) = probe.read(reference.at + behind)? else { continue };
            reads += 1;
            if wrap((again.time - first.time) / probe.period).abs() > HIT_PHASE_OFF {
                off_turn.push(took);
            }
        }
        if off_turn.len() * 5 > reads * 2 {
            most = most.max(longest_hit(off_turn, probe.period));
        }
    }
    Ok(most)
}

/// The longest service time of cache hits, if most of these reads were cache hits.
fn longest_hit(mut took: Vec<f64>, period: f64) -> f64 {
    took.sort_by(f64::total_cmp);
    let (Some(lower), Some(median)) = (took.get(took.len() / 8), took.get(took.len() / 2)) else {
        return 0.0;
    };
    // Among reads from the media, a quarter would differ by more than a quarter of a revolution.
    // The longer half is ignored: a loaded host observes some of it late.
    let apart = median - lower;
    let margin = (3.5 * apart).max(period / 20.0) + period / 50.0;
    if apart < period / 8.0 { median + margin } else { 0.0 }
}
