//! `spindle-lab bench clockwise`: figure 4 of RTAS 2000, the same load on the live engine and in
//! simulation.
//!
//! One of the figure's three disks, as the other two are alike and know nothing of it. What is
//! compared is the mean latency of best effort, from a request's arrival at the disk to its answer,
//! in both.

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
/// Best effort is the plan's first volume.
const BEST_EFFORT: usize = 0;
/// From the daemon's start to the first request: every client has opened its export by then.
const LEAD: Duration = Duration::from_secs(2);
/// How long a simulation goes on behind the last request, so that all are answered.
const REST: Duration = Duration::from_secs(120);
/// "In all cases the performance of the real Clockwise only differs minimally": the mean by this
/// part at most.
const DIFFERS_MAX: f64 = 0.1;

/// One load under one policy.
#[derive(Debug, Serialize)]
struct Row {
    load_mb_per_s: f64,
    policy: String,
    /// Of best effort, in the simulation and live.
    requests: [u64; 2],
    simulated_ms: f64,
    live_ms: f64,
    live_to_simulated: f64,
    /// Blocks of streams that were late, in the simulation and live.
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

/// What a run of either kind tells.
struct Ran {
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
            plan.disks[0].policy = policy;
            let simulated = simulate(&plan, length);
            let (live, lateness_us) = serve(&plan, length)?;
            rows.push(Row::of(mb_per_s, policy, &simulated, &live, lateness_us));
        }
    }
    let files = vec![draw(&rows, &args.out)?];
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
        simulated: &Ran,
        live: &Ran,
        lateness_us: LatenessUs,
    ) -> Self {
        let live_to_simulated = live.mean_ms / simulated.mean_ms;
        let requests = [simulated.requests, live.requests];
        let near = (live_to_simulated - 1.0).abs() <= DIFFERS_MAX;
        Self {
            load_mb_per_s,
            policy: policy.to_string(),
            requests,
            simulated_ms: simulated.mean_ms,
            live_ms: live.mean_ms,
            live_to_simulated,
            late: [simulated.late, live.late],
            lateness_us,
            holds: near && requests[0] == requests[1],
        }
    }
}

fn simulate(plan: &Plan, length: Duration) -> Ran {
    let mut simulation = Simulation::new(plan);
    simulation.run_until(Instant::ZERO + length + REST);
    ran(&simulation.report().volumes)
}

/// Serves the plan and lets a client at each volume, which sends its list.
fn serve(plan: &Plan, length: Duration) -> anyhow::Result<(Ran, LatenessUs)> {
    let dir = tempfile::tempdir().context("no place for a socket")?;
    let address = Address::Unix(dir.path().join("nbd.sock"));
    let daemon = Daemon::start(plan, &[address]).map_err(bad_input)?;
    let address = daemon.addresses()[0].clone();
    let clock = Clock::start();
    let from = clock.now() + LEAD;
    let mut clients = Vec::new();
    for workload in &plan.workloads {
        let Requests::Timed(timed) = &workload.requests else { unreachable!("all are lists") };
        let VolumeIndex(volume) = workload.volume;
        let name = &plan.volumes[volume].name;
        clients.push(OpenLoad::start_timed(&address, name, Arc::clone(timed), (clock, from))?);
    }
    anyhow::ensure!(clock.now() < from, "{} clients took over {LEAD} to connect", clients.len());
    pause(LEAD + length);
    for client in clients {
        client.stop()?;
    }
    let end = daemon.stop().context("the sockets")?;
    let volumes: Vec<_> =
        end.volumes.iter().map(|volume| volume.report_since(None, length)).collect();
    Ok((ran(&volumes), LatenessUs::of(&end)))
}

fn ran(volumes: &[stats::VolumeReport]) -> Ran {
    let best_effort = &volumes[BEST_EFFORT];
    Ran {
        requests: best_effort.requests,
        mean_ms: best_effort.latency_ms.mean,
        late: volumes.iter().map(|volume| volume.deadline_misses).sum(),
    }
}

/// The figure: each policy's two lines, the live one dashed.
fn draw(rows: &[Row], out: &Path) -> anyhow::Result<String> {
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
        "noticed late p99 µs",
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
        "live ÷ simulated, mean latency of best effort: within {DIFFERS_MAX} of 1; RTAS 2000: \
         \"only differs minimally\""
    );
    for file in &done.files {
        eprintln!("wrote {file}");
    }
}
