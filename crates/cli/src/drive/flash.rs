//! `spindle drive ls` and `show` of flash drives: what the models do, worked out by asking them.

use std::path::PathBuf;
use std::sync::Arc;

use drive::{FlashDevice, FlashModel, Tag};
use plot::{Line, Plot};
use serde::Serialize;
use sim::Dice;
use stats::Latency;
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

use crate::exit::{Ended, bad_input};
use crate::table;

/// The block of random reads and writes.
const BLOCK: Sectors = Sectors(8);
/// The request of streams.
const STREAM: Sectors = Sectors(256);
const STREAM_DEPTH: u32 = 32;
const SEED: u64 = 1;
/// Fills a write buffer, so that writes go as fast as flash takes them.
const WARM: Duration = Duration::from_millis(600);
const MEASURED: Duration = Duration::from_millis(300);
/// Random writes outstanding beside the reads of the mixed figure.
const BESIDE: u32 = 1;
const FLUSHES: u64 = 100;
/// Tags of writes beside reads.
const WRITE_TAG: u64 = 1 << 63;

/// What a flash drive does, in the shape of `spindle drive ls --json` and `show --json`.
#[derive(Debug, Serialize)]
pub(super) struct Facts {
    kind: &'static str,
    name: String,
    sectors: u64,
    bytes: u64,
    channels: u32,
    dies: u32,
    queue_depth_max: u32,
    power_loss_protection: bool,
    write_amplification: f64,
    random_read_4k_ms: f64,
    random_read_4k_iops: f64,
    random_write_4k_ms: f64,
    random_write_4k_iops: f64,
    read_bytes_per_s: f64,
    write_bytes_per_s: f64,
    flush_ms: f64,
}

/// One row of `show`.
#[derive(Debug, Serialize)]
struct Row {
    depth: u32,
    read_iops: f64,
    read_mean_ms: f64,
    read_p99_ms: f64,
    /// Random writes that go on as fast as one outstanding can, and the reads beside them.
    beside_writes_read_iops: f64,
    beside_writes_read_mean_ms: f64,
    beside_writes_read_p99_ms: f64,
    beside_writes_write_iops: f64,
    write_iops: f64,
    write_mean_ms: f64,
    write_p99_ms: f64,
}

#[derive(Debug, Serialize)]
struct Shown<'a> {
    schema: u32,
    #[serde(flatten)]
    facts: &'a Facts,
    depths: &'a [Row],
    files: &'a [PathBuf],
}

/// What is kept outstanding.
#[derive(Clone, Copy)]
struct Load {
    reads: u32,
    writes: u32,
    len: Sectors,
    random: bool,
}

impl Load {
    const fn random(reads: u32, writes: u32) -> Self {
        Self { reads, writes, len: BLOCK, random: true }
    }

    const fn stream(reads: u32, writes: u32) -> Self {
        Self { reads, writes, len: STREAM, random: false }
    }
}

/// What came of it, reads and writes.
#[derive(Default)]
struct Measured {
    reads: Latency,
    writes: Latency,
}

/// Keeps a load on the drive, and measures it once writes have filled the buffer.
fn measure(model: &Arc<FlashModel>, load: Load, warm: Duration) -> Measured {
    let mut device = FlashDevice::new(Arc::clone(model));
    let mut dice = Dice::new(SEED, 0);
    let len = load.len.min(model.capacity());
    let blocks = (model.capacity().0 / len.0).max(1);
    let mut sent = 0;
    let mut send = |device: &mut FlashDevice, now, write: bool| {
        let block = if load.random { dice.below(blocks) } else { sent % blocks };
        let extent = Extent::new(Lba(block * len.0), len);
        let operation = if write { Operation::write(extent) } else { Operation::read(extent) };
        device.submit(now, Tag(sent | if write { WRITE_TAG } else { 0 }), operation);
        sent += 1;
    };
    (0..load.writes).for_each(|_| send(&mut device, Instant::ZERO, true));
    (0..load.reads).for_each(|_| send(&mut device, Instant::ZERO, false));
    let (begin, end) = (Instant::ZERO + warm, Instant::ZERO + warm + MEASURED);
    let mut measured = Measured::default();
    while let Some(now) = device.next_completion().filter(|at| *at <= end) {
        while let Some(done) = device.complete(now) {
            let write = done.tag.0 & WRITE_TAG != 0;
            if done.at >= begin {
                let latency = if write { &mut measured.writes } else { &mut measured.reads };
                latency.record(done.parts.sum());
            }
            send(&mut device, now, write);
        }
    }
    measured
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn rate(latency: &Latency) -> f64 {
    latency.count() as f64 / MEASURED.as_secs_f64()
}

/// The mean time of one write from rest: none waits for room.
fn write_ms(model: &Arc<FlashModel>) -> f64 {
    let mut device = FlashDevice::new(Arc::clone(model));
    let done = alone(&mut device, Instant::ZERO, Operation::write(Extent::new(Lba(0), BLOCK)));
    done.since(Instant::ZERO).as_millis_f64()
}

/// When it is done, with nothing beside it.
fn alone(device: &mut FlashDevice, now: Instant, operation: Operation) -> Instant {
    device.submit(now, Tag(0), operation);
    loop {
        let then = device.next_completion().expect("one is inside");
        if let Some(done) = device.complete(then) {
            return done.at;
        }
    }
}

/// The mean time of a flush after one random write.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn flush_ms(model: &Arc<FlashModel>) -> f64 {
    let mut device = FlashDevice::new(Arc::clone(model));
    let mut dice = Dice::new(SEED, 0);
    let blocks = (model.capacity().0 / BLOCK.0).max(1);
    let (mut now, mut waited) = (Instant::ZERO, Duration::ZERO);
    for _ in 0..FLUSHES {
        let extent = Extent::new(Lba(dice.below(blocks) * BLOCK.0), BLOCK);
        let written = alone(&mut device, now, Operation::write(extent));
        now = alone(&mut device, written, Operation::flush());
        waited += now.since(written);
    }
    waited.as_millis_f64() / FLUSHES as f64
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
pub(super) fn facts(name: &str, model: &Arc<FlashModel>) -> Facts {
    let depth = model.queue_depth_max();
    let reads = |depth| measure(model, Load::random(depth, 0), Duration::ZERO).reads;
    let bytes = |latency: &Latency| rate(latency) * STREAM.bytes().0 as f64;
    let spec = model.spec();
    Facts {
        kind: "flash",
        name: name.to_owned(),
        sectors: model.capacity().0,
        bytes: model.capacity().bytes().0,
        channels: spec.nand.channels,
        dies: model.dies(),
        queue_depth_max: depth,
        power_loss_protection: spec.power_loss_protection,
        write_amplification: f64::from(spec.nand.write_amplification.0) / 1e3,
        random_read_4k_ms: reads(1).millis().mean,
        random_read_4k_iops: rate(&reads(depth)),
        random_write_4k_ms: write_ms(model),
        random_write_4k_iops: rate(&measure(model, Load::random(0, depth), WARM).writes),
        read_bytes_per_s: bytes(&measure(model, stream(depth, false), Duration::ZERO).reads),
        write_bytes_per_s: bytes(&measure(model, stream(depth, true), WARM).writes),
        flush_ms: flush_ms(model),
    }
}

fn stream(depth_max: u32, write: bool) -> Load {
    let depth = STREAM_DEPTH.min(depth_max);
    if write { Load::stream(0, depth) } else { Load::stream(depth, 0) }
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn row(facts: &Facts) -> Vec<String> {
    vec![
        facts.name.clone(),
        format!("{:.2}", facts.bytes as f64 / 1e9),
        facts.dies.to_string(),
        format!("{:.1}", facts.random_read_4k_ms * 1e3),
        format!("{:.0}", facts.random_read_4k_iops),
        format!("{:.1}", facts.random_write_4k_ms * 1e3),
        format!("{:.0}", facts.random_write_4k_iops),
        format!("{:.0}", facts.read_bytes_per_s / 1e6),
        format!("{:.0}", facts.write_bytes_per_s / 1e6),
        format!("{:.1}", facts.flush_ms * 1e3),
    ]
}

pub(super) fn print(all: &[Facts]) {
    let head = [
        "flash drive",
        "GB",
        "dies",
        "read us",
        "reads/s",
        "write us",
        "writes/s",
        "read MB/s",
        "write MB/s",
        "flush us",
    ];
    print!("{}", table::text(&head, &all.iter().map(row).collect::<Vec<_>>()));
}

fn at_depth(model: &Arc<FlashModel>, depth: u32) -> Row {
    let reads = measure(model, Load::random(depth, 0), Duration::ZERO).reads;
    let writes = measure(model, Load::random(0, depth), WARM).writes;
    // Together no more than the queue holds.
    let most = model.queue_depth_max();
    let writes_beside = BESIDE.min(most - 1);
    let beside = Load::random(depth.min(most - writes_beside), writes_beside);
    let both = measure(model, beside, WARM);
    Row {
        depth,
        read_iops: rate(&reads),
        read_mean_ms: reads.millis().mean,
        read_p99_ms: reads.millis().p99,
        beside_writes_read_iops: rate(&both.reads),
        beside_writes_read_mean_ms: both.reads.millis().mean,
        beside_writes_read_p99_ms: both.reads.millis().p99,
        beside_writes_write_iops: rate(&both.writes),
        write_iops: rate(&writes),
        write_mean_ms: writes.millis().mean,
        write_p99_ms: writes.millis().p99,
    }
}

fn print_depths(depths: &[Row]) {
    let head = [
        "depth",
        "reads/s",
        "mean us",
        "p99 us",
        "reads/s beside writes",
        "mean us",
        "p99 us",
        "writes/s alone",
        "mean us",
        "p99 us",
    ];
    let row = |at: &Row| {
        let us = |ms: f64| format!("{:.1}", ms * 1e3);
        let count = |rate: f64| format!("{rate:.0}");
        vec![
            at.depth.to_string(),
            count(at.read_iops),
            us(at.read_mean_ms),
            us(at.read_p99_ms),
            count(at.beside_writes_read_iops),
            us(at.beside_writes_read_mean_ms),
            us(at.beside_writes_read_p99_ms),
            count(at.write_iops),
            us(at.write_mean_ms),
            us(at.write_p99_ms),
        ]
    };
    println!();
    print!("{}", table::text(&head, &depths.iter().map(row).collect::<Vec<_>>()));
}

/// Mean and 99th percentile of reads against the depth, alone and beside writes.
fn plot(name: &str, depths: &[Row]) -> Plot {
    let line = |name: &str, dashed, ms: fn(&Row) -> f64| Line {
        name: name.to_owned(),
        points: depths.iter().map(|at| (f64::from(at.depth), ms(at))).collect(),
        dashed,
    };
    Plot {
        caption: format!("{name}: random 4 KiB reads, alone and beside writes"),
        x: "reads outstanding".to_owned(),
        y: "latency, ms".to_owned(),
        lines: vec![
            line("mean", false, |at| at.read_mean_ms),
            line("99 %", true, |at| at.read_p99_ms),
            line("mean, beside writes", false, |at| at.beside_writes_read_mean_ms),
            line("99 %, beside writes", true, |at| at.beside_writes_read_p99_ms),
        ],
        ..Plot::default()
    }
}

pub(super) fn show(
    name: &str,
    model: &Arc<FlashModel>,
    out: Option<&PathBuf>,
    json: bool,
) -> anyhow::Result<Ended> {
    let facts = facts(name, model);
    let powers = (0..).map(|power| 1 << power).take_while(|d| *d <= model.queue_depth_max());
    let depths: Vec<_> = powers.map(|depth| at_depth(model, depth)).collect();
    let mut files = Vec::new();
    if let Some(out) = out {
        std::fs::create_dir_all(out)
            .map_err(|error| bad_input(format!("{}: {error}", out.display())))?;
        let path = out.join(format!("{name}-latency.svg"));
        plot(name, &depths).write(&path)?;
        files.push(path);
    }
    if json {
        let (schema, facts, depths, files) = (stats::SCHEMA, &facts, &depths[..], &files[..]);
        println!("{}", serde_json::to_string(&Shown { schema, facts, depths, files })?);
        return Ok(Ended::Held);
    }
    print(&[facts]);
    print_depths(&depths);
    for file in &files {
        eprintln!("wrote {}", file.display());
    }
    Ok(Ended::Held)
}
