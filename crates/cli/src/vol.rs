//! `spindle vol`, `spindle disk` and `spindle admit`: a running daemon, over its API.
//!
//! The daemon's answer is printed as it came with `--json`. Exit codes: 0 done; 1 the daemon refused it, or it would not
//! fit; 2 the input is bad, or there is no daemon.

use std::path::PathBuf;

use anyhow::Context;
use api::{
    Admission, AdmissionAnswer, Answer, Client, ClientError, Disk, DiskAnswer, DiskChange,
    DiskState, DisksAnswer, Forced, NamedSpec, PoolAnswer, PoolVolumeSpec, Problem, Room, Settling,
    StreamSpec, Volume, VolumeAnswer, VolumeChange, VolumeSpec, VolumesAnswer,
};
use clap::{Args as ClapArgs, Subcommand};
use console::{ExitStatus, bad_input, print, println, table};
use serde::de::DeserializeOwned;
use serde_json::Value;
use units::Bytes;

use crate::pool;

/// Where a daemon's API listens, beside its config; and where it is looked for, in the working directory.
pub(crate) const SOCKET: &str = "spindle-api.sock";

#[derive(Debug, ClapArgs)]
pub(crate) struct Reach {
    /// The socket of the daemon's API.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Vol {
    /// Make a volume; the same again is as good as once.
    Create(Create),
    /// List all volumes: what each is promised and has had.
    Ls(Reach),
    /// Show one volume, with its latencies.
    Show(Named),
    /// Change a volume's contract, while I/O runs.
    Set(Set),
    /// Grow or shrink a volume.
    Resize(Resize),
    /// Remove a volume and its data, or a snapshot.
    Rm(Rm),
    /// Have a volume of the pool lie on another part of the disks, or on others, while it is used.
    Move(Move),
    /// Move volumes of the pool from its fullest disks to its emptiest, while they are used.
    Rebalance(Rebalance),
    /// Keep what a volume of the pool holds now, as a snapshot.
    Snapshot(Snapshot),
    /// Have a volume hold again what this snapshot of it holds, its size included.
    Rollback(Rm),
}

#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// List all disks: what each has promised, and has left.
    Ls(Reach),
    /// Change the period in which a disk keeps its reserves.
    Set(DiskSet),
    /// Open a disk again of which a flush failed, or that is gone. What was written and not flushed before may be lost.
    Reopen(Named),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Contract {
    /// Its share of the disk's time in every period, such as 30%.
    #[arg(long)]
    reserve: Option<String>,
    /// The most it gets, such as 60%.
    #[arg(long)]
    limit: Option<String>,
    /// Its part of the slack beside others, 1 to 1000.
    #[arg(long)]
    weight: Option<i64>,
    #[command(flatten)]
    stream: StreamArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StreamArgs {
    /// A stream of so many bytes a second instead of a reserve, such as 817KB/s.
    #[arg(long, value_name = "RATE", requires = "block")]
    bandwidth: Option<String>,
    /// In blocks of this size, such as 1MB.
    #[arg(long, value_name = "SIZE", requires = "bandwidth")]
    block: Option<String>,
    /// In this part of the volume, such as 0GiB..2GiB.
    #[arg(long, value_name = "START..END", requires = "bandwidth")]
    range: Option<String>,
    /// From then to then, counted from the daemon's start, such as 0s..2h.
    #[arg(long, value_name = "START..END", requires = "bandwidth")]
    span: Option<String>,
}

impl StreamArgs {
    fn spec(&self) -> anyhow::Result<Option<StreamSpec>> {
        let (Some(bandwidth), Some(block)) = (&self.bandwidth, &self.block) else {
            return Ok(None);
        };
        let span = self.span.as_ref().map(|span| {
            let parts = span.split_once("..");
            parts.map(|(start, end)| [start.trim().to_owned(), end.trim().to_owned()]).ok_or_else(
                || bad_input(format!("--span: found `{span}`, expected two times such as 0s..2h")),
            )
        });
        let (bandwidth, block, range) = (bandwidth.clone(), block.clone(), self.range.clone());
        Ok(Some(StreamSpec { bandwidth, block, range, span: span.transpose()? }))
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Create {
    #[command(flatten)]
    reach: Reach,
    /// Its name.
    name: String,
    /// The disk it is to lie on. Without: it lies in the pool.
    #[arg(long)]
    disk: Option<String>,
    /// Its size, such as 10GiB.
    #[arg(long)]
    size: String,
    #[command(flatten)]
    layout: LayoutArgs,
    #[command(flatten)]
    contract: Contract,
}

/// How a volume lies in the pool.
#[derive(Debug, ClapArgs)]
pub(crate) struct LayoutArgs {
    /// The disks of the pool that it is to lie on, such as d0,d1. Without: all.
    #[arg(long, value_name = "DISKS", value_delimiter = ',', conflicts_with = "disk")]
    disks: Option<Vec<String>>,
    /// How its blocks follow each other: single, stripe or random.
    #[arg(long, conflicts_with = "disk")]
    layout: Option<String>,
    /// On which part of the disks: fast, slow or any.
    #[arg(long, conflicts_with = "disk")]
    zone: Option<String>,
    /// Blocks appear when they are first written.
    #[arg(long, conflicts_with = "disk")]
    thin: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Move {
    #[command(flatten)]
    volume: Named,
    /// The disks of the pool that it is to lie on, such as d0,d1; as many as before for a stripe.
    #[arg(long, value_name = "DISKS", value_delimiter = ',', required_unless_present = "zone")]
    disks: Option<Vec<String>>,
    /// On which part of the disks: fast, slow or any.
    #[arg(long)]
    zone: Option<String>,
    /// Wait until all of it is there.
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Rebalance {
    #[command(flatten)]
    reach: Reach,
    /// Wait until all blocks are there.
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Snapshot {
    #[command(flatten)]
    volume: Named,
    /// What the snapshot is called.
    snapshot: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Named {
    #[command(flatten)]
    reach: Reach,
    /// Its name.
    name: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Set {
    #[command(flatten)]
    volume: Named,
    #[command(flatten)]
    contract: Contract,
    /// Take its stream away: it becomes best effort.
    #[arg(long, conflicts_with = "bandwidth")]
    no_stream: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Resize {
    #[command(flatten)]
    volume: Named,
    /// Its new size, such as 20GiB.
    size: String,
    /// Disconnect the clients of a volume that shrinks.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Rm {
    #[command(flatten)]
    volume: Named,
    /// Disconnect its clients, after their last answers.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DiskSet {
    #[command(flatten)]
    disk: Named,
    /// The period, such as 500ms.
    #[arg(long)]
    period: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Admit {
    /// Change nothing: `spindle vol create` is what does.
    #[arg(long, required = true)]
    dry_run: bool,
    #[command(flatten)]
    reach: Reach,
    /// The disk it would lie on.
    #[arg(long)]
    disk: String,
    /// Its size, such as 10GiB.
    #[arg(long)]
    size: String,
    #[command(flatten)]
    contract: Contract,
}

/// A name that no volume is likely to have: admission is asked for one without.
const NAMELESS: &str = "(a volume to come)";

impl Reach {
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.socket)
    }
}

fn spec(name: &str, disk: &str, size: &str, contract: &Contract) -> anyhow::Result<VolumeSpec> {
    let Contract { reserve, limit, weight, stream } = contract;
    Ok(VolumeSpec {
        name: name.to_owned(),
        disk: disk.to_owned(),
        size: size.to_owned(),
        reserve: reserve.clone(),
        limit: limit.clone(),
        weight: *weight,
        stream: stream.spec()?,
    })
}

fn in_pool(create: &Create) -> anyhow::Result<PoolVolumeSpec> {
    let LayoutArgs { disks, layout, zone, thin } = &create.layout;
    let Contract { reserve, limit, weight, stream } = &create.contract;
    Ok(PoolVolumeSpec {
        name: create.name.clone(),
        size: create.size.clone(),
        disks: disks.clone(),
        layout: layout.clone(),
        zone: zone.clone(),
        thin: *thin,
        reserve: reserve.clone(),
        limit: limit.clone(),
        weight: *weight,
        stream: stream.spec()?,
    })
}

/// What becomes of the pool's volumes.
fn pooled_answer(asked: Result<Answer, ClientError>, json: bool) -> anyhow::Result<ExitStatus> {
    told(asked, json, |answer: PoolAnswer| {
        let line = |one: &api::PoolVolume| format!("{}: {}\n", one.name, pool::lies(one));
        answer.pool.volumes.iter().map(line).collect::<Vec<_>>().concat()
    })
}

fn balanced(Rebalance { reach, wait }: &Rebalance, json: bool) -> anyhow::Result<ExitStatus> {
    let asked = reach.client().post("pool/rebalance", &serde_json::json!({}));
    if !wait {
        return pooled_answer(asked, json);
    }
    accepted(asked)?;
    pool::wait(reach, json, |pool| pool.volumes.iter().all(|one| one.moving.is_none()))
}

fn settled(settle: &Move, json: bool) -> anyhow::Result<ExitStatus> {
    let Move { volume: Named { reach, name }, disks, zone, wait } = settle;
    let settling = Settling { disks: disks.clone(), zone: zone.clone() };
    let asked = reach.client().have(name, "move", &settling);
    if !wait {
        return pooled_answer(asked, json);
    }
    accepted(asked)?;
    pool::wait(reach, json, |pool| {
        let mine =
            |one: &&api::PoolVolume| one.name == *name || one.snapshot_of.as_deref() == Some(name);
        pool.volumes.iter().filter(mine).all(|one| one.moving.is_none())
    })
}

pub(crate) fn run(command: &Vol, json: bool) -> anyhow::Result<ExitStatus> {
    let one = |asked: Result<Answer, ClientError>| {
        told(asked, json, |answer: VolumeAnswer| volumes(&[answer.volume]))
    };
    match command {
        Vol::Create(Create { reach, name, disk: Some(disk), size, contract, .. }) => {
            one(reach.client().post("volumes", &spec(name, disk, size, contract)?))
        }
        Vol::Create(create) => one(create.reach.client().post("pool/volumes", &in_pool(create)?)),
        Vol::Move(settle) => settled(settle, json),
        Vol::Rebalance(rebalance) => balanced(rebalance, json),
        Vol::Snapshot(Snapshot { volume: Named { reach, name }, snapshot }) => {
            let spec = NamedSpec { name: snapshot.clone() };
            pooled_answer(reach.client().have(name, "snapshots", &spec), json)
        }
        Vol::Rollback(Rm { volume: Named { reach, name }, force }) => {
            pooled_answer(reach.client().have(name, "rollback", &Forced { force: *force }), json)
        }
        Vol::Ls(reach) => {
            told(reach.client().get("volumes", None), json, |answer: VolumesAnswer| {
                volumes(&answer.volumes)
            })
        }
        Vol::Show(Named { reach, name }) => {
            told(reach.client().get("volumes", Some(name)), json, |answer: VolumeAnswer| {
                shown(&answer.volume)
            })
        }
        Vol::Set(Set { volume: Named { reach, name }, contract, no_stream: drop_stream }) => {
            let Contract { reserve, limit, weight, stream } = contract;
            let (reserve, limit, weight) = (reserve.clone(), limit.clone(), *weight);
            let (stream, drop_stream) = (stream.spec()?, *drop_stream);
            let change = VolumeChange {
                reserve,
                limit,
                weight,
                stream,
                drop_stream,
                ..VolumeChange::default()
            };
            if change == VolumeChange::default() {
                return Err(bad_input(
                    "found nothing to set, expected --reserve, --limit, --weight, --bandwidth or --no-stream",
                ));
            }
            one(reach.client().patch("volumes", name, &change))
        }
        Vol::Resize(Resize { volume: Named { reach, name }, size, force }) => {
            let (size, force) = (Some(size.clone()), *force);
            let change = VolumeChange { size, force, ..VolumeChange::default() };
            one(reach.client().patch("volumes", name, &change))
        }
        Vol::Rm(Rm { volume: Named { reach, name }, force }) => {
            let answer = accepted(reach.client().delete("volumes", name, Some(*force)))?;
            if json && answer.body == Value::Null {
                println!("{}", serde_json::json!({ "schema": stats::SCHEMA, "removed": name }));
            }
            Ok(ExitStatus::Success)
        }
    }
}

pub(crate) fn disk(command: &DiskCommand, json: bool) -> anyhow::Result<ExitStatus> {
    match command {
        DiskCommand::Ls(reach) => {
            told(reach.client().get("disks", None), json, |answer: DisksAnswer| {
                disks(&answer.disks)
            })
        }
        DiskCommand::Set(DiskSet { disk: Named { reach, name }, period }) => {
            let change = DiskChange { period: period.clone() };
            let asked = reach.client().patch("disks", name, &change);
            told(asked, json, |answer: DiskAnswer| disks(&[answer.disk]))
        }
        DiskCommand::Reopen(Named { reach, name }) => {
            let asked = reach.client().reopen(name);
            told(asked, json, |answer: DiskAnswer| disks(&[answer.disk]))
        }
    }
}

pub(crate) fn admit(admit: &Admit, json: bool) -> anyhow::Result<ExitStatus> {
    let Admit { reach, disk, size, contract, .. } = admit;
    let asked = reach.client().post("admission", &spec(NAMELESS, disk, size, contract)?);
    let answer = accepted(asked)?;
    let Admission { fits, reason, reserve_max, size_max, room, .. } =
        shape::<AdmissionAnswer>(&answer)?.admission;
    if json {
        println!("{}", answer.body);
    } else if fits {
        println!("it fits");
        if let Some(Room { tasks, utilization, slack_ms }) = room {
            let (percent, disk) = (utilization * 1e2, disk.as_str());
            println!(
                "disk \"{disk}\" would have {tasks} tasks with {percent:.1} % of its time, and {slack_ms:.1} ms of slack"
            );
        }
    } else {
        let reason = reason.map_or_else(String::new, |fault| fault.message);
        println!("it does not fit: {reason}");
        println!("disk \"{disk}\" has a reserve of {reserve_max} and a size of {size_max} left");
    }
    Ok(fits.into())
}

/// The daemon's answer, if it is no error. One that changed nothing for want of room is told and exits with 1.
pub(crate) fn accepted(asked: Result<Answer, ClientError>) -> anyhow::Result<Answer> {
    let answer = asked.map_err(bad_input)?;
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    let problem: Problem = shape(&answer)?;
    match answer.status {
        409 | 500.. => Err(anyhow::anyhow!("{}", problem.error.message)),
        _ => Err(bad_input(problem.error.message)),
    }
}

pub(crate) fn shape<T: DeserializeOwned>(answer: &Answer) -> anyhow::Result<T> {
    serde_json::from_value(answer.body.clone()).context("the daemon answers in another shape")
}

/// Prints an answer, as it came or as a table.
fn told<T: DeserializeOwned>(
    asked: Result<Answer, ClientError>,
    json: bool,
    text: impl FnOnce(T) -> String,
) -> anyhow::Result<ExitStatus> {
    let answer = accepted(asked)?;
    if json {
        println!("{}", answer.body);
    } else {
        print!("{}", text(shape(&answer)?));
    }
    Ok(ExitStatus::Success)
}

fn volumes(volumes: &[Volume]) -> String {
    let head = [
        "volume",
        "disk",
        "size",
        "reserve",
        "limit",
        "weight",
        "clients",
        "disk time",
        "requests",
    ];
    let row = |volume: &Volume| {
        vec![
            volume.name.clone(),
            volume.disk.clone(),
            volume.size.clone(),
            volume.reserve.clone(),
            volume.limit.clone(),
            volume.weight.to_string(),
            volume.connections.to_string(),
            format!("{:.3} s", volume.disk_time_s),
            volume.requests.to_string(),
        ]
    };
    table::text(&head, &volumes.iter().map(row).collect::<Vec<_>>())
}

fn shown(volume: &Volume) -> String {
    let table = volumes(std::slice::from_ref(volume));
    let balance = volume.balance_s.map_or("none".to_owned(), |balance| format!("{balance:.3} s"));
    let stream = volume.stream.as_ref().map_or_else(String::new, |stream| {
        format!(
            "stream: {} in blocks of {}: one every {:.1} ms, at most {:.1} ms of the disk each; {} in time, {} late\n",
            stream.bandwidth,
            stream.block,
            stream.period_ms,
            stream.cost_ms,
            stream.met,
            stream.missed
        )
    });
    let (had, failures) = (Bytes(volume.bytes), volume.failures);
    let at = match (&volume.pool, volume.at_bytes) {
        (Some(pool), _) => pool::lies(pool),
        (None, at) => format!("at {} of its disk", Bytes(at.unwrap_or(0))),
    };
    let latency = volume.latency_ms.map_or_else(String::new, |latency| {
        format!(
            "latency ms: mean {:.2}, p50 {:.2}, p99 {:.2}, p99.9 {:.2}, max {:.2}\n",
            latency.mean, latency.p50, latency.p99, latency.p999, latency.max
        )
    });
    format!("{table}{at}; balance {balance}; {had} moved, {failures} failures\n{stream}{latency}")
}

/// What the drive is, and how commands get to it where they do.
fn drive(disk: &Disk) -> String {
    let through = disk.access.as_ref().map(|access| format!(" ({access})"));
    format!("{}{}", disk.drive, through.unwrap_or_default())
}

/// What a disk is good for, and what it has been at for longer than any command takes.
fn state(disk: &Disk) -> String {
    const LONG_MS: f64 = 1_000.0;
    let state = match disk.state {
        DiskState::Well => "well",
        DiskState::Poisoned => "poisoned",
        DiskState::Gone => "gone",
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
        "period",
        "volumes",
        "reserved",
        "left",
        "size",
        "free",
        "in one piece",
        "state",
    ];
    let row = |disk: &Disk| {
        vec![
            disk.name.clone(),
            drive(disk),
            disk.policy.clone(),
            disk.period.clone(),
            disk.volumes.to_string(),
            disk.reserved.clone(),
            disk.left.clone(),
            Bytes(disk.capacity_bytes).to_string(),
            Bytes(disk.free_bytes).to_string(),
            Bytes(disk.gap_bytes).to_string(),
            state(disk),
        ]
    };
    table::text(&head, &disks.iter().map(row).collect::<Vec<_>>())
}
