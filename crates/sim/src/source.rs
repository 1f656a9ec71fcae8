//! Where a workload's requests come from: dice, or a trace.

use config::Requests;
use trace::TraceError;
use units::{Duration, Instant, Operation, Sectors};

use crate::replay::Replay;
use crate::{Dice, Generator, TraceReport};

/// Either of the two.
#[derive(Debug)]
pub(crate) enum Source {
    Drawn(Generator),
    Trace(Box<Replay>),
}

impl Source {
    /// The requests of a workload on a volume of `size`.
    pub(crate) fn new(requests: &Requests, size: Sectors, dice: Dice) -> Self {
        match requests {
            Requests::Drawn(drawn) => Self::Drawn(Generator::new(drawn, size, dice)),
            Requests::Trace(replay) => Self::Trace(Box::new(Replay::new(replay, size))),
        }
    }

    /// How many requests come first, and how long after the workload's start.
    pub(crate) fn first(&self) -> (u32, Duration) {
        match self {
            Self::Drawn(generator) => (generator.outstanding().unwrap_or(1), Duration::ZERO),
            Self::Trace(replay) => replay.next_at().map_or((0, Duration::ZERO), |at| (1, at)),
        }
    }

    /// When the next request of an open loop that began at `start` comes, one being sent `now`.
    pub(crate) fn next_at(&mut self, start: Instant, now: Instant) -> Option<Instant> {
        match self {
            Self::Drawn(generator) if generator.outstanding().is_some() => None,
            Self::Drawn(generator) => Some(now + generator.pause()),
            Self::Trace(replay) => replay.next_at().map(|at| start + at),
        }
    }

    /// What a trace asks for now; nothing of what dice make up, which are rolled only for what is sent.
    pub(crate) fn traced(&mut self) -> Result<Option<Operation>, TraceError> {
        match self {
            Self::Drawn(_) => Ok(None),
            Self::Trace(replay) => replay.take().map(Some),
        }
    }

    /// What dice make up.
    ///
    /// # Panics
    /// On a trace, which was to be asked before.
    pub(crate) fn drawn(&mut self) -> Operation {
        let Self::Drawn(generator) = self else { unreachable!("a trace was asked before") };
        generator.operation()
    }

    /// What there is to tell of a trace.
    pub(crate) fn report(&self) -> Option<TraceReport> {
        match self {
            Self::Drawn(_) => None,
            Self::Trace(replay) => Some(replay.report()),
        }
    }

    /// How many requests are under way at once; `None` in an open loop.
    pub(crate) fn outstanding(&self) -> Option<u32> {
        match self {
            Self::Drawn(generator) => generator.outstanding(),
            Self::Trace(_) => None,
        }
    }

    /// The pause behind an answer, in a closed loop.
    pub(crate) fn think(&mut self) -> Option<Duration> {
        match self {
            Self::Drawn(generator) => {
                generator.outstanding()?;
                Some(generator.pause())
            }
            Self::Trace(_) => None,
        }
    }
}
