//! The seam between an engine and its policies: whose command goes next.
//!
//! The engine keeps the queues, the commands and the meter; a policy sees each volume's *head* (the next
//! command it would issue) and keeps whatever order it likes. One disk, one policy.

mod deadline;
mod factory;
mod fcfs;
mod indexed_heap;
mod interface;
mod name;
mod round_robin;
mod switch_costs;
mod throughput;
mod utilization;

pub(crate) use deadline::WorstCase;
pub(crate) use factory::make;
pub(crate) use interface::{Dispatch, DispatchRecord, Pick, Policy};
pub use name::{PolicyName, UnknownPolicy};
