//! The kind of a volume's contract, and the rate from which its reserve is derived.

use engine::{Contract, RateRequirement};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a volume is guaranteed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ContractKind {
    /// Nothing: it is served from the slack.
    BestEffort,
    /// A share of the disk's time in every period.
    Reserve,
    /// A share that is derived from requests or bytes a second.
    Rate,
    /// A bandwidth in blocks of which each has a deadline.
    Stream,
    /// A time within which each request of a bounded rate is answered, beside its reserve if it has
    /// one.
    Latency,
}

impl ContractKind {
    /// As the API writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BestEffort => "best-effort",
            Self::Reserve => "reserve",
            Self::Rate => "rate",
            Self::Stream => "stream",
            Self::Latency => "latency",
        }
    }

    /// The kind of a contract; `has_stream` also if its stream is not in force now.
    pub(crate) fn of(contract: &Contract, has_stream: bool, has_rate: bool) -> Self {
        if has_stream || contract.stream.is_some() {
            Self::Stream
        } else if contract.latency.is_some() {
            Self::Latency
        } else if has_rate {
            Self::Rate
        } else if contract.reserve.is_none() {
            Self::BestEffort
        } else {
            Self::Reserve
        }
    }
}

/// The rate from which a volume's reserve is derived, and the behaviour that it assumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rate {
    /// Requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Consecutive sequential requests before a jump.
    pub run: u64,
    /// Bytes per request.
    pub block: String,
}

/// A rate as the API shows it.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
pub(crate) fn rate_of(requested: RateRequirement) -> Rate {
    let RateRequirement { interval, run, block } = requested;
    let iops = 1.0 / interval.as_secs_f64();
    let block = block.bytes();
    Rate {
        iops,
        bytes_per_s: iops * block.0 as f64,
        run: run.get(),
        block: config::size_text(block),
    }
}
