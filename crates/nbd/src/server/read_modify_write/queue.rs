//! The queue of writes that each event loop shares.

use std::collections::BTreeMap;

use units::{Extent, Op, Operation, Sectors};

use crate::limits::{SECTOR, THREADS_MAX};
use crate::proto::byte_range::ByteRange;
use crate::proto::export::ExportId;
use crate::proto::request::{ClientRequestId, Errno, ReadModifyWrite, Reply, Request};
use crate::server::loop_id::LoopId;

/// A session's sequence numbers stay below `1 << PART_SHIFT`; the bits above number the parts of a
/// read-modify-write.
const PART_SHIFT: u32 = 60;

/// The part of a read-modify-write that a request of its own carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    First = 1,
    Last = 2,
    Middle = 3,
}

fn part(id: ClientRequestId, part: Part) -> ClientRequestId {
    ClientRequestId { sequence: id.sequence | (part as u64) << PART_SHIFT, ..id }
}

const fn whole(id: ClientRequestId) -> ClientRequestId {
    ClientRequestId { sequence: id.sequence & ((1 << PART_SHIFT) - 1), ..id }
}

fn overlap(one: Extent, other: Extent) -> bool {
    one.start < other.end() && other.start < one.end()
}

/// A queued or running write to some sectors.
#[derive(Debug)]
pub(super) struct Job {
    id: ClientRequestId,
    extent: Extent,
    /// The number of forwarded writes in flight that overlap; counted once all loops have reported.
    ahead: usize,
    begun: bool,
    work: Work,
}

#[derive(Debug)]
enum Work {
    /// A request for whole sectors that overlaps an earlier read-modify-write; `None` once
    /// submitted.
    Whole(Option<Request>),
    ReadModifyWrite(SectorUpdate),
}

/// A read-modify-write in progress.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "two are flags of the protocol, set or not")]
struct SectorUpdate {
    span: ByteRange,
    op: Op,
    fua: bool,
    no_hole: bool,
    /// No data, and whole sectors: those are not written as data.
    zeroes_inner: bool,
    /// The sectors to be written; for zeroes with whole sectors inside, only the first and the
    /// last.
    data: Vec<u8>,
    /// Requests at the disk.
    left: usize,
    writing: bool,
    failed: Option<Errno>,
}

/// An export with writes to parts of sectors.
#[derive(Debug, Default)]
pub(super) struct TrackedExport {
    /// In order of arrival.
    pub(super) jobs: Vec<Job>,
    /// Writing requests in flight that were forwarded without a job.
    pub(super) forwarded: BTreeMap<ClientRequestId, Extent>,
    /// The loops that have reported their requests in flight.
    reported: Loops,
    /// Whether all loops have reported.
    is_complete: bool,
    /// Whether the export is withdrawn: running jobs end, and no others begin.
    withdrawn: bool,
}

/// The jobs of all exports.
#[derive(Debug)]
pub(crate) struct ReadModifyWriteQueue {
    loops: usize,
    ended: Loops,
    pub(super) tracked: BTreeMap<ExportId, TrackedExport>,
}

/// A set of loops.
#[derive(Clone, Copy, Debug, Default)]
struct Loops(u8);

const _: () = assert!(THREADS_MAX <= u8::BITS as usize);

impl Loops {
    const fn insert(&mut self, loop_id: LoopId) {
        self.0 |= 1 << loop_id.index();
    }

    const fn count_with(self, other: Self) -> usize {
        (self.0 | other.0).count_ones() as usize
    }
}

impl ReadModifyWriteQueue {
    /// A queue for `loops` event loops.
    pub(crate) const fn new(loops: usize) -> Self {
        Self { loops, ended: Loops(0), tracked: BTreeMap::new() }
    }

    /// Whether a reply belongs to a part of a read-modify-write and not to a client.
    pub(crate) const fn is_part(id: ClientRequestId) -> bool {
        id.sequence >> PART_SHIFT != 0
    }

    /// Tracks this export. Returns true if it was not tracked: then each loop is to be told.
    pub(crate) fn track(&mut self, export: ExportId) -> bool {
        let new = !self.tracked.contains_key(&export);
        self.tracked.entry(export).or_default();
        new
    }

    /// Whether the export is tracked.
    pub(crate) fn is_tracked(&self, export: ExportId) -> bool {
        self.tracked.contains_key(&export)
    }

    /// A loop reports its requests in flight. Requests that can be submitted are added to `out`.
    pub(crate) fn report(
        &mut self,
        (loop_id, export): (LoopId, ExportId),
        in_flight: impl Iterator<Item = (ClientRequestId, Extent)>,
        out: &mut Vec<Request>,
    ) {
        let Some(tracked) = self.tracked.get_mut(&export) else { return };
        assert!(!tracked.is_complete, "a loop is told once");
        tracked.reported.insert(loop_id);
        tracked.forwarded.extend(in_flight);
        tracked.check_reports(export, (self.loops, self.ended), out);
    }

    /// A loop has ended with nothing in flight, and reports no more.
    pub(crate) fn ended(&mut self, loop_id: LoopId, out: &mut Vec<Request>) {
        self.ended.insert(loop_id);
        for (export, tracked) in &mut self.tracked {
            tracked.check_reports(*export, (self.loops, self.ended), out);
        }
    }

    /// Returns a request that can be submitted now, or queues it behind the writes that it
    /// overlaps.
    pub(crate) fn submit_or_queue(&mut self, request: Request) -> Option<Request> {
        let Operation { op, extent, .. } = request.operation;
        let Some(tracked) = self.tracked.get_mut(&request.export).filter(|_| op.writes()) else {
            return Some(request);
        };
        if !tracked.jobs.iter().any(|job| overlap(job.extent, extent)) {
            tracked.forwarded.insert(request.id, extent);
            return Some(request);
        }
        let (id, work) = (request.id, Work::Whole(Some(request)));
        tracked.jobs.push(Job { id, extent, ahead: 0, begun: false, work });
        None
    }

    /// Queues a read-modify-write. Requests that can be submitted are added to `out`.
    pub(crate) fn begin(&mut self, write: ReadModifyWrite, out: &mut Vec<Request>) {
        let (export, extent) = (write.export, write.span.outer());
        let tracked = self.tracked.get_mut(&export).expect("its export is tracked by now");
        let (id, ahead) = (write.id, tracked.ahead_of(extent));
        let work = Work::ReadModifyWrite(SectorUpdate::new(write));
        tracked.jobs.push(Job { id, extent, ahead, begun: false, work });
        tracked.advance(export, extent, out);
    }

    /// A client's request has completed.
    pub(crate) fn on_completion(
        &mut self,
        export: ExportId,
        id: ClientRequestId,
        out: &mut Vec<Request>,
    ) {
        let Some(tracked) = self.tracked.get_mut(&export) else { return };
        let extent = if let Some(extent) = tracked.forwarded.remove(&id) {
            let write = |job: &&mut Job| matches!(job.work, Work::ReadModifyWrite(_)) && !job.begun;
            let jobs = tracked.jobs.iter_mut().filter(write).filter(|_| tracked.is_complete);
            for job in jobs.filter(|job| overlap(job.extent, extent)) {
                // A later overlapping request is queued, so this one came before the job.
                job.ahead = job.ahead.checked_sub(1).expect("it was counted when the write came");
            }
            extent
        } else if let Some(at) = tracked.jobs.iter().position(|job| job.id == id) {
            tracked.jobs.remove(at).extent
        } else {
            return;
        };
        tracked.advance(export, extent, out);
        self.forget(export);
    }

    /// A part of a read-modify-write has completed. Returns the reply to the client after the last
    /// part.
    pub(crate) fn on_part_completed(
        &mut self,
        id: ClientRequestId,
        result: Result<Vec<u8>, Errno>,
        out: &mut Vec<Request>,
    ) -> Option<Reply> {
        let (part, id) = (id.sequence >> PART_SHIFT, whole(id));
        let found = self.tracked.iter_mut().find_map(|(export, tracked)| {
            let at = tracked.jobs.iter().position(|job| job.id == id)?;
            Some((*export, at, tracked))
        });
        let (export, at, tracked) = found.expect("a part ends once, before its whole");
        let job = &mut tracked.jobs[at];
        let Work::ReadModifyWrite(update) = &mut job.work else {
            unreachable!("a request has no parts")
        };
        update.collect(part == Part::First as u64, result);
        if update.left > 0 {
            return None;
        }
        if !update.writing && update.failed.is_none() {
            update.write(export, id, out);
            return None;
        }
        let result = update.failed.map_or_else(|| Ok(core::mem::take(&mut update.data)), Err);
        let extent = job.extent;
        tracked.jobs.remove(at);
        tracked.advance(export, extent, out);
        self.forget(export);
        Some(Reply { id, result })
    }

    /// No further request for this export is submitted. Queued jobs are refused; running jobs do
    /// not write.
    pub(crate) fn withdraw(&mut self, export: ExportId) -> Vec<Reply> {
        let Some(TrackedExport { jobs, withdrawn, .. }) = self.tracked.get_mut(&export) else {
            return Vec::new();
        };
        *withdrawn = true;
        let result = Err(Errno::Shutdown);
        let waiting = jobs.extract_if(.., |job| !job.begun);
        let replies = waiting.map(|job| Reply { id: job.id, result: result.clone() }).collect();
        for job in jobs.iter_mut() {
            if let Work::ReadModifyWrite(update) = &mut job.work
                && !update.writing
            {
                update.failed = Some(Errno::Shutdown);
            }
        }
        self.forget(export);
        replies
    }

    fn forget(&mut self, export: ExportId) {
        if self
            .tracked
            .get(&export)
            .is_some_and(|tracked| tracked.withdrawn && tracked.jobs.is_empty())
        {
            self.tracked.remove(&export);
        }
    }
}

impl TrackedExport {
    fn check_reports(
        &mut self,
        export: ExportId,
        (loops, ended): (usize, Loops),
        out: &mut Vec<Request>,
    ) {
        if self.is_complete || self.reported.count_with(ended) < loops {
            return;
        }
        self.is_complete = true;
        // Queued requests were not forwarded, and later forwarded requests overlap no job.
        for at in 0..self.jobs.len() {
            if matches!(self.jobs[at].work, Work::ReadModifyWrite(_)) {
                self.jobs[at].ahead = self.ahead_of(self.jobs[at].extent);
            }
        }
        for at in 0..self.jobs.len() {
            self.advance(export, self.jobs[at].extent, out);
        }
    }

    /// The number of forwarded writes in flight that overlap `extent`.
    fn ahead_of(&self, extent: Extent) -> usize {
        self.forwarded.values().filter(|change| overlap(**change, extent)).count()
    }

    /// Starts the jobs that overlap `extent` and wait for nothing any more.
    fn advance(&mut self, export: ExportId, extent: Extent, out: &mut Vec<Request>) {
        if !self.is_complete {
            return;
        }
        for at in 0..self.jobs.len() {
            let (earlier, rest) = self.jobs.split_at_mut(at);
            let job = &mut rest[0];
            let waits = job.begun || job.ahead > 0 || !overlap(job.extent, extent);
            if waits || earlier.iter().any(|other| overlap(other.extent, job.extent)) {
                continue;
            }
            job.begun = true;
            match &mut job.work {
                Work::Whole(request) => out.extend(request.take()),
                Work::ReadModifyWrite(update) => update.read(export, job.id, out),
            }
        }
    }
}

impl SectorUpdate {
    fn new(write: ReadModifyWrite) -> Self {
        let ReadModifyWrite { span, op, data, fua, no_hole, .. } = write;
        assert_eq!(data.is_some(), op == Op::Write, "a write alone has data");
        let (sectors, inner) = (span.outer().len.bytes_usize(), span.inner());
        let edges = usize::from(span.before() > 0) + usize::from(span.behind() > 0);
        let zeroes_inner = data.is_none() && !inner.is_empty();
        let data = match data {
            None => vec![0; if zeroes_inner { edges * SECTOR } else { sectors }],
            Some(mut data) => {
                let length = data.len();
                data.resize(sectors, 0);
                data.copy_within(..length, span.before());
                data
            }
        };
        Self { span, op, fua, no_hole, zeroes_inner, data, left: 0, writing: false, failed: None }
    }

    /// The sectors that are only partly written: the first, and the last if it is another.
    fn edges(&self) -> impl Iterator<Item = (Part, Extent)> + use<> {
        let Extent { start, len } = self.span.outer();
        let (before, behind) = (self.span.before() > 0, self.span.behind() > 0);
        let first = before.then_some((Part::First, Extent::new(start, Sectors(1))));
        let last = Extent::new(start + Sectors(len.0 - 1), Sectors(1));
        let apart = behind && !(before && len == Sectors(1));
        first.into_iter().chain(apart.then_some((Part::Last, last)))
    }

    fn read(&mut self, export: ExportId, id: ClientRequestId, out: &mut Vec<Request>) {
        for (which, extent) in self.edges() {
            let (id, operation) = (part(id, which), Operation::read(extent));
            out.push(Request { id, export, operation, no_hole: false, data: Vec::new() });
            self.left += 1;
        }
        assert!(self.left > 0, "a write has a sector that it does not write whole");
    }

    /// Takes the result of a part: the bytes of a partly written sector, or the end of a write.
    fn collect(&mut self, first: bool, result: Result<Vec<u8>, Errno>) {
        self.left -= 1;
        match result {
            Err(errno) => self.failed = self.failed.or(Some(errno)),
            Ok(_) if self.writing => {}
            Ok(read) if read.len() != SECTOR => self.failed = self.failed.or(Some(Errno::Io)),
            Ok(read) => {
                let (before, behind) = (self.span.before(), self.span.behind());
                let end = self.data.len();
                if first {
                    self.data[..before].copy_from_slice(&read[..before]);
                }
                if !first || self.span.outer().len == Sectors(1) {
                    self.data[end - behind..].copy_from_slice(&read[SECTOR - behind..]);
                }
            }
        }
    }

    fn write(&mut self, export: ExportId, id: ClientRequestId, out: &mut Vec<Request>) {
        self.writing = true;
        let mut ask = |which, op, extent, data, no_hole| {
            let operation = Operation { op, extent, fua: self.fua };
            out.push(Request { id: part(id, which), export, operation, no_hole, data });
            self.left += 1;
        };
        if !self.zeroes_inner {
            let data = core::mem::take(&mut self.data);
            ask(Part::Middle, Op::Write, self.span.outer(), data, false);
            return;
        }
        ask(Part::Middle, self.op, self.span.inner(), Vec::new(), self.no_hole);
        let (before, behind) = (self.span.before() > 0, self.span.behind() > 0);
        let Extent { start, len } = self.span.outer();
        if before {
            let data = self.data[..SECTOR].to_vec();
            ask(Part::First, Op::Write, Extent::new(start, Sectors(1)), data, false);
        }
        if behind {
            let data = self.data[self.data.len() - SECTOR..].to_vec();
            let last = Extent::new(start + Sectors(len.0 - 1), Sectors(1));
            ask(Part::Last, Op::Write, last, data, false);
        }
    }
}
