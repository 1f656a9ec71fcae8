//! What comes next of a request, and what completions have taught.

use std::sync::Arc;

use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use super::arm::{Arm, goes_on};
use super::execution::{Preemptible, PreemptionStats, Purpose};
use super::positioning::{PositioningContext, PositioningStep};
use super::rotation::RotationTracker;
use drive_profile::{PhysicalAddress, Profile};

/// A command is sent at least so much earlier than rotation alone asks for.
const GUARD_MIN: Duration = Duration::from_micros(50);
/// And at most so much earlier: beyond that it is the predictions that are wrong.
const GUARD_MAX: Duration = Duration::from_millis(1);
/// After each arrival in time it is shorter by one part in so many. With a doubling after each turn lost, it settles where
/// one in so many × ln 2 is lost: on a host whose threads are woken late that is what just-in-time seeks cost.
const GUARD_DECAY: u64 = 256;
/// Predictions are judged by the last so many.
const WATCHED: u32 = 64;
/// Of these so many may fail before just-in-time seeks are given up: each costs a turn, and one in four eats up what
/// they are worth.
const FAILED_MAX: u32 = 16;
/// And no more than so many before they are taken up again.
const FAILED_AGAIN: u32 = 4;

/// What to do for a request that is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Issue its next piece.
    Transfer,
    /// Nothing before then.
    Wait(Instant),
    /// Move the arm.
    Seek(Lba),
    /// Read this meanwhile.
    Prefetch(Extent),
}

/// A transfer whose completion will tell something.
#[derive(Clone, Copy, Debug)]
struct Prediction {
    /// Where the head is when its last sector has passed.
    end: PhysicalAddress,
    /// When it was to be complete, if rotation was known.
    expected: Option<Instant>,
    /// No completion before this one came off the media.
    soonest: Instant,
    /// Whether the arm was sent just in time for it.
    timed: bool,
    /// Whether the arm was there already: then it was rotation alone that was foretold.
    there: bool,
    /// From the last sector's passing to the completion.
    lag: Duration,
}

/// One disk's memory of where its arm should be.
#[derive(Debug)]
pub(crate) struct Executor {
    settings: Preemptible,
    profile: Arc<Profile>,
    phase: RotationTracker,
    arm: Option<Arm>,
    /// Whether the drive may hold writes that it has yet to carry out: then its arm goes its own ways.
    dirty: bool,
    /// The target that a wait or a movement has begun for, and how many parts are left of a movement in several.
    target: Option<(Lba, Option<u32>)>,
    awaited: Option<Prediction>,
    guard: Duration,
    /// The last predictions, one bit each, set where one failed; and how many there are.
    failed: u64,
    watched: u32,
    jit_enabled: bool,
    done: PreemptionStats,
}

impl Executor {
    pub(crate) fn new(settings: Preemptible, profile: Arc<Profile>) -> Self {
        profile.assert_valid();
        Self {
            settings,
            phase: RotationTracker::new(profile.rotation_period, profile.rotation_error_ppb),
            profile,
            arm: None,
            dirty: false,
            target: None,
            awaited: None,
            guard: GUARD_MIN,
            failed: 0,
            watched: 0,
            jit_enabled: true,
            done: PreemptionStats::default(),
        }
    }

    /// What was done so far.
    pub(crate) fn done(&self) -> PreemptionStats {
        PreemptionStats {
            jit_enabled: self.jit_enabled && self.settings.jit.is_some(),
            ..self.done
        }
    }

    pub(crate) fn done_mut(&mut self) -> &mut PreemptionStats {
        &mut self.done
    }

    pub(crate) fn period(&self) -> Duration {
        self.profile.rotation_period
    }

    /// What one command of `operation` transfers from `at` on.
    pub(crate) fn chunk(&self, op: Op, at: Lba) -> Sectors {
        if let Some(chunk) = self.settings.chunk {
            return chunk;
        }
        if at.0 >= self.profile.capacity().0 {
            return Sectors(64);
        }
        let band = self.profile.band(at);
        if op == Op::Write { band.chunk_write } else { band.chunk_read }
    }

    /// What the next command of a request transfers, `rest` being left of it: a chunk. Where the profile says how long
    /// that is, the rest goes in equal parts, none of them shorter: a short last one would take its command's
    /// overhead, and no longer ride the time that the media takes for a longer one.
    pub(crate) fn piece(&self, op: Op, rest: Extent) -> Sectors {
        let chunk = self.chunk(op, rest.start);
        if self.settings.chunk.is_some() {
            return chunk;
        }
        let parts = (rest.len.0 / chunk.0).max(1);
        Sectors(rest.len.0.div_ceil(parts))
    }

    /// What to do for a request whose next piece is `head`, the drive being idle.
    pub(crate) fn step(&mut self, head: &Operation, now: Instant) -> Step {
        let way = self.way(head, now);
        let Some(way) = way else { return Step::Transfer };
        let start = head.extent.start;
        let parts = self.target.filter(|(target, _)| *target == start).and_then(|(_, parts)| parts);
        match way {
            PositioningStep::Go => Step::Transfer,
            PositioningStep::Wait(until) => {
                self.target = Some((start, parts));
                match self.prefetch(now, until) {
                    Some(extent) => Step::Prefetch(extent),
                    None => Step::Wait(until),
                }
            }
            PositioningStep::Seek { to, left } => {
                self.done.split_seeks += u64::from(left > 0 && parts.is_none());
                self.target = Some((start, parts.or((left > 0).then_some(left)).map(|_| left)));
                Step::Seek(to)
            }
        }
    }

    fn way(&self, head: &Operation, now: Instant) -> Option<PositioningStep> {
        let jit = self.settings.jit.filter(|_| self.jit_enabled)?;
        let arm = self.arm.as_ref()?;
        let moves = matches!(head.op, Op::Read | Op::Write);
        let known = head.extent.end().0 <= self.profile.capacity().0;
        // Beyond a quarter of a turn nobody knows where the disk stands.
        let lost = self.phase.drift(now) > self.profile.rotation_period / 4;
        if !moves || !known || lost || goes_on(arm, head) {
            return None;
        }
        let outlook = PositioningContext {
            profile: &self.profile,
            phase: &self.phase,
            settings: &self.settings,
            jit,
            arm,
            guard: self.guard,
            target: self.target.map(|(target, _)| target),
            parts_left: self.target.and_then(|(_, parts)| parts),
            now,
        };
        outlook.next(head)
    }

    /// What can be read on behind the last read before `until`.
    fn prefetch(&self, now: Instant, until: Instant) -> Option<Extent> {
        let arm = self.arm.as_ref().filter(|arm| !arm.read.is_empty() && arm.arrived.is_none())?;
        if !self.settings.free_prefetch {
            return None;
        }
        let from = arm.read.end();
        let left = self.profile.capacity().0.saturating_sub(from.0);
        let len = self.chunk(Op::Read, from).0.min(left);
        let extent = Extent::new(from, Sectors(len));
        if len == 0 {
            return None;
        }
        // The drive reads on by itself meanwhile: a chunk takes what the media or what the bus takes for it. The way
        // over the end of the last one is part of it.
        let media = self.profile.transfer_time(Extent::new(Lba(from.0 - 1), Sectors(len + 1)));
        let bus = self.profile.overheads.hit + self.profile.bus_sector * len;
        (now + media.max(bus) + self.guard <= until).then_some(extent)
    }

    /// A command goes to the drive.
    pub(crate) fn issued(&mut self, operation: &Operation, purpose: Purpose, now: Instant) {
        self.awaited = None;
        match purpose {
            Purpose::Seek => self.done.seek_commands += 1,
            Purpose::Prefetch => self.done.prefetched += operation.extent.len,
            Purpose::Transfer => {
                self.awaited = self.predict(operation, now);
                self.target = None;
            }
        }
    }

    /// What the completion of a transfer will tell.
    fn predict(&mut self, operation: &Operation, now: Instant) -> Option<Prediction> {
        let extent = operation.extent;
        let known = !extent.is_empty() && extent.end().0 <= self.profile.capacity().0;
        let (profile, arm) = (&self.profile, self.arm.as_ref().filter(|_| known)?);
        // A write into memory tells nothing; in a run the drive's memory answers.
        let writes = operation.op == Op::Write;
        if goes_on(arm, operation) && !operation.fua || operation.op != Op::Read && !writes {
            return None;
        }
        if writes && profile.write_cache && !operation.fua {
            return None;
        }
        let start = profile.locate(extent.start);
        let (overhead, lag) = if writes {
            (profile.overheads.write, Duration::ZERO)
        } else {
            (profile.overheads.read, profile.completion)
        };
        let travel = profile.movement_time((arm.cylinder, arm.surface), &start, writes);
        let (media, bus) = (profile.transfer_time(extent), profile.bus_sector * extent.len.0);
        let lag = lag + bus.saturating_sub(media);
        let timed = self.target.is_some_and(|(target, _)| target == extent.start);
        let passes = self.phase.next(start.angle, now + overhead + travel);
        let foretold = !self.dirty && !goes_on(arm, operation);
        let expected = passes.filter(|_| foretold).map(|at| at + media + lag);
        let soonest = now + overhead / 2 + travel / 2 + media / 2;
        self.done.jit_transfers += u64::from(timed);
        let there = travel == Duration::ZERO;
        Some(Prediction { end: profile.end_of(extent), expected, soonest, timed, there, lag })
    }

    /// A command has come back from the drive.
    pub(crate) fn completed(&mut self, operation: &Operation, purpose: Purpose, now: Instant) {
        let extent = operation.extent;
        if let Some(awaited) = self.awaited.take() {
            self.learn(&awaited, now);
        }
        if operation.op == Op::Flush || operation.op == Op::Write {
            let kept = self.profile.write_cache && !operation.fua && operation.op == Op::Write;
            self.dirty = kept;
        }
        let known = extent.end().0 <= self.profile.capacity().0;
        if extent.is_empty() || !known {
            return;
        }
        let nothing = Extent::new(extent.end(), Sectors::ZERO);
        let on = match (&self.arm, operation.op) {
            (Some(arm), Op::Read) if goes_on(arm, operation) => arm.read,
            _ => Extent::new(extent.start, Sectors::ZERO),
        };
        let (spot, arm) = match operation.op {
            Op::Seek => (self.profile.locate(extent.start), (Some(extent.start), nothing, None)),
            Op::Read => {
                let end = extent.end().max(on.end());
                let read = Extent::new(on.start, on.start.distance(end));
                (self.profile.end_of(extent), (None, read, None))
            }
            Op::Write => (self.profile.end_of(extent), (None, nothing, Some(extent.end()))),
            Op::Flush | Op::Trim | Op::WriteZeroes => {
                // Where a drive leaves its arm after these is its own affair.
                self.arm = None;
                return;
            }
        };
        debug_assert!(purpose != Purpose::Seek || operation.op == Op::Seek, "a seek seeks");
        let (arrived, read, written) = arm;
        let (cylinder, surface) = (spot.cylinder, spot.surface);
        self.arm = Some(Arm { cylinder, surface, arrived, read, written });
    }

    fn learn(&mut self, awaited: &Prediction, now: Instant) {
        if now < awaited.soonest {
            // Out of the drive's memory: it says nothing of the disk.
            return;
        }
        let passed = now.saturating_sub(awaited.lag);
        self.phase.observe(awaited.end.angle, passed);
        let Some(expected) = awaited.expected else { return };
        let half = self.profile.rotation_period / 2;
        let missed = now > expected + half;
        if missed && awaited.timed {
            self.done.missed += 1;
            // A seek that took longer is no reason to be earlier where there is none.
            if awaited.there {
                self.guard = (self.guard * 2).min(GUARD_MAX);
            }
        } else {
            self.guard = (self.guard - self.guard / GUARD_DECAY).max(GUARD_MIN);
        }
        self.record_outcome(missed || now + half < expected);
    }

    /// Gives just-in-time seeks up, or takes them up again.
    fn record_outcome(&mut self, failed: bool) {
        self.failed = (self.failed << 1) | u64::from(failed);
        self.watched = (self.watched + 1).min(WATCHED);
        let failures = self.failed.count_ones();
        if self.jit_enabled && failures > FAILED_MAX {
            self.jit_enabled = false;
            self.done.jit_disabled_count += 1;
        } else if !self.jit_enabled && self.watched == WATCHED && failures <= FAILED_AGAIN {
            self.jit_enabled = true;
        }
    }

    /// What was begun for the request that was to go on is given up: another goes first.
    pub(crate) fn abandon(&mut self) {
        self.target = None;
    }
}
