//! `spindle-lab bench vdisk`: figures 4 and 11 of RTAS 2008 with fio over NBD on an emulated drive,
//! beside the simulation of the same scenario file.

use std::path::{Path, PathBuf};

use anyhow::Context;
use config::{Plan, VolumeIndex};
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use daemon::Status;
use plot::{Line, Plot};
use serde::Serialize;
use sim::Simulation;
use stats::SCHEMA;
use units::{Duration, Instant, Share};

use super::live::{self, Job, Live, pause};
use crate::args;

const PAIR: &str = include_str!("../../experiments/vdisk-pair.toml");
const CHANGING: &str = include_str!("../../experiments/vdisk-fig11.toml");
/// Reserves of the sequential stream, in percent. The random stream has the rest.
const SPLITS: [u32; 5] = [10, 30, 50, 70, 90];
/// Excluded at the start of a run: full buckets allow up to one period's disk time at once.
const RAMP_SECONDS: u64 = 3;
/// fio runs this much longer than the measured interval.
const TAIL_SECONDS: u64 = 1;
/// The sampling interval of RTAS 2008.
const SAMPLE: Duration = Duration::from_millis(500);
/// The largest accepted difference of a live share from the reserve.
const ERROR_MAX_POINTS: f64 = 2.0;
/// fio's option for sequential runs: with `randread:1024` it jumps after every 1,024 requests, as
/// the scenario does.
const SEQUENTIAL_RUNS: &[&str] = &["--rw_sequencer=sequential"];

/// The interval in which each stream of figure 11 is active, in the scenario's order, in seconds.
const ACTIVE: [(u64, u64); 3] = [(0, 60), (10, 30), (20, 50)];
/// The time excluded after a change: two periods (RTAS 2008 §2.1) and fio's start.
const SETTLED_SECONDS: u64 = 3;

/// One stream in one run of a figure, live and simulated.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    stream: String,
    reserve: f64,
    share: f64,
    simulated_share: f64,
    iops: Option<f64>,
    simulated_iops: Option<f64>,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    seconds: u64,
    rows: Vec<Row>,
    lateness_us: LatenessUs,
    files: Vec<PathBuf>,
    holds: bool,
}

pub(crate) fn vdisk(args: &args::LiveVdisk, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    std::fs::create_dir_all(&args.out)
        .map_err(|error| bad_input(format!("{}: {error}", args.out.display())))?;
    let (mut rows, mut files, mut end) = (Vec::new(), Vec::new(), None);
    if args.ids.is_empty() || args.ids.contains(&args::Figure::Fig4) {
        end = Some(fig4(args, &mut rows, &mut files)?);
    }
    if args.ids.is_empty() || args.ids.contains(&args::Figure::Fig11) {
        end = Some(fig11(args, &mut rows, &mut files)?);
    }
    let holds = rows.iter().all(|row| row.holds);
    let lateness_us = LatenessUs::of(&end.expect("at least one figure is selected"));
    let shown = Shown { schema: SCHEMA, seconds: args.seconds, rows, lateness_us, files, holds };
    if json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print(&shown);
    }
    Ok(holds.into())
}

fn scenario(name: &str, text: &str) -> anyhow::Result<Plan> {
    Plan::parse(text, name, Path::new(".")).map_err(bad_input)
}

/// The shares and IOPS of the two streams: sequential, random.
type Pair = [(f64, f64); 2];

fn fig4(
    args: &args::LiveVdisk,
    rows: &mut Vec<Row>,
    files: &mut Vec<PathBuf>,
) -> anyhow::Result<Status> {
    let plan = scenario("vdisk-pair.toml", PAIR)?;
    let mut points: Vec<(u32, Pair, Pair)> = Vec::new();
    let mut end = None;
    for split in SPLITS {
        eprintln!("vdisk-fig4: {split}/{}", 100 - split);
        let reserves = [Share::from_percent(split), Share::from_percent(100 - split)];
        let plan = live::with_reserves(&plan, &reserves);
        let simulated = simulated(&plan);
        let (live, status) = measured(&plan, args.seconds)?;
        end = Some(status);
        for (stream, reserve) in reserves.into_iter().enumerate() {
            let reserve = reserve.as_f64();
            let ((share, iops), (simulated_share, simulated_iops)) =
                (live[stream], simulated[stream]);
            rows.push(Row {
                what: format!("fig4 {split}/{}", 100 - split),
                stream: plan.volumes[stream].name.clone(),
                reserve,
                share,
                simulated_share,
                iops: Some(iops),
                simulated_iops: Some(simulated_iops),
                holds: (share - reserve).abs() * 100.0 <= ERROR_MAX_POINTS,
            });
        }
        points.push((split, live, simulated));
    }
    let names = ["sequential", "random"];
    let line = |stream: usize, live: bool, of: fn((f64, f64)) -> f64| Line {
        name: format!("{}, {}", names[stream], if live { "live" } else { "simulated" }),
        points: points
            .iter()
            .map(|(split, measured, simulated)| {
                (f64::from(*split), of(if live { measured[stream] } else { simulated[stream] }))
            })
            .collect(),
        dashed: !live,
    };
    let four = |of: fn((f64, f64)) -> f64| {
        vec![line(0, true, of), line(1, true, of), line(0, false, of), line(1, false, of)]
    };
    let x = "reserve of the sequential stream, % (the random stream has the rest)";
    let shares = Plot {
        caption:
            "Achieved share of disk time: fio over NBD, and simulated (deskstar-34gxp, 4 KiB reads)"
                .into(),
        x: x.into(),
        y: "achieved share of the disk's time, %".into(),
        lines: four(|(share, _)| share * 100.0),
        ..Plot::default()
    };
    let throughput = Plot {
        caption: "Throughput of the two streams: fio over NBD, and simulated (deskstar-34gxp, 4 \
                  KiB reads)"
            .into(),
        x: x.into(),
        y: "throughput, I/Os per second".into(),
        lines: four(|(_, iops)| iops),
        ..Plot::default()
    };
    for (name, plot) in
        [("vdisk-fig4-live-shares.svg", shares), ("vdisk-fig4-live-throughput.svg", throughput)]
    {
        let path = args.out.join(name);
        plot.write(&path)?;
        files.push(path);
    }
    end.context("there are splits")
}

fn simulated(plan: &Plan) -> Pair {
    let mut simulation = Simulation::new(plan);
    simulation.run_until(Instant::ZERO + plan.duration.expect("the scenario has a duration"));
    let volumes = simulation.report().volumes;
    [0, 1].map(|stream: usize| (volumes[stream].disk_time_share, volumes[stream].iops))
}

fn measured(plan: &Plan, seconds: u64) -> anyhow::Result<(Pair, Status)> {
    let length = seconds + RAMP_SECONDS + TAIL_SECONDS;
    let sequential = Job { more: SEQUENTIAL_RUNS, ..Job::new(0, "randread:1024", length) };
    let live = Live::start(plan, &[sequential, Job::new(1, "randread", length)])?;
    pause(Duration::from_secs(RAMP_SECONDS));
    let first = live.status();
    pause(Duration::from_secs(seconds));
    let last = live.status();
    let end = live.end()?;
    let elapsed = last.disks[0].at.since(first.disks[0].at);
    let pair = [0, 1].map(|stream: usize| {
        let report = last.volumes[stream].report_since(Some(&first.volumes[stream]), elapsed);
        (report.disk_time_share, report.iops)
    });
    Ok((pair, end))
}

/// Samples: the time, and the disk time charged to each stream until then, in seconds.
type Progress = Vec<(f64, Vec<f64>)>;

fn fig11(
    args: &args::LiveVdisk,
    rows: &mut Vec<Row>,
    files: &mut Vec<PathBuf>,
) -> anyhow::Result<Status> {
    let plan = scenario("vdisk-fig11.toml", CHANGING)?;
    let length = plan.duration.expect("the scenario has a duration");
    let jobs = ACTIVE.into_iter().enumerate().map(|(volume, (from, to))| {
        let job = match volume {
            1 => Job { more: SEQUENTIAL_RUNS, ..Job::new(volume, "randread:1024", to - from) },
            _ => Job::new(volume, "randread", to - from),
        };
        Job { start: from, ..job }
    });
    eprintln!("vdisk-fig11: {length}");
    let live = Live::start(&plan, &jobs.collect::<Vec<_>>())?;
    let samples = live.watch(SAMPLE, length);
    let end = live.end()?;
    let from = samples[0].0;
    let measured: Progress = samples
        .iter()
        .map(|(at, status)| {
            let charged =
                status.volumes.iter().map(|volume| volume.account.disk_time.as_secs_f64());
            (at.since(from).as_secs_f64(), charged.collect())
        })
        .collect();
    let simulated = progress(&plan, length);
    fig11_rows(&plan, &measured, &simulated, rows);
    let lines =
        [(&measured, false), (&simulated, true)].into_iter().flat_map(|(progress, dashed)| {
            let plan = &plan;
            let what = if dashed { "simulated" } else { "live" };
            (0..plan.volumes.len()).map(move |stream| Line {
                name: format!("{}, {what}", plan.volumes[stream].name),
                points: shares(progress, stream),
                dashed,
            })
        });
    let plot = Plot {
        caption: "Three streams that come and go: fio over NBD, and simulated (deskstar-34gxp, 4 \
                  KiB reads, share over 1 s)"
            .into(),
        x: "time, s".into(),
        y: "share of the disk's time, %".into(),
        lines: lines.collect(),
        ..Plot::default()
    };
    let path = args.out.join("vdisk-fig11-live.svg");
    plot.write(&path)?;
    files.push(path);
    Ok(end)
}

fn progress(plan: &Plan, length: Duration) -> Progress {
    let mut simulation = Simulation::new(plan);
    let mut at = Instant::ZERO;
    let mut samples = Progress::new();
    loop {
        let charged = (0..plan.volumes.len())
            .map(|volume| simulation.volume(VolumeIndex(volume)).disk_time.as_secs_f64());
        samples.push((at.since(Instant::ZERO).as_secs_f64(), charged.collect()));
        at += SAMPLE;
        if at > Instant::ZERO + length {
            return samples;
        }
        simulation.run_until(at);
    }
}

/// A stream's share in the second before each sample, in percent.
fn shares(progress: &Progress, stream: usize) -> Vec<(f64, f64)> {
    let second = |window: &[(f64, Vec<f64>)]| {
        let (from, to) = (&window[0], &window[2]);
        (to.0, (to.1[stream] - from.1[stream]) / (to.0 - from.0) * 100.0)
    };
    progress.windows(3).map(second).collect()
}

/// Adds a row per active stream and interval between two changes, without [`SETTLED_SECONDS`].
fn fig11_rows(plan: &Plan, measured: &Progress, simulated: &Progress, rows: &mut Vec<Row>) {
    let mut changes: Vec<u64> = ACTIVE.iter().flat_map(|(from, to)| [*from, *to]).collect();
    changes.sort_unstable();
    changes.dedup();
    for change in changes.windows(2) {
        let (from, to) = (change[0] + SETTLED_SECONDS, change[1]);
        // fio's clock starts slightly before this one, so that streams end within the last second.
        let to = to - 1;
        for (stream, (first, last)) in ACTIVE.into_iter().enumerate() {
            if change[0] < first || change[1] > last {
                continue;
            }
            let volume = &plan.volumes[stream];
            let share = |progress: &Progress| {
                let charged = |second: u64| {
                    let at = u32::try_from(second).map_or(f64::MAX, f64::from);
                    let row = progress.iter().rev().find(|(time, _)| *time <= at + 1e-3);
                    row.map_or((0.0, 0.0), |(time, charged)| (*time, charged[stream]))
                };
                let (from, to) = (charged(from), charged(to));
                (to.1 - from.1) / (to.0 - from.0)
            };
            let (live, simulated_share) = (share(measured), share(simulated));
            let reserve = volume.contract.reserve.as_f64();
            rows.push(Row {
                what: format!("fig11 {from}-{to} s"),
                stream: volume.name.clone(),
                reserve,
                share: live,
                simulated_share,
                iops: None,
                simulated_iops: None,
                holds: live >= reserve - ERROR_MAX_POINTS / 100.0,
            });
        }
    }
}

fn print(shown: &Shown) {
    let head = ["figure", "stream", "reserve", "live", "simulated", "IOPS", "simulated", ""];
    let percent = |part: f64| format!("{:.2} %", part * 100.0);
    let number =
        |iops: Option<f64>| iops.map_or_else(|| "-".to_owned(), |iops| format!("{iops:.1}"));
    let row = |row: &Row| {
        vec![
            row.what.clone(),
            row.stream.clone(),
            format!("{:.0} %", row.reserve * 100.0),
            percent(row.share),
            percent(row.simulated_share),
            number(row.iops),
            number(row.simulated_iops),
            if row.holds { "holds" } else { "MISSED" }.into(),
        ]
    };
    print!("{}", table::text(&head, &shown.rows.iter().map(row).collect::<Vec<_>>()));
    for file in &shown.files {
        println!("{}", file.display());
    }
    let late = &shown.lateness_us;
    println!("{late}");
}
