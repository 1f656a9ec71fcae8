//! The segments of a read-ahead's memory, and what each run may have of it.

use units::{Extent, Instant, Sectors};

use super::ReadAhead;
use super::interface::SegmentId;
use super::run::{FilledBy, RUN_IDLE, RunId, Segment};
use crate::limits::{READ_AHEAD_REQUEST_MAX, READ_AHEAD_REQUEST_MIN, READ_AHEAD_RUNS_MAX};

impl ReadAhead {
    /// The part of the memory that a run may have.
    pub(super) fn share(&self, now: Instant) -> Sectors {
        let active = self.runs.iter().flatten().filter(|run| run.is_active(now)).count();
        let share = self.settings.memory.0 / active.max(1) as u64;
        debug_assert!(active <= READ_AHEAD_RUNS_MAX, "runs are bounded");
        Sectors(share).max(READ_AHEAD_REQUEST_MIN)
    }

    /// A segment for the next `len` of a run.
    pub(super) fn extend_run(&mut self, id: RunId, len: Sectors, filled_by: FilledBy) -> SegmentId {
        let run = self.run_mut(id);
        let (volume, extent) = (run.volume, Extent::new(run.ahead, len));
        assert!(run.bounds.contains(extent), "a read-ahead stays within its bounds");
        run.ahead = extent.end();
        let place = self.free_segment();
        self.segments[place] = Some(Segment::new((volume, id), filled_by, extent));
        self.used += len;
        assert!(self.used <= self.settings.memory, "the memory is bounded");
        let segment = SegmentId(u32::try_from(place).expect("segments are few"));
        self.run_mut(id).segments.push_back(segment);
        segment
    }

    /// A place for a segment. One that the driver does not know to be dropped is not free.
    pub(super) fn free_segment(&mut self) -> usize {
        let segments = (0..).map(SegmentId).zip(&self.segments);
        let mut free =
            segments.filter(|(id, segment)| segment.is_none() && !self.dropped.contains(id));
        if let Some((id, _)) = free.next() {
            return id.0 as usize;
        }
        self.segments.push(None);
        debug_assert!(
            self.segments.len() as u64 <= self.settings.memory.0 * 2,
            "segments are bounded"
        );
        self.segments.len() - 1
    }

    /// As much of `wanted` as the memory has for the run. Takes memory from runs without a client.
    pub(super) fn free_memory(
        &mut self,
        id: RunId,
        wanted: Sectors,
        now: Instant,
    ) -> Option<Sectors> {
        while self.free() < wanted {
            let other = |other: &RunId| *other != id;
            let Some(idle) = self.idle_run(now).filter(other) else { break };
            self.end_run(idle);
        }
        let len = wanted.min(self.free());
        debug_assert!(len <= READ_AHEAD_REQUEST_MAX, "a request is bounded");
        (len == wanted || len >= READ_AHEAD_REQUEST_MIN).then_some(len)
    }

    /// The run that was read least recently, if it is long ago.
    pub(super) fn idle_run(&self, now: Instant) -> Option<RunId> {
        let runs = (0..).map(RunId).zip(&self.runs);
        let idle = runs.filter_map(|(id, run)| Some((run.as_ref()?.last_read, id)));
        let (last, id) = idle.min()?;
        debug_assert!(last <= now, "a run was read in the past");
        (now.since(last) >= RUN_IDLE).then_some(id)
    }

    /// A segment that no run has: its memory is released when it is not in flight.
    pub(super) fn orphan(&mut self, id: SegmentId) {
        let segment = self.segment_mut(id);
        segment.run = None;
        if !segment.in_flight {
            self.drop_segment(id);
        }
    }

    pub(super) fn drop_segment(&mut self, id: SegmentId) {
        let segment = self.segments[id.0 as usize].take().expect("a segment is dropped once");
        assert!(!segment.in_flight, "a segment in flight keeps its memory");
        self.used = self.used - segment.extent.len;
        if segment.is_counted {
            self.volume(segment.volume).usage.unused += segment.extent.len - segment.taken;
        }
        self.dropped.push_back(id);
    }
}
