//! What the parts of the search have in common.

use engine::PolicyName;
use engine::stream::SlackRange;
use units::{DiskTime, Duration};

use crate::SeededRng;

/// The random-number stream of the search.
pub(super) const STREAM: u64 = 1 << 41;

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchParameters {
    /// The policy.
    pub policy: PolicyName,
    /// The intervals that ΔL is computed over.
    pub range: SlackRange,
    /// Whether requests are split into chunks in every case, with a positioning for each
    /// preemption; else in some cases.
    pub chunks: bool,
}

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(super) fn disk_time(millis: u64) -> DiskTime {
    ms(millis).into()
}

pub(super) fn one_of<T: Copy>(rng: &mut SeededRng, of: &[T]) -> T {
    of[usize::try_from(rng.below(of.len() as u64)).expect("an index")]
}
