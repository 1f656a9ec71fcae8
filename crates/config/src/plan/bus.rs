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

/// The buses of emulated or simulated disks, idle, by name.
#[derive(Clone, Debug)]
pub struct SharedBuses(Vec<(String, SharedBus)>);

impl SharedBuses {
    /// These buses, each once.
    pub(super) fn of<'a>(buses: impl Iterator<Item = &'a Bus>) -> Self {
        let mut all = Self(Vec::new());
        for bus in buses {
            if all.shared(Some(bus)).is_none() {
                all.0.push((bus.name.clone(), SharedBus::new(bus.spec())));
            }
        }
        debug_assert!(all.0.iter().all(|(name, _)| !name.is_empty()), "a bus has a name");
        all
    }

    /// The bus of a disk that is on `bus`, the same for each of its disks; `None` if it is on none
    /// of these.
    pub fn shared(&self, bus: Option<&Bus>) -> Option<SharedBus> {
        let name = &bus?.name;
        let found = self.0.iter().find(|(one, _)| one == name);
        found.map(|(_, shared)| shared.clone())
    }
}
