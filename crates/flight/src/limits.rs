//! Every bound of a flight record.

/// A block is closed when it has so many bytes.
pub const BLOCK_BYTES: usize = 32 << 10;
/// A block has at most so many: the first, which tells what the engine began with, holds a config
/// whole.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;
/// The longest entry: a contract with a stream, and every number of it at its longest.
pub const ENTRY_BYTES_MAX: usize = 256;
/// Bands of a profile, and points of a curve.
pub const LIST_MAX: usize = 1 << 16;

const _: () = assert!(BLOCK_BYTES + ENTRY_BYTES_MAX < BLOCK_BYTES_MAX);
