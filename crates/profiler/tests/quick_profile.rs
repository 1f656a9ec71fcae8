//! A quick profile through a path with varying latency equals the drive, as far as it extends.
//!
//! The zone map of a quick profile ends long before the disk does. The figures based on it must be
//! right all the same: an overhead must not contain a head switch, and seek times are differences
//! to overheads.

mod verify;

use std::sync::Arc;

use drive::{AnyModel, Model};
use drive_profile::findings::SeekPoint;
use drive_profile::findings::{Findings, Spindle};
use sim::{BenchTarget, Lateness};
use spindle_profiler::Budget;
use units::{Duration, Lba};
use verify::dynamics::behind;
use verify::synthetic::random_zones;
use verify::{library, profiled};

/// The longest path latency of [`Lateness::URGENT`] without its late completions.
const PATH_MAX: f64 = 0.24;
/// The largest error of figures that vary with the path.
const OFF_MAX: f64 = 0.1;
/// The largest error of a point of the curve, in its standard errors.
const ERRORS: f64 = 3.0;

/// The addresses that are checked on a map.
const SAMPLES: u64 = 1_000;

fn quick_profile(model: &Arc<Model>, seed: u64) -> Findings {
    let target = BenchTarget::new(AnyModel::from(Arc::clone(model)), Duration::ZERO, seed)
        .without_seeks()
        .with_lateness(Lateness::URGENT, seed);
    let (findings, _, ended) = profiled(target, Budget::QUICK);
    ended.expect("it stays inside the budget");
    findings
}

/// Whether the map has nearly all addresses on the right cylinders and heads, as far as it extends.
fn is_right(findings: &Findings, model: &Model) -> bool {
    let (Some(map), Some(Spindle::Rotating(turns))) = (&findings.geometry, &findings.spindle)
    else {
        return false;
    };
    let map = map.profile(&turns.period);
    let step = map.capacity().0 / SAMPLES;
    let right = |nth: u64| {
        let (found, is) = (map.locate(Lba(nth * step)), model.position(Lba(nth * step)));
        found.cylinder == is.cylinder && found.surface == is.surface
    };
    (0..SAMPLES).filter(|nth| right(*nth)).count() as u64 * 100 >= SAMPLES * 95
}

/// Prints the errors in ms. Whether all are within their limits. `None` if seeks were skipped.
fn held(name: &str, model: &Model, seed: u64) -> Option<bool> {
    let model = Arc::new(model.clone());
    let findings = quick_profile(&model, seed);
    let (spec, found) = (model.spec(), &findings.dynamics);
    let (Some(seeks), Some(read)) = (&found.seek, found.overheads.read) else {
        println!("{name}, seed {seed}: no seeks");
        return None;
    };
    // A wrong map explains wrong figures.
    if !is_right(&findings, &model) {
        println!("{name}, seed {seed}: the map is wrong");
        return None;
    }
    let overhead = (spec.overheads.read_miss + behind(spec)).as_millis_f64();
    let path = read.value.as_millis_f64() - overhead;
    // A quick profile states the error of each point, and is checked against it as well.
    let off = |point: &SeekPoint| {
        let (found, is) = (point.time.as_millis_f64(), model.seek(point.distance).as_millis_f64());
        let may = (is * 0.05).max(OFF_MAX) + ERRORS * point.error.as_millis_f64();
        (point.distance, found - is, (found - is).abs() / may)
    };
    let all = seeks.points.iter().map(off);
    let (distance, off, part) =
        all.fold((0, 0.0, 0.0), |worst, one| if one.2 > worst.2 { one } else { worst });
    let most = seeks.points.last().map_or(0, |point| point.distance);
    let switch = found
        .overheads
        .head_switch
        .map_or(0.0, |switch| switch.value.as_millis_f64() - spec.head_switch.as_millis_f64());
    println!(
        "{name}, seed {seed}: overhead {path:+.3} ms of path; head switch {switch:+.3} ms; \
         seeks up to {most} {off:+.3} ms over {distance}, {part:.2}"
    );
    let path_held = (-OFF_MAX..PATH_MAX + OFF_MAX).contains(&path);
    Some(path_held && switch.abs() < OFF_MAX && part <= 1.0)
}

#[test]
fn a_quick_profile_separates_overheads_from_seeks() {
    let seeds = std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok());
    let mut told = 0;
    for seed in 1..=seeds.unwrap_or(4) {
        for name in ["atlas-ii", "barracuda-st32171w", "cheetah9LP"] {
            let held = held(name, &library(name), seed);
            assert!(held != Some(false), "{name}, seed {seed}");
            told += u32::from(held.is_some());
        }
        let model = random_zones(seed).check().expect("a drive");
        let held = held("random-zones", &model, seed);
        assert!(held != Some(false), "random-zones, seed {seed}");
        told += u32::from(held.is_some());
    }
    assert!(told > 6, "most glances told of the arm: {told}");
}
