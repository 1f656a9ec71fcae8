//! The drive's memory for reads: how far it reads on, how many runs of sectors it keeps, and how long one may be.
//!
//! Each is a question that a hit answers: is this block in memory? A hit takes the electronics' time; what comes off
//! the media takes a turn more or less, and only now and then as little: so that a question is asked thrice.

use units::{Extent, Lba, Operation, Sectors, Share};

use super::findings::ReadBuffer;
use super::num::{duration, median, ns, part, whole};
use super::prober::Prober;
use crate::{Figure, Halt};

/// Most segments that are looked for.
pub const SEGMENTS_MAX: u32 = 64;
/// The longest that is looked for in one piece: 64 MiB.
pub const SEGMENT_MAX: Sectors = Sectors(1 << 17);
/// The longest command.
const COMMAND: u64 = 1_024;
/// Long runs are read behind this part of the disk.
const SAMPLE: u64 = 16;
/// How many tracks are looked at for one of a length.
const TRACKS_TRIED: u32 = 16;
/// Which part of a length is near enough.
const FINE: u64 = 256;
/// What an answer counts for.
const YES: i32 = 3;
const NO: i32 = 2;
/// Two that say yes, or three that say no.
const DOUBT: Doubt = Doubt { yes: 2 * YES, no: 3 * NO };
/// At a glance one is enough.
const DOUBT_QUICK: Doubt = Doubt { yes: YES, no: NO };
/// A question is put so many times at most.
const ASKED_MAX: u32 = 15;
/// From how many answers a figure is made at least, each from several questions.
const ANSWERS: u32 = 3;

/// Tells hits from what came off the media.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// What a hit of a block takes at most, in ns.
    pub(crate) limit: f64,
    /// When a question is answered.
    doubt: Doubt,
    /// Which part of a length is near enough.
    fine: u64,
}

/// When a question is answered: what the answers have to count for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doubt {
    yes: i32,
    no: i32,
}

impl Doubt {
    /// On the way up, where a wrong answer cannot be made good: one more yes, or two more that say no.
    const fn up(self) -> Self {
        Self { yes: self.yes + YES, no: self.no + 2 * NO }
    }
}

impl Memory {
    /// Times some blocks that were read just before, or are just behind such.
    pub(crate) fn find(prober: &mut Prober<'_, '_>) -> Result<Option<Self>, Halt> {
        let block = prober.block();
        let mut times = Vec::new();
        let setups = if prober.bench.budget().quick { 5 } else { 10 };
        for _ in 0..setups {
            let room = prober.anywhere(Sectors(8 * block.0));
            prober.lose();
            let _ = prober.bench.time(Operation::read(Extent::new(room.start, block)))?;
            let now = prober.bench.now();
            prober.bench.wait_until(now + duration(3.0 * prober.spindle.period()));
            for nth in 1..4 {
                let extent = Extent::new(Lba(room.start.0 + nth * block.0), block);
                times.push(ns(prober.bench.time(Operation::read(extent))?.took()));
            }
        }
        let middle = median(times).unwrap_or(f64::MAX);
        let margin = (4.0 * prober.spindle.noise()).max(prober.spindle.period() / 12.0);
        let period = prober.spindle.period();
        let quick = prober.bench.budget().quick;
        let (doubt, fine) = if quick { (DOUBT_QUICK, 16) } else { (DOUBT, FINE) };
        let limit = middle + margin.min(period / 6.0);
        Ok((middle < period / 3.0).then_some(Self { limit, doubt, fine }))
    }

    fn holds(&self, prober: &mut Prober<'_, '_>, lba: Lba) -> Result<bool, Halt> {
        let extent = Extent::new(lba, prober.block());
        prober.lose();
        Ok(ns(prober.bench.time(Operation::read(extent))?.took()) < self.limit)
    }
}

/// Puts a question until the answer is beyond doubt.
///
/// A block of memory is seldom taken for one of the media, but a host that is late takes it for one, and a
/// block of the media comes as soon as one of memory now and then: a yes counts for three, a no for two.
fn beyond(doubt: Doubt, mut ask: impl FnMut() -> Result<bool, Halt>) -> Result<bool, Halt> {
    let mut score = 0;
    for _ in 0..ASKED_MAX {
        score += if ask()? { YES } else { -NO };
        if score >= doubt.yes || score <= -doubt.no {
            break;
        }
    }
    Ok(score > 0)
}

/// The largest number of whole units under `most` for which the answer is yes, if it is yes for all smaller ones.
///
/// A wrong no on the way up ends it far too early, where one on the way down costs a unit or a few: it is doubted more.
fn largest(
    unit: u64,
    most: u64,
    memory: Memory,
    mut ask: impl FnMut(u64) -> Result<bool, Halt>,
) -> Result<u64, Halt> {
    let mut low = 0;
    let mut high = unit;
    while high <= most && beyond(memory.doubt.up(), || ask(high))? {
        low = high;
        high *= 2;
    }
    while high - low > unit.max(low / memory.fine / unit * unit) {
        let middle = low.midpoint(high) / unit * unit;
        let yes = middle <= most && beyond(memory.doubt, || ask(middle))?;
        if yes { low = middle } else { high = middle }
    }
    Ok(low)
}

/// Where on a track a block lies.
#[derive(Clone, Copy, Debug)]
enum On {
    Start,
    Middle,
    End,
}

/// How far behind a block the drive reads on.
fn ahead(prober: &mut Prober<'_, '_>, memory: Memory, on: On) -> Result<u64, Halt> {
    let block = prober.block().0;
    largest(block, SEGMENT_MAX.0, memory, |far| {
        let room = prober.anywhere(Sectors(far + 4 * block));
        let Some(track) = prober.track_of(room.start) else { return Ok(false) };
        let into = match on {
            On::Start => 0,
            On::Middle => track.lbas.len.0 / 2,
            On::End => track.lbas.len.0 - block,
        };
        let start = (track.lbas.start.0 + into).div_ceil(block) * block;
        if start + far + block > prober.profile.capacity().0 {
            return Ok(false);
        }
        let timed = prober.bench.time(Operation::read(Extent::new(Lba(start), Sectors(block))))?;
        let turns = 2.0 + 1.4 * part(far) / part(prober.track_sectors(Lba(start)));
        let rest = duration(turns * prober.spindle.period());
        prober.bench.wait_until(timed.completed + rest);
        memory.holds(prober, Lba(start + far))
    })
}

/// How many runs are kept: so many reads elsewhere do not push out what was read before them.
fn segments(prober: &mut Prober<'_, '_>, memory: Memory) -> Result<u32, Halt> {
    let block = prober.block().0;
    let exactly = Memory { fine: FINE, ..memory };
    let kept = largest(1, SEGMENTS_MAX.into(), exactly, |count| {
        let mut first = None;
        for _ in 0..count {
            let room = prober.anywhere(Sectors(4 * block));
            prober.visit(Extent::new(room.start, Sectors(block)))?;
            // Long enough for the next block to have been read ahead.
            let track = part(prober.track_sectors(room.start));
            let now = prober.bench.now();
            let passed = prober.spindle.period() * part(3 * block) / track;
            prober.bench.wait_until(now + duration(passed));
            first.get_or_insert(Lba(room.start.0 + block));
        }
        first.map_or(Ok(false), |lba| memory.holds(prober, lba))
    })?;
    Ok(u32::try_from(kept).unwrap_or(SEGMENTS_MAX))
}

/// Reads `len` sectors in a row, up to the middle of a track, and lets the drive read on behind them for as long as it
/// likes. The sectors.
///
/// Where reading on ends with a track, it ends so far behind the middle of one: all of these tracks are as long.
fn long_run(prober: &mut Prober<'_, '_>, len: u64, ahead: u64) -> Result<Extent, Halt> {
    let block = prober.block().0;
    let end = middle_of_a_track(prober, len) / block * block;
    let mut start = end - len / block * block;
    let extent = Extent::new(Lba(start), Sectors(end - start));
    while start < end {
        let some = COMMAND.min(end - start);
        prober.bench.time(Operation::read(Extent::new(Lba(start), Sectors(some))))?;
        start += some;
    }
    let turns = 2.0 + 1.4 * part(ahead) / part(prober.track_sectors(extent.start));
    let now = prober.bench.now();
    prober.bench.wait_until(now + duration(turns * prober.spindle.period()));
    Ok(extent)
}

/// The middle of one of many tracks that are equally long, with as many sectors before it.
fn middle_of_a_track(prober: &mut Prober<'_, '_>, len: u64) -> u64 {
    let sectors = prober.profile.capacity().0;
    let sample = (sectors / SAMPLE).max(len).min(sectors - 1);
    let long = prober.track_sectors(Lba(sample));
    let mut middle = sample;
    for _ in 0..TRACKS_TRIED {
        let [one, ..] = prober.draw();
        let lba = Lba((sample + whole(one * part(sectors / SAMPLE / 4))).min(sectors - 1));
        let track = prober.track_of(lba).filter(|_| prober.track_sectors(lba) == long);
        if let Some(track) = track.filter(|track| track.lbas.len.0 * 10 > long * 9) {
            middle = track.lbas.start.0 + track.lbas.len.0 / 2;
            break;
        }
    }
    middle.max(len)
}

/// How much of a long run is kept, with what was read on behind it.
fn segment(prober: &mut Prober<'_, '_>, memory: Memory, ahead: u64) -> Result<u64, Halt> {
    let block = prober.block().0;
    let unit = block.max(8 / block * block);
    let behind = largest(unit, SEGMENT_MAX.0 / 2, memory, |back| {
        let run = long_run(prober, back, ahead)?;
        memory.holds(prober, run.start)
    })?;
    // Behind the same run, so that the two were kept at once.
    let before = largest(unit, 2 * ahead + unit, memory, |far| {
        let run = long_run(prober, behind.max(block), ahead)?;
        memory.holds(prober, Lba(run.end().0 + far - block))
    })?;
    Ok(behind + before)
}

/// All of it; nothing where nothing is kept.
pub(crate) fn read_buffer(prober: &mut Prober<'_, '_>, memory: Memory) -> Result<ReadBuffer, Halt> {
    let figure = |value: u64, off: u64| Figure {
        value: Sectors(value),
        spread: Sectors(off),
        samples: ANSWERS,
        confidence: Share::from_percent(90),
    };
    let block = prober.block().0;
    let from_start = ahead(prober, memory, On::Start)?;
    let from_middle = ahead(prober, memory, On::Middle)?;
    let from_end = ahead(prober, memory, On::End)?;
    // What ends with a track ends sooner from its middle.
    let ends_with_track = from_middle + from_middle / 4 < from_start;
    let count = segments(prober, memory)?;
    let kept = segment(prober, memory, from_start.max(from_middle))?;
    // What was read ahead of a single block was kept, too.
    let longest = kept.max(from_middle).max(from_start).max(from_end);
    Ok(ReadBuffer {
        ahead: figure(from_start.max(from_middle), block.max(from_start / memory.fine)),
        ends_with_track,
        reads_next_track: ends_with_track && from_end > from_middle,
        waits: None,
        keeps: None,
        segments: Figure {
            value: count,
            spread: 0,
            samples: ANSWERS,
            confidence: Share::from_percent(90),
        },
        segment: figure(longest, block.max(longest * 2 / memory.fine)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SURE: Memory = Memory { limit: 0.0, doubt: DOUBT, fine: FINE };

    #[test]
    fn the_largest_is_found_to_its_last_unit_or_a_small_part() {
        for limit in [0_u64, 1, 2, 3, 63, 64, 100, 255] {
            let found = largest(1, 1_000_000, SURE, |asked| Ok(asked <= limit)).expect("in time");
            assert_eq!(found, limit);
        }
        let found = largest(8, 1_000_000, SURE, |asked| Ok(asked <= 70_000)).expect("in time");
        assert!((69_700..=70_000).contains(&found), "{found}");
        assert_eq!(largest(1, 64, SURE, |_| Ok(true)).expect("in time"), 64);
    }

    #[test]
    fn a_hit_that_was_seen_late_is_not_taken_for_a_miss() {
        // Each seventh answer is a hit seen late, and so are two in a row now and then.
        let mut asked_so_often = 0_u32;
        let late = |nth: u32| nth % 7 == 0 || nth % 31 == 1;
        let found = largest(8, 1_000_000, SURE, |asked| {
            asked_so_often += 1;
            Ok(asked <= 70_000 && !late(asked_so_often))
        });
        let found = found.expect("in time");
        assert!((69_700..=70_000).contains(&found), "{found}");
    }
}
