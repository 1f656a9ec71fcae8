//! What is known of a drive: measured, in a profile file, or assumed from its parameters.

mod about;
mod assumed;
mod dynamics;
mod file;
mod flash;
mod form;
mod geometry;
mod model;
mod name;
mod rotation;
mod value;
mod values;

pub use assumed::{PERIOD_OFF_PPB, SEEK_VARIATION, assumed, on_host};
pub use file::{PROFILE_BYTES_MAX, SCHEMA, keys};
pub use model::MissingFindings;
pub use values::{CpuCost, MeasuredDevice, MeasurementRun, ProfileFile};
