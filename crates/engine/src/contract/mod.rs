//! What is promised to a volume, and by which policy.

mod admission;
mod schedule;
mod share_from_rate;

use core::num::NonZeroU32;

use units::{Extent, Op, Operation, Sectors, Share};

use crate::limits::WEIGHT_MAX;
use crate::stream::Task;

pub use admission::{Admission, Refusal};
pub use schedule::ContractSchedule;
pub use share_from_rate::{Mechanics, RateContract, RateRequirement};

/// A volume on this disk: its number in the order in which the volumes were added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

/// A reserve contract (RTAS 2008, §2–3): a share of the disk's time in every period whatever the
/// neighbours do, and a cap on what the volume may take out of the slack. Under [`PolicyName::Throughput`](crate::PolicyName::Throughput) both are
/// shares of the disk's nominal rate instead ([`crate::Settings::nominal`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The guaranteed share. [`Share::NONE`] makes the volume best effort: it lives on slack.
    pub reserve: Share,
    /// The most it ever gets, reserve included. At least `reserve`.
    pub limit: Share,
    /// How much of the slack it gets beside others who want it too.
    pub weight: Weight,
    /// What it is promised by deadlines instead of a reserve, under a policy that
    /// [keeps them](crate::PolicyName::has_deadlines); others take its volume for best effort.
    pub stream: Option<StreamContract>,
}

/// A stream (RTAS 2000, §3.1) as one disk sees it: blocks that come at a rate, each due a period after its release.
///
/// A request's release is when it comes, or when it was expected: a period after the release of the one before it,
/// whichever is later. Who comes late starts afresh; who comes early is best effort until then. A request that is not
/// [of the stream](StreamContract::covers) is best effort for good; those behind it in the volume's queue are released when it
/// has been answered, at the soonest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamContract {
    /// A block's period T, the most disk time C that it takes on this disk, and its longest command q.
    pub task: Task,
    /// The most that one request transfers.
    pub block: Sectors,
    /// The part of the disk that C was worked out for; `None`: all of it.
    pub range: Option<Extent>,
}

impl StreamContract {
    /// Whether a request of this kind can be one of the stream's blocks: what was admitted is enough for it.
    pub fn covers(&self, operation: &Operation) -> bool {
        let extent = operation.extent;
        let within = |range: Extent| range.start <= extent.start && extent.end() <= range.end();
        matches!(operation.op, Op::Read | Op::Write)
            && extent.len <= self.block
            && self.range.is_none_or(within)
    }
}

/// A volume's part of the slack: one of weight 2 is taken to have had half of what it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(NonZeroU32);

impl Weight {
    /// What a volume has unless it is said otherwise.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// The weight of this number; `None` on nothing and above [`WEIGHT_MAX`].
    pub fn new(weight: u32) -> Option<Self> {
        NonZeroU32::new(weight).filter(|weight| weight.get() <= WEIGHT_MAX).map(Self)
    }

    /// As a number.
    pub const fn as_u32(self) -> u32 {
        self.0.get()
    }
}

impl Contract {
    /// Best effort: nothing promised, nothing withheld.
    pub const BEST_EFFORT: Self =
        Self { reserve: Share::NONE, limit: Share::ALL, weight: Weight::ONE, stream: None };

    /// `reserve` and no limit.
    pub const fn reserve(reserve: Share) -> Self {
        Self { reserve, ..Self::BEST_EFFORT }
    }

    /// `stream`, and nothing else.
    pub const fn stream(stream: StreamContract) -> Self {
        Self { stream: Some(stream), ..Self::BEST_EFFORT }
    }
}

/// Who goes first where a policy is not asked: a request of a higher class goes before the rest of one of a lower class
/// that has begun, as soon as the disk can be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// As the policy says.
    #[default]
    Normal,
    /// Before all others, as far as the volume's limit lets it.
    High,
}
