//! The scheduler of all contracts (`spindle`): shares of disk time that are worth the same to
//! clients that pause as to clients that do not.
//!
//! Buckets, limits, deadlines, recent usage and the order of slack are those of [`super::share`].
//! A reserve is *worth* what its client gets, divided by what the same client gets alone on a disk
//! whose every service time is divided by the share. A volume that keeps a deep queue has that
//! worth under long quanta. A volume whose client keeps few requests and pauses between them does
//! not: it is not there when its quantum comes. So volumes are served in two ways.
//!
//! - A **deep** volume is served in quanta of the disk time that its reserve accrues in a period,
//!   as in [`super::utilization`].
//! - A **shallow** volume ([`volume::Depth`]) is due when its bucket can pay for its next quantum,
//!   with what the switch costs there and back. Then it is served at the next command boundary,
//!   and the quantum that it interrupts goes on after it.
//!
//! Deep volumes alternate in rounds of one length, in one order ([`rounds`]), so that each window
//! of two seconds has their shares. A quantum of a deep volume that follows on one of its own, as
//! no other was due, ends when another deep volume is. Where positioning is predicted, the last
//! requests of a quantum are those that fit in it.
//!
//! The current quantum waits for its client if that gives the volume a higher rate than leaving and
//! coming back ([`learned::ThinkTime::best_wait`]): the idle time is charged to the volume.
//! In the quantum of a deep volume requests of others may go that lie among its own ([`joint`]).
//!
//! Switches to shallow volumes are paid by all up to a bound, and beyond it by the volume that
//! causes them ([`switches`]).
//!
//! ```text
//!  at a command boundary
//!    a shallow volume is due, and may interrupt ──▶ it is served; the deep quantum is kept
//!    the quantum has time left, and a request   ──▶ it goes on
//!    its client is expected soon                ──▶ the disk idles, charged to the volume
//!    else                                       ──▶ a due shallow volume, the interrupted quantum,
//!                                                   a due deep volume, or slack by recent usage
//! ```
//!
//! **Why shares hold.** All busy and idle time is charged to a volume or is in the ledger of
//! switches, whose balance is at most one period's worth. A shallow volume interrupts only what its
//! bucket pays for, so it has no more than its share over any longer time. While its client thinks
//! its credit does not grow beyond two quanta: a client that returns cannot claim the time in which
//! it was not there. A deep volume's interrupted quantum goes on where it was, until its length or
//! its debt ends it. A quantum out of the slack gives way to every volume that is due.

use core::hint::cold_path;

use units::{DiskTime, Duration, Instant, Lba};

use self::guard::Guard;
use self::holds::Holds;
use self::learned::WaitTerms;
use self::places::Places;
use self::positioning::{Distance, PositioningCosts};
use self::quantum::{End, Joint, Quantum, Rounds, Switch};
use self::switches::{Prepaid, SwitchLedger};
use self::volume::{Depth, Volume};
use super::deadline::WorstCase;
use super::indexed_heap::IndexedHeap;
use super::interface::Pick;
use super::round_robin::RoundRobin;
use super::share::{Eligibility, ShareOrders, State};
use crate::accounting::bucket::SignedInstant;
use crate::accounting::estimate::{Estimates, Estimator};
use crate::limits::LINGER_MAX;
use crate::{ChooserName, Settings, VolumeId};

mod activity;
mod beside;
mod byte_blocks;
mod dispatch;
mod drain;
mod early_end;
mod emptying;
mod freeblock;
mod guard;
mod guarded;
mod hold_times;
mod holds;
mod joint;
mod latency;
mod learned;
mod needed;
mod places;
mod positioning;
mod quantum;
mod region;
mod rounds;
mod scheduler;
mod stream;
mod switches;
mod volume;

/// The number of volumes that are looked at for one whose bucket pays for its quantum.
const VERIFIED: u32 = 2;
/// The number of due volumes whose distances, or whose deadlines, are compared: the root of the
/// heap, its children and theirs.
const COMPARED: usize = 21;
/// The waiting time for a deep volume's sequential run, as a part of the linger time.
const RUN_LINGER_DIVISOR: u64 = 4;

/// The scheduler of all contracts.
#[derive(Debug)]
pub(crate) struct Spindle {
    period: Duration,
    batch_max: DiskTime,
    linger: Duration,
    /// Commands in the drive at a time at most, and now.
    queue_depth: u32,
    in_drive: u32,
    /// The division of the drive's places where there are no quanta.
    places: Places,
    /// The constants: a deep volume's head is due when its reserve holds this much.
    estimates: Estimates,
    estimator: Estimator,
    volumes: Vec<Volume>,
    orders: ShareOrders,
    /// Shallow volumes with a head and a reserve, but the current one, by the instant from which
    /// they are due at the earliest, with the location of the head.
    shallow: IndexedHeap<(SignedInstant, Lba)>,
    /// Those of them that are known to have short quanta.
    short_listed: u32,
    quantum: Option<Quantum>,
    /// The quantum that goes on when no shallow volume is due.
    interrupted: Option<Quantum>,
    round_robin: RoundRobin,
    /// The last decision among several volumes, until one of them goes.
    joint: Option<Joint>,
    ledger: SwitchLedger,
    switch: Option<Switch>,
    /// The departure of the last paid quantum, until another volume is served.
    departure: Option<(VolumeId, Prepaid)>,
    /// What a volume paid for its quantum and was not reported to be charged.
    paid: Option<(VolumeId, DiskTime)>,
    last_served: Option<VolumeId>,
    /// Where the last command ended, and the distances of the command in flight: from there, and
    /// from its volume's own previous command.
    last_end: Option<Lba>,
    distances: Option<(Distance, Distance)>,
    positioning: PositioningCosts,
    /// The shallow volume that was served last, and when its quantum ended.
    last_shallow: Option<(VolumeId, Instant)>,
    holds: Holds,
    /// What it cost to end writes early for the volume that is served next.
    early_end: DiskTime,
    /// The streams and bounded latencies.
    guard: Guard,
    worst: WorstCase,
    /// Whether the requests of a volume go in another order than that of their arrival.
    reorders: bool,
    /// A real-time block was served since the current quantum's last command.
    displaced: bool,
    rounds: Rounds,
}

impl Spindle {
    pub(crate) fn new(settings: &Settings, now: Instant) -> Self {
        assert!(settings.batch <= settings.period, "a batch lasts a period at most");
        assert!(settings.linger <= LINGER_MAX, "lingering is bounded");
        Self {
            period: settings.period,
            batch_max: settings.batch.into(),
            linger: settings.linger,
            queue_depth: settings.depth,
            in_drive: 0,
            places: Places::new(settings.depth),
            estimates: settings.estimates,
            estimator: Estimator::new(&settings.estimates),
            volumes: Vec::new(),
            orders: ShareOrders::new(now),
            shallow: IndexedHeap::new(),
            short_listed: 0,
            quantum: None,
            interrupted: None,
            round_robin: RoundRobin::new(),
            joint: None,
            ledger: SwitchLedger::new(settings.period, now),
            switch: None,
            departure: None,
            paid: None,
            last_served: None,
            last_end: None,
            distances: None,
            positioning: PositioningCosts::new(),
            last_shallow: None,
            holds: Holds::default(),
            early_end: DiskTime::ZERO,
            guard: Guard::new(settings),
            worst: WorstCase::Bound(settings.deadlines.worst),
            reorders: settings.chooser != ChooserName::Arrival,
            displaced: false,
            rounds: Rounds::default(),
        }
    }

    fn volume(&mut self, volume: VolumeId) -> &mut Volume {
        &mut self.volumes[volume.0 as usize]
    }

    /// The current quantum, if it is `volume`'s.
    fn quantum_of(&self, volume: VolumeId) -> Option<Quantum> {
        self.quantum.filter(|quantum| quantum.volume == volume)
    }

    /// Enters `volume` into the orders that its queue, its buckets and its quantum call for.
    fn place(&mut self, volume: VolumeId, now: Instant) {
        let is_current = self.quantum_of(volume).is_some();
        let allowance = self.ledger.allowance(now);
        let entry = &mut self.volumes[volume.0 as usize];
        // What its last quantum was too long is taken off the next one. A fifth of the disk would
        // earn it back in five times that time, and its quanta would begin irregularly.
        let estimate = self.estimates.of(entry.sequential && is_current);
        let deep_cost = (estimate - entry.overrun).max(DiskTime::ZERO);
        let has_turns = entry.is_background && !is_current;
        let turn = if has_turns { entry.next_turn } else { Instant::ZERO };
        let costs = (deep_cost, allowance, self.estimates.random);
        let mut eligibility = entry.eligibility(costs, turn, now);
        let running = entry.running;
        if running > 0 && self.divides() {
            cold_path();
            let kept = self.kept(volume, now);
            if running >= self.places.most(volume, kept, now) {
                eligibility = eligibility.full();
            }
        }
        let entry = &mut self.volumes[volume.0 as usize];
        self.orders.place(volume, eligibility, &mut entry.account);
        match eligibility {
            Eligibility::Due(at) if entry.is_shallow() && !is_current => {
                let is_short = entry.has_short_quanta();
                self.shallow.set(volume, (at, entry.head_start()));
                self.count_short(volume, is_short);
            }
            _ => self.unlist_shallow(volume),
        }
    }

    /// Takes `volume` off the list of shallow volumes, if it is there.
    fn unlist_shallow(&mut self, volume: VolumeId) {
        self.shallow.remove(volume);
        self.count_short(volume, false);
    }

    /// Notes whether `volume` is a listed shallow volume with short quanta.
    fn count_short(&mut self, volume: VolumeId, is_short: bool) {
        let entry = &mut self.volumes[volume.0 as usize];
        self.short_listed += u32::from(is_short);
        self.short_listed -= u32::from(entry.is_short_listed);
        entry.is_short_listed = is_short;
        debug_assert!(self.short_listed as usize <= self.shallow.len(), "they are listed");
    }

    /// Makes the volumes eligible whose limit, or whose reserve, has disk time for them again.
    fn release(&mut self, now: Instant) {
        while let Some(volume) = self.orders.next_released(now) {
            self.place(volume, now);
        }
    }

    /// The due shallow volume that is served next; not the current one, nor `except`.
    fn due_shallow(&mut self, except: Option<VolumeId>, now: Instant) -> Option<VolumeId> {
        // Others may have spent on switches what the instant counts on: it is verified.
        for _ in 0..VERIFIED {
            let volume = self.nearest_due(except, now)?;
            debug_assert_ne!(Some(volume), except, "another volume is served next");
            if self.holds_need(volume, now) {
                return Some(volume);
            }
            self.place(volume, now);
        }
        None
    }

    /// Of the shallow volumes that are due, as far as is noted, the one whose head is nearest to
    /// the end of the last command: seeks are then as short as an elevator's. A volume that has
    /// been due for too long goes first, so that none starves.
    fn nearest_due(&self, except: Option<VolumeId>, now: Instant) -> Option<VolumeId> {
        let by = SignedInstant::at(now);
        let ((at, _), first) = self.shallow.first().filter(|((at, _), _)| *at <= by)?;
        let is_other = |volume: &VolumeId| Some(*volume) != except;
        debug_assert!(self.volumes[first.0 as usize].head.is_some(), "a due volume has a head");
        let age = now.since(at.instant());
        if self.shallow.len() == 1 || age >= self.volumes[first.0 as usize].passed_over_max() {
            return Some(first).filter(is_other);
        }
        let from = self.last_end.unwrap_or_default();
        let is_due =
            |(key, volume): &((SignedInstant, Lba), VolumeId)| key.0 <= by && is_other(volume);
        let due = self.shallow.early(COMPARED).filter(is_due);
        due.map(|((_, head), volume)| (head.distance(from), volume)).min().map(|(_, volume)| volume)
    }

    /// Whether the bucket of a shallow volume with a head pays for its next quantum.
    fn holds_need(&mut self, volume: VolumeId, now: Instant) -> bool {
        let allowance = self.ledger.allowance(now);
        let entry = &mut self.volumes[volume.0 as usize];
        let level = entry.account.reserve_level(now);
        debug_assert!(entry.is_shallow(), "a deep volume has no need");
        level >= entry.need(allowance, self.estimates.random)
    }

    /// The deep volume that has been due for longest, if that is longer than a period: its bucket
    /// holds a period's worth and more. Shallow volumes that spend credit, each by its bucket, then
    /// wait for it. Otherwise a small reserve beside large ones would wait until all of them have
    /// spent their credit, and earn it back beside the little that they leave. What is in the
    /// background has its turn: a rebuild that waits for its disk is overdue most of the time.
    fn overdue_deep(&self, now: Instant) -> Option<VolumeId> {
        let (due, volume) = self.orders.deadlines.first()?;
        debug_assert!(self.period > Duration::ZERO, "shares are kept over a period");
        let by = SignedInstant::at(now.saturating_sub(self.period));
        let is_overdue = now.since(Instant::ZERO) >= self.period && due <= by;
        let is_deep = is_overdue && !self.volumes[volume.0 as usize].is_shallow();
        if is_deep && self.volumes[volume.0 as usize].is_background {
            return self.overdue_waited_for(by);
        }
        is_deep.then_some(volume)
    }

    /// Whether `quantum` ends for any due shallow volume: it is slack, or a deep volume's that is
    /// not overdue.
    fn yields_to_shallow(&self, quantum: Quantum, now: Instant) -> bool {
        debug_assert!((quantum.volume.0 as usize) < self.volumes.len(), "the volume exists");
        let is_deep = quantum.depth == Depth::Deep;
        quantum.from_slack || is_deep && self.overdue_deep(now) != Some(quantum.volume)
    }

    /// Whether a shallow volume that waits may be served before the current quantum ends. Looking
    /// for the nearest costs more than this.
    fn may_be_interrupted(&self, quantum: Quantum, now: Instant) -> bool {
        let fills_quanta = || self.volumes[quantum.volume.0 as usize].fills_quanta();
        debug_assert!(self.short_listed as usize <= self.shallow.len(), "they are listed");
        self.shallow.len() > 0
            && (self.yields_to_shallow(quantum, now) || self.short_listed > 0 && fills_quanta())
    }

    /// Whether the due shallow `volume` is served before the current quantum ends. The quantum of a
    /// shallow volume is interrupted only if it is a long one and the other's are short.
    fn may_interrupt(&self, quantum: Quantum, volume: VolumeId, now: Instant) -> bool {
        debug_assert_ne!(quantum.volume, volume, "a volume does not interrupt itself");
        let holder = &self.volumes[quantum.volume.0 as usize];
        let other = &self.volumes[volume.0 as usize];
        self.yields_to_shallow(quantum, now) || holder.fills_quanta() && other.has_short_quanta()
    }

    /// The shallow volume that is served before a best-effort volume's quantum ends, because its
    /// recent usage is less than that of the current volume by more than a batch. Its client
    /// keeps few requests: otherwise it would have one of them for each quantum of the others,
    /// whatever its part of the slack is.
    fn shallow_in_arrears(&self, quantum: Quantum, now: Instant) -> Option<VolumeId> {
        if !quantum.from_slack || !self.positions() {
            return None;
        }
        let volume = self.orders.least_used().filter(|volume| *volume != quantum.volume)?;
        let entry = &self.volumes[volume.0 as usize];
        let holder = &self.volumes[quantum.volume.0 as usize];
        debug_assert!(entry.head.is_some(), "a ready volume has a head");
        if holder.account.has_reserve() {
            // Its usage is not of the slack alone.
            return None;
        }
        let is_behind = || {
            let arrears = (&entry.account, self.batch_max);
            self.orders.due(now).is_none() && self.orders.is_behind(arrears, &holder.account, now)
        };
        let short = DiskTime::from_nanos(self.slack_quantum(false).as_nanos() / 2);
        let is_long = quantum.depth == Depth::Deep || !holder.has_quanta_below(short);
        let is_single = entry.is_shallow() && entry.has_quanta_below(short);
        (is_long && is_single && is_behind()).then_some(volume)
    }

    /// Whether positioning costs anything: then commands of one volume alone are in the drive at a
    /// time. Without batches every command is a quantum, and no volume is shallow.
    fn positions(&self) -> bool {
        self.batch_max > DiskTime::ZERO
    }

    /// Whether another volume than the current one waits for the drive.
    fn has_rival(&self, volume: VolumeId) -> bool {
        let is_ready = self.volumes[volume.0 as usize].account.state() == State::Ready;
        self.orders.ready() > usize::from(is_ready) || self.interrupted.is_some()
    }

    /// The length of a quantum out of the slack.
    fn slack_quantum(&self, sequential: bool) -> DiskTime {
        let half = DiskTime::from_nanos(self.batch_max.as_nanos() / 2);
        if sequential { self.batch_max } else { half }
    }

    /// The length of `quantum`.
    fn length(&self, quantum: &Quantum) -> DiskTime {
        let entry = &self.volumes[quantum.volume.0 as usize];
        if quantum.from_slack || !entry.account.has_reserve() || !self.positions() {
            return self.slack_quantum(entry.continues_run());
        }
        match quantum.depth {
            Depth::Shallow => {
                let meanwhile = self.holds.of_others(quantum.volume);
                entry.shallow_quantum().max(entry.account.earned_beside(meanwhile))
            }
            Depth::Deep => self.deep_length(quantum.volume),
        }
    }

    /// Whether another deep volume with a reserve has a request: `volume` is the current one.
    /// Shallow volumes do not wait for the end of a deep quantum.
    fn has_deep_rival(&self, volume: VolumeId) -> bool {
        let own = usize::from(self.orders.deadlines.contains(volume));
        debug_assert!(!self.shallow.contains(volume), "the current volume is not listed");
        self.orders.deadlines.len() > self.shallow.len() + own
    }

    /// Whether the current quantum goes on, with a command or by waiting for one, or what ends it.
    fn continue_quantum(
        &mut self,
        quantum: Quantum,
        running: usize,
        now: Instant,
    ) -> Result<Pick, End> {
        let volume = quantum.volume;
        let exclusive = self.positions();
        let gives_way = self.until_other(quantum, now).is_some_and(|time| time <= DiskTime::ZERO);
        let is_over = gives_way || self.is_over(&quantum);
        let is_other_due = || self.orders.due(now).is_some() || self.interrupted.is_some();
        if is_over || is_other_due() && self.is_in_debt(quantum, now) {
            // The drive is emptied for other volumes alone.
            let drains = exclusive && running > 0 && self.has_rival(volume);
            return if drains { Ok(Pick::Nothing) } else { Err(End::Length) };
        }
        let entry = &self.volumes[volume.0 as usize];
        match entry.account.state() {
            State::Ready => Ok(Pick::Volume(volume)),
            // With its last request in the drive, a volume has not ended its quantum.
            State::Empty if exclusive && running > 0 => Ok(Pick::Nothing),
            State::Empty if running == 0 => self.linger(quantum, now).ok_or(End::Client),
            State::Empty | State::Throttled | State::Full => Err(End::Client),
        }
    }

    /// Whether the quantum, with what its volume has in the drive, is nearer to its length than
    /// after another command.
    fn is_over(&self, quantum: &Quantum) -> bool {
        let entry = &self.volumes[quantum.volume.0 as usize];
        let inside = self.charge_inside(quantum);
        let last = if entry.running == 0 {
            quantum.last
        } else {
            entry.drains.service(entry.running).unwrap_or(self.estimates.random)
        };
        let reached = quantum.spent + inside + DiskTime::from_nanos(last.as_nanos() / 2);
        // Most commands end no quantum, and what each of a deep volume has at least tells it.
        let least = self.least_deep() - entry.overrun.max(DiskTime::ZERO);
        let is_short = quantum.depth == Depth::Deep && reached < least;
        debug_assert!(!is_short || reached < self.length(quantum), "no quantum is shorter");
        !is_short && reached >= self.length(quantum)
    }

    /// Whether a quantum on the reserve has run the bucket into debt, so that it ends if another
    /// volume is due. One out of the slack may run it down.
    fn is_in_debt(&mut self, quantum: Quantum, now: Instant) -> bool {
        let account = &mut self.volumes[quantum.volume.0 as usize].account;
        let level = account.reserve_level(now);
        let is_low = match quantum.depth {
            Depth::Shallow => level < DiskTime::ZERO,
            // As long as the longest quantum that a reserve pays for.
            Depth::Deep => level <= -account.reserve_cap() - account.reserve_cap(),
        };
        !quantum.from_slack && account.has_reserve() && is_low
    }

    /// Waits for the next request of the current volume, if that is worthwhile.
    fn linger(&self, quantum: Quantum, now: Instant) -> Option<Pick> {
        let entry = &self.volumes[quantum.volume.0 as usize];
        debug_assert_eq!(entry.account.state(), State::Empty, "lingering waits for a request");
        // Where slack alone is left, idling takes nothing from a neighbour's reserve.
        let has_neighbour = self.orders.deadlines.len() > 0;
        let switch = if has_neighbour { entry.counted_switch() } else { entry.times.switch() };
        let wait = if entry.is_shallow() {
            entry.think.best_wait(WaitTerms {
                share: entry.account.paying_share(),
                times: entry.times,
                switch,
                other_service: self.holds.between_decisions(),
                linger: self.linger,
            })?
        } else if entry.in_run && entry.arrives_within_linger {
            self.run_linger()
        } else {
            return None;
        };
        let until = entry.last_completion + wait;
        (now < until && self.orders.has_ready()).then_some(Pick::Wait(until))
    }

    /// How long the disk idles for the next request of a deep volume's sequential run.
    fn run_linger(&self) -> Duration {
        Duration::from_nanos(self.linger.as_nanos() / RUN_LINGER_DIVISOR)
    }

    /// Ends the current quantum.
    fn end_quantum(&mut self, end: End, now: Instant) {
        let Some(quantum) = self.quantum.take() else { return };
        let volume = quantum.volume;
        self.rounds.after_slack = quantum.from_slack;
        let (length, is_over) = (self.length(&quantum), self.is_over(&quantum));
        let entry = self.volume(volume);
        if is_over && quantum.depth == Depth::Deep {
            let overrun = quantum.spent - length;
            entry.overrun = if quantum.from_slack { DiskTime::ZERO } else { overrun };
        }
        entry.preempted = entry.account.state() == State::Ready;
        entry.waiting_since = now;
        match end {
            End::Client => entry.times.learn_quantum(quantum.spent.max(DiskTime::ZERO)),
            End::Length if quantum.depth == Depth::Shallow => {
                entry.times.learn_quantum(length + length);
            }
            End::Length | End::Interrupted => {}
        }
        if quantum.depth == Depth::Shallow {
            self.last_shallow = Some((volume, now));
        } else if end != End::Interrupted {
            self.note_turn(quantum, now);
        }
        self.place(volume, now);
        assert!(self.quantum.is_none(), "a quantum that has ended is over");
    }

    /// Whether what `volume` takes now is slack: none was due when its quantum began, or, if that
    /// is not a deep volume's, none is now.
    fn is_slack(&self, volume: VolumeId, now: Instant) -> bool {
        let quantum = self.quantum_of(volume);
        let is_deep = quantum.is_some_and(|quantum| quantum.depth == Depth::Deep);
        quantum.is_some_and(|quantum| quantum.from_slack)
            || !(is_deep && self.positions()) && self.orders.due(now).is_none()
    }

    fn scale_back(&mut self, now: Instant) {
        let Some(halvings) = self.orders.rescale_due(now) else { return };
        cold_path();
        for volume in &mut self.volumes {
            volume.account.scale_back(halvings);
        }
    }
}
