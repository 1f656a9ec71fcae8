//! Measures what a drive is, by timed reads and writes alone.
//!
//! All measurements go through a [`Target`]: a simulated drive, an emulated one or a block device.
//! The target tells the time. The profiler has no clock, no files and no random numbers. It treats
//! the drive as a black box: it measures or defeats caching, read-ahead and remapping, and never
//! asks the drive for them.
//!
//! - [`Target`] is the device under measurement, [`Facts`] its stated properties.
//! - [`Bench`] times operations on it within a [`Budget`] of drive time, and reports [`Progress`].
//! - [`drive_profile::findings`] holds the results: every part may be missing, and each figure has
//!   a confidence.
//! - [`drive_profile::findings::Stage`] names the parts of a measurement, so that an interrupted
//!   one can be resumed.
//!
//! | module | measures |
//! |---|---|
//! | `rotation` | the rotation period and phase, or that nothing rotates |
//! | `layout` | zones, tracks, heads, cylinders and skews |
//! | `mechanics` | seeks, command overheads and the accuracy of predictions |
//! | `cache` | the cache for reads, the write buffer, firmware policies |
//! | `host_path` | the latency of the path between host and drive |
//! | `throughput` | chunk sizes, queue depths, and the rates of devices that do not rotate |
//! | `rate_limit` | token buckets |
//! | [`bus`] | the bus that several disks share |
//! | `estimate` | the estimators that all of them share |
//!
//! Invariant: figures come from sums, products, quotients and square roots alone (no transcendental
//! functions), so that one sequence of completions gives one profile on every machine.

mod bench;
pub mod bus;
mod cache;
pub mod dynamics;
mod estimate;
pub mod flash;
mod host_path;
mod layout;
pub mod limits;
mod measure;
mod mechanics;
mod rate_limit;
mod rotation;
mod target;
mod throughput;

pub use bench::{Bench, Budget, Progress, ProgressSink, StopReason, Timed};
pub use layout::zones::geometry;
pub use measure::measure;
pub use rotation::detection::test_rotation;
pub use rotation::measure::rotation;
pub use target::{Completion, Facts, Outcome, Tag, Target};
pub use throughput::chunks::{CHUNK_STEPS, OPTIMAL_SHARE};
pub use throughput::depth::STARVATION_WAIT;
