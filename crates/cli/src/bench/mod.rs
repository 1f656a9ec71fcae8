//! `spindle bench`: measurements with real clients.

mod insulation;
mod live;
mod shares;
mod vdisk;

pub(crate) use insulation::insulation;
pub(crate) use shares::shares;
pub(crate) use vdisk::vdisk;
