//! The source of a workload's requests: a generator, a trace, or a list.

use std::sync::Arc;

use config::Requests;
use trace::TraceError;
use units::{Duration, Instant, Operation, Sectors};

use crate::replay::Replay;
use crate::{Generator, SeededRng, TraceReport};

/// A workload's requests.
#[derive(Debug)]
pub(crate) enum Source {
    Drawn(Generator),
    Trace(Box<Replay>),
    /// A list, and the number of its requests that were sent.
    Listed(Arc<[Operation]>, usize),
    /// A list with the time of each request.
    Timed(Arc<[(Duration, Operation)]>, usize),
}

impl Source {
    /// The requests of a workload on a volume of `size`.
    pub(crate) fn new(requests: &Requests, size: Sectors, rng: SeededRng) -> Self {
        match requests {
            Requests::Synthetic(drawn) => Self::Drawn(Generator::new(drawn, size, rng)),
            Requests::Trace(replay) => Self::Trace(Box::new(Replay::new(replay, size))),
            Requests::Listed(operations) => Self::Listed(Arc::clone(operations), 0),
            Requests::Timed(timed) => Self::Timed(Arc::clone(timed), 0),
        }
    }

    /// The number of first requests, and their time after the workload's start.
    pub(crate) fn first(&self) -> (u32, Duration) {
        match self {
            Self::Drawn(generator) => (generator.outstanding().unwrap_or(1), Duration::ZERO),
            Self::Trace(replay) => replay.next_at().map_or((0, Duration::ZERO), |at| (1, at)),
            Self::Listed(operations, _) => (u32::from(!operations.is_empty()), Duration::ZERO),
            Self::Timed(timed, _) => timed.first().map_or((0, Duration::ZERO), |(at, _)| (1, *at)),
        }
    }

    /// The time of the next request of an open loop that began at `start`, when one is sent at
    /// `now`.
    pub(crate) fn next_at(&mut self, start: Instant, now: Instant) -> Option<Instant> {
        match self {
            Self::Drawn(generator) if generator.outstanding().is_some() => None,
            Self::Drawn(generator) => Some(now + generator.pause()),
            Self::Trace(replay) => replay.next_at().map(|at| start + at),
            Self::Listed(..) => None,
            Self::Timed(timed, sent) => timed.get(*sent).map(|(at, _)| start + *at),
        }
    }

    /// The request of a trace or of a list with times; `None` for generated requests, whose random
    /// numbers are drawn only for requests that are sent.
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

    /// The next generated or listed request.
    ///
    /// # Panics
    /// On a trace, whose request comes from [`Self::traced`], and past the end of a list.
    pub(crate) fn generate(&mut self) -> Operation {
        match self {
            Self::Drawn(generator) => generator.operation(),
            Self::Listed(operations, sent) => {
                *sent += 1;
                operations[*sent - 1]
            }
            Self::Trace(_) | Self::Timed(..) => {
                unreachable!("a trace yields its request in `traced`")
            }
        }
    }

    /// Whether a list has no more requests.
    pub(crate) fn is_exhausted(&self) -> bool {
        matches!(self, Self::Listed(operations, sent) if *sent == operations.len())
    }

    /// The report of a trace.
    pub(crate) fn report(&self) -> Option<TraceReport> {
        match self {
            Self::Drawn(_) | Self::Listed(..) | Self::Timed(..) => None,
            Self::Trace(replay) => Some(replay.report()),
        }
    }

    /// The number of outstanding requests; `None` in an open loop.
    pub(crate) fn outstanding(&self) -> Option<u32> {
        match self {
            Self::Drawn(generator) => generator.outstanding(),
            Self::Trace(_) | Self::Timed(..) => None,
            Self::Listed(..) => Some(1),
        }
    }

    /// The requests of a closed loop that follow an answer: their number, and the think time
    /// before them. See [`Generator::after_answer`].
    pub(crate) fn after_answer(&mut self, in_flight: u32) -> Option<(u32, Duration)> {
        match self {
            Self::Drawn(generator) => generator.after_answer(in_flight),
            Self::Trace(_) | Self::Timed(..) => None,
            Self::Listed(..) => Some((1, Duration::ZERO)),
        }
    }
}
