//! Every limit of a pool, and the space that it needs on a disk. The reference of the pool format
//! (docs/src/reference/pool-format.md) lists them too.

use units::Sectors;

/// Sectors in a block, the unit of allocation: 1 MiB, so that positioning takes a tenth of the time
/// of reading it.
pub const BLOCK_SECTORS: Sectors = Sectors(2_048);

/// Bytes in a unit, the unit of metadata writes: the largest physical sector, so that a torn write
/// damages no neighbour.
pub const UNIT_BYTES: usize = 4_096;

/// Units in a block.
pub const BLOCK_UNITS: u32 = 256;

/// Disks of a pool.
pub const DISKS_MAX: usize = 64;

/// Volumes and snapshots of a pool, together.
pub const VOLUMES_MAX: usize = 4_096;

/// Snapshots of one volume.
pub const SNAPSHOTS_MAX: usize = 256;

/// Extents of all volumes and snapshots of a pool, together. A pool of smaller slots holds fewer.
pub const EXTENTS_MAX: usize = 4 << 20;

/// Bytes of a volume's name, in UTF-8; the config's limit too.
pub const NAME_BYTES_MAX: usize = 255;

/// Blocks of a disk: 256 TiB.
pub const DISK_BLOCKS_MAX: u32 = 1 << 28;

/// Blocks of a volume: 2 PiB.
pub const VOLUME_BLOCKS_MAX: u32 = 1 << 31;

/// Runs of stale blocks of all disks, together: 3 MB of an image.
pub const STALE_RUNS_MAX: usize = 1 << 18;

/// Blocks of a region: a write that a disk misses makes the region's blocks on it stale, so that
/// the writes beside it need no change of their own.
pub const REGION_BLOCKS: u32 = 64;

/// Blocks behind those that a client writes in order, of which a disk that is out is to be stale
/// before they are written: with fewer than a region of them left, this number is marked while no
/// write waits for it. What the client does not write of them is made equal without need.
pub const MARKED_AHEAD_BLOCKS: u32 = 128;

/// Blocks that are made equal together: all are written, then flushed and recorded once, which
/// takes a small part of the time.
pub const RESYNC_BLOCKS_MAX: u32 = 128;

/// The same where clients write: writes to the blocks wait meanwhile.
pub const RESYNC_SHORT_BLOCKS: u32 = 8;

/// Units of a slot's image, at least: one disk and a few volumes.
pub const IMAGE_UNITS_MIN: u32 = 4;

/// Units of a slot's image, at most.
pub const IMAGE_UNITS_MAX: u32 = 20_480;

/// Units of a slot's log, at least: two records of two copies.
pub const LOG_UNITS_MIN: u32 = 8;

/// Units of a slot's log, at most: 8 MiB, a tenth of a second to read.
pub const LOG_UNITS_MAX: u32 = 2_048;

/// Operations in preparation at a time.
pub const OPERATIONS_MAX: usize = 64;

/// Gaps that are examined for one that holds an allocation whole, before it is split.
pub const GAPS_SEEN_MAX: usize = 1_024;

/// Findings that a check lists; the rest is counted.
pub const FINDINGS_MAX: usize = 1_024;

const _: () = assert!(BLOCK_UNITS as u64 * UNIT_BYTES as u64 == BLOCK_SECTORS.0 * 512);
// How the limits relate to each other, and to the widths of their fields.
const _: () = assert!(UNIT_BYTES.is_multiple_of(512));
const _: () = assert!(BLOCK_UNITS.is_power_of_two());
const _: () = assert!(NAME_BYTES_MAX <= u8::MAX as usize);
const _: () = assert!(SNAPSHOTS_MAX < VOLUMES_MAX);
const _: () = assert!(VOLUMES_MAX < u32::MAX as usize);
const _: () = assert!(EXTENTS_MAX < u32::MAX as usize);
const _: () = assert!(IMAGE_UNITS_MIN < IMAGE_UNITS_MAX);
const _: () = assert!(LOG_UNITS_MIN < LOG_UNITS_MAX);
const _: () = assert!(STALE_RUNS_MAX < u32::MAX as usize);
const _: () = assert!(RESYNC_SHORT_BLOCKS <= REGION_BLOCKS);
const _: () = assert!(RESYNC_SHORT_BLOCKS > 0 && RESYNC_SHORT_BLOCKS < RESYNC_BLOCKS_MAX);
const _: () = assert!(RESYNC_BLOCKS_MAX > 0 && REGION_BLOCKS.is_power_of_two());
const _: () = assert!(REGION_BLOCKS < DISK_BLOCKS_MAX);
const _: () = assert!(REGION_BLOCKS <= MARKED_AHEAD_BLOCKS);
const _: () = assert!(VOLUME_BLOCKS_MAX.checked_add(MARKED_AHEAD_BLOCKS).is_some());
const _: () = assert!(VOLUME_BLOCKS_MAX.checked_add(REGION_BLOCKS).is_some());
const _: () = assert!(LOG_UNITS_MIN.is_multiple_of(4));
const _: () = assert!(DISK_BLOCKS_MAX as u64 <= u64::MAX / BLOCK_SECTORS.0 / 512);
const _: () = assert!(VOLUME_BLOCKS_MAX < u32::MAX);
const _: () = assert!(DISK_BLOCKS_MAX <= VOLUME_BLOCKS_MAX);
const _: () = assert!(OPERATIONS_MAX > 0 && GAPS_SEEN_MAX > 0 && FINDINGS_MAX > 0);
