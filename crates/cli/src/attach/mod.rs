//! `spindle attach` and `spindle detach`: volumes as block devices of this machine's kernel.

mod answer;
mod supervise;
mod ublk;

use std::path::Path;

use ::attach::limits::{CONNECTIONS_MAX, DEAD_TIMEOUT, DEAD_TIMEOUT_MAX, DEAD_TIMEOUT_MIN};
use ::attach::{AttachError, Attached, Backend, Control, Device, Devices, Unflushed};
use clap::Args;
use console::{ExitStatus, bad_input, eprintln, print, println, table};
use nbd::Address;
use serde::Serialize;
use stats::SCHEMA;
use units::Duration;

use crate::daemon_api::ApiSocket;
use crate::listen::LISTEN;

use answer::{ShownDevice, shown};
pub(crate) use answer::{print_attached, print_device, reported, reported_ublk, shown_ublk};

#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// The volume.
    #[arg(required_unless_present = "list")]
    volume: Option<String>,
    /// The device, such as /dev/nbd0. Default: one that is free.
    device: Option<Device>,
    /// The NBD address of the daemon: unix:PATH or ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS", default_value = LISTEN)]
    server: Address,
    /// Stay, reconnect the device when the daemon was stopped or killed, and grow it with the
    /// volume, until it is detached. A device that is attached already is taken over.
    #[arg(long)]
    supervise: bool,
    /// The connections, where the server allows several. With one, a request waits for its
    /// contract without end; with several, the kernel sends a request again after 300 s.
    #[arg(long, value_name = "N", default_value_t = 1)]
    connections: usize,
    /// How long requests wait for a daemon that is absent before they fail.
    #[arg(long, value_name = "TIME", default_value_t = DEAD_TIMEOUT)]
    dead_timeout: Duration,
    /// Have the daemon serve the device by ublk, without a socket: it sets `ublk` in its config.
    /// The device is there until it is detached, over all restarts of the daemon.
    #[arg(long, conflicts_with_all = ["device", "server", "supervise"])]
    #[arg(conflicts_with_all = ["connections", "dead_timeout"])]
    ublk: bool,
    #[command(flatten)]
    api: ApiSocket,
    /// List the devices that are attached.
    #[arg(long, conflicts_with_all = ["volume", "device", "supervise"])]
    list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Detach {
    /// The device, such as /dev/nbd0 or /dev/ublkb0, or the volume.
    target: String,
    /// Detach a device of the NBD driver whose server is gone for good: what was written to it and
    /// not flushed is lost. One that is in use stays nevertheless.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    api: ApiSocket,
}

#[derive(Debug, Serialize)]
struct DevicesAnswer {
    schema: u32,
    attached: Vec<ShownDevice>,
}

#[derive(Debug, Serialize)]
struct DetachedAnswer {
    schema: u32,
    detached: String,
}

pub(crate) fn attach(args: &Attach, json: bool) -> anyhow::Result<ExitStatus> {
    let Some(volume) = &args.volume else { return list(&args.api, json) };
    if args.ublk {
        return ublk::attach(volume, &args.api, json);
    }
    if !(1..=CONNECTIONS_MAX).contains(&args.connections) {
        let found = args.connections;
        let words = format!("--connections: found `{found}`, expected 1 to {CONNECTIONS_MAX}");
        return Err(bad_input(words));
    }
    if !(DEAD_TIMEOUT_MIN..=DEAD_TIMEOUT_MAX).contains(&args.dead_timeout) {
        let found = args.dead_timeout;
        return Err(bad_input(format!(
            "--dead-timeout: found `{found}`, expected a time from {DEAD_TIMEOUT_MIN} to \
             {DEAD_TIMEOUT_MAX}"
        )));
    }
    let backend = Backend { volume: volume.clone(), server: absolute(&args.server)? };
    let mut control = Control::open().map_err(reported)?;
    let how = (args.connections, args.dead_timeout);
    if args.supervise {
        return supervise::run(&mut control, &backend, args.device, how, json);
    }
    let attached = control.attach(&backend, args.device, how).map_err(reported)?;
    print_attached(&attached, json)?;
    eprintln!("attached without --supervise: the device is not reconnected when the daemon stops");
    Ok(ExitStatus::Success)
}

pub(crate) fn detach(args: &Detach, json: bool) -> anyhow::Result<ExitStatus> {
    if let Some(device) = ublk::detach(&args.target, &args.api)? {
        return detached(&device, json);
    }
    let device = detached_device(&args.target)?;
    let unflushed = if args.force { Unflushed::Lost } else { Unflushed::Kept };
    Control::open().and_then(|mut control| control.detach(device, unflushed)).map_err(reported)?;
    detached(&device, json)
}

fn detached(device: &dyn core::fmt::Display, json: bool) -> anyhow::Result<ExitStatus> {
    if json {
        let answer = DetachedAnswer { schema: SCHEMA, detached: device.to_string() };
        println!("{}", serde_json::to_string(&answer)?);
    } else {
        println!("{device} is detached");
    }
    Ok(ExitStatus::Success)
}

/// The device that is meant: by its path, or by the name of its volume.
fn detached_device(target: &str) -> anyhow::Result<Device> {
    let devices = Devices::default();
    if target.starts_with("/dev/") {
        let device = target.parse().map_err(|_| {
            bad_input(format!(
                "found `{target}`, expected a device such as /dev/nbd0 or /dev/ublkb0, or a volume"
            ))
        })?;
        let exists = devices.exists(device);
        return if exists { Ok(device) } else { Err(reported(AttachError::NoDevice(device))) };
    }
    let is_it = |found: &Attached| found.backend.as_ref().is_some_and(|one| one.volume == target);
    let all = devices.list().map_err(reported)?;
    let found: Vec<_> = all.into_iter().filter(is_it).map(|found| found.device).collect();
    match found[..] {
        [device] => Ok(device),
        [] => Err(reported(AttachError::NotAttached(target.to_owned()))),
        _ => Err(reported(AttachError::Ambiguous(target.to_owned(), found))),
    }
}

fn list(api: &ApiSocket, json: bool) -> anyhow::Result<ExitStatus> {
    let devices = Devices::default();
    let found = devices.list().map_err(reported)?;
    let by_ublk = ublk::list(api);
    let attached: Vec<_> = found.iter().map(|one| shown(&devices, one)).chain(by_ublk).collect();
    if json {
        println!("{}", serde_json::to_string(&DevicesAnswer { schema: SCHEMA, attached })?);
        return Ok(ExitStatus::Success);
    }
    let row = |one: &ShownDevice| {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        vec![
            one.device.clone(),
            or_dash(&one.volume),
            units::Bytes(one.size_bytes).to_string(),
            if one.read_only { "read-only".to_owned() } else { "-".to_owned() },
            one.server.clone().unwrap_or_else(|| one.driver.to_owned()),
            if one.uses.is_empty() { "-".to_owned() } else { one.uses.join(", ") },
        ]
    };
    let head = ["device", "volume", "size", "access", "server", "use"];
    print!("{}", table::text(&head, &attached.iter().map(row).collect::<Vec<_>>()));
    Ok(ExitStatus::Success)
}

/// The address with an absolute path: commands in other directories read it from the kernel.
fn absolute(address: &Address) -> anyhow::Result<Address> {
    let Address::Unix(path) = address else { return Ok(address.clone()) };
    let absolute = std::path::absolute(path).map_err(|error| bad_input(with(path, &error)))?;
    Ok(Address::Unix(absolute))
}

fn with(path: &Path, error: &std::io::Error) -> String {
    format!("--server: {}: {error}", path.display())
}
