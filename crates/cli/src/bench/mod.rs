//! `spindle bench`: measurements with real clients.

mod clockwise;
mod insulation;
mod live;
mod nbd;
mod pool;
mod preempt;
mod shares;
mod vdisk;

pub(crate) use clockwise::clockwise;
pub(crate) use insulation::insulation;
pub(crate) use nbd::{Shape, nbd};
pub(crate) use pool::pool;
pub(crate) use preempt::preempt;
pub(crate) use shares::shares;
pub(crate) use vdisk::vdisk;
