//! Every limit on a trace, in one place.
//!
//! They keep each value that is computed from a trace within its type: an address in bytes fits 64
//! bits, a scaled time fits the nanoseconds of an instant.

use units::{Duration, SECTOR_BYTES};

/// Bytes of one line. The longest line of any of these formats is below a tenth of it.
pub const LINE_BYTES_MAX: usize = 4_096;
/// Bytes of a binary trace's header.
pub const HEADER_BYTES_MAX: usize = 64 << 10;
/// Bytes of one binary record.
pub const RECORD_BYTES_MAX: usize = 256;
/// Bytes from which the format is recognised.
pub const SNIFF_BYTES_MAX: usize = 4_096;
/// Files that one fio log names, and devices that one written log has.
pub const FILES_MAX: usize = 1_024;
/// Devices with statistics of their own.
pub const DEVICES_MAX: usize = 16_384;
/// The longest trace: 1,000 days.
pub const TRACE_TIME_MAX: Duration = Duration::from_secs(1_000 * 86_400);
/// The end of the largest device, in bytes.
pub const DEVICE_BYTES_MAX: u64 = 1 << 62;
/// The largest factor on times.
pub const SCALE_MAX: u64 = 100;

const _: () = assert!(TRACE_TIME_MAX.as_nanos() < i64::MAX as u64 / SCALE_MAX);
const _: () = assert!(DEVICE_BYTES_MAX.is_multiple_of(SECTOR_BYTES));
const _: () = assert!(RECORD_BYTES_MAX < LINE_BYTES_MAX && SNIFF_BYTES_MAX <= LINE_BYTES_MAX);
