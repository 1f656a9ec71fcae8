//! The control API of a running daemon: HTTP and JSON, described by `OpenAPI`.
//!
//! ```text
//!  Unix socket (its owner) ──┐
//!                            ├─▶ Routes ── Operator ──▶ config file, engines, routes of the data path
//!  TCP (whoever has a token)─┘      └── /openapi.json, /metrics
//! ```
//!
//! One thread, with a runtime of its own, for all its sockets; what waits for a disk or a file does so on threads beside
//! it. The data path has no part in it, and a daemon without it serves all the same.
//!
//! Invariants: bad input is answered with a 4xx that names the field, what was given and what is accepted; nothing
//! a client sends is a 5xx or a panic; everything a client can make grow is bounded in [`limits`].

mod answer;
mod client;
mod live;
mod metrics;
mod pool;
mod problem;
mod routes;
mod server;
mod shapes;

pub mod limits;

pub use client::{Answer, Client, ClientError};
pub use live::LiveQuery;
pub use metrics::{Metric, MetricKind, metrics};
pub use pool::{
    Forced, Moving, NamedSpec, Pool, PoolAnswer, PoolChange, PoolDisk, PoolVolume, PoolVolumeSpec,
    Settling,
};
pub use problem::{Fault, Problem, Unfit};
pub use routes::{Api, description};
pub use server::{Bound, Server, Token, TokenError};
pub use shapes::{
    Admission, AdmissionAnswer, Disk, DiskAnswer, DiskChange, DiskState, DisksAnswer, Room, Stream,
    StreamSpec, Volume, VolumeAnswer, VolumeChange, VolumeSpec, VolumesAnswer,
};
