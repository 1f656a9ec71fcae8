//! A pool at work: operations are planned, prepared and committed.

pub(super) mod allocator;
pub(crate) mod commit;
pub(super) mod copies;
mod domain_plans;
pub(super) mod domains;
pub(super) mod kinds;
pub(super) mod machine;
mod marks;
mod mirror_plans;
mod placement;
mod plan;
mod planner;
mod redundancy;
pub(super) mod refusal;
pub(super) mod script;
pub(super) mod status;
mod sums_plans;
