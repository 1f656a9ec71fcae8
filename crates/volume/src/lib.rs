//! Where a volume's sectors lie. Sans-IO.
//!
//! | module | what |
//! |---|---|
//! | [`FreeSpace`], [`VolumeMap`] | volumes of one extent on one disk |
//! | [`mod@pool`] | volumes of 1 MiB blocks over the disks of a [`Pool`](pool::Pool) |

mod location;
pub mod pool;
mod space;

pub use location::{DiskExtent, DiskId};
pub use space::{FreeSpace, NoSpace, VolumeMap};
