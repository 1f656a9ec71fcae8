//! Exports as vhost-user-blk devices of virtual machines.
//!
//! A virtual machine monitor connects to an export's socket and shares the guest's memory. From
//! then on requests go from the guest's driver to this process and back through virtqueues in that
//! memory; the socket is for control messages alone.
//!
//! ```text
//!  monitor ── messages ──▶ monitor.rs, control.rs ──▶ device.rs ◀── event loop of nbd
//!  guest's driver ◀── virtqueues in memory.rs ──▶ ring.rs ──▶ chain.rs, segments.rs
//! ```
//!
//! Neither the guest nor its monitor is trusted: a descriptor is copied before it is checked, each
//! address is looked up in the mapped memory, and whatever is wrong fails the request, the queue or
//! the connection, never the process. One thing is left to the monitor: if it shortens the file of
//! the memory that it shares, the process ends at its next access (SIGBUS), unless the file is
//! sealed, as QEMU's `memory-backend-memfd` does by default.
//!
//! Requests in progress are marked in memory that outlives this process (`in_flight`): after a
//! kill the next one carries them out again.
//!
//! Sources: vhost-user protocol of QEMU, `docs/interop/vhost-user.rst`; Virtual I/O Device (VIRTIO)
//! 1.2, sections 2.7 (split virtqueues) and 5.2 (block device).

mod chain;
mod config_space;
mod control;
mod device;
mod in_flight;
pub mod limits;
mod memory;
mod monitor;
mod ring;
mod segments;
mod server;

pub use server::{Server, Waker};
