//! The whole config.

use std::path::PathBuf;

use units::Duration;

use super::bus::SharedBuses;
use super::disk::Disk;
use super::log::Log;
use super::nbd::Nbd;
use super::pool::{PoolChange, PoolPlan};
use super::volume::Volume;
use super::workload::Workload;

/// A whole config: disks, the volumes on them, and (for a simulation) their load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The config's name in messages.
    pub file: String,
    /// The seed of a simulation's random numbers.
    pub seed: u64,
    /// How long a simulation runs: as given, else the latest `stop` if every workload has one.
    pub duration: Option<Duration>,
    /// The addresses on which NBD clients connect: `unix:PATH` or `ADDRESS:PORT`. Empty if none is
    /// given.
    pub listen: Vec<String>,
    /// The directory of the vhost-user sockets, one a volume; `None`: there are none.
    pub vhost_user: Option<PathBuf>,
    /// Limits, authentication and encryption of the NBD clients.
    pub nbd: Nbd,
    /// What the daemon logs of single requests, and its flight records.
    pub log: Log,
    /// The disks, in the file's order.
    pub disks: Vec<Disk>,
    /// The volumes, in the file's order.
    pub volumes: Vec<Volume>,
    /// The pool, with its volumes.
    pub pool: Option<PoolPlan>,
    /// The changes of the pool that a simulation makes, in the file's order.
    pub changes: Vec<PoolChange>,
    /// The workloads, in the file's order.
    pub workloads: Vec<Workload>,
}

impl Plan {
    /// The buses that its disks share, idle: for one simulation, or one daemon.
    pub fn shared_buses(&self) -> SharedBuses {
        SharedBuses::of(self.disks.iter().filter_map(|disk| disk.bus.as_ref()))
    }
}
