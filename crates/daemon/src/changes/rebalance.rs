//! Relocates volumes from the fullest disks of the pool to the emptiest.

use std::collections::{BTreeMap, BTreeSet};

use volume::DiskId;
use volume::pool::{PoolVolumeId, Volume};

use super::error::ChangeError;
use super::operator::Operator;

/// The number of a disk's blocks in use, and of all its blocks.
#[derive(Clone, Copy, Debug)]
struct Usage {
    used: u32,
    all: u32,
}

/// A volume, with the number of its blocks on each disk.
struct Distribution {
    volume: Volume,
    on: BTreeMap<DiskId, u32>,
}

impl Distribution {
    fn of(volume: &Volume) -> Self {
        let mut on = BTreeMap::new();
        for place in volume.places() {
            *on.entry(place.disk).or_insert(0) += place.len;
        }
        Self { volume: volume.clone(), on }
    }
}

impl Operator {
    /// Relocates volumes to emptier disks, in each step the volume that balances the pool most,
    /// until no step helps or is admitted. Returns the names of the relocated volumes.
    ///
    /// # Errors
    /// See [`ChangeError`]. A volume that is not admitted elsewhere stays, and is no error.
    pub fn rebalance(&self) -> Result<Vec<String>, ChangeError> {
        let (mut volumes, mut disks) = self.state.pool()?.inspect(|flow| {
            let (pool, state) = (flow.pool(), flow.pool().state());
            let relocated: BTreeSet<PoolVolumeId> =
                flow.relocations().iter().map(|one| one.volume).collect();
            let stays = |(id, one): &(PoolVolumeId, &Volume)| {
                one.origin.is_none() && !relocated.contains(id)
            };
            let volumes = state.volumes().filter(stays);
            let volumes: Vec<Distribution> =
                volumes.map(|(_, volume)| Distribution::of(volume)).collect();
            let disks = state.disks().filter(|(_, disk)| !disk.draining).map(|(id, _)| {
                let (all, free) = pool.free(id);
                (id, Usage { used: all.0 - free.0, all: all.0 })
            });
            (volumes, disks.collect::<BTreeMap<_, _>>())
        });
        let mut relocated = Vec::new();
        while let Some((at, from, to)) = best(&volumes, &disks) {
            let Distribution { volume, on } = volumes.swap_remove(at);
            let instead = |id: &DiskId| if *id == from { to } else { *id };
            let new: Vec<DiskId> = volume.disks.iter().map(instead).collect();
            let names = self.pool_disk_names(&new)?;
            match self.relocate(&volume.name, None, Some(&names)) {
                Ok(()) => {}
                Err(ChangeError::Config(_) | ChangeError::Refused(_)) => continue,
                Err(error) => return Err(error),
            }
            let blocks = on[&from];
            disks.get_mut(&from).expect("the source is a disk of the pool").used -= blocks;
            disks.get_mut(&to).expect("the target is a disk of the pool").used += blocks;
            relocated.push(volume.name);
        }
        Ok(relocated)
    }
}

/// The relocation that balances the pool most: the volume, its present disk and its new one. More
/// blocks are better, as long as the emptier disk stays the emptier one.
fn best(
    volumes: &[Distribution],
    disks: &BTreeMap<DiskId, Usage>,
) -> Option<(usize, DiskId, DiskId)> {
    let mut best: Option<(u32, usize, DiskId, DiskId)> = None;
    for (at, Distribution { volume, on }) in volumes.iter().enumerate() {
        for (from, blocks) in on {
            for to in disks.keys().filter(|to| !volume.disks.contains(to)) {
                let Some((full, empty)) = disks.get(from).zip(disks.get(to)) else { continue };
                let part =
                    |used: u32, all: u32| u64::from(used) * u64::from(u32::MAX) / u64::from(all);
                let after = part(empty.used + blocks, empty.all);
                let fits = empty.used + blocks <= empty.all && volume.disks.contains(from);
                if fits
                    && after <= part(full.used - blocks, full.all)
                    && best.is_none_or(|(most, ..)| *blocks > most)
                {
                    best = Some((*blocks, at, *from, *to));
                }
            }
        }
    }
    best.map(|(_, at, from, to)| (at, from, to))
}
