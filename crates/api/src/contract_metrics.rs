//! The metrics of contracts: what each volume is guaranteed, and what a disk has left.

use std::collections::BTreeMap;

use config::Plan;
use daemon::VolumeStatus;
use engine::stream::RequestedStream;
use engine::{LatencyStats, Priority, StreamBytes};
use units::{Instant, Sectors};

use crate::metric_family::{Family, Value, counter};
use crate::resources::contract::ContractKind;

/// Of volumes with a reserve and enough requests.
pub(super) const WORTH: (&str, &str) =
    ("worth_ratio", "Worth of its reserve over the last 10 to 20 s, estimated.");

/// Of volumes with a bounded latency, after its first answer.
pub(super) const CLOSEST: (&str, &str) = (
    "latency_closest_seconds",
    "Least time that an answer within its bounded latency left to its deadline.",
);

/// Of volumes with a stream under a policy that promises each byte a time, after the first answer.
pub(super) const STREAM_CLOSEST: (&str, &str) = (
    "stream_closest_seconds",
    "Least time that an answer to bytes of its stream left to the time promised.",
);

/// Of volumes with a bounded latency.
pub(super) const BOUNDED: &[Family<LatencyStats>] = &[
    counter(
        "latency_requests_total",
        "Requests within its bounded latency that were answered.",
        |l| Value::Whole(l.answered),
    ),
    counter("latency_late_total", "Those of them that were answered after their deadlines.", |l| {
        Value::Whole(l.late)
    }),
    counter(
        "latency_beyond_total",
        "Reads and writes outside of its bounded latency: beyond its rate, or larger.",
        |l| Value::Whole(l.beyond),
    ),
];

fn bytes(sectors: Sectors) -> Value {
    Value::Whole(sectors.bytes().0)
}

/// Of volumes with a stream: zeroes under a policy that promises times to blocks only.
pub(super) const STREAM_BYTES: &[Family<StreamBytes>] = &[
    counter(
        "stream_asked_bytes_total",
        "Bytes that its client asked of the stream, all but those outside of it.",
        |b| bytes(b.asked),
    ),
    counter("stream_met_bytes_total", "Bytes answered by the time promised.", |b| bytes(b.met)),
    counter("stream_late_bytes_total", "Bytes answered later.", |b| bytes(b.missed)),
    counter(
        "stream_out_of_order_bytes_total",
        "Bytes of requests that ended a run of bytes within a block.",
        |b| bytes(b.out_of_order),
    ),
    counter(
        "stream_beyond_rate_bytes_total",
        "Bytes asked for earlier than the bandwidth, a block and jitter allow.",
        |b| bytes(b.beyond_rate),
    ),
    counter(
        "stream_outside_bytes_total",
        "Bytes that are not of the stream: outside of its range, of a disk's span, or of the disks \
         that keep it, trims, writes of zeroes.",
        |b| bytes(b.outside),
    ),
    counter(
        "stream_not_gathered_bytes_total",
        "Bytes transferred by short commands: the client sends few requests at a time.",
        |b| bytes(b.not_gathered),
    ),
];

/// Of volumes with a stream.
pub(super) const STREAM: (&str, &str) =
    ("stream_bytes_per_second", "Bandwidth that its stream guarantees.");

/// One metric, which is 1, for the `kind` and the `priority` of each contract.
pub(super) const CONTRACT: (&str, &str) = (
    "contract_info",
    "Its contract: best-effort, reserve, rate, stream or latency, and its priority. Always 1.",
);
/// One metric, which is 1, for a volume with labels: it carries them beside those of every metric.
pub(super) const LABELS: (&str, &str) =
    ("labels", "Its labels, each as a label of this metric. Always 1.");
pub(super) const CONTRACT_LABELS: &[&str] = &["device", "disk", "kind", "priority"];

/// The share of a disk's time that streams reserve, the share that is left, and the share of its
/// speed at which its drive runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskShares {
    pub(super) streams: f64,
    pub(super) left: f64,
    pub(super) slowed: f64,
}

/// The shares of each disk, in the config's order.
pub(super) fn disk_shares(plan: &Plan, now: Instant) -> Vec<DiskShares> {
    let shares = |(index, disk): (usize, &config::Disk)| {
        let index = config::DiskIndex(index);
        DiskShares {
            streams: plan.reserved_by_streams(index, now).as_f64(),
            left: plan.unreserved(index, now).as_f64(),
            slowed: disk.slowed.as_f64(),
        }
    };
    plan.disks.iter().enumerate().map(shares).collect()
}

/// What a volume's contract says beside its shares.
#[derive(Clone, Copy, Debug)]
pub(super) struct VolumeContract {
    pub(super) kind: ContractKind,
    pub(super) priority: Priority,
    /// Bytes a second of its stream.
    pub(super) stream: Option<u64>,
}

/// The priority and the stream's bandwidth of each volume of the config, by its name.
pub(super) type Planned<'a> = BTreeMap<&'a str, (Priority, Option<u64>)>;

/// What the config says of its volumes.
pub(super) fn planned(plan: &Plan) -> Planned<'_> {
    let own = plan.volumes.iter().map(|volume| {
        let stream = volume.stream.map(|stream| stream.requested);
        (volume.name.as_str(), (volume.priority, stream))
    });
    let pooled = plan.pool.iter().flat_map(|pool| &pool.volumes).map(|volume| {
        let stream = volume.stream.map(|stream| stream.requested);
        (volume.name.as_str(), (volume.priority, stream))
    });
    let bandwidth = |stream: RequestedStream| stream.bandwidth.0;
    let all = own.chain(pooled);
    all.map(|(name, (priority, stream))| (name, (priority, stream.map(bandwidth)))).collect()
}

/// The contract of a volume; best effort if the config has none.
pub(super) fn volume_contract(planned: &Planned<'_>, status: &VolumeStatus) -> VolumeContract {
    let known = planned.get(status.name.as_str()).copied();
    let (priority, stream) = known.unwrap_or((Priority::Normal, None));
    let kind = ContractKind::of(&status.contract, stream.is_some(), status.declared.is_some());
    VolumeContract { kind, priority, stream }
}
