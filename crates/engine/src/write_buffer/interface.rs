//! What goes between the write buffer and its driver.

use units::{Duration, Extent, Sectors};

use crate::VolumeId;
use crate::limits::DEPTH_MAX;
use crate::request::{Outcome, RequestId};

/// The most memory for the write buffers of one disk.
pub(super) const WRITE_BUFFER_MAX: Sectors = Sectors(16 << 21);

/// The longest write from a buffer to the disk.
pub(super) const DESTAGE_MAX: Sectors = Sectors(2_048);

/// Runs of sectors that the buffer of one volume holds. A buffer of 16 MiB holds 4,096 writes of
/// 4 KiB.
pub(super) const WRITE_BUFFER_PARTS_MAX: usize = 16_384;

/// The longest age at which written data is sent to the disk.
pub(super) const WRITE_AGE_MAX: Duration = Duration::from_secs(600);

/// The bounds of the write buffer of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBufferSettings {
    /// The memory of all volumes.
    pub memory: Sectors,
    /// The most of it for one volume. A volume's bound is its part of the memory if that is less.
    pub volume: Sectors,
    /// The time for which written data stays in the buffer at the most before it is sent to the
    /// disk.
    pub age: Duration,
    /// Writes of a volume that the engine has at a time: at least one.
    pub depth: u32,
}

/// 256 MiB for a disk, 16 MiB for a volume, 5 s, and two writes in the engine.
impl Default for WriteBufferSettings {
    fn default() -> Self {
        let (memory, volume) = (Sectors(256 << 11), Sectors(16 << 11));
        Self { memory, volume, age: Duration::from_secs(5), depth: 2 }
    }
}

impl WriteBufferSettings {
    /// # Panics
    /// On values outside their bounds: the caller checks values from outside.
    pub(super) fn assert_valid(&self) {
        assert!(self.memory <= WRITE_BUFFER_MAX, "the memory is bounded: {}", self.memory);
        assert!(self.age <= WRITE_AGE_MAX, "the age is bounded: {}", self.age);
        assert!((1..=DEPTH_MAX).contains(&self.depth), "the depth is bounded: {}", self.depth);
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
    /// Submit it to the disk; a write as a forced one.
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
    /// Submit a forced write of this extent for its volume, with the bytes of
    /// [`super::WriteBuffer::parts`], and report its end with
    /// [`super::WriteBuffer::destaged`].
    Destage(Destage),
    /// Submit a request that waited to the disk; a write as a forced one.
    Submit(RequestId),
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

/// A write from the buffer to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destage {
    /// Its number.
    pub id: DestageId,
    /// The volume that wrote, and is charged.
    pub volume: VolumeId,
    /// What is written.
    pub extent: Extent,
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
    /// Commands' worth of data sent to the disk.
    pub destages: u64,
    /// Sectors sent to the disk.
    pub destaged: Sectors,
    /// Sectors that the disk failed to write. The next flush fails.
    pub lost: Sectors,
}
