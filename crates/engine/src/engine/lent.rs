//! What is carried out in the rotational waits of each volume's commands, and what that has cost.
//!
//! After more than [`LOST_MAX`] of [`OUTCOMES`] commands behind such reads have lost a revolution,
//! there are no reads for [`PAUSE`] commands.

use units::{DiskTime, Instant, Sectors};

use super::pending::Slot;
use crate::VolumeId;
use crate::request::CommandId;

/// The commands behind freeblock reads whose outcomes are evaluated together.
const OUTCOMES: u32 = 64;
/// The lost revolutions among them beyond which freeblock reads pause.
const LOST_MAX: u32 = 4;
/// The commands of a pause.
pub(super) const PAUSE: u32 = 4_096;

const _: () = assert!(LOST_MAX < OUTCOMES && OUTCOMES <= u64::BITS);

/// What freeblock scheduling has done: for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeblockStats {
    /// Reads that were carried out in rotational waits.
    pub reads: u64,
    /// Their sectors.
    pub sectors: Sectors,
    /// Their service times, which their volumes were charged.
    pub disk_time: DiskTime,
    /// The commands that waited, of those that followed.
    pub commands: u64,
    /// Of these, the ones that lost a revolution.
    pub lost: u64,
    /// How often reads have paused because commands lost revolutions.
    pub pauses: u64,
}

/// The command whose rotational wait is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) slot: Slot,
    /// When the heads are on its track at the latest.
    pub(super) arrive_by: Instant,
    /// A completion after this instant has lost a revolution.
    pub(super) late_after: Instant,
}

/// What was carried out in the rotational waits of one volume.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lent {
    /// All of it.
    pub(super) total: DiskTime,
    /// What the policy has not counted yet.
    pub(super) uncounted: DiskTime,
    /// What it has counted and no charge has been less by.
    pub(super) credit: DiskTime,
}

/// The state of freeblock scheduling on one disk.
#[derive(Debug, Default)]
pub(super) struct Freeblock {
    pub(super) waiting: Option<Waiting>,
    /// The command that has waited, in the drive, and when it is late.
    pub(super) watched: Option<(CommandId, Instant)>,
    pub(super) lent: Vec<Lent>,
    /// The volume at which the search begins.
    pub(super) next: usize,
    /// The last outcomes, one bit each, set for a lost revolution.
    lost: u64,
    /// Commands until the end of a pause.
    pub(super) pause: u32,
    pub(super) stats: FreeblockStats,
}

impl Freeblock {
    pub(super) fn lent(&mut self, volume: VolumeId) -> &mut Lent {
        let index = volume.0 as usize;
        if index >= self.lent.len() {
            self.lent.resize(index + 1, Lent::default());
        }
        debug_assert!(index < self.lent.len(), "each lender has an account");
        &mut self.lent[index]
    }

    pub(super) fn record_outcome(&mut self, is_lost: bool) {
        self.lost = (self.lost << 1) | u64::from(is_lost);
        self.stats.commands += 1;
        self.stats.lost += u64::from(is_lost);
        if self.lost.count_ones() > LOST_MAX {
            (self.lost, self.pause) = (0, PAUSE);
            self.stats.pauses += 1;
        }
        debug_assert!(self.stats.lost <= self.stats.commands, "a lost revolution is an outcome");
    }
}
