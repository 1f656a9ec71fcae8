//! A client's request that is not answered.

use std::ops::Range;

use units::{Extent, Op, Sectors};

use crate::pool::flow::values::Fault;
use crate::pool::limits::BLOCK_SECTORS;
use crate::pool::names::{Blocks, PoolVolumeId};
use crate::pool::operation::machine::OperationId;

/// Blocks of a request that are under way at a time: a request to make a whole volume zeroes is no list of all its blocks.
pub const SEGMENT_BLOCKS_MAX: Blocks = Blocks(64);

/// Operations that requests have under way at a time; the others that a pool takes are for changes.
pub const REQUEST_OPERATIONS_MAX: usize = 32;

/// A request that is not answered.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Its place among all.
    pub(crate) serial: u64,
    pub(crate) volume: PoolVolumeId,
    pub(crate) operation: units::Operation,
    pub(crate) no_hole: bool,
    /// Whole blocks that are given back first.
    pub(crate) blocks: Option<Range<u32>>,
    /// What is not begun yet: the first sectors, and the others.
    pub(crate) head: Extent,
    pub(crate) rest: Extent,
    pub(crate) stage: Stage,
    /// Where there was no room: whatever was under way then may yet give some back.
    pub(crate) patience: Option<OperationId>,
    pub(crate) fault: Option<Fault>,
}

#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// To be looked at when something has ended.
    Held,
    /// An operation of its own is under way.
    Preparing,
    /// So many of its pieces are under way, found in that epoch of its family. They are of this part of it.
    Flying { pieces: u32, family: PoolVolumeId, epoch: u64, part: Extent },
}

/// The blocks that sectors lie in.
pub(crate) fn blocks(extent: Extent) -> Range<u32> {
    let block = |number: u64| u32::try_from(number).expect("within the volume");
    block(extent.start.0 / BLOCK_SECTORS.0)..block(extent.end().0.div_ceil(BLOCK_SECTORS.0))
}

/// The blocks that sectors have whole, if any.
pub(crate) fn whole(extent: Extent) -> Option<Range<u32>> {
    let block = |number: u64| u32::try_from(number).expect("within the volume");
    let start = block(extent.start.0.div_ceil(BLOCK_SECTORS.0));
    let end = block(extent.end().0 / BLOCK_SECTORS.0);
    (start < end).then_some(start..end)
}

impl Request {
    /// The part of it under way or next: a head, or the next of the rest.
    pub(crate) fn part(&self) -> Extent {
        let from = if self.head.is_empty() { self.rest } else { self.head };
        from.split_at(SEGMENT_BLOCKS_MAX.sectors()).0
    }

    pub(crate) fn pass(&mut self, part: Extent) {
        let from = if self.head.is_empty() { &mut self.rest } else { &mut self.head };
        *from = from.split_at(part.len).1;
    }

    pub(crate) fn is_done(&self) -> bool {
        self.blocks.is_none() && self.head.is_empty() && self.rest.is_empty()
    }

    /// The sectors that an exact request is still to write, where whole blocks could not be given back.
    pub(crate) fn write_all(&mut self) {
        self.blocks = None;
        (self.head, self.rest) =
            (self.operation.extent.split_at(Sectors::ZERO).0, self.operation.extent);
    }

    /// Whether its pieces under way are at these blocks of that volume.
    pub(crate) fn flies_over(&self, volume: PoolVolumeId, at: &Range<u32>, reads: bool) -> bool {
        let Stage::Flying { part, .. } = &self.stage else { return false };
        let over = blocks(*part);
        self.volume == volume
            && (reads || self.operation.op.writes())
            && over.start < at.end
            && at.start < over.end
    }

    /// Whether a flush of its is under way.
    pub(crate) fn flushes(&self) -> bool {
        matches!(self.stage, Stage::Flying { .. }) && self.operation.op == Op::Flush
    }
}
