//! The shapes that every command prints alike with `--json`.

use engine::{PreemptionStats, ReadAheadUsage, WriteBufferUsage};
use serde::Serialize;

use crate::{DeclaredReport, ErrorMs, LatencyMs, WorthReport};

/// The version of every JSON shape that Spindle prints.
pub const SCHEMA: u32 = 1;

/// One disk's run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskReport {
    /// As in the plan.
    pub name: String,
    /// The share of the run in which it had work.
    pub busy_share: f64,
    /// Read and written.
    pub bytes_per_s: f64,
    /// The counts of preemptible execution, if it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionReport>,
    /// The error of the service-time estimates of its requests; `None` without estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_error_ms: Option<ErrorMs>,
}

/// The counts of preemptible execution on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExecutionReport {
    /// Predicted arrivals of the head that were waited for.
    pub timed: u64,
    /// Of these, late arrivals: each costs a revolution.
    pub missed: u64,
    /// Seeks that were split.
    pub split: u64,
    /// Seek commands.
    pub seeks: u64,
    /// Preemptions: requests in progress that a request of a higher class overtook.
    pub preempted: u64,
    /// Sectors prefetched in slack.
    pub prefetched_bytes: u64,
    /// Time spent in rotational waits, in seconds.
    pub slack_s: f64,
    /// Times that just-in-time seeks were disabled because predictions failed.
    pub distrusted: u64,
    /// Whether just-in-time seeks were enabled at the end.
    pub just_in_time: bool,
}

impl From<PreemptionStats> for ExecutionReport {
    fn from(done: PreemptionStats) -> Self {
        Self {
            timed: done.jit_transfers,
            missed: done.missed,
            split: done.split_seeks,
            seeks: done.seek_commands,
            preempted: done.preemptions,
            prefetched_bytes: done.prefetched.bytes().0,
            slack_s: done.rotational_wait.as_secs_f64(),
            distrusted: done.jit_disabled_count,
            just_in_time: done.jit_enabled,
        }
    }
}

/// The deadlines of a stream: met and missed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeadlinesReport {
    /// Blocks answered by their deadline.
    pub met: u64,
    /// Blocks answered later.
    pub missed: u64,
    /// The latest answer after its deadline, in milliseconds.
    pub lateness_max_ms: f64,
    /// Its bytes, under a policy that promises each byte a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<StreamBytesReport>,
}

impl DeadlinesReport {
    /// Those of this and of another part of the same stream, on another disk.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        let both = self.bytes.zip(other.bytes).map(|(one, two)| one.merged(&two));
        Self {
            met: self.met + other.met,
            missed: self.missed + other.missed,
            lateness_max_ms: self.lateness_max_ms.max(other.lateness_max_ms),
            bytes: both.or(self.bytes).or(other.bytes),
        }
    }
}

/// The bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StreamBytesReport {
    /// Answered by the time that was promised.
    pub met: u64,
    /// Answered later.
    pub missed: u64,
    /// Asked for by requests that ended a run of bytes within a block: they begin another block.
    pub out_of_order: u64,
    /// Asked for earlier than the bandwidth, one block, and the jitter of half a period allow.
    pub beyond_rate: u64,
    /// Not of the stream: outside of its range, of a disk's span, or of the disks that keep it,
    /// trims, and writes of zeroes.
    pub outside: u64,
    /// Transferred by short commands because the client sends few requests at a time.
    pub not_gathered: u64,
    /// Asked for, all but those outside.
    pub asked: u64,
    /// The least time that an answer left to the time that was promised, in milliseconds; absent
    /// before one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closest_ms: Option<f64>,
}

impl StreamBytesReport {
    /// Those that were asked for beyond the contract, and have no deadline.
    #[must_use]
    pub fn beyond(&self) -> u64 {
        self.beyond_rate + self.out_of_order + self.outside
    }

    fn merged(&self, other: &Self) -> Self {
        let both = self.closest_ms.zip(other.closest_ms).map(|(one, two)| one.min(two));
        Self {
            met: self.met + other.met,
            missed: self.missed + other.missed,
            out_of_order: self.out_of_order + other.out_of_order,
            beyond_rate: self.beyond_rate + other.beyond_rate,
            outside: self.outside + other.outside,
            not_gathered: self.not_gathered + other.not_gathered,
            asked: self.asked + other.asked,
            closest_ms: both.or(self.closest_ms).or(other.closest_ms),
        }
    }
}

/// The requests of a bounded latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BoundedLatencyReport {
    /// Requests within the contract that were answered.
    pub answered: u64,
    /// Those of them that were answered after their deadlines.
    pub late: u64,
    /// Reads and writes beyond the contract: of its rate, or of its size.
    pub beyond: u64,
    /// The least time that an answer left to its deadline, in milliseconds; absent before one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closest_ms: Option<f64>,
}

impl BoundedLatencyReport {
    /// Those of this and of another part of the same volume, on another disk.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        let both = self.closest_ms.zip(other.closest_ms).map(|(one, two)| one.min(two));
        Self {
            answered: self.answered + other.answered,
            late: self.late + other.late,
            beyond: self.beyond + other.beyond,
            closest_ms: both.or(self.closest_ms).or(other.closest_ms),
        }
    }
}

impl From<engine::LatencyStats> for BoundedLatencyReport {
    fn from(stats: engine::LatencyStats) -> Self {
        let engine::LatencyStats { answered, late, beyond, closest } = stats;
        Self {
            answered,
            late,
            beyond,
            closest_ms: closest.all().map(units::Duration::as_millis_f64),
        }
    }
}

impl From<engine::DeadlineStats> for DeadlinesReport {
    fn from(kept: engine::DeadlineStats) -> Self {
        let lateness_max_ms = kept.max_lateness.as_millis_f64();
        let bytes = (kept.bytes != engine::StreamBytes::default()).then(|| kept.bytes.into());
        Self { met: kept.met, missed: kept.missed, lateness_max_ms, bytes }
    }
}

impl From<engine::StreamBytes> for StreamBytesReport {
    fn from(bytes: engine::StreamBytes) -> Self {
        Self {
            met: bytes.met.bytes().0,
            missed: bytes.missed.bytes().0,
            out_of_order: bytes.out_of_order.bytes().0,
            beyond_rate: bytes.beyond_rate.bytes().0,
            outside: bytes.outside.bytes().0,
            not_gathered: bytes.not_gathered.bytes().0,
            asked: bytes.asked.bytes().0,
            closest_ms: bytes.closest.all().map(units::Duration::as_millis_f64),
        }
    }
}

/// One volume's run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VolumeReport {
    /// As in the plan.
    pub name: String,
    /// Its reserve, as a fraction of the disk's time.
    pub reserve: f64,
    /// Its limit, as a fraction of the disk's time.
    pub limit: f64,
    /// Its disk time, as a fraction of the run.
    pub disk_time_share: f64,
    /// Requests answered.
    pub requests: u64,
    /// Read and written.
    pub bytes: u64,
    /// Requests answered a second.
    pub iops: f64,
    /// Read and written.
    pub bytes_per_s: f64,
    /// From a request's arrival to its answer.
    pub latency_ms: LatencyMs,
    /// From a request's arrival to its first command.
    pub waiting_ms: LatencyMs,
    /// Guaranteed deadlines that were missed.
    pub deadline_misses: u64,
    /// The same in full, of a volume that has a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<DeadlinesReport>,
    /// The requests of its bounded latency, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bounded_latency: Option<BoundedLatencyReport>,
    /// Requests of an open loop that found the backlog full and were not sent.
    pub dropped: u64,
    /// The error of the service-time estimates of its requests; `None` without estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_error_ms: Option<ErrorMs>,
    /// The declaration from which its reserve was derived, and whether its load still matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared: Option<DeclaredReport>,
    /// The worth of its reserve, where it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worth: Option<WorthReport>,
    /// What was read ahead for it in the host's memory, if anything was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<ReadAheadReport>,
    /// What went through its write buffer; `None` if nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_buffer: Option<WriteBufferReport>,
}

/// What went through the write buffer of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WriteBufferReport {
    /// Writes answered from the buffer.
    pub writes: u64,
    /// Of these, such that waited for memory.
    pub waits: u64,
    /// Commands' worth of data sent to the disk.
    pub destages: u64,
    /// Sent to the disk.
    pub destaged_bytes: u64,
    /// Overwritten in the buffer and never sent to the disk.
    pub overwritten_bytes: u64,
    /// Lost because the disk failed to write it.
    pub lost_bytes: u64,
    /// In the buffer now.
    pub buffered_bytes: u64,
}

impl WriteBufferReport {
    /// The report, if anything was buffered.
    pub fn of(usage: &WriteBufferUsage) -> Option<Self> {
        let WriteBufferUsage { writes, waits, destages, .. } = *usage;
        let report = Self {
            writes,
            waits,
            destages,
            destaged_bytes: usage.destaged.bytes().0,
            overwritten_bytes: usage.overwritten.bytes().0,
            lost_bytes: usage.lost.bytes().0,
            buffered_bytes: usage.used.bytes().0,
        };
        (writes > 0).then_some(report)
    }
}

/// What was read ahead for a volume in the host's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReadAheadReport {
    /// Reads answered from the memory at once.
    pub hits: u64,
    /// Reads answered from the memory after they waited for a read-ahead in flight.
    pub waits: u64,
    /// Read ahead.
    pub bytes: u64,
    /// Of these, removed from the memory before any client had read them.
    pub unused_bytes: u64,
    /// Of the bytes read ahead, those prefetched in rotational waits.
    pub prefetched_bytes: u64,
    /// Of these, the ones that a client has read.
    pub prefetched_used_bytes: u64,
}

impl ReadAheadReport {
    /// The report, if anything was read ahead.
    pub fn of(usage: ReadAheadUsage) -> Option<Self> {
        let ReadAheadUsage { hits, waits, sectors, unused, prefetched, prefetched_used } = usage;
        (sectors.0 > 0).then_some(Self {
            hits,
            waits,
            bytes: sectors.bytes().0,
            unused_bytes: unused.bytes().0,
            prefetched_bytes: prefetched.bytes().0,
            prefetched_used_bytes: prefetched_used.bytes().0,
        })
    }
}
