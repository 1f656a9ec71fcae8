//! The limits of the vhost-user front, and their relations.

use units::{Bytes, SECTOR_BYTES};

/// The most virtqueues of one device.
pub const QUEUES_MAX: usize = 16;
/// The longest virtqueue (virtio 1.2, section 2.7: at most 32768). Longer ones are refused.
pub const QUEUE_SIZE_MAX: u16 = 1_024;
/// The most data descriptors of one request that a driver is told to use. With the header and the
/// status a request then fits a queue of 128, which is what virtual machine monitors choose.
pub const SEGMENTS_MAX: u32 = 126;
/// The longest data descriptor that a driver is told to use.
pub const SEGMENT_BYTES_MAX: Bytes = Bytes(128 << 10);
/// The longest read or write: what a driver that heeds the two limits above can ask for.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;
/// The most sectors of one discard or write of zeroes: 2 GiB.
pub const DISCARD_SECTORS_MAX: u32 = 1 << 22;
/// The most regions of guest memory.
pub const MEMORY_REGIONS_MAX: usize = 64;
/// The most devices in use at once: each has a thread for its control messages.
pub const DEVICES_MAX: usize = 256;
/// The longest serial number that a driver can read (virtio 1.2, section 5.2.6: 20 bytes).
pub const SERIAL_BYTES: usize = 20;

const _: () = assert!(SEGMENTS_MAX as u64 * SEGMENT_BYTES_MAX.0 <= REQUEST_BYTES_MAX as u64);
const _: () = assert!(REQUEST_BYTES_MAX <= nbd::limits::PAYLOAD_ACCEPTED_BYTES_MAX);
const _: () = assert!((SEGMENT_BYTES_MAX.0).is_multiple_of(SECTOR_BYTES));
// A chain's head and its queue's index name a request.
const _: () = assert!(QUEUES_MAX <= 1 << 16);
