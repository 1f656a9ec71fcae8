//! Whether the tasks of a disk fit together: its streams, its reserves and its server for best effort.
//!
//! All of a config is admitted or none of it. Where it does not fit, the first in the file's order that does not is at fault,
//! and is told which constraint binds and what would fit in its place.

use core::fmt;
use std::sync::Arc;

use drive_profile::Profile;
use engine::stream::{
    BlockingTask, Booking, CounterOffers, RequestedStream, Span, Task, TaskId, Timetable, Violation,
};
use engine::{BEST_EFFORT_TASK, Contract};
use units::{Bytes, DiskTime, Duration, Extent, Instant, Sectors};

use crate::error::ConfigError;
use crate::plan::{Disk, DiskIndex, Plan, Volume};
use crate::pool::{self, Pool, PoolVolume, Spread};
use crate::stream;
use crate::table::{Table, size};

/// Why a stream, or a reserve beside streams, does not fit, and what would in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// When: the first stretch of time in which it does not.
    pub stretch: Span,
    /// The constraint that binds.
    pub violation: Violation,
    /// Whose command is in the way.
    pub beside: Option<Blocker>,
    /// What would fit; nothing for a reserve.
    pub offers: CounterOffers,
}

/// Somebody whose command is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The volume; nothing for the server of best effort, and for what a pool keeps.
    pub volume: Option<String>,
    /// Whether it is what a pool keeps for its metadata, or for moving blocks.
    pub pool: bool,
    /// The bytes of a block, if it is a stream.
    pub block: Option<Bytes>,
}

/// What the tasks of a disk leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// How many there are.
    pub tasks: usize,
    /// What they ask for, in 10⁻⁹ of the disk's time.
    pub utilization_ppb: u64,
    /// What best effort may take at any time without anybody's being late (ΔL).
    pub slack: DiskTime,
}

/// Who asks for the time of one disk, by their numbers: [`TaskId`]s.
#[derive(Clone, Copy)]
enum Askers<'a> {
    /// The volumes, by their numbers in the plan.
    Volumes(&'a [Volume]),
    /// A pool's metadata, its moving of blocks, and its volumes.
    Pool(&'a Pool),
}

/// The number of a pool's first volume: before it come [`METADATA`] and moving blocks.
const POOL_VOLUMES: usize = 2;
const METADATA: usize = 0;

/// The tasks of one disk, by who asks for them.
struct Tasks<'a> {
    disk: &'a Disk,
    index: DiskIndex,
    askers: Askers<'a>,
    bookings: Vec<Booking>,
}

impl<'a> Askers<'a> {
    /// Those of a disk of the plan.
    fn of(plan: &'a Plan, disk: DiskIndex) -> Self {
        let pool = plan.pool.as_ref().filter(|pool| pool.disks.contains(&disk));
        pool.map_or(Self::Volumes(&plan.volumes), Self::Pool)
    }

    /// What each asks of a disk, and when.
    fn contracts(self, index: DiskIndex, disk: &Disk) -> Vec<(usize, Contract, Span)> {
        match self {
            Self::Volumes(volumes) => {
                let there = volumes.iter().enumerate().filter(|(_, volume)| volume.disk == index);
                there.map(|(number, volume)| (number, volume.contract, volume.span())).collect()
            }
            Self::Pool(pool) => {
                let own = [pool.metadata_contract(), pool.reorganise_contract(disk)];
                let own = (METADATA..).zip(own.map(|contract| (contract, Span::ALWAYS)));
                let of = |volume: &PoolVolume| (volume.contract(index), volume.span());
                let volumes = (POOL_VOLUMES..).zip(pool.volumes.iter().map(of));
                own.chain(volumes)
                    .map(|(number, (contract, span))| (number, contract, span))
                    .collect()
            }
        }
    }

    /// The volume of this number.
    fn name(self, number: usize) -> Option<&'a str> {
        match self {
            Self::Volumes(volumes) => volumes.get(number).map(|volume| volume.name.as_str()),
            Self::Pool(pool) => {
                let volume = pool.volumes.get(number.checked_sub(POOL_VOLUMES)?);
                volume.map(|volume| volume.name.as_str())
            }
        }
    }

    /// What its stream asks for, if it has one.
    fn asked(self, number: usize) -> Option<RequestedStream> {
        match self {
            Self::Volumes(volumes) => Some(volumes.get(number)?.stream?.asked),
            Self::Pool(pool) => {
                Some(pool.volumes.get(number.checked_sub(POOL_VOLUMES)?)?.stream?.asked)
            }
        }
    }

    /// What its stream would be on a disk, if it asked for this.
    fn task(
        self,
        number: usize,
        (disk, index, profile): (&Disk, DiskIndex, &Profile),
        asked: RequestedStream,
    ) -> Option<Task> {
        match self {
            Self::Volumes(volumes) => {
                let volume = volumes.get(number)?;
                let range = volume.stream?.range;
                let start = volume.place.start + Sectors(range.start.0);
                stream::task((disk, profile), asked, Extent::new(start, range.len))
            }
            Self::Pool(pool) => {
                let volume = pool.volumes.get(number.checked_sub(POOL_VOLUMES)?)?;
                pool::task((disk, profile), asked, &Spread::of(volume), index)
            }
        }
    }
}

impl Plan {
    /// What is booked on a disk, by the volumes' numbers in the plan and [`BEST_EFFORT_TASK`], and on a disk of the pool by the numbers of
    /// its volumes behind two of the pool itself; nothing if the disk's policy serves no deadlines.
    pub fn timetable(&self, disk: DiskIndex) -> Option<Timetable> {
        let there = &self.disks[disk.0];
        let profile = there.profile().filter(|_| there.policy.has_deadlines())?;
        let tasks = Tasks::of((there, disk), Askers::of(self, disk), &profile);
        Some(tasks.timetable(tasks.bookings.len()))
    }

    /// What the tasks of a disk leave at `now`; nothing if its policy serves no deadlines.
    pub fn room(&self, disk: DiskIndex, now: Instant) -> Option<Room> {
        let moment = Span { start: now, end: now + Duration::from_nanos(1) };
        let set = self.timetable(disk)?.tasks_during(moment);
        let utilization_ppb = set.utilization().ppb();
        Some(Room { tasks: set.len(), utilization_ppb, slack: set.slack() })
    }
}

/// Checks that what the volumes ask of each disk fits there. `tables` are theirs.
pub(crate) fn admit(
    tables: &[Table<'_>],
    disks: &[Disk],
    profiles: &[Option<Profile>],
    volumes: &[Volume],
) -> Result<(), ConfigError> {
    for (index, (disk, profile)) in disks.iter().zip(profiles).enumerate() {
        let Some(profile) = profile else { continue };
        let tasks = Tasks::of((disk, DiskIndex(index)), Askers::Volumes(volumes), profile);
        let Some((volume, unfit)) = tasks.first_unfit(profile) else { continue };
        return Err(refused(&tables[volume], &PROMISES, disk, unfit));
    }
    Ok(())
}

/// Checks that what the pool and its volumes ask of each disk fits there. `tables` are its own and theirs.
pub(crate) fn admit_pool(
    (own, tables): (&Table<'_>, &[Table<'_>]),
    disks: &[Disk],
    profiles: &[Option<Profile>],
    pool: &Pool,
) -> Result<(), ConfigError> {
    for &index in &pool.disks {
        let (disk, Some(profile)) = (&disks[index.0], &profiles[index.0]) else { continue };
        let tasks = Tasks::of((disk, index), Askers::Pool(pool), profile);
        let Some((number, unfit)) = tasks.first_unfit(profile) else { continue };
        return Err(match number.checked_sub(POOL_VOLUMES) {
            Some(volume) => refused(&tables[volume], &PROMISES, disk, unfit),
            None if number == METADATA => refused(own, &["metadata"], disk, unfit),
            None => refused(own, &["reorganise"], disk, unfit),
        });
    }
    Ok(())
}

/// The keys of a volume that say what it is promised.
const PROMISES: [&str; 4] = ["reserve", "stream", "iops", "bandwidth"];

/// An error about the first of the keys that has a value, or about the first of them.
fn refused(table: &Table<'_>, keys: &[&str], disk: &Disk, unfit: Unfit) -> ConfigError {
    let value = keys.iter().find_map(|key| table.value(key));
    let expected = format!("what fits on disk \"{}\" ({unfit})", disk.name);
    let error =
        value.map_or_else(|| table.missing(keys[0], &expected), |value| value.refuse(&expected));
    error.for_want_of_room().of(unfit)
}

impl<'a> Tasks<'a> {
    fn of((disk, index): (&'a Disk, DiskIndex), askers: Askers<'a>, profile: &Profile) -> Self {
        let longest = disk.settings().longest_command(Some(&Arc::new(profile.clone())));
        let server = disk.best_effort.and_then(|server| server.task(longest));
        let server = server.map(|task| Booking { id: BEST_EFFORT_TASK, task, span: Span::ALWAYS });
        let contracts = askers.contracts(index, disk);
        let booked = contracts.into_iter().filter_map(|(number, contract, span)| {
            let task = contract.task(disk.period, longest)?;
            let id = TaskId(u32::try_from(number).expect("volumes are few"));
            Some(Booking { id, task, span })
        });
        let bookings = server.into_iter().chain(booked).collect();
        Self { disk, index, askers, bookings }
    }

    /// The first so many bookings.
    fn timetable(&self, count: usize) -> Timetable {
        let mut timetable = Timetable::new(DiskTime::ZERO);
        for booking in &self.bookings[..count] {
            timetable.insert(*booking);
        }
        timetable
    }

    /// Whether the first so many bookings fit at all times.
    fn fit(&self, count: usize) -> bool {
        self.timetable(count).check().is_ok()
    }

    /// The volume of the first booking that does not fit beside those before it.
    fn first_unfit(&self, profile: &Profile) -> Option<(usize, Unfit)> {
        if self.fit(self.bookings.len()) {
            return None;
        }
        // A task more never makes others fit.
        let (mut fits, mut too_many) = (0, self.bookings.len());
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            if self.fit(middle) { fits = middle } else { too_many = middle }
        }
        let Booking { id, task, span } = self.bookings[fits];
        let before = self.timetable(fits);
        let (stretch, violation) = before.check_with(task, span).err()?;
        // The server of best effort is nobody's fault.
        let number = usize::try_from(id.0).ok().filter(|_| id != BEST_EFFORT_TASK)?;
        let offers = self.askers.asked(number).map_or_else(CounterOffers::default, |asked| {
            self.offers(profile, (&before, span), (number, asked))
        });
        Some((number, Unfit { stretch, violation, beside: self.blocker(violation), offers }))
    }

    fn blocker(&self, violation: Violation) -> Option<Blocker> {
        let Violation::Blocked { beside: BlockingTask::Task(id), .. } = violation else {
            return None;
        };
        let number = usize::try_from(id.0).ok().filter(|_| id != BEST_EFFORT_TASK);
        let volume = number.and_then(|number| self.askers.name(number)).map(str::to_owned);
        let block = number.and_then(|number| self.askers.asked(number)).map(|asked| asked.block);
        let pool = number.is_some() && volume.is_none();
        Some(Blocker { volume, pool, block })
    }

    /// What would fit over the whole of the span, as people write it where that fits too.
    fn offers(
        &self,
        profile: &Profile,
        (beside, span): (&Timetable, Span),
        (number, asked): (usize, RequestedStream),
    ) -> CounterOffers {
        let task = |asked| self.askers.task(number, (self.disk, self.index, profile), asked);
        let offers = beside.counter_offers(span, asked, task);
        let round = offers.bandwidth.map(|exact| {
            let bandwidth = rounded(exact);
            let asked = RequestedStream { bandwidth, ..asked };
            let fits = task(asked).is_some_and(|task| beside.check_with(task, span).is_ok());
            if fits { bandwidth } else { exact }
        });
        CounterOffers { bandwidth: round, ..offers }
    }
}

/// Down to three digits.
fn rounded(bandwidth: Bytes) -> Bytes {
    let mut unit = 1;
    while bandwidth.0 / unit >= 1_000 {
        unit *= 10;
    }
    Bytes(bandwidth.0 / unit * unit)
}

/// A size as makers of disks count: `12.5MB`.
pub fn decimal(bytes: Bytes) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    let unit =
        units.iter().find(|(unit, _)| bytes.0 >= *unit && bytes.0.is_multiple_of(unit / 1_000));
    let Some((unit, name)) = unit else { return size(bytes) };
    let text = format!("{}.{:03}", bytes.0 / unit, bytes.0 % unit / (unit / 1_000));
    format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.violation {
            Violation::Blocked { interval, short, .. } => {
                write!(f, "at L = {interval}, ")?;
                match &self.beside {
                    None => f.write_str("beside its own blocks")?,
                    Some(blocker) => write!(f, "beside {blocker}")?,
                }
                write!(f, ": short by {short}")?;
            }
            Violation::Utilization { asked, .. } => {
                let tenths = asked.ppb().div_ceil(1_000_000);
                write!(
                    f,
                    "{}.{}% of the disk's time would be asked for",
                    tenths / 10,
                    tenths % 10
                )?;
            }
            other => write!(f, "{other}")?,
        }
        if self.stretch != Span::ALWAYS {
            write!(f, ", from {}", self.stretch.start)?;
            if self.stretch.end < Instant::FAR_FUTURE {
                write!(f, " to {}", self.stretch.end)?;
            }
        }
        let block = self.offers.block.map(|block| format!("blocks of {}", decimal(block)));
        let bandwidth = self.offers.bandwidth.map(|bytes| format!("{}/s", decimal(bytes)));
        match (block, bandwidth) {
            (None, None) => Ok(()),
            (Some(one), None) | (None, Some(one)) => write!(f, "; {one} would fit"),
            (Some(block), Some(bandwidth)) => write!(f, "; {block} would fit, or {bandwidth}"),
        }
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.volume, self.block) {
            (Some(name), Some(block)) => write!(f, "stream {name}'s {} blocks", decimal(block)),
            (Some(name), None) => write!(f, "the reserve of {name}"),
            (None, _) if self.pool => f.write_str("the pool's own reserves"),
            (None, _) => f.write_str("the server of best effort"),
        }
    }
}
