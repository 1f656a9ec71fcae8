//! The bytes of a checksum area.

use crate::pool::format::fields::{CHECKSUM, DISK, FORMAT, Field, MAGIC, POOL, VERSION_SUMS};
use crate::pool::format::structures::{DecodeError, seal, unseal};
use crate::pool::limits::UNIT_BYTES;
use crate::pool::names::{DiskUid, PoolUid};
use crate::pool::sums::area::{
    LEDGER_HEAD_BYTES, PAGE_BYTES, PAGE_HEAD_BYTES, SUMS_OF_REGION, SumsArea,
};
use crate::pool::sums::values::Sum;

const LEDGER_MAGIC: &[u8; 8] = b"SPINLEDG";
const LEDGER_SLOT: Field = Field::new("slot", 12, 4);
const LEDGER_AREA: Field = Field::new("area", 48, 16);
const LEDGER_SEQUENCE: Field = Field::new("sequence", 64, 8);
const LEDGER_REGIONS: Field = Field::new("regions", 72, 4);

/// The fields of a slot of the ledger; its bits follow, and its checksum ends the last of its
/// units.
pub const LEDGER_FIELDS: [Field; 8] =
    [MAGIC, FORMAT, LEDGER_SLOT, POOL, DISK, LEDGER_AREA, LEDGER_SEQUENCE, LEDGER_REGIONS];

const PAGE_MAGIC: &[u8; 8] = b"SPINSUMS";
const PAGE_REGION: Field = Field::new("region", 12, 4);
const PAGE_AREA: Field = Field::new("area", 48, 16);

/// The fields of a page; its checksums follow, and its own checksum ends the last of its units.
pub const PAGE_FIELDS: [Field; 6] = [MAGIC, FORMAT, PAGE_REGION, POOL, DISK, PAGE_AREA];

/// What a checksum area belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOwner {
    /// Which pool.
    pub pool: PoolUid,
    /// Which disk.
    pub disk: DiskUid,
    /// Which area: one that is made again has another identity, and what the last one had counts
    /// for nothing.
    pub area: [u8; 16],
}

/// A slot of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// What it belongs to.
    pub owner: PageOwner,
    /// One more than that of the one before.
    pub sequence: u64,
    /// Whether each region is open.
    pub open: Vec<bool>,
}

impl Ledger {
    /// That of a new area: every region is closed, and has no page.
    pub fn new(owner: PageOwner, area: SumsArea) -> Self {
        let open = vec![false; area.regions() as usize];
        assert!(!open.is_empty(), "a disk has a region");
        Self { owner, sequence: 0, open }
    }

    /// The bytes of a new area's slots.
    pub fn first(&self) -> [Vec<u8>; 2] {
        assert_eq!(self.sequence, 0, "it is new");
        assert!(self.open.iter().all(|open| !open), "nothing was written");
        [self.encode(0), Self { sequence: 1, ..self.clone() }.encode(1)]
    }

    /// The newest of two slots. If one of them cannot be read, or the two are of different areas,
    /// every region counts as open: the slot that is lost may have been the newer one. `None` if
    /// neither can be read.
    pub fn newest(slots: [Option<Self>; 2]) -> Option<Self> {
        match slots {
            [Some(one), Some(other)] => {
                let are_of_one_area = one.owner == other.owner;
                assert_eq!(one.open.len(), other.open.len(), "both are of one disk");
                let newer = if one.sequence > other.sequence { one } else { other };
                Some(if are_of_one_area { newer } else { newer.all_open() })
            }
            [Some(one), None] | [None, Some(one)] => Some(one.all_open()),
            [None, None] => None,
        }
    }

    fn all_open(mut self) -> Self {
        self.open.fill(true);
        assert!(!self.open.is_empty(), "a disk has a region");
        self
    }

    /// The bytes for a slot.
    pub fn encode(&self, slot: u32) -> Vec<u8> {
        assert!(slot < 2, "the ledger has two slots");
        let bits = self.open.len().div_ceil(8);
        assert!(bits > 0, "a disk has a region");
        let units = (LEDGER_HEAD_BYTES + bits + CHECKSUM.bytes).div_ceil(UNIT_BYTES);
        let mut bytes = vec![0; units * UNIT_BYTES];
        LEDGER_SLOT.put(&mut bytes, &slot.to_le_bytes());
        DISK.put(&mut bytes, &self.owner.disk.0);
        LEDGER_AREA.put(&mut bytes, &self.owner.area);
        LEDGER_SEQUENCE.put(&mut bytes, &self.sequence.to_le_bytes());
        let regions = u32::try_from(self.open.len()).expect("a disk has fewer blocks");
        LEDGER_REGIONS.put(&mut bytes, &regions.to_le_bytes());
        for (region, _) in self.open.iter().enumerate().filter(|(_, open)| **open) {
            bytes[LEDGER_HEAD_BYTES + region / 8] |= 1 << (region % 8);
        }
        seal(&mut bytes, *LEDGER_MAGIC, self.owner.pool, VERSION_SUMS);
        bytes
    }

    /// Decodes a slot of the ledger of this area.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(
        bytes: &[u8],
        slot: u32,
        (pool, disk): (PoolUid, DiskUid),
        area: SumsArea,
    ) -> Result<Self, DecodeError> {
        assert!(slot < 2, "the ledger has two slots");
        unseal(bytes, *LEDGER_MAGIC)?;
        let owner = PageOwner {
            pool: PoolUid(POOL.id(bytes)),
            disk: DiskUid(DISK.id(bytes)),
            area: LEDGER_AREA.id(bytes),
        };
        let wrong = [
            (owner.pool != pool, POOL.name),
            (owner.disk != disk, DISK.name),
            (LEDGER_SLOT.u32(bytes) != slot, LEDGER_SLOT.name),
            (LEDGER_REGIONS.u32(bytes) != area.regions(), LEDGER_REGIONS.name),
        ];
        if let Some((_, field)) = wrong.iter().find(|(wrong, _)| *wrong) {
            return Err(DecodeError::Wrong(field));
        }
        let is_open =
            |region: usize| bytes[LEDGER_HEAD_BYTES + region / 8] & (1 << (region % 8)) != 0;
        assert!(LEDGER_HEAD_BYTES + area.regions().div_ceil(8) as usize <= bytes.len(), "its bits");
        let open = (0..area.regions() as usize).map(is_open).collect();
        Ok(Self { owner, sequence: LEDGER_SEQUENCE.u64(bytes), open })
    }
}

/// The bytes of the page of a region.
pub(crate) fn encode_page(owner: &PageOwner, region: u32, sums: &[Sum]) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES];
    PAGE_REGION.put(&mut bytes, &region.to_le_bytes());
    DISK.put(&mut bytes, &owner.disk.0);
    PAGE_AREA.put(&mut bytes, &owner.area);
    assert!(sums.len() == SUMS_OF_REGION, "a page is of one region");
    let places = bytes[PAGE_HEAD_BYTES..].chunks_exact_mut(4);
    for (place, sum) in places.zip(sums) {
        place.copy_from_slice(&sum.0.to_le_bytes());
    }
    seal(&mut bytes, *PAGE_MAGIC, owner.pool, VERSION_SUMS);
    assert_eq!(bytes.len(), PAGE_BYTES, "a page has its length");
    bytes
}

/// The checksums of the page of a region.
pub(crate) fn decode_page(
    bytes: &[u8],
    owner: &PageOwner,
    region: u32,
) -> Result<Box<[Sum]>, DecodeError> {
    if bytes.len() != PAGE_BYTES {
        return Err(DecodeError::Damaged);
    }
    unseal(bytes, *PAGE_MAGIC)?;
    let wrong = [
        (POOL.id(bytes) != owner.pool.0, POOL.name),
        (DISK.id(bytes) != owner.disk.0, DISK.name),
        (PAGE_AREA.id(bytes) != owner.area, PAGE_AREA.name),
        (PAGE_REGION.u32(bytes) != region, PAGE_REGION.name),
    ];
    if let Some((_, field)) = wrong.iter().find(|(wrong, _)| *wrong) {
        return Err(DecodeError::Wrong(field));
    }
    let (places, _) = bytes[PAGE_HEAD_BYTES..].as_chunks::<4>();
    let sums = places.iter().take(SUMS_OF_REGION).map(|place| Sum(u32::from_le_bytes(*place)));
    let sums: Box<[Sum]> = sums.collect();
    assert_eq!(sums.len(), SUMS_OF_REGION, "a page is of one region");
    Ok(sums)
}
