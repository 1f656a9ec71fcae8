//! The devices that the profiler measures in real time: block devices and files, NBD exports,
//! emulated drives.
//!
//! ```text
//!                      ┌─ BlockTarget ── one thread's system call, or many threads'
//!  profiler ─ Target ──┼─ NbdTarget ──── a socket, and a thread that hears the answers
//!                      └─ EmulatedTarget a drive model, and the clock
//! ```
//!
//! A target has no policy: it performs operations and reports when each began and ended. Times are
//! taken as close to the device as possible, by [`host::Clock`]. The overhead between, of threads
//! or a socket, is measured and reported.
//!
//! Invariant: a device is opened read-only unless writing was allowed, and then only if it is not
//! in use.

mod block;
mod emulated;
mod nbd;
mod timed_io;
mod workers;

pub use backend::device::{DeviceInfo as KernelFacts, InUse};
pub use block::{AccessMode, BlockTarget, OpenError, ProcessorTime};
pub use emulated::EmulatedTarget;
pub use nbd::{NbdError, NbdTarget};
