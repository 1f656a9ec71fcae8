//! Whether a device has a rate limit: a token bucket, as cloud block storage uses.
//!
//! A token bucket passes a burst and then a constant rate: after a time t, a bucket of b tokens
//! with a fill rate of r has passed b + r·t commands (or bytes). It has three signatures:
//!
//! - *A burst.* Under constant load the rate falls below two thirds of its start and stays there.
//!   The line through the later completions meets the start at b. Rotating disks and flash do not
//!   read faster after idle time.
//! - *A wait that the device does not cause.* Alone and after idle time it completes in l. Back to
//!   back, at any queue depth, it completes less than one command in 2·l. An unlimited device
//!   completes one in l.
//! - *One rate for all lengths.* Commands of 4, 16 and 64 KiB at two queue depths have the same
//!   rate within one to a few per cent, in commands or in bytes. A device that transfers data
//!   completes fewer long commands than short ones, and fewer bytes in short commands than in long
//!   ones.
//!
//! A loaded host slows all commands down too, and makes the time before look like a burst. Three
//! properties distinguish a token bucket, which never exceeds its rate after the burst and fills
//! during idle time: the fastest interval does not exceed the mean rate, idle time restores a
//! burst, and the wait is not explained by the host's missing processor time.
//!
//! Rate limits are measured first, on an idle device: all later reads would have used tokens.

use units::{Bytes, Duration, Instant, Sectors};

use crate::bench::{Bench, StopReason};
use crate::target::Completion;
use crate::throughput::load::{Addresses, Loaded, Until, missing_processor_percent, read, rest};
use crate::throughput::service_times::{confidence, median};
use drive_profile::findings::{AccessPattern, Figure, LimitedQuantity, RateLimit};

/// The lengths that distinguish a limit of commands from one of bytes.
const SHORT: Sectors = Sectors(8);
const LONG: Sectors = Sectors(512);
/// Lengths with the same rate only under a limit, of commands or of bytes.
const LENGTHS: [Sectors; 3] = [Sectors(8), Sectors(32), Sectors(128)];
/// The most difference of their rates, in thousandths, and the addition where few commands
/// completed.
const ALIKE_THOUSANDTHS: u64 = 10;
const ALIKE_THOUSANDTHS_MORE: u64 = 40;
/// Fewer commands than this are timed for longer.
const ALIKE_FEW: usize = 1_000;
const ALIKE_TIME_FEW: Duration = Duration::from_millis(700);
/// The highest share of missing processor time, in per cent, at which rates are conclusive.
const MISSING_MAX: u64 = 30;
/// The longest burst that is observable.
const TIME: Duration = Duration::from_secs(40);
const TIME_QUICK: Duration = Duration::from_secs(8);
const ALIKE_TIME: Duration = Duration::from_millis(300);
const COMMANDS_MAX: usize = 400_000;
/// The idle time before single commands are timed.
const REST: Duration = Duration::from_millis(500);
const ALONE: usize = 5;
/// The number of intervals that completions are counted in.
const PARTS: usize = 32;
/// The most difference between the rates of intervals of one rate.
const STEADY_PERCENT: u64 = 10;
const DEPTH: u32 = 32;
/// The length of an interval, in commands, that may not exceed the mean rate, except for commands
/// that waited and complete together.
const STRETCH: usize = 4 * DEPTH as usize;
/// The tolerance of that comparison, in per cent.
const AHEAD_PERCENT: u128 = 130;
/// The most additional tolerance for few commands, in per cent.
const UNSURE_PERCENT_MAX: u64 = 60;
/// The idle time in which a bucket is observed to fill.
const FILL: Duration = Duration::from_millis(1_500);
/// The longest time for the restored tokens, in per cent of the time at the later rate.
const REFILLED_PERCENT: u128 = 75;
const NANOS: u128 = 1_000_000_000;

/// A burst, and the rate after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BurstAndRate {
    /// Commands per second after the burst, in thousandths.
    later: u64,
    /// The standard error of that rate, in thousandths of a command per second.
    differ: u64,
    burst: u64,
    samples: usize,
}

/// Looks for a token bucket, with short and with long commands.
///
/// # Errors
/// As [`Bench::check`].
pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), StopReason> {
    let short = load_and_fit(bench, SHORT)?;
    let long = load_and_fit(bench, LONG)?;
    let limits = match (short.limit, long.limit) {
        (Some(short), Some(long)) => combine(short, long),
        // A less certain rate of the other length suffices to find the limited quantity.
        (Some(short), None) => match long.pace {
            Some(long) if equal_in_bytes(&short, &long) => vec![of_bytes(short, SHORT)],
            _ => vec![of_commands(short)],
        },
        (None, Some(long)) => match short.pace {
            Some(short) if equal_in_commands(&short, &long) => vec![of_commands(long)],
            _ => vec![of_bytes(long, LONG)],
        },
        (None, None) => equal_rates(bench)?.into_iter().collect(),
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

/// Whether two rates are equal in commands, within a tenth and the error of few commands.
fn equal_in_commands(one: &BurstAndRate, other: &BurstAndRate) -> bool {
    let few = one.samples.min(other.samples).max(1);
    let percent = 10 + (100 * u64::from(DEPTH) / few as u64).min(UNSURE_PERCENT_MAX);
    one.later.abs_diff(other.later).saturating_mul(100) <= one.later.max(other.later) * percent
}

/// Whether a short and a long command's rates are equal in bytes.
fn equal_in_bytes(short: &BurstAndRate, long: &BurstAndRate) -> bool {
    equal_in_commands(
        short,
        &BurstAndRate { later: long.later.saturating_mul(LONG.0 / SHORT.0), ..*long },
    )
}

/// The limits if short and long commands are limited: one bucket of commands, one of bytes, or one
/// of each.
fn combine(short: BurstAndRate, long: BurstAndRate) -> Vec<RateLimit> {
    let times = LONG.0 / SHORT.0;
    // The length that was measured first had more of the burst left.
    if equal_in_commands(&short, &long) {
        vec![of_commands(BurstAndRate { burst: short.burst.max(long.burst), ..short })]
    } else if equal_in_bytes(&short, &long) {
        // Many short commands determine the rate better than a few long ones.
        vec![if short.samples > long.samples {
            of_bytes(BurstAndRate { burst: short.burst.max(long.burst * times), ..short }, SHORT)
        } else {
            of_bytes(BurstAndRate { burst: long.burst.max(short.burst / times), ..long }, LONG)
        }]
    } else {
        vec![of_commands(short), of_bytes(long, LONG)]
    }
}

fn of_commands(burst_and_rate: BurstAndRate) -> RateLimit {
    figures(LimitedQuantity::Commands, burst_and_rate, 1)
}

fn of_bytes(burst_and_rate: BurstAndRate, each: Sectors) -> RateLimit {
    figures(LimitedQuantity::Bytes, burst_and_rate, each.bytes().0)
}

fn figures(of: LimitedQuantity, burst_and_rate: BurstAndRate, each: u64) -> RateLimit {
    let samples = u32::try_from(burst_and_rate.samples).unwrap_or(u32::MAX);
    let confidence = confidence(burst_and_rate.samples);
    let per_second = |thousandths: u64| {
        let exact = u128::from(thousandths) * u128::from(each) / 1_000;
        u64::try_from(exact).unwrap_or(u64::MAX)
    };
    let value = per_second(burst_and_rate.later);
    let figure = |value, spread| Figure { value, spread, samples, confidence };
    let burst = burst_and_rate.burst.saturating_mul(each);
    // The burst has the relative error of the rate.
    let off = u128::from(burst) * u128::from(burst_and_rate.differ)
        / u128::from(burst_and_rate.later.max(1));
    let off = u64::try_from(off).unwrap_or(u64::MAX);
    RateLimit {
        of,
        per_second: figure(value, per_second(burst_and_rate.differ)),
        burst: figure(burst, off),
    }
}

/// The result for commands of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LoadResult {
    limit: Option<BurstAndRate>,
    /// The final rate, limited or not.
    pace: Option<BurstAndRate>,
}

/// Loads the device with commands of `len` until a burst would be over, and fits the rate.
fn load_and_fit(bench: &mut Bench<'_>, len: Sectors) -> Result<LoadResult, StopReason> {
    let facts = *bench.facts();
    if !len.0.is_multiple_of(facts.block.0) || facts.sectors.0 < len.0 * u64::from(DEPTH) {
        return Ok(LoadResult::default());
    }
    let mut addresses = Addresses::new(AccessPattern::Random, len, facts.sectors, len.0);
    let mut alone = Vec::new();
    for _ in 0..ALONE {
        rest(bench, REST / ALONE as u64)?;
        let one = Until { time: Duration::MAX, commands: 1 };
        alone.extend(read(bench, 1, one, &mut addresses)?.latencies());
    }
    let Some(alone) = median(&alone) else { return Ok(LoadResult::default()) };
    // A stage may have used most of its time: the rest is shared by the remaining loads.
    let most = Duration::from_nanos(bench.left().as_nanos() / 4);
    let mut seen = load_for(bench, TIME_QUICK.min(most), COMMANDS_MAX, &mut addresses)?;
    let missing = missing_processor_percent(bench);
    let mut limit = fit_burst(&seen).or_else(|| find_wait(&seen, (alone, missing)));
    if limit.is_none() && !bench.budget().quick {
        // A larger bucket takes longer to drain.
        let spent =
            seen.done.last().map_or(Duration::ZERO, |last| last.completed.since(seen.began));
        let (more, left) = (TIME.min(most).saturating_sub(spent), COMMANDS_MAX - seen.done.len());
        seen.done.extend(load_for(bench, more, left, &mut addresses)?.done);
        limit = fit_burst(&seen).or_else(|| find_wait(&seen, (alone, missing)));
    }
    if limit.is_none() && seen.done.len() >= COMMANDS_MAX {
        bench.findings.add_note(format!(
            "no limit seen within {COMMANDS_MAX} commands of {} in a row, {alone} each alone",
            len.bytes()
        ));
    }
    if let Some(burst_and_rate) = limit.filter(|burst_and_rate| burst_and_rate.burst > 0)
        && !refills(bench, &burst_and_rate, &mut addresses)?
    {
        limit = None;
    }
    Ok(LoadResult { limit, pace: later_rate(&seen) })
}

/// Loads the device for a time, or for a number of commands: a full bucket passes a bounded number
/// while it is observed.
fn load_for(
    bench: &mut Bench<'_>,
    time: Duration,
    commands: usize,
    addresses: &mut Addresses,
) -> Result<Loaded, StopReason> {
    let mut seen: Loaded = read(bench, DEPTH, Until { time, commands }, addresses)?;
    seen.done.sort_unstable_by_key(|done| done.completed);
    Ok(seen)
}

/// Whether idle time restores the tokens of that time.
fn refills(
    bench: &mut Bench<'_>,
    burst_and_rate: &BurstAndRate,
    addresses: &mut Addresses,
) -> Result<bool, StopReason> {
    let nanos = |commands: u64| {
        u128::from(commands) * NANOS * 1_000 / u128::from(burst_and_rate.later.max(1))
    };
    let time = u128::from(FILL.as_nanos()).min(nanos(burst_and_rate.burst));
    let given = time * u128::from(burst_and_rate.later) / NANOS / 1_000;
    let time = Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX));
    let commands = usize::try_from(given).unwrap_or(COMMANDS_MAX).clamp(1, COMMANDS_MAX);
    rest(bench, time)?;
    let again = load_for(bench, time * 2, commands, addresses)?;
    let Some(last) = again.done.last() else { return Ok(false) };
    let took = u128::from(last.completed.since(again.began).as_nanos());
    let had = again.done.len() == commands;
    Ok(had && took * 100 <= u128::from(time.as_nanos()) * REFILLED_PERCENT)
}

/// The completions in the later half of the time.
fn later_half(seen: &Loaded) -> &[Completion] {
    let Some(last) = seen.done.last() else { return &[] };
    let middle = seen.began + Duration::from_nanos(last.completed.since(seen.began).as_nanos() / 2);
    &seen.done[seen.done.partition_point(|done| done.completed < middle)..]
}

/// The time from the first to the last completion.
fn span(part: &[Completion]) -> Duration {
    let (Some(first), Some(last)) = (part.first(), part.last()) else { return Duration::ZERO };
    last.completed.since(first.completed)
}

/// The mean rate of the later half, when the burst is over.
fn later_rate(seen: &Loaded) -> Option<BurstAndRate> {
    let late = later_half(seen);
    let samples = late.len().checked_sub(1).filter(|more| *more > 0)?;
    let nanos = u128::from(span(late).as_nanos());
    let later = u64::try_from((samples as u128 * NANOS * 1_000).checked_div(nanos)?).ok()?;
    Some(BurstAndRate { later, differ: later / 1_000, burst: 0, samples })
}

/// Whether no interval of the later half exceeds the mean rate: on a host with varying load some
/// do.
fn keeps_to_rate(seen: &Loaded) -> bool {
    let late = later_half(seen);
    let stretch = STRETCH.min(late.len() / 4);
    // Commands that waited together may complete together.
    let Some(alone) = stretch.checked_sub(DEPTH as usize).filter(|alone| *alone > 0) else {
        return true;
    };
    let fastest = late.windows(stretch).map(span).min().unwrap_or(Duration::ZERO);
    let predicted = u128::from(span(late).as_nanos()) * alone as u128 / (late.len() - 1) as u128;
    u128::from(fastest.as_nanos()) * AHEAD_PERCENT >= predicted * 100
}

/// The burst and the later rate, if the load had a burst.
fn fit_burst(seen: &Loaded) -> Option<BurstAndRate> {
    let ends: Vec<Instant> = seen.done.iter().map(|done| done.completed).collect();
    let (first, last) = (seen.began, *ends.last()?);
    let span = last.since(first).as_nanos();
    if ends.len() < PARTS || span == 0 {
        return None;
    }
    // The completions in each of equal intervals of the time.
    let mut parts = [0_u64; PARTS];
    for end in &ends {
        let part = u128::from(end.since(first).as_nanos()) * PARTS as u128 / u128::from(span);
        let part = usize::try_from(part).unwrap_or(PARTS).min(PARTS - 1);
        parts[part] += 1;
    }
    // The later half is constant, and the beginning was at least 1.5 times as fast.
    let late = &parts[PARTS / 2..];
    let (least, most) = (*late.iter().min()?, *late.iter().max()?);
    let mean = late.iter().sum::<u64>() / late.len() as u64;
    // Commands that waited together complete together, in this interval or the next.
    let together = 2 + u64::from(DEPTH).min(mean);
    let unsteady = (most - least).saturating_sub(together) * 100 > mean * STEADY_PERCENT;
    if mean == 0 || unsteady || !keeps_to_rate(seen) {
        return None;
    }
    let from = first + Duration::from_nanos(span / 2);
    let behind = ends.partition_point(|end| *end < from);
    let (from, count) = (*ends.get(behind)?, ends.len() - 1 - behind);
    let later = u128::try_from(count).ok()? * NANOS * 1_000
        / u128::from(last.since(from).as_nanos().max(1));
    // All completions, less those at the later rate over the whole time.
    let given = later * u128::from(span) / NANOS / 1_000;
    let burst = u64::try_from(u128::try_from(ends.len()).ok()?.saturating_sub(given)).ok()?;
    let later = u64::try_from(later).ok()?;
    let part_seconds = span / PARTS as u64;
    let fastest = u128::from(parts[0]) * NANOS * 1_000 / u128::from(part_seconds.max(1));
    let enough = burst > 4 * u64::from(DEPTH) || burst * 20 > ends.len() as u64;
    let faster = fastest * 2 >= u128::from(later) * 3;
    let differ = later / 1_000 * (most - least) / mean.max(1) / 4;
    (enough && faster).then_some(BurstAndRate { later, differ, burst, samples: count })
}

/// Whether commands wait for something beside the device: back to back it completes less than one
/// in twice the time of a single command, even without `missing` per cent of the time, in which the
/// host did not run.
fn find_wait(seen: &Loaded, (alone, missing): (Duration, u64)) -> Option<BurstAndRate> {
    let interval = seen.interval()?;
    let present = Duration::from_nanos(interval.as_nanos() / 100 * 100_u64.saturating_sub(missing));
    if present <= alone * 2 || interval == Duration::ZERO || !keeps_to_rate(seen) {
        return None;
    }
    later_rate(seen)
}

/// Whether commands of all lengths have one rate at two queue depths, in commands or in bytes.
fn equal_rates(bench: &mut Bench<'_>) -> Result<Option<RateLimit>, StopReason> {
    let facts = *bench.facts();
    let depth_max = bench.depth_max();
    let missing = missing_processor_percent(bench);
    let mut all = Vec::new();
    for depth in [depth_max / 2, depth_max] {
        for len in LENGTHS {
            if depth == 0 || facts.sectors.0 < len.0 * u64::from(depth) {
                return Ok(None);
            }
            let mut addresses =
                Addresses::new(AccessPattern::Random, len, facts.sectors, u64::from(depth));
            let until = Until { time: ALIKE_TIME, commands: COMMANDS_MAX };
            let mut seen = read(bench, depth, until, &mut addresses)?;
            if seen.done.len() < ALIKE_FEW {
                // Of a few commands, those that complete together weigh too much.
                let until = Until { time: ALIKE_TIME_FEW, commands: ALIKE_FEW };
                seen = read(bench, depth, until, &mut addresses)?;
            }
            let Some(interval) = seen.interval() else { return Ok(None) };
            all.push((interval.as_nanos(), seen.done.len(), len.0 / SHORT.0));
        }
    }
    let samples = all.iter().map(|(_, count, _)| count).sum();
    let fewest = all.iter().map(|(_, count, _)| *count as u64).min().unwrap_or(1).max(1);
    // A host without processor time treats all lengths nearly alike: the strictest limit applies.
    let few = if missing > MISSING_MAX { 0 } else { 1_000 * u64::from(depth_max) / 2 / fewest };
    let thousandths = ALIKE_THOUSANDTHS + few.min(ALIKE_THOUSANDTHS_MORE);
    let one_rate = |intervals: Vec<u64>| {
        let (least, most) = (*intervals.iter().min()?, *intervals.iter().max()?);
        if least == 0 || (most - least) * 1_000 > most * thousandths {
            return None;
        }
        let mean = intervals.iter().sum::<u64>() / intervals.len() as u64;
        let later = u64::try_from(NANOS * 1_000 / u128::from(mean)).unwrap_or(u64::MAX);
        let differ = later / 1_000 * (most - least) / most;
        Some(BurstAndRate { later, differ: differ * 1_000, burst: 0, samples })
    };
    let commands = one_rate(all.iter().map(|(interval, _, _)| *interval).collect());
    let bytes = one_rate(all.iter().map(|(interval, _, times)| interval / times).collect());
    Ok(commands.map(of_commands).or_else(|| bytes.map(|bytes| of_bytes(bytes, SHORT))))
}
