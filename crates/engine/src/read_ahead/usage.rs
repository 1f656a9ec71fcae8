//! What a read-ahead has in its memory, and what it has done so far.

use units::Sectors;

use super::{ReadAhead, ReadAheadUsage};
use crate::VolumeId;
use crate::limits::READ_AHEAD_REQUEST_MIN;

impl ReadAhead {
    /// The memory in use, with what requests in flight will fill.
    pub fn used(&self) -> Sectors {
        debug_assert!(self.used <= self.settings.memory, "the memory is bounded");
        self.used
    }

    /// The memory that is not in use.
    pub(super) fn free(&self) -> Sectors {
        debug_assert!(self.used <= self.settings.memory, "the memory is bounded");
        self.settings.memory - self.used
    }

    /// The most memory that may be in use.
    pub fn memory(&self) -> Sectors {
        let memory = self.settings.memory;
        debug_assert!(memory >= READ_AHEAD_REQUEST_MIN, "it holds a request");
        memory
    }

    /// What was done for all volumes so far, removed ones included.
    pub fn total(&self) -> ReadAheadUsage {
        let total = self.volumes.iter().fold(self.removed, |sum, volume| sum + volume.usage);
        debug_assert!(total.sectors >= self.removed.sectors, "a count only grows");
        total
    }

    /// What was done for a volume so far.
    pub fn usage(&self, volume: VolumeId) -> ReadAheadUsage {
        self.volumes.get(volume.0 as usize).map_or_else(Default::default, |entry| entry.usage)
    }
}
