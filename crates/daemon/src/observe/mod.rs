//! Statistics, traces of single requests, and flight records.

pub(crate) mod breakdown;
mod history;
pub(crate) mod observer;
pub(crate) mod recorder;
pub(crate) mod report;
pub(crate) mod status;
pub(crate) mod subscribers;
pub(crate) mod traced;
pub(crate) mod traffic;
