//! The division of a disk's busy time among its commands (Zygaria, RTAS 2008 §2.1, extended to
//! several commands in flight).
//!
//! With one command in flight a command is charged from the previous completion, or after idle time
//! from its dispatch, to its own completion: the rule of RTAS 2008. With several there are three
//! rules ([`Charging`]), and under each the charges add up to the busy time exactly; no nanosecond
//! is lost to rounding.
//!
//! ```text
//! in flight        A ├──────────────────────────────┤          A: 4 KiB of data
//!                  B      ├────────────┤                       B: 16 KiB
//!                  time 0 2            8            14
//! equal parts      A: 2 + 6/2 + 6 = 11     B: 6/2 = 3
//! by length        A: what is left, 6      B: its length × the price, 8
//! completions      A: 2 + 6 = 8            B: 6
//! ```
//!
//! An actuator positions for one command at a time. From one completion to the next it has worked
//! for the command that completes, as far as that was in the drive; before that it worked for the
//! oldest one.
//!
//! A flash drive works for many commands at a time, and is full when its link is: a command costs
//! the time of its data on the link and about as long as 2 KiB more. By length it is charged that
//! length × a price, the busy time per length of the last commands, however long it was inside; the
//! last one in the drive is charged what is left. In equal parts 32 reads of 4 KiB were charged as
//! much as 16 of 128 KiB beside them, and half of the drive was worth 0.08 to them. With each
//! interval divided by the lengths of what is inside it was worth 0.85 to 1.2, as the queue was
//! longer or shorter when they were there; it is worth 0.96.

use core::hint::cold_path;

use units::{DiskTime, Duration, Instant, Op, Operation, Sectors};

use crate::limits::{COMMAND_MAX, DEPTH_MAX};
use crate::request::CommandId;
use crate::settings::Charging;

/// What a command costs beside its data, as a length: 1.6 KiB of a read of samsung-870evo-1t, and
/// 1.9 of a write.
const COMMAND: Sectors = Sectors(4);
/// The length of the data for which a place in a drive is. With 16 KiB five commands of 128 KiB
/// were in a drive with 32 places, and short ones behind them: a live client with 32 of 4 KiB
/// beside 16 of 128 KiB had 0.52 of its half, as it did not keep enough requests outstanding.
const PLACE: Sectors = Sectors(8);
/// One of this many places is filled however long the commands are, and two of them at least: the
/// link and the dies have the next one to do.
const LONG_DIVISOR: usize = 16;
const LONG_MIN: usize = 2;

/// The weight of a command where charges are by length.
fn weight(operation: &Operation) -> u64 {
    let data = match operation.op {
        Op::Read | Op::Write | Op::WriteZeroes => operation.extent.len,
        Op::Trim | Op::Flush | Op::Seek => Sectors::ZERO,
    };
    weight_of(data)
}

/// The weight of a command with data of this length, where charges are by length.
pub(crate) fn weight_of(data: Sectors) -> u64 {
    debug_assert!(data <= COMMAND_MAX, "the data of a command is bounded");
    (COMMAND + data).0
}

/// What is uncharged too much, or too little, is settled with as many commands.
const SETTLED: i64 = 64;
/// The EWMA divisor of the price.
const PRICE_DIVISOR: u64 = 256;

/// The busy time for the weight of the commands that complete.
#[derive(Debug, Default)]
struct Price {
    nanos: u64,
    weights: u64,
}

impl Price {
    /// A command of this weight completes so long after the last one.
    fn learn(&mut self, time: Duration, weight: u64) {
        self.nanos = self.nanos - self.nanos / PRICE_DIVISOR + time.as_nanos();
        self.weights = self.weights - self.weights / PRICE_DIVISOR + weight;
        debug_assert!(self.weights > 0, "a command has a weight");
    }

    /// The price of this weight.
    fn of(&self, weight: u64) -> u64 {
        debug_assert!(self.nanos == 0 || self.weights > 0, "time is paid for a weight");
        let nanos = u128::from(self.nanos) * u128::from(weight);
        u64::try_from(nanos / u128::from(self.weights.max(1))).unwrap_or(u64::MAX)
    }
}

fn signed(nanos: u64) -> i64 {
    let signed = i64::try_from(nanos).unwrap_or(i64::MAX);
    debug_assert!(signed >= 0, "a time passes");
    signed
}

#[derive(Debug)]
struct Running {
    command: CommandId,
    issued: Instant,
    /// Its part of what is charged by length, relative to the others'.
    weight: u64,
    charge: u64,
}

/// Divides a disk's busy time among its commands.
#[derive(Debug)]
pub(crate) struct Meter {
    charging: Charging,
    running: Vec<Running>,
    /// The sum of the weights of the commands in flight.
    weights: u64,
    at: Instant,
    /// Up to when the busy time is charged to commands.
    charged_until: Instant,
    /// The busy time that no command was charged for, by length.
    uncharged: u64,
    price: Price,
    busy: u64,
}

impl Meter {
    pub(crate) fn new(charging: Charging, now: Instant) -> Self {
        let running = Vec::with_capacity(DEPTH_MAX as usize);
        let meter = Self {
            charging,
            running,
            weights: 0,
            at: now,
            charged_until: now,
            uncharged: 0,
            price: Price::default(),
            busy: 0,
        };
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

    /// Whether a drive that takes `depth` commands has enough to do with the data of those in
    /// flight: what follows would only wait in it, where nothing passes it any more.
    pub(crate) fn is_busy_for_long(&self, depth: u32) -> bool {
        self.charging == Charging::ByLength
            && self.running.len() >= LONG_MIN.max(depth as usize / LONG_DIVISOR)
            && self.weights >= u64::from(depth) * (COMMAND + PLACE).0
    }

    /// For how long the oldest command has been in the drive.
    pub(crate) fn oldest_age(&self, now: Instant) -> Duration {
        let oldest = self.running.first();
        debug_assert!(oldest.is_none_or(|oldest| oldest.issued <= now), "issued in the past");
        oldest.map_or(Duration::ZERO, |oldest| now.since(oldest.issued))
    }

    /// A command goes to the drive.
    pub(crate) fn issued(&mut self, command: CommandId, operation: &Operation, now: Instant) {
        assert!(self.running.len() < DEPTH_MAX as usize, "commands in flight are bounded");
        debug_assert!(self.running.iter().all(|other| other.command != command), "issued once");
        self.advance(now);
        debug_assert_eq!(self.at, now, "the time before a command is charged to others");
        if self.running.is_empty() {
            self.charged_until = now;
        }
        let weight = match self.charging {
            Charging::ByLength => weight(operation),
            Charging::EqualParts | Charging::Completions => 1,
        };
        self.weights += weight;
        self.running.push(Running { command, issued: now, weight, charge: 0 });
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
        } else if self.charging == Charging::ByLength {
            cold_path();
            self.charge_length(index, now);
        }
        let running = self.running.remove(index);
        self.weights -= running.weight;
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

    /// Charges the command at `index`, which completes at `now`, by its length. The last one in the
    /// drive pays what is left.
    fn charge_length(&mut self, index: usize, now: Instant) {
        let weight = self.running[index].weight;
        self.price.learn(now.since(self.charged_until), weight);
        self.charged_until = now;
        let charge = if self.running.len() == 1 {
            self.uncharged
        } else {
            // Half of what is inside has passed, in the mean.
            let (due, inside) = (self.price.of(weight), self.price.of(self.weights) / 2);
            let owed = (signed(self.uncharged) - signed(inside)) / SETTLED;
            u64::try_from(signed(due) + owed).unwrap_or(0).min(self.uncharged)
        };
        self.running[index].charge += charge;
        self.uncharged -= charge;
        debug_assert!(self.running.len() > 1 || self.uncharged == 0, "the busy time is charged");
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
        if self.charging == Charging::ByLength {
            cold_path();
            self.uncharged += elapsed;
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
            self.running.iter().map(|one| one.charge).sum::<u64>() + self.uncharged <= self.busy,
            "what commands in flight will be charged is part of the busy time"
        );
        debug_assert!(
            !self.running.is_empty() || self.uncharged == 0,
            "the last one pays the rest"
        );
        debug_assert_eq!(
            self.running.iter().map(|running| running.weight).sum::<u64>(),
            self.weights,
            "each weight is counted once"
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
    use units::{Extent, Lba};

    use super::*;

    const ALL: [Charging; 3] = [Charging::EqualParts, Charging::ByLength, Charging::Completions];

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn read(sectors: u64) -> Operation {
        Operation::read(Extent::new(Lba(0), Sectors(sectors)))
    }

    #[test]
    fn one_command_in_flight_is_charged_from_completion_to_completion() {
        for charging in ALL {
            let mut meter = Meter::new(charging, Instant::ZERO);
            meter.issued(CommandId(0), &read(8), at(5));
            assert_eq!(meter.completed(CommandId(0), at(15)), DiskTime::from_nanos(10));
            meter.issued(CommandId(1), &read(8), at(15));
            assert_eq!(meter.completed(CommandId(1), at(22)), DiskTime::from_nanos(7));
            assert_eq!(meter.busy(), DiskTime::from_nanos(17));
        }
    }

    /// The charges of a read of 4 KiB from 0 to 14 ns and of one of 16 KiB from 2 to 8 ns.
    fn charges(charging: Charging) -> [i64; 2] {
        let mut meter = Meter::new(charging, Instant::ZERO);
        meter.issued(CommandId(0), &read(8), at(0));
        meter.issued(CommandId(1), &read(32), at(2));
        let second = meter.completed(CommandId(1), at(8));
        let first = meter.completed(CommandId(0), at(14));
        [first.as_nanos(), second.as_nanos()]
    }

    #[test]
    fn a_command_inside_another_is_charged_what_the_drive_did_for_it() {
        assert_eq!(charges(Charging::EqualParts), [11, 3]);
        assert_eq!(charges(Charging::ByLength), [6, 8]);
        assert_eq!(charges(Charging::Completions), [8, 6]);
    }

    /// One long command and many short ones are always in the drive, and complete in the order in
    /// which they came, as on a link.
    #[test]
    fn by_length_a_long_command_is_charged_in_proportion_however_the_queue_changes() {
        let mut meter = Meter::new(Charging::ByLength, Instant::ZERO);
        let (mut now, mut next) = (Instant::ZERO, 0);
        let mut charged = [DiskTime::ZERO; 2];
        for round in 0..2_000 {
            let shorts = 1 + round % 7;
            let lengths: Vec<u64> = core::iter::once(256).chain((0..shorts).map(|_| 8)).collect();
            for (id, length) in (next..).zip(&lengths) {
                meter.issued(CommandId(id), &read(*length), now);
            }
            for (id, length) in (next..).zip(&lengths) {
                now += Duration::from_nanos(900 * (COMMAND.0 + length));
                let charge = meter.completed(CommandId(id), now);
                charged[usize::from(*length == 8)] += charge;
            }
            next += 8;
        }
        // Four short commands beside each long one, in the mean.
        let ratio = charged[0].as_nanos() * 100 / charged[1].as_nanos();
        let fair = 100 * 260 / (4 * 12);
        assert!((fair - fair / 10..=fair + fair / 10).contains(&ratio), "{ratio}, not {fair}");
    }

    #[test]
    fn a_command_that_waits_in_the_drive_is_not_charged_for_those_before_it() {
        let mut meter = Meter::new(Charging::Completions, Instant::ZERO);
        meter.issued(CommandId(0), &read(8), at(0));
        for nth in 1..=4 {
            meter.issued(CommandId(nth), &read(8), at(10 * (nth - 1)));
            assert_eq!(meter.completed(CommandId(nth), at(10 * nth)).as_nanos(), 10);
        }
        assert_eq!(meter.completed(CommandId(0), at(52)).as_nanos(), 12);
    }

    #[test]
    fn a_drive_with_long_commands_takes_no_more_than_their_data_keep_it_busy() {
        let mut meter = Meter::new(Charging::ByLength, Instant::ZERO);
        meter.issued(CommandId(0), &Operation { op: Op::Trim, ..read(1 << 20) }, at(0));
        assert!(!meter.is_busy_for_long(1), "a second one is always taken");
        meter.issued(CommandId(1), &read(256), at(0));
        assert!(meter.is_busy_for_long(8) && !meter.is_busy_for_long(32));
        meter.issued(CommandId(2), &read(256), at(1));
        assert!(meter.is_busy_for_long(32));
        meter.completed(CommandId(1), at(2));
        assert!(!meter.is_busy_for_long(32));
        for id in (3..12).map(CommandId) {
            assert!(!meter.is_busy_for_long(32), "there is room for {id:?}");
            meter.issued(id, &read(8), at(2));
        }
        meter.issued(CommandId(12), &read(8), at(2));
        assert!(meter.is_busy_for_long(32));
    }

    proptest! {
        #[test]
        fn charges_add_up_to_the_busy_time(
            charging in prop::sample::select(ALL.to_vec()),
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
                    meter.issued(CommandId(next), &read(1 + step % 256), now);
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
