//! Positioning times, predicted from a profile, and how far the predictions are trusted.
//!
//! The order of commands in the drive is known while it holds at most two: one in service, one that
//! follows. So the position of the heads after them is known, and the next command is chosen for
//! it. A completion shows the angle under the head; a revolution that a command has lost delays the
//! one behind it by exactly that revolution.
//!
//! How early or late the heads arrive cannot be observed: a sector passes when it passes. What is
//! seen is whether a command lost a revolution. The standard deviation of arrivals is the one for
//! which as many revolutions are expected to be lost as are.
//!
//! ```text
//! trusted ──more than FAILURES_MAX of OUTCOMES fail──▶ not trusted: the order of a sweep
//!    ▲                                                     │ TRIAL_AFTER commands
//!    └──at most FAILURES_REGAIN of OUTCOMES fail── trial ◀─┘
//! ```

use std::sync::Arc;

use drive_profile::Profile;
use units::{Angle, Duration, Instant, Op, Operation};

use super::odds;
use super::seek_times::SeekTimes;
use crate::limits::DEPTH_MAX;
use crate::preempt::{Arm, ReadSegments, RotationTracker, continues_run};
use crate::request::CommandId;

mod read_buffer;
mod rotational_wait;

pub(crate) use rotational_wait::RotationalWait;

/// The outcomes of predictions that are evaluated together.
const OUTCOMES: u32 = 64;
/// The failures among them beyond which predictions are not trusted.
const FAILURES_MAX: u32 = 16;
/// The failures among them at which they are trusted again.
const FAILURES_REGAIN: u32 = 4;
/// Commands without trust before predictions are tried again.
const TRIAL_AFTER: u32 = 4_096;
/// Commands of a trial at most: those that the drive's memory serves have no outcome.
const TRIAL_MAX: u32 = 256;
/// The least standard deviation of arrivals, and the one before any is learned.
const DEVIATION_MIN: Duration = Duration::from_micros(20);
const DEVIATION_FIRST: Duration = Duration::from_micros(50);
/// The greatest is this part of a revolution; a completion is a failure if it is off by more.
const DEVIATION_PART: u64 = 8;
/// The gain with which the deviation is learned.
const DEVIATION_GAIN: u64 = 16;
/// The drive is taken to have destaged a write after this time.
const DESTAGED_AFTER: Duration = Duration::from_secs(5);
/// The commands in the drive whose order is known.
const ORDERED: usize = 2;
/// One, as a probability.
const CERTAIN: u64 = 1 << 16;

const _: () = assert!(FAILURES_REGAIN < FAILURES_MAX && FAILURES_MAX < OUTCOMES);
const _: () = assert!(OUTCOMES <= u64::BITS && OUTCOMES <= TRIAL_MAX && TRIAL_MAX < TRIAL_AFTER);

/// Where a request begins on the disk: looked up once, when it arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    cylinder: u32,
    angle: Angle,
    surface: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Trusted,
    /// Commands since trust was lost, or since the last trial.
    Lost(u32),
    /// Commands of the trial.
    Trial(u32),
}

/// The predicted completion of a command.
#[derive(Clone, Copy, Debug)]
struct Prediction {
    /// The angle under the head when its last sector has passed.
    end: Angle,
    /// When it should complete, if the rotation is known.
    expected: Option<Instant>,
    /// From the arrival of the heads to the first sector, as far as it is known.
    wait: Duration,
    /// A completion before this instant did not come from the media.
    soonest: Instant,
    /// From the last sector's passage to the completion.
    lag: Duration,
}

#[derive(Clone, Copy, Debug)]
struct InDrive {
    id: CommandId,
    operation: Operation,
    issued: Instant,
    /// Whether the drive's read buffer should serve it; once it has completed, whether it did.
    is_hit: bool,
    /// If it should serve it while the arm is elsewhere: a later completion came from the media.
    served_by: Option<Instant>,
    prediction: Option<Prediction>,
}

impl InDrive {
    /// Whether the drive's memory serves it, so that the arm stays where it is: not the read-ahead
    /// that follows it.
    fn keeps_arm(&self, arm: Option<Arm>) -> bool {
        debug_assert!(!self.is_hit || self.operation.op == Op::Read, "the buffer serves reads");
        self.is_hit && !arm.is_some_and(|arm| continues_run(&arm, &self.operation))
    }
}

/// What one decision prices its candidates by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pricing<'a> {
    reads: &'a SeekTimes,
    writes: &'a SeekTimes,
    cylinder: u32,
    surface: u16,
    /// The time until the arm moves for a read or a write, and the angle under the head then.
    read: (u64, Angle),
    write: (u64, Angle),
    deviation: u64,
    period: u64,
    turn_rate: u64,
}

/// By how much arrivals err the more, as far as a change of volumes is priced: with twice a change
/// in some thousand still loses a revolution, and with four times the throughput is the same within
/// the noise of a run.
const CAREFUL: u64 = 4;

impl Pricing<'_> {
    /// The prices of a change of volumes, which all of them pay: a lost revolution there is up to a
    /// point of a share over a second, and costs more than its time.
    pub(crate) fn careful(self) -> Self {
        debug_assert!(self.deviation < self.period, "arrivals err by less than a revolution");
        Self { deviation: self.deviation * CAREFUL, ..self }
    }

    /// The expected time in ns until the first sector of a request passes under the head.
    pub(super) fn cost(&self, target: Target, writes: bool) -> i64 {
        let (arrives, wait) = self.arrival(target, writes);
        arrives.cast_signed() + odds::expected_wait(wait, self.deviation, self.period)
    }

    /// The time in ns until the heads are on the track of a request, and from then until its first
    /// sector passes.
    fn arrival(&self, target: Target, writes: bool) -> (u64, u64) {
        let (table, (ready, angle)) =
            if writes { (self.writes, self.write) } else { (self.reads, self.read) };
        let distance = self.cylinder.abs_diff(target.cylinder);
        let travel = table.time(distance, self.surface != target.surface);
        let wait = (target.angle - (angle + swept(travel, self.turn_rate))).0;
        let wait = (u64::from(wait) * self.period) >> 32;
        debug_assert!(wait <= self.period, "a sector passes once in each revolution");
        (ready + travel, wait)
    }
}

/// The angle that the disk sweeps in `nanos`.
#[expect(clippy::cast_possible_truncation, reason = "the low 32 bits are the angle")]
fn swept(nanos: u64, turn_rate: u64) -> Angle {
    Angle(((u128::from(nanos) * u128::from(turn_rate)) >> 32) as u32)
}

/// What predictions have come to: for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredictionStats {
    /// Whether predictions are trusted now.
    pub trusted: bool,
    /// Predictions with an outcome.
    pub outcomes: u64,
    /// Of these, the ones that lost a revolution or were off otherwise.
    pub failures: u64,
    /// How often trust was lost.
    pub lost: u64,
    /// The standard deviation of arrivals, as learnt.
    pub deviation: Duration,
}

/// The heads of one drive, as far as completions tell.
#[derive(Debug)]
pub(super) struct Predictor {
    profile: Arc<Profile>,
    phase: RotationTracker,
    reads: SeekTimes,
    writes: SeekTimes,
    period: u64,
    turn_rate: u64,
    /// The arm after the last completion, and after all commands in the drive; when those will have
    /// completed. The arm does not move before.
    now_at: Option<Arm>,
    then_at: Option<Arm>,
    free: Instant,
    in_drive: Vec<InDrive>,
    buffered: Option<Instant>,
    /// What the drive's read buffer holds: runs of which others are read in between.
    segments: ReadSegments,
    deviation: u64,
    trust: Trust,
    /// The last outcomes, one bit each, set for a failure; and their number.
    failed: u64,
    known: u32,
    stats: PredictionStats,
}

impl Predictor {
    pub(super) fn new(profile: Arc<Profile>) -> Self {
        profile.assert_valid();
        let period = profile.rotation_period;
        let rate = (1_u128 << 64) / u128::from(period.as_nanos());
        let first = profile.seek_variation.max(DEVIATION_FIRST).min(period / DEVIATION_PART);
        debug_assert!(first > Duration::ZERO, "predictions err");
        Self {
            phase: RotationTracker::new(period, profile.rotation_error_ppb),
            reads: SeekTimes::of(&profile, false),
            writes: SeekTimes::of(&profile, true),
            period: period.as_nanos(),
            turn_rate: u64::try_from(rate).expect("a revolution takes more than a nanosecond"),
            now_at: None,
            then_at: None,
            free: Instant::ZERO,
            in_drive: Vec::with_capacity(DEPTH_MAX as usize),
            buffered: None,
            segments: ReadSegments::new(&profile),
            deviation: first.as_nanos(),
            trust: Trust::Trusted,
            failed: 0,
            known: 0,
            stats: PredictionStats::default(),
            profile,
        }
    }

    pub(super) fn stats(&self) -> PredictionStats {
        let deviation = Duration::from_nanos(self.deviation);
        debug_assert!(self.stats.failures <= self.stats.outcomes, "a failure is an outcome");
        PredictionStats { trusted: self.trust == Trust::Trusted, deviation, ..self.stats }
    }

    /// Whether the drive is to hold no more commands than their order is known of.
    pub(super) fn is_in_order(&self) -> bool {
        debug_assert!(self.in_drive.len() <= DEPTH_MAX as usize, "the depth is bounded");
        !matches!(self.trust, Trust::Lost(_))
    }

    /// The commands in the drive.
    pub(super) fn running(&self) -> usize {
        debug_assert!(self.in_drive.len() <= DEPTH_MAX as usize, "the depth is bounded");
        self.in_drive.len()
    }

    /// Where an operation begins; the outer edge for one outside the profile or without a place.
    pub(super) fn target(&self, operation: &Operation) -> Target {
        let extent = operation.extent;
        if extent.is_empty() || extent.end().0 > self.profile.capacity().0 {
            return Target::default();
        }
        let address = self.profile.locate(extent.start);
        debug_assert!(address.cylinder < self.profile.cylinders, "a sector is on a cylinder");
        Target {
            cylinder: address.cylinder,
            angle: address.angle,
            surface: u16::try_from(address.surface).unwrap_or(u16::MAX),
        }
    }

    /// The prices at `now`; `None` if they are not trusted, or the heads' position is not known.
    pub(super) fn pricing(&self, now: Instant) -> Option<Pricing<'_>> {
        let arm = self.then_at.filter(|_| self.trust == Trust::Trusted)?;
        let from = now.max(self.free);
        let ready = |overhead: Duration| {
            let at = (now + overhead).max(self.free);
            Some((at.since(from).as_nanos(), self.phase.angle_at(at)?))
        };
        let overheads = &self.profile.overheads;
        debug_assert!(arm.cylinder < self.profile.cylinders, "the arm is on a cylinder");
        Some(Pricing {
            reads: &self.reads,
            writes: &self.writes,
            cylinder: arm.cylinder,
            surface: u16::try_from(arm.surface).unwrap_or(u16::MAX),
            read: ready(overheads.read)?,
            write: ready(overheads.write)?,
            deviation: self.deviation,
            period: self.period,
            turn_rate: self.turn_rate,
        })
    }

    /// A command goes to the drive.
    pub(super) fn issued(&mut self, id: CommandId, operation: &Operation, now: Instant) {
        let is_hit = self.is_hit(operation, now);
        let (operation, issued, served_by, prediction) = (*operation, now, None, None);
        let mut command = InDrive { id, operation, issued, is_hit, served_by, prediction };
        if self.in_drive.len() < ORDERED {
            self.predict(&mut command);
        } else {
            self.in_drive.iter_mut().for_each(|other| other.prediction = None);
            self.then_at = None;
        }
        self.in_drive.push(command);
        self.count();
        debug_assert!(self.in_drive.len() <= DEPTH_MAX as usize, "the depth is bounded");
    }

    /// A command has completed.
    pub(super) fn completed(&mut self, id: CommandId, now: Instant) {
        let place = self.in_drive.iter().position(|command| command.id == id);
        let mut command = self.in_drive.remove(place.expect("a completed command was issued"));
        if self.is_buffered(&command.operation) {
            self.buffered = Some(now);
        } else if command.operation.op == Op::Flush {
            self.buffered = None;
        }
        if let Some(prediction) = command.prediction {
            self.learn(&prediction, now);
        }
        self.correct_hit(&mut command, now);
        self.update_segments(&command, now);
        if !command.keeps_arm(self.now_at) {
            self.now_at = self.after(self.now_at, &command.operation);
        }
        (self.then_at, self.free) = (self.now_at, now);
        match self.in_drive.len() {
            0 => {}
            // It begins now.
            1 => {
                let mut next = self.in_drive[0];
                self.predict(&mut next);
                self.in_drive[0] = next;
            }
            _ => self.then_at = None,
        }
        debug_assert!(self.known <= OUTCOMES, "outcomes are bounded");
    }

    /// Whether predictions are trusted, or on trial.
    pub(super) fn predicts(&self) -> bool {
        debug_assert!(self.known <= OUTCOMES, "outcomes are bounded");
        !matches!(self.trust, Trust::Lost(_))
    }

    /// Counts a command for the trust in predictions.
    fn count(&mut self) {
        self.trust = match self.trust {
            Trust::Trusted => Trust::Trusted,
            Trust::Lost(commands) if commands >= TRIAL_AFTER => {
                (self.failed, self.known) = (0, 0);
                Trust::Trial(0)
            }
            Trust::Trial(commands) if commands >= TRIAL_MAX => Trust::Lost(0),
            Trust::Lost(commands) => Trust::Lost(commands + 1),
            Trust::Trial(commands) => Trust::Trial(commands + 1),
        };
        debug_assert!(self.known <= OUTCOMES, "outcomes are bounded");
    }

    fn is_buffered(&self, operation: &Operation) -> bool {
        operation.op == Op::Write && self.profile.write_cache && !operation.fua
    }

    /// Whether the drive may be destaging a write at `now`.
    fn is_dirty(&self, now: Instant) -> bool {
        debug_assert!(self.buffered.is_none() || self.profile.write_cache, "it buffers writes");
        self.buffered.is_some_and(|at| now.saturating_since(at) < DESTAGED_AFTER)
    }

    /// Predicts a command that begins when those before it have ended, and where the arm is then.
    fn predict(&mut self, command: &mut InDrive) {
        let (operation, from) = (command.operation, self.then_at);
        (command.served_by, command.prediction) = (None, None);
        let begins = self.free.max(command.issued);
        if command.keeps_arm(from) {
            command.served_by = self.served_by(&operation, begins);
            self.free = begins;
            return;
        }
        self.then_at = self.after(from, &operation);
        let Some(arm) = from.filter(|_| self.then_at.is_some()) else {
            self.free = begins;
            return;
        };
        if continues_run(&arm, &operation) && !operation.fua {
            self.free = begins;
            return;
        }
        let (profile, extent) = (&self.profile, operation.extent);
        let writes = operation.op == Op::Write;
        let (overhead, lag) = if writes {
            (profile.overheads.write, Duration::ZERO)
        } else {
            (profile.overheads.read, profile.completion)
        };
        let start = profile.locate(extent.start);
        let travel = profile.movement_time((arm.cylinder, arm.surface), &start, writes);
        let (media, bus) = (profile.transfer_time(extent), profile.bus_sector * extent.len.0);
        let lag = lag + bus.saturating_sub(media);
        let arrives = (command.issued + overhead).max(self.free) + travel;
        let is_dirty = self.is_dirty(command.issued);
        let passes = self.phase.next(start.angle, arrives).filter(|_| !is_dirty);
        let soonest = begins + travel / 2 + media / 2;
        self.free = passes.unwrap_or(arrives) + media + lag;
        command.prediction = Some(Prediction {
            end: profile.end_of(extent).angle,
            expected: passes.map(|at| at + media + lag),
            wait: passes.map_or(Duration::ZERO, |at| at.since(arrives)),
            soonest,
            lag,
        });
        debug_assert!(self.free >= soonest, "no command ends before it begins");
    }

    /// The arm behind a command; `None` where that is not known.
    fn after(&self, before: Option<Arm>, operation: &Operation) -> Option<Arm> {
        let extent = operation.extent;
        let is_known = !extent.is_empty() && extent.end().0 <= self.profile.capacity().0;
        let moves = matches!(operation.op, Op::Read | Op::Write) && !self.is_buffered(operation);
        if !is_known || !moves {
            return None;
        }
        let spot = self.profile.end_of(extent);
        debug_assert!(spot.cylinder < self.profile.cylinders, "a sector is on a cylinder");
        Some(Arm::after(before.as_ref(), operation, &spot))
    }

    fn learn(&mut self, prediction: &Prediction, now: Instant) {
        if now < prediction.soonest {
            // The completion came from the cache: it says nothing of the media.
            return;
        }
        let off = self.phase.observe(prediction.end, now.saturating_sub(prediction.lag));
        let Some(expected) = prediction.expected else { return };
        let half = Duration::from_nanos(self.period / 2);
        let is_late = now > expected + half;
        let is_early = now + half < expected;
        let is_off = off.unsigned_abs() > self.period / DEVIATION_PART;
        if !is_off {
            self.learn_deviation(prediction.wait, is_late || is_early);
        }
        self.record_outcome(is_late || is_early || is_off);
        debug_assert!(!(is_late && is_early), "an arrival is late or early");
    }

    /// Learns from whether a command `erred`, in whole revolutions.
    fn learn_deviation(&mut self, wait: Duration, erred: bool) {
        let chance = odds::error(wait.as_nanos(), self.deviation, self.period);
        debug_assert!(chance <= CERTAIN, "a probability is at most one");
        let most = self.period / DEVIATION_PART;
        let by = |part: u64| self.deviation * part / CERTAIN / DEVIATION_GAIN;
        let deviation =
            if erred { self.deviation + by(CERTAIN - chance) } else { self.deviation - by(chance) };
        self.deviation = deviation.clamp(DEVIATION_MIN.as_nanos().min(most), most);
    }

    fn record_outcome(&mut self, failed: bool) {
        self.failed = (self.failed << 1) | u64::from(failed);
        self.known = (self.known + 1).min(OUTCOMES);
        self.stats.outcomes += 1;
        self.stats.failures += u64::from(failed);
        let failures = self.failed.count_ones();
        assert!(failures <= self.known, "a failure is an outcome");
        match self.trust {
            Trust::Trusted if failures > FAILURES_MAX => {
                self.trust = Trust::Lost(0);
                self.stats.lost += 1;
            }
            Trust::Trial(_) if self.known == OUTCOMES && failures <= FAILURES_REGAIN => {
                self.trust = Trust::Trusted;
            }
            Trust::Trial(_) if failures > FAILURES_MAX => self.trust = Trust::Lost(0),
            _ => {}
        }
    }
}
