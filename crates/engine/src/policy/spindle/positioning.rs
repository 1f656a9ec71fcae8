//! Positioning costs by distance: from the disk's profile, or learned from completions.
//!
//! What a switch between volumes costs cannot be observed in one command, whose rotational wait
//! varies by more. So a command's service time is taken as the sum of two means: one of its volume,
//! and one of the distance from the end of the command before it. The difference between the cost
//! at that distance and the cost at the distance from the volume's own previous command is what the
//! switch added. Each command teaches both means, whether or not it follows a switch: a volume that
//! never has two commands in a row is known as well as one that has.
//!
//! A constant may move between the two means; only differences are used.
//!
//! A profile has the seek time of each distance, and what a switch between two random commands adds
//! is the difference of two seeks. What is learned is wrong where a neighbour's requests are chosen
//! by position, as theirs are short at every distance: of a tenth of nearline-20t beside random
//! 1 MiB reads two seeds of five took a switch for 5 ms where it was 9, and had .71 of their worth.

use core::hint::cold_path;
use std::sync::Arc;

use drive_profile::Profile;
use units::{DiskTime, Lba, Sectors};

/// Classes of distances: two an octave, and one for none.
const CLASSES: usize = 80;
/// The most samples that a class remembers.
const MEMORY: i64 = 64;

/// The distance between two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Distance(Sectors);

impl Distance {
    pub(super) fn between(from: Option<Lba>, to: Lba) -> Self {
        Self(from.unwrap_or(Lba(0)).distance(to))
    }

    /// Whether the command does not continue where the other ended: it waits for its sector as any
    /// other does.
    fn is_seek(self) -> bool {
        self.0 > Sectors::ZERO
    }

    /// Its class.
    fn class(self) -> usize {
        let Self(Sectors(sectors)) = self;
        let octave = u64::BITS - sectors.leading_zeros();
        // The bit below the highest halves the octave.
        let half = octave >= 2 && sectors >> (octave - 2) & 1 == 1;
        let class = octave * 2 + u32::from(half);
        (class as usize).min(CLASSES - 1)
    }
}

/// A mean over the last samples: exact while they are few.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    mean: i64,
    samples: i64,
}

impl Cell {
    fn learn(&mut self, sample: i64) {
        let error = sample - self.mean;
        debug_assert!((0..=MEMORY).contains(&self.samples), "the memory is bounded");
        if self.samples == MEMORY {
            self.mean += error / MEMORY;
        } else {
            self.samples += 1;
            self.mean += error / self.samples;
        }
    }
}

/// The mean of a volume's service times, less that of the distance.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Base(Cell);

/// The seek times of a profile, by distances in sectors.
#[derive(Debug)]
struct ProfileSeeks {
    profile: Arc<Profile>,
    cylinder: Sectors,
}

impl ProfileSeeks {
    fn of(&self, distance: Distance) -> i64 {
        debug_assert!(self.cylinder > Sectors::ZERO, "a cylinder has a sector");
        let cylinders = u32::try_from(distance.0.0 / self.cylinder.0).unwrap_or(u32::MAX);
        let time = self.profile.seek.time(cylinders);
        i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 2)
    }
}

/// The costs of a disk.
#[derive(Debug)]
pub(super) struct PositioningCosts {
    cells: [Cell; CLASSES],
    known: Option<ProfileSeeks>,
}

impl PositioningCosts {
    pub(super) fn new() -> Self {
        Self { cells: [Cell::default(); CLASSES], known: None }
    }

    /// The costs of a disk with this profile, of whose cylinders each counts as long as their mean.
    pub(super) fn of_profile(profile: &Arc<Profile>) -> Self {
        let sectors = profile.bands.last().map_or(0, |band| band.lbas.end().0);
        let cylinder = Sectors((sectors / u64::from(profile.cylinders.max(1))).max(1));
        let known = ProfileSeeks { profile: Arc::clone(profile), cylinder };
        Self { known: Some(known), ..Self::new() }
    }

    /// The cost at the nearest distance that is known.
    fn of(&self, distance: Distance) -> Option<i64> {
        let at = distance.class();
        debug_assert!(at < CLASSES, "a distance has a class");
        if self.cells[at].samples > 0 {
            return Some(self.cells[at].mean);
        }
        let known = |index: &usize| self.cells.get(*index).is_some_and(|cell| cell.samples > 0);
        let nearest = (0..CLASSES).find_map(|off| {
            let below = at.checked_sub(off).filter(known);
            below.or(Some(at + off).filter(known))
        })?;
        Some(self.cells[nearest].mean)
    }

    /// What a command at the distance `actual` costs more than one at the distance `own`.
    pub(super) fn excess(&self, actual: Distance, own: Distance) -> DiskTime {
        if actual == own {
            // Most commands follow one of their own volume.
            return DiskTime::ZERO;
        }
        cold_path();
        if let Some(known) = self.known.as_ref().filter(|_| own.is_seek() && actual.is_seek()) {
            return DiskTime::from_nanos(known.of(actual) - known.of(own));
        }
        let cost = |distance| self.of(distance).unwrap_or_default();
        DiskTime::from_nanos(cost(actual) - cost(own))
    }

    /// A command of the volume of `base` took `took` at the distance `actual`.
    pub(super) fn learn(&mut self, base: &mut Base, actual: Distance, took: DiskTime) {
        assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        let cell = self.cells[actual.class()];
        if base.0.samples == 0 {
            cold_path();
            // The first command of a volume: its distance is believed.
            base.0.learn(took.as_nanos() - self.of(actual).unwrap_or_default());
        }
        let residual = took.as_nanos() - base.0.mean;
        if cell.samples > 0 {
            base.0.learn(took.as_nanos() - cell.mean);
        }
        self.cells[actual.class()].learn(residual);
    }
}

#[cfg(test)]
mod tests {
    use drive_profile::example_profile;

    use super::*;

    #[test]
    fn a_profile_says_what_a_seek_costs_more_than_another() {
        let profile = Arc::new(example_profile());
        let capacity = profile.bands.last().expect("a band").lbas.end().0;
        let mut costs = PositioningCosts::of_profile(&profile);
        let at = |part: u64| Distance::between(Some(Lba(0)), Lba(capacity / part));
        let seek = |part: u32| {
            let time = profile.seek.time(profile.cylinders / part);
            DiskTime::from(time)
        };
        let (far, near) = (costs.excess(at(2), at(64)), seek(2) - seek(64));
        let tolerance = DiskTime::from_micros(10);
        assert!(far > near - tolerance && far < near + tolerance, "{far}, by the curve {near}");
        assert_eq!(costs.excess(at(64), at(64)), DiskTime::ZERO);
        // Commands teach what only a command that continues another costs.
        let mut base = Base::default();
        let next = Distance::between(Some(Lba(7)), Lba(7));
        for took in [2, 10].repeat(50) {
            let at = if took == 2 { next } else { at(2) };
            costs.learn(&mut base, at, DiskTime::from_millis(took));
        }
        assert!(costs.excess(at(2), next) > DiskTime::from_millis(7));
        assert_eq!(costs.excess(at(2), at(64)), far);
    }
}
