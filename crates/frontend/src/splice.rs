//! Writes to parts of sectors: the sectors are read, changed and written whole.
//!
//! ```text
//!  Splice ─▶ waits for what changes these sectors ─▶ reads the first and the last ─▶ writes ─▶ Reply
//!  Request that changes them meanwhile ─▶ waits for those before it ─────────────▶ sink
//! ```
//!
//! Sans-IO, and idle as long as nobody writes less than a sector: who keeps to whole sectors pays for one look at that.
//! Reads need none of this: a sector is written whole, so whoever reads it reads it before or after.
//!
//! Invariants:
//! - between the read of a sector and its write, nothing else changes it: no byte that somebody else wrote is put back to
//!   what it was;
//! - who waits, waits for what came before it alone, so that nobody waits for ever;
//! - what is kept of a job does not grow with those that it waits for.

use std::collections::BTreeMap;

use units::{Extent, Op, Operation, Sectors};

use crate::export::ExportId;
use crate::limits::SECTOR;
use crate::request::{Errno, Reply, Request, RequestId, Splice};
use crate::span::Span;

#[cfg(test)]
mod tests;

/// A session's numbers stay under it; the bits above say which part of a splice something is.
const PART_SHIFT: u32 = 60;

/// Which part of a splice a request of its own is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    First = 1,
    Last = 2,
    Middle = 3,
}

fn part(id: RequestId, part: Part) -> RequestId {
    RequestId { sequence: id.sequence | (part as u64) << PART_SHIFT, ..id }
}

const fn whole(id: RequestId) -> RequestId {
    RequestId { sequence: id.sequence & ((1 << PART_SHIFT) - 1), ..id }
}

fn overlap(one: Extent, other: Extent) -> bool {
    one.start < other.end() && other.start < one.end()
}

/// Something that waits for, or keeps others from, some sectors.
#[derive(Debug)]
struct Job {
    id: RequestId,
    extent: Extent,
    /// Requests that change some of the sectors and had gone to the sink before this came.
    ahead: usize,
    begun: bool,
    work: Work,
}

#[derive(Debug)]
enum Work {
    /// A request for whole sectors that came behind a splice; gone when it has begun.
    Whole(Option<Request>),
    Splice(Mending),
}

/// A splice on its way.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "two are flags of the protocol, set or not")]
struct Mending {
    span: Span,
    fua: bool,
    no_hole: bool,
    /// Zeroes with whole sectors among them: those are not written as data.
    hollow: bool,
    /// The sectors to be written; of hollow zeroes, the first and the last alone.
    data: Vec<u8>,
    /// Answers to come.
    left: usize,
    writing: bool,
    failed: Option<Errno>,
}

/// All jobs, those of an export in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Splicer {
    jobs: BTreeMap<ExportId, Vec<Job>>,
}

impl Splicer {
    /// Whether there is nothing here: then every request can pass, and no answer is for this.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether an answer is for this and not for a client.
    pub(crate) const fn is_part(id: RequestId) -> bool {
        id.sequence >> PART_SHIFT != 0
    }

    /// Lets a request pass, or keeps it until what it would disturb is done.
    pub(crate) fn pass(&mut self, request: Request) -> Option<Request> {
        let Operation { op, extent, .. } = request.operation;
        let Some(jobs) = self.jobs.get_mut(&request.export).filter(|_| op.writes()) else {
            return Some(request);
        };
        if !jobs.iter().any(|job| overlap(job.extent, extent)) {
            return Some(request);
        }
        let (id, work) = (request.id, Work::Whole(Some(request)));
        jobs.push(Job { id, extent, ahead: 0, begun: false, work });
        None
    }

    /// Takes a splice. `changing` are the requests that change something of its export and are not answered, those that
    /// came later excepted; what can go to the sink is in `out` then.
    pub(crate) fn begin(
        &mut self,
        splice: Splice,
        changing: impl Iterator<Item = Extent>,
        out: &mut Vec<Request>,
    ) {
        let (export, extent) = (splice.export, splice.span.outer());
        let jobs = self.jobs.entry(export).or_default();
        let here = jobs.iter().filter(|job| overlap(job.extent, extent)).count();
        let all = changing.filter(|change| overlap(*change, extent)).count();
        let ahead = all.checked_sub(here).expect("who waits here is not answered");
        let id = splice.id;
        let work = Work::Splice(Mending::new(splice));
        jobs.push(Job { id, extent, ahead, begun: false, work });
        advance(export, jobs, extent, out);
    }

    /// A request that changed something has been answered.
    pub(crate) fn settled(
        &mut self,
        (export, id): (ExportId, RequestId),
        extent: Extent,
        out: &mut Vec<Request>,
    ) {
        let Some(jobs) = self.jobs.get_mut(&export) else { return };
        if let Some(at) = jobs.iter().position(|job| job.id == id) {
            jobs.remove(at);
        } else {
            let splice = |job: &&mut Job| matches!(job.work, Work::Splice(_)) && !job.begun;
            for job in jobs.iter_mut().filter(splice).filter(|job| overlap(job.extent, extent)) {
                // What comes behind a splice and is in its way is kept here: so this was ahead of it.
                job.ahead = job.ahead.checked_sub(1).expect("it was counted when the splice came");
            }
        }
        self.go_on(export, extent, out);
    }

    /// A part of a splice has ended. What is to be answered, if that was the last.
    pub(crate) fn part_ended(
        &mut self,
        id: RequestId,
        result: Result<Vec<u8>, Errno>,
        out: &mut Vec<Request>,
    ) -> Option<Reply> {
        let (part, id) = (id.sequence >> PART_SHIFT, whole(id));
        let found = self.jobs.iter_mut().find_map(|(export, jobs)| {
            let at = jobs.iter().position(|job| job.id == id)?;
            Some((*export, at, &mut jobs[at]))
        });
        let (export, at, job) = found.expect("a part ends once, before its whole");
        let Work::Splice(mending) = &mut job.work else { unreachable!("a request has no parts") };
        mending.collect(part == Part::First as u64, result);
        if mending.left > 0 {
            return None;
        }
        if !mending.writing && mending.failed.is_none() {
            mending.write(export, id, out);
            return None;
        }
        let result = mending.failed.map_or_else(|| Ok(core::mem::take(&mut mending.data)), Err);
        let extent = job.extent;
        self.jobs.get_mut(&export).expect("it was found").remove(at);
        self.go_on(export, extent, out);
        Some(Reply { id, result })
    }

    /// Nothing of this export goes to the sink any more. What has not begun is answered; what has is not written.
    pub(crate) fn withdraw(&mut self, export: ExportId) -> Vec<Reply> {
        let Some(jobs) = self.jobs.get_mut(&export) else { return Vec::new() };
        let result = Err(Errno::Shutdown);
        let waiting = jobs.extract_if(.., |job| !job.begun);
        let replies = waiting.map(|job| Reply { id: job.id, result: result.clone() }).collect();
        for job in jobs.iter_mut() {
            if let Work::Splice(mending) = &mut job.work
                && !mending.writing
            {
                mending.failed = Some(Errno::Shutdown);
            }
        }
        if jobs.is_empty() {
            self.jobs.remove(&export);
        }
        replies
    }

    fn go_on(&mut self, export: ExportId, extent: Extent, out: &mut Vec<Request>) {
        let Some(jobs) = self.jobs.get_mut(&export) else { return };
        advance(export, jobs, extent, out);
        if jobs.is_empty() {
            self.jobs.remove(&export);
        }
    }
}

/// Begins what waits for nothing any more, of those that `extent` may have been in the way of.
fn advance(export: ExportId, jobs: &mut [Job], extent: Extent, out: &mut Vec<Request>) {
    for at in 0..jobs.len() {
        let (earlier, rest) = jobs.split_at_mut(at);
        let job = &mut rest[0];
        let waits = job.begun || job.ahead > 0 || !overlap(job.extent, extent);
        if waits || earlier.iter().any(|other| overlap(other.extent, job.extent)) {
            continue;
        }
        job.begun = true;
        match &mut job.work {
            Work::Whole(request) => out.extend(request.take()),
            Work::Splice(mending) => mending.read(export, job.id, out),
        }
    }
}

impl Mending {
    fn new(splice: Splice) -> Self {
        let Splice { span, data, fua, no_hole, .. } = splice;
        let (sectors, inner) = (span.outer().len.bytes_usize(), span.inner());
        let edges = usize::from(span.before() > 0) + usize::from(span.behind() > 0);
        let hollow = data.is_none() && !inner.is_empty();
        let data = match data {
            None => vec![0; if hollow { edges * SECTOR } else { sectors }],
            Some(mut data) => {
                let length = data.len();
                data.resize(sectors, 0);
                data.copy_within(..length, span.before());
                data
            }
        };
        Self { span, fua, no_hole, hollow, data, left: 0, writing: false, failed: None }
    }

    /// The sectors of which a part is kept: the first, and the last unless that is the same one.
    fn edges(&self) -> impl Iterator<Item = (Part, Extent)> + use<> {
        let Extent { start, len } = self.span.outer();
        let (before, behind) = (self.span.before() > 0, self.span.behind() > 0);
        let first = before.then_some((Part::First, Extent::new(start, Sectors(1))));
        let last = Extent::new(start + Sectors(len.0 - 1), Sectors(1));
        let apart = behind && !(before && len == Sectors(1));
        first.into_iter().chain(apart.then_some((Part::Last, last)))
    }

    fn read(&mut self, export: ExportId, id: RequestId, out: &mut Vec<Request>) {
        for (which, extent) in self.edges() {
            let (id, operation) = (part(id, which), Operation::read(extent));
            out.push(Request { id, export, operation, no_hole: false, data: Vec::new() });
            self.left += 1;
        }
        assert!(self.left > 0, "a splice has a sector that it does not write whole");
    }

    /// Takes what was read of a sector that is kept in part, or that something was written.
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

    fn write(&mut self, export: ExportId, id: RequestId, out: &mut Vec<Request>) {
        self.writing = true;
        let mut ask = |which, op, extent, data, no_hole| {
            let operation = Operation { op, extent, fua: self.fua };
            out.push(Request { id: part(id, which), export, operation, no_hole, data });
            self.left += 1;
        };
        if !self.hollow {
            let data = core::mem::take(&mut self.data);
            ask(Part::Middle, Op::Write, self.span.outer(), data, false);
            return;
        }
        ask(Part::Middle, Op::WriteZeroes, self.span.inner(), Vec::new(), self.no_hole);
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
