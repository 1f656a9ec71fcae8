//! The data sheet of a flash drive.

use std::sync::Arc;

use drive::{FlashDevice, FlashModel, Tag};
use serde::Serialize;
use stats::Latency;
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

use crate::SeededRng;

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

/// The figures of a flash drive, in the shape of `spindle drive ls --json` and
/// `spindle drive show --json`.
#[derive(Debug, Serialize)]
pub struct Flash {
    /// `flash`.
    pub kind: &'static str,
    /// The drive's name.
    pub name: String,
    /// Capacity in sectors.
    pub sectors: u64,
    /// Capacity in bytes.
    pub bytes: u64,
    /// Channels of its controller.
    pub channels: u32,
    /// Flash dies.
    pub dies: u32,
    /// Commands that its queue holds.
    pub queue_depth_max: u32,
    /// Whether its write buffer survives a loss of power.
    pub power_loss_protection: bool,
    /// Bytes written to flash for each byte that the host writes.
    pub write_amplification: f64,
    /// Mean service time of a random read of 4 KiB at depth 1.
    pub random_read_4k_ms: f64,
    /// Random reads of 4 KiB a second at the full queue depth.
    pub random_read_4k_iops: f64,
    /// Service time of a random write of 4 KiB to an idle drive.
    pub random_write_4k_ms: f64,
    /// Random writes of 4 KiB a second at the full queue depth, with a full write buffer.
    pub random_write_4k_iops: f64,
    /// Rate of sequential reads of 128 KiB.
    pub read_bytes_per_s: f64,
    /// Rate of sequential writes of 128 KiB, with a full write buffer.
    pub write_bytes_per_s: f64,
    /// Mean time of a flush after one random write.
    pub flush_ms: f64,
}

/// Rates and latencies of random requests of 4 KiB at one queue depth.
#[derive(Debug, Serialize)]
pub struct Depth {
    /// Requests outstanding.
    pub depth: u32,
    /// Reads a second, without writes.
    pub read_iops: f64,
    /// Mean latency of reads, without writes.
    pub read_mean_ms: f64,
    /// 99th percentile of the latency of reads, without writes.
    pub read_p99_ms: f64,
    /// Reads a second with one random write outstanding at any time.
    pub beside_writes_read_iops: f64,
    /// Mean latency of those reads.
    pub beside_writes_read_mean_ms: f64,
    /// 99th percentile of the latency of those reads.
    pub beside_writes_read_p99_ms: f64,
    /// Writes a second beside the reads.
    pub beside_writes_write_iops: f64,
    /// Writes a second, without reads.
    pub write_iops: f64,
    /// Mean latency of writes, without reads.
    pub write_mean_ms: f64,
    /// 99th percentile of the latency of writes, without reads.
    pub write_p99_ms: f64,
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
    let mut rng = SeededRng::new(SEED, 0);
    let len = load.len.min(model.capacity());
    let blocks = (model.capacity().0 / len.0).max(1);
    let mut sent = 0;
    let mut send = |device: &mut FlashDevice, now, write: bool| {
        let block = if load.random { rng.below(blocks) } else { sent % blocks };
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
    let mut rng = SeededRng::new(SEED, 0);
    let blocks = (model.capacity().0 / BLOCK.0).max(1);
    let (mut now, mut waited) = (Instant::ZERO, Duration::ZERO);
    for _ in 0..FLUSHES {
        let extent = Extent::new(Lba(rng.below(blocks) * BLOCK.0), BLOCK);
        let written = alone(&mut device, now, Operation::write(extent));
        now = alone(&mut device, written, Operation::flush());
        waited += now.since(written);
    }
    waited.as_millis_f64() / FLUSHES as f64
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn flash(name: &str, model: &Arc<FlashModel>) -> Flash {
    let depth = model.queue_depth_max();
    let reads = |depth| measure(model, Load::random(depth, 0), Duration::ZERO).reads;
    let bytes = |latency: &Latency| rate(latency) * STREAM.bytes().0 as f64;
    let spec = model.spec();
    Flash {
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

fn at_depth(model: &Arc<FlashModel>, depth: u32) -> Depth {
    let reads = measure(model, Load::random(depth, 0), Duration::ZERO).reads;
    let writes = measure(model, Load::random(0, depth), WARM).writes;
    // Together no more than the queue holds.
    let most = model.queue_depth_max();
    let writes_beside = BESIDE.min(most - 1);
    let beside = Load::random(depth.min(most - writes_beside), writes_beside);
    let both = measure(model, beside, WARM);
    Depth {
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

impl Flash {
    /// Measures the drive `model`, which is called `name`.
    pub fn of(name: &str, model: &Arc<FlashModel>) -> Self {
        flash(name, model)
    }
}

/// Measures the drive at each power of two up to its queue depth.
pub fn depths(model: &Arc<FlashModel>) -> Vec<Depth> {
    let powers = (0..).map(|power| 1 << power).take_while(|d| *d <= model.queue_depth_max());
    powers.map(|depth| at_depth(model, depth)).collect()
}
