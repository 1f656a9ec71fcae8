//! What goes between the read-ahead and its driver.

use core::ops::Add;

use units::{Extent, Sectors};

use crate::VolumeId;
use crate::request::RequestId;

/// What a disk's read-ahead in the host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAheadSettings {
    /// Its memory; zero: it does nothing.
    pub memory: Sectors,
    /// Whether it reads ahead of clients that pause, by requests of its own.
    pub requests: bool,
    /// Whether it keeps what is prefetched in rotational waits
    /// ([`FreePrefetch::ToHost`](crate::FreePrefetch)).
    pub prefetches: bool,
}

impl ReadAheadSettings {
    /// Nothing is read ahead.
    pub const OFF: Self = Self { memory: Sectors::ZERO, requests: false, prefetches: false };
}

/// A part of the memory, filled by one request or by one prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

/// Where a client's request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedBy {
    /// By the memory, at once: [`super::ReadAhead::parts`] says from where.
    Memory,
    /// By a read-ahead in flight: [`ReadAheadAction::Answer`] or [`ReadAheadAction::Submit`]
    /// follows.
    Pending,
    /// By the engine.
    Disk,
}

/// What the driver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAheadAction {
    /// Submit a read of this extent to the engine, to fill the segment.
    Read {
        /// The segment; the driver returns it with the request's progress.
        segment: SegmentId,
        /// The volume that is charged.
        volume: VolumeId,
        /// What to read.
        extent: Extent,
    },
    /// Answer a client's read from the memory, before the next poll.
    Answer(RequestId),
    /// Submit a client's read, whose read-ahead failed or was overwritten, to the engine.
    Submit(RequestId),
    /// Release the memory of a segment.
    Drop(SegmentId),
    /// Tell the engine what would be prefetched for a volume
    /// ([`Event::PrefetchOffered`](crate::Event)).
    Offer {
        /// The volume.
        volume: VolumeId,
        /// What would be; `None`: nothing.
        extent: Option<Extent>,
    },
}

/// A part of a read that is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The segment.
    pub segment: SegmentId,
    /// The first sector of the part within the segment.
    pub offset: Sectors,
    /// The part, in the disk's sectors.
    pub extent: Extent,
}

/// What read-ahead has done for a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAheadUsage {
    /// Client reads answered from the memory at once.
    pub hits: u64,
    /// Client reads answered from the memory after they waited for a read-ahead in flight.
    pub waits: u64,
    /// Sectors read ahead, prefetched ones included.
    pub sectors: Sectors,
    /// Sectors that were removed from the memory and that no client had read.
    pub unused: Sectors,
    /// Sectors prefetched in rotational waits.
    pub prefetched: Sectors,
    /// Of these, the ones that a client has read.
    pub prefetched_used: Sectors,
}

impl ReadAheadUsage {
    /// What was done since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        debug_assert!(self.hits >= earlier.hits, "a count only grows");
        Self {
            hits: self.hits - earlier.hits,
            waits: self.waits - earlier.waits,
            sectors: self.sectors - earlier.sectors,
            unused: self.unused - earlier.unused,
            prefetched: self.prefetched - earlier.prefetched,
            prefetched_used: self.prefetched_used - earlier.prefetched_used,
        }
    }
}

impl Add for ReadAheadUsage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            waits: self.waits + other.waits,
            sectors: self.sectors + other.sectors,
            unused: self.unused + other.unused,
            prefetched: self.prefetched + other.prefetched,
            prefetched_used: self.prefetched_used + other.prefetched_used,
        }
    }
}
