//! How things stand, as the daemon tells it.

use backend::{Health, IoMethod, ServiceTimes};
use engine::{Contract, DeadlineStats, PreemptionStats, RateContract, VolumeUsage};
use nbd::ExportId;
use stats::{DeclaredReport, Latency, Runs, VolumeReport};
use units::{Bytes, DiskTime, Duration, Instant};

use crate::traffic::{TimeSum, Traffic};

/// How late an emulated drive's completions were noticed: what its delays are worth. A real disk does not tell.
#[derive(Clone, Debug, Default)]
pub struct Lateness(Latency);

impl Lateness {
    pub(crate) fn record(&mut self, late: Duration) {
        self.0.record(late);
    }

    /// The lateness that this part of the completions did not exceed.
    pub fn quantile(&self, quantile: f64) -> Duration {
        self.0.quantile(quantile)
    }

    /// The latest.
    pub fn max(&self) -> Duration {
        self.0.max()
    }
}

/// How long one volume's requests took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) response: Latency,
    pub(crate) waiting: Latency,
}

/// One volume, as its disk's thread sees it.
#[derive(Clone, Debug)]
pub(crate) struct VolumeView {
    pub(crate) contract: Contract,
    pub(crate) account: VolumeUsage,
    pub(crate) balance: Option<DiskTime>,
    pub(crate) slack: DiskTime,
    pub(crate) latencies: Latencies,
    pub(crate) traffic: Traffic,
    pub(crate) error: Latency,
    pub(crate) runs: Runs,
    pub(crate) declared: Option<RateContract>,
    pub(crate) kept: DeadlineStats,
}

impl VolumeView {
    /// The same volume on another disk too. What is promised is that of the first; what has happened adds up.
    pub(crate) fn beside(mut self, other: &Self) -> Self {
        let (mine, more) = (&mut self.account, other.account);
        mine.disk_time += more.disk_time;
        mine.anticipation += more.anticipation;
        mine.requests += more.requests;
        mine.failures += more.failures;
        mine.sectors += more.sectors;
        mine.last_reply = mine.last_reply.max(more.last_reply);
        self.balance = self.balance.zip(other.balance).map(|(one, two)| one + two);
        self.slack += other.slack;
        self.latencies.response.add(&other.latencies.response);
        self.latencies.waiting.add(&other.latencies.waiting);
        self.error.add(&other.error);
        self.traffic = self.traffic.beside(&other.traffic);
        self.kept.met += other.kept.met;
        self.kept.missed += other.kept.missed;
        self.kept.max_lateness = self.kept.max_lateness.max(other.kept.max_lateness);
        self
    }
}

/// One disk, as its thread sees it.
#[derive(Clone, Debug)]
pub(crate) struct DiskView {
    pub(crate) at: Instant,
    pub(crate) busy: DiskTime,
    pub(crate) slack: DiskTime,
    pub(crate) lateness: Lateness,
    pub(crate) traffic: Traffic,
    pub(crate) idle: TimeSum,
    pub(crate) times: Option<ServiceTimes>,
    pub(crate) health: Health,
    pub(crate) access: Option<IoMethod>,
    pub(crate) executed: Option<PreemptionStats>,
    pub(crate) stream_slack: Option<DiskTime>,
    pub(crate) recorded: bool,
    /// In no order that means anything.
    pub(crate) volumes: Vec<(ExportId, VolumeView)>,
}

/// One disk.
#[derive(Clone, Debug)]
pub struct DiskStatus {
    /// As in the config.
    pub name: String,
    /// When it was asked.
    pub at: Instant,
    /// How long it has had work.
    pub busy: DiskTime,
    /// Of that, what came out of the slack: nobody else's reserve was waiting for it.
    pub slack: DiskTime,
    /// How late its completions were noticed.
    pub lateness: Lateness,
    /// What has been asked of it.
    pub traffic: Traffic,
    /// Time in which it held no command.
    pub idle: TimeSum,
    /// What its commands' time went into; `None` of a drive that does not tell, or has no arm.
    pub times: Option<ServiceTimes>,
    /// What has failed and what hangs.
    pub health: Health,
    /// How a real disk's commands get to the kernel.
    pub access: Option<IoMethod>,
    /// What preemptible execution has done; `None` if requests are executed whole.
    pub executed: Option<PreemptionStats>,
    /// The disk time that what is promised by deadlines leaves to best effort at any moment (ΔL of RTAS 2000); `None` where
    /// deadlines are not kept.
    pub stream_slack: Option<DiskTime>,
    /// Whether what its engine is told and decides goes into a flight record.
    pub recorded: bool,
}

/// One volume.
#[derive(Clone, Debug)]
pub struct VolumeStatus {
    /// Its number, which no other volume of this run has or had.
    pub export: ExportId,
    /// As in the config.
    pub name: String,
    /// What clients see of it.
    pub size: Bytes,
    /// The disks that it lies on, by their places among [`Status::disks`]; at least one. Of a volume of a pool what is
    /// counted adds up over them, in the disks' commands: a request that lies on two is two.
    pub disks: Vec<usize>,
    /// What it is promised.
    pub contract: Contract,
    /// What it has had.
    pub account: VolumeUsage,
    /// What it has saved up of its reserve, or owes if negative; `None` where its policy keeps no such books.
    pub balance: Option<DiskTime>,
    /// Of the disk time that it has had, what came out of the slack.
    pub slack: DiskTime,
    /// From a request's arrival at the disk's thread to its answer.
    pub latency: Latency,
    /// From a request's arrival at the disk's thread to its first command.
    pub waiting: Latency,
    /// What has been asked of it.
    pub traffic: Traffic,
    /// How far off the estimates of its requests were.
    pub error: Latency,
    /// The runs that its requests came in.
    pub runs: Runs,
    /// What its reserve was worked out from, if from a rate.
    pub declared: Option<RateContract>,
    /// What became of the deadlines of its streams.
    pub kept: DeadlineStats,
}

/// Everything: disks in the config's order, volumes in the order in which they came.
#[derive(Clone, Debug)]
pub struct Status {
    /// The disks.
    pub disks: Vec<DiskStatus>,
    /// The volumes.
    pub volumes: Vec<VolumeStatus>,
}

impl Status {
    /// The volume of this number, if it is there.
    pub fn volume(&self, export: ExportId) -> Option<&VolumeStatus> {
        let place = self.volumes.binary_search_by_key(&export, |volume| volume.export).ok()?;
        Some(&self.volumes[place])
    }
}

impl VolumeStatus {
    /// What was declared beside what was seen since `earlier`.
    pub fn declared_since(&self, earlier: Option<&Self>) -> Option<DeclaredReport> {
        let seen = earlier.map_or(self.runs, |earlier| self.runs.since(&earlier.runs));
        self.declared.map(|declared| DeclaredReport::new(&declared, &seen))
    }

    /// What happened since `earlier`, over `elapsed`, in the shape that simulation reports in. The latencies and
    /// errors are those since the daemon's start.
    ///
    /// # Panics
    /// If nothing can have happened, because no time has passed.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn report_since(&self, earlier: Option<&Self>, elapsed: Duration) -> VolumeReport {
        assert!(elapsed > Duration::ZERO, "nothing happens in no time");
        let seconds = elapsed.as_secs_f64();
        // A share of each of its disks.
        let disk_seconds = seconds * self.disks.len() as f64;
        // Who came later has had nothing before.
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
            dropped: 0,
            estimate_error_ms: self.error.error(),
            declared: self.declared_since(earlier),
        }
    }
}
