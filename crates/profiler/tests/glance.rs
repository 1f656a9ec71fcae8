//! What a glance says through a path that wanders is what the drive does, as far as it goes.
//!
//! The map of a glance ends long before the disk does. What stands on it is to be right all the same: an overhead that
//! holds a change of heads is not the drive's, and seeks that are differences to it are none.

mod judged;

use std::sync::Arc;

use drive::{AnyModel, Model};
use drive_profile::findings::SeekPoint;
use drive_profile::findings::{Findings, Spindle};
use judged::drawn::drawn;
use judged::dynamics::behind;
use judged::{library, profiled};
use sim::{BenchTarget, Lateness};
use spindle_profiler::Budget;
use units::{Duration, Lba};

/// The longest way to the drive and back: all that [`Lateness::URGENT`] has, but for those that are late beyond it.
const PATH_MAX: f64 = 0.24;
/// By how much what varies with the path may be off.
const OFF_MAX: f64 = 0.1;
/// And how many of its own errors a point of the curve.
const ERRORS: f64 = 3.0;

/// Addresses that are looked at on a map.
const SAMPLES: u64 = 1_000;

fn glance(model: &Arc<Model>, seed: u64) -> Findings {
    let target = BenchTarget::new(AnyModel::from(Arc::clone(model)), Duration::ZERO, seed)
        .without_seeks()
        .with_lateness(Lateness::URGENT, seed);
    let (findings, _, ended) = profiled(target, Budget::QUICK);
    ended.expect("it stays inside the budget");
    findings
}

/// Whether the map has nearly all addresses on their cylinders and under their heads, as far as it goes.
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

/// Says what is off, in ms; whether nothing is by more than it may be. Nothing where the
/// arm was left out.
fn held(name: &str, model: &Model, seed: u64) -> Option<bool> {
    let model = Arc::new(model.clone());
    let findings = glance(&model, seed);
    let (spec, found) = (model.spec(), &findings.dynamics);
    let (Some(seeks), Some(read)) = (&found.seek, found.overheads.read) else {
        println!("{name}, seed {seed}: no seeks");
        return None;
    };
    // What stands on a wrong map is the map's fault.
    if !is_right(&findings, &model) {
        println!("{name}, seed {seed}: the map is wrong");
        return None;
    }
    let overhead = (spec.overheads.read_miss + behind(spec)).as_millis_f64();
    let path = read.value.as_millis_f64() - overhead;
    // A glance says by how much a point may be off, and is held to that, too.
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
fn a_glance_tells_overheads_from_movements() {
    let seeds = std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok());
    let mut told = 0;
    for seed in 1..=seeds.unwrap_or(4) {
        for name in ["atlas-ii", "barracuda-st32171w", "cheetah9LP"] {
            let held = held(name, &library(name), seed);
            assert!(held != Some(false), "{name}, seed {seed}");
            told += u32::from(held.is_some());
        }
        let model = drawn(seed).check().expect("a drive");
        let held = held("drawn", &model, seed);
        assert!(held != Some(false), "drawn, seed {seed}");
        told += u32::from(held.is_some());
    }
    assert!(told > 6, "most glances told of the arm: {told}");
}
