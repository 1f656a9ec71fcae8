//! Seeks, overheads, caches and queueing: the stages that need a zone map.
//!
//! ```text
//! zone map: logical block -> cylinder, head, angle
//!   └▶ rotation::tracker        when a sector passes
//!       └▶ mechanics::prober        one block, over a distance, after a gap
//!           └▶ estimate::bisection      the duration of the seek, from hit and missed revolutions
//!               └▶ mechanics::seeks         the curve
//! ```
//!
//! What is observable: all times are from a command's submission to when its sector begins to pass,
//! plus a delay from the sector's passing to its completion, which no host can observe. The
//! predicted phase contains the same delay, so that predictions are right. The delay is part of
//! [`Overheads::read`](drive_profile::findings::Overheads::read) and
//! [`Overheads::write`](drive_profile::findings::Overheads::write), but not of the seek curves,
//! which are differences. The latency of the path between host and drive is part of all times and,
//! where it can be timed alone
//! ([`Overheads::path`](drive_profile::findings::Overheads::path)), of no overhead.

use drive_profile::Profile;
use units::{Duration, Instant, Sectors};

use crate::bench::{Bench, StopReason};
use crate::cache::firmware_policies;
use crate::cache::hit_timing::{self, HitTime};
use crate::cache::read_buffer::{self, HitDetector};
use crate::cache::write_buffer;
use crate::estimate::number::ns;
use crate::host_path::idle_latency;
use crate::mechanics::overheads::{self, TrackDelay, ZeroDistance};
use crate::mechanics::prediction;
use crate::mechanics::prober::{ProbeKind, Prober};
use crate::mechanics::seeks::Curve;
use crate::mechanics::write_seeks;
use crate::throughput::chunks::{FILLED_MAX, chunks};
use crate::throughput::depth;
use drive_profile::findings::{Figure, Stage};

/// The most time of a stage, of a full and of a quick profile.
const fn time(stage: Stage) -> [Duration; 2] {
    let millis = match stage {
        Stage::ReadBuffer => [70_000, 7_000],
        Stage::Seeks => [120_000, 7_500],
        Stage::Overheads => [70_000, 4_000],
        Stage::WriteBuffer => [20_000, 2_500],
        Stage::Chunks => [90_000, 4_000],
        Stage::Depth => [45_000, 5_000],
        _ => [6_000, 1_000],
    };
    [Duration::from_millis(millis[0]), Duration::from_millis(millis[1])]
}

/// The least time that a stage is left, of a full and of a quick profile: earlier stages end sooner
/// for it.
const fn least(stage: Stage) -> [Duration; 2] {
    let millis = match stage {
        Stage::ReadBuffer => [15_000, 2_000],
        Stage::Seeks => [40_000, 3_000],
        Stage::Overheads => [45_000, 2_500],
        Stage::WriteBuffer => [12_000, 1_000],
        Stage::Chunks => [25_000, 1_500],
        Stage::Depth => [15_000, 1_500],
        _ => [3_000, 500],
    };
    [Duration::from_millis(millis[0]), Duration::from_millis(millis[1])]
}

/// The most time of all stages. A full profile has no limit but its budget.
const WHOLE: [Duration; 2] = [Duration::MAX, Duration::from_secs(30)];

/// The time that the last command may take.
const LAST: Duration = Duration::from_millis(500);

/// The most time of a stage for repeated zero-distance accesses, and for seeks before writes.
const MORE: [Duration; 2] = [Duration::from_secs(60), Duration::from_millis(1_500)];
/// The time of the stages after the seek curve. The seek curve may use the rest of the budget.
const BEHIND: Duration = Duration::from_secs(210);
/// The stages, in their order.
const STAGES: [Stage; 7] = [
    Stage::ReadBuffer,
    Stage::Seeks,
    Stage::Overheads,
    Stage::WriteBuffer,
    Stage::Chunks,
    Stage::Depth,
    Stage::Prediction,
];
/// The time beyond a zero-distance access for which the heads may follow the last read, in ns.
const TAKEOVER: f64 = 200_000.0;
/// The assumed number of cache segments before it is measured.
const SEGMENTS_FIRST: u32 = 16;

/// Measures seeks, overheads, caches and queueing on a zone map. The bench holds the findings so
/// far, however the measurement ends.
///
/// # Errors
/// If the total budget is exhausted, or the progress sink requests a stop. A stage without time
/// left keeps its findings, and the next stage runs.
pub fn measure(bench: &mut Bench<'_>, map: &Profile) -> Result<(), StopReason> {
    let began = bench.now();
    let mut run = Run {
        prober: Prober::new(bench, map),
        began,
        hits: None,
        base: 0.0,
        writes: None,
        writes_timed: false,
        own: TrackDelay::default(),
    };
    let acquiring = run.time(Stage::Seeks);
    run.prober.bench.begin(Stage::Seeks, acquiring);
    run.prober.acquire()?;
    for stage in STAGES {
        if run.prober.bench.findings.is_done(stage) {
            run.remember(stage);
            continue;
        }
        let most = run.time(stage);
        run.prober.bench.begin(stage, most);
        let ended = run.stage(stage);
        run.path();
        run.chunks_of_bands();
        run.prober.bench.drain();
        run.prober.clear_head_position();
        match ended {
            Ok(()) => run.prober.bench.findings.finish(stage),
            Err(StopReason::OutOfTime) if run.prober.bench.has_time() => {
                run.prober
                    .bench
                    .findings
                    .add_note(format!("{stage}: incomplete, its time was over"));
            }
            Err(halt) => return Err(halt),
        }
    }
    Ok(())
}

struct Run<'a, 'b> {
    prober: Prober<'a, 'b>,
    began: Instant,
    hits: Option<HitTime>,
    writes: Option<HitTime>,
    /// Whether the write timing was measured, with or without a result.
    writes_timed: bool,
    /// The time of a zero-distance read access, in ns.
    base: f64,
    /// The phase error of the disk's last track.
    own: TrackDelay,
}

impl Run<'_, '_> {
    /// The time of a stage.
    fn time(&mut self, stage: Stage) -> Duration {
        let quick = usize::from(self.prober.bench.budget().quick);
        time(stage)[quick].min(self.left_beside(stage).max(least(stage)[quick])).min(self.left())
    }

    /// The additional time of a stage.
    fn more(&mut self, stage: Stage) -> Duration {
        let quick = usize::from(self.prober.bench.budget().quick);
        MORE[quick].min(self.left_beside(stage))
    }

    /// The time left for a stage if the later stages keep their least time.
    fn left_beside(&mut self, stage: Stage) -> Duration {
        let quick = usize::from(self.prober.bench.budget().quick);
        let findings = &self.prober.bench.findings;
        let behind = STAGES.iter().skip_while(|other| **other != stage).skip(1);
        let behind = behind.filter(|other| !findings.is_done(**other));
        let behind: Duration = behind.map(|other| least(*other)[quick]).sum();
        self.left().saturating_sub(behind)
    }

    /// The time left for all stages.
    fn left(&mut self) -> Duration {
        let bench = &mut *self.prober.bench;
        let budget = bench.budget();
        let whole = WHOLE[usize::from(budget.quick)];
        let left = whole.saturating_sub(bench.now().since(self.began));
        // The last command may exceed the end.
        left.min(budget.total.saturating_sub(bench.spent()).saturating_sub(LAST))
    }

    fn stage(&mut self, stage: Stage) -> Result<(), StopReason> {
        match stage {
            Stage::ReadBuffer => self.read_buffer(),
            Stage::Overheads => self.overheads(),
            Stage::Seeks => self.seeks(),
            Stage::WriteBuffer => self.write_buffer(),
            Stage::Chunks => self.chunks(),
            Stage::Depth => self.depth(),
            _ => self.prediction(),
        }
    }

    /// Restores the results of an earlier run that later stages use.
    fn remember(&mut self, stage: Stage) {
        let found = &self.prober.bench.findings.dynamics.overheads;
        let path = found.path.map_or(0.0, |path| ns(path.value));
        let line = |overhead: Option<Figure<Duration>>, sector: Option<Figure<Duration>>| {
            let (overhead, sector) = (overhead?, sector?);
            Some(HitTime {
                overhead: ns(overhead.value) + path,
                sector: ns(sector.value),
                errors: (ns(overhead.spread), ns(sector.spread)),
                samples: overhead.samples,
                path,
            })
        };
        if stage == Stage::Overheads {
            self.hits = line(found.hit, found.bus_read);
            self.writes = line(found.cached, found.bus_write);
            self.writes_timed = true;
        }
        if stage == Stage::Seeks {
            self.base = found.read.map_or(0.0, |read| ns(read.value) + path);
        }
    }

    fn read_buffer(&mut self) -> Result<(), StopReason> {
        let Some(memory) = HitDetector::find(&mut self.prober)? else {
            self.prober.bench.findings.add_note("the drive has no cache for reads".into());
            return Ok(());
        };
        self.prober.hit_most = memory.limit;
        let (found, ended) = read_buffer::read_buffer(&mut self.prober, memory)?;
        self.prober.bench.findings.dynamics.read_buffer = Some(found);
        ended
    }

    fn overheads(&mut self) -> Result<(), StopReason> {
        let memory = self.prober.bench.findings.dynamics.read_buffer;
        if let Some(memory) = memory {
            self.hits = hit_timing::reads(&mut self.prober, memory.ahead.value)?;
        }
        let mut found = self.prober.bench.findings.dynamics.overheads;
        if let Some(hits) = self.hits {
            let (hit, sector) = hits.figures();
            (found.hit, found.bus_read) = (Some(hit), Some(sector));
        }
        self.prober.bench.findings.dynamics.overheads = found;
        found.seek = overheads::seek_command(&mut self.prober)?;
        self.prober.bench.findings.dynamics.overheads = found;
        self.idle_latency()?;
        let mut base = self.base_of(ProbeKind::Read);
        base.measure(&mut self.prober, overheads::PROBES_FIRST)?;
        found.head_switch = overheads::head_switch(&mut self.prober, ProbeKind::Read, &base)?;
        self.prober.bench.findings.dynamics.overheads = found;
        self.firmware_policies()?;
        let facts = *self.prober.bench.facts();
        if facts.writable {
            self.time_writes()?;
        }
        if facts.writable && facts.forces {
            self.forced_writes()?;
        }
        Ok(())
    }

    /// Times writes into the write buffer, if there is one.
    fn time_writes(&mut self) -> Result<(), StopReason> {
        self.writes = hit_timing::writes(&mut self.prober)?;
        self.writes_timed = true;
        if let Some(hits) = self.writes {
            let (hit, sector) = hits.figures();
            let found = &mut self.prober.bench.findings.dynamics.overheads;
            (found.cached, found.bus_write) = (Some(hit), Some(sector));
        }
        Ok(())
    }

    fn forced_writes(&mut self) -> Result<(), StopReason> {
        let mut base = self.base_of(ProbeKind::ForcedWrite);
        base.measure(&mut self.prober, overheads::PROBES)?;
        let mut found = self.prober.bench.findings.dynamics.overheads;
        found.write = base.figure();
        let switch = overheads::head_switch(&mut self.prober, ProbeKind::ForcedWrite, &base)?;
        found.head_switch_write = switch;
        self.prober.bench.findings.dynamics.overheads = found;
        self.seeks_before_writes(&base)
    }

    /// Measures the firmware's policies for reads.
    fn firmware_policies(&mut self) -> Result<(), StopReason> {
        if let Some(mut memory) = self.prober.bench.findings.dynamics.read_buffer {
            memory.waits =
                firmware_policies::serves_passing(&mut self.prober, self.base, memory.ahead.value)?;
            memory.keeps = firmware_policies::keeps_after_use(&mut self.prober)?;
            self.prober.bench.findings.dynamics.read_buffer = Some(memory);
        }
        let bus = self.prober.bench.findings.dynamics.overheads.bus_read;
        if let Some(bus) = bus {
            let share = firmware_policies::share(&mut self.prober, bus.value)?;
            self.prober.bench.findings.dynamics.overheads.read_share = share;
        }
        Ok(())
    }

    /// Measures, once, the latency that idle time adds before a zero-distance access.
    fn idle_latency(&mut self) -> Result<(), StopReason> {
        let Some(memory) = self.prober.bench.findings.dynamics.read_buffer else { return Ok(()) };
        if self.prober.silence.is_none() && !self.prober.bench.facts().seeks {
            let silent = overheads::SILENT_PART * self.prober.rotation.period();
            let more = idle_latency::after(&mut self.prober, silent, memory.ahead.value)?;
            self.prober.silence = Some(more);
        }
        Ok(())
    }

    /// A zero-distance access with all overheads before the arm moves, to be measured.
    fn base_of(&self, kind: ProbeKind) -> ZeroDistance {
        let memory = self.prober.bench.findings.dynamics.read_buffer;
        let segments = memory.map_or(SEGMENTS_FIRST, |memory| memory.segments.value);
        let bus = self.writes.or(self.hits).filter(|_| kind == ProbeKind::ForcedWrite);
        // The heads may be ready before the data, which crosses the bus.
        let data = bus
            .map_or(0.0, |hits| hits.sector * crate::estimate::number::real(self.prober.block().0));
        ZeroDistance::new(&self.prober, kind, segments, data).with_track_delay(self.own)
    }

    /// Records the latency of the path, as far as it was timed.
    fn path(&mut self) {
        if let Some(path) = self.prober.path.figure() {
            self.prober.bench.findings.dynamics.overheads.path = Some(path);
        }
    }

    fn seeks(&mut self) -> Result<(), StopReason> {
        let cylinders = self.prober.profile.cylinders;
        self.idle_latency()?;
        let mut base = self.base_of(ProbeKind::Read);
        base.measure(&mut self.prober, overheads::PROBES_FIRST)?;
        if let Some(base) = base.estimate() {
            self.base = base.time;
            self.prober.takeover = base.time + TAKEOVER;
        }
        let quick = self.prober.bench.budget().quick;
        let map = &self.prober.bench.findings.geometry;
        if quick && map.as_ref().is_some_and(|map| map.heads.is_none()) {
            let note = "seeks: skipped, a quick profile has not found which tracks form a cylinder";
            self.prober.bench.findings.add_note(note.into());
            return Ok(());
        }
        if self.prober.profile.capacity() < self.prober.bench.facts().sectors {
            let note = format!("seeks: of {cylinders} cylinders, as far as the map goes");
            self.prober.bench.findings.add_note(note);
        }
        let mut curve = Curve::new(ProbeKind::Read, self.base, quick);
        let ended = curve.measure(&mut self.prober, &mut base);
        self.prober.bench.findings.dynamics.seek = curve.seeks(cylinders);
        if ended == Err(StopReason::Interrupted) {
            return ended;
        }
        if !quick {
            self.spare(&mut curve, &mut base)?;
        }
        // The phase is known best after this many reads, so the zero-distance access, which all
        // seek times depend on, is measured again.
        let more = self.more(Stage::Seeks);
        self.prober.bench.begin(Stage::Seeks, more);
        base.measure(&mut self.prober, overheads::PROBES)?;
        curve.apply_residuals(&self.prober, &mut base);
        self.own = base.own();
        if let Some(known) = base.estimate() {
            self.base = known.time;
            curve.set_base(known.time);
            let found = &mut self.prober.bench.findings.dynamics;
            found.overheads.read = base.figure();
            found.seek = curve.seeks(cylinders);
        }
        ended
    }

    /// Refines the curve in the time that no other stage needs.
    fn spare(&mut self, curve: &mut Curve, base: &mut ZeroDistance) -> Result<(), StopReason> {
        let spare = self.left().saturating_sub(BEHIND);
        if spare == Duration::ZERO {
            return Ok(());
        }
        self.prober.bench.begin(Stage::Seeks, spare);
        let ended = curve.refine_alone(&mut self.prober, base);
        let cylinders = self.prober.profile.cylinders;
        self.prober.bench.findings.dynamics.seek = curve.seeks(cylinders);
        match ended {
            Err(StopReason::OutOfTime) => Ok(()),
            ended => ended,
        }
    }

    /// Records the smallest chunk at full throughput of each band, as far as it is known.
    fn chunks_of_bands(&mut self) {
        let facts = *self.prober.bench.facts();
        let found = &mut self.prober.bench.findings;
        let Some(map) = found.geometry.as_mut().filter(|_| found.dynamics.overheads.hit.is_some())
        else {
            return;
        };
        let mut known = self.prober.profile.clone();
        found.dynamics.apply(&mut known, facts.block, facts.seeks);
        for (band, known) in map.bands.iter_mut().zip(&known.bands) {
            (band.chunk_read, band.chunk_write) = (known.chunk_read, known.chunk_write);
        }
    }

    fn seeks_before_writes(&mut self, base: &ZeroDistance) -> Result<(), StopReason> {
        let reads = self.prober.bench.findings.dynamics.seek.clone();
        let Some(reads) = reads else { return Ok(()) };
        let more = self.more(Stage::Overheads);
        self.prober.bench.begin(Stage::Overheads, more);
        let found = write_seeks::before_writes(&mut self.prober, &reads, base)?;
        self.prober.bench.findings.dynamics.seek_write = found;
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<(), StopReason> {
        if self.prober.bench.facts().writable {
            if !self.writes_timed {
                // The overheads stage ran out of time. Without the write timing, a write buffer
                // cannot be ruled out.
                self.time_writes()?;
            }
            let found = write_buffer::write_buffer(&mut self.prober, self.writes.as_ref())?;
            self.prober.bench.findings.dynamics.write_buffer = Some(found);
        }
        Ok(())
    }

    fn chunks(&mut self) -> Result<(), StopReason> {
        let writable = self.prober.bench.facts().writable;
        let now = self.prober.bench.now();
        let half = self.prober.bench.left() / if writable { 2 } else { 1 };
        // Where a sector that is about to pass is not served in the same revolution, a command
        // overhead below the media time has no benefit.
        let memory = self.prober.bench.findings.dynamics.read_buffer;
        let strict = memory.is_some_and(|memory| memory.waits == Some(false));
        let hits = self.hits.filter(|_| !strict);
        let reads = chunks(&mut self.prober, (false, Sectors::ZERO), hits.as_ref(), now + half)?;
        self.prober.bench.findings.dynamics.chunks_read = Some(reads);
        if !writable {
            return Ok(());
        }
        let buffer = self.prober.bench.findings.dynamics.write_buffer;
        let size = buffer.and_then(|buffer| buffer.size).map(|size| size.value);
        let through = buffer.is_some_and(|buffer| !buffer.write_back).then_some(Sectors::ZERO);
        // A buffer that did not fill within hundreds of writes is filled first. A quick profile has
        // no time for that.
        let huge = (!self.prober.bench.budget().quick).then_some(FILLED_MAX);
        let Some(size) = size.or(through).or(huge) else {
            let note = "chunks of writes: skipped, the size of the write buffer is unknown";
            self.prober.bench.findings.add_note(note.into());
            return Ok(());
        };
        let until = self.prober.bench.now() + self.prober.bench.left();
        let hits = self.writes;
        let writes = chunks(&mut self.prober, (true, size), hits.as_ref(), until)?;
        self.prober.bench.findings.dynamics.chunks_write = Some(writes);
        Ok(())
    }

    fn depth(&mut self) -> Result<(), StopReason> {
        let depths = depth::random(&mut self.prober)?;
        self.prober.bench.findings.dynamics.depths = depths;
        let starvation = depth::starvation(&mut self.prober)?;
        self.prober.bench.findings.dynamics.starvation = Some(starvation);
        Ok(())
    }

    fn prediction(&mut self) -> Result<(), StopReason> {
        let seek = self.prober.bench.findings.dynamics.seek.as_ref();
        let Some(curve) = seek.map(drive_profile::findings::Seeks::curve) else { return Ok(()) };
        let found = prediction::prediction(&mut self.prober, &curve, self.base)?;
        self.prober.bench.findings.dynamics.prediction = Some(found);
        Ok(())
    }
}
