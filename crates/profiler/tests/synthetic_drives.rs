//! Zone maps of synthetic drives, with the firmware and caches of library drives at random.

mod verify;

use std::sync::Arc;

use drive::{Model, Skip};
use drive_profile::findings::Geometry;
use spindle_profiler::Budget;
use units::Duration;
use verify::synthetic::synthetic;
use verify::{Measured, SKEWS_OFF_MAX, assert_held, held, measured};

/// The drive of a seed, and its map under noise of the same seed.
fn mapped(seed: u64, budget: Budget) -> (String, Model, Measured) {
    let (name, spec) = synthetic(seed);
    let model = Arc::new(spec.check().expect("a drive"));
    let measured = measured(&model, budget, seed);
    (name, Model::clone(&model), measured)
}

fn map(measured: &Measured) -> &Geometry {
    measured.findings.geometry.as_ref().expect("a map")
}

/// Compares the map of a drive with the drive.
fn holds(seed: u64) {
    let (name, model, measured) = mapped(seed, Budget::DEFAULT);
    assert_held(&name, &model, &measured);
}

/// Its bus takes three times the media time of a sector, and its cache holds seven reads: a read of
/// many sectors completes when the bus is done, and does not show its last sector's angle.
#[test]
fn the_zones_of_a_drive_are_found_whose_bus_is_slow_and_whose_cache_is_large() {
    holds(24);
    holds(17);
}

/// Forty blocks must be read in turn, and rounds of forty reads take nearly equal times.
#[test]
fn the_rotation_of_a_drive_that_caches_thirty_two_reads_is_found() {
    holds(36);
    holds(46);
}

/// It caches whole tracks before a read, so that a block behind another is never read from the
/// media after it.
#[test]
fn the_zones_of_a_drive_are_found_that_keeps_seventy_whole_tracks() {
    let (_, model, measured) = mapped(23, Budget::DEFAULT);
    let map = map(&measured);
    assert_eq!(map.known, model.capacity());
    assert_eq!(map.heads.map(|heads| heads.value), Some(model.spec().surfaces));
    let spts: Vec<u32> = map.zones.iter().map(|zone| zone.sectors_per_track.value).collect();
    for zone in &model.spec().zones {
        assert!(spts.contains(&zone.sectors_per_track), "{spts:?}");
    }
}

/// Their head switches take nearly as long as cylinder switches, so that both skews are nearly
/// equal, and their seek times vary by more than the skews differ. An earlier version was certain
/// of two heads.
#[test]
fn the_heads_of_drives_are_found_whose_skews_are_alike_and_whose_arms_vary() {
    for seed in [1, 21, 40, 102] {
        holds(seed);
    }
}

/// One head has one skew, and every track is as far from the next as a cylinder.
#[test]
fn drives_with_one_head_are_seen_to_have_one() {
    for seed in [35, 45] {
        let (name, model, measured) = mapped(seed, Budget::DEFAULT);
        let map = map(&measured);
        assert_eq!(map.heads.map(|heads| heads.value), Some(1), "{name}");
        assert!(held(map, &model).skews_off < SKEWS_OFF_MAX, "{name}");
    }
}

/// Slipped and spare sectors, tracks of a tenth of a long read, and a bus slower than the media: an
/// earlier version ran out of time for reading cached blocks again, and found four zones of ten.
#[test]
fn the_zones_of_old_drives_with_slips_and_spares_are_found() {
    holds(19);
    holds(30);
}

/// Slipped sectors in the first tracks of a zone move all tracks behind it by a sector.
#[test]
fn zones_begin_where_they_do_though_sectors_were_slipped_next_to_it() {
    for seed in [189, 203] {
        let (name, mut spec) = synthetic(seed);
        for zone in &mut spec.zones {
            let sectors = u64::from(zone.sectors_per_track);
            zone.skips.retain(|skip| skip.first > 16 * sectors);
            zone.skips.insert(0, Skip { first: 2 * sectors + sectors / 3, count: 1 });
        }
        let model = Arc::new(spec.check().expect("a drive"));
        assert_held(&name, &model, &measured(&model, Budget::DEFAULT, seed));
    }
}

/// A spindle of 15,000 rpm needs more time than this budget has for the map.
#[test]
fn an_interrupted_map_is_right_as_far_as_it_extends_and_leaves_the_other_stages_their_share() {
    let total = Duration::from_secs(240);
    let (_, model, measured) = mapped(76, Budget { total, quick: false });
    let map = map(&measured);
    let profile = map.profile(&measured.rotation.period);
    println!("known {} of {}, in {}", map.known.0, model.capacity().0, measured.spent);
    assert!(map.known < model.capacity());
    assert_eq!(profile.check(), Ok(()));
    assert_eq!(profile.capacity(), map.known);
    assert!(measured.spent < total * 71 / 100, "{}", measured.spent);
}
