//! The division of a disk's busy time among its commands (Zygaria, RTAS 2008 §2.1, extended to
//! several commands in flight).
//!
//! Each interval between two events is charged in equal parts to the commands that were in flight
//! in it. With one command in flight this is the rule of RTAS 2008: a command is charged from the
//! previous completion, or after idle time from its dispatch, to its own completion. With any
//! number the charges add up to the busy time exactly; no nanosecond is lost to rounding.

use units::{DiskTime, Instant};

use crate::limits::DEPTH_MAX;
use crate::request::CommandId;

#[derive(Debug)]
struct Running {
    command: CommandId,
    charge: u64,
}

/// Divides a disk's busy time among its commands.
#[derive(Debug)]
pub(crate) struct Meter {
    running: Vec<Running>,
    at: Instant,
    busy: u64,
}

impl Meter {
    pub(crate) fn new(now: Instant) -> Self {
        let meter = Self { running: Vec::with_capacity(DEPTH_MAX as usize), at: now, busy: 0 };
        meter.invariants();
        meter
    }

    /// The disk's busy time, idle time that was charged included.
    pub(crate) fn busy(&self) -> DiskTime {
        disk_time(self.busy)
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// A command goes to the drive.
    pub(crate) fn issued(&mut self, command: CommandId, now: Instant) {
        assert!(self.running.len() < DEPTH_MAX as usize, "commands in flight are bounded");
        debug_assert!(self.running.iter().all(|other| other.command != command), "issued once");
        self.advance(now);
        debug_assert_eq!(self.at, now, "the time before a command is charged to others");
        self.running.push(Running { command, charge: 0 });
        self.invariants();
    }

    /// Ends `command` and returns its charge.
    pub(crate) fn completed(&mut self, command: CommandId, now: Instant) -> DiskTime {
        self.advance(now);
        let index = self.running.iter().position(|running| running.command == command);
        let running = self.running.remove(index.expect("a completed command was issued"));
        assert!(running.charge <= self.busy, "a charge is part of the busy time");
        debug_assert_eq!(running.command, command, "the charge is that of the command");
        self.invariants();
        disk_time(running.charge)
    }

    /// Lets idle time pass uncharged.
    pub(crate) fn skip_idle(&mut self, now: Instant) {
        let before = self.busy;
        self.advance(now);
        debug_assert!(!self.running.is_empty() || self.busy == before, "idle time is not charged");
        self.invariants();
    }

    /// Counts the time since the last event as busy, although no command was in flight: the disk
    /// idled for the sake of one volume. Returns that time.
    pub(crate) fn charge_idle(&mut self, now: Instant) -> DiskTime {
        assert!(self.running.is_empty(), "a disk with commands in flight does not idle");
        let idle = now.since(self.at).as_nanos();
        self.at = now;
        self.busy += idle;
        debug_assert!(idle <= self.busy, "charged idle time is part of the busy time");
        self.invariants();
        disk_time(idle)
    }

    fn advance(&mut self, now: Instant) {
        let elapsed = now.since(self.at).as_nanos();
        self.at = now;
        if elapsed == 0 || self.running.is_empty() {
            return;
        }
        self.busy += elapsed;
        if let [running] = &mut self.running[..] {
            running.charge += elapsed;
            return;
        }
        let count = self.running.len() as u64;
        let (part, rest) = (elapsed / count, elapsed % count);
        debug_assert_eq!(part * count + rest, elapsed, "the parts are the whole");
        for (index, running) in (0_u64..).zip(&mut self.running) {
            running.charge += part + u64::from(index < rest);
        }
    }

    /// Checks the meter at the end of each mutation, in debug and simulation builds.
    fn invariants(&self) {
        debug_assert!(
            self.running.iter().map(|running| running.charge).sum::<u64>() <= self.busy,
            "what commands in flight will be charged is part of the busy time"
        );
        debug_assert!(self.running.len() <= DEPTH_MAX as usize, "commands in flight are bounded");
        debug_assert!(self.busy <= self.at.as_nanos(), "a disk is busy no longer than time passes");
    }
}

fn disk_time(nanos: u64) -> DiskTime {
    DiskTime::from_nanos(i64::try_from(nanos).expect("under 292 years"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use units::Duration;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn one_command_in_flight_is_charged_from_completion_to_completion() {
        let mut meter = Meter::new(Instant::ZERO);
        meter.issued(CommandId(0), at(5));
        assert_eq!(meter.completed(CommandId(0), at(15)), DiskTime::from_nanos(10));
        meter.issued(CommandId(1), at(15));
        assert_eq!(meter.completed(CommandId(1), at(22)), DiskTime::from_nanos(7));
        assert_eq!(meter.busy(), DiskTime::from_nanos(17));
    }

    proptest! {
        #[test]
        fn charges_add_up_to_the_busy_time(
            steps in prop::collection::vec(
                (0_u64..1_000, any::<prop::sample::Index>(), any::<bool>()),
                1..300,
            ),
        ) {
            let mut meter = Meter::new(Instant::ZERO);
            let (mut now, mut next, mut running) = (Instant::ZERO, 0, Vec::new());
            let (mut charged, mut busy) = (DiskTime::ZERO, 0);
            for (step, which, start) in steps {
                now += Duration::from_nanos(step);
                busy += if running.is_empty() { 0 } else { step };
                if running.is_empty() || start && running.len() < DEPTH_MAX as usize {
                    meter.issued(CommandId(next), now);
                    running.push(CommandId(next));
                    next += 1;
                } else {
                    let command = running.remove(which.index(running.len()));
                    charged += meter.completed(command, now);
                }
            }
            for command in running {
                charged += meter.completed(command, now);
            }
            prop_assert_eq!(charged, meter.busy());
            prop_assert_eq!(u64::try_from(charged.as_nanos()).unwrap(), busy);
        }
    }
}
