//! Virtual time: the engine and the drive model, driven as fast as the processor goes.
//!
//! A [`World`] is built from the same [`config::Plan`] that the daemon serves. It owns an engine and a drive a
//! disk, the workloads that load them, a calendar, and the oracles that watch every run. The decisions are the
//! engine's; the world only carries events to it and actions away.
//!
//! Invariant: one seed, one result, on every machine, in debug and in release. Each workload has dice of its
//! own, so that adding one changes no other.

mod bench_target;
mod calendar;
mod commands;
pub mod datasheet;
mod dice;
pub mod loads;
mod oracle;
mod replay;
mod run;
pub mod search;
pub mod seeds;
mod slab;
mod source;
mod workload;
mod world;

pub use bench_target::{BenchTarget, Lateness};
pub use commands::Uninterrupted;
pub use dice::Dice;
pub use oracle::Verdict;
pub use run::{Report, TraceReport};
pub use workload::Generator;
pub use world::{VolumeView, World};
