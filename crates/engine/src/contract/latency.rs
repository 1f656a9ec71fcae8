//! Bounded latency: requests within a rate that are each answered within a time.
//!
//! Requests arrive through a token bucket of `burst` tokens that fills at one token per interval T.
//! A request that finds a token takes it and is due `within` after its arrival; at most `burst` +
//! ⌊t ÷ T⌋ do so in any t, which is what admission counts ([`Task::sporadic`]). A request that
//! finds none, or that the contract does not cover, is served as the rest of the volume's contract
//! says, and takes no token.
//!
//! The bucket is one instant: that at which it is full again, F (the theoretical arrival time of
//! the generic cell rate algorithm). A request at a finds a token iff F ≤ a + (burst − 1)·T, and
//! moves F to max(F, a) + T. So n requests in t move F by n·T at least from the first one's
//! arrival, and the last one found F ≤ a + t + (burst − 1)·T: n ≤ burst + t ÷ T.

use units::{DiskTime, Duration, Instant, Op, Operation, Sectors};

use super::ClosestCalls;
use crate::stream::{RequestedLatency, Task};

/// A bounded latency on one disk: each read or write of at most `size` that keeps to the rate is
/// answered by its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyContract {
    /// The interval T, the deadline, the burst, the worst-case disk time of a request on this disk,
    /// and its longest command.
    pub task: Task,
    /// The most that one request transfers.
    pub size: Sectors,
}

/// The token bucket of a bounded latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// When it is full again.
    full: Instant,
}

/// The requests of a bounded latency so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyStats {
    /// Requests within the contract that were answered.
    pub answered: u64,
    /// Those of them that were answered after their deadlines.
    pub late: u64,
    /// Reads and writes outside the contract: beyond its rate, or larger than its size.
    pub beyond: u64,
    /// The least times that answers left to their deadlines.
    pub closest: ClosestCalls,
}

impl LatencyContract {
    /// The time from a request's arrival to its deadline.
    pub const fn within(&self) -> Duration {
        debug_assert!(self.task.deadline().as_nanos() > 0, "an answer takes time");
        self.task.deadline()
    }

    /// The mean time between two requests.
    pub const fn interval(&self) -> Duration {
        debug_assert!(self.task.period().as_nanos() > 0, "a rate is bounded");
        self.task.period()
    }

    /// The most requests at one instant.
    pub const fn burst(&self) -> u32 {
        debug_assert!(self.task.burst() > 0, "a request may arrive");
        self.task.burst()
    }

    /// The worst-case disk time of a request.
    pub const fn cost(&self) -> DiskTime {
        debug_assert!(self.task.cost().as_nanos() > 0, "a request takes disk time");
        self.task.cost()
    }

    /// What it requests, without its cost.
    pub fn requested(&self) -> RequestedLatency {
        let (within, interval, burst) = (self.within(), self.interval(), self.burst());
        debug_assert!(burst > 0, "a burst is not empty");
        debug_assert!(self.size > Sectors(0), "a request has sectors");
        debug_assert!(interval > Duration::ZERO, "a rate is bounded");
        RequestedLatency { within, interval, burst, size: self.size }
    }

    /// Whether an operation can be within the contract.
    pub fn covers(&self, operation: &Operation) -> bool {
        debug_assert!(operation.op != Op::Seek, "no client submits a seek");
        matches!(operation.op, Op::Read | Op::Write) && operation.extent.len <= self.size
    }
}

impl Tokens {
    /// A request for `operation` arrives at `now`: its deadline, if it is within the contract.
    pub fn take(
        &mut self,
        contract: &LatencyContract,
        operation: &Operation,
        now: Instant,
    ) -> Option<Instant> {
        if !contract.covers(operation) || self.available(contract, now) == 0 {
            return None;
        }
        let before = self.available(contract, now);
        debug_assert!(before <= contract.burst(), "a bucket holds a burst");
        self.full = self.full.max(now) + contract.interval();
        debug_assert_eq!(self.available(contract, now), before - 1, "a request takes one token");
        Some(now + contract.within())
    }

    /// The number of requests that may arrive at `now`.
    pub fn available(&self, contract: &LatencyContract, now: Instant) -> u32 {
        let filling = self.full.saturating_since(now).as_nanos();
        let missing = filling.div_ceil(contract.interval().as_nanos());
        debug_assert!(missing <= contract.burst().into(), "a bucket is at most empty");
        contract.burst() - u32::try_from(missing).unwrap_or(u32::MAX).min(contract.burst())
    }

    /// The earliest arrival of a further request, if the [available](Self::available) ones arrive
    /// at `now`.
    pub fn next_arrival(&self, contract: &LatencyContract, now: Instant) -> Instant {
        let interval = contract.interval().as_nanos();
        let over = self.full.saturating_since(now).as_nanos() % interval;
        let wait = if over == 0 { interval } else { over };
        debug_assert!(wait > 0, "the available ones are taken before");
        debug_assert!(wait <= interval, "a token comes in every interval");
        now + Duration::from_nanos(wait)
    }
}

impl LatencyStats {
    /// Counts a request within the contract that was due at `deadline` and is answered at `now`.
    pub fn count_answer(&mut self, deadline: Instant, now: Instant) {
        self.answered += 1;
        self.late += u64::from(now > deadline);
        self.closest.count(deadline, now);
        debug_assert!(self.late <= self.answered, "a late answer is an answer");
        debug_assert!(self.closest.all().is_some(), "an answer leaves a time, or none");
    }

    /// Counts a read or write outside the contract.
    pub fn count_beyond(&mut self) {
        self.beyond += 1;
        debug_assert!(self.beyond > 0, "it is counted");
    }

    /// The sum of those of two disks.
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        Self {
            answered: self.answered + other.answered,
            late: self.late + other.late,
            beyond: self.beyond + other.beyond,
            closest: self.closest.merged(&other.closest),
        }
    }
}

#[cfg(test)]
mod tests {
    use units::{Extent, Lba};

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + MS(ms)
    }

    fn read(sectors: u64) -> Operation {
        Operation::read(Extent::new(Lba(0), Sectors(sectors)))
    }

    /// 20 a second, four at once, within 80 ms.
    fn contract() -> LatencyContract {
        let cost = DiskTime::from_millis(10);
        let task = Task::sporadic(MS(50), MS(80), 4, cost, cost).expect("a task");
        LatencyContract { task, size: Sectors(128) }
    }

    #[test]
    fn a_burst_is_within_the_contract_and_then_one_request_an_interval() {
        let (contract, mut tokens) = (contract(), Tokens::default());
        let mut take = |ms| tokens.take(&contract, &read(128), at(ms));
        for _ in 0..4 {
            assert_eq!(take(1_000), Some(at(1_080)));
        }
        assert_eq!(take(1_000), None, "the fifth at once is beyond the rate");
        assert_eq!(take(1_049), None, "the next token comes after an interval");
        assert_eq!(take(1_050), Some(at(1_130)));
        assert_eq!(take(1_099), None);
        assert_eq!(take(1_150), Some(at(1_230)));
        assert_eq!(take(1_150), Some(at(1_230)), "a token that was not taken is kept");
        assert_eq!(take(1_150), None);
    }

    #[test]
    fn a_request_outside_the_contract_takes_no_token() {
        let (contract, mut tokens) = (contract(), Tokens::default());
        assert_eq!(tokens.take(&contract, &read(129), at(0)), None, "it is larger");
        assert_eq!(tokens.take(&contract, &Operation::flush(), at(0)), None);
        assert_eq!(tokens.available(&contract, at(0)), 4);
    }

    #[test]
    fn no_stretch_of_time_has_more_than_the_burst_and_the_rate() {
        let contract = contract();
        for step in 1..40_u64 {
            let (mut tokens, mut taken) = (Tokens::default(), Vec::new());
            for ms in (0..3_000).step_by(usize::try_from(step).expect("small")) {
                // Pauses of different lengths let the bucket fill.
                let pause = (ms / 700) % 2 == 1;
                while !pause && tokens.available(&contract, at(ms)) > 0 {
                    let next = tokens.next_arrival(&contract, at(ms));
                    assert!(next > at(ms) && next <= at(ms + 50), "within an interval");
                    tokens.take(&contract, &read(8), at(ms)).expect("one is available");
                    taken.push(ms);
                }
            }
            for (index, first) in taken.iter().enumerate() {
                for (count, last) in taken[index..].iter().enumerate() {
                    let most = 4 + (last - first) / 50;
                    assert!((count as u64) < most, "from {first} to {last} in steps of {step}");
                }
            }
        }
    }

    #[test]
    fn the_closest_answer_is_the_least_time_that_was_left() {
        let mut stats = LatencyStats::default();
        stats.count_answer(at(80), at(30));
        stats.count_answer(at(180), at(170));
        stats.count_beyond();
        assert_eq!((stats.answered, stats.late, stats.beyond), (2, 0, 1));
        assert_eq!(stats.closest.all(), Some(MS(10)));
        let mut other = LatencyStats::default();
        assert_eq!(stats.merged(&other), stats);
        other.count_answer(at(80), at(81));
        assert_eq!((other.late, other.closest.all()), (1, Some(Duration::ZERO)));
        assert_eq!(stats.merged(&other).closest.all(), Some(Duration::ZERO));
        assert_eq!(stats.merged(&other).beyond, 1);
    }
}
