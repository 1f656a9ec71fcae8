//! `spindle serve`: serves volumes over NBD until a signal stops it.

use std::path::Path;

use anyhow::Context;
use api::{Api, Bound, Server, Token};
use config::limits::{SLOW_MIN, TIME_MAX};
use config::{Document, Plan, RecordSettings};
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table, uri};
use daemon::{Daemon, Status};
use nbd::Address;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stats::{DiskReport, ExecutionReport, Latency, SCHEMA, VolumeReport};
use units::{Bytes, Duration, Extent, Instant, Lba};

use crate::args;
use crate::daemon_api::SOCKET;
use crate::declared;
use crate::listen::LISTEN;
use crate::notify;
use crate::slow::SlowLog;

/// The report of a run, printed at its end.
#[derive(Debug, Serialize)]
struct Served {
    schema: u32,
    duration_s: f64,
    disks: Vec<DiskReport>,
    volumes: Vec<VolumeReport>,
    lateness_us: LatenessUs,
}

/// The addresses to listen on.
pub(crate) fn addresses(given: &[String], plan: &Plan) -> anyhow::Result<Vec<Address>> {
    let default = [LISTEN.to_owned()];
    let texts = [given, &plan.listen, &default].into_iter().find(|texts| !texts.is_empty());
    let parse = |text: &String| text.parse().map_err(|error| bad_input(format!("listen: {error}")));
    texts.unwrap_or_default().iter().map(parse).collect()
}

/// The addresses of the API, and the token for TCP.
fn api(args: &args::Serve) -> anyhow::Result<(Vec<Address>, Option<Token>)> {
    let token = args.api_token_file.as_deref().map(Token::read).transpose();
    let token = token.map_err(|error| bad_input(format!("--api-token-file: {error}")))?;
    if args.api.is_empty() {
        let beside = args.config.parent().unwrap_or(Path::new("")).join(SOCKET);
        return Ok((vec![Address::Unix(beside)], token));
    }
    let given = args.api.iter().filter(|text| *text != "none");
    let parse = |text: &String| text.parse().map_err(|error| bad_input(format!("--api: {error}")));
    Ok((given.map(parse).collect::<anyhow::Result<_>>()?, token))
}

/// Replaces the settings of the config's log by those of the command line.
fn log(plan: &mut Plan, args: &args::Log) -> anyhow::Result<()> {
    if let Some(slow) = args.slow {
        if !(SLOW_MIN..=TIME_MAX).contains(&slow) {
            return Err(bad_input(format!(
                "--slow: found `{slow}`, expected a time from {SLOW_MIN} to {TIME_MAX}"
            )));
        }
        plan.log.slow = Some(slow);
    }
    if let Some(directory) = &args.record {
        let before = plan.log.record.as_ref().map(|record| record.bytes_max);
        let bytes_max = before.unwrap_or(RecordSettings::BYTES_DEFAULT);
        plan.log.record = Some(RecordSettings { directory: directory.clone(), bytes_max });
    }
    if let Some(bytes_max) = args.record_max {
        if !RecordSettings::accepts(bytes_max) {
            let words =
                format!("--record-max: found `{bytes_max}`, expected a size from 1MiB to 1TiB");
            return Err(bad_input(words));
        }
        let Some(record) = &mut plan.log.record else {
            return Err(bad_input(
                "--record-max: expected a --record beside it, or one in the config",
            ));
        };
        record.bytes_max = bytes_max;
    }
    Ok(())
}

/// Warns of disks whose streams leave so little slack that a small best-effort read may starve.
fn warn_of_starving(plan: &Plan) {
    for (index, disk) in plan.disks.iter().enumerate() {
        let room = plan.admission_headroom(config::DiskIndex(index), Instant::ZERO);
        let Some((room, worst)) =
            room.zip(disk.worst_command()).filter(|_| disk.best_effort.is_none())
        else {
            continue;
        };
        let whole = Extent::new(Lba(0), disk.drive.model.capacity());
        let read = disk.block_cost(&worst, whole, Bytes(4_096)).longest();
        if room.tasks > 0 && room.slack < read {
            eprintln!(
                "disk {}: its streams leave {:.1} ms at any moment, and a read of 4KiB can take \
                 {:.1} ms: best \
                 effort on it may starve; `best_effort = {{ share = \"…\", period = \"…\" }}` \
                 reserves time for it",
                disk.name,
                room.slack.as_secs_f64() * 1e3,
                read.as_secs_f64() * 1e3
            );
        }
    }
}

pub(crate) fn run(args: &args::Serve, json: bool) -> anyhow::Result<ExitStatus> {
    let document = Document::read(&args.config).map_err(bad_input)?;
    let mut plan = document.plan().clone();
    log(&mut plan, &args.log)?;
    let addresses = addresses(&args.listen, &plan)?;
    let (api_addresses, token) = api(args)?;
    // Before anything is started, so that no signal is missed.
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot listen to signals")?;
    let bind = || Bound::listen(&api_addresses, token.as_ref());
    let (daemon, bound) = Daemon::start_with(&plan, &addresses, bind).map_err(bad_input)?;
    let operator = daemon.operator(document);
    // Devices that a former daemon has left wait for this.
    if let Err(error) = operator.open_block_devices() {
        daemon.stop().context("the sockets")?;
        return Err(bad_input(error));
    }
    for address in bound.addresses().context("the API's sockets")? {
        eprintln!("API on {address}");
    }
    let slow = SlowLog::start(&plan.log, json, operator.clone()).context("the log's thread")?;
    let api = Api::new(operator);
    let server = Server::start(bound, api).context("the API")?;
    let started = daemon.status();
    for address in daemon.addresses() {
        eprintln!("listening on {address}");
    }
    for volume in &plan.volumes {
        let uri = uri(&daemon.addresses()[0], &volume.name);
        eprintln!("{}: {}, {}: {uri}", volume.name, volume.size, declared::reserve(volume));
    }
    warn_of_starving(&plan);
    notify::tell(notify::READY);
    signals.forever().next();
    notify::tell(notify::STOPPING);
    eprintln!("stopping: the requests in flight are answered first");
    server.stop();
    let status = daemon.stop().context("the sockets")?;
    if let Some(slow) = slow {
        slow.stop();
    }
    tell((&started, &status), json)?;
    Ok(ExitStatus::Success)
}

/// The error of the service-time estimates on the disk of this number.
fn error(status: &Status, disk: usize) -> Option<stats::ErrorMs> {
    let mut all = Latency::default();
    for volume in status.volumes.iter().filter(|volume| volume.disks == [config::DiskIndex(disk)]) {
        all.add(&volume.error);
    }
    all.error()
}

fn tell((from, to): (&Status, &Status), json: bool) -> anyhow::Result<()> {
    let elapsed: Vec<Duration> =
        to.disks.iter().zip(&from.disks).map(|(to, from)| to.at.since(from.at)).collect();
    let volumes: Vec<VolumeReport> = to
        .volumes
        .iter()
        .map(|volume| volume.report_since(from.volume(volume.export), elapsed[volume.disks[0].0]))
        .collect();
    declared::warn(&volumes);
    if !json {
        print!("{}", table::volumes(&volumes));
        for disk in &to.disks {
            if let Some(executed) = &disk.executed {
                println!("{}: {}", disk.name, table::executed(executed));
            }
        }
        return Ok(());
    }
    let disks = (0..).zip(to.disks.iter().zip(&elapsed)).map(|(index, (disk, elapsed))| {
        let on_it = to
            .volumes
            .iter()
            .zip(&volumes)
            .filter(|(volume, _)| volume.disks == [config::DiskIndex(index)]);
        DiskReport {
            name: disk.name.clone(),
            busy_share: disk.busy.as_secs_f64() / elapsed.as_secs_f64(),
            bytes_per_s: on_it.map(|(_, volume)| volume.bytes_per_s).sum(),
            execution: disk.executed.map(ExecutionReport::from),
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
