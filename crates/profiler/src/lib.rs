//! What a drive is, from timed reads and writes alone.
//!
//! Everything that is measured goes through a [`Target`]: a simulated drive, an emulated one or a block device. The
//! target says what time it is; the profiler has no clock, no files and no dice. A drive is a black box: what it
//! buffers, reads ahead or moves elsewhere is found out or defeated, never asked for.
//!
//! - [`Target`] is what is measured, [`Facts`] what it says of itself.
//! - [`Bench`] times operations on it, inside a [`Budget`] of the drive's time, and reports [`Progress`].
//! - [`Findings`] is what is known so far; every part of it may be missing, and every [`Figure`] has a confidence.
//! - [`Stage`] names what is measured one after the other, so that an interrupted profile can be resumed.
//!
//! Invariant: figures come from sums, products and quotients alone (no transcendental functions), so that one
//! sequence of completions gives one profile on every machine.

mod assemble;
mod bench;
mod boundary;
mod circle;
pub mod dynamics;
mod ends;
mod findings;
pub mod flash;
mod forget;
mod geometry;
mod halved;
mod heads;
mod lattice;
pub mod limits;
mod local;
mod map;
mod period;
mod pieces;
mod probe;
mod rotation;
mod skews;
mod stairs;
mod surfaces;
mod sweep;
mod target;
mod whole;

pub use bench::{Bench, Budget, Halt, Progress, Timed, Watcher};
pub use findings::{Figure, Findings, Outlier, Reason, Stage};
pub use geometry::{Geometry, Zone, geometry};
pub use rotation::{Rotation, Spindle, rotation};
pub use target::{Completion, Facts, Outcome, Tag, Target};
pub use whole::measure;
