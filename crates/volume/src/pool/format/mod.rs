//! The layout of a pool's disks. The reference page (docs/src/reference/pool-format.md) describes
//! it, and a test compares its tables with the [`Field`]s here.
//!
//! ```text
//!  unit 0   unit 1                                                                     last block
//! ┌───────┬───────────────────────┬───────────────────────┬───────────────────────────┬───────┐
//! │ label │ slot 0:               │ slot 1:               │ blocks of volumes …       │ label │
//! │       │ header, image, log    │ header, image, log    │                           │       │
//! └───────┴───────────────────────┴───────────────────────┴───────────────────────────┴───────┘
//! ```
//!
//! An image holds all metadata of the pool at one sequence number; the log behind it holds the
//! changes since. Every disk has both. Whole units are written, and each structure carries a
//! checksum.

pub(super) mod changes;
pub(super) mod codec;
pub(super) mod fields;
pub(super) mod geometry;
pub(super) mod image;
pub(super) mod structures;

pub use fields::{
    CHECKSUM, Field, HEADER_FIELDS, IMAGE_DISK_BYTES, IMAGE_DISK_FIELDS, IMAGE_HEAD_BYTES,
    IMAGE_HEAD_FIELDS, IMAGE_VOLUME_BYTES, IMAGE_VOLUME_FIELDS, LABEL_FIELDS, MAGIC, RECORD_FIELDS,
    RECORD_HEAD_BYTES, RUN_BYTES, RUN_FIELDS, SCRUB_BYTES, SCRUB_FIELDS, STALE_BYTES, STALE_FIELDS,
    VERSION_FIRST, VERSION_SCRUB, VERSION_SUMS,
};
pub use geometry::{Geometry, Slot, disk_blocks, label_places};
pub use structures::{DecodeError, Header, Label, Record, VERSION};
