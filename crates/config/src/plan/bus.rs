//! A bus that disks of the plan share.

use drive::{BusSpec, SharedBus};
use drive_profile::BusShare;
use units::{Bytes, Duration, SECTOR_BYTES, Sectors};

/// A bus that disks share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bus {
    /// Its name, unique among the buses.
    pub name: String,
    /// Bytes a second that it carries for all of its disks together.
    pub bandwidth: Bytes,
    /// The most that it carries for a disk before it is another's.
    pub burst: Sectors,
    /// The disks that name it, at least one.
    pub disks: u32,
}

impl Bus {
    /// The time of a sector, rounded up.
    fn sector(&self) -> Duration {
        Duration::from_nanos((SECTOR_BYTES * 1_000_000_000).div_ceil(self.bandwidth.0))
    }

    /// What one of its disks gets of it when all of them transfer at once.
    pub fn share(&self) -> BusShare {
        BusShare { disks: self.disks, sector: self.sector(), burst: self.burst }
    }

    /// Its speed, for emulated and simulated drives.
    pub fn spec(&self) -> BusSpec {
        BusSpec { sector: self.sector(), burst: self.burst }
    }
}

/// The buses of emulated or simulated disks, by name.
#[derive(Debug, Default)]
pub struct SharedBuses(Vec<(String, SharedBus)>);

impl SharedBuses {
    /// The bus of a disk that is on `bus`, the same for each of its disks.
    pub fn shared(&mut self, bus: &Bus) -> SharedBus {
        if let Some((_, shared)) = self.0.iter().find(|(name, _)| *name == bus.name) {
            return shared.clone();
        }
        let shared = SharedBus::new(bus.spec());
        self.0.push((bus.name.clone(), shared.clone()));
        shared
    }
}
