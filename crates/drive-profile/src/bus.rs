//! The worst share of a bus that several disks have in common (Clockwise, RTAS 2000 §3.1: the
//! influence of a disk on the performance of other disks is measured before it is integrated).
//!
//! The bus is granted for one burst at a time, to the disk that asked first, and each disk asks for
//! one burst at a time. So at worst a burst waits for one burst of each other disk, and the
//! transfer of `len` sectors, in `k` bursts of equal length, has the bus after
//!
//! ```text
//! k · (disks − 1) · burst · sector ─ len · sector
//! ```
//!
//! from when all of it could cross, whatever the other disks transfer.

use units::{Duration, Sectors};

/// A bus, as one of its disks gets it when all of them transfer at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusShare {
    /// The disks on the bus, at least one.
    pub disks: u32,
    /// The time of one sector on it, above zero.
    pub sector: Duration,
    /// The most sectors for which it is granted at a time, at least one.
    pub burst: Sectors,
}

impl BusShare {
    /// The bursts of a transfer of `len` sectors, which are of equal length but for a sector.
    fn bursts(&self, len: Sectors) -> u64 {
        len.0.div_ceil(self.burst.0)
    }

    /// The longest wait of a burst for those of the other disks.
    fn wait(&self) -> Duration {
        self.sector * (self.burst.0 * u64::from(self.disks - 1))
    }

    /// The longest time that a transfer of `len` sectors takes on the bus.
    pub fn crossing(&self, len: Sectors) -> Duration {
        self.wait() * self.bursts(len) + self.sector * len.0
    }

    /// The same as a constant and a time for each sector: of a transfer of any length the crossing
    /// takes at most the first, and the second for each of its sectors.
    pub fn linear(&self) -> (Duration, Duration) {
        (self.wait(), self.sector * u64::from(self.disks))
    }

    /// The longest service time of a command of `len` sectors, whose longest time is `alone` on a
    /// disk that has its bus alone, and `first` if it had one burst and a sector. Sectors cross the
    /// bus while the media go on: either the last burst follows the media, or all bursts follow the
    /// first one.
    pub(crate) fn bound(&self, len: Sectors, alone: Duration, first: Duration) -> Duration {
        let last = self.wait() + self.sector * len.min(self.burst).0;
        (alone + last).max(first + self.crossing(len)) + self.sector
    }

    /// The longest service time of the same command if all of it crosses after the disk has done
    /// its part: at least [`BusShare::bound`].
    pub(crate) fn after(&self, len: Sectors, alone: Duration) -> Duration {
        alone + self.crossing(len) + self.sector
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    #[test]
    fn a_transfer_waits_for_a_burst_of_each_other_disk_before_each_of_its_own() {
        let bus = BusShare { disks: 3, sector: MICRO, burst: Sectors(100) };
        assert_eq!(bus.crossing(Sectors(250)).as_micros(), 3 * 2 * 100 + 250);
        assert_eq!(bus.crossing(Sectors(1)).as_micros(), 200 + 1);
        let (fixed, each) = bus.linear();
        for len in 1..1_000 {
            assert!(bus.crossing(Sectors(len)) <= fixed + each * len, "{len}");
        }
        let alone = BusShare { disks: 1, ..bus };
        assert_eq!(alone.crossing(Sectors(250)).as_micros(), 250);
    }

    #[test]
    fn a_bus_that_is_faster_than_the_media_costs_the_last_burst_and_a_slower_one_all_of_them() {
        let bus = BusShare { disks: 2, sector: MICRO, burst: Sectors(100) };
        let (alone, first) = (Duration::from_millis(30), Duration::from_millis(12));
        let fast = bus.bound(Sectors(1_000), alone, first);
        assert_eq!((fast - alone).as_micros(), 100 + 100 + 1);
        let bus = BusShare { sector: MICRO * 10, ..bus };
        let slow = bus.bound(Sectors(1_000), alone, first);
        assert_eq!((slow - first).as_micros(), 10 * (10 * 100 + 1_000 + 1));
        assert!(slow <= bus.after(Sectors(1_000), alone));
    }
}
