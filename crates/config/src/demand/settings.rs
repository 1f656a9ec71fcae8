//! The engine settings of a config's disk: the same for a simulation and for the daemon.

use std::sync::Arc;

use drive::{CacheBypass, Model};
use drive_profile::Profile;
use engine::{
    Charging, CommandBound, Deadlines, DeferredWrites, DriveTable, Engine, Estimates,
    EstimatorName, Mechanics, Settings, StoreRate, TABLE_POINTS, WorstCase,
};
use units::{DiskTime, Duration, Instant, Lba, Sectors, Share};

use drive_library::profile;

use crate::plan::{Bus, Disk};

impl Disk {
    /// The settings of this disk's engine.
    pub fn settings(&self) -> Settings {
        Settings {
            policy: self.policy,
            depth: self.depth,
            charging: self.charging(),
            period: self.period,
            batch: self.batch,
            linger: self.linger,
            deferred_writes: self.deferred_writes(),
            estimates: Estimates {
                sequential: self.estimate_sequential.into(),
                random: self.estimate_random.into(),
                estimator: self.estimate,
                table: self
                    .drive
                    .model
                    .mechanical()
                    .filter(|_| self.estimate == EstimatorName::Profile)
                    .map(|model| match &self.profile {
                        Some(measured) => measured_table(&measured.profile),
                        None => drive_table(model),
                    })
                    .map(|table| slowed_table(&table, self.slowed)),
            },
            chooser: self.chooser,
            freeblock: self.freeblock,
            forced_writes: self.forced_writes(),
            execution: self.execution,
            nominal_cost: self.nominal.interval.into(),
            headroom: self.reserve_headroom,
            deadlines: self.deadlines(),
            ..Settings::default()
        }
    }

    /// A drive that rotates positions for one command at a time. Policies that mix the commands of
    /// several volumes in the drive charge as the publications do.
    fn charging(&self) -> Charging {
        if !self.policy.has_exclusive_quanta() {
            Charging::EqualParts
        } else if self.drive.model.rotational() {
            Charging::Completions
        } else {
            Charging::ByLength
        }
    }

    /// How fast a flash drive stores what it has answered from its own buffer, by its parameters or
    /// its measured profile. The policies of the publications charge the time until the answer.
    fn deferred_writes(&self) -> Option<DeferredWrites> {
        let flash = self.drive.model.flash().filter(|_| self.policy.buffers_writes())?;
        let rate = |is_random| {
            let time = self.slowed.stretched(flash.sustained_store_time(is_random));
            StoreRate { time, sectors: flash.stripe() }
        };
        Some(DeferredWrites { sequential: rate(false), random: rate(true) })
    }

    fn deadlines(&self) -> Deadlines {
        let (slack_range, best_effort) = (self.slack_range, self.best_effort);
        let worst = match self.worst_case.and(self.worst_command()) {
            Some(WorstCase::Bound(declared)) => declared,
            Some(WorstCase::Profile(_)) | None => Deadlines::default().worst,
        };
        Deadlines { slack_range, best_effort, worst, preemption: self.preemption() }
    }

    /// What a preemption between two chunks of a request costs at most; zero where requests are
    /// executed whole.
    pub(crate) fn preemption(&self) -> DiskTime {
        let splits = self.execution.preemptible().is_some_and(|how| how.chunk.is_some());
        let worst = self.worst_command().filter(|_| splits && self.policy.keeps_streams());
        worst.map_or(DiskTime::ZERO, |worst| worst.preemption())
    }

    /// The drive's profile: measured, or else assumed from its parameters; slowed as the drive is.
    pub(crate) fn known(&self, model: &Model) -> Profile {
        let mut profile = match &self.profile {
            Some(measured) => Profile::clone(&measured.profile),
            None => profile::assumed(model),
        };
        profile.write_cache &= self.cache_bypass() != Some(CacheBypass::Off);
        let mut profile = profile.slowed(self.slowed);
        profile.extremes.bus = self.bus.as_ref().map(Bus::share);
        profile
    }

    /// An engine for this disk, idle and without volumes. For preemptible execution it gets the
    /// measured profile, or else the assumed one.
    pub fn engine(&self, now: Instant) -> Engine {
        self.engine_of(self.knowledge(|profile| profile), now)
    }

    /// The same for a disk in real time, with a host between a command's completion and the next
    /// command.
    pub fn engine_on_host(&self, now: Instant) -> Engine {
        self.engine_of(self.host_profile(), now)
    }

    /// The profile that an engine in real time gets, if any.
    pub fn host_profile(&self) -> Option<Arc<Profile>> {
        self.knowledge(profile::on_host)
    }

    fn engine_of(&self, known: Option<Arc<Profile>>, now: Instant) -> Engine {
        let engine = Engine::new(self.settings(), now);
        match known {
            Some(profile) => engine.with_profile(profile),
            None => engine,
        }
    }

    fn knowledge(&self, adapt: fn(Profile) -> Profile) -> Option<Arc<Profile>> {
        if let Some(profile) = self.profile().filter(|_| self.policy.keeps_streams()) {
            return Some(Arc::new(adapt(profile)));
        }
        let model = self.drive.model.mechanical();
        let model = model.filter(|_| self.execution.preemptible().is_some())?;
        Some(Arc::new(adapt(self.known(model))))
    }
}

impl Disk {
    /// The mechanical figures from which a rate is converted into a share (RTAS 2008 §2.4); `None`
    /// for a drive without seeks.
    pub fn mechanics(&self) -> Option<Mechanics> {
        let slow = |time| self.slowed.stretched(time);
        let mechanics = self.mechanics_at_full_speed().map(|mechanics| Mechanics {
            seek_max: slow(mechanics.seek_max),
            rotation_period: slow(mechanics.rotation_period),
            overhead: slow(mechanics.overhead),
            hit: slow(mechanics.hit),
            sector: slow(mechanics.sector),
        });
        mechanics.map(|mechanics| self.over_bus(mechanics))
    }

    /// The same with what the bus adds at most.
    fn over_bus(&self, mechanics: Mechanics) -> Mechanics {
        let Some((fixed, each)) = self.bus.as_ref().map(|bus| bus.share().linear()) else {
            return mechanics;
        };
        Mechanics {
            overhead: mechanics.overhead + fixed,
            hit: mechanics.hit + fixed,
            sector: mechanics.sector + each,
            ..mechanics
        }
    }

    /// The same for a disk without an arm's profile whose worst case is declared: each request
    /// takes that, and a run saves nothing.
    pub(crate) fn declared_mechanics(&self) -> Option<Mechanics> {
        let nanos = |time: DiskTime| {
            let nanos = u64::try_from(time.as_nanos()).expect("a declared time is not negative");
            Duration::from_nanos(nanos)
        };
        let declared = self.worst_case.map(|CommandBound { positioning, sector }| Mechanics {
            seek_max: Duration::ZERO,
            rotation_period: Duration::ZERO,
            overhead: nanos(positioning),
            hit: Duration::ZERO,
            sector: nanos(sector),
        });
        declared.map(|mechanics| self.over_bus(mechanics))
    }

    fn mechanics_at_full_speed(&self) -> Option<Mechanics> {
        let model = self.drive.model.mechanical()?;
        if let Some(measured) = &self.profile {
            return Some(measured_mechanics(&measured.profile));
        }
        let overheads = model.spec().overheads;
        // Tracks are shortest at the innermost zone, and the time lost between two tracks is the
        // skew.
        let slowest = model.spec().zones.iter().map(|zone| {
            let (sectors, skew) = (u64::from(zone.sectors_per_track), u64::from(zone.track_skew));
            model.period() * (sectors + skew) / (sectors * sectors)
        });
        let sector = slowest.max().expect("a drive has zones").max(model.spec().bus_sector);
        Some(Mechanics {
            seek_max: model.full_stroke(),
            rotation_period: model.period(),
            overhead: overheads.read_miss,
            hit: overheads.read_hit,
            sector,
        })
    }
}

/// The table of the drive slowed to `share` of its speed.
fn slowed_table(table: &DriveTable, share: Share) -> DriveTable {
    let slow = |time: DiskTime| {
        let nanos = u64::try_from(time.as_nanos()).expect("a service time is not negative");
        DiskTime::from(share.stretched(Duration::from_nanos(nanos)))
    };
    DriveTable {
        positioning: table.positioning.map(|(distance, time)| (distance, slow(time))),
        zones: table.zones.map(|(start, time)| (start, slow(time))),
        hit: slow(table.hit),
        bus_sector: slow(table.bus_sector),
    }
}

/// The drive file's times, as a table for the estimator.
fn drive_table(model: &Model) -> DriveTable {
    let (capacity, cylinders) = (model.capacity().0, u64::from(model.cylinders()));
    let overheads = model.spec().overheads;
    let half_turn = model.period() / 2;
    let nearest = model.spec().head_switch;
    let point = |index: usize| {
        // Each point is at twice the distance of its predecessor, the last one at the whole disk:
        // seek times grow fastest at short distances.
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

/// The longest seek of a measured drive.
fn seek_max(profile: &Profile) -> Duration {
    let ends = profile.seek.points.iter().map(|point| point.1);
    let longest = ends.max().unwrap_or(Duration::ZERO);
    longest.max(profile.seek.time(profile.cylinders.saturating_sub(1))).max(profile.head_switch)
}

/// The time of a sector where tracks are shortest, with its part of the time lost between two
/// tracks.
fn slowest_sector(profile: &Profile) -> Duration {
    let sector = |band: &drive_profile::Band| {
        let sectors = u64::from(band.sectors_per_track);
        let skew =
            (u128::from(band.track_skew.0) * u128::from(profile.rotation_period.as_nanos())) >> 64;
        let skew = Duration::from_nanos(u64::try_from(skew).expect("under a turn"));
        (profile.rotation_period + skew) / sectors
    };
    let slowest = profile.bands.iter().map(sector).max().unwrap_or(Duration::ZERO);
    slowest.max(profile.bus_sector)
}

fn measured_mechanics(profile: &Profile) -> Mechanics {
    Mechanics {
        seek_max: seek_max(profile),
        rotation_period: profile.rotation_period,
        overhead: profile.overheads.read,
        hit: profile.overheads.hit,
        sector: slowest_sector(profile),
    }
}

/// The longest time of a command of `len` sectors in a measured drive that is otherwise idle.
pub(crate) fn measured_worst_case(profile: &Profile, len: Sectors) -> Duration {
    let positioning = profile.overheads.read + seek_max(profile) + profile.rotation_period;
    positioning + slowest_sector(profile) * len.0 + profile.bus_sector * len.0 + profile.completion
}

/// The measured times, as a table for the estimator: [`drive_table`] makes one of the drive's file.
fn measured_table(profile: &Profile) -> DriveTable {
    let (capacity, cylinders) = (profile.capacity().0, u64::from(profile.cylinders));
    let half_turn = profile.rotation_period / 2;
    let point = |index: usize| {
        let distance = if index == 0 { 0 } else { capacity >> (TABLE_POINTS - 1 - index) };
        let across = u128::from(distance) * u128::from(cylinders - 1) / u128::from(capacity);
        let seek = profile.seek.time(u32::try_from(across).expect("under the number of cylinders"));
        let way = profile.overheads.read + seek.max(profile.head_switch) + half_turn;
        (Sectors(distance), DiskTime::from(way))
    };
    let bands = &profile.bands;
    let zone = |index: usize| {
        let band = &bands[index * bands.len() / TABLE_POINTS];
        let sector = profile.rotation_period / u64::from(band.sectors_per_track);
        (band.lbas.start, DiskTime::from(sector))
    };
    let mut table = DriveTable {
        positioning: core::array::from_fn(point),
        zones: core::array::from_fn(zone),
        hit: profile.overheads.hit.into(),
        bus_sector: profile.bus_sector.into(),
    };
    table.zones[0].0 = Lba(0);
    table
}
