//! A driver of an engine: a disk and its clients in a few lines.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(unreachable_pub, reason = "a module of the tests")]
#![allow(clippy::large_types_passed_by_value, reason = "one timeline per test")]

pub mod abstract_disk;
pub mod spinning;

use spindle_engine::{
    Action, Command, Contract, Engine, Event, Outcome, Reply, Request, RequestId, Settings,
    VolumeId,
};
use units::{DiskTime, Duration, Extent, Instant, Lba, Operation, Sectors, Share};

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn percent(n: u32) -> Share {
    Share::from_percent(n)
}

pub fn reserve(n: u32) -> Contract {
    Contract::reserve(percent(n))
}

pub fn limit(n: u32) -> Contract {
    Contract { limit: percent(n), ..Contract::BEST_EFFORT }
}

/// A 4 KiB read at this block.
pub fn block(number: u64) -> Operation {
    Operation::read(Extent::new(Lba(number * 8), Sectors(8)))
}

/// An engine on a timeline.
pub struct Timeline {
    pub engine: Engine,
    pub now: Instant,
    next_request: u64,
    volumes: u32,
}

impl Timeline {
    pub fn new(settings: Settings, contracts: &[Contract]) -> Self {
        let mut engine = Engine::new(settings, Instant::ZERO);
        for contract in contracts {
            engine.add_volume(*contract, Instant::ZERO).expect("it fits");
        }
        let volumes = u32::try_from(contracts.len()).expect("few");
        Self { engine, now: Instant::ZERO, next_request: 0, volumes }
    }

    pub fn after(&mut self, pause: Duration) -> &mut Self {
        self.now += pause;
        self
    }

    pub fn submit(&mut self, volume: u32, operation: Operation) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        let request = Request { id, volume: VolumeId(volume), operation };
        self.engine.handle(Event::Submit(request), self.now);
        id
    }

    pub fn complete(&mut self, command: &Command, outcome: Outcome) {
        self.engine.handle(Event::Completed { command: command.id, outcome }, self.now);
    }

    pub fn poll(&mut self) -> Option<Action> {
        self.engine.poll(self.now)
    }

    /// The command that goes to the drive now.
    pub fn issued(&mut self) -> Command {
        match self.poll() {
            Some(Action::Issue(command)) => command,
            other => panic!("at {}: expected a command, found {other:?}", self.now),
        }
    }

    pub fn replied(&mut self) -> Reply {
        match self.poll() {
            Some(Action::Reply(reply)) => reply,
            other => panic!("at {}: expected a reply, found {other:?}", self.now),
        }
    }

    pub fn quiet(&mut self) {
        assert_eq!(self.poll(), None, "at {}", self.now);
        self.engine.invariants();
    }

    /// Serves one command from issue to reply with this service time. Returns its volume.
    pub fn serve(&mut self, service: Duration) -> VolumeId {
        let command = self.issued();
        self.quiet();
        self.after(service).complete(&command, Outcome::Done);
        self.replied();
        command.volume
    }

    pub fn had(&self, volume: u32) -> DiskTime {
        self.engine.usage(VolumeId(volume)).disk_time
    }
}

/// One closed-loop client per volume, on a disk with the service times of `service`.
pub struct Closed<'a> {
    pub timeline: Timeline,
    /// The next operation of a volume.
    pub next: Box<dyn FnMut(VolumeId) -> Operation + 'a>,
    /// The service time of a command.
    pub service: Box<dyn FnMut(&Command) -> Duration + 'a>,
}

impl Closed<'_> {
    /// Submits `outstanding` requests to every volume and runs for `length`; each answer is
    /// followed by the next request.
    pub fn run(&mut self, outstanding: u32, length: Duration) {
        for volume in (0..self.timeline.volumes).map(VolumeId) {
            for _ in 0..outstanding {
                let operation = (self.next)(volume);
                self.timeline.submit(volume.0, operation);
            }
        }
        self.go_on(length);
    }

    /// Runs for `length` with the outstanding requests.
    pub fn go_on(&mut self, length: Duration) {
        let end = self.timeline.now + length;
        let mut running: Option<(Instant, Command)> = None;
        while self.timeline.now < end {
            match self.timeline.poll() {
                Some(Action::Issue(command)) => {
                    let done = self.timeline.now + (self.service)(&command);
                    assert!(running.replace((done, command)).is_none(), "depth is one");
                }
                Some(Action::Reply(reply)) => {
                    let operation = (self.next)(reply.volume);
                    self.timeline.submit(reply.volume.0, operation);
                }
                None => self.idle(&mut running),
            }
        }
        if let Some((done, command)) = running {
            self.timeline.now = self.timeline.now.max(done);
            self.timeline.complete(&command, Outcome::Done);
        }
        self.timeline.engine.invariants();
    }

    fn idle(&mut self, running: &mut Option<(Instant, Command)>) {
        if let Some((done, command)) = running.take() {
            self.timeline.now = done;
            self.timeline.complete(&command, Outcome::Done);
            return;
        }
        let wakeup = self.timeline.engine.next_wakeup();
        let wakeup = wakeup.expect("a disk with queued requests idles for a reason");
        assert!(wakeup > self.timeline.now, "a wake-up is in the future");
        self.timeline.now = wakeup;
    }
}
