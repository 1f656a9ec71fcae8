//! Estimates of service times before completion (Zygaria, RTAS 2008 §2.1 and §3).
//!
//! The estimator of RTAS 2008, with its constants, is the default: a command that starts within 100
//! sectors of the end of its volume's previous one is sequential and has a small estimate; any
//! other has a safe one. Two others can replace it: a table of the drive ([`DriveTable`]), and
//! classes that learn from completions. An estimate is corrected at the command's completion, so it
//! changes when a volume is served, never what it is charged.
//!
//! Whether a head is *due* is decided with the two constants under every estimator: a guarantee
//! waits for a safe value.

use units::{DiskTime, Lba, Op, Operation, Sectors};

/// A command that starts nearer than this to its predecessor is sequential.
pub const SEQUENTIAL_WITHIN: Sectors = Sectors(100);

/// Points of a [`DriveTable`], and zones.
pub const TABLE_POINTS: usize = 16;

/// The estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EstimatorName {
    /// The two constants of RTAS 2008.
    Constants,
    /// A table of the drive: positioning by distance, transfer by zone.
    Profile,
    /// The mean service time of recent commands of the same class.
    Learned,
}

impl EstimatorName {
    /// All estimators.
    pub const ALL: [Self; 3] = [Self::Constants, Self::Profile, Self::Learned];

    /// As configurations write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Constants => "constants",
            Self::Profile => "profile",
            Self::Learned => "learned",
        }
    }
}

impl core::fmt::Display for EstimatorName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No estimator has this name. Remedy: one of [`EstimatorName::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEstimator;

impl core::str::FromStr for EstimatorName {
    type Err = UnknownEstimator;
    fn from_str(name: &str) -> Result<Self, UnknownEstimator> {
        Self::ALL.into_iter().find(|known| known.as_str() == name).ok_or(UnknownEstimator)
    }
}

/// Constants of a drive that predict a service time to within half a revolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveTable {
    /// The mean time from the end of a command to the first sector of one at this distance:
    /// electronics, seek and half a revolution. Distances increase from zero; it is linear between
    /// two points and constant after the last.
    pub positioning: [(Sectors, DiskTime); TABLE_POINTS],
    /// Where zones begin, increasing from zero, and the time of one sector of each.
    pub zones: [(Lba, DiskTime); TABLE_POINTS],
    /// A command that the drive's cache serves: the electronics.
    pub hit: DiskTime,
    /// The time of one sector on the bus.
    pub bus_sector: DiskTime,
}

/// The estimator and its constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimates {
    /// For a sequential command: 300 µs in RTAS 2008.
    pub sequential: DiskTime,
    /// For any other: 20 ms in RTAS 2008.
    pub random: DiskTime,
    /// The estimator that uses them.
    pub estimator: EstimatorName,
    /// The table of [`EstimatorName::Profile`].
    ///
    /// Without a table it uses the constants.
    pub table: Option<DriveTable>,
}

impl Default for Estimates {
    fn default() -> Self {
        Self {
            sequential: DiskTime::from_micros(300),
            random: DiskTime::from_millis(20),
            estimator: EstimatorName::Constants,
            table: None,
        }
    }
}

impl Estimates {
    pub(crate) fn of(&self, sequential: bool) -> DiskTime {
        let estimate = if sequential { self.sequential } else { self.random };
        debug_assert!(estimate >= DiskTime::ZERO, "an estimate is not negative: {estimate}");
        estimate
    }
}

/// Whether `operation` continues where a volume's previous command ended, at `last_end`.
pub(crate) fn is_sequential(operation: &Operation, last_end: Option<Lba>) -> bool {
    debug_assert!(operation.op != Op::Seek, "a seek is no request's command");
    // A flush has no location; it neither continues a run nor begins one.
    !operation.extent.is_empty()
        && last_end.is_some_and(|end| operation.extent.start.distance(end) < SEQUENTIAL_WITHIN)
}

impl DriveTable {
    /// The service time of a command that starts `distance` from the end of the previous one;
    /// `None`: it continues there.
    fn cost(&self, operation: &Operation, distance: Option<Sectors>) -> DiskTime {
        debug_assert!(!operation.extent.is_empty(), "a command without sectors has a constant");
        let len = i64::try_from(operation.extent.len.0).expect("a command is short");
        let zone = self.zones.partition_point(|(first, _)| *first <= operation.extent.start);
        let media = self.zones[zone.saturating_sub(1)].1.as_nanos() * len;
        let bus = self.bus_sector.as_nanos() * len;
        let nanos = match distance {
            // Media and bus work in parallel: the slower one counts.
            None => media.max(self.hit.as_nanos() + bus),
            Some(distance) => self.positioning(distance).as_nanos() + media.max(bus),
        };
        DiskTime::from_nanos(nanos)
    }

    fn positioning(&self, distance: Sectors) -> DiskTime {
        let points = &self.positioning;
        debug_assert!(points.is_sorted_by_key(|(at, _)| *at), "distances increase");
        let above = points.partition_point(|(at, _)| *at <= distance);
        let (below, Some(next)) = (points[above.max(1) - 1], points.get(above)) else {
            return points[TABLE_POINTS - 1].1;
        };
        let (from, to) = (i128::from(below.1.as_nanos()), i128::from(next.1.as_nanos()));
        let part = i128::from(distance.0.saturating_sub(below.0.0));
        let nanos = from + (to - from) * part / i128::from((next.0.0 - below.0.0).max(1));
        debug_assert!(nanos >= from.min(to), "between the two points");
        debug_assert!(nanos <= from.max(to), "between the two points");
        DiskTime::from_nanos(i64::try_from(nanos).expect("between two times"))
    }
}

/// A class of commands: by distance, direction and length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class(u8);

/// The classes of distance: sequential, near, far.
const REACHES: u8 = 3;
/// Up to this distance the arm hardly moves: 1 GiB is a few hundred cylinders of a current disk.
const NEAR: Sectors = Sectors(1 << 21);
/// The longest command of each class of length, except the last.
const LENGTHS: [Sectors; 3] = [Sectors(8), Sectors(64), Sectors(512)];
const LENGTH_CLASSES: u8 = 4;
const CLASSES: usize = 2 * REACHES as usize * LENGTH_CLASSES as usize;
/// The EWMA divisor of a class's mean: it covers some tens of commands.
const MEAN_DIVISOR: i64 = 16;

impl Class {
    fn of(operation: &Operation, distance: Option<Sectors>) -> Self {
        let reach = match distance {
            None => 0,
            Some(distance) if distance < NEAR => 1,
            Some(_) => 2,
        };
        let length = (0..).zip(LENGTHS).find(|(_, longest)| operation.extent.len <= *longest);
        let length = length.map_or(LENGTH_CLASSES - 1, |(class, _)| class);
        let writes = u8::from(operation.op != Op::Read);
        let class = (writes * REACHES + reach) * LENGTH_CLASSES + length;
        debug_assert!(usize::from(class) < CLASSES, "{class} is a class");
        Self(class)
    }
}

/// Estimates commands and learns from completions.
#[derive(Debug)]
pub(crate) struct Estimator {
    estimates: Estimates,
    /// Where the last command of any volume ended.
    arm: Option<Lba>,
    means: [Option<DiskTime>; CLASSES],
}

impl Estimator {
    pub(crate) fn new(estimates: &Estimates) -> Self {
        Self { estimates: *estimates, arm: None, means: [None; CLASSES] }
    }

    /// The estimate and the class of `operation`, which is dispatched now. `in_run`: it continues
    /// an uninterrupted sequential run.
    pub(crate) fn dispatch(&mut self, operation: &Operation, in_run: bool) -> (DiskTime, Class) {
        let constant = self.estimates.of(in_run);
        if self.estimates.estimator == EstimatorName::Constants || operation.extent.is_empty() {
            return (constant, Class::default());
        }
        let from = self.arm.replace(operation.extent.end()).unwrap_or_default();
        let distance = (!in_run).then(|| operation.extent.start.distance(from));
        let class = Class::of(operation, distance);
        let estimate = match self.estimates.estimator {
            EstimatorName::Constants => constant,
            EstimatorName::Profile => {
                self.estimates.table.map_or(constant, |table| table.cost(operation, distance))
            }
            EstimatorName::Learned => self.means[usize::from(class.0)].unwrap_or(constant),
        };
        debug_assert!(usize::from(class.0) < CLASSES, "{class:?} is a class");
        debug_assert!(estimate >= DiskTime::ZERO, "an estimate is not negative: {estimate}");
        (estimate.max(DiskTime::from_nanos(1)), class)
    }

    /// Learns that a command of `class` had the service time `actual`.
    pub(crate) fn learn(&mut self, class: Class, actual: DiskTime) {
        assert!(actual >= DiskTime::ZERO, "a service time is not negative: {actual}");
        if self.estimates.estimator == EstimatorName::Learned {
            let mean = &mut self.means[usize::from(class.0)];
            let before = mean.unwrap_or(actual);
            let step = (actual - before).as_nanos() / MEAN_DIVISOR;
            let after = before + DiskTime::from_nanos(step);
            debug_assert!(after >= before.min(actual), "a mean moves towards the observation");
            debug_assert!(after <= before.max(actual), "a mean moves towards the observation");
            *mean = Some(after);
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Extent;

    use super::*;

    fn read(start: u64, len: u64) -> Operation {
        Operation::read(Extent::new(Lba(start), Sectors(len)))
    }

    fn us(n: i64) -> DiskTime {
        DiskTime::from_micros(n)
    }

    fn table() -> DriveTable {
        let step =
            |point: u64| (Sectors(point * 1_000), us(1_000 + 100 * i64::try_from(point).unwrap()));
        let zone = |zone: u64| (Lba(zone * 1_000), us(1 + i64::try_from(zone).unwrap()));
        DriveTable {
            positioning: core::array::from_fn(|point| step(point as u64)),
            zones: core::array::from_fn(|index| zone(index as u64)),
            hit: us(50),
            bus_sector: us(2),
        }
    }

    fn estimator(by: EstimatorName) -> Estimator {
        Estimator::new(&Estimates { estimator: by, table: Some(table()), ..Estimates::default() })
    }

    #[test]
    fn a_table_adds_positioning_and_the_transfer_of_the_zone() {
        let mut estimator = estimator(EstimatorName::Profile);
        // Half-way between two points, in the zone whose sectors take 3 µs.
        assert_eq!(estimator.dispatch(&read(2_500, 10), false).0, us(1_250 + 30));
        // After the last point the positioning time is constant.
        assert_eq!(estimator.dispatch(&read(1_000_000, 1), false).0, us(2_500 + 16));
        // The cache serves a run as fast as bus and media allow.
        assert_eq!(estimator.dispatch(&read(1_000_001, 1), true).0, us(52));
        assert_eq!(estimator.dispatch(&read(1_000_002, 100), true).0, us(1_600));
    }

    #[test]
    fn classes_learn_independently() {
        let mut estimator = estimator(EstimatorName::Learned);
        let far = |number: u64| read(number * 100_000_000, 8);
        let (first, class) = estimator.dispatch(&far(1), false);
        assert_eq!(first, DiskTime::from_millis(20), "nothing is known yet");
        for _ in 0..200 {
            estimator.learn(class, DiskTime::from_millis(12));
        }
        assert_eq!(estimator.dispatch(&far(5), false), (DiskTime::from_millis(12), class));
        let (long, other) = estimator.dispatch(&read(0, 2_048), false);
        assert_eq!(long, DiskTime::from_millis(20));
        assert_ne!(other, class);
    }

    #[test]
    fn the_mean_follows_a_drive_that_changes() {
        let mut estimator = estimator(EstimatorName::Learned);
        let (_, class) = estimator.dispatch(&read(0, 8), true);
        (0..100).for_each(|_| estimator.learn(class, us(200)));
        (0..100).for_each(|_| estimator.learn(class, us(900)));
        let (now, _) = estimator.dispatch(&read(8, 8), true);
        assert!((us(890)..=us(900)).contains(&now), "{now}");
    }
}
