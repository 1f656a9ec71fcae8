//! `stream = { bandwidth = "817KB/s", block = "1MB", range = "0GiB..2GiB", span = ["0s", "2h"] }` on a `[[volume]]`: what it
//! asks of its disk, and whether that can be had (RTAS 2000 §3.1).
//!
//! A stream is a task: a block every `block ÷ bandwidth`, each of which takes at most its worst case. A block above what one
//! command moves is one job of several commands, and each of them is charged with a way of its own, so that whoever goes in
//! between costs it nothing that is not paid for.

use drive_profile::{Profile, TransferKind};
use engine::limits::{COMMAND_MAX, STREAM_PERIOD_MAX};
use engine::stream::{RequestedStream, Span, Task};
use engine::{Execution, PolicyName};
use units::{Bytes, DiskTime, Duration, Extent, Instant, Lba, SECTOR_BYTES, Sectors};

use crate::error::ConfigError;
use crate::limits::{BLOCK_MAX, BLOCK_MIN, TIME_MAX};
use crate::plan::{Disk, Volume};
use crate::table::{Table, Value, size, time};

const KEYS: &[&str] = &["bandwidth", "block", "range", "span"];

/// What is promised to a stream, as the config says it, and what that asks of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Bytes a second, and bytes a request.
    pub asked: RequestedStream,
    /// The sectors of the volume that it may ask for in time.
    pub range: Extent,
    /// When, from the start of the run or of the daemon.
    pub span: Span,
    /// What that asks of the disk.
    pub promised: engine::StreamContract,
}

/// The time of a block on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCost {
    /// All of its commands, in the worst case.
    pub whole: DiskTime,
    /// The longest of them.
    pub longest: DiskTime,
}

impl Disk {
    /// The worst case of a block of so many bytes, read or written anywhere inside `range` of this disk, in the commands that
    /// requests are cut up into. Each pays a way of its own.
    pub fn block_cost(&self, profile: &Profile, range: Extent, block: Bytes) -> BlockCost {
        let sectors = Sectors(block.0.div_ceil(SECTOR_BYTES).min(range.len.0));
        // Forced writes are not cut into chunks.
        let (read, write) = match self.execution {
            Execution::Whole { split } => {
                let most = split.unwrap_or(COMMAND_MAX);
                (most, most)
            }
            Execution::Preemptible(how) => (how.chunk.unwrap_or(COMMAND_MAX), COMMAND_MAX),
        };
        let cost = |most: Sectors, transfer| {
            let command = |len| DiskTime::from(profile.worst_case(range, len, transfer));
            let (full, rest) = (sectors.0 / most.0, Sectors(sectors.0 % most.0));
            let longest = command(most.min(sectors));
            let rest = if rest.0 > 0 { command(rest) } else { DiskTime::ZERO };
            let full = i64::try_from(full).expect("a block is short");
            (DiskTime::from_nanos(longest.as_nanos() * full) + rest, longest)
        };
        let (reads, writes) = (cost(read, TransferKind::Read), cost(write, TransferKind::Write));
        BlockCost { whole: reads.0.max(writes.0), longest: reads.1.max(writes.1) }
    }

    /// The profile that deadlines are reckoned with; nothing for a drive without an arm. On top of what the drive takes of each
    /// command comes `host_lateness`: a host sees a completion late, and sends the next command late.
    pub fn profile(&self) -> Option<Profile> {
        let mut profile = self.known(self.drive.model.mechanical()?);
        profile.extremes.command += self.host_lateness;
        Some(profile)
    }
}

/// What a stream asks of a disk; nothing for one that it cannot have at all.
pub(crate) fn task(
    (disk, profile): (&Disk, &Profile),
    asked: RequestedStream,
    range: Extent,
) -> Option<Task> {
    if asked.block < BLOCK_MIN || asked.block.sectors_floor() > range.len || asked.bandwidth.0 == 0
    {
        return None;
    }
    let period = u128::from(asked.block.0) * 1_000_000_000 / u128::from(asked.bandwidth.0);
    let period = Duration::from_nanos(u64::try_from(period).ok()?);
    let cost = disk.block_cost(profile, range, asked.block);
    Task::new(period, cost.whole, cost.longest).ok()
}

/// The stream of a volume that lies at `place`.
pub(crate) fn check(
    table: &Table<'_>,
    disk: &Disk,
    profile: Option<&Profile>,
    place: Extent,
) -> Result<Option<Stream>, ConfigError> {
    let Some(value) = table.value("stream") else { return Ok(None) };
    let fields = value.table(KEYS)?;
    let profile = profile.ok_or_else(|| knows_no_deadlines(&value, disk))?;
    let asked = asked(table, &fields)?;
    let range = range(&fields, place.len, asked.block)?;
    let span = span(&fields)?;
    let on_disk = Extent::new(place.start + Sectors(range.start.0), range.len);
    let Some(task) = task((disk, profile), asked, on_disk) else {
        return Err(too_seldom(&fields, asked));
    };
    let block = Sectors(asked.block.0.div_ceil(SECTOR_BYTES));
    let promised = engine::StreamContract { task, block, range: Some(on_disk) };
    Ok(Some(Stream { asked, range, span, promised }))
}

/// An error about a stream on a disk whose policy knows none.
pub(crate) fn knows_no_deadlines(value: &Value<'_>, disk: &Disk) -> ConfigError {
    let known = PolicyName::ALL.into_iter().filter(|policy| policy.has_deadlines());
    let known: Vec<_> = known.map(|policy| format!("\"{policy}\"")).collect();
    let (known, policy, name) = (known.join(", "), disk.policy, &disk.name);
    value.refuse(format_args!(
        "a disk whose policy serves deadlines ({known}): disk \"{name}\" has \"{policy}\""
    ))
}

/// An error about a stream whose blocks come more seldom than any may.
pub(crate) fn too_seldom(fields: &Table<'_>, asked: RequestedStream) -> ConfigError {
    let least = u128::from(asked.block.0) * 1_000_000_000;
    let least = least.div_ceil(u128::from(STREAM_PERIOD_MAX.as_nanos()));
    let (longest, block) = (time(STREAM_PERIOD_MAX), size(asked.block));
    let expected = format_args!("at least {least}B/s (a block of {block} every {longest})");
    let bandwidth = fields.value("bandwidth");
    bandwidth.map_or_else(|| fields.missing("bandwidth", expected), |value| value.refuse(expected))
}

/// The bandwidth and the block of the stream of the volume `table`.
pub(crate) fn asked(table: &Table<'_>, fields: &Table<'_>) -> Result<RequestedStream, ConfigError> {
    for key in ["reserve", "iops", "bandwidth"] {
        if let Some(value) = table.value(key) {
            return Err(value.refuse(format_args!(
                "no {key} beside a stream: the time of its blocks is kept for it"
            )));
        }
    }
    let bandwidth = fields.require("bandwidth", "bytes a second such as 817KB/s")?;
    Ok(RequestedStream { bandwidth: bandwidth.bytes_per_second()?, block: block(fields)? })
}

/// A block need not be whole sectors: its time is that of all that it touches.
fn block(fields: &Table<'_>) -> Result<Bytes, ConfigError> {
    let value = fields.require("block", "a size such as 1MB")?;
    let block: Bytes = value.quantity("a size such as 256KiB or 1MB")?;
    if !(BLOCK_MIN..=BLOCK_MAX).contains(&block) {
        let (low, high) = (size(BLOCK_MIN), size(BLOCK_MAX));
        return Err(value.refuse(format_args!("a size from {low} to {high} (the largest request)")));
    }
    Ok(block)
}

/// `START..END`, counted from the volume's beginning; all of the volume if it is not said.
fn range(fields: &Table<'_>, volume: Sectors, block: Bytes) -> Result<Extent, ConfigError> {
    const EXPECTED: &str = "two places on the volume such as 0GiB..2GiB";
    let whole = Extent::new(Lba(0), volume);
    let Some(value) = fields.value("range") else {
        return fits(whole, block).ok_or_else(|| {
            let most = size(volume.bytes());
            refuse_block(fields, format_args!("at most {most} (the size of the volume)"))
        });
    };
    let (start, end) =
        value.text(EXPECTED)?.split_once("..").ok_or_else(|| value.refuse(EXPECTED))?;
    let place = |text: &str| text.trim().parse::<Bytes>().map_err(|_| value.refuse(EXPECTED));
    let (start, end) = (place(start)?, place(end)?);
    let (Some(first), Some(behind)) = (start.sectors_exact(), end.sectors_exact()) else {
        return Err(value.refuse(format_args!("multiples of {SECTOR_BYTES} bytes")));
    };
    if behind > volume {
        let most = size(volume.bytes());
        return Err(value
            .refuse(format_args!("a range that ends at {most} at most (the size of the volume)")));
    }
    if first >= behind {
        return Err(value.refuse("a range whose end lies behind its start"));
    }
    let range = Extent::new(Lba(first.0), Sectors(behind.0 - first.0));
    fits(range, block).ok_or_else(|| {
        value.refuse(format_args!("a range of at least {} (one block)", size(block)))
    })
}

fn fits(range: Extent, block: Bytes) -> Option<Extent> {
    Some(range).filter(|range| block.0.div_ceil(SECTOR_BYTES) <= range.len.0)
}

pub(crate) fn refuse_block(fields: &Table<'_>, expected: impl core::fmt::Display) -> ConfigError {
    let block: Option<Value<'_>> = fields.value("block");
    block.map_or_else(|| fields.missing("block", &expected), |value| value.refuse(&expected))
}

/// From when to when, counted from the start of the run or of the daemon; always if it is not said.
pub(crate) fn span(fields: &Table<'_>) -> Result<Span, ConfigError> {
    const EXPECTED: &str = "a start and an end such as [\"0s\", \"2h\"]";
    let Some(value) = fields.value("span") else { return Ok(Span::ALWAYS) };
    let times = value.texts(2, "a time such as \"2h\"")?;
    let [(start, _), (end, _)] = times.as_slice() else { return Err(value.refuse(EXPECTED)) };
    let start = start.duration(Duration::ZERO..=TIME_MAX, "")?;
    let end_at = end.duration(Duration::ZERO..=TIME_MAX, "")?;
    if end_at <= start {
        return Err(end.refuse(format_args!("a time after {} (its start)", time(start))));
    }
    Ok(Span { start: Instant::ZERO + start, end: Instant::ZERO + end_at })
}

impl Volume {
    /// When its contract's stream holds; always if it has none.
    pub fn span(&self) -> Span {
        self.stream.map_or(Span::ALWAYS, |stream| stream.span)
    }
}
