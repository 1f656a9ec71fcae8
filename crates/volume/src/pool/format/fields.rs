//! The fields of every structure on a disk.

use crate::pool::limits::{
    DISKS_MAX, EXTENTS_MAX, IMAGE_UNITS_MAX, IMAGE_UNITS_MIN, STALE_RUNS_MAX, UNIT_BYTES,
    VOLUMES_MAX,
};
use crate::pool::names::Copies;

/// The first version of the format: it has no mirrors, and every disk is in.
pub const VERSION_FIRST: u32 = 1;

/// The first version that stores a scrub.
pub const VERSION_SCRUB: u32 = 3;

/// The first version whose disks can have a checksum area.
pub const VERSION_SUMS: u32 = 4;

/// One field of a structure: the only place where its offset is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in the document.
    pub name: &'static str,
    /// At which byte it begins.
    pub offset: usize,
    /// Its length in bytes.
    pub bytes: usize,
}

impl Field {
    pub(crate) const fn new(name: &'static str, offset: usize, bytes: usize) -> Self {
        Self { name, offset, bytes }
    }

    pub(crate) fn of<'a>(&self, unit: &'a [u8]) -> &'a [u8] {
        assert!(self.offset + self.bytes <= unit.len(), "{} lies in its structure", self.name);
        &unit[self.offset..self.offset + self.bytes]
    }

    pub(crate) fn put(&self, unit: &mut [u8], value: &[u8]) {
        assert!(self.offset + self.bytes <= unit.len(), "{} lies in its structure", self.name);
        assert!(value.len() == self.bytes, "{} has {} bytes", self.name, self.bytes);
        unit[self.offset..self.offset + self.bytes].copy_from_slice(value);
    }

    pub(crate) fn u32(&self, unit: &[u8]) -> u32 {
        assert_eq!(self.bytes, 4, "{} is an integer", self.name);
        u32::from_le_bytes(self.of(unit).try_into().expect("four bytes"))
    }

    pub(crate) fn u64(&self, unit: &[u8]) -> u64 {
        assert_eq!(self.bytes, 8, "{} is an integer", self.name);
        u64::from_le_bytes(self.of(unit).try_into().expect("eight bytes"))
    }

    pub(crate) fn id(&self, unit: &[u8]) -> [u8; 16] {
        assert_eq!(self.bytes, 16, "{} is an identity", self.name);
        self.of(unit).try_into().expect("sixteen bytes")
    }
}

/// The first field of every unit.
pub const MAGIC: Field = Field::new("magic", 0, 8);
pub(crate) const FORMAT: Field = Field::new("version", 8, 4);
pub(crate) const POOL: Field = Field::new("pool", 16, 16);
pub(crate) const DISK: Field = Field::new("disk", 32, 16);
/// Over all bytes of the structure before it.
pub const CHECKSUM: Field = Field::new("checksum", UNIT_BYTES - 8, 8);

pub(crate) const LABEL_MAGIC: &[u8; 8] = b"SPINPOOL";
pub(crate) const LABEL_COPY: Field = Field::new("copy", 12, 4);
pub(crate) const LABEL_NUMBER: Field = Field::new("number", 48, 4);
pub(crate) const LABEL_BLOCKS: Field = Field::new("blocks", 52, 4);
pub(crate) const LABEL_IMAGE: Field = Field::new("image units", 56, 4);
pub(crate) const LABEL_LOG: Field = Field::new("log units", 60, 4);
pub(crate) const LABEL_BLOCK: Field = Field::new("block sectors", 64, 4);

/// The fields of a label.
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

pub(crate) const HEADER_MAGIC: &[u8; 8] = b"SPINIMAG";
pub(crate) const HEADER_SLOT: Field = Field::new("slot", 12, 4);
pub(crate) const HEADER_GENERATION: Field = Field::new("generation", 48, 8);
pub(crate) const HEADER_SEQUENCE: Field = Field::new("sequence", 56, 8);
pub(crate) const HEADER_BODY: Field = Field::new("body bytes", 64, 8);
pub(crate) const HEADER_BODY_CHECKSUM: Field = Field::new("body checksum", 72, 8);
pub(crate) const HEADER_COMMITS: Field = Field::new("commits", 80, 4);

/// The fields of a slot's header.
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

pub(crate) const RECORD_MAGIC: &[u8; 8] = b"SPINRECD";
pub(crate) const RECORD_COPY: Field = Field::new("copy", 12, 4);
pub(crate) const RECORD_GENERATION: Field = Field::new("generation", 32, 8);
pub(crate) const RECORD_SEQUENCE: Field = Field::new("sequence", 40, 8);
pub(crate) const RECORD_POSITION: Field = Field::new("position", 48, 4);
pub(crate) const RECORD_BODY: Field = Field::new("body bytes", 52, 4);
/// Bytes of a record before its body.
pub const RECORD_HEAD_BYTES: usize = 64;

/// The fields of a record of the log; its body follows, and its checksum ends the last of its
/// units.
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

/// The fields of an image's head.
pub const IMAGE_HEAD_FIELDS: [Field; 7] = [
    Field::new("sequence", 0, 8),
    Field::new("disks", 8, 4),
    Field::new("volumes", 12, 4),
    Field::new("next volume", 16, 4),
    Field::new("next disk", 20, 4),
    Field::new("alarm", 24, 1),
    Field::new("stale", 28, 4),
];

/// The fields of a disk in an image.
pub const IMAGE_DISK_FIELDS: [Field; 5] = [
    Field::new("number", 0, 4),
    Field::new("blocks", 4, 4),
    Field::new("fast end", 8, 4),
    Field::new("flags", 12, 4),
    Field::new("disk", 16, 16),
];

/// The fields of a volume in an image.
pub const IMAGE_VOLUME_FIELDS: [Field; 13] = [
    Field::new("number", 0, 4),
    Field::new("origin", 4, 4),
    Field::new("size", 8, 4),
    Field::new("layout", 12, 1),
    Field::new("zone", 13, 1),
    Field::new("flags", 14, 1),
    Field::new("name bytes", 15, 1),
    Field::new("seed", 16, 8),
    Field::new("width", 24, 4),
    Field::new("name", 28, 255),
    Field::new("copies", 283, 1),
    Field::new("group", 284, 4),
    Field::new("disks", 288, 256),
];

/// The fields of an extent in an image.
pub const RUN_FIELDS: [Field; 4] = [
    Field::new("row", 0, 4),
    Field::new("length", 4, 4),
    Field::new("disk", 8, 4),
    Field::new("block", 12, 4),
];

/// The fields of a run of stale blocks in an image.
pub const STALE_FIELDS: [Field; 3] =
    [Field::new("disk", 0, 4), Field::new("block", 4, 4), Field::new("length", 8, 4)];

/// The fields of the scrub at the end of an image.
pub const SCRUB_FIELDS: [Field; 10] = [
    Field::new("phase", 0, 1),
    Field::new("volume", 4, 4),
    Field::new("block", 8, 4),
    Field::new("began", 16, 8),
    Field::new("ended", 24, 8),
    Field::new("read", 32, 8),
    Field::new("mended", 40, 8),
    Field::new("unmended", 48, 8),
    Field::new("lost", 56, 8),
    Field::new("differing", 64, 8),
];

/// Bytes of an image before its disks.
pub const IMAGE_HEAD_BYTES: usize = 32;
/// Bytes of a disk in an image.
pub const IMAGE_DISK_BYTES: usize = 32;
/// Bytes of a volume in an image, before the extents of its columns.
pub const IMAGE_VOLUME_BYTES: usize = 544;
/// Bytes of an extent in an image.
pub const RUN_BYTES: usize = 16;
/// Bytes of a run of stale blocks in an image.
pub const STALE_BYTES: usize = 12;
/// Bytes of the scrub at the end of an image.
pub const SCRUB_BYTES: usize = 72;

// The largest pool fits the largest image.
const _: () = assert!(
    IMAGE_HEAD_BYTES
        + DISKS_MAX * IMAGE_DISK_BYTES
        + VOLUMES_MAX * (IMAGE_VOLUME_BYTES + DISKS_MAX * Copies::MAX as usize * 4)
        + EXTENTS_MAX * RUN_BYTES
        + STALE_RUNS_MAX * STALE_BYTES
        + SCRUB_BYTES
        <= IMAGE_UNITS_MAX as usize * UNIT_BYTES
);
// The smallest image holds a pool of one disk and one volume.
const _: () = assert!(
    IMAGE_HEAD_BYTES + IMAGE_DISK_BYTES + IMAGE_VOLUME_BYTES + 4 + RUN_BYTES + SCRUB_BYTES
        <= IMAGE_UNITS_MIN as usize * UNIT_BYTES
);

/// Whether fields lie one behind the other, within `bytes`.
const fn are_disjoint(fields: &[Field], bytes: usize) -> bool {
    let (mut at, mut nth) = (0, 0);
    while nth < fields.len() {
        if fields[nth].offset < at || fields[nth].bytes == 0 {
            return false;
        }
        at = fields[nth].offset + fields[nth].bytes;
        nth += 1;
    }
    at <= bytes
}

const _: () = assert!(are_disjoint(&LABEL_FIELDS, UNIT_BYTES));
const _: () = assert!(are_disjoint(&HEADER_FIELDS, UNIT_BYTES));
const _: () = assert!(are_disjoint(&RECORD_FIELDS, RECORD_HEAD_BYTES));
const _: () = assert!(are_disjoint(&IMAGE_HEAD_FIELDS, IMAGE_HEAD_BYTES));
const _: () = assert!(are_disjoint(&IMAGE_DISK_FIELDS, IMAGE_DISK_BYTES));
const _: () = assert!(are_disjoint(&IMAGE_VOLUME_FIELDS, IMAGE_VOLUME_BYTES));
const _: () = assert!(are_disjoint(&RUN_FIELDS, RUN_BYTES));
const _: () = assert!(are_disjoint(&STALE_FIELDS, STALE_BYTES));
const _: () = assert!(are_disjoint(&SCRUB_FIELDS, SCRUB_BYTES));
const _: () = assert!(VERSION_FIRST < VERSION_SCRUB);
const _: () = assert!(VERSION_SCRUB < VERSION_SUMS);
const _: () = assert!(VERSION_FIRST > 0);
const _: () = assert!(CHECKSUM.offset + CHECKSUM.bytes == UNIT_BYTES);
const _: () = assert!(RECORD_HEAD_BYTES + CHECKSUM.bytes < UNIT_BYTES);
