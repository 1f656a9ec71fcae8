//! `spindle demo`: the main job, working, on an emulated disk.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::Context;
use config::Plan;
use daemon::{Daemon, Status};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use nbd::Address;
use plot::{Line, Plot};
use serde::Serialize;
use sim::Dice;
use stats::{SCHEMA, VolumeReport};
use units::{Duration, Instant};

use crate::args;
use crate::exit::{Ended, bad_input};
use crate::load::Load;
use crate::serve::{LatenessUs, uri};
use crate::table;

const PLAN: &str = include_str!("../demo.toml");
/// A share that is off by more has not been kept.
const SHARE_ERROR_MAX_POINTS: f64 = 2.0;
/// The paper samples every half second.
const SAMPLE: Duration = Duration::from_millis(500);
/// Without a terminal, progress is told in lines, one every so many samples.
const SAMPLES_A_LINE: usize = 10;

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    duration_s: f64,
    volumes: Vec<VolumeReport>,
    worst_share_error_points: f64,
    bound_points: f64,
    holds: bool,
    lateness_us: LatenessUs,
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: &args::Demo, json: bool) -> anyhow::Result<Ended> {
    let plan = Plan::parse(PLAN, "the demo's config", Path::new(".")).map_err(bad_input)?;
    std::fs::create_dir_all(&args.out)
        .map_err(|e| bad_input(format!("{}: {e}", args.out.display())))?;
    let dir = tempfile::tempdir().context("no place for the demo's socket")?;
    let address = Address::Unix(dir.path().join("nbd.sock"));
    let daemon = Daemon::start(&plan, &[address]).map_err(bad_input)?;
    let address = daemon.addresses()[0].clone();
    for volume in &plan.volumes {
        let uri = uri(&address, &volume.name);
        eprintln!("{}: {}, reserve {}: {uri}", volume.name, volume.size, volume.contract.reserve);
    }
    let mut loads = Vec::new();
    for (stream, workload) in (0..).zip(&plan.workloads) {
        let export = &plan.volumes[workload.volume.0].name;
        loads.push(Load::start(&address, export, workload, Dice::new(plan.seed, stream))?);
    }
    let samples = watch(&daemon, &plan, Duration::from_secs(args.seconds));
    loads.into_iter().try_for_each(Load::stop)?;
    let status = daemon.stop().context("the sockets")?;
    let files = draw(&plan, &samples, &args.out)?;
    let shown = judge(&samples, &status, files);
    if json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print(&shown);
    }
    Ok(shown.holds.into())
}

/// Looks at the volumes every [`SAMPLE`] until `length` has gone by, and shows what it sees.
fn watch(daemon: &Daemon, plan: &Plan, length: Duration) -> Vec<(Instant, Status)> {
    let bars = MultiProgress::new();
    let style = ProgressStyle::with_template("{prefix:5} {bar:50.cyan/blue} {msg}");
    let style = style.expect("the template is sound");
    let bars: Vec<ProgressBar> = plan
        .volumes
        .iter()
        .map(|volume| {
            let bar = ProgressBar::new(1_000).with_style(style.clone());
            bars.add(bar.with_prefix(volume.name.clone()))
        })
        .collect();
    let terminal = std::io::stderr().is_terminal();
    let mut samples: Vec<(Instant, Status)> = Vec::new();
    loop {
        let status = daemon.status();
        let at = status.disks[0].at;
        let lines = shares(samples.first(), at, &status);
        for (bar, (share, line)) in bars.iter().zip(&lines) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a bar")]
            bar.set_position((share * 1e3) as u64);
            bar.set_message(line.clone());
        }
        if !terminal && samples.len() % SAMPLES_A_LINE == SAMPLES_A_LINE - 1 {
            let lines: Vec<String> = bars
                .iter()
                .zip(&lines)
                .map(|(bar, (_, line))| format!("{} {line}", bar.prefix()))
                .collect();
            eprintln!("{}", lines.join("; "));
        }
        samples.push((at, status));
        let end = samples[0].0 + length;
        if at >= end {
            bars.iter().for_each(ProgressBar::finish);
            return samples;
        }
        let next = (at + SAMPLE).min(end);
        pause(next.saturating_since(daemon.now()));
    }
}

/// The demo watches by the clock: there is nothing to wait for but time.
#[expect(clippy::disallowed_methods, reason = "a person watches; nothing else depends on it")]
fn pause(length: Duration) {
    std::thread::sleep(std::time::Duration::from_nanos(length.as_nanos()));
}

fn shares(first: Option<&(Instant, Status)>, at: Instant, now: &Status) -> Vec<(f64, String)> {
    let Some((from, first)) = first.filter(|(from, _)| *from < at) else {
        return now.volumes.iter().map(|_| (0.0, "connected".to_owned())).collect();
    };
    let told = now.volumes.iter().zip(&first.volumes).map(|(now, first)| {
        let report = now.report_since(Some(first), at.since(*from));
        let (share, reserve) = (report.disk_time_share, report.reserve);
        let line =
            format!("{:5.1} % of {:3.0} %  {:7.1} IOPS", share * 1e2, reserve * 1e2, report.iops);
        (share, line)
    });
    told.collect()
}

fn draw(plan: &Plan, samples: &[(Instant, Status)], out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (from, first) = &samples[0];
    let mut lines = Vec::new();
    let mut csv = "time_s".to_owned();
    for (index, volume) in plan.volumes.iter().enumerate() {
        let had = |status: &Status| status.volumes[index].account.disk_time;
        let point = |(at, status): &(Instant, Status)| {
            (at.since(*from).as_secs_f64(), (had(status) - had(first)).as_secs_f64())
        };
        let points: Vec<(f64, f64)> = samples.iter().map(point).collect();
        let end = points.last().map_or(0.0, |point| point.0);
        let reserve = volume.contract.reserve;
        lines.push(Line { name: format!("{}, had", volume.name), points, dashed: false });
        let promised = vec![(0.0, 0.0), (end, end * reserve.as_f64())];
        lines.push(Line {
            name: format!("{}, reserved {reserve}", volume.name),
            points: promised,
            dashed: true,
        });
        csv.extend([",", &volume.name, "_s"]);
    }
    csv.push('\n');
    for row in 0..samples.len() {
        let had =
            lines.iter().filter(|line| !line.dashed).map(|line| line.points[row].1.to_string());
        let time = lines[0].points[row].0.to_string();
        csv += &(std::iter::once(time).chain(had).collect::<Vec<_>>().join(",") + "\n");
    }
    let plot = Plot {
        caption: "Progress of two live NBD clients on one emulated deskstar-34gxp".into(),
        x: "time, s".into(),
        y: "disk time had, s".into(),
        lines,
        ..Plot::default()
    };
    let (svg, table) = (out.join("demo.svg"), out.join("demo.csv"));
    plot.write(&svg)?;
    std::fs::write(&table, csv).with_context(|| format!("{}", table.display()))?;
    Ok(vec![svg, table])
}

fn judge(samples: &[(Instant, Status)], end: &Status, files: Vec<PathBuf>) -> Shown {
    let ((from, first), (to, last)) = (&samples[0], &samples[samples.len() - 1]);
    let elapsed = to.since(*from);
    let volumes = last.volumes.iter().zip(&first.volumes);
    let volumes: Vec<VolumeReport> =
        volumes.map(|(last, first)| last.report_since(Some(first), elapsed)).collect();
    let off = |volume: &VolumeReport| (volume.disk_time_share - volume.reserve).abs() * 100.0;
    let worst = volumes.iter().map(off).fold(0.0, f64::max);
    Shown {
        schema: SCHEMA,
        duration_s: elapsed.as_secs_f64(),
        volumes,
        worst_share_error_points: worst,
        bound_points: SHARE_ERROR_MAX_POINTS,
        holds: worst <= SHARE_ERROR_MAX_POINTS,
        lateness_us: LatenessUs::of(end),
        files,
    }
}

fn print(shown: &Shown) {
    print!("{}", table::volumes(&shown.volumes));
    let late = &shown.lateness_us;
    println!(
        "worst share error: {:.2} points (at most {SHARE_ERROR_MAX_POINTS}): the shares {}",
        shown.worst_share_error_points,
        if shown.holds { "held" } else { "DID NOT HOLD" },
    );
    println!(
        "the drive was late by p50 {:.0} µs, p99 {:.0} µs, max {:.0} µs",
        late.p50, late.p99, late.max
    );
    for file in &shown.files {
        eprintln!("wrote {}", file.display());
    }
}
