//! The way to the drive and back, where it can be timed on its own: it is in every overhead, and none of the drive's.
//!
//! It is timed beside what it is taken from, since it is longer and shorter for seconds each time. What answers is not
//! the drive, so that one constant stands for all: data that takes longer on the way shows in the bus.
//!
//! Whoever waits on the way falls asleep, and is woken the later the longer that was: 0.1 ms make 60 us of a way, and 5 ms
//! make 130, each time for threads there and back. A drive lets everybody sleep until it answers; what answers in its
//! place does not. So the way is timed after none of the silence that an operation had, after what it had before it, and
//! after what it had until its answer: what silence makes of the way there it also makes of the way back.

use units::{Duration, Share};

use crate::bench::StopReason;
use crate::estimate::number::{duration, mean, median, middle, ns};
use crate::mechanics::prober::Prober;
use drive_profile::findings::Figure;

/// Ways that are remembered at most, of each silence.
const WAYS_MAX: usize = 2_048;
/// Parts of all ways, one after the other, whose middles tell how the path wanders.
const PARTS: usize = 8;
/// Fewer ways of each silence say nothing.
const LEAST: usize = 5;
/// Longer silences than this put nobody to a deeper sleep.
const SILENCE_MAX: Duration = Duration::from_millis(12);

/// How many errors tell that a silence makes something of the way.
const TELLS: f64 = 3.0;

/// Ways that were timed, in ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    /// After none, after that before operations, and after that in them.
    ways: [Vec<f64>; 3],
    count: usize,
}

impl Path {
    /// Times one more, beside the operation that was just timed.
    pub(crate) fn time(&mut self, prober: &mut Prober<'_, '_>) -> Result<(), StopReason> {
        let [before, within] = prober.bench.silences();
        let silence = [Duration::ZERO, before, within][self.turn()].min(SILENCE_MAX);
        if let Some(way) = prober.bench.path(silence)? {
            let turn = self.turn();
            self.push(turn, way);
            prober.path.push(turn, way);
        }
        Ok(())
    }

    /// Which of the silences is next.
    const fn turn(&self) -> usize {
        self.count % 3
    }

    fn push(&mut self, turn: usize, way: Duration) {
        if self.ways[turn].len() < WAYS_MAX {
            self.ways[turn].push(ns(way));
        }
        self.count += 1;
    }

    /// The middle one, in ns; nothing where there is no path that could be timed.
    pub(crate) fn middle(&self) -> f64 {
        if self.is_known() { of(&self.ways.each_ref().map(Vec::as_slice)) } else { 0.0 }
    }

    fn is_known(&self) -> bool {
        self.ways.iter().all(|ways| ways.len() >= LEAST)
    }

    /// As a figure: what parts of it that were timed one after the other differ by says how far it is known.
    pub(crate) fn figure(&self) -> Option<Figure<Duration>> {
        if !self.is_known() {
            return None;
        }
        let parts = PARTS.min(self.ways.iter().map(Vec::len).min().unwrap_or(0));
        let part = |nth: usize, ways: &[f64]| {
            let (first, end) = (nth * ways.len() / parts, (nth + 1) * ways.len() / parts);
            ways[first..end].to_vec()
        };
        let middles = (0..parts).map(|nth| {
            let ways = self.ways.each_ref().map(|ways| part(nth, ways));
            of(&ways.each_ref().map(Vec::as_slice))
        });
        let middles: Vec<f64> = middles.collect();
        let count = self.ways.iter().map(Vec::len).sum::<usize>();
        Some(Figure {
            value: duration(self.middle()),
            spread: duration(mean(&middles).1.max(1.0)),
            samples: u32::try_from(count).unwrap_or(u32::MAX),
            confidence: Share::from_percent(90),
        })
    }
}

/// The way there and back, of ways after none, one and another silence. What a silence makes is told from what ways vary
/// by, or is nothing: then all of them say what there is without.
fn of(ways: &[&[f64]; 3]) -> f64 {
    let known = ways.map(middle);
    let (none, error) = known[0];
    let made = known.map(|(way, other)| {
        let made = way - none;
        if made.abs() > TELLS * error.hypot(other) { made } else { 0.0 }
    });
    let without =
        ways.iter().zip(made).flat_map(|(ways, made)| ways.iter().map(move |way| way - made));
    (median(without.collect()).unwrap_or(0.0) + made.iter().sum::<f64>()).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::number::part;

    #[test]
    fn late_ways_move_no_middle_and_a_path_that_wanders_is_known_less() {
        let path = |wander: f64| {
            let way = |nth: u64| {
                let level = if nth.is_multiple_of(64) { 2e6 } else { 90_000.0 };
                level + wander * part(nth / 50 % 2)
            };
            let ways: Vec<f64> = (0..400).map(way).collect();
            Path { ways: [ways.clone(), ways.clone(), ways], count: 1_200 }
        };
        let (steady, wanders) = (path(0.0).figure(), path(40_000.0).figure());
        let (steady, wanders) = (steady.expect("enough"), wanders.expect("enough"));
        assert_eq!(steady.value, Duration::from_micros(90));
        assert!(wanders.spread > steady.spread + Duration::from_micros(5), "{wanders:?}");
        let ways = vec![1.0; LEAST - 1];
        assert!(Path { ways: [ways.clone(), ways.clone(), ways], count: 0 }.figure().is_none());
    }

    #[test]
    fn what_silence_makes_of_the_way_there_it_makes_of_the_way_back() {
        let ways = [60_000.0, 130_000.0, 75_000.0].map(|way| vec![way; 20]);
        assert!((Path { ways, count: 60 }.middle() - 145_000.0).abs() < 1.0);
    }
}
