//! Compares measured zone maps with the drives.

#![allow(dead_code, reason = "each file of tests uses its part of this")]

pub(crate) mod dynamics;
pub(crate) mod synthetic;

use core::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;

use drive::{AnyModel, Model, Spec};
use drive_profile::findings::{Findings, Geometry, Rotation, Spindle, Stage};
use sim::BenchTarget;
use spindle_profiler::{Bench, Budget, Progress, StopReason, geometry, measure, rotation};
use units::{Angle, Duration};

pub(crate) const NOISE: Duration = Duration::from_micros(200);

#[expect(clippy::cast_precision_loss, reason = "times and counts of a drive")]
pub(crate) const fn real(number: u64) -> f64 {
    number as f64
}

pub(crate) struct Measured {
    pub(crate) findings: Findings,
    pub(crate) rotation: Rotation,
    pub(crate) spent: Duration,
}

/// Measures a drive by reads alone, observed with noise.
pub(crate) fn measured(model: &Arc<Model>, budget: Budget, seed: u64) -> Measured {
    let model = AnyModel::from(Arc::clone(model));
    measured_by(BenchTarget::new(model, NOISE, seed).read_only(), budget)
}

/// The same through a given target.
pub(crate) fn measured_by(target: BenchTarget, budget: Budget) -> Measured {
    mapped(target, budget).expect("it turns")
}

/// The same, where the rotation may not be detected.
pub(crate) fn mapped(mut target: BenchTarget, budget: Budget) -> Option<Measured> {
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let mut bench = Bench::new(&mut target, budget, Findings::default(), &mut watcher);
    let Ok(Spindle::Rotating(turns)) = rotation(&mut bench) else { return None };
    let ended = geometry(&mut bench, &turns);
    let spent = bench.spent();
    let findings = bench.findings;
    assert_eq!(ended.is_ok(), findings.is_done(Stage::Zones));
    let Some(Spindle::Rotating(rotation)) = findings.spindle else { panic!("it still turns") };
    Some(Measured { findings, rotation, spent })
}

/// A whole profile: the findings, the drive time that they took, and how the measurement ended.
pub(crate) fn profiled(
    mut target: BenchTarget,
    budget: Budget,
) -> (Findings, Duration, Result<(), StopReason>) {
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let mut bench = Bench::new(&mut target, budget, Findings::default(), &mut watcher);
    let ended = measure(&mut bench);
    let spent = bench.spent();
    (bench.findings, spent, ended)
}

/// Compares the measured map of a drive with the drive: period, zones, skews and heads, to the end
/// of the disk.
pub(crate) fn assert_held(name: &str, model: &Model, measured: &Measured) {
    let map = measured.findings.geometry.as_ref().expect("a map");
    let (off, held) = (period_off(measured, model), held(map, model));
    let heads = map.heads.map(|heads| heads.value);
    println!("{name}: {off:.2} ppm, {held:?}, heads {heads:?}, in {}", measured.spent);
    assert!(off.abs() < 10.0, "{name}: {off} ppm");
    assert_eq!(held.found, held.zones, "{name}: {held:?}");
    assert!(held.skews_off < SKEWS_OFF_MAX, "{name}: {held:?}");
    assert_eq!(heads, Some(model.spec().surfaces), "{name}");
    assert_eq!(map.known, model.capacity(), "{name}");
}

/// Synthetic drives: the name and the drive of each seed.
pub(crate) type SyntheticDrives = fn(u64) -> (String, Spec);

/// The examples' main function: `DRIVE|all|NAME FIRST COUNT`, where synthetic drives have names
/// too. Prints the number of runs with errors; exit code 1 if there are any.
pub(crate) fn runs(
    dealt: &[(&str, SyntheticDrives)],
    run: impl Fn(&str, &Arc<Model>, u64) -> bool,
) -> ExitCode {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_else(|| "all".into());
    let mut number = |or| words.next().map_or(or, |word| word.parse().expect("a number"));
    let (first, count) = (number(1), number(1));
    let mut missed = 0;
    for seed in first..first + count {
        if let Some((_, deal)) = dealt.iter().find(|(name, _)| *name == what) {
            let (name, spec) = deal(seed);
            match spec.check() {
                Ok(model) => missed += u32::from(!run(&name, &Arc::new(model), seed)),
                Err(error) => println!("{name} is no drive: {error}"),
            }
            continue;
        }
        let turning = |name: &&str| drive_library::find_mechanical(name).is_some();
        for name in drive_library::names().filter(turning) {
            if what == "all" || what.split(',').any(|one| one == name) {
                missed += u32::from(!run(name, &library(name), seed));
            }
        }
    }
    println!("{missed} missed");
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub(crate) fn library(name: &str) -> Arc<Model> {
    Arc::new(drive_library::find_mechanical(name).expect("in it").check().expect("a drive"))
}

/// The error of the period, in parts per million.
pub(crate) fn period_off(measured: &Measured, model: &Model) -> f64 {
    let truth = real(model.period().as_nanos()) * 1e3;
    (real(measured.rotation.period_picos) / truth - 1.0) * 1e6
}

/// The comparison of the zones whose tracks differ in length from those before them.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) zones: usize,
    /// Found to the sector, with the exact number of sectors per track.
    pub(crate) found: usize,
    /// The largest relative error of skews.
    pub(crate) skews_off: f64,
}

/// The relative errors of the skews that were found.
pub(crate) fn skews_off(
    found: &drive_profile::findings::Zone,
    zone: &drive::Zone,
    model: &Model,
) -> f64 {
    let turn = real(model.period().as_nanos());
    let off = |figure: Duration, sectors: u32, rest: Angle| {
        let part = f64::from(sectors) / f64::from(zone.sectors_per_track);
        let part = part + f64::from(rest.0) / 2_f64.powi(32);
        (real(figure.as_nanos()) / (part * turn) - 1.0).abs()
    };
    if model.spec().surfaces == 1 {
        // Each of its tracks is a cylinder.
        return off(found.cylinder_skew.value, zone.cylinder_skew, zone.cylinder_skew_remainder);
    }
    let track = off(found.track_skew.value, zone.track_skew, zone.track_skew_remainder);
    let cylinder = off(found.cylinder_skew.value, zone.cylinder_skew, zone.cylinder_skew_remainder);
    track.max(cylinder)
}

pub(crate) fn held(geometry: &Geometry, model: &Model) -> Held {
    let mut held = Held::default();
    let mut before = 0;
    for (facts, zone) in model.zones().zip(&model.spec().zones) {
        if zone.sectors_per_track == before {
            continue;
        }
        before = zone.sectors_per_track;
        held.zones += 1;
        let begins = |found: &&drive_profile::findings::Zone| found.lbas.start == facts.lbas.start;
        let Some(found) = geometry.zones.iter().find(begins) else { continue };
        if found.sectors_per_track.value != before {
            continue;
        }
        held.found += 1;
        // Zones that differ only in their skews are one zone of the map, with the skews of one of
        // them.
        let alike = model.spec().zones.iter().filter(|zone| zone.sectors_per_track == before);
        let off = alike.map(|zone| skews_off(found, zone, model)).fold(f64::INFINITY, f64::min);
        held.skews_off = held.skews_off.max(off);
    }
    held
}

/// The largest accepted relative error of skews.
pub(crate) const SKEWS_OFF_MAX: f64 = 0.02;
