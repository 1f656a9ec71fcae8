//! The scheduler of all contracts behind the policy interface.

use core::hint::cold_path;
use std::sync::Arc;

use drive_profile::Profile;
use units::{DiskTime, Duration, Instant, Operation, Sectors};

use super::guard::{is_promised, with_stream_share};
use super::positioning::PositioningCosts;
use super::quantum::{After, End, Quantum, Switch};
use super::rounds::BACKGROUND_CREDIT;
use super::volume::{Depth, Volume};
use super::{Spindle, State};
use crate::limits::DEPTH_MAX;
use crate::policy::deadline::WorstCase;
use crate::policy::interface::{Candidates, Dispatch, DispatchRecord, GuardedAs, Pick, Policy};
use crate::request::DeadlineStats;
use crate::stream::Granularity;
use crate::{Contract, LatencyStats, ServiceDemand, Settings, VolumeId};

/// A command of a sequential run that exceeds the mean by more than this was positioned.
const RUN_SEEK: DiskTime = DiskTime::from_micros(2_500);

impl Spindle {
    /// The state of a volume without requests.
    fn fresh(&self, contract: Contract, now: Instant) -> Volume {
        let contract = with_stream_share(contract);
        if self.positions() {
            Volume::thoughtful(contract, (self.period, self.estimates.random), now)
        } else {
            Volume::new(contract, self.period, now)
        }
    }

    /// The volume that goes next, after the current quantum.
    #[inline(never)]
    fn next_volume(&mut self, ended: Option<VolumeId>, now: Instant) -> Option<VolumeId> {
        if let Some(volume) = self.overdue_deep(now).filter(|volume| Some(*volume) != ended) {
            return Some(volume);
        }
        if let Some(volume) = self.due_shallow(ended, now) {
            return Some(volume);
        }
        if let Some(interrupted) = self.interrupted {
            let is_ready = self.volume(interrupted.volume).account.state() == State::Ready;
            // Slack is what no volume is due for.
            let gives_way = interrupted.from_slack && self.orders.due(now).is_some();
            if is_ready && !gives_way {
                return Some(interrupted.volume);
            }
            if !is_ready {
                self.interrupted = None;
            }
        }
        let due = if self.positions() {
            let next = self.next_deep(now);
            next.or_else(|| self.round_robin.next(&mut self.orders.deadlines, self.period, now))
        } else {
            self.orders.due(now)
        };
        due.or(self.orders.least_used())
    }

    /// Starts a quantum of `volume`, or goes on with its interrupted one.
    #[inline(never)]
    pub(super) fn start_quantum(&mut self, volume: VolumeId, now: Instant) {
        if let Some(before) = self.quantum {
            self.interrupt(before, now);
        }
        let resumed = self.interrupted.take_if(|quantum| quantum.volume == volume);
        let from_slack = self.begins_slack(volume, now);
        let entry = &self.volumes[volume.0 as usize];
        let depth = if entry.is_shallow() { Depth::Shallow } else { Depth::Deep };
        let mut quantum = resumed.unwrap_or(Quantum::new(volume, depth, from_slack));
        let is_again = self.last_served == Some(volume) && resumed.is_none();
        // After slack it has its turn, as if another volume had had the slack.
        let has_turn = self.rounds.after_slack && self.positions();
        if is_again && depth == Depth::Deep && !has_turn {
            quantum.after = After::Own;
        }
        if resumed.is_none() {
            self.note_round(&quantum, now);
        }
        if quantum.depth == Depth::Deep && resumed.is_none() {
            // Another deep volume was chosen: the interrupted one has its turn in the usual order.
            self.interrupted = None;
        }
        if resumed.is_none() && !quantum.from_slack {
            self.round_robin.started(volume);
        }
        self.quantum = Some(quantum);
        self.unlist_shallow(volume);
        let is_near = self.last_served.is_some_and(|last| self.are_interleaved(last, volume));
        if self.last_served != Some(volume) && self.positions() && !is_near {
            self.switch_to(quantum, resumed.is_some(), now);
        }
        self.last_served = Some(volume);
    }

    /// Keeps the quantum that another volume interrupts.
    fn interrupt(&mut self, before: Quantum, now: Instant) {
        let is_ready = self.volume(before.volume).account.state() == State::Ready;
        let is_over = self.is_over(&before) || self.is_in_debt(before, now);
        self.end_quantum(if is_over { End::Length } else { End::Interrupted }, now);
        if is_ready && !is_over && before.depth == Depth::Deep {
            self.interrupted = Some(Quantum { lingering: false, ..before });
        }
    }

    /// The next command of `quantum`'s volume is positioned because of the volume served before.
    fn switch_to(&mut self, quantum: Quantum, resumed: bool, now: Instant) {
        self.forget_switch();
        let volume = quantum.volume;
        let has_company = self.orders.ready() > 1 || self.interrupted.is_some();
        let entry = &mut self.volumes[volume.0 as usize];
        let preempted = core::mem::take(&mut entry.preempted);
        let pays = quantum.depth == Depth::Shallow
            && !quantum.from_slack
            && entry.account.has_reserve()
            && has_company;
        let departure = self.departure.take();
        let early_end = core::mem::take(&mut self.early_end);
        let mut arrival = None;
        if pays {
            entry.times.learn_early_end(early_end);
            let times = &entry.times;
            let parts = (times.arrival(), times.departure(), times.early_end());
            let (there, back, own) = self.ledger.pay(parts, now);
            entry.account.debit(own, now);
            entry.account.spend(own, now, &self.orders.clock);
            arrival = Some(there);
            self.departure = Some((volume, back));
            self.paid = Some((volume, own));
        }
        let shared = !pays && preempted && !resumed;
        let on_run = entry.sequential;
        self.switch = Some(Switch { to: volume, arrival, departure, shared, on_run });
    }

    /// The switch that was expected did not cost anything.
    fn forget_switch(&mut self) {
        let Some(switch) = self.switch.take() else { return };
        if let Some(prepaid) = switch.arrival {
            self.ledger.refund(prepaid);
            self.volume(switch.to).times.learn_arrival(DiskTime::ZERO);
        }
        if let Some((from, prepaid)) = switch.departure {
            self.ledger.refund(prepaid);
            self.volume(from).times.learn_departure(DiskTime::ZERO);
        }
    }

    /// What `volume` is charged for a command that took `took`, apart from shared costs. Learns
    /// from it.
    fn own_cost(&mut self, volume: VolumeId, took: DiskTime) -> DiskTime {
        let distances = self.distances.take();
        let positions = self.positions();
        let switch = self.switch.filter(|switch| switch.to == volume);
        let entry = &mut self.volumes[volume.0 as usize];
        let known = entry.times.service();
        // The first command of many bears the switch: it says nothing of the drive's order.
        let bears_switch = switch.is_some() && entry.running > 2;
        if self.in_drive == entry.running - 1 && !bears_switch {
            entry.drains.learn(entry.running, took);
        }
        // Of several commands in the drive, the first one to complete bears the switch.
        let is_among_several = switch.is_some() && distances.is_none() && positions;
        let among_several = if is_among_several { entry.service_among(known) } else { None };
        if distances.is_none() && among_several.is_none() {
            entry.learn_service(took);
            return took;
        }
        // The commands of a sequential run vary little: what exceeds their mean was observed. The
        // drive may have read ahead, so that a later command bears the switch.
        let run = switch.filter(|switch| switch.on_run).and(known).map(|service| took - service);
        let excess = match run {
            _ if let Some(service) = among_several => {
                entry.demand.service += service;
                took - service
            }
            Some(excess) if excess <= RUN_SEEK => {
                entry.learn_service(took);
                return took;
            }
            Some(excess) => {
                entry.demand.service += took - excess;
                excess
            }
            None => {
                let (actual, own) = distances.expect("it was alone in the drive");
                let excess = self.positioning.excess(actual, own);
                entry.learn_service((took - excess).max(DiskTime::ZERO));
                self.positioning.learn(&mut entry.base, actual, took);
                excess
            }
        };
        let Some(switch) = switch else { return took };
        self.switch_cost(volume, switch, (took, excess))
    }

    /// What `volume` is charged for its first command after a switch, which took `took`, and
    /// `excess` more than without it. It is kept apart from the code of every command.
    #[inline(never)]
    fn switch_cost(
        &mut self,
        volume: VolumeId,
        switch: Switch,
        (took, excess): (DiskTime, DiskTime),
    ) -> DiskTime {
        self.switch = None;
        let mut charged = took;
        if let Some(prepaid) = switch.arrival {
            charged = self.ledger.arises(prepaid, charged);
            self.volume(volume).times.learn_arrival(excess);
        }
        if let Some((from, prepaid)) = switch.departure {
            charged = self.ledger.arises(prepaid, charged);
            if switch.arrival.is_none() {
                self.volume(from).times.learn_departure(excess);
            }
        }
        if switch.shared && switch.departure.is_none() {
            let cost = excess.max(DiskTime::ZERO).min(charged);
            charged = charged - cost + self.ledger.share_return(cost);
        }
        charged
    }

    /// The selector: the volume that goes next, as far as shares are concerned.
    pub(super) fn select(&mut self, running: usize, now: Instant) -> Pick {
        self.scale_back(now);
        self.release(now);
        self.places.expire(now);
        self.joint = None;
        if running > 0 && self.keeps_to_one(now) {
            return Pick::Nothing;
        }
        let mut ended = None;
        if let Some(quantum) = self.quantum {
            if self.may_be_interrupted(quantum, now)
                && let Some(volume) = self.due_shallow(None, now)
                && self.may_interrupt(quantum, volume, now)
            {
                cold_path();
                return self.after_drain(volume, running);
            }
            if let Some(volume) = self.shallow_in_arrears(quantum, now) {
                cold_path();
                return self.after_drain(volume, running);
            }
            match self.continue_quantum(quantum, running, now) {
                Ok(pick) => {
                    if let (Pick::Wait(_), Some(quantum)) = (pick, &mut self.quantum) {
                        cold_path();
                        quantum.lingering = true;
                    }
                    return pick;
                }
                Err(end) if self.orders.has_ready() => {
                    self.end_quantum(end, now);
                    ended = Some(quantum.volume);
                }
                Err(_) => {}
            }
        }
        match self.next_volume(ended, now) {
            Some(volume) => {
                let state = self.volume(volume).account.state();
                assert_eq!(state, State::Ready, "only a ready volume is picked");
                self.after_drain(volume, running)
            }
            None => self.orders.next_release().map_or(Pick::Nothing, Pick::Wait),
        }
    }
}

impl Policy for Spindle {
    fn add_volume(&mut self, contract: Contract, now: Instant) {
        let fresh = self.fresh(contract, now);
        let volume = VolumeId(u32::try_from(self.volumes.len()).expect("VOLUMES_MAX fits"));
        self.volumes.push(fresh);
        self.note_contract(volume, &contract);
        self.round_robin.add();
        if is_promised(&contract) {
            self.replace_promises(volume, contract, now);
        }
    }

    fn reset_volume(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        let state = self.volume(volume).account.state();
        assert_eq!(state, State::Empty, "a removed volume has no request");
        assert_eq!(self.volume(volume).running, 0, "nor a command in flight");
        if self.quantum_of(volume).is_some() {
            self.end_quantum(End::Interrupted, now);
        }
        self.interrupted.take_if(|quantum| quantum.volume == volume);
        self.forget_switch();
        if let Some((from, prepaid)) = self.departure.take_if(|(from, _)| *from == volume) {
            debug_assert_eq!(from, volume, "a departure is the removed volume's");
            self.ledger.refund(prepaid);
        }
        self.last_served.take_if(|last| *last == volume);
        self.round_robin.reset(volume);
        let fresh = self.fresh(contract, now);
        *self.volume(volume) = fresh;
        self.note_contract(volume, &contract);
        self.guard.forget(volume, now);
        if is_promised(&contract) {
            self.replace_promises(volume, contract, now);
        }
    }

    fn change_period(&mut self, settings: &Settings, now: Instant) {
        let period = settings.period;
        assert!(settings.batch <= settings.period, "a batch lasts a period at most");
        (self.period, self.batch_max) = (period, settings.batch.into());
        self.ledger.change_period(period);
        for index in 0..self.volumes.len() {
            let positions = self.positions();
            let entry = &mut self.volumes[index];
            entry.account.change_period(period, now);
            entry.update_depth(positions);
            self.place(VolumeId(u32::try_from(index).expect("VOLUMES_MAX fits")), now);
        }
    }

    fn change_contract(&mut self, volume: VolumeId, contract: Contract, now: Instant) {
        let period = self.period;
        let own_part = self.ledger.own_part();
        let entry = self.volume(volume);
        entry.account.change_contract(with_stream_share(contract), period, now);
        entry.is_background = contract.is_background;
        entry.update_quantum(own_part);
        self.note_contract(volume, &contract);
        if self.guard.has_promises_of(volume, &contract) {
            self.guard.set_reserved(volume, !contract.reserve.is_none());
        } else {
            self.replace_promises(volume, contract, now);
        }
        self.place(volume, now);
    }

    fn set_profile(&mut self, profile: &Arc<Profile>) {
        assert!(self.volumes.is_empty(), "a profile is set before volumes are added");
        self.worst = WorstCase::Profile(Arc::clone(profile));
        self.positioning = PositioningCosts::of_profile(profile);
    }

    fn set_static_slack(&mut self, slack: DiskTime) {
        self.guard.set_static_slack(slack);
    }

    fn change_granularity(&mut self, granularity: Granularity, now: Instant) -> bool {
        self.change_promised(granularity, now)
    }

    fn deadline_stats(&self, volume: VolumeId) -> Option<DeadlineStats> {
        self.guard.stats(volume)
    }

    fn latency_stats(&self, volume: VolumeId) -> Option<LatencyStats> {
        self.guard.latency_stats(volume)
    }

    fn gather(&self, volume: VolumeId) -> Option<Sectors> {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        self.guard.gathered(volume).map(|command| command.extent.len)
    }

    fn goes_ahead(&mut self, volume: VolumeId, operation: &Operation, now: Instant) -> bool {
        self.guard.covers(volume, operation, now)
    }

    fn head_changed(&mut self, volume: VolumeId, head: &Operation, now: Instant) {
        let entry = self.volume(volume);
        assert!(entry.head.is_some(), "a head is a queued request's");
        entry.head = Some(*head);
        entry.sequential = entry.continues(head);
        if self.guard.has_promise(volume) {
            self.update_head(volume, now);
        }
    }

    fn queued(
        &mut self,
        volume: VolumeId,
        asked: &Operation,
        head: Option<&Operation>,
        now: Instant,
    ) {
        self.note_arrival(volume, asked, now);
        let (linger, run_linger) = (self.linger, self.run_linger());
        let (is_current, positions) = (self.quantum_of(volume).is_some(), self.positions());
        let entry = self.volume(volume);
        let was_idle = entry.outstanding() == 0;
        let depth = entry.depth;
        entry.queued += 1;
        entry.kept.learn(entry.outstanding());
        if was_idle && entry.last_completion > Instant::ZERO {
            debug_assert!(now >= entry.last_completion, "no completion is in the future");
            entry.note_pause(now.since(entry.last_completion), linger);
        }
        if let Some(head) = head {
            entry.arrives_within_linger =
                entry.running > 0 || now.since(entry.last_completion) <= run_linger;
            entry.sequential = entry.continues(head);
            entry.head = Some(*head);
            entry.account.set_ready();
            entry.waiting_since = now;
        }
        entry.update_depth(positions);
        if was_idle && entry.is_background {
            cold_path();
            let most = entry.account.reserved_of(BACKGROUND_CREDIT);
            entry.account.forfeit_above(most, now);
        } else if was_idle && entry.is_shallow() && entry.times.service().is_some() {
            let most = entry.credit_max().max(entry.idle_level);
            entry.account.forfeit_above(most, now);
        }
        if is_current && let Some(quantum) = &mut self.quantum {
            cold_path();
            quantum.lingering = false;
        }
        // A further request changes no deadline; when its volume is due is looked at again.
        if head.is_some() || depth != self.volume(volume).depth {
            self.place(volume, now);
        }
        if !self.guard.is_vacuous() {
            cold_path();
            self.on_promised_arrival(volume, asked, now);
        }
    }

    fn pick(&mut self, running: usize, now: Instant) -> Pick {
        debug_assert!(running >= self.in_drive as usize, "auxiliary commands are not dispatched");
        if self.guard.is_vacuous() { self.select(running, now) } else { self.guarded_pick(now) }
    }

    fn ends_hold(&mut self, volume: VolumeId, now: Instant) -> bool {
        self.guard.is_vacuous() && self.ends_early(volume, now)
    }

    fn candidates(&mut self, volume: VolumeId, now: Instant) -> Candidates {
        self.joint_candidates(volume, now)
    }

    fn changes_to(&self, volume: VolumeId) -> bool {
        debug_assert!((volume.0 as usize) < self.volumes.len(), "the volume exists");
        let last = self.last_served;
        let existed = |last: VolumeId| (last.0 as usize) < self.volumes.len();
        debug_assert!(last.is_none_or(existed), "so did that");
        last.is_some_and(|last| last != volume)
    }

    fn time_left(&self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        let quantum = self.quantum_of(volume).filter(|_| self.has_deep_rival(volume))?;
        let spent = quantum.spent + self.charge_inside(&quantum);
        let left = self.length(&quantum) - spent;
        let until_other = self.until_other(quantum, now).unwrap_or(left);
        Some(left.min(until_other).max(DiskTime::ZERO))
    }

    fn divides_drive(&self) -> bool {
        self.divides() && self.places.are_shared()
    }

    fn fills_drive(&self, now: Instant) -> bool {
        debug_assert!(self.queue_depth > 0, "a drive takes a command");
        self.takes_several(now)
    }

    fn dispatched(&mut self, dispatch: Dispatch<'_>, now: Instant) -> DispatchRecord {
        let record = if self.guard.is_vacuous() {
            self.dispatch_selected(dispatch, now)
        } else {
            cold_path();
            self.guarded_dispatch(dispatch, now)
        };
        self.in_drive += 1;
        debug_assert!(self.in_drive <= DEPTH_MAX, "commands in flight are bounded");
        record
    }

    fn completed(
        &mut self,
        volume: VolumeId,
        record: DispatchRecord,
        took: DiskTime,
        now: Instant,
    ) -> DiskTime {
        self.scale_back(now);
        let DispatchRecord { estimate, from_slack, class, guarded, joins, .. } = record;
        assert!(self.in_drive > 0, "a completed command was dispatched");
        self.in_drive -= 1;
        self.guarded_completion(volume, (guarded, took), now);
        if guarded == (GuardedAs::Alone { is_real: true }) {
            cold_path();
            return self.complete_real(volume, took, now);
        }
        self.estimator.learn(class, took);
        let is_flush = self.volume(volume).is_flushed;
        let early_end = self.holds.completed((volume, took), (record.holds, is_flush), now);
        let own = self.own_cost(volume, took);
        let own = self.without_early_end(volume, own, early_end);
        let own = self.without_emptying(volume, own);
        let actual = self.ledger.charge(own);
        self.settle(volume, (from_slack, joins), (estimate, actual), now);
        if let Some(quantum) = &mut self.quantum
            && (quantum.volume == volume || joins)
        {
            quantum.last = actual;
        }
        self.note_time(volume, now.since(record.at), now);
        self.leave_drive(volume, now);
        self.place(volume, now);
        let paid = self.paid.take_if(|(payer, _)| *payer == volume);
        let paid = paid.map_or(DiskTime::ZERO, |(_, paid)| paid);
        self.ledger.reported(paid);
        actual + paid
    }

    fn lends_wait(&self, volume: VolumeId, urgent: bool) -> bool {
        self.may_lend(volume, urgent)
    }

    fn counts_lent(&self, volume: VolumeId) -> bool {
        self.is_unswitched(volume)
    }

    fn dispatched_freeblock(&mut self, dispatch: Dispatch<'_>, now: Instant) -> DispatchRecord {
        self.dispatch_freeblock(dispatch, now)
    }

    fn completed_freeblock(&mut self, volume: VolumeId, took: DiskTime, now: Instant) {
        self.complete_freeblock(volume, took, now);
    }

    fn uncharged(&self) -> DiskTime {
        self.ledger.uncharged()
    }

    fn is_eligible(&mut self, volume: VolumeId, now: Instant) -> bool {
        self.release(now);
        if !self.guard.is_vacuous() && !self.is_permitted(volume, now) {
            return false;
        }
        self.volume(volume).account.state() == State::Ready
    }

    fn balance(&mut self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        Some(self.volume(volume).account.reserve_level(now))
    }

    fn service_demand(&self, volume: VolumeId, now: Instant) -> Option<ServiceDemand> {
        let entry = &self.volumes[volume.0 as usize];
        let ServiceDemand { service, think } = entry.demand;
        debug_assert!(service >= DiskTime::ZERO, "service times are not negative: {service}");
        let is_thinking = entry.outstanding() == 0 && entry.last_completion > Instant::ZERO;
        debug_assert!(now >= entry.last_completion, "no completion is in the future");
        let pause = if is_thinking { now.since(entry.last_completion) } else { Duration::ZERO };
        Some(ServiceDemand { service, think: think + pause })
    }

    fn anticipating(&self) -> Option<VolumeId> {
        self.quantum.filter(|quantum| quantum.lingering).map(|quantum| quantum.volume)
    }

    fn idle_charged(&mut self, volume: VolumeId, idle: DiskTime, now: Instant) {
        debug_assert!(idle >= DiskTime::ZERO, "idle time is not negative: {idle}");
        let from_slack = self.is_slack(volume, now);
        self.settle(volume, (from_slack, false), (DiskTime::ZERO, idle), now);
        self.place(volume, now);
    }

    fn invariants(&self) {
        self.ledger.invariants();
        self.guard.invariants();
        self.places.invariants();
        for (volume, entry) in (0_u32..).map(VolumeId).zip(&self.volumes) {
            self.orders.invariants_of(volume, &entry.account);
            assert!(entry.running <= DEPTH_MAX, "commands in flight are bounded");
            let is_ready = entry.account.state() == State::Ready;
            let is_shallow = entry.is_shallow() && entry.account.has_reserve();
            let is_current = self.quantum_of(volume).is_some();
            let is_listed = self.shallow.contains(volume);
            assert_eq!(is_listed, is_ready && is_shallow && !is_current, "shallow ones are listed");
            assert!(is_listed || !entry.is_short_listed, "what is counted is listed");
        }
        if let Some(quantum) = self.quantum {
            assert!((quantum.volume.0 as usize) < self.volumes.len(), "a quantum is a volume's");
            let state = self.volumes[quantum.volume.0 as usize].account.state();
            assert!(!quantum.lingering || state == State::Empty, "lingering waits for a request");
        }
        if let (Some(quantum), Some(interrupted)) = (self.quantum, self.interrupted) {
            assert_ne!(quantum.volume, interrupted.volume, "no volume interrupts itself");
        }
    }
}
