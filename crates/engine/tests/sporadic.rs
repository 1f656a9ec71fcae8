//! Tasks whose deadlines are not their periods, and that release several requests at one instant:
//! an admitted one is never late, and a refused one would be.

mod common;

use common::abstract_disk::{Load, SeededRng, first_miss, sporadic, task};
use spindle_engine::stream::{
    BlockingTask, Booking, LatencyOffers, RequestedLatency, SlackRange, Span, Task, TaskId,
    TaskSet, Timetable, Violation,
};
use units::{DiskTime, Duration, Instant, Sectors};

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

fn slack(set: &TaskSet) -> u64 {
    u64::try_from(set.slack().as_nanos()).expect("it is never below zero")
}

/// Two to five tasks, of which the first at least has a deadline or a burst of its own; every
/// second set has commands shorter than requests.
fn generated(rng: &mut SeededRng) -> TaskSet {
    let preemptible = rng.between(0, 1) == 1;
    let preemption = if preemptible { rng.between(0, 2) } else { 0 };
    let shortest = rng.between(6, 16);
    let longest = shortest * rng.between(2, 4);
    let count = rng.between(2, 5);
    // Hundredths of the disk.
    let mut left = rng.between(20, 98);
    let tasks: Vec<Task> = (0..count)
        .map(|index| {
            let period = rng.between(shortest, longest);
            let part = if index + 1 == count { left } else { rng.between(0, left) };
            left -= part;
            let cost = (period * part / 100).max(1);
            let command = rng.between(1, cost).max(preemption).min(cost);
            let command = if preemptible { command } else { cost };
            if index > 0 && rng.between(0, 2) == 0 {
                return task(period, cost, command);
            }
            let burst = rng.between(1, 3);
            let deadline = rng.between(cost * burst, period * (burst + 1));
            sporadic(period, deadline, u32::try_from(burst).expect("small"), cost, command)
        })
        .collect();
    set(preemption, &tasks)
}

/// A task as in the module's formulas, with what its preemptions cost.
#[derive(Clone, Copy, Debug)]
struct Plain {
    period: i64,
    deadline: i64,
    burst: i64,
    cost: i64,
    longest: i64,
}

fn plain(set: &TaskSet) -> Vec<Plain> {
    let preempted = set.iter().filter(|(_, task)| task.is_preemptible());
    let preempted = preempted.map(|(_, task)| task.deadline()).max();
    set.iter()
        .map(|(_, task)| {
            let preempts = preempted.is_some_and(|longest| task.deadline() < longest);
            let extra = if preempts { set.preemption() } else { DiskTime::ZERO };
            Plain {
                period: DiskTime::from(task.period()).as_nanos(),
                deadline: DiskTime::from(task.deadline()).as_nanos(),
                burst: task.burst().into(),
                cost: (task.cost() + extra).as_nanos(),
                longest: task.longest().as_nanos(),
            }
        })
        .collect()
}

/// The room of an interval, and whether a command blocks it.
fn room(tasks: &[Plain], t: i64) -> (i64, bool) {
    let demand = |task: &Plain| match t - task.deadline {
        late if late < 0 => 0,
        released => (task.burst + released / task.period) * task.cost,
    };
    let demand: i64 = tasks.iter().map(demand).sum();
    let blocking = tasks.iter().filter(|task| task.deadline >= t + 2);
    let blocking = blocking.map(|task| task.longest - 1).max();
    (t - demand - blocking.unwrap_or(0), blocking.is_some())
}

/// Intervals up to this are examined one by one: with a load of 0.98 at most and an excess of 40
/// at most a longer one has room.
const EXAMINED: i64 = 2_500;

#[test]
fn the_verdict_and_the_slack_equal_those_of_an_exhaustive_search() {
    let (mut admitted, mut blocked, mut overfull, mut over) = (0, 0, 0, 0);
    for seed in 0..cases(3_000) {
        let set = generated(&mut SeededRng(seed));
        let tasks = plain(&set);
        let first = tasks.iter().map(|task| task.deadline).min().expect("some");
        let is_full = set.utilization().ppb() == 1_000_000_000;
        let least = (first..EXAMINED).map(|t| room(&tasks, t).0).min().expect("some");
        match set.check() {
            Ok(()) => {
                assert!(least >= 0, "seed {seed}: {least} in {tasks:?}");
                admitted += 1;
                let tightest = set.tightest(SlackRange::All).expect("it fits");
                // At exactly the whole the slack is a lower bound.
                assert_eq!(tightest.exact, !is_full, "seed {seed}");
                let room = if is_full { 0 } else { least };
                assert_eq!(tightest.room.as_nanos(), room, "seed {seed}: {tasks:?}");
            }
            Err(Violation::Blocked { interval, short, .. }) => {
                blocked += 1;
                let at = DiskTime::from(interval).as_nanos() - 1;
                assert_eq!(room(&tasks, at), (-short.as_nanos(), true), "seed {seed}: {tasks:?}");
                assert!(least <= -short.as_nanos(), "seed {seed}: {tasks:?}");
                assert!(is_full || least == -short.as_nanos(), "seed {seed}: {tasks:?}");
            }
            Err(Violation::Demand { interval, short }) => {
                overfull += 1;
                let at = DiskTime::from(interval).as_nanos();
                assert_eq!(room(&tasks, at), (-short.as_nanos(), false), "seed {seed}: {tasks:?}");
                assert!(least <= -short.as_nanos(), "seed {seed}: {tasks:?}");
                assert!(is_full || least == -short.as_nanos(), "seed {seed}: {tasks:?}");
            }
            Err(Violation::Utilization { .. }) => over += 1,
            Err(Violation::Undecided { .. }) if is_full => over += 1,
            Err(other) => panic!("seed {seed}: {other:?} of {tasks:?}"),
        }
    }
    println!("{admitted} admitted, {blocked} blocked, {overfull} overfull, {over} full or over");
    assert!(admitted * 5 > cases(3_000), "only {admitted} sets fit");
    assert!(cases(3_000) < 3_000 || overfull * 30 > cases(3_000), "only {overfull} are overfull");
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
fn no_request_of_an_admitted_set_is_late_whatever_best_effort_takes_of_the_slack() {
    let mut admitted = 0;
    for seed in 0..cases(20_000) {
        let mut rng = SeededRng(seed);
        let set = generated(&mut rng);
        if set.check().is_err() {
            continue;
        }
        admitted += 1;
        let load = load(&mut rng, &set, slack(&set));
        let miss = first_miss(&set, slack(&set), &load);
        assert_eq!(miss, None, "seed {seed}: {set:?} with {load:?}");
    }
    assert!(admitted * 5 > cases(20_000), "only {admitted} sets fit");
}

/// All offsets of two small tasks, under all pauses of the first's requests.
#[test]
fn no_phase_of_an_admitted_pair_makes_a_request_late() {
    let mut sets = 0;
    for (burst, deadline) in [(1, 5), (2, 8), (2, 14), (3, 12)] {
        for cost in 1..=3 {
            for command in 1..=4 {
                let one = sporadic(12, deadline, burst, cost, cost);
                let set = set(0, &[one, task(17, 4, command)]);
                if set.check().is_err() {
                    continue;
                }
                sets += 1;
                for offset in 0..17 {
                    for other in 0..17 {
                        let load = Load {
                            offsets: vec![offset, other],
                            below_worst: None,
                            best_effort: Vec::new(),
                            ends: vec![600; 2],
                        };
                        assert_eq!(first_miss(&set, 0, &load), None, "{set:?} at {load:?}");
                    }
                }
            }
        }
    }
    assert!(sets >= 12, "only {sets} sets fit");
}

#[test]
fn a_refused_set_has_a_late_request_under_the_pattern_that_the_refusal_names() {
    let (mut refused, mut late) = ([0_u64; 2], [0_u64; 2]);
    for seed in 0..cases(3_000) {
        let generated = generated(&mut SeededRng(seed));
        // Preemptions are left out: their cost is an upper bound, and not every pattern causes one.
        let tasks: Vec<Task> = generated.iter().map(|(_, task)| task).collect();
        let set = set(0, &tasks);
        let (kind, first, interval) = match set.check() {
            Err(Violation::Blocked { interval, beside: BlockingTask::Task(id), .. }) => {
                (0, set.iter().position(|(other, _)| other == id), interval)
            }
            Err(Violation::Demand { interval, .. }) => (1, None, interval),
            _ => continue,
        };
        refused[kind] += 1;
        let offset = |index| u64::from(first.is_some_and(|first| first != index));
        let load = Load {
            offsets: (0..set.len()).map(offset).collect(),
            below_worst: None,
            best_effort: Vec::new(),
            ends: vec![20_000; set.len()],
        };
        if let Some(miss) = first_miss(&set, 0, &load) {
            late[kind] += 1;
            assert!(miss.deadline <= interval.as_nanos(), "seed {seed}: after the interval");
        }
    }
    println!(
        "refused for blocking {}, late {}; for demand {}, late {}",
        refused[0], late[0], refused[1], late[1]
    );
    for (refused, late) in refused.into_iter().zip(late) {
        assert!(late * 100 >= refused * 95, "{late} of {refused} refused sets are late");
    }
}

#[test]
fn a_set_over_time_is_refused_if_what_is_present_at_some_instant_does_not_fit() {
    let (mut admitted, mut handovers) = (0, 0);
    for seed in 0..cases(3_000) {
        let mut rng = SeededRng(seed);
        let mut table = Timetable::default();
        let at = Instant::from_nanos;
        let (end, gap) = (rng.between(60, 160), rng.between(0, 120));
        let before = Span { start: Instant::ZERO, end: at(end) };
        let after = Span { start: at(end + gap), end: at(end + gap + rng.between(60, 200)) };
        let mut id = 0;
        for span in [before, after] {
            for (_, task) in generated(&mut rng).iter() {
                let span = if rng.between(0, 5) == 0 { Span::ALWAYS } else { span };
                if table.check_with(task, span).is_ok() {
                    table.insert(Booking { id: TaskId(id), task, span });
                    id += 1;
                }
            }
        }
        let bookings: Vec<Booking> = table.iter().copied().collect();
        let mut together = TaskSet::default();
        let mut in_order = bookings.clone();
        in_order.sort_by_key(|booking| (booking.task, booking.id));
        for booking in &bookings {
            together.insert(booking.id, booking.task);
        }
        handovers += u64::from(together.check().is_err());
        admitted += 1;
        let slack = bookings.iter().map(|booking| booking.span.start).chain([Instant::ZERO]);
        let changes = slack.chain(bookings.iter().map(|booking| booking.span.end));
        let until = Instant::from_nanos(600);
        let slack = changes.filter(|at| *at < until).map(|at| table.slack(at)).min();
        let slack = slack.expect("time begins").as_nanos().unsigned_abs();
        let mut load = load(&mut rng, &together, slack.min(50));
        for (index, booking) in in_order.iter().enumerate() {
            load.offsets[index] += booking.span.start.as_nanos();
            load.ends[index] = booking.span.end.min(until).as_nanos();
        }
        let miss = first_miss(&together, slack.min(50), &load);
        assert_eq!(miss, None, "seed {seed}: {bookings:?} with {load:?}");
    }
    println!("{admitted} timetables, {handovers} of them with tasks that do not fit together");
    assert!(handovers * 30 > admitted, "only {handovers} have a handover");
}

/// 10 ms for a request of 128 sectors, of which 1 ms for each 16.
fn on_the_disk(asked: RequestedLatency) -> Option<Task> {
    let cost = ticks(2_000_000 + asked.size.0 * 62_500);
    Task::sporadic(asked.interval, asked.within, asked.burst, cost, cost).ok()
}

#[test]
fn each_offer_fits_and_slightly_more_does_not() {
    let ms = Duration::from_millis;
    let long = ticks(60_000_000);
    let camera = Task::new(ms(500), ticks(200_000_000), long).expect("a task");
    let mut set = TaskSet::default();
    set.admit(TaskId(0), camera).expect("it fits alone");
    let asked = RequestedLatency { within: ms(80), interval: ms(50), burst: 4, size: Sectors(128) };
    let fits = |asked| on_the_disk(asked).is_some_and(|task| set.check_with(task).is_ok());
    assert!(!fits(asked), "four requests of 10 ms and a command of 60 ms do not fit into 80 ms");
    let offers = LatencyOffers::find(&set, asked, on_the_disk);
    assert_eq!(offers.within, Some(ms(100)));
    assert_eq!((offers.burst, offers.size), (Some(2), Some(Sectors(32))));
    assert_eq!(offers.interval, None, "fewer requests a second do not help a burst");
    assert!(fits(RequestedLatency { within: ms(100), ..asked }));
    assert!(!fits(RequestedLatency { within: ms(99), ..asked }));
    assert!(!fits(RequestedLatency { burst: 3, ..asked }));
    assert!(!fits(RequestedLatency { size: Sectors(64), ..asked }));
}

#[test]
fn the_offered_rate_is_the_highest_that_fits() {
    let ms = Duration::from_millis;
    let mut set = TaskSet::default();
    set.admit(TaskId(0), Task::whole(ms(100), ticks(60_000_000)).expect("a task")).expect("fits");
    let asked =
        RequestedLatency { within: ms(200), interval: ms(20), burst: 1, size: Sectors(128) };
    let offers = LatencyOffers::find(&set, asked, on_the_disk);
    // 40 % of the disk is left: a request of 10 ms in 25 ms.
    assert_eq!(offers.interval, Some(ms(25)));
    assert_eq!(offers.burst, None, "one request at a time is the least");
}
