//! One measurement after the other.

use drive_profile::Profile;
use units::{Duration, Instant, Sectors};

use crate::bench::{Bench, StopReason};
use crate::cache::firmware_policies;
use crate::cache::hit_timing::{self, HitTime};
use crate::cache::read_buffer::{self, Memory};
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

/// What a stage may take, by default and at a glance.
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

/// What a stage is left at least, by default and at a glance: those before it end sooner for that.
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

/// What all of them may take: by default what is left.
const WHOLE: [Duration; 2] = [Duration::MAX, Duration::from_secs(30)];

/// What the last command may take.
const LAST: Duration = Duration::from_millis(500);

/// What the same stage may take for ways of no distance measured again, and for ways before writes.
const MORE: [Duration; 2] = [Duration::from_secs(60), Duration::from_millis(1_500)];
/// What the stages behind the seek curve take: what is left beyond that is the curve's, as long as it has a use for it.
const BEHIND: Duration = Duration::from_secs(210);
/// What is measured here, in this order.
const STAGES: [Stage; 7] = [
    Stage::ReadBuffer,
    Stage::Seeks,
    Stage::Overheads,
    Stage::WriteBuffer,
    Stage::Chunks,
    Stage::Depth,
    Stage::Prediction,
];
/// How much longer than until the arm moves the heads may follow what was read last, in ns.
const TAKEOVER: f64 = 200_000.0;
/// What is taken for the number of segments until it is known.
const SEGMENTS_FIRST: u32 = 16;

/// Measures how the drive moves and what it remembers, on a map of where sectors lie. What was found so far is in
/// the bench's findings, however it ends.
///
/// # Errors
/// If the whole budget is spent, or whoever watches asked for an end. A part that ran out of its own time keeps what
/// it found, and the next one goes on.
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
                run.prober.bench.findings.add_note(format!(
                    "{stage}: not all of it was measured in the time that it has"
                ));
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
    /// Whether it is known if there are any.
    writes_timed: bool,
    /// What a read over no distance takes, in ns.
    base: f64,
    /// What is known of the phase of the disk's last track.
    own: TrackDelay,
}

impl Run<'_, '_> {
    /// What a stage may take of what is left.
    fn time(&mut self, stage: Stage) -> Duration {
        let quick = usize::from(self.prober.bench.budget().quick);
        time(stage)[quick].min(self.left_beside(stage).max(least(stage)[quick])).min(self.left())
    }

    /// What the same stage may take for more.
    fn more(&mut self, stage: Stage) -> Duration {
        let quick = usize::from(self.prober.bench.budget().quick);
        MORE[quick].min(self.left_beside(stage))
    }

    /// What is left for a stage if those behind it are to have the least that they need.
    fn left_beside(&mut self, stage: Stage) -> Duration {
        let quick = usize::from(self.prober.bench.budget().quick);
        let findings = &self.prober.bench.findings;
        let behind = STAGES.iter().skip_while(|other| **other != stage).skip(1);
        let behind = behind.filter(|other| !findings.is_done(**other));
        let behind: Duration = behind.map(|other| least(*other)[quick]).sum();
        self.left().saturating_sub(behind)
    }

    /// What is left for all of them.
    fn left(&mut self) -> Duration {
        let bench = &mut *self.prober.bench;
        let budget = bench.budget();
        let whole = WHOLE[usize::from(budget.quick)];
        let left = whole.saturating_sub(bench.now().since(self.began));
        // What was begun in time ends a little later.
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

    /// What an earlier run found that later parts stand on.
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
        let Some(memory) = Memory::find(&mut self.prober)? else {
            self.prober.bench.findings.add_note("nothing is kept or read ahead".into());
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
        self.silence()?;
        let mut base = self.base_of(ProbeKind::Read);
        base.find(&mut self.prober, overheads::PROBES_FIRST)?;
        found.head_switch = overheads::head_switch(&mut self.prober, ProbeKind::Read, &base)?;
        self.prober.bench.findings.dynamics.overheads = found;
        self.habits()?;
        let facts = *self.prober.bench.facts();
        if facts.writable {
            self.time_writes()?;
        }
        if facts.writable && facts.forces {
            self.forced_writes()?;
        }
        Ok(())
    }

    /// What writes take that memory answers, if it does.
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
        base.find(&mut self.prober, overheads::PROBES)?;
        let mut found = self.prober.bench.findings.dynamics.overheads;
        found.write = base.figure();
        let switch = overheads::head_switch(&mut self.prober, ProbeKind::ForcedWrite, &base)?;
        found.head_switch_write = switch;
        self.prober.bench.findings.dynamics.overheads = found;
        self.seeks_before_writes(&base)
    }

    /// What its firmware does with reads.
    fn habits(&mut self) -> Result<(), StopReason> {
        if let Some(mut memory) = self.prober.bench.findings.dynamics.read_buffer {
            memory.waits =
                firmware_policies::waits(&mut self.prober, self.base, memory.ahead.value)?;
            memory.keeps = firmware_policies::keeps(&mut self.prober)?;
            self.prober.bench.findings.dynamics.read_buffer = Some(memory);
        }
        let bus = self.prober.bench.findings.dynamics.overheads.bus_read;
        if let Some(bus) = bus {
            let share = firmware_policies::share(&mut self.prober, bus.value)?;
            self.prober.bench.findings.dynamics.overheads.read_share = share;
        }
        Ok(())
    }

    /// What comes of the silence before a way of no distance is asked for, once.
    fn silence(&mut self) -> Result<(), StopReason> {
        let Some(memory) = self.prober.bench.findings.dynamics.read_buffer else { return Ok(()) };
        if self.prober.silence.is_none() && !self.prober.bench.facts().seeks {
            let silent = overheads::SILENT_PART * self.prober.rotation.period();
            let more = idle_latency::after(&mut self.prober, silent, memory.ahead.value)?;
            self.prober.silence = Some(more);
        }
        Ok(())
    }

    /// What a way of no distance takes, with all that comes before the arm moves: to be measured.
    fn base_of(&self, kind: ProbeKind) -> ZeroDistance {
        let memory = self.prober.bench.findings.dynamics.read_buffer;
        let segments = memory.map_or(SEGMENTS_FIRST, |memory| memory.segments.value);
        let bus = self.writes.or(self.hits).filter(|_| kind == ProbeKind::ForcedWrite);
        // The heads may be there before the data is, which comes over the bus.
        let data = bus
            .map_or(0.0, |hits| hits.sector * crate::estimate::number::real(self.prober.block().0));
        ZeroDistance::new(&self.prober, kind, segments, data).knowing(self.own)
    }

    /// What the path takes, as far as it was timed.
    fn path(&mut self) {
        if let Some(path) = self.prober.path.figure() {
            self.prober.bench.findings.dynamics.overheads.path = Some(path);
        }
    }

    fn seeks(&mut self) -> Result<(), StopReason> {
        let cylinders = self.prober.profile.cylinders;
        self.silence()?;
        let mut base = self.base_of(ProbeKind::Read);
        base.find(&mut self.prober, overheads::PROBES_FIRST)?;
        if let Some(base) = base.estimate() {
            self.base = base.time;
            self.prober.takeover = base.time + TAKEOVER;
        }
        let quick = self.prober.bench.budget().quick;
        let map = &self.prober.bench.findings.geometry;
        if quick && map.as_ref().is_some_and(|map| map.heads.is_none()) {
            let note =
                "seeks: left out, heads are not known so soon, nor which tracks are one cylinder";
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
        // The phase is known best after so many reads: what everything stands on is measured again.
        let more = self.more(Stage::Seeks);
        self.prober.bench.begin(Stage::Seeks, more);
        base.find(&mut self.prober, overheads::PROBES)?;
        curve.place(&self.prober, &mut base);
        self.own = base.own();
        if let Some(known) = base.estimate() {
            self.base = known.time;
            curve.rest_on(known.time);
            let found = &mut self.prober.bench.findings.dynamics;
            found.overheads.read = base.figure();
            found.seek = curve.seeks(cylinders);
        }
        ended
    }

    /// Makes the curve sharper in time that nothing else needs.
    fn spare(&mut self, curve: &mut Curve, base: &mut ZeroDistance) -> Result<(), StopReason> {
        let spare = self.left().saturating_sub(BEHIND);
        if spare == Duration::ZERO {
            return Ok(());
        }
        self.prober.bench.begin(Stage::Seeks, spare);
        let ended = curve.sharpen_alone(&mut self.prober, base);
        let cylinders = self.prober.profile.cylinders;
        self.prober.bench.findings.dynamics.seek = curve.seeks(cylinders);
        match ended {
            Err(StopReason::OutOfTime) => Ok(()),
            ended => ended,
        }
    }

    /// What is known by now of the smallest commands at full speed, band by band.
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
                // Time was over before; that nothing is answered early cannot be said without.
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
        // Where what is about to pass is no hit, to be faster than the media is of no use.
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
        let through = buffer.is_some_and(|buffer| !buffer.answers_early).then_some(Sectors::ZERO);
        // What was not full after hundreds of writes is to be filled first, for which a glance has no time.
        let huge = (!self.prober.bench.budget().quick).then_some(FILLED_MAX);
        let Some(size) = size.or(through).or(huge) else {
            let note =
                "chunks of writes: left out, how much memory takes before it is full is not known";
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
