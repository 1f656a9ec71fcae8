//! `spindle bench`: measurements with real clients.

mod attack;
mod clockwise;
mod connections;
mod insulation;
mod live;
mod nbd;
mod pool;
mod preempt;
mod shares;
mod vdisk;

pub(crate) use attack::attack;
pub(crate) use clockwise::clockwise;
pub(crate) use connections::connections;
pub(crate) use insulation::insulation;
pub(crate) use nbd::{Shape, nbd};
pub(crate) use pool::pool;
pub(crate) use preempt::preempt;
pub(crate) use shares::shares;
pub(crate) use vdisk::vdisk;
