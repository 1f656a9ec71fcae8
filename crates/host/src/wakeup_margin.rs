//! How much earlier than needed a thread asks to be woken, learnt from its late wake-ups.
//!
//! A thread that sleeps until an instant wakes after it: 20 us late on a processor in a light sleep
//! state, 50 us late after a sleep of milliseconds. An emulated disk would answer late by as much,
//! and a just-in-time seek would start late by as much. So the thread asks to be woken earlier by a
//! margin that follows its recent lateness, and polls the clock for the rest of the wait.

use units::{Duration, Instant};

/// The largest margin: a machine that wakes threads later than this is overloaded, and polling the
/// clock would load it further.
const MARGIN_MAX: Duration = Duration::from_micros(100);
/// The step up after a wake-up later than the margin, and the step down after any other. Their
/// ratio makes one in nine wake-ups too late.
const STEP_UP: Duration = Duration::from_micros(8);
const STEP_DOWN: Duration = Duration::from_micros(1);

/// The time before an instant at which a thread asks to be woken for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct WakeupMargin {
    margin: Duration,
}

impl WakeupMargin {
    /// The part of the remaining time `left` to sleep for. The rest is polled.
    pub fn sleep_time(self, left: Duration) -> Duration {
        left.saturating_sub(self.margin)
    }

    /// Adapts the margin to a sleep that was planned to end at `planned` and timed out at `now`.
    pub fn record_wakeup(&mut self, planned: Instant, now: Instant) {
        let lateness = now.saturating_since(planned);
        self.margin = if lateness > self.margin {
            (self.margin + STEP_UP).min(MARGIN_MAX)
        } else {
            self.margin.saturating_sub(STEP_DOWN)
        };
        assert!(self.margin <= MARGIN_MAX, "the margin is bounded");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_covers_the_lateness_of_most_wakeups_and_is_bounded() {
        let mut margin = WakeupMargin::default();
        let late = |nth: u64| Duration::from_micros(20 + nth % 10);
        let (mut in_time, sleeps) = (0, 2_000);
        for nth in 0..sleeps {
            let left = Duration::from_millis(3);
            let planned = Instant::ZERO + margin.sleep_time(left);
            let woken = planned + late(nth);
            in_time += u64::from(woken <= Instant::ZERO + left);
            margin.record_wakeup(planned, woken);
        }
        assert!(in_time * 10 >= sleeps * 8, "{in_time} of {sleeps}");
        let learnt = Duration::from_millis(3) - margin.sleep_time(Duration::from_millis(3));
        assert!(learnt <= Duration::from_micros(40), "longer than the wake-ups are late: {learnt}");
        for _ in 0..100 {
            margin.record_wakeup(Instant::ZERO, Instant::ZERO + Duration::from_secs(1));
        }
        assert_eq!(margin.sleep_time(Duration::from_millis(1)), Duration::from_micros(900));
        assert_eq!(margin.sleep_time(Duration::from_micros(30)), Duration::ZERO);
    }
}
