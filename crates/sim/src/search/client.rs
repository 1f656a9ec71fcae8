//! The clients of the search: when each sends its requests.

use engine::stream::Task;
use engine::{LatencyContract, StreamContract, VolumeId};
use units::{Duration, Instant, Sectors};

use super::terms::{STREAM, ms, one_of};
use crate::SeededRng;
use crate::oracle::ReserveOracle;

/// The most requests of one client of a stream or of a bounded latency in a case.
pub(super) const BLOCKS_MAX: u64 = 60;

/// A client that sends requests.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) volume: VolumeId,
    pub(super) kind: Kind,
    /// When the next request arrives.
    pub(super) next: Instant,
    pub(super) left: u64,
    rng: SeededRng,
    pub(super) sent: u64,
    /// Of a stream: the requests in which it asks for a block, and for how many blocks at once. One
    /// of each where requests have deadlines.
    pub(super) requests: u64,
    pub(super) blocks: u64,
    /// The sectors that it asked for in other requests than blocks: these follow each other.
    pub(super) asked: u64,
    /// Requests without an answer.
    pub(super) outstanding: u64,
    /// Whether its volume is removed, or will be when its last request is answered.
    pub(super) leaves: bool,
    pub(super) reserve: ReserveOracle,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Stream {
        task: Task,
        block: Sectors,
        pattern: ArrivalPattern,
        /// The earliest next release, as computed from the arrivals; unknown for a stream
        /// that joins later.
        expected: Option<Instant>,
    },
    /// Requests of a bounded latency: bursts at its rate, or at twice that.
    Bounded {
        contract: LatencyContract,
        twice: bool,
        /// A token bucket in ns, of which a request takes an interval, and when it was filled last;
        /// unknown after a change of the contract.
        level: Option<(u64, Instant)>,
    },
    /// Requests of this length at an interval, or the next one at the answer of the last.
    Load { sectors: u64, every: Duration, closed: bool },
}

/// The arrival pattern of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) enum ArrivalPattern {
    /// One request in each period.
    Periodic,
    /// At least one period apart.
    Sporadic,
    /// Several at once, ahead of their periods.
    Early,
    /// An idle time, then one request in each period.
    Resting,
}

/// A client of a stream.
pub(super) fn stream_client(
    volume: VolumeId,
    stream: StreamContract,
    next: Instant,
    rng: &mut SeededRng,
) -> Client {
    let patterns = [
        ArrivalPattern::Periodic,
        ArrivalPattern::Periodic,
        ArrivalPattern::Sporadic,
        ArrivalPattern::Early,
        ArrivalPattern::Resting,
    ];
    let pattern = one_of(rng, &patterns);
    let (task, block) = (stream.task, stream.block);
    let kind = Kind::Stream { task, block, pattern, expected: Some(Instant::ZERO) };
    let left = 5 + rng.below(BLOCKS_MAX);
    let own = SeededRng::new(rng.below(u64::MAX), STREAM);
    Client::new(volume, kind, (next, left), own)
}

impl Client {
    pub(super) fn new(
        volume: VolumeId,
        kind: Kind,
        (next, left): (Instant, u64),
        rng: SeededRng,
    ) -> Self {
        let (requests, blocks) = (1, 1);
        Self {
            volume,
            kind,
            next,
            left,
            rng,
            sent: 0,
            requests,
            blocks,
            asked: 0,
            outstanding: 0,
            leaves: false,
            reserve: ReserveOracle::default(),
        }
    }

    /// The length of the request that is sent now, and its deadline if it is known.
    pub(super) fn next_request(&mut self, now: Instant) -> (u64, Option<Instant>) {
        self.left -= 1;
        self.sent += 1;
        match &mut self.kind {
            Kind::Load { sectors, every, closed } => {
                let every = if *closed { Instant::FAR_FUTURE.since(now) } else { *every };
                self.next = now + every;
                (*sectors, None)
            }
            Kind::Bounded { contract, twice, level } => {
                let interval = contract.interval();
                let full = interval.as_nanos() * u64::from(contract.burst());
                let mut is_covered = false;
                if let Some((level, at)) = level {
                    let filled = level.saturating_add(now.since(*at).as_nanos()).min(full);
                    is_covered = filled >= interval.as_nanos();
                    let taken = if is_covered { interval.as_nanos() } else { 0 };
                    (*level, *at) = (filled - taken, now);
                }
                let rate = if *twice { 2 } else { 1 };
                // Whole bursts, single requests, and pauses in which the bucket fills.
                let together = u64::from(contract.burst()) * rate;
                self.next = match self.rng.below(8) {
                    0 => now + interval * 5,
                    1..=3 if !self.sent.is_multiple_of(together) => now,
                    1..=3 => now + interval * u64::from(contract.burst()),
                    _ => now + interval / rate,
                };
                let due = is_covered.then(|| now + contract.within());
                (contract.size.0, due)
            }
            Kind::Stream { task, block, pattern, expected } => {
                let period = task.period();
                let pause = match pattern {
                    ArrivalPattern::Sporadic if self.rng.below(3) == 0 => {
                        period + ms(self.rng.below(30))
                    }
                    ArrivalPattern::Early if self.sent.is_multiple_of(4) => period * 4,
                    ArrivalPattern::Early => Duration::ZERO,
                    ArrivalPattern::Resting if self.sent.is_multiple_of(7) => period * 5,
                    ArrivalPattern::Periodic
                    | ArrivalPattern::Sporadic
                    | ArrivalPattern::Resting => period,
                };
                self.next = now + pause;
                let due = expected.map(|expected| now.max(expected) + period);
                *expected = expected.and(due);
                (block.0, due)
            }
        }
    }

    /// Whether its volume is removed.
    pub(super) fn is_removed(&self) -> bool {
        self.leaves && self.outstanding == 0
    }
}
