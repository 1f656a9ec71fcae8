//! What goes between the write buffer and its driver.

use core::ops::Add;

use crate::limits::{
    DEPTH_MAX, DESTAGE_DEPTH, WRITE_AGE, WRITE_AGE_MAX, WRITE_BUFFER_MEMORY,
    WRITE_BUFFER_MEMORY_MAX,
};
use crate::request::{Outcome, RequestId};
use crate::{Contract, VolumeId};
use units::{Duration, Extent, Operation, Sectors, Share};

/// The bounds of the write buffer of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBufferSettings {
    /// The memory of all volumes. A volume's bound is its part of it, if that is less than the
    /// volume's own.
    pub memory: Sectors,
    /// The time for which written data stays in the buffer at the most before it is sent to the
    /// disk.
    pub age: Duration,
    /// Writes of a volume that the engine has at a time: at least one.
    pub depth: u32,
    /// Whether volumes may have sectors in common over time.
    pub is_shared: bool,
}

/// [`WRITE_BUFFER_MEMORY`], [`WRITE_AGE`] and [`DESTAGE_DEPTH`].
impl Default for WriteBufferSettings {
    fn default() -> Self {
        Self { memory: WRITE_BUFFER_MEMORY, age: WRITE_AGE, depth: DESTAGE_DEPTH, is_shared: false }
    }
}

impl WriteBufferSettings {
    /// # Panics
    /// On values outside their bounds: the caller checks values from outside.
    pub(super) fn assert_valid(&self) {
        assert!(self.memory <= WRITE_BUFFER_MEMORY_MAX, "the memory is bounded: {}", self.memory);
        assert!(self.age <= WRITE_AGE_MAX, "the age is bounded: {}", self.age);
        assert!((1..=DEPTH_MAX).contains(&self.depth), "the depth is bounded: {}", self.depth);
    }
}

/// Where the writes of a volume are buffered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buffering {
    /// Nowhere: they go to the disk as forced ones, and what is buffered is due.
    Off,
    /// In the host.
    #[default]
    Host,
    /// In the host; and while no other volume uses the disk, long runs of sectors in the drive too.
    HostAndDrive,
}

impl Buffering {
    /// That of a volume with this contract. The requests of one with deadlines are not buffered.
    /// What the drive has buffered it writes while the volume waits at its limit, without a charge:
    /// a volume with a limit does not use the drive's buffer.
    pub fn of(contract: &Contract) -> Self {
        debug_assert!(contract.reserve <= contract.limit, "a limit leaves the reserve");
        match contract.limit {
            _ if contract.has_deadlines() => Self::Off,
            Share::ALL => Self::HostAndDrive,
            _ => Self::Host,
        }
    }
}

/// The bytes of one write in the buffer: the driver keeps them until [`WriteBufferAction::Drop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceId(pub u32);

/// The number of a destage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestageId(pub u64);

/// How a client's request is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// A write is in the buffer: keep its bytes, and answer it.
    Buffered(PieceId),
    /// A forced write (FUA) is in the buffer: keep its bytes. [`WriteBufferAction::Answer`]
    /// follows.
    Forced(PieceId),
    /// It waits; an action follows.
    Waits,
    /// A read that the buffer holds as a whole: [`super::WriteBuffer::parts`] says from where.
    /// Answer it.
    Memory,
    /// A read that the buffer holds in part: copy [`super::WriteBuffer::parts`] now, submit the
    /// read to the disk, and lay the copy over what it returns.
    Overlaid,
    /// Submit it to the disk: a write as a forced one; a flush if sectors were trimmed. Report the
    /// end of what changes data with [`super::WriteBuffer::ended`].
    Disk,
    /// A flush that has nothing to wait for: answer it so.
    Flushed(Outcome),
}

/// What the driver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteBufferAction {
    /// A write that waited for memory is in the buffer: keep its bytes, and answer it if it is not
    /// `forced`.
    Accept {
        /// The write.
        request: RequestId,
        /// Its bytes.
        piece: PieceId,
        /// Whether [`WriteBufferAction::Answer`] follows.
        forced: bool,
    },
    /// Submit this operation for its volume, and report its end with
    /// [`super::WriteBuffer::destaged`]: a write with the bytes of [`super::WriteBuffer::parts`],
    /// or a flush.
    Destage(Destage),
    /// Submit a request that waited to the disk: as for [`Handling::Disk`].
    Submit(RequestId),
    /// Submit a request to the buffer again: it waited for what another volume had written.
    Again(RequestId),
    /// Answer a flush, or a forced write.
    Answer {
        /// The request.
        request: RequestId,
        /// Whether what it waited for reached the medium.
        outcome: Outcome,
    },
    /// Release the bytes of a piece.
    Drop(PieceId),
}

/// A write from the buffer to the disk, or the flush after some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destage {
    /// Its number.
    pub id: DestageId,
    /// The volume that wrote, and is charged.
    pub volume: VolumeId,
    /// A forced write; or one that is not forced, and later a flush.
    pub operation: Operation,
}

/// A part of an extent that the buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferedPart {
    /// The piece.
    pub piece: PieceId,
    /// The first sector of the part within the piece.
    pub offset: Sectors,
    /// The part, in the disk's sectors.
    pub extent: Extent,
}

/// What the buffer has done for a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteBufferUsage {
    /// Memory in use.
    pub used: Sectors,
    /// The volume's bound.
    pub bound: Sectors,
    /// Writes that were answered from the buffer.
    pub writes: u64,
    /// Writes that waited for memory.
    pub waits: u64,
    /// Sectors that were overwritten in the buffer and never sent to the disk.
    pub overwritten: Sectors,
    /// Writes from the buffer to the disk.
    pub destages: u64,
    /// Sectors sent to the disk.
    pub destaged: Sectors,
    /// Sectors that the disk failed to write. The next flush fails.
    pub lost: Sectors,
}

/// The sum of what was done for two volumes.
impl Add for WriteBufferUsage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            used: self.used + other.used,
            bound: self.bound + other.bound,
            writes: self.writes + other.writes,
            waits: self.waits + other.waits,
            overwritten: self.overwritten + other.overwritten,
            destages: self.destages + other.destages,
            destaged: self.destaged + other.destaged,
            lost: self.lost + other.lost,
        }
    }
}

impl WriteBufferUsage {
    /// What was done since `earlier`; the memory is that of now.
    ///
    /// # Panics
    /// If `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        assert!(self.writes >= earlier.writes, "counts do not go back");
        Self {
            used: self.used,
            bound: self.bound,
            writes: self.writes - earlier.writes,
            waits: self.waits - earlier.waits,
            overwritten: self.overwritten - earlier.overwritten,
            destages: self.destages - earlier.destages,
            destaged: self.destaged - earlier.destaged,
            lost: self.lost - earlier.lost,
        }
    }
}
