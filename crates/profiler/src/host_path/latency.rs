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

use crate::bench::{Bench, StopReason};
use crate::estimate::number::{duration, mean, median, median_with_error, ns};
use drive_profile::findings::Figure;

/// Ways that are remembered at most, of each silence.
const SAMPLES_MAX: usize = 2_048;
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
pub(crate) struct PathLatency {
    /// After none, after that before operations, and after that in them.
    samples: [Vec<f64>; 3],
    count: usize,
}

impl PathLatency {
    /// Times the path once, beside the operation that was just timed. The sample and its kind, if
    /// the target can time its path.
    pub(crate) fn time(
        &mut self,
        bench: &mut Bench<'_>,
    ) -> Result<Option<(usize, Duration)>, StopReason> {
        let [before, within] = bench.silences();
        let silence = [Duration::ZERO, before, within][self.slot()].min(SILENCE_MAX);
        let Some(latency) = bench.path(silence)? else { return Ok(None) };
        let slot = self.slot();
        self.push(slot, latency);
        Ok(Some((slot, latency)))
    }

    /// Which of the silences is next.
    const fn slot(&self) -> usize {
        self.count % 3
    }

    /// Adds a sample of one kind.
    pub(crate) fn push(&mut self, slot: usize, latency: Duration) {
        if self.samples[slot].len() < SAMPLES_MAX {
            self.samples[slot].push(ns(latency));
        }
        self.count += 1;
    }

    /// The middle one, in ns; nothing where there is no path that could be timed.
    pub(crate) fn median(&self) -> f64 {
        if self.is_known() { of(&self.samples.each_ref().map(Vec::as_slice)) } else { 0.0 }
    }

    fn is_known(&self) -> bool {
        self.samples.iter().all(|samples| samples.len() >= LEAST)
    }

    /// As a figure: what parts of it that were timed one after the other differ by says how far it is known.
    pub(crate) fn figure(&self) -> Option<Figure<Duration>> {
        if !self.is_known() {
            return None;
        }
        let parts = PARTS.min(self.samples.iter().map(Vec::len).min().unwrap_or(0));
        let section = |nth: usize, samples: &[f64]| {
            let (first, end) = (nth * samples.len() / parts, (nth + 1) * samples.len() / parts);
            samples[first..end].to_vec()
        };
        let middles = (0..parts).map(|nth| {
            let samples = self.samples.each_ref().map(|samples| section(nth, samples));
            of(&samples.each_ref().map(Vec::as_slice))
        });
        let middles: Vec<f64> = middles.collect();
        let count = self.samples.iter().map(Vec::len).sum::<usize>();
        Some(Figure {
            value: duration(self.median()),
            spread: duration(mean(&middles).1.max(1.0)),
            samples: u32::try_from(count).unwrap_or(u32::MAX),
            confidence: Share::from_percent(90),
        })
    }
}

/// The way there and back, of ways after none, one and another silence. What a silence makes is told from what ways vary
/// by, or is nothing: then all of them say what there is without.
fn of(samples: &[&[f64]; 3]) -> f64 {
    let known = samples.map(median_with_error);
    let (none, error) = known[0];
    let made = known.map(|(latency, other)| {
        let made = latency - none;
        if made.abs() > TELLS * error.hypot(other) { made } else { 0.0 }
    });
    let without = samples
        .iter()
        .zip(made)
        .flat_map(|(samples, made)| samples.iter().map(move |latency| latency - made));
    (median(without.collect()).unwrap_or(0.0) + made.iter().sum::<f64>()).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::number::real;

    #[test]
    fn late_ways_move_no_middle_and_a_path_that_wanders_is_known_less() {
        let path = |wander: f64| {
            let latency = |nth: u64| {
                let level = if nth.is_multiple_of(64) { 2e6 } else { 90_000.0 };
                level + wander * real(nth / 50 % 2)
            };
            let samples: Vec<f64> = (0..400).map(latency).collect();
            PathLatency { samples: [samples.clone(), samples.clone(), samples], count: 1_200 }
        };
        let (steady, wanders) = (path(0.0).figure(), path(40_000.0).figure());
        let (steady, wanders) = (steady.expect("enough"), wanders.expect("enough"));
        assert_eq!(steady.value, Duration::from_micros(90));
        assert!(wanders.spread > steady.spread + Duration::from_micros(5), "{wanders:?}");
        let samples = vec![1.0; LEAST - 1];
        assert!(
            PathLatency { samples: [samples.clone(), samples.clone(), samples], count: 0 }
                .figure()
                .is_none()
        );
    }

    #[test]
    fn what_silence_makes_of_the_way_there_it_makes_of_the_way_back() {
        let samples = [60_000.0, 130_000.0, 75_000.0].map(|latency| vec![latency; 20]);
        assert!((PathLatency { samples, count: 60 }.median() - 145_000.0).abs() < 1.0);
    }
}
