//! The next step of a request, and what completions have taught.

use std::sync::Arc;

use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use super::arm::{Arm, continues_run};
use super::assessment::SeeksAhead;
use super::execution::{Approach, FreePrefetch, Preemptible, PreemptionStats, Purpose};
use super::loss_budget::LossBudget;
use super::positioning::{GUARD_MIN, PositioningContext, PositioningStep};
use super::read_segments::{ReadSegments, hit_time_max};
use super::rotation::RotationTracker;
use crate::VolumeId;
use crate::limits::VOLUMES_MAX;
use drive_profile::{PhysicalAddress, Profile};

/// The greatest guard time: beyond it the predictions are wrong.
const GUARD_MAX: Duration = Duration::from_millis(1);
/// After each arrival in time the guard shrinks by this fraction, and it doubles after each lost
/// revolution. It settles where one arrival in this number × ln 2 is lost: on a host whose threads
/// wake late that is the cost of just-in-time seeks.
const GUARD_DECAY: u64 = 256;
/// One seek in this number reaches a sector that passes up to one standard deviation before its
/// predicted arrival: the mean of a normal distribution's upper tail over that range.
const CHANCE: u64 = 3;
/// The number of recent predictions that are evaluated.
const OUTCOMES: u32 = 64;
/// The failures among them after which just-in-time seeks are disabled: each costs a revolution,
/// and one in four cancels the benefit.
const FAILURES_MAX: u32 = 16;
/// The failures among them at which they are enabled again.
const FAILURES_REENABLE: u32 = 4;

const _: () = assert!(GUARD_MIN.as_nanos() < GUARD_MAX.as_nanos());
const _: () = assert!(FAILURES_REENABLE < FAILURES_MAX);
const _: () = assert!(FAILURES_MAX < OUTCOMES);
const _: () = assert!(OUTCOMES <= u64::BITS);

/// The next step of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Issue its next piece.
    Transfer,
    /// Nothing before this instant.
    Wait(Instant),
    /// Move the arm.
    Seek(Lba),
    /// Move the arm by a read of this.
    ShortRead(Extent),
}

/// The predicted completion of a transfer.
#[derive(Clone, Copy, Debug)]
struct Prediction {
    /// Where the head is when its last sector has passed.
    end: PhysicalAddress,
    /// When it should complete, if the rotation is known.
    expected: Option<Instant>,
    /// A completion before this instant did not come from the media.
    soonest: Instant,
    /// Whether its seek was just in time.
    is_just_in_time: bool,
    /// Whether the arm was in position already: then rotation alone was predicted.
    in_position: bool,
    /// The time from the last sector's passage to the completion.
    lag: Duration,
}

/// The execution state of one disk: the predicted position of its arm and the record of
/// predictions.
#[derive(Debug)]
pub(crate) struct Executor {
    settings: Preemptible,
    profile: Arc<Profile>,
    phase: RotationTracker,
    arm: Option<Arm>,
    /// What the drive's read buffer should hold.
    segments: ReadSegments,
    /// Whether the command in the drive is a read that it should serve.
    is_hit: bool,
    /// If it should serve that while the arm is elsewhere: when the command was issued, and the
    /// instant after which it came from the media.
    served_by: Option<(Instant, Instant)>,
    /// How the arm is moved ahead.
    seeks_ahead: SeeksAhead,
    /// Whether the drive may hold writes that it has not destaged yet: then its arm moves on its
    /// own.
    dirty: bool,
    /// The target of a wait or a movement in progress, and the parts that remain of a movement in
    /// several.
    target: Option<(Lba, Option<u32>)>,
    /// The volume whose read was the last on the media.
    reader: Option<VolumeId>,
    /// What each volume would have prefetched.
    offers: Vec<Option<Extent>>,
    prediction: Option<Prediction>,
    guard: Duration,
    losses: LossBudget,
    /// The outcomes of the last predictions, one bit each, set for a failure; and their number.
    failed: u64,
    outcomes: u32,
    jit_enabled: bool,
    done: PreemptionStats,
}

impl Executor {
    pub(crate) fn new(settings: Preemptible, profile: Arc<Profile>) -> Self {
        profile.assert_valid();
        let losses = LossBudget::new(profile.rotation_period);
        assert!(settings.chunk.is_none_or(|chunk| chunk > Sectors::ZERO), "a chunk has sectors");
        Self {
            settings,
            phase: RotationTracker::new(profile.rotation_period, profile.rotation_error_ppb),
            segments: ReadSegments::new(&profile),
            is_hit: false,
            served_by: None,
            seeks_ahead: SeeksAhead::new(&settings, &profile),
            profile,
            arm: None,
            dirty: false,
            target: None,
            reader: None,
            offers: Vec::new(),
            prediction: None,
            guard: GUARD_MIN,
            losses,
            failed: 0,
            outcomes: 0,
            jit_enabled: true,
            done: PreemptionStats::default(),
        }
    }

    /// The statistics so far.
    pub(crate) fn done(&self) -> PreemptionStats {
        PreemptionStats {
            jit_enabled: self.jit_enabled && self.settings.jit.is_some(),
            ..self.done
        }
    }

    pub(crate) fn done_mut(&mut self) -> &mut PreemptionStats {
        &mut self.done
    }

    /// How the arm is moved ahead of transfers.
    pub(crate) const fn seeks_ahead(&self) -> SeeksAhead {
        self.seeks_ahead
    }

    pub(crate) fn period(&self) -> Duration {
        self.profile.rotation_period
    }

    /// The sectors that one command of this kind transfers from `at` on.
    pub(crate) fn chunk(&self, op: Op, at: Lba) -> Sectors {
        if let Some(chunk) = self.settings.chunk {
            return chunk;
        }
        if at.0 >= self.profile.capacity().0 {
            return Sectors(64);
        }
        let band = self.profile.band(at);
        let chunk = if op == Op::Write { band.chunk_write } else { band.chunk_read };
        debug_assert!(chunk > Sectors::ZERO, "a chunk has sectors");
        chunk
    }

    /// The sectors of the next command of a request with the remainder `rest`: a chunk. If the
    /// profile gives the chunk, the remainder is split into equal parts of at least that length: a
    /// shorter last one would pay its command overhead outside the media time of a longer one.
    pub(crate) fn piece(&self, op: Op, rest: Extent) -> Sectors {
        let chunk = self.chunk(op, rest.start);
        if self.settings.chunk.is_some() {
            return chunk;
        }
        assert!(chunk > Sectors::ZERO, "a chunk has sectors");
        let parts = (rest.len.0 / chunk.0).max(1);
        let piece = Sectors(rest.len.0.div_ceil(parts));
        debug_assert!(piece <= rest.len, "a piece is a part of the remainder");
        debug_assert!(piece >= chunk.min(rest.len), "no piece is shorter than a chunk");
        piece
    }

    /// The next step of a request whose next command is `head`; the drive is idle.
    pub(crate) fn step(&mut self, head: &Operation, now: Instant) -> Step {
        let positioning = self.positioning(head, now);
        let Some(positioning) = positioning else { return Step::Transfer };
        let start = head.extent.start;
        let parts = self.target.filter(|(target, _)| *target == start).and_then(|(_, parts)| parts);
        match positioning {
            PositioningStep::Go => Step::Transfer,
            PositioningStep::Wait(until) => {
                debug_assert!(until > now, "a wait ends in the future");
                self.give_up_chance(start, until.since(now));
                self.target = Some((start, parts));
                Step::Wait(until)
            }
            PositioningStep::Read(extent) => {
                // A block that the drive's buffer has moves nothing.
                if self.on_media(&Operation::read(extent), now).is_none() {
                    return Step::Transfer;
                }
                self.target = Some((start, None));
                Step::ShortRead(extent)
            }
            PositioningStep::Seek { to, left } => {
                self.done.split_seeks += u64::from(left > 0 && parts.is_none());
                self.target = Some((start, parts.or((left > 0).then_some(left)).map(|_| left)));
                Step::Seek(to)
            }
        }
    }

    /// A wait of `wait` begins before the transfer from `start`. Where that is nearly a revolution,
    /// a seek slightly faster than predicted would have reached the sector at once.
    fn give_up_chance(&mut self, start: Lba, wait: Duration) {
        let jit = self.settings.jit.filter(|jit| jit.approach == Approach::InTime);
        let begins = self.target.is_none_or(|(target, _)| target != start);
        let Some(jit) = jit.filter(|_| begins) else { return };
        let faster = jit.offset + self.profile.seek_variation;
        if wait + faster > self.profile.rotation_period {
            self.losses.lost(self.profile.rotation_period / CHANCE);
        }
        debug_assert!(wait <= self.profile.rotation_period * 2, "a wait is bounded");
    }

    fn positioning(&self, head: &Operation, now: Instant) -> Option<PositioningStep> {
        let jit = self.settings.jit.filter(|_| self.jit_enabled)?;
        let arm = self.arm.as_ref()?;
        let moves = matches!(head.op, Op::Read | Op::Write);
        let known = head.extent.end().0 <= self.profile.capacity().0;
        // Beyond a drift of a quarter of a revolution the angle is unknown.
        let is_angle_unknown = self.phase.drift(now) > self.profile.rotation_period / 4;
        if !moves || !known || is_angle_unknown || continues_run(arm, head) {
            return None;
        }
        let start = head.extent.start;
        let head = &self.on_media(head, now)?;
        // The positioning is to where the media are needed.
        let target = self.target.filter(|(target, _)| *target == start);
        let context = PositioningContext {
            profile: &self.profile,
            phase: &self.phase,
            settings: &self.settings,
            jit,
            arm,
            short_reads: self.seeks_ahead.is_by_short_reads(),
            guard: self.guard,
            is_careful: self.losses.is_spent(),
            buffered: self.profile.bus_sector * start.distance(head.extent.start).0,
            target: target.map(|_| head.extent.start),
            parts_left: target.and_then(|(_, parts)| parts),
            now,
        };
        context.next(head)
    }

    /// The part of `head` that needs the media; `None` if the drive's read buffer serves all of it.
    fn on_media(&self, head: &Operation, now: Instant) -> Option<Operation> {
        if head.op != Op::Read {
            return Some(*head);
        }
        debug_assert!(!head.extent.is_empty(), "a read has sectors");
        let missing = self.segments.missing(&self.profile, head.extent, now)?;
        let (_, rest) = head.extent.split_at(head.extent.start.distance(missing));
        Some(Operation { extent: rest, ..*head })
    }

    /// `volume` would have this prefetched, as soon as the heads are there; `None`: nothing.
    pub(crate) fn offer(&mut self, volume: VolumeId, extent: Option<Extent>) {
        debug_assert!(extent.is_none_or(|extent| !extent.is_empty()), "an offer has sectors");
        let index = volume.0 as usize;
        if index >= self.offers.len() && extent.is_some() {
            self.offers.resize(index + 1, None);
        }
        if let Some(offer) = self.offers.get_mut(index) {
            *offer = extent;
        }
    }

    /// A part of what was offered to `volume`, the first one, is being prefetched.
    pub(crate) fn take_offer(&mut self, volume: VolumeId, extent: Extent) {
        let offer = self.offers.get_mut(volume.0 as usize);
        let offer = offer.expect("what is prefetched was offered");
        *offer = offer.and_then(|offer| {
            debug_assert_eq!(offer.start, extent.start, "the first part of the offer");
            let (_, rest) = offer.split_at(extent.len);
            (!rest.is_empty()).then_some(rest)
        });
    }

    /// Where the heads are behind the last read, and its volume, if they have not moved since and
    /// waits are used to read on.
    pub(crate) fn reads_on(&self) -> Option<(Lba, VolumeId)> {
        let arm = self.arm.as_ref().filter(|arm| !arm.read.is_empty() && arm.arrived.is_none())?;
        let from = arm.read.end();
        debug_assert!(from.0 > 0, "a run that was read has sectors");
        debug_assert!(from.0 <= self.profile.capacity().0, "the run lies inside the profile");
        let is_on = self.settings.free_prefetch != FreePrefetch::Off;
        self.reader.filter(|_| is_on).map(|reader| (from, reader))
    }

    /// What can be prefetched from `from` on, and the volume that it was offered to, if it was.
    pub(crate) fn prefetch(
        &self,
        (from, reader): (Lba, VolumeId),
    ) -> Option<(Extent, Option<VolumeId>)> {
        let disk = Lba(self.profile.capacity().0);
        let (volume, end) = match self.settings.free_prefetch {
            FreePrefetch::Off => return None,
            FreePrefetch::ToDrive => (None, disk),
            FreePrefetch::ToHost => {
                let offer = self.offers.get(reader.0 as usize).copied().flatten();
                (Some(reader), offer.filter(|offer| offer.start == from)?.end().min(disk))
            }
        };
        let len = self.chunk(Op::Read, from).0.min(end.0.saturating_sub(from.0));
        (len > 0).then_some((Extent::new(from, Sectors(len)), volume))
    }

    /// Whether a read of `extent`, which begins where the heads are, ends before `until`.
    pub(crate) fn fits(&self, extent: Extent, now: Instant, until: Instant) -> bool {
        debug_assert!(until > now, "a wait ends in the future");
        if extent.end().0 > self.profile.capacity().0 || extent.start.0 == 0 {
            return false;
        }
        // The drive reads ahead meanwhile: a chunk takes the time of the media or of the bus. The
        // step over the end of the last chunk is part of it.
        let from_last = Extent::new(Lba(extent.start.0 - 1), Sectors(extent.len.0 + 1));
        let media = self.profile.transfer_time(from_last);
        let bus = self.profile.overheads.hit + self.profile.bus_sector * extent.len.0;
        now + media.max(bus) + self.guard <= until
    }

    /// Whether what is read in waits goes to clients and to the host's memory.
    pub(crate) fn reads_for_the_host(&self) -> bool {
        debug_assert!(self.offers.len() <= VOLUMES_MAX, "volumes are bounded");
        self.settings.free_prefetch == FreePrefetch::ToHost
    }

    /// Whether the drive reads ahead behind the last read until `until`: then its buffer has, when
    /// the wait ends, all that passed the heads, and a command for it would gain nothing.
    pub(crate) fn drive_reads_on(&self, until: Instant) -> bool {
        self.segments.is_growing(&self.profile, until)
    }

    /// A command goes to the drive.
    pub(crate) fn issued(&mut self, operation: &Operation, purpose: Purpose, now: Instant) {
        self.prediction = None;
        let is_known = operation.extent.end().0 <= self.profile.capacity().0;
        self.is_hit = operation.op == Op::Read
            && is_known
            && !operation.fua
            && (self.arm.as_ref().is_some_and(|arm| continues_run(arm, operation))
                || self.on_media(operation, now).is_none());
        if !self.is_hit && operation.op != Op::Flush && operation.op != Op::Trim {
            self.segments.stop_for(&self.profile, operation, now);
        }
        let elsewhere = self.arm.filter(|arm| self.is_hit && !continues_run(arm, operation));
        self.served_by =
            elsewhere.map(|arm| (now, now + hit_time_max(&self.profile, &arm, operation.extent)));
        match purpose {
            Purpose::Seek => {
                self.done.seek_commands += 1;
                if operation.op == Op::Read {
                    self.prediction = self.predict(operation, now);
                }
            }
            Purpose::Prefetch => self.done.prefetched += operation.extent.len,
            Purpose::Transfer => {
                self.prediction = self.predict(operation, now);
                self.target = None;
            }
        }
    }

    /// Predicts the completion of a transfer.
    fn predict(&mut self, operation: &Operation, now: Instant) -> Option<Prediction> {
        let extent = operation.extent;
        let known = !extent.is_empty() && extent.end().0 <= self.profile.capacity().0;
        let (profile, arm) = (&self.profile, self.arm.as_ref().filter(|_| known)?);
        // A write into the write buffer does not show the angle; in a sequential run the cache
        // answers.
        let writes = operation.op == Op::Write;
        let is_hit = self.is_hit || continues_run(arm, operation) && !operation.fua;
        if is_hit || operation.op != Op::Read && !writes {
            return None;
        }
        if writes && profile.write_cache && !operation.fua {
            return None;
        }
        // What the buffer has of it passes no head.
        let missing = self.on_media(operation, now).map_or(extent, |missing| missing.extent);
        let start = profile.locate(missing.start);
        let (overhead, lag) = if writes {
            (profile.overheads.write, Duration::ZERO)
        } else {
            (profile.overheads.read, profile.completion)
        };
        let travel = profile.movement_time((arm.cylinder, arm.surface), &start, writes);
        let (media, bus) = (profile.transfer_time(missing), profile.bus_sector * extent.len.0);
        let lag = lag + bus.saturating_sub(media);
        let is_just_in_time = self.target.is_some_and(|(target, _)| target == extent.start);
        let passes = self.phase.next(start.angle, now + overhead + travel);
        let is_predictable = !self.dirty && !continues_run(arm, operation);
        let expected = passes.filter(|_| is_predictable).map(|at| at + media + lag);
        let soonest = now + overhead / 2 + travel / 2 + media / 2;
        debug_assert!(soonest >= now, "no command completes before it is issued");
        debug_assert!(expected.is_none_or(|at| at >= soonest), "the expected one is later");
        self.done.jit_transfers += u64::from(is_just_in_time);
        let in_position = travel == Duration::ZERO;
        Some(Prediction {
            end: profile.end_of(extent),
            expected,
            soonest,
            is_just_in_time,
            in_position,
            lag,
        })
    }

    /// A command of `volume` has completed.
    pub(crate) fn completed(
        &mut self,
        operation: &Operation,
        (purpose, volume): (Purpose, VolumeId),
        now: Instant,
    ) {
        self.losses.passed(now);
        let extent = operation.extent;
        if let Some(prediction) = self.prediction.take() {
            self.is_hit |= operation.op == Op::Read && now < prediction.soonest;
            self.learn(&prediction, now);
        }
        if let Some((issued, _)) = self.served_by.take().filter(|(_, by)| now > *by) {
            // The buffer had less than predicted, and the arm has moved.
            self.is_hit = false;
            self.segments.stop_for(&self.profile, operation, issued);
        }
        if operation.op == Op::Flush || operation.op == Op::Write {
            let is_buffered =
                self.profile.write_cache && !operation.fua && operation.op == Op::Write;
            self.dirty = is_buffered;
        }
        let known = extent.end().0 <= self.profile.capacity().0;
        if extent.is_empty() || !known {
            return;
        }
        if operation.op.writes() {
            self.segments.written(extent);
        } else if operation.op == Op::Read {
            self.segments.read(&self.profile, extent, self.is_hit, now);
            if self.is_hit && !self.continues(operation) {
                // The arm is where it was.
                return;
            }
        }
        self.reader = (operation.op == Op::Read).then_some(volume);
        let nothing = Extent::new(extent.end(), Sectors::ZERO);
        let on = match (&self.arm, operation.op) {
            (Some(arm), Op::Read) if continues_run(arm, operation) => arm.read,
            _ => Extent::new(extent.start, Sectors::ZERO),
        };
        let (spot, arm) = match operation.op {
            Op::Seek => (self.profile.locate(extent.start), (Some(extent.start), nothing, None)),
            Op::Read if purpose == Purpose::Seek => {
                (self.profile.end_of(extent), (self.target.map(|(to, _)| to), nothing, None))
            }
            Op::Read => {
                let end = extent.end().max(on.end());
                let read = Extent::new(on.start, on.start.distance(end));
                (self.profile.end_of(extent), (None, read, None))
            }
            Op::Write => (self.profile.end_of(extent), (None, nothing, Some(extent.end()))),
            Op::Flush | Op::Trim | Op::WriteZeroes => {
                // The position of the arm after these is not known.
                self.arm = None;
                return;
            }
        };
        let moves = matches!(operation.op, Op::Seek | Op::Read);
        debug_assert!(purpose != Purpose::Seek || moves, "a seek moves the arm");
        let (arrived, read, written) = arm;
        let (cylinder, surface) = (spot.cylinder, spot.surface);
        debug_assert!(cylinder < self.profile.cylinders, "the arm is on a cylinder of the profile");
        self.arm = Some(Arm { cylinder, surface, arrived, read, written });
    }

    /// Whether a read continues the last run.
    fn continues(&self, operation: &Operation) -> bool {
        debug_assert_eq!(operation.op, Op::Read, "a read");
        self.arm.as_ref().is_some_and(|arm| continues_run(arm, operation))
    }

    fn learn(&mut self, prediction: &Prediction, now: Instant) {
        if now < prediction.soonest {
            // The completion came from the cache: it says nothing of the media. A seek that was
            // timed for it, or would have been, waited in vain.
            if prediction.expected.is_some() {
                self.record_outcome(true);
            }
            return;
        }
        let passed = now.saturating_sub(prediction.lag);
        self.phase.observe(prediction.end.angle, passed);
        let Some(expected) = prediction.expected else { return };
        let half = self.profile.rotation_period / 2;
        let missed = now > expected + half;
        if missed && prediction.is_just_in_time {
            self.done.missed += 1;
            self.losses.lost(self.profile.rotation_period);
            // A longer seek is no reason for a larger guard without a seek.
            if prediction.in_position {
                self.guard = (self.guard * 2).min(GUARD_MAX);
            }
        } else {
            self.guard = (self.guard - self.guard / GUARD_DECAY).max(GUARD_MIN);
        }
        self.record_outcome(missed || now + half < expected);
        self.invariants();
    }

    /// Records the outcome of a prediction, and disables or enables just-in-time seeks by it.
    fn record_outcome(&mut self, failed: bool) {
        assert!(self.outcomes <= OUTCOMES, "outcomes are bounded");
        self.failed = (self.failed << 1) | u64::from(failed);
        self.outcomes = (self.outcomes + 1).min(OUTCOMES);
        let failures = self.failed.count_ones();
        debug_assert!(failures <= self.outcomes, "a failure is an outcome");
        if self.jit_enabled && failures > FAILURES_MAX {
            self.jit_enabled = false;
            self.done.jit_disabled_count += 1;
        } else if !self.jit_enabled && self.outcomes == OUTCOMES && failures <= FAILURES_REENABLE {
            self.jit_enabled = true;
        }
    }

    /// Abandons the positioning in progress: another request goes first.
    pub(crate) fn abandon(&mut self) {
        self.target = None;
        self.invariants();
    }

    /// Checks the executor at the end of each mutation, in debug and simulation builds.
    fn invariants(&self) {
        debug_assert!((GUARD_MIN..=GUARD_MAX).contains(&self.guard), "the guard is bounded");
        debug_assert!(self.outcomes <= OUTCOMES, "outcomes are bounded");
        debug_assert!(self.done.missed <= self.done.jit_transfers, "a miss was just in time");
    }
}
