//! The metrics of what only some disks have: preemptible execution, and read-ahead in the host.

use daemon::{ReadAheadStatus, WriteBufferStatus};
use engine::PreemptionStats;

use crate::metric_family::{Family, Value, charged, counter, gauge};

pub(super) const EXECUTED: &[Family<PreemptionStats>] = &[
    counter(
        "jit_seeks_total",
        "Just-in-time seeks: the arrival of the head was predicted, and the seek delayed.",
        |e| Value::Whole(e.jit_transfers),
    ),
    counter("jit_seeks_missed_total", "Just-in-time seeks that missed their sector.", |e| {
        Value::Whole(e.missed)
    }),
    counter("jit_seeks_disabled_total", "Times that just-in-time seeks were disabled.", |e| {
        Value::Whole(e.jit_disabled_count)
    }),
    counter(
        "jit_seeks_distrusted_total",
        "Deprecated: use `spindle_disk_jit_seeks_disabled_total`.",
        |e| Value::Whole(e.jit_disabled_count),
    ),
    gauge("jit_seeks_enabled", "Whether just-in-time seeks are enabled: 1 or 0.", |e| {
        Value::Whole(u64::from(e.jit_enabled))
    }),
    gauge("jit_seeks_trusted", "Deprecated: use `spindle_disk_jit_seeks_enabled`.", |e| {
        Value::Whole(u64::from(e.jit_enabled))
    }),
    counter("split_seeks_total", "Seeks that were split into several commands.", |e| {
        Value::Whole(e.split_seeks)
    }),
    counter("seek_commands_total", "Seek commands.", |e| Value::Whole(e.seek_commands)),
    counter("preempted_total", "Preempted requests.", |e| Value::Whole(e.preemptions)),
    counter("prefetched_bytes_total", "Bytes prefetched during rotational waits.", |e| {
        Value::Whole(e.prefetched.bytes().0)
    }),
    counter("rotation_slack_seconds_total", "Time of rotational waits.", |e| {
        charged(e.rotational_wait)
    }),
];

/// Of disks whose read-ahead in the host is on.
pub(super) const READ_AHEAD: &[Family<ReadAheadStatus>] = &[
    gauge("read_ahead_memory_bytes", "The most memory of its read-ahead in the host.", |r| {
        Value::Whole(r.memory.0)
    }),
    gauge("read_ahead_used_bytes", "The memory of its read-ahead in use.", |r| {
        Value::Whole(r.used.0)
    }),
    counter("read_ahead_hits_total", "Reads answered from that memory at once.", |r| {
        Value::Whole(r.usage.hits)
    }),
    counter(
        "read_ahead_waits_total",
        "Reads answered from that memory after they waited for a read-ahead in flight.",
        |r| Value::Whole(r.usage.waits),
    ),
    counter("read_ahead_read_bytes_total", "Bytes that were read ahead.", |r| {
        Value::Whole(r.usage.sectors.bytes().0)
    }),
    counter(
        "read_ahead_dropped_bytes_total",
        "Of the bytes read ahead, those dropped before any client had read them.",
        |r| Value::Whole(r.usage.unused.bytes().0),
    ),
    counter(
        "read_ahead_prefetched_bytes_total",
        "Of the bytes read ahead, those prefetched during rotational waits.",
        |r| Value::Whole(r.usage.prefetched.bytes().0),
    ),
    counter(
        "read_ahead_prefetched_used_bytes_total",
        "Of the bytes prefetched, those that a client has read.",
        |r| Value::Whole(r.usage.prefetched_used.bytes().0),
    ),
];

/// Of disks with write buffers in the host.
pub(super) const WRITE_BUFFER: &[Family<WriteBufferStatus>] = &[
    gauge("write_buffer_memory_bytes", "The most memory of its volumes' write buffers.", |b| {
        Value::Whole(b.memory.0)
    }),
    gauge("write_buffer_used_bytes", "The memory of its volumes' write buffers in use.", |b| {
        Value::Whole(b.usage.used.bytes().0)
    }),
    counter("write_buffer_writes_total", "Writes answered from the write buffers.", |b| {
        Value::Whole(b.usage.writes)
    }),
    counter("write_buffer_waits_total", "Writes that waited for memory.", |b| {
        Value::Whole(b.usage.waits)
    }),
    counter("write_buffer_destages_total", "Writes from the buffers to the disk.", |b| {
        Value::Whole(b.usage.destages)
    }),
    counter("write_buffer_destaged_bytes_total", "Bytes written from the buffers.", |b| {
        Value::Whole(b.usage.destaged.bytes().0)
    }),
    counter(
        "write_buffer_overwritten_bytes_total",
        "Bytes that were overwritten in the buffers and never sent to the disk.",
        |b| Value::Whole(b.usage.overwritten.bytes().0),
    ),
    counter("write_buffer_lost_bytes_total", "Bytes that the disk failed to write.", |b| {
        Value::Whole(b.usage.lost.bytes().0)
    }),
];
