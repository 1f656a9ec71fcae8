//! The interval between the last two samples of a daemon, and the shares of the intervals before:
//! what `spindle top` shows, and a frame of the event stream. Rates are over the daemon's time, not
//! that of the process that computes them.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stats::SCHEMA;
use units::Share;
use utoipa::ToSchema;

use crate::resources::contract::ContractKind;
use crate::resources::disk::Disk;
use crate::resources::volume::Volume;

/// Intervals that are kept of each disk and volume.
const INTERVALS_MAX: usize = 24;
/// Samples that are less than this apart, in seconds, are one.
const INTERVAL_MIN_S: f64 = 0.02;

/// The state of all disks and volumes at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// In the config's order.
    pub disks: Vec<Disk>,
    /// In the order of their creation.
    pub volumes: Vec<Volume>,
}

/// The interval between the last two samples, in the shape of `spindle top --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Window {
    /// The version of the schema.
    pub schema: u32,
    /// The end of the interval, in seconds since the daemon's start.
    pub uptime_s: f64,
    /// Its length.
    pub interval_s: f64,
    /// In the config's order.
    pub disks: Vec<DiskWindow>,
    /// In the order of their creation.
    pub volumes: Vec<VolumeWindow>,
}

/// One disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DiskWindow {
    /// Its name.
    pub name: String,
    /// The name of its drive model.
    pub drive: String,
    /// The part of the interval in which it was busy.
    pub busy_share: f64,
    /// The reserved share of its time.
    pub reserved: f64,
    /// The share that streams reserve.
    pub reserved_by_streams: f64,
    /// The largest reserve that is left.
    pub left: f64,
    /// Answered requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Requests in progress.
    pub in_flight: u64,
    /// The busy parts of the intervals before.
    pub busy_history: Vec<f64>,
    /// The old name of `busy_history`, for one version.
    pub busy_of_late: Vec<f64>,
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeWindow {
    /// Its name.
    pub name: String,
    /// Its disk, or its disks, separated by `+`.
    pub disk: String,
    /// Its contract in words.
    pub contract: String,
    /// What it is guaranteed.
    pub kind: ContractKind,
    /// Its share of the disk's time in the interval.
    pub share: f64,
    /// Its reserve.
    pub reserve: f64,
    /// The share that its stream reserves beside it: the worst case of a block in each period.
    #[serde(default)]
    pub reserved_by_stream: f64,
    /// Its limit.
    pub limit: f64,
    /// Answered requests a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Requests in progress.
    pub in_flight: u64,
    /// The connections by transport, in words.
    #[serde(skip)]
    pub clients: String,
    /// The connections by transport.
    #[serde(default)]
    pub transports: BTreeMap<String, usize>,
    /// The mean latency of the requests answered in the interval; `None` without requests.
    pub mean_ms: Option<f64>,
    /// The balance of the reserve; `None` if the policy keeps none.
    pub balance_s: Option<f64>,
    /// The estimated worth of its reserve over the last 10 to 20 s.
    pub worth: Option<f64>,
    /// The deadlines met in the interval; `None` without a stream or a bounded latency.
    pub deadlines_met: Option<u64>,
    /// Those missed.
    pub deadlines_missed: Option<u64>,
    /// The bytes of a stream in the interval that were late.
    pub late_bytes: Option<u64>,
    /// Those beyond the contract.
    pub beyond_bytes: Option<u64>,
    /// The requests in the interval beyond a bounded latency.
    pub beyond_requests: Option<u64>,
    /// The least time that an answer has left to its deadline since the daemon's start.
    pub closest_ms: Option<f64>,
    /// Its shares in the intervals before.
    pub share_history: Vec<f64>,
    /// The old name of `share_history`, for one version.
    pub share_of_late: Vec<f64>,
}

impl Window {
    /// The interval as JSON.
    pub(crate) fn fields(&self) -> Value {
        serde_json::to_value(self).expect("the API's shapes are JSON")
    }

    /// The interval as JSON, without the shares of those before.
    pub(crate) fn fields_without_history(mut self) -> Value {
        for disk in &mut self.disks {
            disk.busy_history.clear();
            disk.busy_of_late.clear();
        }
        for volume in &mut self.volumes {
            volume.share_history.clear();
            volume.share_of_late.clear();
        }
        let mut fields = self.fields();
        for key in ["disks", "volumes"] {
            for one in fields[key].as_array_mut().into_iter().flatten() {
                let Value::Object(one) = one else { continue };
                one.retain(|name, _| !name.ends_with("_history") && !name.ends_with("_of_late"));
            }
        }
        fields
    }
}

/// The last shares of each disk or volume, by its name.
type Shares = BTreeMap<String, VecDeque<f64>>;

/// The last two samples, and the shares of the intervals before.
#[derive(Debug)]
pub struct History {
    before: Sample,
    now: Sample,
    disks: Shares,
    volumes: Shares,
}

impl History {
    /// A history that begins with this sample.
    pub fn new(first: Sample) -> Self {
        let (disks, volumes) = (Shares::new(), Shares::new());
        Self { before: first.clone(), now: first, disks, volumes }
    }

    /// Ends the interval with `sample`, and begins the next.
    pub fn add(&mut self, sample: Sample) {
        let apart = sample.disks.first().zip(self.now.disks.first());
        if apart.is_some_and(|(to, from)| (to.uptime_s - from.uptime_s).abs() < INTERVAL_MIN_S) {
            return;
        }
        self.before = core::mem::replace(&mut self.now, sample);
        let interval = self.interval();
        let disks = interval.disks.into_iter().map(|disk| (disk.name, disk.busy_share));
        append(&mut self.disks, disks);
        let volumes = interval.volumes.into_iter().map(|volume| (volume.name, volume.share));
        append(&mut self.volumes, volumes);
    }

    /// The interval between the last two samples.
    pub fn interval(&self) -> Window {
        let earlier: BTreeMap<&str, &Volume> =
            self.before.volumes.iter().map(|volume| (volume.name.as_str(), volume)).collect();
        let of = |volume: &Volume| self.volume(volume, earlier.get(volume.name.as_str()).copied());
        let volumes: Vec<VolumeWindow> = self.now.volumes.iter().map(of).collect();
        let disks = self.now.disks.iter().zip(&self.before.disks);
        let disks = disks.map(|(now, before)| self.disk(now, before)).collect();
        let uptime = |sample: &Sample| sample.disks.first().map_or(0.0, |disk| disk.uptime_s);
        let (uptime_s, from) = (uptime(&self.now), uptime(&self.before));
        Window { schema: SCHEMA, uptime_s, interval_s: uptime_s - from, disks, volumes }
    }

    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    fn disk(&self, now: &Disk, before: &Disk) -> DiskWindow {
        let seconds = now.uptime_s - before.uptime_s;
        let since = |of: fn(&Disk) -> u64| rate((of(now) - of(before)) as f64, seconds);
        DiskWindow {
            name: now.name.clone(),
            drive: now.drive.clone(),
            busy_share: rate(now.busy_s - before.busy_s, now.uptime_s - before.uptime_s),
            reserved: share(&now.reserved),
            reserved_by_streams: now.reserved_by_streams.as_deref().map_or(0.0, share),
            left: share(&now.left),
            iops: since(|disk| disk.requests),
            bytes_per_s: since(|disk| disk.bytes),
            in_flight: now.in_flight,
            busy_history: shares(&self.disks, &now.name),
            busy_of_late: shares(&self.disks, &now.name),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    fn volume(&self, now: &Volume, before: Option<&Volume>) -> VolumeWindow {
        // A volume that was created since, perhaps with the name of a removed one, begins at zero.
        let before = before.filter(|before| before.requests <= now.requests);
        let from = |of: fn(&Volume) -> f64| before.map_or(0.0, of);
        let seconds = now.told_at_s - before.map_or(self.before_at(), |before| before.told_at_s);
        let since = |of: fn(&Volume) -> f64| of(now) - from(of);
        let requests = since(|volume| volume.requests as f64);
        let mean = since(|volume| volume.request_time_s) * 1e3 / requests;
        let counted = |of: fn(&Volume) -> Option<u64>| {
            of(now).map(|count| count.saturating_sub(before.and_then(of).unwrap_or(0)))
        };
        let closest_of_stream = now.stream.as_ref().and_then(|stream| stream.bytes?.closest_ms);
        let stream_share = now.stream.as_ref().and_then(|stream| stream.utilization);
        let closest = now.latency.as_ref().and_then(|latency| latency.closest_ms);
        VolumeWindow {
            name: now.name.clone(),
            disk: now.disk.clone(),
            contract: now.contract(),
            kind: now.kind(),
            share: rate(since(|volume| volume.disk_time_s), seconds),
            reserve: share(&now.reserve),
            reserved_by_stream: stream_share.unwrap_or(0.0),
            limit: share(&now.limit),
            iops: rate(requests, seconds),
            bytes_per_s: rate(since(|volume| volume.bytes as f64), seconds),
            in_flight: now.in_flight,
            clients: now.clients(),
            transports: now.transports.clone(),
            mean_ms: (requests > 0.0).then_some(mean),
            balance_s: now.balance_s,
            worth: now.worth,
            deadlines_met: counted(|volume| volume.deadlines().map(|(met, _)| met)),
            deadlines_missed: counted(|volume| volume.deadlines().map(|(_, missed)| missed)),
            late_bytes: counted(|volume| Some(volume.stream.as_ref()?.bytes?.missed)),
            beyond_bytes: counted(|volume| Some(volume.stream.as_ref()?.bytes?.beyond())),
            beyond_requests: counted(|volume| Some(volume.latency.as_ref()?.beyond)),
            closest_ms: closest.or(closest_of_stream),
            share_history: shares(&self.volumes, &now.name),
            share_of_late: shares(&self.volumes, &now.name),
        }
    }

    fn before_at(&self) -> f64 {
        self.before.disks.first().map_or(0.0, |disk| disk.uptime_s)
    }
}

fn rate(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

/// The number of a share, which the API gives as text.
fn share(text: &str) -> f64 {
    text.parse::<Share>().map_or(0.0, Share::as_f64)
}

fn shares(all: &Shares, name: &str) -> Vec<f64> {
    all.get(name).into_iter().flatten().copied().collect()
}

/// Appends a share for each name. The shares of all other names are dropped.
fn append(all: &mut Shares, parts: impl Iterator<Item = (String, f64)>) {
    let mut old = core::mem::take(all);
    for (name, part) in parts {
        let mut line = old.remove(&name).unwrap_or_default();
        if line.len() == INTERVALS_MAX {
            line.pop_front();
        }
        line.push_back(part);
        all.insert(name, line);
    }
}
