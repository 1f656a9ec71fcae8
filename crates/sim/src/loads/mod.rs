//! Synthetic loads after published figures of real ones: media streams, and the disks of a busy
//! file server.
//!
//! Each is a list of requests with their times, generated once from a seed. The same list runs in
//! virtual time and against a live engine.

mod cello;
mod media;

pub use cello::{Cello, MINUTES_A_DAY};
pub use media::{Media, Pace};

use units::{Duration, Lba, Op, Sectors};

/// One request of a load, in its own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// The arrival time, from the start of the load.
    pub at: Duration,
    /// Read or write.
    pub op: Op,
    /// The index of its disk or file within the load, from 0.
    pub unit: u32,
    /// Its start there.
    pub start: Lba,
    /// Its length.
    pub len: Sectors,
}
