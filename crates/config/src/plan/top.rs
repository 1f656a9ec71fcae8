//! The whole config.

use units::Duration;

use super::disk::Disk;
use super::log::Log;
use super::nbd::Nbd;
use super::pool::PoolPlan;
use super::volume::Volume;
use super::workload::Workload;

/// A whole config: disks, the volumes on them, and (for a simulation) the load on those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The config's name, as messages give it.
    pub file: String,
    /// Where the dice of a simulation start.
    pub seed: u64,
    /// How long a simulation runs: as given, else the latest `stop` if every workload has one.
    pub duration: Option<Duration>,
    /// Where to listen for NBD clients: `unix:PATH` or `ADDRESS:PORT`. Empty: nothing was said.
    pub listen: Vec<String>,
    /// What its clients are allowed.
    pub nbd: Nbd,
    /// What is told of single requests, and recorded.
    pub log: Log,
    /// The disks, in the file's order.
    pub disks: Vec<Disk>,
    /// The volumes, in the file's order.
    pub volumes: Vec<Volume>,
    /// The pool that some of the disks are, with the volumes on it; only for a daemon.
    pub pool: Option<PoolPlan>,
    /// The workloads, in the file's order.
    pub workloads: Vec<Workload>,
}
