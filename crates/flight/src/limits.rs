//! The limits of a flight record.

/// A block is closed at this number of bytes.
pub const BLOCK_BYTES: usize = 32 << 10;
/// The largest block. The first block contains a whole config.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;
/// The longest entry: a contract with a stream, and every number of it at its longest.
pub const ENTRY_BYTES_MAX: usize = 256;
/// The longest list: bands of a profile, or points of a curve.
pub const LIST_MAX: usize = 1 << 16;

const _: () = assert!(BLOCK_BYTES + ENTRY_BYTES_MAX < BLOCK_BYTES_MAX);
