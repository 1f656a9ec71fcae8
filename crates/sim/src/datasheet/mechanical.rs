//! The data sheet of a mechanical drive.

use std::sync::Arc;

use drive::{CacheBypass, Device, DurableCosts, Model, Tag};
use serde::Serialize;
use units::{Extent, Instant, Lba, Operation, Sectors};

use crate::SeededRng;

/// The block of the random reads.
const BLOCK: Sectors = Sectors(8);
const RANDOM_READS: u64 = 20_000;
/// The request of the sequential reads: long enough that overheads do not count.
const STREAM: Sectors = Sectors(2_048);
const STREAM_READS: u64 = 64;
const SEED: u64 = 1;

/// The figures of a mechanical drive, in the shape of `spindle drive ls --json` and
/// `spindle drive show --json`.
#[derive(Debug, Serialize)]
pub struct Mechanical {
    /// `mechanical`.
    pub kind: &'static str,
    /// The drive's name.
    pub name: String,
    /// Capacity in sectors.
    pub sectors: u64,
    /// Capacity in bytes.
    pub bytes: u64,
    /// Revolutions a minute.
    pub rpm: f64,
    /// Cylinders.
    pub cylinders: u32,
    /// Zones of its recording.
    pub zones: usize,
    /// Mean seek time.
    pub seek_mean_ms: f64,
    /// Seek time over all cylinders.
    pub full_stroke_ms: f64,
    /// Mean service time of a random read of 4 KiB.
    pub random_read_4k_ms: f64,
    /// Sequential rate of the outermost zone.
    pub outer_bytes_per_s: f64,
    /// Sequential rate of the innermost zone.
    pub inner_bytes_per_s: f64,
    /// What durable writes cost in each way past its write cache; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable_writes: Option<[DurableWrites; 3]>,
}

/// What durable writes cost in one way past the write cache.
#[derive(Debug, Serialize)]
pub struct DurableWrites {
    /// `forced`, `flushed` or `off`.
    pub way: &'static str,
    /// One random write of 4 KiB, alone.
    pub short_ms: f64,
    /// 32 random writes of 4 KiB that are outstanding at once, together.
    pub batch_ms: f64,
    /// 16 MiB in order.
    pub long_ms: f64,
    /// The mean of the three, each as a part of that of forced writes.
    pub relative: f64,
    /// Whether it is the first that `write_cache = "auto"` takes.
    pub is_first: bool,
}

impl DurableWrites {
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    fn of(costs: &DurableCosts, way: CacheBypass) -> Self {
        let cost = costs.way(way);
        Self {
            way: match way {
                CacheBypass::Forced => "forced",
                CacheBypass::Flushed => "flushed",
                CacheBypass::Off => "off",
            },
            short_ms: cost.short.as_millis_f64(),
            batch_ms: cost.batch.as_millis_f64(),
            long_ms: cost.long.as_millis_f64(),
            relative: costs.relative(way) as f64 / 1e3,
            is_first: costs.order()[0] == way,
        }
    }
}

/// One zone, in the shape of `spindle drive show --json`.
#[derive(Debug, Serialize)]
pub struct Zone {
    /// Its first sector.
    pub first_sector: u64,
    /// Its length in sectors.
    pub sectors: u64,
    /// Its outermost cylinder.
    pub first_cylinder: u32,
    /// Its innermost cylinder.
    pub last_cylinder: u32,
    /// Sectors on each of its tracks.
    pub sectors_per_track: u32,
    /// The rate at which its sectors pass a head.
    pub media_bytes_per_s: u64,
}

/// The mean service time of reads that follow each other without a pause.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn mean_ms(model: &Arc<Model>, extents: impl Iterator<Item = Extent>) -> f64 {
    let mut device = Device::new(Arc::clone(model));
    let (mut now, mut count) = (Instant::ZERO, 0);
    for extent in extents {
        device.submit(now, Tag(count), Operation::read(extent));
        now = device.next_completion().expect("one is in service");
        device.complete(now).expect("it is done");
        count += 1;
    }
    now.since(Instant::ZERO).as_millis_f64() / count.max(1) as f64
}

/// Bytes a second of sequential reads of 1 MiB from `start` up to `end`.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
pub fn sequential_rate(model: &Arc<Model>, start: Lba, end: Lba) -> f64 {
    let len = Sectors(STREAM.0.min((end.0 - start.0).max(1)));
    let count = ((end.0 - start.0) / len.0).clamp(1, STREAM_READS);
    let each = mean_ms(model, (0..count).map(|nth| Extent::new(start + Sectors(len.0 * nth), len)));
    len.bytes().0 as f64 * 1e3 / each
}

/// The zones of a drive, from the outermost to the innermost.
pub fn zones(model: &Model) -> Vec<Zone> {
    let zone = |zone: drive::ZoneFacts| Zone {
        first_sector: zone.lbas.start.0,
        sectors: zone.lbas.len.0,
        first_cylinder: zone.first_cylinder,
        last_cylinder: zone.last_cylinder,
        sectors_per_track: zone.sectors_per_track,
        media_bytes_per_s: zone.media_rate.0,
    };
    model.zones().map(zone).collect()
}

impl Mechanical {
    /// Measures the drive `model`, which is called `name`.
    ///
    /// # Panics
    /// If the model has no zone: a checked drive has one.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn of(name: &str, model: &Arc<Model>) -> Self {
        let mut rng = SeededRng::new(SEED, 0);
        let blocks = (model.capacity().0 / BLOCK.0).max(1);
        let len = Sectors(BLOCK.0.min(model.capacity().0));
        let random = (0..RANDOM_READS).map(|_| Extent::new(Lba(rng.below(blocks) * len.0), len));
        let (outer, inner) = (model.zones().next(), model.zones().last());
        let (outer, inner) = (outer.expect("a zone").lbas, inner.expect("a zone").lbas);
        Self {
            kind: "mechanical",
            name: name.to_owned(),
            sectors: model.capacity().0,
            bytes: model.capacity().bytes().0,
            rpm: 60e9 / model.period().as_nanos() as f64,
            cylinders: model.cylinders(),
            zones: model.zones().len(),
            seek_mean_ms: model.seek_mean().as_millis_f64(),
            full_stroke_ms: model.full_stroke().as_millis_f64(),
            random_read_4k_ms: mean_ms(model, random),
            outer_bytes_per_s: sequential_rate(model, outer.start, outer.end()),
            inner_bytes_per_s: sequential_rate(model, inner.start, inner.end()),
            durable_writes: model
                .durable_costs()
                .map(|costs| CacheBypass::ALL.map(|way| DurableWrites::of(&costs, way))),
        }
    }
}
