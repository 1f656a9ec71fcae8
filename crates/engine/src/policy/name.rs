//! The policies by name, and what each of them can do.

use core::fmt;
use core::str::FromStr;

/// The policies an engine can run, by the names that configs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyName {
    /// First come, first served: no contract is kept. The control in every experiment.
    Fcfs,
    /// The paper's older driver (RTAS 2008 §3): shares of a nominal rate of commands, by the worst case.
    Throughput,
    /// The utilization scheduler of RTAS 2008 §2–3: shares of disk time.
    Utilization,
    /// Deadlines (RTAS 2000 §4): real-time requests by deadline, best effort when none is released. Best effort may be in
    /// the way of a deadline: a command that has begun is not preempted.
    Edf,
    /// The same, but best effort may start if it ends before the latest start time of the first real-time request that
    /// is queued. It misses deadlines where many requests are released while a long best-effort command is served.
    Lst,
    /// The paper's ΔL scheduler: best effort goes first until it has spent the slack that every state has.
    DeltaL,
    /// The same with the slack of the present state.
    DeltaStar,
}

impl PolicyName {
    /// Every policy there is.
    pub const ALL: [Self; 7] = [
        Self::Fcfs,
        Self::Throughput,
        Self::Utilization,
        Self::Edf,
        Self::Lst,
        Self::DeltaL,
        Self::DeltaStar,
    ];

    /// As configs write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Throughput => "throughput",
            Self::Utilization => "utilization",
            Self::Edf => "edf",
            Self::Lst => "lst",
            Self::DeltaL => "delta-l",
            Self::DeltaStar => "delta-star",
        }
    }

    /// Whether it knows deadlines. Such a policy serves streams; reserves are tasks to it, without limits or priorities;
    /// it has one command in the drive at a time, and every write goes through to the disk.
    pub const fn has_deadlines(self) -> bool {
        matches!(self, Self::Edf | Self::Lst | Self::DeltaL | Self::DeltaStar)
    }

    /// Whether no request that keeps to an admitted contract is ever late, as long as no command takes longer than at
    /// worst.
    pub const fn guarantees_deadlines(self) -> bool {
        matches!(self, Self::DeltaL | Self::DeltaStar)
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
