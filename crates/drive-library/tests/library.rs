//! Drives of the library under load, held beside what was measured on them.

use std::path::Path;
use std::sync::Arc;

use drive::{Device, Model, Tag};
use spindle_drive_library::disksim;
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

fn model(name: &str) -> Arc<Model> {
    Arc::new(
        spindle_drive_library::find_mechanical(name)
            .expect("in the library")
            .check()
            .expect("a drive"),
    )
}

fn near(found: u64, expected: u64, percent: u64) {
    assert!(found.abs_diff(expected) * 100 <= expected * percent, "{found} for {expected}");
}

/// Completions in `time` with `depth` operations in the drive, in thousandths a second.
fn queued(model: &Arc<Model>, depth: u64, time: Duration, write: bool) -> u64 {
    let mut rng = rng_of(7);
    let blocks = model.capacity().0 / 8;
    let mut operation = || {
        let extent = Extent::new(Lba(rng() % blocks * 8), Sectors(8));
        if write { Operation::write(extent) } else { Operation::read(extent) }
    };
    let mut device = Device::new(Arc::clone(model));
    let mut now = Instant::ZERO;
    (0..depth).for_each(|tag| device.submit(now, Tag(tag), operation()));
    let mut done = 0;
    while now < Instant::ZERO + time {
        now = device.next_completion().expect("commands wait");
        if device.complete(now).is_some() {
            done += 1;
            device.submit(now, Tag(depth + done), operation());
        }
    }
    done * 1_000_000_000_000 / now.as_nanos()
}

fn rng_of(seed: u64) -> impl FnMut() -> u64 {
    let mut rng = seed;
    move || {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        rng >> 20
    }
}

/// The time of a flush after `count` scattered cached writes, on the mean of several, in µs.
fn flush(model: &Arc<Model>, count: u64) -> u64 {
    let mut rng = rng_of(count);
    let blocks = model.capacity().0 / 8;
    let mut device = Device::new(Arc::clone(model));
    let (mut now, mut sum) = (Instant::ZERO, Duration::ZERO);
    let run = |device: &mut Device, now: Instant, operation| {
        device.submit(now, Tag(0), operation);
        let end = device.next_completion().expect("it is in service");
        device.complete(end).expect("it is done").at
    };
    for _ in 0..20 {
        for _ in 0..count {
            let extent = Extent::new(Lba(rng() % blocks * 8), Sectors(8));
            now = run(&mut device, now, Operation::write(extent));
        }
        let end = run(&mut device, now, Operation::flush());
        sum += end.since(now);
        now = end + Duration::from_millis(rng() % 100);
    }
    (sum / 20).as_micros()
}

/// kB/s of 1 MiB commands, one at a time, on the mean over the disk.
fn streamed(model: &Arc<Model>, write: bool) -> u64 {
    let (len, places, commands) = (Sectors(2_048), 12, 4_000);
    let mut nanos = 0;
    for place in 0..places {
        let mut device = Device::new(Arc::clone(model));
        let mut lba = Lba(model.capacity().0 / (2 * places) * (2 * place + 1));
        let mut now = Instant::ZERO;
        for tag in 0..commands {
            let extent = Extent::new(lba, len);
            let operation = if write { Operation::write(extent) } else { Operation::read(extent) };
            device.submit(now, Tag(tag), operation);
            now = device.next_completion().expect("it is in service");
            device.complete(now).expect("it is done");
            lba = lba + len;
        }
        nanos += now.as_nanos();
    }
    places * commands * len.bytes().0 * 1_000_000 / nanos
}

/// The library's drive, and the parameter set that it is written after.
const PUBLISHED: [(&str, &str); 5] = [
    ("atlas10k", "atlas10k"),
    ("barracuda-st32171w", "barracuda"),
    ("cheetah9LP", "cheetah9LP"),
    ("hp_c2247a", "hp_c2247a"),
    ("hp_c3323a", "hp_c3323a"),
];

#[test]
fn the_library_has_the_published_drives_as_they_are_imported() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/disksim");
    if !directory.is_dir() {
        eprintln!("SKIPPED: {} is missing: no published drive was compared", directory.display());
        return;
    }
    for (name, file) in PUBLISHED {
        let path = directory.join(file).with_extension("parv");
        let imported = disksim::import(&path).expect(file).spec;
        assert!(
            spindle_drive_library::find_mechanical(name) == Some(imported),
            "{name} is {file} as imported"
        );
    }
}

/// The deeper the queue, the more of them a drive does that chooses.
#[test]
fn drives_that_choose_do_more_with_more_to_choose_from() {
    for name in ["barracuda-2t", "hgst-7k8", "nearline-20t", "st318437lw"] {
        let model = model(name);
        let rates = [1, 2, 4, 8, 16, 32].map(|n| queued(&model, n, Duration::from_secs(60), false));
        println!("{name}: {rates:?} per 1000 s");
        assert!(rates.is_sorted() && rates[5] > rates[0] * 3 / 2, "{rates:?}");
    }
}

#[test]
fn the_barracuda_does_what_was_measured_on_it() {
    let model = model("barracuda-2t");
    assert_eq!(model.capacity(), Sectors(3_907_029_168));
    let reads = |depth| queued(&model, depth, Duration::from_secs(600), false);
    let (one, many) = (reads(1), reads(32));
    let writes = queued(&model, 1, Duration::from_secs(30), true);
    let (read, written) = (streamed(&model, false), streamed(&model, true));
    println!("random {one} and {many}, writes {writes} per 1000 s, {read} and {written} kB/s");
    for count in [1, 2, 4, 8, 16, 32, 64, 128] {
        let took = flush(&model, count);
        println!("flush after {count}: {took} us");
        near(took, 28_000 + 9_400 * count, 15);
    }
    near(1_000_000_000 / one, 17_500, 5);
    near(many, 94_000, 15);
    near(read, 143_000, 5);
    near(written, 132_000, 5);
    near(writes, 124_000, 15);
}
