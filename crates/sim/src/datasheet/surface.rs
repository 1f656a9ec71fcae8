//! The service-time surface: the service time of a read by its seek distance and its rotational
//! offset.
//!
//! A drive orders its queue by this surface. A step between its bands is a rotational miss: the
//! sector has just passed when the heads arrive. The model has no read buffer here, because its
//! read-ahead would move the arm before the read arrives.

use std::sync::Arc;

use drive::{Device, Model, Position, ReadBuffer, Tag};
use serde::Serialize;
use units::{Angle, Duration, Extent, Instant, Lba, Operation, Sectors};

const DISTANCES: u32 = 120;
const OFFSETS: u32 = 100;
/// The block that is read.
const BLOCK: Sectors = Sectors(8);

/// The surface, in the shape of `spindle drive show --json`.
#[derive(Debug, Serialize)]
pub struct Surface {
    /// Seek distances from the outermost cylinder, in cylinders.
    pub distance_cylinders: Vec<u32>,
    /// Rotational offset of the sector ahead of the heads when the read arrives, in revolutions.
    pub offset_turns: Vec<f64>,
    /// Service times: one list for each distance, with one time for each offset.
    pub service_ms: Vec<Vec<f64>>,
}

impl Surface {
    /// The surface of a drive.
    pub fn of(model: &Model) -> Self {
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

/// The service time of a read of `lba` that comes when it is `offset` ahead of heads over the first
/// track.
fn service(model: &Arc<Model>, lba: Lba, offset: Angle) -> Duration {
    let mut device = Device::new(Arc::clone(model));
    let one = Extent::new(Lba(0), Sectors(1));
    let arrived = run(&mut device, Instant::ZERO, one);
    let turned = Angle::swept(arrived.since(Instant::ZERO), model.period());
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
