//! Who has an account on which of a pool's disks.

use std::collections::BTreeMap;

use config::{DiskIndex, Plan};
use engine::stream::Span;
use engine::{Contract, Priority};
use units::Instant;
use volume::DiskId;
use volume::pool::{Pool, PoolVolumeId};

use super::served::{Member, Tenant};
use crate::disk::{Brain, Joins};
use crate::router::Routes;

/// What a volume of the pool is promised on one of the daemon's disks, by its name.
pub(crate) fn promise(plan: &Plan, name: &str, disk: usize) -> Joins {
    let planned = plan.pool.as_ref().and_then(|pool| pool.volume(name));
    let contract = planned.map_or(Contract::BEST_EFFORT, |volume| volume.contract(DiskIndex(disk)));
    let (span, priority) =
        planned.map_or((Span::ALWAYS, Priority::Normal), |volume| (volume.span(), volume.priority));
    Joins { contract, span, declared: None, priority }
}

/// What the pool itself has on one of the daemon's disks: for metadata, and for moving blocks.
///
/// # Panics
/// If the plan has no pool.
pub(crate) fn own(plan: &Plan, disk: usize) -> [Joins; 2] {
    let pool = plan.pool.as_ref().expect("the pool is of the plan");
    let joins = |contract| Joins {
        contract,
        span: Span::ALWAYS,
        declared: None,
        priority: Priority::Normal,
    };
    [joins(pool.metadata_contract()), joins(pool.relocation_contract(&plan.disks[disk]))]
}

/// The accounts of a pool and its volumes on disks that are not served yet.
pub(crate) fn seat(
    plan: &Plan,
    (pool, places): (&Pool, &BTreeMap<DiskId, usize>),
    brains: &mut BTreeMap<usize, &mut Brain>,
    routes: &Routes,
    now: Instant,
) -> (BTreeMap<DiskId, Member>, BTreeMap<PoolVolumeId, Tenant>) {
    // Nobody opens these: they have numbers, and no names.
    let own_exports = [routes.number(), routes.number()];
    let mut members = BTreeMap::new();
    for (id, disk) in places {
        let brain = brains.get_mut(disk).expect("the pool's disks are the daemon's");
        let [metadata, moving] = own(plan, *disk);
        let metadata = brain.join(own_exports[0], metadata, now);
        let moving = brain.join(own_exports[1], moving, now);
        members.insert(*id, Member { disk: *disk, metadata, moving });
    }
    let mut tenants = BTreeMap::new();
    for (id, volume) in pool.state().volumes() {
        let export = routes.number();
        let accounts = places.values().map(|disk| {
            let joins = promise(plan, &volume.name, *disk);
            let brain = brains.get_mut(disk).expect("the pool's disks are the daemon's");
            (*disk, brain.join(export, joins, now))
        });
        tenants.insert(id, Tenant { export, accounts: accounts.collect() });
    }
    (members, tenants)
}
