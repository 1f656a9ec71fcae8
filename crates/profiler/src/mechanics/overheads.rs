//! What commands cost beside the media.
//!
//! Seek commands are timed, as hits are. What passes
//! between a command for the media and the arm's moving is found as seeks are, on a way of no length: the heads stand on
//! the track already. They only stand there where nothing is read ahead: after a seek command, or on
//! the last track of the disk, behind which there is nothing. Where the map does not go so far, a track's first block is
//! asked for while its last ones pass: the heads go on to the next track unless the command is there before.

use units::{Duration, Extent, Lba, Operation, Sectors, Share};

use crate::bench::StopReason;
use crate::cache::hit_timing::TimeSamples;
use crate::estimate::bisection::{
    ADAPTIVE, BisectionEstimator, Estimate, Prior, ReachBound, SPREAD_LEAST,
};
use crate::estimate::number::duration;
use crate::estimate::variation::variation;
use crate::host_path::latency::PathLatency;
use crate::mechanics::prober::{ProbeKind, Prober, SeekDistance, Track};
use drive_profile::findings::Figure;

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
/// More than so many of them say anything.
const LEAST: usize = 8;
/// And more than so many nothing new.
const PROBES_MAX: usize = 400;
/// Ways of one kind in a row, where two are measured in turn.
const IN_TURN: usize = 4;
/// By how much an overhead may vary, in ns.
const SPREAD: f64 = SPREAD_LEAST;
/// The longest part of a turn before its end at which a track is asked for from its beginning.
const AROUND_MAX: f64 = 0.75;
/// How often that is begun before it is given up.
const AROUND_TRIES: u32 = 12;
/// From how many reads one track's own phase is taken: at first, and in the end.
const PHASE_READS: [u32; 2] = [80, 600];
/// How many more each time that it is looked at again, and the most.
const PHASE_READS_BESIDE: u32 = 16;
const PHASE_READS_MOST: u32 = 1_600;
/// At a glance this part of them.
const PHASE_PART_QUICK: u32 = 8;
/// Into how many parts they divide the track.
const PHASE_PARTS: u64 = 96;
/// And probes of the way of no distance.
const PROBE_PARTS: u64 = 24;
/// So that it is asked for this part of a turn after the one before.
pub(crate) const SILENT_PART: f64 = 23.0 / 24.0;

/// What a seek command over no distance takes.
pub(crate) fn seek_command(
    prober: &mut Prober<'_, '_>,
) -> Result<Option<Figure<Duration>>, StopReason> {
    if !prober.bench.facts().seeks {
        return Ok(None);
    }
    let extent = prober.random_extent(prober.block());
    prober.clear_head_position();
    let _ = prober.bench.time(Operation::seek(extent.start))?;
    let mut times = TimeSamples::begin(prober);
    while !times.enough(prober) {
        times.way(prober)?;
        for _ in 0..SEEKS {
            times.push(prober.bench.time(Operation::seek(extent.start))?.took());
        }
    }
    Ok(times.figure())
}

/// What passes from a command's submission until the heads of an arm that need not move are ready.
///
/// The path to a drive is longer and shorter for seconds each time. So this is measured beside what stands on it, a few
/// probes at a time, and not once before.
#[derive(Debug)]
pub(crate) struct ZeroDistance {
    kind: ProbeKind,
    estimator: BisectionEstimator,
    last_track: Option<LastTrack>,
    own: TrackDelay,
    /// Whether it was known before about how long it takes, and how much that varies.
    again: bool,
    /// What of it is the way of a write's data over the bus, in ns: while an arm moves, data comes beside it.
    data: f64,
    /// And what comes of the silence before it, in ns: see [`crate::host_path::idle_latency`].
    silence: f64,
    /// What the path took meanwhile.
    path: PathLatency,
}

/// By how much sectors of the disk's last track come later than foretold: all answers of one track are off by what the map is
/// off there, however many there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrackDelay {
    sum: f64,
    squares: f64,
    count: u32,
}

impl TrackDelay {
    /// A read was so late, in ns; nothing if that could not be seen.
    fn learn(&mut self, off: Option<f64>) {
        if let Some(off) = off {
            self.sum += off;
            self.squares += off * off;
            self.count += 1;
        }
    }

    fn estimate(&self) -> Estimate {
        if self.count < 2 {
            return Estimate::default();
        }
        let count = f64::from(self.count);
        let mean = self.sum / count;
        let variance = self.squares / count - mean * mean;
        Estimate { time: mean, error: (variance / count).sqrt() }
    }
}

impl ZeroDistance {
    /// Nothing measured yet. `segments` is how many reads push everything out of the drive's memory, `data` what a write's
    /// data takes over the bus, in ns.
    pub(crate) fn new(prober: &Prober<'_, '_>, kind: ProbeKind, segments: u32, data: f64) -> Self {
        let prior = Prior::Upto(2.0 * prober.rotation.period());
        let last_track = LastTrack::new(prober, segments);
        let estimator = BisectionEstimator::new(prior, SPREAD);
        let (own, path) = (TrackDelay::default(), PathLatency::default());
        // A write is asked for at once.
        let silence = prober.silence.filter(|_| kind == ProbeKind::Read).unwrap_or(0.0);
        Self { kind, estimator, last_track, own, again: false, data, silence, path }
    }

    /// The same, measured anew from what is known of it.
    pub(crate) fn again(&self) -> Self {
        let prior = Prior::About(self.estimator.estimate().time, 4.0 * SPREAD);
        let last_track = self.last_track.clone();
        let estimator = BisectionEstimator::new(prior, self.estimator.spread());
        Self { estimator, last_track, path: PathLatency::default(), again: true, ..*self }
    }

    /// How many probes it was found from.
    pub(crate) fn count(&self) -> usize {
        self.estimator.count()
    }

    /// In ns, with the path; nothing where it was not found.
    pub(crate) fn estimate(&self) -> Option<Estimate> {
        let Estimate { time, error } = self.estimator.estimate();
        let own = self.own.estimate();
        let time = (time + own.time - self.data - self.silence).max(0.0);
        let error = (error * error + own.error * own.error).sqrt();
        (self.count() > LEAST).then_some(Estimate { time, error })
    }

    /// As a figure of the drive's own: without the path, where that could be timed.
    pub(crate) fn figure(&self) -> Option<Figure<Duration>> {
        let own = |found: Estimate| Estimate { time: found.time - self.path.median(), ..found };
        self.estimate().map(|found| figure(own(found), self.count()))
    }

    /// The same, of whose track so much is known.
    pub(crate) fn knowing(self, own: TrackDelay) -> Self {
        Self { own, ..self }
    }

    /// What is known of the track's own phase.
    pub(crate) const fn own(&self) -> TrackDelay {
        self.own
    }

    /// Weighs all probes anew, by what is known by now of where sectors lie: the last track has its own phase.
    pub(crate) fn place(&mut self, prober: &Prober<'_, '_>) {
        if prober.bench.facts().seeks || self.last_track.is_none() {
            self.estimator = self
                .estimator
                .with_delays(self.estimator.spread(), |lba| prober.residuals.delay(lba));
        }
    }

    /// Reads for the last track's own phase until there are so many.
    fn look(&mut self, prober: &mut Prober<'_, '_>, reads: u32) -> Result<(), StopReason> {
        let (seeks, quick) = (prober.bench.facts().seeks, prober.bench.budget().quick);
        let reads = if quick { reads / PHASE_PART_QUICK } else { reads };
        let more = reads.saturating_sub(self.own.count);
        match &mut self.last_track {
            Some(last) if !seeks && more > 0 => last.look(prober, &mut self.own, more),
            _ => Ok(()),
        }
    }

    /// Probes until there are so many, or it is known well.
    pub(crate) fn find(
        &mut self,
        prober: &mut Prober<'_, '_>,
        probes: usize,
    ) -> Result<(), StopReason> {
        let (seeks, well) = (prober.bench.facts().seeks, probes > PROBES_FIRST);
        self.look(prober, PHASE_READS[usize::from(well)])?;
        // From place to place the map is off by something else.
        let (most, doubt) = if seeks && well { (PROBES_MOST, ADAPTIVE) } else { (probes, 1.0) };
        for _ in 0..4 * most {
            let known = self.count() > LEAST && doubt * self.estimator.estimate().error < ENOUGH;
            if self.count() >= most || known {
                break;
            }
            self.probe(prober)?;
        }
        prober.clear_head_position();
        Ok(())
    }

    /// Some probes more, from wherever the heads are.
    pub(crate) fn some(
        &mut self,
        prober: &mut Prober<'_, '_>,
        probes: usize,
    ) -> Result<(), StopReason> {
        if let Some(last) = &mut self.last_track {
            last.there = false;
        }
        // The path is longer and shorter for seconds: what a track's phase is off by is looked at all the time.
        self.look(prober, (self.own.count + PHASE_READS_BESIDE).min(PHASE_READS_MOST))?;
        let enough = (self.count() + probes).min(PROBES_MAX);
        for _ in 0..2 * probes {
            if self.count() >= enough {
                break;
            }
            self.probe(prober)?;
        }
        prober.clear_head_position();
        Ok(())
    }

    fn probe(&mut self, prober: &mut Prober<'_, '_>) -> Result<(), StopReason> {
        let (gap, kind) = (self.estimator.median(), self.kind);
        let bound = match &mut self.last_track {
            _ if prober.bench.facts().seeks => after_seek(prober, gap, kind)?,
            Some(last) => last.probe(prober, gap, kind)?,
            None => around(prober, gap, kind)?,
        };
        if let Some(bound) = bound {
            self.estimator.learn(bound);
            // Who asks near the middle from the first on sees nothing of how much they vary.
            let anew = prober.bench.facts().seeks && !self.again;
            if anew && self.count().is_multiple_of(BATCH) {
                self.estimator = self.estimator.with_spread(variation(&self.estimator));
            }
        }
        prober.time_path(&mut self.path)
    }
}

/// Moves the heads to a track by a command that transfers nothing, and asks for a block of it.
fn after_seek(
    prober: &mut Prober<'_, '_>,
    gap: f64,
    kind: ProbeKind,
) -> Result<Option<ReachBound>, StopReason> {
    let extent = prober.random_extent(prober.block());
    let Some(track) = prober.track_of(extent.start) else { return Ok(None) };
    let _ = prober.bench.time(Operation::seek(track.lbas.start))?;
    prober.probe_track(&track, gap, kind)
}

/// Asks for the first block of a track on which something was read, so that it passes right behind the last one.
///
/// The drive reads on meanwhile, and whatever it does at the end of the track it does not before: a command that is
/// ready by then finds the heads where they are, and one that is not finds them gone or the block passed.
fn around(
    prober: &mut Prober<'_, '_>,
    gap: f64,
    kind: ProbeKind,
) -> Result<Option<ReachBound>, StopReason> {
    let gap = gap.min(AROUND_MAX * prober.rotation.period());
    for _ in 0..AROUND_TRIES {
        if let Some((track, first)) = prober.before_end(gap)? {
            return prober.probe_block(&track, first, gap, kind);
        }
    }
    Ok(None)
}

/// The last track of the disk. Behind it nothing is read ahead, and the heads stay.
#[derive(Clone, Debug)]
struct LastTrack {
    track: Track,
    last: Extent,
    /// Whatever lies from here on may be in the drive's memory.
    known_from: Lba,
    segments: u32,
    /// Whether the heads stand there.
    there: bool,
}

impl LastTrack {
    fn new(prober: &Prober<'_, '_>, segments: u32) -> Option<Self> {
        let block = prober.block();
        // Of a map that ends before the disk does the last track is one like any other.
        if prober.profile.capacity() < prober.bench.facts().sectors {
            return None;
        }
        let end = prober.profile.capacity().0 / block.0 * block.0;
        let last = Extent::new(Lba(end - block.0), block);
        let track = prober.track_of_on_map(last.start)?;
        let is_last = track.lbas.end() >= last.end();
        is_last.then_some(Self { track, last, known_from: Lba(0), segments, there: false })
    }

    /// A block before the one asked for last, by one of so many parts of the track: what was read ahead of that cannot
    /// hold it.
    fn next(&mut self, prober: &mut Prober<'_, '_>, parts: u64) -> Result<Extent, StopReason> {
        let block = prober.block().0;
        let step = (self.track.lbas.len.0 / parts / block).max(1) * block;
        if self.known_from.0 < self.track.lbas.start.0 + 3 * step {
            for _ in 0..self.segments + 2 {
                let extent = prober.random_extent(prober.block());
                prober.read_block(extent)?;
            }
            self.known_from = self.last.start;
            prober.clear_head_position();
            let _ = prober.bench.time(Operation::read(self.last))?;
        } else if !self.there {
            let before = self.before(step, block);
            prober.read_block(before)?;
        }
        self.there = true;
        Ok(self.before(step, block))
    }

    /// More reads of which it is learnt by how much sectors of this track come later than the map and the turning of the disk have
    /// it.
    fn look(
        &mut self,
        prober: &mut Prober<'_, '_>,
        own: &mut TrackDelay,
        reads: u32,
    ) -> Result<(), StopReason> {
        for _ in 0..reads {
            let extent = self.next(prober, PHASE_PARTS)?;
            let seen = prober.bench.time(Operation::read(extent))?.completed;
            own.learn(prober.off(&self.track, extent, seen));
        }
        Ok(())
    }

    fn probe(
        &mut self,
        prober: &mut Prober<'_, '_>,
        gap: f64,
        kind: ProbeKind,
    ) -> Result<Option<ReachBound>, StopReason> {
        if kind != ProbeKind::Read {
            prober.clear_head_position();
            let _ = prober.bench.time(Operation::read(self.last))?;
            return prober.probe_track(&self.track, gap, kind);
        }
        let extent = self.next(prober, PROBE_PARTS)?;
        prober.probe_block(&self.track, extent, gap, kind)
    }

    /// A block that is in nobody's memory, so much before the one asked for last.
    fn before(&mut self, step: u64, block: u64) -> Extent {
        let start = Lba((self.known_from.0 - step) / block * block);
        self.known_from = start;
        Extent::new(start, Sectors(block))
    }
}

/// What a change of heads on one cylinder takes longer than none, in ns. Both are measured in turn, so that the path is as
/// long for one as for the other.
pub(crate) fn head_switch(
    prober: &mut Prober<'_, '_>,
    kind: ProbeKind,
    base: &ZeroDistance,
) -> Result<Option<Figure<Duration>>, StopReason> {
    let (Some(known), true) = (base.estimate(), prober.profile.surfaces > 1) else {
        return Ok(None);
    };
    let mut base = base.again();
    let prior = Prior::Upto(known.time + 2.0 * prober.rotation.period());
    let mut estimator = BisectionEstimator::new(prior, SPREAD);
    for nth in 0..2 * PROBES {
        let error = estimator.estimate().error.max(base.estimator.estimate().error);
        let known = estimator.count() > LEAST && base.count() > LEAST && error < ENOUGH;
        if estimator.count() >= PROBES || known {
            break;
        }
        if let Some(bound) = prober.probe(SeekDistance::HeadSwitch, estimator.median(), kind)? {
            estimator.learn(bound);
        }
        // The way back would end on a track that is in memory.
        prober.clear_head_position();
        if nth % IN_TURN == IN_TURN - 1 {
            base.some(prober, IN_TURN)?;
        }
    }
    let Some(base) = base.estimate().filter(|_| estimator.count() > LEAST) else {
        return Ok(None);
    };
    let switch = estimator.estimate();
    let error = (switch.error * switch.error + base.error * base.error).sqrt();
    let switch = Estimate { time: switch.time - base.time, error };
    Ok(Some(figure(switch, estimator.count())))
}

/// An estimate as a figure.
fn figure(estimate: Estimate, samples: usize) -> Figure<Duration> {
    Figure {
        value: duration(estimate.time),
        spread: duration(estimate.error),
        samples: u32::try_from(samples).unwrap_or(u32::MAX),
        confidence: Share::from_percent(90),
    }
}
