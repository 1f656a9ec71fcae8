//! What is promised to a volume, and by which policy.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

use units::Share;

use crate::limits::WEIGHT_MAX;

/// A volume on this disk: its number in the order in which the volumes were added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u32);

/// A reserve contract (RTAS 2008, §2–3): a share of the disk's time in every period whatever the
/// neighbours do, and a cap on what the volume may take out of the slack. Under [`PolicyName::Throughput`] both are
/// shares of the disk's nominal rate instead ([`crate::Settings::nominal`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// The guaranteed share. [`Share::NONE`] makes the volume best effort: it lives on slack.
    pub reserve: Share,
    /// The most it ever gets, reserve included. At least `reserve`.
    pub limit: Share,
    /// How much of the slack it gets beside others who want it too.
    pub weight: Weight,
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
        Self { reserve: Share::NONE, limit: Share::ALL, weight: Weight::ONE };

    /// `reserve` and no limit.
    pub const fn reserve(reserve: Share) -> Self {
        Self { reserve, ..Self::BEST_EFFORT }
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

/// The policies an engine can run, by the names that configs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyName {
    /// First come, first served: no contract is kept. The control in every experiment.
    Fcfs,
    /// The paper's older driver (RTAS 2008 §3): shares of a nominal rate of commands, by the worst case.
    Throughput,
    /// The utilization scheduler of RTAS 2008 §2–3: shares of disk time.
    Utilization,
}

impl PolicyName {
    /// Every policy there is.
    pub const ALL: [Self; 3] = [Self::Fcfs, Self::Throughput, Self::Utilization];

    /// As configs write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Throughput => "throughput",
            Self::Utilization => "utilization",
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No policy has this name. Cure: one of [`PolicyName::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl FromStr for PolicyName {
    type Err = UnknownPolicy;
    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == name).ok_or(UnknownPolicy)
    }
}
