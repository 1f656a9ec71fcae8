//! `spindle-lab bench checksums`: the throughput of a volume of a pool with checksums relative to
//! one without, on an emulated hard disk and on a file in memory that is served as a real disk.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use config::Document;
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use serde::Serialize;
use stats::SCHEMA;

use super::live::{self, Job, Live};
use crate::args;

/// A disk on which volumes are compared.
struct Disk {
    name: &'static str,
    /// Of its table.
    lines: &'static str,
    /// The time in which the whole volume is written, whose data has checksums then.
    fill_seconds: u64,
    /// Pairs of volumes, without and with checksums in turns. They share the seconds of a load.
    pairs: u64,
    /// The least ratio of each load.
    least: [f64; 4],
}

/// In memory daemon and client share the processors, with whatever else runs: of single pairs of
/// random writes one had 0.68 beside idle-priority work, and the next 0.94.
const DISKS: [Disk; 2] = [
    Disk {
        name: "hgst-7k8",
        lines: "drive = \"hgst-7k8\"\nbacking = \"d0.img\"\n",
        fill_seconds: 14,
        pairs: 1,
        least: [0.97, 0.97, 0.97, 0.85],
    },
    Disk {
        name: "memory",
        lines: "path = \"d0.img\"\nbuffered = true\n",
        fill_seconds: 4,
        pairs: 5,
        least: [0.8; 4],
    },
];
const FILE_BYTES: u64 = 4 << 30;
/// The loads: fio's access pattern, the block size, and the requests outstanding.
const LOADS: [(&str, &str, &str, u32); 4] = [
    ("sequential reads, 1 MiB", "read", "1m", 8),
    ("sequential writes, 1 MiB", "write", "1m", 8),
    ("random reads, 4 KiB", "randread", "4k", 32),
    ("random writes, 4 KiB", "randwrite", "4k", 32),
];
const RAMP_SECONDS: u64 = 3;
const TAIL_SECONDS: u64 = 1;

#[derive(Debug, Serialize)]
struct Compared {
    disk: &'static str,
    load: &'static str,
    without_bytes_per_s: f64,
    with_bytes_per_s: f64,
    ratio: f64,
    least: f64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    seconds: u64,
    rows: Vec<Compared>,
    lateness_us: LatenessUs,
    load_average: Option<f64>,
    holds: bool,
}

pub(crate) fn checksums(args: &args::Pooled, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    let (mut rows, mut late) = (Vec::new(), LatenessUs::default());
    for disk in &DISKS {
        rows.extend(compared(disk, args.seconds, &mut late)?);
    }
    let holds = rows.iter().all(|row| row.holds);
    let (load_average, seconds) = (live::load_average(), args.seconds);
    let shown = Shown { schema: SCHEMA, seconds, rows, lateness_us: late, load_average, holds };
    if json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print(&shown);
    }
    Ok(holds.into())
}

/// The medians of the throughput of each load, without and with checksums.
fn compared(
    disk: &Disk,
    seconds: u64,
    late: &mut LatenessUs,
) -> anyhow::Result<impl Iterator<Item = Compared>> {
    let seconds = (seconds / disk.pairs).max(1);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..disk.pairs {
        without.push(rates(disk, false, seconds, late)?);
        with.push(rates(disk, true, seconds, late)?);
    }
    let (name, least) = (disk.name, disk.least);
    Ok(LOADS.into_iter().enumerate().map(move |(nth, (load, ..))| {
        let of = |rates: &[[f64; 4]]| super::median(rates.iter().map(|rates| rates[nth]));
        let (without_bytes_per_s, with_bytes_per_s) = (of(&without), of(&with));
        let (ratio, least) = (with_bytes_per_s / without_bytes_per_s, least[nth]);
        let (disk, holds) = (name, ratio >= least);
        Compared { disk, load, without_bytes_per_s, with_bytes_per_s, ratio, least, holds }
    }))
}

/// The throughput of each load on a volume of a new pool, in bytes per second. `late` becomes the
/// worst of what it was and of each load.
fn rates(
    disk: &Disk,
    has_sums: bool,
    seconds: u64,
    late: &mut LatenessUs,
) -> anyhow::Result<[f64; 4]> {
    let dir = live::in_memory()?;
    if disk.name == "memory" {
        std::fs::File::create(dir.path().join("d0.img"))?.set_len(FILE_BYTES)?;
    }
    let path = dir.path().join("plan.toml");
    let plan = format!(
        "[[disk]]\nname = \"d0\"\n{}\n[pool]\ndisks = [\"d0\"]\n\n\
         [[pool.volume]]\nname = \"v\"\nsize = \"2GiB\"\nreserve = \"50%\"\n",
        disk.lines
    );
    std::fs::write(&path, plan)?;
    create(&path, has_sums)?;
    let document = Document::read(&path).map_err(bad_input)?;
    eprintln!("{}, {} checksums", disk.name, if has_sums { "with" } else { "without" });
    let fill = Job { block: "1m", depth: 8, ..Job::new(0, "write", disk.fill_seconds) };
    Live::start(document.plan(), &[fill])?.end()?;
    let mut rates = [0.0; 4];
    for (rate, (_, rw, block, depth)) in rates.iter_mut().zip(LOADS) {
        let length = seconds + RAMP_SECONDS + TAIL_SECONDS;
        let job = Job { block, depth, ..Job::new(0, rw, length) };
        let end;
        (*rate, end) = live::throughput(document.plan(), job, (RAMP_SECONDS, seconds))?;
        *late = late.or_worse(&LatenessUs::of(&end));
    }
    Ok(rates)
}

/// Makes the pool with the `spindle` beside this program.
fn create(plan: &Path, has_sums: bool) -> anyhow::Result<()> {
    let spindle = std::env::current_exe()?.with_file_name("spindle");
    let mut command = Command::new(&spindle);
    command.args(["pool", "create", "--config"]).arg(plan);
    if has_sums {
        command.arg("--checksums");
    }
    let made = command.output().with_context(|| format!("cannot run {}", spindle.display()))?;
    if made.status.success() {
        return Ok(());
    }
    Err(bad_input(String::from_utf8_lossy(&made.stderr)))
}

fn print(shown: &Shown) {
    let row = |row: &Compared| {
        let held = if row.holds { "holds" } else { "MISSED" };
        vec![
            row.disk.to_owned(),
            row.load.to_owned(),
            format!("{:.1} MB/s", row.without_bytes_per_s / 1e6),
            format!("{:.1} MB/s", row.with_bytes_per_s / 1e6),
            format!("{:.3}", row.ratio),
            format!("{:.2}", row.least),
            held.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = shown.rows.iter().map(row).collect();
    let head = ["disk", "load", "without", "with checksums", "ratio", "at least", ""];
    print!("{}", table::text(&head, &rows));
    live::print_machine(&shown.lateness_us, shown.load_average);
}
