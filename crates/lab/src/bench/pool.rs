//! `spindle-lab bench pool`: the throughput of a stripe over three disks relative to one disk, and
//! a volume's share while another volume's blocks are relocated off its disk.

use config::Document;
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use daemon::{Operator, Status};
use serde::Serialize;
use stats::SCHEMA;
use units::{Duration, Instant};

use super::live::{self, Job, Live, SAMPLE};
use crate::args;

/// The reserves add up to the whole disk, so that a share below its reserve is not due to the slack
/// of another volume.
const PLAN: &str = r#"
[[disk]]
name = "d0"
drive = "deskstar-34gxp"

[[disk]]
name = "d1"
drive = "deskstar-34gxp"

[[disk]]
name = "d2"
drive = "deskstar-34gxp"

[pool]
disks = ["d0", "d1", "d2"]
metadata_share = "1%"
relocation_share = "10%"

[[pool.volume]]
name = "one"
size = "2GiB"
disks = ["d1"]

[[pool.volume]]
name = "stripe"
size = "2GiB"
layout = "stripe"

[[pool.volume]]
name = "victim"
size = "2GiB"
disks = ["d0"]
reserve = "50%"

[[pool.volume]]
name = "neighbour"
size = "2GiB"
disks = ["d0"]
reserve = "39%"

[[pool.volume]]
name = "moved"
size = "8GiB"
disks = ["d0"]
"#;

const ONE: usize = 0;
const STRIPE: usize = 1;
const VICTIM: usize = 2;
const NEIGHBOUR: usize = 3;
const MOVED: &str = "moved";
const SHARE: f64 = 0.5;
/// Block size and requests outstanding of the sequential reads. 24 requests keep all three disks
/// busy, also when consecutive blocks lie on different disks.
const SEQUENTIAL: (&str, u32) = ("1m", 24);
const RAMP_SECONDS: u64 = 3;
const TAIL_SECONDS: u64 = 2;
/// The time added to the load because the pool commits the relocation to its log, beside the load,
/// before blocks move.
const COMMIT_SECONDS: u64 = 10;
/// Sample intervals in a window of 2 s and in a window of 10 s.
const SHORT_WINDOW: usize = 4;
const LONG_WINDOW: usize = 20;
const STRIPE_RATIO_MIN: f64 = 2.8;
const SHARE_ERROR_MAX_POINTS: f64 = 1.0;
const MISSING_IN_2S_MAX_POINTS: f64 = 2.0;

#[derive(Debug, Serialize)]
struct Striped {
    one_bytes_per_s: f64,
    stripe_bytes_per_s: f64,
    ratio: f64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Moving {
    share: f64,
    error_points: f64,
    /// The largest error of any window of 10 s.
    worst_10s_error_points: f64,
    /// The largest error of any window of 2 s.
    worst_2s_error_points: f64,
    /// The most that is missing from the reserve in any window of 10 s, and in any of 2 s. The rest
    /// of an error is what the volume has beyond its reserve.
    worst_10s_missing_points: f64,
    worst_2s_missing_points: f64,
    moved_bytes: u64,
    /// Whether the relocation was still running at the end of the measurement.
    to_the_end: bool,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    seconds: u64,
    stripe: Striped,
    moving: Moving,
    lateness_us: LatenessUs,
    load_average: Option<f64>,
    holds: bool,
}

pub(crate) fn pool(args: &args::Pooled, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    let (_dir, document) = live::document(PLAN)?;
    eprintln!("sequential reads of one disk, then of a stripe over three");
    let (one_bytes_per_s, _) = sequential(&document, ONE, args.seconds)?;
    let (stripe_bytes_per_s, _) = sequential(&document, STRIPE, args.seconds)?;
    let ratio = stripe_bytes_per_s / one_bytes_per_s;
    let holds = ratio >= STRIPE_RATIO_MIN;
    let stripe = Striped { one_bytes_per_s, stripe_bytes_per_s, ratio, holds };
    eprintln!("a reserve of 50 % during a relocation with a share of 10 %");
    let (moving, end) = moved(&document, args.seconds.max(20))?;
    let load_average = live::load_average();
    let holds = stripe.holds && moving.holds;
    let lateness_us = LatenessUs::of(&end);
    let seconds = args.seconds;
    let shown = Shown { schema: SCHEMA, seconds, stripe, moving, lateness_us, load_average, holds };
    if json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print(&shown);
    }
    Ok(holds.into())
}

/// The throughput of sequential reads of a volume, in bytes per second, and the final status.
fn sequential(document: &Document, volume: usize, seconds: u64) -> anyhow::Result<(f64, Status)> {
    let (block, depth) = SEQUENTIAL;
    let length = seconds + RAMP_SECONDS + TAIL_SECONDS;
    let job = Job { block, depth, ..Job::new(volume, "read", length) };
    live::throughput(document.plan(), job, (RAMP_SECONDS, seconds))
}

fn moved(document: &Document, seconds: u64) -> anyhow::Result<(Moving, Status)> {
    let length = COMMIT_SECONDS + seconds + RAMP_SECONDS + TAIL_SECONDS;
    let jobs = [Job::new(VICTIM, "randread", length), Job::new(NEIGHBOUR, "randread", length)];
    let live = Live::start(document.plan(), &jobs)?;
    let operator = live.operator(document.clone());
    operator.relocate(MOVED, None, Some(&["d2".to_owned()])).map_err(bad_input)?;
    live::pause(Duration::from_secs(RAMP_SECONDS));
    let before = relocated_bytes(&operator);
    let samples = live.watch(SAMPLE, Duration::from_secs(seconds));
    let after = relocated_bytes(&operator);
    operator.pause_relocation(true).map_err(bad_input)?;
    drop(operator);
    let end = live.end()?;
    let off = |share: f64| (share - SHARE).abs() * 100.0;
    let worst = |len: usize| shares(&samples, len).map(off).fold(0.0, f64::max);
    let missing = |share: f64| (SHARE - share) * 100.0;
    let most_missing = |len: usize| shares(&samples, len).map(missing).fold(0.0, f64::max);
    let share = shares(&samples, samples.len() - 1).next().unwrap_or_default();
    let to_the_end = after.is_some();
    let moved_bytes = after.unwrap_or_default().saturating_sub(before.unwrap_or_default());
    let worst_10s_error_points = worst(LONG_WINDOW);
    let worst_2s_missing_points = most_missing(SHORT_WINDOW);
    let moving = Moving {
        share,
        error_points: off(share),
        worst_10s_error_points,
        worst_2s_error_points: worst(SHORT_WINDOW),
        worst_10s_missing_points: most_missing(LONG_WINDOW),
        worst_2s_missing_points,
        moved_bytes,
        to_the_end,
        holds: to_the_end
            && moved_bytes > 0
            && off(share) <= SHARE_ERROR_MAX_POINTS
            && worst_10s_error_points <= SHARE_ERROR_MAX_POINTS
            && worst_2s_missing_points <= MISSING_IN_2S_MAX_POINTS,
    };
    Ok((moving, end))
}

/// The bytes relocated so far by the relocation in progress; `None` without one.
fn relocated_bytes(operator: &Operator) -> Option<u64> {
    let volumes = operator.pool()?.volumes;
    volumes.iter().find_map(|volume| Some(volume.moving.as_ref()?.moved.0))
}

/// The victim's share in each window of `len` sample intervals.
fn shares(samples: &[(Instant, Status)], len: usize) -> impl Iterator<Item = f64> + '_ {
    samples.windows(len + 1).map(move |window| {
        let ((from, first), (to, last)) = (&window[0], &window[len]);
        let charged =
            last.volumes[VICTIM].account.disk_time - first.volumes[VICTIM].account.disk_time;
        charged.as_secs_f64() / to.since(*from).as_secs_f64()
    })
}

fn print(shown: &Shown) {
    let held = |holds: bool| if holds { "holds" } else { "MISSED" }.to_owned();
    let Striped { one_bytes_per_s, stripe_bytes_per_s, ratio, holds } = &shown.stripe;
    let rows = [vec![
        "1 MiB, sequential".to_owned(),
        format!("{:.1} MB/s", one_bytes_per_s / 1e6),
        format!("{:.1} MB/s", stripe_bytes_per_s / 1e6),
        format!("{ratio:.3}"),
        held(*holds),
    ]];
    print!("{}", table::text(&["reads", "one disk", "stripe over 3", "ratio", ""], &rows));
    let moving = &shown.moving;
    let points = |points: f64| format!("{points:.2} points");
    let missing = format!(
        "{:.2}, {:.2} points",
        moving.worst_10s_missing_points, moving.worst_2s_missing_points
    );
    let rows = [vec![
        "random 4 KiB, 50 %".to_owned(),
        format!("{:.2} %", moving.share * 100.0),
        points(moving.error_points),
        points(moving.worst_10s_error_points),
        points(moving.worst_2s_error_points),
        missing,
        units::Bytes(moving.moved_bytes).to_string(),
        held(moving.holds),
    ]];
    let head = [
        "during relocation at 10 %",
        "share",
        "error",
        "worst 10 s",
        "worst 2 s",
        "missing",
        "moved",
        "",
    ];
    print!("\n{}", table::text(&head, &rows));
    let late = &shown.lateness_us;
    println!("\n{late}");
    if let Some(load) = shown.load_average {
        println!("load average: {load}");
    }
}
