//! `spindle profile bus`: whether several disks share a bus, and its bandwidth.

use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};

use clap::Args;
use config::decimal_text;
use console::{ExitStatus, bad_input, print, println};
use profile_targets::AccessMode;
use profiler::bus::{FoundBus, ReadFailed, SequentialRates, find_bus, sequential_rate};
use serde::Serialize;
use stats::SCHEMA;
use units::{Bytes, Duration};

use super::device::Open;

/// The shortest time of a measurement: some reads of any disk.
const TIME_MIN: Duration = Duration::from_millis(100);
/// The longest.
const TIME_MAX: Duration = Duration::from_secs(600);
/// The default: a drive's read-ahead has reached its rate long before.
const TIME: Duration = Duration::from_secs(5);
/// The most devices: those of one host adapter.
const DEVICES_MAX: usize = 64;

#[derive(Debug, Args)]
pub(super) struct Bus {
    /// Block devices, files, or URIs of NBD exports: two at least. They are read alone, one after
    /// the other, and then all at once.
    #[arg(required = true, num_args = 2..)]
    devices: Vec<String>,
    /// The time of each of these measurements. Default: 5s.
    #[arg(long, value_name = "TIME")]
    time: Option<Duration>,
    /// Use the page cache where direct access is impossible: reads may then be served from memory.
    #[arg(long)]
    buffered: bool,
}

/// A device's rates, in the shape of `--json`.
#[derive(Debug, Serialize)]
struct DeviceShown {
    device: String,
    alone_bytes_per_s: u64,
    together_bytes_per_s: u64,
    shares_bus: bool,
}

/// The measurement, in the shape of `--json`.
#[derive(Debug, Serialize)]
struct BusShown {
    schema: u32,
    devices: Vec<DeviceShown>,
    bandwidth_bytes_per_s: Option<u64>,
}

/// The rate of one device, from when all threads at `start` have opened theirs.
fn rate(name: &str, args: &Bus, start: &Barrier) -> anyhow::Result<Bytes> {
    let opened = Open::named(name, AccessMode { write: false, buffered: args.buffered });
    start.wait();
    let failed = |failed: ReadFailed| bad_input(format!("{name}: {failed}"));
    sequential_rate(opened?.target(), args.time.unwrap_or(TIME)).map_err(failed)
}

/// The rates of all devices at once.
fn together(args: &Bus) -> anyhow::Result<Vec<Bytes>> {
    let start = Barrier::new(args.devices.len());
    thread::scope(|scope| {
        let measure = |name: &String| {
            let (name, start) = (name.clone(), &start);
            scope.spawn(move || rate(&name, args, start))
        };
        let threads: Vec<_> = args.devices.iter().map(measure).collect();
        let joined = threads.into_iter().map(ScopedJoinHandle::join);
        joined.map(|rate| rate.expect("a measurement does not panic")).collect()
    })
}

fn checked(args: &Bus) -> anyhow::Result<()> {
    if args.devices.len() > DEVICES_MAX {
        let found = args.devices.len();
        return Err(bad_input(format!("found {found} devices, expected at most {DEVICES_MAX}")));
    }
    for (index, device) in args.devices.iter().enumerate() {
        if args.devices[..index].contains(device) {
            return Err(bad_input(format!("found `{device}` twice, expected each device once")));
        }
    }
    let time = args.time.unwrap_or(TIME);
    if !(TIME_MIN..=TIME_MAX).contains(&time) {
        let expected = format!("--time: found `{time}`, expected a time from 100ms to 10m");
        return Err(bad_input(expected));
    }
    Ok(())
}

/// The rates, and the tables of a config that say what was found.
fn text(args: &Bus, rates: &[SequentialRates], found: Option<&FoundBus>) -> String {
    let rate = |bytes: Bytes| format!("{}/s", decimal_text(Bytes(bytes.0 / 100_000 * 100_000)));
    let measured = args.devices.iter().zip(rates).map(|(device, rates)| {
        format!("{device}: {} alone, {} together\n", rate(rates.alone), rate(rates.together))
    });
    let measured: String = measured.collect();
    let Some(FoundBus { disks, bandwidth }) = found else {
        return measured + "no shared bus: each keeps its rate\n";
    };
    let of = |disk: &usize| format!("# bus = \"bus\" in the [[disk]] of {}\n", args.devices[*disk]);
    let disks: String = disks.iter().map(of).collect();
    format!("{measured}\n[[bus]]\nname = \"bus\"\nbandwidth = \"{}B/s\"\n{disks}", bandwidth.0)
}

pub(super) fn run(args: &Bus, json: bool) -> anyhow::Result<ExitStatus> {
    checked(args)?;
    let alone = args.devices.iter().map(|name| rate(name, args, &Barrier::new(1)));
    let alone = alone.collect::<anyhow::Result<Vec<_>>>()?;
    let together = together(args)?;
    let rates = alone.into_iter().zip(together);
    let rates: Vec<_> =
        rates.map(|(alone, together)| SequentialRates { alone, together }).collect();
    let found = find_bus(&rates);
    if !json {
        print!("{}", text(args, &rates, found.as_ref()));
        return Ok(ExitStatus::from(true));
    }
    let shown =
        args.devices.iter().zip(&rates).enumerate().map(|(index, (device, rates))| DeviceShown {
            device: device.clone(),
            alone_bytes_per_s: rates.alone.0,
            together_bytes_per_s: rates.together.0,
            shares_bus: found.as_ref().is_some_and(|bus| bus.disks.contains(&index)),
        });
    let bandwidth = found.as_ref().map(|bus| bus.bandwidth.0);
    let shown =
        BusShown { schema: SCHEMA, devices: shown.collect(), bandwidth_bytes_per_s: bandwidth };
    println!("{}", serde_json::to_string(&shown)?);
    Ok(ExitStatus::from(true))
}
