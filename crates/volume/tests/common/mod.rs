//! Disks that lose power, and a pool at work on them.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod disk;
pub(crate) mod world;

use spindle_volume::pool::{Media, Unreadable};
use units::{Extent, Sectors};

use disk::Disk;

impl Media for Disk {
    fn size(&self) -> Sectors {
        self.size
    }

    fn read(&self, extent: Extent) -> Result<Vec<u8>, Unreadable> {
        Ok(self.read_now(extent))
    }
}

pub(crate) fn media(disks: &[Disk]) -> Vec<&dyn Media> {
    disks.iter().map(|disk| disk as &dyn Media).collect()
}

/// How many cases to run: `SPINDLE_CASES`, or `few`.
pub(crate) fn cases(few: u64) -> u64 {
    std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(few)
}
