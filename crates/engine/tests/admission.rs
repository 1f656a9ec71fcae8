//! An admitted task is never late, and a refused one would be: checked against all intervals of
//! generated sets.

mod common;

use common::abstract_disk::{Load, SeededRng, first_miss, task};
use spindle_engine::stream::{BlockingTask, SlackRange, Task, TaskId, TaskSet, Violation};
use units::DiskTime;

/// A sample in CI; `make soak` asks for more.
fn cases(usual: u64) -> u64 {
    let cases = std::env::var("SPINDLE_CASES").ok();
    cases.map_or(usual, |cases| cases.parse().expect("SPINDLE_CASES is a number"))
}

fn set(preemption: u64, tasks: &[Task]) -> TaskSet {
    let mut set = TaskSet::new(ticks(preemption));
    for (id, task) in (0..).zip(tasks) {
        set.insert(TaskId(id), *task);
    }
    set
}

fn ticks(n: u64) -> DiskTime {
    DiskTime::from_nanos(i64::try_from(n).expect("small"))
}

fn slack(set: &TaskSet, range: SlackRange) -> u64 {
    u64::try_from(set.slack_in(range).as_nanos()).expect("it is never below zero")
}

/// Two to six tasks that demand most of a disk, with similar or very different periods; every
/// second set has commands shorter than requests.
fn generated(rng: &mut SeededRng) -> TaskSet {
    let preemptible = rng.between(0, 1) == 1;
    let preemption = if preemptible { rng.between(0, 2) } else { 0 };
    let shortest = rng.between(4, 16);
    let longest = shortest * rng.between(2, 5);
    let count = rng.between(2, 6);
    // Hundredths of the disk.
    let mut left = rng.between(50, 104);
    let tasks: Vec<Task> = (0..count)
        .map(|index| {
            let period = rng.between(shortest, longest);
            let part = if index + 1 == count { left } else { rng.between(0, left) };
            left -= part;
            let cost = (period * part / 100).max(1);
            // The return positioning is a command too.
            let command = rng.between(1, cost).max(preemption).min(cost);
            let command = if preemptible { command } else { cost };
            task(period, cost, command)
        })
        .collect();
    set(preemption, &tasks)
}

/// Each task's T, C with the preemptions that it may make, and q, as in the module's formulas.
fn plain(set: &TaskSet) -> Vec<(i64, i64, i64)> {
    let preempted = set.iter().filter(|(_, task)| task.is_preemptible());
    let preempted = preempted.map(|(_, task)| task.period()).max();
    set.iter()
        .map(|(_, task)| {
            let preempts = preempted.is_some_and(|longest| task.period() < longest);
            let extra = if preempts { set.preemption() } else { DiskTime::ZERO };
            let cost = (task.cost() + extra).as_nanos();
            (DiskTime::from(task.period()).as_nanos(), cost, task.longest().as_nanos())
        })
        .collect()
}

/// M(L): the room of condition (1) in an interval of length L, without blocking.
fn m(tasks: &[(i64, i64, i64)], length: i64) -> i64 {
    length - tasks.iter().map(|&(period, cost, _)| length / period * cost).sum::<i64>()
}

/// Q(i, L): the room of condition (2), for i counted from 0.
fn q(tasks: &[(i64, i64, i64)], i: usize, length: i64) -> i64 {
    let before = tasks[..i].iter().map(|&(period, cost, _)| (length - 1) / period * cost);
    length - tasks[i].2 - before.sum::<i64>()
}

fn common_multiple(tasks: &[(i64, i64, i64)]) -> i64 {
    let common = |mut one: i64, mut other: i64| {
        while other != 0 {
            (one, other) = (other, one % other);
        }
        one
    };
    tasks.iter().fold(1, |all, &(period, ..)| all / common(all, period) * period)
}

/// The result of an exhaustive search over L: the least of all Q, and of all M up to each limit.
struct Exhaustive {
    over: bool,
    /// The least Q, with its L and i.
    blocked: Option<(i64, i64, usize)>,
    slack: i64,
    slack_published: i64,
}

fn exhaustive(tasks: &[(i64, i64, i64)]) -> Exhaustive {
    let multiple = common_multiple(tasks);
    let load: i64 = tasks.iter().map(|&(period, cost, _)| multiple / period * cost).sum();
    let (first, last) = (tasks[0].0, tasks[tasks.len() - 1].0);
    let all_q = (1..tasks.len())
        .flat_map(|i| (first + 1..tasks[i].0).map(move |length| (q(tasks, i, length), length, i)));
    let blocked = all_q.min();
    let mut least = blocked.map_or(i64::MAX, |(room, ..)| room);
    let published = least.min((first..=last).map(|length| m(tasks, length)).min().expect("some"));
    if load <= multiple {
        // Beyond the common multiple the room repeats and grows; L·(1 − U) ≥ the least room ends
        // the search earlier.
        let mut length = first;
        while length <= multiple && length * (multiple - load) < least.saturating_mul(multiple) {
            least = least.min(m(tasks, length));
            length += 1;
        }
    }
    Exhaustive { over: load > multiple, blocked, slack: least, slack_published: published }
}

#[test]
fn the_verdict_and_the_slack_equal_those_of_an_exhaustive_search() {
    let mut admitted = 0;
    for seed in 0..cases(4_000) {
        let set = generated(&mut SeededRng(seed));
        let tasks = plain(&set);
        let expected = exhaustive(&tasks);
        let blocked = expected.blocked.filter(|&(room, ..)| room < 0);
        match (set.check(), blocked) {
            (Err(Violation::Utilization { over_ppb, .. }), _) => {
                assert!(expected.over && over_ppb > 0, "seed {seed}");
            }
            (Err(Violation::Blocked { interval, beside, short }), Some((room, ..))) => {
                assert!(!expected.over, "seed {seed}");
                assert_eq!(short.as_nanos(), -room, "seed {seed}: {tasks:?}");
                let length = DiskTime::from(interval).as_nanos();
                let index = set.iter().position(|(id, _)| BlockingTask::Task(id) == beside);
                let named = q(&tasks, index.expect("it is in the set"), length);
                assert_eq!(named, room, "seed {seed}: {tasks:?}");
            }
            (Ok(()), None) => {
                assert!(!expected.over, "seed {seed}");
                admitted += 1;
                assert_eq!(set.slack().as_nanos(), expected.slack, "seed {seed}: {tasks:?}");
                let published = set.slack_in(SlackRange::Published).as_nanos();
                assert_eq!(published, expected.slack_published, "seed {seed}: {tasks:?}");
                let tightest = set.tightest(SlackRange::All).expect("it fits");
                assert!(tightest.exact, "seed {seed}");
            }
            (verdict, blocked) => panic!("seed {seed}: {verdict:?} and {blocked:?} of {tasks:?}"),
        }
    }
    assert!(admitted * 5 > cases(4_000), "only {admitted} sets have a slack");
}

#[test]
fn the_verdict_on_a_candidate_equals_that_on_the_set_with_it() {
    for seed in 0..cases(4_000) {
        let whole = generated(&mut SeededRng(seed));
        let (id, candidate) =
            whole.iter().nth(usize::try_from(seed % 2).expect("small")).expect("two");
        let mut without = whole.clone();
        without.remove(id);
        let named = |violation: Violation| match violation {
            Violation::Blocked { interval, beside, short } if beside == BlockingTask::Task(id) => {
                Violation::Blocked { interval, beside: BlockingTask::Candidate, short }
            }
            other => other,
        };
        let before = without.clone();
        assert_eq!(
            without.check_with(candidate).map_err(strip),
            whole.check().map_err(named).map_err(strip),
            "seed {seed}"
        );
        assert_eq!(without, before, "a verdict changes nothing");
    }
}

/// Of two tasks with the same period and longest command, either may be named.
fn strip(violation: Violation) -> Violation {
    match violation {
        Violation::Blocked { interval, short, .. } => {
            Violation::Blocked { interval, beside: BlockingTask::Candidate, short }
        }
        other => other,
    }
}

/// Periods and costs in ms, the slack by RTAS 2000, and the correct slack.
type Counterexample = (&'static [(u64, u64)], u64, u64);

/// Three sets on which Definition 1 of RTAS 2000 gives too much slack.
const COUNTEREXAMPLES: [Counterexample; 3] = [
    (&[(15, 5), (25, 5), (27, 6), (29, 5)], 5, 4),
    (&[(14, 5), (20, 6), (24, 2), (25, 6)], 4, 3),
    (&[(17, 3), (23, 8), (26, 3), (28, 10)], 3, 2),
];

#[test]
fn the_published_range_makes_a_request_late_and_all_intervals_do_not() {
    for (tasks, published, correct) in COUNTEREXAMPLES {
        let tasks: Vec<Task> =
            tasks.iter().map(|&(period, cost)| task(period, cost, cost)).collect();
        let set = set(0, &tasks);
        assert_eq!(set.check(), Ok(()));
        assert_eq!(slack(&set, SlackRange::Published), published);
        assert_eq!(slack(&set, SlackRange::All), correct);
        let with = |slack: u64| Load {
            offsets: vec![0; tasks.len()],
            below_worst: None,
            best_effort: vec![(0, slack)],
            ends: vec![1_000; tasks.len()],
        };
        assert!(first_miss(&set, published, &with(published)).is_some(), "the control: {tasks:?}");
        assert_eq!(first_miss(&set, correct, &with(correct)), None, "{tasks:?}");
    }
}

/// Offsets, arrivals, and best effort that uses all of the slack whenever it can.
fn load(rng: &mut SeededRng, set: &TaskSet, slack: u64) -> Load {
    let together = rng.between(0, 3) == 0;
    let offset =
        |rng: &mut SeededRng, period: u64| if together { 0 } else { rng.between(0, period) };
    let offsets = set.iter().map(|(_, task)| offset(rng, task.period().as_nanos())).collect();
    let below_worst = (rng.between(0, 2) == 0).then(|| SeededRng(rng.next()));
    let (until, pause) = (400, rng.between(1, 30));
    let mut best_effort = Vec::new();
    let mut at = rng.between(0, 20);
    while at < until && slack > 0 {
        let takes = if rng.between(0, 1) == 0 { slack } else { rng.between(1, slack) };
        best_effort.push((at, takes));
        at += rng.between(0, pause);
    }
    Load { offsets, below_worst, best_effort, ends: vec![until; set.len()] }
}

#[test]
fn no_request_is_late_with_the_slack_and_some_are_with_the_published_one() {
    let (mut admitted, mut late) = (0, 0);
    for seed in 0..cases(20_000) {
        let mut rng = SeededRng(seed);
        let set = generated(&mut rng);
        if set.check().is_err() {
            continue;
        }
        admitted += 1;
        let slacks = [SlackRange::All, SlackRange::Published].map(|range| slack(&set, range));
        for (range, slack) in slacks.into_iter().enumerate() {
            let load = load(&mut rng.clone(), &set, slack);
            let miss = first_miss(&set, slack, &load);
            assert!(range == 1 || miss.is_none(), "seed {seed}: {miss:?} of {set:?} with {load:?}");
            late += u64::from(miss.is_some());
        }
    }
    println!("{admitted} sets; with the slack of RTAS 2000 {late} have a late request");
    assert!(admitted >= cases(20_000) / 5 && (late > 0 || admitted < 2_000), "{admitted}, {late}");
}

/// The pattern that a violated condition names: the blocking request first, all others 1 ns later.
fn adversary(set: &TaskSet, violation: Violation) -> Load {
    let first = match violation {
        Violation::Blocked { beside: BlockingTask::Task(id), .. } => {
            set.iter().position(|(other, _)| other == id)
        }
        _ => None,
    };
    let offset = |index| u64::from(first.is_some_and(|first| first != index));
    Load {
        offsets: (0..set.len()).map(offset).collect(),
        below_worst: None,
        best_effort: Vec::new(),
        ends: vec![20_000; set.len()],
    }
}

#[test]
fn a_refused_set_has_a_late_request_under_the_pattern_that_the_refusal_names() {
    let (mut refused, mut late) = ([0_u64; 2], [0_u64; 2]);
    for seed in 0..cases(4_000) {
        let generated = generated(&mut SeededRng(seed));
        // Preemptions are left out: their cost is an upper bound, and not every pattern causes one.
        let tasks: Vec<Task> = generated.iter().map(|(_, task)| task).collect();
        let set = set(0, &tasks);
        let Err(violation) = set.check() else { continue };
        let kind = usize::from(matches!(violation, Violation::Blocked { .. }));
        refused[kind] += 1;
        let miss = first_miss(&set, 0, &adversary(&set, violation));
        late[kind] += u64::from(miss.is_some());
        if let (Violation::Blocked { interval, .. }, Some(miss)) = (violation, miss) {
            assert!(
                miss.deadline <= interval.as_nanos(),
                "seed {seed}: later than the named interval"
            );
        }
    }
    println!(
        "refused for utilization {}, late {}; blocked {}, late {}",
        refused[0], late[0], refused[1], late[1]
    );
    for (refused, late) in refused.into_iter().zip(late) {
        assert!(late * 100 >= refused * 95, "{late} of {refused} refused sets are late");
    }
    assert!(refused[1] * 20 > cases(4_000), "only {} sets were blocked", refused[1]);
}

#[test]
fn the_removal_of_a_task_never_reduces_the_slack() {
    for seed in 0..cases(4_000) {
        let whole = generated(&mut SeededRng(seed));
        if whole.check().is_err() {
            continue;
        }
        for (id, _) in whole.iter() {
            let mut without = whole.clone();
            without.remove(id);
            assert_eq!(without.check(), Ok(()), "seed {seed} without {id:?}");
            assert!(without.slack() >= whole.slack(), "seed {seed} without {id:?}");
        }
    }
}
