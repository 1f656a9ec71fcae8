//! What a metric is, and its value.

use daemon::TimeSum;
use units::{DiskTime, Duration};

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows while the daemon runs.
    Counter,
    /// It grows and shrinks.
    Gauge,
    /// Counts of values up to given bounds, with their sum.
    Histogram,
}

impl MetricKind {
    /// Its name in the text format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric, for documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, which is the same for all disks or volumes.
    pub name: String,
    /// Its kind.
    pub kind: MetricKind,
    /// Its labels, in order.
    pub labels: &'static [&'static str],
    /// Its meaning.
    pub help: &'static str,
}

/// A value: counts are exact, times are in seconds.
pub(crate) enum Value {
    Whole(u64),
    Part(f64),
}

/// One metric of a disk, a volume or a pool.
pub(crate) struct Family<T> {
    pub(crate) suffix: &'static str,
    pub(crate) kind: MetricKind,
    pub(crate) help: &'static str,
    pub(crate) value: fn(&T) -> Value,
}

pub(crate) const fn counter<T>(
    suffix: &'static str,
    help: &'static str,
    value: fn(&T) -> Value,
) -> Family<T> {
    Family { suffix, kind: MetricKind::Counter, help, value }
}

pub(crate) const fn gauge<T>(
    suffix: &'static str,
    help: &'static str,
    value: fn(&T) -> Value,
) -> Family<T> {
    Family { suffix, kind: MetricKind::Gauge, help, value }
}

pub(crate) fn sum(time: TimeSum) -> Value {
    Value::Part(time.as_secs_f64())
}

pub(crate) fn time(time: Duration) -> Value {
    Value::Part(time.as_secs_f64())
}

pub(crate) fn charged(time: DiskTime) -> Value {
    Value::Part(time.as_secs_f64())
}
