//! What several commands of one volume, and the flush that ends them, take together.

use units::DiskTime;

/// The EWMA divisor of what several commands and their flush take.
const TIMES_DIVISOR: i64 = 16;
/// One command, as a sample.
const COMMAND: i64 = 1 << 10;
/// What one command adds is learned while the standard deviation of their number is two and more.
const VARIANCE_MIN: i64 = 4 * COMMAND * COMMAND;

/// What several commands, and the flush that ends them, take together: a line over their number,
/// of which the constant is what a flush costs. Means of the number, in units of [`COMMAND`], and
/// of the time in µs, of the square of the deviation of the one and of the product of both.
#[derive(Debug, Default)]
pub(super) struct HoldTimes {
    commands: i64,
    time: i64,
    variance: i64,
    covariance: i64,
    /// What one command adds, in µs, as far as it is known.
    slope: Option<i64>,
}

impl HoldTimes {
    pub(super) fn learn(&mut self, commands: u32, took: DiskTime) {
        debug_assert!(commands > 0, "a flush ends what was written");
        let (commands, time) = (i64::from(commands) * COMMAND, took.as_nanos() / 1_000);
        if self.commands == 0 {
            (self.commands, self.time) = (commands, time);
            return;
        }
        let (more, longer) = (commands - self.commands, time - self.time);
        self.commands += more / TIMES_DIVISOR;
        self.time += longer / TIMES_DIVISOR;
        self.variance += (more * more - self.variance) / TIMES_DIVISOR;
        self.covariance += (more * longer - self.covariance) / TIMES_DIVISOR;
        debug_assert!(self.variance >= 0, "a square is not negative");
        if self.variance >= VARIANCE_MIN {
            debug_assert!(self.variance > 0, "no number is divided by zero");
            self.slope = Some(self.covariance * COMMAND / self.variance);
        }
    }

    /// What a flush costs, whatever was written before it: nothing, as long as it is unknown.
    pub(super) fn flush(&self) -> DiskTime {
        let Some(slope) = self.slope else { return DiskTime::ZERO };
        let micros = self.time - slope * self.commands / COMMAND;
        debug_assert!(self.time >= 0, "a service time is not negative: {} us", self.time);
        debug_assert!(self.commands > 0, "what was learned has commands");
        DiskTime::from_micros(micros.clamp(0, self.time))
    }

    /// What this number of commands adds to that.
    pub(super) fn written(&self, commands: u32) -> DiskTime {
        let by_commands = self.time - self.flush().as_nanos() / 1_000;
        debug_assert!(by_commands >= 0, "the flush is a part of the time");
        debug_assert!(self.commands >= 0, "a number of commands is not negative");
        let micros = by_commands * COMMAND / self.commands.max(COMMAND) * i64::from(commands);
        DiskTime::from_micros(micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: i64) -> DiskTime {
        DiskTime::from_millis(millis)
    }

    /// What is learned of holds of these numbers of commands, each of which adds 4 ms to the 7 of
    /// the flush.
    fn learned(commands: &[u32]) -> HoldTimes {
        let mut times = HoldTimes::default();
        for commands in commands.repeat(100) {
            times.learn(commands, ms(7 + 4 * i64::from(commands)));
        }
        times
    }

    #[test]
    fn the_cost_of_a_flush_is_told_from_that_of_the_commands_before_it() {
        let times = learned(&[16, 3, 13, 16, 6, 10]);
        let error = times.flush() - ms(7);
        assert!(error.max(-error) < ms(1), "{}", times.flush());
        let error = times.written(5) - ms(20);
        assert!(error.max(-error) < ms(1), "{}", times.written(5));
    }

    #[test]
    fn it_is_unknown_while_all_writes_are_equally_long_and_kept_when_they_become_so() {
        let mut times = learned(&[16]);
        assert_eq!(times.flush(), DiskTime::ZERO);
        assert!(times.written(16) > ms(70), "they take what is known of them");
        for commands in [16, 4].repeat(100) {
            times.learn(commands, ms(7 + 4 * i64::from(commands)));
        }
        for _ in 0..200 {
            times.learn(4, ms(23));
        }
        let error = times.flush() - ms(7);
        assert!(error.max(-error) < ms(1), "{}", times.flush());
    }
}
