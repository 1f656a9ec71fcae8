//! What simulation and daemon both tell, in one shape: latencies, accounts, figures.
//!
//! Numbers here are for people and plots: this is where integers become fractions, and nothing computed from
//! them goes back.

mod declared;
mod heat;
mod latency;
mod plot;
mod request;
mod runs;
mod shapes;

pub use declared::DeclaredReport;
pub use heat::HeatMap;
pub use latency::{ErrorMs, Latency, LatencyMs};
pub use plot::{Line, Plot, PlotError};
pub use request::{DroppedReport, MeanwhileReport, RequestReport};
pub use runs::Runs;
pub use shapes::{DeadlinesReport, DiskReport, ExecutionReport, SCHEMA, VolumeReport};
