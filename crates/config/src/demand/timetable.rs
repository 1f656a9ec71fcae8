//! Whether the tasks of a disk fit together: its streams, its reserves and its server for best effort.
//!
//! All of a config is admitted or none of it. Where it does not fit, the first in the file's order that does not is at fault,
//! and is told which constraint binds and what would fit in its place.

use std::sync::Arc;

use drive_profile::Profile;
use engine::stream::{
    BlockingTask, Booking, CounterOffers, RequestedStream, Span, Task, TaskId, Timetable, Violation,
};
use engine::{BEST_EFFORT_TASK, Contract};
use units::{Bytes, DiskTime, Duration, Extent, Instant, Sectors};

use super::cost;
use super::failure::{AdmissionFailure, BlockingContract};
use super::spread::{self, Spread};
use crate::plan::{Disk, DiskIndex, Plan, PoolPlan, PoolVolume, Volume};

/// What the tasks of a disk leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionHeadroom {
    /// How many there are.
    pub tasks: usize,
    /// What they ask for, in 10⁻⁹ of the disk's time.
    pub utilization_ppb: u64,
    /// What best effort may take at any time without anybody's being late (ΔL).
    pub slack: DiskTime,
}

/// Who asks for the time of one disk, by their numbers: [`TaskId`]s.
#[derive(Clone, Copy)]
pub(crate) enum Askers<'a> {
    /// The volumes, by their numbers in the plan.
    Volumes(&'a [Volume]),
    /// A pool's metadata, its moving of blocks, and its volumes.
    Pool(&'a PoolPlan),
}

/// The number of a pool's first volume: before it come [`METADATA`] and moving blocks.
pub(crate) const POOL_VOLUMES: usize = 2;
pub(crate) const METADATA: usize = 0;

/// The tasks of one disk, by who asks for them.
pub(crate) struct Tasks<'a> {
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
                let own = [pool.metadata_contract(), pool.relocation_contract(disk)];
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
                cost::task((disk, profile), asked, Extent::new(start, range.len))
            }
            Self::Pool(pool) => {
                let volume = pool.volumes.get(number.checked_sub(POOL_VOLUMES)?)?;
                spread::task((disk, profile), asked, &Spread::of(volume), index)
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
    pub fn admission_headroom(&self, disk: DiskIndex, now: Instant) -> Option<AdmissionHeadroom> {
        let moment = Span { start: now, end: now + Duration::from_nanos(1) };
        let set = self.timetable(disk)?.tasks_during(moment);
        let utilization_ppb = set.utilization().ppb();
        Some(AdmissionHeadroom { tasks: set.len(), utilization_ppb, slack: set.slack() })
    }
}

impl<'a> Tasks<'a> {
    pub(crate) fn of(
        (disk, index): (&'a Disk, DiskIndex),
        askers: Askers<'a>,
        profile: &Profile,
    ) -> Self {
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
    pub(crate) fn first_unfit(&self, profile: &Profile) -> Option<(usize, AdmissionFailure)> {
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
        Some((
            number,
            AdmissionFailure { stretch, violation, beside: self.blocker(violation), offers },
        ))
    }

    fn blocker(&self, violation: Violation) -> Option<BlockingContract> {
        let Violation::Blocked { beside: BlockingTask::Task(id), .. } = violation else {
            return None;
        };
        let number = usize::try_from(id.0).ok().filter(|_| id != BEST_EFFORT_TASK);
        let volume = number.and_then(|number| self.askers.name(number)).map(str::to_owned);
        let block = number.and_then(|number| self.askers.asked(number)).map(|asked| asked.block);
        let pool = number.is_some() && volume.is_none();
        Some(BlockingContract { volume, pool, block })
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
