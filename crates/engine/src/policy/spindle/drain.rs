//! How long the drive takes for the commands of one volume that it holds, as far as was learned.
//!
//! A drive that orders its own queue takes the less for a command the more of them it chooses from.
//! So the service time is learned by the number of commands in the drive, in classes of powers of
//! two. What the drive holds drains in the sum of the times at each number down to one.

use units::DiskTime;

use super::learned::Mean;
use crate::limits::DEPTH_MAX;

/// The drains that a service time is the mean of. A sum of as many as the drive has commands is to
/// vary little: a class of as many times the numbers has as many times the samples.
const DRAINS: u16 = 64;
const _: () = assert!((DRAINS as u32) << (CLASSES - 1) <= u16::MAX as u32);
/// The classes: one command, 2 and 3, 4 to 7, and so on.
const CLASSES: usize = DEPTH_MAX.ilog2() as usize + 1;

/// The service times of a volume's commands by the number of them in the drive. The samples come
/// first, so that those of single commands and their mean share a cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct DrainTimes {
    /// The samples of each mean, up to [`DRAINS`] times the numbers in its class.
    samples: [u16; CLASSES],
    means: [Mean; CLASSES],
}

impl DrainTimes {
    fn class(inside: u32) -> usize {
        debug_assert!((1..=DEPTH_MAX).contains(&inside), "commands in flight are bounded");
        inside.ilog2() as usize
    }

    /// One of `inside` commands in the drive completed after `took`.
    pub(super) fn learn(&mut self, inside: u32, took: DiskTime) {
        debug_assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        let class = Self::class(inside);
        // The first samples count alike: a drain has a single one of the last command.
        let samples = &mut self.samples[class];
        *samples = (*samples + 1).min(DRAINS << class);
        self.means[class].learn_part(took, i64::from(*samples));
    }

    /// The service time of a command with `inside` commands in the drive; that with fewer if it is
    /// not known, and `None` if neither is.
    pub(super) fn service(&self, inside: u32) -> Option<DiskTime> {
        let mut known = self.means[..=Self::class(inside)].iter().rev();
        known.find_map(|mean| mean.time())
    }

    /// How long `inside` commands take until the drive is empty. `unknown`: the service time of a
    /// command before one was measured.
    pub(super) fn drain(&self, inside: u32, unknown: DiskTime) -> DiskTime {
        debug_assert!(inside <= DEPTH_MAX, "commands in flight are bounded: {inside}");
        debug_assert!(unknown >= DiskTime::ZERO, "a service time is not negative: {unknown}");
        let (mut total, mut service) = (0_i64, unknown);
        let classes = if inside == 0 { 0 } else { Self::class(inside) + 1 };
        for (class, mean) in (0_u32..).zip(&self.means[..classes]) {
            service = mean.time().unwrap_or(service);
            let numbers = (inside + 1).min(2 << class) - (1 << class);
            total += service.as_nanos() * i64::from(numbers);
        }
        DiskTime::from_nanos(total)
    }

    /// What emptying the drive, and filling it again, costs beside `inside` commands of a queue
    /// that is kept filled.
    pub(super) fn cost(&self, inside: u32) -> DiskTime {
        if inside <= 1 {
            // One command is no queue.
            return DiskTime::ZERO;
        }
        let Some(service) = self.service(inside) else { return DiskTime::ZERO };
        let filled = DiskTime::from_nanos(service.as_nanos() * i64::from(inside));
        (self.drain(inside, service) - filled).max(DiskTime::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: DiskTime = DiskTime::from_millis(20);

    #[test]
    fn the_drive_drains_in_the_sum_of_the_service_times_at_each_number() {
        let mut times = DrainTimes::default();
        assert_eq!(times.drain(0, UNKNOWN), DiskTime::ZERO);
        assert_eq!(times.drain(3, UNKNOWN), DiskTime::from_millis(60));
        for (inside, millis) in [(1, 12), (2, 10), (4, 8)] {
            times.learn(inside, DiskTime::from_millis(millis));
        }
        assert_eq!(times.drain(1, UNKNOWN), DiskTime::from_millis(12));
        assert_eq!(times.drain(3, UNKNOWN), DiskTime::from_millis(12 + 2 * 10));
        assert_eq!(times.drain(5, UNKNOWN), DiskTime::from_millis(12 + 2 * 10 + 2 * 8));
        // More than was ever in the drive: as long as with the most that is known.
        assert_eq!(times.drain(9, UNKNOWN), DiskTime::from_millis(12 + 2 * 10 + 6 * 8));
    }

    #[test]
    fn emptying_the_drive_costs_what_single_commands_take_longer() {
        let mut times = DrainTimes::default();
        assert_eq!(times.cost(4), DiskTime::ZERO);
        times.learn(4, DiskTime::from_millis(8));
        times.learn(2, DiskTime::from_millis(10));
        times.learn(1, DiskTime::from_millis(12));
        assert_eq!(times.cost(1), DiskTime::ZERO);
        assert_eq!(times.cost(4), DiskTime::from_millis(12 + 2 * 10 + 8 - 4 * 8));
    }
}
