//! What is prefetched in rotational waits (FAST 2003 §3.2), and the rests of reads.
//!
//! A volume is offered the sectors behind what its most recent run has. What the engine prefetches
//! of them fills a segment of the run, as a request of the read-ahead does. A prefetch ends where
//! its wait does, often inside a client's read: the rest of that read is then one request, and the
//! read is answered when it has ended.
//!
//! ```text
//! client's reads   │ read │ next │
//! prefetched              ▒▒▒▒▒
//! rest                         ▒
//! ```

use units::{Extent, Instant, Sectors};

use super::interface::{ReadAheadAction, SegmentId};
use super::run::{FilledBy, RunId};
use super::volume::Volume;
use super::{FAILURE_PAUSE, ReadAhead};
use crate::VolumeId;
use crate::limits::{READ_AHEAD_REQUEST_MAX, READ_AHEAD_REQUEST_MIN};
use crate::request::Outcome;

impl ReadAhead {
    /// Notes that the engine prefetches `extent` for `volume`. Returns the segment that it fills;
    /// `None` if it is not wanted any more, and its data is dropped.
    pub fn prefetch_started(&mut self, volume: VolumeId, extent: Extent) -> Option<SegmentId> {
        let id = self.last_run(volume)?;
        let run = self.run(id);
        let goes_on = run.ahead == extent.start && run.bounds.contains(extent);
        if !goes_on || run.blocked_by.is_some() || extent.len > self.free() {
            return None;
        }
        assert!(self.prefetch.is_none(), "one prefetch is in the drive at a time");
        let segment = self.extend_run(id, extent.len, FilledBy::Prefetch);
        self.prefetch = Some(segment);
        // The engine has taken it off what was offered.
        let entry = self.volume(volume);
        entry.offered = entry.offered.filter(|offered| offered.end() > extent.end());
        if let Some(offered) = &mut entry.offered {
            *offered = Extent::new(extent.end(), Sectors(offered.end().0 - extent.end().0));
        }
        self.offers.push_back(volume);
        Some(segment)
    }

    /// Notes that the prefetch in progress has ended. Returns its segment; `None` if its data is
    /// dropped.
    pub fn prefetch_ended(&mut self, outcome: Outcome, now: Instant) -> Option<SegmentId> {
        let id = self.prefetch.take()?;
        let segment = self.segment_mut(id);
        debug_assert!(segment.in_flight, "a prefetch ends once");
        segment.in_flight = false;
        // The volume of one whose run has ended may be another by now.
        segment.is_counted = segment.run.is_some();
        let (volume, run, extent) = (segment.volume, segment.run, segment.extent);
        if outcome == Outcome::Done {
            segment.transferred(extent);
        }
        if run.is_some() {
            let entry = self.volume(volume);
            entry.usage.sectors += extent.len;
            entry.usage.prefetched += extent.len;
            if outcome == Outcome::Failed {
                entry.resumes_at = now + FAILURE_PAUSE;
            }
        }
        match run {
            // The client reads it itself, and learns of the failure.
            Some(run) if outcome == Outcome::Failed => self.end_run(run),
            Some(run) => self.changed.push_back(run),
            None => self.drop_segment(id),
        }
        Some(id)
    }

    /// Requests the rest of a client's read of `extent`, if its first sectors are in memory or on
    /// their way there. Returns whether the read waits for that.
    pub(super) fn read_rest(&mut self, id: RunId, extent: Extent, now: Instant) -> bool {
        let run = self.run(id);
        let is_possible = run.ahead > extent.start
            && run.bounds.contains(extent)
            && run.blocked_by.is_none()
            && !self.volumes[run.volume.0 as usize].in_flight;
        if !self.settings.prefetches || !is_possible {
            return false;
        }
        let (volume, rest) = (run.volume, Sectors(extent.end().0 - run.ahead.0));
        debug_assert!(rest > Sectors::ZERO, "a part of it is not in memory");
        if rest > READ_AHEAD_REQUEST_MAX || self.free_memory(id, rest, now) != Some(rest) {
            return false;
        }
        let segment = self.extend_run(id, rest, FilledBy::RestOfRead);
        self.volume(volume).in_flight = true;
        self.rests.push_back(segment);
        true
    }

    /// Counts what a client reads of a segment.
    pub(super) fn take_from(&mut self, id: SegmentId, extent: Extent) -> Sectors {
        let segment = self.segment_mut(id);
        let taken = segment.take(extent);
        let (volume, filled_by) = (segment.volume, segment.filled_by);
        if filled_by == FilledBy::Prefetch {
            self.volume(volume).usage.prefetched_used += taken;
        }
        debug_assert!(taken <= extent.len, "a part of the read");
        taken
    }

    /// The next volume whose offer has changed, and its new one.
    pub(super) fn next_offer(&mut self, now: Instant) -> Option<ReadAheadAction> {
        while let Some(volume) = self.offers.pop_front() {
            let extent = self.offer(volume, now);
            let entry = self.volume(volume);
            if entry.offered != extent {
                entry.offered = extent;
                return Some(ReadAheadAction::Offer { volume, extent });
            }
        }
        debug_assert!(self.offers.is_empty(), "no offer is forgotten");
        None
    }

    /// What would be prefetched for a volume: what lies behind its most recent run, as far as its
    /// client reads soon and there is memory.
    fn offer(&mut self, volume: VolumeId, now: Instant) -> Option<Extent> {
        let is_enabled = |entry: &&Volume| entry.is_enabled(now);
        self.volumes.get(volume.0 as usize).filter(is_enabled)?;
        let id = self.last_run(volume).filter(|_| self.settings.prefetches)?;
        self.free_memory(id, READ_AHEAD_REQUEST_MIN, now)?;
        let (share, free, run) = (self.share(now), self.free(), self.run(id));
        let end = (run.position + run.most(share)).min(run.ahead + free).min(run.bounds.end());
        let is_wanted = run.blocked_by.is_none() && end > run.ahead;
        is_wanted.then(|| Extent::new(run.ahead, Sectors(end.0 - run.ahead.0)))
    }

    /// The run of a volume that was read last.
    fn last_run(&self, volume: VolumeId) -> Option<RunId> {
        let runs = &self.volumes.get(volume.0 as usize)?.runs;
        let last = runs.iter().copied().max_by_key(|id| (self.run(*id).last_read, *id));
        debug_assert_eq!(last.is_none(), runs.is_empty(), "one of them was the last");
        last
    }
}
