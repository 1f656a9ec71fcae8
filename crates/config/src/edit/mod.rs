//! A config that is edited in place.

mod document;
mod pool;
mod text;
mod values;

pub use document::Document;
pub use values::{LatencyEdit, NamedVolume, PoolVolumeEdit, RateEdit, StreamEdit, VolumeEdit};
