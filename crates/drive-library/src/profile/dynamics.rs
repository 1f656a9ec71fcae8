//! Mechanics, caches and queues: `[found.dynamics]`.

use drive::MOVE_MAX;
use drive_profile::findings::Findings;
use drive_profile::findings::{
    ChunkPoint, Chunks, DepthPoint, Dynamics, Overheads, Prediction, ReadBuffer, SeekPoint, Seeks,
    Starvation, WriteBuffer,
};
use units::{Bytes, Duration, Sectors, Share};

use super::flash::unknown;
use super::form::{Cells, Form, Record, Row};
use super::value::Written;
use input::InputError;

const POINTS_MAX: usize = 4_096;

/// The table is absent if nothing is known.
pub(super) fn visit(findings: &mut Findings, form: &mut Form<'_>) -> Result<(), InputError> {
    let known = findings.dynamics != Dynamics::default();
    let mut dynamics = known.then(|| findings.dynamics.clone());
    form.table("dynamics", &mut dynamics)?;
    findings.dynamics = dynamics.unwrap_or_default();
    Ok(())
}

impl Record for Dynamics {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.rows("depths", &mut self.depths, POINTS_MAX)?;
        let mut overheads = (self.overheads != Overheads::default()).then_some(self.overheads);
        form.table("overheads", &mut overheads)?;
        self.overheads = overheads.unwrap_or_default();
        form.table("seek", &mut self.seek)?;
        form.table("seek_write", &mut self.seek_write)?;
        form.table("read_buffer", &mut self.read_buffer)?;
        form.table("write_buffer", &mut self.write_buffer)?;
        form.table("chunks_read", &mut self.chunks_read)?;
        form.table("chunks_write", &mut self.chunks_write)?;
        form.table("starvation", &mut self.starvation)?;
        form.table("prediction", &mut self.prediction)
    }
}

impl Record for Overheads {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.figure("path", &mut self.path)?;
        form.figure(("read_hit", "hit"), &mut self.hit)?;
        form.figure(("read_miss", "read"), &mut self.read)?;
        form.figure(("write_cached", "cached"), &mut self.cached)?;
        form.figure(("write_media", "write"), &mut self.write)?;
        form.figure(("seek_command", "seek"), &mut self.seek)?;
        form.figure("bus_read", &mut self.bus_read)?;
        form.figure("bus_write", &mut self.bus_write)?;
        form.figure("read_share", &mut self.read_share)?;
        form.figure("head_switch", &mut self.head_switch)?;
        form.figure("head_switch_write", &mut self.head_switch_write)
    }
}

impl Record for Seeks {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field(("track_to_track", "least"), &mut self.least)?;
        form.field("mean", &mut self.mean)?;
        form.field("full_stroke", &mut self.full_stroke)?;
        form.field("samples", &mut self.samples)?;
        form.rows("points", &mut self.points, POINTS_MAX)?;
        let rising = self.points.windows(2).all(|pair| pair[0].distance < pair[1].distance);
        let first = self.points.first().is_none_or(|point| point.distance > 0);
        form.sound(rising && first, "points", || "distances that rise from 1 on".to_owned())?;
        let short = self.points.iter().all(|point| point.time <= MOVE_MAX);
        form.sound(short, "points", || format!("times of at most {MOVE_MAX}"))
    }
}

impl Row for SeekPoint {
    const EXPECTED: &'static str = "[a distance in cylinders, a time, its error, its variation]";
    const COUNT: usize = 4;

    fn cells(&self) -> Vec<String> {
        let Self { distance, time, error, variation } = self;
        vec![distance.text(), time.text(), error.text(), variation.text()]
    }

    fn read(cells: &Cells<'_>) -> Result<Self, InputError> {
        let (distance, time) = (cells.at(0)?, cells.at(1)?);
        Ok(Self { distance, time, error: cells.at(2)?, variation: cells.at(3)? })
    }
}

impl Row for DepthPoint {
    const EXPECTED: &'static str = "[a depth, reads in a thousand seconds, samples]";
    const COUNT: usize = 3;

    fn cells(&self) -> Vec<String> {
        vec![self.depth.text(), self.per_1000_s.text(), self.samples.text()]
    }

    fn read(cells: &Cells<'_>) -> Result<Self, InputError> {
        Ok(Self { depth: cells.at(0)?, per_1000_s: cells.at(1)?, samples: cells.at(2)? })
    }
}

impl Record for ReadBuffer {
    fn blank() -> Self {
        let size = unknown(Sectors::ZERO, Sectors::ZERO);
        Self {
            ahead: size,
            ends_with_track: false,
            reads_next_track: false,
            waits: None,
            keeps: None,
            segments: unknown(0, 0),
            segment: size,
        }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.known(("read_ahead", "ahead"), &mut self.ahead)?;
        form.field("ends_with_track", &mut self.ends_with_track)?;
        let mut next = self.reads_next_track.then_some(true);
        form.maybe("reads_next_track", &mut next)?;
        self.reads_next_track = next == Some(true);
        form.maybe(("serves_arriving_sectors", "waits"), &mut self.waits)?;
        form.maybe(("keeps_after_read", "keeps"), &mut self.keeps)?;
        form.known("segments", &mut self.segments)?;
        form.known("segment", &mut self.segment)
    }
}

impl Record for WriteBuffer {
    fn blank() -> Self {
        let (write_back, destages_when_idle) = (false, false);
        Self { write_back, size: None, runs: None, destage: None, destages_when_idle }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field(("write_back", "answers_early"), &mut self.write_back)?;
        form.figure("size", &mut self.size)?;
        form.maybe(("scattered_writes", "runs"), &mut self.runs)?;
        form.figure("destage", &mut self.destage)?;
        form.field("destages_when_idle", &mut self.destages_when_idle)
    }
}

impl Record for Chunks {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field("optimal_from", &mut self.optimal.0)?;
        form.field("optimal_to", &mut self.optimal.1)?;
        form.maybe("confidence", &mut self.confidence)?;
        form.rows("points", &mut self.points, POINTS_MAX)
    }
}

impl Row for ChunkPoint {
    const EXPECTED: &'static str = "[a length, bytes a second seen, bytes a second of the drive]";
    const COUNT: usize = 3;

    fn cells(&self) -> Vec<String> {
        // A rate is not a round number of KiB.
        let rate = |rate: Bytes| format!("\"{}B\"", rate.0);
        vec![self.chunk.text(), rate(self.seen), rate(self.drive)]
    }

    fn read(cells: &Cells<'_>) -> Result<Self, InputError> {
        Ok(Self { chunk: cells.at(0)?, seen: cells.at(1)?, drive: cells.at(2)? })
    }
}

/// A queue depth, and the longest wait of a random read at that depth.
struct Wait((u32, Duration));

impl Row for Wait {
    const EXPECTED: &'static str = "[a depth, a time]";
    const COUNT: usize = 2;

    fn cells(&self) -> Vec<String> {
        let Self((depth, time)) = self;
        vec![depth.text(), time.text()]
    }

    fn read(cells: &Cells<'_>) -> Result<Self, InputError> {
        Ok(Self((cells.at(0)?, cells.at(1)?)))
    }
}

impl Record for Starvation {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field("safe_depth", &mut self.safe_depth)?;
        let mut waits: Vec<Wait> = self.waits.iter().copied().map(Wait).collect();
        form.rows("waits", &mut waits, POINTS_MAX)?;
        self.waits = waits.into_iter().map(|Wait(wait)| wait).collect();
        Ok(())
    }
}

impl Record for Prediction {
    fn blank() -> Self {
        let (noise, offset) = (Duration::ZERO, Duration::ZERO);
        Self { noise, offset, missed: Share::NONE, samples: 0, just_in_time_gains: false }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field("noise", &mut self.noise)?;
        form.field("offset", &mut self.offset)?;
        form.field("missed", &mut self.missed)?;
        form.field("samples", &mut self.samples)?;
        form.field(("just_in_time_gains", "worth_it"), &mut self.just_in_time_gains)
    }
}
