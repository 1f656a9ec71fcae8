//! A pool that is served: requests and changes go through its [`Flow`](volume::pool::flow::Flow), whose pieces the disks' threads carry
//! out.
//!
//! ```text
//!  frontend's threads ─▶ Served ─ pieces ─▶ disks' inboxes        (requests, by volume and sector)
//!  operator ──────────▶   ▲                     │                (changes)
//!                         └────── ended ────────┘                (disks' threads)
//! ```
//!
//! The flow is behind one lock, which is held for as long as a decision takes, never for I/O. Whoever brings something to it
//! carries out what follows: pieces go to inboxes, answers to the frontend.
//!
//! On each of a pool's disks each volume of it has an account with the engine, and two more have: one for metadata, one for
//! blocks that are moved. So whatever is done to a disk is paid for by somebody.
//!
//! Invariants: a request is answered once, when all of its pieces have ended; a buffer is owned by the request or by one piece
//! of it; nobody waits for a disk while holding the lock.

mod balance;
mod buffers;
mod disks;
mod keeper;
mod open;
mod operator;
mod seat;
mod served;
mod view;
mod volumes;

pub(crate) use keeper::keep;
pub(crate) use open::{Opened, in_memory, open};
pub use open::{PoolError, chance};
pub(crate) use seat::seat;
pub(crate) use served::{Ended, Served};
pub use view::{Moving, PoolDiskView, PoolView, PoolVolumeView};
