//! A disk without geometry: requests take what they take, EDF picks among those released, and best effort goes first
//! while the slack lasts. In whole ticks, so that small numbers find what large ones hide.

use spindle_engine::stream::{Task, TaskSet};
use units::{DiskTime, Duration};

/// Dice with a published sequence (SplitMix64): the same on every machine.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
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

/// What the clients do and best effort wants.
#[derive(Clone, Debug)]
pub struct Load {
    /// When each task's first request is released; the next ones follow after a period each.
    pub offsets: Vec<u64>,
    /// Whether requests take less than they might, and come later than they might: by these dice.
    pub below_worst: Option<Dice>,
    /// When best effort sends a command, and how long it takes; sorted.
    pub best_effort: Vec<(u64, u64)>,
    /// Until when each task's requests are due.
    pub ends: Vec<u64>,
}

/// A request that waits, with what is left of it.
#[derive(Clone, Copy, Debug)]
struct Job {
    deadline: u64,
    task: usize,
    left: u64,
    /// It began, and others had the disk since.
    interrupted: bool,
    began: bool,
}

/// A request that ended too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// Its place among the tasks, shortest period first.
    pub task: usize,
    pub deadline: u64,
    pub ended: u64,
}

/// EDF in commands of at most `longest` each, with best effort out of `slack`: the first miss, if there is one. What was
/// interrupted takes the set's `preemption` longer, whoever interrupted it; best effort pays that out of the slack.
///
/// Best effort goes first while what is left of the slack has room for its command, and the slack is whole again whenever
/// no released request waits (RTAS 2000, §3.2).
pub fn first_miss(set: &TaskSet, slack: u64, load: &Load) -> Option<Miss> {
    let tasks: Vec<(u64, u64, u64)> = set
        .iter()
        .map(|(_, task)| {
            let ticks = |time: DiskTime| time.as_nanos().unsigned_abs();
            (task.period().as_nanos(), ticks(task.cost()), ticks(task.longest()))
        })
        .collect();
    let preemption = set.preemption().as_nanos().unsigned_abs();
    let mut next = load.offsets.clone();
    let mut dice = load.below_worst.clone();
    let mut waiting: Vec<Job> = Vec::new();
    let (mut now, mut left, mut sent) = (0_u64, slack, 0_usize);
    loop {
        for (place, &(period, cost, _)) in tasks.iter().enumerate() {
            while next[place] <= now && next[place] + period <= load.ends[place] {
                let work = dice.as_mut().map_or(cost, |dice| dice.between(cost.div_ceil(2), cost));
                waiting.push(Job {
                    deadline: next[place] + period,
                    task: place,
                    left: work,
                    interrupted: false,
                    began: false,
                });
                next[place] += period
                    + dice.as_mut().map_or(0, |dice| dice.next() % 3 * dice.between(0, period));
            }
        }
        if waiting.is_empty() {
            left = slack;
        }
        let way_back = if running(&waiting) { preemption } else { 0 };
        if let Some(&(at, takes)) = load.best_effort.get(sent)
            && at <= now
            && takes + way_back <= left
        {
            (sent, left, now) = (sent + 1, left - takes - way_back, now + takes);
            interrupt(&mut waiting, None);
            continue;
        }
        // A command that never fits would keep the others from coming up.
        if let Some(&(_, takes)) = load.best_effort.get(sent)
            && takes > slack
        {
            sent += 1;
            continue;
        }
        let first =
            (0..waiting.len()).min_by_key(|&job| (waiting[job].deadline, waiting[job].task));
        if let Some(first) = first {
            interrupt(&mut waiting, Some(first));
            let job = &mut waiting[first];
            if job.interrupted {
                (now, job.interrupted) = (now + preemption, false);
            }
            let command = job.left.min(tasks[job.task].2);
            (now, job.left, job.began) = (now + command, job.left - command, true);
            if now > job.deadline {
                return Some(Miss { task: job.task, deadline: job.deadline, ended: now });
            }
            if job.left == 0 {
                waiting.swap_remove(first);
            }
            continue;
        }
        let coming = tasks.iter().zip(&next).zip(&load.ends);
        let released =
            coming.filter(|((task, at), end)| *at + task.0 <= **end).map(|((_, &at), _)| at).min();
        let wanted = load.best_effort.get(sent).map(|&(at, _)| at);
        match released.into_iter().chain(wanted).min() {
            Some(at) => now = now.max(at),
            None => return None,
        }
    }
}

/// Whether somebody has the arm in the midst of a request.
fn running(waiting: &[Job]) -> bool {
    waiting.iter().any(|job| job.began && !job.interrupted)
}

/// Somebody else has the disk now.
fn interrupt(waiting: &mut [Job], but: Option<usize>) {
    for (place, job) in waiting.iter_mut().enumerate() {
        job.interrupted |= job.began && Some(place) != but;
    }
}
