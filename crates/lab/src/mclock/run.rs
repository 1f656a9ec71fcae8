//! mClock in virtual time: the workloads of a plan, mClock's scheduler, and the plan's drive.
//!
//! The requests, their random numbers and the drive are those that [`sim::Simulation`] has of the
//! same plan.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use config::{LoadedVolume, Plan, Requests};
use drive::{AnyDevice, Tag};
use sim::{Generator, SeededRng};
use units::{Duration, Extent, Instant, Operation};

use super::scheduler::{ClientIndex, RequestId, Scheduler};
use super::terms::{Options, Terms};

/// A plan of one disk under mClock.
#[derive(Clone, Debug)]
pub(crate) struct MClockPlan<'a> {
    pub(crate) plan: &'a Plan,
    /// The terms of each volume; contracts of the plan are not looked at.
    pub(crate) terms: &'a [Terms],
    pub(crate) options: Options,
    /// The most commands in the drive.
    pub(crate) depth: u32,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The volume, by its index in the plan.
    pub(crate) volume: usize,
    pub(crate) sent: Instant,
    pub(crate) answered: Instant,
}

/// A workload.
struct Load {
    client: ClientIndex,
    extent: Extent,
    generator: Generator,
    in_flight: u32,
}

struct Sent {
    load: usize,
    at: Instant,
    operation: Operation,
}

struct Run {
    now: Instant,
    scheduler: Scheduler,
    device: AnyDevice,
    depth: u32,
    in_drive: u32,
    loads: Vec<Load>,
    /// When loads send their next requests; of equal instants the one that was entered first.
    due: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    entered: u64,
    sent: BTreeMap<u64, Sent>,
    requests: u64,
    answers: Vec<Answer>,
}

/// The answers to all requests of the plan within its duration, in their order.
///
/// # Panics
/// If the plan has more than one disk, a load that is not generated, or no duration.
pub(crate) fn answers(of: &MClockPlan<'_>) -> Vec<Answer> {
    let mut run = Run::new(of);
    run.until(Instant::ZERO + of.plan.duration.expect("a scenario has a duration"));
    run.answers
}

impl Run {
    fn new(of: &MClockPlan<'_>) -> Self {
        let [disk] = &of.plan.disks[..] else { panic!("mClock schedules one disk") };
        let device = AnyDevice::new(disk.served_model()).with_seed(of.plan.seed);
        assert!(of.depth > 0, "a command is in the drive");
        assert!(of.depth <= disk.drive.model.queue_depth_max(), "the drive's queue has room");
        assert_eq!(of.terms.len(), of.plan.volumes.len(), "each volume has terms");
        let workloads = (0..).zip(&of.plan.workloads);
        let loads = workloads.map(|(stream, workload)| {
            let LoadedVolume::Single(volume) = workload.volume else { panic!("there is no pool") };
            let Requests::Synthetic(drawn) = &workload.requests else {
                panic!("the loads are generated")
            };
            let extent = of.plan.volumes[volume.0].extent;
            let rng = SeededRng::new(of.plan.seed, stream);
            let generator = Generator::new(drawn, extent.len, rng);
            Load { client: ClientIndex(volume.0), extent, generator, in_flight: 0 }
        });
        let mut run = Self {
            now: Instant::ZERO,
            scheduler: Scheduler::new(of.terms, of.options),
            device: device.slowed(disk.slowed),
            depth: of.depth,
            in_drive: 0,
            loads: loads.collect(),
            due: BinaryHeap::new(),
            entered: 0,
            sent: BTreeMap::new(),
            requests: 0,
            answers: Vec::new(),
        };
        for (load, workload) in of.plan.workloads.iter().enumerate() {
            let count = run.loads[load].generator.outstanding().unwrap_or(1);
            (0..count).for_each(|_| run.enter(Instant::ZERO + workload.start, load));
        }
        run
    }

    fn enter(&mut self, at: Instant, load: usize) {
        self.due.push(Reverse((at, self.entered, load)));
        self.entered += 1;
    }

    fn until(&mut self, end: Instant) {
        while let Some(at) = self.next_at().filter(|at| *at <= end) {
            self.now = at;
            while let Some(done) = self.device.complete(at) {
                self.in_drive -= 1;
                self.answer(done.tag);
            }
            while let Some(Reverse((_, _, load))) = self.take_due() {
                self.send(load);
            }
            while self.in_drive < self.depth
                && let Some(selected) = self.scheduler.select(at)
            {
                let id = selected.request.0;
                self.in_drive += 1;
                self.device.submit(at, Tag(id), self.sent[&id].operation);
            }
            self.scheduler.invariants();
        }
    }

    fn take_due(&mut self) -> Option<Reverse<(Instant, u64, usize)>> {
        let is_due = self.due.peek().is_some_and(|Reverse((at, ..))| *at <= self.now);
        is_due.then(|| self.due.pop()).flatten()
    }

    fn next_at(&self) -> Option<Instant> {
        let send = self.due.peek().map(|Reverse((at, ..))| *at);
        let tag = self.scheduler.next_due().filter(|_| self.in_drive < self.depth);
        let next = [send, self.device.next_completion(), tag].into_iter().flatten().min();
        next.map(|at| at.max(self.now))
    }

    fn send(&mut self, index: usize) {
        let load = &mut self.loads[index];
        let wanted = load.generator.operation();
        let start = load.extent.start + units::Sectors(wanted.extent.start.0);
        let operation = Operation { extent: Extent::new(start, wanted.extent.len), ..wanted };
        load.in_flight += 1;
        let id = self.requests;
        self.requests += 1;
        self.sent.insert(id, Sent { load: index, at: self.now, operation });
        let request = (RequestId(id), operation.extent);
        self.scheduler.arrive(self.now, load.client, request);
        if load.generator.outstanding().is_none() {
            let pause = load.generator.pause();
            self.enter(self.now + pause, index);
        }
    }

    /// A request is answered, and its client goes on.
    fn answer(&mut self, tag: Tag) {
        let Sent { load: index, at, .. } = self.sent.remove(&tag.0).expect("it was sent");
        let load = &mut self.loads[index];
        let client = load.client;
        self.answers.push(Answer { volume: client.0, sent: at, answered: self.now });
        self.scheduler.complete(self.now, client);
        load.in_flight -= 1;
        if let Some((count, pause)) = load.generator.after_answer(load.in_flight) {
            for _ in 0..count {
                if pause == Duration::ZERO {
                    self.send(index);
                } else {
                    self.enter(self.now + pause, index);
                }
            }
        }
    }
}
