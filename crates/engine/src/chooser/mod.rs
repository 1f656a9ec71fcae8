//! The choice among a volume's requests: a policy says which volume is served, the chooser which of
//! its requests.
//!
//! | class | requests |
//! |---|---|
//! | overdue | those that have waited for longer than the bound, the oldest first |
//! | without a place | flushes and trims, in the order of their arrival |
//! | run | those that continue where the volume's last command ended |
//! | priced | by the chooser's order: the sweep's distance, or the positioning time |
//! | deferred | deferred requests until they are due: runs, then by price |
//!
//! **The sweep** goes on from where the volume's last command ended. A drive that holds several
//! commands serves them in its own order, and its heads are where one completed last: while few
//! requests wait ([`NEAREST_MAX`]), the nearest to there goes. Of many, the drive holds a part of
//! the sweep, which is near anyway.
//!
//! **A run begins with its first request.** Of neighbours that arrived one after the other the
//! first is a candidate alone: one of the others may be reached sooner, but its run would then go
//! on from there, and those before it would wait until they are overdue.
//!
//! A request never overtakes one that it shares sectors with, if either changes data: the first of
//! those that have to go before the chosen one goes instead. Requests that have begun go on.
//!
//! **Ageing.** A request's age is the disk time that its volume was charged since it arrived: a
//! volume with a fifth of the disk ages at a fifth of the speed. A positioning time counts less the
//! age divided by half the square of the queue's length. The bound is [`WAIT_MIN`], or
//! [`WAIT_FACTOR`] times as long as the volume's queue takes at its mean service time, whichever is
//! longer: a bound that the backlog exceeds would make the order one of arrival. A deferred request
//! is due after [`DEFERRED_MAX`].
//!
//! **The end of a quantum.** Requests whose positioning takes longer than what is left of their
//! volume's quantum go after those that fit, whatever their age, if there are many. One that has to
//! cross the disk would otherwise hold up the next volume by up to twenty milliseconds.
//!
//! At most [`CANDIDATES_MAX`](crate::limits::CANDIDATES_MAX) requests are considered, those at the
//! front of the queue; in a joint quantum that number is divided among the volumes. A decision
//! allocates nothing.

use std::sync::Arc;

use drive_profile::Profile;
use units::{DiskTime, Extent, Instant, Lba, Op, Operation};

use self::predictor::{Predictor, Target};
use crate::VolumeId;
use crate::accounting::estimate::is_sequential;
use crate::limits::CANDIDATES_MAX;
use crate::request::{CommandId, Request, Slot};

mod name;
mod odds;
mod predictor;
mod seek_times;

pub use name::{ChooserName, UnknownChooser};
pub use predictor::PredictionStats;
pub(crate) use predictor::{Pricing, RotationalWait};

/// Of its age a request's price is less by one part in the square of the queue's length divided by
/// this. So a request that has waited for as long as the order of arrival makes it wait counts
/// less by two mean service times ÷ the queue's length: few are hardly passed over, and many are
/// ordered by price.
const AGE_SQUARES: i64 = 2;
/// The fewest parts: the order of two is still one of price.
const AGE_DIVISOR_MIN: i64 = 4;
/// The most parts: of very long queues none starves either. For a queue of more than half as many
/// it is [`AGE_FACTOR`] times the queue's length.
const AGE_DIVISOR_MAX: i64 = 200;
/// With this many times the queue's length, a request that has waited for as long as the order of
/// arrival makes it wait counts less by half a mean service time.
const AGE_FACTOR: i64 = 2;
/// The least bound of a request's age.
const WAIT_MIN: DiskTime = DiskTime::from_millis(1_000);
/// The bound in times that the volume's queue takes.
const WAIT_FACTOR: i64 = 4;
/// The age at which a deferred request competes with the others.
const DEFERRED_MAX: DiskTime = DiskTime::from_millis(1_000);
/// The EWMA divisor of a volume's service times.
const MEAN_DIVISOR: i64 = 16;
/// The outstanding requests of a volume from which one of its commands is chosen ahead: with fewer
/// a further candidate is worth more than the drive's idle time between two commands.
const AHEAD_FROM: u32 = 8;
/// The commands in the drive then.
const AHEAD_DEPTH: usize = 2;
/// The queued requests of a volume from which its quantum ends with those that fit: one of few
/// would be passed over for a whole round.
const FITTED_FROM: u32 = 8;
/// While at most this many requests wait beside a full drive the sweep takes the nearest to the
/// heads. Of 64 random reads outstanding hgst-7k8 with 32 in the drive then does 244 a second
/// instead of 225, at a 99th percentile of 1.1 s instead of 0.87; of 96 it would do 1 % more.
const NEAREST_MAX: usize = 32;
/// What the price of a request is more that would be served too late: more than any price.
const LATE: i64 = 1 << 60;

/// What a decision needs of a request beside its operation.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    /// What its volume had been charged when it arrived.
    arrived: DiskTime,
    target: Target,
    deferred: bool,
}

/// The queue of one volume.
#[derive(Clone, Copy, Debug, Default)]
struct Backlog {
    queued: u32,
    /// Its mean service time.
    mean: DiskTime,
    /// Where its last command ended.
    last_end: Option<Lba>,
}

impl Backlog {
    /// The age beyond which a request is overdue.
    fn wait_max(&self) -> DiskTime {
        debug_assert!(self.mean >= DiskTime::ZERO, "a service time is not negative");
        let drain = self.mean.as_nanos().saturating_mul(i64::from(self.queued));
        DiskTime::from_nanos(drain.saturating_mul(WAIT_FACTOR)).max(WAIT_MIN)
    }

    /// The parts of a request's age of which one is taken off its price.
    fn age_divisor(&self) -> i64 {
        debug_assert!(self.queued > 0, "there is a request to choose");
        let queued = i64::from(self.queued);
        let most = AGE_DIVISOR_MAX.max(queued * AGE_FACTOR);
        (queued * queued / AGE_SQUARES).clamp(AGE_DIVISOR_MIN, most)
    }
}

/// The chooser of one disk.
#[derive(Debug)]
pub(crate) struct Chooser {
    notes: Vec<Note>,
    backlogs: Vec<Backlog>,
    predictor: Option<Predictor>,
    wants_profile: bool,
    /// The volume of the last command.
    last: Option<VolumeId>,
    /// Where the command that completed last ended.
    heads: Option<Lba>,
}

/// A request in its volume's queue, and the one before it; the first has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) before: Option<Slot>,
    pub(crate) slot: Slot,
}

/// The request of a volume that goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    /// The less, the sooner it goes beside those of other volumes.
    pub(crate) rank: Rank,
    pub(crate) candidate: Candidate,
    /// Whether requests in the queue change data.
    pub(crate) changes: bool,
}

/// The order of candidates.
pub(crate) type Rank = (Class, i64);

/// The classes of candidates, the most pressing first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Overdue,
    Placeless,
    Run,
    Priced,
    DeferredRun,
    Deferred,
}

/// One decision.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    notes: &'a [Note],
    backlog: Backlog,
    pricing: Option<Pricing<'a>>,
    charged: DiskTime,
    wait_max: DiskTime,
    age_divisor: i64,
    /// Whether the volume's last command is the last one of the disk: its run goes on at once.
    runs: bool,
    best: Option<(Rank, Candidate)>,
    /// Where the request that was considered last ends, if it may be chosen, and what it is.
    before: (Lba, Class, Op),
    /// Whether a candidate changes data.
    changes: bool,
    left: usize,
    /// The time within which the request's sectors are to be under the head, if it is bounded.
    within: Option<DiskTime>,
    /// Where the heads are, if the sweep takes the nearest.
    near: Option<Lba>,
}

impl Scan<'_> {
    /// Prefers requests whose sectors are under the head within a time, if it is bounded, there are
    /// many and positioning times are predicted.
    pub(crate) fn within(self, time: impl FnOnce() -> Option<DiskTime>) -> Self {
        let has_many = self.backlog.queued >= FITTED_FROM;
        let within = self.pricing.as_ref().filter(|_| has_many).and_then(|_| time());
        debug_assert!(within.is_none_or(|time| time >= DiskTime::ZERO), "time is left, or none");
        Self { within, ..self }
    }

    /// Prefers requests near the heads, wherever the sweep is, if the drive `fills` with commands,
    /// has `running` of the `depth` that it holds, and few wait beside as many as that.
    pub(crate) fn beside(
        self,
        (running, depth): (usize, u32),
        fills: impl FnOnce() -> bool,
    ) -> Self {
        debug_assert!(depth > 0, "a drive takes a command");
        debug_assert!(self.near.is_none() || self.pricing.is_none(), "prices know where they are");
        let waiting = (self.backlog.queued as usize + running).saturating_sub(depth as usize);
        let near = self.near.filter(|_| waiting <= NEAREST_MAX && fills());
        Self { near, ..self }
    }

    /// Considers a request, which may be chosen if it `fits`. `false`: no further one is
    /// considered.
    pub(crate) fn consider(
        &mut self,
        candidate: Candidate,
        operation: &Operation,
        fits: bool,
    ) -> bool {
        debug_assert!(self.left > 0, "candidates are bounded");
        self.left -= 1;
        self.changes |= operation.op.writes();
        let before = core::mem::replace(&mut self.before, NONE_BEFORE);
        if !fits {
            return self.left > 0;
        }
        let note = &self.notes[candidate.slot as usize];
        let key = self.key(note, operation);
        self.before = (operation.extent.end(), key.0, operation.op);
        if self.best.is_none_or(|(best, _)| key < best) && !follows(before, key.0, operation) {
            self.best = Some((key, candidate));
        }
        self.left > 0
    }

    fn key(&self, note: &Note, operation: &Operation) -> Rank {
        let age = self.charged - note.arrived;
        debug_assert!(age >= DiskTime::ZERO, "a request arrived in the past");
        if age > self.wait_max {
            return (Class::Overdue, -age.as_nanos());
        }
        if matches!(operation.op, Op::Flush | Op::Trim) {
            return (Class::Placeless, 0);
        }
        let deferred = note.deferred && age <= DEFERRED_MAX;
        if self.runs && self.continues_run(operation) {
            let class = if deferred { Class::DeferredRun } else { Class::Run };
            return (class, distance_on(self.backlog.last_end, operation.extent.start));
        }
        let class = if deferred { Class::Deferred } else { Class::Priced };
        let Some(pricing) = &self.pricing else {
            return (class, self.distance(operation.extent.start));
        };
        let cost = pricing.cost(note.target, operation.op.writes());
        if self.within.is_some_and(|within| cost > within.as_nanos()) {
            return (class, LATE + cost);
        }
        (class, cost - age.as_nanos() / self.age_divisor)
    }

    /// The distance by which the sweep orders requests.
    fn distance(&self, start: Lba) -> i64 {
        debug_assert!(self.pricing.is_none(), "requests are ordered by distance");
        let Some(heads) = self.near else { return distance_on(self.backlog.last_end, start) };
        start.distance(heads).0.cast_signed()
    }

    /// Whether a request continues where its volume's last command ended. A forced write does not:
    /// the disk has turned on.
    fn continues_run(&self, operation: &Operation) -> bool {
        let last_end = self.backlog.last_end;
        let is_apart = operation.op == Op::Write && operation.fua;
        debug_assert!(!operation.extent.is_empty(), "a request without a place is no run's");
        is_sequential(operation, last_end) && Some(operation.extent.start) >= last_end && !is_apart
    }

    /// The request that goes, and whether requests in the queue change data.
    pub(crate) fn best(&self) -> Choice {
        debug_assert!(self.left < CANDIDATES_MAX, "a candidate was considered");
        let (rank, candidate) = self.best.expect("a queue has a head");
        Choice { rank, candidate, changes: self.changes }
    }
}

/// The distance from `last` up to `start`, circularly: what lies below counts as beyond all else.
fn distance_on(last: Option<Lba>, start: Lba) -> i64 {
    const BELOW: u64 = 1 << 62;
    let last = last.unwrap_or_default();
    debug_assert!(start.0 < BELOW, "disks are smaller");
    let distance = if start >= last { start.0 - last.0 } else { BELOW + start.0 };
    distance.cast_signed()
}

/// No request: none begins there.
const NONE_BEFORE: (Lba, Class, Op) = (Lba(u64::MAX), Class::Priced, Op::Read);

/// Whether a priced request goes on where the one `before` it in the queue, of the same class,
/// ends. No run goes on with a forced write.
fn follows(before: (Lba, Class, Op), class: Class, operation: &Operation) -> bool {
    let is_priced = matches!(class, Class::Priced | Class::Deferred) && !operation.fua;
    debug_assert!(!is_priced || !operation.extent.is_empty(), "what is priced has a place");
    is_priced && before == (operation.extent.start, class, operation.op)
}

/// Whether the order of the two can be told from the data.
pub(crate) fn conflicts(one: &Operation, other: &Operation) -> bool {
    let (a, b) = (one.extent, other.extent);
    let shares = a.start < b.end() && b.start < a.end();
    debug_assert!(!shares || !a.is_empty(), "an operation without sectors shares none");
    shares && (one.op.writes() || other.op.writes())
}

impl Chooser {
    /// The chooser of this name; `None` for the order of arrival, which needs none.
    pub(crate) fn new(name: ChooserName) -> Option<Box<Self>> {
        let wants_profile = name == ChooserName::Predicted;
        let (notes, backlogs) = (Vec::new(), Vec::new());
        let (predictor, last, heads) = (None, None, None);
        let chooser = Self { notes, backlogs, predictor, wants_profile, last, heads };
        debug_assert!(chooser.predictor.is_none(), "nothing is known of the drive yet");
        (name != ChooserName::Arrival).then(|| Box::new(chooser))
    }

    pub(crate) fn set_profile(&mut self, profile: &Arc<Profile>) {
        debug_assert!(self.last.is_none(), "a profile is set before the first command");
        self.predictor = self.wants_profile.then(|| Predictor::new(Arc::clone(profile)));
    }

    /// Whether positioning times are predicted, and how far that is trusted; `None` for a sweep.
    pub(crate) fn stats(&self) -> Option<PredictionStats> {
        let stats = self.predictor.as_ref().map(Predictor::stats);
        debug_assert!(stats.is_none() || self.wants_profile, "a sweep predicts nothing");
        stats
    }

    /// Whether positioning times are predicted and trusted, or on trial.
    pub(crate) fn predicts(&self) -> bool {
        let predicts = self.predictor.as_ref().is_some_and(Predictor::predicts);
        debug_assert!(!predicts || self.wants_profile, "a sweep predicts nothing");
        predicts
    }

    /// The number of `volume` is given to another, or to a first one.
    pub(crate) fn reset_volume(&mut self, volume: VolumeId) {
        let index = volume.0 as usize;
        debug_assert!(index <= self.backlogs.len(), "volumes are numbered in order");
        self.backlogs.resize(self.backlogs.len().max(index + 1), Backlog::default());
        debug_assert_eq!(self.backlogs[index].queued, 0, "a removed volume has no request");
        self.backlogs[index] = Backlog::default();
    }

    /// `request` arrives in the queue of its volume, which was charged `charged` so far.
    pub(crate) fn queued(&mut self, slot: Slot, request: &Request, charged: DiskTime) {
        let index = slot as usize;
        debug_assert!(index <= self.notes.len(), "slots are numbered in order");
        self.notes.resize(self.notes.len().max(index + 1), Note::default());
        let target = self.predictor.as_ref().map(|predictor| predictor.target(&request.operation));
        let target = target.unwrap_or_default();
        self.notes[index] = Note { arrived: charged, target, deferred: false };
        self.backlogs[request.volume.0 as usize].queued += 1;
    }

    /// The request in `slot`, which arrived just now, is deferred.
    pub(crate) fn defer(&mut self, slot: Slot) {
        debug_assert!((slot as usize) < self.notes.len(), "a queued request has a note");
        self.notes[slot as usize].deferred = true;
    }

    /// Commands were issued for all of a request of `volume`.
    pub(crate) fn left(&mut self, volume: VolumeId) {
        let backlog = &mut self.backlogs[volume.0 as usize];
        assert!(backlog.queued > 0, "a request that leaves was queued");
        backlog.queued -= 1;
    }

    /// What computes the positioning times by which requests are ordered now, so that those of
    /// several volumes can be compared; `None` if they are ordered otherwise.
    pub(crate) fn pricing(&self, now: Instant) -> Option<Pricing<'_>> {
        let pricing = self.predictor.as_ref().and_then(|predictor| predictor.pricing(now));
        debug_assert!(pricing.is_none() || self.wants_profile, "a sweep predicts nothing");
        pricing
    }

    /// The same among the requests of one of `volumes`, of which one is served.
    pub(crate) fn scan_of<'a>(
        &'a self,
        (volume, volumes): (VolumeId, usize),
        charged: DiskTime,
        pricing: Pricing<'a>,
    ) -> Scan<'a> {
        debug_assert!(volumes > 0, "one is served");
        let runs = self.last == Some(volume);
        Scan { left: CANDIDATES_MAX / volumes, runs, ..self.scan(volume, charged, Some(pricing)) }
    }

    /// A decision among the requests of `volume`, which was charged `charged` so far.
    pub(crate) fn scan<'a>(
        &'a self,
        volume: VolumeId,
        charged: DiskTime,
        pricing: Option<Pricing<'a>>,
    ) -> Scan<'a> {
        let backlog = self.backlogs[volume.0 as usize];
        debug_assert!(backlog.queued > 0, "there is a request to choose");
        Scan {
            notes: &self.notes,
            backlog,
            pricing,
            charged,
            wait_max: backlog.wait_max(),
            age_divisor: backlog.age_divisor(),
            runs: true,
            best: None,
            before: NONE_BEFORE,
            changes: false,
            left: CANDIDATES_MAX,
            within: None,
            near: self.heads.filter(|_| pricing.is_none()),
        }
    }

    /// Whether the last command of `volume` ended at `start`.
    pub(crate) fn ends_at(&self, volume: VolumeId, start: Lba) -> bool {
        debug_assert!((volume.0 as usize) < self.backlogs.len(), "the volume has a queue");
        self.backlogs[volume.0 as usize].last_end == Some(start)
    }

    /// A command of `volume` goes to the drive.
    pub(crate) fn issued(
        &mut self,
        (id, volume): (CommandId, VolumeId),
        operation: &Operation,
        now: Instant,
    ) {
        let backlog = &mut self.backlogs[volume.0 as usize];
        if !operation.extent.is_empty() {
            backlog.last_end = Some(operation.extent.end());
        }
        debug_assert!(backlog.mean >= DiskTime::ZERO, "a service time is not negative");
        self.last = Some(volume);
        if let Some(predictor) = &mut self.predictor {
            predictor.issued(id, operation, now);
        }
    }

    /// A command of `volume`, this operation, has completed; it took `took`.
    pub(crate) fn completed(
        &mut self,
        (id, volume): (CommandId, VolumeId),
        (operation, took): (&Operation, DiskTime),
        now: Instant,
    ) {
        assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        if !operation.extent.is_empty() {
            self.heads = Some(operation.extent.end());
        }
        let mean = &mut self.backlogs[volume.0 as usize].mean;
        let step = (took - *mean).as_nanos() / MEAN_DIVISOR;
        *mean += DiskTime::from_nanos(step);
        if let Some(predictor) = &mut self.predictor {
            predictor.completed(id, now);
        }
    }

    /// The rotational wait of a command that would go now; `None` where it is not predicted.
    pub(crate) fn rotational_wait(
        &self,
        operation: &Operation,
        now: Instant,
    ) -> Option<RotationalWait<'_>> {
        debug_assert!(operation.op != Op::Seek, "no request is a seek");
        self.predictor.as_ref().and_then(|predictor| predictor.rotational_wait(operation, now))
    }

    /// When the read in `slot`, of `extent`, has completed if it is carried out in `wait`; `None`
    /// if it does not fit.
    pub(crate) fn fits(
        &self,
        wait: &RotationalWait<'_>,
        slot: Slot,
        extent: Extent,
    ) -> Option<Instant> {
        debug_assert!((slot as usize) < self.notes.len(), "a queued request has a note");
        wait.fits(self.notes[slot as usize].target, extent)
    }

    /// The commands that the drive gets at a time, of at most `depth`: while predictions are
    /// trusted, or tried, as many as their order is known of.
    pub(crate) fn depth(&self, depth: usize) -> usize {
        let Some(predictor) = self.predictor.as_ref().filter(|f| f.is_in_order()) else {
            return depth;
        };
        let queued = self.last.map_or(0, |last| self.backlogs[last.0 as usize].queued);
        debug_assert!(depth > 0, "the drive takes a command");
        let running = u32::try_from(predictor.running()).expect("the depth is bounded");
        if queued + running >= AHEAD_FROM { depth.min(AHEAD_DEPTH) } else { 1 }
    }
}
