//! Who used the disk (RTAS 2008 §2.1, and its extension to several commands at a time).
//!
//! Each interval between two events is charged in equal parts to the commands that were inside the drive in
//! it. With one at a time this is the paper's rule: from the previous completion, or after idle from the
//! release, to its own completion. With any
//! number the charges add up to the busy time exactly; nothing is lost to rounding.

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
        Self { running: Vec::with_capacity(DEPTH_MAX as usize), at: now, busy: 0 }
    }

    /// How long the disk has had work, in all.
    pub(crate) fn busy(&self) -> DiskTime {
        DiskTime::from_nanos(i64::try_from(self.busy).expect("under 292 years"))
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn issued(&mut self, command: CommandId, now: Instant) {
        self.advance(now);
        self.running.push(Running { command, charge: 0 });
    }

    /// Ends `command`, and says what it is charged.
    pub(crate) fn completed(&mut self, command: CommandId, now: Instant) -> DiskTime {
        self.advance(now);
        let place = self.running.iter().position(|running| running.command == command);
        let running = self.running.remove(place.expect("a completed command was issued"));
        DiskTime::from_nanos(i64::try_from(running.charge).expect("under 292 years"))
    }

    /// Lets idle time go by uncharged.
    pub(crate) fn idled(&mut self, now: Instant) {
        self.advance(now);
    }

    /// Time in which the disk was kept waiting on somebody's account: busy, though nothing ran.
    pub(crate) fn lingered(&mut self, now: Instant) -> DiskTime {
        assert!(self.running.is_empty(), "a disk that works is not kept waiting");
        let waited = now.since(self.at).as_nanos();
        self.at = now;
        self.busy += waited;
        DiskTime::from_nanos(i64::try_from(waited).expect("under 292 years"))
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
        for (place, running) in (0_u64..).zip(&mut self.running) {
            running.charge += part + u64::from(place < rest);
        }
    }
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
    fn one_at_a_time_pays_from_completion_to_completion_and_after_idle_from_its_release() {
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
            steps in prop::collection::vec((0_u64..1_000, any::<prop::sample::Index>(), any::<bool>()), 1..300),
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
