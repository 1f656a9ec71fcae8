//! The API of a running daemon: HTTP and JSON, described by `OpenAPI`.
//!
//! ```text
//!  Unix socket (its owner) ──┐
//!                            ├─▶ Routes ── Operator ──▶ config file, engines, exports
//!  TCP (with a token) ───────┘      ├── /openapi.json, /metrics
//!                                   └── / : the page, for browsers
//! ```
//!
//! One thread with a runtime of its own serves all sockets of the API; work that may wait for a
//! disk or a file is done on other threads. The data path does not depend on the API.
//!
//! Invariants: invalid input is answered with a 4xx status that names the field, the given value
//! and the accepted values; no input causes a 5xx status or a panic; everything that a client can
//! make grow is bounded in [`limits`].

mod access;
mod answers;
mod client;
mod context;
mod contract_metrics;
mod disk_metrics;
mod events;
mod extract;
mod interval;
mod metric_family;
mod metrics;
mod page;
mod problem;
mod promises;
mod resources;
mod routes;
mod server;
mod token;

pub mod limits;

pub use client::{Answer, Client, ClientError};
pub use context::Api;
pub use events::EventKind;
pub use interval::{DiskWindow, History, Sample, VolumeWindow, Window};
pub use metric_family::{Metric, MetricKind};
pub use metrics::metrics;
pub use problem::{Fault, LatencyOffers, Problem, Unfit};
pub use resources::admission::{
    Admission, AdmissionAnswer, AdmissionDisk, ChangeAdmission, ChangeAdmissionAnswer, Headroom,
};
pub use resources::contract::{ContractKind, Rate};
pub use resources::disk::{
    Disk, DiskAnswer, DiskChange, DiskHealth, DiskState, DisksAnswer, Predictions, ReadAhead,
    SeeksAhead, WriteBuffer,
};
pub use resources::events::EventQuery;
pub use resources::latency::{Latency, LatencySpec};
pub use resources::pool::{
    Forced, Moving, NamedSpec, Pool, PoolAnswer, PoolChange, PoolResync, PoolVolume, Relocate,
};
pub use resources::pool_checksums::PoolChecksums;
pub use resources::pool_disk::{PoolDisk, PoolSpare};
pub use resources::pool_scrub::PoolScrub;
pub use resources::promises::{PromisesAnswer, VolumePromises};
pub use resources::session::SessionSpec;
pub use resources::stream::{
    Stream, StreamBytes, StreamPart, StreamSpec, read_disks, stream_parts,
};
pub use resources::trace::LiveQuery;
pub use resources::volume::{BlockDevice, Volume, VolumeAnswer, VolumesAnswer};
pub use resources::volume_spec::{ContractSpec, VolumeChange, VolumeSpec};
pub use resources::write_cache::{WriteCacheCost, WriteCacheCosts};
pub use routes::description;
pub use server::{Bound, Server};
pub use token::{Token, TokenError};
