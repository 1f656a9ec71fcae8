//! Timing operations inside a budget.

use core::fmt;
use core::ops::ControlFlow;

use units::{Duration, Instant, Lba, Operation};

use crate::limits::DEPTH_MAX;
use crate::target::{Completion, Facts, Outcome, Tag, Target};
use drive_profile::findings::{Findings, Outlier, OutlierReason, Stage};

/// Why measuring stopped before it was done. What was found until then is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The budget is spent.
    OutOfTime,
    /// Whoever watches asked for an end.
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

/// How much of the drive's time may be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// In all.
    pub total: Duration,
    /// Whether to measure coarsely: less certain, several times as fast.
    pub quick: bool,
}

impl Budget {
    /// The default: ten minutes.
    pub const DEFAULT: Self = Self { total: Duration::from_secs(600), quick: false };
    /// A glance: one minute.
    pub const QUICK: Self = Self { total: Duration::from_secs(60), quick: true };
}

/// How long before a request everybody on the way is woken for it: twice as long as that takes, at most, on a quiet machine.
const AWAKE: Duration = Duration::from_micros(400);

/// How far measuring has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'n> {
    /// What is being measured.
    pub stage: Stage,
    /// How much of the drive's time was spent, in all.
    pub spent: Duration,
    /// How much is left at most.
    pub left: Duration,
    /// What is known already that is worth saying.
    pub notes: &'n [String],
}

/// Who is told of progress, at each operation, and may ask for an end.
pub type ProgressSink<'a> = dyn FnMut(&Progress<'_>) -> ControlFlow<()> + 'a;

/// One operation that was timed on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When it was handed to the drive.
    pub submitted: Instant,
    /// When it was done.
    pub completed: Instant,
    /// How it ended.
    pub outcome: Outcome,
}

impl Timed {
    /// What it took.
    pub fn took(&self) -> Duration {
        self.completed.since(self.submitted)
    }

    /// Whether it did what it was asked for.
    pub fn is_done(&self) -> bool {
        self.outcome == Outcome::Done
    }
}

/// A target under measurement: times operations, keeps to the budget, tells of progress.
pub struct Bench<'a> {
    target: &'a mut dyn Target,
    facts: Facts,
    budget: Budget,
    began: Instant,
    stage: Stage,
    /// Until when the present stage may go on.
    stage_end: Instant,
    watcher: &'a mut ProgressSink<'a>,
    next: u64,
    outstanding: u32,
    /// When the device was heard last, and how long nothing was heard of it: before the last operation, and in it.
    heard: Instant,
    silences: [Duration; 2],
    /// What is known so far. Whoever measures writes it here as soon as it is known.
    pub findings: Findings,
}

impl fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench").field("facts", &self.facts).field("stage", &self.stage).finish()
    }
}

impl<'a> Bench<'a> {
    /// Begins to measure, from `findings` on: empty ones, or those of a profile that is resumed. The budget runs from
    /// now on.
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

    /// What the target says of itself.
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What may be spent.
    pub const fn budget(&self) -> Budget {
        self.budget
    }

    /// What time it is.
    pub fn now(&mut self) -> Instant {
        self.target.now()
    }

    /// How much of the drive's time was spent.
    pub fn spent(&mut self) -> Duration {
        self.target.now().since(self.began)
    }

    /// How much is left for the present stage.
    pub fn left(&mut self) -> Duration {
        self.stage_end.saturating_since(self.target.now())
    }

    /// Whether something of the whole budget is left, though the time of a stage be over.
    pub fn has_time(&mut self) -> bool {
        self.spent() < self.budget.total
    }

    /// Begins a stage, which may take so much of the drive's time, and no more than is left in all.
    pub fn begin(&mut self, stage: Stage, at_most: Duration) {
        let end = self.began + self.budget.total;
        self.stage = stage;
        self.stage_end = end.min(self.target.now() + at_most);
    }

    /// Whether to go on.
    ///
    /// # Errors
    /// If the time of the stage is over, or whoever watches asked for an end.
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

    /// Hands a command to the drive now; its tag, and when that was.
    ///
    /// # Errors
    /// As [`Bench::check`].
    ///
    /// # Panics
    /// If [`Bench::depth_max`] commands are outstanding.
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
    /// If nothing is outstanding.
    pub fn complete(&mut self) -> Completion {
        let completion = self.target.complete();
        self.outstanding -= 1;
        completion
    }

    /// How many commands may be outstanding.
    pub fn depth_max(&self) -> u32 {
        self.facts.depth_max.clamp(1, DEPTH_MAX)
    }

    /// How many are.
    pub const fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Waits for all that is outstanding, and forgets it: what an interrupted measurement leaves behind.
    pub fn drain(&mut self) {
        while self.outstanding > 0 {
            let _ = self.complete();
        }
    }

    /// Waits until `at`.
    pub fn wait_until(&mut self, at: Instant) {
        self.target.wait_until(at);
    }

    /// Waits until `at`, with everybody on the way to the device awake for what is asked for then, where somebody can be
    /// asked for something without the device.
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

    /// Does one operation with nothing else outstanding, and times it. One that fails is listed among the outliers.
    ///
    /// # Errors
    /// As [`Bench::check`].
    ///
    /// # Panics
    /// If something is outstanding.
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

    /// What the way to the device and back takes just now, where that can be timed (see [`Target::path`]), when nothing
    /// was heard of it for so long.
    ///
    /// # Errors
    /// As [`Bench::check`].
    ///
    /// # Panics
    /// If something is outstanding.
    pub fn path(&mut self, silence: Duration) -> Result<Option<Duration>, StopReason> {
        assert_eq!(self.outstanding, 0, "one at a time");
        self.check()?;
        let at = self.target.now() + silence;
        self.target.wait_until(at);
        let way = self.target.path();
        self.heard = self.target.now();
        Ok(way)
    }

    /// How long nothing was heard of the device before the last operation, and in it.
    pub const fn silences(&self) -> [Duration; 2] {
        self.silences
    }

    /// Does one operation as soon as it is `at`.
    ///
    /// # Errors
    /// As [`Bench::check`].
    pub fn time_at(&mut self, at: Instant, operation: Operation) -> Result<Timed, StopReason> {
        self.wait_until(at);
        self.time(operation)
    }

    /// Does operations back to back, each as soon as the one before it is done, and times them.
    ///
    /// # Errors
    /// As [`Bench::check`]; what was timed until then is lost.
    pub fn series(
        &mut self,
        operations: impl IntoIterator<Item = Operation>,
    ) -> Result<Vec<Timed>, StopReason> {
        operations.into_iter().map(|operation| self.time(operation)).collect()
    }

    /// Lists something that was kept out of the figures.
    pub fn outlier(&mut self, lba: Lba, reason: OutlierReason) {
        self.findings.add_outlier(Outlier { lba, stage: self.stage, reason });
    }
}
