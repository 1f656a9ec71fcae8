//! What is found of a drive's dynamics is what the drive does, through noise, for drives of every kind.
//!
//! `make soak` runs more seeds: `SPINDLE_CASES=20`.

use core::ops::ControlFlow;
use std::sync::Arc;

use config::{drives, profile};
use drive::{AnyModel, Model};
use sim::{BenchTarget, Dice, Lateness};
use spindle_profiler::dynamics::{self, Dynamics, OPTIMAL, STEPS, Seeks};
use spindle_profiler::{Bench, Budget, Findings, Progress};
use units::{Duration, Extent, Lba, Operation, Sectors};

/// How late or early completions are seen.
const NOISE: Duration = Duration::from_micros(200);
/// What this half of the default profile may take of ten minutes.
const TIME: Duration = Duration::from_secs(270);
/// And of the minute of a quick one.
const TIME_QUICK: Duration = Duration::from_secs(32);

fn mechanical() -> impl Iterator<Item = (&'static str, Arc<Model>)> {
    let drive = |name| drives::library(name).map(|spec| (name, spec));
    drives::names()
        .filter_map(drive)
        .map(|(name, spec)| (name, Arc::new(spec.check().expect("a drive"))))
}

fn target(model: &Arc<Model>, noise: Duration, seed: u64) -> BenchTarget {
    BenchTarget::new(AnyModel::from(Arc::clone(model)), noise, seed)
}

/// What was found of a drive, and what that took of its time.
fn measured(model: &Arc<Model>, budget: Budget, seed: u64) -> (Findings, Duration) {
    found_of(&mut target(model, NOISE, seed), &profile::assumed(model), budget)
}

fn found_of(
    target: &mut BenchTarget,
    map: &engine::Profile,
    budget: Budget,
) -> (Findings, Duration) {
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let mut bench = Bench::new(target, budget, Findings::default(), &mut watcher);
    dynamics::measure(&mut bench, map).expect("it stays inside the budget");
    let spent = bench.spent();
    (bench.findings, spent)
}

/// The worst of a found curve: at which distance, by how many µs, and by which part of what is allowed, which is 3 % or
/// 50 µs, whichever is more.
fn worst(model: &Model, found: &Seeks) -> (u32, f64, f64) {
    let curve = found.curve();
    let micros = |time: Duration| time.as_millis_f64() * 1e3;
    let off = |distance: u32| {
        let (found, is) = (micros(curve.time(distance)), micros(model.seek(distance)));
        (distance, found - is, (found - is).abs() / (is * 0.03).max(50.0))
    };
    let all = (1..model.cylinders()).map(off);
    all.fold((0, 0.0, 0.0), |worst, one| if one.2 > worst.2 { one } else { worst })
}

/// Throughput of a host that is never late, in sectors a second: what the range is about.
fn streamed(model: &Arc<Model>, chunk: u64, writes: bool) -> u64 {
    let mut target = target(model, Duration::ZERO, 1);
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let hours = Budget { total: Duration::from_secs(36_000), quick: false };
    let mut bench = Bench::new(&mut target, hours, Findings::default(), &mut watcher);
    let mut next = 0;
    let mut run = |bench: &mut Bench<'_>, chunk: u64, sectors: u64| {
        let began = bench.now();
        let end = next + sectors / chunk * chunk;
        while next < end {
            let extent = Extent::new(Lba(next), Sectors(chunk));
            let operation = if writes { Operation::write(extent) } else { Operation::read(extent) };
            bench.time(operation).expect("in time");
            next += chunk;
        }
        bench.now().since(began)
    };
    // What memory takes, first, in commands that fill it fastest.
    let memory = if writes { 3 * model.spec().write_buffer.0 } else { 4_096 };
    run(&mut bench, 2_048, memory.max(4_096));
    let sectors = (48 * chunk).max(131_072);
    let took = run(&mut bench, chunk, sectors);
    sectors / chunk * chunk * 1_000_000_000 / took.as_nanos().max(1)
}

/// The steps at which the true range begins and ends.
fn true_range(model: &Arc<Model>, writes: bool) -> (usize, usize) {
    let rates: Vec<u64> = STEPS.iter().map(|chunk| streamed(model, *chunk, writes)).collect();
    let best = rates.iter().copied().max().expect("some");
    let optimal = |rate: &u64| {
        Duration::from_nanos(*rate).as_secs_f64()
            >= OPTIMAL * Duration::from_nanos(best).as_secs_f64()
    };
    // The first of the longest runs of good ones.
    let runs = (0..rates.len()).map(|first| {
        let len = rates[first..].iter().take_while(|rate| optimal(rate)).count();
        (len, rates.len() - first)
    });
    let (len, behind) = runs.max().expect("some");
    (rates.len() - behind, rates.len() - behind + len - 1)
}

/// The ranges of chunks, reading and writing, are found to within a step at either end.
fn check_chunks(name: &str, model: &Arc<Model>, found: &Dynamics) {
    for (chunks, writes) in [(&found.chunks_read, false), (&found.chunks_write, true)] {
        let chunks = chunks.as_ref().expect("found");
        let (first, last) = true_range(model, writes);
        let step = |chunk: Sectors| STEPS.iter().position(|step| *step == chunk.0).expect("a step");
        let found = (step(chunks.optimal.0), step(chunks.optimal.1));
        let what = if writes { "writes" } else { "reads" };
        let shown = |(first, last): (usize, usize)| format!("{}..{}", STEPS[first], STEPS[last]);
        println!("    chunks, {what}: {} for {}", shown(found), shown((first, last)));
        let near = first.abs_diff(found.0) <= 1 && last.abs_diff(found.1) <= 1;
        assert!(near, "{name}, {what}: {} for {}", shown(found), shown((first, last)));
    }
}

fn check_buffers(name: &str, model: &Model, found: &Dynamics) {
    let (is, buffer) = (model.spec().read_buffer, found.read_buffer.expect("found"));
    assert_eq!(buffer.segments.value, is.segments, "{name}: segments");
    let total = |segments: u32, segment: Sectors| u64::from(segments) * segment.0;
    let (found_total, true_total) =
        (total(buffer.segments.value, buffer.segment.value), total(is.segments, is.segment));
    assert!(
        found_total.abs_diff(true_total) <= is.segment.0,
        "{name}: {found_total} sectors of read buffer for {true_total}"
    );
    let write = found.write_buffer.expect("found");
    let caches = model.spec().write_cache && model.spec().write_buffer > Sectors::ZERO;
    assert_eq!(write.answers_early, caches, "{name}: answers early");
    let size = write.size.map_or(0, |size| size.value.0);
    let true_size = if caches { model.spec().write_buffer.0 } else { 0 };
    assert!(size.abs_diff(true_size) <= is.segment.0, "{name}: {size} sectors for {true_size}");
    println!(
        "    buffers: {found_total} sectors in {} for {true_total} in {}; writes: {size} for {true_size}",
        buffer.segments.value, is.segments
    );
}

/// The worst of the curve before writes, with what comes before the arm moves: the two cannot be told apart where data has
/// to come over a bus first.
fn worst_of_writes(model: &Model, found: &Dynamics) -> (u32, f64, f64) {
    let curve = found.seek_write.as_ref().expect("found").curve();
    let overhead = found.overheads.write.expect("found").value;
    let spec = model.spec();
    let table = spec.seek_write.as_ref().unwrap_or(&spec.seek);
    let table = engine::Curve { points: table.points.clone() };
    let micros = |time: Duration| time.as_millis_f64() * 1e3;
    // What is between a read's last sector and its completion is in every time that a host sees.
    let bus = spec.firmware.bus;
    let behind = spec.bus_sector + bus.reselect.max(bus.prepare) + bus.read_done;
    let off = |distance: u32| {
        let is = spec.overheads.write_media + table.time(distance) + spec.write_settle + behind;
        let off = micros(overhead + curve.time(distance)) - micros(is);
        (distance, off, off.abs() / (micros(is) * 0.03).max(50.0))
    };
    let all = (1..model.cylinders()).map(off);
    all.fold((0, 0.0, 0.0), |worst, one| if one.2 > worst.2 { one } else { worst })
}

/// So many seeds; `make soak` asks for more.
fn seeds() -> u64 {
    std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1)
}

#[test]
fn every_drive_of_the_library_is_found_as_it_is() {
    for seed in 1..=seeds() {
        for (name, model) in mechanical() {
            let (found, spent) = measured(&model, Budget::DEFAULT, seed);
            let dynamics = &found.dynamics;
            let (distance, off, part) = worst(&model, dynamics.seek.as_ref().expect("found"));
            println!(
                "{name}, seed {seed}: {:.0} s; worst seek {off:.0} us over {distance}, {part:.2} of what is allowed",
                spent.as_secs_f64()
            );
            let (distance, off, writes) = worst_of_writes(&model, dynamics);
            println!("    before writes {off:.0} us over {distance}, {writes:.2}");
            assert!(writes <= 1.0, "{name}, seed {seed}: {off} us off over {distance}, writing");
            check_chunks(name, &model, dynamics);
            check_buffers(name, &model, dynamics);
            println!("    {:?} {:?}", dynamics.starvation, dynamics.prediction);
            assert!(part <= 1.0, "{name}, seed {seed}: {off} us off over {distance} cylinders");
            assert!(spent <= TIME, "{name}: {spent}");
        }
    }
}

#[test]
fn a_glance_is_half_a_minute() {
    for (name, model) in mechanical() {
        let (found, spent) = measured(&model, Budget::QUICK, 1);
        let (distance, off, part) = worst(&model, found.dynamics.seek.as_ref().expect("found"));
        println!(
            "{name}: {:.1} s; worst seek {off:.0} us over {distance}, {part:.2} of what is allowed",
            spent.as_secs_f64()
        );
        assert!(spent <= TIME_QUICK, "{name}: {spent}");
    }
}

/// A drive of no library: one that is in it, with another arm, spindle, memory and electronics.
fn foreign(name: &str, dice: &mut Dice) -> Model {
    let mut spec = drives::library(name).expect("in it");
    let mut part =
        |time: Duration, least: u64, most: u64| time * (least + dice.below(most - least)) / 100;
    spec.period = part(spec.period, 70, 140);
    let arm = part(Duration::from_nanos(100), 60, 150).as_nanos();
    for point in &mut spec.seek.points {
        point.1 = point.1 * arm / 100;
    }
    spec.seek.fall_max = spec.seek.fall_max * arm / 100 + Duration::from_nanos(1);
    spec.head_switch = part(spec.head_switch, 50, 200);
    spec.overheads.read_miss = part(spec.overheads.read_miss, 50, 150);
    spec.read_buffer.segments = u32::try_from(1 + dice.below(24)).expect("small");
    spec.check().expect("it was a drive before")
}

#[test]
fn drives_outside_of_the_library_are_found_as_well() {
    for seed in 1..=3 * seeds() {
        let mut dice = Dice::new(seed, 5);
        for name in ["atlas-ii", "cheetah9LP", "hgst-7k8", "hp_c3323a"] {
            let model = Arc::new(foreign(name, &mut dice));
            let (found, spent) = measured(&model, Budget::DEFAULT, seed);
            let (distance, off, part) = worst(&model, found.dynamics.seek.as_ref().expect("found"));
            println!(
                "like {name}, seed {seed}: {:.0} s; {off:.0} us over {distance}, {part:.2}",
                spent.as_secs_f64()
            );
            let segments = found.dynamics.read_buffer.expect("found").segments.value;
            assert_eq!(segments, model.spec().read_buffer.segments, "like {name}, seed {seed}");
            assert!(
                part <= 1.0,
                "like {name}, seed {seed}: {off} us off over {distance} cylinders"
            );
            assert!(spent <= TIME, "like {name}, seed {seed}: {spent}");
        }
    }
}

#[test]
fn who_may_not_write_is_told_of_reads_alone() {
    let model = Arc::new(drives::library("hgst-7k8").expect("in it").check().expect("a drive"));
    let mut target = target(&model, NOISE, 1).read_only();
    let (found, _) = found_of(&mut target, &profile::assumed(&model), Budget::QUICK);
    let found = found.dynamics;
    assert!(found.seek.is_some() && found.chunks_read.is_some());
    assert!(found.seek_write.is_none() && found.chunks_write.is_none());
    assert!(found.write_buffer.is_none() && found.overheads.cached.is_none());
}

/// Through a socket and past other work, without a command that moves the arm alone: seeks within 5 % or 0.1 ms, which is by
/// how much the path itself is longer now and then; the rest as through noise.
#[test]
fn drives_are_found_though_the_path_to_them_wanders() {
    for name in ["atlas-ii", "barracuda-st32171w", "deskstar-34gxp"] {
        for seed in 1..=2 {
            let model = Arc::new(drives::library(name).expect("in it").check().expect("a drive"));
            let mut target = target(&model, Duration::ZERO, seed)
                .without_seeks()
                .with_lateness(Lateness::URGENT, seed);
            let (found, spent) = found_of(&mut target, &profile::assumed(&model), Budget::DEFAULT);
            let dynamics = &found.dynamics;
            let curve = dynamics.seek.as_ref().expect("found").curve();
            let off = |distance: u32| {
                let (found, is) = (curve.time(distance), model.seek(distance));
                let (found, is) = (found.as_millis_f64(), is.as_millis_f64());
                (distance, found - is, (found - is).abs() / (is * 0.05).max(0.1))
            };
            let worst = (1..model.cylinders())
                .map(off)
                .fold((0, 0.0, 0.0), |worst, one| if one.2 > worst.2 { one } else { worst });
            let (distance, off, part) = worst;
            println!("{name}, seed {seed}: {spent}; {off:.3} ms over {distance}, {part:.2}");
            assert!(part <= 1.0, "{name}, seed {seed}: {off} ms off over {distance} cylinders");
            // The path is as long as all of other drives' electronics: through it their chunks are to be longer.
            if name == "atlas-ii" {
                check_chunks(name, &model, dynamics);
            }
            check_buffers(name, &model, dynamics);
            assert!(spent <= TIME, "{name}, seed {seed}: {spent}");
        }
    }
}

/// The way to a drive and back is in none of its figures where it can be timed on its own.
#[test]
fn a_path_that_can_be_timed_is_not_the_drive_s() {
    for (name, seed) in [("atlas-ii", 1), ("atlas-ii", 2), ("st318437lw", 1), ("st318437lw", 2)] {
        let model = Arc::new(drives::library(name).expect("in it").check().expect("a drive"));
        let mut target = target(&model, Duration::ZERO, seed)
            .without_seeks()
            .with_lateness(Lateness::URGENT, seed)
            .with_path();
        let (found, _) = found_of(&mut target, &profile::assumed(&model), Budget::DEFAULT);
        let (found, spec) = (found.dynamics, model.spec());
        let all = found.overheads;
        let path = all.path.expect("it was timed").value.as_millis_f64();
        assert!((0.06..0.18).contains(&path), "{name}, seed {seed}: a path of {path} ms");
        let completion = spec.bus_sector;
        let seeks = found.seek.expect("found").curve();
        let held = |what: &str, found: Duration, is: Duration| {
            let off = found.as_millis_f64() / is.as_millis_f64() - 1.0;
            println!("{name}, seed {seed}: {what} {found} for {is}, {:.1} % off", off * 100.0);
            assert!(off.abs() < 0.05, "{name}, seed {seed}: {what} {found} for {is}");
        };
        held("hit", all.hit.expect("found").value, spec.overheads.read_hit);
        held("read", all.read.expect("found").value, spec.overheads.read_miss + completion);
        held("bus", all.bus_read.expect("found").value, spec.bus_sector);
        held("head switch", all.head_switch.expect("found").value, spec.head_switch);
        let before_write = spec.head_switch + spec.write_settle;
        held("before a write", all.head_switch_write.expect("found").value, before_write);
        for distance in [8, 27, 100, 1_000] {
            held("a seek", seeks.time(distance), model.seek(distance));
        }
    }
}
