//! Relocation: misplaced blocks of every volume are moved in order, a few at a time.
//!
//! Nothing of it is stored: a volume's placement and the locations of its blocks determine which
//! blocks are misplaced.

use crate::pool::flow::change::PendingChange;
use crate::pool::flow::core::Flow;
use crate::pool::flow::relocation::{RELOCATION_RETRIES_MAX, RELOCATIONS_MAX, Relocation};
use crate::pool::flow::values::ChangeOutcome;
use crate::pool::flow::values::RelocationProgress;
use crate::pool::names::{PoolVolumeId, VolumeBlock};
use crate::pool::operation::kinds::Operation;

impl Flow {
    /// Pauses or resumes relocation. Moves in progress end.
    pub fn pause_relocation(&mut self, paused: bool) {
        self.paused = paused;
        self.relocations.values_mut().for_each(Relocation::restart);
        self.dirty = true;
    }

    /// The volumes with misplaced blocks. Examines every extent of them.
    pub fn relocations(&self) -> Vec<RelocationProgress> {
        let progress = |(volume, relocation): (&PoolVolumeId, &Relocation)| {
            let stuck = relocation.why.clone().filter(|_| relocation.stuck);
            let misplaced = self.pool.misplaced_blocks(*volume);
            let progress =
                RelocationProgress { volume: *volume, moved: relocation.moved, misplaced, stuck };
            (misplaced > 0).then_some(progress)
        };
        self.relocations.iter().filter_map(progress).collect()
    }

    /// Starts a pass over a volume that may have misplaced blocks.
    pub(crate) fn start_relocation(&mut self, volume: PoolVolumeId) {
        self.relocations.entry(volume).or_default().restart();
        self.dirty = true;
    }

    /// Retries relocations that lacked space: some may have been freed.
    pub(crate) fn retry_stuck(&mut self) {
        for relocation in self.relocations.values_mut().filter(|one| one.is_refused()) {
            relocation.restart();
            self.dirty = true;
        }
    }

    /// The same after an operation failed, which frees the blocks that it held.
    pub(crate) fn retry_stuck_after_failure(&mut self) {
        for relocation in self.relocations.values_mut().filter(|one| one.is_refused()) {
            if relocation.retries < RELOCATION_RETRIES_MAX {
                relocation.retry();
                self.dirty = true;
            }
        }
    }

    /// Starts moves, up to the limit. Returns whether any was started.
    pub(crate) fn issue_moves(&mut self) -> bool {
        if self.paused {
            return false;
        }
        let mut progressed = false;
        let mut running =
            self.changes.values().filter(|change| change.relocation.is_some()).count();
        for volume in self.relocations.keys().copied().collect::<Vec<_>>() {
            while running < RELOCATIONS_MAX && !self.relocations[&volume].stuck {
                let from = VolumeBlock(self.relocations[&volume].cursor);
                let next = self.pool.misplaced(volume, from);
                let relocation = self.relocations.get_mut(&volume).expect("it is listed");
                let Some(block) = next else {
                    if relocation.running == 0 {
                        self.finish_pass(volume);
                    }
                    break;
                };
                relocation.cursor = block.0 + 1;
                assert!(block >= from, "a pass goes forward");
                relocation.running += 1;
                assert!(relocation.running <= RELOCATIONS_MAX, "moves are within their limit");
                running += 1;
                progressed = true;
                let id = self.number_change();
                let operation = Operation::Move { volume, block };
                self.changes.insert(id, PendingChange::new(operation, Some(volume)));
            }
        }
        progressed
    }

    /// Ends a pass.
    fn finish_pass(&mut self, volume: PoolVolumeId) {
        let relocation = self.relocations.get_mut(&volume).expect("it is listed");
        assert_eq!(relocation.running, 0, "no move of the pass is in progress");
        if relocation.why.is_some() {
            relocation.stuck = true;
            return;
        }
        self.relocations.remove(&volume);
        let id = self.pool.state().group_of(volume);
        let relatives: Vec<PoolVolumeId> =
            self.pool.state().group_members(id).map(|(relative, _)| relative).collect();
        // After the last of them, no block is left on the disks that they were moved from.
        if !relatives.iter().any(|relative| self.relocations.contains_key(relative))
            && let Some(group) = self.groups.get_mut(&id)
        {
            group.rescan(&self.pool, id);
        }
    }

    /// A block is no longer misplaced.
    pub(crate) fn skip_move(&mut self, volume: PoolVolumeId) {
        if let Some(relocation) = self.relocations.get_mut(&volume) {
            assert!(relocation.running > 0, "a move was in progress");
            relocation.running -= 1;
        }
    }

    /// A move has ended.
    pub(crate) fn on_move_done(
        &mut self,
        volume: PoolVolumeId,
        block: VolumeBlock,
        end: ChangeOutcome,
    ) {
        let widths = self.pool.state().volume(volume).map_or(1, |volume| volume.disks.len());
        let Some(relocation) = self.relocations.get_mut(&volume) else { return };
        assert!(relocation.running > 0, "a move was in progress");
        relocation.running -= 1;
        if end == ChangeOutcome::Done {
            relocation.moved += 1;
            (relocation.failures, relocation.retries) = (0, 0);
            return;
        }
        relocation.failures += 1;
        relocation.why = Some(end);
        // After each disk of the volume has refused a block, its other blocks need no attempt.
        let full = matches!(relocation.why, Some(ChangeOutcome::Refused(_)));
        if full && relocation.failures > widths {
            relocation.stuck = true;
            relocation.cursor = relocation.cursor.min(block.0);
        }
    }
}
