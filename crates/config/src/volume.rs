//! `[[volume]]` tables: each takes of its disk's space and time what those before it left.

use engine::{Admission, Contract, PolicyName, Priority, Refusal};
use units::{Bytes, SECTOR_BYTES, Share};

use crate::error::ConfigError;
use crate::names::Names;
use crate::plan::{Disk, DiskIndex, Volume, VolumeIndex};
use crate::table::{Table, Value, size};

pub(crate) const KEYS: &[&str] =
    &["name", "disk", "size", "reserve", "limit", "priority", "same_as"];

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
        let same_as = same_as(table, DiskIndex(disk), &volumes)?;
        let size = match same_as {
            Some(VolumeIndex(other)) => volumes[other].size,
            None => space(table, &disks[disk], &mut left[disk].taken)?,
        };
        let contract = contract(table, &disks[disk], &mut left[disk].admission)?;
        volumes.push(Volume {
            name,
            disk: DiskIndex(disk),
            size,
            contract,
            same_as,
            priority: priority(table, contract, &disks[disk], &mut left[disk].admission)?,
            line: table.line(),
        });
    }
    Ok(volumes)
}

/// The volume above it to which it is a second door.
fn same_as(
    table: &Table<'_>,
    disk: DiskIndex,
    above: &[Volume],
) -> Result<Option<VolumeIndex>, ConfigError> {
    let Some(value) = table.value("same_as") else { return Ok(None) };
    let expected = "the name of a volume above it, on the same disk, that is no second door itself";
    let name = value.text(expected)?;
    let fits =
        |volume: &Volume| volume.name == name && volume.disk == disk && volume.same_as.is_none();
    let other = above.iter().position(fits).ok_or_else(|| value.refuse(expected))?;
    match table.value("size") {
        Some(size) => Err(size.refuse("no size: it is that of the volume it is the same as")),
        None => Ok(Some(VolumeIndex(other))),
    }
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

/// The volume's class. One that goes before everybody can take its limit out of the others' time: beside reserves it is
/// admitted with that.
fn priority(
    table: &Table<'_>,
    contract: Contract,
    disk: &Disk,
    admission: &mut Admission,
) -> Result<Priority, ConfigError> {
    const EXPECTED: &str = "\"normal\" or \"high\"";
    let Some(value) = table.value("priority") else { return Ok(Priority::Normal) };
    match value.text(EXPECTED)? {
        "normal" => return Ok(Priority::Normal),
        "high" => {}
        _ => return Err(value.refuse(EXPECTED)),
    }
    if disk.policy == PolicyName::Fcfs {
        return Ok(Priority::High);
    }
    let beyond = contract.limit.saturating_sub(contract.reserve);
    if admission.admit(Contract::reserve(beyond)).is_ok() {
        return Ok(Priority::High);
    }
    let most = Share::ALL.saturating_sub(admission.reserved()).checked_add(contract.reserve);
    let most = most.unwrap_or(Share::ALL);
    let (key, name) = ("limit", &disk.name);
    let expected = format!(
        "a share of at most {most} (what the reserves of disk \"{name}\" leave: a volume of high priority goes before them \
         up to its limit)"
    );
    Err(table
        .value(key)
        .map_or_else(|| table.missing(key, &expected), |limit| limit.refuse(&expected)))
}
