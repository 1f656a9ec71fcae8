//! `[[volume]]` tables: each takes of its disk's space and time what those before it left.

use core::num::NonZeroU64;

use engine::{Admission, Contract, Declared, Demand, PolicyName, Refusal};
use units::{Bytes, Duration, SECTOR_BYTES, Share};

use crate::error::ConfigError;
use crate::limits::{BLOCK_MAX, RUN_MAX};
use crate::names::Names;
use crate::plan::{Disk, DiskIndex, Volume};
use crate::table::{Table, Value, size};

pub(crate) const KEYS: &[&str] =
    &["name", "disk", "size", "reserve", "limit", "iops", "bandwidth", "run", "block"];

/// The paper's request.
const BLOCK_DEFAULT: Bytes = Bytes(4_096);

/// What a disk has left for the volumes to come.
struct Left {
    taken: Bytes,
    admission: Admission,
}

/// Checks the tables, in the file's order.
pub(crate) fn check(tables: &[Table<'_>], disks: &[Disk]) -> Result<Vec<Volume>, ConfigError> {
    let disk_names = Names::of(disks.iter().map(|disk| (disk.name.as_str(), disk.line)));
    let mut names = Names::default();
    let left =
        |disk: &Disk| Left { taken: Bytes::ZERO, admission: Admission::keeping(disk.unreserved) };
    let mut left: Vec<Left> = disks.iter().map(left).collect();
    let mut volumes = Vec::new();
    for table in tables {
        let name = names.add(table)?.to_owned();
        let disk = disk_names.find(&table.require("disk", "the name of a disk")?, "disk")?;
        let size = space(table, &disks[disk], &mut left[disk].taken)?;
        let declared = declared(table, &disks[disk])?;
        let contract = contract(table, &disks[disk], declared, &mut left[disk].admission)?;
        volumes.push(Volume {
            name,
            disk: DiskIndex(disk),
            size,
            contract,
            declared,
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

/// What the volume asks for in requests or bytes a second, where it does, and the share that this takes.
fn declared(table: &Table<'_>, disk: &Disk) -> Result<Option<Declared>, ConfigError> {
    let (iops, bandwidth) = (table.value("iops"), table.value("bandwidth"));
    let asked = match (&iops, &bandwidth) {
        (None, None) => {
            let only = ["run", "block"].into_iter().find_map(|key| table.value(key));
            let refused = only.map(|value| value.refuse("no such field, or `iops` or `bandwidth`"));
            return refused.map_or(Ok(None), Err);
        }
        (Some(_), Some(bandwidth)) => return Err(bandwidth.refuse("one of `iops` and `bandwidth`")),
        (Some(asked), None) | (None, Some(asked)) => asked,
    };
    if disk.policy == PolicyName::Throughput {
        return Err(asked.refuse("a `reserve` instead: under \"throughput\" it is a rate itself"));
    }
    if let Some(reserve) = table.value("reserve") {
        return Err(reserve.refuse("no such field: the share is worked out from the rate"));
    }
    let block = table.value("block").map_or(Ok(BLOCK_DEFAULT), |block| block.size())?;
    if block > BLOCK_MAX {
        let expected = format!("a size of at most {}", size(BLOCK_MAX));
        return Err(table.require("block", &expected)?.refuse(&expected));
    }
    let interval = if bandwidth.is_some() { asked.bandwidth(block)? } else { asked.rate()? };
    let run = table.value("run").map_or(Ok(1), |run| run.integer(1..=RUN_MAX, ""))?;
    let run = NonZeroU64::new(run).expect("it is at least one");
    let block = block.sectors_exact().expect("sizes are whole sectors");
    let demand = Demand { interval, run, block };
    let Some(mechanics) = disk.mechanics() else {
        return Err(asked.refuse("a `reserve` instead: this drive has no arm to reckon with"));
    };
    let Some(share) = mechanics.share(demand, disk.batch) else {
        let most = mechanics.interval(Share::ALL, run, block, disk.batch);
        let most = per_second(most.expect("the whole gives something"));
        let expected = format!("at most {most}/s in such runs (all of disk \"{}\")", disk.name);
        return Err(asked.refuse(expected));
    };
    Ok(Some(Declared { demand, share, mechanics, batch: disk.batch }))
}

/// Whole events a second, rounded down.
fn per_second(interval: Duration) -> u64 {
    Duration::from_secs(1).as_nanos() / interval.as_nanos().max(1)
}

/// A share as the disk's policy hands it out: of its time, or of its nominal rate.
fn share(value: &Value<'_>, disk: &Disk) -> Result<Share, ConfigError> {
    if disk.policy != PolicyName::Throughput {
        return value.share();
    }
    let nominal = disk.nominal.interval.as_nanos();
    let interval = value.rate()?.as_nanos();
    // Rates are known to a nanosecond of their interval, so that 34/s of 68/s is not quite a half; millionths, rounded
    // down unless they are whole but for that, add up to no more than the rates.
    let ppb = (u128::from(nominal) * WHOLE + SLIP * u128::from(interval)) / u128::from(interval);
    let millionths = ppb / MILLIONTH * MILLIONTH;
    let whole = u32::try_from(millionths).ok().filter(|ppb| *ppb <= Share::ALL.ppb());
    whole.map(Share::from_ppb).ok_or_else(|| {
        let most = per_second(disk.nominal.interval);
        value.refuse(format_args!("at most {most}/s (the nominal rate of disk \"{}\")", disk.name))
    })
}

const WHOLE: u128 = Share::ALL.ppb() as u128;
const MILLIONTH: u128 = 1_000;
/// In 10⁻⁹: what a nanosecond makes of the shortest interval that disks have.
const SLIP: u128 = 50;

/// The volume's contract, admitted by the disk.
fn contract(
    table: &Table<'_>,
    disk: &Disk,
    declared: Option<Declared>,
    admission: &mut Admission,
) -> Result<Contract, ConfigError> {
    let (reserve, limit) = (table.value("reserve"), table.value("limit"));
    let worked_out = declared.map_or(Share::NONE, |declared| declared.share);
    let contract = Contract {
        reserve: reserve.as_ref().map_or(Ok(worked_out), |value| share(value, disk))?,
        limit: limit.as_ref().map_or(Ok(Share::ALL), |value| share(value, disk))?,
    };
    // What is not written is not at fault: a reserve of nothing always fits, no limit is above all.
    let reserve = reserve.or_else(|| table.value("iops")).or_else(|| table.value("bandwidth"));
    let at = |value: Option<_>, key| value.ok_or_else(|| table.missing(key, "a share"));
    let shown = |share: Share| match disk.policy {
        PolicyName::Throughput => {
            let left = share.time_to_earn(disk.nominal.interval.into());
            left.map_or_else(|| "0/s".to_owned(), |interval| format!("{}/s", per_second(interval)))
        }
        _ => share.to_string(),
    };
    let taken =
        declared.map_or_else(String::new, |declared| format!("; it takes {}", declared.share));
    admission.admit(contract).map(|()| contract).or_else(|refusal| match refusal {
        Refusal::OverReserved { left, .. } => Err(at(reserve, "reserve")?.refuse(format_args!(
            "at most {} (what is left of disk \"{}\"{taken})",
            shown(left),
            disk.name
        ))),
        Refusal::LimitUnderReserve { reserve, .. } => Err(at(limit, "limit")?
            .refuse(format_args!("at least {} (the reserve of the volume)", shown(reserve)))),
        Refusal::LimitOfNothing => {
            Err(at(limit, "limit")?.refuse("a share above 0%: nothing lets no request through"))
        }
    })
}
