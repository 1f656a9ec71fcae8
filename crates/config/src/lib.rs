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

pub mod disksim;
pub mod drives;
pub mod limits;
pub mod profile;

mod check;
mod deadlines;
mod disk;
mod document;
mod error;
mod execution;
mod faults;
mod file;
mod log;
mod measured;
mod memory;
mod names;
mod nbd;
mod plan;
mod pool;
mod real;
mod replay;
mod settings;
mod stream;
mod table;
mod timetable;
mod volume;
mod workload;

pub use document::{Document, Named, PoolVolumeEdit, StreamEdit, VolumeEdit};
pub use error::ConfigError;
pub use faults::Faults;
pub use log::{Log, LogFormat, Record};
pub use nbd::{Nbd, Tls};
pub use plan::{
    Access, Arrival, Backing, Disk, DiskIndex, Drawn, DriveRef, Mix, Plan, ProfileRef, Real, Remap,
    Replay, Requests, Volume, VolumeIndex, Way, Workload,
};
pub use pool::{Part, Pool, PoolStream, PoolVolume, Whereabouts, layout_text, zone_text};
pub use stream::{BlockCost, Stream};
pub use table::size as size_text;
pub use timetable::{Blocker, Room, Unfit, decimal as decimal_text};
