//! The drive's memory for reads: how far it reads on, how many runs of sectors it keeps, and how long one may be.
//!
//! Each is a question that a hit answers: is this block in memory? A hit takes the electronics' time. What comes off the
//! media takes as long as its sector has yet to come, which may be as little: so a block is asked for just after it has
//! passed the head, and the two are most of a turn apart. What noise makes of an answer is outvoted by others.

use units::{Extent, Lba, Operation, Sectors, Share};

use crate::bench::StopReason;
use crate::estimate::number::{duration, instant, instant_ns, median, ns, real, round};
use crate::estimate::sequential_test::{SequentialTest, unit};
use crate::mechanics::prober::Prober;
use drive_profile::findings::Figure;
use drive_profile::findings::ReadBuffer;

/// Most segments that are looked for.
pub(crate) const SEGMENTS_MAX: u32 = 64;
/// The longest that is looked for in one piece: 64 MiB.
pub(crate) const SEGMENT_MAX: Sectors = Sectors(1 << 17);
/// The longest command.
const COMMAND: u64 = 1_024;
/// Long runs are read behind this part of the disk.
const SAMPLE: u64 = 16;
/// How many tracks are looked at for one of a length.
const TRACKS_TRIED: u32 = 16;
/// Which part of a length is near enough, by default and at a glance.
const FINE: [u64; 2] = [256, 16];
/// Which part of a turn before its block has passed again a question is asked.
const PASSED: f64 = 7.0 / 8.0;

/// Tells hits from what came off the media.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// What a hit of a block takes at most, in ns.
    pub(crate) limit: f64,
    /// What it takes in the middle.
    middle: f64,
    /// Which part of a length is near enough.
    fine: u64,
}

impl Memory {
    /// Times some blocks that were read just before, or are just behind such.
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

    /// Whether a block is in memory, by a read that ends most of a turn later if it is not.
    fn holds(&self, prober: &mut Prober<'_, '_>, lba: Lba) -> Result<bool, StopReason> {
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

/// Where on a track a block lies.
#[derive(Clone, Copy, Debug)]
enum On {
    Start,
    Middle,
    End,
}

/// Looks at one drive's memory.
struct Look<'p, 'a, 'b> {
    prober: &'p mut Prober<'a, 'b>,
    memory: Memory,
    test: SequentialTest,
}

impl Look<'_, '_, '_> {
    fn block(&self) -> u64 {
        self.prober.block().0
    }

    /// The largest length in whole units for which the answer is yes.
    fn largest(
        &mut self,
        unit: u64,
        most: u64,
        mut ask: impl FnMut(&mut Prober<'_, '_>, &Memory, u64) -> Result<bool, StopReason>,
    ) -> Result<u64, StopReason> {
        let Self { prober, memory, test } = self;
        test.largest(unit, (most, memory.fine), |len| ask(prober, memory, len))
    }

    /// A length that was found to its last unit, or to a small part.
    fn length(&mut self, unit: u64, len: u64) -> Figure<Sectors> {
        let off = (unit / 2).max(len / self.memory.fine / 2).max(1);
        self.test.figure(Sectors(len), Sectors(off))
    }

    /// How far behind a block the drive reads on.
    fn ahead(&mut self, on: On) -> Result<u64, StopReason> {
        let block = self.block();
        self.largest(block, SEGMENT_MAX.0, |prober, memory, far| {
            let (first, len) = one_of_many(prober, 0);
            let into = match on {
                On::Start => 0,
                On::Middle => len / 2,
                On::End => len - block,
            };
            let start = (first + into).div_ceil(block) * block;
            if start + far + block > prober.profile.capacity().0 {
                return Ok(false);
            }
            prober.bench.time(Operation::read(Extent::new(Lba(start), Sectors(block))))?;
            read_on(prober, Lba(start), far);
            memory.holds(prober, Lba(start + far))
        })
    }

    /// How many runs are kept: so many reads elsewhere do not push out what was read before them.
    fn segments(&mut self) -> Result<u32, StopReason> {
        let block = self.block();
        let Self { prober, memory, test } = self;
        let kept = test.largest(1, (SEGMENTS_MAX.into(), FINE[0]), |count| {
            let mut first = None;
            for _ in 0..count {
                let room = prober.random_extent(Sectors(4 * block));
                prober.read_block(Extent::new(room.start, Sectors(block)))?;
                // Long enough for the next block to have been read ahead.
                let track = real(prober.track_sectors(room.start));
                let now = prober.bench.now();
                let passed = prober.rotation.period() * real(3 * block) / track;
                prober.bench.wait_until(now + duration(passed));
                first.get_or_insert(Lba(room.start.0 + block));
            }
            first.map_or(Ok(false), |lba| memory.holds(prober, lba))
        })?;
        Ok(u32::try_from(kept).unwrap_or(SEGMENTS_MAX))
    }

    /// How far behind a run of `back` sectors the last is that is kept.
    fn behind(&mut self, back: u64, ahead: u64) -> Result<u64, StopReason> {
        let block = self.block();
        self.largest(unit(block), SEGMENT_MAX.0 / 2, |prober, memory, far| {
            let run = long_run(prober, back, ahead.max(far))?;
            memory.holds(prober, Lba(run.end().0 + far - block))
        })
    }

    /// How many of the last of a run are kept: one of so many, or just as long as is asked for.
    fn before(&mut self, back: Option<u64>, ahead: u64) -> Result<u64, StopReason> {
        let (block, most) = (self.block(), back.unwrap_or(SEGMENT_MAX.0 / 2));
        self.largest(unit(block), most, |prober, memory, far| {
            let run = long_run(prober, back.unwrap_or(far), ahead)?;
            memory.holds(prober, Lba(run.end().0 - far))
        })
    }

    /// How much of a long run is kept, with what was read on behind it; `longest` becomes as much as is known of it, though
    /// time be over before all is.
    fn segment(&mut self, ahead: u64, longest: &mut u64) -> Result<(), StopReason> {
        let all = self.before(None, ahead)?;
        *longest = all.max(*longest);
        // Behind the same run, so that the two were kept at once.
        let run = all.max(self.block());
        let rest = self.behind(run, ahead)?;
        *longest = (all + rest).max(*longest);
        // A run of which the beginning is kept no more has filled a segment; but how far is read on behind that may be
        // another length: a drive that stops with a track goes on into the next behind a longer run.
        let longer = (2 * run).min(SEGMENT_MAX.0 / 2);
        let behind = self.behind(longer, ahead)?;
        let before = self.before(Some(longer), ahead.max(behind))?;
        *longest = (before + behind).max(*longest);
        Ok(())
    }
}

/// Lets the drive read on for as long as so many sectors behind `lba` take it, and some.
fn read_on(prober: &mut Prober<'_, '_>, lba: Lba, ahead: u64) {
    let revolutions = 2.0 + 1.4 * real(ahead) / real(prober.track_sectors(lba));
    let now = prober.bench.now();
    prober.bench.wait_until(now + duration(revolutions * prober.rotation.period()));
}

/// Reads `len` sectors in a row, up to the middle of a track, and lets the drive read on behind them for as long as it
/// likes. The sectors.
///
/// Where reading on ends with a track, it ends so far behind the middle of one: all of these tracks are as long.
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
    read_on(prober, extent.start, ahead);
    Ok(extent)
}

/// The first sector of one of many tracks that are equally long, with at least `len` before it, and how many it has.
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

/// All of it, and how that ended: a segment of which not all was found in time is told with no confidence.
pub(crate) fn read_buffer(
    prober: &mut Prober<'_, '_>,
    memory: Memory,
) -> Result<(ReadBuffer, Result<(), StopReason>), StopReason> {
    let test = SequentialTest::new(prober.bench.budget().quick);
    let mut look = Look { prober, memory, test };
    let block = look.block();
    let from_start = look.ahead(On::Start)?;
    let from_middle = look.ahead(On::Middle)?;
    let from_end = look.ahead(On::End)?;
    // What ends with a track ends sooner from its middle.
    let ends_with_track = from_middle + from_middle / 4 < from_start;
    let farthest = from_start.max(from_middle);
    let ahead = look.length(block, farthest);
    let count = look.segments()?;
    let segments = look.test.figure(count, 0);
    // What was read ahead of a single block was kept, too.
    let mut longest = farthest.max(from_end);
    let ended = look.segment(longest, &mut longest);
    let mut segment = look.length(2 * unit(block), longest);
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
