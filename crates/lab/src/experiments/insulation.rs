//! Insulation: the throughput of each of two neighbours, relative to its share of the throughput
//! that it has alone.

use config::{LoadedVolume, Plan, VolumeIndex};
use plot::{Line, Plot};
use units::{Duration, Instant, Share};

use super::check::Check;
use super::experiment::{Experiment, Findings, Series};
use super::sample::{length, scenario, with_reserves};
use sim::Simulation;
use sim::VolumeView;

pub(super) const INSULATION: Experiment = Experiment {
    id: "vdisk-insulation",
    title: "throughput ÷ (share × alone) of every pair of six workloads, at three splits, on two \
            drives",
    run: insulation,
};

const SCENARIO: &str = include_str!("../../experiments/vdisk-insulation.toml");
pub(super) const DRIVES: [&str; 2] = ["deskstar-34gxp", "hgst-7k8"];
/// The names of the scenario's workloads, in order.
const KINDS: [&str; 6] = ["seq 4K", "seq 1M", "rand 4K", "rand 64K", "bursts", "mix"];
const BURSTS: usize = 4;
const LONG: usize = 1;
const SPLITS: [u32; 3] = [20, 50, 80];
/// The least accepted throughput ÷ (share × throughput alone).
const THROUGHPUT_RATIO_MIN: f64 = 0.95;
/// Excluded at the start of a run, when full buckets allow extra disk time.
const RAMP: Duration = Duration::from_secs(4);
/// The length of the windows in which shares are checked.
const WINDOW: Duration = Duration::from_secs(2);
/// The largest accepted error of a share in a window, in points.
const WINDOW_ERROR_MAX: f64 = 2.0;
/// The same beside commands of 1 MiB. A command is charged at its completion, so that the one in
/// flight at a window's boundary counts in one of two windows; on the slower drive it takes 47 to
/// 75 ms, which are 2.4 to 3.8 points.
const LONG_ERROR_MAX: f64 = 3.0;

/// The figures of one of the two neighbours.
#[derive(Clone, Copy, Debug)]
pub(super) struct NeighbourFigures {
    /// Requests per second.
    iops: f64,
    /// The largest deviation of the share from the reserve in any window, in points.
    window_error: f64,
}

/// The plan with these two of its workloads, one per volume; the first volume reserves `first`
/// percent and the second the rest.
pub(super) fn pair(plan: &Plan, kinds: &[Option<usize>; 2], first: u32) -> Plan {
    let reserves = [Share::from_percent(first), Share::from_percent(100 - first)];
    let mut set = with_reserves(plan, &reserves);
    set.workloads.clear();
    for (volume, kind) in kinds.iter().enumerate() {
        let Some(kind) = *kind else { continue };
        let mut load = plan.workloads[kind].clone();
        load.volume = LoadedVolume::Single(VolumeIndex(volume));
        if kind != BURSTS {
            set.workloads.push(load);
            continue;
        }
        // One second active, one second idle.
        let seconds = length(plan).as_nanos() / Duration::from_secs(1).as_nanos();
        for second in (0..seconds).step_by(2) {
            let start = Duration::from_secs(second);
            let stop = Some(start + Duration::from_secs(1));
            set.workloads.push(config::Workload { start, stop, ..load.clone() });
        }
    }
    set
}

pub(super) fn measure(plan: &Plan) -> [NeighbourFigures; 2] {
    let mut simulation = Simulation::new(plan);
    let (mut at, end) = (Instant::ZERO + RAMP, Instant::ZERO + length(plan));
    simulation.run_until(at);
    let views =
        |simulation: &mut Simulation| [0, 1].map(|volume| simulation.volume(VolumeIndex(volume)));
    let (first, mut before) = (views(&mut simulation), views(&mut simulation));
    let mut errors = [0.0_f64; 2];
    while at < end {
        at += WINDOW;
        simulation.run_until(at);
        let now = views(&mut simulation);
        for volume in 0..2 {
            let charged = (now[volume].disk_time - before[volume].disk_time).as_secs_f64();
            let reserve = plan.volumes[volume].contract.reserve.as_f64();
            let off = (charged / WINDOW.as_secs_f64() - reserve).abs() * 100.0;
            errors[volume] = errors[volume].max(off);
        }
        before = now;
    }
    let seconds = at.since(Instant::ZERO + RAMP).as_secs_f64();
    [0, 1].map(|volume| {
        #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
        let requests = (before[volume].requests - first[volume].requests) as f64;
        NeighbourFigures { iops: requests / seconds, window_error: errors[volume] }
    })
}

const COLUMNS: [&str; 6] =
    ["first", "second", "reserve", "kept_first", "kept_second", "window_error_points"];

/// The scenario's name, and its text for a drive of the library.
pub(super) fn scenario_on(drive: &str) -> (&'static str, String) {
    let text = SCENARIO.replace("deskstar-34gxp", drive);
    let size = if drive == DRIVES[0] { "9GiB" } else { "3000GiB" };
    ("vdisk-insulation.toml", text.replace("9GiB", size))
}

/// The plan on a drive of the library.
pub(super) fn on(drive: &str) -> Plan {
    let (name, text) = scenario_on(drive);
    scenario(name, &text)
}

/// The matrix on one drive: one row per pair of workloads and split.
pub(super) fn matrix(plan: &Plan, name: &str, on_progress: &mut dyn FnMut(f64)) -> Series {
    let mut series = Series::new(name, &COLUMNS);
    // Alone at each of the two locations: the inner half of a disk is slower than the outer.
    let alone = |kind: usize| {
        let charged = |kinds, first| measure(&pair(plan, &kinds, first));
        [charged([Some(kind), None], 100)[0].iops, charged([None, Some(kind)], 0)[1].iops]
    };
    let alone: Vec<[f64; 2]> = (0..KINDS.len()).map(alone).collect();
    let pairs = || (0..KINDS.len()).flat_map(|one| (0..KINDS.len()).map(move |two| (one, two)));
    for (done, (one, two)) in (1_u32..).zip(pairs().filter(|(one, two)| one < two)) {
        for first in SPLITS {
            let charged = measure(&pair(plan, &[Some(one), Some(two)], first));
            let share = f64::from(first) / 100.0;
            let kept = [
                charged[0].iops / (share * alone[one][0]),
                charged[1].iops / ((1.0 - share) * alone[two][1]),
            ];
            let error = charged[0].window_error.max(charged[1].window_error);
            #[expect(clippy::cast_precision_loss, reason = "one of six")]
            series.rows.push(vec![one as f64, two as f64, share, kept[0], kept[1], error]);
        }
        on_progress(f64::from(done) / 15.0);
    }
    series
}

fn insulation(on_progress: &mut dyn FnMut(f64)) -> Findings {
    let (mut checks, mut all, mut plots) = (Vec::new(), Vec::new(), Vec::new());
    for (index, drive) in (0_u32..).zip(DRIVES) {
        let offset = f64::from(index) / 2.0;
        let plan = on(drive);
        let series = matrix(&plan, drive, &mut |part| on_progress(offset + part / 2.0));
        let (least, pair) = least_kept(&series);
        let name = format!("{drive}: least of throughput ÷ (share × alone) ({pair})");
        checks.push(Check::at_least(name, least, THROUGHPUT_RATIO_MIN, "ratio"));
        checks.extend(window_checks(&series));
        checks.extend(changing_checks(&plan));
        plots.push((if index == 0 { "-deskstar-34gxp" } else { "-hgst-7k8" }, plot(&series)));
        all.push(series);
    }
    Findings { checks, series: all, plots }
}

/// The least throughput ÷ (share × alone) of a drive's matrix, and the pair that has it.
pub(super) fn least_kept(series: &Series) -> (f64, String) {
    let kept = series.rows.iter().flat_map(|row| [(row, row[3]), (row, row[4])]);
    let (row, least) = kept.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are pairs");
    (least, named(row))
}

/// The largest errors of shares in windows of two seconds.
fn window_checks(series: &Series) -> Vec<Check> {
    // Pairs with a bursty volume are excluded, because that volume has windows without requests.
    let has_long = |row: &[f64]| [row[0], row[1]].map(kind).contains(&KINDS[LONG]);
    let drive = &series.name;
    [(false, "", WINDOW_ERROR_MAX), (true, ", beside commands of 1 MiB", LONG_ERROR_MAX)]
        .into_iter()
        .map(|(with_long, what, bound)| {
            let rows = series.rows.iter();
            let counted = rows.filter(|row| !has_bursts(row) && has_long(row) == with_long);
            let worst = counted.max_by(|a, b| a[5].total_cmp(&b[5])).expect("there are pairs");
            let name = format!("{drive}: most that a share is off in 2 s{what} ({})", named(worst));
            Check::at_most(name, worst[5], bound, "points")
        })
        .collect()
}

/// The neighbour's workloads, cycled: all but bursts.
const PATTERNS: [usize; 5] = [0, 2, 1, 3, 5];
/// The time for which the neighbour keeps one workload.
const PATTERN: Duration = Duration::from_secs(5);
/// The largest accepted deviation of the victim's request rate over 5 s from its mean, in %.
const RATE_ERROR_MAX: f64 = 10.0;

/// A random and a sequential victim at 50/50 beside a neighbour that changes its pattern every 5 s.
fn changing_checks(plan: &Plan) -> Vec<Check> {
    let mut checks = Vec::new();
    for victim in [0, 2] {
        let (share, rate) = changing(plan, victim);
        let name = |what: &str| {
            let drive = &plan.disks[0].drive.name;
            format!("{drive}: {} beside a neighbour that changes every 5 s: {what}", KINDS[victim])
        };
        checks.push(Check::at_most(name("share off in any 2 s"), share, LONG_ERROR_MAX, "points"));
        let rates = name("requests in any 5 s off their mean");
        checks.push(Check::at_most(rates, rate, RATE_ERROR_MAX, "%"));
    }
    checks
}

/// The largest deviations of the victim: of its share in any window, in points, and of its request
/// rate in any 5 s, in %.
fn changing(plan: &Plan, victim: usize) -> (f64, f64) {
    let mut set = pair(plan, &[Some(victim), None], 50);
    let (phases, end) = (length(plan).as_nanos() / PATTERN.as_nanos(), length(plan));
    for phase in 0..phases {
        let kind = PATTERNS[usize::try_from(phase).expect("a few") % PATTERNS.len()];
        let start = PATTERN * phase;
        let volume = LoadedVolume::Single(VolumeIndex(1));
        let (volume, stop) = (volume, Some((start + PATTERN).min(end)));
        set.workloads.push(config::Workload {
            volume,
            start,
            stop,
            ..plan.workloads[kind].clone()
        });
    }
    let mut simulation = Simulation::new(&set);
    let step = WINDOW / 4;
    let mut samples = Vec::new();
    let mut at = Instant::ZERO + PATTERN;
    while at <= Instant::ZERO + end {
        simulation.run_until(at);
        samples.push(simulation.volume(VolumeIndex(0)));
        at += step;
    }
    let off = |pair: &[VolumeView]| {
        let charged = (pair[4].disk_time - pair[0].disk_time).as_secs_f64() / WINDOW.as_secs_f64();
        (charged - 0.5).abs() * 100.0
    };
    let share = samples.windows(5).map(off).fold(0.0, f64::max);
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    let done = |from: &VolumeView, to: &VolumeView| (to.requests - from.requests) as f64;
    let whole = samples.len() - 1;
    #[expect(clippy::cast_precision_loss, reason = "a few samples")]
    let mean = done(&samples[0], &samples[whole]) * 10.0 / whole as f64;
    let rates =
        samples.windows(11).map(|window| (done(&window[0], &window[10]) / mean - 1.0).abs());
    (share, rates.fold(0.0, f64::max) * 100.0)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "one of six")]
fn kind(number: f64) -> &'static str {
    KINDS[number as usize]
}

fn has_bursts(row: &[f64]) -> bool {
    [row[0], row[1]].map(kind).contains(&KINDS[BURSTS])
}

fn named(row: &[f64]) -> String {
    format!("{} beside {} at {:.0} %", kind(row[0]), kind(row[1]), row[2] * 100.0)
}

fn plot(series: &Series) -> Plot {
    let line = |split: u32| {
        let at = |row: &&Vec<f64>| (row[2] * 100.0 - f64::from(split)).abs() < 1e-9;
        let least = |row: &Vec<f64>| row[3].min(row[4]);
        let points = (1_u32..).zip(series.rows.iter().filter(at));
        Line {
            name: format!("{split}/{}", 100 - split),
            points: points.map(|(pair, row)| (f64::from(pair), least(row))).collect(),
            dashed: false,
        }
    };
    let bound = Line {
        name: "bound".into(),
        points: vec![(1.0, THROUGHPUT_RATIO_MIN), (15.0, THROUGHPUT_RATIO_MIN)],
        dashed: true,
    };
    Plot {
        caption: format!(
            "What the worse off of two neighbours keeps of its share's worth ({})",
            series.name
        ),
        x: format!("pair, in the order of {}", KINDS.join(", ")),
        y: "throughput ÷ (share × alone)".into(),
        lines: SPLITS.into_iter().map(line).chain([bound]).collect(),
        ..Plot::default()
    }
}
