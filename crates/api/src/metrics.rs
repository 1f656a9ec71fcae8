//! `/metrics`: all counters, in Prometheus' text format.
//!
//! The requests of volumes and disks have the names and units that `node_exporter`'s diskstats
//! collector uses for block devices, with `spindle_disk_` or `spindle_volume_` in place of
//! `node_disk_`: under one name, the sum over a machine would count a request three times, for the
//! volume, for the disk, and for the block device behind it.
//!
//! This module writes the format itself, in a few lines: the counters belong to the disks' threads
//! and come as a snapshot, which a client library would copy into counters of its own.
//!
//! Invariants: each family is in a table below, in `contract_metrics` or in `disk_metrics`; the
//! reference page has
//! the tables' lines; labels are names of disks and volumes, whose numbers the config's limits
//! bound.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use config::{Labels, Plan, priority_name};
use daemon::{
    Buckets, ChecksumsView, DiskState, DiskStatus, Operator, PoolDiskState, PoolDiskView, PoolView,
    ResyncEstimate, SpareView, Status, Traffic, VolumeStatus,
};
use nbd::{Connections, ExportId, Transport};
use units::Share;
use volume::pool::ScrubPhase;

use crate::contract_metrics::{
    BOUNDED, CLOSEST, CONTRACT, CONTRACT_LABELS, DiskShares, LABELS, STREAM, STREAM_BYTES,
    STREAM_CLOSEST, VolumeContract, WORTH, disk_shares, planned, volume_contract,
};
use crate::disk_metrics::{EXECUTED, READ_AHEAD, WRITE_BUFFER};
use crate::metric_family::{Family, Metric, MetricKind, Value, charged, counter, gauge, sum, time};

/// The media type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// As in `node_exporter`'s diskstats collector, but for merges: no request is merged here.
const TRAFFIC: &[Family<Traffic>] = &[
    counter("reads_completed_total", "Answered reads, failed ones included.", |t| {
        Value::Whole(t.reads.requests)
    }),
    counter("read_bytes_total", "Bytes read.", |t| Value::Whole(t.reads.sectors.bytes().0)),
    counter(
        "read_time_seconds_total",
        "Sum of the times from a read's arrival to its reply.",
        |t| sum(t.reads.time),
    ),
    counter(
        "writes_completed_total",
        "Answered writes, failed ones and writes of zeroes included.",
        |t| Value::Whole(t.writes.requests),
    ),
    counter("written_bytes_total", "Bytes written.", |t| Value::Whole(t.writes.sectors.bytes().0)),
    counter(
        "write_time_seconds_total",
        "Sum of the times from a write's arrival to its reply.",
        |t| sum(t.writes.time),
    ),
    gauge("io_now", "Requests in progress.", |t| Value::Whole(t.open)),
    counter("io_time_seconds_total", "Time with a request in progress.", |t| sum(t.busy)),
    counter(
        "io_time_weighted_seconds_total",
        "Time with requests in progress, weighted by their number.",
        |t| sum(t.weighted),
    ),
    counter(
        "discards_completed_total",
        "Answered trims, failed ones and erasures of newly allocated space included.",
        |t| Value::Whole(t.discards.requests),
    ),
    counter("discarded_sectors_total", "Trimmed sectors of 512 bytes.", |t| {
        Value::Whole(t.discards.sectors.0)
    }),
    counter(
        "discard_time_seconds_total",
        "Sum of the times from a trim's arrival to its reply.",
        |t| sum(t.discards.time),
    ),
    counter("flush_requests_total", "Answered flushes, failed ones included.", |t| {
        Value::Whole(t.flushes.requests)
    }),
    counter(
        "flush_requests_time_seconds_total",
        "Sum of the times from a flush's arrival to its reply.",
        |t| sum(t.flushes.time),
    ),
    counter("estimated_total", "Clients' requests whose disk time was estimated.", |t| {
        Value::Whole(t.estimated)
    }),
    counter("estimate_error_seconds_total", "Sum of these estimates' errors.", |t| {
        sum(t.estimate_error)
    }),
    counter("failures_total", "Failed requests of any kind.", |t| Value::Whole(t.failures)),
    counter(
        "slow_requests_total",
        "Requests that took at least the slow-request time of `[log]`; none without one.",
        |t| Value::Whole(t.slow),
    ),
];

const TRANSPORT_CONNECTIONS: (&str, &str) =
    ("transport_connections", "Clients' connections by transport.");
const TRANSPORT_LABELS: &[&str] = &["device", "disk", "transport"];

const LATENCY: (&str, &str) =
    ("latency_seconds", "Times of clients' requests from arrival to reply.");

/// A volume with its contract and its connections.
struct Volume {
    status: VolumeStatus,
    contract: VolumeContract,
    connections: Connections,
}

const VOLUME: &[Family<Volume>] = &[
    gauge("reserve_ratio", "The share of the disk's time that is reserved for it.", |v| {
        Value::Part(v.status.contract.reserve.as_f64())
    }),
    gauge("limit_ratio", "Its largest share of the disk's time.", |v| {
        Value::Part(v.status.contract.limit.as_f64())
    }),
    gauge("weight", "Its weight in the division of slack.", |v| {
        Value::Whole(u64::from(v.status.contract.weight.as_u32()))
    }),
    gauge("size_bytes", "Its size.", |v| Value::Whole(v.status.size.0)),
    gauge("connections", "Clients' connections.", |v| Value::Whole(v.connections.total() as u64)),
    counter("disk_time_seconds_total", "Disk time that it was charged.", |v| {
        charged(v.status.account.disk_time)
    }),
    counter(
        "slack_seconds_total",
        "Of the time charged, the time that came out of the slack: no other reserve was due.",
        |v| charged(v.status.slack),
    ),
    counter(
        "lingered_seconds_total",
        "Of the time charged, the time that the disk was kept idle for its next request.",
        |v| charged(v.status.account.anticipation),
    ),
    counter(
        "deadlines_met_total",
        "Blocks of its streams that were answered by their deadlines.",
        |v| Value::Whole(v.status.kept.met),
    ),
    counter("deadlines_missed_total", "Blocks of its streams that were answered late.", |v| {
        Value::Whole(v.status.kept.missed)
    }),
    gauge(
        "deadline_lateness_max_seconds",
        "Largest time from a deadline to its block's reply.",
        |v| Value::Part(v.status.kept.max_lateness.as_secs_f64()),
    ),
];

/// Of volumes whose policy has balances.
const BALANCE: (&str, &str) = ("balance_seconds", "Balance of its reserve, negative if overdrawn.");

/// Of disks whose policy keeps deadlines.
const STREAM_SLACK: (&str, &str) = (
    "stream_slack_seconds",
    "Disk time that streams leave to best effort at any instant (ΔL); only with deadlines.",
);

/// A disk with its reserves.
struct Disk {
    status: DiskStatus,
    reserved: f64,
    shares: DiskShares,
    volumes: usize,
}

fn healthy(disk: &Disk) -> Value {
    Value::Whole(u64::from(disk.status.health.state == DiskState::Healthy))
}

const DISK: &[Family<Disk>] = &[
    gauge("reserved_ratio", "Share of its time that is reserved.", |d| Value::Part(d.reserved)),
    gauge("streams_ratio", "Share of its time that streams reserve now.", |d| {
        Value::Part(d.shares.streams)
    }),
    gauge("left_ratio", "Share of its time that nothing has reserved.", |d| {
        Value::Part(d.shares.left)
    }),
    gauge("slowed_ratio", "Share of its speed at which an emulated drive runs.", |d| {
        Value::Part(d.shares.slowed)
    }),
    gauge("volumes", "Volumes on it.", |d| Value::Whole(d.volumes as u64)),
    gauge("recorded", "Whether its engine is recorded in a flight record: 1 or 0.", |d| {
        Value::Whole(u64::from(d.status.recorded))
    }),
    counter("uptime_seconds_total", "Time since the daemon started.", |d| {
        time(d.status.at.since(units::Instant::ZERO))
    }),
    counter("charged_seconds_total", "Disk time charged to its volumes.", |d| {
        charged(d.status.busy)
    }),
    counter(
        "slack_seconds_total",
        "Of the time charged, the time that came out of the slack: no other reserve was due.",
        |d| charged(d.status.slack),
    ),
    gauge("healthy", "Whether it serves all requests: 0 if it is poisoned or offline.", healthy),
    gauge("well", "Deprecated: use `spindle_disk_healthy`.", healthy),
    counter("command_failures_total", "Commands that the disk failed.", |d| {
        Value::Whole(d.status.health.read_failures + d.status.health.write_failures)
    }),
    counter("commands_refused_total", "Commands refused because of its state.", |d| {
        Value::Whole(d.status.health.refused)
    }),
    gauge("oldest_command_seconds", "Age of its oldest command in flight.", |d| {
        time(d.status.health.oldest.map_or(units::Duration::ZERO, |(_, age)| age))
    }),
];

/// One metric for each `kind`.
const TIME: (&str, &str) = (
    "time_seconds_total",
    "Its time by use: idle and, for an emulated hard drive, overhead, seek, rotation and transfer.",
);

const DISK_PREFIX: &str = "spindle_disk_";
const POOL: &[Family<PoolView>] = &[
    gauge("size_bytes", "Capacity of its disks for volumes.", |p| Value::Whole(p.size.0)),
    gauge("free_bytes", "Free part of that capacity.", |p| Value::Whole(p.free.0)),
    gauge("promised_bytes", "Space that thin volumes may still allocate.", |p| {
        Value::Whole(p.promised.0)
    }),
    gauge("alarm", "Whether its use has reached the alarm level: 1 or 0.", |p| {
        Value::Whole(p.alarm.into())
    }),
    gauge("writable", "Whether it can be written: 1 or 0.", |p| Value::Whole(p.writable.into())),
    gauge("disks", "Disks that belong to it.", |p| Value::Whole(p.disks.len() as u64)),
    gauge("disks_out", "Those of them that failed, or are missing.", |p| {
        let out = p.disks.iter().filter(|disk| disk.state != PoolDiskState::In);
        Value::Whole(out.count() as u64)
    }),
    gauge("disks_without_spare", "Those of them whose place every spare was refused.", |p| {
        let refused = |disk: &&PoolDiskView| matches!(disk.spare, Some(SpareView::Refused(_)));
        Value::Whole(p.disks.iter().filter(refused).count() as u64)
    }),
    gauge("degraded_bytes", "Mirrors' copies that are stale, or on a disk that is out.", |p| {
        Value::Whole(p.volumes.iter().map(|volume| volume.degraded.0).sum())
    }),
    gauge("streams_unkept", "Streams read from disks that do not keep them: best effort.", |p| {
        Value::Whole(p.unkept_streams().count() as u64)
    }),
    gauge("lost_bytes", "Mirrors' blocks that have no whole copy.", |p| {
        Value::Whole(p.volumes.iter().map(|volume| volume.lost.0).sum())
    }),
    gauge("stale_bytes", "What is to be written again to disks that are in.", |p| {
        Value::Whole(p.resync.left.0)
    }),
    counter("resynced_bytes_total", "What was made equal on mirrors' copies.", |p| {
        Value::Whole(p.resync.done.0)
    }),
    gauge("scrubbing", "Whether a scrub goes on: 1 or 0.", |p| {
        Value::Whole((p.scrub.phase == ScrubPhase::Running).into())
    }),
    gauge("scrub_read_bytes", "What the scrub, or the last one, has read of all copies.", |p| {
        Value::Whole(p.scrub.read.0)
    }),
    gauge("scrub_left_bytes", "What it has left to read.", |p| Value::Whole(p.scrub.left.0)),
    gauge("scrub_mended", "Copies that it mended.", |p| Value::Whole(p.scrub.mended)),
    gauge("scrub_unmended", "Copies that it could not mend.", |p| Value::Whole(p.scrub.unmended)),
    gauge("scrub_lost", "Blocks that it could read from no copy.", |p| Value::Whole(p.scrub.lost)),
    gauge("scrub_differing", "Blocks whose copies it found to differ.", |p| {
        Value::Whole(p.scrub.differing)
    }),
    counter("verified_bytes_total", "What was read and fitted its checksum, or did not.", |p| {
        Value::Whole(checksums(p, |one| one.verified.0))
    }),
    counter("unverified_bytes_total", "What was read without a known checksum.", |p| {
        Value::Whole(checksums(p, |one| one.unverified.0))
    }),
    counter("wrong_checksums_total", "4 KiB that were read and did not fit their checksum.", |p| {
        Value::Whole(checksums(p, |one| one.wrong))
    }),
    gauge("moving_bytes", "Bytes that remain to be relocated.", |p| {
        let moving = p.volumes.iter().filter_map(|volume| volume.moving.as_ref());
        Value::Whole(moving.map(|one| one.left.0).sum())
    }),
];
/// Only while copies are being made equal.
const RESYNC: &[Family<ResyncEstimate>] =
    &[gauge("resync_left_seconds", "Time until copies are equal; only with progress.", |one| {
        time(one.time_left)
    })];
const VOLUME_PREFIX: &str = "spindle_volume_";
const POOL_PREFIX: &str = "spindle_pool_";
const POOL_LABELS: &[&str] = &["pool"];
const DISK_LABELS: &[&str] = &["device"];
const VOLUME_LABELS: &[&str] = &["device", "disk"];

/// A sum over the checksums of the disks that have some.
fn checksums(pool: &PoolView, of: impl Fn(&ChecksumsView) -> u64) -> u64 {
    pool.disks.iter().filter_map(|disk| disk.checksums.as_ref()).map(of).sum()
}

/// All metrics, in the order of the text.
pub fn metrics() -> Vec<Metric> {
    let mut all = Vec::new();
    list(&mut all, DISK_PREFIX, DISK_LABELS, TRAFFIC);
    one(&mut all, DISK_PREFIX, MetricKind::Histogram, &["device", "le"], LATENCY);
    list(&mut all, DISK_PREFIX, DISK_LABELS, DISK);
    one(&mut all, DISK_PREFIX, MetricKind::Gauge, DISK_LABELS, STREAM_SLACK);
    one(&mut all, DISK_PREFIX, MetricKind::Counter, &["device", "kind"], TIME);
    list(&mut all, DISK_PREFIX, DISK_LABELS, EXECUTED);
    list(&mut all, DISK_PREFIX, DISK_LABELS, READ_AHEAD);
    list(&mut all, DISK_PREFIX, DISK_LABELS, WRITE_BUFFER);
    list(&mut all, VOLUME_PREFIX, VOLUME_LABELS, TRAFFIC);
    one(&mut all, VOLUME_PREFIX, MetricKind::Histogram, &["device", "disk", "le"], LATENCY);
    list(&mut all, VOLUME_PREFIX, VOLUME_LABELS, VOLUME);
    one(&mut all, VOLUME_PREFIX, MetricKind::Gauge, TRANSPORT_LABELS, TRANSPORT_CONNECTIONS);
    one(&mut all, VOLUME_PREFIX, MetricKind::Gauge, CONTRACT_LABELS, CONTRACT);
    one(&mut all, VOLUME_PREFIX, MetricKind::Gauge, VOLUME_LABELS, LABELS);
    one(&mut all, VOLUME_PREFIX, MetricKind::Gauge, VOLUME_LABELS, STREAM);
    one(&mut all, VOLUME_PREFIX, MetricKind::Gauge, VOLUME_LABELS, BALANCE);
    one(&mut all, VOLUME_PREFIX, MetricKind::Gauge, VOLUME_LABELS, WORTH);
    one(&mut all, VOLUME_PREFIX, MetricKind::Gauge, VOLUME_LABELS, CLOSEST);
    one(&mut all, VOLUME_PREFIX, MetricKind::Gauge, VOLUME_LABELS, STREAM_CLOSEST);
    list(&mut all, VOLUME_PREFIX, VOLUME_LABELS, BOUNDED);
    list(&mut all, VOLUME_PREFIX, VOLUME_LABELS, STREAM_BYTES);
    list(&mut all, POOL_PREFIX, POOL_LABELS, POOL);
    list(&mut all, POOL_PREFIX, POOL_LABELS, RESYNC);
    all
}

fn list<T>(
    all: &mut Vec<Metric>,
    prefix: &str,
    labels: &'static [&'static str],
    families: &[Family<T>],
) {
    for family in families {
        one(all, prefix, family.kind, labels, (family.suffix, family.help));
    }
}

fn one(
    all: &mut Vec<Metric>,
    prefix: &str,
    kind: MetricKind,
    labels: &'static [&'static str],
    (suffix, help): (&str, &'static str),
) {
    all.push(Metric { name: format!("{prefix}{suffix}"), kind, labels, help });
}

/// The text for this daemon.
pub(crate) fn text(operator: &Operator) -> String {
    let document = operator.document();
    render(document.plan(), operator.accounts(), &operator.connections(), operator.pool())
}

/// A value with its labels as they are written, without braces.
type Labelled<T> = (String, T);

fn render(
    plan: &Plan,
    status: Status,
    connections: &BTreeMap<ExportId, Connections>,
    pool: Option<PoolView>,
) -> String {
    let mut reserves = vec![(Share::NONE, 0); status.disks.len()];
    for volume in &status.volumes {
        for disk in &volume.disks {
            let (reserved, volumes) = &mut reserves[disk.0];
            let more = reserved.checked_add(volume.contract.reserve);
            *reserved = more.unwrap_or(Share::ALL);
            *volumes += 1;
        }
    }
    let names: Vec<String> = status.disks.iter().map(|disk| escaped(&disk.name)).collect();
    let now = status.disks.first().map_or(units::Instant::ZERO, |disk| disk.at);
    let (shares, planned) = (disk_shares(plan, now), planned(plan));
    let disks = status.disks.into_iter().zip(reserves).zip(shares).zip(&names);
    let disks = disks.map(|(((status, (reserved, volumes)), shares), name)| {
        let reserved = reserved.as_f64();
        (format!("device=\"{name}\""), Disk { status, reserved, shares, volumes })
    });
    let disks: Vec<Labelled<Disk>> = disks.collect();
    let volumes = status.volumes.into_iter().map(|status| {
        let connections = connections.get(&status.export).copied().unwrap_or_default();
        let disks: Vec<&str> = status.disks.iter().map(|disk| names[disk.0].as_str()).collect();
        let (name, disks) = (escaped(&status.name), disks.join("+"));
        let labels = format!("device=\"{name}\",disk=\"{disks}\"");
        let contract = volume_contract(&planned, &status);
        (labels, Volume { status, contract, connections })
    });
    let volumes: Vec<Labelled<Volume>> = volumes.collect();
    let mut text = Text::with_capacity(disks.len(), volumes.len());
    text.families(DISK_PREFIX, TRAFFIC, &disks, |disk| Some(&disk.status.traffic));
    text.latencies(DISK_PREFIX, &disks, |disk| &disk.status.traffic.latency);
    text.families(DISK_PREFIX, DISK, &disks, |disk| Some(disk));
    text.streams(&disks);
    text.times(&disks);
    text.families(DISK_PREFIX, EXECUTED, &disks, |disk| disk.status.executed.as_ref());
    text.families(DISK_PREFIX, READ_AHEAD, &disks, |disk| disk.status.read_ahead.as_ref());
    text.families(DISK_PREFIX, WRITE_BUFFER, &disks, |disk| disk.status.write_buffer.as_ref());
    text.families(VOLUME_PREFIX, TRAFFIC, &volumes, |volume| Some(&volume.status.traffic));
    text.latencies(VOLUME_PREFIX, &volumes, |volume| &volume.status.traffic.latency);
    text.families(VOLUME_PREFIX, VOLUME, &volumes, |volume| Some(volume));
    text.transports(&volumes);
    text.contracts(&volumes);
    text.labels(plan, &volumes);
    text.balances(&volumes);
    text.families(VOLUME_PREFIX, BOUNDED, &volumes, |volume| volume.status.bounded.as_ref());
    text.families(VOLUME_PREFIX, STREAM_BYTES, &volumes, |volume| {
        volume.contract.stream.map(|_| &volume.status.kept.bytes)
    });
    let pools: Vec<Labelled<PoolView>> =
        pool.into_iter().map(|pool| (format!("pool=\"{}\"", pool.uid), pool)).collect();
    text.families(POOL_PREFIX, POOL, &pools, |pool| Some(pool));
    text.families(POOL_PREFIX, RESYNC, &pools, |pool| pool.resync.estimate.as_ref());
    text.0
}

/// A label's value with the format's escapes.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// The approximate size of the lines about one disk or volume, so that the text is not moved while
/// it grows.
const LINE_BYTES: usize = 96;
const LINES: usize = 42;

struct Text(String);

impl Text {
    fn with_capacity(disks: usize, volumes: usize) -> Self {
        Self(String::with_capacity((disks + volumes) * LINES * LINE_BYTES))
    }

    fn head(&mut self, name: &str, kind: MetricKind, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {}", kind.as_str()));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("writing to a string does not fail");
    }

    fn sample(&mut self, name: &str, labels: &str, value: &Value) {
        match value {
            Value::Whole(value) => self.line(format_args!("{name}{{{labels}}} {value}")),
            Value::Part(value) => self.line(format_args!("{name}{{{labels}}} {value}")),
        }
    }

    fn families<T, P>(
        &mut self,
        prefix: &str,
        families: &[Family<P>],
        things: &[Labelled<T>],
        part: impl Fn(&T) -> Option<&P>,
    ) {
        for Family { suffix, kind, help, value } in families {
            let name = format!("{prefix}{suffix}");
            self.head(&name, *kind, help);
            for (labels, thing) in things {
                if let Some(part) = part(thing) {
                    self.sample(&name, labels, &value(part));
                }
            }
        }
    }

    fn latencies<T>(&mut self, prefix: &str, things: &[Labelled<T>], of: impl Fn(&T) -> &Buckets) {
        let name = format!("{prefix}{}", LATENCY.0);
        self.head(&name, MetricKind::Histogram, LATENCY.1);
        let bounds = Buckets::BOUNDS.map(|bound| bound.as_secs_f64().to_string());
        let bounds: Vec<&str> = bounds.iter().map(String::as_str).chain(["+Inf"]).collect();
        for (labels, thing) in things {
            let buckets = of(thing);
            for (bound, count) in bounds.iter().zip(buckets.cumulative()) {
                self.line(format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {count}"));
            }
            self.line(format_args!("{name}_sum{{{labels}}} {}", buckets.sum().as_secs_f64()));
            self.line(format_args!("{name}_count{{{labels}}} {}", buckets.count()));
        }
    }

    fn times(&mut self, disks: &[Labelled<Disk>]) {
        let name = format!("{DISK_PREFIX}{}", TIME.0);
        self.head(&name, MetricKind::Counter, TIME.1);
        for (labels, Disk { status, .. }) in disks {
            let mut kind = |kind: &str, value: Value| {
                self.sample(&name, &format!("{labels},kind=\"{kind}\""), &value);
            };
            kind("idle", sum(status.idle));
            if let Some(times) = &status.times {
                kind("overhead", time(times.overhead));
                kind("seek", time(times.seek));
                kind("rotation", time(times.rotation));
                kind("transfer", time(times.transfer));
            }
        }
    }

    fn streams(&mut self, disks: &[Labelled<Disk>]) {
        let name = format!("{DISK_PREFIX}{}", STREAM_SLACK.0);
        self.head(&name, MetricKind::Gauge, STREAM_SLACK.1);
        for (labels, Disk { status, .. }) in disks {
            if let Some(slack) = status.stream_slack {
                self.sample(&name, labels, &charged(slack));
            }
        }
    }

    /// Every transport, so that a series does not end when the last client goes.
    fn transports(&mut self, volumes: &[Labelled<Volume>]) {
        let name = format!("{VOLUME_PREFIX}{}", TRANSPORT_CONNECTIONS.0);
        self.head(&name, MetricKind::Gauge, TRANSPORT_CONNECTIONS.1);
        for (labels, Volume { connections, .. }) in volumes {
            for transport in Transport::ALL {
                let labels = format!("{labels},transport=\"{transport}\"");
                self.sample(&name, &labels, &Value::Whole(connections.by(transport) as u64));
            }
        }
    }

    fn contracts(&mut self, volumes: &[Labelled<Volume>]) {
        let name = format!("{VOLUME_PREFIX}{}", CONTRACT.0);
        self.head(&name, MetricKind::Gauge, CONTRACT.1);
        for (labels, Volume { contract, .. }) in volumes {
            let (kind, priority) = (contract.kind.as_str(), priority_name(contract.priority));
            let labels = format!("{labels},kind=\"{kind}\",priority=\"{priority}\"");
            self.sample(&name, &labels, &Value::Whole(1));
        }
        let name = format!("{VOLUME_PREFIX}{}", STREAM.0);
        self.head(&name, MetricKind::Gauge, STREAM.1);
        for (labels, Volume { contract, .. }) in volumes {
            if let Some(bandwidth) = contract.stream {
                self.sample(&name, labels, &Value::Whole(bandwidth));
            }
        }
    }

    fn labels(&mut self, plan: &Plan, volumes: &[Labelled<Volume>]) {
        let name = format!("{VOLUME_PREFIX}{}", LABELS.0);
        self.head(&name, MetricKind::Gauge, LABELS.1);
        let own = plan.volumes.iter().map(|volume| (volume.name.as_str(), &volume.labels));
        let pooled = plan.pool.iter().flat_map(|pool| &pool.volumes);
        let pooled = pooled.map(|volume| (volume.name.as_str(), &volume.labels));
        let planned: BTreeMap<&str, &Labels> = own.chain(pooled).collect();
        for (labels, volume) in volumes {
            let mut labels = labels.clone();
            let found = planned.get(volume.status.name.as_str()).copied();
            let Some(found) = found.filter(|labels| !labels.is_empty()) else { continue };
            for (name, value) in found {
                labels.extend([",", name, "=\"", &escaped(value), "\""]);
            }
            self.sample(&name, &labels, &Value::Whole(1));
        }
    }

    fn balances(&mut self, volumes: &[Labelled<Volume>]) {
        type Optional = fn(&VolumeStatus) -> Option<Value>;
        let families: [(_, Optional); 4] = [
            (BALANCE, |status| status.balance.map(charged)),
            (WORTH, |status| status.worth.map(Value::Part)),
            (CLOSEST, |status| status.bounded?.closest.all().map(time)),
            (STREAM_CLOSEST, |status| status.kept.bytes.closest.all().map(time)),
        ];
        for ((suffix, help), value) in families {
            let name = format!("{VOLUME_PREFIX}{suffix}");
            self.head(&name, MetricKind::Gauge, help);
            for (labels, Volume { status, .. }) in volumes {
                if let Some(value) = value(status) {
                    self.sample(&name, labels, &value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_in_labels_are_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
    }

    #[test]
    fn metrics_have_distinct_names_and_only_counters_end_in_total() {
        let all = metrics();
        for (index, metric) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| other.name != metric.name), "{metric:?}");
            let counts = metric.kind == MetricKind::Counter;
            assert_eq!(metric.name.ends_with("_total"), counts, "{metric:?}");
        }
    }
}
