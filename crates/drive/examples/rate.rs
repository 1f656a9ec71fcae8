//! How many simulated requests a second one core works out: `cargo run --release --example rate`.
#![expect(clippy::disallowed_methods, reason = "it measures itself by the wall clock")]
#![expect(clippy::cast_precision_loss, reason = "shown, never computed with")]

use std::sync::Arc;

use rng::SeededRng;
use spindle_drive::{
    Arm, Choosing, Device, Discipline, Firmware, Mapping, Model, Overheads, ReadBuffer, SeekCurve,
    Spec, SpecError, Tag, Zone,
};
use units::{Angle, Duration, Extent, Instant, Lba, Operation, Sectors};

const COUNT: u64 = 3_000_000;

fn large(discipline: Discipline) -> Result<Model, SpecError> {
    let zone = |index: u32| Zone {
        first_cylinder: index * 10_000,
        last_cylinder: index * 10_000 + 9_999,
        sectors_per_track: 3_000 - index * 50,
        track_skew: 400,
        cylinder_skew: 500,
        first_sector_angle: Angle::ZERO,
        skips: Vec::new(),
        ..Zone::default()
    };
    let overheads = Overheads {
        read_hit: Duration::from_micros(50),
        read_miss: Duration::from_micros(150),
        write_cached: Duration::from_micros(50),
        write_media: Duration::from_micros(150),
        control: Duration::from_micros(50),
    };
    Spec {
        period: Spec::period_of_rpm(7_200),
        surfaces: 10,
        mapping: Mapping::Cylinder,
        zones: (0..24).map(zone).collect(),
        seek: SeekCurve {
            points: vec![(1, Duration::from_micros(600)), (239_999, Duration::from_millis(16))],
            fall_max: Duration::ZERO,
        },
        seek_write: None,
        head_switch: Duration::from_micros(800),
        write_settle: Duration::from_micros(300),
        overheads,
        overheads_after_write: overheads,
        bus_sector: Duration::from_nanos(853),
        read_buffer: ReadBuffer {
            segments: 16,
            segment: Sectors(16_384),
            read_ahead_max: Sectors(16_384),
        },
        write_buffer: Sectors(131_072),
        write_cache: true,
        queue_depth_max: 64,
        discipline,
        firmware: Firmware::default(),
        arm: Arm::default(),
    }
    .check()
}

fn main() -> Result<(), SpecError> {
    let model = Arc::new(large(Discipline::Fifo)?);
    let blocks = model.capacity().0 / 8;
    let mut rng = SeededRng::new(1, 0);
    let mut random = || Lba(rng.below(blocks) * 8);
    measure("random 4 KiB read", &model, |_| Operation::read(Extent::new(random(), Sectors(8))));
    measure("sequential 4 KiB read", &model, |n| {
        Operation::read(Extent::new(Lba(n % blocks * 8), Sectors(8)))
    });
    measure("random 4 KiB write", &model, |_| Operation::write(Extent::new(random(), Sectors(8))));
    measure("sequential 4 KiB write", &model, |n| {
        Operation::write(Extent::new(Lba(n % blocks * 8), Sectors(8)))
    });
    let age_limit = Duration::from_secs(2);
    let nearest = Discipline::ShortestPositioning(Choosing {
        age_limit,
        stream_hold: Duration::from_millis(1),
        decision_latency: Duration::ZERO,
    });
    let model = Arc::new(large(nearest)?);
    for depth in [1, 4, 16, 32, 64] {
        measure_queue("random 4 KiB read, shortest positioning", &model, depth, || {
            Operation::read(Extent::new(random(), Sectors(8)))
        });
    }
    Ok(())
}

/// Keeps `depth` commands in the drive.
fn measure_queue(
    name: &str,
    model: &Arc<Model>,
    depth: u64,
    mut operation: impl FnMut() -> Operation,
) {
    let mut device = Device::new(Arc::clone(model));
    for n in 0..depth {
        device.submit(Instant::ZERO, Tag(n), operation());
    }
    let mut now = Instant::ZERO;
    let began = std::time::Instant::now();
    let mut done = 0;
    while done < COUNT / 3 {
        now = device.next_completion().expect("commands wait");
        if device.complete(now).is_some() {
            done += 1;
            device.submit(now, Tag(depth + done), operation());
        }
    }
    let took = began.elapsed().as_secs_f64();
    let simulated = now.since(Instant::ZERO).as_secs_f64();
    println!(
        "{name}, depth {depth}: {:.0} ns a request; {:.0} IOPS simulated",
        took / done as f64 * 1e9,
        done as f64 / simulated
    );
}

fn measure(name: &str, model: &Arc<Model>, mut operation: impl FnMut(u64) -> Operation) {
    let mut device = Device::new(Arc::clone(model));
    let mut now = Instant::ZERO;
    let began = std::time::Instant::now();
    for n in 0..COUNT {
        device.submit(now, Tag(n), operation(n));
        now = device.next_completion().expect("one is in service");
        device.complete(now).expect("it is done");
    }
    let took = began.elapsed().as_secs_f64();
    let simulated = now.since(Instant::ZERO).as_secs_f64();
    println!(
        "{name}: {:.0} ns a request, {:.2} million a second; {:.0} IOPS simulated",
        took / COUNT as f64 * 1e9,
        COUNT as f64 / took / 1e6,
        COUNT as f64 / simulated
    );
}
