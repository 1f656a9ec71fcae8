//! Firmware policies for reads that no data sheet states: whether the drive serves a sector that is
//! about to pass in the same revolution, whether cached data stays after its first use, and the
//! share of a read that comes off the media before its bus transfer begins.

use units::{Angle, Duration, Extent, Lba, Operation, Sectors, Share};

use crate::bench::StopReason;
use crate::estimate::number::{duration, instant_ns, median, ns, real, round, round_u32};
use crate::mechanics::prober::Prober;
use drive_profile::findings::Figure;

/// The number of answers to a question.
const ANSWERS: u32 = 7;
/// The most attempts for each answer: some find the heads at an unsuitable place.
const TRIES: u32 = 4;
/// The least overhead before the arm moves, in ns, in which a sector passes for certain.
const OVERHEAD_LEAST: f64 = 250_000.0;
/// The time within that overhead at which the sector passes, as a share of it.
const PASSES: f64 = 0.8;
/// Reads for the share of a read that precedes its bus transfer.
const READS: u32 = 40;
/// The most sectors of such a read.
const LONGEST: u64 = 1_024;
/// The part of a track that such a read covers, inverted.
const TRACK_PART: u64 = 4;
/// The least delay after overlapping media and bus times that shows that the two do not overlap, as
/// a share of the shorter one.
const APART: f64 = 0.1;

/// Whether a read of a sector that is about to pass is served in the same revolution: a drive that
/// is reading ahead at that sector need not start a new read, and one that does misses a
/// revolution. `None` where that is not observable.
///
/// `base` is the time from a command to the first sector that can pass for it, in ns, and `ahead`
/// the length of the read-ahead.
///
pub(crate) fn serves_passing(
    prober: &mut Prober<'_, '_>,
    base: f64,
    ahead: Sectors,
) -> Result<Option<bool>, StopReason> {
    if base < OVERHEAD_LEAST {
        return Ok(None);
    }
    let (mut yes, mut no) = (0, 0);
    for _ in 0..TRIES * ANSWERS {
        if yes.max(no) > ANSWERS / 2 {
            break;
        }
        let Some(begun) = read_uncached(prober)? else { continue };
        let Some(track) = prober.track_of(begun.start) else { continue };
        let from = instant_ns(prober.bench.now()) + PASSES * base;
        let (extent, pass) = prober.first_from(&track, from);
        let on = begun.end().0..begun.end().0 + ahead.0.saturating_sub(extent.len.0);
        if !on.contains(&extent.start.0) || pass - from > base * (1.0 - PASSES) / 2.0 {
            continue;
        }
        let took = ns(prober.bench.time(Operation::read(extent))?.took());
        let served = took < base + prober.rotation.period() / 2.0;
        prober.clear_head_position();
        if served { yes += 1 } else { no += 1 }
    }
    Ok((yes + no > ANSWERS / 2).then_some(yes > no))
}

/// Reads an uncached block in the first half of a track. `None` if it was cached.
fn read_uncached(prober: &mut Prober<'_, '_>) -> Result<Option<Extent>, StopReason> {
    let block = prober.block().0;
    let random = prober.random_extent(Sectors(block));
    let Some(track) = prober.track_of(random.start) else { return Ok(None) };
    let into = round(prober.draw()[1] * real(track.lbas.len.0) / 2.0);
    let start = (track.lbas.start.0 + into).div_ceil(block) * block;
    let extent = Extent::new(Lba(start), Sectors(block));
    if extent.end() > track.lbas.end() {
        return Ok(None);
    }
    Ok(prober.read_block(extent)?.then_some(extent))
}

/// Whether data that was read from the cache stays cached.
pub(crate) fn keeps_after_use(prober: &mut Prober<'_, '_>) -> Result<Option<bool>, StopReason> {
    let (mut yes, mut no) = (0, 0);
    for _ in 0..TRIES * ANSWERS {
        if yes.max(no) > ANSWERS / 2 {
            break;
        }
        let Some(begun) = read_uncached(prober)? else { continue };
        let now = prober.bench.now();
        prober.bench.wait_until(now + duration(2.0 * prober.rotation.period()));
        let behind = Extent::new(begun.end(), begun.len);
        prober.clear_head_position();
        let first = ns(prober.bench.time(Operation::read(behind))?.took());
        let again = ns(prober.bench.time(Operation::read(behind))?.took());
        if first >= prober.hit_most {
            continue;
        }
        if again < prober.hit_most { yes += 1 } else { no += 1 }
    }
    Ok((yes + no > ANSWERS / 2).then_some(yes > no))
}

/// The share of a read that comes off the media before its bus transfer begins, where the two do
/// not overlap. `bus` is the bus time of one sector.
pub(crate) fn share(
    prober: &mut Prober<'_, '_>,
    bus: Duration,
) -> Result<Option<Figure<Share>>, StopReason> {
    let block = prober.block().0;
    let (bus, period) = (ns(bus), prober.rotation.period());
    // The overlapping part is at most a quarter of a revolution. Otherwise the share is not
    // observable.
    let (mut shares, mut apart) = (Vec::new(), Vec::new());
    let reads = if prober.bench.budget().quick { READS / 4 } else { READS };
    for _ in 0..reads {
        let random = prober.random_extent(Sectors(block));
        let Some(track) = prober.track_of(random.start) else { continue };
        let len = (track.lbas.len.0 / TRACK_PART / block * block).min(LONGEST);
        let start = track.lbas.start.0.div_ceil(block) * block;
        let extent = Extent::new(Lba(start), Sectors(len));
        if len <= block || extent.end() > track.lbas.end() {
            continue;
        }
        prober.clear_head_position();
        let timed = prober.bench.time(Operation::read(extent))?;
        let spot = prober.profile.locate(extent.start);
        let sector = prober.rotation.sweep(spot.sector);
        // The instant at which a read of the first block alone would be observed to complete.
        let first = spot.angle + Angle(round_u32(f64::from(spot.sector.0) * real(block)));
        let first = prober.rotation.next(first, instant_ns(timed.submitted));
        let rest = real(len - block);
        let beside = rest * sector.max(bus);
        let off = instant_ns(timed.completed) - first - beside + period / 4.0;
        let later = off - (off / period).floor() * period - period / 4.0;
        apart.push(later / (rest * sector.min(bus)));
        shares.push((beside + later + real(block) * sector - rest * bus) / (real(len) * sector));
    }
    let samples = round_u32(real(shares.len() as u64));
    let (Some(middle), Some(apart)) = (median(shares.clone()), median(apart)) else {
        return Ok(None);
    };
    if apart < APART {
        return Ok(None);
    }
    let off = shares.iter().map(|share| (share - middle).abs()).collect();
    // Half of a normal distribution is within two thirds of its deviation.
    let error = median(off).unwrap_or(0.0) * 1.5 * 1.25 / f64::from(samples).sqrt();
    let share = |part: f64| Share::from_ppb(round_u32(part.clamp(0.0, 1.0) * 1e9));
    Ok(Some(Figure {
        value: share(middle),
        spread: share(error),
        samples,
        confidence: Share::from_percent(90),
    }))
}
