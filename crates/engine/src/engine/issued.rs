//! The commands in the drive.

use units::{Operation, Sectors};

use super::pending::Slot;
use crate::policy::DispatchRecord;
use crate::request::CommandId;
use crate::{Purpose, VolumeId};

/// A command that the drive has.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) id: CommandId,
    /// The first of the requests that it covers, and their number; the others follow it in the
    /// list of the queue.
    pub(super) slot: Slot,
    pub(super) covered: u32,
    /// Where it begins in the first request.
    pub(super) offset: Sectors,
    pub(super) operation: Operation,
    pub(super) purpose: Purpose,
    /// Whether its requests end with the flush of a batch.
    pub(super) awaits_flush: bool,
    /// What the policy noted at the dispatch; `None` for an auxiliary command and a repeated part.
    pub(super) record: Option<DispatchRecord>,
    /// The volume that is charged for what was prefetched for it, in the wait of its request.
    pub(super) gains: Option<VolumeId>,
}

impl Issued {
    /// A command for the request in `slot` alone, of which the policy notes nothing.
    pub(super) fn of_one(
        (id, slot): (CommandId, Slot),
        (operation, offset): (Operation, Sectors),
        purpose: Purpose,
    ) -> Self {
        debug_assert!(purpose == Purpose::Transfer || offset == Sectors::ZERO, "it has no place");
        let (covered, awaits_flush, record, gains) = (1, false, None, None);
        Self { id, slot, covered, offset, operation, purpose, awaits_flush, record, gains }
    }
}
