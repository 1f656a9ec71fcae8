//! Positioning costs by distance, learned from completions.
//!
//! What a switch between volumes costs cannot be observed in one command, whose rotational wait
//! varies by more. So a command's service time is taken as the sum of two means: one of its volume,
//! and one of the distance from the end of the command before it. The difference between the cost
//! at that distance and the cost at the distance from the volume's own previous command is what the
//! switch added. Each command teaches both means, whether or not it follows a switch: a volume that
//! never has two commands in a row is known as well as one that has.
//!
//! A constant may move between the two means; only differences are used.

use units::{DiskTime, Lba, Sectors};

/// Classes of distances: two an octave, and one for none.
const CLASSES: usize = 80;
/// The most samples that a class remembers.
const MEMORY: i64 = 64;

/// A class of distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Distance(u8);

impl Distance {
    /// The class of the distance from `from` to `to`.
    pub(super) fn between(from: Option<Lba>, to: Lba) -> Self {
        let Sectors(sectors) = from.unwrap_or(Lba(0)).distance(to);
        let octave = u64::BITS - sectors.leading_zeros();
        // The bit below the highest halves the octave.
        let half = octave >= 2 && sectors >> (octave - 2) & 1 == 1;
        let class = octave * 2 + u32::from(half);
        let last = u32::try_from(CLASSES - 1).expect("classes are few");
        Self(u8::try_from(class.min(last)).expect("classes are few"))
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

/// The costs of a disk.
#[derive(Debug)]
pub(super) struct PositioningCosts {
    cells: [Cell; CLASSES],
}

impl PositioningCosts {
    pub(super) fn new() -> Self {
        Self { cells: [Cell::default(); CLASSES] }
    }

    /// The cost at the nearest distance that is known.
    fn of(&self, distance: Distance) -> Option<i64> {
        let at = usize::from(distance.0);
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
        let cost = |distance| self.of(distance).unwrap_or_default();
        let excess = if actual == own { 0 } else { cost(actual) - cost(own) };
        DiskTime::from_nanos(excess)
    }

    /// A command of the volume of `base` took `took` at the distance `actual`.
    pub(super) fn learn(&mut self, base: &mut Base, actual: Distance, took: DiskTime) {
        assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        let cell = self.cells[usize::from(actual.0)];
        if base.0.samples == 0 {
            // The first command of a volume: its distance is believed.
            base.0.learn(took.as_nanos() - self.of(actual).unwrap_or_default());
        }
        let residual = took.as_nanos() - base.0.mean;
        if cell.samples > 0 {
            base.0.learn(took.as_nanos() - cell.mean);
        }
        self.cells[usize::from(actual.0)].learn(residual);
    }
}
