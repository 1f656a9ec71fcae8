//! What happened between two samples, and of late. Rates are over the daemon's time, not ours.

use std::collections::{BTreeMap, VecDeque};

use api::{Disk, Volume};
use serde::Serialize;
use stats::SCHEMA;
use units::Share;

/// So many looks are remembered of each disk and volume.
const LOOKS_MAX: usize = 24;
/// Two samples that are less apart, in seconds, are one.
const APART_MIN: f64 = 0.02;

/// How things stood.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) disks: Vec<Disk>,
    pub(super) volumes: Vec<Volume>,
}

/// What happened between the last two samples.
#[derive(Debug, Serialize)]
pub(super) struct Look {
    pub(super) schema: u32,
    pub(super) uptime_s: f64,
    pub(super) interval_s: f64,
    pub(super) disks: Vec<DiskLook>,
    pub(super) volumes: Vec<VolumeLook>,
}

/// One disk.
#[derive(Debug, Serialize)]
pub(super) struct DiskLook {
    pub(super) name: String,
    pub(super) drive: String,
    pub(super) busy_share: f64,
    pub(super) reserved: f64,
    pub(super) iops: f64,
    pub(super) bytes_per_s: f64,
    pub(super) in_flight: u64,
    pub(super) busy_of_late: Vec<f64>,
}

/// One volume.
#[derive(Debug, Serialize)]
pub(super) struct VolumeLook {
    pub(super) name: String,
    pub(super) disk: String,
    pub(super) share: f64,
    pub(super) reserve: f64,
    pub(super) limit: f64,
    pub(super) iops: f64,
    pub(super) bytes_per_s: f64,
    pub(super) in_flight: u64,
    /// Of the requests answered within; nothing if there were none.
    pub(super) mean_ms: Option<f64>,
    pub(super) share_of_late: Vec<f64>,
}

type Late = BTreeMap<String, VecDeque<f64>>;

/// The last two samples, and the shares before.
#[derive(Debug)]
pub(super) struct Watch {
    before: Sample,
    now: Sample,
    disks: Late,
    volumes: Late,
}

impl Watch {
    pub(super) fn new(first: Sample) -> Self {
        let (disks, volumes) = (Late::new(), Late::new());
        Self { before: first.clone(), now: first, disks, volumes }
    }

    /// Goes on to `sample`.
    pub(super) fn add(&mut self, sample: Sample) {
        let apart = sample.disks.first().zip(self.now.disks.first());
        if apart.is_some_and(|(to, from)| (to.uptime_s - from.uptime_s).abs() < APART_MIN) {
            return;
        }
        self.before = core::mem::replace(&mut self.now, sample);
        let look = self.look();
        let disks = look.disks.into_iter().map(|disk| (disk.name, disk.busy_share));
        remember(&mut self.disks, disks);
        let volumes = look.volumes.into_iter().map(|volume| (volume.name, volume.share));
        remember(&mut self.volumes, volumes);
    }

    pub(super) fn look(&self) -> Look {
        let earlier: BTreeMap<&str, &Volume> =
            self.before.volumes.iter().map(|volume| (volume.name.as_str(), volume)).collect();
        let of = |volume: &Volume| self.volume(volume, earlier.get(volume.name.as_str()).copied());
        let volumes: Vec<VolumeLook> = self.now.volumes.iter().map(of).collect();
        let disks = self.now.disks.iter().zip(&self.before.disks);
        let disks = disks.map(|(now, before)| self.disk(now, before)).collect();
        let uptime = |sample: &Sample| sample.disks.first().map_or(0.0, |disk| disk.uptime_s);
        let (uptime_s, from) = (uptime(&self.now), uptime(&self.before));
        Look { schema: SCHEMA, uptime_s, interval_s: uptime_s - from, disks, volumes }
    }

    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    fn disk(&self, now: &Disk, before: &Disk) -> DiskLook {
        let seconds = now.uptime_s - before.uptime_s;
        let since = |of: fn(&Disk) -> u64| rate((of(now) - of(before)) as f64, seconds);
        DiskLook {
            name: now.name.clone(),
            drive: now.drive.clone(),
            busy_share: rate(now.busy_s - before.busy_s, now.uptime_s - before.uptime_s),
            reserved: share(&now.reserved),
            iops: since(|disk| disk.requests),
            bytes_per_s: since(|disk| disk.bytes),
            in_flight: now.in_flight,
            busy_of_late: of_late(&self.disks, &now.name),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    fn volume(&self, now: &Volume, before: Option<&Volume>) -> VolumeLook {
        // Who came since, perhaps under the name of one that went, has had nothing before.
        let before = before.filter(|before| before.requests <= now.requests);
        let from = |of: fn(&Volume) -> f64| before.map_or(0.0, of);
        let seconds = now.told_at_s - before.map_or(self.before_at(), |before| before.told_at_s);
        let since = |of: fn(&Volume) -> f64| of(now) - from(of);
        let requests = since(|volume| volume.requests as f64);
        let mean = since(|volume| volume.request_time_s) * 1e3 / requests;
        VolumeLook {
            name: now.name.clone(),
            disk: now.disk.clone(),
            share: rate(since(|volume| volume.disk_time_s), seconds),
            reserve: share(&now.reserve),
            limit: share(&now.limit),
            iops: rate(requests, seconds),
            bytes_per_s: rate(since(|volume| volume.bytes as f64), seconds),
            in_flight: now.in_flight,
            mean_ms: (requests > 0.0).then_some(mean),
            share_of_late: of_late(&self.volumes, &now.name),
        }
    }

    fn before_at(&self) -> f64 {
        self.before.disks.first().map_or(0.0, |disk| disk.uptime_s)
    }
}

fn rate(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

/// The API gives shares as texts that can be typed back.
fn share(text: &str) -> f64 {
    text.parse::<Share>().map_or(0.0, Share::as_f64)
}

fn of_late(late: &Late, name: &str) -> Vec<f64> {
    late.get(name).into_iter().flatten().copied().collect()
}

/// Those that are gone are forgotten.
fn remember(late: &mut Late, parts: impl Iterator<Item = (String, f64)>) {
    let mut old = core::mem::take(late);
    for (name, part) in parts {
        let mut line = old.remove(&name).unwrap_or_default();
        if line.len() == LOOKS_MAX {
            line.pop_front();
        }
        line.push_back(part);
        late.insert(name, line);
    }
}
