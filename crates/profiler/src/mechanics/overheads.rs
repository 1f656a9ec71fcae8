//! Command overheads beside the media time.
//!
//! Seek commands are timed as cache hits are. The time between a command for the media and the
//! arm's movement is found as seek times are, by a zero-distance access: the heads are on the track
//! already. They stay there only where nothing is read ahead: after a seek command, or on the last
//! track of the disk. Where the map does not cover the last track, a track's first block is
//! requested while its last ones pass: the heads go on to the next track unless the command arrives
//! before.

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
/// Probes of a first estimate.
pub(crate) const PROBES_FIRST: usize = 14;
/// The most probes, where the map's error differs from location to location.
const PROBES_MOST: usize = 4 * PROBES;
/// The number of probes after which their deviation is estimated again.
const BATCH: usize = 16;
/// The sufficient standard error, in ns.
const ENOUGH: f64 = 5_000.0;
/// An estimate needs more probes than this.
const LEAST: usize = 8;
/// The most probes of a zero-distance access.
const PROBES_MAX: usize = 400;
/// Accesses of one kind in a row, where two kinds alternate.
const IN_TURN: usize = 4;
/// The assumed standard deviation of an overhead, in ns.
const SPREAD: f64 = SPREAD_LEAST;
/// The longest part of a revolution before a track's end at which its first block is requested.
const AROUND_MAX: f64 = 0.75;
/// The attempts for such a request.
const AROUND_TRIES: u32 = 12;
/// The reads that determine the phase of the last track: first, and in the end.
const PHASE_READS: [u32; 2] = [80, 600];
/// The reads of each later update of that phase, and the most in all.
const PHASE_READS_BESIDE: u32 = 16;
const PHASE_READS_MOST: u32 = 1_600;
/// The part of these reads in a quick profile, inverted.
const PHASE_PART_QUICK: u32 = 8;
/// The parts of the track between these reads.
const PHASE_PARTS: u64 = 96;
/// The parts of the track between zero-distance probes.
const PROBE_PARTS: u64 = 24;
/// The part of a revolution between a zero-distance probe and the read before it.
pub(crate) const SILENT_PART: f64 = 23.0 / 24.0;

/// The time of a seek command over zero distance.
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

/// The time from a command's submission until the heads are ready without a seek.
///
/// The path latency varies over seconds. So this time is measured beside the times that depend on
/// it, a few probes at a time, and not once before them.
#[derive(Debug)]
pub(crate) struct ZeroDistance {
    kind: ProbeKind,
    estimator: BisectionEstimator,
    last_track: Option<LastTrack>,
    own: TrackDelay,
    /// Whether its approximate time and deviation were known before.
    again: bool,
    /// The part of it that is the transfer of a write's data on the bus, in ns: during a seek the
    /// transfer overlaps the arm's movement.
    data: f64,
    /// The latency that the idle time before it adds, in ns: see
    /// [`crate::host_path::idle_latency`].
    silence: f64,
    /// Samples of the path latency beside its probes.
    path: PathLatency,
}

/// The delay of the sectors of the disk's last track relative to the prediction: the map has one
/// error for the whole track, however many reads there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrackDelay {
    sum: f64,
    squares: f64,
    count: u32,
}

impl TrackDelay {
    /// Adds the delay of a read, in ns, if it was observed.
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
    /// An access without probes. `segments` is the number of reads that evict everything from the
    /// cache, `data` the bus time of a write's data, in ns.
    pub(crate) fn new(prober: &Prober<'_, '_>, kind: ProbeKind, segments: u32, data: f64) -> Self {
        let prior = Prior::Upto(2.0 * prober.rotation.period());
        let last_track = LastTrack::new(prober, segments);
        let estimator = BisectionEstimator::new(prior, SPREAD);
        let (own, path) = (TrackDelay::default(), PathLatency::default());
        // A write is submitted without idle time before it.
        let silence = prober.silence.filter(|_| kind == ProbeKind::Read).unwrap_or(0.0);
        Self { kind, estimator, last_track, own, again: false, data, silence, path }
    }

    /// The same access, measured again with the current estimate as its prior.
    pub(crate) fn again(&self) -> Self {
        let prior = Prior::About(self.estimator.estimate().time, 4.0 * SPREAD);
        let last_track = self.last_track.clone();
        let estimator = BisectionEstimator::new(prior, self.estimator.spread());
        Self { estimator, last_track, path: PathLatency::default(), again: true, ..*self }
    }

    /// The number of probes.
    pub(crate) fn count(&self) -> usize {
        self.estimator.count()
    }

    /// The estimate in ns, with the path latency, if there are enough probes.
    pub(crate) fn estimate(&self) -> Option<Estimate> {
        let Estimate { time, error } = self.estimator.estimate();
        let own = self.own.estimate();
        let time = (time + own.time - self.data - self.silence).max(0.0);
        let error = (error * error + own.error * own.error).sqrt();
        (self.count() > LEAST).then_some(Estimate { time, error })
    }

    /// The drive's own part as a figure: without the path latency, where that was timed.
    pub(crate) fn figure(&self) -> Option<Figure<Duration>> {
        let own = |found: Estimate| Estimate { time: found.time - self.path.median(), ..found };
        self.estimate().map(|found| figure(own(found), self.count()))
    }

    /// The same access with a known track delay.
    pub(crate) fn with_track_delay(self, own: TrackDelay) -> Self {
        Self { own, ..self }
    }

    /// The delay of the last track.
    pub(crate) const fn own(&self) -> TrackDelay {
        self.own
    }

    /// Applies the current residual delays of sectors to all bounds. The last track has its own
    /// delay.
    pub(crate) fn apply_residuals(&mut self, prober: &Prober<'_, '_>) {
        if prober.bench.facts().seeks || self.last_track.is_none() {
            self.estimator = self
                .estimator
                .with_delays(self.estimator.spread(), |lba| prober.residuals.delay(lba));
        }
    }

    /// Reads the last track until its delay has this number of reads.
    fn look(&mut self, prober: &mut Prober<'_, '_>, reads: u32) -> Result<(), StopReason> {
        let (seeks, quick) = (prober.bench.facts().seeks, prober.bench.budget().quick);
        let reads = if quick { reads / PHASE_PART_QUICK } else { reads };
        let more = reads.saturating_sub(self.own.count);
        match &mut self.last_track {
            Some(last) if !seeks && more > 0 => last.look(prober, &mut self.own, more),
            _ => Ok(()),
        }
    }

    /// Probes until there are enough probes, or the estimate is precise.
    pub(crate) fn measure(
        &mut self,
        prober: &mut Prober<'_, '_>,
        probes: usize,
    ) -> Result<(), StopReason> {
        let (seeks, well) = (prober.bench.facts().seeks, probes > PROBES_FIRST);
        self.look(prober, PHASE_READS[usize::from(well)])?;
        // The map's error differs from location to location.
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

    /// Probes a few times more, from any head position.
    pub(crate) fn probe_more(
        &mut self,
        prober: &mut Prober<'_, '_>,
        probes: usize,
    ) -> Result<(), StopReason> {
        if let Some(last) = &mut self.last_track {
            last.there = false;
        }
        // The path latency varies over seconds, so the track's delay is updated all the time.
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
            None => before_track_end(prober, gap, kind)?,
        };
        if let Some(bound) = bound {
            self.estimator.learn(bound);
            // Probes that were near the median from the start do not show the deviation.
            let first_time = prober.bench.facts().seeks && !self.again;
            if first_time && self.count().is_multiple_of(BATCH) {
                self.estimator = self.estimator.with_spread(variation(&self.estimator));
            }
        }
        prober.time_path(&mut self.path)
    }
}

/// Moves the heads to a track by a seek command, and probes a block of it.
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

/// Requests the first block of a track that was just read, so that it passes right behind the last
/// one.
///
/// The drive reads ahead meanwhile, up to the end of the track at least. A command that arrives
/// before that finds the heads on the track, and a later one finds them gone or the block passed.
fn before_track_end(
    prober: &mut Prober<'_, '_>,
    gap: f64,
    kind: ProbeKind,
) -> Result<Option<ReachBound>, StopReason> {
    let gap = gap.min(AROUND_MAX * prober.rotation.period());
    for _ in 0..AROUND_TRIES {
        if let Some((track, first)) = prober.start_before_track_end(gap)? {
            return prober.probe_block(&track, first, gap, kind);
        }
    }
    Ok(None)
}

/// The last track of the disk. Nothing behind it is read ahead, and the heads stay.
#[derive(Clone, Debug)]
struct LastTrack {
    track: Track,
    last: Extent,
    /// Sectors from here on may be cached.
    known_from: Lba,
    segments: u32,
    /// Whether the heads are on the track.
    there: bool,
}

impl LastTrack {
    fn new(prober: &Prober<'_, '_>, segments: u32) -> Option<Self> {
        let block = prober.block();
        // The last track of an incomplete map is not the last of the disk.
        if prober.profile.capacity() < prober.bench.facts().sectors {
            return None;
        }
        let end = prober.profile.capacity().0 / block.0 * block.0;
        let last = Extent::new(Lba(end - block.0), block);
        let track = prober.track_of_on_map(last.start)?;
        let is_last = track.lbas.end() >= last.end();
        is_last.then_some(Self { track, last, known_from: Lba(0), segments, there: false })
    }

    /// A block before the last requested one, by one of `parts` parts of the track: the read-ahead
    /// of the last one does not contain it.
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

    /// Reads that measure the delay of this track relative to the map and the rotation.
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

    /// An uncached block, `step` sectors before the last requested one.
    fn before(&mut self, step: u64, block: u64) -> Extent {
        let start = Lba((self.known_from.0 - step) / block * block);
        self.known_from = start;
        Extent::new(start, Sectors(block))
    }
}

/// The additional time of a head switch on one cylinder, in ns. Head switches and zero-distance
/// accesses alternate, so that the path latency is the same for both.
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
        // The reverse switch would end on a cached track.
        prober.clear_head_position();
        if nth % IN_TURN == IN_TURN - 1 {
            base.probe_more(prober, IN_TURN)?;
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
