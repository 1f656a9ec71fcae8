//! What is found of a drive's dynamics is what the drive does, through noise, for drives of every kind.
//!
//! `make soak` runs more seeds: `SPINDLE_CASES=20`.

use core::ops::ControlFlow;
use std::sync::Arc;

use config::{drives, profile};
use drive::{AnyModel, Model};
use sim::BenchTarget;
use spindle_profiler::dynamics::{self, ChunkPoint, Chunks, Dynamics, OPTIMAL, STEPS, Seeks};
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

/// Throughput of a host that is never late, in sectors a ns: what the range is about.
fn streamed(model: &Arc<Model>, chunk: u64, writes: bool) -> f64 {
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
    (sectors / chunk * chunk) as f64 / took.as_millis_f64()
}

/// The steps at which the true range begins and ends, and those at which the found one does.
fn ranges(model: &Arc<Model>, found: &Chunks, writes: bool) -> [(usize, usize); 2] {
    let rates: Vec<f64> = STEPS.iter().map(|chunk| streamed(model, *chunk, writes)).collect();
    let best = rates.iter().copied().fold(0.0, f64::max);
    let first = rates.iter().position(|rate| *rate >= OPTIMAL * best).expect("the best is");
    let behind = rates[first..].iter().position(|rate| *rate < OPTIMAL * best);
    let last = behind.map_or(rates.len(), |behind| first + behind) - 1;
    let step = |chunk: Sectors| STEPS.iter().position(|step| *step == chunk.0).expect("a step");
    [(first, last), (step(found.optimal.0), step(found.optimal.1))]
}

fn check_chunks(name: &str, model: &Arc<Model>, found: &Dynamics) -> String {
    let mut said = String::new();
    for (chunks, writes) in [(&found.chunks_read, false), (&found.chunks_write, true)] {
        let chunks = chunks.as_ref().expect("found");
        let [is, found] = ranges(model, chunks, writes);
        let shown = |range: (usize, usize)| format!("{}..{}", STEPS[range.0], STEPS[range.1]);
        said += &format!(" {} ({})", shown(found), shown(is));
        let near = |one: usize, other: usize| one.abs_diff(other) <= 1;
        assert!(
            near(is.0, found.0) && near(is.1, found.1),
            "{name}: writes {writes}: {} for {}; {:?}",
            shown(found),
            shown(is),
            chunks
                .points
                .iter()
                .map(|p: &ChunkPoint| (p.chunk.0, p.seen.0 / 1_000, p.drive.0 / 1_000))
                .zip(STEPS.iter().map(|c| (streamed(model, *c, writes) * 512.0) as u64))
                .collect::<Vec<_>>()
        );
    }
    said
}

fn check_buffers(name: &str, model: &Model, found: &Dynamics) -> String {
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
    format!(
        "{}x{} ({}x{}), {size} ({true_size})",
        buffer.segments.value, buffer.segment.value.0, is.segments, is.segment.0
    )
}

/// Twice as many in `make soak`, or as many as it says.
fn seeds() -> u64 {
    std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1)
}

#[test]
fn every_drive_of_the_library_is_found_as_it_is() {
    for seed in 1..=seeds() {
        for (name, model) in mechanical() {
            let (found, spent) = measured(&model, Budget::DEFAULT, seed);
            let dynamics = &found.dynamics;
            let seek = dynamics.seek.as_ref().expect("found");
            let (distance, off, part) = worst(&model, seek);
            println!(
                "{name}, seed {seed}: {:.0} s; worst seek {off:.0} us over {distance}, {part:.2} of what is allowed",
                spent.as_secs_f64()
            );
            println!("    chunks{}", check_chunks(name, &model, dynamics));
            println!("    buffers {}", check_buffers(name, &model, dynamics));
            let starvation = dynamics.starvation.as_ref().expect("found");
            println!("    safe depth {}, {:?}", starvation.safe_depth, dynamics.prediction);
            assert!(part <= 1.0, "{name}, seed {seed}: {off} us off over {distance} cylinders");
            assert!(spent <= TIME, "{name}: {spent}");
        }
    }
}

#[test]
fn a_glance_is_half_a_minute_and_says_how_far_it_can_be_trusted() {
    for (name, model) in mechanical() {
        let (found, spent) = measured(&model, Budget::QUICK, 1);
        let seek = found.dynamics.seek.as_ref().expect("found");
        let (distance, off, part) = worst(&model, seek);
        println!(
            "{name}: {:.1} s; {off:.0} us over {distance}, {part:.2}; {:?}",
            spent.as_secs_f64(),
            found.notes
        );
        println!(
            "    {:?} {:?}",
            found.dynamics.chunks_read.as_ref().map(|c| c.optimal),
            found.dynamics.read_buffer.map(|b| (b.segments.value, b.segment.value))
        );
        assert!(spent <= TIME_QUICK, "{name}: {spent}");
    }
}
