//! One turn of the spindle, and how steady it is; or that nothing turns.
//!
//! A few blocks far apart are read one after the other, round and round: more of them than the drive's memory keeps,
//! so that each comes off the media each time. Reads of one block end whole turns apart. The lowest frequency of which
//! all intervals are multiples is that of the spindle; with the time over which turns are counted it becomes exact.

use units::{Duration, Share};

use crate::bench::{Bench, StopReason};
use crate::estimate::angle::{centre, wrap};
use crate::estimate::number::{floor, real, round};
use crate::layout::block::{Block, Sample};
use crate::layout::probe::Probe;
use crate::limits::REFERENCES_MAX;
use crate::rotation::period::{self, Found, deviation, median};
use drive_profile::findings::{Figure, OutlierReason, Rotation, Spindle, Stage};

/// Reads that a period is looked for in, at least.
const SEARCH_READS: u32 = 64;
/// How often each block is read to look for a period, at least.
const ROUNDS_MIN: u32 = 6;
/// Reads by which it is seen what comes out of the drive's memory.
const KEPT_READS: usize = 16;
/// A read that ends so far from its turn is an outlier.
const LATE: f64 = 0.2;
/// What comes out of memory ends so far from where the block comes by, in turns, four times of five.
const KEPT_OFF: f64 = 0.1;
/// Reads that wait for a turn take times that lie further apart, in ns: three eighths of the shortest turn.
const KEPT_SPREAD: f64 = 600_000.0;
/// So many reads that end too soon are no chance.
const SOON_MIN: usize = 4;
/// Of so many reads of a block it is told which came late.
const READS_TELL: usize = 5;
/// After so many in a row it was the one before them that was off.
const LATE_IN_A_ROW: u32 = 3;
/// How often more reads are asked for where those that there are do not tell.
const UNDECIDED_MAX: u32 = 4;
/// A pause between rounds is up to this, in ns: shorter ones are lost where the disk is waited for anyway, and rounds
/// that always take as many turns would fit parts of a turn as well.
const PAUSE_ROUND: f64 = 4e7;
/// And up to this part of a round: rounds of many reads are alike but for so little that all would end at one phase
/// once a round more or less as well.
const PAUSE_SHARE: f64 = 0.5;
/// A pause between reads is up to this.
const PAUSE: f64 = 1e7;
/// Blocks between two references: 32 MiB, which no drive reads ahead.
const APART: u64 = 65_536;
/// Places that are read within so much of a turn of each other may be read at one phase: of blocks anywhere three of ten are.
const ONE_PHASE: f64 = 0.15;
/// Blocks anywhere by which that is seen.
const ANYWHERE: u32 = 30;
/// How long a turn is looked for.
const SEARCH_TIME: Duration = Duration::from_secs(120);
/// The same in a quick measurement.
const SEARCH_TIME_QUICK: Duration = Duration::from_secs(25);
/// How long turns are counted.
const COUNT_TIME: Duration = Duration::from_secs(15);
/// The same in a quick measurement.
const COUNT_TIME_QUICK: Duration = Duration::from_secs(6);

/// Reads of one reference block, and the turns until each.
#[derive(Clone, Debug, Default)]
struct Reference {
    at: Block,
    /// When its reads ended, and turns since the first.
    reads: Vec<(f64, f64)>,
    /// How many of them came late, and how many in a row up to now.
    late: u32,
    late_in_a_row: u32,
}

/// Reads of one reference block that are looked for a period in.
#[derive(Clone, Debug, Default)]
struct Reads {
    /// When they ended.
    ends: Vec<f64>,
    /// What they took, in ns.
    took: Vec<f64>,
}

/// Measures the spindle.
///
/// # Errors
/// If time is over before anything is known, all of it or that of whoever watches; what looking for a turn may take is
/// less, and leaves the rest of a device's figures theirs.
pub fn rotation(bench: &mut Bench<'_>) -> Result<Spindle, StopReason> {
    let quick = bench.budget().quick;
    bench.begin(Stage::Rotation, if quick { SEARCH_TIME_QUICK } else { SEARCH_TIME });
    let mut probe = Probe::new(bench);
    let found = match look(&mut probe) {
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
            "rotation: undecided, too many completions came late or out of revolution".to_owned()
        }
        SearchResult::NotRotating => "not rotating: reads of one place follow no period".to_owned(),
        SearchResult::Ticks => format!(
            "not rotating: reads end with the ticks of a clock, {} apart, wherever they are",
            Duration::from_nanos(round(probe.period))
        ),
    };
    bench.findings.add_note(still);
    bench.findings.spindle = Some(Spindle::NotRotating);
    bench.findings.finish(Stage::Rotation);
    Ok(Spindle::NotRotating)
}

/// What looking for a turn comes to.
enum SearchResult {
    /// There is one, the probe's period, and these come off the media each time.
    Rotating(Vec<Reference>),
    /// There is none.
    NotRotating,
    /// There is one, the probe's period, and nothing turns: a clock ticks, which hands out what was read.
    Ticks,
    /// It does not tell.
    Undecided,
}

/// Looks for a turn in more and more places, until none of them is kept in memory.
fn look(probe: &mut Probe<'_, '_>) -> Result<SearchResult, StopReason> {
    let mut count = 2;
    let (mut found, mut undecided) = (None, false);
    while count <= REFERENCES_MAX {
        let references = references(probe, count);
        let rounds = (SEARCH_READS / count).max(ROUNDS_MIN);
        let mut reads = vec![Reads::default(); references.len()];
        let mut seen = Found::Undecided;
        for _ in 0..UNDECIDED_MAX {
            if kept(watch(probe, &references, rounds, &mut reads)?) {
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
            if let Some(phase) = one_phase(&reads, period)
                && everywhere(probe, phase)?
            {
                return Ok(SearchResult::Ticks);
            }
            found = Some(references);
            if !some_kept(&reads, period) {
                break;
            }
        }
        // Half as many again: one more than it keeps would do.
        count += (count / 2).max(1);
    }
    Ok(match (found, undecided) {
        (Some(references), _) => SearchResult::Rotating(references),
        (None, true) => SearchResult::Undecided,
        (None, false) => SearchResult::NotRotating,
    })
}

/// The phase at which all places are read, if they are all read at one.
fn one_phase(reads: &[Reads], period: f64) -> Option<f64> {
    let middle = |ends: &[f64]| {
        let phases: Vec<f64> = ends.iter().map(|end| end / period).collect();
        centre(&phases, LATE).map(|centre| centre.mean)
    };
    let all: Vec<f64> = reads.iter().filter_map(|reads| middle(&reads.ends)).collect();
    let first = *all.first()?;
    all.iter().all(|phase| wrap(phase - first).abs() < ONE_PHASE).then_some(first)
}

/// Whether blocks anywhere end at this phase, as no spindle has it.
fn everywhere(probe: &mut Probe<'_, '_>, phase: f64) -> Result<bool, StopReason> {
    let (mut on, mut off) = (0, 0);
    for _ in 0..ANYWHERE {
        let until = probe.now() + probe.even() * PAUSE;
        probe.bench.wait_until(probe.instant(until));
        let at = floor(probe.even() * real(probe.blocks - 1));
        let Some((_, sample)) = probe.read(at)? else { continue };
        let near = wrap(sample.time / probe.period - phase).abs() < ONE_PHASE;
        *(if near { &mut on } else { &mut off }) += 1;
    }
    Ok(on > 2 * off)
}

/// Blocks far apart, the last first.
fn references(probe: &Probe<'_, '_>, count: u32) -> Vec<Reference> {
    let apart = (APART / probe.block).min(probe.blocks / u64::from(REFERENCES_MAX + 1)).max(1);
    let block = |nth: u32| (u64::from(count - nth) * apart).min(probe.blocks.saturating_sub(2));
    (0..count).map(|nth| Reference { at: block(nth), ..Reference::default() }).collect()
}

/// Reads the references round by round, with pauses that have nothing to do with anything; what each read took, in ns.
fn watch(
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
            let pause = probe.even() * longest;
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

/// Whether most of these reads came out of the drive's memory: they took equally long, which nothing does that waits for
/// a turn. Late ones are among the longer half, which is not looked at.
fn kept(mut took: Vec<f64>) -> bool {
    took.sort_by(f64::total_cmp);
    let (Some(lower), Some(median)) = (took.get(took.len() / 8), took.get(took.len() / 2)) else {
        return false;
    };
    median - lower < KEPT_SPREAD
}

/// Whether some of these reads came out of the drive's memory, given the turn: they end anywhere on it, and sooner than
/// what waited for it. What was noticed late ends anywhere too, but later.
fn some_kept(reads: &[Reads], period: f64) -> bool {
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

/// Counts turns for so long.
fn refine(
    probe: &mut Probe<'_, '_>,
    mut references: Vec<Reference>,
    counted: Duration,
) -> Result<Rotation, StopReason> {
    let hit_below = memory(probe, &references)?;
    probe.hit = hit_below;
    let began = probe.now();
    let end = began + real(counted.as_nanos());
    let mut again = began + 20.0 * probe.period;
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
        // As often as the time since the first read has grown by an eighth: then the next turns are counted safely.
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
    Ok(summary(probe, &references, hit_below))
}

/// Adds a read to those of its reference, unless it is off.
fn count(probe: &mut Probe<'_, '_>, reference: &mut Reference, sample: &Sample) {
    let revolutions = match reference.reads.last() {
        None => 0.0,
        Some((time, revolutions)) => {
            let more = (sample.time - time) / probe.period;
            if wrap(more).abs() > LATE {
                reference.late += 1;
                reference.late_in_a_row += 1;
                if reference.late_in_a_row > LATE_IN_A_ROW {
                    // Rather it was the first that came late.
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

/// The time of a turn that fits all references best. Of few reads it cannot be told which came late.
fn slope(references: &[Reference]) -> Option<f64> {
    let reads: Vec<&[(f64, f64)]> =
        references.iter().map(|reference| reference.reads.as_slice()).collect();
    let reads: Vec<_> = reads.into_iter().filter(|reads| reads.len() >= READS_TELL).collect();
    period::slope(&reads)
}

/// When each read ended, and by how much later than turns of this length say.
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

/// The figures of the spindle.
fn summary(probe: &mut Probe<'_, '_>, references: &[Reference], hit: f64) -> Rotation {
    let residuals = residuals(references, probe.period);
    let count = u32::try_from(residuals.len()).unwrap_or(u32::MAX);
    let of = f64::from(count.max(1));
    // Late ones count as what they are, cut off: whoever looks for sectors cuts off as well.
    let late: u32 = references.iter().map(|reference| reference.late).sum();
    let late = (0..late).map(|_| LATE * probe.period);
    let distances: Vec<f64> = residuals.iter().map(|(_, off)| *off).chain(late).collect();
    let noise = deviation(&distances);
    let span = match (residuals.first(), residuals.last()) {
        (Some(first), Some(last)) => (last.0 - first.0) / probe.period,
        _ => 1.0,
    };
    // The error of a slope through evenly spread points.
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

/// What a read takes at most that comes out of the drive's memory, in ns: a block that was just read is read again, and
/// the block behind one that was, which drives read ahead: some keep nothing else. Nothing if both come off the media: then
/// they end where on the turn the first read did, however long they happen to have waited for it.
fn memory(probe: &mut Probe<'_, '_>, references: &[Reference]) -> Result<f64, StopReason> {
    let mut most = 0.0_f64;
    for behind in [0, 1] {
        let (mut off_turn, mut reads) = (Vec::new(), 0);
        for reference in references.iter().cycle().take(KEPT_READS) {
            let Some((_, first)) = probe.read(reference.at)? else { continue };
            // Long enough for the drive to have read on, and not a number of whole turns.
            let until = first.time + (2.3 + probe.even()) * probe.period;
            probe.bench.wait_until(probe.instant(until));
            let Some((took, again)) = probe.read(reference.at + behind)? else { continue };
            reads += 1;
            if wrap((again.time - first.time) / probe.period).abs() > KEPT_OFF {
                off_turn.push(took);
            }
        }
        if off_turn.len() * 5 > reads * 2 {
            most = most.max(kept_below(off_turn, probe.period));
        }
    }
    Ok(most)
}

/// What reads took at most that came out of the drive's memory, if most of these did.
fn kept_below(mut took: Vec<f64>, period: f64) -> f64 {
    took.sort_by(f64::total_cmp);
    let (Some(lower), Some(median)) = (took.get(took.len() / 8), took.get(took.len() / 2)) else {
        return 0.0;
    };
    // Off the media a quarter of all would be more than a quarter of a turn apart. The later half is not looked at: a
    // busy host notices some of it late.
    let apart = median - lower;
    let margin = (3.5 * apart).max(period / 20.0) + period / 50.0;
    if apart < period / 8.0 { median + margin } else { 0.0 }
}
