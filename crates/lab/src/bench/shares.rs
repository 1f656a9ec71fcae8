//! `spindle-lab bench shares`: two exports at several splits, against each job alone.

use std::path::Path;

use config::Plan;
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use daemon::Status;
use serde::Serialize;
use stats::SCHEMA;
use units::{Duration, Share};

use super::live::{self, Job, Live, pause};
use crate::args;

const PLAN: &str = include_str!("../../../../examples/serve/demo.toml");
const SPLITS: [(u32, u32); 3] = [(50, 50), (70, 30), (90, 10)];
/// fio's pattern for each volume.
const PATTERNS: [&str; 2] = ["read", "randread"];
/// Excluded at the start of a run: full buckets allow up to one period's disk time at once.
const RAMP_SECONDS: u64 = 3;
/// fio runs this much longer than the measured interval.
const TAIL_SECONDS: u64 = 1;
const SHARE_ERROR_MAX_POINTS: f64 = 2.0;
const THROUGHPUT_RATIO_MIN: f64 = 0.90;

/// One job in one split.
#[derive(Debug, Serialize)]
struct Row {
    split: String,
    volume: String,
    reserve: f64,
    share: f64,
    error_points: f64,
    iops: f64,
    alone_iops: f64,
    /// IOPS ÷ (reserve × IOPS alone).
    kept: f64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Shares {
    schema: u32,
    seconds: u64,
    rows: Vec<Row>,
    lateness_us: LatenessUs,
    holds: bool,
}

/// The daemon's figures for one fio run.
struct Measured {
    /// Disk-time share and IOPS, by volume.
    shares: Vec<(f64, f64)>,
    /// The status after the run.
    end: Status,
}

pub(crate) fn shares(args: &args::Shares, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    let plan = Plan::parse(PLAN, "the bench's config", Path::new(".")).map_err(bad_input)?;
    let mut alone = Vec::new();
    for job in 0..PATTERNS.len() {
        eprintln!("{} alone", plan.volumes[job].name);
        let reserves = [Share::ALL, Share::NONE];
        let reserves = if job == 0 { reserves } else { [reserves[1], reserves[0]] };
        alone.push(measure(&plan, reserves, &[job], args.seconds)?.shares[job].1);
    }
    let mut rows = Vec::new();
    let mut lateness = None;
    for (first, second) in SPLITS {
        eprintln!("{first}/{second}");
        let reserves = [Share::from_percent(first), Share::from_percent(second)];
        let measured = measure(&plan, reserves, &[0, 1], args.seconds)?;
        for (job, ((share, iops), reserve)) in measured.shares.iter().zip(reserves).enumerate() {
            let reserve = reserve.as_f64();
            let (error, kept) = ((share - reserve).abs() * 100.0, iops / (reserve * alone[job]));
            rows.push(Row {
                split: format!("{first}/{second}"),
                volume: plan.volumes[job].name.clone(),
                reserve,
                share: *share,
                error_points: error,
                iops: *iops,
                alone_iops: alone[job],
                kept,
                holds: error <= SHARE_ERROR_MAX_POINTS && kept >= THROUGHPUT_RATIO_MIN,
            });
        }
        lateness = Some(LatenessUs::of(&measured.end));
    }
    let lateness_us = lateness.expect("there are splits");
    let holds = rows.iter().all(|row| row.holds);
    let shares = Shares { schema: SCHEMA, seconds: args.seconds, rows, lateness_us, holds };
    if json {
        println!("{}", serde_json::to_string(&shares)?);
    } else {
        print(&shares);
    }
    Ok(holds.into())
}

/// Serves the plan with these reserves, runs fio's `jobs`, and measures between ramp and tail.
fn measure(
    plan: &Plan,
    reserves: [Share; 2],
    jobs: &[usize],
    seconds: u64,
) -> anyhow::Result<Measured> {
    let plan = live::with_reserves(plan, &reserves);
    let length = seconds + RAMP_SECONDS + TAIL_SECONDS;
    let jobs: Vec<Job> = jobs.iter().map(|job| Job::new(*job, PATTERNS[*job], length)).collect();
    let live = Live::start(&plan, &jobs)?;
    pause(Duration::from_secs(RAMP_SECONDS));
    let first = live.status();
    pause(Duration::from_secs(seconds));
    let last = live.status();
    let end = live.end()?;
    let elapsed = last.disks[0].at.since(first.disks[0].at);
    let volumes = last.volumes.iter().zip(&first.volumes);
    let shares = volumes.map(|(last, first)| {
        let report = last.report_since(Some(first), elapsed);
        (report.disk_time_share, report.iops)
    });
    Ok(Measured { shares: shares.collect(), end })
}

fn print(shares: &Shares) {
    let head = [
        "split",
        "volume",
        "reserve",
        "share",
        "error",
        "IOPS",
        "alone",
        "IOPS ÷ (reserve × alone)",
        "",
    ];
    let row = |row: &Row| {
        vec![
            row.split.clone(),
            row.volume.clone(),
            format!("{:.0} %", row.reserve * 100.0),
            format!("{:.2} %", row.share * 100.0),
            format!("{:.2} points", row.error_points),
            format!("{:.1}", row.iops),
            format!("{:.1}", row.alone_iops),
            format!("{:.3}", row.kept),
            if row.holds { "holds" } else { "MISSED" }.into(),
        ]
    };
    print!("{}", table::text(&head, &shares.rows.iter().map(row).collect::<Vec<_>>()));
    let late = &shares.lateness_us;
    println!("{late}");
}
