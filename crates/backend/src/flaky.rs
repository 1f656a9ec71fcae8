//! A disk that fails now and then, by dice, so that a whole daemon can be tried on it. [`crate::Faulty`] is the one that a
//! test tells when.
//!
//! Invariant: one seed and one order of commands, one order of faults.

use std::collections::VecDeque;

use rng::WeylRng;
use units::{Duration, Extent, Instant, Op, Sectors, Share};

use crate::{Allocation, Completion, Disk, Failure, Job, Parts, ServiceTimes, Tag, Waker};

/// How often what goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRates {
    /// Where the dice begin.
    pub seed: u64,
    /// Of the reads, so many fail.
    pub read: Share,
    /// Of everything else that moves or zeroes data, so many fail; half of those have been done all the same.
    pub write: Share,
    /// Of the flushes, so many fail.
    pub flush: Share,
    /// Of all commands, so many begin late.
    pub stall: Share,
    /// How late.
    pub stall_for: Duration,
    /// After so many commands the disk is gone.
    pub vanish_after: Option<u64>,
}

/// The disk, at these odds.
pub struct RandomFaults {
    disk: Box<dyn Disk>,
    odds: FaultRates,
    rng: WeylRng,
    taken: u64,
    /// With when they begin, the earliest first.
    stalled: VecDeque<(Instant, Job)>,
    failed: VecDeque<(Completion, Instant)>,
    /// Commands that the disk carries out, and that fail.
    doomed: Vec<Tag>,
}

impl RandomFaults {
    /// The disk, which fails so often from now on.
    pub fn new(disk: Box<dyn Disk>, odds: FaultRates) -> Self {
        let (stalled, failed) = (VecDeque::new(), VecDeque::new());
        Self {
            disk,
            odds,
            rng: WeylRng::new(odds.seed),
            taken: 0,
            stalled,
            failed,
            doomed: Vec::new(),
        }
    }

    fn begin(&mut self, job: Job, now: Instant) {
        let odds = match job.operation.op {
            Op::Read => self.odds.read,
            Op::Write | Op::Trim | Op::WriteZeroes => self.odds.write,
            Op::Flush => self.odds.flush,
            Op::Seek => Share::NONE,
        };
        if !self.rng.chance(odds) {
            self.disk.submit(job, now);
        } else if job.operation.op.writes() && self.rng.draw().is_multiple_of(2) {
            self.doomed.push(job.tag);
            self.disk.submit(job, now);
        } else {
            self.fail(&job, Failure::Io, now);
        }
    }

    fn fail(&mut self, job: &Job, failure: Failure, now: Instant) {
        let finished = Completion { tag: job.tag, result: Err(failure), delay: None };
        self.failed.push_back((finished, now));
    }
}

impl Disk for RandomFaults {
    fn capacity(&self) -> Sectors {
        self.disk.capacity()
    }

    fn submit(&mut self, job: Job, now: Instant) {
        self.taken = self.taken.saturating_add(1);
        if self.odds.vanish_after.is_some_and(|last| self.taken > last) {
            self.fail(&job, Failure::Offline, now);
        } else if self.rng.chance(self.odds.stall) {
            self.stalled.push_back((now + self.odds.stall_for, job));
        } else {
            self.begin(job, now);
        }
    }

    fn set_waker(&mut self, waker: Waker) {
        self.disk.set_waker(waker);
    }

    /// Never where commands may begin late: those want to be waited for.
    fn completes_synchronously(&self) -> bool {
        self.odds.stall.is_none() && self.disk.completes_synchronously()
    }

    fn next_event(&self) -> Option<Instant> {
        let failed = self.failed.front().map(|(_, since)| *since);
        let stalled = self.stalled.front().map(|(begins, _)| *begins);
        failed.into_iter().chain(stalled).chain(self.disk.next_event()).min()
    }

    fn reap(&mut self, now: Instant) -> Option<Completion> {
        while let Some((_, job)) = self.stalled.pop_front_if(|(begins, _)| *begins <= now) {
            self.begin(job, now);
        }
        if let Some((finished, _)) = self.failed.pop_front() {
            return Some(finished);
        }
        let mut finished = self.disk.reap(now)?;
        if let Some(place) = self.doomed.iter().position(|tag| *tag == finished.tag) {
            self.doomed.swap_remove(place);
            finished.result = Err(Failure::Io);
        }
        Some(finished)
    }

    fn allocation(&mut self, extent: Extent) -> Option<(Allocation, Sectors)> {
        self.disk.allocation(extent)
    }

    fn read_blocking(&mut self, extent: Extent) -> Result<Vec<u8>, Failure> {
        self.disk.read_blocking(extent)
    }

    fn reopen(&mut self) {
        (self.rng, self.taken) = (WeylRng::new(self.odds.seed), 0);
        self.disk.reopen();
    }

    fn parts(&self) -> Option<Parts> {
        self.disk.parts()
    }

    fn times(&self) -> Option<ServiceTimes> {
        self.disk.times()
    }
}

#[cfg(test)]
mod tests {
    use units::{Lba, Operation};

    use super::*;
    use crate::MemoryDisk;

    const NEVER: FaultRates = FaultRates {
        seed: 5,
        read: Share::NONE,
        write: Share::NONE,
        flush: Share::NONE,
        stall: Share::NONE,
        stall_for: Duration::from_millis(7),
        vanish_after: None,
    };

    fn disk(odds: FaultRates) -> RandomFaults {
        RandomFaults::new(Box::new(MemoryDisk::new(Sectors(64))), odds)
    }

    fn submit(disk: &mut RandomFaults, tag: u64, op: Op, fill: u8) {
        let extent = Extent::new(Lba(tag % 64), Sectors(1));
        let data = if op == Op::Write { vec![fill; 512] } else { Vec::new() };
        let operation = Operation { op, extent, fua: false };
        disk.submit(Job { tag: Tag(tag), operation, data, no_hole: false }, Instant::ZERO);
    }

    fn outcomes(odds: FaultRates, op: Op) -> Vec<bool> {
        let mut disk = disk(odds);
        let one = |tag| {
            submit(&mut disk, tag, op, 1);
            disk.reap(Instant::ZERO).expect("it is done").result.is_ok()
        };
        (0..2_000).map(one).collect()
    }

    #[test]
    fn as_many_fail_as_are_to_and_the_same_ones_every_time() {
        let odds = FaultRates { write: Share::from_percent(10), ..NEVER };
        let first = outcomes(odds, Op::Write);
        let failed = first.iter().filter(|well| !**well).count();
        assert!((150..250).contains(&failed), "{failed} of 2,000");
        assert_eq!(outcomes(odds, Op::Write), first);
        assert_ne!(outcomes(FaultRates { seed: 6, ..odds }, Op::Write), first);
        assert!(outcomes(odds, Op::Read).iter().all(|well| *well), "reads were not to fail");
    }

    #[test]
    fn some_of_the_writes_that_failed_were_done() {
        let mut disk = disk(FaultRates { write: Share::ALL, ..NEVER });
        for tag in 0..64 {
            submit(&mut disk, tag, Op::Write, 9);
            assert_eq!(disk.reap(Instant::ZERO).expect("it ends").result, Err(Failure::Io));
        }
        let held = disk.read_blocking(Extent::new(Lba(0), Sectors(64))).expect("memory reads");
        let done = held.chunks(512).filter(|sector| sector[0] == 9).count();
        assert!((16..48).contains(&done), "{done} of 64");
    }

    #[test]
    fn what_stalls_begins_later_and_is_done_then() {
        let mut disk = disk(FaultRates { stall: Share::ALL, ..NEVER });
        assert!(!disk.completes_synchronously());
        submit(&mut disk, 1, Op::Write, 9);
        assert!(disk.reap(Instant::ZERO).is_none());
        let later = disk.next_event().expect("it begins");
        assert_eq!(later, Instant::ZERO + Duration::from_millis(7));
        assert!(disk.reap(later).expect("it is done").result.is_ok());
        assert_eq!(disk.next_event(), None);
    }

    #[test]
    fn after_so_many_commands_it_is_gone() {
        let outcomes = outcomes(FaultRates { vanish_after: Some(3), ..NEVER }, Op::Read);
        assert_eq!(outcomes.iter().position(|well| !well), Some(3));
        assert!(!outcomes[3..].iter().any(|well| *well));
    }
}
