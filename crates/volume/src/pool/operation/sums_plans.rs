//! Checksum areas for a pool that was made without: they take the place of the last blocks of each
//! disk, which are vacated first.

use std::collections::BTreeMap;

use crate::location::DiskId;
use crate::pool::format::structures::VERSION;
use crate::pool::names::{Blocks, PoolVolumeId, VolumeBlock};
use crate::pool::operation::commit::ledger_wipes;
use crate::pool::operation::machine::Pool;
use crate::pool::operation::plan::Plan;
use crate::pool::operation::refusal::Refusal;
use crate::pool::state::change::Change;
use crate::pool::state::volume::Disk;

impl Pool {
    /// Allocates nothing from here on where the checksum areas of
    /// [`Operation::AddSums`](crate::pool::Operation::AddSums) would lie, and counts blocks there
    /// as misplaced, until the pool is opened again.
    ///
    /// # Errors
    /// The pool has areas, a disk is out, or is too small.
    pub fn reserve_areas(&mut self, areas: &BTreeMap<DiskId, Blocks>) -> Result<(), Refusal> {
        for (id, blocks) in self.blocks_beside_areas(areas)? {
            let own = self.allocators.get_mut(&id).expect("a space each");
            own.limit_to(blocks.0 - 1);
        }
        Ok(())
    }

    /// The blocks in the reserved areas, each of one of the volumes that have it, to be moved with
    /// [`Operation::Move`](crate::pool::Operation::Move); with the disk that it is on.
    pub fn blocks_in_areas(&self) -> Vec<(PoolVolumeId, VolumeBlock, DiskId)> {
        let mut found = BTreeMap::new();
        for (id, volume) in self.state.volumes() {
            for (column, run) in volume.runs() {
                let limit = self.allocators[&run.disk()].limit();
                for block in limit.max(run.place.block)..run.place.end() {
                    let row = run.row + (block - run.place.block);
                    let at = (id, volume.block(column, row), run.disk());
                    found.entry((run.disk(), block)).or_insert(at);
                }
            }
        }
        debug_assert!(found.values().all(|(id, block, _)| self.is_misplaced(*id, *block)), "each");
        found.into_values().collect()
    }

    /// The blocks of each disk beside its new area.
    fn blocks_beside_areas(
        &self,
        areas: &BTreeMap<DiskId, Blocks>,
    ) -> Result<Vec<(DiskId, Blocks)>, Refusal> {
        if self.state.has_sums() {
            return Err(Refusal::HasSums);
        }
        let least = self.state.geometry.first_block() + 2;
        let mut found = Vec::new();
        for (id, disk) in self.state.disks().filter(|(_, disk)| !disk.has_sums) {
            if !self.is_live(id) {
                return Err(Refusal::Out(id));
            }
            // Of a device that is larger than the pool's disk no block is needed.
            let blocks = areas.get(&id).map_or(0, |blocks| blocks.0.min(disk.blocks));
            if blocks < least {
                return Err(Refusal::TooSmall { blocks: least });
            }
            found.push((id, Blocks(blocks)));
        }
        assert!(!found.is_empty(), "a disk has no area");
        Ok(found)
    }

    pub(crate) fn plan_add_sums(&self, areas: &BTreeMap<DiskId, Blocks>) -> Result<Plan, Refusal> {
        let found = self.blocks_beside_areas(areas)?;
        let upgrade = Change::Upgrade { version: VERSION };
        let mut changes: Vec<Change> =
            (self.state.version < VERSION).then_some(upgrade).into_iter().collect();
        let mut wipes = Vec::new();
        for (id, blocks) in found {
            let used = self.allocators[&id].used_from(blocks.0 - 1);
            if used > 0 {
                return Err(Refusal::AreaInUse { disk: id, blocks: used });
            }
            let disk = self.state.disks[&id];
            if blocks.0 == disk.blocks {
                // Its labels stay, so that nothing tells later whether the ledger was wiped.
                wipes.extend(ledger_wipes(&Disk { blocks: blocks.0, ..disk }, id));
            }
            changes.push(Change::AddSums { number: id, blocks });
        }
        assert!(!changes.is_empty(), "a disk gets an area");
        let mut plan = Plan::of(changes);
        plan.prepare(wipes);
        Ok(plan)
    }
}
