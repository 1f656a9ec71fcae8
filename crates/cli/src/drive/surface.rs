//! The service-time surface: how long a read takes that is so many cylinders away and so much of a turn ahead.
//!
//! It is what a drive chooses by, and where its rotational misses are: a step from band to band is a sector
//! that has just gone by when the heads arrive. The drive is asked without its read buffer, as what it reads ahead would
//! move the arm before the read comes.

use std::sync::Arc;

use drive::{Device, Model, Position, ReadBuffer, Tag};
use plot::HeatMap;
use serde::Serialize;
use units::{Angle, Duration, Extent, Instant, Lba, Operation, Sectors};

const DISTANCES: u32 = 120;
const OFFSETS: u32 = 100;
/// The block that is read.
const BLOCK: Sectors = Sectors(8);

/// The surface, in the shape of `spindle drive show --json`.
#[derive(Debug, Serialize)]
pub(super) struct Surface {
    /// Cylinders from where the arm is, which is at the outside.
    distance_cylinders: Vec<u32>,
    /// How far ahead of the heads the sector is when the read comes, in turns.
    offset_turns: Vec<f64>,
    /// Service times: one list a distance, in it one time an offset.
    service_ms: Vec<Vec<f64>>,
}

impl Surface {
    /// The surface of a drive.
    pub(super) fn of(model: &Model) -> Self {
        let mut spec = model.spec().clone();
        spec.read_buffer = ReadBuffer::default();
        let model = Arc::new(spec.check().expect("a drive without a buffer is a drive"));
        let home = model.position(Lba(0));
        let farthest = model.cylinders() - 1 - home.cylinder;
        let count = DISTANCES.min(farthest + 1);
        // The middle of each column and row, so that what is drawn is what was asked.
        let middle = |nth: u32| {
            (u64::from(farthest) + 1) * (2 * u64::from(nth) + 1) / (2 * u64::from(count))
        };
        let all = (0..count).map(|nth| u32::try_from(middle(nth)).expect("a distance"));
        // A cylinder may be all spares: it is left out.
        let targets: Vec<_> =
            all.filter_map(|distance| Some((distance, target(&model, home, distance)?))).collect();
        let at = |lba, row| service(&model, lba, offset(row)).as_millis_f64();
        Self {
            distance_cylinders: targets.iter().map(|(distance, _)| *distance).collect(),
            offset_turns: (0..OFFSETS).map(|row| turns(offset(row))).collect(),
            service_ms: targets
                .iter()
                .map(|(_, lba)| (0..OFFSETS).map(|row| at(*lba, row)).collect())
                .collect(),
        }
    }

    pub(super) fn figure(&self, name: &str, model: &Model) -> HeatMap {
        HeatMap {
            caption: format!(
                "{name}: service time of a 4 KiB read off the disk, from the outermost cylinder"
            ),
            x: "seek distance, cylinders".to_owned(),
            y: "sector ahead of the heads, ms of rotation".to_owned(),
            value: "service time, ms".to_owned(),
            ends: (f64::from(model.cylinders()), model.period().as_millis_f64()),
            cells: self.service_ms.clone(),
        }
    }
}

/// The middle of a row.
fn offset(row: u32) -> Angle {
    let turn = 1_u64 << 32;
    let middle = turn * (2 * u64::from(row) + 1) / (2 * u64::from(OFFSETS));
    Angle(u32::try_from(middle).expect("a part of a turn"))
}

fn turns(angle: Angle) -> f64 {
    f64::from(angle.0) / 2_f64.powi(32)
}

/// The first address on a cylinder, on the surface where the heads are.
fn target(model: &Model, home: Position, distance: u32) -> Option<Lba> {
    let cylinder = home.cylinder + distance;
    let zone = model.zones().find(|zone| zone.last_cylinder >= cylinder)?;
    (0..zone.sectors_per_track).find_map(|sector| model.lba(Position { cylinder, sector, ..home }))
}

/// The service time of a read of `lba` that comes when it is `offset` ahead of heads over the first track.
fn service(model: &Arc<Model>, lba: Lba, offset: Angle) -> Duration {
    let mut device = Device::new(Arc::clone(model));
    let one = Extent::new(Lba(0), Sectors(1));
    let arrived = run(&mut device, Instant::ZERO, one);
    let turned = Angle::turned(arrived.since(Instant::ZERO), model.period());
    let wait = model.position(lba).angle - offset - turned;
    let at = arrived + wait.time(model.period());
    let len = Sectors(BLOCK.0.min(model.capacity().0 - lba.0));
    run(&mut device, at, Extent::new(lba, len)).since(at)
}

/// Reads, and gives the time of the completion.
fn run(device: &mut Device, at: Instant, extent: Extent) -> Instant {
    device.submit(at, Tag(0), Operation::read(extent));
    let end = device.next_completion().expect("one is in service");
    device.complete(end).expect("it is done").at
}
