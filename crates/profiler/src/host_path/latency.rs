//! The latency of the path to the drive and back, where the target can time it alone. It is part of
//! every overhead, but not of the drive's.
//!
//! The path is timed beside each measurement that contains it, because its latency varies over
//! seconds. A drive does not serve these requests, so that one constant represents the path: data
//! that takes longer on the path appears as bus time.
//!
//! Threads on the path are woken the later the longer they were idle: 0.1 ms of idle time makes a
//! path latency of 60 us, and 5 ms make 130 us, each for threads in both directions. During a
//! command the path is idle until the drive answers; during an out-of-band request it is not. So
//! the path is timed after no idle time, after the idle time before an operation, and after the
//! idle time within it: idle time delays the way back by as much as the way there.

use units::{Duration, Share};

use crate::bench::{Bench, StopReason};
use crate::estimate::number::{duration, mean, median, median_with_error, ns};
use drive_profile::findings::Figure;

/// The most samples kept of each idle time.
const SAMPLES_MAX: usize = 2_048;
/// The number of consecutive sections whose medians show how the path latency wanders.
const PARTS: usize = 8;
/// The least number of samples of each idle time.
const LEAST: usize = 5;
/// Idle times beyond this do not lead to deeper sleep.
const SILENCE_MAX: Duration = Duration::from_millis(12);

/// The significance of the effect of idle time, in standard errors.
const TELLS: f64 = 3.0;

/// Samples of the path latency, in ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathLatency {
    /// After no idle time, after the idle time before operations, and after that within them.
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

    /// The idle time of the next sample.
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

    /// The median latency in ns, and zero where the path cannot be timed.
    pub(crate) fn median(&self) -> f64 {
        if self.is_known() { of(&self.samples.each_ref().map(Vec::as_slice)) } else { 0.0 }
    }

    fn is_known(&self) -> bool {
        self.samples.iter().all(|samples| samples.len() >= LEAST)
    }

    /// The latency as a figure. Its error is that of the medians of consecutive sections.
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

/// The latency of samples after no, one and another idle time. The effect of an idle time counts if
/// it is significant. Without it all samples are of one kind.
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
    fn late_samples_do_not_move_the_median_and_a_varying_path_has_a_larger_error() {
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
    fn idle_time_delays_the_reply_as_much_as_the_request() {
        let samples = [60_000.0, 130_000.0, 75_000.0].map(|latency| vec![latency; 20]);
        assert!((PathLatency { samples, count: 60 }.median() - 145_000.0).abs() < 1.0);
    }
}
