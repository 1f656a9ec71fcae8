//! `spindle serve`: volumes over NBD, until told to stop.

use anyhow::Context;
use config::Plan;
use daemon::{Daemon, Status};
use frontend::Address;
use report::{DiskReport, Latency, SCHEMA, VolumeReport};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use units::Duration;

use crate::args;
use crate::declared;
use crate::exit::{Ended, bad_input};
use crate::table;

/// Where to listen when neither the config nor the command line says.
const LISTEN: &str = "unix:spindle.sock";

/// What was served, told at the end.
#[derive(Debug, Serialize)]
struct Served {
    schema: u32,
    duration_s: f64,
    disks: Vec<DiskReport>,
    volumes: Vec<VolumeReport>,
    lateness_us: LatenessUs,
}

/// How late the emulated drives' completions were noticed, in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct LatenessUs {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl LatenessUs {
    /// The latest disk's.
    pub(crate) fn of(status: &Status) -> Self {
        let worst = |of: &dyn Fn(&daemon::Lateness) -> Duration| {
            let all = status.disks.iter().map(|disk| of(&disk.lateness).as_millis_f64() * 1e3);
            all.fold(0.0, f64::max)
        };
        Self {
            p50: worst(&|lateness| lateness.quantile(0.5)),
            p99: worst(&|lateness| lateness.quantile(0.99)),
            max: worst(&daemon::Lateness::max),
        }
    }
}

/// The addresses to listen on.
pub(crate) fn addresses(said: &[String], plan: &Plan) -> anyhow::Result<Vec<Address>> {
    let default = [LISTEN.to_owned()];
    let texts = [said, &plan.listen, &default].into_iter().find(|texts| !texts.is_empty());
    let parse = |text: &String| text.parse().map_err(|error| bad_input(format!("listen: {error}")));
    texts.unwrap_or_default().iter().map(parse).collect()
}

/// How a client names an export, for clients that take URIs.
pub(crate) fn uri(address: &Address, export: &str) -> String {
    match address {
        Address::Unix(path) => format!("nbd+unix:///{export}?socket={}", path.display()),
        Address::Tcp(address) => format!("nbd://{address}/{export}"),
    }
}

pub(crate) fn run(args: &args::Serve, json: bool) -> anyhow::Result<Ended> {
    let plan = Plan::read(&args.config).and_then(Plan::for_serve).map_err(bad_input)?;
    let addresses = addresses(&args.listen, &plan)?;
    // Before anything is started, so that no signal finds a daemon that does not listen to it.
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
    let daemon = Daemon::start(&plan, &addresses).map_err(bad_input)?;
    let started = daemon.status();
    for address in daemon.addresses() {
        eprintln!("listening on {address}");
    }
    for volume in &plan.volumes {
        let uri = uri(&daemon.addresses()[0], &volume.name);
        eprintln!("{}: {}, {}: {uri}", volume.name, volume.size, declared::reserve(volume));
    }
    signals.forever().next();
    eprintln!("stopping: the requests under way are answered first");
    let status = daemon.stop().context("the sockets")?;
    tell(&plan, (&started, &status), json)?;
    Ok(Ended::Held)
}

/// How far off the estimates on the disk of this number were.
fn error(status: &Status, disk: usize) -> Option<report::ErrorMs> {
    let mut all = Latency::default();
    for volume in status.volumes.iter().filter(|volume| volume.disk == disk) {
        all.add(&volume.error);
    }
    all.error()
}

fn tell(plan: &Plan, (from, to): (&Status, &Status), json: bool) -> anyhow::Result<()> {
    let elapsed: Vec<Duration> =
        to.disks.iter().zip(&from.disks).map(|(to, from)| to.at.since(from.at)).collect();
    let volumes = to.volumes.iter().zip(&from.volumes);
    let volumes: Vec<VolumeReport> =
        volumes.map(|(to, from)| to.report_since(from, elapsed[to.disk])).collect();
    declared::warn(&volumes);
    if !json {
        print!("{}", table::volumes(&volumes));
        return Ok(());
    }
    let disks = (0..).zip(to.disks.iter().zip(&elapsed)).map(|(index, (disk, elapsed))| {
        let on_it =
            plan.volumes.iter().zip(&volumes).filter(|(planned, _)| planned.disk.0 == index);
        DiskReport {
            name: disk.name.clone(),
            busy_share: disk.busy.as_secs_f64() / elapsed.as_secs_f64(),
            bytes_per_s: on_it.map(|(_, volume)| volume.bytes_per_s).sum(),
            estimate_error_ms: error(to, index),
        }
    });
    let served = Served {
        schema: SCHEMA,
        duration_s: elapsed.iter().copied().max().unwrap_or_default().as_secs_f64(),
        disks: disks.collect(),
        volumes,
        lateness_us: LatenessUs::of(to),
    };
    println!("{}", serde_json::to_string(&served)?);
    Ok(())
}
