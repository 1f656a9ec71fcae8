//! The division of a disk's busy time among its commands (Zygaria, RTAS 2008 §2.1, extended to
//! several commands in flight).
//!
//! With one command in flight a command is charged from the previous completion, or after idle time
//! from its dispatch, to its own completion: the rule of RTAS 2008. With several there are two
//! rules ([`Charging`]), and under each the charges add up to the busy time exactly; no nanosecond
//! is lost to rounding.
//!
//! ```text
//! in flight        A ├──────────────────────────────┤
//!                  B      ├────────────┤
//!                  time 0 2            8            14
//! equal parts      A: 2 + 6/2 + 6 = 11     B: 6/2 = 3
//! completions      A: 2 + 6 = 8            B: 6
//! ```
//!
//! An actuator positions for one command at a time. From one completion to the next it has worked
//! for the command that completes, as far as that was in the drive; before that it worked for the
//! oldest one.

use core::hint::cold_path;

use units::{DiskTime, Duration, Instant};

use crate::limits::DEPTH_MAX;
use crate::request::CommandId;
use crate::settings::Charging;

#[derive(Debug)]
struct Running {
    command: CommandId,
    issued: Instant,
    charge: u64,
}

/// Divides a disk's busy time among its commands.
#[derive(Debug)]
pub(crate) struct Meter {
    charging: Charging,
    running: Vec<Running>,
    at: Instant,
    /// Up to when the busy time is charged to commands.
    charged_until: Instant,
    busy: u64,
}

impl Meter {
    pub(crate) fn new(charging: Charging, now: Instant) -> Self {
        let running = Vec::with_capacity(DEPTH_MAX as usize);
        let meter = Self { charging, running, at: now, charged_until: now, busy: 0 };
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

    /// For how long the oldest command has been in the drive.
    pub(crate) fn oldest_age(&self, now: Instant) -> Duration {
        let oldest = self.running.first();
        debug_assert!(oldest.is_none_or(|oldest| oldest.issued <= now), "issued in the past");
        oldest.map_or(Duration::ZERO, |oldest| now.since(oldest.issued))
    }

    /// A command goes to the drive.
    pub(crate) fn issued(&mut self, command: CommandId, now: Instant) {
        assert!(self.running.len() < DEPTH_MAX as usize, "commands in flight are bounded");
        debug_assert!(self.running.iter().all(|other| other.command != command), "issued once");
        self.advance(now);
        debug_assert_eq!(self.at, now, "the time before a command is charged to others");
        if self.running.is_empty() {
            self.charged_until = now;
        }
        self.running.push(Running { command, issued: now, charge: 0 });
        self.invariants();
    }

    /// Ends `command` and returns its charge.
    pub(crate) fn completed(&mut self, command: CommandId, now: Instant) -> DiskTime {
        self.advance(now);
        let index = self.running.iter().position(|running| running.command == command);
        let index = index.expect("a completed command was issued");
        if self.charging == Charging::Completions {
            cold_path();
            self.charge_completion(index, now);
        }
        let running = self.running.remove(index);
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

    /// Charges the time since the previous completion to the command at `index`, which completes
    /// now, and what precedes its dispatch to the oldest command.
    fn charge_completion(&mut self, index: usize, now: Instant) {
        let from = self.running[index].issued.max(self.charged_until);
        self.running[0].charge += from.since(self.charged_until).as_nanos();
        self.running[index].charge += now.since(from).as_nanos();
        debug_assert!(
            from == self.charged_until || self.running[0].issued <= self.charged_until,
            "a command was in flight all the time that was not charged"
        );
        self.charged_until = now;
    }

    fn advance(&mut self, now: Instant) {
        let elapsed = now.since(self.at).as_nanos();
        self.at = now;
        if elapsed == 0 || self.running.is_empty() {
            return;
        }
        self.busy += elapsed;
        if self.charging == Charging::Completions {
            return;
        }
        if let [running] = &mut self.running[..] {
            running.charge += elapsed;
            return;
        }
        cold_path();
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

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn one_command_in_flight_is_charged_from_completion_to_completion() {
        for charging in [Charging::EqualParts, Charging::Completions] {
            let mut meter = Meter::new(charging, Instant::ZERO);
            meter.issued(CommandId(0), at(5));
            assert_eq!(meter.completed(CommandId(0), at(15)), DiskTime::from_nanos(10));
            meter.issued(CommandId(1), at(15));
            assert_eq!(meter.completed(CommandId(1), at(22)), DiskTime::from_nanos(7));
            assert_eq!(meter.busy(), DiskTime::from_nanos(17));
        }
    }

    /// The charges of a command from 0 to 14 ns and of one from 2 to 8 ns.
    fn charges(charging: Charging) -> [i64; 2] {
        let mut meter = Meter::new(charging, Instant::ZERO);
        meter.issued(CommandId(0), at(0));
        meter.issued(CommandId(1), at(2));
        let second = meter.completed(CommandId(1), at(8));
        let first = meter.completed(CommandId(0), at(14));
        [first.as_nanos(), second.as_nanos()]
    }

    #[test]
    fn a_command_inside_another_is_charged_what_the_actuator_did_for_it() {
        assert_eq!(charges(Charging::EqualParts), [11, 3]);
        assert_eq!(charges(Charging::Completions), [8, 6]);
    }

    #[test]
    fn a_command_that_waits_in_the_drive_is_not_charged_for_those_before_it() {
        let mut meter = Meter::new(Charging::Completions, Instant::ZERO);
        meter.issued(CommandId(0), at(0));
        for nth in 1..=4 {
            meter.issued(CommandId(nth), at(10 * (nth - 1)));
            assert_eq!(meter.completed(CommandId(nth), at(10 * nth)).as_nanos(), 10);
        }
        assert_eq!(meter.completed(CommandId(0), at(52)).as_nanos(), 12);
    }

    proptest! {
        #[test]
        fn charges_add_up_to_the_busy_time(
            charging in prop_oneof![Just(Charging::EqualParts), Just(Charging::Completions)],
            steps in prop::collection::vec(
                (0_u64..1_000, any::<prop::sample::Index>(), any::<bool>()),
                1..300,
            ),
        ) {
            let mut meter = Meter::new(charging, Instant::ZERO);
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
