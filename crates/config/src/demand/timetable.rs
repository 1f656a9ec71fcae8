//! Whether the tasks of a disk fit together: its streams, its reserves and its best-effort server.
//!
//! A config is admitted as a whole or not at all. If it does not fit, the error is about the first
//! contract in the file's order that does not, and names the violated constraint and what would
//! fit.

use engine::stream::{
    BlockingTask, Booking, CounterOffers, LatencyOffers, RequestedLatency, RequestedStream, Span,
    Task, TaskId, Timetable, Violation,
};
use engine::{
    Admission, BEST_EFFORT_TASK, Contract, LongestCommand, RESERVES_TASK, WorstCase, latency_task,
    reserve_task, volume_of_task,
};
use units::{Bytes, DiskTime, Duration, Extent, Instant, Sectors, Share};

use super::cost;
use super::failure::{AdmissionFailure, BlockingContract};
use super::reserves::beyond_reserve;
use super::spread::{self, Spread};
use crate::plan::{Disk, DiskIndex, Plan, PoolPlan, PoolVolume, Volume};

/// The capacity that the tasks of a disk leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionHeadroom {
    /// The number of tasks.
    pub tasks: usize,
    /// Their utilization, in 10⁻⁹ of the disk's time.
    pub utilization_ppb: u64,
    /// The time that best effort can take at any time without a missed deadline (ΔL).
    pub slack: DiskTime,
}

/// The owners of the tasks of one disk, by their numbers, which are [`TaskId`]s.
#[derive(Clone, Copy)]
pub(crate) enum Contracts<'a> {
    /// The volumes, by their index in the plan.
    Volumes(&'a [Volume]),
    /// A pool's own work, and its volumes.
    Pool(&'a PoolPlan),
}

/// The number of a pool's first volume, after those of the pool's own work.
pub(crate) const POOL_VOLUMES: usize = 3;

/// The tasks of one disk, with their owners.
pub(crate) struct Tasks<'a> {
    disk: &'a Disk,
    index: DiskIndex,
    contracts: Contracts<'a>,
    bookings: Vec<Booking>,
}

impl<'a> Contracts<'a> {
    /// The owners on a disk of the plan.
    fn of(plan: &'a Plan, disk: DiskIndex) -> Self {
        let pool = plan.pool.as_ref().filter(|pool| pool.disks.contains(&disk));
        pool.map_or(Self::Volumes(&plan.volumes), Self::Pool)
    }

    /// The contract of each owner on a disk, and its span.
    fn contracts(self, index: DiskIndex, disk: &Disk) -> Vec<(usize, Contract, Span)> {
        match self {
            Self::Volumes(volumes) => {
                let there = volumes.iter().enumerate().filter(|(_, volume)| volume.disk == index);
                there.map(|(number, volume)| (number, volume.contract, volume.span())).collect()
            }
            Self::Pool(pool) => {
                let own = pool.own_contracts(disk);
                let own = (0..POOL_VOLUMES).zip(own.map(|(_, contract)| (contract, Span::ALWAYS)));
                let of = |volume: &PoolVolume| (volume.contract(index), volume.span_on(index));
                let volumes = (POOL_VOLUMES..).zip(pool.volumes.iter().map(of));
                own.chain(volumes)
                    .map(|(number, (contract, span))| (number, contract, span))
                    .collect()
            }
        }
    }

    /// What no stream can have on a disk that keeps reserves beside streams: the reserves, and what
    /// volumes of high priority can take beyond them.
    fn reserved(self, index: DiskIndex, disk: &Disk) -> Share {
        let reserves = self.contracts(index, disk).into_iter().map(|(_, own, _)| own.reserve);
        let beyond: Vec<Share> = match self {
            Self::Volumes(volumes) => {
                let there = volumes.iter().filter(|volume| volume.disk == index);
                there.map(|volume| volume.beyond_reserve(disk)).collect()
            }
            Self::Pool(pool) => {
                let of = |own: &PoolVolume| beyond_reserve(own.contract(index), own.priority, disk);
                pool.volumes.iter().map(of).collect()
            }
        };
        let server = disk.best_effort.map_or(Share::NONE, |server| server.share);
        let promised = Admission::with_headroom(disk.reserve_headroom).promised();
        let all = reserves.chain(beyond).chain([server, promised]);
        all.fold(Share::NONE, |sum, share| sum.checked_add(share).unwrap_or(Share::ALL))
    }

    /// The name of the volume of this number.
    fn name(self, number: usize) -> Option<&'a str> {
        match self {
            Self::Volumes(volumes) => volumes.get(number).map(|volume| volume.name.as_str()),
            Self::Pool(pool) => {
                let volume = pool.volumes.get(number.checked_sub(POOL_VOLUMES)?);
                volume.map(|volume| volume.name.as_str())
            }
        }
    }

    /// Whether its stream has a span for each disk, which depends on the bandwidth and the block:
    /// what is offered in its place would have others.
    fn has_parts(self, number: usize) -> bool {
        let Self::Pool(pool) = self else { return false };
        let volume = number.checked_sub(POOL_VOLUMES).and_then(|place| pool.volumes.get(place));
        volume.is_some_and(|volume| !volume.stream_parts.is_empty())
    }

    /// Its requested stream, if it has one.
    fn requested(self, number: usize) -> Option<RequestedStream> {
        match self {
            Self::Volumes(volumes) => Some(volumes.get(number)?.stream?.requested),
            Self::Pool(pool) => {
                Some(pool.volumes.get(number.checked_sub(POOL_VOLUMES)?)?.stream?.requested)
            }
        }
    }

    /// Its requested latency, if it has one.
    fn requested_latency(self, number: usize) -> Option<RequestedLatency> {
        match self {
            Self::Volumes(volumes) => {
                volumes.get(number)?.contract.latency.map(|latency| latency.requested())
            }
            Self::Pool(pool) => pool.volumes.get(number.checked_sub(POOL_VOLUMES)?)?.latency,
        }
    }

    /// The task of its latency on a disk, if it requested `requested`.
    fn latency_task(
        self,
        number: usize,
        (disk, index, worst): (&Disk, DiskIndex, &WorstCase),
        requested: RequestedLatency,
    ) -> Option<Task> {
        match self {
            Self::Volumes(volumes) => {
                cost::latency_task((disk, worst), requested, volumes.get(number)?.extent)
            }
            Self::Pool(pool) => {
                let volume = pool.volumes.get(number.checked_sub(POOL_VOLUMES)?)?;
                let on = (disk, index, worst);
                let part = spread::latency(on, requested, &Spread::of(volume));
                part.map(|latency| latency.task)
            }
        }
    }

    /// The task of its stream on a disk, if it requested `requested`.
    fn task(
        self,
        number: usize,
        (disk, index, worst): (&Disk, DiskIndex, &WorstCase),
        requested: RequestedStream,
    ) -> Option<Task> {
        match self {
            Self::Volumes(volumes) => {
                let volume = volumes.get(number)?;
                let range = volume.stream?.range;
                let start = volume.extent.start + Sectors(range.start.0);
                cost::task((disk, worst), requested, Extent::new(start, range.len))
            }
            Self::Pool(pool) => {
                let volume = pool.volumes.get(number.checked_sub(POOL_VOLUMES)?)?;
                spread::task((disk, worst), requested, &Spread::of(volume), index)
            }
        }
    }
}

impl Plan {
    /// The bookings of a disk, by the volumes' indices in the plan and [`BEST_EFFORT_TASK`]; on a
    /// disk of the pool by the indices of its volumes after two of the pool itself. `None` if the
    /// disk's policy has no deadlines, and it has no stream and no bounded latency.
    pub fn timetable(&self, disk: DiskIndex) -> Option<Timetable> {
        let there = &self.disks[disk.0];
        let worst = there.worst_command().filter(|_| there.policy.keeps_streams())?;
        let tasks = Tasks::of((there, disk), Contracts::of(self, disk), &worst);
        if tasks.bookings.is_empty() && !there.policy.has_deadlines() {
            return None;
        }
        Some(tasks.timetable(tasks.bookings.len()))
    }

    /// The capacity that the tasks of a disk leave at `now`; `None` if its policy has no deadlines,
    /// and it has no stream.
    pub fn admission_headroom(&self, disk: DiskIndex, now: Instant) -> Option<AdmissionHeadroom> {
        let moment = Span { start: now, end: now + Duration::from_nanos(1) };
        let set = self.timetable(disk)?.tasks_during(moment);
        let utilization_ppb = set.utilization().ppb();
        Some(AdmissionHeadroom { tasks: set.len(), utilization_ppb, slack: set.slack() })
    }
}

impl Plan {
    /// The largest bandwidth, up to `bandwidth`, with which the stream of the volume `name` would
    /// be admitted in place of its own, beside all other contracts; `None` if there is no such
    /// stream, none fits that is larger than its own, or each disk has a span of its own.
    pub fn stream_offer(&self, name: &str, bandwidth: Bytes) -> Option<Bytes> {
        let own = self.volumes.iter().position(|volume| volume.name == name);
        let (number, disks) = if let Some(index) = own {
            (index, vec![self.volumes[index].disk])
        } else {
            let pooled = &self.pool.as_ref()?.volumes;
            let index = pooled.iter().position(|volume| volume.name == name)?;
            (POOL_VOLUMES + index, pooled[index].stream_disks())
        };
        let mut offer = bandwidth;
        for index in disks {
            let disk = &self.disks[index.0];
            let worst = disk.worst_command()?;
            let tasks = Tasks::of((disk, index), Contracts::of(self, index), &worst);
            let requested = tasks.contracts.requested(number)?;
            if tasks.contracts.has_parts(number) {
                return None;
            }
            let asked = RequestedStream { bandwidth: offer, ..requested };
            offer = tasks.stream_offer(&worst, number, asked)?;
            if offer <= requested.bandwidth {
                return None;
            }
        }
        Some(offer)
    }
}

impl<'a> Tasks<'a> {
    pub(crate) fn of(
        (disk, index): (&'a Disk, DiskIndex),
        contracts: Contracts<'a>,
        worst: &WorstCase,
    ) -> Self {
        let longest = disk.settings().longest_command(worst);
        if !disk.policy.has_deadlines() {
            let bookings = streams_beside_reserves((disk, index), contracts, longest);
            return Self { disk, index, contracts, bookings };
        }
        let server = disk.best_effort.and_then(|server| server.task(longest));
        let server = server.map(|task| Booking { id: BEST_EFFORT_TASK, task, span: Span::ALWAYS });
        let with_spans = contracts.contracts(index, disk);
        let booked = with_spans.into_iter().filter_map(|(number, contract, span)| {
            let task = contract.task(disk.period, longest)?;
            let id = TaskId(u32::try_from(number).expect("volumes are few"));
            Some(Booking { id, task, span })
        });
        let bookings = server.into_iter().chain(booked).collect();
        Self { disk, index, contracts, bookings }
    }

    /// The first `count` bookings.
    fn timetable(&self, count: usize) -> Timetable {
        let mut timetable = Timetable::new(self.disk.preemption());
        for booking in &self.bookings[..count] {
            timetable.insert(*booking);
        }
        timetable
    }

    /// Whether the first `count` bookings fit at all times.
    fn fit(&self, count: usize) -> bool {
        self.timetable(count).check().is_ok()
    }

    /// The volume of the first booking that does not fit beside the ones before it.
    pub(crate) fn first_unfit(&self, worst: &WorstCase) -> Option<(usize, AdmissionFailure)> {
        if self.fit(self.bookings.len()) {
            return None;
        }
        // An additional task never makes others fit.
        let (mut fits, mut too_many) = (0, self.bookings.len());
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            if self.fit(middle) { fits = middle } else { too_many = middle }
        }
        let Booking { id, task, span } = self.bookings[fits];
        let before = self.timetable(fits);
        let (stretch, violation) = before.check_with(task, span).err()?;
        // The disk's own servers have no table to report.
        let (number, is_latency) = owner(id)?;
        let requested = self.contracts.requested(number);
        let requested = requested.filter(|_| !is_latency && !self.contracts.has_parts(number));
        let offers = requested.map_or_else(CounterOffers::default, |requested| {
            self.offers(worst, (&before, span), (number, requested))
        });
        let requested = self.contracts.requested_latency(number).filter(|_| is_latency);
        let latency_offers = requested.map_or_else(LatencyOffers::default, |requested| {
            let on = (self.disk, self.index, worst);
            let task = |requested| self.contracts.latency_task(number, on, requested);
            before.latency_offers(span, requested, task)
        });
        let beside = self.blocker(violation);
        Some((
            number,
            AdmissionFailure {
                stretch,
                violation,
                beside,
                bus: self.disk.bus.clone(),
                offers,
                is_latency,
                latency_offers,
            },
        ))
    }

    /// The largest bandwidth, up to the requested one, with which the stream of this number fits
    /// beside all others.
    fn stream_offer(
        &self,
        worst: &WorstCase,
        number: usize,
        requested: RequestedStream,
    ) -> Option<Bytes> {
        let id = TaskId(u32::try_from(number).ok()?);
        let own = self.bookings.iter().find(|booking| booking.id == id)?;
        let task = self.contracts.task(number, (self.disk, self.index, worst), requested);
        let is_other = |booking: &&Booking| booking.id != id && booking.id != RESERVES_TASK;
        let mut others: Vec<Booking> = self.bookings.iter().filter(is_other).copied().collect();
        if !self.disk.policy.has_deadlines() {
            let streams: Vec<Booking> =
                others.iter().copied().chain(task.map(|task| Booking { task, ..*own })).collect();
            let longest = self.disk.settings().longest_command(worst);
            let on = (self.disk, self.index);
            others.extend(reserves_booking(on, self.contracts, &streams, longest));
        }
        let mut beside = Timetable::new(self.disk.preemption());
        for booking in others {
            beside.insert(booking);
        }
        if task.is_some_and(|task| beside.check_with(task, own.span).is_ok()) {
            return Some(requested.bandwidth);
        }
        self.offers(worst, (&beside, own.span), (number, requested)).bandwidth
    }

    fn blocker(&self, violation: Violation) -> Option<BlockingContract> {
        let Violation::Blocked { beside: BlockingTask::Task(id), .. } = violation else {
            return None;
        };
        let (number, is_latency) = owner(id).unzip();
        let is_latency = is_latency == Some(true);
        let volume = number.and_then(|number| self.contracts.name(number)).map(str::to_owned);
        let block = number
            .filter(|_| !is_latency)
            .and_then(|number| self.contracts.requested(number))
            .map(|requested| requested.block);
        let pool = number.is_some() && volume.is_none();
        let reserves = id == RESERVES_TASK;
        Some(BlockingContract { volume, pool, reserves, block, is_latency })
    }

    /// What would fit over the whole of the span, rounded down to a readable bandwidth if that fits
    /// too.
    fn offers(
        &self,
        worst: &WorstCase,
        (beside, span): (&Timetable, Span),
        (number, requested): (usize, RequestedStream),
    ) -> CounterOffers {
        let task =
            |requested| self.contracts.task(number, (self.disk, self.index, worst), requested);
        let offers = beside.counter_offers(span, requested, task);
        let round = offers.bandwidth.map(|exact| {
            let bandwidth = rounded(exact);
            let requested = RequestedStream { bandwidth, ..requested };
            let fits = task(requested).is_some_and(|task| beside.check_with(task, span).is_ok());
            if fits { bandwidth } else { exact }
        });
        CounterOffers { bandwidth: round, ..offers }
    }
}

/// The bookings of a disk that keeps its reserves beside streams: the streams and the bounded
/// latencies, after the reserves as one task; none without a stream or a latency.
fn streams_beside_reserves(
    (disk, index): (&Disk, DiskIndex),
    contracts: Contracts<'_>,
    longest: LongestCommand,
) -> Vec<Booking> {
    let booked = contracts.contracts(index, disk).into_iter().flat_map(|(number, own, span)| {
        let number = u32::try_from(number).expect("volumes are few");
        let stream = own.stream.map(|stream| (TaskId(number), stream.task, span));
        let latency = own.latency;
        let latency = latency.map(|latency| (latency_task(number), latency.task, Span::ALWAYS));
        let both = stream.into_iter().chain(latency);
        both.map(|(id, task, span)| Booking { id, task, span })
    });
    let streams: Vec<Booking> = booked.collect();
    if streams.is_empty() {
        return streams;
    }
    let reserves = reserves_booking((disk, index), contracts, &streams, longest);
    reserves.into_iter().chain(streams).collect()
}

/// The reserves of a disk as one task beside these streams and latencies.
fn reserves_booking(
    (disk, index): (&Disk, DiskIndex),
    contracts: Contracts<'_>,
    streams: &[Booking],
    longest: LongestCommand,
) -> Option<Booking> {
    let tasks = streams.iter().map(|booking| booking.task);
    let reserves = reserve_task(contracts.reserved(index, disk), tasks, longest);
    reserves.map(|task| Booking { id: RESERVES_TASK, task, span: Span::ALWAYS })
}

/// The number of a task's owner, and whether the task is its bounded latency; `None` for the disk's
/// own tasks.
fn owner(id: TaskId) -> Option<(usize, bool)> {
    let (number, is_latency) = volume_of_task(id)?;
    Some((usize::try_from(number).ok()?, is_latency))
}

/// Rounds down to three digits.
fn rounded(bandwidth: Bytes) -> Bytes {
    let mut unit = 1;
    while bandwidth.0 / unit >= 1_000 {
        unit *= 10;
    }
    Bytes(bandwidth.0 / unit * unit)
}
