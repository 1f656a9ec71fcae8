//! A search for missed deadlines: the real engine over an abstract disk, with admitted sets of tasks, times of arrival and
//! best-effort loads drawn from seeds.
//!
//! The disk takes a millisecond for each sector and, in some cases, a positioning for whatever does not go on where the
//! last command ended; or it takes less than that by a draw. There is no geometry, and nothing that could hide a mistake of
//! the scheduler. Deadlines are worked out here a second time, from the arrivals alone, and compared with the engine's books.
//!
//! Half of all cases are made to be nasty: all streams release together just after best effort, or the stream with the
//! longest block, has begun.

use engine::stream::{Range, Task};
use engine::{
    Action, Command, CommandBound, Contract, Deadlines, Engine, Event, Execution, Kept, Outcome,
    PolicyName, Preemptible, Request, RequestId, Server, Settings, Stream, VolumeId,
};
use units::{DiskTime, Duration, Extent, Instant, Lba, Operation, Sectors, Share};

use crate::Dice;

/// Of all that is drawn of a seed, the search has a stream of dice of its own.
const STREAM: u64 = 1 << 41;
const TASKS_MAX: u64 = 10;
/// Blocks that one stream asks for at most in a case.
const BLOCKS_MAX: u64 = 60;

/// What is asked of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Who schedules.
    pub policy: PolicyName,
    /// Which intervals count for ΔL.
    pub range: Range,
}

/// What became of one case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Streams that were admitted.
    pub streams: u64,
    /// Their deadlines.
    pub kept: Kept,
    /// Best-effort requests answered, and how long they were in the engine in all.
    pub best_effort: u64,
    /// The sum of their latencies.
    pub latency: Duration,
}

/// Somebody who sends requests.
#[derive(Debug)]
struct Client {
    volume: VolumeId,
    kind: Kind,
    /// When the next request comes.
    next: Instant,
    left: u64,
    dice: Dice,
    sent: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Stream {
        task: Task,
        block: Sectors,
        manner: Manner,
        /// No release before then, as far as the arrivals tell: none where it joins late.
        expected: Option<Instant>,
    },
    /// So long a request every so often, or the next one as soon as the last is answered.
    Load { sectors: u64, every: Duration, closed: bool },
}

/// How a stream's requests come.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// One a period.
    Periodic,
    /// A period apart at least.
    Sporadic,
    /// Several at once, in advance.
    Early,
    /// A rest, and then one a period.
    Resting,
}

/// A case under way.
struct Case {
    engine: Engine,
    now: Instant,
    clients: Vec<Client>,
    /// By request: whose, when it came, and when it is due if that can be told.
    sent: Vec<(usize, Instant, Option<Instant>)>,
    running: Option<(Command, Instant)>,
    /// Whose request the last command was for: what goes on needs no positioning.
    last: Option<RequestId>,
    positioning: u64,
    /// Whether commands take less than they may.
    shorter: bool,
    dice: Dice,
    missed: u64,
    found: Found,
    /// A stream that is added, and a volume that goes over to best effort, at times.
    later: Option<(Instant, Client, Contract)>,
    leaves: Option<(Instant, VolumeId)>,
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn disk_time(millis: u64) -> DiskTime {
    ms(millis).into()
}

fn one_of<T: Copy>(dice: &mut Dice, of: &[T]) -> T {
    of[usize::try_from(dice.below(of.len() as u64)).expect("an index")]
}

/// How tasks are drawn.
struct Draw {
    chunk: Option<u64>,
    positioning: u64,
    periods: (u64, u64),
    costs_max: u64,
}

impl Draw {
    fn new(dice: &mut Dice) -> Self {
        let chunk = (dice.below(5) == 0).then(|| 1 + dice.below(4));
        let positioning = if chunk.is_some() { dice.below(3) } else { 0 };
        let periods = one_of(dice, &[(10, 20), (10, 20), (14, 16), (10, 90), (5, 300), (40, 10)]);
        Self { chunk, positioning, periods, costs_max: one_of(dice, &[3, 5, 8, 14, 40]) }
    }

    /// A stream, as its contract has it, its block so many sectors.
    fn stream(&self, dice: &mut Dice) -> Option<Stream> {
        let (least, spread) = self.periods;
        // Often not a whole number of milliseconds: floors and ceilings matter.
        let odd = Duration::from_nanos(one_of(dice, &[0, 0, 1, 500_001]));
        let period = ms(least + dice.below(spread)) + odd;
        let sectors = 1 + dice.below(self.costs_max);
        let cost = disk_time(sectors + self.positioning);
        let longest = self.chunk.map_or(cost, |chunk| disk_time(chunk + self.positioning));
        let task = Task::new(period, cost, longest.min(cost)).ok()?;
        Some(Stream { task, block: Sectors(sectors), range: None })
    }

    fn settings(&self, asked: Asked, dice: &mut Dice) -> Settings {
        let best_effort = (dice.below(8) == 0).then(|| {
            let share = Share::from_percent(one_of(dice, &[2, 5, 10]));
            Server { share, period: ms(one_of(dice, &[100, 400])) }
        });
        let preemption = disk_time(self.positioning);
        let worst = CommandBound { positioning: preemption, sector: disk_time(1) };
        let chunk = self.chunk.map(Sectors);
        let how = Preemptible { chunk, jit: None, ..Preemptible::default() };
        Settings {
            policy: asked.policy,
            period: ms(one_of(dice, &[100, 200])),
            batch: Duration::ZERO,
            execution: match chunk {
                Some(_) => Execution::Preemptible(how),
                None => Execution::Whole { split: None },
            },
            deadlines: Deadlines { worst, preemption, slack_range: asked.range, best_effort },
            ..Settings::default()
        }
    }
}

impl Case {
    fn new(seed: u64, asked: Asked) -> Self {
        let mut dice = Dice::new(seed, STREAM);
        let draw = Draw::new(&mut dice);
        let settings = draw.settings(asked, &mut dice);
        let shorter = dice.below(3) == 0;
        let mut case = Self {
            engine: Engine::new(settings, Instant::ZERO),
            now: Instant::ZERO,
            clients: Vec::new(),
            sent: Vec::new(),
            running: None,
            last: None,
            positioning: draw.positioning,
            shorter,
            missed: 0,
            found: Found::default(),
            later: None,
            leaves: None,
            dice: dice.clone(),
        };
        case.draw_streams(&draw, &mut dice);
        case.draw_load(&settings, &mut dice);
        case
    }

    fn draw_streams(&mut self, draw: &Draw, dice: &mut Dice) {
        let wanted = 1 + dice.below(TASKS_MAX);
        let together = dice.below(2) == 0;
        let start = Instant::ZERO + ms(20);
        let mut longest: Option<(Duration, usize)> = None;
        for _ in 0..wanted * 2 {
            if self.found.streams == wanted {
                break;
            }
            let Some(stream) = draw.stream(dice) else { continue };
            let contract = Contract::stream(stream);
            let Ok(volume) = self.engine.add_volume(contract, Instant::ZERO) else { continue };
            let offset = if together { Duration::ZERO } else { ms(dice.below(40)) };
            let client = stream_client(volume, stream, start + offset, dice);
            if longest.is_none_or(|(period, _)| period < stream.task.period()) {
                longest = Some((stream.task.period(), self.clients.len()));
            }
            self.clients.push(client);
            self.found.streams += 1;
        }
        // Whoever has the longest period begins a moment before all others.
        if let Some((_, index)) = longest.filter(|_| together && dice.below(2) == 0) {
            self.clients[index].next = start.saturating_sub(Duration::from_nanos(1));
        }
        if dice.below(6) == 0
            && let Some(stream) = draw.stream(dice)
        {
            let at = start + ms(dice.below(300));
            let mut client = stream_client(VolumeId(0), stream, at, dice);
            if let Kind::Stream { expected, .. } = &mut client.kind {
                *expected = None;
            }
            self.later = Some((at, client, Contract::stream(stream)));
            if !self.clients.is_empty() && dice.below(2) == 0 {
                let leaves = at.saturating_sub(Duration::from_nanos(dice.below(2)));
                self.leaves = Some((leaves, self.clients[0].volume));
            }
        }
    }

    /// Best effort, and volumes with reserves.
    fn draw_load(&mut self, settings: &Settings, dice: &mut Dice) {
        let range = settings.deadlines.slack_range;
        let slack = self.engine.tasks().map_or(DiskTime::ZERO, |tasks| tasks.slack_in(range));
        let slack = u64::try_from(slack.as_nanos() / 1_000_000).unwrap_or(0);
        let fits = slack.saturating_sub(self.positioning).clamp(1, 2_000);
        let mut start = Instant::ZERO + ms(20);
        for _ in 0..dice.below(4) {
            let contract = if dice.below(5) == 0 {
                let weight = engine::Weight::ONE;
                Contract { weight, ..Contract::reserve(Share::from_percent(5)) }
            } else {
                Contract::BEST_EFFORT
            };
            let Ok(volume) = self.engine.add_volume(contract, Instant::ZERO) else { continue };
            let sectors = match dice.below(5) {
                0 => 1,
                1 => 1 + dice.below(4),
                2 => fits,
                3 => 1 + dice.below(fits),
                _ => 1 + dice.below(2 * fits + 4).min(400),
            };
            start = start.saturating_sub(Duration::from_nanos(one_of(dice, &[0, 1, 1, 1_000_000])));
            let next = if dice.below(2) == 0 { start } else { Instant::ZERO + ms(dice.below(60)) };
            let (closed, every) = (dice.below(3) == 0, ms(1 + dice.below(100)));
            let kind = Kind::Load { sectors, every, closed };
            let left = 1 + dice.below(BLOCKS_MAX);
            let own = Dice::new(dice.below(u64::MAX), STREAM);
            self.clients.push(Client { volume, kind, next, left, dice: own, sent: 0 });
        }
    }

    fn run(mut self) -> Found {
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
        assert!(self.missed <= self.found.kept.missed, "the books know every miss");
        self.found
    }

    fn add_up(&mut self, volume: VolumeId) {
        let Some(kept) = self.engine.kept(volume) else { return };
        let sum = &mut self.found.kept;
        sum.met += kept.met;
        sum.missed += kept.missed;
        sum.lateness_max = sum.lateness_max.max(kept.lateness_max);
    }

    fn next_at(&self) -> Option<Instant> {
        // Whoever waits for an answer sends nothing.
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
            let index = index.expect("it is there");
            self.clients[index].left = 0;
            // What is still queued was promised a moment ago.
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
        let (sectors, due) = client.sends(self.now);
        let id = RequestId(self.sent.len() as u64);
        let start = Lba(1 + id.0 * 4_096);
        let operation = Operation::read(Extent::new(start, Sectors(sectors)));
        let request = Request { id, volume: client.volume, operation };
        self.sent.push((index, self.now, due));
        self.engine.handle(Event::Submit(request), self.now);
    }

    fn poll(&mut self) {
        while let Some(action) = self.engine.poll(self.now) {
            match action {
                Action::Issue(command) => {
                    let done = self.now + self.takes(&command);
                    assert!(self.running.replace((command, done)).is_none(), "one at a time");
                }
                Action::Reply(reply) => self.answer(reply.request),
            }
        }
    }

    fn takes(&mut self, command: &Command) -> Duration {
        let on = self.last.replace(command.request) == Some(command.request);
        let positioning = if on { 0 } else { self.positioning };
        let most = ms(command.operation.extent.len.0 + positioning);
        if self.shorter { Duration::from_nanos(1 + self.dice.below(most.as_nanos())) } else { most }
    }

    fn answer(&mut self, request: RequestId) {
        let index = usize::try_from(request.0).expect("few are sent");
        let (client, sent, due) = self.sent[index];
        self.missed += u64::from(due.is_some_and(|due| self.now > due));
        let client = &mut self.clients[client];
        if let Kind::Load { closed, .. } = client.kind {
            self.found.best_effort += 1;
            self.found.latency += self.now.since(sent);
            if closed {
                client.next = self.now;
            }
        }
    }
}

fn stream_client(volume: VolumeId, stream: Stream, next: Instant, dice: &mut Dice) -> Client {
    let manners =
        [Manner::Periodic, Manner::Periodic, Manner::Sporadic, Manner::Early, Manner::Resting];
    let manner = one_of(dice, &manners);
    let (task, block) = (stream.task, stream.block);
    let kind = Kind::Stream { task, block, manner, expected: Some(Instant::ZERO) };
    let left = 5 + dice.below(BLOCKS_MAX);
    let own = Dice::new(dice.below(u64::MAX), STREAM);
    Client { volume, kind, next, left, dice: own, sent: 0 }
}

impl Client {
    /// The length of the request that is sent now, and when it is due, if that can be told.
    fn sends(&mut self, now: Instant) -> (u64, Option<Instant>) {
        self.left -= 1;
        self.sent += 1;
        match &mut self.kind {
            Kind::Load { sectors, every, closed } => {
                let every = if *closed { Instant::FAR_FUTURE.since(now) } else { *every };
                self.next = now + every;
                (*sectors, None)
            }
            Kind::Stream { task, block, manner, expected } => {
                let period = task.period();
                let pause = match manner {
                    Manner::Sporadic if self.dice.below(3) == 0 => period + ms(self.dice.below(30)),
                    Manner::Early if self.sent.is_multiple_of(4) => period * 4,
                    Manner::Early => Duration::ZERO,
                    Manner::Resting if self.sent.is_multiple_of(7) => period * 5,
                    Manner::Periodic | Manner::Sporadic | Manner::Resting => period,
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
/// When the engine's books and the arrivals tell different things.
pub fn run(seed: u64, asked: Asked) -> Found {
    Case::new(seed, asked).run()
}
