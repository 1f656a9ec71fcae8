//! `[[volume]]` tables: each takes space and time that the volumes above it leave free on its disk.
//!
//! A volume with `at` is placed there; a volume without it is placed in the first gap between those
//! that have one. If none has `at`, the volumes are contiguous, in the file's order.

use core::num::NonZeroU64;

use engine::limits::WEIGHT_MAX;
use engine::{Admission, Contract, Priority, RateContract, RateRequirement, Refusal, Weight};
use units::{Duration, Extent, Lba, Share};
use volume::{DiskExtent, DiskId, FreeSpace, NoSpace};

use super::labels::labels;
use super::names::Names;
use super::{deadlines, latency, stream, unkept, write_buffer};
use crate::defaults;
use crate::demand::{MILLIONTH, SLIP, WHOLE, beyond_reserve};
use crate::limits::{BLOCK_MAX, RUN_MAX};
use crate::plan::{Disk, DiskIndex, Volume, VolumeIndex};
use input::{InputError, Table, Value, size_text};

/// The keys from which a reserve is derived if it is not given.
pub(crate) const RATE_KEYS: [&str; 4] = ["iops", "bandwidth", "run", "block"];

const SIZE: &str = "a size such as 4KiB, 1MB or 20GiB";

/// A volume before it is placed and admitted.
struct UnplacedVolume<'a> {
    table: &'a Table<'a>,
    name: String,
    disk: usize,
    extent: Option<Extent>,
    same_as: Option<VolumeIndex>,
}

/// Checks the tables, in the file's order. Their names are added to `names`; the disks of a pool
/// have no such volumes.
pub(crate) fn check<'a>(
    tables: &'a [Table<'a>],
    disks: &[Disk],
    pooled: &[DiskIndex],
    names: &mut Names<'a>,
) -> Result<Vec<Volume>, InputError> {
    let disk_names = Names::of(disks.iter().map(|disk| (disk.name.as_str(), disk.line)));
    let mut pool = FreeSpace::new(disks.iter().map(|disk| disk.drive.model.capacity()));
    let mut unplaced = Vec::with_capacity(tables.len());
    for table in tables {
        let name = names.add(table)?.to_owned();
        let on = table.require("disk", "the name of a disk")?;
        let disk = disk_names.find(&on, "disk")?;
        if pooled.contains(&DiskIndex(disk)) {
            return Err(on.refuse("a disk that is not the pool's: those have `[[pool.volume]]`s"));
        }
        if disks[disk].spare {
            return Err(on.refuse("a disk that is no spare: one that takes a pool disk's place"));
        }
        let same_as = same_as(table, disk, &unplaced)?;
        let extent = match same_as {
            Some(_) => None,
            None => claim(table, &disks[disk], (id(disk), &mut pool))?,
        };
        unplaced.push(UnplacedVolume { table, name, disk, extent, same_as });
    }
    let bounds = deadlines::bounds(disks);
    let mut admissions: Vec<Admission> =
        disks.iter().map(|disk| Admission::with_headroom(disk.reserve_headroom)).collect();
    let mut volumes: Vec<Volume> = Vec::with_capacity(tables.len());
    for UnplacedVolume { table, name, disk, extent, same_as } in unplaced {
        let extent = match (extent, same_as) {
            (_, Some(VolumeIndex(other))) => volumes[other].extent,
            (Some(extent), None) => extent,
            (None, None) => allocate(table, &disks[disk], (id(disk), &mut pool))?,
        };
        let requested = requested_rate(table, &disks[disk])?;
        let declared = declared(requested, &disks[disk])?;
        unkept::check(table, &disks[disk])?;
        let mut contract = contract(table, &disks[disk], declared, &mut admissions[disk])?;
        let priority = priority(table, contract, &disks[disk], &mut admissions[disk])?;
        let stream = stream::check(table, &disks[disk], bounds[disk].as_ref(), extent)?;
        contract.stream = stream.map(|stream| stream.promised);
        contract.latency = latency::check(table, &disks[disk], extent)?;
        let write_buffer = {
            let unbuffered = same_as.is_some().then_some(write_buffer::SHARED);
            write_buffer::of_volume(table, &disks[disk], unbuffered)?
        };
        let (disk, size, line) = (DiskIndex(disk), extent.len.bytes(), table.line());
        volumes.push(Volume {
            name,
            clients: super::nbd::clients(table)?,
            disk,
            size,
            extent,
            contract,
            declared,
            same_as,
            priority,
            stream,
            write_buffer,
            labels: labels(table)?,
            ublk: ublk(table)?,
            line,
        });
    }
    write_buffer::shared(tables, &mut volumes)?;
    Ok(volumes)
}

/// Whether the volume is a block device of the daemon's machine too.
pub(crate) fn ublk(table: &Table<'_>) -> Result<bool, InputError> {
    table.value("ublk").map_or(Ok(false), |value| value.boolean())
}

/// The volume above it whose sectors it shares.
fn same_as(
    table: &Table<'_>,
    disk: usize,
    above: &[UnplacedVolume<'_>],
) -> Result<Option<VolumeIndex>, InputError> {
    let Some(value) = table.value("same_as") else { return Ok(None) };
    let expected = "the name of a volume above it, on the same disk, that is no second door itself";
    let name = value.text(expected)?;
    let fits = |other: &UnplacedVolume<'_>| {
        other.name == name && other.disk == disk && other.same_as.is_none()
    };
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

/// The extent that the volume requests, if it has `at`.
fn claim(
    table: &Table<'_>,
    disk: &Disk,
    (id, pool): (DiskId, &mut FreeSpace),
) -> Result<Option<Extent>, InputError> {
    let Some(at) = table.value("at") else { return Ok(None) };
    let len = table.require("size", SIZE)?.size()?.sectors_floor();
    let start = Lba(at.location()?.sectors_floor().0);
    let fits = start.0.checked_add(len.0).is_some_and(|end| end <= disk.drive.model.capacity().0);
    if !fits {
        let whole = size_text(disk.drive.model.capacity().bytes());
        let expected =
            format_args!("a location and a size within the {whole} of disk \"{}\"", disk.name);
        return Err(at.refuse(expected));
    }
    let extent = Extent::new(start, len);
    if pool.claim(DiskExtent { disk: id, extent }) {
        return Ok(Some(extent));
    }
    let expected = format_args!("a location on disk \"{}\" that no volume above has", disk.name);
    Err(at.refuse(expected).as_refusal())
}

/// An extent for the volume in the disk's free space.
fn allocate(
    table: &Table<'_>,
    disk: &Disk,
    (id, pool): (DiskId, &mut FreeSpace),
) -> Result<Extent, InputError> {
    let value = table.require("size", SIZE)?;
    let size = value.size()?.sectors_floor();
    pool.allocate(id, size).map(|placed| placed.extent).map_err(
        |NoSpace { free, largest_gap: gap }| {
            let (largest, name) = (size_text(gap.bytes()), &disk.name);
            let whole = match free {
                _ if free == disk.drive.model.capacity() => "the size".to_owned(),
                _ if free == gap => "what is left".to_owned(),
                _ => format!("the largest gap in the {} that are left", size_text(free.bytes())),
            };
            let expected = format_args!("at most {largest} ({whole} of disk \"{name}\")");
            value.refuse(expected).as_refusal()
        },
    )
}

/// The requests or bytes a second that a volume requests, and the value that says so.
pub(crate) type RequestedRate<'a> = Option<(Value<'a>, RateRequirement)>;

/// The rate that the table requests of a disk, if any.
pub(crate) fn requested_rate<'a>(
    table: &'a Table<'_>,
    disk: &Disk,
) -> Result<RequestedRate<'a>, InputError> {
    let (iops, bandwidth) = (table.value("iops"), table.value("bandwidth"));
    let rate = match (&iops, &bandwidth) {
        (None, None) => {
            let only = ["run", "block"].into_iter().find_map(|key| table.value(key));
            let refused = only.map(|value| value.refuse("no such field, or `iops` or `bandwidth`"));
            return refused.map_or(Ok(None), Err);
        }
        (Some(_), Some(bandwidth)) => return Err(bandwidth.refuse("one of `iops` and `bandwidth`")),
        (Some(rate), None) | (None, Some(rate)) => rate,
    };
    if disk.policy.has_nominal_rate() {
        return Err(rate.refuse("a `reserve` instead: under \"throughput\" it is a rate itself"));
    }
    if let Some(reserve) = table.value("reserve") {
        return Err(reserve.refuse("no such field: the share is worked out from the rate"));
    }
    let block = table.value("block").map_or(Ok(defaults::BLOCK), |block| block.size())?;
    if block > BLOCK_MAX {
        let expected = format!("a size of at most {}", size_text(BLOCK_MAX));
        return Err(table.require("block", &expected)?.refuse(&expected));
    }
    let interval = if bandwidth.is_some() { rate.bandwidth(block)? } else { rate.rate()? };
    let run = table.value("run");
    if let Some(run) = run.as_ref().filter(|_| disk.mechanics().is_none()) {
        return Err(run.refuse("no such field: the drive has no arm, and a run saves it nothing"));
    }
    let run = run.map_or(Ok(1), |run| run.integer(1..=RUN_MAX, ""))?;
    let run = NonZeroU64::new(run).expect("it is at least one");
    let block = block.sectors_exact().expect("sizes are whole sectors");
    let rate = iops.or(bandwidth).expect("one of the two was found");
    Ok(Some((rate, RateRequirement { interval, run, block })))
}

/// The share of a disk that gives the requested rate.
pub(crate) fn declared(
    requested: RequestedRate<'_>,
    disk: &Disk,
) -> Result<Option<RateContract>, InputError> {
    let Some((rate, demand)) = requested else { return Ok(None) };
    let RateRequirement { run, block, .. } = demand;
    let Some(mechanics) = disk.mechanics().or_else(|| disk.declared_mechanics()) else {
        return Err(rate.refuse(format_args!(
            "a `reserve` instead, or the `worst_case` of disk \"{}\": its drive has no arm to \
             reckon with",
            disk.name
        )));
    };
    let Some(share) = mechanics.share(demand, disk.batch) else {
        let most = mechanics.interval(Share::ALL, run, block, disk.batch);
        let most = per_second(most.expect("the whole gives something"));
        let expected = format!("at most {most}/s in such runs (all of disk \"{}\")", disk.name);
        return Err(rate.refuse(expected));
    };
    Ok(Some(RateContract { requirement: demand, share, mechanics, batch: disk.batch }))
}

/// Whole events a second, rounded down.
fn per_second(interval: Duration) -> u64 {
    Duration::from_secs(1).as_nanos() / interval.as_nanos().max(1)
}

/// A share in the disk's contract unit: of its time, or of its nominal rate.
fn share(value: &Value<'_>, disk: &Disk) -> Result<Share, InputError> {
    if !disk.policy.has_nominal_rate() {
        return value.share();
    }
    let nominal = disk.nominal.interval.as_nanos();
    let interval = value.rate()?.as_nanos();
    // A rate is stored as an interval in nanoseconds, so that 34/s of 68/s is not exactly a half.
    // Millionths, rounded down unless they are whole except for that error, add up to at most the
    // rates.
    let ppb = (u128::from(nominal) * WHOLE + SLIP * u128::from(interval)) / u128::from(interval);
    let millionths = ppb / MILLIONTH * MILLIONTH;
    let whole = u32::try_from(millionths).ok().filter(|ppb| *ppb <= Share::ALL.ppb());
    whole.map(Share::from_ppb).ok_or_else(|| {
        let most = per_second(disk.nominal.interval);
        value.refuse(format_args!("at most {most}/s (the nominal rate of disk \"{}\")", disk.name))
    })
}

/// The volume's contract, admitted by the disk.
pub(crate) fn contract(
    table: &Table<'_>,
    disk: &Disk,
    declared: Option<RateContract>,
    admission: &mut Admission,
) -> Result<Contract, InputError> {
    let (reserve, limit) = (table.value("reserve"), table.value("limit"));
    let worked_out = declared.map_or(Share::NONE, |declared| declared.share);
    let contract = Contract {
        reserve: reserve.as_ref().map_or(Ok(worked_out), |value| share(value, disk))?,
        limit: limit.as_ref().map_or(Ok(Share::ALL), |value| share(value, disk))?,
        weight: weight(table)?,
        stream: None,
        latency: None,
        is_background: false,
    };
    // A key that is absent cannot be at fault: a reserve of zero always fits, no limit is above
    // all.
    let reserve = reserve.or_else(|| table.value("iops")).or_else(|| table.value("bandwidth"));
    let at = |value: Option<_>, key| value.ok_or_else(|| table.missing(key, "a share"));
    let taken =
        declared.map_or_else(String::new, |declared| format!("; it takes {}", declared.share));
    admission.admit(contract).map(|()| contract).or_else(|refusal| match refusal {
        Refusal::OverReserved { available, .. } => Err(at(reserve, "reserve")?
            .refuse(format_args!(
                "at most {} (what is left of disk \"{}\"{taken})",
                disk.share_text(available),
                disk.name
            ))
            .as_refusal()),
        Refusal::LimitBelowReserve { reserve, .. } => Err(at(limit, "limit")?.refuse(
            format_args!("at least {} (the reserve of the volume)", disk.share_text(reserve)),
        )),
        Refusal::ZeroLimit => {
            Err(at(limit, "limit")?.refuse("a share above 0%: nothing lets no request through"))
        }
        Refusal::Deadlines(violation) => {
            Err(at(reserve, "reserve")?.refuse(format_args!("less: {violation}")))
        }
    })
}

fn weight(table: &Table<'_>) -> Result<Weight, InputError> {
    let Some(value) = table.value("weight") else { return Ok(Weight::ONE) };
    let weight = value.integer(1..=WEIGHT_MAX.into(), "")?;
    Ok(u32::try_from(weight).ok().and_then(Weight::new).expect("within its range"))
}

/// The volume's class. A volume of high priority can take its limit from the others' time, so that
/// beside reserves it is admitted with its limit.
pub(crate) fn priority(
    table: &Table<'_>,
    contract: Contract,
    disk: &Disk,
    admission: &mut Admission,
) -> Result<Priority, InputError> {
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
    let most = admission.available().checked_add(contract.reserve);
    let most = disk.share_text(most.unwrap_or(Share::ALL));
    let (key, name) = ("limit", &disk.name);
    let expected = format!(
        "a share of at most {most} (what the reserves of disk \"{name}\" leave: a volume of high \
         priority goes before them \
         up to its limit)"
    );
    Err(table
        .value(key)
        .map_or_else(|| table.missing(key, &expected), |limit| limit.refuse(&expected)))
}
