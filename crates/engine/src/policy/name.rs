//! The policies by name, and the capabilities of each.
//!
//! Code outside this module asks for a capability and never compares names: a new policy states its
//! capabilities here once.

use core::fmt;
use core::str::FromStr;

/// The policies that an engine can run, by the names that configurations use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyName {
    /// First come, first served: no contract is kept. The control of every experiment.
    Fcfs,
    /// The throughput scheduler of Zygaria (RTAS 2008 §3): shares of a nominal rate of commands,
    /// reserved by the worst case.
    Throughput,
    /// The utilization scheduler of Zygaria (RTAS 2008 §2–3): shares of disk time.
    Utilization,
    /// Earliest deadline first (Clockwise, RTAS 2000 §4): real-time requests by deadline, best
    /// effort when none is released. Best effort may delay a deadline: a command that has begun is
    /// not preempted.
    Edf,
    /// Latest start time: as `Edf`, but best effort may start if it ends before the latest start
    /// time of the first queued real-time request. It misses deadlines if many requests are
    /// released while a long best-effort command is served.
    Lst,
    /// The ΔL scheduler of Clockwise: best effort goes first until it has spent the slack that
    /// every state has.
    DeltaL,
    /// The same with the slack of the present state.
    DeltaStar,
    /// All contracts on one disk: shares of disk time that are worth the same to clients that
    /// pause, and streams beside them.
    Spindle,
}

/// The unit of a contract's shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractUnit {
    /// A share of the disk's time.
    DiskTime,
    /// A share of the disk's nominal rate of commands.
    NominalRate,
}

impl PolicyName {
    /// The policy of a disk whose configuration names none.
    pub const DEFAULT: Self = Self::Spindle;

    /// All policies.
    pub const ALL: [Self; 8] = [
        Self::Fcfs,
        Self::Throughput,
        Self::Utilization,
        Self::Edf,
        Self::Lst,
        Self::DeltaL,
        Self::DeltaStar,
        Self::Spindle,
    ];

    /// As configurations write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Throughput => "throughput",
            Self::Utilization => "utilization",
            Self::Edf => "edf",
            Self::Lst => "lst",
            Self::DeltaL => "delta-l",
            Self::DeltaStar => "delta-star",
            Self::Spindle => "spindle",
        }
    }

    /// The unit of the shares that contracts reserve under this policy.
    pub const fn contract_unit(self) -> ContractUnit {
        match self {
            Self::Throughput => ContractUnit::NominalRate,
            _ => ContractUnit::DiskTime,
        }
    }

    /// Whether contracts are shares of a nominal rate: then a disk has one, and rates need no
    /// conversion to disk time.
    pub const fn has_nominal_rate(self) -> bool {
        matches!(self.contract_unit(), ContractUnit::NominalRate)
    }

    /// Whether any contract is kept.
    pub const fn keeps_contracts(self) -> bool {
        !matches!(self, Self::Fcfs)
    }

    /// Whether a backlogged volume receives its reserved share of disk time, by a bucket or by the
    /// deadlines of its reserve's task: what the simulation's oracle checks.
    pub const fn guarantees_reserves(self) -> bool {
        let guarantees = self.guarantees_shares() || self.guarantees_deadlines();
        debug_assert!(!guarantees || self.keeps_contracts(), "a reserve is a contract");
        guarantees
    }

    /// Whether a backlogged volume receives its reserved share of disk time in each period.
    pub const fn guarantees_shares(self) -> bool {
        let guarantees = matches!(self, Self::Utilization | Self::Spindle);
        debug_assert!(!guarantees || self.keeps_contracts(), "a share is a contract");
        guarantees
    }

    /// Whether a volume's quantum may wait until the commands of other volumes have left the drive.
    pub const fn has_exclusive_quanta(self) -> bool {
        matches!(self, Self::Spindle)
    }

    /// Whether the disk may idle for any client that thinks, rather than for sequential runs alone.
    pub const fn anticipates_think_times(self) -> bool {
        matches!(self, Self::Spindle)
    }

    /// Whether writes are work of the volume that wrote, and not of the drive's own buffer.
    pub const fn buffers_writes(self) -> bool {
        let buffers = matches!(self, Self::Spindle);
        debug_assert!(!buffers || self.keeps_contracts(), "a buffer is for contracts");
        buffers
    }

    /// Whether queued requests of a volume that follow each other on the disk become one command.
    pub const fn merges_neighbours(self) -> bool {
        let merges = matches!(self, Self::Spindle);
        debug_assert!(!merges || self.keeps_contracts(), "a merged command is a volume's");
        merges
    }

    /// Whether the policy knows deadlines. Such a policy serves streams; reserves are tasks to it,
    /// without limits or priorities; it has one command in flight at a time, and every write goes
    /// through to the media.
    pub const fn has_deadlines(self) -> bool {
        matches!(self, Self::Edf | Self::Lst | Self::DeltaL | Self::DeltaStar)
    }

    /// Whether streams are kept: by deadline alone, or beside shares.
    pub const fn keeps_streams(self) -> bool {
        let keeps = self.has_deadlines() || matches!(self, Self::Spindle);
        debug_assert!(!keeps || self.keeps_contracts(), "a stream is a contract");
        keeps
    }

    /// Whether no request that keeps to an admitted contract is ever late, as long as no command
    /// exceeds its worst case.
    pub const fn guarantees_deadlines(self) -> bool {
        let guarantees = matches!(self, Self::DeltaL | Self::DeltaStar | Self::Spindle);
        debug_assert!(!guarantees || self.keeps_streams(), "a guarantee is of deadlines");
        guarantees
    }

    /// Whether the policy takes the slack of best effort from the static ΔL, so that
    /// [`SlackRange`](crate::stream::SlackRange) applies to it.
    pub const fn uses_static_slack(self) -> bool {
        let uses = matches!(self, Self::DeltaL);
        debug_assert!(!uses || self.guarantees_deadlines(), "static slack is what deadlines leave");
        uses
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No policy has this name. Remedy: one of [`PolicyName::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl FromStr for PolicyName {
    type Err = UnknownPolicy;
    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == name).ok_or(UnknownPolicy)
    }
}
