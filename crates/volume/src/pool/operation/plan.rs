//! The plan of an operation: changes, and the actions that prepare them.

use crate::location::DiskId;
use crate::pool::names::{BlockExtent, DiskUid};
use crate::pool::operation::refusal::Refusal;
use crate::pool::operation::script::Action;
use crate::pool::state::change::Change;
use crate::pool::state::metadata::State;
use crate::pool::state::volume::Disk;

/// The plan of an operation.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) changes: Vec<Change>,
    pub(crate) phases: Vec<Vec<Action>>,
    pub(crate) holds: Vec<BlockExtent>,
}

impl Plan {
    pub(crate) fn of(changes: Vec<Change>) -> Self {
        Self { changes, ..Self::default() }
    }

    /// Sets these actions, then flushes of the disks that they write to.
    pub(crate) fn prepare(&mut self, actions: Vec<Action>) {
        // What is erased or copied to is flushed.
        let mut disks: Vec<DiskId> = actions.iter().map(Action::disk).collect();
        disks.sort_unstable();
        disks.dedup();
        let flushes = disks.into_iter().map(|disk| Action::Flush { disk, of: None });
        assert!(self.phases.len() <= 2, "a plan is prepared in two phases");
        self.phases = vec![actions, flushes.collect()];
    }
}

/// The number and the entry of a disk that is added.
pub(crate) fn new_disk(
    state: &State,
    uid: DiskUid,
    blocks: u32,
    has_sums: bool,
) -> Result<(DiskId, Disk), Refusal> {
    let first = state.geometry.first_block();
    if blocks < first + 2 {
        return Err(Refusal::TooSmall { blocks: first + 2 });
    }
    if state.disks.values().any(|disk| disk.uid == uid) {
        return Err(Refusal::Known);
    }
    let fast_end = state.geometry.fast_end(blocks);
    assert!(first <= fast_end, "the fast zone begins with the data");
    assert!(fast_end < blocks, "the last block holds a label");
    Ok((
        DiskId(state.next_disk),
        Disk { uid, blocks, fast_end, draining: false, out: false, doubtful: false, has_sums },
    ))
}
