//! A drive as a loaded host observes it: completions are observed late, by milliseconds now and
//! then.

mod verify;

use core::ops::ControlFlow;
use std::sync::Arc;

use drive::AnyModel;
use drive_profile::findings::{Findings, Spindle};
use sim::{BenchTarget, Lateness};
use spindle_profiler::{Bench, Budget, Progress, rotation};
use units::{Duration, Share};
use verify::{SKEWS_OFF_MAX, held, library, measured_by, period_off};

/// Twice as late as a loaded host: every fifth completion is late.
const OVERLOADED: Lateness = Lateness { often: Share::from_percent(20), ..Lateness::LOADED };

#[expect(clippy::cast_precision_loss, reason = "times of a drive")]
const fn real(number: u64) -> f64 {
    number as f64
}

/// The error of the measured period of this drive, in parts per million.
fn off(name: &str, lateness: Lateness, quick: bool, seed: u64) -> f64 {
    let model =
        Arc::new(drive_library::find_mechanical(name).expect("in it").check().expect("a drive"));
    let truth = real(model.period().as_nanos()) * 1e3;
    let budget = if quick { Budget::QUICK } else { Budget::DEFAULT };
    let mut target = BenchTarget::new(AnyModel::from(model), Duration::ZERO, seed)
        .read_only()
        .with_lateness(lateness, seed);
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let mut bench = Bench::new(&mut target, budget, Findings::default(), &mut watcher);
    let Ok(Spindle::Rotating(turns)) = rotation(&mut bench) else {
        panic!("{name}, seed {seed}: it turns, but: {:?}", bench.findings.notes)
    };
    let off = (real(turns.period_picos) / truth - 1.0) * 1e6;
    println!("{name}, seed {seed}: {off:.2} ppm, noise {}, in {}", turns.noise, bench.spent());
    off
}

#[test]
fn a_rotation_is_measured_although_completions_are_observed_late() {
    for name in drive_library::names().filter(|name| drive_library::find_mechanical(name).is_some())
    {
        for (lateness, seed) in [(Lateness::LOADED, 1), (Lateness::LOADED, 2), (OVERLOADED, 3)] {
            let off = off(name, lateness, seed == 2, seed);
            assert!(off.abs() < 20.0, "{name}, seed {seed}: {off} ppm");
        }
    }
}

#[test]
fn a_rotation_is_measured_where_all_completions_are_observed_at_once() {
    let punctual = Lateness {
        always: Duration::ZERO,
        often: Share::NONE,
        seldom: Share::NONE,
        ..Lateness::LOADED
    };
    for name in ["cheetah9LP", "st318437lw", "hp_c3323a"] {
        for seed in 1..=4 {
            let off = off(name, punctual, true, seed);
            assert!(off.abs() < 10.0, "{name}, seed {seed}: {off} ppm");
        }
    }
}

/// This drive drops data that it has returned, so that two blocks read in turn are cached every
/// other time.
#[test]
fn cache_hits_are_not_taken_for_noise() {
    for seed in 1..=6 {
        let name = "barracuda-st32171w";
        let model = Arc::new(
            drive_library::find_mechanical(name).expect("in it").check().expect("a drive"),
        );
        let noise = Duration::from_micros(200);
        let mut target = BenchTarget::new(AnyModel::from(model), noise, seed).read_only();
        let mut watcher = |_: &Progress| ControlFlow::Continue(());
        let mut bench = Bench::new(&mut target, Budget::DEFAULT, Findings::default(), &mut watcher);
        let Ok(Spindle::Rotating(turns)) = rotation(&mut bench) else {
            panic!("seed {seed}: it turns")
        };
        let off = real(turns.noise.as_nanos()) / real(noise.as_nanos()) - 1.0;
        assert!(off.abs() < 0.1, "seed {seed}: {} of {noise}", turns.noise);
        assert!(turns.cache_hit_max > Duration::ZERO, "seed {seed}: what it read ahead is kept");
    }
}

/// A map with every zone, through a path whose latency varies as on a loaded host.
#[test]
fn zones_are_found_though_the_path_between_drive_and_host_wanders() {
    let drives = [
        ("atlas-ii", 1),
        ("atlas-ii", 2),
        ("cheetah9LP", 2),
        ("deskstar-34gxp", 1),
        ("hp_c3323a", 1),
        ("st318437lw", 1),
    ];
    for (name, seed) in drives {
        let model = library(name);
        let target = BenchTarget::new(AnyModel::from(Arc::clone(&model)), Duration::ZERO, seed)
            .read_only()
            .with_lateness(Lateness::URGENT, seed);
        let measured = measured_by(target, Budget::DEFAULT);
        let map = measured.findings.geometry.as_ref().expect("a map");
        let held = held(map, &model);
        let heads = map.heads.map(|heads| heads.value);
        let (noise, off) = (measured.rotation.noise, period_off(&measured, &model));
        println!("{name}, seed {seed}: {noise}, {off:.2} ppm, {held:?}, in {}", measured.spent);
        assert!(off.abs() < 20.0, "{name}, seed {seed}: {off} ppm");
        assert_eq!(held.found, held.zones, "{name}, seed {seed}: {held:?}");
        assert!(held.skews_off < SKEWS_OFF_MAX, "{name}, seed {seed}: {held:?}");
        assert_eq!(heads, Some(model.spec().surfaces), "{name}, seed {seed}");
    }
}
