//! `spindle-lab bench fronts`: one volume by each of its fronts on this machine, or block devices
//! that are named, in turns.
//!
//! Without devices the daemon runs in this process and serves a disk in memory without service
//! time: over an NBD socket, as a device of the kernel's NBD driver, and by ublk where the kernel
//! has it. Named devices are such as a virtual machine has by vhost-user. Each device is written to
//! from its begin to its end before it is measured.

use std::path::Path;

use anyhow::Context;
use attach::limits::DEAD_TIMEOUT_MIN;
use attach::{Backend, Control, Device, Unflushed};
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

/// What of each device is used: it is in memory.
const SIZE: Bytes = Bytes(64 << 20);
const VOLUME: &str = "v";
const KIB: u64 = 1 << 10;

/// The figures of one front in one row.
#[derive(Debug, Serialize)]
struct Served {
    front: String,
    /// The median over the rounds, the least and the most.
    requests_per_s: [f64; 3],
    bytes_per_s: f64,
    /// The median of the ratios to the first front, a round each.
    against_first: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    pattern: &'static str,
    block: u64,
    depth: u32,
    served: Vec<Served>,
}

#[derive(Debug, Serialize)]
struct Fronts {
    schema: u32,
    seconds: u64,
    rounds: u32,
    /// The load average over one minute, before and after.
    load_average: [f64; 2],
    /// The fronts that this machine does not have, with the reason.
    missing: Vec<String>,
    rows: Vec<Row>,
}

pub(crate) fn fronts(args: &args::FrontsBench, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    let directory = tempfile::tempdir().context("no place for the sockets")?;
    let before = load_average()?;
    let served = if args.devices.is_empty() { Some(Serving::start(&directory)?) } else { None };
    let targets = match &served {
        Some(serving) => serving.targets(),
        None => {
            args.devices.iter().map(|named| (named.name.clone(), device(&named.path))).collect()
        }
    };
    let targets: Vec<_> = targets
        .iter()
        .map(|(name, options)| Target {
            server: name,
            options: options.clone(),
            size: SIZE,
            directory: directory.path(),
        })
        .collect();
    for target in &targets {
        run_fio(target, &["--rw=write", "--bs=1m", "--iodepth=4"])?;
    }
    let mut rows = Vec::new();
    for shape in shapes() {
        eprintln!("{}", shape.name());
        rows.push(row(&targets, &shape, args)?);
    }
    let missing = served.map_or(Ok(Vec::new()), Serving::stop)?;
    let (seconds, rounds) = (args.seconds, args.rounds);
    let load_average = [before, load_average()?];
    let fronts = Fronts { schema: SCHEMA, seconds, rounds, load_average, missing, rows };
    if json {
        println!("{}", serde_json::to_string(&fronts)?);
    } else {
        print(&fronts);
    }
    Ok(ExitStatus::Success)
}

/// 4 KiB at random and 1 MiB in sequence, read and written, at depths 1 and 32.
fn shapes() -> impl Iterator<Item = Shape> {
    let blocks = [("randread", 4), ("randwrite", 4), ("read", 1_024), ("write", 1_024)];
    let one = |(pattern, kib): (&'static str, u64), depth| {
        let block = Bytes(kib * KIB);
        Shape { connections: 1, pattern, block, depth }
    };
    blocks.into_iter().flat_map(move |block| [1, 32].map(|depth| one(block, depth)))
}

/// Runs all rounds of one row, in each of which another front is first.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn row(targets: &[Target<'_>], shape: &Shape, args: &args::FrontsBench) -> anyhow::Result<Row> {
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); targets.len()];
    for round in 0..args.rounds as usize {
        for step in 0..targets.len() {
            let index = (round + step) % targets.len();
            rates[index].push(shape.run(&targets[index], args.seconds)?.per_s());
        }
    }
    let served = targets.iter().zip(&rates).map(|(target, found)| {
        let middle = median(found.iter().copied());
        let least = found.iter().copied().fold(f64::INFINITY, f64::min);
        let most = found.iter().copied().fold(0.0, f64::max);
        Served {
            front: target.server.to_owned(),
            requests_per_s: [middle, least, most],
            bytes_per_s: middle * shape.block.0 as f64,
            against_first: median(found.iter().zip(&rates[0]).map(|(one, first)| one / first)),
        }
    });
    let served = served.collect();
    let Shape { pattern, block, depth, .. } = *shape;
    Ok(Row { name: shape.name(), pattern, block: block.0, depth, served })
}

/// fio's options for a block device.
fn device(path: &str) -> Vec<String> {
    let options = ["--ioengine=libaio", "--direct=1", "--allow_file_create=0"];
    let options = options.into_iter().map(str::to_owned);
    options.chain([format!("--filename={path}")]).collect()
}

/// A daemon in this process, and its volume by each front that this machine has.
struct Serving {
    daemon: Daemon,
    address: Address,
    attached: Option<(Control, Device)>,
    ublk: Option<String>,
    missing: Vec<String>,
}

impl Serving {
    fn start(directory: &TempDir) -> anyhow::Result<Self> {
        let text = format!(
            "[[disk]]\nname = \"d\"\ndrive = \"memory\"\nsize = \"{0}B\"\n\n[[volume]]\nname = \
             \"{VOLUME}\"\ndisk = \"d\"\nsize = \"{0}B\"\nreserve = \"100%\"\n",
            SIZE.0
        );
        let plan = Plan::parse(&text, "the bench's config", Path::new(".")).map_err(bad_input)?;
        let address = Address::Unix(directory.path().join("nbd.sock"));
        let daemon = Daemon::start(&plan, core::slice::from_ref(&address)).map_err(bad_input)?;
        let mut missing = Vec::new();
        let attached = match attached(&address) {
            Ok(attached) => Some(attached),
            Err(error) if error.is_correctable() => {
                missing.push(format!("nbd-device: {error}"));
                None
            }
            Err(error) => return Err(error.into()),
        };
        let ublk = match daemon.emulate_block_device(VOLUME) {
            Ok(device) => Some(device.to_string()),
            Err(error) if error.is_correctable() => {
                missing.push(format!("ublk: {error}"));
                None
            }
            Err(error) => return Err(error.into()),
        };
        for one in &missing {
            eprintln!("NOT MEASURED: {one}");
        }
        Ok(Self { daemon, address, attached, ublk, missing })
    }

    fn targets(&self) -> Vec<(String, Vec<String>)> {
        let uri = uri(&self.address, VOLUME);
        let socket = vec!["--ioengine=nbd".to_owned(), format!("--uri={uri}")];
        let mut targets = vec![("nbd-socket".to_owned(), socket)];
        if let Some((_, path)) = &self.attached {
            targets.push(("nbd-device".to_owned(), device(&path.to_string())));
        }
        if let Some(path) = &self.ublk {
            targets.push(("ublk".to_owned(), device(path)));
        }
        targets
    }

    /// Returns the fronts that this machine does not have.
    fn stop(self) -> anyhow::Result<Vec<String>> {
        if let Some((mut control, device)) = self.attached {
            control.detach(device, Unflushed::Kept)?;
        }
        if self.ublk.is_some() {
            self.daemon.remove_block_device(VOLUME)?;
        }
        self.daemon.stop().context("the sockets")?;
        Ok(self.missing)
    }
}

fn attached(address: &Address) -> Result<(Control, Device), attach::AttachError> {
    let backend = Backend { volume: VOLUME.to_owned(), server: address.clone() };
    let mut control = Control::open()?;
    // Requests fail soon after the end of this process, which serves them.
    let device = control.attach(&backend, None, (1, DEAD_TIMEOUT_MIN))?.device;
    Ok((control, device))
}

fn print(fronts: &Fronts) {
    let Some(first) = fronts.rows.first() else { return };
    let mut head = vec!["requests per second".to_owned()];
    for (at, served) in first.served.iter().enumerate() {
        head.push(served.front.clone());
        if at > 0 {
            head.push(format!("÷ {}", first.served[0].front));
        }
    }
    let row = |row: &Row| {
        let mut cells = vec![row.name.clone()];
        for (at, served) in row.served.iter().enumerate() {
            let [middle, least, most] = served.requests_per_s;
            cells.push(format!("{middle:.0} ({least:.0} to {most:.0})"));
            if at > 0 {
                cells.push(format!("{:.2}", served.against_first));
            }
        }
        cells
    };
    let head: Vec<_> = head.iter().map(String::as_str).collect();
    print!("{}", table::text(&head, &fronts.rows.iter().map(row).collect::<Vec<_>>()));
    let [before, after] = fronts.load_average;
    println!(
        "medians of {} rounds of {} s; load average {before:.1} before, {after:.1} after",
        fronts.rounds, fronts.seconds
    );
    for one in &fronts.missing {
        println!("NOT MEASURED: {one}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_have_two_sizes_two_directions_and_two_depths() {
        let names: Vec<_> = shapes().map(|shape| shape.name()).collect();
        let expected = [
            "randread-4k-d1-c1",
            "randread-4k-d32-c1",
            "randwrite-4k-d1-c1",
            "randwrite-4k-d32-c1",
            "read-1024k-d1-c1",
            "read-1024k-d32-c1",
            "write-1024k-d1-c1",
            "write-1024k-d32-c1",
        ];
        assert_eq!(names, expected);
    }
}
