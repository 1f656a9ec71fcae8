//! The state of one volume under the scheduler of all contracts.

use core::mem::offset_of;

use units::{DiskTime, Duration, Instant, Lba, Op, Operation, Share};

use super::drain::DrainTimes;
use super::learned::{KeptRequests, Mean, QUANTUM_DIVISOR, ServiceTimes, ThinkTime};
use super::positioning::Base;
use super::region::Region;
use super::switches::SHARED;
use crate::accounting::bucket::SignedInstant;
use crate::accounting::estimate::is_sequential;
use crate::limits::DEPTH_MAX;
use crate::policy::share::{Eligibility, ShareAccount, State};
use crate::{Contract, ServiceDemand};

/// A volume that was shallow is taken to stay deep after this number of deep quanta on end.
const STEADY: u32 = 4;
/// A volume that keeps more requests than this is deep.
const SHALLOW_REQUESTS_MAX: u32 = 8;
/// A deep volume that keeps at most this many requests becomes shallow.
const SHALLOW_AGAIN: u32 = 4;
/// A volume whose requests take longer than this together is deep.
const SHALLOW_TIME_MAX: DiskTime = DiskTime::from_millis(100);
/// A sequential client that thinks for less than this needs no immediate service: the drive reads
/// ahead for it. Between the two bounds a volume stays as it is.
const RUN_THINK_SHORT: Duration = Duration::from_micros(250);
const RUN_THINK_LONG: Duration = Duration::from_millis(1);
/// Of the disk's time, what the switches of a shallow volume that uses all of its reserve may cost:
/// one part in this number.
const SWITCH_PART: i64 = 13;
/// The same of one whose client keeps several requests, and pauses. A quantum of several has no
/// pauses, and loses less by being shorter, while each waits until the reserve pays for all of it.
const SWITCH_PART_SEVERAL: i64 = 10;
/// A small reserve's quantum is at least this many times what it pays itself of a switch, ...
const LEAST_PART: i64 = 4;
/// ... but at most this many requests long.
const LEAST_REQUESTS_MAX: i64 = 3;
/// A quantum holds as many requests as the client keeps, up to this many: of requests that are
/// served one a quantum, what is theirs and what the switch cost could not be told apart, so that
/// the quantum would stay that short.
const KEPT_REQUESTS_MAX: u32 = 2;
/// The shortest time between two quanta of such a volume.
const ROUND_MIN: DiskTime = DiskTime::from_millis(50);
/// The part of a bucket's capacity that a quantum may need at most, in tenths.
const NEED_TENTHS: i64 = 9;

/// A due volume is passed over for nearer ones for at most this many times the time in which its
/// reserve pays for one of its requests.
const PASSED_OVER_ROUNDS: u64 = 4;

/// How a volume is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// It keeps few requests: immediately, in short quanta.
    Shallow,
    /// It keeps many, or the drive reads ahead for it: in quanta of a period's worth.
    Deep,
}

/// With many volumes each is cold when it is served. The fields are in this order so that those
/// which each command of a deep volume touches lie in five cache lines; what only clients that
/// pause, shallow volumes or several commands in the drive need lies beside them.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Volume {
    pub(super) account: ShareAccount,
    pub(super) depth: Depth,
    /// Whether the head continues the volume's sequential run: [`Volume::continues`].
    pub(super) sequential: bool,
    /// Whether its last command continued a sequential run.
    pub(super) in_run: bool,
    /// Whether its next request arrived within the linger time of its last completion, the last
    /// time that this mattered.
    pub(super) arrives_within_linger: bool,
    /// Whether it had more to do when its quantum ended.
    pub(super) preempted: bool,
    /// Whether its head is a stream's real-time block, or one that more requests are to join: the
    /// selector does not serve it.
    pub(super) is_withheld: bool,
    /// Whether a flush followed the command that ended where its last one did.
    pub(super) is_flushed: bool,
    /// Whether no client waits for its requests: [`crate::Contract::is_background`].
    pub(super) is_background: bool,
    /// Whether it is counted as a listed shallow volume with short quanta.
    pub(super) is_short_listed: bool,
    /// Requests that have a command to issue.
    pub(super) queued: u32,
    /// Commands in flight.
    pub(super) running: u32,
    /// The most commands that it had in the drive at once since its quantum began.
    most_inside: u32,
    /// Its quanta before that one, on end, with [`FEW`] commands inside at most.
    few_quanta: u32,
    /// By how much its last deep quantum was exceeded: the next one is shorter by that.
    pub(super) overrun: DiskTime,
    pub(super) times: ServiceTimes,
    /// What its requests have demanded, and the pauses of its client up to the last request.
    pub(super) demand: ServiceDemand,
    /// The disk time of its requests between two pauses of its client, and the sum of its service
    /// times at the end of the last pause.
    between_pauses: Mean,
    pause_ended: DiskTime,
    /// As long as a quantum of it is while it is shallow.
    shallow_quantum: DiskTime,
    pub(super) kept: KeptRequests,
    /// The epoch if there was none: no volume is anticipated before its first command.
    pub(super) last_completion: Instant,
    pub(super) last_end: Option<Lba>,
    /// The next command, if a request is queued.
    pub(super) head: Option<Operation>,
    pub(super) region: Region,
    pub(super) think: ThinkTime,
    pub(super) drains: DrainTimes,
    /// The level of its bucket when its client began to think.
    pub(super) idle_level: DiskTime,
    /// Since when its head waits for a quantum.
    pub(super) waiting_since: Instant,
    /// Its deep quanta since the last shallow one; a new volume begins with [`STEADY`].
    deep_quanta: u32,
    /// When a volume in the background may have its next turn; the epoch for any other.
    pub(super) next_turn: Instant,
    pub(super) base: Base,
}

/// Commands in the drive that are few: emptying it of those costs little.
const FEW: u32 = 2;
/// A volume is taken to have few in the drive after this number of such quanta on end: one may be
/// short. By the last one alone rounds changed their length without a profile, and 20 % of
/// nearline-20t lacked 4 points of two seconds.
const FEW_QUANTA: u32 = 11;

/// The cache line in which a field begins.
const fn line(offset: usize) -> usize {
    offset / 64
}
// Four lines from the start, and one with the end of the think time and the start of the drains.
const _: () = assert!(line(offset_of!(Volume, think)) == 4);
const _: () = assert!(line(offset_of!(Volume, drains)) == 5);
const _: () = assert!(size_of::<Volume>() == 8 * 64);

impl Volume {
    /// A volume without requests, with a full bucket.
    pub(super) fn new(contract: Contract, period: Duration, now: Instant) -> Self {
        let mut volume = Self {
            account: ShareAccount::new(contract, period, now),
            depth: Depth::Deep,
            sequential: false,
            in_run: false,
            between_pauses: Mean::default(),
            pause_ended: DiskTime::ZERO,
            arrives_within_linger: false,
            preempted: false,
            is_withheld: false,
            head: None,
            queued: 0,
            running: 0,
            most_inside: 0,
            few_quanta: 0,
            overrun: DiskTime::ZERO,
            times: ServiceTimes::default(),
            drains: DrainTimes::default(),
            next_turn: Instant::ZERO,
            base: Base::default(),
            region: Region::default(),
            think: ThinkTime::default(),
            kept: KeptRequests::default(),
            demand: ServiceDemand::default(),
            shallow_quantum: DiskTime::ZERO,
            idle_level: DiskTime::ZERO,
            waiting_since: now,
            deep_quanta: STEADY,
            last_end: None,
            is_flushed: false,
            is_background: contract.is_background,
            is_short_listed: false,
            last_completion: Instant::ZERO,
        };
        volume.update_quantum(DiskTime::ZERO);
        volume
    }

    /// A command of its own took `service`, without what a change of volume added.
    pub(super) fn learn_service(&mut self, service: DiskTime) {
        debug_assert!(service >= DiskTime::ZERO, "a service time is not negative: {service}");
        self.times.learn_service(service);
        self.demand.service += service;
        debug_assert!(self.demand.service >= service, "a sum of service times only grows");
    }

    /// The same, as if its client had been thinking until now: its bucket holds what it keeps then,
    /// and the estimate of a first command.
    pub(super) fn thoughtful(
        contract: Contract,
        (period, estimate): (Duration, DiskTime),
        now: Instant,
    ) -> Self {
        let mut volume = Self::new(contract, period, now);
        let most = volume.credit_max().max(estimate);
        debug_assert_eq!(volume.outstanding(), 0, "a client that thinks has no request");
        volume.account.forfeit_above(most, now);
        volume
    }

    /// Whether `head` continues where its last command ended, so that the drive has read it ahead,
    /// or gathers it with the write before it. A write after a flush, or a forced one, does not:
    /// what precedes it is on the medium, and the disk has turned on.
    pub(super) fn continues(&self, head: &Operation) -> bool {
        let is_apart = head.op == Op::Write && (head.fua || self.is_flushed);
        is_sequential(head, self.last_end) && !is_apart
    }

    /// `command` goes to the drive, and `next` is the head after it.
    pub(super) fn note_command(&mut self, command: &Operation, next: Option<&Operation>) {
        self.in_run = self.sequential;
        self.is_flushed = command.op == Op::Flush;
        if !command.extent.is_empty() {
            self.last_end = Some(command.extent.end());
            self.region.learn(command.extent.start);
        }
        self.sequential = next.is_some_and(|next| self.continues(next));
        debug_assert!(!self.sequential || self.last_end.is_some(), "a run has a beginning");
    }

    /// Whether it continues a sequential run, as far as is known.
    pub(super) fn continues_run(&self) -> bool {
        if self.account.state() == State::Empty { self.in_run } else { self.sequential }
    }

    /// Where its head begins; where its last command ended, for a head without a location.
    pub(super) fn head_start(&self) -> Lba {
        let head = self.head.filter(|head| !head.extent.is_empty());
        debug_assert!(self.head.is_some(), "a ready volume has a head");
        head.map_or(self.last_end.unwrap_or_default(), |head| head.extent.start)
    }

    /// Requests queued and in service, as commands.
    pub(super) fn outstanding(&self) -> u32 {
        self.queued + self.running
    }

    /// A command of it goes to the drive.
    pub(super) fn enter_drive(&mut self) {
        self.running += 1;
        debug_assert!(self.running <= DEPTH_MAX, "commands in flight are bounded");
        self.most_inside = self.most_inside.max(self.running);
    }

    /// A quantum of it begins that goes on with none.
    pub(super) fn begin_filling(&mut self) {
        debug_assert!(self.running <= self.most_inside, "all of them entered");
        let before = self.few_quanta;
        self.few_quanta = if self.most_inside <= FEW { before.saturating_add(1) } else { 0 };
        debug_assert!(self.few_quanta <= before.saturating_add(1), "quanta are counted");
        self.most_inside = self.running;
    }

    /// The commands with which its quanta fill a drive that takes `queue_depth`: what its client
    /// keeps, or few, if its last quanta had no more. Where the order of commands in the drive is
    /// predicted, it is few.
    pub(super) fn fills(&self, queue_depth: u32) -> u32 {
        debug_assert!(queue_depth > 0, "a drive takes a command");
        let has_few = self.few_quanta >= FEW_QUANTA && self.most_inside <= FEW;
        let most = if has_few { queue_depth.min(FEW) } else { queue_depth };
        self.outstanding().clamp(1, most)
    }

    /// The disk time of all of its requests, as far as is known.
    fn outstanding_time(&self) -> DiskTime {
        let service = self.times.service().unwrap_or_default();
        debug_assert!(service >= DiskTime::ZERO, "a service time is not negative: {service}");
        DiskTime::from_nanos(service.as_nanos().saturating_mul(i64::from(self.outstanding())))
    }

    /// Its client has thought for `think`, and sends a request.
    #[inline(never)]
    pub(super) fn note_pause(&mut self, think: Duration, linger: Duration) {
        self.think.learn(think, linger);
        self.demand.think += think;
        if think < RUN_THINK_LONG {
            return;
        }
        let asked = self.demand.service - self.pause_ended;
        debug_assert!(asked >= DiskTime::ZERO, "a sum of service times only grows");
        self.between_pauses.learn::<QUANTUM_DIVISOR>(asked);
        self.pause_ended = self.demand.service;
    }

    /// Whether its client pauses after a short time of the disk, however many requests it sends
    /// until then. It is not there when a quantum of a period's worth comes, nor for most of one.
    fn pauses_soon(&self) -> bool {
        let now = self.demand.service - self.pause_ended;
        debug_assert!(now >= DiskTime::ZERO, "a sum of service times only grows");
        self.between_pauses.time().is_some_and(|mean| mean.max(now) < SHALLOW_TIME_MAX)
    }

    /// The service time of one of its commands in the order of the drive; `known` where it keeps
    /// too few for the drive to order.
    pub(super) fn service_among(&self, known: Option<DiskTime>) -> Option<DiskTime> {
        debug_assert!(self.running > 0, "one of them has completed");
        if self.running > 2 { self.drains.service(self.running).or(known) } else { known }
    }

    /// Decides whether it is shallow or deep, with hysteresis. Every volume is deep where
    /// positioning costs nothing.
    pub(super) fn update_depth(&mut self, positions: bool) {
        let many = self.outstanding() > SHALLOW_REQUESTS_MAX && !self.pauses_soon()
            || self.outstanding_time() > SHALLOW_TIME_MAX;
        let few = self.outstanding() <= SHALLOW_AGAIN;
        let think = self.think.mean();
        let on_run = self.continues_run();
        let is_short = think.is_some_and(|think| think < RUN_THINK_SHORT);
        let read_ahead = on_run && (is_short || self.outstanding() > 1 && !self.pauses_soon());
        let pauses = !on_run || think.is_none_or(|think| think >= RUN_THINK_LONG);
        // What no client waits for has its turn.
        self.depth = match self.depth {
            _ if !positions || many || read_ahead || self.is_background => Depth::Deep,
            Depth::Deep if !(few && pauses) => Depth::Deep,
            _ => Depth::Shallow,
        };
    }

    /// A quantum of it begins: whether it has been deep for some of them, or from the beginning.
    pub(super) fn note_depth(&mut self, depth: Depth) -> bool {
        let before = self.deep_quanta;
        self.deep_quanta = if depth == Depth::Deep { before.saturating_add(1) } else { 0 };
        debug_assert!(self.deep_quanta <= before.saturating_add(1), "quanta are counted");
        self.deep_quanta >= STEADY
    }

    pub(super) fn is_shallow(&self) -> bool {
        self.depth == Depth::Shallow
    }

    /// The quantum of a shallow volume.
    pub(super) fn shallow_quantum(&self) -> DiskTime {
        self.shallow_quantum
    }

    /// Computes the quantum from what was learned: so long that switches cost a [`SWITCH_PART`]th
    /// of the time in which the reserve pays for it, and not short beside `own_part`, what the
    /// volumes pay themselves of a switch. It is called while the command that completes is
    /// counted.
    pub(super) fn update_quantum(&mut self, own_part: DiskTime) {
        let switch = self.times.switch();
        // The requests of a client that never pauses do not come apart.
        let come_apart = self.kept.are_several() && self.think.mean().is_some();
        let part = if come_apart { SWITCH_PART_SEVERAL } else { SWITCH_PART };
        let round = DiskTime::from_nanos(switch.as_nanos() * part).max(ROUND_MIN);
        let quantum = self.account.reserved_of(round);
        let service = self.times.service().unwrap_or_default();
        let least = DiskTime::from_nanos(own_part.as_nanos() * LEAST_PART)
            .min(DiskTime::from_nanos(service.as_nanos() * LEAST_REQUESTS_MAX));
        let kept = i64::from(self.outstanding().clamp(1, KEPT_REQUESTS_MAX));
        let kept = DiskTime::from_nanos(service.as_nanos() * kept);
        self.shallow_quantum = quantum.max(least).max(kept);
        debug_assert!(own_part >= DiskTime::ZERO, "a switch gives no disk time: {own_part}");
        debug_assert!(self.shallow_quantum >= service, "a quantum holds a command");
    }

    /// What the bucket of a shallow volume must hold for it to be served at once: the quantum that
    /// its requests need, and what all volumes do not pay of the switch. `unknown`: the service
    /// time of a command before one was measured.
    pub(super) fn need(&self, allowance: DiskTime, unknown: DiskTime) -> DiskTime {
        let own_switch = (self.times.switch() - allowance).max(DiskTime::ZERO);
        let cap = self.account.reserve_cap().as_nanos();
        let most = DiskTime::from_nanos(cap / 10 * NEED_TENTHS);
        debug_assert!(cap >= 0, "a bucket holds no less than nothing");
        debug_assert!(allowance >= DiskTime::ZERO, "an allowance is not negative: {allowance}");
        (self.next_quantum(unknown) + own_switch).min(most)
    }

    /// The disk time of the quantum that its requests need.
    fn next_quantum(&self, unknown: DiskTime) -> DiskTime {
        let service = self.times.service().unwrap_or(unknown);
        let expected = self.times.quantum().unwrap_or_default();
        debug_assert!(service >= DiskTime::ZERO, "a service time is not negative: {service}");
        service.max(expected.max(self.outstanding_time()).min(self.shallow_quantum()))
    }

    /// The most that its bucket holds when its client returns from thinking.
    pub(super) fn credit_max(&self) -> DiskTime {
        let quantum = self.shallow_quantum().as_nanos();
        let service = self.times.service().unwrap_or_default().as_nanos();
        DiskTime::from_nanos((2 * quantum).max(8 * service))
    }

    /// What a switch counts for when the disk might idle instead. If the volume leaves after each
    /// of its requests, all volumes pay a part of the switch: what [`SHARED`] accrues in the time
    /// in which its reserve pays for one. Half of what that exceeds twice the volume's own part
    /// does not count: idling costs the volume, leaving costs its neighbours.
    pub(super) fn counted_switch(&self) -> DiskTime {
        let switch = self.times.switch();
        let by_all = SHARED.of(self.time_per_request()).min(switch);
        let own = switch - by_all;
        let surplus = (by_all - own - own).max(DiskTime::ZERO);
        debug_assert!(surplus <= switch, "all volumes pay at most the switch");
        switch - DiskTime::from_nanos(surplus.as_nanos() / 2)
    }

    /// The time in which its reserve pays for one of its requests.
    fn time_per_request(&self) -> Duration {
        let service = self.times.service().unwrap_or_default();
        let round = self.account.paying_share().time_to_accrue(service).unwrap_or_default();
        debug_assert!(DiskTime::from(round) >= service, "a share is at most the whole");
        round
    }

    /// How long it may be due while nearer volumes are served.
    pub(super) fn passed_over_max(&self) -> Duration {
        let round = self.time_per_request();
        debug_assert!(round * PASSED_OVER_ROUNDS >= round, "it may be passed over");
        round * PASSED_OVER_ROUNDS
    }

    /// Whether its quanta are long because its requests follow each other.
    pub(super) fn fills_quanta(&self) -> bool {
        self.times.quantum().is_some_and(|quantum| quantum >= self.shallow_quantum())
    }

    /// Whether its quanta are short: single requests.
    pub(super) fn has_short_quanta(&self) -> bool {
        self.has_quanta_below(DiskTime::from_nanos(self.shallow_quantum().as_nanos() / 10 * 7))
    }

    /// Whether its quanta are known to be shorter than `short`.
    pub(super) fn has_quanta_below(&self, short: DiskTime) -> bool {
        debug_assert!(short >= DiskTime::ZERO, "a quantum is not negative: {short}");
        self.times.quantum().is_some_and(|quantum| quantum < short)
    }

    /// Whether, and from when on, its head may be served. A shallow volume is due when its bucket
    /// holds a quantum, and not before its head waits. What all volumes pay of a switch grows until
    /// then, if no other volume uses it: it is due no earlier than that. No volume is due before
    /// its `turn`.
    pub(super) fn eligibility(
        &mut self,
        (deep_cost, allowance, unknown): (DiskTime, DiskTime, DiskTime),
        turn: Instant,
        now: Instant,
    ) -> Eligibility {
        let shallow = self.is_shallow() && self.account.has_reserve();
        let cost = if shallow { self.need(allowance, unknown) } else { deep_cost };
        let eligibility = self.account.eligibility((cost, turn), self.running > 0, now);
        let Eligibility::Due(at) = eligibility else { return eligibility };
        if !shallow {
            return eligibility;
        }
        let quantum = self.next_quantum(unknown);
        let at = if at > SignedInstant::at(now) && cost > quantum {
            let grown = self.account.holds_with(cost, SHARED).unwrap_or(at);
            grown.max(self.account.holds_with(quantum, Share::NONE).unwrap_or(at))
        } else {
            at
        };
        Eligibility::Due(at.max(SignedInstant::at(self.waiting_since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quantum of `volume` in which the drive holds `commands` at once and is then emptied.
    fn quantum(volume: &mut Volume, commands: u32) {
        volume.begin_filling();
        for _ in 0..commands {
            volume.enter_drive();
        }
        for inside in (1..=commands).rev() {
            // The fewer, the longer each takes.
            volume.drains.learn(inside, DiskTime::from_micros(i64::from(4_000 / inside)));
        }
        volume.running = 0;
    }

    #[test]
    fn emptying_costs_what_the_last_quanta_had_in_the_drive_and_not_what_those_before_had() {
        let contract = Contract::reserve(Share::from_percent(40));
        let mut volume = Volume::new(contract, Duration::from_secs(1), Instant::ZERO);
        volume.queued = 64;
        let cost = |volume: &Volume| volume.drains.cost(volume.fills(32));
        assert_eq!(volume.fills(32), 32, "before the first quantum: what its client keeps");
        // The order is the drive's own for a while.
        quantum(&mut volume, 32);
        quantum(&mut volume, 32);
        let deep = cost(&volume);
        assert!(deep > DiskTime::from_millis(4), "{deep}");
        // A quantum may be short.
        quantum(&mut volume, 2);
        quantum(&mut volume, 32);
        assert_eq!(volume.fills(32), 32);
        // Then it is predicted, of two commands.
        for _ in 0..FEW_QUANTA {
            quantum(&mut volume, 2);
        }
        volume.begin_filling();
        assert_eq!(volume.fills(32), 2);
        let shallow = cost(&volume);
        assert!(shallow < DiskTime::from_millis(3), "{shallow}, after {deep}");
        volume.queued = 1;
        assert_eq!(volume.fills(32), 1, "its client keeps less");
    }
}
