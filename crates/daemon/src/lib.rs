//! The driver in real time: one engine thread a disk, and for the sockets one thread a processor, up to four.
//!
//! ```text
//!  clients ─▶ frontend's threads ─ Router ─▶ Inbox ─▶ disk thread: engine ⇄ backend
//!                    ▲                                      │
//!                    └──────────── Handle ◀── replies ──────┘
//! ```
//!
//! The daemon decides nothing: it carries requests to the engine of their disk, its commands to the disk and
//! its replies to the client, and it is the only reader of the clock. What simulation does in virtual time with
//! the same engine and the same drive model, this does in real time.
//!
//! Invariants: nothing is started unless everything can be; every request that the frontend hands over is
//! answered; a disk's engine and backend are driven by one thread at a time: the disk's own, or, where no command has to be
//! waited for ([`backend::Disk::completes_synchronously`]) or it can be heard what has ended ([`backend::Disk::completion_fd`]), the frontend's too.

mod disk;
mod door;
mod inbox;
mod live;
mod observe;
mod operator;
mod pending;
mod persist;
mod pool;
mod record;
mod reopen;
mod rest;
mod router;
mod seats;
mod service;
mod status;
mod traffic;

pub use backend::{Health, HealthState as DiskState};
pub use host::Clock;
pub use observe::{
    Breakdown, Filter, NAMED_MAX, Part, Told, Traced, TracedId, WAITING_MAX, WATCHERS_MAX, Watcher,
    Withholder,
};
pub use operator::{ChangeError, Created, Operator, Setting};
pub use pool::{Moving, PoolDiskView, PoolError, PoolView, PoolVolumeView, chance};
pub use service::{Before, Daemon, StartError};
pub use status::{DiskStatus, Lateness, Status, VolumeStatus};
pub use traffic::{Buckets, Flow, TimeSum, Traffic};
