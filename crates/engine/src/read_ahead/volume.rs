//! What read-ahead knows of a volume: the runs of its reads, and positions that may become runs.

use units::{Extent, Instant, Lba};

use super::interface::ReadAheadUsage;
use super::run::{Run, RunId};
use crate::limits::{READ_AHEAD_CANDIDATES_MAX, READ_AHEAD_VOLUME_RUNS_MAX};

/// The number of reads in order after which a position is a run.
const READS_IN_ORDER: u8 = 4;

/// A position at which the last read ended.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    end: Lba,
    reads: u8,
    last: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Volume {
    /// Whether its reads have deadlines: it is not read ahead.
    pub(super) has_deadlines: bool,
    /// After a failure: when it is read ahead again.
    pub(super) resumes_at: Instant,
    /// Its client's requests that are not answered.
    pub(super) outstanding: u32,
    /// Whether one of its read-ahead requests is in the engine.
    pub(super) in_flight: bool,
    pub(super) runs: Vec<RunId>,
    /// What the engine knows that would be prefetched for it.
    pub(super) offered: Option<Extent>,
    pub(super) usage: ReadAheadUsage,
    candidates: Vec<Candidate>,
}

impl Volume {
    /// Whether it is read ahead.
    pub(super) fn is_enabled(&self, now: Instant) -> bool {
        !self.has_deadlines && now >= self.resumes_at
    }

    /// Notes a read that continues no run. Returns whether it makes one: the client has read in
    /// order, and it had no other request outstanding. One that always has is served by the drive's
    /// own read-ahead.
    pub(super) fn continues(&mut self, extent: Extent, is_alone: bool, now: Instant) -> bool {
        debug_assert!(self.candidates.len() <= READ_AHEAD_CANDIDATES_MAX, "they are bounded");
        let (end, last) = (extent.end(), now);
        let continued = self.candidates.iter().position(|before| before.end == extent.start);
        let Some(index) = continued else {
            let new = Candidate { end, reads: 1, last };
            if self.candidates.len() < READ_AHEAD_CANDIDATES_MAX {
                self.candidates.push(new);
            } else if let Some(oldest) = self.candidates.iter_mut().min_by_key(|old| old.last) {
                *oldest = new;
            }
            return false;
        };
        let candidate = &mut self.candidates[index];
        let reads = candidate.reads.saturating_add(1);
        *candidate = Candidate { end, reads, last };
        let makes_run = reads >= READS_IN_ORDER && is_alone;
        if makes_run {
            self.candidates.swap_remove(index);
        }
        makes_run
    }

    /// The run that a further one replaces.
    pub(super) fn surplus_run(&self, runs: &[Option<Run>]) -> Option<RunId> {
        debug_assert!(self.runs.len() <= READ_AHEAD_VOLUME_RUNS_MAX, "they are bounded");
        if self.runs.len() < READ_AHEAD_VOLUME_RUNS_MAX {
            return None;
        }
        let last = |id: &&RunId| runs[id.0 as usize].as_ref().map(|run| run.last_read);
        self.runs.iter().min_by_key(last).copied()
    }

    /// Forgets the positions.
    pub(super) fn forget(&mut self) {
        self.candidates.clear();
        debug_assert!(self.candidates.is_empty(), "no position is left");
    }
}
