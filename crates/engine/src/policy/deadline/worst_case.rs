//! The worst case of a command.

use std::sync::Arc;

use units::{DiskTime, Extent, Lba, Op, Operation, Sectors};

use crate::CommandBound;
use drive_profile::{Profile, TransferKind};

/// What bounds the service time of a command: two constants, or a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorstCase {
    /// The same everywhere.
    Bound(CommandBound),
    /// By what the profile says of the drive.
    Profile(Arc<Profile>),
}

impl WorstCase {
    /// The worst case of a command. Under a policy with deadlines every write goes through to the
    /// media.
    pub(crate) fn of(&self, operation: &Operation) -> DiskTime {
        let extent = operation.extent;
        let transfer = if operation.op.writes() { TransferKind::Write } else { TransferKind::Read };
        let worst = match operation.op {
            Op::Read | Op::Write | Op::WriteZeroes => self.within(extent, extent.len, transfer),
            // With nothing to destage, these take at most as long as the smallest write.
            Op::Flush | Op::Trim | Op::Seek => self.somewhere(Sectors(1), TransferKind::Write),
        };
        debug_assert!(worst >= DiskTime::ZERO, "a worst case is not negative: {worst}");
        worst
    }

    /// The worst case of `operation` at any location.
    pub(crate) fn anywhere(&self, operation: &Operation) -> DiskTime {
        let transfer = if operation.op.writes() { TransferKind::Write } else { TransferKind::Read };
        let worst = match operation.op {
            Op::Read | Op::Write | Op::WriteZeroes => {
                self.somewhere(operation.extent.len, transfer)
            }
            Op::Flush | Op::Trim | Op::Seek => self.of(operation),
        };
        debug_assert!(worst >= self.of(operation), "no location is worse than the worst");
        worst
    }

    /// The worst case of a command of `len` sectors at any location.
    pub(crate) fn somewhere(&self, len: Sectors, transfer: TransferKind) -> DiskTime {
        debug_assert!(len > Sectors::ZERO, "a command has sectors");
        let whole = match self {
            Self::Bound(_) => Extent::new(Lba(0), len),
            Self::Profile(profile) => Extent::new(Lba(0), profile.capacity()),
        };
        self.within(whole, len.min(whole.len), transfer)
    }

    /// The worst case of a command of `len` sectors inside `range` that begins where the drive's
    /// last command ended: as [`WorstCase::within`] where no profile says less.
    pub fn continuing(&self, range: Extent, len: Sectors, transfer: TransferKind) -> DiskTime {
        debug_assert!(len <= range.len, "a command lies in its range");
        match self {
            Self::Profile(profile) if range.end().0 <= profile.capacity().0 => {
                profile.worst_continuation(range, len, transfer).into()
            }
            Self::Profile(_) | Self::Bound(_) => self.within(range, len, transfer),
        }
    }

    /// The most that a command takes longer than one that continues where the last one ended: the
    /// cost of a preemption.
    pub fn preemption(&self) -> DiskTime {
        let cost = match self {
            Self::Profile(profile) => profile.worst_preemption().into(),
            Self::Bound(_) => DiskTime::ZERO,
        };
        debug_assert!(cost >= DiskTime::ZERO, "a positioning takes time");
        cost
    }

    /// The worst case of a command of `len` sectors inside `range`.
    pub fn within(&self, range: Extent, len: Sectors, transfer: TransferKind) -> DiskTime {
        debug_assert!(len <= range.len, "a command lies in its range");
        match self {
            Self::Profile(profile) if range.end().0 <= profile.capacity().0 => {
                profile.worst_case(range, len, transfer).into()
            }
            // A range outside the profile is taken to be as slow as the slowest inside.
            Self::Profile(profile) => {
                let whole = Extent::new(Lba(0), profile.capacity());
                profile.worst_case(whole, len.min(whole.len), transfer).into()
            }
            Self::Bound(CommandBound { positioning, sector }) => {
                let len = i64::try_from(len.0).expect("a command is short");
                DiskTime::from_nanos(positioning.as_nanos() + sector.as_nanos() * len)
            }
        }
    }
}
