//! What a profiler measures, in real time: block devices and files, NBD exports, emulated drives.
//!
//! ```text
//!                      ┌─ BlockTarget ── one thread's system call, or many threads'
//!  profiler ─ Target ──┼─ NbdTarget ──── a socket, and a thread that hears the answers
//!                      └─ EmulatedTarget a drive model, and the clock
//! ```
//!
//! No policy: a target does what it is told and says when that began and ended. Times are taken as close to the
//! device as can be, by the daemon's clock. What lies between, threads or a socket, is measured and told.
//!
//! Invariant: a device is opened for reading alone unless writing was allowed, and then only if nobody uses it.

mod block;
mod call;
mod emulated;
mod nbd;
mod workers;

pub use backend::device::{DeviceInfo as KernelFacts, InUse};
pub use block::{Access, BlockTarget, OpenError, Processor};
pub use emulated::EmulatedTarget;
pub use nbd::{NbdError, NbdTarget};
