//! The shapes of values that several tables have.

use std::sync::LazyLock;

use input::{TableKeys, size_text, time_text};
use units::{Bytes, Duration};

pub(super) type Lazy = LazyLock<TableKeys>;

pub(super) fn times(low: Duration, high: Duration) -> String {
    format!("a time from {} to {}", time_text(low), time_text(high))
}

pub(super) fn sizes(low: Bytes, high: Bytes) -> String {
    format!("a size from {} to {}", size_text(low), size_text(high))
}

pub(super) fn numbers(low: u64, high: u64) -> String {
    format!("a whole number from {low} to {high}")
}

/// The shape of a share.
pub(super) const SHARE: &str = "a share from 0% to 100%";
pub(super) const SHARE_OR_RATE: &str =
    "a share from 0% to 100%, or a rate with policy = \"throughput\"";
pub(super) const BOOLEAN: &str = "true or false";
pub(super) const PATH: &str = "a path, relative to the config's directory";
