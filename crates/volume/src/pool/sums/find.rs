//! Reading the checksum area of a disk, to open it and to check it.

use crate::pool::format::structures::DecodeError;
use crate::pool::names::{Blocks, PoolUid};
use crate::pool::recovery::error::Damage;
use crate::pool::recovery::error::Finding;
use crate::pool::recovery::search::{FoundPool, Media, Unreadable};
use crate::pool::state::volume::Disk;
use crate::pool::sums::area::SumsArea;
use crate::pool::sums::format::{Ledger, PageOwner, decode_page};

/// The checksum area of a disk, as found on it.
#[derive(Clone, Debug)]
pub struct FoundSums {
    /// The ledger: that of a new area if the disk has none that can be read.
    pub ledger: Ledger,
    /// What is damaged of it.
    pub damage: Vec<Damage>,
}

/// Reads the ledger of a disk that has a checksum area. `new_area` names it if there is none yet.
pub fn find_sums(
    media: &dyn Media,
    (pool, disk): (PoolUid, &Disk),
    new_area: [u8; 16],
) -> FoundSums {
    assert!(disk.has_sums, "the disk has a checksum area");
    let area = SumsArea::of(Blocks(disk.blocks));
    let slots = [0, 1].map(|slot| match media.read(area.ledger(slot)) {
        Ok(bytes) => Ledger::decode(&bytes, slot, (pool, disk.uid), area),
        Err(Unreadable) => Err(DecodeError::Damaged),
    });
    // An area that was never used has none.
    let is_absent = |slot: &Result<Ledger, DecodeError>| {
        matches!(slot, Err(DecodeError::Foreign | DecodeError::Wrong(_)))
    };
    let is_new = slots.iter().all(is_absent);
    let faults =
        slots.iter().zip(0..).filter_map(|(slot, number)| Some((number, slot.as_ref().err()?)));
    let damage = faults.filter(|_| !is_new);
    let damage = damage.map(|(slot, why)| Damage::Ledger { slot, why: *why }).collect();
    let owner = PageOwner { pool, disk: disk.uid, area: new_area };
    let ledger = Ledger::newest(slots.map(Result::ok));
    FoundSums { ledger: ledger.unwrap_or_else(|| Ledger::new(owner, area)), damage }
}

/// Reads every page of every checksum area, and returns what is damaged.
pub(crate) fn check_sums(media: &[&dyn Media], found: &FoundPool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (id, device) in found.devices.iter().filter(|(id, _)| !found.unlabelled.contains(id)) {
        let Some(disk) = found.state.disk(*id).filter(|disk| disk.has_sums && !disk.out) else {
            continue;
        };
        let media = media[*device];
        let FoundSums { ledger, damage } = find_sums(media, (found.state.pool, disk), [0; 16]);
        let device = *device;
        findings.extend(damage.into_iter().map(|what| Finding { device, what }));
        let area = SumsArea::of(Blocks(disk.blocks));
        // The page of an open region counts for nothing.
        let closed = ledger.open.iter().zip(0..).filter(|(open, _)| !**open);
        for (_, region) in closed {
            let bytes = media.read(area.page(region)).unwrap_or_default();
            if decode_page(&bytes, &ledger.owner, region) == Err(DecodeError::Damaged) {
                findings.push(Finding { device, what: Damage::Sums { region } });
            }
        }
    }
    findings
}
