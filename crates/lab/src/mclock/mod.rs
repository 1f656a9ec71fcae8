//! mClock (OSDI 2010) as a model of the laboratory: what IOPS tags give on the drive models that
//! Spindle is simulated on. It is no policy of the engine.
//!
//! A client has a reservation and a limit in requests a second, and a weight. Each of its requests
//! has three tags ([`Tags`]): R, spaced by 1 ÷ reservation, L, by 1 ÷ limit, and P, by 1 ÷ weight.
//! The scheduler serves the least R tag that is due (the constraint-based phase). Without one it
//! serves the least P tag of those with an L tag that is due (the weight-based phase), and takes
//! what it served off the R tags of the client.
//!
//! ```text
//! Generator ──▶ Scheduler::arrive ──▶ tags ──▶ Scheduler::select ──▶ AnyDevice
//!     ▲                                                                 │
//!     └───────────────────────── answers ◀──────────────────────────────┘
//! ```
//!
//! What OSDI 2010 has beside the tags is there as options: the size of a request
//! ([`Normalisation`]), requests that are close to each other ([`LocalityBatch`]), and idle credits
//! ([`Terms::idle_credit`]).

mod run;
mod scheduler;
mod terms;
#[cfg(test)]
mod tests;

pub(crate) use run::{MClockPlan, answers};
pub(crate) use terms::{LocalityBatch, Normalisation, Options, RequestRate, Terms};
