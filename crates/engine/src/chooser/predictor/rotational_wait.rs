//! The rotational wait of a command, and what fits into it: freeblock scheduling (OSDI 2000,
//! FAST 2002).
//!
//! ```text
//! without  ├ seek ┤▒▒▒▒▒▒▒▒▒▒ wait ▒▒▒▒▒▒▒▒▒▒│ target passes
//! with     ├ seek ┤ wait │ read │ seek ┤▒▒ margin ▒▒│
//!                   of the other request
//! ```
//!
//! Both arrivals leave a margin: the read's own, or a revolution is lost there, and that at the
//! target. The margin is [`DEVIATIONS`] standard deviations of arrivals, as learnt, and the drift
//! of the spindle since it was last seen.

use drive_profile::PhysicalAddress;
use units::{Duration, Extent, Instant, Op, Operation};

use super::{Predictor, Pricing, Target};
use crate::preempt::continues_run;

/// The standard deviations of arrivals by which the heads are early: one in 740 is later.
const DEVIATIONS: u64 = 3;

/// The time in which the heads would wait on the target's track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RotationalWait<'a> {
    predictor: &'a Predictor,
    pricing: Pricing<'a>,
    to: PhysicalAddress,
    writes: bool,
    /// From when the prices count.
    from: Instant,
    margin: u64,
    /// When the heads are on the target's track at the latest.
    arrive_by: Instant,
    /// When the command completes.
    completes: Instant,
}

impl RotationalWait<'_> {
    /// When the heads are on the target's track at the latest.
    pub(crate) fn arrive_by(&self) -> Instant {
        debug_assert!(self.arrive_by < self.completes, "a command ends after the heads' arrival");
        self.arrive_by
    }

    /// A completion after this instant has lost a revolution.
    pub(crate) fn late_after(&self) -> Instant {
        debug_assert!(self.predictor.period > 0, "a disk rotates");
        self.completes + Duration::from_nanos(self.predictor.period / 2)
    }

    /// The same wait, if the heads are to be on the track by `by`.
    #[must_use]
    pub(crate) fn until(self, by: Instant) -> Self {
        let arrive_by = self.arrive_by.min(by);
        debug_assert!(arrive_by <= by, "the earlier of the two");
        Self { arrive_by, ..self }
    }

    /// When a read of `extent`, which begins at `target`, completes in the wait; `None` if the
    /// heads are not back in time then.
    pub(crate) fn fits(&self, target: Target, extent: Extent) -> Option<Instant> {
        let Predictor { profile, .. } = self.predictor;
        let (arrives, wait) = self.pricing.arrival(target, false);
        let begins = self.from + Duration::from_nanos(arrives + wait);
        if wait < self.margin || begins > self.arrive_by {
            return None;
        }
        if extent.end().0 > profile.capacity().0 {
            return None;
        }
        let media = profile.transfer_time(extent);
        let bus = profile.bus_sector * extent.len.0;
        let completes = begins + media + profile.completion + bus.saturating_sub(media);
        let end = profile.end_of(extent);
        let overheads = &profile.overheads;
        let overhead = if self.writes { overheads.write } else { overheads.read };
        let travel = profile.movement_time((end.cylinder, end.surface), &self.to, self.writes);
        debug_assert!(completes > begins, "a read takes time");
        let fits = completes + overhead + travel <= self.arrive_by;
        (fits && self.predictor.is_from_media(extent, self.from)).then_some(completes)
    }
}

impl Predictor {
    /// Whether the drive's read buffer holds nothing of a read, and no read-ahead is about to reach
    /// it: a drive may hold a run's read-ahead against another command, and positions for nothing.
    fn is_from_media(&self, extent: Extent, at: Instant) -> bool {
        debug_assert!(!extent.is_empty(), "a read has sectors");
        let ahead = self.profile.read_buffer.read_ahead_max;
        let is_near = |run: Extent| {
            run.start <= extent.start && extent.start.0 <= run.end().0.saturating_add(ahead.0)
        };
        let last = self.now_at.map(|arm| arm.read).filter(|run| !run.is_empty());
        let reads = self.in_drive.iter().map(|command| command.operation);
        let reads = reads.filter(|operation| operation.op == Op::Read);
        if reads.map(|operation| operation.extent).chain(last).any(is_near) {
            return false;
        }
        self.segments.missing(&self.profile, extent, at) == Some(extent.start)
    }

    /// The rotational wait of a command that would go now; `None` where it is not predicted: the
    /// command is not one of the media, or predictions are not trusted.
    pub(crate) fn rotational_wait(
        &self,
        operation: &Operation,
        now: Instant,
    ) -> Option<RotationalWait<'_>> {
        let pricing = self.pricing(now)?;
        let arm = self.then_at?;
        let extent = operation.extent;
        let is_known = !extent.is_empty() && extent.end().0 <= self.profile.capacity().0;
        let moves = matches!(operation.op, Op::Read | Op::Write) && !self.is_buffered(operation);
        let on_run = continues_run(&arm, operation) && !operation.fua;
        if !is_known || !moves || on_run || self.is_dirty(now) {
            return None;
        }
        if operation.op == Op::Read && !self.is_from_media(extent, now) {
            return None;
        }
        let writes = operation.op == Op::Write;
        let (arrives, wait) = pricing.arrival(self.target(operation), writes);
        let drift = self.phase.drift(now).as_nanos();
        let margin = (self.deviation * DEVIATIONS).saturating_add(drift);
        // So early an arrival may be one for the revolution before.
        if wait <= margin || wait.saturating_add(margin) >= self.period {
            return None;
        }
        let from = now.max(self.free);
        debug_assert!(margin < self.period, "a margin is less than a revolution");
        debug_assert!(wait > margin, "there is time to wait");
        let passes = from + Duration::from_nanos(arrives + wait);
        let lag = if writes { Duration::ZERO } else { self.profile.completion };
        debug_assert!(passes > now, "the sector passes in the future");
        Some(RotationalWait {
            predictor: self,
            pricing,
            to: self.profile.locate(extent.start),
            writes,
            from,
            margin,
            arrive_by: passes.saturating_sub(Duration::from_nanos(margin)),
            completes: passes + self.profile.transfer_time(extent) + lag,
        })
    }
}
