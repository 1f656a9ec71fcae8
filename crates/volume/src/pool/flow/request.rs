//! A client's request that is not answered.

use std::ops::Range;

use units::{Extent, Op, Sectors};

use crate::location::DiskId;

use crate::pool::flow::change::Quiesced;
use crate::pool::flow::values::Fault;
use crate::pool::limits::BLOCK_SECTORS;
use crate::pool::names::{Blocks, PoolVolumeId};
use crate::pool::operation::kinds::Operation;
use crate::pool::operation::machine::OperationId;

/// The blocks of a request that are in flight at a time: a request that zeroes a whole volume needs
/// no list of all its blocks.
pub const SEGMENT_BLOCKS_MAX: Blocks = Blocks(64);

/// Operations that requests have in progress at a time; the pool's others are for changes.
pub const REQUEST_OPERATIONS_MAX: usize = 32;

/// A request that is not answered.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Its position in the order of arrival.
    pub(crate) serial: u64,
    /// The number of losses when it was submitted.
    pub(crate) losses: u64,
    pub(crate) volume: PoolVolumeId,
    pub(crate) operation: units::Operation,
    pub(crate) no_hole: bool,
    /// Whole blocks that are deallocated first.
    pub(crate) blocks: Option<Range<u32>>,
    /// The sectors that are not issued yet: those before the whole blocks, and the others.
    pub(crate) head: Extent,
    pub(crate) rest: Extent,
    pub(crate) stage: Stage,
    /// Set when a lack of space was found: the next operation's number then. Older operations may
    /// still free space.
    pub(crate) nospace_retry_after: Option<OperationId>,
    pub(crate) fault: Option<Fault>,
    /// The part that is to be issued again: a copy missed it.
    pub(crate) again: Option<Again>,
    /// Whether a piece of the part in flight failed, and another copy may serve it.
    pub(crate) is_missed: bool,
    /// How often it was tried again.
    pub(crate) retries: u8,
}

/// A part of a request to a mirror that is to be issued again. It counts as in flight: what
/// quiesces its blocks waits for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    pub(crate) group: PoolVolumeId,
    pub(crate) part: Extent,
}

#[derive(Clone, Debug)]
pub(crate) enum Stage {
    /// To be retried when something has ended.
    Held,
    /// Waits for its own operation.
    Preparing,
    /// `pieces` of it are in flight, mapped in `epoch` of its snapshot group. They cover this part
    /// of it.
    InFlight { pieces: u32, group: PoolVolumeId, epoch: u64, part: Extent },
}

/// Where sectors lie on a disk, and their offset in the request.
pub(crate) struct Located {
    pub(crate) disk: DiskId,
    pub(crate) extent: Extent,
    pub(crate) at: Sectors,
}

/// The next action for a request.
pub(crate) enum Next {
    Hold,
    End(Result<(), Fault>),
    /// There are no whole blocks to deallocate.
    Pass,
    Begin(Operation),
    Issue,
}

/// The blocks that an extent touches.
pub(crate) fn blocks(extent: Extent) -> Range<u32> {
    let block = |number: u64| u32::try_from(number).expect("within the volume");
    let touched =
        block(extent.start.0 / BLOCK_SECTORS.0)..block(extent.end().0.div_ceil(BLOCK_SECTORS.0));
    debug_assert!(touched.start <= touched.end, "a range of blocks");
    touched
}

/// The blocks that an extent covers wholly, if any.
pub(crate) fn whole(extent: Extent) -> Option<Range<u32>> {
    let block = |number: u64| u32::try_from(number).expect("within the volume");
    let start = block(extent.start.0.div_ceil(BLOCK_SECTORS.0));
    let end = block(extent.end().0 / BLOCK_SECTORS.0);
    debug_assert!(start.saturating_sub(end) <= 1, "at most one block is touched in part twice");
    (start < end).then_some(start..end)
}

impl Request {
    /// The part in flight or next: of the head, or else of the rest.
    pub(crate) fn part(&self) -> Extent {
        if let Some(again) = &self.again {
            return again.part;
        }
        let from = if self.head.is_empty() { self.rest } else { self.head };
        let part = from.split_at(SEGMENT_BLOCKS_MAX.sectors()).0;
        debug_assert!(self.operation.extent.contains(part), "a part of the request");
        part
    }

    pub(crate) fn pass(&mut self, part: Extent) {
        if self.again.take().is_some() {
            return;
        }
        let from = if self.head.is_empty() { &mut self.rest } else { &mut self.head };
        assert!(part.len <= from.len, "a part of the request");
        assert_eq!(part.start, from.start, "the next part");
        *from = from.split_at(part.len).1;
    }

    pub(crate) fn is_done(&self) -> bool {
        self.again.is_none()
            && self.blocks.is_none()
            && self.head.is_empty()
            && self.rest.is_empty()
    }

    /// Writes all sectors of a request that must zero, where whole blocks cannot be deallocated.
    pub(crate) fn write_all(&mut self) {
        self.blocks = None;
        (self.head, self.rest) =
            (self.operation.extent.split_at(Sectors::ZERO).0, self.operation.extent);
    }

    /// Whether its pieces in flight overlap quiesced blocks.
    pub(crate) fn overlaps(&self, rest: &Quiesced) -> bool {
        let (part, group) = match (&self.stage, &self.again) {
            (Stage::InFlight { part, group, .. }, _) | (_, Some(Again { part, group })) => {
                (*part, *group)
            }
            _ => return false,
        };
        let over = blocks(part);
        rest.is_of(self.volume, group)
            && (rest.reads || self.operation.op.writes())
            && over.start < rest.blocks.end
            && rest.blocks.start < over.end
    }

    /// The sectors that it is writing to, or has begun to and will again.
    pub(crate) fn written(&self) -> Option<Extent> {
        match (&self.stage, &self.again) {
            (Stage::InFlight { part, .. }, _) | (_, Some(Again { part, .. })) => Some(*part),
            _ => None,
        }
    }

    /// Whether it is a flush in flight.
    pub(crate) fn flushes(&self) -> bool {
        matches!(self.stage, Stage::InFlight { .. }) && self.operation.op == Op::Flush
    }
}
