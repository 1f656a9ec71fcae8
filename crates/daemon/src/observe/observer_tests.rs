//! A disk's loop in virtual time with completions that are noticed late, and the observer's report
//! on each request.

use std::collections::BTreeMap;

use backend::{Disk, EmulatedDisk, Job, RamStore, Tag};
use engine::{Action, Contract, Event, Outcome, Priority, Request, RequestId, VolumeId};
use units::{Extent, Lba, Op, Sectors, Share};

use super::*;
use crate::observe::subscribers::{Filter, Subscriber};

/// A seeded random number generator.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

struct World {
    engine: Engine,
    disk: EmulatedDisk,
    observer: Observer,
    subscriber: Subscriber,
    rng: Rng,
    now: Instant,
    commands: BTreeMap<u64, Command>,
    /// When each open request was received, and its volume.
    open: BTreeMap<u64, (Instant, VolumeId)>,
    /// Whether the disk reports the parts of a command's time.
    reports_parts: bool,
    done: Vec<(Traced, Duration)>,
    /// Replies that are not traced.
    untraced: usize,
}

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

impl World {
    fn new(disk: &str, seed: u64) -> Self {
        let text = format!("[[disk]]\nname = \"d0\"\n{disk}\n");
        let plan =
            config::Plan::parse(&text, "plan.toml", std::path::Path::new("")).expect("a plan");
        let engine = plan.disks[0].engine_on_host(Instant::ZERO);
        let model = plan.disks[0].drive.model.clone();
        let disk = EmulatedDisk::new(model, Box::new(RamStore::default()));
        let subscribers = Arc::new(Subscribers::new(Some(us(20_000))));
        let subscriber = subscribers.subscribe(Filter::ALL).expect("there is room");
        let observer = Observer::new(config::DiskIndex(0), subscribers);
        let (commands, open) = (BTreeMap::new(), BTreeMap::new());
        let (rng, now, reports_parts, done) = (Rng(seed), Instant::ZERO, true, Vec::new());
        Self {
            engine,
            disk,
            observer,
            subscriber,
            rng,
            now,
            commands,
            open,
            reports_parts,
            done,
            untraced: 0,
        }
    }

    fn volume(&mut self, reserve: u32, limit: u32, priority: Priority) {
        let limit = Share::from_percent(limit);
        let contract = Contract { limit, ..Contract::reserve(Share::from_percent(reserve)) };
        let id = self.engine.add_volume(contract, self.now).expect("it fits");
        self.engine.set_priority(id, priority);
    }

    fn ask(&mut self, volume: VolumeId) {
        let slot =
            (0..u64::MAX).find(|slot| !self.open.contains_key(slot)).expect("there are many");
        let op = if self.rng.below(3) == 0 { Op::Write } else { Op::Read };
        let len = Sectors(8 << self.rng.below(8));
        let start = Lba(self.rng.below(30_000_000));
        let operation = Operation { op, extent: Extent::new(start, len), fua: false };
        let received = self.now.saturating_sub(us(self.rng.below(300)));
        self.open.insert(slot, (received, volume));
        let (id, export) = (TracedId::Erasure, ExportId(volume.0));
        let entered = Entered { slot, id, export, operation, received: Some(received) };
        self.observer.entered(entered, self.now);
        let id = RequestId(slot);
        self.engine.handle(Event::Submit(Request { id, volume, operation }), self.now);
    }

    /// One iteration of the loop.
    fn iterate(&mut self, submits: &[VolumeId]) {
        let now = self.now;
        let running: Vec<Command> = self.commands.values().copied().collect();
        self.observer.update_enabled(&running, now);
        for volume in submits {
            self.ask(*volume);
        }
        while let Some(finished) = self.disk.reap(now) {
            let command = self.commands.remove(&finished.tag.0).expect("it was submitted");
            let parts = self.disk.parts().filter(|_| self.reports_parts);
            let pieces = self.engine.command_pieces(&command);
            let reported = (parts, finished.delay.unwrap_or_default());
            self.observer.completed(&command, pieces, reported, now);
            let outcome = Outcome::Done;
            self.engine.handle(Event::Completed { command: command.id, outcome }, now);
        }
        let mut ended = Vec::new();
        while let Some(action) = self.engine.poll(now) {
            match action {
                Action::Issue(command) => {
                    let writes = command.operation.op == Op::Write;
                    let len = if writes { command.operation.extent.len.bytes_usize() } else { 0 };
                    let (tag, operation) = (Tag(command.id.0), command.operation);
                    self.commands.insert(command.id.0, command);
                    self.observer.issued(&command, self.engine.command_pieces(&command), now);
                    let job = Job { tag, operation, data: vec![0; len].into(), no_hole: false };
                    self.disk.submit(job, now);
                }
                Action::Reply(reply) => {
                    let (slot, volume) = (reply.request.0, reply.volume);
                    let whose = |volume: VolumeId| Some(ExportId(volume.0));
                    let failed = reply.outcome == Outcome::Failed;
                    self.observer.answered((slot, failed), (&self.engine, whose), volume, now);
                    ended.push(self.open.remove(&slot).expect("it was submitted").0);
                }
            }
        }
        self.observer.decided(&self.engine, now);
        let handed = now + us(self.rng.below(50));
        let mut slow = 0;
        self.observer.handed_over(|| handed, |_| slow += 1);
        let traced = self.subscriber.next(Duration::ZERO).requests;
        let missing = self.untraced.min(ended.len());
        assert_eq!(traced.len() + missing, ended.len(), "each reply is traced once");
        let totals: Vec<Duration> =
            ended.into_iter().map(|received| handed.since(received)).collect();
        let long = totals.iter().filter(|total| **total >= us(20_000)).count();
        assert_eq!(if missing > 0 { 0 } else { long }, slow);
        self.done.extend(traced.into_iter().zip(totals));
    }

    /// Runs a closed loop of `volumes` for `requests` requests.
    fn run(&mut self, volumes: &[VolumeId], requests: usize) {
        self.iterate(volumes);
        let mut seen = 0;
        while self.done.len() < requests {
            let moments = [self.disk.next_event(), self.engine.next_wakeup()];
            let next = moments.into_iter().flatten().min().expect("something is under way");
            self.now = next.max(self.now) + us(1 + self.rng.below(400));
            self.iterate(&[]);
            let again: Vec<VolumeId> =
                self.done[seen..].iter().map(|(t, _)| VolumeId(t.export.0)).collect();
            seen = self.done.len();
            self.now += us(self.rng.below(60));
            self.iterate(&again);
        }
    }
}

fn sum(traced: &[(Traced, Duration)], part: fn(&Breakdown) -> Duration) -> Duration {
    traced.iter().fold(Duration::ZERO, |sum, (traced, _)| sum + part(&traced.breakdown))
}

const DISKS: [(&str, &str); 6] = [
    ("one command", "drive = \"st318437lw\""),
    ("four commands", "drive = \"st318437lw\"\ndepth = 4\nbatch = \"0ms\""),
    ("first come", "drive = \"st318437lw\"\npolicy = \"fcfs\""),
    ("preemptible", "drive = \"st318437lw\"\nexecution = \"preemptible\""),
    ("deadlines", "drive = \"st318437lw\"\npolicy = \"delta-star\""),
    ("flash", "drive = \"samsung-870evo-1t\"\ndepth = 2"),
];

#[test]
fn the_parts_of_every_request_s_time_add_up_to_it() {
    for (what, disk) in DISKS {
        for seed in 1..=4 {
            let mut world = World::new(disk, seed);
            world.reports_parts = seed != 4;
            let [limit, high] = if what == "deadlines" { [100, 0] } else { [40, 1] };
            world.volume(30, 100, Priority::Normal);
            world.volume(10, limit, Priority::Normal);
            world.volume(0, 100, if high == 1 { Priority::High } else { Priority::Normal });
            let volumes = [0, 0, 0, 1, 1, 2].map(VolumeId);
            world.run(&volumes, 400);
            for (number, (traced, total)) in world.done.iter().enumerate() {
                let sum = traced.breakdown.total();
                assert_eq!(sum, *total, "{what}, seed {seed}, request {number}: {traced:?}");
                let named = traced.served.iter().flatten();
                let named = named.fold(Duration::ZERO, |sum, (_, time)| sum + *time);
                assert!(named <= traced.breakdown.queued_behind, "{what}, seed {seed}: {traced:?}");
            }
            let done = &world.done;
            assert!(sum(done, |b| b.queued_behind) > Duration::ZERO, "{what}, seed {seed}");
            assert!(
                sum(done, |b| b.inbox) > Duration::ZERO && sum(done, |b| b.late) > Duration::ZERO
            );
            assert_eq!(sum(done, |b| b.disk) > Duration::ZERO, seed == 4, "{what}, seed {seed}");
            let arm = sum(done, |b| b.seek) > Duration::ZERO
                && sum(done, |b| b.rotation) > Duration::ZERO;
            assert_eq!(arm, seed != 4 && what != "flash", "{what}, seed {seed}");
        }
    }
}

#[test]
fn at_depth_one_the_volumes_served_meanwhile_are_reported_to_the_nanosecond() {
    let mut world = World::new(DISKS[2].1, 7);
    (0..4).for_each(|_| world.volume(0, 100, Priority::Normal));
    world.run(&[0, 1, 2, 3].map(VolumeId), 300);
    for (traced, _) in &world.done {
        let named = traced.served.iter().flatten();
        let named = named.fold(Duration::ZERO, |sum, (_, time)| sum + *time);
        let between = traced.breakdown.queued_behind.saturating_sub(named);
        // The disk is idle from a reply until the next request: that time belongs to no volume.
        assert!(between <= us(120), "{traced:?}");
    }
}

#[test]
fn a_volume_at_its_limit_on_an_idle_disk_is_throttled_by_its_limit() {
    let mut world = World::new(DISKS[0].1, 3);
    world.volume(10, 20, Priority::Normal);
    world.run(&[VolumeId(0); 2], 60);
    let late = &world.done[30..];
    let total = sum(late, Breakdown::total);
    assert!(sum(late, |b| b.throttled) > total / 2, "{late:?}");
    assert!(late.iter().all(|(traced, _)| traced.throttled_by == ThrottleReason::Limit));
}

#[test]
fn a_request_delayed_for_the_rotation_reports_a_rotational_wait() {
    let mut world = World::new(DISKS[3].1, 5);
    world.volume(0, 100, Priority::Normal);
    world.run(&[VolumeId(0)], 200);
    assert!(sum(&world.done, |b| b.rotational_wait) > us(1_000));
    assert_eq!(sum(&world.done, |b| b.throttled), Duration::ZERO);
}

#[test]
fn requests_that_entered_before_the_first_subscriber_are_not_traced() {
    let mut world = World::new(DISKS[0].1, 9);
    world.volume(0, 100, Priority::Normal);
    let subscribers = Arc::new(Subscribers::default());
    world.observer = Observer::new(config::DiskIndex(0), subscribers.clone());
    world.untraced = 1;
    world.iterate(&[VolumeId(0)]);
    world.subscriber = subscribers.subscribe(Filter::ALL).expect("there is room");
    world.now = world.disk.next_event().expect("a command is under way");
    world.iterate(&[]);
    assert!(world.open.is_empty() && world.done.is_empty(), "it was answered, and not traced");
}
