//! `spindle profile DEVICE`: measures within a time budget, and keeps its findings when it is
//! interrupted.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use console::{ExitStatus, bad_input, eprintln, print, println};
use drive_library::profile::{MeasurementRun, ProfileFile};
use drive_profile::findings::Findings;
use host::CpuLatencyRequest;
use indicatif::{ProgressBar, ProgressStyle};
use profiler::{Bench, Budget, Progress, StopReason};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use stats::SCHEMA;
use units::{Duration, Share};

use super::args::Measure;
use super::device::Open;
use super::file::{self, read};
use super::show;

/// The shortest budget: a shorter one measures nothing.
const BUDGET_MIN: Duration = Duration::from_secs(1);
/// The longest budget.
const BUDGET_MAX: Duration = Duration::from_secs(86_400);
/// A quick profile takes less than a minute, with opening and writing.
const BUDGET_QUICK: Duration = Duration::from_secs(55);

/// The profile, in the shape of `--json`.
#[derive(Debug, Serialize)]
struct MeasuredShown {
    schema: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    #[serde(flatten)]
    profile: show::Json,
}

fn budget(args: &Measure) -> anyhow::Result<Budget> {
    let default = if args.quick { BUDGET_QUICK } else { Budget::DEFAULT.total };
    let total = args.budget.unwrap_or(default);
    if !(BUDGET_MIN..=BUDGET_MAX).contains(&total) {
        let found = args.budget.unwrap_or_default();
        let expected = format!("--budget: found `{found}`, expected a time from 1s to 24h");
        return Err(bad_input(expected));
    }
    Ok(Budget { total, quick: args.quick })
}

/// The profile to continue, and the file to write.
fn before(args: &Measure) -> anyhow::Result<(Option<ProfileFile>, Option<&Path>)> {
    if let Some(path) = &args.resume {
        return Ok((Some(read(path)?), Some(path)));
    }
    let Some(path) = args.output.as_deref() else { return Ok((None, None)) };
    let there = path.exists() && !args.fresh;
    Ok((if there { Some(read(path)?) } else { None }, Some(path)))
}

/// The findings of an earlier profile of the same device. Those of a quick profile do not replace a
/// complete one.
fn earlier_findings(
    before: Option<ProfileFile>,
    now: &drive_library::profile::MeasuredDevice,
    path: Option<&Path>,
    args: &Measure,
) -> anyhow::Result<(Findings, MeasurementRun)> {
    let Some(before) = before else { return Ok((Findings::default(), MeasurementRun::default())) };
    let same = |of: &drive_library::profile::MeasuredDevice| {
        (of.name.clone(), of.model.clone(), of.capacity, of.block)
    };
    if same(&before.device) != same(now) {
        let path = path.unwrap_or(Path::new("")).display();
        let (found, expected) = (&before.device.name, &now.name);
        let expected =
            format!("{path}: is a profile of {found}, expected one of {expected}, or --fresh");
        return Err(bad_input(expected));
    }
    let ProfileFile { device, run, mut findings } = before;
    // A profile without writes is incomplete for a device that may be written.
    if (run.quick && !args.quick) || (now.written && !device.written) {
        findings.done.clear();
    }
    let doubted = findings.uncertain_stages(args.at_least.unwrap_or(Share::NONE));
    findings.done.retain(|stage| !doubted.contains(stage));
    Ok((findings, run))
}

pub(super) fn run(args: &Measure, json: bool) -> anyhow::Result<ExitStatus> {
    let budget = budget(args)?;
    let (before, path) = before(args)?;
    if let Some(path) = path {
        file::is_writable(path)
            .map_err(|error| bad_input(format!("{}: {error}", path.display())))?;
    }
    let (mut open, name) = Open::new(args)?;
    let device = open.device(name);
    let (mut findings, earlier) = earlier_findings(before, &device, path, args)?;
    if let Some(warning) = open.warning(args.buffered) {
        findings.add_note(warning.to_owned());
    }
    let (findings, spent, ended) = measured(&mut open, budget, findings)?;
    let run = MeasurementRun {
        time: earlier.time + spent,
        quick: args.quick,
        halted: ended.err().map(|reason| reason.to_string()),
        overhead: open.overhead(),
        processor: open.processor(),
    };
    let measured = ProfileFile { device, run, findings };
    let text = measured.to_toml();
    if let Some(path) = path {
        file::replace(path, &text).with_context(|| path.display().to_string())?;
        eprintln!("wrote {}", path.display());
    }
    if let Some(halted) = &measured.run.halted {
        eprintln!("not everything was measured: {halted}");
    }
    if json {
        let file = path.map(Path::to_owned);
        let shown = MeasuredShown { schema: SCHEMA, file, profile: show::Json::of(&measured)? };
        println!("{}", serde_json::to_string(&shown)?);
    } else if path.is_some() {
        print!("{}", show::tables(&measured));
    } else {
        print!("{text}");
    }
    Ok(ExitStatus::from(ended != Err(StopReason::Interrupted)))
}

/// Measures until all stages are done, the budget is spent, or a signal stops it.
fn measured(
    open: &mut Open,
    budget: Budget,
    findings: Findings,
) -> anyhow::Result<(Findings, Duration, Result<(), StopReason>)> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // A second signal ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("cannot listen to signals")?;
    }
    let _awake = open.is_live().then(CpuLatencyRequest::acquire_or_warn);
    let style = ProgressStyle::with_template("{msg:14} {wide_bar} {prefix} left at most");
    let bar = ProgressBar::new(budget.total.as_nanos() / 1_000_000);
    bar.set_style(style.expect("the template is sound"));
    let (mut shown, mut stage) = (u64::MAX, None);
    let mut reported = findings.notes.len();
    let mut watcher = |progress: &Progress<'_>| {
        let Progress { stage: now, spent, left, notes } = *progress;
        // The kind of the device is known long before all of its figures are.
        for note in notes.iter().skip(reported) {
            bar.suspend(|| eprintln!("{note}"));
        }
        reported = notes.len();
        // One update for each tenth of a second of device time: simulated devices are fast.
        let tenth = spent.as_nanos() / 100_000_000;
        if tenth != shown || stage != Some(now) {
            (shown, stage) = (tenth, Some(now));
            bar.set_message(now.name());
            bar.set_position(spent.as_nanos() / 1_000_000);
            bar.set_prefix(format!("{}s", left.as_nanos().div_ceil(1_000_000_000)));
        }
        if stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let mut bench = Bench::new(open.target(), budget, findings, &mut watcher);
    let ended = profiler::measure(&mut bench);
    bench.drain();
    let spent = bench.spent();
    let findings = core::mem::take(&mut bench.findings);
    drop(bench);
    bar.finish_and_clear();
    Ok((findings, spent, ended))
}
