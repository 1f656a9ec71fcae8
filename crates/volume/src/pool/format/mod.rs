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

pub(super) mod changes;
pub(super) mod codec;
pub(super) mod fields;
pub(super) mod geometry;
pub(super) mod image;
pub(super) mod structures;

pub use fields::{
    CHECKSUM, Field, HEADER_FIELDS, IMAGE_DISK_BYTES, IMAGE_DISK_FIELDS, IMAGE_HEAD_BYTES,
    IMAGE_HEAD_FIELDS, IMAGE_VOLUME_BYTES, IMAGE_VOLUME_FIELDS, LABEL_FIELDS, MAGIC, RECORD_FIELDS,
    RECORD_HEAD_BYTES, RUN_BYTES, RUN_FIELDS,
};
pub use geometry::{Geometry, Slot, disk_blocks, label_places};
pub use structures::{DecodeError, Header, Label, Record, VERSION};
