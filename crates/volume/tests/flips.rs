//! Every byte of a pool's metadata is damaged, one at a time: the pool is the same, and a check
//! names what was damaged. `SPINDLE_CASES=1` damages every byte; without it, every eleventh.

mod common;

use common::disk::Disk;
use common::world::{BLOCKS, POOL, perform, uid};
use common::{cases, media};
use spindle_volume::pool::format::{Geometry, Slot, label_places};
use spindle_volume::pool::{
    Blocks, Layout, NewVolume, OpenError, Operation, Pool, PoolOutput, PoolVolumeId, State, Zone,
    check, find,
};
use units::{Extent, Lba};

/// Does all that a pool has to do.
fn settle(pool: &mut Pool, disks: &mut [Disk]) {
    while let Some(output) = pool.poll() {
        match output {
            PoolOutput::Do(id, action) => {
                perform(disks, &|disk| disk.0 as usize, &action);
                pool.done(id, true);
            }
            PoolOutput::Finished(ticket, end) => {
                assert_eq!(end, Ok(()));
                pool.release(ticket);
            }
        }
    }
}

fn golden(members: usize, operations: u32) -> (Vec<Disk>, State) {
    let mut disks = vec![Disk::new(Blocks(BLOCKS).sectors()); members];
    let uids: Vec<_> = (0..members).map(|device| (uid(device), BLOCKS)).collect();
    let mut pool = Pool::create(POOL, Geometry::new(4, 8).unwrap(), &uids).unwrap();
    settle(&mut pool, &mut disks);
    let on: Vec<_> = pool.state().disks().map(|(id, _)| id).collect();
    let (name, size) = ("films".to_owned(), Blocks(9));
    let (layout, zone, thin, seed) = (Layout::Stripe, Zone::Any, true, 0);
    let create = NewVolume { name, size, layout, zone, thin, has_sums: true, seed, disks: on };
    pool.begin(&Operation::Create(create)).unwrap();
    settle(&mut pool, &mut disks);
    for n in 1..=operations {
        pool.begin(&Operation::Resize { volume: PoolVolumeId(1), size: Blocks(9 + n) }).unwrap();
        settle(&mut pool, &mut disks);
    }
    (disks, pool.state().clone())
}

/// The places that hold metadata.
fn places(geometry: Geometry) -> Vec<Extent> {
    let slots =
        Slot::BOTH.map(|slot| [geometry.header(slot), geometry.image(slot), geometry.log(slot)]);
    let mut places = slots.concat();
    places.extend(label_places(BLOCKS));
    places
}

/// A unit that was written, so that damage to it is damage.
fn in_use(disk: &Disk, byte: usize) -> bool {
    let unit = Extent::new(Lba(byte as u64 / 4_096 * 8), units::Sectors(8));
    !disk.written(unit).is_empty()
}

/// Damages every `step`th byte from `first` on, of the first disk.
fn sweep(members: usize, operations: u32, step: usize) {
    let (mut disks, state) = golden(members, operations);
    assert!(check(&media(&disks)).unwrap().is_whole());
    let mut noticed = 0;
    for extent in places(state.geometry) {
        let bytes = extent.start.0 * 512..extent.end().0 * 512;
        for byte in (bytes.start..bytes.end).step_by(step) {
            let byte = usize::try_from(byte).unwrap();
            let used = in_use(&disks[0], byte);
            let bits = [0x01, 0x10, 0xFF][byte % 3];
            disks[0].damage(byte, bits);
            let found = find(&media(&disks)).unwrap_or_else(|error| panic!("byte {byte}: {error}"));
            assert_eq!(found.state, state, "byte {byte} of {members} disks after {operations}");
            let report = check(&media(&disks)).unwrap();
            assert_eq!(report.found.state, state, "byte {byte}");
            if used {
                assert!(report.count > 0, "byte {byte} of {members} disks after {operations}");
                noticed += 1;
            }
            if byte % 61 == 0 {
                let mut repaired = disks.clone();
                settle(&mut Pool::open(report.found), &mut repaired);
                let report = check(&media(&repaired)).unwrap();
                assert!(report.is_whole(), "byte {byte}: {:?}", report.findings);
                assert_eq!(report.found.state, state);
            }
            disks[0].damage(byte, bits);
        }
    }
    println!("{members} disks, {operations} changes: {noticed} bytes noticed");
    assert!(noticed > 0);
}

fn step() -> usize {
    if cases(0) > 0 { 1 } else { 11 }
}

/// After 2 changes the log holds records; after 4 it is full; after 5 there is a new image with its
/// log.
#[test]
fn a_damaged_byte_is_noticed_and_changes_nothing_on_one_disk() {
    for operations in [0, 2, 3, 5] {
        sweep(1, operations, step());
    }
}

#[test]
fn a_damaged_byte_is_noticed_and_changes_nothing_on_two_disks() {
    sweep(2, 5, step());
}

/// What no copy has is refused, with what it is; it is never an older state that is taken for the
/// newest.
#[test]
fn a_change_that_is_lost_before_another_is_refused() {
    let (mut disks, state) = golden(1, 2);
    for slot in Slot::BOTH {
        let log = state.geometry.log(slot).start.0;
        for copy in [0, 8] {
            disks[0].damage(usize::try_from((log + copy) * 512).unwrap() + 40, 1);
        }
    }
    let error = find(&media(&disks)).unwrap_err();
    assert!(matches!(error, OpenError::RecordLost { sequence: 1, .. }), "{error}");
}

/// Two bytes of anything: the pool is the same, or it is refused; never another state, unless the
/// last change is what both copies lost, which a crash looks like too.
#[test]
fn two_damaged_bytes_never_make_another_state_but_the_one_before() {
    let mut rng = rng::SplitMix64::new(3);
    for operations in [1, 2, 5] {
        let (disks, state) = golden(1, operations);
        let bytes: Vec<u64> = places(state.geometry)
            .into_iter()
            .flat_map(|extent| disks[0].written(extent))
            .flat_map(|sector| sector * 512..sector * 512 + 512)
            .collect();
        for _ in 0..3_000 {
            let mut damaged = disks.clone();
            for _ in 0..2 {
                let at = bytes[rng.below(u32::try_from(bytes.len()).unwrap()) as usize];
                damaged[0].damage(usize::try_from(at).unwrap(), 1 << rng.below(8));
            }
            if let Ok(found) = find(&media(&damaged)) {
                let behind = state.sequence - found.state.sequence;
                assert!(behind <= 1, "{behind} changes are gone silently");
                assert!(behind == 1 || found.state == state);
            }
        }
    }
}
