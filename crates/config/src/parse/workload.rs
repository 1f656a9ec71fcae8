//! `[[workload]]` tables.

use core::num::{NonZeroU32, NonZeroU64};
use std::collections::BTreeMap;
use std::path::Path;

use units::{Bytes, Duration, Extent, Lba};

use super::names::Names;
use super::replay;
use crate::demand::{Spread, pieces_max};
use crate::keys::THINK;
use crate::limits::{
    BLOCK_MAX, BLOCK_MIN, ELEVATOR_MAX, FLUSH_EVERY_MAX, OUTSTANDING_DISK_MAX, OUTSTANDING_MAX,
    RUN_MAX, TIME_MAX,
};
use crate::plan::{
    Access, Arrival, DiskIndex, LoadedVolume, Mix, PoolAction, PoolChange, PoolChangeIndex,
    PoolPlan, PoolStream, PoolVolume, PoolVolumeIndex, Requests, Synthetic, ThinkTime, Volume,
    VolumeIndex, Workload,
};
use input::{InputError, Table, size_text, time_text};

/// The keys of generated requests, which a trace does not use.
const DRAWN_KEYS: [&str; 11] = [
    "op",
    "read_share",
    "run",
    "block",
    "outstanding",
    "burst",
    "think",
    "rate",
    "arrivals",
    "elevator",
    "flush_every",
];
/// The keys of a trace, which generated requests do not use.
const TRACE_KEYS: [&str; 5] = ["file", "format", "device", "scale", "remap"];
/// The keys that the stream of a volume says.
const PLAYED_KEYS: [&str; 9] = [
    "run",
    "block",
    "outstanding",
    "burst",
    "think",
    "rate",
    "arrivals",
    "elevator",
    "flush_every",
];
const ACCESS_EXPECTED: &str = "\"sequential\", \"random\", \"stream\" or \"trace\"";

/// What workloads can load: volumes of disks, then those of the pool, then snapshots of these.
pub(crate) struct Loaded<'a> {
    names: Names<'a>,
    targets: Vec<Target<'a>>,
}

/// A volume that a workload can load.
struct Target<'a> {
    volume: LoadedVolume,
    name: &'a str,
    size: Bytes,
    /// Its disks.
    disks: Vec<DiskIndex>,
    /// The range, the block and the period of its stream.
    stream: Option<(Extent, Bytes, Duration)>,
}

impl<'a> Loaded<'a> {
    pub(crate) fn of(
        volumes: &'a [Volume],
        pool: Option<&'a PoolPlan>,
        changes: &'a [PoolChange],
    ) -> Self {
        let mut lines = Vec::new();
        let mut targets = Vec::new();
        for (index, volume) in volumes.iter().enumerate() {
            lines.push(volume.line);
            targets.push(Target::of_volume(VolumeIndex(index), volume));
        }
        let of_pool = pool.map_or(&[][..], |pool| &pool.volumes);
        for (index, volume) in of_pool.iter().enumerate() {
            lines.push(volume.line);
            targets.push(Target::of_pool(LoadedVolume::Pool(PoolVolumeIndex(index)), volume));
        }
        for (index, change) in changes.iter().enumerate() {
            let PoolAction::Snapshot { name } = &change.action else { continue };
            lines.push(change.line);
            let snapshot = LoadedVolume::Snapshot(PoolChangeIndex(index));
            let of = Target::of_pool(snapshot, &of_pool[change.volume.0]);
            targets.push(Target { name, stream: None, ..of });
        }
        let names = Names::of(targets.iter().map(|target| target.name).zip(lines));
        Self { names, targets }
    }
}

impl<'a> Target<'a> {
    fn of_volume(index: VolumeIndex, volume: &'a Volume) -> Self {
        let stream = volume.stream.map(|stream| {
            let block = stream.requested.block.sectors_floor().bytes();
            (stream.range, block, stream.promised.task.period())
        });
        let volume_of = LoadedVolume::Single(index);
        let (disks, size) = (vec![volume.disk], volume.size);
        Self { volume: volume_of, name: &volume.name, size, disks, stream }
    }

    fn of_pool(loaded: LoadedVolume, volume: &'a PoolVolume) -> Self {
        let size = volume.size;
        let whole = Extent::new(Lba(0), size.sectors_floor());
        let stream = volume.stream.map(|PoolStream { requested, .. }| {
            let period = u128::from(requested.block.0) * 1_000_000_000;
            let period = period / u128::from(requested.bandwidth.0);
            let period = u64::try_from(period).expect("a period is bounded");
            (whole, requested.block.sectors_floor().bytes(), Duration::from_nanos(period))
        });
        let disks = Spread::of(volume).disks();
        Self { volume: loaded, name: &volume.name, size, disks, stream }
    }

    /// The most commands of one request on one disk.
    fn pieces(&self, block: Bytes) -> u32 {
        match self.volume {
            LoadedVolume::Single(_) => 1,
            LoadedVolume::Pool(_) | LoadedVolume::Snapshot(_) => pieces_max(block),
        }
    }
}

/// Checks the tables, in the file's order.
pub(crate) fn check(
    tables: &[Table<'_>],
    loaded: &Loaded<'_>,
    base_dir: &Path,
) -> Result<Vec<Workload>, InputError> {
    let mut available = BTreeMap::new();
    let mut workloads = Vec::with_capacity(tables.len());
    for table in tables {
        let volume = table.require("volume", "the name of a volume")?;
        let target = &loaded.targets[loaded.names.find(&volume, "volume")?];
        let workload = workload(table, target, base_dir)?;
        for disk in &target.disks {
            let available = available.entry(*disk).or_insert(OUTSTANDING_DISK_MAX);
            bound_disk(table, (&workload, target), available)?;
        }
        workloads.push(workload);
    }
    Ok(workloads)
}

/// Subtracts the workload's requests in flight from the capacity of a disk's engine.
fn bound_disk(
    table: &Table<'_>,
    (workload, target): (&Workload, &Target<'_>),
    available: &mut u32,
) -> Result<(), InputError> {
    let Requests::Synthetic(drawn) = &workload.requests else { return Ok(()) };
    let Some(outstanding) = drawn.arrival.outstanding() else { return Ok(()) };
    let pieces = target.pieces(drawn.block);
    let remaining = available.checked_sub(outstanding * pieces);
    let Some(remaining) = remaining else {
        let most = *available / pieces;
        let expected =
            format!("at most {most} (what is left of {OUTSTANDING_DISK_MAX} on its disk)");
        let key = if table.value("burst").is_some() { "burst" } else { "outstanding" };
        return Err(table.require(key, &expected)?.refuse(&expected));
    };
    *available = remaining;
    Ok(())
}

fn workload(
    table: &Table<'_>,
    target: &Target<'_>,
    base_dir: &Path,
) -> Result<Workload, InputError> {
    let start = table.duration("start", Duration::ZERO..=TIME_MAX, "", Duration::ZERO)?;
    Ok(Workload {
        volume: target.volume,
        requests: requests(table, target, base_dir)?,
        start,
        stop: stop(table, start)?,
        line: table.line(),
    })
}

fn requests(
    table: &Table<'_>,
    target: &Target<'_>,
    base_dir: &Path,
) -> Result<Requests, InputError> {
    let traced = match table.value("access") {
        Some(access) => access.text(ACCESS_EXPECTED)? == "trace",
        None => false,
    };
    let (strange, cure): (&[_], _) = if traced {
        (&DRAWN_KEYS, "no such field: with access = \"trace\" the trace says it")
    } else {
        (&TRACE_KEYS, "no such field, or access = \"trace\"")
    };
    if let Some(value) = strange.iter().find_map(|key| table.value(key)) {
        return Err(value.refuse(cure));
    }
    if traced {
        return replay::check(table, target.size, base_dir).map(Requests::Trace);
    }
    if access_is(table, "stream") {
        return played(table, target).map(Requests::Synthetic);
    }
    let (mix, access) = (mix(table, target)?, access(table)?);
    let (block, arrival) = (block(table, target)?, arrival(table)?);
    let flush_every = flush_every(table, mix, arrival)?;
    Ok(Requests::Synthetic(Synthetic { mix, access, block, arrival, flush_every }))
}

/// The number of writes between two flushes, of a client that waits for each of its answers.
fn flush_every(
    table: &Table<'_>,
    mix: Mix,
    arrival: Arrival,
) -> Result<Option<NonZeroU32>, InputError> {
    let Some(value) = table.value("flush_every") else { return Ok(None) };
    if mix != Mix::Write || !matches!(arrival, Arrival::Closed { outstanding: 1, .. }) {
        return Err(value.refuse("no such field, or op = \"write\" and outstanding = 1"));
    }
    let writes =
        u32::try_from(value.integer(1..=FLUSH_EVERY_MAX.into(), "")?).expect("within its range");
    Ok(NonZeroU32::new(writes))
}

/// Reads or writes the volume's stream: consecutive blocks of its range, one in each period.
fn played(table: &Table<'_>, target: &Target<'_>) -> Result<Synthetic, InputError> {
    const EXPECTED: &str = "another access, or a volume with a `stream`";
    let Some((range, block, interval)) = target.stream else {
        return Err(table.require("access", EXPECTED)?.refuse(EXPECTED));
    };
    for key in PLAYED_KEYS {
        if let Some(value) = table.value(key) {
            return Err(value.refuse("no such field: the stream of the volume says it"));
        }
    }
    Ok(Synthetic {
        mix: mix(table, target)?,
        access: Access::Within { range },
        block,
        arrival: Arrival::Open { interval },
        flush_every: None,
    })
}

fn access_is(table: &Table<'_>, access: &str) -> bool {
    let value = table.value("access");
    value.is_some_and(|value| value.text(ACCESS_EXPECTED).is_ok_and(|text| text == access))
}

fn mix(table: &Table<'_>, target: &Target<'_>) -> Result<Mix, InputError> {
    const EXPECTED: &str = "\"read\", \"write\" or \"mix\"";
    let op = table.require("op", EXPECTED)?;
    let is_snapshot = matches!(target.volume, LoadedVolume::Snapshot(_));
    if is_snapshot && op.text(EXPECTED)? != "read" {
        return Err(op.refuse("\"read\": a snapshot is not written"));
    }
    let read_share = table.value("read_share");
    let mix = match op.text(EXPECTED)? {
        "mix" => {
            let share =
                table.require("read_share", "a share from 0% to 100%, for a mix")?.share()?;
            return Ok(Mix::Mix { read_share: share });
        }
        "read" => Mix::Read,
        "write" => Mix::Write,
        _ => return Err(op.refuse(EXPECTED)),
    };
    match read_share {
        Some(share) => Err(share.refuse("no such field, or op = \"mix\"")),
        None => Ok(mix),
    }
}

fn access(table: &Table<'_>) -> Result<Access, InputError> {
    let access = table.require("access", ACCESS_EXPECTED)?;
    let run = table.value("run");
    if let Some(batch) = table.value("elevator") {
        if access.text(ACCESS_EXPECTED)? != "random" {
            return Err(batch.refuse("no such field, or access = \"random\""));
        }
        let batch = batch.integer(1..=ELEVATOR_MAX, "")?;
        let batch = NonZeroU64::new(batch).expect("at least one");
        return match run {
            None => Ok(Access::Elevator { batch }),
            Some(run) => Err(run.refuse("no such field, or access = \"sequential\"")),
        };
    }
    match (access.text(ACCESS_EXPECTED)?, run) {
        ("sequential", None) => Ok(Access::Sequential { run: None }),
        ("sequential", Some(run)) => {
            Ok(Access::Sequential { run: NonZeroU64::new(run.integer(1..=RUN_MAX, "")?) })
        }
        ("random", None) => Ok(Access::Random),
        ("random", Some(run)) => Err(run.refuse("no such field, or access = \"sequential\"")),
        _ => Err(access.refuse(ACCESS_EXPECTED)),
    }
}

fn block(table: &Table<'_>, target: &Target<'_>) -> Result<Bytes, InputError> {
    let value = table.require("block", "a size such as 4KiB")?;
    let block = value.size()?;
    if block > BLOCK_MAX {
        let (low, high) = (size_text(BLOCK_MIN), size_text(BLOCK_MAX));
        return Err(value.refuse(format_args!("a size from {low} to {high}")));
    }
    if block > target.size {
        let (high, name) = (size_text(target.size), target.name);
        return Err(value.refuse(format_args!("at most {high} (the size of volume \"{name}\")")));
    }
    Ok(block)
}

fn arrival(table: &Table<'_>) -> Result<Arrival, InputError> {
    const EXPECTED: &str = "`outstanding` or `burst` (closed loops) or `rate` (an open loop)";
    const LOOPS: [&str; 3] = ["outstanding", "burst", "rate"];
    let poisson = poisson(table)?;
    let mut given = LOOPS.into_iter().filter_map(|key| Some((key, table.value(key)?)));
    let Some((key, value)) = given.next() else {
        return Err(table.missing("outstanding", EXPECTED));
    };
    if let Some((other, found)) = given.next() {
        let both = format_args!("one of {EXPECTED}, and `{key}` and `{other}` are here");
        return Err(found.refuse(both));
    }
    if key == "rate" {
        if let Some(think) = table.value("think") {
            let cure = "no such field, or `outstanding` or `burst` instead of `rate`";
            return Err(think.refuse(cure));
        }
        let interval = value.rate()?;
        return Ok(if poisson {
            Arrival::Poisson { interval }
        } else {
            Arrival::Open { interval }
        });
    }
    let count = value.integer(1..=OUTSTANDING_MAX.into(), "")?;
    let count = u32::try_from(count).expect("within its range");
    let think = think(table)?;
    Ok(match key {
        "burst" => Arrival::Bursts { size: count, think },
        _ => Arrival::Closed { outstanding: count, think },
    })
}

/// The think time of a closed loop: a time, or a table with the mean of a distribution.
fn think(table: &Table<'_>) -> Result<ThinkTime, InputError> {
    let Some(value) = table.value("think") else { return Ok(ThinkTime::NONE) };
    if value.is_table() {
        let fields = value.table(&THINK)?;
        let mean = fields.require("exponential", "the mean, a time such as 1ms")?;
        let mean = mean.duration(Duration::from_nanos(1)..=TIME_MAX, "")?;
        return Ok(ThinkTime::Exponential { mean });
    }
    let note = ", or { exponential = the mean }";
    value.duration(Duration::ZERO..=TIME_MAX, note).map(ThinkTime::Fixed)
}

/// Whether the arrivals of an open loop are independent.
fn poisson(table: &Table<'_>) -> Result<bool, InputError> {
    const EXPECTED: &str = "\"constant\" or \"poisson\"";
    let Some(arrivals) = table.value("arrivals") else { return Ok(false) };
    if table.value("rate").is_none() {
        return Err(arrivals.refuse("no such field, or a `rate`"));
    }
    match arrivals.text(EXPECTED)? {
        "constant" => Ok(false),
        "poisson" => Ok(true),
        _ => Err(arrivals.refuse(EXPECTED)),
    }
}

fn stop(table: &Table<'_>, start: Duration) -> Result<Option<Duration>, InputError> {
    let Some(value) = table.value("stop") else { return Ok(None) };
    let stop = value.duration(Duration::from_nanos(1)..=TIME_MAX, "")?;
    if stop <= start {
        return Err(value.refuse(format_args!("a time after {} (the start)", time_text(start))));
    }
    Ok(Some(stop))
}
