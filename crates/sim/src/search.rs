//! A search for missed deadlines: the real engine over an abstract disk, with admitted task sets,
//! arrival times and best-effort loads generated from seeds.
//!
//! The disk takes one millisecond for each sector. In some cases a command that does not continue
//! where the last one ended also takes a positioning time, and with
//! [`SearchParameters::chunks`] one that does takes a shorter one; in some cases commands take
//! less by a random amount. The disk has no geometry that could hide an error of the scheduler.
//! Deadlines
//! are computed here a second time, from the arrivals alone, and compared with the engine's.
//!
//! Beside shares the drive takes several commands in some cases, and serves them in any order.
//!
//! Half of the cases are adversarial: all streams release together just after a best-effort
//! request, or a request of the stream with the longest block, has begun.
//!
//! Under a policy that keeps shares beside streams, contracts, priorities and the period change in
//! a case, volumes come and go, and the oracle of reserves checks each volume that has one.

use engine::{
    Action, ChooserName, Command, Contract, DeadlineStats, Engine, Event, Execution, Outcome,
    Request, RequestId, Settings, VolumeId,
};
use units::{DiskTime, Duration, Extent, Instant, Lba, Operation, Sectors, Share};

use self::client::{BLOCKS_MAX, Client, Kind, stream_client};
use self::shares::{Changes, Shares};
use self::tasks::{TaskDistribution, generate_shares};
pub use self::terms::SearchParameters;
use self::terms::{STREAM, ms, one_of};
use crate::SeededRng;

mod changes;
mod client;
mod reserves;
mod shares;
mod tasks;
mod terms;

const TASKS_MAX: u64 = 10;

/// Where the first stream begins whose requests follow each other, and the sectors of each.
const FOLLOWING: u64 = 1 << 32;

/// The result of one case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// The number of admitted streams.
    pub streams: u64,
    /// Deadlines met and missed.
    pub kept: DeadlineStats,
    /// The number of admitted bounded latencies.
    pub bounded: u64,
    /// The requests that they cover.
    pub covered: u64,
    /// Those answered late.
    pub late: u64,
    /// The number of best-effort requests answered.
    pub best_effort: u64,
    /// The sum of their latencies.
    pub latency: Duration,
    /// Checks of volumes with a reserve that had been backlogged for two periods or more.
    pub promises: u64,
    /// Changes of contracts, priorities and periods, and volumes that came or left.
    pub changes: u64,
}

/// A running case.
struct Case {
    engine: Engine,
    now: Instant,
    clients: Vec<Client>,
    /// For each request its client, its arrival, and its deadline if it is known.
    sent: Vec<(usize, Instant, Option<Instant>)>,
    running: Option<(Command, Instant)>,
    /// The commands in the drive behind that one, and what decides in which order it serves them.
    waiting: Vec<Command>,
    order: SeededRng,
    /// The request of the last command: its next command needs no positioning.
    last: Option<RequestId>,
    positioning: u64,
    overhead: u64,
    /// Whether commands take less than their worst case.
    shorter: bool,
    rng: SeededRng,
    missed: u64,
    result: SearchResult,
    /// A stream that joins later. Below it: a volume that changes to best effort.
    later: Option<(Instant, Client, Contract)>,
    leaves: Option<(Instant, VolumeId)>,
    /// Under a policy that keeps shares beside streams.
    shares: Option<Shares>,
    changes: Option<Changes>,
}

impl Case {
    fn new(seed: u64, parameters: SearchParameters) -> Self {
        let mut rng = SeededRng::new(seed, STREAM);
        let pieces = SeededRng::new(seed, STREAM + 4);
        let tasks = TaskDistribution::new(&mut rng, pieces, parameters.chunks);
        let mut settings = tasks.settings(parameters, &mut rng);
        let mut order = SeededRng::new(seed, STREAM + 3);
        if !settings.policy.has_deadlines() {
            settings.depth = one_of(&mut order, &[1, 1, 2, 3, 8]);
            if settings.execution == (Execution::Whole { split: None }) && order.below(2) == 0 {
                settings.chooser = ChooserName::Sweep;
            }
        }
        let shorter = rng.below(3) == 0;
        let mut case = Self {
            engine: Engine::new(settings, Instant::ZERO),
            now: Instant::ZERO,
            clients: Vec::new(),
            sent: Vec::new(),
            running: None,
            waiting: Vec::new(),
            order,
            last: None,
            positioning: tasks.positioning,
            overhead: tasks.overhead,
            shorter,
            missed: 0,
            result: SearchResult::default(),
            later: None,
            leaves: None,
            rng: rng.clone(),
            shares: None,
            changes: None,
        };
        if !settings.policy.has_deadlines() {
            case.shares = Some(Shares::new(&settings));
        }
        case.generate_streams(&tasks, &mut rng);
        if !settings.policy.has_deadlines() {
            case.generate_bounded(&tasks, &mut rng);
        }
        case.generate_load(&settings, &mut rng);
        if !settings.policy.has_deadlines() && tasks.chunk.is_none() {
            case.generate_requests(SeededRng::new(seed, STREAM + 1));
        }
        if !settings.policy.has_deadlines() {
            case.changes = Some(Changes::new(SeededRng::new(seed, STREAM + 2), tasks));
            case.shares_changed();
        }
        // Guarantees begin with the first decision.
        case.poll();
        case
    }

    fn generate_streams(&mut self, tasks: &TaskDistribution, rng: &mut SeededRng) {
        let wanted = 1 + rng.below(TASKS_MAX);
        let together = rng.below(2) == 0;
        let start = Instant::ZERO + ms(20);
        let mut longest: Option<(Duration, usize)> = None;
        for _ in 0..wanted * 2 {
            if self.result.streams == wanted {
                break;
            }
            let Some(stream) = tasks.stream(rng) else { continue };
            let contract = Contract::stream(stream);
            let Ok(volume) = self.engine.add_volume(contract, Instant::ZERO) else { continue };
            let offset = if together { Duration::ZERO } else { ms(rng.below(40)) };
            let client = stream_client(volume, stream, start + offset, rng);
            if longest.is_none_or(|(period, _)| period < stream.task.period()) {
                longest = Some((stream.task.period(), self.clients.len()));
            }
            self.clients.push(client);
            self.result.streams += 1;
        }
        // The stream with the longest period releases 1 ns before all others.
        if let Some((_, index)) = longest.filter(|_| together && rng.below(2) == 0) {
            self.clients[index].next = start.saturating_sub(Duration::from_nanos(1));
        }
        if rng.below(6) == 0
            && let Some(stream) = tasks.stream(rng)
        {
            let at = start + ms(rng.below(300));
            let mut client = stream_client(VolumeId(0), stream, at, rng);
            if let Kind::Stream { expected, .. } = &mut client.kind {
                *expected = None;
            }
            self.later = Some((at, client, Contract::stream(stream)));
            if !self.clients.is_empty() && rng.below(2) == 0 {
                let leaves = at.saturating_sub(Duration::from_nanos(rng.below(2)));
                self.leaves = Some((leaves, self.clients[0].volume));
            }
        }
    }

    /// Half of the streams ask for their blocks in other requests, under a policy that promises
    /// bytes.
    fn generate_requests(&mut self, mut rng: SeededRng) {
        let later = self.later.as_mut().map(|(_, client, _)| client);
        for client in self.clients.iter_mut().chain(later) {
            if matches!(client.kind, Kind::Stream { .. }) && rng.below(2) == 0 {
                client.requests = one_of(&mut rng, &[1, 1, 2, 3, 8]);
                client.blocks = one_of(&mut rng, &[1, 1, 2, 3]);
            }
        }
    }

    /// Generates volumes with a bounded latency.
    fn generate_bounded(&mut self, tasks: &TaskDistribution, rng: &mut SeededRng) {
        for _ in 0..rng.below(6) {
            let Some(latency) = tasks.latency(rng) else { continue };
            let contract = Contract { latency: Some(latency), ..Contract::BEST_EFFORT };
            let contract =
                if rng.below(3) == 0 { generate_shares(contract, rng) } else { contract };
            let Ok(volume) = self.engine.add_volume(contract, Instant::ZERO) else { continue };
            let full = latency.interval().as_nanos() * u64::from(latency.burst());
            let (twice, level) = (rng.below(2) == 0, Some((full, Instant::ZERO)));
            let kind = Kind::Bounded { contract: latency, twice, level };
            let next = Instant::ZERO + ms(20 + rng.below(2) * rng.below(40));
            let left = 5 + rng.below(BLOCKS_MAX);
            let own = SeededRng::new(rng.below(u64::MAX), STREAM);
            self.clients.push(Client::new(volume, kind, (next, left), own));
            self.result.bounded += 1;
        }
    }

    /// Generates best-effort volumes and volumes with reserves.
    fn generate_load(&mut self, settings: &Settings, rng: &mut SeededRng) {
        let range = settings.deadlines.slack_range;
        let slack = self.engine.tasks().map_or(DiskTime::ZERO, |tasks| tasks.slack_in(range));
        let slack = u64::try_from(slack.as_nanos() / 1_000_000).unwrap_or(0);
        let fits = slack.saturating_sub(self.positioning).clamp(1, 2_000);
        let mut start = Instant::ZERO + ms(20);
        for _ in 0..rng.below(4) {
            let contract = if rng.below(5) == 0 {
                let weight = engine::Weight::ONE;
                Contract { weight, ..Contract::reserve(Share::from_percent(5)) }
            } else {
                Contract::BEST_EFFORT
            };
            let contract = if settings.policy.has_deadlines() {
                contract
            } else {
                generate_shares(contract, rng)
            };
            let Ok(volume) = self.engine.add_volume(contract, Instant::ZERO) else { continue };
            if !settings.policy.has_deadlines() && rng.below(8) == 0 {
                self.raise_priority(volume);
            }
            let sectors = match rng.below(5) {
                0 => 1,
                1 => 1 + rng.below(4),
                2 => fits,
                3 => 1 + rng.below(fits),
                _ => 1 + rng.below(2 * fits + 4).min(400),
            };
            start = start.saturating_sub(Duration::from_nanos(one_of(rng, &[0, 1, 1, 1_000_000])));
            let next = if rng.below(2) == 0 { start } else { Instant::ZERO + ms(rng.below(60)) };
            let (closed, every) = (rng.below(3) == 0, ms(1 + rng.below(100)));
            let kind = Kind::Load { sectors, every, closed };
            let left = 1 + rng.below(BLOCKS_MAX);
            let own = SeededRng::new(rng.below(u64::MAX), STREAM);
            self.clients.push(Client::new(volume, kind, (next, left), own));
        }
    }

    fn run(mut self) -> SearchResult {
        loop {
            self.arrivals();
            self.poll();
            let Some(next) = self.next_at() else { break };
            self.now = next.max(self.now);
            if let Some((command, _)) = self.running.take_if(|(_, done)| *done <= self.now) {
                let completed = Event::Completed { command: command.id, outcome: Outcome::Done };
                self.engine.handle(completed, self.now);
                self.serve();
            }
            self.check_shares();
        }
        self.engine.invariants();
        for index in 0..self.clients.len() {
            if !self.clients[index].is_removed() {
                self.add_up(self.clients[index].volume);
            }
            self.result.promises += self.clients[index].reserve.checked;
        }
        let counted = self.result.kept.missed + self.result.late;
        assert!(self.missed <= counted, "the engine counts every miss");
        self.result
    }

    fn add_up(&mut self, volume: VolumeId) {
        if let Some(latency) = self.engine.latency_stats(volume) {
            self.result.covered += latency.answered;
            self.result.late += latency.late;
        }
        let Some(kept) = self.engine.deadline_stats(volume) else { return };
        let sum = &mut self.result.kept;
        sum.met += kept.met;
        sum.missed += kept.missed + u64::from(kept.bytes.missed > Sectors::ZERO);
        sum.max_lateness = sum.max_lateness.max(kept.max_lateness);
    }

    fn next_at(&self) -> Option<Instant> {
        // A closed-loop client sends nothing while it waits for an answer.
        let sends = |client: &&Client| client.left > 0 && client.next < Instant::FAR_FUTURE;
        let clients = self.clients.iter().filter(sends);
        let changes = [
            self.later.as_ref().map(|(at, ..)| *at),
            self.leaves.map(|(at, _)| at),
            self.running.as_ref().map(|(_, done)| *done),
            self.engine.next_wakeup(),
            self.changes.as_ref().and_then(Changes::next_at),
        ];
        clients.map(|client| client.next).chain(changes.into_iter().flatten()).min()
    }

    fn arrivals(&mut self) {
        if let Some((_, volume)) = self.leaves.take_if(|(at, _)| *at <= self.now) {
            let contract = Contract::BEST_EFFORT;
            let index = self.clients.iter().position(|client| client.volume == volume);
            let index = index.expect("the volume has a client");
            if !self.clients[index].leaves {
                self.engine.handle(Event::ContractChanged { volume, contract }, self.now);
                self.clients[index].left = 0;
                self.forget_deadlines(index);
                self.shares_changed();
            }
        }
        if let Some((_, mut client, contract)) = self.later.take_if(|(at, ..)| *at <= self.now)
            && let Ok(volume) = self.engine.add_volume(contract, self.now)
        {
            client.volume = volume;
            self.clients.push(client);
            self.shares_changed();
        }
        self.apply_changes();
        for index in 0..self.clients.len() {
            while self.clients[index].left > 0 && self.clients[index].next <= self.now {
                self.send(index);
            }
        }
    }

    /// The requests still queued were sent under another contract than the present one.
    fn forget_deadlines(&mut self, index: usize) {
        for (_, _, due) in self.sent.iter_mut().filter(|(client, ..)| *client == index) {
            *due = None;
        }
    }

    fn send(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let (sectors, due) = client.next_request(self.now);
        if (client.requests, client.blocks) == (1, 1) {
            let start = Lba(1 + self.sent.len() as u64 * 4_096);
            return self.submit(index, Extent::new(start, Sectors(sectors)), due);
        }
        if !client.sent.is_multiple_of(client.blocks) {
            return;
        }
        let (total, requests) = (sectors * client.blocks, client.requests.min(sectors));
        let first = FOLLOWING + index as u64 * FOLLOWING + client.asked;
        client.asked += total;
        for number in 0..requests {
            let (from, to) = (total * number / requests, total * (number + 1) / requests);
            self.submit(index, Extent::new(Lba(first + from), Sectors(to - from)), None);
        }
    }

    fn submit(&mut self, index: usize, extent: Extent, due: Option<Instant>) {
        let id = RequestId(self.sent.len() as u64);
        let (volume, operation) = (self.clients[index].volume, Operation::read(extent));
        self.sent.push((index, self.now, due));
        let client = &mut self.clients[index];
        client.outstanding += 1;
        if let Some(shares) = self.shares.as_ref().filter(|_| client.outstanding == 1) {
            client.reserve.on_request(&self.engine, volume, &shares.settings, self.now);
        }
        self.engine.handle(Event::Submit(Request { id, volume, operation }), self.now);
    }

    fn poll(&mut self) {
        while let Some(action) = self.engine.poll(self.now) {
            match action {
                Action::Issue(command) => {
                    self.waiting.push(command);
                    self.serve();
                }
                Action::Reply(reply) => self.answer(reply.request),
            }
        }
    }

    /// Begins with a command that waits in the drive, if it has none.
    fn serve(&mut self) {
        if self.running.is_some() || self.waiting.is_empty() {
            return;
        }
        let any = self.order.below(self.waiting.len() as u64);
        let command = self.waiting.swap_remove(usize::try_from(any).expect("an index"));
        let took = self.service_time(&command);
        if let Some(shares) = &mut self.shares {
            shares.longest = shares.longest.max(took);
        }
        self.running = Some((command, self.now + took));
    }

    fn service_time(&mut self, command: &Command) -> Duration {
        let on = self.last.replace(command.request) == Some(command.request);
        let positioning = if on { self.overhead } else { self.positioning };
        let most = ms(command.operation.extent.len.0 + positioning);
        if self.shorter { Duration::from_nanos(1 + self.rng.below(most.as_nanos())) } else { most }
    }

    fn answer(&mut self, request: RequestId) {
        let index = usize::try_from(request.0).expect("few are sent");
        let (client, sent, due) = self.sent[index];
        self.missed += u64::from(due.is_some_and(|due| self.now > due));
        let number = client;
        let client = &mut self.clients[number];
        client.outstanding -= 1;
        if let Kind::Load { closed, .. } = client.kind {
            self.result.best_effort += 1;
            self.result.latency += self.now.since(sent);
            // Some clients send before the next decision, and the others just after it.
            if closed && client.left > 0 && self.shares.is_some() && number.is_multiple_of(2) {
                self.send(number);
            } else if closed {
                client.next = self.now;
            }
        }
        let client = &mut self.clients[number];
        if client.outstanding == 0 {
            if let Some(shares) = &self.shares {
                client.reserve.on_idle(&shares.settings);
            }
            if client.leaves {
                self.remove(number);
            }
        }
    }
}

/// Runs the case of a seed.
///
/// # Panics
/// When the engine counts fewer misses than the arrivals show.
pub fn run(seed: u64, parameters: SearchParameters) -> SearchResult {
    Case::new(seed, parameters).run()
}
