//! What measuring has found of a drive so far, as values.
//!
//! The profiler fills [`Findings`], and the drive library keeps their file. Every part may be
//! missing, and each [`Figure`] states its standard error and confidence.

mod dynamics;
mod figure;
#[expect(clippy::module_inception, reason = "all parts in one value")]
mod findings;
mod flash;
mod geometry;
pub mod limits;
mod number;
mod rotation;
mod stage;
mod to_profile;

pub use dynamics::{
    ChunkPoint, Chunks, DepthPoint, Dynamics, Overheads, Prediction, ReadBuffer, SeekPoint, Seeks,
    Starvation, WriteBuffer,
};
pub use figure::Figure;
pub use findings::Findings;
pub use flash::{
    AccessPattern, Flash, FlushTime, LimitedQuantity, Rate, RateLimit, ReadsDuringWrites,
    RotationTest, RotationVerdict,
};
pub use geometry::{Geometry, Zone};
pub use rotation::{Rotation, Spindle};
pub use stage::{Outlier, OutlierReason, Stage};
pub use to_profile::CHUNK_MIN;
