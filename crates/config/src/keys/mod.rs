//! Every table and key of a config or scenario, with its type, default and description.
//!
//! The parser rejects the keys that are not described here, and the reference pages are generated
//! from the descriptions. This file is also the table of earlier names that are still accepted:
//! [`Key::formerly`].

mod disk;
mod server;
mod shapes;
mod volume;
mod workload;

pub use input::{Key, TableKeys};

pub(crate) use disk::{BEST_EFFORT, BUS, DISK, FAULTS, WORST_CASE};
pub(crate) use server::{LISTEN, LOG, NBD, TOP};
pub(crate) use volume::{FROM, LATENCY, POOL, POOL_VOLUME, REBUILD, SCRUB, STREAM, VOLUME};
pub(crate) use workload::{CHANGE, THINK, WORKLOAD};

/// The tables of a config, in the order of the reference page.
pub fn all() -> Vec<&'static TableKeys> {
    vec![
        &TOP,
        &LISTEN,
        &NBD,
        &LOG,
        &BUS,
        &DISK,
        &BEST_EFFORT,
        &WORST_CASE,
        &FAULTS,
        &VOLUME,
        &STREAM,
        &LATENCY,
        &POOL,
        &REBUILD,
        &SCRUB,
        &POOL_VOLUME,
        &FROM,
        &CHANGE,
        &WORKLOAD,
        &THINK,
    ]
}
