//! `spindle emulate`: a drive of the library as a block device of this machine, for software that
//! is to be tried on a slow disk.
//!
//! The drive is served by this process, first come, first served, with its own queue: no contract
//! changes what the drive would do. The kernel's ublk driver has the other end, or its NBD driver
//! where there is no ublk.

use std::path::Path;

use ::attach::limits::DEAD_TIMEOUT_MIN;
use ::attach::{AttachError, Attached, Backend, Control, Device, Devices, Unflushed};
use anyhow::Context;
use clap::Args;
use config::Plan;
use config::limits::DEPTH_MAX;
use console::{ExitStatus, bad_input, eprintln, println, uri};
use daemon::Daemon;
use nbd::Address;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stats::SCHEMA;
use ublk::UblkError;
use units::{Bytes, Duration};

use crate::attach::{print_attached, print_device, reported, reported_ublk, shown_ublk};
use crate::notify;

/// How often a signal is looked for, and whether the device is attached.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// The smallest disk, as which a config is read before the drive's size is known.
const SIZE_MIN: Bytes = Bytes(1 << 20);
/// The name of the volume.
const VOLUME: &str = "emulated";

#[derive(Debug, Args)]
pub(crate) struct Emulate {
    /// A name of the drive library, or a drive file (*.toml).
    #[arg(required_unless_present = "profile", conflicts_with = "profile")]
    drive: Option<String>,
    /// A measured profile, from which the drive is made.
    #[arg(long, value_name = "FILE")]
    profile: Option<String>,
    /// The device of the kernel's NBD driver, such as /dev/nbd0. Default: one of its ublk driver,
    /// or a free one of the NBD driver where there is no ublk.
    #[arg(long)]
    device: Option<Device>,
    /// The size of the device, from the drive's outer zone on. Default: the whole drive.
    #[arg(long)]
    size: Option<Bytes>,
    /// The file that keeps the data. Default: memory, which is lost at the end.
    #[arg(long, value_name = "FILE")]
    backing: Option<String>,
    /// Serve the drive at this NBD address, unix:PATH or ADDRESS:PORT, without a block device.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "device")]
    nbd: Option<Address>,
}

/// The answer with `--nbd`.
#[derive(Debug, Serialize)]
struct ServedAnswer {
    schema: u32,
    uri: String,
    size_bytes: u64,
}

pub(crate) fn run(args: &Emulate, json: bool) -> anyhow::Result<ExitStatus> {
    let plan = plan(args)?;
    // Before anything is started, so that no signal is missed.
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
    if let Some(address) = &args.nbd {
        let daemon = Daemon::start(&plan, core::slice::from_ref(address)).map_err(bad_input)?;
        print_served(&plan, &daemon.addresses()[0], json)?;
        notify::tell(notify::READY);
        signals.forever().next();
        notify::tell(notify::STOPPING);
        daemon.stop().context("the sockets")?;
        return Ok(ExitStatus::Success);
    }
    if args.device.is_none() && ublk::Control::open().is_ok() {
        return by_ublk(&plan, &mut signals, json);
    }
    // Without a driver nothing is started.
    let mut control = Control::open().map_err(|error| match error {
        AttachError::NoDriver => without_device(&error),
        error => reported(error),
    })?;
    let directory = tempfile::tempdir().context("no place for the socket")?;
    let server = Address::Unix(directory.path().join("nbd.sock"));
    let daemon = Daemon::start(&plan, core::slice::from_ref(&server)).map_err(bad_input)?;
    let backend = Backend { volume: VOLUME.to_owned(), server };
    // Nothing replaces a connection to this process: requests after its end fail soon.
    let attached = control.attach(&backend, args.device, (1, DEAD_TIMEOUT_MIN)).map_err(
        |error| match error {
            AttachError::NoPermission => without_device(&error),
            error => reported(error),
        },
    )?;
    print_attached(&attached, json)?;
    notify::tell(notify::READY);
    hold(&mut control, (&attached, &backend), &mut signals)?;
    notify::tell(notify::STOPPING);
    daemon.stop().context("the sockets")?;
    Ok(ExitStatus::Success)
}

/// The error of a machine or a user that can have no device.
fn without_device(error: &AttachError) -> anyhow::Error {
    bad_input(format!("{error}; or `--nbd ADDRESS`, which needs neither"))
}

/// Serves the drive by the kernel's ublk driver.
fn by_ublk(plan: &Plan, signals: &mut Signals, json: bool) -> anyhow::Result<ExitStatus> {
    let directory = tempfile::tempdir().context("no place for the socket")?;
    let server = Address::Unix(directory.path().join("nbd.sock"));
    let daemon = Daemon::start(plan, core::slice::from_ref(&server)).map_err(bad_input)?;
    let device = daemon.emulate_block_device(VOLUME).map_err(reported_ublk)?;
    print_device(shown_ublk(device, VOLUME, plan.volumes[0].size.0), json)?;
    notify::tell(notify::READY);
    loop {
        if !daemon.has_block_device(VOLUME) {
            eprintln!("{device} is detached");
            break;
        }
        if signals.pending().next().is_none() {
            pause(LOOK_PERIOD);
            continue;
        }
        match daemon.remove_block_device(VOLUME) {
            Ok(()) => break,
            Err(error @ UblkError::InUse(_)) => eprintln!("{error}"),
            Err(error) => return Err(reported_ublk(error)),
        }
    }
    notify::tell(notify::STOPPING);
    daemon.stop().context("the sockets")?;
    Ok(ExitStatus::Success)
}

/// Returns when the device is detached, by a signal or by `spindle detach`. One that is in use
/// stays, and the next signal tries again.
fn hold(
    control: &mut Control,
    (attached, backend): (&Attached, &Backend),
    signals: &mut Signals,
) -> anyhow::Result<()> {
    let device = attached.device;
    loop {
        if Devices::default().attached_to(device, backend).is_none() {
            eprintln!("{device} is detached");
            return Ok(());
        }
        if signals.pending().next().is_none() {
            pause(LOOK_PERIOD);
            continue;
        }
        match control.detach(device, Unflushed::Kept) {
            Ok(()) | Err(AttachError::NotConnected(_)) => return Ok(()),
            Err(error @ AttachError::InUse(..)) => eprintln!("{error}"),
            Err(error) => return Err(reported(error)),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "no event says that a device was detached")]
fn pause(length: Duration) {
    std::thread::sleep(core::time::Duration::from_nanos(length.as_nanos()));
}

/// The drive as a disk with one volume.
fn plan(args: &Emulate) -> anyhow::Result<Plan> {
    let small = parse(args, SIZE_MIN, 1)?;
    let model = &small.disks[0].drive.model;
    let (whole, queue) = (model.capacity().bytes(), model.queue_depth_max().min(DEPTH_MAX));
    let size = args.size.unwrap_or(whole);
    if !(SIZE_MIN..=whole).contains(&size) {
        return Err(bad_input(format!(
            "--size: found `{size}`, expected a size from {SIZE_MIN} to {whole}, the drive's"
        )));
    }
    parse(args, size, queue)
}

fn parse(args: &Emulate, size: Bytes, depth: u32) -> anyhow::Result<Plan> {
    // A string of JSON is one of TOML.
    let quoted = |text: &str| serde_json::to_string(text);
    let drive = match (&args.drive, &args.profile) {
        (Some(name), _) => format!("drive = {}", quoted(name)?),
        (None, profile) => format!("profile = {}", quoted(profile.as_deref().unwrap_or_default())?),
    };
    let backing = quoted(args.backing.as_deref().unwrap_or("ram"))?;
    let bytes = size.0;
    let disk = format!(
        "[[disk]]\nname = \"drive\"\n{drive}\nbacking = {backing}\npolicy = \"fcfs\"\n\
         depth = {depth}\n"
    );
    let volume =
        format!("[[volume]]\nname = \"{VOLUME}\"\ndisk = \"drive\"\nsize = \"{bytes}B\"\n");
    let text = disk + &volume;
    Plan::parse(&text, "the drive", Path::new("")).map_err(bad_input)
}

fn print_served(plan: &Plan, address: &Address, json: bool) -> anyhow::Result<()> {
    let uri = uri(address, VOLUME);
    if json {
        let size_bytes = plan.volumes[0].size.0;
        println!("{}", serde_json::to_string(&ServedAnswer { schema: SCHEMA, uri, size_bytes })?);
    } else {
        println!("{uri}");
    }
    eprintln!("listening on {address}");
    Ok(())
}
