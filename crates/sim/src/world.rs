//! The world: engines and drives in virtual time, and the plumbing between them.

use config::{Plan, Workload};
use drive::{AnyDevice, Tag};
use engine::limits::REQUESTS_MAX;
use engine::{
    Action, Agenda, Command, Contract, Declared, Engine, Event, Outcome, Priority, Reply, Request,
    SEQUENTIAL_WITHIN, Settings, VolumeId,
};
use stats::{
    DeadlinesReport, DeclaredReport, DiskReport, ExecutionReport, Latency, Runs, SCHEMA,
    VolumeReport,
};
use trace::TraceError;
use units::{Bytes, DiskTime, Duration, Instant, Op, Operation, Share};
use volume::{DiskExtent, DiskId, VolumeMap};

use crate::Dice;
use crate::calendar::Calendar;
use crate::commands::Uninterrupted;
use crate::oracle::{
    DataOracle, PromiseOracle, Terms, Verdict, Watched, assert_deadlines_kept,
    assert_rest_is_justified, burst, never_misses,
};
use crate::run::Report;
use crate::slab::Slab;
use crate::source::Source;

/// Requests of one open loop that may wait at a time; more are dropped, and counted.
const BACKLOG_MAX: u32 = 65_536;

/// The requests in one engine from which on open loops' are dropped. The config sees to it that closed loops have
/// fewer than that under way.
const DISK_BACKLOG_MAX: usize = REQUESTS_MAX / 2;

/// How often the slow oracles look.
const LOOK_EVERY: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
enum Entry {
    /// A workload sends a request: `loops` tells whether it schedules the next one of an open loop.
    Send { load: usize },
    /// The slow oracles look.
    Look,
}

#[derive(Debug)]
struct Disk {
    name: String,
    settings: Settings,
    engine: Engine,
    /// Streams that come and end.
    agenda: Agenda,
    device: AnyDevice,
    /// Commands in the drive, by tag, with the time of their issue.
    running: Vec<(Command, Instant)>,
    data: DataOracle,
    /// Whether one of its volumes has a limit. No contract's limit changes in a simulation.
    limited: bool,
    /// One command in so many fails, drawn by these dice.
    failures: Option<(Dice, u64)>,
    /// How long its volumes of high priority can keep it to themselves.
    burst: Duration,
    longest: Duration,
    bytes: Bytes,
    uninterrupted: Uninterrupted,
    /// How far off its requests' estimates were.
    error: Latency,
}

#[derive(Debug)]
struct Volume {
    name: String,
    disk: usize,
    id: VolumeId,
    map: VolumeMap,
    latency: Latency,
    waiting: Latency,
    /// How far off its requests' estimates were.
    error: Latency,
    runs: Runs,
    declared: Option<Declared>,
    bytes: Bytes,
    /// Requests in the engine.
    inside: u32,
    promise: PromiseOracle,
    dropped: u64,
}

#[derive(Debug)]
struct Load {
    volume: usize,
    source: Source,
    start: Instant,
    stop: Instant,
    inside: u32,
}

#[derive(Debug)]
struct Sent {
    load: usize,
    at: Instant,
    operation: Operation,
    watched: Watched,
}

/// A volume, as experiments sample it.
#[derive(Clone, Copy, Debug)]
pub struct VolumeView {
    /// Disk time charged so far.
    pub disk_time: DiskTime,
    /// Requests answered so far.
    pub requests: u64,
    /// What it has saved up of its reserve, or owes; nothing under a policy that keeps no such books.
    pub balance: DiskTime,
}

/// The first of the dice's streams that say what fails; those before are the workloads'.
const FAILURES: u64 = 1 << 32;

/// A plan, running.
#[derive(Debug)]
pub struct World {
    seed: u64,
    now: Instant,
    disks: Vec<Disk>,
    volumes: Vec<Volume>,
    loads: Vec<Load>,
    calendar: Calendar<Entry>,
    sent: Slab<Sent>,
    verdict: Verdict,
    failed: u64,
    /// Why a trace cannot be replayed further.
    refused: Option<TraceError>,
}

impl World {
    /// A world at its beginning.
    ///
    /// # Panics
    /// On a plan that was not checked.
    pub fn new(plan: &Plan) -> Self {
        let mut disks: Vec<Disk> =
            (plan.seed..).zip(&plan.disks).map(|(seed, disk)| Disk::new(disk, seed)).collect();
        for (index, disk) in disks.iter_mut().enumerate() {
            let high = |volume: &&config::Volume| {
                volume.disk.0 == index && volume.priority == Priority::High
            };
            let high = plan.volumes.iter().filter(high).map(|volume| volume.contract);
            disk.burst = burst(high, disk.settings.period);
        }
        let volumes: Vec<Volume> =
            plan.volumes.iter().map(|volume| Volume::new(volume, &mut disks)).collect();
        let loads: Vec<Load> = (0..)
            .zip(&plan.workloads)
            .map(|(stream, workload)| Load::new(workload, &volumes, Dice::new(plan.seed, stream)))
            .collect();
        let mut calendar = Calendar::new();
        for (index, load) in loads.iter().enumerate() {
            load.begin(|at| calendar.enter(at, Entry::Send { load: index }));
        }
        calendar.enter(Instant::ZERO + LOOK_EVERY, Entry::Look);
        Self {
            seed: plan.seed,
            now: Instant::ZERO,
            disks,
            volumes,
            loads,
            calendar,
            sent: Slab::new(),
            verdict: Verdict::default(),
            failed: 0,
            refused: None,
        }
    }

    /// From now on, one command in `of` fails on every disk.
    ///
    /// # Panics
    /// On none.
    pub fn fail_one_in(&mut self, of: u64) {
        assert!(of > 0, "one in none");
        for (disk, stream) in self.disks.iter_mut().zip(FAILURES..) {
            disk.failures = Some((Dice::new(self.seed, stream), of));
        }
    }

    /// Requests that were answered with a failure.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Gives volumes, by their places in the plan, other reserves from now on. Those of each disk still add up to what
    /// the disk has.
    pub fn change_reserves(&mut self, reserves: &[(usize, Share)]) {
        for (index, reserve) in reserves {
            let volume = &mut self.volumes[*index];
            let engine = &mut self.disks[volume.disk].engine;
            let contract = Contract { reserve: *reserve, ..engine.contract(volume.id) };
            let changed = Event::ContractChanged { volume: volume.id, contract };
            engine.handle(changed, self.now);
            let checked = volume.promise.checked;
            volume.promise = PromiseOracle { checked, ..PromiseOracle::new(engine, volume.id) };
        }
    }

    /// Lets time go by until `end`.
    ///
    /// # Panics
    /// When an oracle does not hold, or a trace cannot be replayed.
    pub fn run_until(&mut self, end: Instant) {
        self.advance(end).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Lets time go by until `end`, or until a trace cannot be replayed further; then it stands still.
    ///
    /// # Errors
    /// What is wrong with the trace.
    ///
    /// # Panics
    /// When an oracle does not hold.
    pub fn advance(&mut self, end: Instant) -> Result<(), TraceError> {
        while let Some(at) = self.next_at().filter(|at| *at <= end) {
            self.now = at;
            for disk in 0..self.disks.len() {
                self.collect(disk);
            }
            self.disks.iter_mut().for_each(|disk| disk.keep_agenda(at));
            while let Some(entry) = self.calendar.take(at) {
                match entry {
                    Entry::Send { load } => self.send(load),
                    Entry::Look => self.look(),
                }
            }
            for disk in 0..self.disks.len() {
                self.drain(disk);
            }
            if let Some(error) = &self.refused {
                return Err(error.clone());
            }
        }
        self.now = end;
        Ok(())
    }

    /// A volume of the plan, as it stands now.
    pub fn volume(&mut self, volume: config::VolumeIndex) -> VolumeView {
        let volume = &self.volumes[volume.0];
        let engine = &mut self.disks[volume.disk].engine;
        let balance = engine.balance(volume.id, self.now).unwrap_or_default();
        let account = engine.account(volume.id);
        VolumeView { disk_time: account.disk_time, requests: account.requests, balance }
    }

    /// What a disk of the plan was busy with that nobody could interrupt.
    pub fn uninterrupted(&self, disk: config::DiskIndex) -> &Uninterrupted {
        &self.disks[disk.0].uninterrupted
    }

    /// What preemptible execution has done on a disk of the plan, if it is on.
    pub fn executed(&self, disk: config::DiskIndex) -> Option<engine::Executed> {
        self.disks[disk.0].engine.executed()
    }

    /// What there is to tell of the time gone by.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub fn report(&self) -> Report {
        let seconds = self.now.since(Instant::ZERO).as_secs_f64();
        let disks = self.disks.iter().map(|disk| DiskReport {
            name: disk.name.clone(),
            busy_share: disk.engine.busy().as_secs_f64() / seconds,
            bytes_per_s: disk.bytes.0 as f64 / seconds,
            execution: disk.engine.executed().map(ExecutionReport::from),
            estimate_error_ms: disk.error.error(),
        });
        let volumes = self.volumes.iter().map(|volume| {
            let engine = &self.disks[volume.disk].engine;
            let (contract, account) = (engine.contract(volume.id), engine.account(volume.id));
            let kept = engine.kept(volume.id);
            VolumeReport {
                name: volume.name.clone(),
                reserve: contract.reserve.as_f64(),
                limit: contract.limit.as_f64(),
                disk_time_share: account.disk_time.as_secs_f64() / seconds,
                requests: account.requests,
                bytes: volume.bytes.0,
                iops: account.requests as f64 / seconds,
                bytes_per_s: volume.bytes.0 as f64 / seconds,
                latency_ms: volume.latency.millis(),
                waiting_ms: volume.waiting.millis(),
                deadline_misses: kept.map_or(0, |kept| kept.missed),
                deadlines: kept.map(DeadlinesReport::from),
                dropped: volume.dropped,
                estimate_error_ms: volume.error.error(),
                declared: volume
                    .declared
                    .map(|declared| DeclaredReport::new(&declared, &volume.runs)),
            }
        });
        let (disks, volumes) = (disks.collect(), volumes.collect());
        let (schema, seed, duration_s) = (SCHEMA, self.seed, seconds);
        let traces = self.loads.iter().filter_map(|load| load.source.report()).collect();
        let oracles = self.verdict();
        Report { schema, seed, duration_s, disks, volumes, traces, oracles }
    }

    fn verdict(&self) -> Verdict {
        Verdict {
            reads_checked: self.disks.iter().map(|disk| disk.data.checked).sum(),
            deadlines_checked: self.volumes.iter().map(|volume| self.kept(volume)).sum(),
            promises_checked: self.volumes.iter().map(|volume| volume.promise.checked).sum(),
            ..self.verdict
        }
    }

    /// Blocks that were in time where none may be late.
    fn kept(&self, volume: &Volume) -> u64 {
        let disk = &self.disks[volume.disk];
        let kept = disk.engine.kept(volume.id).filter(|_| never_misses(&disk.settings));
        kept.map_or(0, |kept| kept.met)
    }

    fn next_at(&self) -> Option<Instant> {
        let mut next = self.calendar.next_at();
        for disk in &self.disks {
            let agenda = disk.agenda.next_at();
            for at in [disk.device.next_completion(), disk.engine.next_wakeup(), agenda] {
                next = at.map(|at| next.map_or(at, |next| next.min(at))).or(next);
            }
        }
        next.map(|at| at.max(self.now))
    }

    fn send(&mut self, index: usize) {
        let load = &mut self.loads[index];
        if self.now >= load.stop || load.source.is_at_its_end() {
            return;
        }
        let traced = match load.source.traced() {
            Ok(traced) => traced,
            Err(error) => {
                self.refused = Some(error);
                return;
            }
        };
        if let Some(at) = load.source.next_at(load.start, self.now) {
            self.calendar.enter(at, Entry::Send { load: index });
        }
        let volume = &mut self.volumes[load.volume];
        let closed = load.source.outstanding().is_some();
        let full = self.disks[volume.disk].engine.requests() >= DISK_BACKLOG_MAX;
        if load.inside >= BACKLOG_MAX || full && !closed {
            volume.dropped += 1;
            return;
        }
        let wanted = traced.unwrap_or_else(|| load.source.drawn());
        let extent = match wanted.op {
            Op::Flush => wanted.extent,
            _ => volume.map.map(wanted.extent).next().expect("it is on a disk").extent,
        };
        assert_eq!(extent.len, wanted.extent.len, "a volume is one piece");
        let operation = Operation { extent, ..wanted };
        load.inside += 1;
        volume.inside += 1;
        let disk = &mut self.disks[volume.disk];
        volume.runs.record(extent, SEQUENTIAL_WITHIN);
        let watched = disk.data.sent(&operation);
        let id = self.sent.enter(Sent { load: index, at: self.now, operation, watched });
        disk.engine.handle(Event::Submit(Request { id, volume: volume.id, operation }), self.now);
    }

    /// Carries the drive's completions to the engine.
    fn collect(&mut self, index: usize) {
        let disk = &mut self.disks[index];
        while let Some(done) = disk.device.complete(self.now) {
            let place = disk.running.iter().position(|(command, _)| command.id.0 == done.tag.0);
            let (command, issued) = disk.running.swap_remove(place.expect("it was issued"));
            disk.longest = disk.longest.max(done.at.since(issued));
            let sent = self.sent.named(command.request).expect("its request is not answered");
            let failed = disk.failures.as_mut().is_some_and(|(dice, of)| dice.below(*of) == 0);
            if !failed {
                disk.data.moved(&command, &mut sent.watched);
            }
            let last = command.operation.extent.end() == sent.operation.extent.end();
            disk.uninterrupted.completed(&command, issued, last, self.now);
            let outcome = if failed { Outcome::Failed } else { Outcome::Done };
            disk.engine.handle(Event::Completed { command: command.id, outcome }, self.now);
        }
    }

    /// Carries the engine's decisions to the drive and to the clients.
    fn drain(&mut self, index: usize) {
        while let Some(action) = self.disks[index].engine.poll(self.now) {
            match action {
                Action::Issue(command) => {
                    let disk = &mut self.disks[index];
                    disk.uninterrupted.issued(&command, self.now);
                    disk.running.push((command, self.now));
                    disk.device.submit(self.now, Tag(command.id.0), command.operation);
                }
                Action::Reply(reply) => self.answer(reply),
            }
        }
        let disk = &mut self.disks[index];
        if disk.running.is_empty() {
            disk.uninterrupted.rests(disk.engine.requests() > 0, self.now);
        }
        if disk.engine.requests() > disk.engine.running() && disk.engine.queued() > 0 {
            assert_rest_is_justified(&disk.engine, &disk.settings, disk.limited, self.now);
            self.verdict.rests_checked += 1;
        }
    }

    fn answer(&mut self, reply: Reply) {
        let Reply { request, disk_time, estimate, .. } = reply;
        let sent = self.sent.take(request);
        let Sent { load: index, at, operation, watched } =
            sent.expect("a request is answered once");
        self.verdict.answered += 1;
        let load = &mut self.loads[index];
        let volume = &mut self.volumes[load.volume];
        let disk = &mut self.disks[volume.disk];
        // What failed promises nothing of its data: it may have moved, or a part of it, or none.
        match reply.outcome {
            Outcome::Done => disk.data.answered(&operation, &watched, volume.id, self.now),
            Outcome::Failed => self.failed += 1,
        }
        let bytes = match operation.op {
            Op::Read | Op::Write => operation.extent.len.bytes(),
            Op::Flush | Op::Trim | Op::WriteZeroes | Op::Seek => Bytes::ZERO,
        };
        disk.bytes += bytes;
        volume.bytes += bytes;
        volume.inside -= 1;
        volume.latency.record(self.now.since(at));
        volume.waiting.record(reply.waited);
        // Who estimates nothing is never off.
        if estimate > DiskTime::ZERO {
            let off = Duration::from_nanos((disk_time - estimate).as_nanos().unsigned_abs());
            volume.error.record(off);
            disk.error.record(off);
        }
        if let Some(kept) = disk.engine.kept(volume.id) {
            assert_deadlines_kept(kept, &disk.settings, &volume.name, self.now);
        }
        load.inside -= 1;
        let volume = load.volume;
        if let Some(pause) = load.source.think() {
            if pause == Duration::ZERO {
                self.send(index);
            } else {
                self.calendar.enter(self.now + pause, Entry::Send { load: index });
            }
        }
        let volume = &mut self.volumes[volume];
        if volume.inside == 0 {
            volume.promise.rests();
        }
    }

    fn look(&mut self) {
        self.calendar.enter(self.now + LOOK_EVERY, Entry::Look);
        for disk in &mut self.disks {
            disk.engine.invariants();
            let under_way = disk.running.iter().map(|(_, issued)| self.now.since(*issued)).max();
            let bound = disk.uninterrupted.longest_bound(self.now);
            disk.longest = disk.longest.max(under_way.unwrap_or_default()).max(bound);
        }
        for volume in &mut self.volumes {
            let disk = &self.disks[volume.disk];
            let (settings, longest, burst) = (&disk.settings, disk.longest, disk.burst);
            let terms = Terms { settings, longest, burst, now: self.now };
            volume.promise.look(&disk.engine, volume.id, volume.inside > 0, terms);
        }
    }
}

impl Disk {
    fn add_volume(&mut self, volume: &config::Volume) -> VolumeId {
        let none = Contract { stream: None, ..volume.contract };
        let id = self.engine.add_volume(none, Instant::ZERO).expect("the plan's reserves fit");
        let contract = self.agenda.book(id, volume.contract, volume.span(), Instant::ZERO);
        if contract != none {
            self.engine.handle(Event::ContractChanged { volume: id, contract }, Instant::ZERO);
        }
        id
    }

    /// Begins and ends the streams for which it is time.
    fn keep_agenda(&mut self, now: Instant) {
        while let Some((volume, stream)) = self.agenda.take(now) {
            let contract = Contract { stream, ..self.engine.contract(volume) };
            self.engine.handle(Event::ContractChanged { volume, contract }, now);
        }
    }

    fn new(disk: &config::Disk, seed: u64) -> Self {
        let settings = disk.settings();
        Self {
            name: disk.name.clone(),
            settings,
            engine: disk.engine(Instant::ZERO),
            agenda: Agenda::default(),
            device: AnyDevice::new(disk.drive.model.clone()).with_seed(seed),
            running: Vec::new(),
            data: DataOracle::default(),
            limited: false,
            failures: None,
            burst: Duration::ZERO,
            longest: Duration::ZERO,
            bytes: Bytes::ZERO,
            uninterrupted: Uninterrupted::new(settings.execution),
            error: Latency::default(),
        }
    }
}

impl Volume {
    fn new(volume: &config::Volume, disks: &mut [Disk]) -> Self {
        let disk = volume.disk.0;
        let id = disks[disk].add_volume(volume);
        disks[disk].engine.prioritise(id, volume.priority);
        disks[disk].limited |= volume.contract.limit < Share::ALL;
        let place = DiskId(u32::try_from(disk).expect("disks are few"));
        let map = VolumeMap::new(DiskExtent { disk: place, extent: volume.place });
        Self {
            name: volume.name.clone(),
            disk,
            id,
            map,
            latency: Latency::default(),
            waiting: Latency::default(),
            error: Latency::default(),
            runs: Runs::default(),
            declared: volume.declared,
            bytes: Bytes::ZERO,
            inside: 0,
            promise: PromiseOracle::new(&disks[disk].engine, id),
            dropped: 0,
        }
    }
}

impl Load {
    fn new(workload: &Workload, volumes: &[Volume], dice: Dice) -> Self {
        let volume = workload.volume.0;
        let size = volumes[volume].map.size();
        Self {
            volume,
            source: Source::new(&workload.requests, size, dice),
            start: Instant::ZERO + workload.start,
            stop: workload.stop.map_or(Instant::FAR_FUTURE, |stop| Instant::ZERO + stop),
            inside: 0,
        }
    }
    /// Schedules its first requests.
    fn begin(&self, mut enter: impl FnMut(Instant)) {
        let (count, after) = self.source.first();
        (0..count).for_each(|_| enter(self.start + after));
    }
}
