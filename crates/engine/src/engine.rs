//! The machine itself: queues, commands in service, and the plumbing between them, the meter and the policy.

use std::collections::VecDeque;

use units::{DiskTime, Instant, Op, Operation, Sectors};

use crate::limits::{REQUESTS_MAX, TRIM_MAX, VOLUMES_MAX};
use crate::meter::Meter;
use crate::policy::{self, Dispatch, Pick, Policy, Ticket};
use crate::request::{Account, Action, Command, CommandId, Event, Outcome, Reply, Request};
use crate::{Admission, Contract, Refusal, Settings, VolumeId};

/// A request's place in the engine.
type Slot = u32;

/// No request.
const NOBODY: Slot = Slot::MAX;

#[derive(Debug)]
#[repr(align(128))]
struct Pending {
    request: Request,
    submitted: Instant,
    started: Option<Instant>,
    /// Sectors for which commands have been issued.
    issued: Sectors,
    /// Commands in the drive.
    running: u32,
    outcome: Outcome,
    disk_time: DiskTime,
    estimate: DiskTime,
    /// The request behind it in its volume's queue, and what that one asks for: with it the next head is known
    /// without a look at a request that nobody has touched for long.
    behind: Option<(Slot, Operation)>,
}

const _: () = assert!(size_of::<Option<Pending>>() == 128);

impl Pending {
    /// Whether commands have been issued for all of it. A flush, which has no sectors, is issued with its only
    /// command.
    fn issued_whole(&self) -> bool {
        self.started.is_some() && self.issued == self.request.operation.extent.len
    }
}

#[derive(Debug)]
struct Issued {
    id: CommandId,
    slot: Slot,
    ticket: Ticket,
}

/// What a request touches of its volume. With many volumes each is cold when its turn comes: it is one line of
/// cache, and its queue is a chain through the requests themselves.
#[derive(Debug)]
#[repr(align(64))]
struct Volume {
    first: Slot,
    last: Slot,
    account: Account,
}

const _: () = assert!(size_of::<Volume>() == 64);
const _: () = assert!(REQUESTS_MAX < NOBODY as usize);

/// One disk's scheduler. See the crate's text for how it is driven.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    admission: Admission,
    policy: Box<dyn Policy>,
    meter: Meter,
    volumes: Vec<Volume>,
    contracts: Vec<Contract>,
    pending: Vec<Option<Pending>>,
    free: Vec<Slot>,
    queued: usize,
    issued: Vec<Issued>,
    replies: VecDeque<Reply>,
    next_command: u64,
    wakeup: Option<Instant>,
    now: Instant,
}

impl Engine {
    /// An engine for an idle disk without volumes.
    ///
    /// # Panics
    /// On settings outside their bounds: they were to be refused at the edge.
    pub fn new(settings: Settings, now: Instant) -> Self {
        settings.assert_sane();
        Self {
            settings,
            admission: Admission::keeping(settings.unreserved),
            policy: policy::make(&settings, now),
            meter: Meter::new(now),
            volumes: Vec::new(),
            contracts: Vec::new(),
            pending: Vec::new(),
            free: Vec::new(),
            queued: 0,
            issued: Vec::new(),
            replies: VecDeque::new(),
            next_command: 0,
            wakeup: None,
            now,
        }
    }

    /// Adds a volume, if its contract can be kept beside the others.
    ///
    /// # Errors
    /// See [`Refusal`]; nothing is changed then.
    ///
    /// # Panics
    /// Past [`VOLUMES_MAX`].
    pub fn add_volume(&mut self, contract: Contract, now: Instant) -> Result<VolumeId, Refusal> {
        assert!(self.volumes.len() < VOLUMES_MAX, "volumes are bounded at the edge");
        self.admission.admit(contract)?;
        let volume = VolumeId(u32::try_from(self.volumes.len()).expect("VOLUMES_MAX fits"));
        self.volumes.push(Volume { first: NOBODY, last: NOBODY, account: Account::default() });
        self.contracts.push(contract);
        self.policy.add(contract, now);
        Ok(volume)
    }

    /// Whether `volume`'s contract could be changed to this one. Only after a yes is
    /// [`Event::ContractChanged`] to be sent.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn admits(&self, volume: VolumeId, contract: Contract) -> Result<(), Refusal> {
        let mut admission = self.admission;
        admission.release(self.contracts[volume.0 as usize]);
        admission.admit(contract)
    }

    /// How many volumes there are.
    pub fn volumes(&self) -> usize {
        self.volumes.len()
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
    pub fn account(&self, volume: VolumeId) -> &Account {
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
            Event::ContractChanged { volume, contract } => {
                let entry = &mut self.contracts[volume.0 as usize];
                self.admission.release(core::mem::replace(entry, contract));
                self.admission.admit(contract).expect("a change is sent after a yes");
                self.policy.change(volume, contract, now);
            }
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
        if self.issued.len() >= self.settings.depth as usize {
            return None;
        }
        match self.policy.pick(self.issued.len(), now) {
            Pick::Volume(volume) => Some(Action::Issue(self.issue(volume, now))),
            Pick::Wait(until) => {
                self.wakeup = Some(until);
                None
            }
            Pick::Nothing => None,
        }
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
        let running: u32 = self.pending.iter().flatten().map(|pending| pending.running).sum();
        assert_eq!(running as usize, self.issued.len(), "commands belong to requests");
        assert_eq!(self.issued.len(), self.meter.running(), "the meter sees every command");
        let reserved: u64 = self.contracts.iter().map(|c| u64::from(c.reserve.ppb())).sum();
        assert_eq!(reserved, u64::from(self.admission.reserved().ppb()), "reserves add up");
        let whole = |pending: &&Pending| pending.issued_whole();
        let queued = self.requests() - self.pending.iter().flatten().filter(whole).count();
        assert_eq!(queued, self.queued, "who waits for a command is queued");
        if self.issued.is_empty() && self.policy.lingers_for().is_none() {
            let charged: DiskTime = self.volumes.iter().map(|v| v.account.disk_time).sum();
            let charged = charged + self.policy.unassigned();
            assert_eq!(charged, self.busy(), "what is charged, or will be, is the busy time");
        }
        self.policy.invariants();
    }

    /// Charges the time since the last call, if the disk was kept waiting for somebody in it.
    fn settle(&mut self, now: Instant) {
        assert!(now >= self.now, "time runs backwards: {now} after {}", self.now);
        self.now = now;
        let Some(volume) = self.policy.lingers_for().filter(|_| self.issued.is_empty()) else {
            self.meter.idled(now);
            return;
        };
        let waited = self.meter.lingered(now);
        let account = &mut self.volumes[volume.0 as usize].account;
        account.disk_time += waited;
        account.lingered += waited;
        self.policy.lingered(volume, waited, now);
    }

    fn submit(&mut self, request: Request, now: Instant) {
        assert!(self.requests() < REQUESTS_MAX, "requests are bounded at the edge");
        let moves = request.operation.op != Op::Flush;
        assert_eq!(moves, !request.operation.extent.is_empty(), "only a flush has no extent");
        let pending = Pending {
            request,
            submitted: now,
            started: None,
            issued: Sectors::ZERO,
            running: 0,
            outcome: Outcome::Done,
            disk_time: DiskTime::ZERO,
            estimate: DiskTime::ZERO,
            behind: None,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            Slot::try_from(self.pending.len() - 1).expect("REQUESTS_MAX fits")
        });
        self.pending[slot as usize] = Some(pending);
        self.queued += 1;
        let entry = &mut self.volumes[request.volume.0 as usize];
        let last = core::mem::replace(&mut entry.last, slot);
        let head = if last == NOBODY {
            entry.first = slot;
            Some(self.piece(request.operation, Sectors::ZERO))
        } else {
            self.pending_mut(last).behind = Some((slot, request.operation));
            None
        };
        self.policy.queued(request.volume, head.as_ref(), now);
    }

    fn pending(&self, slot: Slot) -> &Pending {
        self.pending[slot as usize].as_ref().expect("a request that is not answered is pending")
    }

    fn pending_mut(&mut self, slot: Slot) -> &mut Pending {
        self.pending[slot as usize].as_mut().expect("a request that is not answered is pending")
    }

    /// The command that `operation` goes on with when so much of it has been issued.
    fn piece(&self, operation: Operation, issued: Sectors) -> Operation {
        let piece_max = match operation.op {
            Op::Trim => TRIM_MAX,
            Op::Read | Op::Write | Op::Flush | Op::WriteZeroes => self.settings.command_max,
        };
        let (_, rest) = operation.extent.split_at(issued);
        Operation { extent: rest.split_at(piece_max).0, ..operation }
    }

    fn issue(&mut self, volume: VolumeId, now: Instant) -> Command {
        let slot = self.volumes[volume.0 as usize].first;
        let pending = self.pending(slot);
        let (request, offset) = (pending.request, pending.issued);
        let operation = self.piece(request.operation, offset);
        let id = CommandId(self.next_command);
        self.next_command += 1;
        let command = Command { id, request: request.id, volume, operation, offset };
        let pending = self.pending_mut(slot);
        pending.issued += operation.extent.len;
        pending.running += 1;
        pending.started.get_or_insert(now);
        let ends_request = pending.issued_whole();
        let next = if ends_request {
            let behind = pending.behind.take();
            self.advance(volume, behind.map(|(slot, _)| slot));
            behind.map(|(_, operation)| self.piece(operation, Sectors::ZERO))
        } else {
            Some(self.piece(request.operation, offset + operation.extent.len))
        };
        self.meter.issued(id, now);
        let dispatch = Dispatch { volume, command: &operation, ends_request, next: next.as_ref() };
        let ticket = self.policy.dispatched(dispatch, now);
        self.pending_mut(slot).estimate += ticket.estimate;
        self.issued.push(Issued { id, slot, ticket });
        command
    }

    /// Makes `first` the first in `volume`'s queue: the one before it has left.
    fn advance(&mut self, volume: VolumeId, first: Option<Slot>) {
        let entry = &mut self.volumes[volume.0 as usize];
        entry.first = first.unwrap_or(NOBODY);
        if first.is_none() {
            entry.last = NOBODY;
        }
        self.queued -= 1;
    }

    fn complete(&mut self, command: CommandId, outcome: Outcome, now: Instant) {
        let place = self.issued.iter().position(|issued| issued.id == command);
        let issued = self.issued.swap_remove(place.expect("a completed command was issued"));
        let charge = self.meter.completed(command, now);
        let pending = self.pending_mut(issued.slot);
        pending.running -= 1;
        pending.disk_time += charge;
        if outcome == Outcome::Failed {
            pending.outcome = Outcome::Failed;
        }
        let volume = pending.request.volume;
        let ended = pending.issued_whole() && pending.running == 0;
        let charge = self.policy.completed(volume, issued.ticket, charge, now);
        self.volumes[volume.0 as usize].account.disk_time += charge;
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
