//! The machine itself: queues, commands in service, and the plumbing between them, the meter and the policy.

use std::collections::VecDeque;
use std::sync::Arc;

use units::{DiskTime, Duration, Instant, Op, Operation, Sectors};

use self::pending::{Pending, Remainder, Slot};
use crate::accounting::meter::Meter;
use crate::limits::{PREEMPTIONS_MAX, REQUESTS_MAX};
use crate::policy::{self, Dispatch, DispatchRecord, Pick, Policy};
use crate::preempt::{Executor, Step};
use crate::request::{Action, Command, CommandId, Event, Outcome, Reply, Request, VolumeUsage};
use crate::{
    Admission, Contract, Execution, PreemptionStats, Priority, Purpose, Settings, VolumeId,
};
use drive_profile::Profile;

mod deadlines;
mod idle;
pub(crate) mod pending;
mod tasks;
mod volumes;

pub use idle::IdleReason;
pub use tasks::BEST_EFFORT_TASK;

/// No request.
const NO_SLOT: Slot = Slot::MAX;

#[derive(Debug)]
struct Issued {
    id: CommandId,
    slot: Slot,
    operation: Operation,
    purpose: Purpose,
    /// What the policy said; nothing of a command that it was not asked for.
    ticket: Option<DispatchRecord>,
}

/// Whose turn it is, and whether out of turn.
#[derive(Clone, Copy, Debug)]
struct Selection {
    volume: VolumeId,
    urgent: bool,
}

/// A request that has the disk, though no command of it need be in the drive.
#[derive(Clone, Copy, Debug)]
struct ActiveRequest {
    volume: VolumeId,
    slot: Slot,
    /// Whether the disk idles for it, until it has turned.
    idles: bool,
}

/// What a request touches of its volume. With many volumes each is cold when its turn comes: it is one line of
/// cache, and its queue is a chain through the requests themselves.
#[derive(Debug)]
#[repr(align(64))]
struct Volume {
    first: Slot,
    last: Slot,
    account: VolumeUsage,
}

const _: () = assert!(size_of::<Volume>() == 64);
const _: () = assert!(REQUESTS_MAX < NO_SLOT as usize);

/// One disk's scheduler. See the crate's text for how it is driven.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    admission: Admission,
    tasks: Option<tasks::Tasks>,
    policy: Box<dyn Policy>,
    meter: Meter,
    volumes: Vec<Volume>,
    contracts: Vec<Contract>,
    /// Numbers of volumes that were removed, and what those were charged.
    vacant: Vec<VolumeId>,
    removed_volumes_charged: DiskTime,
    pending: Vec<Option<Pending>>,
    free: Vec<Slot>,
    queued: usize,
    issued: Vec<Issued>,
    replies: VecDeque<Reply>,
    next_command: u64,
    wakeup: Option<Instant>,
    now: Instant,
    /// The volumes of a higher class, one entry a request that is queued, in the order in which they came.
    urgent: VecDeque<VolumeId>,
    priorities: Vec<Priority>,
    /// What each volume was charged of the slack: beside the accounts, which fill a cache line.
    slack: Vec<DiskTime>,
    total_slack: DiskTime,
    executor: Option<Box<Executor>>,
    held: Option<ActiveRequest>,
}

impl Engine {
    /// An engine for an idle disk without volumes.
    ///
    /// # Panics
    /// On settings outside their bounds: they were to be refused at the edge.
    pub fn new(settings: Settings, now: Instant) -> Self {
        settings.assert_valid();
        Self {
            settings,
            admission: Admission::with_headroom(settings.headroom),
            tasks: tasks::Tasks::new(&settings),
            policy: policy::make(&settings, now),
            meter: Meter::new(now),
            volumes: Vec::new(),
            contracts: Vec::new(),
            vacant: Vec::new(),
            removed_volumes_charged: DiskTime::ZERO,
            pending: Vec::new(),
            free: Vec::new(),
            queued: 0,
            issued: Vec::new(),
            replies: VecDeque::new(),
            next_command: 0,
            wakeup: None,
            now,
            urgent: VecDeque::new(),
            priorities: Vec::new(),
            slack: Vec::new(),
            total_slack: DiskTime::ZERO,
            executor: None,
            held: None,
        }
    }

    /// The same with what is known of the disk. Without it requests are cut up as the settings say, and the arm is
    /// never sent just in time; nor is it with several commands in the drive, whose order is the drive's, or under
    /// deadlines, which are promised by what single commands take at worst.
    ///
    /// # Panics
    /// On a profile of no disk, or when there are volumes that have deadlines.
    #[must_use]
    pub fn with_profile(mut self, profile: Arc<Profile>) -> Self {
        self.tell(&profile);
        let foretells = self.settings.depth == 1 && !self.has_deadlines();
        self.executor = self.settings.execution.preemptible().map(|how| {
            let jit = how.jit.filter(|_| foretells);
            Box::new(Executor::new(crate::Preemptible { jit, ..*how }, profile))
        });
        self
    }

    /// Puts `volume` into another class, from its next request on. Under deadlines there are no classes.
    pub fn set_priority(&mut self, volume: VolumeId, priority: Priority) {
        self.priorities[volume.0 as usize] = priority;
    }

    /// What preemptible execution has done; `None` if requests are executed whole.
    pub fn preemption_stats(&self) -> Option<PreemptionStats> {
        self.executor.as_ref().map(|executor| executor.done())
    }

    /// Until when the disk idles so that the head arrives as the sector does, as of the last [`Engine::poll`] that
    /// said `None`.
    pub fn rotational_wait_until(&self) -> Option<Instant> {
        self.wakeup.filter(|_| self.held.is_some_and(|held| held.idles))
    }

    /// One turn of the disk, as far as it is known; nothing where that does not matter.
    pub fn rotation_period(&self) -> Duration {
        self.executor.as_ref().map_or(Duration::ZERO, |executor| executor.period())
    }

    /// What is promised on this disk.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// What `volume` is promised.
    pub fn contract(&self, volume: VolumeId) -> Contract {
        self.contracts[volume.0 as usize]
    }

    /// What `volume` has had.
    pub fn usage(&self, volume: VolumeId) -> &VolumeUsage {
        &self.volumes[volume.0 as usize].account
    }

    /// What `volume` has saved up of its reserve, or owes if it is negative; `None` if the policy keeps no
    /// such books.
    ///
    /// # Panics
    /// If time runs backwards.
    pub fn balance(&mut self, volume: VolumeId, now: Instant) -> Option<DiskTime> {
        self.policy.balance(volume, now)
    }

    /// How long the disk has been busy, time in which it was kept waiting for somebody included.
    pub fn busy(&self) -> DiskTime {
        self.meter.busy()
    }

    /// Requests in the engine, queued and in service.
    pub fn requests(&self) -> usize {
        self.pending.len() - self.free.len()
    }

    /// Commands in the drive.
    pub fn running(&self) -> usize {
        self.meter.running()
    }

    /// Requests that no command has been issued for, or not all of them.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Records what happened. Decides nothing.
    ///
    /// # Panics
    /// If time runs backwards, or the event breaks what [`Event`] says of it.
    pub fn handle(&mut self, event: Event, now: Instant) {
        self.settle(now);
        match event {
            Event::Submit(request) => self.submit(request, now),
            Event::Completed { command, outcome } => self.complete(command, outcome, now),
            Event::ContractChanged { volume, contract } => self.change(volume, contract, now),
            Event::VolumeRemoved { volume } => self.remove_volume(volume, now),
            Event::PeriodChanged { period, batch } => self.change_period((period, batch), now),
        }
    }

    /// What to do now; to be asked until it says `None`.
    ///
    /// # Panics
    /// If time runs backwards.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(Action::Reply(reply));
        }
        self.settle(now);
        self.wakeup = None;
        if let Some(slack) = self
            .tasks
            .as_mut()
            .and_then(|tasks| tasks.new_slack(self.settings.deadlines.slack_range))
        {
            self.policy.set_static_slack(slack);
        }
        if self.issued.len() >= self.settings.depth as usize {
            return None;
        }
        match self.choose(now) {
            Ok(turn) => self.execute(turn, now).map(Action::Issue),
            Err(wakeup) => {
                self.wakeup = wakeup;
                None
            }
        }
    }

    /// Whose command goes next; or when to ask again.
    fn choose(&mut self, now: Instant) -> Result<Selection, Option<Instant>> {
        if let Some(held) = &mut self.held {
            held.idles = false;
        }
        if let Some(held) = self.held
            && self.is_non_preemptible(held.slot)
        {
            let urgent = self.is_urgent(held.volume);
            return Ok(Selection { volume: held.volume, urgent });
        }
        let policy = &mut self.policy;
        let urgent = self.urgent.iter().find(|volume| policy.is_eligible(**volume, now)).copied();
        if let Some(volume) = urgent {
            return Ok(Selection { volume, urgent: true });
        }
        // Who is on the way goes there: else two could take turns in setting out.
        if let Some(ActiveRequest { volume, slot, .. }) = self.held
            && self.pending(slot).issued == Sectors::ZERO
            && self.policy.is_eligible(volume, now)
        {
            return Ok(Selection { volume, urgent: false });
        }
        match self.policy.pick(self.issued.len(), now) {
            Pick::Volume(volume) => Ok(Selection { volume, urgent: false }),
            Pick::Wait(until) => Err(Some(until)),
            Pick::Nothing => Err(None),
        }
    }

    /// Whether nobody may go before the rest of this request, whatever comes.
    fn is_non_preemptible(&self, slot: Slot) -> bool {
        let pending = self.pending(slot);
        let begun = pending.issued > Sectors::ZERO;
        match self.settings.execution {
            Execution::Whole { split } => split.is_some() && begun,
            // Whose deadline comes first is all that counts, and whoever is preempted has slack for it.
            Execution::Preemptible(_) if self.has_deadlines() => false,
            Execution::Preemptible(how) => {
                let writes = pending.request.operation.op == Op::Write;
                pending.preemptions >= PREEMPTIONS_MAX || begun && writes && !how.preempt_writes
            }
        }
    }

    /// The next command of the request whose turn it is, if it is time for one.
    fn execute(&mut self, selection: Selection, now: Instant) -> Option<Command> {
        if let Execution::Whole { split: None } = self.settings.execution {
            // Nobody holds the disk between two commands, and nobody is preempted.
            return Some(self.issue(selection, now));
        }
        let (volume, slot) = (selection.volume, self.volumes[selection.volume.0 as usize].first);
        self.set_active_request(volume, slot);
        let Some(executor) = self.executor.as_deref_mut().filter(|_| !selection.urgent) else {
            return Some(self.issue(selection, now));
        };
        let pending = self.pending[slot as usize].as_ref().expect("a head is pending");
        let head = pending.left().piece(&self.settings, Some(executor));
        match executor.step(&head, now) {
            Step::Transfer => Some(self.issue(selection, now)),
            Step::Wait(until) => {
                self.held = Some(ActiveRequest { volume, slot, idles: true });
                self.wakeup = Some(until);
                None
            }
            Step::Seek(to) => {
                Some(self.issue_auxiliary(slot, Operation::seek(to), Purpose::Seek, now))
            }
            Step::Prefetch(extent) => {
                Some(self.issue_auxiliary(slot, Operation::read(extent), Purpose::Prefetch, now))
            }
        }
    }

    /// Notes that the disk is `slot`'s now. Whoever had it before and has not ended has been preempted.
    fn set_active_request(&mut self, volume: VolumeId, slot: Slot) {
        let before = self.held.replace(ActiveRequest { volume, slot, idles: false });
        let Some(before) = before.filter(|before| before.slot != slot) else { return };
        let pending = self.pending_mut(before.slot);
        pending.preemptions = pending.preemptions.saturating_add(1);
        if let Some(executor) = &mut self.executor {
            executor.abandon();
            executor.done_mut().preemptions += 1;
        }
    }

    /// Issues a command that carries out no piece of the request it is for.
    fn issue_auxiliary(
        &mut self,
        slot: Slot,
        operation: Operation,
        purpose: Purpose,
        now: Instant,
    ) -> Command {
        let id = self.next_command();
        let pending = self.pending_mut(slot);
        pending.running += 1;
        let request = pending.request;
        self.meter.issued(id, now);
        if let Some(executor) = &mut self.executor {
            executor.issued(&operation, purpose, now);
        }
        self.issued.push(Issued { id, slot, operation, purpose, ticket: None });
        let volume = request.volume;
        Command { id, request: request.id, volume, operation, offset: Sectors::ZERO, purpose }
    }

    fn next_command(&mut self) -> CommandId {
        let id = CommandId(self.next_command);
        self.next_command += 1;
        id
    }

    /// When to poll again though nothing happens, as of the last [`Engine::poll`] that said `None`.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.wakeup
    }

    /// Panics if the engine's books do not agree. Costs O(volumes): for tests and simulation.
    ///
    /// # Panics
    /// As said.
    pub fn invariants(&self) {
        let running = self.pending.iter().flatten().map(|pending| usize::from(pending.running));
        assert_eq!(running.sum::<usize>(), self.issued.len(), "commands belong to requests");
        assert_eq!(self.issued.len(), self.meter.running(), "the meter sees every command");
        let reserved: u64 = self.contracts.iter().map(|c| u64::from(c.reserve.ppb())).sum();
        assert_eq!(reserved, u64::from(self.admission.reserved().ppb()), "reserves add up");
        let whole = |pending: &&Pending| pending.issued_whole();
        let queued = self.requests() - self.pending.iter().flatten().filter(whole).count();
        assert_eq!(queued, self.queued, "who waits for a command is queued");
        let waits = self.rotational_wait_of().or(self.policy.anticipating());
        if self.issued.is_empty() && waits.is_none() {
            let charged: DiskTime = self.volumes.iter().map(|v| v.account.disk_time).sum();
            let charged = charged + self.removed_volumes_charged + self.policy.uncharged();
            assert_eq!(charged, self.busy(), "what is charged, or will be, is the busy time");
        }
        self.policy.invariants();
    }

    /// Charges the time since the last call, if the disk was kept waiting for somebody in it.
    fn settle(&mut self, now: Instant) {
        assert!(now >= self.now, "time runs backwards: {now} after {}", self.now);
        self.now = now;
        let turns = self.rotational_wait_of();
        let waits = turns.or(self.policy.anticipating());
        let Some(volume) = waits.filter(|_| self.issued.is_empty()) else {
            self.meter.idled(now);
            return;
        };
        let waited = self.meter.lingered(now);
        let account = &mut self.volumes[volume.0 as usize].account;
        account.disk_time += waited;
        if let (Some(_), Some(executor)) = (turns, &mut self.executor) {
            executor.done_mut().rotational_wait += waited;
        } else {
            account.anticipation += waited;
        }
        self.policy.lingered(volume, waited, now);
    }

    /// The volume for whose request the disk idles until it has turned. That is a part of the request's time.
    fn rotational_wait_of(&self) -> Option<VolumeId> {
        self.held.filter(|held| held.idles).map(|held| held.volume)
    }

    fn submit(&mut self, request: Request, now: Instant) {
        assert!(self.requests() < REQUESTS_MAX, "requests are bounded at the edge");
        assert!(request.operation.op != Op::Seek, "nobody asks for a movement");
        let moves = request.operation.op != Op::Flush;
        assert_eq!(moves, !request.operation.extent.is_empty(), "only a flush has no extent");
        let pending = Pending {
            request,
            submitted: now,
            started: None,
            issued: Sectors::ZERO,
            running: 0,
            preemptions: 0,
            owes_flush: self.owes_flush(&request.operation),
            urgent: self.is_urgent(request.volume),
            outcome: Outcome::Done,
            disk_time: DiskTime::ZERO,
            estimate: DiskTime::ZERO,
            behind: None,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            Slot::try_from(self.pending.len() - 1).expect("REQUESTS_MAX fits")
        });
        let urgent = pending.urgent;
        self.pending[slot as usize] = Some(pending);
        self.queued += 1;
        if urgent {
            self.urgent.push_back(request.volume);
        }
        let entry = &mut self.volumes[request.volume.0 as usize];
        let last = core::mem::replace(&mut entry.last, slot);
        let head = if last == NO_SLOT {
            entry.first = slot;
            Some(self.piece_of(slot))
        } else {
            self.pending_mut(last).behind = Some((slot, request.operation));
            None
        };
        self.policy.queued(request.volume, &request.operation, head.as_ref(), now);
    }

    fn is_urgent(&self, volume: VolumeId) -> bool {
        !self.has_deadlines() && self.priorities[volume.0 as usize] == Priority::High
    }

    fn pending(&self, slot: Slot) -> &Pending {
        self.pending[slot as usize].as_ref().expect("a request that is not answered is pending")
    }

    fn pending_mut(&mut self, slot: Slot) -> &mut Pending {
        self.pending[slot as usize].as_mut().expect("a request that is not answered is pending")
    }

    /// Whether a flush is to end this request: its pieces would lose a turn each if all of them were forced.
    fn owes_flush(&self, operation: &Operation) -> bool {
        let forced = operation.op == Op::Write && operation.fua;
        let chunk = self.executor.as_ref().map(|e| e.piece(Op::Write, operation.extent));
        // With several commands in the drive a flush would not wait for them.
        let alone = self.settings.depth == 1 && !self.has_deadlines();
        alone && forced && chunk.is_some_and(|chunk| operation.extent.len > chunk)
    }

    /// The command that the request at `slot` goes on with.
    fn piece_of(&self, slot: Slot) -> Operation {
        self.pending(slot).left().piece(&self.settings, self.executor.as_deref())
    }

    fn issue(&mut self, selection: Selection, now: Instant) -> Command {
        let volume = selection.volume;
        let slot = self.volumes[volume.0 as usize].first;
        let operation = self.piece_of(slot);
        let id = self.next_command();
        let purpose = Purpose::Transfer;
        let pending = self.pending_mut(slot);
        let (request, offset) = (pending.request, pending.issued);
        let command = Command { id, request: request.id, volume, operation, offset, purpose };
        pending.issued += operation.extent.len;
        pending.owes_flush &= operation.op != Op::Flush;
        pending.running += 1;
        pending.preemptions = 0;
        pending.started.get_or_insert(now);
        let ends_request = pending.issued_whole();
        let next = if ends_request {
            let behind = pending.behind.take();
            let urgent = pending.urgent;
            self.end((volume, urgent), behind.map(|(slot, _)| slot));
            // Told from what it asks for: nobody has touched the request itself for long.
            behind.map(|(_, operation)| {
                let owes_flush = self.owes_flush(&operation);
                let left = Remainder { operation, issued: Sectors::ZERO, owes_flush };
                left.piece(&self.settings, self.executor.as_deref())
            })
        } else {
            Some(self.piece_of(slot))
        };
        self.meter.issued(id, now);
        if let Some(executor) = &mut self.executor {
            executor.issued(&operation, purpose, now);
        }
        let urgent = selection.urgent;
        let dispatch =
            Dispatch { volume, command: &operation, ends_request, next: next.as_ref(), urgent };
        let ticket = self.policy.dispatched(dispatch, now);
        self.pending_mut(slot).estimate += ticket.estimate;
        self.issued.push(Issued { id, slot, operation, purpose, ticket: Some(ticket) });
        command
    }

    /// The first request of `volume`'s queue needs no more commands.
    fn end(&mut self, (volume, urgent): (VolumeId, bool), behind: Option<Slot>) {
        self.advance(volume, behind);
        self.held = None;
        if urgent {
            let place = self.urgent.iter().position(|urgent| *urgent == volume);
            self.urgent.remove(place.expect("it was entered when it came"));
        }
    }

    /// Makes `first` the first in `volume`'s queue: the one before it has left.
    fn advance(&mut self, volume: VolumeId, first: Option<Slot>) {
        let entry = &mut self.volumes[volume.0 as usize];
        entry.first = first.unwrap_or(NO_SLOT);
        if first.is_none() {
            entry.last = NO_SLOT;
        }
        self.queued -= 1;
    }

    fn complete(&mut self, command: CommandId, outcome: Outcome, now: Instant) {
        let place = self.issued.iter().position(|issued| issued.id == command);
        let issued = self.issued.swap_remove(place.expect("a completed command was issued"));
        let charge = self.meter.completed(command, now);
        if let Some(executor) = &mut self.executor {
            executor.completed(&issued.operation, issued.purpose, now);
        }
        let pending = self.pending_mut(issued.slot);
        pending.running -= 1;
        pending.disk_time += charge;
        // What was done aside was not asked for: where it failed, the transfer itself will say so.
        if outcome == Outcome::Failed && issued.purpose == Purpose::Transfer {
            pending.outcome = Outcome::Failed;
        }
        let volume = pending.request.volume;
        let ended = pending.issued_whole() && pending.running == 0;
        let slack = issued.ticket.as_ref().is_some_and(|ticket| ticket.slack);
        let charge = if let Some(ticket) = issued.ticket {
            self.policy.completed(volume, ticket, charge, now)
        } else {
            self.policy.lingered(volume, charge, now);
            charge
        };
        self.volumes[volume.0 as usize].account.disk_time += charge;
        if slack {
            self.slack[volume.0 as usize] += charge;
            self.total_slack += charge;
        }
        if ended {
            self.reply(issued.slot, now);
        }
    }

    fn reply(&mut self, slot: Slot, now: Instant) {
        let pending = self.pending[slot as usize].take().expect("it has ended just now");
        self.free.push(slot);
        let Pending { request, outcome, disk_time, estimate, .. } = pending;
        let account = &mut self.volumes[request.volume.0 as usize].account;
        account.requests += 1;
        account.failures += u64::from(outcome == Outcome::Failed);
        if matches!(request.operation.op, Op::Read | Op::Write) && outcome == Outcome::Done {
            account.sectors += request.operation.extent.len;
        }
        account.last_reply = Some(now);
        let waited = pending.started.expect("it was started").since(pending.submitted);
        let (request, volume) = (request.id, request.volume);
        self.replies.push_back(Reply { request, volume, outcome, disk_time, estimate, waited });
    }
}
