//! The way to the drive and back, where it can be timed on its own: it is in every overhead, and none of the drive's.
//!
//! It is timed beside what it is taken from, since it is longer and shorter for seconds each time. What answers is not
//! the drive, so that one constant stands for all: data that takes longer on the way shows in the bus.

use units::{Duration, Share};

use super::num::{duration, mean, median, ns};
use super::prober::Prober;
use crate::{Figure, Halt};

/// Ways that are remembered at most.
const WAYS_MAX: usize = 4_096;
/// Parts of all ways, one after the other, whose middles tell how the path wanders.
const PARTS: usize = 8;
/// Fewer ways say nothing.
const LEAST: usize = 16;

/// Ways that were timed, in ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    ways: Vec<f64>,
}

impl Path {
    /// Times one more.
    pub(crate) fn time(&mut self, prober: &mut Prober<'_, '_>) -> Result<(), Halt> {
        if let Some(way) = prober.bench.path()? {
            self.push(way);
            prober.path.push(way);
        }
        Ok(())
    }

    pub(crate) fn push(&mut self, way: Duration) {
        if self.ways.len() < WAYS_MAX {
            self.ways.push(ns(way));
        }
    }

    /// The middle one, in ns; nothing where there is no path that could be timed.
    pub(crate) fn middle(&self) -> f64 {
        if self.ways.len() < LEAST { 0.0 } else { median(self.ways.clone()).unwrap_or(0.0) }
    }

    /// As a figure: what parts of it that were timed one after the other differ by says how far it is known.
    pub(crate) fn figure(&self) -> Option<Figure<Duration>> {
        let count = self.ways.len();
        if count < LEAST {
            return None;
        }
        let each = self.ways.chunks(count.div_ceil(PARTS));
        let middles: Vec<f64> = each.filter_map(|part| median(part.to_vec())).collect();
        Some(Figure {
            value: duration(self.middle()),
            spread: duration(mean(&middles).1.max(1.0)),
            samples: u32::try_from(count).unwrap_or(u32::MAX),
            confidence: Share::from_percent(90),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::num::part;
    use super::*;

    #[test]
    fn late_ways_move_no_middle_and_a_path_that_wanders_is_known_less() {
        let path = |wander: f64| {
            let way = |nth: u64| {
                let level = if nth.is_multiple_of(64) { 2e6 } else { 90_000.0 };
                level + wander * part(nth / 50 % 2)
            };
            Path { ways: (0..400).map(way).collect() }
        };
        let (steady, wanders) = (path(0.0).figure(), path(40_000.0).figure());
        let (steady, wanders) = (steady.expect("enough"), wanders.expect("enough"));
        assert_eq!(steady.value, Duration::from_micros(90));
        assert!(wanders.spread > steady.spread + Duration::from_micros(5), "{wanders:?}");
        assert!(Path { ways: vec![1.0; LEAST - 1] }.figure().is_none());
    }
}
