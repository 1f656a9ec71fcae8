//! The comparison of hand-computed numbers, refused traces, and the published drives if their files
//! are available.

use std::path::Path;
use std::sync::Arc;

use console::{eprintln, println};
use units::{Extent, Lba, Sectors};

use super::*;

#[test]
fn a_demerit_does_not_see_what_swaps_places_and_the_error_of_each_request_does() {
    let swapped = Comparison::of(&[(1.0, 3.0), (3.0, 1.0)]).expect("two requests");
    assert_eq!((swapped.demerit_ms, swapped.request_error_ms), (0.0, 2.0));
    let later = Comparison::of(&[(1.0, 4.0), (3.0, 7.0)]).expect("two requests");
    assert!((later.demerit_ms - 12.5_f64.sqrt()).abs() < 1e-12);
    assert_eq!((later.measured_mean_ms, later.modelled_mean_ms), (2.0, 5.5));
    assert_eq!(Comparison::of(&[]), None);
}

#[test]
fn a_line_that_is_no_request_is_refused_by_its_number() {
    let read = |text: &str| MeasuredTrace::read(text.as_bytes(), "t.trace", units::Sectors(1_000));
    let good = "R Hit 5 8 1500.5 20\n\nW Doub 992 8 3000 0\n";
    assert_eq!(read(good).expect("a trace").requests().len(), 2);
    let cases = [
        ("R Hit 5 8 1500\n", "t.trace:1: found no time until the next"),
        ("R Hit 5 8 1 1\nX Hit 5 8 1 1\n", "t.trace:2: found `X`, expected R or W"),
        ("R Hit 993 8 1 1\n", "t.trace:1: found 8 sectors at 993, expected the disk's, 1000"),
        ("R Hit 5 0 1 1\n", "t.trace:1: found 0 sectors, expected 1 to"),
        ("R Hit -5 8 1 1\n", "t.trace:1: found `-5`, expected the first sector"),
        ("R Hit 5 8 -1 1\n", "t.trace:1: found `-1`, expected the measured time"),
        ("R Hit 5 8 1 NaN\n", "t.trace:1: found `NaN`, expected the time until the next"),
        ("", "t.trace:1: found no request"),
    ];
    for (text, expected) in cases {
        let message = read(text).expect_err(expected).to_string();
        assert!(message.starts_with(expected), "{message}\n{expected}");
    }
}

/// The drive, and DiskSim's demerit for all requests and for reads.
const DISKSIM: [(&str, f64, f64); 5] = [
    ("atlas10k", 0.268, 0.385),
    ("barracuda", 0.349, 0.497),
    ("cheetah9LP", 0.107, 0.123),
    ("hp_c2247a", 0.090, 0.149),
    ("hp_c3323a", 0.306, 0.246),
];

/// The drive, and DiskSim's mean service times of 4 KiB requests, one at a time without a pause:
/// random reads, sequential reads, random writes, in ms.
const ONE_AT_A_TIME: [(&str, [f64; 3]); 5] = [
    ("atlas10k", [9.385, 1.023, 9.220]),
    ("barracuda", [15.140, 1.154, 13.698]),
    ("cheetah9LP", [9.646, 0.921, 9.158]),
    ("hp_c2247a", [20.005, 2.396, 19.777]),
    ("hp_c3323a", [19.780, 1.753, 18.824]),
];
const ERROR_MAX_PERCENT: f64 = 1.0;
/// The one cell with a larger error, 1.04 %, if addresses are random over the whole disk. The range
/// of DiskSim's addresses is not recorded. The workloads in the drives' files use the capacity that
/// the files state, which is 2.6 % less than the sum of this drive's zones. Over that range all
/// fifteen cells are within 0.8 %.
const WHOLE_DISK_EXCEPTION: (&str, usize, f64) = ("barracuda", 2, 1.1);
/// The capacities that the files state where they differ from the zones', in sectors.
const STATED: [(&str, u64); 3] =
    [("atlas10k", 17_938_986), ("barracuda", 4_110_000), ("cheetah9LP", 17_783_240)];
/// The number of requests at which the mean of random ones is known to 0.1 %.
const REQUESTS: u64 = 100_000;

/// The mean service time of [`REQUESTS`] requests.
fn mean_ms(model: &Arc<Model>, mut operation: impl FnMut(u64) -> units::Operation) -> f64 {
    let mut device = Device::new(Arc::clone(model));
    let mut now = Instant::ZERO;
    for n in 0..REQUESTS {
        device.submit(now, Tag(n), operation(n));
        now = device.next_completion().expect("one is in service");
        device.complete(now).expect("it is done");
    }
    let count = u32::try_from(REQUESTS).expect("a small number");
    now.since(Instant::ZERO).as_millis_f64() / f64::from(count)
}

#[test]
fn one_at_a_time_the_published_drives_take_as_long_as_in_disksim() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/disksim");
    if !directory.is_dir() {
        eprintln!("SKIPPED: {} is missing: no drive was compared", directory.display());
        return;
    }
    let mut apart = Vec::new();
    for (name, expected) in ONE_AT_A_TIME {
        let spec = drive_library::disksim::import(&directory.join(name).with_extension("parv"));
        let model = Arc::new(spec.expect(name).spec.check().expect(name));
        let whole = model.capacity().0;
        let stated = STATED.iter().find(|(known, _)| *known == name).map_or(whole, |(_, n)| *n);
        for sectors in [whole, stated] {
            let mut rng = sim::SeededRng::new(1, 0);
            let at = |block| Extent::new(Lba(block * 8), Sectors(8));
            let found = [
                mean_ms(&model, |_| units::Operation::read(at(rng.below(sectors / 8)))),
                mean_ms(&model, |n| units::Operation::read(at(n))),
                mean_ms(&model, |_| units::Operation::write(at(rng.below(sectors / 8)))),
            ];
            println!("{name}, {sectors} sectors: {found:.3?} for {expected:?}");
            for (cell, (found, expected)) in found.into_iter().zip(expected).enumerate() {
                let (drive, nth, allowed) = WHOLE_DISK_EXCEPTION;
                let except = (drive, nth, whole) == (name, cell, sectors);
                let most = if except { allowed } else { ERROR_MAX_PERCENT };
                if (found - expected).abs() * 100.0 > expected * most {
                    apart.push((name, sectors, cell));
                }
            }
        }
    }
    assert!(apart.is_empty(), "too far apart: {apart:?}");
}

/// Commands in the drive, and DiskSim's commands per second with shortest positioning time first in
/// the disk's queue.
const SHORTEST_POSITIONING: [(u64, f64); 3] = [(4, 135.0), (16, 177.0), (64, 219.0)];
const QUEUED_ERROR_MAX_PERCENT: f64 = 5.0;

#[test]
fn shortest_positioning_in_the_imported_cheetah_does_what_it_does_in_disksim() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/disksim");
    if !directory.is_dir() {
        eprintln!("SKIPPED: {} is missing: no queue was compared", directory.display());
        return;
    }
    let imported =
        drive_library::disksim::import(&directory.join("cheetah9LP.parv")).expect("a drive").spec;
    for (depth, expected) in SHORTEST_POSITIONING {
        let spec = drive_library::disksim::with_shortest_positioning(imported.clone(), 64);
        let model = Arc::new(spec.check().expect("a drive"));
        let mut rng = sim::SeededRng::new(1, 0);
        let blocks = model.capacity().0 / 8;
        let mut random =
            || units::Operation::read(Extent::new(Lba(rng.below(blocks) * 8), Sectors(8)));
        let mut device = Device::new(model);
        (0..depth).for_each(|tag| device.submit(Instant::ZERO, Tag(tag), random()));
        let (mut now, mut done) = (Instant::ZERO, 0_u32);
        while done < 20_000 {
            now = device.next_completion().expect("commands wait");
            if device.complete(now).is_some() {
                done += 1;
                device.submit(now, Tag(depth + u64::from(done)), random());
            }
        }
        let rate = f64::from(done) * 1e3 / now.since(Instant::ZERO).as_millis_f64();
        println!("depth {depth}: {rate:.1} for {expected} a second");
        assert!((rate - expected).abs() * 100.0 <= expected * QUEUED_ERROR_MAX_PERCENT);
    }
}

/// The drive, and the demerits of all requests and of reads, in ms, of the imported drive.
const OURS: [(&str, f64, f64); 5] = [
    ("atlas10k", 0.0980, 0.1163),
    ("barracuda", 0.3528, 0.5035),
    ("cheetah9LP", 0.1082, 0.1235),
    ("hp_c2247a", 0.0788, 0.1279),
    ("hp_c3323a", 0.2938, 0.2427),
];
/// By how much a demerit may differ from that: a change of the model that moves one further is
/// argued, and recorded here.
const MOVED_PERCENT_MAX: f64 = 3.0;

/// By how much a demerit may exceed DiskSim's, which is known to three digits. With the rules of
/// read-ahead that DiskSim documents two of the drives are as far off as there.
const FURTHER_PERCENT_MAX: f64 = 2.0;

#[test]
fn the_published_drives_are_no_further_off_than_disksim_and_as_far_as_before() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/disksim");
    if !directory.is_dir() {
        eprintln!("SKIPPED: {} is missing: no drive was validated", directory.display());
        return;
    }
    let mut missed = Vec::new();
    for (name, all, reads) in DISKSIM {
        let path = directory.join(name);
        let spec = drive_library::disksim::import(&path.with_extension("parv")).expect(name).spec;
        let model = Arc::new(spec.check().expect(name));
        let file = std::fs::File::open(path.with_extension("trace")).expect(name);
        let from = std::io::BufReader::new(file);
        let trace = MeasuredTrace::read(from, name, model.capacity()).expect(name);
        let found = validate(&model, &trace);
        println!("{name}\n  {:?}\n  {:?}\n  {:?}", found.all, found.reads, found.writes);
        for class in &found.classes {
            let c = class.comparison;
            println!(
                "    {:36} {:6} measured {:7.3} modelled {:7.3} demerit {:6.3} each {:6.3}",
                class.name,
                c.requests,
                c.measured_mean_ms,
                c.modelled_mean_ms,
                c.demerit_ms,
                c.request_error_ms
            );
        }
        let found_reads = found.reads.expect("a trace has reads");
        let most = |disksim: f64| disksim * (100.0 + FURTHER_PERCENT_MAX) / 100.0;
        if found.all.demerit_ms > most(all) || found_reads.demerit_ms > most(reads) {
            missed.push(name);
        }
        let (_, ours, our_reads) = OURS.into_iter().find(|ours| ours.0 == name).expect(name);
        for (found, ours) in [(found.all.demerit_ms, ours), (found_reads.demerit_ms, our_reads)] {
            let moved = (found - ours).abs() * 100.0 / ours;
            assert!(moved <= MOVED_PERCENT_MAX, "{name}: {found} ms, where it was {ours}");
        }
    }
    assert!(missed.is_empty(), "further off than DiskSim: {missed:?}");
}
