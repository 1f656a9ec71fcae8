//! Configs, scenarios and the drive library, checked at the edge.
//!
//! `spindle serve CONFIG` and `spindle sim run SCENARIO` read one format, so that a plan that was simulated
//! can be served unchanged. [`Plan::read`] turns it into checked values or into one [`ConfigError`], which
//! names the file, the line, the field, what stands there and what would be accepted. No input panics.
//!
//! ```text
//! text ── toml ──▶ table (keys, types, lines) ── disk, volume, workload ──▶ Plan ── for_sim ──▶ a simulation
//!                                                                               └─ for_serve ─▶ the daemon
//! ```

pub mod keys;
pub mod limits;

mod defaults;
mod demand;
mod edit;
mod error;
mod parse;
mod plan;

pub use demand::{
    AdmissionFailure, AdmissionHeadroom, BlockCost, BlockingContract, decimal as decimal_text,
};
pub use edit::{Document, NamedVolume, PoolVolumeEdit, StreamEdit, VolumeEdit};
pub use error::ConfigError;
pub use input::size_text;
pub use plan::{
    Access, Arrival, Backing, Disk, DiskContract, DiskIndex, DriveRef, Faults, IoMethod, Log,
    LogFormat, Mix, Nbd, PlacementSpec, Plan, PoolPlan, PoolStream, PoolVolume, ProfileRef,
    RealDisk, RecordSettings, Remap, Replay, Requests, Stream, Synthetic, Tls, Volume, VolumeIndex,
    Workload, layout_name, zone_name,
};
