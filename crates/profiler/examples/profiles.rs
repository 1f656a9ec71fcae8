//! Takes whole profiles of many drives and compares every guaranteed figure with the drive: period,
//! zones and skews, heads, seeks before reads and writes, chunk ranges, buffers, and the drive
//! time.
//!
//! `profiles DRIVE|all|synthetic FIRST COUNT [--quick]`: one line for each run, its errors under
//! it; exit code 1 if there are any. A quick profile is compared as far as it extends: seek times
//! with their own errors, too.

#[path = "../tests/verify/mod.rs"]
mod verify;

use core::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;

use drive::{AnyModel, Model};
use drive_profile::findings::{Findings, Spindle, Stage};
use sim::BenchTarget;
use spindle_profiler::{Bench, Budget, Progress, measure};
use units::Duration;
use verify::dynamics::{
    missed_of_buffers, missed_of_chunks, missed_of_quick_profile, worst, worst_of_writes,
};
use verify::synthetic::synthetic;
use verify::{SKEWS_OFF_MAX, held, real, runs};

const NOISE: Duration = Duration::from_micros(200);
const NANOS: u64 = 1_000_000_000;
const TIME: Duration = Duration::from_secs(600);

/// The most time of a quick profile.
const TIME_QUICK: Duration = Duration::from_secs(60);

/// The errors of a quick profile.
fn missed_by_quick_profile(model: &Arc<Model>, found: &Findings) -> Vec<String> {
    let Some(Spindle::Rotating(_)) = found.spindle else { return vec!["no turn".to_owned()] };
    let dynamics = &found.dynamics;
    let mut missed = missed_of_quick_profile(model, found);
    missed.extend(missed_of_chunks(model, dynamics));
    missed.extend(missed_of_buffers(model, dynamics));
    missed
}

/// The errors of a full profile.
fn missed(model: &Arc<Model>, found: &Findings) -> Vec<String> {
    let mut missed = Vec::new();
    let Some(Spindle::Rotating(turns)) = found.spindle else { return vec!["no turn".to_owned()] };
    let turn = real(model.period().as_nanos()) * 1e3;
    let off = (real(turns.period_picos) / turn - 1.0) * 1e6;
    if off.abs() > 10.0 {
        missed.push(format!("turn: {off:.1} ppm"));
    }
    let Some(map) = &found.geometry else { return vec!["no map".to_owned()] };
    let held = held(map, model);
    if held.found < held.zones || held.skews_off > SKEWS_OFF_MAX {
        missed.push(format!("{held:?}"));
    }
    let (heads, surfaces) = (map.heads.map(|heads| heads.value), model.spec().surfaces);
    if heads != Some(surfaces) {
        missed.push(format!("heads: {heads:?} for {surfaces}"));
    }
    if map.known != model.capacity() {
        missed.push(format!("known: {} of {} sectors", map.known.0, model.capacity().0));
    }
    let dynamics = &found.dynamics;
    match &dynamics.seek {
        None => missed.push("seeks not found".to_owned()),
        Some(seek) => {
            let (over, off, part) = worst(model, seek);
            if part > 1.0 {
                missed.push(format!("seek over {over}: {off:.0} us, {part:.2} of what may be"));
            }
        }
    }
    if dynamics.seek_write.is_some() && dynamics.overheads.write.is_some() {
        let (over, off, part) = worst_of_writes(model, dynamics);
        if part > 1.0 {
            missed.push(format!("before writes over {over}: {off:.0} us, {part:.2}"));
        }
    } else {
        missed.push("seeks before writes not found".to_owned());
    }
    missed.extend(missed_of_chunks(model, dynamics));
    missed.extend(missed_of_buffers(model, dynamics));
    missed
}

/// Whether all of this drive was found, with noise of this seed.
fn run(name: &str, model: &Arc<Model>, seed: u64) -> bool {
    let mut target = BenchTarget::new(AnyModel::from(Arc::clone(model)), NOISE, seed);
    // The time of each stage.
    let mut stages: Vec<(Stage, Duration)> = Vec::new();
    let mut before = Duration::ZERO;
    let mut watcher = |progress: &Progress| {
        let more = progress.spent.saturating_sub(before);
        before = progress.spent;
        match stages.iter_mut().find(|(stage, _)| *stage == progress.stage) {
            Some((_, took)) => *took += more,
            None => stages.push((progress.stage, more)),
        }
        ControlFlow::Continue(())
    };
    let quick = std::env::args().any(|word| word == "--quick");
    let budget = if quick { Budget::QUICK } else { Budget::DEFAULT };
    let mut bench = Bench::new(&mut target, budget, Findings::default(), &mut watcher);
    let ended = measure(&mut bench);
    let spent = bench.spent();
    let found = bench.findings;
    let mut missed =
        if quick { missed_by_quick_profile(model, &found) } else { missed(model, &found) };
    if let Err(reason) = ended {
        missed.push(format!("{reason:?}"));
    }
    if spent > if quick { TIME_QUICK } else { TIME } {
        missed.push(format!("took {spent}"));
    }
    let word = if missed.is_empty() { "held" } else { "MISSED" };
    let spec = model.spec();
    let (heads, zones) = (spec.surfaces, spec.zones.len());
    println!("{word} {name}, noise {seed}: {heads} heads, {zones} zones, in {spent}");
    let took = |(stage, took): &(Stage, Duration)| format!("{stage} {}", took.as_nanos() / NANOS);
    println!("  seconds: {}", stages.iter().map(took).collect::<Vec<_>>().join(", "));
    if !missed.is_empty() {
        for one in &missed {
            println!("  {one}");
        }
        for note in &found.notes {
            println!("  it says: {note}");
        }
    }
    missed.is_empty()
}

fn main() -> ExitCode {
    runs(&[("synthetic", synthetic)], run)
}
