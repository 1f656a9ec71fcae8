//! Bounds and time-outs.

use units::{Bytes, Duration};

/// The requests of one device at once: the depth of its queue.
pub const DEPTH: u16 = 128;

/// The longest read or write of a device. The block layer splits longer ones.
pub const REQUEST_BYTES_MAX: Bytes = Bytes(1 << 20);

/// The attempts to hand commands to a kernel that lacks memory for the moment.
pub const SUBMIT_ATTEMPTS_MAX: u32 = 1_000;

/// The longest discard or write of zeroes, in one request.
pub const DISCARD_MAX: Bytes = Bytes(1 << 30);

/// How long the end of a device's former daemon is waited for. The driver notices it when the
/// system has closed the daemon's files.
pub const RECOVERY_MAX: Duration = Duration::from_millis(15_000);
/// The time between two attempts.
pub const RECOVERY_RETRY: Duration = Duration::from_millis(20);

/// How long the control node of a new device is waited for, until udev has given it to the daemon.
pub const NODE_MAX: Duration = Duration::from_millis(5_000);

/// The devices that are looked at, and that one daemon serves. The driver allows 64 unless its
/// parameter `ublks_max` says otherwise.
pub const DEVICES_MAX: usize = 4_096;

const _: () = assert!(DEPTH as usize <= nbd::limits::REQUESTS_MAX);
const _: () = assert!(REQUEST_BYTES_MAX.0 <= nbd::limits::MEMORY_MIN.0);
const _: () = assert!(REQUEST_BYTES_MAX.0.is_multiple_of(units::SECTOR_BYTES));
