//! Requests to mirrors: a write goes to all whole copies, a read to one, and both go on without a
//! disk that fails.
//!
//! A write that misses a copy is answered when the disk is durably out and the copy durably stale.
//! Until then it keeps its sectors: it is issued again, before anything that waits for it.
//!
//! A disk that has failed may have lost what it had answered. What it answers from then on is not
//! taken: a read is sent to another copy, and a flush again to the disks that stay.

use units::{Extent, Op, Sectors};

use crate::location::DiskId;
use crate::pool::flow::core::Flow;
use crate::pool::flow::read_choice::{cheapest, home};
use crate::pool::flow::request::{Located, Next, Request, Stage, blocks};
use crate::pool::flow::values::{CopyPiece, Fault, PoolRequestId};
use crate::pool::limits::BLOCK_SECTORS;
use crate::pool::names::{Blocks, PoolVolumeId, VolumeBlock};
use crate::pool::operation::kinds::Operation;
use crate::pool::operation::machine::Failure;
use crate::pool::state::volume::{MappedExtent, Volume};

/// How often a request is tried again after a disk that stays in could not serve it.
pub(crate) const RETRIES_MAX: u8 = 4;

impl Flow {
    /// A disk has failed to write what it had answered of a mirror: the pool goes on without the
    /// disk, or, if it cannot, without what the disk has of that, and the volume's flushes fail.
    /// Call it before the end of anything that the disk has done since is reported. Returns whether
    /// the pool goes on without the disk.
    pub fn lose(&mut self, disk: DiskId, volume: PoolVolumeId) -> bool {
        if self.fail(disk) {
            return true;
        }
        debug_assert!(self.pool.failing().len() <= self.pool.state().disks().count(), "of them");
        if !self.pool.state().is_in(disk) || self.pool.state().volume(volume).is_none() {
            return false;
        }
        self.pool.note_losses(disk, volume);
        for request in self.requests.values_mut().filter(|one| one.volume == volume) {
            if request.flushes() {
                request.fault.get_or_insert(Fault::Disk);
            }
        }
        assert!(!self.pool.failing().contains(&disk), "it stays in");
        self.wake_resync();
        false
    }

    /// What a write to a mirror waits for, once its blocks are there and its own.
    pub(crate) fn next_of_mirror(
        &self,
        id: PoolRequestId,
        (request, volume): (&Request, &Volume),
        part: Extent,
    ) -> Next {
        assert!(request.operation.op.writes(), "a request that writes");
        assert!(volume.origin.is_none(), "a snapshot is only read");
        if self.pool.is_poisoned() {
            return Next::End(Err(Fault::Disk));
        }
        // With the only disk that has the newest state, where the write goes would be lost too.
        if self.pool.is_opening() {
            return Next::Hold;
        }
        if !self.pool.failing().is_empty() || self.is_written(id, request, part) {
            return Next::Hold;
        }
        let over = blocks(part);
        let (first, count) = (VolumeBlock(over.start), Blocks(over.end - over.start));
        if !self.pool.has_whole_copies(volume, over.clone()) {
            return Next::End(Err(Fault::Disk));
        }
        if !volume.open {
            return Next::Begin(Operation::Open { volume: request.volume });
        }
        if self.pool.has_unmarked(volume, over) {
            return Next::Begin(Operation::MarkStale { volume: request.volume, first, count });
        }
        Next::Issue
    }

    /// Whether another request writes to these sectors: copies on several disks get writes in one
    /// order.
    fn is_written(&self, id: PoolRequestId, request: &Request, part: Extent) -> bool {
        self.requests.iter().any(|(other, one)| {
            let meets = |at: Extent| at.start < part.end() && part.start < at.end();
            *other != id
                && one.volume == request.volume
                && one.operation.op.writes()
                && one.written().is_some_and(meets)
        })
    }

    /// Where the pieces of a part go.
    pub(crate) fn locate_copies(
        &self,
        (request, volume): (&Request, &Volume),
        part: Extent,
    ) -> Result<Vec<Located>, Fault> {
        let start = request.operation.extent.start;
        assert!(volume.layout.is_mirror(), "a volume with copies");
        debug_assert!(request.operation.extent.contains(part), "a part of the request");
        let group = &self.groups[&self.pool.state().group_of(request.volume)];
        let state = (&self.costs, &group.last);
        let mut pieces = Vec::new();
        if request.operation.op == Op::Trim {
            // What a disk does with it is its own affair: copies would differ.
            return Ok(pieces);
        }
        for MappedExtent { mut extent, location } in volume.map(part) {
            while location.is_some() && !extent.is_empty() {
                let skip = Sectors(extent.start.0 % BLOCK_SECTORS.0);
                let (piece, rest) = extent.split_at(BLOCK_SECTORS - skip);
                let number = u32::try_from(piece.start.0 / BLOCK_SECTORS.0).expect("within it");
                let block = VolumeBlock(number);
                let at = piece.start.distance(start);
                let mut copies = match request.operation.op {
                    Op::Read => self.pool.readable_copies(volume, block),
                    _ => self.pool.whole_copies(volume, block).collect(),
                };
                if copies.is_empty() {
                    return Err(Fault::Disk);
                }
                if request.operation.op == Op::Read {
                    let preferred = self.prefer(request.volume, &mut copies);
                    let home = home(preferred, block, volume.size) + usize::from(request.retries);
                    let from = match request.retries {
                        0 => {
                            let copies = &copies[..preferred];
                            cheapest(copies, (skip, piece.len), state, &pieces, home)
                        }
                        // The copy that costs least may be the one that has failed.
                        _ => home % copies.len(),
                    };
                    copies.swap(0, from);
                    copies.truncate(1);
                }
                assert!(at + piece.len <= request.operation.extent.len, "within the request");
                for copy in copies {
                    let extent = copy.extent().split_at(skip).1.split_at(piece.len).0;
                    debug_assert_eq!(extent.len, piece.len, "a part of one block");
                    pieces.push(Located { disk: copy.disk, extent, at });
                }
                extent = rest;
            }
        }
        Ok(pieces)
    }

    /// A piece of a request to a mirror has ended.
    pub(crate) fn on_copy_done(&mut self, piece: CopyPiece, end: Result<(), Fault>) {
        let CopyPiece { request: id, disk, extent, last_write } = piece;
        let request = self.requests.get_mut(&id).expect("it waits for its pieces");
        let (volume, op) = (request.volume, request.operation.op);
        assert!(op != Op::Trim, "a trim has no pieces");
        if op.writes() {
            // A disk that failed it may have a part of it.
            self.pool.redundancy.note_write(disk, volume, extent);
        }
        match (op, end) {
            (Op::Read | Op::Flush, Ok(())) if !self.pool.is_live(disk) => {
                request.is_missed = true;
                self.dirty = true;
            }
            (Op::Flush, Ok(())) => self.pool.redundancy.note_flush(disk, volume, last_write),
            (_, Ok(())) => {}
            (Op::Read, Err(fault)) => {
                // All that one attempt misses is one try: a disk may have many of its pieces.
                let missed = core::mem::replace(&mut request.is_missed, true);
                if self.pool.state().is_in(disk) {
                    request.retries += u8::from(!missed);
                    self.pool.redundancy.note_unreadable(disk, extent);
                    self.wake_resync();
                }
                let request = self.requests.get_mut(&id).expect("it is there");
                if request.retries > RETRIES_MAX {
                    request.fault.get_or_insert(fault);
                }
            }
            (_, Err(fault)) => {
                request.is_missed = true;
                if !self.pool.fail(disk) {
                    // A flush does not delay its volume's removal. A pool that is left without
                    // mirrors stops without the disk, and what the disk misses was the volume's.
                    let is_there = self.pool.state().volume(volume).is_some();
                    let fault = if is_there { fault } else { Fault::Invalid };
                    let request = self.requests.get_mut(&id).expect("it is there");
                    request.fault.get_or_insert(fault);
                }
                self.dirty = true;
            }
        }
        // Another write may wait for these sectors.
        self.dirty |= !self.held.is_empty();
        self.count_piece(id);
    }

    /// All pieces of a part have ended. Returns whether the part is to be issued again.
    pub(crate) fn is_to_be_repeated(&self, id: PoolRequestId, part: Extent) -> bool {
        let request = &self.requests[&id];
        let Some(volume) = self.pool.state().volume(request.volume) else { return false };
        if request.fault.is_some() || !volume.layout.is_mirror() {
            return false;
        }
        let behind =
            || !self.pool.failing().is_empty() || self.pool.has_unmarked(volume, blocks(part));
        assert!(matches!(request.stage, Stage::Held), "all of its pieces have ended");
        request.is_missed || (request.operation.op.writes() && behind())
    }

    /// Whether an operation of a request to a mirror is tried again after it failed.
    pub(crate) fn may_retry(
        &self,
        id: PoolRequestId,
        failure: Failure,
        fault: Option<Fault>,
    ) -> bool {
        let request = &self.requests[&id];
        assert!(request.retries <= RETRIES_MAX + 1, "retries are within their limit");
        let volume = self.pool.state().volume(request.volume);
        let mirror = volume.is_some_and(|volume| volume.layout.is_mirror());
        let disk = failure == Failure::Disk && fault != Some(Fault::NoSpace);
        mirror && disk && !self.pool.is_poisoned() && request.retries < RETRIES_MAX
    }

    /// A part of a request that failed for good: its copies may differ from here on.
    pub(crate) fn note_torn(&mut self, id: PoolRequestId, part: Extent) {
        let request = &self.requests[&id];
        if request.fault.is_some() && request.operation.op.writes() {
            self.pool.note_torn(request.volume, blocks(part));
            self.wake_resync();
        }
    }
}
