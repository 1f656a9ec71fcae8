//! What lies where on a pool's disks. [docs/src/reference/pool-format.md](../../../../docs/format.md) says it in words, and a test holds its
//! tables against the [`Field`]s here.
//!
//! ```text
//!  unit 0   unit 1                                                                            last block
//! ┌───────┬────────────────────────────┬────────────────────────────┬──────────────────────┬───────┐
//! │ label │ slot 0: header, image, log │ slot 1: header, image, log │ blocks of volumes …  │ label │
//! └───────┴────────────────────────────┴────────────────────────────┴──────────────────────┴───────┘
//! ```
//!
//! An image is the whole of the pool's metadata at one sequence number; the log behind it holds the changes since. Every
//! disk has all of it. Whole units are written, and each carries a checksum.

use units::{Bytes, Extent, Lba, SECTOR_BYTES, Sectors};

use checksum::crc64;
use super::limits::{
    BLOCK_SECTORS, BLOCK_UNITS, DISK_BLOCKS_MAX, IMAGE_UNITS_MAX, IMAGE_UNITS_MIN, LOG_UNITS_MAX,
    LOG_UNITS_MIN, UNIT_BYTES,
};
use super::names::{DiskUid, PoolUid};
use crate::DiskId;

/// The version of the format that is written, and the newest that is understood.
pub const VERSION: u32 = 1;

/// One field of a structure: the only place where its offset is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in the document.
    pub name: &'static str,
    /// At which byte it begins.
    pub offset: usize,
    /// How many bytes it has.
    pub bytes: usize,
}

impl Field {
    const fn new(name: &'static str, offset: usize, bytes: usize) -> Self {
        Self { name, offset, bytes }
    }

    fn of<'a>(&self, unit: &'a [u8]) -> &'a [u8] {
        &unit[self.offset..self.offset + self.bytes]
    }

    fn put(&self, unit: &mut [u8], value: &[u8]) {
        assert!(value.len() == self.bytes, "{} has {} bytes", self.name, self.bytes);
        unit[self.offset..self.offset + self.bytes].copy_from_slice(value);
    }

    fn u32(&self, unit: &[u8]) -> u32 {
        u32::from_le_bytes(self.of(unit).try_into().expect("four bytes"))
    }

    fn u64(&self, unit: &[u8]) -> u64 {
        u64::from_le_bytes(self.of(unit).try_into().expect("eight bytes"))
    }

    fn id(&self, unit: &[u8]) -> [u8; 16] {
        self.of(unit).try_into().expect("sixteen bytes")
    }
}

/// What begins every unit, and what ends it.
pub const MAGIC: Field = Field::new("magic", 0, 8);
const FORMAT: Field = Field::new("version", 8, 4);
const POOL: Field = Field::new("pool", 16, 16);
const DISK: Field = Field::new("disk", 32, 16);
/// Over all bytes of the structure before it.
pub const CHECKSUM: Field = Field::new("checksum", UNIT_BYTES - 8, 8);

const LABEL_MAGIC: &[u8; 8] = b"SPINPOOL";
const LABEL_COPY: Field = Field::new("copy", 12, 4);
const LABEL_NUMBER: Field = Field::new("number", 48, 4);
const LABEL_BLOCKS: Field = Field::new("blocks", 52, 4);
const LABEL_IMAGE: Field = Field::new("image units", 56, 4);
const LABEL_LOG: Field = Field::new("log units", 60, 4);
const LABEL_BLOCK: Field = Field::new("block sectors", 64, 4);

/// The label, on paper.
pub const LABEL_FIELDS: [Field; 11] = [
    MAGIC,
    FORMAT,
    LABEL_COPY,
    POOL,
    DISK,
    LABEL_NUMBER,
    LABEL_BLOCKS,
    LABEL_IMAGE,
    LABEL_LOG,
    LABEL_BLOCK,
    CHECKSUM,
];

const HEADER_MAGIC: &[u8; 8] = b"SPINIMAG";
const HEADER_SLOT: Field = Field::new("slot", 12, 4);
const HEADER_GENERATION: Field = Field::new("generation", 48, 8);
const HEADER_SEQUENCE: Field = Field::new("sequence", 56, 8);
const HEADER_BODY: Field = Field::new("body bytes", 64, 8);
const HEADER_BODY_CHECKSUM: Field = Field::new("body checksum", 72, 8);
const HEADER_COMMITS: Field = Field::new("commits", 80, 4);

/// The header of a slot, on paper.
pub const HEADER_FIELDS: [Field; 11] = [
    MAGIC,
    FORMAT,
    HEADER_SLOT,
    POOL,
    DISK,
    HEADER_GENERATION,
    HEADER_SEQUENCE,
    HEADER_BODY,
    HEADER_BODY_CHECKSUM,
    HEADER_COMMITS,
    CHECKSUM,
];

const RECORD_MAGIC: &[u8; 8] = b"SPINRECD";
const RECORD_COPY: Field = Field::new("copy", 12, 4);
const RECORD_GENERATION: Field = Field::new("generation", 32, 8);
const RECORD_SEQUENCE: Field = Field::new("sequence", 40, 8);
const RECORD_POSITION: Field = Field::new("position", 48, 4);
const RECORD_BODY: Field = Field::new("body bytes", 52, 4);
/// Bytes of a record before its body.
pub const RECORD_HEAD_BYTES: usize = 64;

/// A record of the log, on paper; its body follows, and its checksum ends the last of its units.
pub const RECORD_FIELDS: [Field; 8] = [
    MAGIC,
    FORMAT,
    RECORD_COPY,
    POOL,
    RECORD_GENERATION,
    RECORD_SEQUENCE,
    RECORD_POSITION,
    RECORD_BODY,
];

/// The head of an image, on paper.
pub const IMAGE_HEAD_FIELDS: [Field; 6] = [
    Field::new("sequence", 0, 8),
    Field::new("disks", 8, 4),
    Field::new("volumes", 12, 4),
    Field::new("next volume", 16, 4),
    Field::new("next disk", 20, 4),
    Field::new("alarm", 24, 1),
];

/// A disk of an image, on paper.
pub const IMAGE_DISK_FIELDS: [Field; 5] = [
    Field::new("number", 0, 4),
    Field::new("blocks", 4, 4),
    Field::new("fast end", 8, 4),
    Field::new("flags", 12, 4),
    Field::new("disk", 16, 16),
];

/// A volume of an image, on paper.
pub const IMAGE_VOLUME_FIELDS: [Field; 11] = [
    Field::new("number", 0, 4),
    Field::new("origin", 4, 4),
    Field::new("size", 8, 4),
    Field::new("layout", 12, 1),
    Field::new("zone", 13, 1),
    Field::new("thin", 14, 1),
    Field::new("name bytes", 15, 1),
    Field::new("seed", 16, 8),
    Field::new("width", 24, 4),
    Field::new("name", 28, 255),
    Field::new("disks", 288, 256),
];

/// An extent of an image, on paper.
pub const RUN_FIELDS: [Field; 4] = [
    Field::new("row", 0, 4),
    Field::new("length", 4, 4),
    Field::new("disk", 8, 4),
    Field::new("block", 12, 4),
];

/// Bytes of an image before its disks.
pub const IMAGE_HEAD_BYTES: usize = 32;
/// Bytes of a disk in an image.
pub const IMAGE_DISK_BYTES: usize = 32;
/// Bytes of a volume in an image, before the extents of its columns.
pub const IMAGE_VOLUME_BYTES: usize = 544;
/// Bytes of an extent in an image.
pub const RUN_BYTES: usize = 16;

/// One of the two places of an image and its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// The first.
    A,
    /// The second.
    B,
}

impl Slot {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    const fn number(self) -> u32 {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }
}

/// How much of each disk a pool keeps for its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    image: u32,
    log: u32,
}

impl Geometry {
    /// The smallest slots.
    pub const SMALLEST: Self = Self { image: IMAGE_UNITS_MIN, log: LOG_UNITS_MIN };
    /// The largest.
    pub const LARGEST: Self = Self { image: IMAGE_UNITS_MAX, log: LOG_UNITS_MAX };

    /// Slots of so many units for the image and for the log, or `None` beyond the limits.
    pub fn new(image_units: u32, log_units: u32) -> Option<Self> {
        let image = (IMAGE_UNITS_MIN..=IMAGE_UNITS_MAX).contains(&image_units);
        let log = (LOG_UNITS_MIN..=LOG_UNITS_MAX).contains(&log_units);
        (image && log).then_some(Self { image: image_units, log: log_units })
    }

    /// What suits a pool whose smallest disk has so many blocks: two slots in a five-hundredth of it, at least 1 MiB and
    /// at most the largest.
    pub fn suited(blocks: u32) -> Self {
        let units = (blocks / 1_024).max(1).saturating_mul(BLOCK_UNITS);
        let log = (units / 4).min(LOG_UNITS_MAX);
        Self { image: (units - log).min(IMAGE_UNITS_MAX), log }
    }

    /// Units of an image.
    pub const fn image_units(self) -> u32 {
        self.image
    }

    /// Bytes that an image may have.
    pub const fn image_bytes(self) -> usize {
        self.image as usize * UNIT_BYTES
    }

    /// Units of a log.
    pub const fn log_units(self) -> u32 {
        self.log
    }

    /// Bytes that the body of a record may have: two copies of it fill half of the log.
    pub const fn record_bytes(self) -> usize {
        (self.log / 4) as usize * UNIT_BYTES - RECORD_HEAD_BYTES - CHECKSUM.bytes
    }

    /// The first block that can belong to a volume.
    pub const fn first_block(self) -> u32 {
        (1 + 2 * (1 + self.image + self.log)).div_ceil(BLOCK_UNITS)
    }

    /// The first block of a disk of so many that is not of its fast part: the blocks between the metadata and the last label
    /// are half fast, half slow.
    pub const fn fast_end(self, blocks: u32) -> u32 {
        let first = self.first_block();
        first + blocks.saturating_sub(1 + first) / 2
    }

    /// Where a slot's header lies.
    pub fn header(self, slot: Slot) -> Extent {
        units(1 + slot.number() * (1 + self.image + self.log), 1)
    }

    /// Where a slot's image lies.
    pub fn image(self, slot: Slot) -> Extent {
        Extent::new(self.header(slot).end(), units(0, self.image).len)
    }

    /// Where a slot's log lies.
    pub fn log(self, slot: Slot) -> Extent {
        Extent::new(self.image(slot).end(), units(0, self.log).len)
    }

    /// Where unit `position` of a slot's log lies, and `count - 1` more.
    pub fn log_at(self, slot: Slot, position: u32, count: u32) -> Extent {
        Extent::new(self.log(slot).start + units(0, position).len, units(0, count).len)
    }
}

fn units(first: u32, count: u32) -> Extent {
    let sectors = UNIT_BYTES as u64 / SECTOR_BYTES;
    Extent::new(Lba(u64::from(first) * sectors), Sectors(u64::from(count) * sectors))
}

/// Whole blocks of a disk of that size, as many as a pool uses.
pub fn disk_blocks(size: Sectors) -> u32 {
    let blocks = size.0 / BLOCK_SECTORS.0;
    u32::try_from(blocks).unwrap_or(DISK_BLOCKS_MAX).min(DISK_BLOCKS_MAX)
}

/// Where the two copies of a label lie, on a disk of so many blocks.
pub fn label_places(blocks: u32) -> [Extent; 2] {
    let last = u64::from(blocks.saturating_sub(1)) * BLOCK_SECTORS.0;
    let first = units(0, 1);
    [first, Extent::new(Lba(last), first.len)]
}

/// What a disk says of itself. It never changes while the disk belongs to its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Which pool it belongs to.
    pub pool: PoolUid,
    /// Which disk it is, for good.
    pub disk: DiskUid,
    /// Its number in the pool.
    pub number: DiskId,
    /// How many blocks of it the pool uses.
    pub blocks: u32,
    /// Where its slots lie.
    pub geometry: Geometry,
}

/// Why bytes are no label, header or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// They begin with something else: never written, or another's.
    Foreign,
    /// The checksum does not fit: damaged, or written half.
    Damaged,
    /// A newer version wrote them. Cure: a newer Spindle.
    Newer {
        /// Which.
        version: u32,
    },
    /// The checksum fits and a field does not; which.
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

/// Fills in the parts that every structure has, the checksum last.
fn seal(bytes: &mut [u8], magic: [u8; 8], pool: PoolUid) {
    MAGIC.put(bytes, &magic);
    FORMAT.put(bytes, &VERSION.to_le_bytes());
    POOL.put(bytes, &pool.0);
    let (body, checksum) = bytes.split_at_mut(bytes.len() - CHECKSUM.bytes);
    checksum.copy_from_slice(&crc64(body).to_le_bytes());
}

/// Whether bytes hold a structure, by what all have in common.
fn unseal(bytes: &[u8], magic: [u8; 8]) -> Result<(), DecodeError> {
    if MAGIC.of(bytes) != magic {
        return Err(DecodeError::Foreign);
    }
    let (body, checksum) = bytes.split_at(bytes.len() - CHECKSUM.bytes);
    if crc64(body).to_le_bytes() != checksum {
        return Err(DecodeError::Damaged);
    }
    match FORMAT.u32(bytes) {
        VERSION => Ok(()),
        0 => Err(DecodeError::Wrong("version")),
        version => Err(DecodeError::Newer { version }),
    }
}

impl Label {
    /// Its bytes: copy 0 for the disk's beginning, copy 1 for its end.
    pub fn encode(&self, copy: u32) -> Vec<u8> {
        let mut unit = vec![0; UNIT_BYTES];
        LABEL_COPY.put(&mut unit, &copy.to_le_bytes());
        DISK.put(&mut unit, &self.disk.0);
        LABEL_NUMBER.put(&mut unit, &self.number.0.to_le_bytes());
        LABEL_BLOCKS.put(&mut unit, &self.blocks.to_le_bytes());
        LABEL_IMAGE.put(&mut unit, &self.geometry.image.to_le_bytes());
        LABEL_LOG.put(&mut unit, &self.geometry.log.to_le_bytes());
        LABEL_BLOCK.put(&mut unit, &u32::try_from(BLOCK_SECTORS.0).expect("small").to_le_bytes());
        seal(&mut unit, *LABEL_MAGIC, self.pool);
        unit
    }

    /// What the bytes of one copy say.
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

/// The header of a slot: which image lies behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which pool's.
    pub pool: PoolUid,
    /// On which disk: an image copied from one disk to another is none.
    pub disk: DiskUid,
    /// In which slot.
    pub slot: Slot,
    /// How many images were written before it.
    pub generation: u64,
    /// How many changes the pool had seen.
    pub sequence: u64,
    /// How long the image is, without padding.
    pub body: Bytes,
    /// The checksum of the image with its padding.
    pub checksum: u64,
    /// Whether the image has a change that no log has: one that is too large for it, or of the pool's disks.
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
        seal(&mut unit, *HEADER_MAGIC, self.pool);
        unit
    }

    /// What the bytes of a slot's header on that disk say.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(unit: &[u8], label: &Label, slot: Slot) -> Result<Self, DecodeError> {
        unseal(unit, *HEADER_MAGIC)?;
        let header = Self {
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
    /// Which pool's.
    pub pool: PoolUid,
    /// Behind which image.
    pub generation: u64,
    /// Which change of the pool: one more than the one before.
    pub sequence: u64,
    /// At which unit of the log its first copy lies.
    pub position: u32,
    /// The changes.
    pub body: Vec<u8>,
}

impl Record {
    /// Units of one copy of a record with so many bytes of body.
    pub fn units(body: usize) -> u32 {
        let bytes = RECORD_HEAD_BYTES + body + CHECKSUM.bytes;
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).expect("a record is short")
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
            RECORD_BODY.put(&mut bytes, &len.to_le_bytes());
            bytes[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + self.body.len()]
                .copy_from_slice(&self.body);
            seal(&mut bytes, *RECORD_MAGIC, self.pool);
            bytes
        };
        [copy(0), copy(1)].concat()
    }

    /// The record whose copy begins at unit `position` of `log`, and which copy it is.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(log: &[u8], position: u32, pool: PoolUid) -> Result<(Self, u32), DecodeError> {
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
            pool,
            generation: RECORD_GENERATION.u64(bytes),
            sequence: RECORD_SEQUENCE.u64(bytes),
            position: position - copy * units,
            body: bytes[RECORD_HEAD_BYTES..RECORD_HEAD_BYTES + body].to_vec(),
        };
        Ok((record, copy))
    }
}
