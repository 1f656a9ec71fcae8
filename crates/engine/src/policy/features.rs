//! What each policy keeps: one table, which the config's edge, the API's edge and the reference
//! page read.

use core::fmt;

use super::name::PolicyName;

/// A part of a volume's contract, or a property of a disk, that a policy keeps or refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// A reserved share in every period.
    Reserve,
    /// A largest share.
    Limit,
    /// A weight in the division of slack.
    Weight,
    /// A class that is served before others.
    Priority,
    /// A reserve that is derived from requests or bytes a second and the length of their runs.
    Rate,
    /// A bandwidth in blocks of which each has a deadline.
    Stream,
    /// A time within which each request of a bounded rate is answered.
    Latency,
    /// Requests that are executed as short commands, with preemption between them.
    Preemptible,
    /// A drive without an arm.
    Flash,
    /// More than one command in flight.
    Depth,
    /// Another order of a volume's requests than that of their arrival.
    Chooser,
}

impl Feature {
    /// All of them, in the order of the reference page.
    pub const ALL: [Self; 11] = [
        Self::Reserve,
        Self::Limit,
        Self::Weight,
        Self::Priority,
        Self::Rate,
        Self::Stream,
        Self::Latency,
        Self::Preemptible,
        Self::Flash,
        Self::Depth,
        Self::Chooser,
    ];

    /// Its name in documents and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserve => "reserve",
            Self::Limit => "limit",
            Self::Weight => "weight",
            Self::Priority => "priority",
            Self::Rate => "iops, bandwidth",
            Self::Stream => "stream",
            Self::Latency => "latency",
            Self::Preemptible => "preemptible",
            Self::Flash => "flash",
            Self::Depth => "depth above 1",
            Self::Chooser => "chooser",
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PolicyName {
    /// Whether the policy keeps `feature`. What it does not keep is refused where a config or a
    /// request is read.
    ///
    /// Priority is kept by the engine for every policy that serves no deadlines. `Edf` and `Lst`
    /// serve reserves and streams by deadline and [guarantee](Self::guarantees_deadlines) none.
    pub const fn keeps(self, feature: Feature) -> bool {
        use Feature::{
            Chooser, Depth, Flash, Latency, Limit, Preemptible, Priority, Rate, Reserve, Stream,
            Weight,
        };
        let keeps = match self {
            Self::Fcfs => matches!(feature, Priority | Preemptible | Flash | Depth),
            Self::Throughput => !matches!(feature, Rate | Stream | Latency | Chooser),
            Self::Spindle => true,
            Self::Utilization => !matches!(feature, Stream | Latency | Chooser),
            Self::Edf | Self::Lst | Self::DeltaL | Self::DeltaStar => {
                matches!(feature, Reserve | Weight | Rate | Stream | Preemptible)
            }
        };
        debug_assert!(
            !keeps || self.keeps_contracts() || !matches!(feature, Reserve | Limit | Weight),
            "a policy that keeps shares keeps contracts"
        );
        keeps
    }

    /// The policies that keep `feature`.
    pub fn keeping(feature: Feature) -> impl Iterator<Item = Self> + Clone {
        debug_assert!(Feature::ALL.contains(&feature), "every feature is listed");
        Self::ALL.into_iter().filter(move |policy| policy.keeps(feature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_rates_are_kept_where_the_capabilities_say_so() {
        for policy in PolicyName::ALL {
            assert_eq!(policy.keeps(Feature::Stream), policy.keeps_streams(), "{policy}");
            let derived = policy.keeps(Feature::Reserve) && !policy.has_nominal_rate();
            assert_eq!(policy.keeps(Feature::Rate), derived, "{policy}");
        }
    }

    #[test]
    fn the_control_keeps_priority_alone_of_a_contract() {
        let contract = &Feature::ALL[..6];
        let kept: Vec<_> =
            contract.iter().filter(|feature| PolicyName::Fcfs.keeps(**feature)).collect();
        assert_eq!(kept, [&Feature::Priority]);
    }
}
