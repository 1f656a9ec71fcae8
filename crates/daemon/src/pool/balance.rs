//! Volumes moved from the fullest disks of a pool to its emptiest.

use std::collections::{BTreeMap, BTreeSet};

use volume::DiskId;
use volume::pool::{PoolVolumeId, Volume};

use crate::operator::{ChangeError, Operator};

/// How many blocks of a disk are in use, and how many there are.
#[derive(Clone, Copy, Debug)]
struct Filled {
    used: u32,
    all: u32,
}

/// A volume, with the blocks that it has on each disk.
struct Laid {
    volume: Volume,
    on: BTreeMap<DiskId, u32>,
}

fn laid(volume: &Volume) -> Laid {
    let mut on = BTreeMap::new();
    for place in volume.places() {
        *on.entry(place.disk).or_insert(0) += place.len;
    }
    Laid { volume: volume.clone(), on }
}

impl Operator {
    /// Has volumes lie on emptier disks, the one that evens the pool out most first, as long as one does and is admitted there.
    /// Says which are moved.
    ///
    /// # Errors
    /// See [`ChangeError`]. A volume that is not admitted elsewhere stays, and is no error.
    pub fn rebalance(&self) -> Result<Vec<String>, ChangeError> {
        let (mut volumes, mut disks) = self.live.pool()?.look(|flow| {
            let (pool, state) = (flow.pool(), flow.pool().state());
            let moving: BTreeSet<PoolVolumeId> =
                flow.relocations().iter().map(|one| one.volume).collect();
            let stays =
                |(id, one): &(PoolVolumeId, &Volume)| one.origin.is_none() && !moving.contains(id);
            let volumes: Vec<Laid> =
                state.volumes().filter(stays).map(|(_, volume)| laid(volume)).collect();
            let disks = state.disks().filter(|(_, disk)| !disk.draining).map(|(id, _)| {
                let (all, free) = pool.free(id);
                (id, Filled { used: all.0 - free.0, all: all.0 })
            });
            (volumes, disks.collect::<BTreeMap<_, _>>())
        });
        let mut moved = Vec::new();
        while let Some((at, from, to)) = best(&volumes, &disks) {
            let Laid { volume, on } = volumes.swap_remove(at);
            let instead = |id: &DiskId| if *id == from { to } else { *id };
            let names = self.names_of(&volume.disks.iter().map(instead).collect::<Vec<_>>())?;
            match self.settle(&volume.name, None, Some(&names)) {
                Ok(()) => {}
                Err(ChangeError::Config(_) | ChangeError::Refused(_)) => continue,
                Err(error) => return Err(error),
            }
            let blocks = on[&from];
            disks.get_mut(&from).expect("it is there").used -= blocks;
            disks.get_mut(&to).expect("it is there").used += blocks;
            moved.push(volume.name);
        }
        Ok(moved)
    }
}

/// The volume, and from which disk to which, that evens the pool out most: the more blocks the better, as long as the emptier disk
/// stays the emptier one.
fn best(volumes: &[Laid], disks: &BTreeMap<DiskId, Filled>) -> Option<(usize, DiskId, DiskId)> {
    let mut best: Option<(u32, usize, DiskId, DiskId)> = None;
    for (at, Laid { volume, on }) in volumes.iter().enumerate() {
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
