//! Disk time: how it accrues, how it is measured, estimated and averaged.

pub(crate) mod bucket;
pub(crate) mod deferred;
pub(crate) mod estimate;
pub(crate) mod meter;
pub(crate) mod usage;
