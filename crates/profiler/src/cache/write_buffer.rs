//! The drive's write buffer: whether writes complete before the data is on the media, its size, and
//! the cost of destaging.
//!
//! Scattered writes arrive faster than an arm can destage them: the first write that waits shows
//! the size. Firmware with a limited number of buffered writes waits earlier; there the longest
//! write that completes at bus speed shows the size.

use units::{Duration, Extent, Lba, Operation, Sectors, Share};

use crate::bench::StopReason;
use crate::cache::hit_timing::HitTime;
use crate::estimate::number::{duration, instant, instant_ns, mean, ns, real, round};
use crate::estimate::sequential_test::{SequentialTest, unit};
use crate::mechanics::prober::Prober;
use drive_profile::findings::Figure;
use drive_profile::findings::WriteBuffer;

/// Lengths of scattered writes, in units of 8 sectors: the first length that fills the buffer is
/// used.
const LENGTHS: [u64; 4] = [1, 8, 64, 256];
/// The most writes of a burst.
const BURST: u64 = 600;
/// A write that takes longer than a hit by this had to wait, in ns.
const WAITED: f64 = 2_000_000.0;
/// Bursts that fill the buffer, of a full and of a quick profile.
const BURSTS: [usize; 2] = [5, 1];
/// The share of a revolution before a buffered write's completion at which the write's end passes:
/// an unbuffered write completes most of a revolution later.
const PASSED: f64 = 1.0 / 4.0;
/// The relative precision of a length, inverted.
const FINE: u64 = 128;
/// The longest single write, 4 MiB.
const SINGLE_MAX: u64 = 8_192;
/// Writes before a flush, few and many.
const FLUSHED: [u64; 2] = [1, 17];
/// The repetitions of each.
const REPEATS: u32 = 5;

/// A burst of scattered writes.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// The writes that did not wait, and their time.
    taken: u64,
    took: f64,
    /// Whether the last write had to wait.
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

/// The additional time of a flush for each scattered write before it.
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

/// Whether a second of idle time destages as much as a flush.
fn when_idle(prober: &mut Prober<'_, '_>, each: Duration) -> Result<bool, StopReason> {
    settle(prober)?;
    scatter(prober, FLUSHED[1])?;
    let now = prober.bench.now();
    prober.bench.wait_until(now + Duration::from_secs(1));
    let took = prober.bench.time(Operation::flush())?.took();
    Ok(ns(took) < ns(each) * real(FLUSHED[1]) / 2.0)
}

/// The longest write that completes at bus speed.
///
/// An unbuffered write completes when its last sector passes. The write begins so that this is just
/// before its bus time is over: unbuffered it completes at least three quarters of a revolution
/// later.
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

/// All figures. `hits` is the service time of buffered writes, if there are any.
pub(crate) fn write_buffer(
    prober: &mut Prober<'_, '_>,
    hits: Option<&HitTime>,
) -> Result<WriteBuffer, StopReason> {
    let Some(hits) = hits else {
        return Ok(WriteBuffer {
            write_back: false,
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
    Ok(WriteBuffer { write_back: true, size, runs, destage: each, destages_when_idle })
}

/// The size, and the number of scattered writes if that limit is reached first.
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
            // As many writes of twice the length fit: their number is the limit.
            let runs = u32::try_from(once.taken.min(twice.taken)).unwrap_or(u32::MAX);
            let longest = single(prober, hits)?;
            let ended = longest.value < Sectors(SINGLE_MAX / 2);
            return Ok((ended.then_some(longest), Some(runs)));
        }
        return Ok((Some(size(prober, hits, (len, service), (once, took))?), None));
    }
    Ok((None, None))
}

/// The size, from a burst that filled the buffer, and from more bursts while there is time.
fn size(
    prober: &mut Prober<'_, '_>,
    hits: &HitTime,
    (len, service): (Sectors, f64),
    once: (Burst, Duration),
) -> Result<Figure<Sectors>, StopReason> {
    let bursts = BURSTS[usize::from(prober.bench.budget().quick)];
    // The writes that were destaged during the burst were not in the buffer at its end.
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
    // The last write may have been buffered in part.
    Ok(Figure {
        value: Sectors(round(mean)),
        spread: Sectors(round(known.max(real(len.0) / 2.0))),
        samples: u32::try_from(sizes.len()).unwrap_or(u32::MAX),
        confidence: Share::from_percent(90),
    })
}
