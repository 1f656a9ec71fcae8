//! Engines and drive models in virtual time, and the event loop between them.

use config::{LoadedVolume, Plan};
use drive::{AnyDevice, Tag};
use engine::limits::{READ_AHEAD_RUNS_MAX, READ_AHEAD_WAITING_MAX, REQUESTS_MAX};
use engine::{
    Action, Command, ContractSchedule, Destage, Engine, Event, Outcome, Purpose, RateContract,
    Reply, Request, SEQUENTIAL_WITHIN, SegmentId, Settings, VolumeId,
};
use stats::{Latency, Runs};
use trace::TraceError;
use units::{Bytes, DiskTime, Duration, Extent, Instant, Op, Operation};
use volume::VolumeMap;
use volume::pool::flow::{PieceId, PoolRequestId};

use crate::SeededRng;
use crate::ahead::AheadOfDisk;
use crate::buffered::BufferOfDisk;
use crate::event_queue::EventQueue;
use crate::non_preemptible::NonPreemptible;
use crate::oracle::{
    DataOracle, OracleCounts, ReserveOracle, ReserveTerms, Watched, assert_deadlines_kept,
    assert_idle_is_justified, least_requests,
};
use crate::slab::Slab;

mod contracts;
mod disks;
mod load;
mod pool;
mod pool_report;
mod pool_state;
mod read_ahead;
mod record;
mod recording;
mod report;
mod write_buffer;

use self::load::{Load, Target};
use self::pool_state::SimulatedPool;
use self::record::Record;
pub use self::record::{RECORDED_MAX, RecordedRequest};

/// The most requests of one open loop that wait at a time; more are dropped and counted.
const BACKLOG_MAX: u32 = 65_536;

/// The number of requests in one engine from which on requests of open loops are dropped. The
/// config's checks keep the outstanding requests of closed loops below it.
/// Read-ahead, and reads that wait for it, are not counted.
const DISK_BACKLOG_MAX: usize = REQUESTS_MAX / 2 - READ_AHEAD_RUNS_MAX - READ_AHEAD_WAITING_MAX;

/// The interval between two checks of the slow oracles.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The interval between two checks of where a pool's data is: a multiple of the other.
const PLACEMENT_INTERVAL: Duration = Duration::from_secs(5);
const _: () = assert!(PLACEMENT_INTERVAL.as_nanos().is_multiple_of(CHECK_INTERVAL.as_nanos()));

#[derive(Clone, Copy, Debug)]
enum Entry {
    /// A workload sends a request.
    Send { load: usize },
    /// A request is answered from the host's memory.
    Hit(Reply),
    /// A change of the pool is made.
    Change(usize),
    /// A request to the pool that needed no disk is answered.
    PoolAnswer(PoolRequestId, bool),
    /// The slow oracles check.
    Check,
}

#[derive(Debug)]
struct Disk {
    name: String,
    settings: Settings,
    engine: Engine,
    /// Of each volume, by its number: its place in the plan, and its requests in the engine.
    engaged: Vec<(usize, u32)>,
    /// Streams that begin and end.
    agenda: ContractSchedule,
    ahead: Option<AheadOfDisk>,
    buffer: Option<BufferOfDisk>,
    device: AnyDevice,
    /// The commands in the drive, with the time of their dispatch.
    running: Vec<(Command, Instant)>,
    data: DataOracle,
    /// Whether a volume of the disk has, or had, a limit.
    limited: bool,
    /// The random numbers that decide which commands fail, and `n`: one command in `n` fails.
    failures: Option<(SeededRng, u64)>,
    /// The longest time for which its high-priority volumes can occupy the disk.
    burst: Duration,
    /// The longest time from a command's dispatch to its completion.
    longest: Duration,
    /// The longest time that the drive spent on a command.
    service_longest: Duration,
    /// The last completion.
    completed: Instant,
    bytes: Bytes,
    non_preemptible: NonPreemptible,
    /// The absolute error of the estimates of its requests.
    error: Latency,
}

/// A volume on one disk, or a pool's volume on one of its disks.
#[derive(Debug)]
struct Volume {
    name: String,
    disk: usize,
    id: VolumeId,
    map: VolumeMap,
    /// Its sectors on the disk.
    extent: Extent,
    latency: Latency,
    waiting: Latency,
    /// The absolute error of the estimates of its requests.
    error: Latency,
    runs: Runs,
    declared: Option<RateContract>,
    bytes: Bytes,
    reserve_oracle: ReserveOracle,
    dropped: u64,
    answered: u64,
}

#[derive(Debug)]
struct Sent {
    by: Sender,
    /// The volume that is charged.
    volume: usize,
    at: Instant,
    operation: Operation,
    watched: Watched,
}

/// What sent a request.
#[derive(Clone, Copy, Debug)]
enum Sender {
    Load(usize),
    ReadAhead(SegmentId),
    Destage(Destage),
    Pool(PieceId),
}

/// A volume's state, as experiments sample it.
#[derive(Clone, Copy, Debug)]
pub struct VolumeView {
    /// Disk time charged so far.
    pub disk_time: DiskTime,
    /// Requests answered so far.
    pub requests: u64,
    /// The level of its reserve bucket, negative for a debt; zero under a policy without buckets.
    pub balance: DiskTime,
    /// What its requests have demanded of the disk itself, if the policy tells.
    pub demand: Option<engine::ServiceDemand>,
}

/// The first of the random-number streams that decide which commands fail. Streams below it are
/// the workloads'.
const FAILURES: u64 = 1 << 32;

/// The simulation of a plan.
#[derive(Debug)]
pub struct Simulation {
    seed: u64,
    now: Instant,
    disks: Vec<Disk>,
    /// Those of the plan, then those of its pool on each of their disks.
    volumes: Vec<Volume>,
    pool: Option<SimulatedPool>,
    loads: Vec<Load>,
    events: EventQueue<Entry>,
    sent: Slab<Sent>,
    counts: OracleCounts,
    failed: u64,
    record: Record,
    /// Why a trace cannot be replayed any further.
    refused: Option<TraceError>,
}

impl Simulation {
    /// A simulation at virtual time zero.
    ///
    /// # Panics
    /// On an unchecked plan.
    pub fn new(plan: &Plan) -> Self {
        let mut disks = Disk::all(plan);
        let volumes = plan.volumes.iter().enumerate();
        let mut volumes: Vec<Volume> =
            volumes.map(|(place, volume)| Volume::new(place, volume, &mut disks)).collect();
        let pool = SimulatedPool::new(plan, &mut disks, &mut volumes);
        let loads: Vec<Load> = (0..)
            .zip(&plan.workloads)
            .map(|(stream, workload)| {
                let target = match workload.volume {
                    LoadedVolume::Single(volume) => {
                        (Target::Volume(volume.0), volumes[volume.0].map.size())
                    }
                    of_pool => pool.as_ref().expect("it has the volume").target(of_pool),
                };
                Load::new(workload, target, SeededRng::new(plan.seed, stream))
            })
            .collect();
        let mut events = EventQueue::new();
        if let Some(pool) = &pool {
            pool.schedule_changes(|at, index| events.schedule(at, Entry::Change(index)));
        }
        for (index, load) in loads.iter().enumerate() {
            if pool.as_ref().is_some_and(|pool| !pool.is_there(load.target)) {
                continue;
            }
            load.schedule_first(|at| events.schedule(at, Entry::Send { load: index }));
        }
        events.schedule(Instant::ZERO + CHECK_INTERVAL, Entry::Check);
        Self {
            seed: plan.seed,
            now: Instant::ZERO,
            disks,
            volumes,
            pool,
            loads,
            events,
            sent: Slab::new(),
            counts: OracleCounts::default(),
            failed: 0,
            record: Record::default(),
            refused: None,
        }
    }

    /// From now on, one command in `of` fails on every disk.
    ///
    /// # Panics
    /// If `of` is zero.
    pub fn fail_one_in(&mut self, of: u64) {
        assert!(of > 0, "one command in zero cannot fail");
        for (disk, stream) in self.disks.iter_mut().zip(FAILURES..) {
            disk.failures = Some((SeededRng::new(self.seed, stream), of));
        }
    }

    /// The number of requests that were answered with a failure.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Runs until `end`.
    ///
    /// # Panics
    /// When an oracle does not hold, or a trace cannot be replayed.
    pub fn run_until(&mut self, end: Instant) {
        self.advance(end).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Runs until `end`, or until a trace cannot be replayed any further.
    ///
    /// # Errors
    /// The error of the trace.
    ///
    /// # Panics
    /// When an oracle does not hold.
    pub fn advance(&mut self, end: Instant) -> Result<(), TraceError> {
        while let Some(at) = self.next_at().filter(|at| *at <= end) {
            self.now = at;
            for disk in 0..self.disks.len() {
                self.collect(disk);
            }
            self.disks.iter_mut().for_each(|disk| disk.apply_scheduled_contracts(at));
            while let Some(entry) = self.events.take(at) {
                match entry {
                    Entry::Send { load } => self.send(load),
                    Entry::Hit(reply) => self.answer(reply),
                    Entry::Change(index) => self.change_pool(index),
                    Entry::PoolAnswer(id, is_done) => self.answer_pool_client(id, is_done),
                    Entry::Check => self.check(),
                }
            }
            self.advance_pool();
            loop {
                for disk in 0..self.disks.len() {
                    self.drain(disk);
                }
                if !self.advance_pool() {
                    break;
                }
            }
            if let Some(error) = &self.refused {
                return Err(error.clone());
            }
        }
        self.now = end;
        Ok(())
    }

    fn next_at(&self) -> Option<Instant> {
        let mut next = self.events.next_at();
        for disk in &self.disks {
            let agenda = disk.agenda.next_change();
            let (device, engine) = (disk.device.next_completion(), disk.engine.next_wakeup());
            for at in [device, engine, agenda, disk.next_destage()] {
                next = at.map(|at| next.map_or(at, |next| next.min(at))).or(next);
            }
        }
        next.map(|at| at.max(self.now))
    }

    fn send(&mut self, index: usize) {
        let load = &mut self.loads[index];
        if self.now >= load.stop || load.source.is_exhausted() {
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
            self.events.schedule(at, Entry::Send { load: index });
        }
        let volume = match load.target {
            Target::Volume(volume) => volume,
            Target::Pool(volume) => return self.send_to_pool(index, volume, traced),
        };
        let place = volume;
        let volume = &mut self.volumes[place];
        let closed = load.source.outstanding().is_some();
        let full = self.disks[volume.disk].engine.requests() >= DISK_BACKLOG_MAX;
        if load.in_flight >= BACKLOG_MAX || full && !closed {
            volume.dropped += 1;
            return;
        }
        let wanted = traced.unwrap_or_else(|| load.source.generate());
        let extent = match wanted.op {
            Op::Flush => wanted.extent,
            _ => volume.map.map(wanted.extent).next().expect("a volume is mapped").extent,
        };
        assert_eq!(extent.len, wanted.extent.len, "a volume is one extent");
        let operation = Operation { extent, ..wanted };
        load.in_flight += 1;
        let disk = &mut self.disks[volume.disk];
        volume.runs.record(extent, SEQUENTIAL_WITHIN);
        let watched = disk.data.sent(&operation, volume.extent);
        let by = Sender::Load(index);
        let id = self.sent.insert(Sent { by, volume: place, at: self.now, operation, watched });
        let request = Request { id, volume: volume.id, operation };
        let (disk, bounds) = (volume.disk, volume.extent);
        self.submit(disk, request, Some(bounds));
    }

    /// Passes the drive's completions to the engine.
    fn collect(&mut self, index: usize) {
        let disk = &mut self.disks[index];
        while let Some(done) = disk.device.complete(self.now) {
            let index = disk.running.iter().position(|(command, _)| command.id.0 == done.tag.0);
            let (command, issued) =
                disk.running.swap_remove(index.expect("the command was issued"));
            disk.longest = disk.longest.max(done.at.since(issued));
            let service = done.at.since(disk.completed.max(issued));
            disk.service_longest = disk.service_longest.max(service);
            disk.completed = done.at;
            let failed = disk.failures.as_mut().is_some_and(|(rng, of)| rng.below(*of) == 0);
            let mut last = false;
            for piece in disk.engine.command_pieces(&command) {
                let sent = self.sent.get_mut(piece.request).expect("the request is not answered");
                if !failed {
                    disk.data.moved(&piece, &mut sent.watched);
                    if let (Sender::ReadAhead(segment), Some(ahead)) = (sent.by, &mut disk.ahead) {
                        ahead.progress(segment, &piece, &disk.data);
                    }
                }
                last = command.operation.extent.end() == sent.operation.extent.end();
            }
            disk.non_preemptible.completed(&command, issued, last, self.now);
            let outcome = if failed { Outcome::Failed } else { Outcome::Done };
            if let (Purpose::Prefetch, Some(ahead)) = (command.purpose, &mut disk.ahead) {
                ahead.prefetch_ended(command.operation.extent, (outcome, self.now), &disk.data);
            }
            disk.engine.handle(Event::Completed { command: command.id, outcome }, self.now);
        }
    }

    /// Passes the engine's actions to the drive and to the clients.
    fn drain(&mut self, index: usize) {
        loop {
            self.read_ahead(index);
            self.write_buffer(index);
            let Some(action) = self.disks[index].engine.poll(self.now) else { break };
            match action {
                Action::Issue(command) => {
                    let disk = &mut self.disks[index];
                    disk.non_preemptible.issued(&command, self.now);
                    disk.running.push((command, self.now));
                    if let (Purpose::Prefetch, Some(ahead)) = (command.purpose, &mut disk.ahead) {
                        ahead.ahead.prefetch_started(command.volume, command.operation.extent);
                    }
                    disk.device.submit(self.now, Tag(command.id.0), command.operation);
                }
                Action::Reply(reply) => self.replied(index, reply),
            }
        }
        let disk = &mut self.disks[index];
        if disk.running.is_empty() {
            disk.non_preemptible.on_idle(disk.engine.requests() > 0, self.now);
        }
        if disk.engine.requests() > disk.engine.running() && disk.engine.queued() > 0 {
            assert_idle_is_justified(&disk.engine, &disk.settings, disk.limited, self.now);
            self.counts.rests_checked += 1;
        }
    }

    fn answer(&mut self, reply: Reply) {
        let sent = self.sent.remove(reply.request);
        let sent = sent.expect("a request is answered exactly once");
        self.counts.answered += 1;
        self.account(&sent, &reply);
        match sent.by {
            Sender::Load(index) => {
                let Sent { volume, at, operation, .. } = sent;
                self.record.add(volume, (operation, at), &reply, self.now);
                self.after_answer(index);
            }
            Sender::Pool(piece) => self.piece_done(piece, &sent, reply.outcome),
            Sender::ReadAhead(_) | Sender::Destage(_) => unreachable!("a client waits for it"),
        }
    }

    /// Checks the answer to a request, and counts it.
    fn account(&mut self, sent: &Sent, reply: &Reply) {
        let Reply { disk_time, estimate, .. } = *reply;
        let Sent { at, operation, watched, .. } = sent;
        let volume = &mut self.volumes[sent.volume];
        let disk = &mut self.disks[volume.disk];
        // A failed request leaves its data undefined: all, a part or none of it was transferred.
        match reply.outcome {
            Outcome::Done => disk.data.answered(operation, watched, self.now),
            Outcome::Failed => self.failed += 1,
        }
        let bytes = match operation.op {
            Op::Read | Op::Write => operation.extent.len.bytes(),
            Op::Flush | Op::Trim | Op::WriteZeroes | Op::Seek => Bytes::ZERO,
        };
        disk.bytes += bytes;
        volume.bytes += bytes;
        volume.answered += 1;
        volume.latency.record(self.now.since(*at));
        volume.waiting.record(reply.waited);
        // A policy without estimates has no error.
        if estimate > DiskTime::ZERO {
            let off = Duration::from_nanos((disk_time - estimate).as_nanos().unsigned_abs());
            volume.error.record(off);
            disk.error.record(off);
        }
        if let Some(kept) = disk.engine.deadline_stats(volume.id) {
            assert_deadlines_kept(kept, &disk.settings, &volume.name, self.now);
        }
        if let Some(stats) = disk.engine.latency_stats(volume.id) {
            assert_eq!(stats.late, 0, "at {}: a request of {} was late", self.now, volume.name);
        }
    }

    /// A load's request is answered: its client goes on.
    fn after_answer(&mut self, index: usize) {
        let load = &mut self.loads[index];
        load.in_flight -= 1;
        let elapsed = self.now.since(load.start);
        if let Some((count, pause)) = load.source.after_answer(load.in_flight, elapsed) {
            for _ in 0..count {
                if pause == Duration::ZERO {
                    self.send(index);
                } else {
                    self.events.schedule(self.now + pause, Entry::Send { load: index });
                }
            }
        }
    }

    fn check(&mut self) {
        self.events.schedule(self.now + CHECK_INTERVAL, Entry::Check);
        if self.now.since(Instant::ZERO).as_nanos().is_multiple_of(PLACEMENT_INTERVAL.as_nanos()) {
            self.check_placement();
        }
        for disk in &mut self.disks {
            disk.engine.invariants();
            disk.ahead.iter().for_each(AheadOfDisk::invariants);
            disk.buffer.iter().for_each(BufferOfDisk::invariants);
            let in_service = disk.running.iter().map(|(_, issued)| self.now.since(*issued)).max();
            let bound = disk.non_preemptible.longest_bound(self.now);
            disk.longest = disk.longest.max(in_service.unwrap_or_default()).max(bound);
        }
        for volume in &mut self.volumes {
            let disk = &mut self.disks[volume.disk];
            let terms = ReserveTerms {
                settings: &disk.settings,
                longest: disk.longest,
                service_longest: disk.service_longest,
                burst: disk.burst,
                now: self.now,
            };
            let engaged = disk.engaged[volume.id.0 as usize].1;
            let is_backlogged = engaged >= least_requests(&disk.settings);
            volume.reserve_oracle.check(&mut disk.engine, volume.id, is_backlogged, terms);
        }
    }
}
