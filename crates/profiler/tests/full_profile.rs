//! Whole profiles, full and quick: the drive time that they take.

mod verify;

use std::sync::Arc;

use drive::{AnyModel, Model};
use drive_profile::findings::{Findings, Stage};
use sim::BenchTarget;
use spindle_profiler::Budget;
use units::Duration;
use verify::dynamics::{worst, worst_of_writes};
use verify::{NOISE, library};

/// The findings of a drive, observed with 0.2 ms of noise, and the drive time that they took.
fn profiled(model: &Arc<Model>, budget: Budget) -> (Findings, Duration) {
    let target = BenchTarget::new(AnyModel::from(Arc::clone(model)), NOISE, 1);
    let (findings, spent, ended) = verify::profiled(target, budget);
    ended.expect("it stays inside the budget");
    (findings, spent)
}

#[test]
fn the_whole_profile_takes_less_than_ten_minutes() {
    for name in ["atlas10k", "deskstar-34gxp"] {
        let (found, spent) = profiled(&library(name), Budget::DEFAULT);
        println!("{name}: {spent}, {:?}", found.notes);
        assert!(spent < Duration::from_secs(600), "{name}: {spent}");
        let missing: Vec<Stage> = Stage::ALL[..10]
            .iter()
            .filter(|stage| **stage != Stage::Surfaces && !found.is_done(**stage))
            .copied()
            .collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
    }
}

/// On a measured map, which deviates by some ten us, and not on the drive's own.
#[test]
fn seeks_are_found_over_the_map_that_was_measured() {
    for name in ["atlas-ii", "barracuda-2t", "hgst-7k8"] {
        let model = library(name);
        let (found, spent) = profiled(&model, Budget::DEFAULT);
        let reads = worst(&model, found.dynamics.seek.as_ref().expect("found"));
        let writes = worst_of_writes(&model, &found.dynamics);
        println!("{name}: {spent}; reads {reads:?}, writes {writes:?}");
        for (over, off, part) in [reads, writes] {
            assert!(part <= 1.0, "{name}: {off} us off over {over} cylinders");
        }
        assert!(spent < Duration::from_secs(600), "{name}: {spent}");
    }
}

/// A stage that exceeds its share ends; the others run.
#[test]
fn a_quick_profile_takes_less_than_a_minute_and_continues_after_an_incomplete_stage() {
    for name in ["atlas10k", "barracuda-2t", "deskstar-34gxp", "hgst-7k8", "nearline-20t"] {
        let (found, spent) = profiled(&library(name), Budget::QUICK);
        println!("{name}: {spent}, {:?}", found.notes);
        assert!(spent < Duration::from_secs(60), "{name}: {spent}");
        assert!(found.geometry.is_some(), "{name}: a map, as far as it goes");
        // The last stage ran.
        assert!(found.is_done(Stage::Depth), "{name}: {:?}", found.notes);
    }
}
