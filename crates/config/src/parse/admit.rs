//! Admission of all contracts of a config: everything fits on every disk, or the config is refused.

use engine::WorstCase;
use input::Table;

use crate::demand::{AdmissionFailure, Contracts, POOL_VOLUMES, Tasks};
use crate::error::ConfigError;
use crate::plan::{Disk, DiskIndex, PoolPlan, Volume};

/// Checks that the contracts of the volumes fit on each disk. `tables` are the volumes' tables.
pub(crate) fn admit(
    tables: &[Table<'_>],
    disks: &[Disk],
    bounds: &[Option<WorstCase>],
    volumes: &[Volume],
) -> Result<(), ConfigError> {
    for (index, (disk, worst)) in disks.iter().zip(bounds).enumerate() {
        let Some(worst) = worst else { continue };
        let tasks = Tasks::of((disk, DiskIndex(index)), Contracts::Volumes(volumes), worst);
        let Some((volume, unfit)) = tasks.first_unfit(worst) else { continue };
        return Err(refused(&tables[volume], &PROMISES, disk, unfit));
    }
    Ok(())
}

/// Checks that the contracts of the pool and its volumes fit on each disk. `tables` are the pool's
/// table and its volumes'.
pub(crate) fn admit_pool(
    (own, tables): (&Table<'_>, &[Table<'_>]),
    disks: &[Disk],
    bounds: &[Option<WorstCase>],
    pool: &PoolPlan,
) -> Result<(), ConfigError> {
    for &index in &pool.disks {
        let (disk, Some(worst)) = (&disks[index.0], &bounds[index.0]) else { continue };
        let tasks = Tasks::of((disk, index), Contracts::Pool(pool), worst);
        let Some((number, unfit)) = tasks.first_unfit(worst) else { continue };
        let error = if let Some(volume) = number.checked_sub(POOL_VOLUMES) {
            refused(&tables[volume], &PROMISES, disk, unfit)
        } else {
            let key = pool.own_contracts(disk).nth(number).map(|(key, _)| key);
            refused(own, &[key.expect("the pool's own work has this number")], disk, unfit)
        };
        return Err(error);
    }
    Ok(())
}

/// The keys of a volume that set its contract.
const PROMISES: [&str; 4] = ["reserve", "stream", "iops", "bandwidth"];

/// An error about the first of the keys that has a value, or about the first of them.
fn refused(table: &Table<'_>, keys: &[&str], disk: &Disk, unfit: AdmissionFailure) -> ConfigError {
    let keys = if unfit.is_latency { &["latency"] } else { keys };
    let value = keys.iter().find_map(|key| table.value(key));
    let expected = format!("what fits on disk \"{}\" ({unfit})", disk.name);
    let error =
        value.map_or_else(|| table.missing(keys[0], &expected), |value| value.refuse(&expected));
    ConfigError::refusal(error, unfit)
}
