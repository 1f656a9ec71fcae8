//! Writes: the write buffer, the latency of reads during writes, and the time of flushes. Only
//! where writing is allowed.

use units::{Duration, Op, Operation, Sectors, Share};

use crate::bench::{Bench, StopReason};
use crate::throughput::load::{Addresses, Loaded, Until, load, read, rest};
use crate::throughput::service_times::{confidence, mean, mean_without_outliers, quantile};
use drive_profile::findings::{AccessPattern, Figure, FlushTime, ReadsDuringWrites};

/// The lengths of writes that fill the buffer, and of single reads and writes.
const STREAM: Sectors = Sectors(512);
const BLOCK: Sectors = Sectors(8);
const STREAM_DEPTH: u32 = 4;
/// The most bytes written in search of a buffer.
const FILL_MAX: u64 = 8 << 30;
const FILL_TIME: Duration = Duration::from_secs(20);
const FILL_TIME_QUICK: Duration = Duration::from_secs(4);
const BESIDE_TIME: Duration = Duration::from_secs(3);
const BESIDE_TIME_QUICK: Duration = Duration::from_millis(700);
/// The idle time in which a drive empties its buffer.
const REST: Duration = Duration::from_secs(1);
/// The intervals in which the rate of writes is computed.
const PARTS: usize = 40;
/// The numbers of writes before a timed flush.
const UNFLUSHED: [u32; 4] = [0, 1, 8, 32];
const FLUSHES: usize = 12;
const FLUSHES_QUICK: usize = 4;

/// Fills the buffer, if there is one: random writes until they slow down.
///
/// # Errors
/// As [`Bench::check`].
pub(crate) fn buffer(bench: &mut Bench<'_>) -> Result<(), StopReason> {
    let facts = *bench.facts();
    if facts.sectors.0 < STREAM.0 * 64 {
        return Ok(());
    }
    rest(bench, REST)?;
    let quick = bench.budget().quick;
    let time = if quick { FILL_TIME_QUICK } else { FILL_TIME };
    let commands = usize::try_from(FILL_MAX / STREAM.bytes().0).unwrap_or(usize::MAX);
    // The writes are scattered: a drive may store sequential writes as fast as they arrive, but not
    // scattered ones.
    let mut addresses = Addresses::new(AccessPattern::Random, STREAM, facts.sectors, 3);
    let until = Until { time, commands };
    let seen = load(bench, STREAM_DEPTH, until, || Operation::write(addresses.take()))?;
    let held = buffer_size(&seen);
    if held.is_none() {
        let written = units::Bytes(STREAM.bytes().0.saturating_mul(seen.done.len() as u64));
        bench.findings.add_note(format!(
            "no write buffer found: the rate of writes stayed constant for {written}"
        ));
    }
    bench.findings.flash.write_buffer = held;
    Ok(())
}

/// The size of the buffer, if writes slow down to below two thirds of their first rate: the amount
/// written until then, less the amount stored meanwhile.
fn buffer_size(seen: &Loaded) -> Option<Figure<Sectors>> {
    let each = seen.done.len() / PARTS;
    if each == 0 {
        return None;
    }
    let pace = |part: &[crate::target::Completion]| {
        let (first, last) = (part.first()?, part.last()?);
        let count = part.len() as u64;
        Some(last.completed.saturating_since(first.completed).as_nanos() / count.max(1))
    };
    let paces: Vec<u64> = seen.done.chunks_exact(each).filter_map(pace).collect();
    let (head, tail) = paces.split_at(paces.len() / 2);
    let fast = *head.iter().min()?;
    let late = tail.iter().sum::<u64>() / tail.len().max(1) as u64;
    if fast == 0 || late * 2 < fast * 3 {
        return None;
    }
    let middle = u64::midpoint(fast, late);
    let bend = paces.iter().position(|pace| *pace > middle)?;
    let written = (bend * each) as u64;
    // Data arrives at 1/fast and leaves at 1/late.
    let held = written * STREAM.0 * (late - fast) / late;
    let step = each as u64 * STREAM.0;
    let samples = u32::try_from(written).unwrap_or(u32::MAX);
    let confidence = confidence(bend * each);
    Some(Figure { value: Sectors(held), spread: Sectors(step), samples, confidence })
}

/// Times reads alone, and during writes.
///
/// # Errors
/// As [`Bench::check`].
pub(crate) fn during_writes(bench: &mut Bench<'_>) -> Result<(), StopReason> {
    let facts = *bench.facts();
    if facts.sectors.0 < STREAM.0 * 64 || bench.depth_max() < STREAM_DEPTH + 1 {
        return Ok(());
    }
    rest(bench, REST)?;
    let quick = bench.budget().quick;
    let time = if quick { BESIDE_TIME_QUICK } else { BESIDE_TIME };
    let until = Until { time, commands: usize::MAX };
    let mut reads = Addresses::new(AccessPattern::Random, BLOCK.max(facts.block), facts.sectors, 5);
    let alone = read(bench, 1, until, &mut reads)?.latencies();
    let latencies = mixed(bench, time)?;
    let both = (
        mean_without_outliers(&alone),
        mean(&latencies),
        quantile(&latencies, Share::from_percent(99)),
    );
    if let (Some(alone), Some(mean), Some(p99)) = both {
        let max = latencies.into_iter().max().expect("there is one");
        bench.findings.flash.reads_during_writes =
            Some(ReadsDuringWrites { alone, mean, p99, max });
    }
    Ok(())
}

/// The latencies of one read at a time during a stream of writes.
fn mixed(bench: &mut Bench<'_>, time: Duration) -> Result<Vec<Duration>, StopReason> {
    let facts = *bench.facts();
    let mut reads = Addresses::new(AccessPattern::Random, BLOCK.max(facts.block), facts.sectors, 7);
    let mut writes = Addresses::new(AccessPattern::Sequential, STREAM, facts.sectors, 9);
    let end = bench.now() + time;
    let mut latencies = Vec::new();
    let mut reading = None;
    loop {
        let operation = if reading.is_none() {
            Operation::read(reads.take())
        } else if bench.outstanding() <= STREAM_DEPTH {
            Operation::write(writes.take())
        } else {
            let done = bench.complete();
            if reading == Some(done.tag) {
                reading = None;
                latencies.push(done.completed.since(done.submitted));
                if done.completed >= end {
                    bench.drain();
                    return Ok(latencies);
                }
            }
            continue;
        };
        let (tag, _) = bench.submit(operation).inspect_err(|_| bench.drain())?;
        if operation.op == Op::Read {
            reading = Some(tag);
        }
    }
}

/// Times flushes.
///
/// # Errors
/// As [`Bench::check`].
pub(crate) fn flushes(bench: &mut Bench<'_>) -> Result<(), StopReason> {
    let facts = *bench.facts();
    if !facts.flushes {
        return Ok(());
    }
    let times = if bench.budget().quick { FLUSHES_QUICK } else { FLUSHES };
    let mut addresses =
        Addresses::new(AccessPattern::Random, BLOCK.max(facts.block), facts.sectors, 11);
    let mut found = Vec::new();
    for writes in UNFLUSHED {
        let mut took = Vec::new();
        for _ in 0..times {
            for _ in 0..writes {
                bench.time(Operation::write(addresses.take()))?;
            }
            took.push(bench.time(Operation::flush())?.took());
        }
        found.extend(mean(&took).map(|time| FlushTime { writes, time }));
    }
    bench.findings.flash.flushes = found;
    Ok(())
}
