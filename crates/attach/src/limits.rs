//! Bounds and time-outs.

use units::{Bytes, Duration};

/// The connections of one device.
pub const CONNECTIONS_MAX: usize = 16;

/// The devices that are looked at. The kernel's minor numbers allow fewer with partitions.
pub const DEVICES_MAX: usize = 4096;

/// The bytes of one file of sysfs or procfs that are read.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The messages that may come before the answer to a request.
pub const MESSAGES_MAX: usize = 64;

/// The time in which the kernel answers. It carries a request out within the system call, so that
/// the answer is there when it returns.
pub const ANSWER_MAX: Duration = Duration::from_millis(5_000);

/// The time that requests wait for a connection before they fail, unless given.
pub const DEAD_TIMEOUT: Duration = Duration::from_millis(3_600_000);
/// At least this. Less, and a restart of the daemon fails requests.
pub const DEAD_TIMEOUT_MIN: Duration = Duration::from_millis(1_000);
/// At most this, a week.
pub const DEAD_TIMEOUT_MAX: Duration = Duration::from_millis(7 * 24 * 3_600_000);

/// After this time the driver looks at a request without an answer. With one connection it sends
/// the request again if the connection was replaced, and otherwise waits on.
pub const RESEND: Duration = Duration::from_millis(5_000);
/// As [`RESEND`], with several connections. The driver then closes the connection of a request
/// without an answer even if the connection works, so this exceeds the longest wait of a volume for
/// its contract.
pub const RESEND_WITH_SEVERAL: Duration = Duration::from_millis(300_000);

/// How often a supervisor looks whether a device is attached and whether its volume has grown.
pub const LOOK_PERIOD: Duration = Duration::from_millis(2_000);
/// The time between two attempts of a supervisor to reach the daemon.
pub const RECONNECT_RETRY: Duration = Duration::from_millis(100);

/// The smallest logical block of a device.
pub const BLOCK_MIN: Bytes = Bytes(512);
/// The largest logical block of a device that all kernels accept.
pub const BLOCK_MAX: Bytes = Bytes(4096);
/// The longest request of a device, where the server allows it: the block layer's own default,
/// which the NBD driver lowers to a tenth.
pub const REQUEST_BYTES_MAX: Bytes = Bytes(1280 << 10);

const _: () = assert!(RESEND.as_nanos() < RESEND_WITH_SEVERAL.as_nanos());
const _: () = assert!(DEAD_TIMEOUT.as_nanos() <= DEAD_TIMEOUT_MAX.as_nanos());
