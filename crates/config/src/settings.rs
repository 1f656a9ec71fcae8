//! From a config's disk to its engine's settings: the same for a simulation and for the daemon.

use std::sync::Arc;

use drive::Model;
use engine::{
    Deadlines, DriveTable, Engine, Estimates, EstimatorName, Mechanics, Profile, Settings,
    TABLE_POINTS,
};
use units::{DiskTime, Instant, Lba, Sectors};

use crate::{Disk, profile};

impl Disk {
    /// How an engine is to schedule this disk.
    pub fn settings(&self) -> Settings {
        Settings {
            policy: self.policy,
            depth: self.depth,
            period: self.period,
            batch: self.batch,
            linger: self.linger,
            estimates: Estimates {
                sequential: self.estimate_sequential.into(),
                random: self.estimate_random.into(),
                by: self.estimate,
                table: self
                    .drive
                    .model
                    .mechanical()
                    .filter(|_| self.estimate == EstimatorName::Profile)
                    .map(|model| drive_table(model)),
            },
            execution: self.execution,
            nominal: self.nominal.interval.into(),
            unreserved: self.unreserved,
            deadlines: self.deadlines(),
            ..Settings::default()
        }
    }

    fn deadlines(&self) -> Deadlines {
        let (slack_range, best_effort) = (self.slack_range, self.best_effort);
        Deadlines { slack_range, best_effort, ..Deadlines::default() }
    }

    /// An engine for this disk, idle and without volumes, with the profile that is assumed of its drive where requests
    /// are to be preemptible.
    pub fn engine(&self, now: Instant) -> Engine {
        self.engine_knowing(now, |profile| profile)
    }

    /// The same for a disk in real time, where a processor is between a command's end and the next one's beginning.
    pub fn engine_on_host(&self, now: Instant) -> Engine {
        self.engine_knowing(now, profile::on_host)
    }

    fn engine_knowing(&self, now: Instant, adapt: fn(Profile) -> Profile) -> Engine {
        let engine = Engine::new(self.settings(), now);
        if let Some(profile) = self.profile().filter(|_| self.policy.keeps_deadlines()) {
            return engine.with_profile(Arc::new(adapt(profile)));
        }
        match self.drive.model.mechanical() {
            Some(model) if self.execution.preemptible().is_some() => {
                engine.with_profile(Arc::new(adapt(profile::assumed(model))))
            }
            _ => engine,
        }
    }
}

impl Disk {
    /// What a promise of a rate is worked out from (RTAS 2008 §2.4); nothing for a drive without an arm.
    pub fn mechanics(&self) -> Option<Mechanics> {
        let model = self.drive.model.mechanical()?;
        let overheads = model.spec().overheads;
        // Tracks are shortest at the inside, and what is lost between two of them is the skew.
        let slowest = model.spec().zones.iter().map(|zone| {
            let (sectors, skew) = (u64::from(zone.sectors_per_track), u64::from(zone.track_skew));
            model.period() * (sectors + skew) / (sectors * sectors)
        });
        let sector = slowest.max().expect("a drive has zones").max(model.spec().bus_sector);
        Some(Mechanics {
            seek_max: model.full_stroke(),
            period: model.period(),
            overhead: overheads.read_miss,
            hit: overheads.read_hit,
            sector,
        })
    }
}

/// What the drive's own file says it takes, as a table for the estimator.
fn drive_table(model: &Model) -> DriveTable {
    let (capacity, cylinders) = (model.capacity().0, u64::from(model.cylinders()));
    let overheads = model.spec().overheads;
    let half_turn = model.period() / 2;
    let nearest = model.spec().head_switch;
    let point = |index: usize| {
        // Each point twice as far as the one before it, the last one the whole disk: seeks grow fastest near the arm.
        let distance = if index == 0 { 0 } else { capacity >> (TABLE_POINTS - 1 - index) };
        let across = distance * (cylinders - 1) / capacity;
        let seek = model.seek(u32::try_from(across).expect("under the number of cylinders"));
        let way = overheads.read_miss + seek.max(nearest) + half_turn;
        (Sectors(distance), DiskTime::from(way))
    };
    let zones: Vec<_> = model.zones().collect();
    let zone = |index: usize| {
        let zone = &zones[index * zones.len() / TABLE_POINTS];
        let sector = model.period() / u64::from(zone.sectors_per_track);
        (zone.lbas.start, DiskTime::from(sector))
    };
    let mut table = DriveTable {
        positioning: core::array::from_fn(point),
        zones: core::array::from_fn(zone),
        hit: overheads.read_hit.into(),
        bus_sector: model.spec().bus_sector.into(),
    };
    table.zones[0].0 = Lba(0);
    table
}
