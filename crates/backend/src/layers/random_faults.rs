//! A disk that fails at random, at given rates: a whole daemon can be tried on it.
//! [`ScriptedFaults`](crate::ScriptedFaults) is the deterministic counterpart for tests.
//!
//! Invariant: one seed and one order of commands give one order of faults.

use std::collections::VecDeque;

use rng::WeylRng;
use units::{Duration, Instant, Op, Share};

use crate::disk::{Completion, Disk, Failure, Job, Tag};
use crate::layers::forward;

/// The rate of each kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRates {
    /// The seed of the generator.
    pub seed: u64,
    /// The share of reads that fail.
    pub read: Share,
    /// The share of writes, trims and zero writes that fail; half of them are carried out and
    /// reported as failed.
    pub write: Share,
    /// The share of flushes that fail.
    pub flush: Share,
    /// The share of commands that start late.
    pub stall: Share,
    /// The delay of those.
    pub stall_for: Duration,
    /// The number of commands after which the disk goes offline.
    pub vanish_after: Option<u64>,
}

/// The layer that injects random faults.
pub struct RandomFaults {
    disk: Box<dyn Disk>,
    rates: FaultRates,
    rng: WeylRng,
    commands: u64,
    /// With their start times, the earliest first.
    stalled: VecDeque<(Instant, Job)>,
    failed: VecDeque<(Completion, Instant)>,
    /// Commands that the disk carries out and that are reported as failed.
    failing: Vec<Tag>,
}

impl RandomFaults {
    /// Injects faults at these rates from now on.
    pub fn new(disk: Box<dyn Disk>, rates: FaultRates) -> Self {
        let (stalled, failed) = (VecDeque::new(), VecDeque::new());
        Self {
            disk,
            rates,
            rng: WeylRng::new(rates.seed),
            commands: 0,
            stalled,
            failed,
            failing: Vec::new(),
        }
    }

    fn start_job(&mut self, job: Job, now: Instant) {
        let rate = match job.operation.op {
            Op::Read => self.rates.read,
            Op::Write | Op::Trim | Op::WriteZeroes => self.rates.write,
            Op::Flush => self.rates.flush,
            Op::Seek => Share::NONE,
        };
        if !self.rng.chance(rate) {
            self.disk.submit(job, now);
        } else if job.operation.op.writes() && self.rng.draw().is_multiple_of(2) {
            self.failing.push(job.tag);
            self.disk.submit(job, now);
        } else {
            self.fail(job, Failure::Io, now);
        }
    }

    fn fail(&mut self, job: Job, failure: Failure, now: Instant) {
        self.failed.push_back((job.failed(failure), now));
    }
}

impl Disk for RandomFaults {
    forward!(capacity start set_waker completion_fd has_completions io_method write_cache);
    forward!(allocation read_blocking parts times);

    fn submit(&mut self, job: Job, now: Instant) {
        self.commands = self.commands.saturating_add(1);
        if self.rates.vanish_after.is_some_and(|last| self.commands > last) {
            self.fail(job, Failure::Offline, now);
        } else if self.rng.chance(self.rates.stall) {
            self.stalled.push_back((now + self.rates.stall_for, job));
        } else {
            self.start_job(job, now);
        }
    }

    /// Not if commands can start late: their start needs a timer.
    fn completes_synchronously(&self) -> bool {
        self.rates.stall.is_none() && self.disk.completes_synchronously()
    }

    fn next_event(&self) -> Option<Instant> {
        let failed = self.failed.front().map(|(_, since)| *since);
        let stalled = self.stalled.front().map(|(starts, _)| *starts);
        failed.into_iter().chain(stalled).chain(self.disk.next_event()).min()
    }

    fn reap(&mut self, now: Instant) -> Option<Completion> {
        while let Some((_, job)) = self.stalled.pop_front_if(|(starts, _)| *starts <= now) {
            self.start_job(job, now);
        }
        if let Some((finished, _)) = self.failed.pop_front() {
            return Some(finished);
        }
        let mut finished = self.disk.reap(now)?;
        if let Some(index) = self.failing.iter().position(|tag| *tag == finished.tag) {
            self.failing.swap_remove(index);
            finished.result = Err(Failure::Io);
        }
        Some(finished)
    }

    fn reopen(&mut self) {
        (self.rng, self.commands) = (WeylRng::new(self.rates.seed), 0);
        self.disk.reopen();
    }
}

#[cfg(test)]
mod tests {
    use units::{Extent, Sectors};
    use units::{Lba, Operation};

    use super::*;
    use crate::memory::MemoryDisk;

    const NEVER: FaultRates = FaultRates {
        seed: 5,
        read: Share::NONE,
        write: Share::NONE,
        flush: Share::NONE,
        stall: Share::NONE,
        stall_for: Duration::from_millis(7),
        vanish_after: None,
    };

    fn disk(rates: FaultRates) -> RandomFaults {
        RandomFaults::new(Box::new(MemoryDisk::new(Sectors(64))), rates)
    }

    fn submit(disk: &mut RandomFaults, tag: u64, op: Op, fill: u8) {
        let extent = Extent::new(Lba(tag % 64), Sectors(1));
        let data = if op == Op::Write { vec![fill; 512] } else { Vec::new() };
        let operation = Operation { op, extent, fua: false };
        let data = data.into();
        disk.submit(Job { tag: Tag(tag), operation, data, no_hole: false }, Instant::ZERO);
    }

    fn outcomes(rates: FaultRates, op: Op) -> Vec<bool> {
        let mut disk = disk(rates);
        let one = |tag| {
            submit(&mut disk, tag, op, 1);
            disk.reap(Instant::ZERO).expect("it is done").result.is_ok()
        };
        (0..2_000).map(one).collect()
    }

    #[test]
    fn the_given_share_fails_and_the_same_commands_every_time() {
        let rates = FaultRates { write: Share::from_percent(10), ..NEVER };
        let first = outcomes(rates, Op::Write);
        let failed = first.iter().filter(|ok| !**ok).count();
        assert!((150..250).contains(&failed), "{failed} of 2,000");
        assert_eq!(outcomes(rates, Op::Write), first);
        assert_ne!(outcomes(FaultRates { seed: 6, ..rates }, Op::Write), first);
        assert!(outcomes(rates, Op::Read).iter().all(|ok| *ok), "the read rate is zero");
    }

    #[test]
    fn some_of_the_failed_writes_were_carried_out() {
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
    fn a_stalled_command_starts_later_and_completes() {
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
    fn after_the_given_number_of_commands_it_is_offline() {
        let outcomes = outcomes(FaultRates { vanish_after: Some(3), ..NEVER }, Op::Read);
        assert_eq!(outcomes.iter().position(|ok| !ok), Some(3));
        assert!(!outcomes[3..].iter().any(|ok| *ok));
    }
}
