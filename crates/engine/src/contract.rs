//! What is promised to a volume, and by which policy.

use core::fmt;
use core::str::FromStr;

use units::Share;

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
}

impl Contract {
    /// Best effort: nothing promised, nothing withheld.
    pub const BEST_EFFORT: Self = Self { reserve: Share::NONE, limit: Share::ALL };

    /// `reserve` and no limit.
    pub const fn reserve(reserve: Share) -> Self {
        Self { reserve, limit: Share::ALL }
    }
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
