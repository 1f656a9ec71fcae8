//! A reserve as a task: a dynamic sporadic server (Spuri and Buttazzo, "Scheduling Aperiodic Tasks
//! in Dynamic Priority Systems", 1996).
//!
//! ```text
//!             has work, budget pays for its head            work or budget ends
//!   (rests) ─────────────────────────────────────▶ job ──────────────────────────▶ (rests)
//!                 begins at t, due at t + T               what it spent comes back at t + T
//! ```
//!
//! The budget that a job spends is refilled one period after the job began. So of all jobs that
//! begin at a or later and are due by d, those with the same disk time are a period apart, and add
//! up to ⌊(d − a) ÷ T⌋·C at most: the demand of a task with cost C and period T. A command whose
//! worst case exceeds the budget is not part of the job: its volume's head is best effort then, and
//! the rest of the budget waits for a cheaper command.
//!
//! Invariant: the budget, the job's spending and the pending refills add up to C.

use std::collections::VecDeque;

use units::{DiskTime, Duration, Instant};

use crate::limits::REFILLS_MAX;
use crate::stream::Task;

/// The active job of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// Its deadline: its spending is refilled then.
    pub(super) deadline: Instant,
    pub(super) spent: DiskTime,
}

#[derive(Debug)]
pub(super) struct SporadicServer {
    task: Task,
    budget: DiskTime,
    job: Option<Job>,
    refills: VecDeque<(Instant, DiskTime)>,
}

impl SporadicServer {
    pub(super) fn new(task: Task) -> Self {
        Self { task, budget: task.cost(), job: None, refills: VecDeque::new() }
    }

    pub(super) fn period(&self) -> Duration {
        self.task.period()
    }

    pub(super) fn budget(&self) -> DiskTime {
        debug_assert!(self.budget <= self.task.cost(), "a budget is at most the whole");
        self.budget
    }

    pub(super) fn job(&self) -> Option<Job> {
        self.job
    }

    /// The pending refills, earliest first.
    pub(super) fn refills(&self) -> impl Iterator<Item = (Instant, DiskTime)> {
        self.refills.iter().copied()
    }

    /// The next refill.
    pub(super) fn next_refill(&self) -> Option<Instant> {
        self.refills.front().map(|(at, _)| *at)
    }

    /// Starts or ends the job: `head` is the worst case of the next command. Returns the job's
    /// deadline, if it is active.
    pub(super) fn update_job(&mut self, head: Option<DiskTime>, now: Instant) -> Option<Instant> {
        debug_assert!(head.is_none_or(|cost| cost >= DiskTime::ZERO), "a command takes time");
        if head.is_none_or(|cost| cost > self.budget) {
            self.end(now);
        }
        if self.job.is_none() {
            self.refill(now);
        }
        if head.is_none_or(|cost| cost > self.budget) {
            return None;
        }
        let fresh = Job { deadline: now + self.task.period(), spent: DiskTime::ZERO };
        Some(self.job.get_or_insert(fresh).deadline)
    }

    /// Takes the refills that are due: not during a job, whose time admission does not count on.
    fn refill(&mut self, now: Instant) {
        debug_assert!(self.job.is_none(), "no refill arrives during a job");
        while let Some(&(_, amount)) = self.refills.front().filter(|(at, _)| *at <= now) {
            self.refills.pop_front();
            debug_assert!(amount > DiskTime::ZERO, "a refill returns something");
            self.budget += amount;
        }
    }

    /// The job pays `amount`; a negative amount is returned.
    pub(super) fn pay(&mut self, amount: DiskTime) {
        debug_assert!(self.job.is_some(), "a job pays");
        self.budget -= amount;
        if let Some(job) = &mut self.job {
            job.spent += amount;
        }
        if cfg!(debug_assertions) {
            self.invariants();
        }
    }

    fn end(&mut self, now: Instant) {
        let Some(Job { deadline, spent }) = self.job.take() else { return };
        debug_assert!(spent >= DiskTime::ZERO, "a job spends no less than nothing: {spent}");
        if deadline <= now {
            self.budget += spent;
        } else if spent > DiskTime::ZERO {
            if self.refills.len() == REFILLS_MAX {
                // Both come later than they could: that demands less, never more.
                let (_, last) = self.refills.pop_back().expect("it is full");
                self.refills.push_back((deadline, last + spent));
            } else {
                self.refills.push_back((deadline, spent));
            }
        }
    }

    pub(super) fn invariants(&self) {
        let spent = self.job.map_or(DiskTime::ZERO, |job| job.spent);
        let to_come: DiskTime = self.refills.iter().map(|(_, amount)| *amount).sum();
        assert_eq!(self.budget + spent + to_come, self.task.cost(), "the budget is conserved");
        assert!(self.refills.len() <= REFILLS_MAX, "refills are bounded");
        assert!(self.refills.iter().is_sorted_by_key(|(at, _)| *at), "refills are in order");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: i64) -> DiskTime {
        DiskTime::from_millis(n)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn server() -> SporadicServer {
        SporadicServer::new(Task::new(Duration::from_millis(100), ms(30), ms(30)).expect("a task"))
    }

    #[test]
    fn spending_is_refilled_a_period_after_the_job_began() {
        let mut server = server();
        assert_eq!(server.update_job(Some(ms(20)), at(10)), Some(at(110)));
        server.pay(ms(20));
        // The budget does not pay for another: the head is best effort until it does.
        assert_eq!(server.update_job(Some(ms(20)), at(30)), None);
        assert_eq!(server.next_refill(), Some(at(110)));
        assert_eq!(server.update_job(Some(ms(20)), at(109)), None);
        assert_eq!(server.update_job(Some(ms(20)), at(110)), Some(at(210)));
        server.invariants();
    }

    #[test]
    fn an_overpayment_is_returned_at_once() {
        let mut server = server();
        server.update_job(Some(ms(30)), at(0));
        server.pay(ms(30));
        server.pay(ms(-25));
        assert_eq!(server.update_job(Some(ms(25)), at(5)), Some(at(100)), "the same job goes on");
        server.invariants();
    }
}
