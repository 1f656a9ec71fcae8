//! What simulation and daemon report in one shape: latencies, accounts, figures.
//!
//! Numbers here are for people and plots: this is where integers become fractions, and nothing
//! computed from them goes back.

mod declared;
mod demand;
mod latency;
mod request;
mod runs;
mod shapes;
mod worth;

pub use declared::DeclaredReport;
pub use demand::{DemandSample, DemandWindow, WORTH_REQUESTS_MIN, WORTH_WINDOW};
pub use latency::{ErrorMs, Latency, LatencyMs};
pub use request::{DroppedReport, MeanwhileReport, RequestReport};
pub use runs::Runs;
pub use shapes::{
    BoundedLatencyReport, DeadlinesReport, DiskReport, ExecutionReport, ReadAheadReport, SCHEMA,
    VolumeReport, WriteBufferReport,
};
pub use worth::WorthReport;
