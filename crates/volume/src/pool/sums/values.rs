//! What enters the checksums of a disk, and what they ask of their driver.

use std::sync::Arc;

use units::Extent;

/// The checksum of 4 KiB: any 32 bits but zero, which stands for one that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(pub u32);

impl Sum {
    /// Not known: the 4 KiB are read as they are.
    pub const UNKNOWN: Self = Self(0);

    /// The checksum that a function of the bytes returned.
    #[must_use]
    pub const fn of(value: u32) -> Self {
        Self(if value == 0 { u32::MAX } else { value })
    }
}

/// What a piece does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads whole 4 KiB.
    Read,
    /// It reads whole 4 KiB. From then on those of which no checksum is known have that of what was
    /// read, unless a known one of the same piece differs.
    Record,
    /// It writes: the checksums of the whole 4 KiB of its extent, in their order. Those that it
    /// writes in part become unknown.
    Write(Vec<Sum>),
    /// It trims, or erases: the checksums of what it touches become unknown.
    Erase,
}

/// Names a piece that was submitted. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SumsSerial(pub u64);

/// What becomes of a piece that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Its name.
    pub serial: SumsSerial,
    /// Whether it is to be issued now. Else [`SumsOutput::Go`] says when, or
    /// [`SumsOutput::Refuse`] that it is not.
    pub goes: bool,
}

/// A step of the checksums' own. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SumsStepId(pub u64);

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SumsAction {
    /// Read these sectors of the disk.
    Read(Extent),
    /// Write them.
    Write(Extent, Arc<[u8]>),
    /// Write them, durably before it ends: what else was written need not be.
    WriteDurably(Extent, Arc<[u8]>),
    /// Make all data durable that pieces have written to the disk.
    FlushData,
    /// Make durable what [`Self::Write`] has written.
    Flush,
}

/// What the checksums of a disk ask of their driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SumsOutput<P> {
    /// Issue this piece, and report [`DiskSums::done`](super::DiskSums::done).
    Go(P),
    /// This piece ends with an error: the disk cannot write its ledger.
    Refuse(P),
    /// Perform this, and report [`DiskSums::step_done`](super::DiskSums::step_done).
    Step(SumsStepId, SumsAction),
}

/// What the checksums say of a piece that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was not a read, or all checksums of what was read are known, and none differs.
    Right,
    /// Some are known, and none of those differs.
    Incomplete,
    /// No checksum of what was read is known.
    Unknown,
    /// What was read is not what was written.
    Wrong,
}

/// How the checksums of a disk are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SumsStatus {
    /// The 4 KiB that were read and compared since the daemon's start.
    pub verified: u64,
    /// Those that were read while their checksum was not known.
    pub unverified: u64,
    /// Those that differed.
    pub wrong: u64,
    /// Pages that were damaged: their checksums are unknown.
    pub pages_damaged: u64,
    /// Regions that are open.
    pub open: usize,
    /// Whether the area cannot be written: no region is opened or closed any more.
    pub is_broken: bool,
}
