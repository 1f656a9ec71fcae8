//! What a plan asks of its disks: engine settings, worst-case times of streams, sums of reserves,
//! and whether all of it fits.

mod cost;
mod disk_span;
mod failure;
mod reserves;
mod settings;
mod spread;
mod stream_disks;
mod timetable;
mod write_cache;

pub use cost::BlockCost;
pub(crate) use cost::{latency_task, task};
pub(crate) use disk_span::{reached, span_on};
pub use failure::{AdmissionFailure, BlockingContract, decimal};
pub(crate) use reserves::{MILLIONTH, SLIP, WHOLE, beyond_reserve};
pub(crate) use settings::measured_worst_case;
pub(crate) use spread::{
    Spread, latency as latency_on_pool_disk, pieces_max, rate_of_pieces, task as task_on_pool_disk,
};
pub(crate) use stream_disks::without;
pub use timetable::AdmissionHeadroom;
pub(crate) use timetable::{Contracts, POOL_VOLUMES, Tasks};
