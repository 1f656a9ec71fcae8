//! A config that is edited in place.

mod document;
mod pool;
mod stream_disks;
mod text;
mod values;

pub use document::Document;
pub use values::{LatencyEdit, NamedVolume, PoolVolumeEdit, RateEdit, StreamEdit, VolumeEdit};
