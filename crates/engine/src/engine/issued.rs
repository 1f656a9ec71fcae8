//! The commands in the drive.

use units::{Operation, Sectors};

use super::pending::Slot;
use crate::Purpose;
use crate::policy::DispatchRecord;
use crate::request::CommandId;

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
}
