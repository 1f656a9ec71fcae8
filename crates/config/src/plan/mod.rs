//! A config as checked values: the simulation and the daemon are built from them.
//!
//! Invariants, all established by [`Plan::parse`] and not checked again by its users:
//! * every index points into the plan's own lists, and names are unique within their list;
//! * the reserves on a disk add up to at most the whole, the sizes on it to at most its capacity;
//! * every quantity is within [`crate::limits`], so that sums and products of them do not overflow.
//!
//! The `line` fields are for errors that are found later (a backing file on a full file system):
//! they name the file and the line as the parser does.

mod backing;
mod bus;
mod depth;
mod disk;
mod faults;
mod initial_pool;
mod labels;
mod log;
mod nbd;
mod pool;
mod top;
mod volume;
mod workload;

pub use backing::{Backing, BackingCapabilities, IoMethod, RealDisk, Retention, WriteCache};
pub use bus::{Bus, SharedBuses};
pub use depth::DepthSource;
pub(crate) use depth::{DepthTerms, QueueDepth};
pub use disk::{Disk, DiskIndex, DriveRef, ProfileRef, WriteBufferLog};
pub use faults::Faults;
pub use initial_pool::{InitialPool, NotCreated};
pub use labels::Labels;
pub use log::{Log, LogFormat, RecordSettings};
pub use nbd::{Nbd, Tls};
pub use pool::{
    DiskContract, FloorContract, PlacementSpec, PoolAction, PoolChange, PoolChangeIndex, PoolPlan,
    PoolStream, PoolVolume, PoolVolumeIndex, StreamOrder, ZONE_WORDS, domain_numbers,
    layout_copies, layout_name, order_name, zone_name, zone_of,
};
pub(crate) use pool::{LAYOUTS, ORDERS};
pub use top::Plan;
pub use volume::{Stream, Volume, VolumeIndex, priority_name};
pub use workload::{
    Access, Arrival, LoadedVolume, Mix, Remap, Replay, Requests, Step, Synthetic, ThinkTime,
    Workload,
};
