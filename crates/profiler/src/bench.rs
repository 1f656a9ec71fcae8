//! Times operations within a budget.

use core::fmt;
use core::ops::ControlFlow;

use units::{Duration, Instant, Lba, Operation};

use crate::limits::DEPTH_MAX;
use crate::target::{Completion, Facts, Outcome, Tag, Target};
use drive_profile::findings::{Findings, Outlier, OutlierReason, Stage};

/// Why a measurement stopped early. The findings up to then are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The budget is spent.
    OutOfTime,
    /// The progress sink requested a stop.
    Interrupted,
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfTime => "the time that was given is over",
            Self::Interrupted => "interrupted",
        })
    }
}

impl core::error::Error for StopReason {}

/// The drive time that a measurement may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The total drive time.
    pub total: Duration,
    /// Whether to measure coarsely: lower confidence, several times as fast.
    pub quick: bool,
}

impl Budget {
    /// The default: ten minutes.
    pub const DEFAULT: Self = Self { total: Duration::from_secs(600), quick: false };
    /// A quick profile: one minute.
    pub const QUICK: Self = Self { total: Duration::from_secs(60), quick: true };
}

/// The time before a request at which the path to the device is woken for it: at most twice the
/// wake-up latency of an idle machine.
const AWAKE: Duration = Duration::from_micros(400);

/// The progress of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'n> {
    /// The current stage.
    pub stage: Stage,
    /// The drive time spent so far.
    pub spent: Duration,
    /// The drive time left at most.
    pub left: Duration,
    /// The remarks in the findings so far.
    pub notes: &'n [String],
}

/// Receives the progress at each operation, and may request a stop.
pub type ProgressSink<'a> = dyn FnMut(&Progress<'_>) -> ControlFlow<()> + 'a;

/// One operation that was timed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When the operation was submitted.
    pub submitted: Instant,
    /// When the operation completed.
    pub completed: Instant,
    /// The outcome of the operation.
    pub outcome: Outcome,
}

impl Timed {
    /// The service time.
    pub fn took(&self) -> Duration {
        self.completed.since(self.submitted)
    }

    /// Whether the operation succeeded.
    pub fn is_done(&self) -> bool {
        self.outcome == Outcome::Done
    }
}

/// A target under measurement: times operations, keeps to the budget, reports progress.
pub struct Bench<'a> {
    target: &'a mut dyn Target,
    facts: Facts,
    budget: Budget,
    began: Instant,
    stage: Stage,
    /// The end of the current stage.
    stage_end: Instant,
    watcher: &'a mut ProgressSink<'a>,
    next: u64,
    outstanding: u32,
    /// When the device last answered, and the idle times before and within the last operation.
    heard: Instant,
    silences: [Duration; 2],
    /// The findings so far. Each measurement writes its results here as soon as it has them.
    pub findings: Findings,
}

impl fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("facts", &self.facts).field("stage", &self.stage).finish()
    }
}

impl<'a> Bench<'a> {
    /// Begins a measurement that extends `findings`: empty ones, or those of an interrupted
    /// profile. The budget starts now.
    pub fn new(
        target: &'a mut dyn Target,
        budget: Budget,
        findings: Findings,
        watcher: &'a mut ProgressSink<'a>,
    ) -> Self {
        let (facts, began) = (target.facts(), target.now());
        let stage_end = began + budget.total;
        let stage = Stage::Rotation;
        Self {
            target,
            facts,
            budget,
            began,
            stage,
            stage_end,
            watcher,
            next: 0,
            outstanding: 0,
            heard: began,
            silences: [Duration::ZERO; 2],
            findings,
        }
    }

    /// The properties that the target states.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The budget.
    pub const fn budget(&self) -> Budget {
        self.budget
    }

    /// The current time.
    pub fn now(&mut self) -> Instant {
        self.target.now()
    }

    /// The drive time spent so far.
    pub fn spent(&mut self) -> Duration {
        self.target.now().since(self.began)
    }

    /// The time left for the current stage.
    pub fn left(&mut self) -> Duration {
        self.stage_end.saturating_since(self.target.now())
    }

    /// Whether the total budget is not exhausted, even if the current stage has no time left.
    pub fn has_time(&mut self) -> bool {
        self.spent() < self.budget.total
    }

    /// Begins a stage of at most `at_most` drive time, limited by the total budget.
    pub fn begin(&mut self, stage: Stage, at_most: Duration) {
        let end = self.began + self.budget.total;
        self.stage = stage;
        self.stage_end = end.min(self.target.now() + at_most);
    }

    /// Checks whether to continue, and reports progress.
    ///
    /// # Errors
    /// If the stage has no time left, or the progress sink requests a stop.
    pub fn check(&mut self) -> Result<(), StopReason> {
        let now = self.target.now();
        let spent = now.since(self.began);
        let left = self.budget.total.saturating_sub(spent);
        let progress = Progress { stage: self.stage, spent, left, notes: &self.findings.notes };
        if (self.watcher)(&progress).is_break() {
            return Err(StopReason::Interrupted);
        }
        if now >= self.stage_end { Err(StopReason::OutOfTime) } else { Ok(()) }
    }

    /// Submits a command now. Returns its tag and the time of submission.
    ///
    /// # Errors
    /// As [`Bench::check`].
    ///
    /// # Panics
    /// If [`Bench::depth_max`] commands are in flight.
    pub fn submit(&mut self, operation: Operation) -> Result<(Tag, Instant), StopReason> {
        self.check()?;
        assert!(self.outstanding < self.depth_max(), "the drive's queue has room");
        let tag = Tag(self.next);
        self.next += 1;
        self.outstanding += 1;
        Ok((tag, self.target.submit(tag, operation)))
    }

    /// Waits for the next completion.
    ///
    /// # Panics
    /// If nothing is in flight.
    pub fn complete(&mut self) -> Completion {
        let completion = self.target.complete();
        self.outstanding -= 1;
        completion
    }

    /// The most commands that may be in flight.
    pub fn depth_max(&self) -> u32 {
        self.facts.depth_max.clamp(1, DEPTH_MAX)
    }

    /// The number of commands in flight.
    pub const fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Waits for all commands in flight and discards their completions, after an interrupted
    /// measurement.
    pub fn drain(&mut self) {
        while self.outstanding > 0 {
            let _ = self.complete();
        }
    }

    /// Waits until `at`.
    pub fn wait_until(&mut self, at: Instant) {
        self.target.wait_until(at);
    }

    /// Waits until `at`. If the target supports an out-of-band round trip ([`Target::path`]),
    /// performs one shortly before `at`, so that CPUs and server threads on the path are awake when
    /// the next command is issued.
    pub fn wait_awake(&mut self, at: Instant) {
        let before = at.saturating_sub(AWAKE);
        if self.outstanding == 0 && self.target.now() < before {
            self.target.wait_until(before);
            if self.target.path().is_some() {
                self.heard = self.target.now();
            }
        }
        self.target.wait_until(at);
    }

    /// Performs one operation with nothing else in flight, and times it. A failed operation is
    /// listed among the outliers.
    ///
    /// # Errors
    /// As [`Bench::check`].
    ///
    /// # Panics
    /// If something is in flight.
    pub fn time(&mut self, operation: Operation) -> Result<Timed, StopReason> {
        assert_eq!(self.outstanding, 0, "one at a time");
        self.submit(operation)?;
        let Completion { submitted, completed, outcome, .. } = self.complete();
        if outcome == Outcome::Failed {
            self.outlier(operation.extent.start, OutlierReason::Failed);
        }
        self.silences = [submitted.saturating_since(self.heard), completed.since(submitted)];
        self.heard = completed;
        Ok(Timed { submitted, completed, outcome })
    }

    /// The latency of the path to the device and back after `silence` of idle time, if the target
    /// can time it (see [`Target::path`]).
    ///
    /// # Errors
    /// As [`Bench::check`].
    ///
    /// # Panics
    /// If something is in flight.
    pub fn path(&mut self, silence: Duration) -> Result<Option<Duration>, StopReason> {
        assert_eq!(self.outstanding, 0, "one at a time");
        self.check()?;
        let at = self.target.now() + silence;
        self.target.wait_until(at);
        let way = self.target.path();
        self.heard = self.target.now();
        Ok(way)
    }

    /// The idle times of the device: before the last operation, and within it.
    pub const fn silences(&self) -> [Duration; 2] {
        self.silences
    }

    /// Performs and times one operation at `at`.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub fn time_at(&mut self, at: Instant, operation: Operation) -> Result<Timed, StopReason> {
        self.wait_until(at);
        self.time(operation)
    }

    /// Performs and times operations back to back, each when the operation before it completes.
    ///
    /// # Errors
    /// As [`Bench::check`]. The times until then are lost.
    pub fn series(
        &mut self,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Result<Vec<Timed>, StopReason> {
        operations.into_iter().map(|operation| self.time(operation)).collect()
    }

    /// Lists a sample that is excluded from the figures.
    pub fn outlier(&mut self, lba: Lba, reason: OutlierReason) {
        self.findings.add_outlier(Outlier { lba, stage: self.stage, reason });
    }
}
