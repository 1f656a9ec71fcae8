//! Whether a rate is rationed: a token bucket, as providers of disks sell them.
//!
//! What a bucket gives is a burst and then a straight line: after a time t a bucket of b tokens that fills at r a second has
//! let b + r·t commands (or bytes) through. So there are three marks, and each is looked for:
//!
//! - *A burst.* Under steady load the rate falls to less than two thirds and stays there. The line through what came later
//!   meets the beginning at b. Turning disks and flash do not read faster for having rested.
//! - *A wait that is none of the device's.* Alone and rested it answers in l; in a row, however many at once, it gives
//!   less than one in 2·l. A device that answers in l does one in l.
//! - *One rate for all lengths.* Commands of 4, 16 and 64 KiB at two depths, all within a hundredth or a few, or as many bytes:
//!   nothing that moves data does as many long ones as short ones, nor as many bytes in short ones as in long ones.
//!
//! A host that has other things to do slows everything down, too, and makes a burst of the time before. Three things tell that from
//! a bucket, which lets nobody get ahead of its line, and fills while nobody asks: the fastest stretch is no faster than the
//! line, a rest brings a burst back, and who asks would not have waited half as long had the processor been his.
//!
//! It is found out first, on a device that has rested: later everything that was read has been taken out of the bucket.

use units::{Bytes, Duration, Instant, Sectors};

use crate::bench::{Bench, StopReason};
use crate::target::Completion;
use crate::throughput::load::{Addresses, Loaded, Until, absent_percent, read, rest};
use crate::throughput::service_times::{confidence, median};
use drive_profile::findings::{AccessPattern, Figure, LimitedQuantity, RateLimit};

/// The lengths under which commands and bytes are told apart.
const SHORT: Sectors = Sectors(8);
const LONG: Sectors = Sectors(512);
/// Lengths that only something that counts treats alike: commands, or bytes.
const ALIKE: [Sectors; 3] = [Sectors(8), Sectors(32), Sectors(128)];
/// By how much their rates may differ, in thousandths; and by how much more where few of them were seen.
const ALIKE_THOUSANDTHS: u64 = 10;
const ALIKE_THOUSANDTHS_MORE: u64 = 40;
/// Fewer commands are few: they are looked at for longer.
const ALIKE_FEW: usize = 1_000;
const ALIKE_TIME_FEW: Duration = Duration::from_millis(700);
/// Who is kept from asking for more of the time, in hundredths, says little of rates.
const ABSENT_MAX: u64 = 30;
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
/// In a row of so many commands nobody gets ahead of the line, but for those that waited together and end together.
const STRETCH: usize = 4 * DEPTH as usize;
/// As far as that can be told, in hundredths.
const AHEAD_PERCENT: u128 = 130;
/// By so many hundredths few commands may differ more than many.
const UNSURE_PERCENT_MAX: u64 = 60;
/// How long a bucket is left to fill, to see whether it does.
const FILL: Duration = Duration::from_millis(1_500);
/// What it holds then comes in this part of the time that it took to be given, in hundredths.
const REFILLED_PERCENT: u128 = 75;
const NANOS: u128 = 1_000_000_000;

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
pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), StopReason> {
    let short = looked(bench, SHORT)?;
    let long = looked(bench, LONG)?;
    let limits = match (short.limit, long.limit) {
        (Some(short), Some(long)) => told_apart(short, long),
        // What is not beyond doubt of the other length is good enough to tell what is counted.
        (Some(short), None) => match long.pace {
            Some(long) if as_many_bytes(&short, &long) => vec![of_bytes(short, SHORT)],
            _ => vec![of_commands(short)],
        },
        (None, Some(long)) => match short.pace {
            Some(short) if as_many(&short, &long) => vec![of_commands(long)],
            _ => vec![of_bytes(long, LONG)],
        },
        (None, None) => alike(bench)?.into_iter().collect(),
    };
    for limit in &limits {
        let (rate, burst) = (limit.per_second.value, limit.burst.value);
        let text = match limit.of {
            LimitedQuantity::Commands => {
                format!("rate limited at {rate} commands a second, {burst} more in a burst")
            }
            LimitedQuantity::Bytes => {
                let (rate, burst) = (Bytes(rate), Bytes(burst));
                format!("rate limited at {rate} a second, {burst} more in a burst")
            }
        };
        bench.findings.add_note(text);
    }
    bench.findings.flash.limits = limits;
    Ok(())
}

/// As many of either, within a tenth; and within what those that wait together make of a few.
fn as_many(one: &Bent, other: &Bent) -> bool {
    let few = one.samples.min(other.samples).max(1);
    let percent = 10 + (100 * u64::from(DEPTH) / few as u64).min(UNSURE_PERCENT_MAX);
    one.later.abs_diff(other.later).saturating_mul(100) <= one.later.max(other.later) * percent
}

/// As many bytes in short ones as in long ones.
fn as_many_bytes(short: &Bent, long: &Bent) -> bool {
    as_many(short, &Bent { later: long.later.saturating_mul(LONG.0 / SHORT.0), ..*long })
}

/// Short and long commands are limited: by one bucket of commands, by one of bytes, or by one of each.
fn told_apart(short: Bent, long: Bent) -> Vec<RateLimit> {
    let times = LONG.0 / SHORT.0;
    // Whoever came first had more of a burst.
    if as_many(&short, &long) {
        vec![of_commands(Bent { burst: short.burst.max(long.burst), ..short })]
    } else if as_many_bytes(&short, &long) {
        // Many small ones say more of a rate than a few large ones.
        vec![if short.samples > long.samples {
            of_bytes(Bent { burst: short.burst.max(long.burst * times), ..short }, SHORT)
        } else {
            of_bytes(Bent { burst: long.burst.max(short.burst / times), ..long }, LONG)
        }]
    } else {
        vec![of_commands(short), of_bytes(long, LONG)]
    }
}

fn of_commands(bent: Bent) -> RateLimit {
    figures(LimitedQuantity::Commands, bent, 1)
}

fn of_bytes(bent: Bent, each: Sectors) -> RateLimit {
    figures(LimitedQuantity::Bytes, bent, each.bytes().0)
}

fn figures(of: LimitedQuantity, bent: Bent, each: u64) -> RateLimit {
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
    RateLimit { of, per_second: figure(value, per_second(bent.differ)), burst: figure(burst, off) }
}

/// What commands of one length say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Looked {
    limit: Option<Bent>,
    /// What came in the end, limited or not.
    pace: Option<Bent>,
}

/// Loads it with commands of `len` until a burst would be over, and looks at the line.
fn looked(bench: &mut Bench<'_>, len: Sectors) -> Result<Looked, StopReason> {
    let facts = *bench.facts();
    if !len.0.is_multiple_of(facts.block.0) || facts.sectors.0 < len.0 * u64::from(DEPTH) {
        return Ok(Looked::default());
    }
    let mut places = Addresses::new(AccessPattern::Random, len, facts.sectors, len.0);
    let mut alone = Vec::new();
    for _ in 0..ALONE {
        rest(bench, REST / ALONE as u64)?;
        let one = Until { time: Duration::MAX, commands: 1 };
        alone.extend(read(bench, 1, one, &mut places)?.latencies());
    }
    let Some(alone) = median(&alone) else { return Ok(Looked::default()) };
    // Most of a stage's time may be gone: what is left is shared by what is still to come.
    let most = Duration::from_nanos(bench.left().as_nanos() / 4);
    let mut seen = watched(bench, TIME_QUICK.min(most), COMMANDS_MAX, &mut places)?;
    let absent = absent_percent(bench);
    let mut limit = bend(&seen).or_else(|| waiting(&seen, (alone, absent)));
    if limit.is_none() && !bench.budget().quick {
        // A larger bucket takes longer to empty.
        let spent =
            seen.done.last().map_or(Duration::ZERO, |last| last.completed.since(seen.began));
        let (more, left) = (TIME.min(most).saturating_sub(spent), COMMANDS_MAX - seen.done.len());
        seen.done.extend(watched(bench, more, left, &mut places)?.done);
        limit = bend(&seen).or_else(|| waiting(&seen, (alone, absent)));
    }
    if limit.is_none() && seen.done.len() >= COMMANDS_MAX {
        bench.findings.add_note(format!(
            "no limit seen within {COMMANDS_MAX} commands of {} in a row, {alone} each alone",
            len.bytes()
        ));
    }
    if let Some(bent) = limit.filter(|bent| bent.burst > 0)
        && !refills(bench, &bent, &mut places)?
    {
        limit = None;
    }
    Ok(Looked { limit, pace: pace(&seen) })
}

/// Under load for so long, or for so many commands: those that a full bucket lets through while it is looked at are not
/// without end.
fn watched(
    bench: &mut Bench<'_>,
    time: Duration,
    commands: usize,
    places: &mut Addresses,
) -> Result<Loaded, StopReason> {
    let mut seen: Loaded = read(bench, DEPTH, Until { time, commands }, places)?;
    seen.done.sort_unstable_by_key(|done| done.completed);
    Ok(seen)
}

/// Whether a rest brings back what was given while it lasted.
fn refills(bench: &mut Bench<'_>, bent: &Bent, places: &mut Addresses) -> Result<bool, StopReason> {
    let nanos =
        |commands: u64| u128::from(commands) * NANOS * 1_000 / u128::from(bent.later.max(1));
    let time = u128::from(FILL.as_nanos()).min(nanos(bent.burst));
    let given = time * u128::from(bent.later) / NANOS / 1_000;
    let time = Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX));
    let commands = usize::try_from(given).unwrap_or(COMMANDS_MAX).clamp(1, COMMANDS_MAX);
    rest(bench, time)?;
    let again = watched(bench, time * 2, commands, places)?;
    let Some(last) = again.done.last() else { return Ok(false) };
    let took = u128::from(last.completed.since(again.began).as_nanos());
    let had = again.done.len() == commands;
    Ok(had && took * 100 <= u128::from(time.as_nanos()) * REFILLED_PERCENT)
}

/// What ended in the later half of the time.
fn later_half(seen: &Loaded) -> &[Completion] {
    let Some(last) = seen.done.last() else { return &[] };
    let middle = seen.began + Duration::from_nanos(last.completed.since(seen.began).as_nanos() / 2);
    &seen.done[seen.done.partition_point(|done| done.completed < middle)..]
}

/// From the first to the last of them.
fn span(part: &[Completion]) -> Duration {
    let (Some(first), Some(last)) = (part.first(), part.last()) else { return Duration::ZERO };
    last.completed.since(first.completed)
}

/// The mean pace of the later half: what was saved up before is gone by then.
fn pace(seen: &Loaded) -> Option<Bent> {
    let late = later_half(seen);
    let samples = late.len().checked_sub(1).filter(|more| *more > 0)?;
    let nanos = u128::from(span(late).as_nanos());
    let later = u64::try_from((samples as u128 * NANOS * 1_000).checked_div(nanos)?).ok()?;
    Some(Bent { later, differ: later / 1_000, burst: 0, samples })
}

/// Whether nobody got ahead of the line in the later half: a host that is slow now and fast then does.
fn keeps_to_its_line(seen: &Loaded) -> bool {
    let late = later_half(seen);
    let stretch = STRETCH.min(late.len() / 4);
    // Those that waited together may end together.
    let Some(alone) = stretch.checked_sub(DEPTH as usize).filter(|alone| *alone > 0) else {
        return true;
    };
    let fastest = late.windows(stretch).map(span).min().unwrap_or(Duration::ZERO);
    let foretold = u128::from(span(late).as_nanos()) * alone as u128 / (late.len() - 1) as u128;
    u128::from(fastest.as_nanos()) * AHEAD_PERCENT >= foretold * 100
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
    // Commands that waited together end together, in this part or in the next one.
    let together = 2 + u64::from(DEPTH).min(mean);
    let unsteady = (most - least).saturating_sub(together) * 100 > mean * STEADY_PERCENT;
    if mean == 0 || unsteady || !keeps_to_its_line(seen) {
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
/// alone, also without the time for which its host was kept from asking, a percentage.
fn waiting(seen: &Loaded, (alone, absent): (Duration, u64)) -> Option<Bent> {
    let interval = seen.interval()?;
    let present = Duration::from_nanos(interval.as_nanos() / 100 * 100_u64.saturating_sub(absent));
    if present <= alone * 2 || interval == Duration::ZERO || !keeps_to_its_line(seen) {
        return None;
    }
    pace(seen)
}

/// Whether commands of all lengths come at one rate, at two depths, counted or in bytes.
fn alike(bench: &mut Bench<'_>) -> Result<Option<RateLimit>, StopReason> {
    let facts = *bench.facts();
    let depth_max = bench.depth_max();
    let absent = absent_percent(bench);
    let mut all = Vec::new();
    for depth in [depth_max / 2, depth_max] {
        for len in ALIKE {
            if depth == 0 || facts.sectors.0 < len.0 * u64::from(depth) {
                return Ok(None);
            }
            let mut places =
                Addresses::new(AccessPattern::Random, len, facts.sectors, u64::from(depth));
            let until = Until { time: ALIKE_TIME, commands: COMMANDS_MAX };
            let mut seen = read(bench, depth, until, &mut places)?;
            if seen.done.len() < ALIKE_FEW {
                // Of a few those that end together say too much.
                let until = Until { time: ALIKE_TIME_FEW, commands: ALIKE_FEW };
                seen = read(bench, depth, until, &mut places)?;
            }
            let Some(interval) = seen.interval() else { return Ok(None) };
            all.push((interval.as_nanos(), seen.done.len(), len.0 / SHORT.0));
        }
    }
    let samples = all.iter().map(|(_, count, _)| count).sum();
    let fewest = all.iter().map(|(_, count, _)| *count as u64).min().unwrap_or(1).max(1);
    // A host that is kept from asking treats all lengths nearly alike: there as much as possible is asked for.
    let few = if absent > ABSENT_MAX { 0 } else { 1_000 * u64::from(depth_max) / 2 / fewest };
    let thousandths = ALIKE_THOUSANDTHS + few.min(ALIKE_THOUSANDTHS_MORE);
    let one_rate = |intervals: Vec<u64>| {
        let (least, most) = (*intervals.iter().min()?, *intervals.iter().max()?);
        if least == 0 || (most - least) * 1_000 > most * thousandths {
            return None;
        }
        let mean = intervals.iter().sum::<u64>() / intervals.len() as u64;
        let later = u64::try_from(NANOS * 1_000 / u128::from(mean)).unwrap_or(u64::MAX);
        let differ = later / 1_000 * (most - least) / most;
        Some(Bent { later, differ: differ * 1_000, burst: 0, samples })
    };
    let commands = one_rate(all.iter().map(|(interval, _, _)| *interval).collect());
    let bytes = one_rate(all.iter().map(|(interval, _, times)| interval / times).collect());
    Ok(commands.map(of_commands).or_else(|| bytes.map(|bytes| of_bytes(bytes, SHORT))))
}
