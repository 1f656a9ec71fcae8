//! Loads that are made up after what is published of real ones: streams of media, and a busy file server's disks.
//!
//! Each is a list of requests with their times, drawn once from dice: the same list can be run in virtual time and
//! sent to a live engine.

mod cello;
mod media;

pub use cello::{Cello, MINUTES_A_DAY};
pub use media::{Media, Pace};

use units::{Duration, Lba, Op, Sectors};

/// One request of a load, in its own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When it comes, from the beginning of the load.
    pub at: Duration,
    /// What it does: reads or writes.
    pub op: Op,
    /// Which of the load's disks or files it goes to, counted from 0.
    pub unit: u32,
    /// Where it begins there.
    pub start: Lba,
    /// How long it is.
    pub len: Sectors,
}
