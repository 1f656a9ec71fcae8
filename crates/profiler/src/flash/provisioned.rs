//! Whether a rate is rationed: a token bucket, as providers of disks sell them.
//!
//! What a bucket gives is a burst and then a straight line: after a time t a bucket of b tokens that fills at r a second has
//! let b + r·t commands (or bytes) through. So there are three marks, and each is looked for:
//!
//! - *A burst.* Under steady load the rate falls to less than two thirds and stays there. The line through what came later
//!   meets the beginning at b. Turning disks and flash do not read faster for having rested.
//! - *A wait that is none of the device's.* Alone and rested it answers in l; in a row, however many at once, it gives
//!   less than one in 2·l. A device that answers in l does one in l.
//! - *One rate for all lengths.* Commands of 4, 16 and 64 KiB at two depths, all within a hundredth: nothing that moves data does
//!   as many long ones as short ones.
//!
//! It is found out first, on a device that has rested: later everything that was read has been taken out of the bucket.

use units::{Bytes, Duration, Instant, Sectors};

use super::load::{Access, Loaded, Places, Until, read, rest};
use super::statistics::{confidence, median};
use crate::bench::{Bench, Halt};
use crate::findings::Figure;

/// The lengths under which commands and bytes are told apart.
const SHORT: Sectors = Sectors(8);
const LONG: Sectors = Sectors(512);
/// Lengths that only something that counts commands treats alike.
const ALIKE: [Sectors; 3] = [Sectors(8), Sectors(32), Sectors(128)];
const ALIKE_PERCENT: u64 = 1;
/// How long a burst may last and be seen.
const TIME: Duration = Duration::from_secs(40);
const TIME_QUICK: Duration = Duration::from_secs(8);
const ALIKE_TIME: Duration = Duration::from_millis(300);
const COMMANDS_MAX: usize = 400_000;
/// How long the device rests before it is asked alone.
const REST: Duration = Duration::from_millis(500);
const ALONE: usize = 5;
/// Parts into which what was seen is cut, to see where it bends.
const PARTS: usize = 32;
/// Rates of parts that are one rate differ by no more.
const STEADY_PERCENT: u64 = 10;
const DEPTH: u32 = 32;
const NANOS: u128 = 1_000_000_000;

/// What is rationed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowance {
    /// Commands, whatever their length.
    Commands,
    /// Bytes.
    Bytes,
}

/// A rate that is rationed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What is counted.
    pub of: Allowance,
    /// How many of them are given in a second.
    pub per_second: Figure<u64>,
    /// How many were saved up when measuring began, nothing if too few to be seen: the bucket if it was full.
    pub burst: Figure<u64>,
}

/// A line that bends once: a burst, and what comes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bent {
    /// Commands a second, in thousandths, once it is steady.
    later: u64,
    /// By how much the parts of it differ, in thousandths of a command a second.
    differ: u64,
    burst: u64,
    samples: usize,
}

/// Looks for a bucket, for short commands and for long ones.
///
/// # Errors
/// As [`Bench::check`].
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<(), Halt> {
    let short = limit(bench, SHORT)?;
    let long = limit(bench, LONG)?;
    let limits = match (short, long) {
        (Some(short), Some(long)) => told_apart(short, long),
        (Some(short), None) => vec![of_commands(short)],
        (None, Some(long)) => vec![of_bytes(long)],
        (None, None) => alike(bench)?.into_iter().collect(),
    };
    for limit in &limits {
        let (rate, burst) = (limit.per_second.value, limit.burst.value);
        let text = match limit.of {
            Allowance::Commands => {
                format!("rate limited at {rate} commands a second, {burst} more in a burst")
            }
            Allowance::Bytes => {
                let (rate, burst) = (Bytes(rate), Bytes(burst));
                format!("rate limited at {rate} a second, {burst} more in a burst")
            }
        };
        bench.findings.note(text);
    }
    bench.findings.flash.limits = limits;
    Ok(())
}

/// Short and long commands are limited: by one bucket of commands, by one of bytes, or by one of each.
fn told_apart(short: Bent, long: Bent) -> Vec<Limit> {
    let times = LONG.0 / SHORT.0;
    // As many of either, or as many bytes: within a tenth.
    let near = |one: u64, other: u64| one.abs_diff(other) <= one.max(other) / 10;
    // Whoever came first had more of a burst.
    if near(short.later, long.later) {
        vec![of_commands(Bent { burst: short.burst.max(long.burst), ..short })]
    } else if near(short.later, long.later.saturating_mul(times)) {
        vec![of_bytes(Bent { burst: long.burst.max(short.burst / times), ..long })]
    } else {
        vec![of_commands(short), of_bytes(long)]
    }
}

fn of_commands(bent: Bent) -> Limit {
    figures(Allowance::Commands, bent, 1)
}

fn of_bytes(bent: Bent) -> Limit {
    figures(Allowance::Bytes, bent, LONG.bytes().0)
}

fn figures(of: Allowance, bent: Bent, each: u64) -> Limit {
    let samples = u32::try_from(bent.samples).unwrap_or(u32::MAX);
    let confidence = confidence(bent.samples);
    let per_second = |thousandths: u64| {
        let exact = u128::from(thousandths) * u128::from(each) / 1_000;
        u64::try_from(exact).unwrap_or(u64::MAX)
    };
    let value = per_second(bent.later);
    let figure = |value, spread| Figure { value, spread, samples, confidence };
    let burst = bent.burst.saturating_mul(each);
    // The burst is off by what the rate is off over the time of looking, a part as large.
    let off = u128::from(burst) * u128::from(bent.differ) / u128::from(bent.later.max(1));
    let off = u64::try_from(off).unwrap_or(u64::MAX);
    Limit { of, per_second: figure(value, per_second(bent.differ)), burst: figure(burst, off) }
}

/// Loads it with commands of `len` until a burst would be over, and looks at the line.
fn limit(bench: &mut Bench<'_>, len: Sectors) -> Result<Option<Bent>, Halt> {
    let facts = *bench.facts();
    if !len.0.is_multiple_of(facts.block.0) || facts.sectors.0 < len.0 * u64::from(DEPTH) {
        return Ok(None);
    }
    let mut places = Places::new(Access::Random, len, facts.sectors, len.0);
    let mut alone = Vec::new();
    for _ in 0..ALONE {
        rest(bench, REST / ALONE as u64)?;
        let one = Until { time: Duration::MAX, commands: 1 };
        alone.extend(read(bench, 1, one, &mut places)?.latencies());
    }
    let Some(alone) = median(&alone) else { return Ok(None) };
    let time = if bench.budget().quick { TIME_QUICK } else { TIME };
    // Most of a stage's time may be gone: what is left is shared by what is still to come.
    let time = Duration::from_nanos(time.as_nanos().min(bench.left().as_nanos() / 4));
    let seen = watched(bench, len, time, alone, &mut places)?;
    Ok(bend(&seen).or_else(|| waiting(&seen, alone)))
}

/// Under load for so long; half of it if nothing bends until then.
fn watched(
    bench: &mut Bench<'_>,
    len: Sectors,
    time: Duration,
    alone: Duration,
    places: &mut Places,
) -> Result<Loaded, Halt> {
    // Commands that a full bucket lets through while it is looked at are not without end.
    let until = Until { time, commands: COMMANDS_MAX };
    let mut seen: Loaded = read(bench, DEPTH, until, places)?;
    if seen.done.len() == COMMANDS_MAX {
        bench.findings.note(format!(
            "no limit seen within {COMMANDS_MAX} commands of {} in a row, {alone} each alone",
            len.bytes()
        ));
    }
    seen.done.sort_unstable_by_key(|done| done.completed);
    Ok(seen)
}

/// Where it bends, if it does.
fn bend(seen: &Loaded) -> Option<Bent> {
    let ends: Vec<Instant> = seen.done.iter().map(|done| done.completed).collect();
    let (first, last) = (seen.began, *ends.last()?);
    let span = last.since(first).as_nanos();
    if ends.len() < PARTS || span == 0 {
        return None;
    }
    // Commands within each of equally long parts of the time.
    let mut parts = [0_u64; PARTS];
    for end in &ends {
        let part = u128::from(end.since(first).as_nanos()) * PARTS as u128 / u128::from(span);
        let part = usize::try_from(part).unwrap_or(PARTS).min(PARTS - 1);
        parts[part] += 1;
    }
    // The later half is steady, and the beginning was half as fast again.
    let late = &parts[PARTS / 2..];
    let (least, most) = (*late.iter().min()?, *late.iter().max()?);
    let mean = late.iter().sum::<u64>() / late.len() as u64;
    if mean == 0 || (most - least).saturating_sub(2) * 100 > mean * STEADY_PERCENT {
        return None;
    }
    let from = first + Duration::from_nanos(span / 2);
    let behind = ends.partition_point(|end| *end < from);
    let (from, count) = (*ends.get(behind)?, ends.len() - 1 - behind);
    let later = u128::try_from(count).ok()? * NANOS * 1_000
        / u128::from(last.since(from).as_nanos().max(1));
    // What had ended by the last end, less what the line gives for all of the time.
    let given = later * u128::from(span) / NANOS / 1_000;
    let burst = u64::try_from(u128::try_from(ends.len()).ok()?.saturating_sub(given)).ok()?;
    let later = u64::try_from(later).ok()?;
    let part_seconds = span / PARTS as u64;
    let fastest = u128::from(parts[0]) * NANOS * 1_000 / u128::from(part_seconds.max(1));
    let enough = burst > 4 * u64::from(DEPTH) || burst * 20 > ends.len() as u64;
    let faster = fastest * 2 >= u128::from(later) * 3;
    let differ = later / 1_000 * (most - least) / mean.max(1) / 4;
    (enough && faster).then_some(Bent { later, differ, burst, samples: count })
}

/// Whether it waits for something that is not the device: in a row it does less than one in twice the time that it takes
/// alone.
fn waiting(seen: &Loaded, alone: Duration) -> Option<Bent> {
    let interval = seen.interval()?;
    if interval <= alone * 2 || interval == Duration::ZERO {
        return None;
    }
    let later = u64::try_from(NANOS * 1_000 / u128::from(interval.as_nanos())).ok()?;
    let samples = seen.done.len();
    Some(Bent { later, differ: later / 1_000, burst: 0, samples })
}

/// Whether commands of all lengths come at one rate, at two depths.
fn alike(bench: &mut Bench<'_>) -> Result<Option<Limit>, Halt> {
    let facts = *bench.facts();
    let depth_max = bench.depth_max();
    let mut intervals = Vec::new();
    for depth in [depth_max / 2, depth_max] {
        for len in ALIKE {
            if depth == 0 || facts.sectors.0 < len.0 * u64::from(depth) {
                return Ok(None);
            }
            let mut places = Places::new(Access::Random, len, facts.sectors, u64::from(depth));
            let until = Until { time: ALIKE_TIME, commands: COMMANDS_MAX };
            let seen = read(bench, depth, until, &mut places)?;
            let Some(interval) = seen.interval() else { return Ok(None) };
            intervals.push((interval.as_nanos(), seen.done.len()));
        }
    }
    let (least, most) = intervals
        .iter()
        .fold((u64::MAX, 0), |(least, most), (nanos, _)| (least.min(*nanos), most.max(*nanos)));
    if least == 0 || (most - least) * 100 > most * ALIKE_PERCENT {
        return Ok(None);
    }
    let later = u64::try_from(NANOS * 1_000 / u128::from(least)).unwrap_or(u64::MAX);
    let samples = intervals.iter().map(|(_, count)| count).sum();
    let differ = later / 1_000 * (most - least) / most;
    Ok(Some(of_commands(Bent { later, differ: differ * 1_000, burst: 0, samples })))
}
