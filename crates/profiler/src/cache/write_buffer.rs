//! The drive's memory for writes: whether it answers before data is on the disk, how much it takes, and what
//! getting rid of it costs.
//!
//! Scattered writes come faster than any arm can take them to where they belong: the one that has to wait tells how
//! much was taken. Firmware that takes a few runs at a time stops earlier; there, the longest write that is answered
//! as fast as the bus carries it tells.

use units::{Duration, Extent, Lba, Operation, Sectors, Share};

use crate::bench::StopReason;
use crate::cache::hit_timing::HitTime;
use crate::estimate::number::{duration, instant, instant_ns, mean, ns, real, round};
use crate::estimate::sequential_test::{SequentialTest, unit};
use crate::mechanics::prober::Prober;
use drive_profile::findings::Figure;
use drive_profile::findings::WriteBuffer;

/// Lengths of scattered writes, in blocks of 8 sectors: the first with which the buffer fills counts.
const LENGTHS: [u64; 4] = [1, 8, 64, 256];
/// Writes in a burst at most.
const BURST: u64 = 600;
/// A write that took so much longer than its like had to wait, in ns.
const WAITED: f64 = 2_000_000.0;
/// Bursts that fill memory, by default and at a glance.
const BURSTS: [usize; 2] = [5, 1];
/// Which part of a turn before memory would answer a long write its end passes: on the disk it ends most of a turn later.
const PASSED: f64 = 1.0 / 4.0;
/// Which part of a length is near enough.
const FINE: u64 = 128;
/// The longest single write, 4 MiB.
const SINGLE_MAX: u64 = 8_192;
/// Writes before a flush, few and many.
const FLUSHED: [u64; 2] = [1, 17];
/// How often each is done.
const REPEATS: u32 = 5;

/// A burst of scattered writes.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// Writes that did not wait, and how long they took.
    taken: u64,
    took: f64,
    /// Whether one waited in the end.
    waited: bool,
}

fn settle(prober: &mut Prober<'_, '_>) -> Result<(), StopReason> {
    prober.clear_head_position();
    if prober.bench.facts().flushes {
        prober.bench.time(Operation::flush())?;
    } else {
        let now = prober.bench.now();
        prober.bench.wait_until(now + Duration::from_secs(1));
    }
    Ok(())
}

fn burst(prober: &mut Prober<'_, '_>, hits: &HitTime, len: Sectors) -> Result<Burst, StopReason> {
    settle(prober)?;
    let began = instant_ns(prober.bench.now());
    for taken in 0..BURST {
        let extent = prober.random_extent(len);
        let took = ns(prober.bench.time(Operation::write(extent))?.took());
        if took > hits.time(len) + WAITED {
            let took = instant_ns(prober.bench.now()) - took - began;
            return Ok(Burst { taken, took, waited: true });
        }
    }
    Ok(Burst { taken: BURST, took: instant_ns(prober.bench.now()) - began, waited: false })
}

/// What one more scattered write costs a flush, and what the first does.
fn destage(prober: &mut Prober<'_, '_>) -> Result<Option<Figure<Duration>>, StopReason> {
    if !prober.bench.facts().flushes {
        return Ok(None);
    }
    let mut each = Vec::new();
    let repeats = if prober.bench.budget().quick { 2 } else { REPEATS };
    for _ in 0..repeats {
        let mut times = [0.0; 2];
        for (count, time) in FLUSHED.into_iter().zip(&mut times) {
            settle(prober)?;
            let began = instant_ns(prober.bench.now());
            scatter(prober, count)?;
            prober.bench.time(Operation::flush())?;
            *time = instant_ns(prober.bench.now()) - began;
        }
        each.push((times[1] - times[0]) / real(FLUSHED[1] - FLUSHED[0]));
    }
    let count = real(each.len() as u64);
    let mean = each.iter().sum::<f64>() / count;
    let square = each.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count;
    Ok(Some(Figure {
        value: duration(mean),
        spread: duration((square / count).sqrt()),
        samples: repeats,
        confidence: Share::from_percent(90),
    }))
}

fn scatter(prober: &mut Prober<'_, '_>, count: u64) -> Result<(), StopReason> {
    let len = Sectors(8.max(prober.block().0));
    for _ in 0..count {
        let extent = prober.random_extent(len);
        prober.bench.time(Operation::write(extent))?;
    }
    Ok(())
}

/// Whether a second of rest does what a flush would.
fn when_idle(prober: &mut Prober<'_, '_>, each: Duration) -> Result<bool, StopReason> {
    settle(prober)?;
    scatter(prober, FLUSHED[1])?;
    let now = prober.bench.now();
    prober.bench.wait_until(now + Duration::from_secs(1));
    let took = prober.bench.time(Operation::flush())?.took();
    Ok(ns(took) < ns(each) * real(FLUSHED[1]) / 2.0)
}

/// The longest write that is answered as fast as it comes over the bus.
///
/// One that goes to the disk ends when its last sector passes, and is begun so that this is just before the bus is done: it
/// ends three quarters of a turn later, if not more.
fn single(prober: &mut Prober<'_, '_>, hits: &HitTime) -> Result<Figure<Sectors>, StopReason> {
    let block = prober.block().0;
    let mut test = SequentialTest::new(prober.bench.budget().quick);
    let longest = test.largest(unit(block), (SINGLE_MAX, FINE), |len| {
        settle(prober)?;
        let away = prober.random_extent(Sectors(block));
        prober.bench.time(Operation::read(away))?;
        let extent = prober.random_extent(Sectors(len));
        let last = Extent::new(Lba(extent.end().0 - block), Sectors(block));
        let end = prober.end_on_map(last);
        let (bus, period) = (hits.time(extent.len), prober.rotation.period());
        let passes =
            prober.rotation.next(end, instant_ns(prober.bench.now()) + bus - PASSED * period);
        prober.bench.wait_until(instant(passes - bus + PASSED * period));
        let took = ns(prober.bench.time(Operation::write(extent))?.took());
        Ok(took - bus < period * (1.0 - PASSED) / 2.0)
    })?;
    let off = (unit(block) / 2).max(longest / FINE / 2).max(1);
    Ok(test.figure(Sectors(longest), Sectors(off)))
}

/// All of it. `hits` is what a write that is answered early takes; nothing where none is.
pub(crate) fn write_buffer(
    prober: &mut Prober<'_, '_>,
    hits: Option<&HitTime>,
) -> Result<WriteBuffer, StopReason> {
    let Some(hits) = hits else {
        return Ok(WriteBuffer {
            answers_early: false,
            size: None,
            runs: None,
            destage: None,
            destages_when_idle: false,
        });
    };
    let each = destage(prober)?;
    let destages_when_idle = match each {
        Some(each) => when_idle(prober, each.value)?,
        None => true,
    };
    let service = each.map_or(0.0, |each| ns(each.value)).max(prober.rotation.period() / 2.0);
    let (size, runs) = fill(prober, hits, service)?;
    Ok(WriteBuffer { answers_early: true, size, runs, destage: each, destages_when_idle })
}

/// How much it takes, and how many scattered writes if that is less.
fn fill(
    prober: &mut Prober<'_, '_>,
    hits: &HitTime,
    service: f64,
) -> Result<(Option<Figure<Sectors>>, Option<u32>), StopReason> {
    let unit = 8.max(prober.block().0);
    for length in LENGTHS {
        let len = Sectors(unit * length);
        let began = prober.bench.now();
        let once = burst(prober, hits, len)?;
        if !once.waited {
            continue;
        }
        let took = prober.bench.now().since(began);
        let twice = burst(prober, hits, Sectors(2 * len.0))?;
        if twice.waited && twice.taken * 4 > once.taken * 3 {
            // Twice as much in as many: it is their number that ends it.
            let runs = u32::try_from(once.taken.min(twice.taken)).unwrap_or(u32::MAX);
            let longest = single(prober, hits)?;
            let ended = longest.value < Sectors(SINGLE_MAX / 2);
            return Ok((ended.then_some(longest), Some(runs)));
        }
        return Ok((Some(size(prober, hits, (len, service), (once, took))?), None));
    }
    Ok((None, None))
}

/// How much memory takes, from a burst that filled it, and some more if there is time for them.
fn size(
    prober: &mut Prober<'_, '_>,
    hits: &HitTime,
    (len, service): (Sectors, f64),
    once: (Burst, Duration),
) -> Result<Figure<Sectors>, StopReason> {
    let bursts = BURSTS[usize::from(prober.bench.budget().quick)];
    // What the arm took away meanwhile was not in memory at the end.
    let gone = |burst: &Burst| (burst.took / service).min(real(burst.taken) / 2.0);
    let size = |burst: &Burst| real(len.0) * (real(burst.taken) - gone(burst));
    let (once, mut last) = once;
    let mut sizes = vec![size(&once)];
    while sizes.len() < bursts && prober.bench.left() > last + last {
        let began = prober.bench.now();
        match burst(prober, hits, len) {
            Err(StopReason::OutOfTime) => break,
            burst => sizes.push(size(&burst?)),
        }
        last = prober.bench.now().since(began);
    }
    let (mean, error) = mean(&sizes);
    let known = if sizes.len() > 1 { error } else { gone(&once) * real(len.0) / 2.0 };
    // The last of them may have been there in part.
    Ok(Figure {
        value: Sectors(round(mean)),
        spread: Sectors(round(known.max(real(len.0) / 2.0))),
        samples: u32::try_from(sizes.len()).unwrap_or(u32::MAX),
        confidence: Share::from_percent(90),
    })
}
