//! What commands cost beside the media.
//!
//! Seek commands are timed, as hits are. What passes
//! between a command for the media and the arm's moving is found as seeks are, on a way of no length: the heads stand on
//! the track already. They only stand there where nothing is read ahead: after a seek command, or on
//! the last track of the disk, behind which there is nothing.

use units::{Duration, Extent, Lba, Operation, Sectors};

use super::hits::Times;
use super::prober::{Errand, Prober, Track, Way};
use super::seeks::{ADAPTIVE, SPREAD_LEAST, variation};
use super::threshold::{Estimate, Prior, Threshold};
use crate::{Figure, Halt};

/// Seek commands in a row.
const SEEKS: u32 = 200;
/// Probes of one overhead.
pub(crate) const PROBES: usize = 48;
/// The same for a first guess.
pub(crate) const PROBES_FIRST: usize = 14;
/// The most of them, where what the map is off by from place to place makes the answers vary.
const PROBES_MOST: usize = 4 * PROBES;
/// After how many more it is looked again how much they vary.
const BATCH: usize = 16;
/// The standard error that is enough, in ns.
const ENOUGH: f64 = 5_000.0;
/// By how much an overhead may vary, in ns.
const SPREAD: f64 = SPREAD_LEAST;
/// From how many reads one track's own phase is taken, and at a glance.
const PHASE_READS: [u32; 2] = [600, 40];
/// Into how many parts they divide the track.
const PHASE_PARTS: u64 = 96;
/// And probes of the way of no distance.
const PROBE_PARTS: u64 = 24;

/// What a seek command over no distance takes.
pub(crate) fn seek_command(prober: &mut Prober<'_, '_>) -> Result<Option<Figure<Duration>>, Halt> {
    if !prober.bench.facts().seeks {
        return Ok(None);
    }
    let extent = prober.anywhere(prober.block());
    prober.lose();
    let _ = prober.bench.time(Operation::seek(extent.start))?;
    let mut times = Times::begin(prober);
    while !times.enough(prober) {
        for _ in 0..SEEKS {
            times.push(prober.bench.time(Operation::seek(extent.start))?.took());
        }
    }
    Ok(times.figure())
}

/// What passes from a command's submission until the heads of an arm that need not move are ready, in ns. `segments` is
/// how many reads push everything out of the drive's memory.
pub(crate) fn media(
    prober: &mut Prober<'_, '_>,
    errand: Errand,
    segments: u32,
    probes: usize,
) -> Result<Option<Estimate>, Halt> {
    if prober.bench.facts().seeks {
        let most = if probes > PROBES_FIRST { PROBES_MOST } else { probes };
        return anywhere(prober, errand, most);
    }
    let Some(mut last) = LastTrack::new(prober, segments) else { return Ok(None) };
    // All answers of one track are off by what the map is off there, however many there are.
    let own = if probes > PROBES_FIRST { last.own_phase(prober)? } else { Estimate::default() };
    let mut threshold = Threshold::new(Prior::Upto(2.0 * prober.spindle.period()), SPREAD);
    for _ in 0..4 * probes {
        if threshold.count() >= probes || is_enough(&threshold, 1.0) {
            break;
        }
        if let Some(fact) = last.probe(prober, threshold.median(), errand)? {
            threshold.learn(fact);
        }
    }
    prober.lose();
    let Estimate { time, error } = threshold.estimate();
    let error = (error * error + own.error * own.error).sqrt();
    Ok((threshold.count() > 8).then_some(Estimate { time: time + own.time, error }))
}

fn is_enough(threshold: &Threshold, doubt: f64) -> bool {
    threshold.count() > 8 && doubt * threshold.estimate().error < ENOUGH
}

/// The same from tracks all over the disk, to which the heads are moved by commands that transfer nothing.
fn anywhere(
    prober: &mut Prober<'_, '_>,
    errand: Errand,
    most: usize,
) -> Result<Option<Estimate>, Halt> {
    let mut threshold = Threshold::new(Prior::Upto(2.0 * prober.spindle.period()), SPREAD);
    for _ in 0..4 * most {
        if threshold.count() >= most || is_enough(&threshold, ADAPTIVE) {
            break;
        }
        let Some(fact) = after_seek(prober, threshold.median(), errand)? else { continue };
        threshold.learn(fact);
        // What the map is off by differs from place to place.
        if threshold.count().is_multiple_of(BATCH) {
            threshold = threshold.varied(variation(&threshold));
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

    /// A block before the one asked for last, by one of so many parts of the track: what was read ahead of that cannot
    /// hold it.
    fn next(&mut self, prober: &mut Prober<'_, '_>, parts: u64) -> Result<Extent, Halt> {
        let block = prober.block().0;
        let step = (self.track.lbas.len.0 / parts / block).max(1) * block;
        if self.known_from.0 < self.track.lbas.start.0 + 2 * step {
            for _ in 0..self.segments + 2 {
                let extent = prober.anywhere(prober.block());
                prober.visit(extent)?;
            }
            self.known_from = self.last.start;
            prober.lose();
            let _ = prober.bench.time(Operation::read(self.last))?;
        }
        let start = Lba((self.known_from.0 - step) / block * block);
        self.known_from = start;
        Ok(Extent::new(start, Sectors(block)))
    }

    /// By how much sectors of this track come later than the map and the turning of the disk have it.
    fn own_phase(&mut self, prober: &mut Prober<'_, '_>) -> Result<Estimate, Halt> {
        let reads = PHASE_READS[usize::from(prober.bench.budget().quick)];
        let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
        for _ in 0..reads {
            let extent = self.next(prober, PHASE_PARTS)?;
            let seen = prober.bench.time(Operation::read(extent))?.completed;
            let Some(off) = prober.off(&self.track, extent, seen) else { continue };
            sum += off;
            squares += off * off;
            count += 1.0;
        }
        if count < 2.0 {
            return Ok(Estimate::default());
        }
        let mean: f64 = sum / count;
        let variance: f64 = squares / count - mean * mean;
        Ok(Estimate { time: mean, error: (variance / count).sqrt() })
    }

    fn probe(
        &mut self,
        prober: &mut Prober<'_, '_>,
        gap: f64,
        errand: Errand,
    ) -> Result<Option<super::threshold::Fact>, Halt> {
        if errand != Errand::Read {
            prober.lose();
            let _ = prober.bench.time(Operation::read(self.last))?;
            return prober.ask(&self.track, gap, errand);
        }
        let extent = self.next(prober, PROBE_PARTS)?;
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
