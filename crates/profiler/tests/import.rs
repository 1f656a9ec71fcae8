//! A drive that is made of a measured profile performs as the measured drive.

use core::ops::ControlFlow;
use std::sync::Arc;

use drive::{AnyModel, Model, ReadAhead};
use drive_library::profile::{MeasuredDevice, MeasurementRun, ProfileFile, assumed};
use drive_profile::Profile;
use drive_profile::findings::{Figure, Findings, Geometry, Rotation, Spindle, Stage};
use sim::{BenchTarget, SeededRng};
use spindle_profiler::{Bench, Budget, Progress, dynamics};
use units::{Duration, Extent, Lba, Operation, Sectors, Share};

/// The standard deviation of observed completion times.
const NOISE: Duration = Duration::from_micros(200);
/// The largest difference of the two, in thousandths.
const WITHIN: i64 = 50;

fn mechanical() -> impl Iterator<Item = (&'static str, Arc<Model>)> {
    let drive = |name| drive_library::find_mechanical(name).map(|spec| (name, spec));
    drive_library::names()
        .filter_map(drive)
        .map(|(name, spec)| (name, Arc::new(spec.check().expect("a drive"))))
}

/// An exact zone map and rotation: these are measured elsewhere.
fn map(model: &Model) -> (Findings, Profile) {
    let known = Profile { rotation_period: model.period(), ..assumed(model) };
    let period = Figure {
        value: model.period(),
        spread: Duration::from_nanos(3),
        samples: 1_000,
        confidence: Share::from_percent(95),
    };
    let rotation = Rotation {
        period,
        period_picos: model.period().as_nanos() * 1_000,
        noise: NOISE,
        wander: Duration::ZERO,
        eviction_reads: 40,
        cache_hit_max: Duration::from_millis(1),
    };
    let heads = Figure { value: known.surfaces, spread: 0, samples: 1, confidence: Share::ALL };
    let geometry = Geometry {
        zones: Vec::new(),
        heads: Some(heads),
        order: Some(known.bands[0].heads),
        cylinders: known.cylinders,
        known: known.capacity(),
        bands: known.bands.clone(),
    };
    let findings = Findings {
        done: vec![Stage::Rotation, Stage::Zones],
        spindle: Some(Spindle::Rotating(rotation)),
        geometry: Some(geometry),
        ..Findings::default()
    };
    (findings, known)
}

/// The drive that is made of this one's profile.
fn imported(name: &str, model: &Arc<Model>, seed: u64) -> Arc<Model> {
    let mut target = BenchTarget::new(AnyModel::from(Arc::clone(model)), NOISE, seed);
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let (findings, map) = map(model);
    let mut bench = Bench::new(&mut target, Budget::DEFAULT, findings, &mut watcher);
    dynamics::measure(&mut bench, &map).expect("within ten minutes");
    let facts = *bench.facts();
    let device = MeasuredDevice {
        name: name.to_owned(),
        model: None,
        capacity: facts.sectors,
        block: facts.block,
        written: facts.writable,
        seeks: facts.seeks,
        depth_max: facts.depth_max,
    };
    let measured = ProfileFile { device, run: MeasurementRun::default(), findings: bench.findings };
    let spec = measured.mechanical_spec().unwrap_or_else(|lacks| panic!("{name}: {lacks}"));
    Arc::new(spec.check().unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// A pattern of commands.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Sequential commands, one at a time, from this hundredth of the disk on.
    InARow { from: u64, len: u64, writes: bool },
    /// Commands at random addresses, one at a time.
    Random { len: u64, writes: bool },
    /// Reads of 4 KiB at random addresses, `depth` in flight.
    AtOnce { depth: u32 },
}

const LOADS: [Load; 13] = [
    Load::InARow { from: 0, len: 8, writes: false },
    Load::InARow { from: 0, len: 128, writes: false },
    Load::InARow { from: 0, len: 1_024, writes: false },
    Load::InARow { from: 50, len: 128, writes: false },
    Load::InARow { from: 98, len: 128, writes: false },
    Load::InARow { from: 0, len: 128, writes: true },
    Load::InARow { from: 0, len: 8, writes: true },
    Load::InARow { from: 98, len: 1_024, writes: true },
    Load::Random { len: 8, writes: false },
    Load::Random { len: 256, writes: false },
    Load::Random { len: 8, writes: true },
    Load::AtOnce { depth: 8 },
    Load::AtOnce { depth: 32 },
];

/// Properties that no profile contains: a log on the disk for scattered writes, and a read-ahead
/// that waits for room while its segment is on its way to the host, which long reads in a row see.
fn is_unseen(model: &Model, load: Load) -> bool {
    let spec = model.spec();
    let waits_for_room = spec.firmware.read_ahead == ReadAhead::Fixed;
    match load {
        Load::Random { writes: true, .. } => spec.firmware.media_cache.is_some(),
        Load::InARow { len, writes: false, .. } => {
            waits_for_room && Sectors(len) > spec.read_buffer.segment
        }
        _ => false,
    }
}

/// The mean service time of a load.
fn takes(model: &Arc<Model>, load: Load) -> Duration {
    let mut target = BenchTarget::new(AnyModel::from(Arc::clone(model)), Duration::ZERO, 1);
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let hours = Budget { total: Duration::from_secs(36_000), quick: false };
    let mut bench = Bench::new(&mut target, hours, Findings::default(), &mut watcher);
    let sectors = model.capacity().0;
    let (len, count, writes) = match load {
        Load::InARow { len, writes, .. } => (len, 60_000 / len + 200, writes),
        Load::Random { len, writes } => (len, 3_000, writes),
        Load::AtOnce { .. } => (8, 3_000, false),
    };
    let mut rng = SeededRng::new(7, 7);
    let mut began = bench.now();
    let depth = if let Load::AtOnce { depth } = load { depth.min(bench.depth_max()) } else { 1 };
    for nth in 0..2 * count {
        // The first half fills the cache.
        if nth == count {
            bench.drain();
            began = bench.now();
        }
        let start = match load {
            Load::InARow { from, .. } => (sectors / 100 * from + nth * len).min(sectors - len),
            Load::Random { .. } | Load::AtOnce { .. } => rng.below((sectors - len) / len) * len,
        };
        let extent = Extent::new(Lba(start), Sectors(len));
        let operation = if writes { Operation::write(extent) } else { Operation::read(extent) };
        bench.submit(operation).expect("in time");
        if bench.outstanding() >= depth {
            let _ = bench.complete();
        }
    }
    bench.drain();
    bench.now().since(began) / count
}

#[test]
fn a_drive_made_of_its_own_profile_is_as_fast_as_the_drive() {
    for (name, model) in mechanical() {
        let made = imported(name, &model, 1);
        for load in LOADS.into_iter().filter(|load| !is_unseen(&model, *load)) {
            let (was, is) = (takes(&model, load), takes(&made, load));
            let nanos = |time: Duration| i64::try_from(time.as_nanos()).expect("short");
            let off = nanos(is) * 1_000 / nanos(was) - 1_000;
            println!("{name}: {load:?}: {is} for {was}, {off} parts in a thousand");
            assert!(off.abs() <= WITHIN, "{name}: {load:?}: {is} for {was}, {off} in a thousand");
        }
    }
}
