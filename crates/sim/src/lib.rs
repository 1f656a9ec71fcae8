//! Simulation in virtual time: the engine and the drive model, driven as fast as the processor
//! runs.
//!
//! A [`Simulation`] is built from the same [`config::Plan`] that the daemon serves. It owns one
//! engine and one drive model for each disk, the workloads, an event queue, and the oracles that
//! check every run. The decisions are the engine's; the simulation carries events to the engine and
//! its actions to the drive and the clients.
//!
//! Invariant: one seed gives one result, on every machine, in debug and in release. Each workload
//! has its own stream of random numbers, so adding a workload changes no other.

mod ahead;
mod bench_target;
mod buffered;
pub mod datasheet;
mod event_queue;
pub mod loads;
mod non_preemptible;
mod oracle;
mod replay;
mod run;
pub mod search;
pub mod seeds;
mod simulation;
mod slab;
mod source;
mod workload;
pub mod worth;

pub use bench_target::{BenchTarget, Lateness};
pub use non_preemptible::NonPreemptible;
pub use oracle::OracleCounts;
pub use rng::SeededRng;
pub use run::{ChangeReport, PoolReport, Report, TraceReport};
pub use simulation::{RECORDED_MAX, RecordedRequest, Simulation, VolumeView};
pub use workload::Generator;
