//! How a drive moves and what it remembers: the half of a profile that stands on knowing where sectors lie.
//!
//! ```text
//! geometry's profile: lba -> cylinder, head, angle
//!   └▶ spindle    when a sector comes by
//!       └▶ prober     one block, from a distance, at a gap
//!           └▶ threshold  how long the way took, from turns that were caught or lost
//!               └▶ seeks      the curve
//! ```
//!
//! What can be told apart and what cannot: all times are from a command's submission to when its sector begins to
//! pass, later by what a drive takes from a sector's passing to its completion, which no host can see. That same time is
//! in the phase that is foretold, so that what is foretold is right; it is in [`Overheads::read`] and [`Overheads::write`],
//! and not in the curves, which are differences. The way between host and drive is in all times and, where it can be
//! timed on its own ([`Overheads::path`]), in no overhead.

mod before_writes;
mod buffers;
mod chunks;
mod depth;
mod findings;
mod habits;
mod hits;
mod num;
mod overheads;
mod path;
mod places;
mod prediction;
mod prober;
mod run;
mod seeks;
mod silence;
mod smooth;
mod spindle;
pub(crate) mod threshold;
mod to_profile;
mod variation;
mod votes;
mod write_buffer;

pub use buffers::{SEGMENT_MAX, SEGMENTS_MAX};
pub use chunks::{OPTIMAL, STEPS};
pub use depth::STARVES;
pub use findings::{
    ChunkPoint, Chunks, DepthPoint, Dynamics, Overheads, Prediction, ReadBuffer, SeekPoint, Seeks,
    Starvation, WriteBuffer,
};
pub use run::measure;
pub use to_profile::CHUNK_MIN;
