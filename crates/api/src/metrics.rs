//! `/metrics`: everything that is counted, in Prometheus' text format.
//!
//! What is asked of volumes and disks has the names and units that `node_exporter`'s diskstats collector gives what is asked
//! of block devices, with `spindle_disk_` or `spindle_volume_` for its `node_disk_`: under one name a machine's sum would
//! count a request three times, for the volume, for the disk, and for the block device behind it.
//!
//! The format is written here, in a few lines: the counters live in the disks' threads and come as a snapshot, which
//! client libraries would have us copy into counters of their own.
//!
//! Invariants: each family is in one of the tables below, and `docs/src/reference/metrics.md` has the tables' lines; labels are names of
//! disks and volumes, of which there are at most as many as the config's limits allow.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use daemon::{
    Buckets, DiskState, DiskStatus, Operator, PoolView, Status, TimeSum, Traffic, VolumeStatus,
};
use engine::PreemptionStats;
use nbd::ExportId;
use units::{DiskTime, Duration, Share};

/// The media type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, while the daemon runs.
    Counter,
    /// It comes and goes.
    Gauge,
    /// Counts by bounds, with a sum.
    Histogram,
}

impl MetricKind {
    /// As the text format calls it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric, as documents tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, which is the same for all disks or volumes.
    pub name: String,
    /// How it behaves.
    pub kind: MetricKind,
    /// Its labels, in their order.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

/// A value: counts are exact, times are in seconds.
enum Value {
    Whole(u64),
    Part(f64),
}

/// One metric of a thing.
struct Family<T> {
    suffix: &'static str,
    kind: MetricKind,
    help: &'static str,
    value: fn(&T) -> Value,
}

const fn counter<T>(suffix: &'static str, help: &'static str, value: fn(&T) -> Value) -> Family<T> {
    Family { suffix, kind: MetricKind::Counter, help, value }
}

const fn gauge<T>(suffix: &'static str, help: &'static str, value: fn(&T) -> Value) -> Family<T> {
    Family { suffix, kind: MetricKind::Gauge, help, value }
}

fn sum(time: TimeSum) -> Value {
    Value::Part(time.as_secs_f64())
}

fn time(time: Duration) -> Value {
    Value::Part(time.as_secs_f64())
}

fn charged(time: DiskTime) -> Value {
    Value::Part(time.as_secs_f64())
}

/// As `node_exporter`'s diskstats collector has them. Nothing is merged here, so there is nothing to tell of merges.
const TRAFFIC: &[Family<Traffic>] = &[
    counter("reads_completed_total", "Reads answered, well or not.", |t| {
        Value::Whole(t.reads.requests)
    }),
    counter("read_bytes_total", "Bytes read.", |t| Value::Whole(t.reads.sectors.bytes().0)),
    counter("read_time_seconds_total", "From each read's arrival to its answer, added up.", |t| {
        sum(t.reads.time)
    }),
    counter("writes_completed_total", "Writes answered, well or not; those of zeroes too.", |t| {
        Value::Whole(t.writes.requests)
    }),
    counter("written_bytes_total", "Bytes written.", |t| Value::Whole(t.writes.sectors.bytes().0)),
    counter(
        "write_time_seconds_total",
        "From each write's arrival to its answer, added up.",
        |t| sum(t.writes.time),
    ),
    gauge("io_now", "Requests that are not answered yet.", |t| Value::Whole(t.open)),
    counter("io_time_seconds_total", "Time in which there were requests.", |t| sum(t.busy)),
    counter(
        "io_time_weighted_seconds_total",
        "Time in which there were requests, times how many there were.",
        |t| sum(t.weighted),
    ),
    counter(
        "discards_completed_total",
        "Trims answered, well or not; erasures of space that is given out too.",
        |t| Value::Whole(t.discards.requests),
    ),
    counter("discarded_sectors_total", "Sectors of 512 bytes trimmed.", |t| {
        Value::Whole(t.discards.sectors.0)
    }),
    counter(
        "discard_time_seconds_total",
        "From each trim's arrival to its answer, added up.",
        |t| sum(t.discards.time),
    ),
    counter("flush_requests_total", "Flushes answered, well or not.", |t| {
        Value::Whole(t.flushes.requests)
    }),
    counter(
        "flush_requests_time_seconds_total",
        "From each flush's arrival to its answer, added up.",
        |t| sum(t.flushes.time),
    ),
    counter("estimated_total", "Clients' requests whose disk time was estimated.", |t| {
        Value::Whole(t.estimated)
    }),
    counter("estimate_error_seconds_total", "How far off these estimates were, added up.", |t| {
        sum(t.estimate_error)
    }),
    counter("failures_total", "Requests of any kind that failed.", |t| Value::Whole(t.failures)),
    counter(
        "slow_requests_total",
        "Requests that took at least as long as the config's `[log]` calls slow; none where it does not say.",
        |t| Value::Whole(t.slow),
    ),
];

const LATENCY: (&str, &str) =
    ("latency_seconds", "Clients' requests by how long each took from arrival to answer.");

/// A volume with its connections.
struct Volume {
    told: VolumeStatus,
    connections: usize,
}

const VOLUME: &[Family<Volume>] = &[
    gauge("reserve_ratio", "Its share of the disk's time that is reserved for it.", |v| {
        Value::Part(v.told.contract.reserve.as_f64())
    }),
    gauge("limit_ratio", "The most that it gets of the disk's time.", |v| {
        Value::Part(v.told.contract.limit.as_f64())
    }),
    gauge("weight", "Its part of the slack beside others.", |v| {
        Value::Whole(u64::from(v.told.contract.weight.as_u32()))
    }),
    gauge("size_bytes", "Its size.", |v| Value::Whole(v.told.size.0)),
    gauge("connections", "Clients' connections.", |v| Value::Whole(v.connections as u64)),
    counter("disk_time_seconds_total", "Time of the disk that it was charged.", |v| {
        charged(v.told.account.disk_time)
    }),
    counter(
        "slack_seconds_total",
        "Of the time charged, what came out of the slack: nobody else's reserve was waiting for it.",
        |v| charged(v.told.slack),
    ),
    counter(
        "lingered_seconds_total",
        "Of the time charged, what the disk was kept waiting for its next request.",
        |v| charged(v.told.account.anticipation),
    ),
    counter("deadlines_met_total", "Blocks of its streams that were answered in time.", |v| {
        Value::Whole(v.told.kept.met)
    }),
    counter("deadlines_missed_total", "Blocks of its streams that were answered late.", |v| {
        Value::Whole(v.told.kept.missed)
    }),
    gauge(
        "deadline_lateness_max_seconds",
        "The latest answer to a block after its deadline.",
        |v| Value::Part(v.told.kept.max_lateness.as_secs_f64()),
    ),
];

/// Where its policy keeps such books.
const BALANCE: (&str, &str) =
    ("balance_seconds", "What it has saved up of its reserve, or owes where negative.");

/// Where its policy keeps deadlines.
const STREAM_SLACK: (&str, &str) = (
    "stream_slack_seconds",
    "Disk time that what is promised by deadlines leaves to best effort at any moment (ΔL); told where deadlines are kept.",
);

/// A disk with what is promised of it.
struct Disk {
    told: DiskStatus,
    reserved: f64,
    volumes: usize,
}

const DISK: &[Family<Disk>] = &[
    gauge("reserved_ratio", "The share of its time that its volumes have reserved.", |d| {
        Value::Part(d.reserved)
    }),
    gauge("volumes", "Volumes on it.", |d| Value::Whole(d.volumes as u64)),
    gauge("recorded", "Whether what its engine decides goes into a flight record: 1 or 0.", |d| {
        Value::Whole(u64::from(d.told.recorded))
    }),
    counter("uptime_seconds_total", "Time since the daemon started.", |d| {
        time(d.told.at.since(units::Instant::ZERO))
    }),
    counter("charged_seconds_total", "Time that was charged to its volumes.", |d| {
        charged(d.told.busy)
    }),
    counter(
        "slack_seconds_total",
        "Of the time charged, what came out of the slack: nobody else's reserve was waiting for it.",
        |d| charged(d.told.slack),
    ),
    gauge(
        "well",
        "Whether it is good for everything: 0 once a flush failed, or it is gone.",
        |d| Value::Whole(u64::from(d.told.health.state == DiskState::Healthy)),
    ),
    counter("command_failures_total", "Commands that failed at the disk.", |d| {
        Value::Whole(d.told.health.read_failures + d.told.health.write_failures)
    }),
    counter("commands_refused_total", "Commands that it was not given, for its state.", |d| {
        Value::Whole(d.told.health.refused)
    }),
    gauge("oldest_command_seconds", "How long its oldest command has been under way.", |d| {
        time(d.told.health.oldest.map_or(units::Duration::ZERO, |(_, age)| age))
    }),
];

/// By `kind`.
const TIME: (&str, &str) = (
    "time_seconds_total",
    "What its time went into: idle, and of an emulated drive with an arm overhead, seek, rotation and transfer.",
);

const EXECUTED: &[Family<PreemptionStats>] = &[
    counter("jit_seeks_total", "Times that the arm's arrival was foretold and waited for.", |e| {
        Value::Whole(e.jit_transfers)
    }),
    counter("jit_seeks_missed_total", "Of these, times that it came late.", |e| {
        Value::Whole(e.missed)
    }),
    counter("jit_seeks_distrusted_total", "Times that just-in-time seeks were given up.", |e| {
        Value::Whole(e.jit_disabled_count)
    }),
    gauge("jit_seeks_trusted", "Whether just-in-time seeks are on now: 1 or 0.", |e| {
        Value::Whole(u64::from(e.jit_enabled))
    }),
    counter("split_seeks_total", "Movements of the arm that were made in several parts.", |e| {
        Value::Whole(e.split_seeks)
    }),
    counter("seek_commands_total", "Seek commands.", |e| Value::Whole(e.seek_commands)),
    counter("preempted_total", "Requests that one of a higher class cut into.", |e| {
        Value::Whole(e.preemptions)
    }),
    counter("prefetched_bytes_total", "Bytes read while waiting for the disk to turn.", |e| {
        Value::Whole(e.prefetched.bytes().0)
    }),
    counter(
        "rotation_slack_seconds_total",
        "Idle time made by waiting for the disk to turn.",
        |e| charged(e.rotational_wait),
    ),
];

const DISK_PREFIX: &str = "spindle_disk_";
const POOL: &[Family<PoolView>] = &[
    gauge("size_bytes", "What its disks hold for volumes.", |p| Value::Whole(p.size.0)),
    gauge("free_bytes", "What of that no volume has.", |p| Value::Whole(p.free.0)),
    gauge("promised_bytes", "What thin volumes may yet ask for.", |p| Value::Whole(p.promised.0)),
    gauge("alarm", "Whether more is in use than its level of alarm.", |p| {
        Value::Whole(p.alarm.into())
    }),
    gauge("writable", "Whether all of its disks are there and well.", |p| {
        Value::Whole(p.writable.into())
    }),
    gauge("moving_bytes", "What is still to be moved to where it is to lie.", |p| {
        let moving = p.volumes.iter().filter_map(|volume| volume.moving.as_ref());
        Value::Whole(moving.map(|one| one.left.0).sum())
    }),
];
const VOLUME_PREFIX: &str = "spindle_volume_";
const POOL_PREFIX: &str = "spindle_pool_";
const POOL_LABELS: &[&str] = &["pool"];
const DISK_LABELS: &[&str] = &["device"];
const VOLUME_LABELS: &[&str] = &["device", "disk"];

/// Every metric that there is, in the order in which they are told.
pub fn metrics() -> Vec<Metric> {
    let mut all = Vec::new();
    list(&mut all, DISK_PREFIX, DISK_LABELS, TRAFFIC);
    one(&mut all, DISK_PREFIX, MetricKind::Histogram, &["device", "le"], LATENCY);
    list(&mut all, DISK_PREFIX, DISK_LABELS, DISK);
    one(&mut all, DISK_PREFIX, MetricKind::Gauge, DISK_LABELS, STREAM_SLACK);
    one(&mut all, DISK_PREFIX, MetricKind::Counter, &["device", "kind"], TIME);
    list(&mut all, DISK_PREFIX, DISK_LABELS, EXECUTED);
    list(&mut all, VOLUME_PREFIX, VOLUME_LABELS, TRAFFIC);
    one(&mut all, VOLUME_PREFIX, MetricKind::Histogram, &["device", "disk", "le"], LATENCY);
    list(&mut all, VOLUME_PREFIX, VOLUME_LABELS, VOLUME);
    one(&mut all, VOLUME_PREFIX, MetricKind::Gauge, VOLUME_LABELS, BALANCE);
    list(&mut all, POOL_PREFIX, POOL_LABELS, POOL);
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

/// The text for what `operator` runs.
pub(crate) fn text(operator: &Operator) -> String {
    render(operator.accounts(), &operator.connections(), operator.pool())
}

/// A thing, with its labels as they are written, without braces.
type Labelled<T> = (String, T);

fn render(
    status: Status,
    connections: &BTreeMap<ExportId, usize>,
    pool: Option<PoolView>,
) -> String {
    let mut promised = vec![(Share::NONE, 0); status.disks.len()];
    for volume in &status.volumes {
        for disk in &volume.disks {
            let (reserved, volumes) = &mut promised[disk.0];
            let more = reserved.checked_add(volume.contract.reserve);
            *reserved = more.unwrap_or(Share::ALL);
            *volumes += 1;
        }
    }
    let names: Vec<String> = status.disks.iter().map(|disk| escaped(&disk.name)).collect();
    let disks = status.disks.into_iter().zip(promised).zip(&names);
    let disks = disks.map(|((told, (reserved, volumes)), name)| {
        (format!("device=\"{name}\""), Disk { told, reserved: reserved.as_f64(), volumes })
    });
    let disks: Vec<Labelled<Disk>> = disks.collect();
    let volumes = status.volumes.into_iter().map(|told| {
        let connections = connections.get(&told.export).copied().unwrap_or(0);
        let disks: Vec<&str> = told.disks.iter().map(|disk| names[disk.0].as_str()).collect();
        let (name, disks) = (escaped(&told.name), disks.join("+"));
        let labels = format!("device=\"{name}\",disk=\"{disks}\"");
        (labels, Volume { told, connections })
    });
    let volumes: Vec<Labelled<Volume>> = volumes.collect();
    let mut text = Text::with_capacity(disks.len(), volumes.len());
    text.families(DISK_PREFIX, TRAFFIC, &disks, |disk| Some(&disk.told.traffic));
    text.latencies(DISK_PREFIX, &disks, |disk| &disk.told.traffic.latency);
    text.families(DISK_PREFIX, DISK, &disks, |disk| Some(disk));
    text.streams(&disks);
    text.times(&disks);
    text.families(DISK_PREFIX, EXECUTED, &disks, |disk| disk.told.executed.as_ref());
    text.families(VOLUME_PREFIX, TRAFFIC, &volumes, |volume| Some(&volume.told.traffic));
    text.latencies(VOLUME_PREFIX, &volumes, |volume| &volume.told.traffic.latency);
    text.families(VOLUME_PREFIX, VOLUME, &volumes, |volume| Some(volume));
    text.balances(&volumes);
    let pools: Vec<Labelled<PoolView>> =
        pool.into_iter().map(|pool| (format!("pool=\"{}\"", pool.uid), pool)).collect();
    text.families(POOL_PREFIX, POOL, &pools, |pool| Some(pool));
    text.0
}

/// A label's value as the format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// What a thing's lines take, about: so that the text is not moved while it grows.
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
        writeln!(self.0, "{line}").expect("a string takes everything");
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
        for (labels, Disk { told, .. }) in disks {
            let mut kind = |kind: &str, value: Value| {
                self.sample(&name, &format!("{labels},kind=\"{kind}\""), &value);
            };
            kind("idle", sum(told.idle));
            if let Some(times) = &told.times {
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
        for (labels, Disk { told, .. }) in disks {
            if let Some(slack) = told.stream_slack {
                self.sample(&name, labels, &charged(slack));
            }
        }
    }

    fn balances(&mut self, volumes: &[Labelled<Volume>]) {
        let name = format!("{VOLUME_PREFIX}{}", BALANCE.0);
        self.head(&name, MetricKind::Gauge, BALANCE.1);
        for (labels, Volume { told, .. }) in volumes {
            if let Some(balance) = told.balance {
                self.sample(&name, labels, &charged(balance));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_a_label_is_escaped() {
        assert_eq!(escaped("a\"b\\c\nd"), r#"a\"b\\c\nd"#);
    }

    #[test]
    fn no_two_metrics_have_one_name_and_counters_end_as_counters_do() {
        let all = metrics();
        for (index, metric) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| other.name != metric.name), "{metric:?}");
            let counts = metric.kind == MetricKind::Counter;
            assert_eq!(metric.name.ends_with("_total"), counts, "{metric:?}");
        }
    }
}
