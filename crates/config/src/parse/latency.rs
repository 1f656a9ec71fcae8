//! `latency = { within = "80ms", requests = "20/s", burst = 4, size = "64KiB" }` on a `[[volume]]`
//! or a `[[pool.volume]]`: reads and writes within the rate are answered within the time.
//!
//! It is a task whose deadline is not its period. Whether it fits beside the other contracts of the
//! disk is checked once all of them are known.

use engine::limits::{LATENCY_MAX, LATENCY_MIN, STREAM_PERIOD_MAX, TASK_BURST_MAX};
use engine::stream::RequestedLatency;
use engine::{Feature, LatencyContract};
use input::{InputError, Table, Value, size_text, time_text};
use units::{Bytes, Extent, Share};

use super::deadlines::unbounded;
use super::unkept;
use crate::demand::{Spread, latency_on_pool_disk, latency_task};
use crate::keys::LATENCY;
use crate::limits::BLOCK_MAX;
use crate::plan::{Disk, DiskIndex, PoolVolume};

/// The bounded latency of a volume at `extent`.
pub(crate) fn check(
    table: &Table<'_>,
    disk: &Disk,
    extent: Extent,
) -> Result<Option<LatencyContract>, InputError> {
    let Some(value) = table.value("latency") else { return Ok(None) };
    let requested = requested(table, &value, extent.len.bytes(), [disk])?;
    let worst = disk.worst_command().expect("it was checked");
    let task = latency_task((disk, &worst), requested, extent).ok_or_else(|| too_long(&value))?;
    Ok(Some(LatencyContract { task, size: requested.size }))
}

/// The bounded latency that a pool's volume requests; its admission on the disks is checked
/// elsewhere.
pub(crate) fn check_pool(
    table: &Table<'_>,
    disks: &[Disk],
    volume: &PoolVolume,
) -> Result<Option<RequestedLatency>, InputError> {
    let Some(value) = table.value("latency") else { return Ok(None) };
    if let Some(thin) = table.value("thin").filter(|_| volume.thin) {
        return Err(thin.refuse("false beside a latency: it keeps no time for placing blocks"));
    }
    let on = Spread::of(volume).disks();
    let on = on.iter().map(|index| &disks[index.0]);
    requested(table, &value, volume.size, on).map(Some)
}

/// The bounded latency of the pieces of a pool volume's requests on one of its disks.
pub(crate) fn part(
    table: &Table<'_>,
    (disk, index): (&Disk, DiskIndex),
    volume: &PoolVolume,
) -> Result<Option<LatencyContract>, InputError> {
    let Some((requested, value)) = volume.latency.zip(table.value("latency")) else {
        return Ok(None);
    };
    let worst = disk.worst_command().expect("it was checked");
    let part = latency_on_pool_disk((disk, index, &worst), requested, &Spread::of(volume));
    part.map(Some).ok_or_else(|| too_long(&value))
}

fn requested<'a>(
    table: &Table<'_>,
    value: &Value<'_>,
    volume: Bytes,
    disks: impl IntoIterator<Item = &'a Disk>,
) -> Result<RequestedLatency, InputError> {
    for disk in disks {
        bounded(value, disk)?;
    }
    // A limit of the whole is none.
    let is_limit = |limit: &Value<'_>| limit.share() != Ok(Share::ALL);
    let stream = table.value("stream").map(|stream| ("stream", stream));
    let limit = table.value("limit").filter(is_limit).map(|limit| ("limit", limit));
    if let Some((key, other)) = stream.or(limit) {
        return Err(other.refuse(format_args!("no {key} beside a latency")));
    }
    let fields = value.table(&LATENCY)?;
    let within = fields.require("within", "a time such as 80ms")?;
    let within = within.duration(LATENCY_MIN..=LATENCY_MAX, "")?;
    let rate = fields.require("requests", "a rate such as 20/s")?;
    let interval = rate.rate()?;
    if interval > STREAM_PERIOD_MAX {
        let longest = time_text(STREAM_PERIOD_MAX);
        return Err(rate.refuse(format_args!("a rate of at least one in {longest}")));
    }
    let burst = fields.value("burst");
    let burst = burst.map_or(Ok(1), |burst| burst.integer(1..=TASK_BURST_MAX.into(), ""))?;
    let burst = u32::try_from(burst).expect("within its range");
    Ok(RequestedLatency { within, interval, burst, size: size(&fields, volume)? })
}

fn size(fields: &Table<'_>, volume: Bytes) -> Result<units::Sectors, InputError> {
    let value = fields.require("size", "a size such as 64KiB")?;
    let size = value.size()?;
    let most = BLOCK_MAX.min(volume);
    if size > most {
        let name = if most == BLOCK_MAX { "the largest request" } else { "the size of the volume" };
        return Err(value.refuse(format_args!("at most {} ({name})", size_text(most))));
    }
    Ok(size.sectors_floor())
}

/// Rejects a disk whose policy keeps no latency, or whose commands have no worst case.
fn bounded(value: &Value<'_>, disk: &Disk) -> Result<(), InputError> {
    let name = &disk.name;
    if !disk.policy.keeps(Feature::Latency) {
        return Err(value.refuse(unkept::expected("latency", Feature::Latency, disk)));
    }
    match unbounded(disk) {
        Some(reason) => Err(value.refuse(format_args!("{reason}, for a latency on \"{name}\""))),
        None => Ok(()),
    }
}

fn too_long(value: &Value<'_>) -> InputError {
    let longest = time_text(STREAM_PERIOD_MAX);
    value.refuse(format_args!("a burst that takes at most {longest} of disk time"))
}
