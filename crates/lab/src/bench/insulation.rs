//! `spindle-lab bench insulation`: isolation of a volume with half of a disk from a neighbour with
//! a changing load, in windows; and a limit on an otherwise idle disk.

use std::path::Path;

use config::Plan;
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use daemon::Status;
use engine::Contract;
use serde::Serialize;
use stats::SCHEMA;
use units::{Duration, Instant, Share};

use super::live::{self, Job, Live};
use crate::args;

const PLAN: &str = include_str!("../../../../examples/serve/demo.toml");
const VICTIM: usize = 0;
const NEIGHBOUR: usize = 1;
const SHARE_PERCENT: u32 = 50;
const LIMIT_PERCENT: u32 = 30;
/// The loads of the measured volume, one per run. The runs with a limit use the same loads.
const VICTIMS: [(&str, &str); 2] = [("random 4 KiB", "randread"), ("sequential 4 KiB", "read")];
/// The neighbour's loads: fio's pattern, block size and options. No load is idle, because the
/// victim may use disk time that an idle neighbour leaves, which is not an error.
const NEIGHBOURS: [(&str, &str, &[&str]); 5] = [
    ("read", "4k", &[]),
    ("randread", "64k", &[]),
    ("read", "1m", &[]),
    ("randread", "4k", &[]),
    ("randrw", "4k", &["--rwmixread=70"]),
];
const CHANGE_SECONDS: u64 = 5;
/// The time for which one load of the neighbour overlaps the next.
const OVERLAP_SECONDS: u64 = 1;
/// Excluded at the start of a run: full buckets allow up to one period's disk time at once.
const RAMP_SECONDS: u64 = 3;
/// fio runs this much longer than the measured interval.
const TAIL_SECONDS: u64 = 2;
const SAMPLE: Duration = Duration::from_millis(500);
/// Sample intervals in a window for shares (2 s) and in a window for throughput (5 s).
const SHARE_WINDOW: usize = 4;
const IOPS_WINDOW: usize = 10;
/// A volume counts as busy if it has requests in flight for at least this fraction of a window. The
/// rest of the time is the round trip to fio.
const LOADED_MIN: f64 = 0.995;
const SHARE_ERROR_MAX_POINTS: f64 = 2.0;
const IOPS_ERROR_MAX_PERCENT: f64 = 10.0;
const LIMIT_ERROR_MAX_POINTS: f64 = 1.0;

/// One run beside the changing neighbour. A window begins at each sample. Only windows in which
/// both volumes were busy throughout are judged.
#[derive(Debug, Serialize)]
struct Insulated {
    victim: String,
    share: f64,
    /// The number of windows of 2 s.
    windows: usize,
    windows_loaded: usize,
    /// Windows whose share error exceeds the bound.
    windows_off: usize,
    least_share: f64,
    /// The share with the largest deviation from the reserve, above or below.
    worst_share: f64,
    worst_share_error_points: f64,
    /// As `worst_share`, over all windows, including those in which a volume was idle.
    worst_share_of_all: f64,
    /// The mean over the windows of 5 s.
    iops: f64,
    /// The window's IOPS with the largest deviation from the mean.
    worst_iops: f64,
    worst_iops_error_percent: f64,
    holds: bool,
}

/// One run of a volume with a limit, alone on its disk.
#[derive(Debug, Serialize)]
struct Limited {
    volume: String,
    limit: f64,
    share: f64,
    error_points: f64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    seconds: u64,
    insulation: Vec<Insulated>,
    limits: Vec<Limited>,
    lateness_us: LatenessUs,
    /// The machine's load average over one minute: what else ran during the measurement.
    load_average: Option<f64>,
    holds: bool,
}

pub(crate) fn insulation(args: &args::Insulation, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    let plan = Plan::parse(PLAN, "the bench's config", Path::new(".")).map_err(bad_input)?;
    let (mut insulation, mut limits, mut end) = (Vec::new(), Vec::new(), None);
    for (name, rw) in VICTIMS {
        eprintln!("{name}, beside a neighbour that changes every {CHANGE_SECONDS} s");
        let (insulated, status) = insulated(&plan, (name, rw), args.seconds)?;
        insulation.push(insulated);
        end = Some(status);
    }
    for (name, rw) in VICTIMS {
        eprintln!("{name}, alone, at most {LIMIT_PERCENT} %");
        limits.push(limited(&plan, (name, rw), args.seconds.div_ceil(3))?);
    }
    let holds = insulation.iter().all(|run| run.holds) && limits.iter().all(|run| run.holds);
    let shown = Shown {
        schema: SCHEMA,
        seconds: args.seconds,
        insulation,
        limits,
        lateness_us: LatenessUs::of(&end.expect("there are victims")),
        load_average: live::load_average(),
        holds,
    };
    if json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print(&shown);
    }
    Ok(holds.into())
}

fn insulated(
    plan: &Plan,
    (name, rw): (&str, &'static str),
    seconds: u64,
) -> anyhow::Result<(Insulated, Status)> {
    let half = Share::from_percent(SHARE_PERCENT);
    let plan = live::with_reserves(plan, &[half, half]);
    let length = seconds + RAMP_SECONDS + TAIL_SECONDS;
    let mut jobs = vec![Job::new(VICTIM, rw, length)];
    let phases =
        (0..length).step_by(usize::try_from(CHANGE_SECONDS)?).zip(NEIGHBOURS.iter().cycle());
    jobs.extend(phases.map(|(start, (rw, block, options))| {
        // Requests of 1 MiB at full depth would exceed a connection's payload memory.
        let depth = if *block == "1m" { 4 } else { live::DEPTH };
        let seconds = (CHANGE_SECONDS + OVERLAP_SECONDS).min(length - start);
        Job { volume: NEIGHBOUR, rw, block, depth, start, seconds, more: options }
    }));
    let live = Live::start(&plan, &jobs)?;
    live::pause(Duration::from_secs(RAMP_SECONDS));
    let samples = live.watch(SAMPLE, Duration::from_secs(seconds));
    let end = live.end()?;
    Ok((judge(name, &samples), end))
}

/// What the victim received in a window.
#[derive(Clone, Copy, Debug)]
struct Window {
    share: f64,
    iops: f64,
    /// Whether both volumes were busy. Disk time that an idle volume leaves is not an error.
    loaded: bool,
}

/// All windows of `len` sample intervals.
fn windows(samples: &[(Instant, Status)], len: usize) -> Vec<Window> {
    let window = |window: &[(Instant, Status)]| {
        let ((from, first), (to, last)) = (&window[0], &window[len]);
        let elapsed = to.since(*from);
        let report = last.volumes[VICTIM].report_since(Some(&first.volumes[VICTIM]), elapsed);
        let loaded = |volume: usize| {
            let busy = |status: &Status| status.volumes[volume].traffic.busy.as_secs_f64();
            busy(last) - busy(first) >= elapsed.as_secs_f64() * LOADED_MIN
        };
        let loaded = loaded(VICTIM) && loaded(NEIGHBOUR);
        Window { share: report.disk_time_share, iops: report.iops, loaded }
    };
    samples.windows(len + 1).map(window).collect()
}

/// The value with the largest deviation from `reference`, above or below.
fn furthest(values: impl Iterator<Item = f64>, reference: f64) -> f64 {
    let deviation = |value: f64| (value - reference).abs();
    values.max_by(|a, b| deviation(*a).total_cmp(&deviation(*b))).unwrap_or(reference)
}

#[expect(clippy::cast_precision_loss, reason = "a mean of a few windows")]
fn judge(name: &str, samples: &[(Instant, Status)]) -> Insulated {
    let reserve = f64::from(SHARE_PERCENT) / 100.0;
    let all = windows(samples, SHARE_WINDOW);
    let shares = || all.iter().filter(|window| window.loaded).map(|window| window.share);
    let worst_share = furthest(shares(), reserve);
    let error_points = |share: f64| (share - reserve).abs() * 100.0;
    let throughput = windows(samples, IOPS_WINDOW);
    let iops = || throughput.iter().filter(|window| window.loaded).map(|window| window.iops);
    let mean = iops().sum::<f64>() / iops().count() as f64;
    let worst_iops = furthest(iops(), mean);
    let iops_error = (worst_iops - mean).abs() / mean * 100.0;
    Insulated {
        victim: name.to_owned(),
        share: windows(samples, samples.len() - 1)[0].share,
        windows: all.len(),
        windows_loaded: shares().count(),
        windows_off: shares().filter(|share| error_points(*share) > SHARE_ERROR_MAX_POINTS).count(),
        least_share: shares().fold(f64::INFINITY, f64::min),
        worst_share,
        worst_share_error_points: error_points(worst_share),
        worst_share_of_all: furthest(all.iter().map(|window| window.share), reserve),
        iops: mean,
        worst_iops,
        worst_iops_error_percent: iops_error,
        // A run in which a volume was mostly idle does not count as passed.
        holds: shares().count() * 2 >= all.len()
            && error_points(worst_share) <= SHARE_ERROR_MAX_POINTS
            && iops_error <= IOPS_ERROR_MAX_PERCENT,
    }
}

fn limited(plan: &Plan, (name, rw): (&str, &'static str), seconds: u64) -> anyhow::Result<Limited> {
    let mut plan = plan.clone();
    let limit = Share::from_percent(LIMIT_PERCENT);
    plan.volumes[VICTIM].contract = Contract { limit, ..Contract::BEST_EFFORT };
    plan.volumes[NEIGHBOUR].contract = Contract::BEST_EFFORT;
    let jobs = [Job::new(VICTIM, rw, seconds + RAMP_SECONDS + TAIL_SECONDS)];
    let live = Live::start(&plan, &jobs)?;
    live::pause(Duration::from_secs(RAMP_SECONDS));
    let samples = live.watch(SAMPLE, Duration::from_secs(seconds));
    live.end()?;
    let Window { share, .. } = windows(&samples, samples.len() - 1)[0];
    let error_points = (share - limit.as_f64()).abs() * 100.0;
    Ok(Limited {
        volume: name.to_owned(),
        limit: limit.as_f64(),
        share,
        error_points,
        holds: error_points <= LIMIT_ERROR_MAX_POINTS,
    })
}

fn print(shown: &Shown) {
    let held = |holds: bool| if holds { "holds" } else { "MISSED" }.to_owned();
    let percent = |part: f64| format!("{:.2} %", part * 100.0);
    let head = [
        "victim, 50 %",
        "share",
        "least 2 s",
        "worst 2 s",
        "error",
        "off",
        "loaded",
        "IOPS",
        "worst 5 s",
        "error",
        "",
    ];
    let row = |run: &Insulated| {
        vec![
            run.victim.clone(),
            percent(run.share),
            percent(run.least_share),
            percent(run.worst_share),
            format!("{:.2} points", run.worst_share_error_points),
            format!("{} of {}", run.windows_off, run.windows_loaded),
            format!("{} of {}", run.windows_loaded, run.windows),
            format!("{:.1}", run.iops),
            format!("{:.1}", run.worst_iops),
            format!("{:.1} %", run.worst_iops_error_percent),
            held(run.holds),
        ]
    };
    print!("{}", table::text(&head, &shown.insulation.iter().map(row).collect::<Vec<_>>()));
    let row = |run: &Limited| {
        let error = format!("{:.2} points", run.error_points);
        vec![run.volume.clone(), percent(run.limit), percent(run.share), error, held(run.holds)]
    };
    let head = ["alone", "limit", "share", "error", ""];
    print!("\n{}", table::text(&head, &shown.limits.iter().map(row).collect::<Vec<_>>()));
    println!();
    live::print_machine(&shown.lateness_us, shown.load_average);
}
