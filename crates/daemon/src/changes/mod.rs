//! Changes by an operator to a running daemon: volumes are created, changed and removed, disks are
//! reopened, and disks join and leave the pool, while clients are served.
//!
//! The persistent state is the config that `serve` was started with, and a change is an edit of
//! that file:
//!
//! ```text
//!  edit, checked ─▶ (clients disconnected, space erased) ─▶ file replaced ─▶ engine ─▶ reply
//!        │ refused: nothing changed                               │ failed: restored
//! ```
//!
//! A volume on one disk and a volume of the pool differ in how their space is allocated, and in
//! what survives a crash between two steps: see [`backend`](backend). Everything else is done once,
//! in [`volumes`](volumes).
//!
//! Invariants: changes are made one at a time; a change is answered when it is durable in the file
//! and effective in the engine; the file always holds a config that `serve` accepts; newly
//! allocated space reads as zeroes.

pub(crate) mod admission;
mod backend;
mod block_device;
mod disk_volume;
mod disks;
pub(crate) mod error;
pub(crate) mod maintenance;
pub(crate) mod operator;
mod persist;
mod pool_disks;
mod pool_redundancy;
pub(crate) mod pool_state;
mod pool_volume;
mod rebalance;
mod scrub;
mod snapshots;
mod spares;
mod stream_parts;
pub(crate) mod stream_watch;
pub(crate) mod volumes;
