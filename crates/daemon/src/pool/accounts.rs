//! The numbers of a pool's volumes in its disks' engines, and their terms there.

use std::collections::BTreeMap;

use config::{DiskIndex, Plan};
use engine::{Contract, VolumeId};
use nbd::ExportId;
use volume::pool::Layout;

use crate::disk::terms::{BufferTerms, VolumeTerms};

/// A disk of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolDisk {
    pub(crate) disk: DiskIndex,
    /// The internal volume that is charged for metadata.
    pub(crate) metadata: VolumeId,
    /// The internal volume that is charged for relocation.
    pub(crate) moving: VolumeId,
    /// The internal volume that is charged for making copies equal: that of relocation, unless the
    /// plan has a contract for it.
    pub(crate) rebuild: VolumeId,
    /// The internal volume that is charged for scrubbing: that of relocation, unless the plan has a
    /// contract for it.
    pub(crate) scrub: VolumeId,
}

/// A volume of the pool: its number on each of the pool's disks.
#[derive(Clone, Debug)]
pub(crate) struct PoolVolumeAccounts {
    /// The export number, which is the same on all disks.
    pub(crate) export: ExportId,
    pub(crate) by_disk: BTreeMap<DiskIndex, VolumeId>,
}

/// The terms of a volume of the pool on one of the pool's disks. Its layout in the pool, whatever
/// the config says, tells whether it is one copy of several there.
pub(crate) fn volume_terms(
    plan: &Plan,
    (name, layout): (&str, Layout),
    disk: DiskIndex,
) -> VolumeTerms {
    let planned = plan.pool.as_ref().and_then(|pool| pool.volume(name));
    let bound = planned.map_or(engine::limits::WRITE_BUFFER, |volume| volume.write_buffer);
    let reports_losses = layout.is_mirror();
    let write_buffer = BufferTerms { reports_losses, ..BufferTerms::of_client(bound) };
    let Some(volume) = planned else {
        return VolumeTerms::always(Contract::BEST_EFFORT, write_buffer);
    };
    let (contract, span) = (volume.contract(disk), volume.stream_span_on(disk));
    let declared = volume.declared(disk);
    let (stream_span, priority) = (volume.span(), volume.priority);
    VolumeTerms { contract, span, stream_span, declared, priority, write_buffer }
}

impl PoolDisk {
    /// The most internal volumes of a disk.
    pub(crate) const INTERNAL_MAX: usize = 4;

    /// Attaches the pool's internal volumes to one of its disks: for metadata, for relocation,
    /// for making copies equal, and for scrubbing.
    ///
    /// # Panics
    /// If the plan has no pool.
    pub(crate) fn attach(
        plan: &Plan,
        disk: DiskIndex,
        mut attach: impl FnMut(VolumeTerms) -> VolumeId,
    ) -> Self {
        let (pool, there) = (plan.pool.as_ref().expect("the plan has a pool"), &plan.disks[disk.0]);
        let mut attach = |contract| attach(VolumeTerms::always(contract, BufferTerms::INTERNAL));
        let metadata = attach(pool.metadata_contract());
        let moving = attach(pool.relocation_contract(there));
        let rebuild = pool.rebuild_contract(there).map_or(moving, &mut attach);
        let scrub = pool.scrub_contract(there).map_or(moving, attach);
        Self { disk, metadata, moving, rebuild, scrub }
    }

    /// The internal volumes, each once.
    pub(crate) fn internal(self) -> impl Iterator<Item = VolumeId> {
        let own = [self.rebuild, self.scrub].into_iter();
        let own = own.filter(move |volume| *volume != self.moving);
        [self.metadata, self.moving].into_iter().chain(own)
    }
}
