//! `spindle-lab bench real`: a file or device through us, over NBD, beside the same without us.
//!
//! fio asks the file itself with io_uring and direct access, and then the same of a volume that is
//! all of it: the same pattern, blocks, connections (jobs) and requests outstanding. In each round
//! of a row both run one after the other, each time beginning with the other one.

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

use super::nbd::{Asked, Shape, ask, load_average};
use super::{live, median};
use crate::args;

/// What is wanted of the ratios.
const RATIO_MIN: f64 = 0.97;
/// Of a file that is made here, and what is asked of one that is longer.
const SIZE: Bytes = Bytes(1 << 30);
/// Connections, and requests outstanding on each: together no more than a disk takes at once.
const WAYS: [(u32, u32); 5] = [(1, 1), (1, 4), (1, 32), (4, 1), (4, 8)];
/// As fio calls them, with the KiB of a request.
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
    /// The least and the most of them.
    ratios: [f64; 2],
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Real {
    schema: u32,
    path: PathBuf,
    bytes: u64,
    /// How the daemon's commands got to the kernel.
    access: Option<String>,
    seconds: u64,
    rounds: u32,
    /// Processes that ran or wanted to, on the mean of a minute: before and after.
    load_average: [f64; 2],
    rows: Vec<Row>,
    holds: bool,
}

fn shapes() -> impl Iterator<Item = Shape> {
    WAYS.into_iter().flat_map(|(connections, depth)| {
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
    let direct = Asked {
        server: "the file itself",
        options: vec![
            "--ioengine=io_uring".to_owned(),
            "--direct=1".to_owned(),
            // fio takes a colon for the end of a name.
            format!("--filename={}", disk.path.display().to_string().replace(':', "\\:")),
        ],
        size: disk.size,
        directory: served.directory.path(),
    };
    let through = Asked {
        server: "the volume",
        options: vec!["--ioengine=nbd".to_owned(), format!("--uri={}", served.uri)],
        ..direct.clone()
    };
    // What was never written is read without a look at the medium.
    ask(&direct, &["--rw=write", "--bs=1m", "--iodepth=4"])?;
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

/// Every round of one row.
fn row(asked: [&Asked<'_>; 2], shape: &Shape, args: &args::NbdBench) -> anyhow::Result<Row> {
    let mut rates = [const { Vec::new() }; 2];
    for round in 0..args.rounds as usize {
        for turn in 0..2 {
            let place = (round + turn) % 2;
            rates[place].push(shape.ask(asked[place], args.seconds)?.per_s());
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

/// What is measured, all of which is overwritten.
struct Disk {
    path: PathBuf,
    size: Bytes,
    /// It was made here, and goes with us.
    made: bool,
}

impl Disk {
    fn of(path: &Path, overwrite: Option<&Path>) -> anyhow::Result<Self> {
        let shown = path.display();
        let Ok(metadata) = fs::metadata(path) else {
            let disk = Self { path: path.to_owned(), size: SIZE, made: true };
            let made = File::create_new(path).and_then(|file| file.set_len(SIZE.0));
            made.map_err(|error| {
                bad_input(format!("{shown}: expected a file or a place for one ({error})"))
            })?;
            return Ok(disk);
        };
        if overwrite != Some(path) {
            return Err(bad_input(format!(
                "{shown}: it is there already, and all of it would be overwritten: expected a \
                 path at which there is \
                 nothing yet, or `--overwrite {shown}` besides"
            )));
        }
        let len = if metadata.is_file() { metadata.len() } else { length(path)? };
        Ok(Self { path: path.to_owned(), size: Bytes(len.min(SIZE.0) & !0xf_ffff), made: false })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.made {
            // What cannot be removed is seen.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Of a device, as far as it matters: whether it holds as much as is asked of it.
fn length(path: &Path) -> anyhow::Result<u64> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let holds = |bytes: u64| file.read_exact_at(&mut [0], bytes - 1).is_ok();
    let halves = (0..10).map(|halved| SIZE.0 >> halved);
    Ok(halves.into_iter().find(|bytes| holds(*bytes)).unwrap_or(0))
}

/// Us, with a volume that is all of the disk.
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
        // The measurement is complete.
        drop(self.daemon.take().map(Daemon::stop));
    }
}

/// A path as a config has it.
fn toml_text(path: &Path) -> anyhow::Result<String> {
    let text = path
        .to_str()
        .filter(|text| !text.contains(['"', '\\']) && !text.contains(char::is_control));
    let text =
        text.ok_or_else(|| bad_input(format!("{}: expected a plainer path", path.display())))?;
    Ok(format!("\"{text}\""))
}

fn print(real: &Real) {
    let head = ["requests a second", "direct", "served", "served ÷ direct", "least", "most", ""];
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
        "through {}; medians of {} rounds of {} s; load average {before:.1} before, {after:.1} \
         after",
        real.access.as_deref().unwrap_or("nothing known"),
        real.rounds,
        real.seconds
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_overwritten_only_if_its_path_is_said_again() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let path = dir.path().join("disk.img");
        let disk = Disk::of(&path, None).expect("there is nothing");
        assert_eq!((disk.size, fs::metadata(&path).expect("it is there").len()), (SIZE, SIZE.0));
        drop(disk);
        assert!(!path.exists(), "what was made goes");
        File::create(&path).and_then(|file| file.set_len(5 << 20)).expect("a file");
        for said in [None, Some(dir.path())] {
            let refused = Disk::of(&path, said).err().expect("it is not empty").to_string();
            assert!(refused.contains("--overwrite"), "{refused}");
        }
        let disk = Disk::of(&path, Some(&path)).expect("it was said");
        assert_eq!(disk.size, Bytes(5 << 20));
        drop(disk);
        assert!(path.exists(), "what was there stays");
    }

    #[test]
    fn nothing_is_asked_for_that_a_disk_does_not_take_at_once() {
        assert!(shapes().all(|shape| shape.connections * shape.depth <= DEPTH));
    }
}
