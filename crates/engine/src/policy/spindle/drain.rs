//! How long the drive takes for the commands of one volume that it holds, as far as was learned.
//!
//! A drive that orders its own queue takes the less for a command the more of them it chooses from.
//! So the service time is learned by the number of commands in the drive, in classes of powers of
//! two. What the drive holds drains in the sum of the times at each number down to one.
//!
//! A quantum drains for another deep volume at its end. A shallow volume, whose client waits for
//! each answer, is served at the first command boundary from when its bucket pays for its quantum.
//! So beside one the drive has one command at a time, but for those that are done before that.
//!
//! ```text
//! shallow   served ├──┤                              due ├──┤
//! deep                 │ several commands │ fewer │ one │
//! ```

use units::{DiskTime, Duration, Instant, Share};

use super::learned::Mean;
use super::quantum::Quantum;
use super::{SignedInstant, Spindle};
use crate::VolumeId;
use crate::limits::DEPTH_MAX;
use crate::policy::interface::Pick;

/// A shallow volume uses the disk for this long after it was served.
const SHALLOW_ACTIVE_FOR: Duration = Duration::from_secs(1);
/// The EWMA divisor: a sum of as many service times as the drive has commands is to vary little.
const DRAIN_DIVISOR: i64 = 64;
/// The classes: one command, 2 and 3, 4 to 7, and so on.
const CLASSES: usize = DEPTH_MAX.ilog2() as usize + 1;

/// The service times of a volume's commands by the number of them in the drive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DrainTimes([Mean; CLASSES]);

impl DrainTimes {
    fn class(inside: u32) -> usize {
        debug_assert!((1..=DEPTH_MAX).contains(&inside), "commands in flight are bounded");
        inside.ilog2() as usize
    }

    /// One of `inside` commands in the drive completed after `took`.
    pub(super) fn learn(&mut self, inside: u32, took: DiskTime) {
        debug_assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        self.0[Self::class(inside)].learn(took, DRAIN_DIVISOR);
    }

    /// The service time of a command with `inside` commands in the drive; that with fewer if it is
    /// not known, and `None` if neither is.
    pub(super) fn service(&self, inside: u32) -> Option<DiskTime> {
        let mut known = self.0[..=Self::class(inside)].iter().rev();
        known.find_map(|mean| mean.time())
    }

    /// How long `inside` commands take until the drive is empty. `unknown`: the service time of a
    /// command before one was measured.
    pub(super) fn drain(&self, inside: u32, unknown: DiskTime) -> DiskTime {
        debug_assert!(inside <= DEPTH_MAX, "commands in flight are bounded: {inside}");
        debug_assert!(unknown >= DiskTime::ZERO, "a service time is not negative: {unknown}");
        let (mut total, mut service) = (0_i64, unknown);
        let classes = if inside == 0 { 0 } else { Self::class(inside) + 1 };
        for (class, mean) in (0_u32..).zip(&self.0[..classes]) {
            service = mean.time().unwrap_or(service);
            let numbers = (inside + 1).min(2 << class) - (1 << class);
            total += service.as_nanos() * i64::from(numbers);
        }
        DiskTime::from_nanos(total)
    }

    /// What emptying the drive, and filling it again, costs beside `inside` commands of a queue
    /// that is kept filled.
    pub(super) fn cost(&self, inside: u32) -> DiskTime {
        let Some(service) = self.service(inside.max(1)) else { return DiskTime::ZERO };
        let filled = DiskTime::from_nanos(service.as_nanos() * i64::from(inside));
        (self.drain(inside, service) - filled).max(DiskTime::ZERO)
    }
}

impl Spindle {
    /// Whether the drive takes no command beside those in it: a shallow volume uses the disk, and
    /// its client would wait for them.
    pub(super) fn keeps_to_one(&mut self, now: Instant) -> bool {
        let Some((shallow, at)) = self.last_shallow else { return false };
        if now.since(at) > SHALLOW_ACTIVE_FOR {
            return false;
        }
        match self.quantum {
            Some(quantum) if quantum.volume == shallow => self.has_rival(shallow),
            Some(quantum) => !self.is_done_before(quantum, shallow, now),
            None => true,
        }
    }

    /// Whether one command more of `quantum`'s volume, and those in the drive, are done before
    /// `shallow`, or any other shallow volume, is due.
    fn is_done_before(&mut self, quantum: Quantum, shallow: VolumeId, now: Instant) -> bool {
        let unknown = self.estimates.random;
        let allowance = self.ledger.allowance(now);
        let entry = &self.volumes[shallow.0 as usize];
        let returns = entry.account.holds_with(entry.need(allowance, unknown), Share::NONE);
        let waits = self.shallow.first().map(|((at, _), _)| at);
        let Some(due) = returns.into_iter().chain(waits).min() else { return false };
        let entry = &self.volumes[quantum.volume.0 as usize];
        let inside = (entry.running + 1).min(DEPTH_MAX);
        let drain = u64::try_from(entry.drains.drain(inside, unknown).as_nanos()).unwrap_or(0);
        debug_assert_ne!(quantum.volume, shallow, "another volume's quantum");
        due >= SignedInstant::at(now + Duration::from_nanos(drain))
    }

    /// A quantum does not overlap other volumes' commands in the drive.
    pub(super) fn after_drain(&self, volume: VolumeId, running: usize) -> Pick {
        let own = self.volumes[volume.0 as usize].running as usize;
        debug_assert!(own <= running, "a volume's commands are in the drive");
        if self.positions() && running > own { Pick::Nothing } else { Pick::Volume(volume) }
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
