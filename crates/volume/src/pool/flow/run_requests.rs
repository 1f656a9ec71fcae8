//! A client's request: held while it must wait, then mapped, issued and answered.
//!
//! A held request is retried, the oldest first, whenever something has ended. No request begins an
//! operation where an older request waits for its own, so that none starves.

use units::{Extent, Lba, Op, Sectors};

use crate::location::DiskId;
use crate::pool::flow::core::Flow;
use crate::pool::flow::read_choice::POSITIONING_MAX;
use crate::pool::flow::request::{
    Again, Located, Next, REQUEST_OPERATIONS_MAX, Request, Stage, blocks, whole,
};
use crate::pool::flow::values::ChargeTo;
use crate::pool::flow::values::CopyPiece;
use crate::pool::flow::values::Fault;
use crate::pool::flow::values::Output;
use crate::pool::flow::values::Owner;
use crate::pool::flow::values::PendingOperation;
use crate::pool::flow::values::PoolRequestId;
use crate::pool::flow::values::Work;
use crate::pool::limits::BLOCK_SECTORS;
use crate::pool::names::{Blocks, PoolVolumeId, VolumeBlock};
use crate::pool::operation::kinds::{Lock, Operation};
use crate::pool::operation::machine::Failure;
use crate::pool::operation::refusal::Refusal;
use crate::pool::operation::status::Writability;
use crate::pool::state::volume::{MappedExtent, Volume};

impl Flow {
    /// Submits a client's request. It is answered once, by [`Output::Answer`].
    ///
    /// # Panics
    /// If a request in progress has its number.
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
            losses: self.pool.redundancy.losses(),
            volume,
            operation,
            no_hole,
            blocks: None,
            head: empty,
            rest: operation.extent,
            stage: Stage::Held,
            nospace_retry_after: None,
            fault: None,
            again: None,
            is_missed: false,
            retries: 0,
        };
        assert!(self.serials > serial, "requests are numbered in order of arrival");
        if let Err(fault) = self.admit(&mut request) {
            return self.outputs.push_back(Output::Answer(id, Err(fault)));
        }
        self.pass_in_order(volume, &operation);
        let before = self.requests.insert(id, request);
        assert!(before.is_none(), "request {} is pending way", id.0);
        self.advance_request(id);
        // A write that waits ends a long operation that makes copies equal, and has the blocks
        // committed that were moved.
        let is_in_progress = self.resync.running > 0 || !self.relocations.is_empty();
        self.dirty |= is_in_progress && self.held.contains_key(&serial);
    }

    /// Validates a request, and splits off the blocks that it deallocates.
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
            let parts = request.head.len + request.rest.len;
            let whole = Blocks(blocks.end - blocks.start).sectors();
            assert_eq!(parts + whole, extent.len, "the parts are the request");
            request.blocks = Some(blocks);
        }
        Ok(())
    }

    /// The volume of a request, if it exists and contains the extent.
    fn volume_of(&self, request: &Request) -> Result<&Volume, Fault> {
        let volume = self.pool.state().volume(request.volume).ok_or(Fault::Invalid)?;
        let whole = Extent::new(Lba(0), volume.size.sectors());
        if whole.contains(request.operation.extent) { Ok(volume) } else { Err(Fault::Invalid) }
    }

    /// A flush goes to every disk that the volume's data can be on.
    fn flush(&mut self, id: PoolRequestId) {
        let volume = self.requests[&id].volume;
        let state = self.pool.state();
        // A snapshot was durable when it was made; with a disk missing nothing was written.
        let still = state.volume(volume).is_none_or(|volume| volume.origin.is_some())
            || !self.pool.missing().is_empty();
        if still {
            return self.answer(id, Ok(()));
        }
        let mirror = state.volume(volume).is_some_and(|volume| volume.layout.is_mirror());
        if mirror && !self.pool.failing().is_empty() {
            if self.pool.is_poisoned() {
                return self.answer(id, Err(Fault::Disk));
            }
            let serial = self.requests[&id].serial;
            self.held.insert(serial, id);
            return;
        }
        let group = state.group_of(volume);
        let mut disks: Vec<DiskId> = self.groups[&group].disks.iter().copied().collect();
        let known = self.requests[&id].losses;
        if self.pool.redundancy.tell_lost(volume, known) {
            // Any of those in progress may be for what is lost.
            for request in self.requests.values_mut().filter(|one| one.volume == volume) {
                if request.operation.op == Op::Flush {
                    request.fault.get_or_insert(Fault::Disk);
                }
            }
        }
        if let Some(fault) = self.requests[&id].fault {
            return self.answer(id, Err(fault));
        }
        let state = self.pool.state();
        if mirror {
            // What a disk misses that is out is stale.
            disks.retain(|disk| state.is_in(*disk));
        } else if disks.iter().any(|disk| !state.is_in(*disk)) {
            return self.answer(id, Err(Fault::Disk));
        }
        if disks.is_empty() {
            return self.answer(id, Err(Fault::Disk));
        }
        let part = Extent::new(Lba(0), Sectors::ZERO);
        let located = |disk| Located { disk, extent: part, at: Sectors::ZERO };
        let pieces = disks.into_iter().map(located).collect();
        self.issue_located(id, part, pieces);
    }

    /// Advances a request until it is in flight, held or answered.
    pub(crate) fn advance_request(&mut self, id: PoolRequestId) {
        if self.requests[&id].operation.op == Op::Flush {
            return self.flush(id);
        }
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
                    let request = self.requests.get_mut(&id).expect("it is pending way");
                    request.blocks = None;
                }
                Next::Begin(operation) => {
                    if !self.begin_for(id, &operation) {
                        return;
                    }
                }
                Next::Issue => {
                    let pieces = match self.locate(id, part) {
                        Ok(pieces) => pieces,
                        Err(fault) => return self.answer(id, Err(fault)),
                    };
                    self.requests.get_mut(&id).expect("it is pending way").pass(part);
                    if !pieces.is_empty() {
                        return self.issue_located(id, part, pieces);
                    }
                    // If the part was to be issued again, it counted as in flight.
                    self.on_request_idle(id);
                }
            }
        }
    }

    /// The next action for a request.
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
        if request.operation.op.writes() && self.pool.is_unknown(request.volume, over.clone()) {
            return Next::End(Err(Fault::Disk));
        }
        // What quiesces the blocks of a part that is issued again waits for it.
        let again = request.again.is_some();
        if !again && self.is_quiesced(request.volume, &over, request.operation.op.writes()) {
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
        let next = match request.operation.op {
            Op::Read => return Next::Issue,
            Op::WriteZeroes if !request.no_hole => self.next_of_mapped(request, volume, part, true),
            Op::Trim if volume.layout.is_mirror() => return Next::Issue,
            Op::Trim => self.next_of_mapped(request, volume, part, false),
            _ => self.next_of(request.volume, part),
        };
        match next {
            Next::Issue if volume.layout.is_mirror() => {
                self.next_of_mirror(id, (request, volume), part)
            }
            next => next,
        }
    }

    fn next_of(&self, volume: PoolVolumeId, part: Extent) -> Next {
        match self.pool.writable(volume, part) {
            Writability::Now => Next::Issue,
            Writability::Wait => Next::Hold,
            Writability::Allocate { first, count } => {
                Next::Begin(Operation::Allocate { volume, first, count })
            }
        }
    }

    /// The same for the allocated sectors of `part`; the others are zeroes already.
    fn next_of_mapped(
        &self,
        request: &Request,
        volume: &Volume,
        part: Extent,
        exact: bool,
    ) -> Next {
        for piece in volume.map(part).filter(|piece| piece.location.is_some()) {
            match self.next_of(request.volume, piece.extent) {
                // A trim of blocks shared with a snapshot is skipped: it would free nothing.
                Next::Begin(_) if !exact => {}
                Next::Issue => {}
                other => return other,
            }
        }
        Next::Issue
    }

    /// Where the pieces of a part go.
    fn locate(&self, id: PoolRequestId, part: Extent) -> Result<Vec<Located>, Fault> {
        let request = &self.requests[&id];
        let volume = self.pool.state().volume(request.volume).ok_or(Fault::Invalid)?;
        if volume.layout.is_mirror() {
            return self.locate_copies((request, volume), part);
        }
        let start = request.operation.extent.start;
        let moves = matches!(request.operation.op, Op::Read | Op::Write);
        let own = |extent| self.pool.writable(request.volume, extent) == Writability::Now;
        let mut pieces = Vec::new();
        for MappedExtent { extent, location } in volume.map(part) {
            let Some(placed) = location else { continue };
            if self.pool.missing().contains(&placed.disk) || !self.pool.state().is_in(placed.disk) {
                return Err(Fault::Disk);
            }
            if request.operation.op == Op::Trim && !own(extent) {
                continue;
            }
            let (mut volume, mut place) = (extent, placed.extent);
            // Requests are split at every MiB of the volume, wherever its blocks lie: stream
            // contracts count these pieces.
            while !place.is_empty() {
                let left = Sectors(BLOCK_SECTORS.0 - volume.start.0 % BLOCK_SECTORS.0);
                let len = if moves { left } else { place.len };
                let at = volume.start.distance(start);
                let (head, rest) = place.split_at(len);
                assert!(!head.is_empty(), "a piece has sectors");
                assert!(at + head.len <= request.operation.extent.len, "within the request");
                pieces.push(Located { disk: placed.disk, extent: head, at });
                (volume, place) = (volume.split_at(len).1, rest);
            }
        }
        Ok(pieces)
    }

    fn issue_located(&mut self, id: PoolRequestId, part: Extent, pieces: Vec<Located>) {
        let request = self.requests.get_mut(&id).expect("it is pending way");
        let group = self.pool.state().group_of(request.volume);
        let epoch = self.groups.get_mut(&group).expect("every group is listed").enter_epoch();
        assert!(!pieces.is_empty(), "a request in flight has pieces");
        assert!(matches!(request.stage, Stage::Held), "a request is issued part by part");
        let count = u32::try_from(pieces.len()).expect("a part has few pieces");
        request.stage = Stage::InFlight { pieces: count, group, epoch, part };
        let (volume, no_hole) = (request.volume, request.no_hole);
        request.is_missed = false;
        let units::Operation { op, fua, .. } = request.operation;
        if op.writes() {
            self.scrub.touch(|_, of| of == group, &blocks(part));
        }
        let mirror = self.pool.state().volume(volume).is_some_and(|one| one.layout.is_mirror());
        if mirror && op.writes() {
            self.mark_ahead(volume, &blocks(part));
        }
        let last_write = self.pool.redundancy.last_write();
        for Located { disk, extent, at } in pieces {
            let work = Work::Request { request: id, op, extent, at, fua, no_hole };
            if mirror && op.writes() {
                self.pool.redundancy.begin_write(disk, extent);
            }
            let owner = if mirror {
                Owner::Copy(CopyPiece { request: id, disk, extent, last_write })
            } else {
                Owner::Request(id)
            };
            let group = self.groups.get_mut(&group).expect("every group is listed");
            let cost = match op {
                Op::Flush => POSITIONING_MAX,
                _ => group.pass_over(disk, extent),
            };
            self.issue_at((owner, cost), disk, ChargeTo::Volume(volume), work);
        }
    }

    /// A piece of a request has completed.
    pub(crate) fn on_piece_done(&mut self, id: PoolRequestId, end: Result<(), Fault>) {
        let request =
            self.requests.get_mut(&id).expect("it is answered when its pieces have ended");
        if let Err(fault) = end {
            request.fault.get_or_insert(fault);
        }
        self.count_piece(id);
    }

    /// A piece of a request has ended; after the last one the request advances.
    pub(crate) fn count_piece(&mut self, id: PoolRequestId) {
        let request = self.requests.get_mut(&id).expect("it waits for its pieces");
        let Stage::InFlight { pieces, group, epoch, part } = &mut request.stage else {
            panic!("a piece ends once")
        };
        assert!(*pieces > 0, "a piece in flight was counted");
        *pieces -= 1;
        if *pieces > 0 {
            return;
        }
        let (group, epoch, part) = (*group, *epoch, *part);
        request.stage = Stage::Held;
        let free = self.groups.get_mut(&group).expect("it has a request").leave_epoch(epoch);
        self.release(free);
        self.forget(group);
        if self.is_to_be_repeated(id, part) {
            let request = self.requests.get_mut(&id).expect("it is pending way");
            if request.operation.op == Op::Flush {
                self.on_request_idle(id);
            } else {
                request.again = Some(Again { group, part });
            }
            return self.advance_request(id);
        }
        self.note_torn(id, part);
        self.on_request_idle(id);
        if self.requests[&id].operation.op == Op::Flush {
            let end = self.requests[&id].fault.map_or(Ok(()), Err);
            return self.answer(id, end);
        }
        self.advance_request(id);
    }

    pub(crate) fn answer(&mut self, id: PoolRequestId, end: Result<(), Fault>) {
        if let Some(Again { part, .. }) = self.requests[&id].again {
            // It ends with a part that some copies have and others miss.
            self.requests.get_mut(&id).expect("it is there").fault = end.err();
            self.note_torn(id, part);
            self.on_request_idle(id);
        }
        let request = self.requests.remove(&id).expect("a request is answered once");
        let in_flight = matches!(request.stage, Stage::InFlight { .. });
        assert!(!in_flight, "a request with pieces in flight is not answered");
        self.held.remove(&request.serial);
        self.outputs.push_back(Output::Answer(id, end));
    }

    /// Retries all held requests, the oldest first. Returns whether any advanced.
    pub(crate) fn retry_held(&mut self) -> bool {
        let held: Vec<(u64, PoolRequestId)> = self.held.iter().map(|(at, id)| (*at, *id)).collect();
        let mut progressed = false;
        for (serial, id) in held {
            self.held.remove(&serial);
            self.advance_request(id);
            progressed |= !self.held.contains_key(&serial);
        }
        progressed
    }

    /// Begins an operation for a request; returns whether the request can advance at once.
    fn begin_for(&mut self, id: PoolRequestId, operation: &Operation) -> bool {
        let request = &self.requests[&id];
        let serial = request.serial;
        let Ok(locks) = operation.locks(self.pool.state()) else {
            self.answer(id, Err(Fault::Invalid));
            return false;
        };
        // What waits for a part that is issued again does not bar it.
        let again = request.again.is_some();
        let turn = self.request_operations < REQUEST_OPERATIONS_MAX
            && (again || !self.is_barred(&locks))
            && (again || !self.is_blocked_by_older(serial, &locks));
        if !turn {
            self.held.insert(serial, id);
            return false;
        }
        let volume = request.volume;
        match self.pool.begin(operation) {
            Ok(operation_id) => {
                let request = self.requests.get_mut(&id).expect("it is pending way");
                (request.stage, request.nospace_retry_after) = (Stage::Preparing, None);
                let (owner, payer) = (Owner::Request(id), ChargeTo::Volume(volume));
                let group = Some(self.pool.state().group_of(volume));
                self.operation_ids
                    .insert(operation_id, PendingOperation { owner, payer, group, fault: None });
                self.request_operations += 1;
                assert!(self.request_operations <= REQUEST_OPERATIONS_MAX, "within the limit");
                self.dirty = true;
                false
            }
            Err(refusal) => self.on_refused(id, &refusal),
        }
    }

    /// Handles the refusal of a request's operation.
    fn on_refused(&mut self, id: PoolRequestId, refusal: &Refusal) -> bool {
        let oldest = self.pool.oldest();
        let next = self.pool.next_ticket();
        let request = self.requests.get_mut(&id).expect("it is pending way");
        let op = request.operation.op;
        let serial = request.serial;
        let end = match refusal {
            Refusal::Busy | Refusal::TooMany => None,
            Refusal::NoSpace { .. } | Refusal::MetadataFull => {
                let since = *request.nospace_retry_after.get_or_insert(next);
                let waits = oldest.is_some_and(|oldest| oldest < since);
                (!waits).then_some(Fault::NoSpace)
            }
            Refusal::ReadOnly { .. } => Some(Fault::ReadOnly),
            Refusal::Poisoned | Refusal::OnlyCopy { .. } | Refusal::Out(_) => Some(Fault::Disk),
            _ => Some(Fault::Invalid),
        };
        match end {
            None => {
                self.held.insert(serial, id);
                false
            }
            // Whole blocks cannot be deallocated: a trim need not, and zeroes can be written.
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

    /// Whether an older held request may need an operation on the same blocks.
    fn is_blocked_by_older(&self, serial: u64, locks: &[Lock]) -> bool {
        self.held.range(..serial).any(|(_, id)| {
            let older = &self.requests[id];
            if !older.operation.op.writes() {
                return false;
            }
            let over = older.blocks.clone().unwrap_or_else(|| blocks(older.part()));
            let wants = Lock::Blocks(older.volume, over);
            locks.iter().any(|lock| lock.conflicts_with(&wants))
        })
    }

    /// An operation of a request has ended.
    pub(crate) fn on_operation_done(
        &mut self,
        id: PoolRequestId,
        end: Result<(), Failure>,
        fault: Option<Fault>,
    ) {
        assert!(self.request_operations > 0, "its operation was counted");
        self.request_operations -= 1;
        let request = self.requests.get_mut(&id).expect("it waits for its operation");
        assert!(matches!(request.stage, Stage::Preparing), "it waits for its operation");
        request.stage = Stage::Held;
        match end {
            Ok(()) => {
                request.blocks = None;
                self.held.insert(request.serial, id);
            }
            // Without the disk that failed, or with another copy as the source, it may succeed.
            Err(failure) if self.may_retry(id, failure, fault) => {
                let request = self.requests.get_mut(&id).expect("it is pending way");
                request.retries += 1;
                self.held.insert(request.serial, id);
                self.dirty = true;
            }
            Err(_) => self.answer(id, Err(fault.unwrap_or(Fault::Disk))),
        }
    }
}
