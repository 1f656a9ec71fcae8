//! The drive's cache for reads: the length of its read-ahead, the number of its segments, and the
//! length of a segment.
//!
//! Each question is answered by whether a block is cached. A cache hit takes the electronics' time.
//! A read from the media takes until its sector passes, which may be as short. So a block is
//! requested just after it has passed the head, and the two cases differ by most of a revolution.
//! Repetition outvotes noise.

use units::{Extent, Lba, Operation, Sectors, Share};

use crate::bench::StopReason;
use crate::estimate::number::{duration, instant, instant_ns, median, ns, real, round};
use crate::estimate::sequential_test::{SequentialTest, unit};
use crate::mechanics::prober::Prober;
use drive_profile::findings::Figure;
use drive_profile::findings::ReadBuffer;

/// The most segments considered.
pub(crate) const SEGMENTS_MAX: u32 = 64;
/// The longest segment considered: 64 MiB.
pub(crate) const SEGMENT_MAX: Sectors = Sectors(1 << 17);
/// The longest command.
const COMMAND: u64 = 1_024;
/// Long runs are read behind this part of the disk, inverted.
const SAMPLE: u64 = 16;
/// The number of attempts to find a track of the required length.
const TRACKS_TRIED: u32 = 16;
/// The relative precision of a length, inverted, of a full and of a quick profile.
const FINE: [u64; 2] = [256, 16];
/// The share of a revolution before the block's next passing at which it is requested.
const PASSED: f64 = 7.0 / 8.0;

/// Distinguishes cache hits from reads from the media.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HitDetector {
    /// The longest service time of a cache hit of one block, in ns.
    pub(crate) limit: f64,
    /// The median service time of a cache hit, in ns.
    middle: f64,
    /// The relative precision of a length, inverted.
    fine: u64,
}

impl HitDetector {
    /// Times blocks directly behind a block that was just read.
    pub(crate) fn find(prober: &mut Prober<'_, '_>) -> Result<Option<Self>, StopReason> {
        let block = prober.block();
        let mut times = Vec::new();
        let setups = if prober.bench.budget().quick { 5 } else { 10 };
        for _ in 0..setups {
            let room = prober.random_extent(Sectors(8 * block.0));
            prober.clear_head_position();
            let _ = prober.bench.time(Operation::read(Extent::new(room.start, block)))?;
            let now = prober.bench.now();
            prober.bench.wait_until(now + duration(3.0 * prober.rotation.period()));
            for nth in 1..4 {
                let extent = Extent::new(Lba(room.start.0 + nth * block.0), block);
                times.push(ns(prober.bench.time(Operation::read(extent))?.took()));
            }
        }
        let middle = median(times).unwrap_or(f64::MAX);
        let margin = (4.0 * prober.rotation.noise()).max(prober.rotation.period() / 12.0);
        let period = prober.rotation.period();
        let quick = usize::from(prober.bench.budget().quick);
        let fine = FINE[quick];
        let limit = middle + margin.min(period / 6.0);
        Ok((middle < period / 3.0).then_some(Self { limit, middle, fine }))
    }

    /// Whether a block is cached, by a read that takes most of a revolution longer if it is not.
    fn is_cached(&self, prober: &mut Prober<'_, '_>, lba: Lba) -> Result<bool, StopReason> {
        let extent = Extent::new(lba, prober.block());
        prober.clear_head_position();
        let end = prober.end_on_map(extent);
        let passed = PASSED * prober.rotation.period();
        let now = instant_ns(prober.bench.now());
        let seen = prober.rotation.next(end, now + passed);
        prober.bench.wait_until(instant(seen - passed));
        let took = ns(prober.bench.time(Operation::read(extent))?.took());
        Ok(took < f64::midpoint(self.middle, passed))
    }
}

/// The location of a block on its track.
#[derive(Clone, Copy, Debug)]
enum TrackPosition {
    Start,
    Middle,
    End,
}

/// Measures one drive's cache.
struct CacheProbe<'p, 'a, 'b> {
    prober: &'p mut Prober<'a, 'b>,
    detector: HitDetector,
    test: SequentialTest,
}

impl CacheProbe<'_, '_, '_> {
    fn block(&self) -> u64 {
        self.prober.block().0
    }

    /// The largest length in whole units for which the answer is yes.
    fn largest(
        &mut self,
        unit: u64,
        most: u64,
        mut ask: impl FnMut(&mut Prober<'_, '_>, &HitDetector, u64) -> Result<bool, StopReason>,
    ) -> Result<u64, StopReason> {
        let Self { prober, detector, test } = self;
        test.largest(unit, (most, detector.fine), |len| ask(prober, detector, len))
    }

    /// A length with the error of its precision.
    fn length(&mut self, unit: u64, len: u64) -> Figure<Sectors> {
        let off = (unit / 2).max(len / self.detector.fine / 2).max(1);
        self.test.figure(Sectors(len), Sectors(off))
    }

    /// The length of the read-ahead behind a block.
    fn ahead(&mut self, on: TrackPosition) -> Result<u64, StopReason> {
        let block = self.block();
        self.largest(block, SEGMENT_MAX.0, |prober, detector, far| {
            let (first, len) = one_of_many(prober, 0);
            let into = match on {
                TrackPosition::Start => 0,
                TrackPosition::Middle => len / 2,
                TrackPosition::End => len - block,
            };
            let start = (first + into).div_ceil(block) * block;
            if start + far + block > prober.profile.capacity().0 {
                return Ok(false);
            }
            prober.bench.time(Operation::read(Extent::new(Lba(start), Sectors(block))))?;
            wait_for_read_ahead(prober, Lba(start), far);
            detector.is_cached(prober, Lba(start + far))
        })
    }

    /// The number of segments: the most reads elsewhere that do not evict the first one's
    /// read-ahead.
    fn segments(&mut self) -> Result<u32, StopReason> {
        let block = self.block();
        let Self { prober, detector, test } = self;
        let kept = test.largest(1, (SEGMENTS_MAX.into(), FINE[0]), |count| {
            let mut first = None;
            for _ in 0..count {
                let room = prober.random_extent(Sectors(4 * block));
                prober.read_block(Extent::new(room.start, Sectors(block)))?;
                // The wait is long enough for the next block to be read ahead.
                let track = real(prober.track_sectors(room.start));
                let now = prober.bench.now();
                let passed = prober.rotation.period() * real(3 * block) / track;
                prober.bench.wait_until(now + duration(passed));
                first.get_or_insert(Lba(room.start.0 + block));
            }
            first.map_or(Ok(false), |lba| detector.is_cached(prober, lba))
        })?;
        Ok(u32::try_from(kept).unwrap_or(SEGMENTS_MAX))
    }

    /// The length of the read-ahead behind a run of `back` sectors.
    fn behind(&mut self, back: u64, ahead: u64) -> Result<u64, StopReason> {
        let block = self.block();
        self.largest(unit(block), SEGMENT_MAX.0 / 2, |prober, detector, far| {
            let run = long_run(prober, back, ahead.max(far))?;
            detector.is_cached(prober, Lba(run.end().0 + far - block))
        })
    }

    /// The cached sectors at the end of a run, of `back` sectors or of the queried length.
    fn before(&mut self, back: Option<u64>, ahead: u64) -> Result<u64, StopReason> {
        let (block, most) = (self.block(), back.unwrap_or(SEGMENT_MAX.0 / 2));
        self.largest(unit(block), most, |prober, detector, far| {
            let run = long_run(prober, back.unwrap_or(far), ahead)?;
            detector.is_cached(prober, Lba(run.end().0 - far))
        })
    }

    /// The cached part of a long run and its read-ahead. `longest` holds the length known so far,
    /// even if time runs out.
    fn segment(&mut self, ahead: u64, longest: &mut u64) -> Result<(), StopReason> {
        let all = self.before(None, ahead)?;
        *longest = all.max(*longest);
        // The read-ahead is measured behind the same run, so that both were cached at once.
        let run = all.max(self.block());
        let rest = self.behind(run, ahead)?;
        *longest = (all + rest).max(*longest);
        // A run whose beginning is evicted fills a segment. The read-ahead behind it may have
        // another length: a drive that stops at the end of a track continues on the next track
        // behind a longer run.
        let longer = (2 * run).min(SEGMENT_MAX.0 / 2);
        let behind = self.behind(longer, ahead)?;
        let before = self.before(Some(longer), ahead.max(behind))?;
        *longest = (before + behind).max(*longest);
        Ok(())
    }
}

/// Waits until the drive has read ahead `ahead` sectors behind `lba`.
fn wait_for_read_ahead(prober: &mut Prober<'_, '_>, lba: Lba, ahead: u64) {
    let revolutions = 2.0 + 1.4 * real(ahead) / real(prober.track_sectors(lba));
    let now = prober.bench.now();
    prober.bench.wait_until(now + duration(revolutions * prober.rotation.period()));
}

/// Reads `len` sectors in a row up to the middle of a track, and waits for their read-ahead.
/// Returns the sectors.
///
/// Read-ahead that stops at the end of a track has the same length behind each middle: all of these
/// tracks are equally long.
fn long_run(prober: &mut Prober<'_, '_>, len: u64, ahead: u64) -> Result<Extent, StopReason> {
    let block = prober.block().0;
    let (first, track) = one_of_many(prober, len);
    let end = (first + track / 2).max(len) / block * block;
    let mut start = end - len / block * block;
    let extent = Extent::new(Lba(start), Sectors(end - start));
    while start < end {
        let some = COMMAND.min(end - start);
        prober.bench.time(Operation::read(Extent::new(Lba(start), Sectors(some))))?;
        start += some;
    }
    wait_for_read_ahead(prober, extent.start, ahead);
    Ok(extent)
}

/// The first sector of a random track among equally long ones, with at least `len` sectors before
/// it, and its length.
fn one_of_many(prober: &mut Prober<'_, '_>, len: u64) -> (u64, u64) {
    let sectors = prober.profile.capacity().0;
    let sample = (sectors / SAMPLE).max(len).min(sectors - 1);
    let long = prober.track_sectors(Lba(sample));
    for _ in 0..TRACKS_TRIED {
        let [one, ..] = prober.draw();
        let lba = Lba((sample + round(one * real(sectors / SAMPLE / 4))).min(sectors - 1));
        let track = prober.track_of(lba).filter(|_| prober.track_sectors(lba) == long);
        if let Some(track) = track.filter(|track| track.lbas.len.0 * 10 > long * 9) {
            return (track.lbas.start.0, track.lbas.len.0);
        }
    }
    (sample, long)
}

/// All figures, and how the measurement ended: a segment that was not measured in time has no
/// confidence.
pub(crate) fn read_buffer(
    prober: &mut Prober<'_, '_>,
    detector: HitDetector,
) -> Result<(ReadBuffer, Result<(), StopReason>), StopReason> {
    let test = SequentialTest::new(prober.bench.budget().quick);
    let mut cache = CacheProbe { prober, detector, test };
    let block = cache.block();
    let from_start = cache.ahead(TrackPosition::Start)?;
    let from_middle = cache.ahead(TrackPosition::Middle)?;
    let from_end = cache.ahead(TrackPosition::End)?;
    // Read-ahead that stops at the end of a track is shorter from its middle.
    let ends_with_track = from_middle + from_middle / 4 < from_start;
    let farthest = from_start.max(from_middle);
    let ahead = cache.length(block, farthest);
    let count = cache.segments()?;
    let segments = cache.test.figure(count, 0);
    // The read-ahead of a single block was cached, too.
    let mut longest = farthest.max(from_end);
    let ended = cache.segment(longest, &mut longest);
    let mut segment = cache.length(2 * unit(block), longest);
    if ended.is_err() {
        segment.confidence = Share::from_percent(1);
    }
    let found = ReadBuffer {
        ahead,
        ends_with_track,
        reads_next_track: ends_with_track && from_end > from_middle,
        waits: None,
        keeps: None,
        segments,
        segment,
    };
    Ok((found, ended))
}
