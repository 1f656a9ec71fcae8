//! Read-ahead in the host, for sequential clients that pause. Sans-IO, without bytes.
//!
//! A client that reads in order, one request at a time, with a pause after each, leaves the disk to
//! others at every pause: each of its requests pays a switch, or its idle disk time. Read-ahead
//! takes one long request in place of many short ones. It stands between the clients' requests and
//! the engine of one disk. The driver submits what [`ReadAhead::poll`] asks for as ordinary
//! requests of the volume, which the engine charges and schedules as any other.
//!
//! ```text
//!  client's read ──▶ submit ──▶ Memory: the driver copies it, and answers
//!                       │  └──▶ Pending: a read-ahead in flight has it; poll says Answer later
//!                       └─────▶ Disk: the driver submits it to the engine
//!  poll ──▶ Read ──▶ the engine ──▶ progress, finished
//! ```
//!
//! A *run* is a position in a volume from which reads go on in order. What was read ahead of it
//! lies in *segments*, one for each request of the read-ahead, in the order of their sectors.
//!
//! Invariants: a segment holds what the disk held when its commands were executed; a write, a trim
//! or a write of zeroes removes what it overlaps, when it is submitted and again when it is
//! answered, so that no read that is sent after the answer sees older data. The segments together
//! never exceed the memory. A volume has at most one read-ahead request in the engine: its own
//! reads wait for that one at most.

use std::collections::VecDeque;

use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

use self::run::{FilledBy, Run, RunId, Segment};
use self::volume::Volume;
use crate::VolumeId;
use crate::limits::{READ_AHEAD_REQUEST_MIN, READ_AHEAD_RUNS_MAX, READ_AHEAD_WAITING_MAX};
use crate::request::{Outcome, Request, RequestId};

mod interface;
mod memory;
mod prefetch;
mod run;
mod usage;
mod volume;

pub use interface::{
    Part, ReadAheadAction, ReadAheadSettings, ReadAheadUsage, SegmentId, ServedBy,
};

/// After a failed read-ahead, a volume is not read ahead for this long: a drive may try for seconds
/// to read a bad sector.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);

/// A client's read that waits for a read-ahead.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: RequestId,
    run: RunId,
    extent: Extent,
}

/// The read-ahead of one disk.
#[derive(Debug)]
pub struct ReadAhead {
    settings: ReadAheadSettings,
    used: Sectors,
    /// What was done for volumes that were removed.
    removed: ReadAheadUsage,
    volumes: Vec<Volume>,
    runs: Vec<Option<Run>>,
    segments: Vec<Option<Segment>>,
    waiting: Vec<Waiting>,
    /// Runs whose state has changed since the last poll.
    changed: VecDeque<RunId>,
    dropped: VecDeque<SegmentId>,
    submit: VecDeque<RequestId>,
    /// Requests for the rests of reads, and volumes whose offers may have changed.
    rests: VecDeque<SegmentId>,
    offers: VecDeque<VolumeId>,
    /// What is being prefetched.
    prefetch: Option<SegmentId>,
    /// The run of the read that is copied from the memory now. A part of the memory that its run
    /// has passed is not kept free of older data.
    served: Option<RunId>,
}

impl ReadAhead {
    /// With the memory of one request at least.
    ///
    /// # Panics
    /// With less: the config's check refuses it.
    pub fn new(settings: ReadAheadSettings) -> Self {
        let memory = settings.memory;
        assert!(memory >= READ_AHEAD_REQUEST_MIN, "the memory holds a request: {memory}");
        Self {
            settings,
            used: Sectors::ZERO,
            removed: ReadAheadUsage::default(),
            volumes: Vec::new(),
            runs: Vec::new(),
            segments: Vec::new(),
            waiting: Vec::new(),
            changed: VecDeque::new(),
            dropped: VecDeque::new(),
            submit: VecDeque::new(),
            rests: VecDeque::new(),
            offers: VecDeque::new(),
            prefetch: None,
            served: None,
        }
    }

    /// Notes a client's request and says where it is served. It may be read ahead of within
    /// `bounds`; without bounds it is not. Each request that is not served by the memory is
    /// reported with [`Self::answered`].
    pub fn submit(&mut self, request: &Request, bounds: Option<Extent>, now: Instant) -> ServedBy {
        let Request { id, volume, operation } = *request;
        let Operation { op, extent, .. } = operation;
        self.served = None;
        if op.writes() {
            self.remove(extent, Some(id));
        }
        let entry = self.volume(volume);
        let is_alone = entry.outstanding == 0;
        entry.outstanding += 1;
        let bounds = bounds.filter(|_| op == units::Op::Read && entry.is_enabled(now));
        let Some(bounds) = bounds else { return ServedBy::Disk };
        debug_assert!(bounds.contains(extent), "a read lies within its bounds");
        let Some(id) = self.run_of(volume, extent.start) else {
            if let Some(entry) = self.volumes.get_mut(volume.0 as usize)
                && entry.continues(extent, is_alone, now)
            {
                self.start_run(volume, extent.end(), bounds, now);
            }
            return ServedBy::Disk;
        };
        self.continue_run(id, (request.id, extent), is_alone, now)
    }

    /// Serves a read that continues a run.
    fn continue_run(
        &mut self,
        id: RunId,
        (request, extent): (RequestId, Extent),
        is_alone: bool,
        now: Instant,
    ) -> ServedBy {
        self.changed.push_back(id);
        let is_full = self.waiting.len() >= READ_AHEAD_WAITING_MAX;
        let run = self.run_mut(id);
        assert!(run.position <= extent.start, "a run goes forward");
        run.access(extent, is_alone, now);
        let (volume, end) = (run.volume, extent.end());
        run.position = end;
        let is_partial = end > run.ahead;
        if is_partial && !is_full && self.read_rest(id, extent, now) {
            self.waiting.push(Waiting { request, run: id, extent });
            return ServedBy::Pending;
        }
        let run = self.run_mut(id);
        if is_partial || is_full {
            run.ahead = run.ahead.max(end);
            return ServedBy::Disk;
        }
        if end <= self.filled(id, extent.start) {
            self.run_mut(id).answered = Some(now);
            self.take(id, extent);
            let entry = self.volume(volume);
            entry.usage.hits += 1;
            entry.outstanding -= 1;
            self.served = Some(id);
            return ServedBy::Memory;
        }
        self.waiting.push(Waiting { request, run: id, extent });
        ServedBy::Pending
    }

    /// Notes that a client's request, submitted before and not served by the memory at once, is
    /// answered.
    pub fn answered(&mut self, request: &Request, now: Instant) {
        let Request { id, volume, operation } = *request;
        if operation.op.writes() {
            self.remove(operation.extent, None);
        }
        let entry = self.volume(volume);
        assert!(entry.outstanding > 0, "an answered request was submitted");
        entry.outstanding -= 1;
        if operation.op == units::Op::Read {
            let end = operation.extent.end();
            let runs = self.runs.iter_mut().flatten();
            if let Some(run) = runs.into_iter().find(|r| r.volume == volume && r.position == end) {
                run.answered = Some(now);
            }
        } else {
            for (index, run) in (0..).zip(&mut self.runs) {
                let Some(run) = run else { continue };
                if run.blocked_by.take_if(|by| *by == id).is_some() {
                    self.changed.push_back(RunId(index));
                }
            }
        }
    }

    /// Notes that a command of a read-ahead request has transferred `extent`.
    pub fn progress(&mut self, segment: SegmentId, extent: Extent) {
        let entry = self.segment_mut(segment);
        assert!(entry.extent.contains(extent), "a command lies in its request");
        entry.transferred(extent);
        if let Some(run) = entry.run {
            self.changed.push_back(run);
        }
    }

    /// Notes that a read-ahead request is answered.
    pub fn finished(&mut self, id: SegmentId, outcome: Outcome, now: Instant) {
        let segment = self.segment_mut(id);
        debug_assert!(segment.in_flight, "a request is answered once");
        segment.in_flight = false;
        let (volume, run, extent) = (segment.volume, segment.run, segment.extent);
        let is_ahead = segment.filled_by == FilledBy::Request;
        segment.is_counted = is_ahead;
        if outcome == Outcome::Done {
            debug_assert_eq!(segment.filled, extent.end(), "all of it was transferred");
        }
        let entry = self.volume(volume);
        entry.in_flight = false;
        if outcome == Outcome::Failed {
            entry.resumes_at = now + FAILURE_PAUSE;
        }
        if is_ahead {
            entry.usage.sectors += extent.len;
        }
        match run {
            // The client reads it itself, and learns of the failure.
            Some(run) if outcome == Outcome::Failed => self.end_run(run),
            Some(_) => {}
            None => self.drop_segment(id),
        }
        let runs = &self.volumes[volume.0 as usize].runs;
        self.changed.extend(runs.iter().copied());
    }

    /// The next action; the driver polls until it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Option<ReadAheadAction> {
        self.served = None;
        if let Some(request) = self.submit.pop_front() {
            return Some(ReadAheadAction::Submit(request));
        }
        if let Some(segment) = self.dropped.pop_front() {
            return Some(ReadAheadAction::Drop(segment));
        }
        if let Some(segment) = self.rests.pop_front() {
            let Segment { volume, extent, .. } = *self.segment(segment);
            return Some(ReadAheadAction::Read { segment, volume, extent });
        }
        while let Some(id) = self.changed.front().copied() {
            if self.runs[id.0 as usize].is_some() {
                if let Some(request) = self.answer(id, now) {
                    self.served = Some(id);
                    return Some(ReadAheadAction::Answer(request));
                }
                self.release(id);
                if let Some(segment) = self.dropped.pop_front() {
                    return Some(ReadAheadAction::Drop(segment));
                }
                if let Some(read) = self.read(id, now) {
                    return Some(read);
                }
                let volume = self.run(id).volume;
                self.offers.push_back(volume);
            }
            self.changed.pop_front();
        }
        // A run that ended just now has given its requests back.
        let next = self.dropped.pop_front().map(ReadAheadAction::Drop);
        let next = next.or_else(|| self.submit.pop_front().map(ReadAheadAction::Submit));
        let next = next.or_else(|| self.next_offer(now));
        // An offer may have taken memory from a run without a client.
        let next = next.or_else(|| self.dropped.pop_front().map(ReadAheadAction::Drop));
        debug_assert!(next.is_some() || self.changed.is_empty(), "no run is forgotten");
        next
    }

    /// Where the memory holds the read that [`Self::submit`] or [`Self::poll`] has just said to be
    /// in memory, in order, until the next call of either.
    ///
    /// # Panics
    /// If there is no such read.
    pub fn parts(&self, extent: Extent) -> impl Iterator<Item = Part> {
        let run = self.served.expect("a read was said to be in memory");
        debug_assert!(self.filled(run, extent.start) >= extent.end(), "all of it is in memory");
        let segments = self.run(run).segments.iter();
        segments.filter_map(move |id| {
            let segment = self.segment(*id);
            let start = segment.extent.start.max(extent.start);
            let end = segment.end().min(extent.end());
            (start < end).then(|| Part {
                segment: *id,
                offset: Sectors(start.0 - segment.extent.start.0),
                extent: Extent::new(start, Sectors(end.0 - start.0)),
            })
        })
    }

    /// Whether the reads of a volume are continued; a volume's are unless this says otherwise.
    pub fn set_enabled(&mut self, volume: VolumeId, is_enabled: bool) {
        let entry = self.volume(volume);
        entry.has_deadlines = !is_enabled;
        entry.forget();
        for run in core::mem::take(&mut entry.runs) {
            self.end_run(run);
        }
        debug_assert!(self.volumes[volume.0 as usize].runs.is_empty(), "all of its runs end");
    }

    /// A volume is removed: its number may be given to another. All of its requests, those of the
    /// read-ahead too, have been answered.
    pub fn remove_volume(&mut self, volume: VolumeId) {
        self.set_enabled(volume, true);
        let entry = self.volume(volume);
        assert!(!entry.in_flight, "its requests have been answered");
        let before = core::mem::take(entry).usage;
        self.removed = self.removed + before;
        debug_assert_eq!(
            self.usage(volume),
            ReadAheadUsage::default(),
            "another one begins at zero"
        );
    }

    /// Removes everything from the memory: the disk is not what it was.
    pub fn clear(&mut self) {
        for index in 0..self.runs.len() {
            if self.runs[index].is_some() {
                self.end_run(RunId(u32::try_from(index).expect("runs are few")));
            }
        }
        debug_assert!(self.runs.iter().all(Option::is_none), "all runs end");
    }

    /// Whether a segment is in the memory, or in flight. Its driver holds a buffer for each.
    pub fn segments(&self) -> usize {
        debug_assert!(self.dropped.len() <= self.segments.len(), "a segment is dropped once");
        self.segments.iter().flatten().count()
    }

    /// Panics if the state is inconsistent: for tests and simulation.
    ///
    /// # Panics
    /// As said.
    pub fn invariants(&self) {
        let sum: u64 = self.segments.iter().flatten().map(|segment| segment.extent.len.0).sum();
        assert_eq!(sum, self.used.0, "the memory in use is that of the segments");
        assert!(self.used <= self.settings.memory, "the memory is bounded");
        assert!(self.waiting.len() <= READ_AHEAD_WAITING_MAX, "waiting requests are bounded");
        let runs = self.runs.iter().flatten().count();
        assert!(runs <= READ_AHEAD_RUNS_MAX, "runs are bounded");
        for (index, run) in (0..).zip(&self.runs) {
            let Some(run) = run else { continue };
            let volume = &self.volumes[run.volume.0 as usize];
            assert!(volume.runs.contains(&RunId(index)), "a run is its volume's");
            let mut end = Lba(0);
            for id in &run.segments {
                let segment = self.segment(*id);
                assert_eq!(segment.run, Some(RunId(index)), "a segment is its run's");
                assert!(end <= segment.extent.start, "segments are in order");
                end = segment.valid;
            }
            assert!(end <= run.ahead, "no more than was read ahead");
        }
    }

    /// Removes what `extent` overlaps from the memory. `writes` is the request that overwrites it
    /// from now on: nothing is read ahead there until it is answered.
    fn remove(&mut self, extent: Extent, writes: Option<RequestId>) {
        for index in 0..self.runs.len() {
            let id = RunId(u32::try_from(index).expect("runs are few"));
            let Some(run) = &self.runs[index] else { continue };
            let low = self.needed_from(id);
            if extent.end() <= low || extent.start >= run.ahead {
                continue;
            }
            self.truncate(id, extent.start.max(low));
            let run = self.run_mut(id);
            run.blocked_by = writes.or(run.blocked_by);
            self.changed.push_back(id);
        }
    }

    /// Removes what the run has from `end` on. Reads that wait for it go to the disk.
    fn truncate(&mut self, id: RunId, end: Lba) {
        let run = self.run_mut(id);
        run.ahead = run.ahead.min(end).max(run.position);
        run.reset_window();
        while let Some(last) = self.run(id).segments.back().copied() {
            let segment = self.segment_mut(last);
            if segment.extent.start < end {
                segment.valid = segment.valid.min(end);
                break;
            }
            self.run_mut(id).segments.pop_back();
            self.orphan(last);
        }
        let (waiting, submit) = (&mut self.waiting, &mut self.submit);
        waiting.retain(|waiting| {
            let stays = waiting.run != id || waiting.extent.end() <= end;
            if !stays {
                submit.push_back(waiting.request);
            }
            stays
        });
        debug_assert!(self.run(id).ahead >= self.run(id).position, "a run goes forward");
    }

    /// Ends a run, and removes what was read ahead of it.
    fn end_run(&mut self, id: RunId) {
        let low = self.run(id).position.min(self.needed_from(id));
        self.truncate(id, Lba(0));
        let run = self.runs[id.0 as usize].take().expect("a run ends once");
        self.offers.push_back(run.volume);
        debug_assert!(run.segments.is_empty(), "nothing is left of it");
        debug_assert!(low <= run.position, "what was needed lay before the position");
        self.volume(run.volume).runs.retain(|other| *other != id);
    }

    /// The first read of the run that waits and whose sectors are in memory.
    fn answer(&mut self, id: RunId, now: Instant) -> Option<RequestId> {
        let is_ready = |waiting: &Waiting| {
            let Waiting { run, extent, .. } = *waiting;
            run == id && extent.end() <= self.filled(id, extent.start)
        };
        let index = self.waiting.iter().position(is_ready)?;
        let Waiting { request, extent, .. } = self.waiting.remove(index);
        self.take(id, extent);
        let run = self.run_mut(id);
        if extent.end() == run.position {
            run.answered = Some(now);
        }
        let volume = run.volume;
        self.volume(volume).usage.waits += 1;
        debug_assert!(!extent.is_empty(), "a read has sectors");
        Some(request)
    }

    /// Counts a client's read of `extent` from the segments of the run.
    fn take(&mut self, id: RunId, extent: Extent) {
        let mut taken = Sectors::ZERO;
        for index in 0..self.run(id).segments.len() {
            let segment = self.run(id).segments[index];
            taken += self.take_from(segment, extent);
        }
        assert_eq!(taken, extent.len, "all of the read is in memory");
    }

    /// Removes the segments that the run has passed.
    fn release(&mut self, id: RunId) {
        let low = self.needed_from(id);
        while let Some(first) = self.run(id).segments.front().copied() {
            if self.segment(first).valid > low {
                break;
            }
            self.run_mut(id).segments.pop_front();
            self.orphan(first);
        }
        debug_assert!(
            self.run(id).position >= low,
            "what is needed lies at the position or before"
        );
    }

    /// The next read-ahead of the run, if it is time for one.
    fn read(&mut self, id: RunId, now: Instant) -> Option<ReadAheadAction> {
        let volume = self.run(id).volume;
        if !self.settings.requests || self.volume(volume).in_flight {
            return None;
        }
        let share = self.share(now);
        let wanted = self.run_mut(id).wanted(share)?;
        let len = self.free_memory(id, wanted, now)?;
        let segment = self.extend_run(id, len, FilledBy::Request);
        self.volume(volume).in_flight = true;
        let extent = self.segment(segment).extent;
        Some(ReadAheadAction::Read { segment, volume, extent })
    }

    /// A new run: the volume's reads have gone on in order up to `position`.
    fn start_run(&mut self, volume: VolumeId, position: Lba, bounds: Extent, now: Instant) {
        if let Some(oldest) = self.volumes[volume.0 as usize].surplus_run(&self.runs) {
            self.end_run(oldest);
        }
        let place = match self.runs.iter().position(Option::is_none) {
            Some(place) => place,
            None if self.runs.len() < READ_AHEAD_RUNS_MAX => {
                self.runs.push(None);
                self.runs.len() - 1
            }
            None => {
                let Some(idle) = self.idle_run(now) else { return };
                self.end_run(idle);
                idle.0 as usize
            }
        };
        let id = RunId(u32::try_from(place).expect("runs are few"));
        debug_assert!(self.runs[place].is_none(), "a run has a place of its own");
        self.runs[place] = Some(Run::new(volume, position, bounds, now));
        self.volume(volume).runs.push(id);
        self.changed.push_back(id);
    }

    /// The run that a read from `start` on continues: at its position, or within what was read
    /// ahead of it.
    fn run_of(&self, volume: VolumeId, start: Lba) -> Option<RunId> {
        let runs = &self.volumes.get(volume.0 as usize)?.runs;
        debug_assert!(runs.len() <= READ_AHEAD_RUNS_MAX, "a volume's runs are bounded");
        let at = |id: &&RunId| (self.run(**id).position..=self.run(**id).ahead).contains(&start);
        runs.iter().filter(at).max_by_key(|id| self.run(**id).position).copied()
    }

    /// The first sector that the run, or a read that waits for it, needs.
    fn needed_from(&self, id: RunId) -> Lba {
        let waiting = self.waiting.iter().filter(|waiting| waiting.run == id);
        let position = self.run(id).position;
        let low = waiting.map(|waiting| waiting.extent.start).fold(position, Lba::min);
        debug_assert!(low <= position, "what waits lies before the position");
        low
    }

    /// The end of what the memory holds of the run from `start` on.
    fn filled(&self, id: RunId, start: Lba) -> Lba {
        let mut end = start;
        for id in &self.run(id).segments {
            let segment = self.segment(*id);
            if (segment.extent.start..segment.end()).contains(&end) {
                end = segment.end();
            }
        }
        debug_assert!(end >= start, "from the lower to the higher");
        end
    }

    fn run(&self, id: RunId) -> &Run {
        self.runs[id.0 as usize].as_ref().expect("a run that is named exists")
    }

    fn run_mut(&mut self, id: RunId) -> &mut Run {
        self.runs[id.0 as usize].as_mut().expect("a run that is named exists")
    }

    fn segment(&self, id: SegmentId) -> &Segment {
        self.segments[id.0 as usize].as_ref().expect("a segment that is named exists")
    }

    fn segment_mut(&mut self, id: SegmentId) -> &mut Segment {
        self.segments[id.0 as usize].as_mut().expect("a segment that is named exists")
    }

    fn volume(&mut self, volume: VolumeId) -> &mut Volume {
        let index = volume.0 as usize;
        if index >= self.volumes.len() {
            self.volumes.resize_with(index + 1, Volume::default);
        }
        debug_assert!(index < crate::limits::VOLUMES_MAX, "volumes are bounded");
        &mut self.volumes[index]
    }
}
