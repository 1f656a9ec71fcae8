//! Drive models and engine profiles made of a profile file.

mod flash;
mod mechanical;
mod missing;
mod queue;

pub use missing::MissingFindings;
