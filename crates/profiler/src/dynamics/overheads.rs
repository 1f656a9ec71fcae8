//! What commands cost beside the media.
//!
//! Hits are timed: the middle of many, as noise never makes one end before it began, and the mean would be late. What passes
//! between a command for the media and the arm's moving is found as seeks are, on a way of no length: the heads stand on
//! the track already. They only stand there where nothing is read ahead: after a seek command, or on
//! the last track of the disk, behind which there is nothing.

use units::{Duration, Extent, Lba, Operation, Sectors};

use super::num::{duration, median, ns, part};
use super::prober::{Errand, Prober, Track, Way};
use super::threshold::{Estimate, Prior, Threshold};
use crate::{Figure, Halt};
use units::Share;

/// Hits of a block that are timed: a tenth of what a chunk's overhead is has to be told from the noise.
const HITS: usize = 6_000;
/// Longer ones, and seek commands.
const HITS_LONG: usize = 1_200;
/// The longest that is timed.
const LONG: u64 = 256;
/// Setups at most, of which each gives some hits.
const SETUPS: usize = 60;
/// The same of writes, which rest between them.
const SETUPS_WRITES: usize = 100;
/// Sectors written in a row at most.
const WRITTEN: u64 = 256;
/// How much above the middle a time is no hit any more, in ns.
const MISS: f64 = 1_500_000.0;
/// Probes of one overhead.
pub(crate) const PROBES: usize = 48;
/// The same for a first guess.
pub(crate) const PROBES_FIRST: usize = 14;
/// The standard error that is enough, in ns.
const ENOUGH: f64 = 5_000.0;
/// By how much an overhead may vary, in ns.
const SPREAD: f64 = 25_000.0;

/// Times of hits by their length: a line, height and slope in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hits {
    pub(crate) overhead: f64,
    pub(crate) sector: f64,
    /// Standard errors of both.
    pub(crate) errors: (f64, f64),
    pub(crate) samples: u32,
}

impl Hits {
    /// What a hit of so many sectors takes.
    pub(crate) fn time(&self, len: Sectors) -> f64 {
        self.overhead + self.sector * part(len.0)
    }

    /// The line through two lengths, each with the times it took.
    fn of(short: (Sectors, Vec<f64>), long: (Sectors, Vec<f64>)) -> Option<Self> {
        let samples = u32::try_from(short.1.len() + long.1.len()).unwrap_or(u32::MAX);
        let middle = |times: Vec<f64>| {
            let middle = median(times.clone())?;
            let hits: Vec<f64> = times.into_iter().filter(|time| *time < middle + MISS).collect();
            let count = part(hits.len() as u64);
            let middle = median(hits.clone())?;
            let square = hits.iter().map(|time| (time - middle).powi(2)).sum::<f64>() / count;
            // A median is a quarter less certain than a mean.
            Some((middle, 1.25 * (square / count).sqrt()))
        };
        let ((low, low_error), (high, high_error)) = (middle(short.1)?, middle(long.1)?);
        let run = part(long.0.0 - short.0.0);
        let sector = ((high - low) / run).max(0.0);
        let error = (low_error * low_error + high_error * high_error).sqrt() / run;
        let overhead = (low - sector * part(short.0.0)).max(0.0);
        Some(Self { overhead, sector, errors: (low_error, error), samples })
    }

    /// As figures: the overhead, and a sector on the bus.
    pub(crate) fn figures(&self) -> (Figure<Duration>, Figure<Duration>) {
        let figure = |value: f64, error: f64| Figure {
            value: duration(value),
            spread: duration(error.max(1.0)),
            samples: self.samples,
            confidence: Share::from_percent(95),
        };
        (figure(self.overhead, self.errors.0), figure(self.sector, self.errors.1))
    }
}

/// What a read that memory serves takes, from what is read ahead, of which there are `ahead` sectors.
pub(crate) fn read_hits(prober: &mut Prober<'_, '_>, ahead: Sectors) -> Result<Option<Hits>, Halt> {
    let block = prober.block();
    let long = Sectors((ahead.0 / 2).min(LONG) / block.0 * block.0);
    if long <= block {
        return Ok(None);
    }
    let few = if prober.bench.budget().quick { 5 } else { 1 };
    let mut times = [Vec::new(), Vec::new()];
    for (len, times) in [block, long].into_iter().zip(&mut times) {
        let each = ((ahead.0 - block.0) / len.0).min(512);
        let hits = if len == block { HITS } else { HITS_LONG };
        for _ in 0..SETUPS / few {
            if times.len() >= hits / few {
                break;
            }
            let room = prober.anywhere(Sectors(ahead.0 + 2 * block.0));
            let first = Extent::new(room.start, block);
            prober.lose();
            let timed = prober.bench.time(Operation::read(first))?;
            let turns = 3.0 + part(ahead.0) / part(track_sectors(prober, first.start));
            let rest = duration(prober.spindle.period() * turns * 1.2);
            prober.bench.wait_until(timed.completed + rest);
            for nth in 0..each {
                let extent = Extent::new(Lba(first.end().0 + nth * len.0), len);
                times.push(ns(prober.bench.time(Operation::read(extent))?.took()));
            }
        }
    }
    let [short, long_times] = times;
    Ok(Hits::of((block, short), (long, long_times)))
}

/// How many sectors the track of an address has.
pub(crate) fn track_sectors(prober: &Prober<'_, '_>, lba: Lba) -> u64 {
    prober.profile.band(lba).sectors_per_track.into()
}

/// What a cached write takes.
pub(crate) fn write_hits(prober: &mut Prober<'_, '_>) -> Result<Option<Hits>, Halt> {
    let block = prober.block();
    let few = if prober.bench.budget().quick { 10 } else { 1 };
    // The longer, the better a fast bus is known; a slow one or a small buffer makes long writes wait.
    let mut probed = Vec::new();
    for _ in 0..5 {
        let extent = prober.anywhere(Sectors(WRITTEN));
        prober.lose();
        let timed = prober.bench.time(Operation::write(extent))?;
        probed.push(ns(timed.took()));
        prober.bench.wait_until(timed.completed + duration(4.0 * prober.spindle.period()));
    }
    let mut shortest = Vec::new();
    for _ in 0..7 {
        let extent = prober.anywhere(block);
        let timed = prober.bench.time(Operation::write(extent))?;
        shortest.push(ns(timed.took()));
        prober.bench.wait_until(timed.completed + duration(4.0 * prober.spindle.period()));
    }
    let early =
        |times: Vec<f64>| median(times).is_some_and(|time| time < prober.spindle.period() / 3.0);
    if !early(shortest) {
        return Ok(None);
    }
    let fast = median(probed).is_some_and(|time| time < prober.spindle.period() / 3.0);
    let long = Sectors((if fast { WRITTEN } else { WRITTEN / 4 }) / block.0 * block.0);
    let mut times = [Vec::new(), Vec::new()];
    for (len, times) in [block, long].into_iter().zip(&mut times) {
        // One after the other, in a row, and few: they fit the smallest buffer.
        let each = (WRITTEN / len.0).clamp(1, 64);
        for _ in 0..SETUPS_WRITES / few {
            let room = prober.anywhere(Sectors(each * len.0));
            prober.lose();
            for nth in 0..each {
                let extent = Extent::new(Lba(room.start.0 + nth * len.0), len);
                times.push(ns(prober.bench.time(Operation::write(extent))?.took()));
            }
            let now = prober.bench.now();
            let rest = duration(4.0 * prober.spindle.period());
            prober.bench.wait_until(now + rest);
        }
    }
    let [short, long_times] = times;
    Ok(Hits::of((block, short), (long, long_times)))
}

/// What a seek command over no distance takes.
pub(crate) fn seek_command(prober: &mut Prober<'_, '_>) -> Result<Option<Figure<Duration>>, Halt> {
    if !prober.bench.facts().seeks {
        return Ok(None);
    }
    let extent = prober.anywhere(prober.block());
    prober.lose();
    let _ = prober.bench.time(Operation::seek(extent.start))?;
    let mut times = Vec::new();
    let hits = if prober.bench.budget().quick { HITS_LONG / 5 } else { HITS_LONG };
    for _ in 0..hits {
        times.push(ns(prober.bench.time(Operation::seek(extent.start))?.took()));
    }
    let count = part(times.len() as u64);
    let Some(middle) = median(times.clone()) else { return Ok(None) };
    let square = times.iter().map(|time| (time - middle).powi(2)).sum::<f64>() / count;
    Ok(Some(Figure {
        value: duration(middle),
        spread: duration(1.25 * (square / count).sqrt()),
        samples: u32::try_from(hits).unwrap_or(u32::MAX),
        confidence: Share::from_percent(95),
    }))
}

/// What passes from a command's submission until the heads of an arm that need not move are ready, in ns. `segments` is
/// how many reads push everything out of the drive's memory.
pub(crate) fn media(
    prober: &mut Prober<'_, '_>,
    errand: Errand,
    segments: u32,
    probes: usize,
) -> Result<Option<Estimate>, Halt> {
    let mut threshold = Threshold::new(Prior::Upto(2.0 * prober.spindle.period()), SPREAD);
    let mut last_track = LastTrack::new(prober, segments);
    for _ in 0..4 * probes {
        let known = threshold.estimate();
        if threshold.count() >= probes || threshold.count() > 8 && known.error < ENOUGH {
            break;
        }
        let gap = threshold.median();
        let fact = if prober.bench.facts().seeks {
            after_seek(prober, gap, errand)?
        } else if let Some(last) = &mut last_track {
            last.probe(prober, gap, errand)?
        } else {
            return Ok(None);
        };
        if let Some(fact) = fact {
            threshold.learn(fact);
        }
    }
    prober.lose();
    Ok((threshold.count() > 8).then(|| threshold.estimate()))
}

/// Moves the heads to a track by a command that transfers nothing, and asks for a block of it.
fn after_seek(
    prober: &mut Prober<'_, '_>,
    gap: f64,
    errand: Errand,
) -> Result<Option<super::threshold::Fact>, Halt> {
    let extent = prober.anywhere(prober.block());
    let Some(track) = prober.track_of(extent.start) else { return Ok(None) };
    let _ = prober.bench.time(Operation::seek(track.lbas.start))?;
    prober.ask(&track, gap, errand)
}

/// The last track of the disk. Behind it nothing is read ahead, and the heads stay.
struct LastTrack {
    track: Track,
    last: Extent,
    /// Whatever lies from here on may be in the drive's memory.
    known_from: Lba,
    segments: u32,
}

impl LastTrack {
    fn new(prober: &Prober<'_, '_>, segments: u32) -> Option<Self> {
        let block = prober.block();
        let end = prober.profile.capacity().0 / block.0 * block.0;
        let last = Extent::new(Lba(end - block.0), block);
        let track = prober.track_of(last.start)?;
        let is_last = track.lbas.end() >= last.end();
        is_last.then_some(Self { track, last, known_from: Lba(0), segments })
    }

    /// Each block lies before the one asked for last: what was read ahead of that cannot hold it.
    fn probe(
        &mut self,
        prober: &mut Prober<'_, '_>,
        gap: f64,
        errand: Errand,
    ) -> Result<Option<super::threshold::Fact>, Halt> {
        let block = prober.block().0;
        let step = (self.track.lbas.len.0 / 24 / block).max(1) * block;
        if errand == Errand::Read && self.known_from.0 < self.track.lbas.start.0 + 2 * step {
            for _ in 0..self.segments + 2 {
                let extent = prober.anywhere(prober.block());
                prober.visit(extent)?;
            }
            self.known_from = self.last.start;
        }
        if self.known_from == self.last.start || errand != Errand::Read {
            prober.lose();
            let _ = prober.bench.time(Operation::read(self.last))?;
        }
        if errand != Errand::Read {
            return prober.ask(&self.track, gap, errand);
        }
        let start = Lba((self.known_from.0 - step) / block * block);
        self.known_from = start;
        let extent = Extent::new(start, Sectors(block));
        prober.ask_for(&self.track, extent, gap, errand)
    }
}

/// What a change of heads on one cylinder takes, with all that comes before the arm moves, in ns.
pub(crate) fn head_switch(
    prober: &mut Prober<'_, '_>,
    errand: Errand,
    base: f64,
) -> Result<Option<Estimate>, Halt> {
    if prober.profile.surfaces < 2 {
        return Ok(None);
    }
    let mut threshold = Threshold::new(Prior::Upto(base + 2.0 * prober.spindle.period()), SPREAD);
    for _ in 0..2 * PROBES {
        let known = threshold.estimate();
        if threshold.count() >= PROBES || threshold.count() > 8 && known.error < ENOUGH {
            break;
        }
        if let Some(fact) = prober.probe(Way::Heads, threshold.median(), errand)? {
            threshold.learn(fact);
        }
        // The way back would end on a track that is in memory.
        prober.lose();
    }
    Ok((threshold.count() > 8).then(|| threshold.estimate()))
}
