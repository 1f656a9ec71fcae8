//! `[[volume]]` tables: each takes of its disk's space and time what those before it left.

use engine::{Admission, Contract, Refusal};
use units::{Bytes, SECTOR_BYTES, Share};

use crate::error::ConfigError;
use crate::names::Names;
use crate::plan::{Disk, DiskIndex, Volume};
use crate::table::{Table, Value, size};

pub(crate) const KEYS: &[&str] = &["name", "disk", "size", "reserve", "limit"];

/// What a disk has left for the volumes to come.
#[derive(Clone, Default)]
struct Left {
    taken: Bytes,
    admission: Admission,
}

/// Checks the tables, in the file's order.
pub(crate) fn check(tables: &[Table<'_>], disks: &[Disk]) -> Result<Vec<Volume>, ConfigError> {
    let disk_names = Names::of(disks.iter().map(|disk| (disk.name.as_str(), disk.line)));
    let mut names = Names::default();
    let mut left = vec![Left::default(); disks.len()];
    let mut volumes = Vec::new();
    for table in tables {
        let name = names.add(table)?.to_owned();
        let disk = disk_names.find(&table.require("disk", "the name of a disk")?, "disk")?;
        volumes.push(Volume {
            name,
            disk: DiskIndex(disk),
            size: space(table, &disks[disk], &mut left[disk].taken)?,
            contract: contract(table, &disks[disk], &mut left[disk].admission)?,
            line: table.line(),
        });
    }
    Ok(volumes)
}

/// The volume's size, taken from what the disk has left.
fn space(table: &Table<'_>, disk: &Disk, taken: &mut Bytes) -> Result<Bytes, ConfigError> {
    let value = table.require("size", "a size such as 4KiB, 1MB or 20GiB")?;
    let asked = value.size()?;
    let capacity = disk.drive.model.capacity().0.saturating_mul(SECTOR_BYTES);
    let left = Bytes(capacity.saturating_sub(taken.0));
    if asked > left {
        let whole = if *taken == Bytes::ZERO { "the size" } else { "what is left" };
        let (left, name) = (size(left), &disk.name);
        return Err(value.refuse(format_args!("at most {left} ({whole} of disk \"{name}\")")));
    }
    *taken += asked;
    Ok(asked)
}

/// The volume's contract, admitted by the disk.
fn contract(
    table: &Table<'_>,
    disk: &Disk,
    admission: &mut Admission,
) -> Result<Contract, ConfigError> {
    let (reserve, limit) = (table.value("reserve"), table.value("limit"));
    let contract = Contract {
        reserve: reserve.as_ref().map_or(Ok(Share::NONE), Value::share)?,
        limit: limit.as_ref().map_or(Ok(Share::ALL), Value::share)?,
    };
    // What is not written is not at fault: a reserve of nothing always fits, no limit is above all.
    let at = |value: Option<_>, key| value.ok_or_else(|| table.missing(key, "a share"));
    admission.admit(contract).map(|()| contract).or_else(|refusal| match refusal {
        Refusal::OverReserved { left, .. } => Err(at(reserve, "reserve")?
            .refuse(format_args!("at most {left} (what is left of disk \"{}\")", disk.name))),
        Refusal::LimitUnderReserve { reserve, .. } => Err(at(limit, "limit")?
            .refuse(format_args!("at least {reserve} (the reserve of the volume)"))),
        Refusal::LimitOfNothing => {
            Err(at(limit, "limit")?.refuse("a share above 0%: nothing lets no request through"))
        }
    })
}
