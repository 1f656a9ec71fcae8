//! A pool at work: operations are planned, prepared and committed.

pub(super) mod allocator;
mod commit;
pub(super) mod kinds;
pub(super) mod machine;
mod placement;
mod plan;
mod planner;
pub(super) mod refusal;
pub(super) mod script;
pub(super) mod status;
