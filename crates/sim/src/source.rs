//! The source of a workload's requests: a generator, a trace, or a list.

use std::sync::Arc;

use config::{Requests, Step};
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
    /// Steps, the number of them that have begun, and the requests of the last that were sent.
    Steps(Arc<[Step]>, usize, usize),
}

impl Source {
    /// The requests of a workload on a volume of `size`.
    pub(crate) fn new(requests: &Requests, size: Sectors, rng: SeededRng) -> Self {
        match requests {
            Requests::Synthetic(drawn) => Self::Drawn(Generator::new(drawn, size, rng)),
            Requests::Trace(replay) => Self::Trace(Box::new(Replay::new(replay, size))),
            Requests::Listed(operations) => Self::Listed(Arc::clone(operations), 0),
            Requests::Timed(timed) => Self::Timed(Arc::clone(timed), 0),
            Requests::Steps(steps) => Self::Steps(Arc::clone(steps), 0, 0),
        }
    }

    /// The number of first requests, and their time after the workload's start.
    pub(crate) fn first(&self) -> (u32, Duration) {
        match self {
            Self::Drawn(generator) => (generator.outstanding().unwrap_or(1), Duration::ZERO),
            Self::Trace(replay) => replay.next_at().map_or((0, Duration::ZERO), |at| (1, at)),
            Self::Listed(operations, _) => (u32::from(!operations.is_empty()), Duration::ZERO),
            Self::Timed(timed, _) => timed.first().map_or((0, Duration::ZERO), |(at, _)| (1, *at)),
            Self::Steps(steps, ..) => {
                steps.first().map_or((0, Duration::ZERO), |step| (count_of(step), step.not_before))
            }
        }
    }

    /// The time of the next request of an open loop that began at `start`, when one is sent at
    /// `now`.
    pub(crate) fn next_at(&mut self, start: Instant, now: Instant) -> Option<Instant> {
        match self {
            Self::Drawn(generator) if generator.outstanding().is_some() => None,
            Self::Drawn(generator) => Some(now + generator.pause()),
            Self::Trace(replay) => replay.next_at().map(|at| start + at),
            Self::Listed(..) | Self::Steps(..) => None,
            Self::Timed(timed, sent) => timed.get(*sent).map(|(at, _)| start + *at),
        }
    }

    /// The request of a trace or of a list with times; `None` for generated requests, whose random
    /// numbers are drawn only for requests that are sent.
    pub(crate) fn traced(&mut self) -> Result<Option<Operation>, TraceError> {
        match self {
            Self::Drawn(_) | Self::Listed(..) | Self::Steps(..) => Ok(None),
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
            Self::Steps(steps, begun, sent) => {
                let operation = steps[*begun].operations[*sent];
                *sent += 1;
                if *sent == steps[*begun].operations.len() {
                    (*begun, *sent) = (*begun + 1, 0);
                }
                operation
            }
            Self::Trace(_) | Self::Timed(..) => {
                unreachable!("a trace yields its request in `traced`")
            }
        }
    }

    /// Whether a list has no more requests.
    pub(crate) fn is_exhausted(&self) -> bool {
        match self {
            Self::Listed(operations, sent) => *sent == operations.len(),
            Self::Steps(steps, begun, _) => *begun == steps.len(),
            Self::Drawn(_) | Self::Trace(_) | Self::Timed(..) => false,
        }
    }

    /// The report of a trace.
    pub(crate) fn report(&self) -> Option<TraceReport> {
        match self {
            Self::Drawn(_) | Self::Listed(..) | Self::Timed(..) | Self::Steps(..) => None,
            Self::Trace(replay) => Some(replay.report()),
        }
    }

    /// The number of outstanding requests; `None` in an open loop.
    pub(crate) fn outstanding(&self) -> Option<u32> {
        match self {
            Self::Drawn(generator) => generator.outstanding(),
            Self::Trace(_) | Self::Timed(..) => None,
            Self::Listed(..) => Some(1),
            Self::Steps(steps, begun, _) => steps.get(*begun).map(count_of).or(Some(0)),
        }
    }

    /// The requests of a closed loop that follow an answer, `elapsed` after the workload's start:
    /// their number, and the think time before them. See [`Generator::after_answer`].
    pub(crate) fn after_answer(
        &mut self,
        in_flight: u32,
        elapsed: Duration,
    ) -> Option<(u32, Duration)> {
        match self {
            Self::Drawn(generator) => generator.after_answer(in_flight),
            Self::Trace(_) | Self::Timed(..) => None,
            Self::Listed(..) => Some((1, Duration::ZERO)),
            Self::Steps(steps, begun, sent) => {
                let is_answered = in_flight == 0 && *sent == 0;
                let step = steps.get(*begun).filter(|_| is_answered)?;
                Some((count_of(step), step.not_before.saturating_sub(elapsed)))
            }
        }
    }
}

fn count_of(step: &Step) -> u32 {
    assert!(!step.operations.is_empty(), "a step has requests");
    u32::try_from(step.operations.len()).expect("a step is short")
}
