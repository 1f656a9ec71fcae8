//! The real-time driver: one engine and one thread for each disk, and one server thread for each
//! processor, up to four.
//!
//! ```text
//!  clients ─▶ server's threads ─ Router ─▶ Inbox ─▶ disk thread: engine ⇄ backend
//!                    ▲                                   │
//!                    └─────────── Handle ◀── replies ────┘
//! ```
//!
//! The daemon makes no scheduling decision. It carries requests to the engine of their disk, the
//! engine's commands to the disk, and its replies to the client, and it reads the clock. It does in
//! real time what a simulation does in virtual time with the same engine and the same drive model.
//!
//! A request has four forms on its way. The server gives the router an [`nbd::Request`] for an
//! export. The router makes a `DiskRequest` of it, in the sectors of a disk, which stays with the
//! disk's thread until it is answered. The engine sees an [`engine::Request`] without data, and
//! issues [`engine::Command`]s, each of which becomes a [`backend::Job`] with its data.
//!
//! Invariants: nothing is started unless everything can be; every request that the server hands
//! over is answered exactly once; a disk's engine and backend are driven by one thread at a time.
//! That is the disk's own thread or, if the backend completes commands synchronously
//! ([`backend::Disk::completes_synchronously`]) or has a completion file
//! ([`backend::Disk::completion_fd`]), also a server thread.

mod block_devices;
mod changes;
mod disk;
mod observe;
mod pool;
mod routing;
mod shutdown;
mod slots;
mod startup;
mod state;
mod stop_signal;

pub use backend::{Health, HealthState as DiskState};
pub use block_devices::VolumeDevice;
pub use changes::admission::{PoolDiskSpace, PoolSpace};
pub use changes::error::ChangeError;
pub use changes::operator::Operator;
pub use changes::volumes::{Created, NewVolume, Setting};
pub use disk::open::{BackendError, OpenedBackend, open_backend};
pub use engine::{ChooserName, PredictionStats, SeeksAhead, ShortReadTrade};
pub use host::Clock;
pub use observe::breakdown::{Breakdown, Part};
pub use observe::status::{
    DiskStatus, Lateness, ReadAheadStatus, Status, VolumeStatus, WriteBufferStatus,
};
pub use observe::subscribers::{Filter, QUEUED_MAX, SUBSCRIBERS_MAX, Subscriber, TraceBatch};
pub use observe::traced::{SERVED_MAX, ThrottleReason, Traced, TracedId};
pub use observe::traffic::{Buckets, Flow, TimeSum, Traffic};
pub use pool::discovery::{PoolError, random_uid};
pub use pool::resync_trend::{ResyncEstimate, TREND_WINDOW};
pub use pool::view::{
    ChecksumsView, Moving, PoolDiskState, PoolDiskView, PoolView, PoolVolumeView, ResyncView,
    ScrubView, SpareView,
};
pub use startup::daemon::{Daemon, Layer};
pub use startup::error::StartError;
