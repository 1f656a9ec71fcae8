//! `spindle check`: every error of a config, before it is served or simulated.

use std::path::{Path, PathBuf};

use api::StreamPart;
use clap::Args;
use config::limits::ERRORS_MAX;
use config::{ConfigError, DiskIndex, Plan, PoolVolume, Purpose};
use console::{ExitStatus, eprintln, print, println, table};
use serde::Serialize;
use stats::SCHEMA;
use units::{Bytes, Share};

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The config or the scenario.
    config: PathBuf,
    /// Check it as a scenario of `sim run`, not as a config of `serve`.
    #[arg(long)]
    sim: bool,
}

#[derive(Debug, Serialize)]
struct Checked {
    schema: u32,
    file: String,
    ok: bool,
    errors: Vec<Shown>,
    disks: Vec<DiskShown>,
    /// Of a config without errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stream_parts: Vec<PartShown>,
    /// Of a config without errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stream_disks: Vec<DisksShown>,
    /// What a new pool would refuse and one that is there may have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// One error.
#[derive(Debug, Serialize)]
struct Shown {
    line: Option<usize>,
    table: Option<String>,
    field: Option<String>,
    found: Option<String>,
    expected: String,
    /// Whether the value is right in itself and asks for more than is available.
    refused: bool,
    message: String,
}

/// One disk of a config without errors.
#[derive(Debug, Serialize)]
struct DiskShown {
    name: String,
    drive: String,
    policy: String,
    size_bytes: u64,
    volumes: usize,
    reserved: String,
    available: String,
}

/// When a disk keeps the stream of a pool's volume, of a stream in parts.
#[derive(Debug, Serialize)]
struct PartShown {
    volume: String,
    #[serde(flatten)]
    part: StreamPart,
}

/// The disks that keep the stream of a mirror, if others do without.
#[derive(Debug, Serialize)]
struct DisksShown {
    volume: String,
    /// How many of the mirror's disks may be lost before the stream is best effort.
    survive: u8,
    disks: Vec<String>,
}

pub(crate) fn run(check: &Check, json: bool) -> anyhow::Result<ExitStatus> {
    let file = check.config.display().to_string();
    let purpose = if check.sim { Purpose::Simulation } else { Purpose::Serve };
    let checked = Plan::check_file(&check.config, purpose);
    let plan = checked.as_ref().ok();
    let errors = checked.as_ref().err().into_iter().flatten().map(shown).collect::<Vec<_>>();
    let disks = plan.map_or_else(Vec::new, disks);
    let stream_parts = plan.map_or_else(Vec::new, stream_parts);
    let stream_disks = plan.map_or_else(Vec::new, stream_disks);
    let ok = errors.is_empty();
    let warnings: Vec<String> = checked.iter().filter_map(not_created).collect();
    if json {
        let (schema, file) = (SCHEMA, file.clone());
        let checked =
            Checked { schema, file, ok, errors, disks, stream_parts, stream_disks, warnings };
        println!("{}", serde_json::to_string(&checked)?);
    } else if ok {
        print!("{}", table_of(&disks));
        if !stream_parts.is_empty() {
            print!("\n{}", table_of_parts(&stream_parts));
        }
        if !stream_disks.is_empty() {
            print!("\n{}", table_of_stream_disks(&stream_disks));
        }
        for warning in &warnings {
            eprintln!("warning: {warning}");
        }
    } else {
        for error in &errors {
            eprintln!("{}", error.message);
        }
    }
    if ok {
        return Ok(ExitStatus::Success);
    }
    let count = checked.map_or_else(|errors| errors.len(), |_| 0);
    Err(console::bad_input(summary(&file, count)))
}

/// Why a new pool would not have the volumes of the plan. A pool that is there may have them, and
/// is served: a mirror, for example, whose copies were placed before its disks had domains.
fn not_created(plan: &Plan) -> Option<String> {
    let refused = plan.pool.as_ref()?.create(&plan.disks).err()?;
    let volume = refused.volume.map_or_else(String::new, |name| format!(" volume \"{name}\""));
    Some(format!("line {}: a new pool refuses{volume}: {}", refused.line, refused.reason))
}

fn summary(file: &str, count: usize) -> String {
    match count {
        1 => format!("{file}: 1 error"),
        ERRORS_MAX.. => format!("{file}: {count} errors, or more"),
        _ => format!("{file}: {count} errors"),
    }
}

fn shown(error: &ConfigError) -> Shown {
    Shown {
        line: error.line(),
        table: error.table().map(str::to_owned),
        field: error.field().map(str::to_owned),
        found: error.found().map(str::to_owned),
        expected: error.expected().to_owned(),
        refused: error.is_refusal(),
        message: error.to_string(),
    }
}

fn disks(plan: &Plan) -> Vec<DiskShown> {
    let disk = |(index, disk): (usize, &config::Disk)| {
        let own = plan.volumes.iter().filter(|volume| volume.disk.0 == index);
        let pool = plan.pool.iter().filter(|pool| pool.disks.contains(&DiskIndex(index)));
        let pooled = pool.clone().flat_map(|pool| &pool.volumes);
        let pooled = pooled.filter(|volume| volume.parts.iter().any(|part| part.disk.0 == index));
        let reserves = own.clone().map(|volume| volume.contract.reserve);
        let of_pool = pooled.clone().map(|volume| volume.contract(DiskIndex(index)).reserve);
        let of_pool_itself = pool.flat_map(|pool| pool.own_contracts(disk));
        let of_pool_itself = of_pool_itself.map(|(_, contract)| contract.reserve);
        let reserves = reserves.chain(of_pool).chain(of_pool_itself);
        let reserved = reserves
            .fold(Share::NONE, |sum, reserve| sum.checked_add(reserve).unwrap_or(Share::ALL));
        DiskShown {
            name: disk.name.clone(),
            drive: disk.drive.name.clone(),
            policy: disk.policy.to_string(),
            size_bytes: disk.drive.model.capacity().bytes().0,
            volumes: own.count() + pooled.count(),
            reserved: reserved.to_string(),
            available: Share::ALL.saturating_sub(reserved).to_string(),
        }
    };
    plan.disks.iter().enumerate().map(disk).collect()
}

fn table_of(disks: &[DiskShown]) -> String {
    let head = ["disk", "drive", "policy", "size", "volumes", "reserved", "available"];
    let row = |disk: &DiskShown| {
        vec![
            disk.name.clone(),
            disk.drive.clone(),
            disk.policy.clone(),
            Bytes(disk.size_bytes).to_string(),
            disk.volumes.to_string(),
            disk.reserved.clone(),
            disk.available.clone(),
        ]
    };
    table::text(&head, &disks.iter().map(row).collect::<Vec<_>>())
}

/// The disks of all streams in parts, in the file's order.
fn stream_parts(plan: &Plan) -> Vec<PartShown> {
    let of = |volume: &PoolVolume| -> Vec<PartShown> {
        let parts = api::stream_parts(plan, volume).into_iter();
        parts.map(|part| PartShown { volume: volume.name.clone(), part }).collect()
    };
    plan.pool.iter().flat_map(|pool| &pool.volumes).flat_map(of).collect()
}

fn table_of_parts(parts: &[PartShown]) -> String {
    let row = |PartShown { volume, part }: &PartShown| {
        let StreamPart { disk, size, from_s, until_s } = part;
        let times = [format!("{from_s:.3}"), format!("{until_s:.3}")];
        [volume.clone(), disk.clone(), size.clone()].into_iter().chain(times).collect()
    };
    let head = ["stream", "disk", "part", "from s", "until s"];
    table::text(&head, &parts.iter().map(row).collect::<Vec<_>>())
}

/// The disks of all streams that some of their mirror's disks do without, in the file's order.
fn stream_disks(plan: &Plan) -> Vec<DisksShown> {
    let of = |volume: &PoolVolume| {
        let (volume, survive, disks) =
            (volume.name.clone(), volume.stream?.survive, api::read_disks(plan, volume));
        (!disks.is_empty()).then_some(DisksShown { volume, survive, disks })
    };
    plan.pool.iter().flat_map(|pool| &pool.volumes).filter_map(of).collect()
}

fn table_of_stream_disks(streams: &[DisksShown]) -> String {
    let row = |DisksShown { volume, survive, disks }: &DisksShown| {
        vec![volume.clone(), survive.to_string(), disks.join("+")]
    };
    let head = ["stream for reads", "survives", "kept by"];
    table::text(&head, &streams.iter().map(row).collect::<Vec<_>>())
}

/// The config of a path that another command was given, if it has no errors.
pub(crate) fn plan(path: &Path) -> anyhow::Result<Plan> {
    Plan::check_file(path, Purpose::Serve).map_err(|errors| {
        for error in errors.iter().skip(1) {
            eprintln!("{error}");
        }
        console::bad_input(&errors[0])
    })
}
