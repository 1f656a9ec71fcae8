//! Whether the tasks of a disk fit together: its streams, its reserves and its server for best effort.
//!
//! All of a config is admitted or none of it. Where it does not fit, the first in the file's order that does not is at fault,
//! and is told which constraint binds and what would fit in its place.

use core::fmt;
use std::sync::Arc;

use engine::stream::{Asked, Beside, Booking, CounterOffers, Span, TaskId, Timetable, Violation};
use engine::{BEST_EFFORT_TASK, Profile};
use units::{Bytes, DiskTime, Duration, Extent, Instant, Sectors};

use crate::error::ConfigError;
use crate::plan::{Disk, DiskIndex, Plan, Volume};
use crate::stream::{self, Stream};
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
    /// The volume; nothing for the server of best effort.
    pub volume: Option<String>,
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

/// The tasks of one disk, by who asks for them.
struct Tasks<'a> {
    disk: &'a Disk,
    volumes: &'a [Volume],
    bookings: Vec<Booking>,
}

impl Plan {
    /// What is booked on a disk, by the volumes' numbers in the plan and [`BEST_EFFORT_TASK`]; nothing if its policy serves no deadlines.
    pub fn timetable(&self, disk: DiskIndex) -> Option<Timetable> {
        let there = &self.disks[disk.0];
        let profile = there.profile().filter(|_| there.policy.keeps_deadlines())?;
        let tasks = Tasks::of(there, disk, &self.volumes, &profile);
        Some(tasks.timetable(tasks.bookings.len()))
    }

    /// What the tasks of a disk leave at `now`; nothing if its policy serves no deadlines.
    pub fn room(&self, disk: DiskIndex, now: Instant) -> Option<Room> {
        let moment = Span { start: now, end: now + Duration::from_nanos(1) };
        let set = self.timetable(disk)?.during(moment);
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
        let tasks = Tasks::of(disk, DiskIndex(index), volumes, profile);
        let Some((volume, unfit)) = tasks.first_unfit(profile) else { continue };
        let (table, expected) = (&tables[volume], unfit.to_string());
        let keys = ["stream", "reserve", "iops", "bandwidth"];
        let value = keys.into_iter().find_map(|key| table.value(key));
        let expected = format!("what fits on disk \"{}\" ({expected})", disk.name);
        let error = value
            .map_or_else(|| table.missing("reserve", &expected), |value| value.refuse(&expected));
        return Err(error.for_want_of_room().of(unfit));
    }
    Ok(())
}

impl<'a> Tasks<'a> {
    fn of(disk: &'a Disk, index: DiskIndex, volumes: &'a [Volume], profile: &Profile) -> Self {
        let longest = disk.settings().longest_command(Some(&Arc::new(profile.clone())));
        let server = disk.best_effort.and_then(|server| server.task(longest));
        let server = server.map(|task| Booking { id: BEST_EFFORT_TASK, task, span: Span::ALWAYS });
        let there = volumes.iter().enumerate().filter(|(_, volume)| volume.disk == index);
        let booked = there.filter_map(|(number, volume)| {
            let task = volume.contract.task(disk.period, longest)?;
            let id = TaskId(u32::try_from(number).expect("volumes are few"));
            Some(Booking { id, task, span: volume.span() })
        });
        Self { disk, volumes, bookings: server.into_iter().chain(booked).collect() }
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
        let (stretch, violation) = before.verdict(task, span).err()?;
        let volume = usize::try_from(id.0).ok()?;
        let stream = self.volumes.get(volume)?.stream;
        let offers = stream.map_or_else(CounterOffers::default, |stream| {
            self.offers(profile, (&before, span), (&self.volumes[volume], &stream))
        });
        Some((volume, Unfit { stretch, violation, beside: self.blocker(violation), offers }))
    }

    fn blocker(&self, violation: Violation) -> Option<Blocker> {
        let Violation::Blocked { beside: Beside::Task(TaskId(id)), .. } = violation else {
            return None;
        };
        let volume = usize::try_from(id).ok().and_then(|id| self.volumes.get(id));
        let block = volume.and_then(|volume| volume.stream).map(|stream| stream.asked.block);
        Some(Blocker { volume: volume.map(|volume| volume.name.clone()), block })
    }

    /// What would fit over the whole of the span, as people write it where that fits too.
    fn offers(
        &self,
        profile: &Profile,
        (beside, span): (&Timetable, Span),
        (volume, stream): (&Volume, &Stream),
    ) -> CounterOffers {
        let start = volume.place.start + Sectors(stream.range.start.0);
        let on_disk = Extent::new(start, stream.range.len);
        let task = |asked| stream::task((self.disk, profile), asked, on_disk);
        let offers = beside.counter_offers(span, stream.asked, task);
        let round = offers.bandwidth.map(|exact| {
            let bandwidth = rounded(exact);
            let asked = Asked { bandwidth, ..stream.asked };
            let fits = task(asked).is_some_and(|task| beside.verdict(task, span).is_ok());
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
            (None, _) => f.write_str("the server of best effort"),
        }
    }
}
