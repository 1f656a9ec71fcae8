//! Writes to parts of sectors: the sectors are read, changed and written whole.
//!
//! ```text
//!  Splice ─▶ waits for what changes these sectors ─▶ reads the first and the last ─▶ writes ─▶ Reply
//!  Request that changes them meanwhile ─▶ waits for those before it ─────────────▶ sink
//! ```
//!
//! Sans-IO, and nothing is watched as long as nobody writes less than a sector: who keeps to whole sectors pays for one look
//! at that. Reads need none of this: a sector is written whole, so whoever reads it reads it before or after.
//!
//! Several loops share one splicer, and each knows only what it has sent to the sink itself. So an export is watched from its
//! first splice on: every loop is told, says what it has under way, and sends what changes the export through here from
//! then on. Nothing begins before the last one has been told.
//!
//! Invariants:
//! - between the read of a sector and its write, nothing else changes it: no byte that somebody else wrote is put back to
//!   what it was;
//! - who waits, waits for what came before it alone, so that nobody waits for ever;
//! - what is kept of a job does not grow with those that it waits for.

use std::collections::BTreeMap;

use units::{Extent, Op, Operation, Sectors};

use crate::crew::Place;
use crate::export::ExportId;
use crate::limits::{SECTOR, THREADS_MAX};
use crate::request::{ClientRequestId, Errno, Reply, Request, Splice};
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

fn part(id: ClientRequestId, part: Part) -> ClientRequestId {
    ClientRequestId { sequence: id.sequence | (part as u64) << PART_SHIFT, ..id }
}

const fn whole(id: ClientRequestId) -> ClientRequestId {
    ClientRequestId { sequence: id.sequence & ((1 << PART_SHIFT) - 1), ..id }
}

fn overlap(one: Extent, other: Extent) -> bool {
    one.start < other.end() && other.start < one.end()
}

/// Something that waits for, or keeps others from, some sectors.
#[derive(Debug)]
struct Job {
    id: ClientRequestId,
    extent: Extent,
    /// Of what has passed, how much changes some of the sectors and is not answered; counted when all loops have been told.
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

/// An export to whose sectors parts are written.
#[derive(Debug, Default)]
struct Watched {
    /// In the order in which they came.
    jobs: Vec<Job>,
    /// What changes some of its sectors and has gone to the sink beside the jobs.
    passed: BTreeMap<ClientRequestId, Extent>,
    /// Which loops have said what they had under way.
    told: Loops,
    /// Whether that is all that there are.
    whole: bool,
    /// Whether it is withdrawn: what has begun ends, and nothing else comes.
    gone: bool,
}

/// All jobs of all exports.
#[derive(Debug)]
pub(crate) struct Splicer {
    loops: usize,
    ended: Loops,
    watched: BTreeMap<ExportId, Watched>,
}

/// A set of loops.
#[derive(Clone, Copy, Debug, Default)]
struct Loops(u8);

const _: () = assert!(THREADS_MAX <= u8::BITS as usize);

impl Loops {
    const fn insert(&mut self, place: Place) {
        self.0 |= 1 << place.index();
    }

    const fn count_with(self, other: Self) -> usize {
        (self.0 | other.0).count_ones() as usize
    }
}

impl Splicer {
    /// For so many loops.
    pub(crate) const fn new(loops: usize) -> Self {
        Self { loops, ended: Loops(0), watched: BTreeMap::new() }
    }

    /// Whether an answer is for this and not for a client.
    pub(crate) const fn is_part(id: ClientRequestId) -> bool {
        id.sequence >> PART_SHIFT != 0
    }

    /// From now on this export is watched. True if it was not: then each loop is to be told.
    pub(crate) fn watch(&mut self, export: ExportId) -> bool {
        let new = !self.watched.contains_key(&export);
        self.watched.entry(export).or_default();
        new
    }

    /// Whether it still is.
    pub(crate) fn is_watched(&self, export: ExportId) -> bool {
        self.watched.contains_key(&export)
    }

    /// A loop knows that the export is watched, and this is what it had under way. What can go to the sink is in `out`
    /// then.
    pub(crate) fn told(
        &mut self,
        (place, export): (Place, ExportId),
        under_way: impl Iterator<Item = (ClientRequestId, Extent)>,
        out: &mut Vec<Request>,
    ) {
        let Some(watched) = self.watched.get_mut(&export) else { return };
        assert!(!watched.whole, "a loop is told once");
        watched.told.insert(place);
        watched.passed.extend(under_way);
        watched.see_whether_whole(export, (self.loops, self.ended), out);
    }

    /// A loop has ended, with nothing under way, and is told no more.
    pub(crate) fn ended(&mut self, place: Place, out: &mut Vec<Request>) {
        self.ended.insert(place);
        for (export, watched) in &mut self.watched {
            watched.see_whether_whole(*export, (self.loops, self.ended), out);
        }
    }

    /// Lets a request pass, or keeps it until what it would disturb is done.
    pub(crate) fn pass(&mut self, request: Request) -> Option<Request> {
        let Operation { op, extent, .. } = request.operation;
        let Some(watched) = self.watched.get_mut(&request.export).filter(|_| op.writes()) else {
            return Some(request);
        };
        if !watched.jobs.iter().any(|job| overlap(job.extent, extent)) {
            watched.passed.insert(request.id, extent);
            return Some(request);
        }
        let (id, work) = (request.id, Work::Whole(Some(request)));
        watched.jobs.push(Job { id, extent, ahead: 0, begun: false, work });
        None
    }

    /// Takes a splice; what can go to the sink is in `out` then.
    pub(crate) fn begin(&mut self, splice: Splice, out: &mut Vec<Request>) {
        let (export, extent) = (splice.export, splice.span.outer());
        let watched = self.watched.get_mut(&export).expect("its export is watched by now");
        let (id, ahead) = (splice.id, watched.ahead_of(extent));
        let work = Work::Splice(Mending::new(splice));
        watched.jobs.push(Job { id, extent, ahead, begun: false, work });
        watched.advance(export, extent, out);
    }

    /// A request of a client has been answered.
    pub(crate) fn settled(
        &mut self,
        export: ExportId,
        id: ClientRequestId,
        out: &mut Vec<Request>,
    ) {
        let Some(watched) = self.watched.get_mut(&export) else { return };
        let extent = if let Some(extent) = watched.passed.remove(&id) {
            let splice = |job: &&mut Job| matches!(job.work, Work::Splice(_)) && !job.begun;
            let jobs = watched.jobs.iter_mut().filter(splice).filter(|_| watched.whole);
            for job in jobs.filter(|job| overlap(job.extent, extent)) {
                // What comes behind a splice and is in its way is kept here: so this was ahead of it.
                job.ahead = job.ahead.checked_sub(1).expect("it was counted when the splice came");
            }
            extent
        } else if let Some(at) = watched.jobs.iter().position(|job| job.id == id) {
            watched.jobs.remove(at).extent
        } else {
            return;
        };
        watched.advance(export, extent, out);
        self.forget(export);
    }

    /// A part of a splice has ended. What is to be answered, if that was the last.
    pub(crate) fn part_ended(
        &mut self,
        id: ClientRequestId,
        result: Result<Vec<u8>, Errno>,
        out: &mut Vec<Request>,
    ) -> Option<Reply> {
        let (part, id) = (id.sequence >> PART_SHIFT, whole(id));
        let found = self.watched.iter_mut().find_map(|(export, watched)| {
            let at = watched.jobs.iter().position(|job| job.id == id)?;
            Some((*export, at, watched))
        });
        let (export, at, watched) = found.expect("a part ends once, before its whole");
        let job = &mut watched.jobs[at];
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
        watched.jobs.remove(at);
        watched.advance(export, extent, out);
        self.forget(export);
        Some(Reply { id, result })
    }

    /// Nothing of this export goes to the sink any more. What has not begun is answered; what has is not written.
    pub(crate) fn withdraw(&mut self, export: ExportId) -> Vec<Reply> {
        let Some(Watched { jobs, gone, .. }) = self.watched.get_mut(&export) else {
            return Vec::new();
        };
        *gone = true;
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
        self.forget(export);
        replies
    }

    fn forget(&mut self, export: ExportId) {
        if self.watched.get(&export).is_some_and(|watched| watched.gone && watched.jobs.is_empty())
        {
            self.watched.remove(&export);
        }
    }
}

impl Watched {
    fn see_whether_whole(
        &mut self,
        export: ExportId,
        (loops, ended): (usize, Loops),
        out: &mut Vec<Request>,
    ) {
        if self.whole || self.told.count_with(ended) < loops {
            return;
        }
        self.whole = true;
        // What is kept here has not passed, and what passed later is in nobody's way.
        for at in 0..self.jobs.len() {
            if matches!(self.jobs[at].work, Work::Splice(_)) {
                self.jobs[at].ahead = self.ahead_of(self.jobs[at].extent);
            }
        }
        for at in 0..self.jobs.len() {
            self.advance(export, self.jobs[at].extent, out);
        }
    }

    /// How much of what has passed changes some of these sectors.
    fn ahead_of(&self, extent: Extent) -> usize {
        self.passed.values().filter(|change| overlap(**change, extent)).count()
    }

    /// Begins what waits for nothing any more, of those that `extent` may have been in the way of.
    fn advance(&mut self, export: ExportId, extent: Extent, out: &mut Vec<Request>) {
        if !self.whole {
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
                Work::Splice(mending) => mending.read(export, job.id, out),
            }
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

    fn read(&mut self, export: ExportId, id: ClientRequestId, out: &mut Vec<Request>) {
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

    fn write(&mut self, export: ExportId, id: ClientRequestId, out: &mut Vec<Request>) {
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
