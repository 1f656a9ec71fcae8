//! `[[volume]]` tables: each takes of its disk's space and time what those before it left.
//!
//! A volume lies where its `at` says; one without lies in the first gap between those that have one. With none that has
//! one they lie one behind the other, in the file's order.

use engine::limits::WEIGHT_MAX;
use engine::{Admission, Contract, PolicyName, Priority, Refusal, Weight};
use units::{Extent, Lba, Share};
use volume::{DiskId, NoSpace, Placed, Pool};

use crate::error::ConfigError;
use crate::names::Names;
use crate::plan::{Disk, DiskIndex, Volume, VolumeIndex};
use crate::table::{Table, Value, size};

pub(crate) const KEYS: &[&str] =
    &["name", "disk", "size", "at", "reserve", "limit", "weight", "priority", "same_as"];

const SIZE: &str = "a size such as 4KiB, 1MB or 20GiB";

/// What is wanted of it, before it is known whether it can be had.
struct Wanted<'a> {
    table: &'a Table<'a>,
    name: String,
    disk: usize,
    place: Option<Extent>,
    same_as: Option<VolumeIndex>,
}

/// Checks the tables, in the file's order.
pub(crate) fn check(tables: &[Table<'_>], disks: &[Disk]) -> Result<Vec<Volume>, ConfigError> {
    let disk_names = Names::of(disks.iter().map(|disk| (disk.name.as_str(), disk.line)));
    let mut names = Names::default();
    let mut pool = Pool::new(disks.iter().map(|disk| disk.drive.model.capacity()));
    let mut wanted = Vec::with_capacity(tables.len());
    for table in tables {
        let name = names.add(table)?.to_owned();
        let disk = disk_names.find(&table.require("disk", "the name of a disk")?, "disk")?;
        let same_as = same_as(table, disk, &wanted)?;
        let place = match same_as {
            Some(_) => None,
            None => claimed(table, &disks[disk], (id(disk), &mut pool))?,
        };
        wanted.push(Wanted { table, name, disk, place, same_as });
    }
    let mut admissions = vec![Admission::default(); disks.len()];
    let mut volumes: Vec<Volume> = Vec::with_capacity(tables.len());
    for Wanted { table, name, disk, place, same_as } in wanted {
        let place = match (place, same_as) {
            (_, Some(VolumeIndex(other))) => volumes[other].place,
            (Some(place), None) => place,
            (None, None) => allocated(table, &disks[disk], (id(disk), &mut pool))?,
        };
        let contract = contract(table, &disks[disk], &mut admissions[disk])?;
        let priority = priority(table, contract, &disks[disk], &mut admissions[disk])?;
        let (disk, size, line) = (DiskIndex(disk), place.len.bytes(), table.line());
        volumes.push(Volume { name, disk, size, place, contract, same_as, priority, line });
    }
    Ok(volumes)
}

/// The volume above it to which it is a second door.
fn same_as(
    table: &Table<'_>,
    disk: usize,
    above: &[Wanted<'_>],
) -> Result<Option<VolumeIndex>, ConfigError> {
    let Some(value) = table.value("same_as") else { return Ok(None) };
    let expected = "the name of a volume above it, on the same disk, that is no second door itself";
    let name = value.text(expected)?;
    let fits =
        |other: &Wanted<'_>| other.name == name && other.disk == disk && other.same_as.is_none();
    let other = above.iter().position(fits).ok_or_else(|| value.refuse(expected))?;
    for key in ["size", "at"] {
        if let Some(value) = table.value(key) {
            let expected = format_args!("no {key}: it is that of the volume it is the same as");
            return Err(value.refuse(expected));
        }
    }
    Ok(Some(VolumeIndex(other)))
}

fn id(disk: usize) -> DiskId {
    DiskId(u32::try_from(disk).expect("disks are few"))
}

/// The place that the volume asks for, if it does.
fn claimed(
    table: &Table<'_>,
    disk: &Disk,
    (id, pool): (DiskId, &mut Pool),
) -> Result<Option<Extent>, ConfigError> {
    let Some(at) = table.value("at") else { return Ok(None) };
    let len = table.require("size", SIZE)?.size()?.sectors_floor();
    let start = Lba(at.place()?.sectors_floor().0);
    let fits = start.0.checked_add(len.0).is_some_and(|end| end <= disk.drive.model.capacity().0);
    if !fits {
        let whole = size(disk.drive.model.capacity().bytes());
        let expected =
            format_args!("a place and a size within the {whole} of disk \"{}\"", disk.name);
        return Err(at.refuse(expected));
    }
    let extent = Extent::new(start, len);
    if pool.claim(Placed { disk: id, extent }) {
        return Ok(Some(extent));
    }
    let expected = format_args!("a place on disk \"{}\" that no volume above has", disk.name);
    Err(at.refuse(expected).for_want_of_room())
}

/// A place for the volume, in what the disk has left.
fn allocated(
    table: &Table<'_>,
    disk: &Disk,
    (id, pool): (DiskId, &mut Pool),
) -> Result<Extent, ConfigError> {
    let value = table.require("size", SIZE)?;
    let asked = value.size()?.sectors_floor();
    pool.allocate(id, asked).map(|placed| placed.extent).map_err(|NoSpace { left, gap }| {
        let (largest, name) = (size(gap.bytes()), &disk.name);
        let whole = match left {
            _ if left == disk.drive.model.capacity() => "the size".to_owned(),
            _ if left == gap => "what is left".to_owned(),
            _ => format!("the largest gap in the {} that are left", size(left.bytes())),
        };
        let expected = format_args!("at most {largest} ({whole} of disk \"{name}\")");
        value.refuse(expected).for_want_of_room()
    })
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
        weight: weight(table)?,
    };
    // What is not written is not at fault: a reserve of nothing always fits, no limit is above all.
    let at = |value: Option<_>, key| value.ok_or_else(|| table.missing(key, "a share"));
    admission.admit(contract).map(|()| contract).or_else(|refusal| match refusal {
        Refusal::OverReserved { left, .. } => Err(at(reserve, "reserve")?
            .refuse(format_args!("at most {left} (what is left of disk \"{}\")", disk.name))
            .for_want_of_room()),
        Refusal::LimitUnderReserve { reserve, .. } => Err(at(limit, "limit")?
            .refuse(format_args!("at least {reserve} (the reserve of the volume)"))),
        Refusal::LimitOfNothing => {
            Err(at(limit, "limit")?.refuse("a share above 0%: nothing lets no request through"))
        }
    })
}

fn weight(table: &Table<'_>) -> Result<Weight, ConfigError> {
    let Some(value) = table.value("weight") else { return Ok(Weight::ONE) };
    let weight = value.integer(1..=WEIGHT_MAX.into(), "")?;
    Ok(u32::try_from(weight).ok().and_then(Weight::new).expect("within its range"))
}

impl Volume {
    /// What it may take before everybody else beyond its reserve, for its class.
    pub fn beyond_reserve(&self, disk: &Disk) -> Share {
        beyond_reserve(self.contract, self.priority, disk)
    }
}

fn beyond_reserve(contract: Contract, priority: Priority, disk: &Disk) -> Share {
    // First come, first served promises nobody anything.
    if priority == Priority::Normal || disk.policy == PolicyName::Fcfs {
        return Share::NONE;
    }
    contract.limit.saturating_sub(contract.reserve)
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
    let beyond = beyond_reserve(contract, Priority::High, disk);
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
