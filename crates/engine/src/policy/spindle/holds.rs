//! For how long the disk is held: by a command, or by the commands of one request between which no
//! other volume is served.
//!
//! A long write from a write buffer holds the disk until its flush. A shallow volume waits for it,
//! and has one quantum before the next: so that quantum is as long as what its reserve earns
//! meanwhile. With quanta of the usual length, 30 % of hgst-7k8 with one random read outstanding
//! and pauses of 1 ms had 0.58 of its worth beside writes of 16 MiB, which hold the disk for 75 ms.

use core::hint::cold_path;

use units::{DiskTime, Duration, Instant};

use super::hold_times::HoldTimes;
use super::learned::{Mean, SERVICE_DIVISOR};
use crate::VolumeId;

/// The EWMA divisor of the time for which several commands hold the disk.
const HOLD_DIVISOR: i64 = 4;
/// That time counts until no such commands have come for this long.
const HOLD_COUNTS_FOR: Duration = Duration::from_secs(1);

/// What is learned of it.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// The time between two decisions which volume is served next, and what has passed of it.
    between_decisions: Mean,
    passed: DiskTime,
    /// That of requests of several commands, and whose the last one was, until when.
    of_several: Mean,
    /// The commands that have passed, the flush that ends them left out.
    pub(super) commands: u32,
    /// What such commands and their flush take together.
    pub(super) times: HoldTimes,
    /// Whether those that have the disk are ended early.
    pub(super) is_ended_early: bool,
    last: Option<(VolumeId, Instant)>,
}

impl Holds {
    /// A command of `volume` took `took`; whether it holds the disk for the next one of its
    /// request, and whether it was a flush. Returns what it cost to end them early.
    pub(super) fn completed(
        &mut self,
        (volume, took): (VolumeId, DiskTime),
        (holds, is_flush): (bool, bool),
        now: Instant,
    ) -> DiskTime {
        debug_assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        let is_first = self.passed == DiskTime::ZERO;
        self.passed += took;
        if holds {
            cold_path();
            self.commands += 1;
            return DiskTime::ZERO;
        }
        let passed = core::mem::take(&mut self.passed);
        let commands = core::mem::take(&mut self.commands);
        let is_ended_early = core::mem::take(&mut self.is_ended_early);
        debug_assert!(passed >= took, "the last command is one of them");
        self.between_decisions.learn::<SERVICE_DIVISOR>(passed);
        if !is_first {
            cold_path();
            self.of_several.learn::<HOLD_DIVISOR>(passed);
            self.last = Some((volume, now));
        } else if self.last.take_if(|(_, at)| now.since(*at) > HOLD_COUNTS_FOR).is_some() {
            self.of_several = Mean::default();
        }
        if is_first || !is_flush {
            return DiskTime::ZERO;
        }
        cold_path();
        self.times.learn(commands, passed);
        if is_ended_early { self.times.flush().min(took) } else { DiskTime::ZERO }
    }

    /// The mean time between two decisions.
    pub(super) fn between_decisions(&self) -> DiskTime {
        self.between_decisions.time().unwrap_or_default()
    }

    /// The mean time for which several commands of another volume than `own` hold the disk, if
    /// such commands were the last ones.
    pub(super) fn of_others(&self, own: VolumeId) -> DiskTime {
        let is_others = self.last.is_some_and(|(volume, _)| volume != own);
        debug_assert!(!is_others || self.of_several.time().is_some(), "what was noted was learned");
        self.of_several.time().filter(|_| is_others).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_hold_counts_for_other_volumes_until_none_has_come_for_a_second() {
        let (writer, other) = (VolumeId(0), VolumeId(1));
        let mut holds = Holds::default();
        let ms = DiskTime::from_millis;
        holds.completed((other, ms(5)), (false, false), at(5));
        assert_eq!(holds.of_others(other), DiskTime::ZERO, "one command holds nothing");
        holds.completed((writer, ms(2)), (true, false), at(7));
        holds.completed((writer, ms(70)), (false, false), at(77));
        assert_eq!((holds.of_others(other), holds.of_others(writer)), (ms(72), DiskTime::ZERO));
        assert!(holds.between_decisions() > ms(5), "a hold is one decision");
        holds.completed((other, ms(5)), (false, false), at(1_077));
        assert_eq!(holds.of_others(other), ms(72));
        holds.completed((other, ms(5)), (false, false), at(1_078));
        assert_eq!(holds.of_others(other), DiskTime::ZERO);
    }
}
