//! Probes: reads and writes of single blocks at chosen distances, timed so that their sectors pass
//! at chosen instants.
//!
//! A probe seeks from the current head position to an uncached block, over a chosen distance, and
//! issues the command a chosen gap before the block passes. The next probe starts at that block.
//! The drive reads ahead after each read, and a head that has begun to move to the next track
//! completes that movement first, so that no probe starts in the last part of a track.

use drive_profile::Profile;
use units::{Angle, Duration, Extent, Instant, Lba, Operation, Sectors};

use crate::bench::{Bench, StopReason};
use crate::estimate::bisection::{ReachBound, SectorDelay};
use crate::estimate::number::{fraction, instant, instant_ns, ns, real, round, round_u32};
use crate::host_path::latency::PathLatency;
use crate::mechanics::residual_map::{CELLS, ResidualMap, angle};
use crate::rotation::tracker::{Observation, RotationTracker};
use drive_profile::findings::{OutlierReason, Stage};

/// The time between planning and submission, in ns.
const LEAD: f64 = 20_000.0;
/// The rounding error of an instant, in ns.
const ROUNDING: f64 = 2.0;
/// The initial assumption for the time after a command during which the heads follow the last read,
/// in ns.
const TAKEOVER_FIRST: f64 = 1_500_000.0;
/// Random reads that determine the phase.
const ACQUIRE: u32 = 250;
/// Random reads that determine the phase in a quick profile.
const ACQUIRE_QUICK: u32 = 60;
/// The cylinders at either end that are searched for a track.
const LAST_MAX: u32 = 1_000;
/// The attempts to start a probe.
const TRIES: u32 = 6;
/// No block nearer to either end of a track than this part of it is read: slipped sectors move the
/// ends of tracks, and a block beyond the end is on another track.
const EDGE: f64 = 0.12;
/// The most consecutive probes within one region, each starting where the one before ended: all
/// have the map's error there.
const STAYS: u32 = 4;
/// Steps of low-discrepancy sequences in one and two dimensions: the golden ratio and its
/// generalisations.
const GOLDEN: f64 = 0.618_033_988_749_895;
const SILVER: f64 = 0.754_877_666_246_693;
const BRONZE: f64 = 0.569_840_290_998_053;

/// Consecutive sectors on one track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track {
    pub(crate) lbas: Extent,
    /// The angle of the first of them.
    first: Angle,
    sector: Angle,
    /// Their assumed delay relative to the map, in ns, included in `first`.
    delay: f64,
}

impl Track {
    /// The first block, and the assumed delay.
    const fn sector_delay(&self) -> SectorDelay {
        SectorDelay { lba: self.lbas.start, delay: self.delay }
    }
}

/// The head position.
#[derive(Clone, Copy, Debug)]
struct Heads {
    cylinder: u32,
    surface: u32,
    /// When the last sector of the track will have passed.
    track_end: f64,
}

/// The distance of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeekDistance {
    /// A number of cylinders, with the same head.
    Cylinders(u32),
    /// The next head on the same cylinder.
    HeadSwitch,
}

impl SeekDistance {
    const fn distance(self) -> u32 {
        match self {
            Self::Cylinders(distance) => distance,
            Self::HeadSwitch => 0,
        }
    }
}

/// The command at the end of the seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeKind {
    Read,
    /// A write that completes when it is on the media.
    ForcedWrite,
}

/// Probes one drive.
#[derive(Debug)]
pub(crate) struct Prober<'a, 'b> {
    pub(crate) bench: &'a mut Bench<'b>,
    pub(crate) profile: &'a Profile,
    pub(crate) rotation: RotationTracker,
    /// The time after a command's submission during which the heads may still follow the last read,
    /// in ns.
    pub(crate) takeover: f64,
    /// The longest service time of a cache hit, in ns.
    pub(crate) hit_most: f64,
    /// All samples of the path latency.
    pub(crate) path: PathLatency,
    /// The additional latency of a command most of a revolution after the one before, in ns, if it
    /// was measured.
    pub(crate) silence: Option<f64>,
    heads: Option<Heads>,
    /// Delays of sectors relative to the map.
    pub(crate) residuals: ResidualMap,
    /// The probes since the heads were last sent elsewhere.
    stayed: u32,
    /// The outermost and the innermost cylinder with a track of a common surface.
    first: u32,
    last: u32,
    inward: bool,
    drawn: u64,
}

impl<'a, 'b> Prober<'a, 'b> {
    pub(crate) fn new(bench: &'a mut Bench<'b>, profile: &'a Profile) -> Self {
        let counted = bench.findings.is_done(Stage::Zones);
        let counted = if counted { bench.spent() } else { Duration::ZERO };
        let rotation = RotationTracker::new(profile.rotation_period, counted);
        let takeover = TAKEOVER_FIRST.min(rotation.period() / 4.0);
        let last = profile.cylinders - 1;
        let mut new = Self {
            bench,
            profile,
            rotation,
            takeover,
            hit_most: 0.0,
            path: PathLatency::default(),
            silence: None,
            heads: None,
            residuals: ResidualMap::new(profile),
            stayed: 0,
            first: 0,
            last,
            inward: true,
            drawn: 0,
        };
        // The outermost and innermost cylinders may hold few or no sectors.
        let has = |cylinder: u32, on: u32| new.track(cylinder, on).is_some();
        let any = |cylinder: &u32| (0..profile.surfaces).any(|on| has(*cylinder, on));
        let first = (0..=LAST_MAX.min(last)).find(any).unwrap_or(0);
        let shared =
            |cylinder: &u32| (0..profile.surfaces).any(|on| has(*cylinder, on) && has(first, on));
        let last = (last.saturating_sub(LAST_MAX)..=last).rev().find(shared).unwrap_or(last);
        (new.first, new.last) = (first, last);
        new
    }

    pub(crate) fn block(&self) -> Sectors {
        self.bench.facts().block
    }

    /// Times the path to the drive for `path`, and for the whole measurement.
    pub(crate) fn time_path(&mut self, path: &mut PathLatency) -> Result<(), StopReason> {
        if let Some((slot, latency)) = path.time(self.bench)? {
            self.path.push(slot, latency);
        }
        Ok(())
    }

    /// The next point of three low-discrepancy sequences in [0, 1).
    pub(crate) fn draw(&mut self) -> [f64; 3] {
        self.drawn += 1;
        let nth = real(self.drawn);
        [fraction(nth * GOLDEN), fraction(nth * SILVER), fraction(nth * BRONZE)]
    }

    /// `len` sectors, limited to the disk, at a uniformly distributed address.
    pub(crate) fn random_extent(&mut self, len: Sectors) -> Extent {
        let block = self.block().0;
        let sectors = self.profile.capacity().0;
        let len = len.0.min(sectors) / block * block;
        let room = (sectors - len) / block;
        let nth = round(self.draw()[0] * real(room)).min(room);
        Extent::new(Lba(nth * block), Sectors(len))
    }

    /// The sectors of a track, or their longest run, with their observed phase.
    pub(crate) fn track(&self, cylinder: u32, surface: u32) -> Option<Track> {
        let track = self.track_on_map(cylinder, surface)?;
        let delay = self.residuals.delay(track.lbas.start);
        Some(Track { first: track.first + angle(delay, self.rotation.period()), delay, ..track })
    }

    /// The same with the phase of the map alone.
    fn track_on_map(&self, cylinder: u32, surface: u32) -> Option<Track> {
        let mut lba = self.profile.first_lba_on(cylinder);
        let mut best: Option<Track> = None;
        while lba.0 < self.profile.capacity().0 {
            let spot = self.profile.locate(lba);
            if spot.cylinder > cylinder {
                break;
            }
            let here = spot.cylinder == cylinder && spot.surface == surface;
            if here && best.is_none_or(|best| best.lbas.len < spot.run) {
                let lbas = Extent::new(lba, spot.run);
                best = Some(Track { lbas, first: spot.angle, sector: spot.sector, delay: 0.0 });
            }
            lba = lba + spot.run;
        }
        best.filter(|track| track.lbas.len.0 >= 2 * self.block().0)
    }

    /// The angle at which an extent on one track ends, by the map.
    pub(crate) fn end_on_map(&self, extent: Extent) -> Angle {
        let spot = self.profile.locate(extent.start);
        spot.angle + Angle(round_u32(f64::from(spot.sector.0) * real(extent.len.0)))
    }

    /// Records that a read ending at `end` completed at `seen`, in the residual map and the
    /// rotation tracker.
    fn observe(
        &mut self,
        extent: Extent,
        end: Angle,
        seen: Instant,
        predicted: f64,
    ) -> Observation {
        let on_map = self.end_on_map(extent);
        let delay = self.rotation.off(on_map, seen).filter(|_| self.rotation.is_settled());
        if let Some(delay) = delay {
            self.residuals.learn(extent.start, delay, self.rotation.noise());
        }
        self.rotation.observe(end, seen, predicted)
    }

    /// The track of an address.
    pub(crate) fn track_of(&self, lba: Lba) -> Option<Track> {
        let spot = self.profile.locate(lba);
        self.track(spot.cylinder, spot.surface)
    }

    /// The same with the phase of the map alone, for callers that measure its error.
    pub(crate) fn track_of_on_map(&self, lba: Lba) -> Option<Track> {
        let spot = self.profile.locate(lba);
        self.track_on_map(spot.cylinder, spot.surface)
    }

    /// The sectors on the track of an address.
    pub(crate) fn track_sectors(&self, lba: Lba) -> u64 {
        self.profile.band(lba).sectors_per_track.into()
    }

    /// The first whole block of the track that begins to pass at `from` or later, and that instant.
    pub(crate) fn first_from(&self, track: &Track, from: f64) -> (Extent, f64) {
        self.first_of(track, track.lbas, from)
    }

    /// The same, away from the ends of the track.
    fn inner_from(&self, track: &Track, from: f64) -> (Extent, f64) {
        let edge = Sectors(round(EDGE * real(track.lbas.len.0)));
        let inner = Extent::new(track.lbas.start + edge, track.lbas.len - edge - edge);
        let inner = if inner.len.0 < 2 * self.block().0 { track.lbas } else { inner };
        self.first_of(track, inner, from)
    }

    /// The first whole block of `lbas` on the track.
    fn first_of(&self, track: &Track, lbas: Extent, from: f64) -> (Extent, f64) {
        let block = self.block().0;
        let behind = self.rotation.angle(from) - track.first;
        let nth = u64::from(behind.0).div_ceil(u64::from(track.sector.0));
        // Blocks are counted from address 0, not from the track's first sector.
        let aligned = (track.lbas.start.0 + nth).div_ceil(block) * block;
        let inside = aligned >= lbas.start.0 && aligned + block <= lbas.end().0;
        let aligned = if inside { aligned } else { lbas.start.0.div_ceil(block) * block };
        let extent = Extent::new(Lba(aligned), Sectors(block));
        (extent, self.rotation.next(Self::begins(track, extent), from))
    }

    fn begins(track: &Track, extent: Extent) -> Angle {
        let nth = extent.start.0 - track.lbas.start.0;
        track.first + Angle(round_u32(real(nth) * f64::from(track.sector.0)))
    }

    fn ends(track: &Track, extent: Extent) -> Angle {
        Self::begins(track, extent)
            + Angle(round_u32(f64::from(track.sector.0) * real(extent.len.0)))
    }

    /// The time in which a block passes.
    fn passing(&self, track: &Track) -> f64 {
        self.rotation.sweep(track.sector) * real(self.block().0)
    }

    /// Determines the disk's phase from random reads.
    pub(crate) fn acquire(&mut self) -> Result<(), StopReason> {
        let reads = if self.bench.budget().quick { ACQUIRE_QUICK } else { ACQUIRE };
        for _ in 0..reads {
            let extent = self.random_extent(self.block());
            self.read_block(extent)?;
        }
        Ok(())
    }

    /// Reads a block from any head position, and records the new one. Whether it came from the
    /// media.
    pub(crate) fn read_block(&mut self, extent: Extent) -> Result<bool, StopReason> {
        let spot = self.profile.locate(extent.start);
        let Some(track) = self.track(spot.cylinder, spot.surface) else { return Ok(false) };
        let timed = self.bench.time(Operation::read(extent))?;
        if ns(timed.took()) < self.hit_most {
            // A cache hit moves no arm, even if it completes when the block passes.
            self.heads = None;
            return Ok(false);
        }
        let end = self.end_on_map(extent)
            + angle(self.residuals.delay(extent.start), self.rotation.period());
        let predicted = instant_ns(timed.submitted) + LEAD;
        let sighting = self.observe(extent, end, timed.completed, predicted);
        self.set_head_position(&track, (spot.cylinder, spot.surface), timed.completed);
        if !matches!(sighting, Observation::Revolutions(_)) {
            self.heads = None;
        }
        Ok(self.heads.is_some())
    }

    fn set_head_position(&mut self, track: &Track, (cylinder, surface): (u32, u32), now: Instant) {
        let sectors = real(track.lbas.len.0) * f64::from(track.sector.0);
        let end = track.first + Angle(round_u32(sectors.min(f64::from(u32::MAX))));
        let track_end = self.rotation.next(end, instant_ns(now));
        self.heads = Some(Heads { cylinder, surface, track_end });
    }

    /// The delay of a block's observed passing relative to the prediction, unless the deviation is
    /// too large.
    pub(crate) fn off(&self, track: &Track, extent: Extent, seen: Instant) -> Option<f64> {
        self.rotation.off(Self::ends(track, extent), seen)
    }

    /// Clears the head position, which other commands have changed.
    pub(crate) fn clear_head_position(&mut self) {
        self.heads = None;
    }

    /// The longest distance.
    pub(crate) fn stroke(&self) -> u32 {
        self.last - self.first
    }

    /// A track from which another one with the same head is `distance` away, on either side.
    fn start(&mut self, distance: u32) -> Option<Track> {
        let room = self.stroke().checked_sub(distance)?;
        for _ in 0..TRIES {
            let [one, two, three] = self.draw();
            let from = self.first + round_u32(one * real(u64::from(room)));
            let surfaces = self.profile.surfaces;
            let surface = round_u32(two * real(surfaces.into()) - 0.5);
            self.inward = three < 0.5;
            let (from, to) =
                if self.inward { (from, from + distance) } else { (from + distance, from) };
            let pair = |nth: u32| {
                let surface = (surface + nth) % surfaces;
                self.track(to, surface)?;
                self.track(from, surface)
            };
            let found = (0..surfaces).find_map(pair);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Moves the heads to a track from which another one is `distance` away.
    fn go_to_start(&mut self, distance: u32) -> Result<(), StopReason> {
        for _ in 0..TRIES {
            let Some(track) = self.start(distance) else { return Ok(()) };
            let block = self.block().0;
            let nth = round((EDGE + self.draw()[2] * (0.6 - EDGE)) * real(track.lbas.len.0));
            let start = (track.lbas.start.0 + nth).div_ceil(block) * block;
            if start + block <= track.lbas.end().0
                && self.read_block(Extent::new(Lba(start), Sectors(block)))?
            {
                break;
            }
        }
        Ok(())
    }

    /// A track at a distance from the heads, its cylinder and surface, and when to submit: as soon
    /// as a block of it passes `gap` later.
    fn plan(&mut self, way: SeekDistance, gap: f64) -> Option<(Track, (u32, u32), f64)> {
        let Heads { cylinder, mut surface, track_end } = self.heads?;
        let distance = way.distance();
        if way == SeekDistance::HeadSwitch {
            surface = (surface + 1) % self.profile.surfaces;
        }
        let last = self.last;
        let inner = cylinder.checked_add(distance).filter(|to| *to <= last);
        let outer = cylinder.checked_sub(distance).filter(|to| *to >= self.first);
        let to = if self.inward { inner.or(outer) } else { outer.or(inner) }?;
        self.inward = to >= cylinder;
        let track = self.track(to, surface)?;
        let now = instant_ns(self.bench.now()) + LEAD;
        let (_, pass) = self.inner_from(&track, now + gap);
        let submit = pass - gap;
        (submit + self.takeover < track_end).then_some((track, (to, surface), submit))
    }

    /// Seeks over a distance to a block that passes `gap` ns after the command. The bounds of the
    /// movement, if it was observable.
    pub(crate) fn probe(
        &mut self,
        way: SeekDistance,
        gap: f64,
        kind: ProbeKind,
    ) -> Result<Option<ReachBound>, StopReason> {
        let leaves = u64::from(way.distance()) * CELLS > u64::from(self.stroke());
        if self.stayed >= STAYS && !leaves {
            self.clear_head_position();
        }
        for _ in 0..TRIES {
            let Some((track, to, submit)) = self.plan(way, gap) else {
                self.go_to_start(way.distance())?;
                self.stayed = 0;
                continue;
            };
            self.stayed += 1;
            self.bench.wait_awake(instant(submit));
            // After a late wake-up a later block is used. A rounded instant is not late.
            let now = instant_ns(self.bench.now());
            let (extent, pass) = self.inner_from(&track, now + gap - ROUNDING);
            let bound = self.issue(&track, (extent, pass), kind)?;
            if bound.is_some() && kind == ProbeKind::Read {
                let now = self.bench.now();
                self.set_head_position(&track, to, now);
            } else {
                self.clear_head_position();
            }
            return Ok(bound);
        }
        Ok(None)
    }

    /// Issues the command for a block that begins to pass at `pass`. The bounds of the movement.
    pub(crate) fn issue(
        &mut self,
        track: &Track,
        (extent, pass): (Extent, f64),
        kind: ProbeKind,
    ) -> Result<Option<ReachBound>, StopReason> {
        let operation = match kind {
            ProbeKind::Read => Operation::read(extent),
            ProbeKind::ForcedWrite => Operation::write(extent).with_fua(),
        };
        let timed = self.bench.time(operation)?;
        let submitted = instant_ns(timed.submitted);
        // The command completed before the heads could reach the block, and as fast as a cache hit.
        if kind == ProbeKind::Read
            && ns(timed.took()) < self.hit_most
            && pass - submitted > 2.0 * self.hit_most
        {
            return Ok(None);
        }
        // A block that should pass after more than a revolution may be hit earlier.
        let early = ((pass - submitted) / self.rotation.period()).floor().max(0.0);
        let pass = pass - early * self.rotation.period();
        let passing = self.passing(track);
        let period = self.rotation.period();
        if kind == ProbeKind::ForcedWrite {
            // The completion of a write has other delays than that of a read: only whole
            // revolutions count.
            let revolutions =
                ((instant_ns(timed.completed) - pass - passing) / period + 0.5).floor().max(0.0);
            let reach = pass - submitted + revolutions * period;
            return Ok(Some(ReachBound { reach, period, sector: track.sector_delay() }));
        }
        let end = Self::ends(track, extent);
        match self.observe(extent, end, timed.completed, pass + passing) {
            Observation::Revolutions(revolutions) => {
                let reach = pass - submitted + revolutions * period;
                Ok(Some(ReachBound { reach, period, sector: track.sector_delay() }))
            }
            Observation::Early => Ok(None),
            Observation::Outlier => {
                self.bench.outlier(extent.start, OutlierReason::Remapped);
                Ok(None)
            }
        }
    }
}

impl Prober<'_, '_> {
    /// Probes a block of a track under the heads that begins to pass `gap` later.
    pub(crate) fn probe_track(
        &mut self,
        track: &Track,
        gap: f64,
        kind: ProbeKind,
    ) -> Result<Option<ReachBound>, StopReason> {
        let now = instant_ns(self.bench.now()) + LEAD;
        let (extent, _) = self.first_from(track, now + gap);
        self.probe_block(track, extent, gap, kind)
    }

    /// The same for a given block.
    pub(crate) fn probe_block(
        &mut self,
        track: &Track,
        extent: Extent,
        gap: f64,
        kind: ProbeKind,
    ) -> Result<Option<ReachBound>, StopReason> {
        let begins = Self::begins(track, extent);
        let now = instant_ns(self.bench.now()) + LEAD;
        let pass = self.rotation.next(begins, now + gap);
        self.bench.wait_awake(instant(pass - gap));
        self.issue(track, (extent, pass), kind)
    }

    /// Reads a block of a whole uncached track, early enough on it that the end of the track passes
    /// more than `gap` later. The track and its first block, if that succeeded.
    pub(crate) fn start_before_track_end(
        &mut self,
        gap: f64,
    ) -> Result<Option<(Track, Extent)>, StopReason> {
        let block = self.block();
        let random = self.random_extent(block);
        let whole_track = |track: &Track, sectors: u64| {
            track.lbas.len.0 == sectors && track.lbas.start.0.is_multiple_of(block.0)
        };
        let sectors = self.track_sectors(random.start);
        let Some(track) = self.track_of(random.start).filter(|one| whole_track(one, sectors))
        else {
            return Ok(None);
        };
        // The first block is requested later, and the completion takes some time.
        let (begin, room) = (2 * block.0, (gap + TAKEOVER_FIRST / 2.0) / self.rotation.period());
        let most = real(sectors) * (1.0 - room) - real(begin);
        let into = begin + round(self.draw()[2] * most);
        let start = Lba((track.lbas.start.0 + into) / block.0 * block.0);
        if most < 1.0 || !self.read_block(Extent::new(start, block))? {
            return Ok(None);
        }
        let first = Extent::new(track.lbas.start, block);
        let begins = Self::begins(&track, first);
        let now = instant_ns(self.bench.now()) + LEAD;
        let in_time = self.rotation.next(begins, now) > now + gap;
        Ok(in_time.then_some((track, first)))
    }
}
