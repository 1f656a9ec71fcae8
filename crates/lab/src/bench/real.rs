//! `spindle-lab bench real`: the throughput of a file or device over NBD, relative to direct
//! access.
//!
//! fio loads the file itself with io_uring and direct I/O, and a volume that covers the whole file
//! over NBD, with the same pattern, block size, connections (jobs) and requests outstanding. Each
//! round of a row runs both, one after the other; rounds alternate which of them is first.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use config::Plan;
use console::{ExitStatus, bad_input, eprintln, print, println, table, uri};
use daemon::Daemon;
use nbd::Address;
use serde::Serialize;
use stats::SCHEMA;
use tempfile::TempDir;
use units::Bytes;

use super::nbd::{Shape, Target, load_average, run_fio};
use super::{live, median};
use crate::args;

/// The least accepted ratio of served to direct throughput.
const RATIO_MIN: f64 = 0.97;
/// The size of a file that the benchmark creates, and the largest part of an existing one in use.
const SIZE: Bytes = Bytes(1 << 30);
/// Connections, and requests outstanding on each. The product is at most [`DEPTH`].
const CONCURRENCY: [(u32, u32); 5] = [(1, 1), (1, 4), (1, 32), (4, 1), (4, 8)];
/// fio's pattern, and the block size in KiB.
const PATTERNS: [(&str, u64); 6] = [
    ("randread", 4),
    ("randwrite", 4),
    ("read", 128),
    ("write", 128),
    ("read", 1_024),
    ("write", 1_024),
];
const DEPTH: u32 = 32;
const VOLUME: &str = "v";

/// Medians of a row's rounds.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    connections: u32,
    pattern: &'static str,
    block: u64,
    depth: u32,
    direct_per_s: f64,
    served_per_s: f64,
    /// Served ÷ direct: the median over rounds.
    ratio: f64,
    /// The least and the largest ratio of any round.
    ratios: [f64; 2],
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Real {
    schema: u32,
    path: PathBuf,
    bytes: u64,
    /// The I/O method of the daemon: io_uring or threads.
    access: Option<String>,
    seconds: u64,
    rounds: u32,
    /// The load average over one minute, before and after.
    load_average: [f64; 2],
    rows: Vec<Row>,
    holds: bool,
}

fn shapes() -> impl Iterator<Item = Shape> {
    CONCURRENCY.into_iter().flat_map(|(connections, depth)| {
        PATTERNS.map(|(pattern, kib)| Shape {
            connections,
            pattern,
            block: Bytes(kib << 10),
            depth,
        })
    })
}

pub(crate) fn real(args: &args::RealBench, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    let shapes: Vec<_> = shapes().filter(|shape| shape.is_selected(&args.run.rows)).collect();
    if shapes.is_empty() {
        let known: Vec<_> = self::shapes().map(|shape| shape.name()).collect();
        let why = format!("no such row, expected a part of the name of one: {}", known.join(", "));
        return Err(bad_input(why));
    }
    let before = load_average()?;
    let disk = Disk::of(&args.path, args.overwrite.as_deref())?;
    let served = Served::start(&disk, args.threads)?;
    let direct = Target {
        server: "direct access",
        options: vec![
            "--ioengine=io_uring".to_owned(),
            "--direct=1".to_owned(),
            // fio separates file names by colons.
            format!("--filename={}", disk.path.display().to_string().replace(':', "\\:")),
        ],
        size: disk.size,
        directory: served.directory.path(),
    };
    let through = Target {
        server: "the volume",
        options: vec!["--ioengine=nbd".to_owned(), format!("--uri={}", served.uri)],
        ..direct.clone()
    };
    // A file system serves reads of unwritten extents without device I/O.
    run_fio(&direct, &["--rw=write", "--bs=1m", "--iodepth=4"])?;
    let mut rows = Vec::new();
    for shape in &shapes {
        eprintln!("{}", shape.name());
        rows.push(row([&direct, &through], shape, &args.run)?);
    }
    let access = served.daemon.as_ref().and_then(|daemon| daemon.status().disks[0].access);
    let real = Real {
        schema: SCHEMA,
        path: disk.path.clone(),
        bytes: disk.size.0,
        access: access.map(|access| access.to_string()),
        seconds: args.run.seconds,
        rounds: args.run.rounds,
        load_average: [before, load_average()?],
        holds: rows.iter().all(|row| row.holds),
        rows,
    };
    if json {
        println!("{}", serde_json::to_string(&real)?);
    } else {
        print(&real);
    }
    Ok(real.holds.into())
}

/// Runs all rounds of one row.
fn row(targets: [&Target<'_>; 2], shape: &Shape, args: &args::NbdBench) -> anyhow::Result<Row> {
    let mut rates = [const { Vec::new() }; 2];
    for round in 0..args.rounds as usize {
        for step in 0..2 {
            let index = (round + step) % 2;
            rates[index].push(shape.run(targets[index], args.seconds)?.per_s());
        }
    }
    let ratios = rates[1].iter().zip(&rates[0]).map(|(served, direct)| served / direct);
    let ratios: Vec<f64> = ratios.collect();
    let ends = [f64::min, f64::max].map(|of| ratios.iter().copied().reduce(of).unwrap_or(f64::NAN));
    let ratio = median(ratios.iter().copied());
    let [direct_per_s, served_per_s] = rates.map(|rates| median(rates.into_iter()));
    let Shape { connections, pattern, block, depth } = *shape;
    Ok(Row {
        name: shape.name(),
        connections,
        pattern,
        block: block.0,
        depth,
        direct_per_s,
        served_per_s,
        ratio,
        ratios: ends,
        holds: ratio >= RATIO_MIN,
    })
}

/// The file or device under test. The benchmark overwrites it.
struct Disk {
    path: PathBuf,
    size: Bytes,
    /// The benchmark created the file and removes it at the end.
    is_created: bool,
}

impl Disk {
    fn of(path: &Path, overwrite: Option<&Path>) -> anyhow::Result<Self> {
        let shown = path.display();
        let Ok(metadata) = fs::metadata(path) else {
            let disk = Self { path: path.to_owned(), size: SIZE, is_created: true };
            let created = File::create_new(path).and_then(|file| file.set_len(SIZE.0));
            created.map_err(|error| {
                bad_input(format!(
                    "{shown}: expected a file, a device, or a path at which a file can be created \
                     ({error})"
                ))
            })?;
            return Ok(disk);
        };
        if overwrite != Some(path) {
            return Err(bad_input(format!(
                "{shown}: it exists and would be overwritten: expected a path that does not exist, \
                 or `--overwrite {shown}` as well"
            )));
        }
        let len = if metadata.is_file() { metadata.len() } else { length(path)? };
        Ok(Self {
            path: path.to_owned(),
            size: Bytes(len.min(SIZE.0) & !0xf_ffff),
            is_created: false,
        })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_created {
            // A file that cannot be removed stays; the results are valid regardless.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The usable length of a device: the largest of [`SIZE`] and its halves that can be read.
fn length(path: &Path) -> anyhow::Result<u64> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let holds = |bytes: u64| file.read_exact_at(&mut [0], bytes - 1).is_ok();
    let halves = (0..10).map(|halved| SIZE.0 >> halved);
    Ok(halves.into_iter().find(|bytes| holds(*bytes)).unwrap_or(0))
}

/// A daemon with one volume that covers the whole disk.
struct Served {
    daemon: Option<Daemon>,
    uri: String,
    directory: TempDir,
}

impl Served {
    fn start(disk: &Disk, threads: bool) -> anyhow::Result<Self> {
        let path = fs::canonicalize(&disk.path)?;
        let path = toml_text(&path)?;
        let text = format!(
            "[[disk]]\nname = \"d\"\npath = {path}\nio_uring = {}\ndepth = {DEPTH}\npolicy = \
             \"utilization\"\n\
             [[volume]]\nname = \"{VOLUME}\"\ndisk = \"d\"\nsize = \"{}B\"\nreserve = \"100%\"\n",
            !threads, disk.size.0
        );
        let plan = Plan::parse(&text, "the bench's config", Path::new(".")).map_err(bad_input)?;
        let directory = tempfile::tempdir()?;
        let address = Address::Unix(directory.path().join("nbd.sock"));
        let daemon = Daemon::start(&plan, &[address]).map_err(bad_input)?;
        let uri = uri(&daemon.addresses()[0], VOLUME);
        Ok(Self { daemon: Some(daemon), uri, directory })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The measurement is complete, so an error of the stop is of no consequence.
        drop(self.daemon.take().map(Daemon::stop));
    }
}

/// A path as a TOML string.
fn toml_text(path: &Path) -> anyhow::Result<String> {
    let text = path
        .to_str()
        .filter(|text| !text.contains(['"', '\\']) && !text.contains(char::is_control));
    let text = text.ok_or_else(|| {
        bad_input(format!(
            "{}: expected a path without quotes, backslashes and control characters",
            path.display()
        ))
    })?;
    Ok(format!("\"{text}\""))
}

fn print(real: &Real) {
    let head = ["requests per second", "direct", "served", "served ÷ direct", "least", "most", ""];
    let row = |row: &Row| {
        let [least, most] = row.ratios;
        let ratios = [row.ratio, least, most].map(|ratio| format!("{ratio:.2}"));
        let rates = [row.direct_per_s, row.served_per_s].map(|rate| format!("{rate:.0}"));
        let holds = if row.holds { "holds" } else { "MISSED" };
        let cells = [row.name.clone()].into_iter().chain(rates).chain(ratios);
        cells.chain([holds.to_owned()]).collect::<Vec<_>>()
    };
    print!("{}", table::text(&head, &real.rows.iter().map(row).collect::<Vec<_>>()));
    let [before, after] = real.load_average;
    println!(
        "I/O method {}; medians of {} rounds of {} s; load average {before:.1} before, {after:.1} \
         after",
        real.access.as_deref().unwrap_or("an unknown method"),
        real.rounds,
        real.seconds
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_overwritten_only_if_its_path_is_repeated() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let path = dir.path().join("disk.img");
        let disk = Disk::of(&path, None).expect("the path is free");
        assert_eq!((disk.size, fs::metadata(&path).expect("it is there").len()), (SIZE, SIZE.0));
        drop(disk);
        assert!(!path.exists(), "a created file is removed");
        File::create(&path).and_then(|file| file.set_len(5 << 20)).expect("a file");
        for repeated in [None, Some(dir.path())] {
            let refused = Disk::of(&path, repeated).err().expect("it is not empty").to_string();
            assert!(refused.contains("--overwrite"), "{refused}");
        }
        let disk = Disk::of(&path, Some(&path)).expect("the path was repeated");
        assert_eq!(disk.size, Bytes(5 << 20));
        drop(disk);
        assert!(path.exists(), "an existing file stays");
    }

    #[test]
    fn no_row_has_more_requests_outstanding_than_the_disk_takes() {
        assert!(shapes().all(|shape| shape.connections * shape.depth <= DEPTH));
    }
}
