//! `spindle vol`: the volumes of a running daemon.

use api::{
    Answer, ClientError, Forced, NamedSpec, PoolAnswer, PoolVolume, Relocate, Stream, StreamBytes,
    StreamPart, Volume, VolumeAnswer, VolumeChange, VolumeSpec, VolumesAnswer,
};
use clap::{Args, Subcommand};
use console::{ExitStatus, bad_input, println, table};
use serde_json::Value;
use units::Bytes;

use crate::contract::Contract;
use crate::daemon_api::{ApiSocket, Named, accepted, print_answer};
use crate::pool::{placement, wait};

#[derive(Debug, Subcommand)]
pub(crate) enum Vol {
    /// Create a volume. Creating the same volume again changes nothing.
    Create(Create),
    /// List all volumes with their contracts and the disk time that each has had.
    Ls(ApiSocket),
    /// Show one volume, with its latencies.
    Show(Named),
    /// Change a volume's contract, while I/O runs.
    Set(Set),
    /// Grow or shrink a volume.
    Resize(Resize),
    /// Remove a volume and its data, or a snapshot.
    Rm(Rm),
    /// Relocate a volume of the pool to another zone of its disks, or to other disks, while it is
    /// in use.
    Move(Move),
    /// Relocate volumes of the pool from its fullest disks to its emptiest, while they are in use.
    Rebalance(Rebalance),
    /// Take a snapshot of a volume of the pool.
    Snapshot(Snapshot),
    /// Return a volume to the data and size of a snapshot of it.
    Rollback(Rm),
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    #[command(flatten)]
    api: ApiSocket,
    /// Its name.
    name: String,
    /// The disk of the volume. Default: the pool.
    #[arg(long)]
    disk: Option<String>,
    /// Its size, such as 10GiB.
    #[arg(long)]
    size: String,
    #[command(flatten)]
    layout: LayoutArgs,
    /// Begin with the content of this volume or snapshot of the pool, at its placement.
    #[arg(long, value_name = "VOLUME", conflicts_with = "disk")]
    from: Option<String>,
    /// Say what it is for, such as namespace=shop; any number of times.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    #[command(flatten)]
    contract: Contract,
}

/// A label of a volume.
fn label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').ok_or("expected NAME=VALUE, such as namespace=shop");
    Ok(parts.map(|(name, value)| (name.to_owned(), value.to_owned()))?)
}

/// The placement of a volume in the pool.
#[derive(Debug, Args)]
pub(crate) struct LayoutArgs {
    /// The disks of the pool for the volume, such as d0,d1. Default: all.
    #[arg(long, value_name = "DISKS", value_delimiter = ',', conflicts_with = "disk")]
    disks: Option<Vec<String>>,
    /// The order of its blocks on the disks: single, stripe, random or mirror.
    #[arg(long, conflicts_with = "disk")]
    layout: Option<String>,
    /// The number of copies of each block of a mirror, 2 or 3.
    #[arg(long, conflicts_with = "disk")]
    copies: Option<i64>,
    /// The zone of the disks: fast, slow, any, or "fastest 10%" for their first tenth.
    #[arg(long, conflicts_with = "disk")]
    zone: Option<String>,
    /// Allocate blocks at their first write.
    #[arg(long, conflicts_with = "disk")]
    thin: bool,
    /// Keep no checksums of its data in a pool that has them.
    #[arg(long, conflicts_with = "disk")]
    no_checksums: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Move {
    #[command(flatten)]
    volume: Named,
    /// The new disks of the pool, such as d0,d1; for a stripe, as many as before.
    #[arg(long, value_name = "DISKS", value_delimiter = ',', required_unless_present = "zone")]
    disks: Option<Vec<String>>,
    /// The zone of the disks: fast, slow, any, or "fastest 10%" for their first tenth.
    #[arg(long)]
    zone: Option<String>,
    /// Wait until all of it has been relocated.
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Rebalance {
    #[command(flatten)]
    api: ApiSocket,
    /// Wait until all blocks have been relocated.
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    #[command(flatten)]
    volume: Named,
    /// The name of the snapshot.
    snapshot: String,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    #[command(flatten)]
    volume: Named,
    #[command(flatten)]
    contract: Contract,
    /// Remove its stream: the volume becomes best effort.
    #[arg(long, conflicts_with = "bandwidth")]
    no_stream: bool,
    /// Remove its bounded latency: the rest of its contract stays.
    #[arg(long, conflicts_with = "latency")]
    no_latency: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Resize {
    #[command(flatten)]
    volume: Named,
    /// Its new size, such as 20GiB.
    size: String,
    /// Disconnect the clients of a volume that shrinks.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Rm {
    #[command(flatten)]
    volume: Named,
    /// Disconnect its clients, after their requests in flight are answered.
    #[arg(long)]
    force: bool,
}

impl LayoutArgs {
    /// The volume with this placement in the pool.
    pub(crate) fn place(&self, volume: VolumeSpec) -> VolumeSpec {
        let Self { disks, layout, copies, zone, thin, no_checksums } = self;
        VolumeSpec {
            disks: disks.clone(),
            layout: layout.clone(),
            copies: *copies,
            zone: zone.clone(),
            thin: thin.then_some(true),
            checksums: no_checksums.then_some(false),
            ..volume
        }
    }
}

fn create(create: &Create) -> anyhow::Result<Result<Answer, ClientError>> {
    let Create { api, name, disk, size, layout, from, labels, contract } = create;
    let labels = (!labels.is_empty()).then(|| labels.iter().cloned().collect());
    let volume = contract.volume(name, disk.as_deref(), size)?;
    let volume = layout.place(VolumeSpec { source: from.clone(), labels, ..volume });
    let to = if disk.is_some() { "volumes" } else { "pool/volumes" };
    Ok(api.client().post(to, &volume))
}

/// Prints where each volume of the pool lies.
fn print_pool_volumes(
    answer: Result<Answer, ClientError>,
    json: bool,
) -> anyhow::Result<ExitStatus> {
    print_answer(answer, json, |answer: PoolAnswer| {
        let line = |one: &PoolVolume| format!("{}: {}\n", one.name, placement(one));
        answer.pool.volumes.iter().map(line).collect::<Vec<_>>().concat()
    })
}

fn rebalance(Rebalance { api, wait: waits }: &Rebalance, json: bool) -> anyhow::Result<ExitStatus> {
    let answer = api.client().post("pool/rebalance", &serde_json::json!({}));
    if !waits {
        return print_pool_volumes(answer, json);
    }
    accepted(answer)?;
    wait(api, json, |pool| pool.volumes.iter().all(|one| one.moving.is_none()))
}

fn relocate(args: &Move, json: bool) -> anyhow::Result<ExitStatus> {
    let Move { volume: Named { api, name }, disks, zone, wait: waits } = args;
    let relocate = Relocate { disks: disks.clone(), zone: zone.clone() };
    let answer = api.client().have(name, "move", &relocate);
    if !waits {
        return print_pool_volumes(answer, json);
    }
    accepted(answer)?;
    wait(api, json, |pool| {
        let mine =
            |one: &&PoolVolume| one.name == *name || one.snapshot_of.as_deref() == Some(name);
        pool.volumes.iter().filter(mine).all(|one| one.moving.is_none())
    })
}

pub(crate) fn run(command: &Vol, json: bool) -> anyhow::Result<ExitStatus> {
    let one = |answer: Result<Answer, ClientError>| {
        print_answer(answer, json, |answer: VolumeAnswer| volumes(&[answer.volume]))
    };
    match command {
        Vol::Create(args) => one(create(args)?),
        Vol::Move(args) => relocate(args, json),
        Vol::Rebalance(args) => rebalance(args, json),
        Vol::Snapshot(Snapshot { volume: Named { api, name }, snapshot }) => {
            let spec = NamedSpec { name: snapshot.clone() };
            print_pool_volumes(api.client().have(name, "snapshots", &spec), json)
        }
        Vol::Rollback(Rm { volume: Named { api, name }, force }) => {
            print_pool_volumes(api.client().have(name, "rollback", &Forced { force: *force }), json)
        }
        Vol::Ls(api) => {
            print_answer(api.client().get("volumes", None), json, |answer: VolumesAnswer| {
                volumes(&answer.volumes)
            })
        }
        Vol::Show(Named { api, name }) => {
            print_answer(api.client().get("volumes", Some(name)), json, |answer: VolumeAnswer| {
                shown(&answer.volume)
            })
        }
        Vol::Set(Set { volume: Named { api, name }, contract, no_stream, no_latency }) => {
            let (drop_stream, drop_latency) = (*no_stream, *no_latency);
            let change = VolumeChange { drop_stream, drop_latency, ..contract.change()? };
            if change == VolumeChange::default() {
                return Err(bad_input(
                    "found nothing to set, expected --reserve, --limit, --weight, --priority, \
                     --iops, --bandwidth, --latency, --no-stream or --no-latency",
                ));
            }
            one(api.client().patch("volumes", name, &change))
        }
        Vol::Resize(Resize { volume: Named { api, name }, size, force }) => {
            let (size, force) = (Some(size.clone()), *force);
            let change = VolumeChange { size, force, ..VolumeChange::default() };
            one(api.client().patch("volumes", name, &change))
        }
        Vol::Rm(Rm { volume: Named { api, name }, force }) => {
            let answer = accepted(api.client().delete("volumes", name, Some(*force)))?;
            if json && answer.body == Value::Null {
                println!("{}", serde_json::json!({ "schema": stats::SCHEMA, "removed": name }));
            }
            Ok(ExitStatus::Success)
        }
    }
}

/// What was asked for beyond the contract: bytes of a stream, or requests of a bounded latency.
fn beyond(volume: &Volume) -> String {
    let bytes = volume.stream.as_ref().and_then(|stream| stream.bytes);
    let bytes = bytes.map(|bytes| Bytes(bytes.beyond()).to_string());
    let requests = volume.latency.as_ref().map(|latency| format!("{} requests", latency.beyond));
    bytes.or(requests).unwrap_or_else(|| "-".to_owned())
}

/// A disk of a stream in parts, and when it keeps the stream.
fn stream_part(part: &StreamPart) -> String {
    let StreamPart { disk, size, from_s, until_s } = part;
    format!("stream part: {size} on {disk}, from {from_s:.3} s to {until_s:.3} s\n")
}

/// How many losses a mirror's stream survives, and the disks that keep it, if not all do.
fn survival(stream: &Stream) -> String {
    let Some(survive) = stream.survive else { return String::new() };
    let disks = match survive {
        1 => "1 disk".to_owned(),
        count => format!("{count} disks"),
    };
    let kept = stream.disks.join(", ");
    let kept = if kept.is_empty() { kept } else { format!(", kept by {kept} for reads") };
    format!("stream survives {disks}{kept}\n")
}

/// The bytes of a stream: in time, late, and not real time.
fn stream_bytes(bytes: &StreamBytes) -> String {
    let closest = bytes.closest_ms.map_or("none yet".to_owned(), |ms| format!("{ms:.1} ms"));
    format!(
        "bytes: {} in time, {} late; not real time: {} beyond the bandwidth, {} out of order, {} \
         outside of the stream; {} not gathered; closest call {closest}\n",
        Bytes(bytes.met),
        Bytes(bytes.missed),
        Bytes(bytes.beyond_rate),
        Bytes(bytes.out_of_order),
        Bytes(bytes.outside),
        Bytes(bytes.not_gathered),
    )
}

/// When each disk keeps a stream in parts.
fn spans(volume: &Volume) -> String {
    let parts = volume.stream.iter().flat_map(|stream| &stream.parts);
    let span = |StreamPart { disk, from_s, until_s, .. }: &StreamPart| {
        format!("{disk} {from_s:.0}-{until_s:.0} s")
    };
    let spans: Vec<String> = parts.map(span).collect();
    if spans.is_empty() { "-".to_owned() } else { spans.join(", ") }
}

fn volumes(volumes: &[Volume]) -> String {
    // Few pools have streams in parts.
    let has_spans = volumes.iter().any(|volume| spans(volume) != "-");
    let mut head = vec![
        "volume",
        "disk",
        "size",
        "contract",
        "limit",
        "weight",
        "priority",
        "left",
        "worth",
        "deadlines",
        "beyond",
        "clients",
        "disk time",
        "requests",
    ];
    if has_spans {
        head.push("spans");
    }
    let row = |volume: &Volume| {
        let mut row = vec![
            volume.name.clone(),
            volume.disk.clone(),
            volume.size.clone(),
            volume.contract(),
            volume.limit.clone(),
            volume.weight.to_string(),
            volume.priority.clone().unwrap_or_else(|| "normal".to_owned()),
            volume.balance_s.map_or_else(|| "-".to_owned(), |left| format!("{left:.3} s")),
            volume.worth.map_or_else(|| "-".to_owned(), |worth| format!("{worth:.2}")),
            volume.deadlines().map_or_else(
                || "-".to_owned(),
                |(met, missed)| format!("{met} met, {missed} missed"),
            ),
            beyond(volume),
            volume.clients(),
            format!("{:.3} s", volume.disk_time_s),
            volume.requests.to_string(),
        ];
        row.extend(has_spans.then(|| spans(volume)));
        row
    };
    table::text(&head, &volumes.iter().map(row).collect::<Vec<_>>())
}

fn shown(volume: &Volume) -> String {
    let table = volumes(std::slice::from_ref(volume));
    let balance = volume.balance_s.map_or("none".to_owned(), |balance| format!("{balance:.3} s"));
    let stream = volume.stream.as_ref().map_or_else(String::new, |stream| {
        format!(
            "stream: {} in blocks of {}{}: one every {:.1} ms, at most {:.1} ms of disk time each \
             ({:.1} % of the disk); {} in time, {} late\n{}{}{}",
            stream.bandwidth,
            stream.block,
            stream.order.as_deref().map_or_else(String::new, |order| format!(", {order} order")),
            stream.period_ms,
            stream.cost_ms,
            stream.cost_ms / stream.period_ms * 1e2,
            stream.met,
            stream.missed,
            stream.parts.iter().map(stream_part).collect::<String>(),
            survival(stream),
            stream.bytes.as_ref().map_or_else(String::new, stream_bytes)
        )
    });
    let bounded = volume.latency.as_ref().map_or_else(String::new, |latency| {
        let closest = latency.closest_ms.map_or("none yet".to_owned(), |ms| format!("{ms:.1} ms"));
        format!(
            "bounded latency: {} ms for {:.1}/s, {} at once, of at most {}: at most {:.1} ms of \
             disk time each; {} in time, {} late, {} outside of the contract; closest call \
             {closest}\n",
            latency.within_ms,
            latency.requests_per_s,
            latency.burst,
            latency.size,
            latency.cost_ms,
            latency.answered - latency.late,
            latency.late,
            latency.beyond
        )
    });
    let (transferred, failures) = (Bytes(volume.bytes), volume.failures);
    let at = match (&volume.pool, volume.at_bytes) {
        (Some(pool), _) => placement(pool),
        (None, at) => format!("at {} of its disk", Bytes(at.unwrap_or(0))),
    };
    let latency = volume.latency_ms.map_or_else(String::new, |latency| {
        format!(
            "latency ms: mean {:.2}, p50 {:.2}, p99 {:.2}, p99.9 {:.2}, max {:.2}\n",
            latency.mean, latency.p50, latency.p99, latency.p999, latency.max
        )
    });
    let labels = volume.labels.iter().map(|(name, value)| format!("label {name}={value}\n"));
    let labels: String = labels.collect();
    format!(
        "{table}{at}; balance {balance}; {transferred} transferred, {failures} \
         failures\n{stream}{bounded}{latency}{labels}"
    )
}
