//! Ranges of bytes, as clients address them, and the sectors that contain them.

use units::{Bytes, Extent, Lba, SECTOR_BYTES, Sectors};

use crate::limits::SECTOR;

/// A range of an export's bytes, not empty, inside the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Its first byte.
    pub start: Bytes,
    /// The number of bytes.
    pub len: Bytes,
}

impl ByteRange {
    /// Whether it is a whole number of sectors.
    pub const fn is_whole(self) -> bool {
        (self.start.0 | self.len.0).is_multiple_of(SECTOR_BYTES)
    }

    const fn end(self) -> u64 {
        self.start.0 + self.len.0
    }

    /// The sectors that it overlaps.
    pub const fn outer(self) -> Extent {
        let (first, end) = (self.start.0 / SECTOR_BYTES, self.end().div_ceil(SECTOR_BYTES));
        Extent::new(Lba(first), Sectors(end - first))
    }

    /// The sectors that lie wholly inside, possibly none.
    pub const fn inner(self) -> Extent {
        let first = self.start.0.div_ceil(SECTOR_BYTES);
        Extent::new(Lba(first), Sectors((self.end() / SECTOR_BYTES).saturating_sub(first)))
    }

    /// The bytes of the first sector before the range.
    pub const fn before(self) -> usize {
        (self.start.0 % SECTOR_BYTES) as usize
    }

    /// The bytes of the last sector after the range.
    pub const fn behind(self) -> usize {
        (SECTOR - (self.end() % SECTOR_BYTES) as usize) % SECTOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_bytes_lies_in_sectors_and_has_some_of_them_whole() {
        let told = |start, len| {
            let span = ByteRange { start: Bytes(start), len: Bytes(len) };
            let (outer, inner) = (span.outer(), span.inner());
            ((outer.start.0, outer.len.0), inner.len.0, span.before(), span.behind())
        };
        assert_eq!(told(0, 512), ((0, 1), 1, 0, 0));
        assert_eq!(told(1, 1), ((0, 1), 0, 1, 510));
        assert_eq!(told(511, 2), ((0, 2), 0, 511, 511));
        assert_eq!(told(512, 513), ((1, 2), 1, 0, 511));
        assert_eq!(told(700, 1_348), ((1, 3), 2, 188, 0));
        assert!(ByteRange { start: Bytes(512), len: Bytes(1_024) }.is_whole());
        assert!(!ByteRange { start: Bytes(512), len: Bytes(1_023) }.is_whole());
        assert!(!ByteRange { start: Bytes(1), len: Bytes(512) }.is_whole());
    }
}
