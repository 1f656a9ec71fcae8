//! A disk without geometry: service times are given, EDF orders the released requests, and best
//! effort goes first within the slack. Times are whole ticks: small numbers reveal errors that
//! large ones hide.

use spindle_engine::stream::{Task, TaskSet};
use units::{DiskTime, Duration};

/// A random number generator with a published sequence (SplitMix64): the same on every machine.
#[derive(Clone, Debug)]
pub struct SeededRng(pub u64);

impl SeededRng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }
}

/// A task in whole ticks, of which one is 1 ns.
pub fn task(period: u64, cost: u64, longest: u64) -> Task {
    let ticks = |n: u64| DiskTime::from_nanos(i64::try_from(n).expect("small"));
    Task::new(Duration::from_nanos(period), ticks(cost), ticks(longest)).expect("a task")
}

/// A sporadic task in whole ticks.
pub fn sporadic(period: u64, deadline: u64, burst: u32, cost: u64, longest: u64) -> Task {
    let ticks = |n: u64| DiskTime::from_nanos(i64::try_from(n).expect("small"));
    let (period, deadline) = (Duration::from_nanos(period), Duration::from_nanos(deadline));
    Task::sporadic(period, deadline, burst, ticks(cost), ticks(longest)).expect("a task")
}

/// The requests of the tasks and of best effort.
#[derive(Clone, Debug)]
pub struct Load {
    /// When each task's first request is released; further ones follow as soon as its burst and its
    /// period allow.
    pub offsets: Vec<u64>,
    /// The RNG that makes requests shorter and later than the worst case; `None`: the worst case.
    pub below_worst: Option<SeededRng>,
    /// The arrivals and service times of best-effort commands; sorted.
    pub best_effort: Vec<(u64, u64)>,
    /// The latest deadline of each task's requests.
    pub ends: Vec<u64>,
}

/// A queued request and its remaining work.
#[derive(Clone, Copy, Debug)]
struct Job {
    deadline: u64,
    task: usize,
    left: u64,
    /// It has begun, and other requests were served since.
    interrupted: bool,
    began: bool,
}

/// A request that ended after its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// The index of its task, shortest deadline first.
    pub task: usize,
    pub deadline: u64,
    pub ended: u64,
}

/// The first miss under EDF in commands of at most `longest` each, with best effort out of `slack`.
/// An interrupted request takes the set's `preemption` longer, whatever interrupted it; if best
/// effort did, the slack pays.
///
/// Best effort goes first while its command fits the rest of the slack, which is restored when no
/// released request is queued (RTAS 2000, §3.2). A command that never fits is left out.
pub fn first_miss(set: &TaskSet, slack: u64, load: &Load) -> Option<Miss> {
    let mut disk = Disk::new(set, load);
    let mut best_effort = load.best_effort.iter().filter(|&&(_, takes)| takes <= slack).peekable();
    let mut left = slack;
    loop {
        disk.release();
        if disk.waiting.is_empty() {
            left = slack;
        }
        let return_cost = if disk.is_in_a_request() { disk.preemption } else { 0 };
        let fits = |&&&(at, takes): &&&(u64, u64)| at <= disk.now && takes + return_cost <= left;
        if let Some(&&(_, takes)) = best_effort.peek().filter(fits) {
            best_effort.next();
            left -= takes + return_cost;
            disk.now += takes;
            disk.interrupt_all_but(None);
        } else if let Some(first) = disk.first() {
            if let Some(miss) = disk.command(first) {
                return Some(miss);
            }
        } else {
            let wanted = best_effort.peek().map(|&&(at, _)| at);
            let next = disk.next_release().into_iter().chain(wanted).min()?;
            disk.now = disk.now.max(next);
        }
    }
}

/// T, D, b, C, q.
struct Ticks {
    period: u64,
    deadline: u64,
    burst: u64,
    cost: u64,
    longest: u64,
}

/// The tasks, their queued requests and the time.
struct Disk<'a> {
    tasks: Vec<Ticks>,
    preemption: u64,
    ends: &'a [u64],
    /// When each task's next request is released.
    next: Vec<u64>,
    /// When each task's burst could begin again in full.
    full: Vec<u64>,
    below_worst: Option<SeededRng>,
    waiting: Vec<Job>,
    now: u64,
}

impl<'a> Disk<'a> {
    fn new(set: &TaskSet, load: &'a Load) -> Self {
        let ticks = |time: DiskTime| time.as_nanos().unsigned_abs();
        let task = |task: Task| Ticks {
            period: task.period().as_nanos(),
            deadline: task.deadline().as_nanos(),
            burst: task.burst().into(),
            cost: ticks(task.cost()),
            longest: ticks(task.longest()),
        };
        Self {
            tasks: set.iter().map(|(_, of)| task(of)).collect(),
            preemption: ticks(set.preemption()),
            ends: &load.ends,
            next: load.offsets.clone(),
            full: vec![0; set.len()],
            below_worst: load.below_worst.clone(),
            waiting: Vec::new(),
            now: 0,
        }
    }

    /// Queues the requests that are released by now.
    fn release(&mut self) {
        for (task, &Ticks { period, deadline, burst, cost, .. }) in self.tasks.iter().enumerate() {
            while self.next[task] <= self.now && self.next[task] + deadline <= self.ends[task] {
                let (mut left, mut pause) = (cost, 0);
                if let Some(rng) = &mut self.below_worst {
                    left = rng.between(cost.div_ceil(2), cost);
                    pause = rng.between(0, 2) * rng.between(0, period);
                }
                let at = self.next[task];
                let job =
                    Job { deadline: at + deadline, task, left, interrupted: false, began: false };
                self.waiting.push(job);
                self.full[task] = self.full[task].max(at) + period;
                self.next[task] = at.max(self.full[task].saturating_sub((burst - 1) * period));
                self.next[task] += pause;
            }
        }
    }

    fn next_release(&self) -> Option<u64> {
        let coming = self.tasks.iter().zip(&self.next).zip(self.ends);
        coming
            .filter(|((task, at), end)| *at + task.deadline <= **end)
            .map(|((_, &at), _)| at)
            .min()
    }

    /// Earliest deadline first.
    fn first(&self) -> Option<usize> {
        let waiting = &self.waiting;
        let key = |job: &Job| (job.deadline, job.task, !job.began);
        (0..waiting.len()).min_by_key(|&job| key(&waiting[job]))
    }

    /// Serves one command of this request, or its return positioning. Returns a miss, if it ends
    /// after its deadline.
    fn command(&mut self, first: usize) -> Option<Miss> {
        self.interrupt_all_but(Some(first));
        let job = &mut self.waiting[first];
        if job.interrupted {
            // The return positioning is a command too: another request may be served after it.
            (self.now, job.interrupted) = (self.now + self.preemption, false);
            return None;
        }
        let command = job.left.min(self.tasks[job.task].longest);
        (self.now, job.left, job.began) = (self.now + command, job.left - command, true);
        let Job { deadline, task, left, .. } = *job;
        if left == 0 {
            self.waiting.swap_remove(first);
        }
        (self.now > deadline).then_some(Miss { task, deadline, ended: self.now })
    }

    /// Whether a request is interrupted in service.
    fn is_in_a_request(&self) -> bool {
        self.waiting.iter().any(|job| job.began && !job.interrupted)
    }

    fn interrupt_all_but(&mut self, first: Option<usize>) {
        for (index, job) in self.waiting.iter_mut().enumerate() {
            job.interrupted |= job.began && Some(index) != first;
        }
    }
}
