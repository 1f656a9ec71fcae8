//! A search for missed deadlines: the real engine over an abstract disk, with admitted task sets,
//! arrival times and best-effort loads generated from seeds.
//!
//! The disk takes one millisecond for each sector. In some cases a command that does not continue
//! where the last one ended also takes a positioning time, and in some cases commands take less by
//! a random amount. The disk has no geometry that could hide an error of the scheduler. Deadlines
//! are computed here a second time, from the arrivals alone, and compared with the engine's.
//!
//! Half of the cases are adversarial: all streams release together just after a best-effort
//! request, or a request of the stream with the longest block, has begun.

use engine::stream::{SlackRange, Task};
use engine::{
    Action, BestEffortServer, Command, CommandBound, Contract, DeadlineStats, Deadlines, Engine,
    Event, Execution, LatencyContract, Outcome, PolicyName, Preemptible, Priority, Request,
    RequestId, Settings, StreamContract, VolumeId,
};
use units::{DiskTime, Duration, Extent, Instant, Lba, Operation, Sectors, Share};

use crate::SeededRng;

/// The random-number stream of the search.
const STREAM: u64 = 1 << 41;
const TASKS_MAX: u64 = 10;
/// The most blocks that one stream requests in a case.
const BLOCKS_MAX: u64 = 60;

/// Where the first stream begins whose requests follow each other, and the sectors of each.
const FOLLOWING: u64 = 1 << 32;

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchParameters {
    /// The policy.
    pub policy: PolicyName,
    /// The intervals that ΔL is computed over.
    pub range: SlackRange,
}

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
}

/// A client that sends requests.
#[derive(Debug)]
struct Client {
    volume: VolumeId,
    kind: Kind,
    /// When the next request arrives.
    next: Instant,
    left: u64,
    rng: SeededRng,
    sent: u64,
    /// Of a stream: the requests in which it asks for a block, and for how many blocks at once. One
    /// of each where requests have deadlines.
    requests: u64,
    blocks: u64,
    /// The sectors that it asked for in other requests than blocks: these follow each other.
    asked: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Stream {
        task: Task,
        block: Sectors,
        pattern: ArrivalPattern,
        /// The earliest next release, as computed from the arrivals; unknown for a stream
        /// that joins later.
        expected: Option<Instant>,
    },
    /// Requests of a bounded latency: bursts at its rate, or at twice that.
    Bounded {
        contract: LatencyContract,
        twice: bool,
        /// A token bucket in ns, of which a request takes an interval, and when it was filled last.
        level: (u64, Instant),
    },
    /// Requests of this length at an interval, or the next one at the answer of the last.
    Load { sectors: u64, every: Duration, closed: bool },
}

/// The arrival pattern of a stream.
#[derive(Clone, Copy, Debug)]
enum ArrivalPattern {
    /// One request in each period.
    Periodic,
    /// At least one period apart.
    Sporadic,
    /// Several at once, ahead of their periods.
    Early,
    /// An idle time, then one request in each period.
    Resting,
}

/// A running case.
struct Case {
    engine: Engine,
    now: Instant,
    clients: Vec<Client>,
    /// For each request its client, its arrival, and its deadline if it is known.
    sent: Vec<(usize, Instant, Option<Instant>)>,
    running: Option<(Command, Instant)>,
    /// The request of the last command: its next command needs no positioning.
    last: Option<RequestId>,
    positioning: u64,
    /// Whether commands take less than their worst case.
    shorter: bool,
    rng: SeededRng,
    missed: u64,
    result: SearchResult,
    /// A stream that joins later. Below it: a volume that changes to best effort.
    later: Option<(Instant, Client, Contract)>,
    leaves: Option<(Instant, VolumeId)>,
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn disk_time(millis: u64) -> DiskTime {
    ms(millis).into()
}

fn one_of<T: Copy>(rng: &mut SeededRng, of: &[T]) -> T {
    of[usize::try_from(rng.below(of.len() as u64)).expect("an index")]
}

/// The distribution of the generated tasks.
struct TaskDistribution {
    chunk: Option<u64>,
    positioning: u64,
    periods: (u64, u64),
    costs_max: u64,
}

impl TaskDistribution {
    fn new(rng: &mut SeededRng) -> Self {
        let chunk = (rng.below(5) == 0).then(|| 1 + rng.below(4));
        let positioning = if chunk.is_some() { rng.below(3) } else { 0 };
        let periods = one_of(rng, &[(10, 20), (10, 20), (14, 16), (10, 90), (5, 300), (40, 10)]);
        Self { chunk, positioning, periods, costs_max: one_of(rng, &[3, 5, 8, 14, 40]) }
    }

    /// A stream's contract; its block's cost is its number of sectors in ms.
    fn stream(&self, rng: &mut SeededRng) -> Option<StreamContract> {
        let (least, spread) = self.periods;
        // Some periods are no whole number of milliseconds: rounding matters.
        let odd = Duration::from_nanos(one_of(rng, &[0, 0, 1, 500_001]));
        let period = ms(least + rng.below(spread)) + odd;
        let sectors = 1 + rng.below(self.costs_max);
        let cost = disk_time(sectors + self.positioning);
        let longest = self.chunk.map_or(cost, |chunk| disk_time(chunk + self.positioning));
        let task = Task::new(period, cost, longest.min(cost)).ok()?;
        Some(StreamContract { task, block: Sectors(sectors), range: None })
    }

    /// A bounded latency; its request's cost is its number of sectors in ms.
    fn latency(&self, rng: &mut SeededRng) -> Option<LatencyContract> {
        let (least, spread) = self.periods;
        let interval = ms((least + rng.below(spread)) * one_of(rng, &[1, 2, 5]));
        let within = ms(least + rng.below(2 * spread + 40));
        let sectors = 1 + rng.below(self.costs_max.min(8));
        let cost = disk_time(sectors + self.positioning);
        let longest = self.chunk.map_or(cost, |chunk| disk_time(chunk + self.positioning));
        let burst = one_of(rng, &[1, 1, 2, 4]);
        let task = Task::sporadic(interval, within, burst, cost, longest.min(cost)).ok()?;
        Some(LatencyContract { task, size: Sectors(sectors) })
    }

    fn settings(&self, parameters: SearchParameters, rng: &mut SeededRng) -> Settings {
        let best_effort = (rng.below(8) == 0).then(|| {
            let share = Share::from_percent(one_of(rng, &[2, 5, 10]));
            BestEffortServer { share, period: ms(one_of(rng, &[100, 400])) }
        });
        let preemption = disk_time(self.positioning);
        let worst = CommandBound { positioning: preemption, sector: disk_time(1) };
        let chunk = self.chunk.map(Sectors);
        let how = Preemptible { chunk, jit: None, ..Preemptible::default() };
        let settings = Settings {
            policy: parameters.policy,
            period: ms(one_of(rng, &[100, 200])),
            batch: Duration::ZERO,
            execution: match chunk {
                Some(_) => Execution::Preemptible(how),
                None => Execution::Whole { split: None },
            },
            deadlines: Deadlines { worst, preemption, slack_range: parameters.range, best_effort },
            ..Settings::default()
        };
        if parameters.policy.has_deadlines() { settings } else { beside_shares(&settings, rng) }
    }
}

impl Case {
    fn new(seed: u64, parameters: SearchParameters) -> Self {
        let mut rng = SeededRng::new(seed, STREAM);
        let tasks = TaskDistribution::new(&mut rng);
        let settings = tasks.settings(parameters, &mut rng);
        let shorter = rng.below(3) == 0;
        let mut case = Self {
            engine: Engine::new(settings, Instant::ZERO),
            now: Instant::ZERO,
            clients: Vec::new(),
            sent: Vec::new(),
            running: None,
            last: None,
            positioning: tasks.positioning,
            shorter,
            missed: 0,
            result: SearchResult::default(),
            later: None,
            leaves: None,
            rng: rng.clone(),
        };
        case.generate_streams(&tasks, &mut rng);
        if !settings.policy.has_deadlines() {
            case.generate_bounded(&tasks, &mut rng);
        }
        case.generate_load(&settings, &mut rng);
        if !settings.policy.has_deadlines() && tasks.chunk.is_none() {
            case.generate_requests(SeededRng::new(seed, STREAM + 1));
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
            let (twice, level) = (rng.below(2) == 0, (full, Instant::ZERO));
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
                self.engine.set_priority(volume, Priority::High);
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
            }
        }
        self.engine.invariants();
        for index in 0..self.clients.len() {
            self.add_up(self.clients[index].volume);
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
        ];
        clients.map(|client| client.next).chain(changes.into_iter().flatten()).min()
    }

    fn arrivals(&mut self) {
        if let Some((_, volume)) = self.leaves.take_if(|(at, _)| *at <= self.now) {
            let contract = Contract::BEST_EFFORT;
            self.engine.handle(Event::ContractChanged { volume, contract }, self.now);
            let index = self.clients.iter().position(|client| client.volume == volume);
            let index = index.expect("the volume has a client");
            self.clients[index].left = 0;
            // The requests still queued were admitted under the old contract.
            for (_, _, due) in self.sent.iter_mut().filter(|(client, ..)| *client == index) {
                *due = None;
            }
        }
        if let Some((_, mut client, contract)) = self.later.take_if(|(at, ..)| *at <= self.now)
            && let Ok(volume) = self.engine.add_volume(contract, self.now)
        {
            client.volume = volume;
            self.clients.push(client);
        }
        for index in 0..self.clients.len() {
            while self.clients[index].left > 0 && self.clients[index].next <= self.now {
                self.send(index);
            }
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
        self.engine.handle(Event::Submit(Request { id, volume, operation }), self.now);
    }

    fn poll(&mut self) {
        while let Some(action) = self.engine.poll(self.now) {
            match action {
                Action::Issue(command) => {
                    let done = self.now + self.service_time(&command);
                    assert!(
                        self.running.replace((command, done)).is_none(),
                        "one command at a time"
                    );
                }
                Action::Reply(reply) => self.answer(reply.request),
            }
        }
    }

    fn service_time(&mut self, command: &Command) -> Duration {
        let on = self.last.replace(command.request) == Some(command.request);
        let positioning = if on { 0 } else { self.positioning };
        let most = ms(command.operation.extent.len.0 + positioning);
        if self.shorter { Duration::from_nanos(1 + self.rng.below(most.as_nanos())) } else { most }
    }

    fn answer(&mut self, request: RequestId) {
        let index = usize::try_from(request.0).expect("few are sent");
        let (client, sent, due) = self.sent[index];
        self.missed += u64::from(due.is_some_and(|due| self.now > due));
        let client = &mut self.clients[client];
        if let Kind::Load { closed, .. } = client.kind {
            self.result.best_effort += 1;
            self.result.latency += self.now.since(sent);
            if closed {
                client.next = self.now;
            }
        }
    }
}

/// Further settings of a policy that keeps streams beside shares. Its longest command bounds what
/// may be reserved beside streams.
fn beside_shares(settings: &Settings, rng: &mut SeededRng) -> Settings {
    Settings {
        command_max: Sectors(one_of(rng, &[4, 12, 40])),
        batch: one_of(rng, &[ms(0), settings.period / 4, settings.period]),
        linger: ms(one_of(rng, &[0, 2, 8, 20])),
        ..*settings
    }
}

/// The shares of a contract on a disk that keeps them beside streams.
fn generate_shares(contract: Contract, rng: &mut SeededRng) -> Contract {
    let reserve = match rng.below(3) {
        0 => contract.reserve,
        1 => Share::from_percent(one_of(rng, &[1, 5, 10, 20])),
        _ => Share::from_percent(one_of(rng, &[30, 40, 50, 60])),
    };
    let beyond = Share::from_percent(one_of(rng, &[1, 10, 40]));
    let limit = reserve.checked_add(beyond).filter(|_| rng.below(4) == 0);
    Contract { reserve, limit: limit.unwrap_or(Share::ALL), ..contract }
}

fn stream_client(
    volume: VolumeId,
    stream: StreamContract,
    next: Instant,
    rng: &mut SeededRng,
) -> Client {
    let patterns = [
        ArrivalPattern::Periodic,
        ArrivalPattern::Periodic,
        ArrivalPattern::Sporadic,
        ArrivalPattern::Early,
        ArrivalPattern::Resting,
    ];
    let pattern = one_of(rng, &patterns);
    let (task, block) = (stream.task, stream.block);
    let kind = Kind::Stream { task, block, pattern, expected: Some(Instant::ZERO) };
    let left = 5 + rng.below(BLOCKS_MAX);
    let own = SeededRng::new(rng.below(u64::MAX), STREAM);
    Client::new(volume, kind, (next, left), own)
}

impl Client {
    fn new(volume: VolumeId, kind: Kind, (next, left): (Instant, u64), rng: SeededRng) -> Self {
        let (requests, blocks) = (1, 1);
        Self { volume, kind, next, left, rng, sent: 0, requests, blocks, asked: 0 }
    }

    /// The length of the request that is sent now, and its deadline if it is known.
    fn next_request(&mut self, now: Instant) -> (u64, Option<Instant>) {
        self.left -= 1;
        self.sent += 1;
        match &mut self.kind {
            Kind::Load { sectors, every, closed } => {
                let every = if *closed { Instant::FAR_FUTURE.since(now) } else { *every };
                self.next = now + every;
                (*sectors, None)
            }
            Kind::Bounded { contract, twice, level } => {
                let interval = contract.interval();
                let full = interval.as_nanos() * u64::from(contract.burst());
                let filled = level.0.saturating_add(now.since(level.1).as_nanos()).min(full);
                let is_covered = filled >= interval.as_nanos();
                let taken = if is_covered { interval.as_nanos() } else { 0 };
                *level = (filled - taken, now);
                let rate = if *twice { 2 } else { 1 };
                // Whole bursts, single requests, and pauses in which the bucket fills.
                let together = u64::from(contract.burst()) * rate;
                self.next = match self.rng.below(8) {
                    0 => now + interval * 5,
                    1..=3 if !self.sent.is_multiple_of(together) => now,
                    1..=3 => now + interval * u64::from(contract.burst()),
                    _ => now + interval / rate,
                };
                let due = is_covered.then(|| now + contract.within());
                (contract.size.0, due)
            }
            Kind::Stream { task, block, pattern, expected } => {
                let period = task.period();
                let pause = match pattern {
                    ArrivalPattern::Sporadic if self.rng.below(3) == 0 => {
                        period + ms(self.rng.below(30))
                    }
                    ArrivalPattern::Early if self.sent.is_multiple_of(4) => period * 4,
                    ArrivalPattern::Early => Duration::ZERO,
                    ArrivalPattern::Resting if self.sent.is_multiple_of(7) => period * 5,
                    ArrivalPattern::Periodic
                    | ArrivalPattern::Sporadic
                    | ArrivalPattern::Resting => period,
                };
                self.next = now + pause;
                let due = expected.map(|expected| now.max(expected) + period);
                *expected = expected.and(due);
                (block.0, due)
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
