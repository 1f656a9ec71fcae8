//! `spindle disk`: the disks of a running daemon.

use api::{
    Disk, DiskAnswer, DiskChange, DiskHealth, DisksAnswer, ReadAhead, WriteBuffer, WriteCacheCost,
    WriteCacheCosts,
};
use clap::{Args, Subcommand};
use console::{ExitStatus, table};
use units::Bytes;

use crate::daemon_api::{ApiSocket, Named, print_answer};

#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// List all disks, with what they have reserved and available.
    Ls(ApiSocket),
    /// Change the period in which a disk keeps its reserves.
    Set(Set),
    /// Reopen a disk that is poisoned by a failed flush, or offline. Data written and not flushed
    /// before may be lost. A disk that the pool has taken out is taken back, and gets what it
    /// missed.
    Reopen(Named),
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    #[command(flatten)]
    disk: Named,
    /// The period, such as 500ms.
    #[arg(long)]
    period: String,
}

pub(crate) fn run(command: &DiskCommand, json: bool) -> anyhow::Result<ExitStatus> {
    match command {
        DiskCommand::Ls(api) => {
            print_answer(api.client().get("disks", None), json, |answer: DisksAnswer| {
                disks(&answer.disks)
            })
        }
        DiskCommand::Set(Set { disk: Named { api, name }, period }) => {
            let change = DiskChange { period: period.clone() };
            let answer = api.client().patch("disks", name, &change);
            print_answer(answer, json, |answer: DiskAnswer| disks(&[answer.disk]))
        }
        DiskCommand::Reopen(Named { api, name }) => {
            let answer = api.client().reopen(name);
            print_answer(answer, json, |answer: DiskAnswer| disks(&[answer.disk]))
        }
    }
}

/// The drive, for a real one the method by which commands reach it, and its speed if it is slowed.
fn drive(disk: &Disk) -> String {
    let through = disk.access.as_ref().map(|access| format!(" ({access})"));
    let slowed = disk.slowed.as_ref().filter(|share| *share != "100%");
    let slowed = slowed.map(|share| format!(", slowed to {share}"));
    let bus = disk.bus.as_ref().map(|bus| format!(", on bus {bus}"));
    let parts = [through, slowed, bus].map(Option::unwrap_or_default);
    format!("{}{}", disk.drive, parts.concat())
}

/// The memory of a read-ahead in use and its bound, the reads that it has answered, and what it has
/// dropped unread.
fn read_ahead(ahead: &ReadAhead) -> String {
    let ReadAhead { memory_bytes, used_bytes, hits, waits, dropped_bytes, .. } = *ahead;
    let (used, memory, dropped) = (Bytes(used_bytes), Bytes(memory_bytes), Bytes(dropped_bytes));
    format!("{used} of {memory}, {} hits, {dropped} dropped", hits + waits)
}

/// The memory of the write buffers in use and its bound, and how many writes waited for it.
fn write_buffer(buffer: &WriteBuffer) -> String {
    let WriteBuffer { memory_bytes, used_bytes, writes, waits, .. } = *buffer;
    let (used, memory) = (Bytes(used_bytes), Bytes(memory_bytes));
    format!("{used} of {memory}, {waits} of {writes} waited")
}

/// Its write buffers, or whose they are, and how writes get past the drive's.
fn writes(disk: &Disk) -> String {
    let host = disk.write_buffer.as_ref().map_or_else(|| "the drive's".to_owned(), write_buffer);
    let cache = disk.write_cache.as_ref().map(|cache| format!("; write cache: {cache}"));
    let costs = disk.write_cache_costs.filter(|_| cache.is_some()).map(|costs| why(&costs));
    format!("{host}{}{}", cache.unwrap_or_default(), costs.unwrap_or_default())
}

/// What each way past the write cache costs, relative to forced writes.
fn why(costs: &WriteCacheCosts) -> String {
    let cost = |(way, cost): (&str, WriteCacheCost)| format!("{way} {:.2}", cost.relative);
    format!(" (cost: {})", costs.ways().map(cost).join(", "))
}

/// The largest number of commands in flight, and why it is that number.
fn depth(disk: &Disk) -> String {
    let source = disk.depth_source.as_ref().map(|source| format!(" ({source})"));
    format!("{}{}", disk.depth, source.unwrap_or_default())
}

/// Which of a volume's requests goes next, and whether predictions are trusted.
fn chooser(disk: &Disk) -> String {
    let name = disk.chooser.as_deref().unwrap_or("-");
    match disk.predictions {
        Some(predictions) if !predictions.trusted => format!("{name} (not trusted: sweep)"),
        _ => name.to_owned(),
    }
}

/// How the arm is moved ahead of transfers, and what a short read brings and costs where the drive
/// has no seek command.
fn seeks_ahead(disk: &Disk) -> String {
    let Some(seeks) = &disk.seeks_ahead else { return "-".to_owned() };
    let by = match seeks.by.as_str() {
        "seek-command" => "by a seek command",
        "short-read" => "by a short read",
        _ => "off",
    };
    let (Some(saved), Some(lost)) = (seeks.waiting_saved, seeks.throughput_lost) else {
        return by.to_owned();
    };
    let trade = format!("{:.1} % of waiting for {:.1} % of throughput", saved * 1e2, lost * 1e2);
    if seeks.by == "off" {
        format!("{by}: a short read would save {trade}")
    } else {
        format!("{by}: saves {trade}")
    }
}

/// The health of a disk, and a command that is in progress for longer than any command should be.
fn state(disk: &Disk) -> String {
    const LONG_MS: f64 = 1_000.0;
    let state = match disk.health() {
        DiskHealth::Healthy => "healthy",
        DiskHealth::Poisoned => "poisoned",
        DiskHealth::Offline => "offline",
    };
    match (disk.oldest_command_ms, &disk.oldest_command) {
        (Some(age), Some(op)) if age > LONG_MS => format!("{state}, {op} for {:.1} s", age / 1e3),
        _ => state.to_owned(),
    }
}

fn disks(disks: &[Disk]) -> String {
    let head = [
        "disk",
        "drive",
        "policy",
        "depth",
        "chooser",
        "seeks ahead",
        "period",
        "volumes",
        "reserved",
        "streams",
        "available",
        "size",
        "free",
        "largest extent",
        "read-ahead",
        "write buffer",
        "state",
    ];
    let row = |disk: &Disk| {
        vec![
            disk.name.clone(),
            drive(disk),
            disk.policy.clone(),
            depth(disk),
            chooser(disk),
            seeks_ahead(disk),
            disk.period.clone(),
            disk.volumes.to_string(),
            disk.reserved.clone(),
            disk.reserved_by_streams.clone().unwrap_or_else(|| "-".to_owned()),
            disk.left.clone(),
            Bytes(disk.capacity_bytes).to_string(),
            Bytes(disk.free_bytes).to_string(),
            Bytes(disk.gap_bytes).to_string(),
            disk.read_ahead.as_ref().map_or_else(|| "off".to_owned(), read_ahead),
            writes(disk),
            state(disk),
        ]
    };
    table::text(&head, &disks.iter().map(row).collect::<Vec<_>>())
}
