//! Configs and scenarios, checked when they are read.
//!
//! `spindle serve CONFIG` and `spindle sim run SCENARIO` read the same format, so that a simulated
//! config can be served unchanged. [`Plan::read`] returns checked values or one [`ConfigError`],
//! which names the file, the line, the field, the value found and the value expected. No input
//! panics.
//!
//! ```text
//! text ── parse ──▶ plan (checked values) ──┬─ for_sim ───▶ a simulation
//!  ▲                       │                └─ for_serve ─▶ the daemon
//!  └──────── edit ◀────────┤
//!                          └─ demand ─▶ engine settings, tasks, admission
//! ```

pub mod keys;
pub mod limits;

mod defaults;
mod demand;
mod edit;
mod error;
mod parse;
mod plan;

pub use drive::{CacheBypass, DurableCosts};

pub use demand::{
    AdmissionFailure, AdmissionHeadroom, BlockCost, BlockingContract, decimal as decimal_text,
};
pub use edit::{
    Document, LatencyEdit, NamedVolume, PoolVolumeEdit, RateEdit, StreamEdit, VolumeEdit,
};
pub use error::ConfigError;
pub use input::size_text;
pub use parse::Purpose;
pub use plan::{
    Access, Arrival, Backing, BackingCapabilities, Bus, DepthSource, Disk, DiskContract, DiskIndex,
    DriveRef, Faults, FloorContract, InitialPool, IoMethod, Labels, LoadedVolume, Log, LogFormat,
    Mix, Nbd, NotCreated, PlacementSpec, Plan, PoolAction, PoolChange, PoolChangeIndex, PoolPlan,
    PoolStream, PoolVolume, PoolVolumeIndex, ProfileRef, RealDisk, RecordSettings, Remap, Replay,
    Requests, Retention, SharedBuses, Step, Stream, StreamOrder, Synthetic, ThinkTime, Tls, Volume,
    VolumeIndex, Workload, WriteBufferLog, WriteCache, ZONE_WORDS, domain_numbers, layout_copies,
    layout_name, order_name, priority_name, zone_name, zone_of,
};
