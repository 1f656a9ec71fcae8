//! The daemon's statistics.

use backend::device::WriteCacheState;
use backend::{Health, IoMethod, ServiceTimes};
use config::DiskIndex;
use engine::{
    ChooserName, Contract, DeadlineStats, LatencyStats, PredictionStats, PreemptionStats,
    RateContract, ReadAheadUsage, SeeksAhead, VolumeUsage, WriteBufferUsage,
};
use nbd::ExportId;
use stats::{
    BoundedLatencyReport, DeclaredReport, Latency, ReadAheadReport, Runs, VolumeReport,
    WriteBufferReport,
};
use units::{Bytes, DiskTime, Duration, Instant};

use super::traffic::{TimeSum, Traffic};

/// How late an emulated drive's completions were noticed: the error of its service times. A real
/// disk reports none.
#[derive(Clone, Debug, Default)]
pub struct Lateness(Latency);

impl Lateness {
    pub(crate) fn record(&mut self, late: Duration) {
        self.0.record(late);
    }

    /// The lateness that this fraction of the completions did not exceed.
    pub fn quantile(&self, quantile: f64) -> Duration {
        self.0.quantile(quantile)
    }

    /// The largest lateness.
    pub fn max(&self) -> Duration {
        self.0.max()
    }
}

/// The latencies of one volume's requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) response: Latency,
    pub(crate) waiting: Latency,
}

/// One volume's statistics on one disk.
#[derive(Clone, Debug)]
pub(crate) struct VolumeSnapshot {
    pub(crate) contract: Contract,
    pub(crate) worth: Option<f64>,
    pub(crate) account: VolumeUsage,
    pub(crate) balance: Option<DiskTime>,
    pub(crate) slack: DiskTime,
    pub(crate) latencies: Latencies,
    pub(crate) traffic: Traffic,
    pub(crate) estimate_error: Latency,
    pub(crate) runs: Runs,
    pub(crate) declared: Option<RateContract>,
    pub(crate) kept: DeadlineStats,
    pub(crate) bounded: Option<LatencyStats>,
    pub(crate) read_ahead: ReadAheadUsage,
    pub(crate) write_buffer: WriteBufferUsage,
}

impl VolumeSnapshot {
    /// The sum of the statistics of two disks. The contract is that of the first.
    pub(crate) fn combined(mut self, other: &Self) -> Self {
        let (mine, more) = (&mut self.account, other.account);
        mine.disk_time += more.disk_time;
        mine.anticipation += more.anticipation;
        mine.requests += more.requests;
        mine.failures += more.failures;
        mine.sectors += more.sectors;
        mine.last_reply = mine.last_reply.max(more.last_reply);
        self.balance = self.balance.zip(other.balance).map(|(one, two)| one + two);
        // A request of a volume on several disks may wait for each of them.
        self.worth = None;
        self.slack += other.slack;
        self.latencies.response.add(&other.latencies.response);
        self.latencies.waiting.add(&other.latencies.waiting);
        self.estimate_error.add(&other.estimate_error);
        self.traffic = self.traffic.combined(&other.traffic);
        self.kept.met += other.kept.met;
        self.kept.missed += other.kept.missed;
        self.kept.bytes += other.kept.bytes;
        self.kept.max_lateness = self.kept.max_lateness.max(other.kept.max_lateness);
        let both = self.bounded.zip(other.bounded).map(|(one, two)| one.merged(&two));
        self.bounded = both.or(self.bounded).or(other.bounded);
        self.read_ahead = self.read_ahead + other.read_ahead;
        self.write_buffer = self.write_buffer + other.write_buffer;
        self
    }
}

/// One disk's statistics.
#[derive(Clone, Debug)]
pub(crate) struct DiskSnapshot {
    pub(crate) at: Instant,
    pub(crate) busy: DiskTime,
    pub(crate) slack: DiskTime,
    pub(crate) lateness: Lateness,
    pub(crate) traffic: Traffic,
    pub(crate) idle: TimeSum,
    pub(crate) times: Option<ServiceTimes>,
    pub(crate) health: Health,
    pub(crate) access: Option<IoMethod>,
    pub(crate) write_cache: Option<WriteCacheState>,
    pub(crate) executed: Option<PreemptionStats>,
    pub(crate) seeks_ahead: Option<SeeksAhead>,
    pub(crate) stream_slack: Option<DiskTime>,
    pub(crate) recorded: bool,
    pub(crate) chooser: (ChooserName, Option<PredictionStats>),
    pub(crate) read_ahead: Option<ReadAheadStatus>,
    pub(crate) write_buffer: Option<WriteBufferStatus>,
    /// By the volumes' numbers on the disk, which mean nothing elsewhere.
    pub(crate) volumes: Vec<(ExportId, VolumeSnapshot)>,
}

/// One disk.
#[derive(Clone, Debug)]
pub struct DiskStatus {
    /// Its name in the config.
    pub name: String,
    /// When the statistics were taken.
    pub at: Instant,
    /// The time in which it had work.
    pub busy: DiskTime,
    /// Of that, the time that came out of the slack: no other volume's reserve was due.
    pub slack: DiskTime,
    /// How late its completions were noticed.
    pub lateness: Lateness,
    /// Its requests.
    pub traffic: Traffic,
    /// The time without a command in flight.
    pub idle: TimeSum,
    /// The parts of its commands' service times; `None` for a drive that does not report them, or
    /// has no arm.
    pub times: Option<ServiceTimes>,
    /// Its state, its failures and its oldest command.
    pub health: Health,
    /// How a real disk's commands are passed to the kernel.
    pub access: Option<IoMethod>,
    /// How writes get past the drive's write cache, of a device of this machine.
    pub write_cache: Option<WriteCacheState>,
    /// The counters of preemptible execution; `None` if requests are executed whole.
    pub executed: Option<PreemptionStats>,
    /// How preemptible execution moves the arm ahead of transfers; `None` if requests are executed
    /// whole, or the drive has no arm.
    pub seeks_ahead: Option<SeeksAhead>,
    /// The disk time that streams leave to best effort at any instant (ΔL, Clockwise, RTAS 2000);
    /// `None` if the policy keeps no deadlines.
    pub stream_slack: Option<DiskTime>,
    /// Whether its engine's inputs and decisions go into a flight record.
    pub recorded: bool,
    /// Which of a volume's requests goes next, and its predictions, if it makes any.
    pub chooser: (ChooserName, Option<PredictionStats>),
    /// Its read-ahead in the host; `None` if it is off.
    pub read_ahead: Option<ReadAheadStatus>,
    /// Its write buffers in the host; `None` if it has none.
    pub write_buffer: Option<WriteBufferStatus>,
}

/// The write buffers of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBufferStatus {
    /// The most memory that may be in use.
    pub memory: Bytes,
    /// What they have done for all volumes, removed ones included.
    pub usage: WriteBufferUsage,
}

/// The read-ahead of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAheadStatus {
    /// The most memory that may be in use.
    pub memory: Bytes,
    /// The memory in use, with what requests in flight will fill.
    pub used: Bytes,
    /// What it has done for all volumes, removed ones included.
    pub usage: ReadAheadUsage,
}

/// One volume.
#[derive(Clone, Debug)]
pub struct VolumeStatus {
    /// Its export number, which no other volume of this run has or had.
    pub export: ExportId,
    /// Its name in the config.
    pub name: String,
    /// Its size as clients see it.
    pub size: Bytes,
    /// The disks that it lies on, at least one. The counts of a pool's volume are sums over its
    /// disks: a request that lies on two disks counts twice.
    pub disks: Vec<DiskIndex>,
    /// Its contract.
    pub contract: Contract,
    /// The disk time and the requests that it has received.
    pub account: VolumeUsage,
    /// The balance of its reserve, negative if overdrawn; `None` if the policy has no balances.
    pub balance: Option<DiskTime>,
    /// The estimated worth of its reserve over the last 10 to 20 s; `None` without a reserve, with
    /// too few requests, on several disks, or under a policy that does not tell.
    pub worth: Option<f64>,
    /// Of its disk time, the time that came out of the slack.
    pub slack: DiskTime,
    /// Times from a request's arrival at the disk's thread to its reply.
    pub latency: Latency,
    /// Times from a request's arrival at the disk's thread to its first command.
    pub waiting: Latency,
    /// Its requests.
    pub traffic: Traffic,
    /// The errors of the estimates of its requests' disk times.
    pub error: Latency,
    /// The sequential runs of its requests.
    pub runs: Runs,
    /// The rate from which its reserve was derived, if it was derived from one.
    pub declared: Option<RateContract>,
    /// The deadlines of its streams that were met and missed.
    pub kept: DeadlineStats,
    /// The requests of its bounded latency, if it has one.
    pub bounded: Option<LatencyStats>,
    /// What was read ahead for it.
    pub read_ahead: ReadAheadUsage,
    /// What went through its write buffer.
    pub write_buffer: WriteBufferUsage,
}

/// The statistics of all disks, in the config's order, and of all volumes, in the order of their
/// creation.
#[derive(Clone, Debug)]
pub struct Status {
    /// The disks.
    pub disks: Vec<DiskStatus>,
    /// The volumes.
    pub volumes: Vec<VolumeStatus>,
}

impl DiskStatus {
    /// A disk of this name, and its volumes.
    pub(crate) fn new(
        name: String,
        snapshot: DiskSnapshot,
    ) -> (Self, Vec<(ExportId, VolumeSnapshot)>) {
        let DiskSnapshot { at, busy, slack, lateness, traffic, idle, times, .. } = snapshot;
        let DiskSnapshot { health, access, write_cache, executed, seeks_ahead, .. } = snapshot;
        let DiskSnapshot { stream_slack, recorded, .. } = snapshot;
        let DiskSnapshot { read_ahead, write_buffer, chooser, .. } = snapshot;
        let status = Self {
            name,
            at,
            busy,
            slack,
            lateness,
            traffic,
            idle,
            times,
            health,
            access,
            write_cache,
            executed,
            seeks_ahead,
            stream_slack,
            recorded,
            chooser,
            read_ahead,
            write_buffer,
        };
        (status, snapshot.volumes)
    }
}

impl Status {
    /// The volume of this export number, if it is there.
    pub fn volume(&self, export: ExportId) -> Option<&VolumeStatus> {
        let place = self.volumes.binary_search_by_key(&export, |volume| volume.export).ok()?;
        Some(&self.volumes[place])
    }
}

impl VolumeStatus {
    /// A volume on these disks, with the sum of its statistics there.
    pub(crate) fn new(
        (export, name, size): (ExportId, String, Bytes),
        disks: Vec<DiskIndex>,
        sum: VolumeSnapshot,
    ) -> Self {
        assert!(!disks.is_empty(), "a volume lies on at least one disk");
        Self {
            export,
            name,
            size,
            disks,
            contract: sum.contract,
            account: sum.account,
            balance: sum.balance,
            worth: sum.worth,
            slack: sum.slack,
            latency: sum.latencies.response,
            waiting: sum.latencies.waiting,
            traffic: sum.traffic,
            error: sum.estimate_error,
            runs: sum.runs,
            declared: sum.declared,
            kept: sum.kept,
            bounded: sum.bounded,
            read_ahead: sum.read_ahead,
            write_buffer: sum.write_buffer,
        }
    }

    /// The declared rate, compared with the requests since `earlier`.
    pub fn declared_since(&self, earlier: Option<&Self>) -> Option<DeclaredReport> {
        let seen = earlier.map_or(self.runs, |earlier| self.runs.since(&earlier.runs));
        self.declared.map(|declared| DeclaredReport::new(&declared, &seen))
    }

    /// What was read ahead since `earlier`.
    fn read_ahead_since(&self, earlier: Option<&Self>) -> ReadAheadUsage {
        let before = earlier.map_or_else(ReadAheadUsage::default, |earlier| earlier.read_ahead);
        self.read_ahead.since(&before)
    }

    /// What went through its write buffer since `earlier`.
    fn write_buffer_since(&self, earlier: Option<&Self>) -> WriteBufferUsage {
        earlier.map_or(self.write_buffer, |earlier| self.write_buffer.since(&earlier.write_buffer))
    }

    /// A report on the time since `earlier`, of length `elapsed`, in the format of simulations. The
    /// latencies and errors are those since the daemon's start.
    ///
    /// # Panics
    /// If no time has passed.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn report_since(&self, earlier: Option<&Self>, elapsed: Duration) -> VolumeReport {
        assert!(elapsed > Duration::ZERO, "a report covers a time span");
        let seconds = elapsed.as_secs_f64();
        // The share of all its disks' time.
        let disk_seconds = seconds * self.disks.len() as f64;
        // A volume made since then had no account before.
        let before = earlier.map_or_else(VolumeUsage::default, |earlier| earlier.account);
        let disk_time = self.account.disk_time - before.disk_time;
        let bytes = Bytes(self.account.sectors.bytes().0 - before.sectors.bytes().0);
        let requests = self.account.requests - before.requests;
        VolumeReport {
            name: self.name.clone(),
            reserve: self.contract.reserve.as_f64(),
            limit: self.contract.limit.as_f64(),
            disk_time_share: disk_time.as_secs_f64() / disk_seconds,
            requests,
            bytes: bytes.0,
            iops: requests as f64 / seconds,
            bytes_per_s: bytes.0 as f64 / seconds,
            latency_ms: self.latency.millis(),
            waiting_ms: self.waiting.millis(),
            deadline_misses: self.kept.missed - earlier.map_or(0, |earlier| earlier.kept.missed),
            deadlines: (self.kept != DeadlineStats::default()).then(|| self.kept.into()),
            bounded_latency: self.bounded.map(BoundedLatencyReport::from),
            dropped: 0,
            estimate_error_ms: self.error.error(),
            declared: self.declared_since(earlier),
            worth: None,
            read_ahead: ReadAheadReport::of(self.read_ahead_since(earlier)),
            write_buffer: WriteBufferReport::of(&self.write_buffer_since(earlier)),
        }
    }
}
