//! The vocabulary of block I/O that every layer speaks.

use core::fmt;

use crate::Extent;

/// What a request or a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Read sectors.
    Read,
    /// Write sectors.
    Write,
    /// Make all writes acknowledged so far durable. Has no extent.
    Flush,
    /// Discard the sectors' contents.
    Trim,
    /// Make the sectors read as zeroes.
    WriteZeroes,
    /// Move the arm to where the extent begins, and transfer nothing. Only a scheduler asks for it,
    /// and only of drives that have such a command.
    Seek,
}

impl Op {
    /// Whether it changes what the disk holds.
    pub const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::WriteZeroes => "write-zeroes",
            Self::Seek => "seek",
        })
    }
}

/// One thing to do to one run of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// What to do.
    pub op: Op,
    /// To which sectors; empty for [`Op::Flush`].
    pub extent: Extent,
    /// Forced unit access: answered only when the data is durable.
    pub fua: bool,
}

impl Operation {
    /// A read of `extent`.
    pub const fn read(extent: Extent) -> Self {
        Self { op: Op::Read, extent, fua: false }
    }

    /// A write of `extent`, durable at the next flush.
    pub const fn write(extent: Extent) -> Self {
        Self { op: Op::Write, extent, fua: false }
    }

    /// A movement of the arm to `lba`.
    pub const fn seek(lba: crate::Lba) -> Self {
        Self { op: Op::Seek, extent: Extent::new(lba, crate::Sectors(1)), fua: false }
    }

    /// A flush of the whole disk.
    pub const fn flush() -> Self {
        Self { op: Op::Flush, extent: Extent::new(crate::Lba(0), crate::Sectors::ZERO), fua: false }
    }

    /// The same with forced unit access.
    #[must_use]
    pub const fn with_fua(self) -> Self {
        Self { fua: true, ..self }
    }
}
