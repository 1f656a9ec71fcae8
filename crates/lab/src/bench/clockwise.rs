//! `spindle-lab bench clockwise`: figure 4 of RTAS 2000, the same load on the live engine and in
//! simulation.
//!
//! Only one of the figure's three disks is run, because the disks are alike and independent. The
//! comparison is of the mean latency of best effort, from a request's arrival at the disk to its
//! completion.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use config::{Plan, Requests, VolumeIndex};
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use daemon::{Clock, Daemon};
use engine::PolicyName;
use nbd::Address;
use plot::{Line, Plot};
use serde::Serialize;
use sim::Simulation;
use stats::SCHEMA;
use units::{Duration, Instant};

use super::live::pause;
use crate::args;
use crate::experiments::OneDisk;
use loadgen::OpenLoad;

const POLICIES: [PolicyName; 4] =
    [PolicyName::Edf, PolicyName::Lst, PolicyName::DeltaL, PolicyName::DeltaStar];
/// The index of the best-effort volume in the plan.
const BEST_EFFORT: usize = 0;
/// The time from the daemon's start to the first request, in which every client opens its export.
const LEAD: Duration = Duration::from_secs(2);
/// The simulated time after the last request, in which all outstanding requests complete.
const DRAIN: Duration = Duration::from_secs(120);
/// The largest accepted relative difference of the means. RTAS 2000: "In all cases the performance
/// of the real Clockwise only differs minimally".
const RELATIVE_DIFFERENCE_MAX: f64 = 0.1;

/// One load under one policy.
#[derive(Debug, Serialize)]
struct Row {
    load_mb_per_s: f64,
    policy: String,
    /// Requests of the best-effort volume, in the simulation and live.
    requests: [u64; 2],
    simulated_ms: f64,
    live_ms: f64,
    live_to_simulated: f64,
    /// Stream blocks that missed their deadline, in the simulation and live.
    late: [u64; 2],
    lateness_us: LatenessUs,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Clockwise {
    schema: u32,
    seconds: u64,
    rows: Vec<Row>,
    files: Vec<String>,
    holds: bool,
}

/// The figures of one run, simulated or live.
struct RunSummary {
    requests: u64,
    mean_ms: f64,
    late: u64,
}

pub(crate) fn clockwise(args: &args::Clockwise, json: bool) -> anyhow::Result<ExitStatus> {
    std::fs::create_dir_all(&args.out)
        .map_err(|error| bad_input(format!("{}: {error}", args.out.display())))?;
    let length = Duration::from_secs(args.seconds);
    let mut rows = Vec::new();
    for OneDisk { mb_per_s, plan } in OneDisk::loads(args.loads.into(), length) {
        for policy in POLICIES {
            eprintln!("{mb_per_s:.1} MB/s, {policy}");
            let mut plan = plan.clone();
            plan.disks[0].set_policy(policy);
            let simulated = simulate(&plan, length);
            let (live, lateness_us) = serve(&plan, length)?;
            rows.push(Row::of(mb_per_s, policy, &simulated, &live, lateness_us));
        }
    }
    let files = vec![plot_figure(&rows, &args.out)?];
    let holds = rows.iter().all(|row| row.holds);
    let done = Clockwise { schema: SCHEMA, seconds: args.seconds, rows, files, holds };
    if json {
        println!("{}", serde_json::to_string(&done)?);
    } else {
        print(&done);
    }
    Ok(holds.into())
}

impl Row {
    fn of(
        load_mb_per_s: f64,
        policy: PolicyName,
        simulated: &RunSummary,
        live: &RunSummary,
        lateness_us: LatenessUs,
    ) -> Self {
        let live_to_simulated = live.mean_ms / simulated.mean_ms;
        let requests = [simulated.requests, live.requests];
        let is_near = (live_to_simulated - 1.0).abs() <= RELATIVE_DIFFERENCE_MAX;
        Self {
            load_mb_per_s,
            policy: policy.to_string(),
            requests,
            simulated_ms: simulated.mean_ms,
            live_ms: live.mean_ms,
            live_to_simulated,
            late: [simulated.late, live.late],
            lateness_us,
            holds: is_near && requests[0] == requests[1],
        }
    }
}

fn simulate(plan: &Plan, length: Duration) -> RunSummary {
    let mut simulation = Simulation::new(plan);
    simulation.run_until(Instant::ZERO + length + DRAIN);
    summarise(&simulation.report().volumes)
}

/// Serves the plan, with one client per volume that sends the volume's timed requests.
fn serve(plan: &Plan, length: Duration) -> anyhow::Result<(RunSummary, LatenessUs)> {
    let dir = tempfile::tempdir().context("cannot create a directory for the socket")?;
    let address = Address::Unix(dir.path().join("nbd.sock"));
    let daemon = Daemon::start(plan, &[address]).map_err(bad_input)?;
    let address = daemon.addresses()[0].clone();
    let clock = Clock::start();
    let from = clock.now() + LEAD;
    let mut clients = Vec::new();
    for workload in &plan.workloads {
        let Requests::Timed(timed) = &workload.requests else { unreachable!("all are timed") };
        let VolumeIndex(volume) = workload.volume.single().expect("it has no pool");
        let name = &plan.volumes[volume].name;
        clients.push(OpenLoad::start_timed(&address, name, Arc::clone(timed), (clock, from))?);
    }
    anyhow::ensure!(clock.now() < from, "{} clients took over {LEAD} to connect", clients.len());
    pause(LEAD + length);
    for client in clients {
        client.stop()?;
    }
    let end = daemon.stop().context("cannot stop the daemon")?;
    let volumes: Vec<_> =
        end.volumes.iter().map(|volume| volume.report_since(None, length)).collect();
    Ok((summarise(&volumes), LatenessUs::of(&end)))
}

fn summarise(volumes: &[stats::VolumeReport]) -> RunSummary {
    let best_effort = &volumes[BEST_EFFORT];
    RunSummary {
        requests: best_effort.requests,
        mean_ms: best_effort.latency_ms.mean,
        late: volumes.iter().map(|volume| volume.deadline_misses).sum(),
    }
}

/// Plots two lines per policy, simulated (solid) and live (dashed).
fn plot_figure(rows: &[Row], out: &Path) -> anyhow::Result<String> {
    let line = |policy: PolicyName, live: bool| Line {
        name: format!("{policy}, {}", if live { "live" } else { "simulated" }),
        points: rows
            .iter()
            .filter(|row| row.policy == policy.as_str())
            .map(|row| (row.load_mb_per_s, if live { row.live_ms } else { row.simulated_ms }))
            .collect(),
        dashed: live,
    };
    let lines = [false, true].into_iter().flat_map(|live| POLICIES.map(|p| line(p, live)));
    let plot = Plot {
        caption: "Latency of best effort, live on an emulated atlas-ii and simulated (rotation)"
            .into(),
        x: "load of the streams on three disks, MB/s".into(),
        y: "mean latency of best effort, ms".into(),
        lines: lines.collect(),
        y_log: true,
        ..Plot::default()
    };
    let path = out.join("clockwise-fig4.svg");
    plot.write(&path).with_context(|| format!("{}", path.display()))?;
    Ok(path.display().to_string())
}

fn print(done: &Clockwise) {
    let head = [
        "MB/s",
        "policy",
        "requests",
        "live",
        "simulated ms",
        "live ms",
        "ratio",
        "late",
        "late live",
        "disk lateness p99 µs",
        "",
    ];
    let row = |row: &Row| {
        vec![
            format!("{:.1}", row.load_mb_per_s),
            row.policy.clone(),
            row.requests[0].to_string(),
            row.requests[1].to_string(),
            format!("{:.2}", row.simulated_ms),
            format!("{:.2}", row.live_ms),
            format!("{:.3}", row.live_to_simulated),
            row.late[0].to_string(),
            row.late[1].to_string(),
            format!("{:.0}", row.lateness_us.p99),
            if row.holds { "holds" } else { "MISSED" }.to_owned(),
        ]
    };
    print!("{}", table::text(&head, &done.rows.iter().map(row).collect::<Vec<_>>()));
    println!(
        "live ÷ simulated, mean latency of best effort: within {RELATIVE_DIFFERENCE_MAX} of 1; \
         RTAS 2000: \"only differs minimally\""
    );
    for file in &done.files {
        eprintln!("wrote {file}");
    }
}
