//! A client's request on its way: looked at until nothing holds it up, issued, answered.
//!
//! What a request cannot do yet it is held for, and looked at again, the oldest first, whenever something has ended. Nobody begins an
//! operation where an older request waits for its own: so that each gets its turn.

use std::ops::Range;

use units::{Extent, Lba, Op, Sectors};

use super::super::error::Refusal;
use super::super::limits::BLOCK_SECTORS;
use super::super::machine::{Failure, OperationId};
use super::super::names::{Blocks, PoolVolumeId, VolumeBlock};
use super::super::operation::{Lock, Operation};
use super::super::state::{MappedExtent, Volume};
use super::super::status::Writability;
use super::{ChargeTo, Fault, Flow, Output, Owner, PoolRequestId, Under, Work};
use crate::DiskId;

/// Blocks of a request that are under way at a time: a request to make a whole volume zeroes is no list of all its blocks.
pub const SEGMENT_BLOCKS_MAX: Blocks = Blocks(64);

/// Operations that requests have under way at a time; the others that a pool takes are for changes.
pub const REQUEST_OPERATIONS_MAX: usize = 32;

/// A request that is not answered.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Its place among all.
    serial: u64,
    pub(super) volume: PoolVolumeId,
    operation: units::Operation,
    no_hole: bool,
    /// Whole blocks that are given back first.
    blocks: Option<Range<u32>>,
    /// What is not begun yet: the first sectors, and the others.
    head: Extent,
    rest: Extent,
    stage: Stage,
    /// Where there was no room: whatever was under way then may yet give some back.
    patience: Option<OperationId>,
    fault: Option<Fault>,
}

#[derive(Clone, Debug)]
enum Stage {
    /// To be looked at when something has ended.
    Held,
    /// An operation of its own is under way.
    Preparing,
    /// So many of its pieces are under way, found in that epoch of its family. They are of this part of it.
    Flying { pieces: u32, family: PoolVolumeId, epoch: u64, part: Extent },
}

/// Where sectors lie, and where in their request they are.
struct Located {
    disk: DiskId,
    extent: Extent,
    at: Sectors,
}

/// What comes next for a request.
enum Next {
    Hold,
    End(Result<(), Fault>),
    /// There are no whole blocks to give back.
    Pass,
    Begin(Operation),
    Fly,
}

/// The blocks that sectors lie in.
pub(super) fn blocks(extent: Extent) -> Range<u32> {
    let block = |number: u64| u32::try_from(number).expect("within the volume");
    block(extent.start.0 / BLOCK_SECTORS.0)..block(extent.end().0.div_ceil(BLOCK_SECTORS.0))
}

/// The blocks that sectors have whole, if any.
fn whole(extent: Extent) -> Option<Range<u32>> {
    let block = |number: u64| u32::try_from(number).expect("within the volume");
    let start = block(extent.start.0.div_ceil(BLOCK_SECTORS.0));
    let end = block(extent.end().0 / BLOCK_SECTORS.0);
    (start < end).then_some(start..end)
}

impl Request {
    /// The part of it under way or next: a head, or the next of the rest.
    fn part(&self) -> Extent {
        let from = if self.head.is_empty() { self.rest } else { self.head };
        from.split_at(SEGMENT_BLOCKS_MAX.sectors()).0
    }

    fn pass(&mut self, part: Extent) {
        let from = if self.head.is_empty() { &mut self.rest } else { &mut self.head };
        *from = from.split_at(part.len).1;
    }

    fn is_done(&self) -> bool {
        self.blocks.is_none() && self.head.is_empty() && self.rest.is_empty()
    }

    /// The sectors that an exact request is still to write, where whole blocks could not be given back.
    fn write_all(&mut self) {
        self.blocks = None;
        (self.head, self.rest) =
            (self.operation.extent.split_at(Sectors::ZERO).0, self.operation.extent);
    }

    /// Whether its pieces under way are at these blocks of that volume.
    pub(super) fn flies_over(&self, volume: PoolVolumeId, at: &Range<u32>, reads: bool) -> bool {
        let Stage::Flying { part, .. } = &self.stage else { return false };
        let over = blocks(*part);
        self.volume == volume
            && (reads || self.operation.op.writes())
            && over.start < at.end
            && at.start < over.end
    }

    /// Whether a flush of its is under way.
    pub(super) fn flushes(&self) -> bool {
        matches!(self.stage, Stage::Flying { .. }) && self.operation.op == Op::Flush
    }
}

impl Flow {
    /// A client's request. It is answered once, by [`Output::Answer`].
    ///
    /// # Panics
    /// If a request under way has its number.
    pub fn submit(
        &mut self,
        id: PoolRequestId,
        volume: PoolVolumeId,
        operation: units::Operation,
        no_hole: bool,
    ) {
        let serial = self.serials;
        self.serials += 1;
        let empty = operation.extent.split_at(Sectors::ZERO).0;
        let mut request = Request {
            serial,
            volume,
            operation,
            no_hole,
            blocks: None,
            head: empty,
            rest: operation.extent,
            stage: Stage::Held,
            patience: None,
            fault: None,
        };
        if let Err(fault) = self.admit(&mut request) {
            return self.outputs.push_back(Output::Answer(id, Err(fault)));
        }
        let before = self.requests.insert(id, request);
        assert!(before.is_none(), "request {} is under way", id.0);
        if operation.op == Op::Flush {
            self.flush(id);
        } else {
            self.look(id);
        }
    }

    /// What can be said of a request at once.
    fn admit(&self, request: &mut Request) -> Result<(), Fault> {
        let volume = self.volume_of(request)?;
        let units::Operation { op, extent, .. } = request.operation;
        match op {
            Op::Read | Op::Flush => return Ok(()),
            Op::Seek => return Err(Fault::Invalid),
            Op::Write | Op::Trim | Op::WriteZeroes => {}
        }
        if volume.origin.is_some() || !self.pool.missing().is_empty() {
            return Err(Fault::ReadOnly);
        }
        let gives = op == Op::Trim || (op == Op::WriteZeroes && !request.no_hole);
        if volume.thin
            && gives
            && let Some(blocks) = whole(extent)
        {
            let start = Blocks(blocks.start).sectors() - Sectors(extent.start.0);
            let end = Blocks(blocks.end).sectors() - Sectors(extent.start.0);
            request.head = extent.split_at(start).0;
            request.rest = extent.split_at(end).1;
            request.blocks = Some(blocks);
        }
        Ok(())
    }

    /// The volume of a request, if it is there and as long as it is to be.
    fn volume_of(&self, request: &Request) -> Result<&Volume, Fault> {
        let volume = self.pool.state().volume(request.volume).ok_or(Fault::Invalid)?;
        let whole = Extent::new(Lba(0), volume.size.sectors());
        if whole.contains(request.operation.extent) { Ok(volume) } else { Err(Fault::Invalid) }
    }

    /// A flush goes to every disk that the volume's data can be on.
    fn flush(&mut self, id: PoolRequestId) {
        let volume = self.requests[&id].volume;
        let state = self.pool.state();
        // A snapshot was durable when it was made; where a disk is missing nothing was written.
        let still = state.volume(volume).is_none_or(|volume| volume.origin.is_some())
            || !self.pool.missing().is_empty();
        if still {
            return self.answer(id, Ok(()));
        }
        let disks: Vec<DiskId> = self.families[&volume].disks.iter().copied().collect();
        let part = Extent::new(Lba(0), Sectors::ZERO);
        let located = |disk| Located { disk, extent: part, at: Sectors::ZERO };
        let pieces = disks.into_iter().map(located).collect();
        self.fly(id, part, pieces);
    }

    /// Looks at a request until it is under way, held or answered.
    pub(super) fn look(&mut self, id: PoolRequestId) {
        loop {
            let part = self.requests[&id].part();
            match self.next(id, part) {
                Next::Hold => {
                    let serial = self.requests[&id].serial;
                    self.held.insert(serial, id);
                    return;
                }
                Next::End(end) => return self.answer(id, end),
                Next::Pass => {
                    let request = self.requests.get_mut(&id).expect("it is under way");
                    request.blocks = None;
                }
                Next::Begin(operation) => {
                    if !self.begin_for(id, &operation) {
                        return;
                    }
                }
                Next::Fly => {
                    let pieces = match self.locate(id, part) {
                        Ok(pieces) => pieces,
                        Err(fault) => return self.answer(id, Err(fault)),
                    };
                    self.requests.get_mut(&id).expect("it is under way").pass(part);
                    if !pieces.is_empty() {
                        return self.fly(id, part, pieces);
                    }
                }
            }
        }
    }

    /// What comes next for a request.
    fn next(&self, id: PoolRequestId, part: Extent) -> Next {
        let request = &self.requests[&id];
        if let Some(fault) = request.fault {
            return Next::End(Err(fault));
        }
        let volume = match self.volume_of(request) {
            Ok(volume) => volume,
            Err(fault) => return Next::End(Err(fault)),
        };
        if request.is_done() {
            return Next::End(Ok(()));
        }
        let over = request.blocks.clone().unwrap_or_else(|| blocks(part));
        if self.rests(request.volume, &over, request.operation.op.writes()) {
            return Next::Hold;
        }
        if let Some(blocks) = &request.blocks {
            let count = Blocks(blocks.end - blocks.start);
            let from = Lba(Blocks(blocks.start).sectors().0);
            let mut pieces = volume.map(Extent::new(from, count.sectors()));
            if pieces.all(|piece| piece.location.is_none()) {
                return Next::Pass;
            }
            let (volume, first) = (request.volume, VolumeBlock(blocks.start));
            return Next::Begin(Operation::Trim { volume, first, count });
        }
        match request.operation.op {
            Op::Read => Next::Fly,
            Op::WriteZeroes if !request.no_hole => self.next_of_mapped(request, volume, part, true),
            Op::Trim => self.next_of_mapped(request, volume, part, false),
            _ => self.next_of(request.volume, part),
        }
    }

    fn next_of(&self, volume: PoolVolumeId, part: Extent) -> Next {
        match self.pool.writable(volume, part) {
            Writability::Now => Next::Fly,
            Writability::Wait => Next::Hold,
            Writability::Allocate { first, count } => {
                Next::Begin(Operation::Allocate { volume, first, count })
            }
        }
    }

    /// The same of the sectors of `part` that lie somewhere; the others are zeroes as they are.
    fn next_of_mapped(
        &self,
        request: &Request,
        volume: &Volume,
        part: Extent,
        exact: bool,
    ) -> Next {
        for piece in volume.map(part).filter(|piece| piece.location.is_some()) {
            match self.next_of(request.volume, piece.extent) {
                // What a snapshot shares is not trimmed: nothing would be gained.
                Next::Begin(_) if !exact => {}
                Next::Fly => {}
                other => return other,
            }
        }
        Next::Fly
    }

    /// Where the pieces of a part go, and where in the request they are.
    fn locate(&self, id: PoolRequestId, part: Extent) -> Result<Vec<Located>, Fault> {
        let request = &self.requests[&id];
        let volume = self.pool.state().volume(request.volume).ok_or(Fault::Invalid)?;
        let start = request.operation.extent.start;
        let moves = matches!(request.operation.op, Op::Read | Op::Write);
        let own = |extent| self.pool.writable(request.volume, extent) == Writability::Now;
        let mut pieces = Vec::new();
        for MappedExtent { extent, location } in volume.map(part) {
            let Some(placed) = location else { continue };
            if self.pool.missing().contains(&placed.disk) {
                return Err(Fault::Disk);
            }
            if request.operation.op == Op::Trim && !own(extent) {
                continue;
            }
            let (mut volume, mut place) = (extent, placed.extent);
            // A stream is promised its blocks as they are cut here: at every MiB of the volume, wherever it lies.
            while !place.is_empty() {
                let left = Sectors(BLOCK_SECTORS.0 - volume.start.0 % BLOCK_SECTORS.0);
                let len = if moves { left } else { place.len };
                let at = volume.start.distance(start);
                let (head, rest) = place.split_at(len);
                pieces.push(Located { disk: placed.disk, extent: head, at });
                (volume, place) = (volume.split_at(len).1, rest);
            }
        }
        Ok(pieces)
    }

    fn fly(&mut self, id: PoolRequestId, part: Extent, pieces: Vec<Located>) {
        let request = self.requests.get_mut(&id).expect("it is under way");
        let family = self.pool.state().family(request.volume);
        let epoch = self.families.get_mut(&family).expect("every family is listed").enter();
        let count = u32::try_from(pieces.len()).expect("a part has few pieces");
        request.stage = Stage::Flying { pieces: count, family, epoch, part };
        let (volume, no_hole) = (request.volume, request.no_hole);
        let units::Operation { op, fua, .. } = request.operation;
        for Located { disk, extent, at } in pieces {
            let work = Work::Request { request: id, op, extent, at, fua, no_hole };
            self.issue(Owner::Request(id), disk, ChargeTo::Volume(volume), work);
        }
    }

    /// A piece of a request has ended.
    pub(super) fn flown(&mut self, id: PoolRequestId, end: Result<(), Fault>) {
        let request =
            self.requests.get_mut(&id).expect("it is answered when its pieces have ended");
        if let Err(fault) = end {
            request.fault.get_or_insert(fault);
        }
        let Stage::Flying { pieces, family, epoch, .. } = &mut request.stage else {
            panic!("a piece ends once")
        };
        *pieces -= 1;
        if *pieces > 0 {
            return;
        }
        let (family, epoch) = (*family, *epoch);
        request.stage = Stage::Held;
        let free = self.families.get_mut(&family).expect("it has a request").leave(epoch);
        self.release(free);
        self.forget(family);
        self.drained(id);
        if self.requests[&id].operation.op == Op::Flush {
            let end = self.requests[&id].fault.map_or(Ok(()), Err);
            return self.answer(id, end);
        }
        self.look(id);
    }

    pub(super) fn answer(&mut self, id: PoolRequestId, end: Result<(), Fault>) {
        let request = self.requests.remove(&id).expect("a request is answered once");
        self.held.remove(&request.serial);
        self.outputs.push_back(Output::Answer(id, end));
    }

    /// Looks at all that are held, the oldest first. Says whether any is held no more.
    pub(super) fn look_again(&mut self) -> bool {
        let held: Vec<(u64, PoolRequestId)> = self.held.iter().map(|(at, id)| (*at, *id)).collect();
        let mut some = false;
        for (serial, id) in held {
            self.held.remove(&serial);
            self.look(id);
            some |= !self.held.contains_key(&serial);
        }
        some
    }

    /// Begins an operation for a request; says whether the request is to be looked at again at once.
    fn begin_for(&mut self, id: PoolRequestId, operation: &Operation) -> bool {
        let request = &self.requests[&id];
        let serial = request.serial;
        let Ok(locks) = operation.locks(self.pool.state()) else {
            self.answer(id, Err(Fault::Invalid));
            return false;
        };
        let turn = self.request_operations < REQUEST_OPERATIONS_MAX
            && !self.is_barred(&locks)
            && !self.is_behind(serial, &locks);
        if !turn {
            self.held.insert(serial, id);
            return false;
        }
        let volume = request.volume;
        match self.pool.begin(operation) {
            Ok(ticket) => {
                let request = self.requests.get_mut(&id).expect("it is under way");
                (request.stage, request.patience) = (Stage::Preparing, None);
                let (owner, payer) = (Owner::Request(id), ChargeTo::Volume(volume));
                let family = Some(self.pool.state().family(volume));
                self.tickets.insert(ticket, Under { owner, payer, family, fault: None });
                self.request_operations += 1;
                self.stirred = true;
                false
            }
            Err(refusal) => self.refused(id, &refusal),
        }
    }

    /// What becomes of a request of which an operation is refused.
    fn refused(&mut self, id: PoolRequestId, refusal: &Refusal) -> bool {
        let oldest = self.pool.oldest();
        let next = self.pool.next_ticket();
        let request = self.requests.get_mut(&id).expect("it is under way");
        let op = request.operation.op;
        let serial = request.serial;
        let end = match refusal {
            Refusal::Busy | Refusal::TooMany => None,
            Refusal::NoSpace { .. } | Refusal::MetadataFull => {
                let since = *request.patience.get_or_insert(next);
                let waits = oldest.is_some_and(|oldest| oldest < since);
                (!waits).then_some(Fault::NoSpace)
            }
            Refusal::ReadOnly { .. } => Some(Fault::ReadOnly),
            Refusal::Poisoned => Some(Fault::Disk),
            _ => Some(Fault::Invalid),
        };
        match end {
            None => {
                self.held.insert(serial, id);
                false
            }
            // Whole blocks that cannot be given back: a trim need not, and zeroes can be written.
            Some(_) if request.blocks.is_some() && op == Op::Trim => {
                request.blocks = None;
                true
            }
            Some(_) if request.blocks.is_some() => {
                request.write_all();
                true
            }
            Some(fault) => {
                self.answer(id, Err(fault));
                false
            }
        }
    }

    /// Whether an older request is held that may want an operation at the same blocks.
    fn is_behind(&self, serial: u64, locks: &[Lock]) -> bool {
        self.held.range(..serial).any(|(_, id)| {
            let older = &self.requests[id];
            if !older.operation.op.writes() {
                return false;
            }
            let over = older.blocks.clone().unwrap_or_else(|| blocks(older.part()));
            let wants = Lock::Blocks(older.volume, over);
            locks.iter().any(|lock| lock.meets(&wants))
        })
    }

    /// An operation of a request has ended.
    pub(super) fn prepared(
        &mut self,
        id: PoolRequestId,
        end: Result<(), Failure>,
        fault: Option<Fault>,
    ) {
        self.request_operations -= 1;
        let request = self.requests.get_mut(&id).expect("it waits for its operation");
        request.stage = Stage::Held;
        match end {
            Ok(()) => {
                request.blocks = None;
                self.held.insert(request.serial, id);
            }
            Err(_) => self.answer(id, Err(fault.unwrap_or(Fault::Disk))),
        }
    }
}
