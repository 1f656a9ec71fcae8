//! Throughput and latency against length and queue depth.

use units::{Duration, Op, Operation, Sectors, Share};

use crate::bench::{Bench, StopReason};
use crate::throughput::load::{Addresses, Until, load};
use crate::throughput::service_times::{
    confidence, is_outlier, mean_without_outliers, median, quantile,
};
use drive_profile::findings::{AccessPattern, Figure, OutlierReason, Rate};

/// The lengths.
const LENGTHS: [Sectors; 5] = [Sectors(8), Sectors(32), Sectors(128), Sectors(512), Sectors(2_048)];
/// The queue depths.
const DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// The time of each combination.
const TIME: Duration = Duration::from_millis(600);
const TIME_QUICK: Duration = Duration::from_millis(150);
/// The least number of commands, whatever time they take.
const COMMANDS_MIN: usize = 8;
const COMMANDS_MAX: usize = 20_000;

/// Measures every length at every depth that the drive supports, and stores the results in the
/// findings.
///
/// # Errors
/// As [`Bench::check`].
pub(crate) fn measure(bench: &mut Bench<'_>, op: Op) -> Result<(), StopReason> {
    let depth_max = bench.depth_max();
    for access in [AccessPattern::Random, AccessPattern::Sequential] {
        for len in LENGTHS {
            for depth in DEPTHS.into_iter().filter(|depth| *depth <= depth_max) {
                // Sequential reads gain little from intermediate depths.
                if access == AccessPattern::Sequential && !matches!(depth, 1 | 8) {
                    continue;
                }
                if let Some(rate) = point(bench, op, access, len, depth)? {
                    let rates = &mut bench.findings.flash.rates;
                    let same = |known: &Rate| {
                        (known.op, known.access, known.len, known.depth) == (op, access, len, depth)
                    };
                    rates.retain(|known| !same(known));
                    rates.push(rate);
                }
            }
        }
    }
    Ok(())
}

fn point(
    bench: &mut Bench<'_>,
    op: Op,
    access: AccessPattern,
    len: Sectors,
    depth: u32,
) -> Result<Option<Rate>, StopReason> {
    let block = bench.facts().block;
    if !len.0.is_multiple_of(block.0) || len.0 * u64::from(depth) > bench.facts().sectors.0 {
        return Ok(None);
    }
    let stream = (len.0 << 8) | u64::from(depth);
    let mut addresses = Addresses::new(access, len, bench.facts().sectors, stream);
    let time = if bench.budget().quick { TIME_QUICK } else { TIME };
    let commands = COMMANDS_MAX.max(COMMANDS_MIN * depth as usize);
    let until = Until { time, commands };
    let loaded = load(bench, depth, until, || {
        let extent = addresses.take();
        if op == Op::Write { Operation::write(extent) } else { Operation::read(extent) }
    })?;
    let latencies = loaded.latencies();
    let (Some(interval), Some(middle)) = (loaded.interval(), median(&latencies)) else {
        return Ok(None);
    };
    for (done, lba) in loaded.done.iter().zip(&loaded.addresses) {
        if is_outlier(done.completed.since(done.submitted), middle) {
            bench.outlier(*lba, OutlierReason::Late);
        }
    }
    let (Some(latency), Some(latency_p99)) =
        (mean_without_outliers(&latencies), quantile(&latencies, Share::from_percent(99)))
    else {
        return Ok(None);
    };
    let samples = loaded.done.len();
    // The rate of a closed loop has the relative error of its latencies.
    let part = |spread: Duration, of: Duration| {
        let nanos = u128::from(interval.as_nanos()) * u128::from(spread.as_nanos());
        let nanos = nanos / u128::from(of.as_nanos().max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    let interval = Figure {
        value: interval,
        spread: part(latency.spread, latency.value),
        samples: u32::try_from(samples).unwrap_or(u32::MAX),
        confidence: confidence(samples),
    };
    let latency_max = latencies.into_iter().max().expect("there is one");
    Ok(Some(Rate { op, access, len, depth, interval, latency, latency_p99, latency_max }))
}
