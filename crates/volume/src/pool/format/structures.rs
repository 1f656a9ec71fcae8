//! Labels, headers of slots, and records of the log: values and their bytes.

use checksum::crc64;
use units::Bytes;

use crate::location::DiskId;
use crate::pool::format::fields::{
    CHECKSUM, DISK, FORMAT, HEADER_BODY, HEADER_BODY_CHECKSUM, HEADER_COMMITS, HEADER_GENERATION,
    HEADER_MAGIC, HEADER_SEQUENCE, HEADER_SLOT, LABEL_BLOCK, LABEL_BLOCKS, LABEL_COPY, LABEL_IMAGE,
    LABEL_LOG, LABEL_MAGIC, LABEL_NUMBER, MAGIC, POOL, RECORD_BODY, RECORD_COPY, RECORD_GENERATION,
    RECORD_HEAD_BYTES, RECORD_MAGIC, RECORD_POSITION, RECORD_SEQUENCE, VERSION_FIRST,
};
use crate::pool::format::geometry::{Geometry, Slot};
use crate::pool::limits::{BLOCK_SECTORS, DISK_BLOCKS_MAX, UNIT_BYTES};
use crate::pool::names::{DiskUid, PoolUid};

/// The newest version of the format. A pool is written in the version that it was made in, until it
/// is upgraded.
pub const VERSION: u32 = 4;

const _: () = assert!(VERSION_FIRST < VERSION);

/// The identity of a disk. It never changes while the disk belongs to its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Which pool it belongs to.
    pub pool: PoolUid,
    /// Its permanent identity.
    pub disk: DiskUid,
    /// Its number in the pool.
    pub number: DiskId,
    /// Blocks that the pool uses.
    pub blocks: u32,
    /// The layout of its slots.
    pub geometry: Geometry,
}

/// Why bytes are not a label, header or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Another magic number: never written, or of other software.
    Foreign,
    /// The checksum does not match: damaged, or torn.
    Damaged,
    /// A newer version wrote them. Cure: a newer Spindle.
    Newer {
        /// Which.
        version: u32,
    },
    /// The checksum matches and this field is invalid.
    Wrong(&'static str),
}

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Foreign => f.write_str("holds nothing of Spindle's"),
            Self::Damaged => f.write_str("does not fit its checksum"),
            Self::Newer { version } => {
                write!(f, "is of version {version}; up to {VERSION} is understood")
            }
            Self::Wrong(field) => write!(f, "has an impossible {field}"),
        }
    }
}

/// Fills in the fields that every structure has, the checksum last.
pub(crate) fn seal(bytes: &mut [u8], magic: [u8; 8], pool: PoolUid, version: u32) {
    assert!(bytes.len().is_multiple_of(UNIT_BYTES), "whole units are written");
    assert!(!bytes.is_empty(), "a structure has a unit");
    MAGIC.put(bytes, &magic);
    assert!((VERSION_FIRST..=VERSION).contains(&version), "a version that is read");
    FORMAT.put(bytes, &version.to_le_bytes());
    POOL.put(bytes, &pool.0);
    let (body, checksum) = bytes.split_at_mut(bytes.len() - CHECKSUM.bytes);
    checksum.copy_from_slice(&crc64(body).to_le_bytes());
    debug_assert_eq!(unseal(bytes, magic), Ok(()), "what is sealed is read back");
}

/// Validates the fields that every structure has.
pub(crate) fn unseal(bytes: &[u8], magic: [u8; 8]) -> Result<(), DecodeError> {
    assert!(bytes.len() >= UNIT_BYTES, "whole units are read");
    if MAGIC.of(bytes) != magic {
        return Err(DecodeError::Foreign);
    }
    let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM.bytes);
    if crc64(body).to_le_bytes() != checksum {
        return Err(DecodeError::Damaged);
    }
    match FORMAT.u32(bytes) {
        VERSION_FIRST..=VERSION => Ok(()),
        0 => Err(DecodeError::Wrong("version")),
        version => Err(DecodeError::Newer { version }),
    }
}

impl Label {
    /// Its bytes: copy 0 for the disk's beginning, copy 1 for its end.
    pub fn encode(&self, copy: u32) -> Vec<u8> {
        let mut unit = vec![0; UNIT_BYTES];
        assert!(copy < 2, "a label has two copies");
        LABEL_COPY.put(&mut unit, &copy.to_le_bytes());
        DISK.put(&mut unit, &self.disk.0);
        LABEL_NUMBER.put(&mut unit, &self.number.0.to_le_bytes());
        LABEL_BLOCKS.put(&mut unit, &self.blocks.to_le_bytes());
        LABEL_IMAGE.put(&mut unit, &self.geometry.image.to_le_bytes());
        LABEL_LOG.put(&mut unit, &self.geometry.log.to_le_bytes());
        LABEL_BLOCK.put(&mut unit, &u32::try_from(BLOCK_SECTORS.0).expect("small").to_le_bytes());
        // A label is the same in every version: those that are there stay as they are.
        seal(&mut unit, *LABEL_MAGIC, self.pool, VERSION_FIRST);
        assert_eq!(unit.len(), UNIT_BYTES, "a label is a unit");
        assert_eq!(PoolUid(POOL.id(&unit)), self.pool, "the pool is written");
        assert_eq!(DiskUid(DISK.id(&unit)), self.disk, "the disk is written");
        unit
    }

    /// Decodes one copy.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(unit: &[u8], copy: u32) -> Result<Self, DecodeError> {
        unseal(unit, *LABEL_MAGIC)?;
        let geometry = Geometry::new(LABEL_IMAGE.u32(unit), LABEL_LOG.u32(unit));
        let label = Self {
            pool: PoolUid(POOL.id(unit)),
            disk: DiskUid(DISK.id(unit)),
            number: DiskId(LABEL_NUMBER.u32(unit)),
            blocks: LABEL_BLOCKS.u32(unit),
            geometry: geometry.ok_or(DecodeError::Wrong("size of its slots"))?,
        };
        let blocks = label.geometry.first_block() + 2..=DISK_BLOCKS_MAX;
        let wrong = [
            (LABEL_COPY.u32(unit) != copy, LABEL_COPY.name),
            (u64::from(LABEL_BLOCK.u32(unit)) != BLOCK_SECTORS.0, LABEL_BLOCK.name),
            (!blocks.contains(&label.blocks), LABEL_BLOCKS.name),
        ];
        match wrong.iter().find(|(wrong, _)| *wrong) {
            Some((_, field)) => Err(DecodeError::Wrong(field)),
            None => Ok(label),
        }
    }
}

/// The header of a slot: describes the image behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    /// Which pool's.
    pub pool: PoolUid,
    /// On which disk: an image copied from one disk to another is invalid.
    pub disk: DiskUid,
    /// In which slot.
    pub slot: Slot,
    /// The number of images before it.
    pub generation: u64,
    /// The number of commits that the image includes.
    pub sequence: u64,
    /// How long the image is, without padding.
    pub body: Bytes,
    /// The checksum of the image with its padding.
    pub checksum: u64,
    /// Whether the image commits a change that no log has: one that is too large, or that changes
    /// the set of disks.
    pub commits: bool,
}

impl Header {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut unit = vec![0; UNIT_BYTES];
        HEADER_SLOT.put(&mut unit, &self.slot.number().to_le_bytes());
        DISK.put(&mut unit, &self.disk.0);
        HEADER_GENERATION.put(&mut unit, &self.generation.to_le_bytes());
        HEADER_SEQUENCE.put(&mut unit, &self.sequence.to_le_bytes());
        HEADER_BODY.put(&mut unit, &self.body.0.to_le_bytes());
        HEADER_BODY_CHECKSUM.put(&mut unit, &self.checksum.to_le_bytes());
        HEADER_COMMITS.put(&mut unit, &u32::from(self.commits).to_le_bytes());
        seal(&mut unit, *HEADER_MAGIC, self.pool, self.version);
        assert_eq!(unit.len(), UNIT_BYTES, "a header is a unit");
        assert_eq!(HEADER_GENERATION.u64(&unit), self.generation, "the generation is written");
        assert_eq!(HEADER_SEQUENCE.u64(&unit), self.sequence, "the sequence is written");
        unit
    }

    /// Decodes a slot's header on that disk.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(unit: &[u8], label: &Label, slot: Slot) -> Result<Self, DecodeError> {
        unseal(unit, *HEADER_MAGIC)?;
        let header = Self {
            version: FORMAT.u32(unit),
            pool: PoolUid(POOL.id(unit)),
            disk: DiskUid(DISK.id(unit)),
            slot,
            generation: HEADER_GENERATION.u64(unit),
            sequence: HEADER_SEQUENCE.u64(unit),
            body: Bytes(HEADER_BODY.u64(unit)),
            checksum: HEADER_BODY_CHECKSUM.u64(unit),
            commits: HEADER_COMMITS.u32(unit) == 1,
        };
        let wrong = [
            (header.pool != label.pool, POOL.name),
            (header.disk != label.disk, DISK.name),
            (HEADER_SLOT.u32(unit) != slot.number(), HEADER_SLOT.name),
            (header.body.0 > label.geometry.image_bytes() as u64, HEADER_BODY.name),
            (HEADER_COMMITS.u32(unit) > 1, HEADER_COMMITS.name),
        ];
        match wrong.iter().find(|(wrong, _)| *wrong) {
            Some((_, field)) => Err(DecodeError::Wrong(field)),
            None => Ok(header),
        }
    }
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The version of the format.
    pub version: u32,
    /// Which pool's.
    pub pool: PoolUid,
    /// The image that it follows.
    pub generation: u64,
    /// The number of the commit: one more than the one before.
    pub sequence: u64,
    /// At which unit of the log its first copy lies.
    pub position: u32,
    /// The changes.
    pub body: Vec<u8>,
}

impl Record {
    /// Units of one copy of a record with a body of `body` bytes.
    pub fn units(body: usize) -> u32 {
        let bytes = RECORD_HEAD_BYTES + body + CHECKSUM.bytes;
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).expect("a record is short");
        assert!(units > 0, "a record has a unit");
        assert!(units as usize * UNIT_BYTES >= bytes, "its units hold it");
        units
    }

    /// Its bytes: two copies, one behind the other, written as one.
    pub fn encode(&self) -> Vec<u8> {
        let units = Self::units(self.body.len());
        let copy = |copy: u32| {
            let mut bytes = vec![0; units as usize * UNIT_BYTES];
            RECORD_COPY.put(&mut bytes, &copy.to_le_bytes());
            RECORD_GENERATION.put(&mut bytes, &self.generation.to_le_bytes());
            RECORD_SEQUENCE.put(&mut bytes, &self.sequence.to_le_bytes());
            RECORD_POSITION.put(&mut bytes, &(self.position + copy * units).to_le_bytes());
            let len = u32::try_from(self.body.len()).expect("a record is short");
            assert!(bytes.len() >= RECORD_HEAD_BYTES + self.body.len(), "the body fits");
            RECORD_BODY.put(&mut bytes, &len.to_le_bytes());
            bytes[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + self.body.len()]
                .copy_from_slice(&self.body);
            seal(&mut bytes, *RECORD_MAGIC, self.pool, self.version);
            bytes
        };
        let bytes = [copy(0), copy(1)].concat();
        assert_eq!(bytes.len(), 2 * units as usize * UNIT_BYTES, "two copies of whole units");
        bytes
    }

    /// The record whose copy begins at unit `position` of `log`, and which copy it is.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(log: &[u8], position: u32, pool: PoolUid) -> Result<(Self, u32), DecodeError> {
        assert!((position as usize) * UNIT_BYTES < log.len(), "a unit of the log");
        let rest = &log[position as usize * UNIT_BYTES..];
        if MAGIC.of(rest) != RECORD_MAGIC {
            return Err(DecodeError::Foreign);
        }
        let body = RECORD_BODY.u32(rest) as usize;
        if body > rest.len() {
            return Err(DecodeError::Damaged);
        }
        let units = Self::units(body);
        let bytes = rest.get(..units as usize * UNIT_BYTES).ok_or(DecodeError::Damaged)?;
        unseal(bytes, *RECORD_MAGIC)?;
        let copy = RECORD_COPY.u32(bytes);
        let wrong = [
            (PoolUid(POOL.id(bytes)) != pool, POOL.name),
            (copy > 1 || copy * units > position, RECORD_COPY.name),
            (RECORD_POSITION.u32(bytes) != position, RECORD_POSITION.name),
        ];
        if let Some((_, field)) = wrong.iter().find(|(wrong, _)| *wrong) {
            return Err(DecodeError::Wrong(field));
        }
        let record = Self {
            version: FORMAT.u32(bytes),
            pool,
            generation: RECORD_GENERATION.u64(bytes),
            sequence: RECORD_SEQUENCE.u64(bytes),
            position: position - copy * units,
            body: bytes[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + body].to_vec(),
        };
        Ok((record, copy))
    }
}
