//! Policies: the choice of the volume whose command goes next.
//!
//! The engine keeps the queues, the commands and the meter. A policy sees each volume's *head* (the
//! next command that it would issue) and keeps the order that it likes. One disk has one policy.
//!
//! To add a policy: its file beside these, its variant and capabilities in `name`, what it keeps in
//! `features`, its constructor in `factory`, and `mod` below.

mod deadline;
mod factory;
mod fcfs;
mod features;
pub(crate) mod indexed_heap;
mod interface;
mod name;
mod round_robin;
mod share;
mod spindle;
mod switch_costs;
mod throughput;
mod utilization;

pub use deadline::WorstCase;
pub(crate) use factory::make;
pub use features::Feature;
pub(crate) use interface::{Dispatch, DispatchRecord, GuardedAs, Pick, Policy};
pub use name::{ContractUnit, PolicyName, UnknownPolicy};
