//! Where a workload's requests come from: dice, a trace, or a list.

use std::sync::Arc;

use config::Requests;
use trace::TraceError;
use units::{Duration, Instant, Operation, Sectors};

use crate::replay::Replay;
use crate::{Dice, Generator, TraceReport};

/// One of the four.
#[derive(Debug)]
pub(crate) enum Source {
    Drawn(Generator),
    Trace(Box<Replay>),
    /// A list, and how many of it were sent.
    Listed(Arc<[Operation]>, usize),
    /// The same with the time of each.
    Timed(Arc<[(Duration, Operation)]>, usize),
}

impl Source {
    /// The requests of a workload on a volume of `size`.
    pub(crate) fn new(requests: &Requests, size: Sectors, dice: Dice) -> Self {
        match requests {
            Requests::Drawn(drawn) => Self::Drawn(Generator::new(drawn, size, dice)),
            Requests::Trace(replay) => Self::Trace(Box::new(Replay::new(replay, size))),
            Requests::Listed(operations) => Self::Listed(Arc::clone(operations), 0),
            Requests::Timed(timed) => Self::Timed(Arc::clone(timed), 0),
        }
    }

    /// How many requests come first, and how long after the workload's start.
    pub(crate) fn first(&self) -> (u32, Duration) {
        match self {
            Self::Drawn(generator) => (generator.outstanding().unwrap_or(1), Duration::ZERO),
            Self::Trace(replay) => replay.next_at().map_or((0, Duration::ZERO), |at| (1, at)),
            Self::Listed(operations, _) => (u32::from(!operations.is_empty()), Duration::ZERO),
            Self::Timed(timed, _) => timed.first().map_or((0, Duration::ZERO), |(at, _)| (1, *at)),
        }
    }

    /// When the next request of an open loop that began at `start` comes, one being sent `now`.
    pub(crate) fn next_at(&mut self, start: Instant, now: Instant) -> Option<Instant> {
        match self {
            Self::Drawn(generator) if generator.outstanding().is_some() => None,
            Self::Drawn(generator) => Some(now + generator.pause()),
            Self::Trace(replay) => replay.next_at().map(|at| start + at),
            Self::Listed(..) => None,
            Self::Timed(timed, sent) => timed.get(*sent).map(|(at, _)| start + *at),
        }
    }

    /// What a trace, or a list with times, asks for now; nothing of what dice make up, which are rolled only for what is sent.
    pub(crate) fn traced(&mut self) -> Result<Option<Operation>, TraceError> {
        match self {
            Self::Drawn(_) | Self::Listed(..) => Ok(None),
            Self::Trace(replay) => replay.take().map(Some),
            Self::Timed(timed, sent) => {
                *sent += 1;
                Ok(timed.get(*sent - 1).map(|(_, operation)| *operation))
            }
        }
    }

    /// What dice make up, or a list has next.
    ///
    /// # Panics
    /// On a trace, which was to be asked before, and behind the end of a list.
    pub(crate) fn drawn(&mut self) -> Operation {
        match self {
            Self::Drawn(generator) => generator.operation(),
            Self::Listed(operations, sent) => {
                *sent += 1;
                operations[*sent - 1]
            }
            Self::Trace(_) | Self::Timed(..) => unreachable!("a trace was asked before"),
        }
    }

    /// Whether a list has nothing more.
    pub(crate) fn is_at_its_end(&self) -> bool {
        matches!(self, Self::Listed(operations, sent) if *sent == operations.len())
    }

    /// What there is to tell of a trace.
    pub(crate) fn report(&self) -> Option<TraceReport> {
        match self {
            Self::Drawn(_) | Self::Listed(..) | Self::Timed(..) => None,
            Self::Trace(replay) => Some(replay.report()),
        }
    }

    /// How many requests are under way at once; `None` in an open loop.
    pub(crate) fn outstanding(&self) -> Option<u32> {
        match self {
            Self::Drawn(generator) => generator.outstanding(),
            Self::Trace(_) | Self::Timed(..) => None,
            Self::Listed(..) => Some(1),
        }
    }

    /// The pause behind an answer, in a closed loop.
    pub(crate) fn think(&mut self) -> Option<Duration> {
        match self {
            Self::Drawn(generator) => {
                generator.outstanding()?;
                Some(generator.pause())
            }
            Self::Trace(_) | Self::Timed(..) => None,
            Self::Listed(..) => Some(Duration::ZERO),
        }
    }
}
