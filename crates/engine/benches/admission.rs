//! The time of an admission check of one stream beside 10 to 10,000 others: `cargo bench -p
//! spindle-engine --bench admission`.
//!
//! The streams' periods are all different, between 0.1 s and 3 s, and together they take 50 %, 95 %
//! or 99 % of a disk. Some candidates fit, some only just; the others are blocked or exceed the
//! disk. The benchmark also measures the check if a tenth of the streams end in an hour (booked),
//! the slack, and an exhaustive search of every interval from the shortest period to the longest.
//! The search takes steps of 10 µs over at most 1,000 streams; a search in steps of 1 ns takes
//! 10,000 times as long.
//!
//! It fails if the check grows faster than n·log n. `-- --json` prints one JSON object. As a test
//! it only runs once: the figures of a debug build mean nothing.

#![expect(clippy::disallowed_methods, reason = "it measures itself by the wall clock")]
#![expect(clippy::cast_precision_loss, reason = "shown, never computed with")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::process::ExitCode;

use spindle_engine::stream::{Booking, SlackRange, Span, Task, TaskId, TaskSet, Timetable};
use units::{DiskTime, Duration, Instant};

const STREAMS: [u32; 4] = [10, 100, 1_000, 10_000];
const LOADS: [u32; 3] = [50, 95, 99];
const ROUNDS: usize = 31;

/// The most streams for which the exhaustive search runs.
const WALKED_MAX: u32 = 1_000;
const WALK_STEP: i64 = 10_000;

const PERIOD_MIN: u64 = 100_000_000;
const PERIOD_MAX: u64 = 3_000_000_000;

/// A pseudo-random sequence.
fn pseudo_random(n: u64) -> u64 {
    let mut bits = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits ^ (bits >> 31)
}

fn period(n: u64) -> u64 {
    PERIOD_MIN + pseudo_random(n) % (PERIOD_MAX - PERIOD_MIN)
}

/// A stream that takes `parts` ÷ `of` of a disk.
fn stream(period: u64, parts: u64, of: u64) -> Task {
    let cost = i64::try_from(period * parts / of).expect("short");
    let cost = DiskTime::from_nanos(cost);
    let longest = DiskTime::from_nanos(cost.as_nanos().min(60_000_000));
    Task::new(Duration::from_nanos(period), cost, longest).expect("it is one")
}

fn set(streams: u32, percent: u32) -> TaskSet {
    let mut set = TaskSet::default();
    let mut n = 0;
    for id in 0..streams {
        n += 1;
        let task = stream(period(n), u64::from(percent), 100 * u64::from(streams));
        set.insert(TaskId(id), task);
    }
    set
}

/// Every second candidate takes 0.1 % to 10 % of the disk; the others have a long period and the
/// longest command that makes no request late, or 1 ns more: their checks examine the most
/// intervals.
fn candidate(round: usize, longest: DiskTime) -> Task {
    let round = u64::try_from(round).expect("a few");
    if round.is_multiple_of(2) {
        return stream(period(round + 1_000_000), 1 + pseudo_random(round) % 100, 1_000);
    }
    let command = longest + DiskTime::from_nanos(i64::from(round % 4 == 3));
    Task::whole(Duration::from_nanos(PERIOD_MAX + 1), command).expect("it is one")
}

/// The longest command beside these streams: the slack, and the blocking where the room is least.
fn longest(set: &TaskSet) -> DiskTime {
    let tightest = set.tightest(SlackRange::All).expect("they fit");
    let blocking = set.iter().find(|(id, _)| Some(*id) == tightest.beside);
    tightest.room + blocking.map_or(DiskTime::from_nanos(1), |(_, task)| task.longest())
}

/// Searches the intervals in steps: condition (2) as it is written.
fn walk(set: &TaskSet, candidate: Task) -> bool {
    let nanos = |time: Duration| DiskTime::from(time).as_nanos();
    let tasks = set.iter().map(|(_, task)| task).chain([candidate]);
    let mut tasks: Vec<(i64, i64, i64)> = tasks
        .map(|task| (nanos(task.period()), task.cost().as_nanos(), task.longest().as_nanos()))
        .collect();
    tasks.sort_unstable();
    let (mut length, last) = (tasks[0].0 + 1, tasks[tasks.len() - 1].0);
    while length < last {
        let blocking = tasks.iter().filter(|task| task.0 > length).map(|task| task.2).max();
        let demand: i64 = tasks.iter().map(|&(period, cost, _)| (length - 1) / period * cost).sum();
        if blocking.unwrap_or(0) + demand > length {
            return false;
        }
        length += WALK_STEP;
    }
    true
}

fn median(mut costs: Vec<f64>) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied().unwrap_or(f64::NAN)
}

fn micros<T>(work: impl FnOnce() -> T) -> f64 {
    let began = std::time::Instant::now();
    black_box(work());
    began.elapsed().as_nanos() as f64 / 1e3
}

/// One size at one load, in µs.
struct Row {
    streams: u32,
    percent: u32,
    verdict: f64,
    /// With tasks that begin and end: the timetable's.
    booked: f64,
    refused: usize,
    slack: f64,
    /// Every interval in ns: the time of the search in steps, times their length.
    walk: Option<f64>,
}

fn measure(rounds: usize, streams: u32, percent: u32, walks: bool) -> Row {
    let set = set(streams, percent);
    let longest = longest(&set);
    let mut verdicts = Vec::new();
    let mut booked = Vec::new();
    let mut slacks = Vec::new();
    let table = table_of(&set);
    let mut refused = 0;
    for round in 0..rounds {
        let candidate = candidate(round, longest);
        verdicts.push(micros(|| refused += usize::from(set.check_with(candidate).is_err())));
        booked.push(micros(|| table.check_with(candidate, Span::ALWAYS)));
        slacks.push(micros(|| set.slack()));
    }
    let admitted = (0..ROUNDS)
        .map(|round| candidate(round, longest))
        .find(|&candidate| set.check_with(candidate).is_ok());
    let walk = (walks && streams <= WALKED_MAX)
        .then(|| micros(|| admitted.map(|candidate| walk(&set, candidate))) * WALK_STEP as f64);
    let (verdict, booked, slack) = (median(verdicts), median(booked), median(slacks));
    Row { streams, percent, verdict, booked, refused, slack, walk }
}

/// The same streams, every tenth of which ends after an hour.
fn table_of(set: &TaskSet) -> Timetable {
    let hour = Span { end: Instant::ZERO + Duration::from_secs(3_600), ..Span::ALWAYS };
    let mut table = Timetable::default();
    for (id, task) in set.iter() {
        let span = if id.0.is_multiple_of(10) { hour } else { Span::ALWAYS };
        table.insert(Booking { id, task, span });
    }
    table
}

fn measure_all(rounds: usize, walks: bool) -> Vec<Row> {
    LOADS
        .into_iter()
        .flat_map(|percent| STREAMS.map(|streams| measure(rounds, streams, percent, walks)))
        .collect()
}

/// n·log n beside that of 10 streams.
fn bound(streams: u32) -> f64 {
    let work = |n: u32| f64::from(n) * f64::from(n).log2();
    work(streams) / work(STREAMS[0])
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "streams  load  verdict, us  of 10's  n log n  refused  booked, us  \
         slack, us  every L, us  every L/verdict\n",
    );
    for row in rows {
        let ten =
            rows.iter().find(|ten| ten.percent == row.percent).map_or(f64::NAN, |ten| ten.verdict);
        let walk = row.walk.unwrap_or(f64::NAN);
        writeln!(
            text,
            "{:>7}  {:>3}%  {:>11.1}  {:>7.1}  {:>7.0}  {:>4}/{ROUNDS}  \
             {:>10.1}  {:>9.1}  {:>11.0}  {:>15.0}",
            row.streams,
            row.percent,
            row.verdict,
            row.verdict / ten,
            bound(row.streams),
            row.refused,
            row.booked,
            row.slack,
            walk,
            walk / row.verdict
        )
        .expect("a string takes all");
    }
    text
}

fn json(rows: &[Row], holds: bool) -> String {
    let row = |row: &Row| {
        let walk = row.walk.map_or_else(|| "null".to_owned(), |walk| format!("{walk:.0}"));
        format!(
            "{{\"streams\":{},\"load_percent\":{},\"verdict_us\":{:.2},\"booked_us\":{:.2},\
             \"slack_us\":{:.2},\"every_interval_us\":{walk}}}",
            row.streams, row.percent, row.verdict, row.booked, row.slack
        )
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    format!(r#"{{"schema":1,"bench":"admission","rows":[{}],"holds":{holds}}}"#, rows.join(","))
}

fn main() -> ExitCode {
    let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
    if !asked("--bench") {
        measure(3, STREAMS[1], LOADS[0], false);
        return ExitCode::SUCCESS;
    }
    let rows = measure_all(ROUNDS, true);
    let holds = rows
        .chunks(STREAMS.len())
        .all(|rows| rows.iter().all(|row| row.verdict / rows[0].verdict <= bound(row.streams)));
    if asked("--json") {
        println!("{}", json(&rows, holds));
    } else {
        print!("{}", table(&rows));
    }
    if !holds {
        eprintln!("a verdict grows faster than n log n");
    }
    ExitCode::from(u8::from(!holds))
}
