//! A pool in service: requests and changes go through its [`Flow`](volume::pool::flow::Flow), whose
//! pieces the disks' threads carry out.
//!
//! ```text
//!  server's threads ─▶ PoolService ─ pieces ─▶ disks' inboxes     (requests, by volume and sector)
//!  operator ─────────▶   ▲                        │               (changes)
//!                        └────── pieces done ─────┘               (disks' threads)
//! ```
//!
//! One lock protects the flow. It is held for the duration of a decision, never for I/O. The thread
//! that brings a request or a completion also carries out what follows: it sends pieces to the
//! inboxes and replies to the server.
//!
//! On each of a pool's disks, each volume of the pool is attached to the engine under a number of
//! its own, and so are internal volumes: for metadata and relocation, and, with contracts of their
//! own, for resynchronisation and the scrub. So every use of a disk is charged to a volume.
//!
//! Invariants: a request is answered once, when all of its pieces are done; a buffer is owned by
//! the request or by one of its pieces; no thread waits for a disk while it holds the lock.

pub(crate) mod accounts;
mod buffers;
pub(crate) mod discovery;
pub(crate) mod piece;
pub(crate) mod resync_trend;
pub(crate) mod service;
pub(crate) mod sums;
pub(crate) mod view;
