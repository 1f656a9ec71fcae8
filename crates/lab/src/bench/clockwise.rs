//! `spindle-lab bench clockwise`: figure 4 of RTAS 2000, the same load on the live engine and in
//! simulation.
//!
//! Without a pool only one of the figure's three disks is run, because the disks are alike and
//! independent. A pool is run with its three disks, on which it places all blocks. The comparison
//! is of the mean latency of best effort, from a request's arrival at the disk to its completion.

use core::ops::Range;
use std::sync::Arc;

use anyhow::Context;
use config::{LoadedVolume, Plan, PoolVolumeIndex, Requests, VolumeIndex};
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use daemon::{Clock, Daemon};
use engine::PolicyName;
use nbd::Address;
use plot::{Line, Plot};
use serde::Serialize;
use stats::SCHEMA;
use units::Duration;

use super::live::pause;
use crate::args;
use crate::experiments::{
    ANGLES, Measured, OnPool, OneDisk, RELATIVE_DIFFERENCE_MAX, simulate_from_angles,
};
use loadgen::OpenLoad;

/// The policies of one disk. Those of a pool are [`OnPool::POLICIES`].
const POLICIES: [PolicyName; 4] =
    [PolicyName::Edf, PolicyName::Lst, PolicyName::DeltaL, PolicyName::DeltaStar];
/// The place of the best-effort volume of one disk in the plan.
const BEST_EFFORT: usize = 0;
/// The time from the daemon's start to the first request, in which every client opens its export.
const LEAD: Duration = Duration::from_secs(2);

/// One load under one policy, to be run.
struct Run {
    load_mb_per_s: f64,
    policy: PolicyName,
    plan: Plan,
    /// The places of the best-effort volumes among those of the plan.
    best_effort: Range<usize>,
}

/// One load under one policy.
#[derive(Debug, Serialize)]
struct Row {
    load_mb_per_s: f64,
    policy: String,
    /// Requests of the best-effort volumes, in the simulation and live.
    requests: [u64; 2],
    simulated_ms: f64,
    /// The least and the most of simulations whose disks are at other angles when the load begins.
    simulated_range_ms: [f64; 2],
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
    pool: bool,
    seconds: u64,
    rows: Vec<Row>,
    files: Vec<String>,
    holds: bool,
}

pub(crate) fn clockwise(args: &args::Clockwise, json: bool) -> anyhow::Result<ExitStatus> {
    std::fs::create_dir_all(&args.out)
        .map_err(|error| bad_input(format!("{}: {error}", args.out.display())))?;
    let length = Duration::from_secs(args.seconds);
    let mut rows = Vec::new();
    for run in runs(args, length) {
        eprintln!("{:.1} MB/s, {}", run.load_mb_per_s, run.policy);
        let simulated = simulate_from_angles(&run.plan, &run.best_effort, length);
        let (live, lateness_us) = serve(&run, length)?;
        rows.push(Row::of((run.load_mb_per_s, run.policy), &simulated, &live, lateness_us));
    }
    let files = vec![plot_figure(&rows, args)?];
    let holds = rows.iter().all(|row| row.holds);
    let (pool, seconds) = (args.pool, args.seconds);
    let done = Clockwise { schema: SCHEMA, pool, seconds, rows, files, holds };
    if json {
        println!("{}", serde_json::to_string(&done)?);
    } else {
        print(&done);
    }
    Ok(holds.into())
}

/// The loads in ascending order, each under every policy.
fn runs(args: &args::Clockwise, length: Duration) -> Box<dyn Iterator<Item = Run>> {
    let count = args.loads.into();
    let of_pool = |load: OnPool| {
        OnPool::POLICIES.map(|policy| {
            let (load_mb_per_s, plan) = (load.mb_per_s(), load.plan(policy));
            Run { load_mb_per_s, policy, plan, best_effort: load.best_effort() }
        })
    };
    let of_disk = |OneDisk { mb_per_s, plan }: OneDisk| {
        POLICIES.map(|policy| {
            let mut plan = plan.clone();
            plan.disks[0].set_policy(policy);
            let best_effort = BEST_EFFORT..BEST_EFFORT + 1;
            Run { load_mb_per_s: mb_per_s, policy, plan, best_effort }
        })
    };
    if args.pool {
        Box::new(OnPool::loads(count, length).into_iter().flat_map(of_pool))
    } else {
        Box::new(OneDisk::loads(count, length).into_iter().flat_map(of_disk))
    }
}

impl Row {
    fn of(
        (load_mb_per_s, policy): (f64, PolicyName),
        from_angles: &[Measured; ANGLES],
        live: &Measured,
        lateness_us: LatenessUs,
    ) -> Self {
        let simulated = &from_angles[0];
        let means = from_angles.map(|one| one.mean_ms);
        let simulated_range_ms = [
            means.into_iter().fold(f64::INFINITY, f64::min),
            means.into_iter().fold(0.0, f64::max),
        ];
        let live_to_simulated = live.mean_ms / simulated.mean_ms;
        let requests = [simulated.requests, live.requests];
        let is_near = (live_to_simulated - 1.0).abs() <= RELATIVE_DIFFERENCE_MAX;
        Self {
            load_mb_per_s,
            policy: policy.to_string(),
            requests,
            simulated_ms: simulated.mean_ms,
            simulated_range_ms,
            live_ms: live.mean_ms,
            live_to_simulated,
            late: [simulated.misses, live.misses],
            lateness_us,
            holds: is_near && requests[0] == requests[1],
        }
    }
}

/// Serves the plan, with one client per volume that sends the volume's timed requests.
fn serve(run: &Run, length: Duration) -> anyhow::Result<(Measured, LatenessUs)> {
    let dir = tempfile::tempdir().context("cannot create a directory for the socket")?;
    let address = Address::Unix(dir.path().join("nbd.sock"));
    let daemon = Daemon::start(&run.plan, &[address]).map_err(bad_input)?;
    let address = daemon.addresses()[0].clone();
    let clock = Clock::start();
    let from = clock.now() + LEAD;
    let mut clients = Vec::new();
    for workload in &run.plan.workloads {
        let Requests::Timed(timed) = &workload.requests else { unreachable!("all are timed") };
        let name = name_of(&run.plan, workload.volume);
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
    Ok((Measured::of(&volumes, run.best_effort.clone()), LatenessUs::of(&end)))
}

fn name_of(plan: &Plan, volume: LoadedVolume) -> &str {
    match volume {
        LoadedVolume::Single(VolumeIndex(volume)) => &plan.volumes[volume].name,
        LoadedVolume::Pool(PoolVolumeIndex(volume)) => {
            &plan.pool.as_ref().expect("it has a pool").volumes[volume].name
        }
        LoadedVolume::Snapshot(_) => unreachable!("no snapshot is taken"),
    }
}

/// Plots two lines per policy, simulated (solid) and live (dashed).
fn plot_figure(rows: &[Row], args: &args::Clockwise) -> anyhow::Result<String> {
    let line = |policy: PolicyName, live: bool| Line {
        name: format!("{policy}, {}", if live { "live" } else { "simulated" }),
        points: rows
            .iter()
            .filter(|row| row.policy == policy.as_str())
            .map(|row| (row.load_mb_per_s, if live { row.live_ms } else { row.simulated_ms }))
            .collect(),
        dashed: live,
    };
    let (policies, disks, file) = if args.pool {
        let disks = "three emulated atlas-ii of a pool and simulated (stripe)";
        (&OnPool::POLICIES[..], disks, "clockwise-fig4-pool-live.svg")
    } else {
        let disks = "an emulated atlas-ii and simulated (rotation)";
        (&POLICIES[..], disks, "clockwise-fig4.svg")
    };
    let lines =
        [false, true].into_iter().flat_map(|live| policies.iter().map(move |p| line(*p, live)));
    let plot = Plot {
        caption: format!("Latency of best effort, live on {disks}"),
        x: "load of the streams on three disks, MB/s".into(),
        y: "mean latency of best effort, ms".into(),
        lines: lines.collect(),
        y_log: true,
        ..Plot::default()
    };
    let path = args.out.join(file);
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
        "from any angle",
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
            row.simulated_range_ms.map(|bound| format!("{bound:.1}")).join(" to "),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(simulated: (f64, u64), live: (f64, u64)) -> Row {
        let of = |(mean_ms, requests)| Measured { mean_ms, requests, misses: 0 };
        let others = [(simulated.0 * 0.9, 3), (simulated.0 * 1.3, 3), (simulated.0 * 1.2, 3)];
        let [one, two, three] = others.map(of);
        let from_angles = [of(simulated), one, two, three];
        let late = LatenessUs { p50: 0.0, p99: 0.0, max: 0.0 };
        Row::of((17.4, PolicyName::Lst), &from_angles, &of(live), late)
    }

    #[test]
    fn a_live_mean_over_a_tenth_off_the_simulated_one_is_missed_and_so_is_a_lost_request() {
        for (live_ms, near) in [(100.0, true), (109.0, true), (91.0, true), (111.0, false)] {
            assert_eq!(row((100.0, 3), (live_ms, 3)).holds, near, "{live_ms} ms");
        }
        assert!(!row((100.0, 3), (89.0, 3)).holds, "faster than simulated is no match either");
        assert!(!row((100.0, 3), (100.0, 2)).holds, "a request was not answered");
    }

    #[test]
    fn what_other_angles_give_is_shown_and_does_not_widen_the_bound() {
        let row = row((100.0, 3), (125.0, 3));
        assert_eq!(row.simulated_range_ms.map(|bound| format!("{bound:.0}")), ["90", "130"]);
        assert!(!row.holds, "125 ms is within the range and not within a tenth");
    }
}
