//! A checksum area on the disk of a pool is found, and damage to it is told.

use spindle_volume::pool::Action;
use spindle_volume::pool::format::{Geometry, label_places};
use spindle_volume::pool::sums::{
    Access, DiskSums, Ledger, PageOwner, Sum, SumsAction, SumsArea, SumsOutput, blocks_with_area,
    find_sums,
};
use spindle_volume::pool::{Blocks, Damage, DiskUid, Pool, PoolOutput, PoolUid, check, find};
use units::Sectors;

use crate::common::disk::Disk;
use crate::common::media;
use crate::world::whole;

const SIZE: Sectors = Sectors(600 * 2_048);

fn settle(pool: &mut Pool, disk: &mut Disk) {
    while let Some(output) = pool.poll() {
        match output {
            PoolOutput::Do(id, action) => {
                match action {
                    Action::Write { extent, bytes, .. } => disk.write(extent, &bytes),
                    Action::Flush { .. } => disk.flush(),
                    other => panic!("a new pool has no {other:?}"),
                }
                pool.done(id, true);
            }
            PoolOutput::Finished(id, _) => pool.release(id),
        }
    }
}

/// A pool with checksums on one disk, of which the checksum of one write is stored.
fn made() -> (Disk, SumsArea) {
    let (mut disk, uid) = (Disk::new(SIZE), DiskUid([2; 16]));
    let blocks = blocks_with_area(SIZE);
    let pool = PoolUid([1; 16]);
    let made = Pool::create_with_sums(pool, Geometry::suited(blocks), &[(uid, blocks)]);
    settle(&mut made.expect("the disk is large enough"), &mut disk);
    let area = SumsArea::of(Blocks(blocks));
    let owner = PageOwner { pool, disk: uid, area: [3; 16] };
    let mut sums = DiskSums::new(area, Ledger::new(owner, area));
    for (slot, bytes) in (0..).zip(Ledger::new(owner, area).first()) {
        disk.write(area.ledger(slot), &bytes);
    }
    let submitted = sums.submit(1, whole(2_000, 1), Access::Write(vec![Sum(77)]));
    assert!(!submitted.goes, "its region is closed");
    sums.close();
    while let Some(output) = sums.poll() {
        match output {
            SumsOutput::Go(_) => drop(sums.done(submitted.serial, Ok(&[]))),
            SumsOutput::Refuse(_) => panic!("the disk writes"),
            SumsOutput::Step(step, action) => {
                let mut read = Vec::new();
                match action {
                    SumsAction::Read(extent) => read = disk.read_now(extent),
                    SumsAction::Write(extent, bytes) => disk.write(extent, &bytes),
                    SumsAction::WriteDurably(extent, bytes) => {
                        disk.write(extent, &bytes);
                        disk.flush();
                    }
                    SumsAction::Flush | SumsAction::FlushData => disk.flush(),
                }
                sums.step_done(step, Ok(&read));
            }
        }
    }
    assert!(sums.is_idle(), "all is stored");
    (disk, area)
}

fn damage(disk: &mut Disk, extent: units::Extent, byte: u64) {
    disk.damage(usize::try_from(extent.start.0 * 512 + byte).expect("a small disk"), 1);
}

#[test]
fn a_damaged_page_and_a_damaged_ledger_are_told() {
    let (disk, area) = made();
    let one = [disk];
    let report = check(&media(&one)).expect("a pool");
    assert!(report.is_whole(), "{:?}", report.findings);
    assert!(report.found.state.has_sums());
    let [disk] = one;
    let mut damaged = [disk.clone()];
    damage(&mut damaged[0], area.page(0), 5_000);
    let report = check(&media(&damaged)).expect("a pool");
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].what, Damage::Sums { region: 0 });
    let mut damaged = [disk];
    damage(&mut damaged[0], area.ledger(1), 100);
    let report = check(&media(&damaged)).expect("a pool");
    let is_ledger = |what: &Damage| matches!(what, Damage::Ledger { slot: 1, .. });
    assert!(report.findings.iter().any(|one| is_ledger(&one.what)), "{:?}", report.findings);
    let (_, member) = report.found.state.disks().next().expect("it has a disk");
    let found = find_sums(&damaged[0], (report.found.state.pool, member), [9; 16]);
    assert!(found.ledger.open.iter().all(|open| *open), "nothing that was closed is relied on");
    assert_eq!(found.ledger.owner.area, [3; 16]);
}

#[test]
fn a_pool_with_checksums_is_found_without_its_first_label() {
    let (disk, _) = made();
    let mut damaged = [disk];
    damage(&mut damaged[0], label_places(1)[0], 40);
    let found = find(&media(&damaged)).expect("the second label is behind the blocks");
    assert!(found.findings.iter().any(|one| matches!(one.what, Damage::Label { copy: 0, .. })));
}
