//! Contracts: what is guaranteed to a volume.

mod admission;
mod closest;
mod latency;
mod schedule;
mod share_from_rate;

use core::num::NonZeroU32;

use units::{Extent, Op, Operation, Sectors, Share};

use crate::limits::WEIGHT_MAX;
use crate::stream::{Granularity, Task};

pub use admission::{Admission, Refusal};
pub use closest::ClosestCalls;
pub use latency::{LatencyContract, LatencyStats, Tokens};
pub use schedule::ContractSchedule;
pub use share_from_rate::{Mechanics, RateContract, RateRequirement};

/// A volume on this disk: its number in the order in which volumes were added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

/// A contract (Zygaria, RTAS 2008 §2–3): a reserved share of the disk's time in every period
/// whatever other volumes do, and a cap on what the volume may take from the slack. Under
/// [`PolicyName::Throughput`](crate::PolicyName::Throughput) both are shares of the disk's nominal
/// rate instead ([`crate::Settings::nominal_cost`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The guaranteed share. [`Share::NONE`] makes the volume best effort: it is served from slack.
    pub reserve: Share,
    /// The most it ever gets, reserve included. At least `reserve`.
    pub limit: Share,
    /// The volume's weight in the division of slack.
    pub weight: Weight,
    /// The guarantee by deadlines in place of a reserve, under a policy [with
    /// deadlines](crate::PolicyName::has_deadlines); other policies serve the volume as best
    /// effort.
    pub stream: Option<StreamContract>,
    /// A bounded latency of some of its requests, under a policy that [keeps
    /// it](crate::Feature::Latency). The others are served as the rest of the contract says.
    pub latency: Option<LatencyContract>,
    /// Whether no client waits for its requests: a rebuild, a scrub, a relocation. Such a volume
    /// has its reserve in its turn rather than at once, and may have at most little more than a
    /// round's worth together: what it did not ask for is not taken from its neighbours later. Its
    /// reads go to the drive in commands of [`crate::limits::BACKGROUND_READ_MAX`].
    /// [`PolicyName::Spindle`](crate::PolicyName::Spindle) alone makes a difference.
    pub is_background: bool,
}

/// A stream (Clockwise, RTAS 2000 §3.1) on one disk: blocks that arrive at a rate, each due a
/// period after its release.
///
/// Under [`PolicyName::Spindle`](crate::PolicyName::Spindle) a block is bytes, in whatever requests
/// they are asked for; under the policies of RTAS 2000 it is a request:
///
/// A request is released when it arrives, or one period after the release of the previous one,
/// whichever is later. A late request shifts all later releases; an early one is best effort until
/// its release. A request that is not [part of the stream](StreamContract::covers) is always best
/// effort; the requests behind it in the volume's queue are released when it has been answered, at
/// the earliest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamContract {
    /// The period T of a block, its worst-case disk time C on this disk, and its longest command q.
    pub task: Task,
    /// The most that one request transfers.
    pub block: Sectors,
    /// The part of the disk for which C was computed; `None`: all of it.
    pub range: Option<Extent>,
}

impl StreamContract {
    /// The share of the disk's time that it reserves: C ÷ T, rounded up, of the granularity at
    /// which that is more.
    pub fn share(&self) -> Share {
        let whole = u128::from(Share::ALL.ppb());
        let cost = self.task.cost().max(self.task.at(Granularity::Whole).cost());
        let cost = u128::try_from(cost.as_nanos()).expect("a cost is not negative");
        let period = u128::from(self.task.period().as_nanos());
        debug_assert!(period > 0, "a task has a period");
        let cost = cost.min(period);
        let ppb = (cost * whole).div_ceil(period.max(1));
        debug_assert!(ppb <= whole, "a task costs no more than its period");
        u32::try_from(ppb).map_or(Share::ALL, |ppb| Share::from_ppb(ppb.min(Share::ALL.ppb())))
    }

    /// Whether an operation can be one of the stream's blocks: whether what was admitted covers it.
    pub fn covers(&self, operation: &Operation) -> bool {
        debug_assert!(operation.op != Op::Seek, "no client submits a seek");
        let extent = operation.extent;
        let within = |range: Extent| range.start <= extent.start && extent.end() <= range.end();
        matches!(operation.op, Op::Read | Op::Write)
            && extent.len <= self.block
            && self.range.is_none_or(within)
    }
}

/// A volume's weight in the division of slack: the usage of a volume of weight 2 counts half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(NonZeroU32);

impl Weight {
    /// The default weight.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// The weight of this value; `None` for zero and above [`WEIGHT_MAX`].
    pub fn new(weight: u32) -> Option<Self> {
        NonZeroU32::new(weight).filter(|weight| weight.get() <= WEIGHT_MAX).map(Self)
    }

    /// As a number.
    pub const fn as_u32(self) -> u32 {
        debug_assert!(self.0.get() <= WEIGHT_MAX, "weights are bounded");
        self.0.get()
    }
}

impl Contract {
    /// Best effort: nothing guaranteed, nothing limited.
    pub const BEST_EFFORT: Self = Self {
        reserve: Share::NONE,
        limit: Share::ALL,
        weight: Weight::ONE,
        stream: None,
        latency: None,
        is_background: false,
    };

    /// `reserve` and no limit.
    pub const fn reserve(reserve: Share) -> Self {
        Self { reserve, ..Self::BEST_EFFORT }
    }

    /// The same for work for which no client waits.
    #[must_use]
    pub const fn in_background(self) -> Self {
        debug_assert!(!self.has_deadlines(), "nothing in the background has deadlines");
        Self { is_background: true, ..self }
    }

    /// Whether requests of the volume have deadlines: those of a stream or of a bounded latency.
    /// They are not read ahead, because a read that waits for a read-ahead has none, and one that
    /// is read ahead takes what the contract promises to a client's.
    pub const fn has_deadlines(&self) -> bool {
        self.stream.is_some() || self.latency.is_some()
    }

    /// `stream`, and nothing else.
    pub const fn stream(stream: StreamContract) -> Self {
        Self { stream: Some(stream), ..Self::BEST_EFFORT }
    }
}

/// The priority of a volume: a request of high priority is served before the rest of one of normal
/// priority that has begun, as soon as the disk can be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// The policy decides.
    #[default]
    Normal,
    /// Before all others, as far as the volume's limit allows.
    High,
}
