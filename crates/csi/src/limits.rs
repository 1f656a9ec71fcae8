//! The limits of the driver.

use units::Bytes;

/// The size of a volume for which a claim names none.
pub const SIZE_DEFAULT: Bytes = Bytes(1 << 30);
/// The unit in which volumes of a pool are sized.
pub const SIZE_UNIT: Bytes = Bytes(1 << 20);
/// The longest name of a volume or snapshot that is taken as it is. A longer one is shortened, with
/// its checksum at its end: an identifier has at most 128 bytes.
pub const NAME_BYTES_MAX: usize = 112;
/// Entries in an answer to a list, if the caller names no number.
pub const ENTRIES_MAX: usize = 1_000;
/// Bytes of what a tool such as `mkfs` says that are passed on.
pub const TOOL_BYTES_MAX: usize = 2_048;
/// The largest number of volumes that one node has attached.
pub const NODE_VOLUMES_MAX: i64 = 256;

const _: () = assert!(SIZE_DEFAULT.0.is_multiple_of(SIZE_UNIT.0));
const _: () = assert!(NAME_BYTES_MAX + 16 <= 128);
