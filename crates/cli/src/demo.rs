//! `spindle demo`: three volumes with reserves on an emulated disk, under load. The client of one
//! sends single requests with pauses.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use api::{Api, Bound, Server, Token};
use config::{Document, LoadedVolume, Plan, Requests, VolumeIndex, Workload};
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table, uri};
use daemon::{Daemon, Status};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use nbd::Address;
use serde::Serialize;
use sim::SeededRng;
use stats::{SCHEMA, VolumeReport, WorthReport};
use units::{Duration, Instant};

use crate::args;
use crate::lab::{self, Forwarded};
use loadgen::Load;

const PLAN: &str = include_str!("../../../examples/serve/demo.toml");
/// The most by which the share of a volume that always has requests may be below its reserve.
const SHARE_ERROR_MAX_POINTS: f64 = 2.0;
/// The bytes of the token of the demo's page.
const TOKEN_BYTES: usize = 16;
/// The length of the simulated references, of which a quarter is not measured.
const REFERENCE: Duration = Duration::from_secs(20);
/// RTAS 2008 samples every half second.
const SAMPLE: Duration = Duration::from_millis(500);
/// Without a terminal, progress is printed as lines: one for this number of samples.
const SAMPLES_A_LINE: usize = 10;

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    duration_s: f64,
    volumes: Vec<VolumeReport>,
    /// Of the volumes whose clients do not pause: what they do not use is slack to the others.
    worst_share_error_points: f64,
    bound_points: f64,
    /// The least worth of all volumes: told, not judged, since other programs on the machine make
    /// a live client late.
    worst_worth: f64,
    holds: bool,
    lateness_us: LatenessUs,
    files: Vec<PathBuf>,
}

/// `spindle demo --recorder` has moved to `spindle-lab recorder`. Returns only on failure.
pub(crate) fn exec_recorder(args: &args::Demo, json: bool) -> anyhow::Error {
    let mut words: Vec<OsString> = vec!["--seconds".into(), args.seconds.to_string().into()];
    if let Some(policy) = &args.policy {
        words.extend(["--policy".into(), policy.clone()]);
    }
    lab::exec("demo --recorder", "recorder", &Forwarded { words }, json)
}

pub(crate) fn run(args: &args::Demo, json: bool) -> anyhow::Result<ExitStatus> {
    let plan = Plan::parse(PLAN, "the demo's config", Path::new(".")).map_err(bad_input)?;
    std::fs::create_dir_all(&args.out)
        .map_err(|e| bad_input(format!("{}: {e}", args.out.display())))?;
    let dir = tempfile::tempdir().context("no place for the demo's socket")?;
    let address = Address::Unix(dir.path().join("nbd.sock"));
    let token = token(dir.path())?;
    let any_port = Address::Tcp(([127, 0, 0, 1], 0).into());
    let bind = || Bound::listen(&[any_port], Some(&token.1));
    let (daemon, bound) = Daemon::start_with(&plan, &[address], bind).map_err(bad_input)?;
    let address = daemon.addresses()[0].clone();
    let page = serve_page(&daemon, dir.path(), bound, &token.0)?;
    for volume in &plan.volumes {
        let uri = uri(&address, &volume.name);
        eprintln!("{}: {}, reserve {}: {uri}", volume.name, volume.size, volume.contract.reserve);
    }
    let mut loads = Vec::new();
    for (stream, workload) in (0..).zip(&plan.workloads) {
        let volume = workload.volume.single().expect("the demo has no pool");
        let export = &plan.volumes[volume.0].name;
        loads.push(Load::start(&address, export, workload, SeededRng::new(plan.seed, stream))?);
    }
    let samples = watch(&daemon, &plan, Duration::from_secs(args.seconds));
    loads.into_iter().try_for_each(Load::stop)?;
    page.stop();
    let status = daemon.stop().context("the sockets")?;
    let files = vec![write_csv(&plan, &samples, &args.out)?];
    let shown = judge(&plan, &samples, &status, files);
    if json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print(&shown);
    }
    Ok(shown.holds.into())
}

/// A new token, as text and as the API takes it.
fn token(directory: &Path) -> anyhow::Result<(String, Token)> {
    let mut random = [0; TOKEN_BYTES];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random))?;
    let text = format!("{:032x}", u128::from_ne_bytes(random));
    let path = directory.join("token");
    let options = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    options.and_then(|mut file| file.write_all(text.as_bytes())).context("the demo's token")?;
    let token = Token::read(&path).map_err(bad_input)?;
    Ok((text, token))
}

/// Serves the API and its page on a port of this machine, and says where.
fn serve_page(
    daemon: &Daemon,
    directory: &Path,
    bound: Bound,
    token: &str,
) -> anyhow::Result<Server> {
    let config = directory.join("demo.toml");
    std::fs::write(&config, PLAN).context("no place for the demo's config")?;
    let document = Document::read(&config).map_err(bad_input)?;
    for address in bound.addresses().context("the API's socket")? {
        eprintln!("page: http://{address}/ while it runs; its token is {token}");
    }
    Server::start(bound, Api::new(daemon.operator(document))).context("the API")
}

/// A volume's state at a time of the emulated disk.
type Sample = (Instant, Status);

/// Samples the volumes every [`SAMPLE`] for `length`, and shows their shares.
fn watch(daemon: &Daemon, plan: &Plan, length: Duration) -> Vec<Sample> {
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
    let mut samples: Vec<Sample> = Vec::new();
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

/// The demo samples by the clock: there is no event to wait for.
#[expect(clippy::disallowed_methods, reason = "a person watches; nothing else depends on it")]
fn pause(length: Duration) {
    std::thread::sleep(std::time::Duration::from_nanos(length.as_nanos()));
}

fn shares(first: Option<&Sample>, at: Instant, now: &Status) -> Vec<(f64, String)> {
    let Some((from, first)) = first.filter(|(from, _)| *from < at) else {
        return now.volumes.iter().map(|_| (0.0, "connected".to_owned())).collect();
    };
    let rows = now.volumes.iter().zip(&first.volumes).map(|(now, first)| {
        let report = now.report_since(Some(first), at.since(*from));
        let (share, reserve) = (report.disk_time_share, report.reserve);
        let line =
            format!("{:5.1} % of {:3.0} %  {:7.1} IOPS", share * 1e2, reserve * 1e2, report.iops);
        (share, line)
    });
    rows.collect()
}

/// Writes the disk time of each volume and what its reserve earns, sample by sample, as CSV;
/// `spindle-lab plot demo` draws it.
fn write_csv(plan: &Plan, samples: &[Sample], out: &Path) -> anyhow::Result<PathBuf> {
    let (from, first) = &samples[0];
    let had = plan.volumes.iter().map(|volume| format!("{}_s", volume.name));
    let reserved = plan.volumes.iter().map(|volume| format!("{}_reserved_s", volume.name));
    let columns: Vec<_> = std::iter::once("time_s".to_owned()).chain(had).chain(reserved).collect();
    let mut csv = columns.join(",");
    csv.push('\n');
    for (at, status) in samples {
        let time = at.since(*from).as_secs_f64();
        let had = status.volumes.iter().zip(&first.volumes).map(|(volume, first)| {
            (volume.account.disk_time - first.account.disk_time).as_secs_f64()
        });
        let reserved = plan.volumes.iter().map(|volume| time * volume.contract.reserve.as_f64());
        let cells: Vec<String> =
            std::iter::once(time).chain(had).chain(reserved).map(|cell| cell.to_string()).collect();
        csv += &(cells.join(",") + "\n");
    }
    let path = out.join("demo.csv");
    std::fs::write(&path, csv).with_context(|| format!("{}", path.display()))?;
    Ok(path)
}

fn judge(plan: &Plan, samples: &[Sample], end: &Status, files: Vec<PathBuf>) -> Shown {
    let ((from, first), (to, last)) = (&samples[0], &samples[samples.len() - 1]);
    let elapsed = to.since(*from);
    let volumes = last.volumes.iter().zip(&first.volumes);
    let mut volumes: Vec<VolumeReport> =
        volumes.map(|(last, first)| last.report_since(Some(first), elapsed)).collect();
    for (index, volume) in (0..).map(VolumeIndex).zip(&mut volumes) {
        volume.worth = worth_of(plan, index, volume);
    }
    let short = |(index, volume): (usize, &VolumeReport)| {
        let is_backlogged = !pauses(plan, VolumeIndex(index));
        is_backlogged.then_some((volume.reserve - volume.disk_time_share) * 100.0)
    };
    let worst = volumes.iter().enumerate().filter_map(short).fold(0.0, f64::max);
    let worths = volumes.iter().filter_map(|volume| Some(volume.worth?.value));
    let worst_worth = worths.fold(f64::INFINITY, f64::min);
    Shown {
        schema: SCHEMA,
        duration_s: elapsed.as_secs_f64(),
        volumes,
        worst_share_error_points: worst,
        bound_points: SHARE_ERROR_MAX_POINTS,
        worst_worth,
        holds: worst <= SHARE_ERROR_MAX_POINTS,
        lateness_us: LatenessUs::of(end),
        files,
    }
}

/// Whether the client of a volume pauses.
fn pauses(plan: &Plan, volume: VolumeIndex) -> bool {
    let own = |workload: &&Workload| workload.volume == LoadedVolume::Single(volume);
    plan.workloads.iter().filter(own).any(|workload| {
        let Requests::Synthetic(synthetic) = &workload.requests else { return false };
        synthetic.arrival.pauses()
    })
}

/// The worth of a volume's reserve: its live rate, divided by that of the same client alone on the
/// slowed drive, which is simulated.
fn worth_of(plan: &Plan, volume: VolumeIndex, live: &VolumeReport) -> Option<WorthReport> {
    let mut reference = sim::worth::alone(plan, volume, plan.volumes[volume.0].contract.reserve);
    reference.duration = Some(REFERENCE);
    let warm_up = sim::worth::default_warm_up(REFERENCE);
    let reference = sim::worth::measure(&reference, warm_up)[volume.0];
    let live = sim::worth::Measured { rate: live.iops, latency_ms: live.latency_ms };
    sim::worth::worth(&live, &reference)
}

fn print(shown: &Shown) {
    print!("{}", table::volumes(&shown.volumes));
    print!("\n{}\n", table::worths(&shown.volumes));
    println!(
        "worst share error: {:.2} points (at most {SHARE_ERROR_MAX_POINTS}): the shares {}; least \
         worth: {:.2}",
        shown.worst_share_error_points,
        if shown.holds { "held" } else { "DID NOT HOLD" },
        shown.worst_worth,
    );
    println!("{}", shown.lateness_us);
    for file in &shown.files {
        eprintln!("wrote {}", file.display());
    }
}
