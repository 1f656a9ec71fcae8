//! `stream = { bandwidth = "817KB/s", block = "1MB", range = "0GiB..2GiB", span = ["0s", "2h"] }`
//! on a `[[volume]]`: its task on the disk, and whether any disk could admit it (RTAS 2000 §3.1).
//!
//! A stream is a task with one block in each period of `block ÷ bandwidth`, at the block's
//! worst-case time. A block above the longest command is one job of several commands. Where they
//! are as long as the disk takes them, the worst case of each includes its own positioning; where
//! requests are split into chunks, a block is charged for one, and the task that preempts it for
//! another.

use engine::PolicyName;
use engine::WorstCase;
use engine::limits::STREAM_PERIOD_MAX;
use engine::stream::{RequestedStream, Span};
use input::{InputError, Table, Value, size_text, time_text};
use units::{Bytes, Duration, Extent, Instant, Lba, SECTOR_BYTES, Sectors, Share};

use super::deadlines::unbounded;
use crate::demand::task;
use crate::keys::STREAM;
use crate::limits::{BLOCK_MAX, BLOCK_MIN, TIME_MAX};
use crate::plan::{Disk, Stream};

/// The stream of a volume at `extent`.
pub(crate) fn check(
    table: &Table<'_>,
    disk: &Disk,
    worst: Option<&WorstCase>,
    extent: Extent,
) -> Result<Option<Stream>, InputError> {
    let Some(value) = table.value("stream") else { return Ok(None) };
    let fields = value.table(&STREAM)?;
    let worst = kept(&value, disk, worst)?;
    let requested = requested_stream(table, &fields, disk.policy)?;
    let range = range(&fields, extent.len, requested.block)?;
    let span = span(&fields)?;
    if let Some(order) = fields.value("order") {
        return Err(order.refuse("no order: a volume on one disk has all of its blocks there"));
    }
    if let Some(parts) = fields.value("parts") {
        return Err(parts.refuse("no parts: a volume on one disk has all of its blocks there"));
    }
    if let Some(survive) = fields.value("survive") {
        return Err(survive.refuse("no `survive`: a volume on one disk has one copy of each block"));
    }
    let on_disk = Extent::new(extent.start + Sectors(range.start.0), range.len);
    let Some(task) = task((disk, worst), requested, on_disk) else {
        return Err(too_seldom(&fields, requested));
    };
    let block = Sectors(requested.block.0.div_ceil(SECTOR_BYTES));
    let promised = engine::StreamContract { task, block, range: Some(on_disk) };
    Ok(Some(Stream { requested, range, span, promised }))
}

/// The worst case of the disk's commands, if the disk can keep a stream.
pub(crate) fn kept<'a>(
    value: &Value<'_>,
    disk: &Disk,
    worst: Option<&'a WorstCase>,
) -> Result<&'a WorstCase, InputError> {
    if !disk.policy.keeps_streams() {
        return Err(knows_no_deadlines(value, disk));
    }
    match (worst, unbounded(disk)) {
        (Some(worst), None) => Ok(worst),
        (_, reason) => {
            let reason = reason.expect("a disk that can keep streams has a worst case");
            Err(value.refuse(format_args!("{reason}, for a stream on disk \"{}\"", disk.name)))
        }
    }
}

/// An error about a stream on a disk whose policy has no deadlines.
pub(crate) fn knows_no_deadlines(value: &Value<'_>, disk: &Disk) -> InputError {
    let known = PolicyName::ALL.into_iter().filter(|policy| policy.keeps_streams());
    let known: Vec<_> = known.map(|policy| format!("\"{policy}\"")).collect();
    let (known, policy, name) = (known.join(", "), disk.policy, &disk.name);
    value.refuse(format_args!(
        "a disk whose policy keeps streams ({known}): disk \"{name}\" has \"{policy}\""
    ))
}

/// An error about a stream whose period is above the longest.
pub(crate) fn too_seldom(fields: &Table<'_>, requested: RequestedStream) -> InputError {
    let least = u128::from(requested.block.0) * 1_000_000_000;
    let least = least.div_ceil(u128::from(STREAM_PERIOD_MAX.as_nanos()));
    let (longest, block) = (time_text(STREAM_PERIOD_MAX), size_text(requested.block));
    let expected = format_args!("at least {least}B/s (a block of {block} every {longest})");
    let bandwidth = fields.value("bandwidth");
    bandwidth.map_or_else(|| fields.missing("bandwidth", expected), |value| value.refuse(expected))
}

/// The bandwidth and the block size of the stream of the volume `table`. Under a policy that serves
/// all contracts by deadline a volume has a stream or a reserve.
pub(crate) fn requested_stream(
    table: &Table<'_>,
    fields: &Table<'_>,
    policy: PolicyName,
) -> Result<RequestedStream, InputError> {
    for key in ["reserve", "iops", "bandwidth"] {
        let is_none = |value: &Value<'_>| {
            value.text("").is_ok_and(|text| text.parse().is_ok_and(Share::is_none))
        };
        let given = table.value(key).filter(|value| !is_none(value));
        if let Some(value) = given.filter(|_| policy.has_deadlines()) {
            return Err(value.refuse(format_args!(
                "no {key} beside a stream under policy \"{policy}\": policy \"spindle\" keeps both"
            )));
        }
    }
    let bandwidth = fields.require("bandwidth", "bytes a second such as 817KB/s")?;
    Ok(RequestedStream { bandwidth: bandwidth.bytes_per_second()?, block: block(fields)? })
}

/// A block need not be whole sectors: its time is that of all sectors that it touches.
fn block(fields: &Table<'_>) -> Result<Bytes, InputError> {
    let value = fields.require("block", "a size such as 1MB")?;
    let block: Bytes = value.quantity("a size such as 256KiB or 1MB")?;
    if !(BLOCK_MIN..=BLOCK_MAX).contains(&block) {
        let (low, high) = (size_text(BLOCK_MIN), size_text(BLOCK_MAX));
        return Err(value.refuse(format_args!("a size from {low} to {high} (the largest request)")));
    }
    Ok(block)
}

/// `START..END`, counted from the volume's beginning; by default the whole volume.
fn range(fields: &Table<'_>, volume: Sectors, block: Bytes) -> Result<Extent, InputError> {
    const EXPECTED: &str = "two locations on the volume such as 0GiB..2GiB";
    let whole = Extent::new(Lba(0), volume);
    let Some(value) = fields.value("range") else {
        return fits(whole, block).ok_or_else(|| {
            let most = size_text(volume.bytes());
            refuse_block(fields, format_args!("at most {most} (the size of the volume)"))
        });
    };
    let (start, end) =
        value.text(EXPECTED)?.split_once("..").ok_or_else(|| value.refuse(EXPECTED))?;
    let location = |text: &str| text.trim().parse::<Bytes>().map_err(|_| value.refuse(EXPECTED));
    let (start, end) = (location(start)?, location(end)?);
    let (Some(first), Some(behind)) = (start.sectors_exact(), end.sectors_exact()) else {
        return Err(value.refuse(format_args!("multiples of {SECTOR_BYTES} bytes")));
    };
    if behind > volume {
        let most = size_text(volume.bytes());
        return Err(value
            .refuse(format_args!("a range that ends at {most} at most (the size of the volume)")));
    }
    if first >= behind {
        return Err(value.refuse("a range whose end lies behind its start"));
    }
    let range = Extent::new(Lba(first.0), Sectors(behind.0 - first.0));
    fits(range, block).ok_or_else(|| {
        value.refuse(format_args!("a range of at least {} (one block)", size_text(block)))
    })
}

fn fits(range: Extent, block: Bytes) -> Option<Extent> {
    Some(range).filter(|range| block.0.div_ceil(SECTOR_BYTES) <= range.len.0)
}

pub(crate) fn refuse_block(fields: &Table<'_>, expected: impl core::fmt::Display) -> InputError {
    let block: Option<Value<'_>> = fields.value("block");
    block.map_or_else(|| fields.missing("block", &expected), |value| value.refuse(&expected))
}

/// The start and the end, counted from the start of the run or of the daemon; by default always.
pub(crate) fn span(fields: &Table<'_>) -> Result<Span, InputError> {
    const EXPECTED: &str = "a start and an end such as [\"0s\", \"2h\"]";
    let Some(value) = fields.value("span") else { return Ok(Span::ALWAYS) };
    let times = value.texts(2, "a time such as \"2h\"")?;
    let [(start, _), (end, _)] = times.as_slice() else { return Err(value.refuse(EXPECTED)) };
    let start = start.duration(Duration::ZERO..=TIME_MAX, "")?;
    let end_at = end.duration(Duration::ZERO..=TIME_MAX, "")?;
    if end_at <= start {
        return Err(end.refuse(format_args!("a time after {} (its start)", time_text(start))));
    }
    Ok(Span { start: Instant::ZERO + start, end: Instant::ZERO + end_at })
}
