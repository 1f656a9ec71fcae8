//! Measures the zone maps of many drives with many seeds of noise, and compares each with the
//! drive: the long form of the tests.
//!
//! `maps DRIVE|all|random-zones|synthetic FIRST COUNT`: one line for each run, and the number of
//! runs with errors at the end; exit code 1 if there are any.

#[path = "../tests/verify/mod.rs"]
mod verify;

use std::process::ExitCode;
use std::sync::Arc;

use drive::{AnyModel, Model};
use drive_profile::findings::Geometry;
use sim::BenchTarget;
use spindle_profiler::Budget;
use verify::synthetic::{random_zones, synthetic};
use verify::{NOISE, SKEWS_OFF_MAX, held, mapped, period_off, runs, skews_off};

/// Whether the map of this drive was found, with noise of this seed.
fn run(name: &str, model: &Arc<Model>, seed: u64) -> bool {
    let target = BenchTarget::new(AnyModel::from(Arc::clone(model)), NOISE, seed).read_only();
    let Some(measured) = mapped(target, Budget::DEFAULT) else {
        println!("MISSED {name} {seed}: does not turn");
        return false;
    };
    let (off, spent) = (period_off(&measured, model), measured.spent);
    let Some(map) = &measured.findings.geometry else {
        println!("MISSED {name} {seed}: no map, {off:.2} ppm, in {spent}");
        return false;
    };
    let held = held(map, model);
    let heads = map.heads.map(|heads| heads.value);
    let all = held.found == held.zones && held.skews_off < SKEWS_OFF_MAX;
    let whole = map.known == model.capacity() && heads == Some(model.spec().surfaces);
    let good = all && whole && off.abs() < 10.0;
    let word = if good { "held" } else { "MISSED" };
    let truth = model.spec().surfaces;
    println!(
        "{word} {name} {seed}: {off:.2} ppm, {held:?}, heads {heads:?} of {truth}, in {spent}"
    );
    if !good {
        println!("  known {} of {}", map.known.0, model.capacity().0);
        differences(map, model);
    }
    good
}

/// Prints the differences between the map and the drive.
fn differences(map: &Geometry, model: &Model) {
    let mut before = 0;
    for (facts, zone) in model.zones().zip(&model.spec().zones) {
        let sectors = zone.sectors_per_track;
        let found = map.zones.iter().find(|found| found.lbas.start == facts.lbas.start);
        let exact = found.filter(|found| found.sectors_per_track.value == sectors);
        if sectors != before && exact.is_none() {
            println!("  {:?} with {sectors} sectors a track was not found", facts.lbas);
        }
        before = sectors;
        let Some(found) = exact else { continue };
        let off = skews_off(found, zone, model);
        if off > SKEWS_OFF_MAX {
            let (track, cylinder) = (found.track_skew, found.cylinder_skew);
            println!("  {:?}: skews {track:?}, {cylinder:?} off by {off:.3}", facts.lbas);
            let (track, cylinder) = (zone.track_skew, zone.cylinder_skew);
            println!("    and are {track} and {cylinder} of {sectors} sectors");
        }
    }
    for zone in &map.zones {
        if !model.zones().any(|facts| facts.lbas.start == zone.lbas.start) {
            let sectors = zone.sectors_per_track.value;
            println!(
                "  {:?} with {sectors} sectors a track, {}, is none",
                zone.lbas, zone.begin_confidence
            );
        }
    }
}

fn main() -> ExitCode {
    let zones = |seed| ("random-zones".to_owned(), random_zones(seed));
    runs(&[("random-zones", zones), ("synthetic", synthetic)], run)
}
