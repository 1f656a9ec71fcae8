//! `spindle-lab bench profile`: a drive of the library emulated in real time behind an NBD socket,
//! profiled as a black box. Each measured figure is compared with the drive model.

mod truth;

use core::ops::ControlFlow;
use std::sync::Arc;

use anyhow::Context;
use config::Document;
use console::{ExitStatus, bad_input, eprintln, print, println, table, uri};
use daemon::Daemon;
use drive::{AnyModel, Model};
use drive_profile::findings::Findings;
use host::CpuLatencyRequest;
use nbd::Address;
use profile_targets::NbdTarget;
use profiler::{Bench, Budget, Progress, StopReason};
use serde::Serialize;
use sim::BenchTarget;
use stats::SCHEMA;
use units::Duration;

use self::truth::Row;
use super::live::load_average;
use crate::args;

/// The volume that covers the whole disk.
const VOLUME: &str = "all";

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    drive: String,
    quick: bool,
    seconds: f64,
    /// The load average over one minute, before and after.
    load_average: [Option<f64>; 2],
    figures: Vec<Row>,
    /// The notes of the profile.
    notes: Vec<String>,
    holds: bool,
}

pub(crate) fn profile(args: &args::LiveProfile, json: bool) -> anyhow::Result<ExitStatus> {
    let spec = drive_library::open(&args.drive).map_err(bad_input)?;
    let model = spec.check().map_err(bad_input)?;
    let AnyModel::Mechanical(model) = model else {
        let expected = format!("--drive: found `{}`, expected a drive with an arm", args.drive);
        return Err(bad_input(expected));
    };
    let before = load_average();
    let (findings, spent) = profiled(&args.drive, &model, args.quick)?;
    let figures = truth::rows(&findings, &model, &simulated(&model));
    let holds = figures.iter().all(|row| row.holds);
    let shown = Shown {
        schema: SCHEMA,
        drive: args.drive.clone(),
        quick: args.quick,
        seconds: spent.as_secs_f64(),
        load_average: [before, load_average()],
        figures,
        notes: findings.notes,
        holds,
    };
    if json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print(&shown);
    }
    Ok(holds.into())
}

/// Profiles the drive through a socket, writes included: the data on it is disposable.
fn profiled(drive: &str, model: &Model, quick: bool) -> anyhow::Result<(Findings, Duration)> {
    let dir = tempfile::tempdir().context("cannot create a directory for the socket")?;
    let path = dir.path().join("plan.toml");
    let size = model.capacity().bytes().0;
    let text = format!(
        "[[disk]]\nname = \"d0\"\ndrive = {drive:?}\n\n\
         [[volume]]\nname = \"{VOLUME}\"\ndisk = \"d0\"\nsize = \"{size}B\"\n"
    );
    std::fs::write(&path, text)?;
    let document = Document::read(&path).map_err(bad_input)?;
    let address = Address::Unix(dir.path().join("nbd.sock"));
    let daemon = Daemon::start(document.plan(), &[address]).map_err(bad_input)?;
    let uri = uri(&daemon.addresses()[0], VOLUME);
    let mut target = NbdTarget::open(&uri, true).map_err(|error| bad_input(error.to_string()))?;
    let _awake = CpuLatencyRequest::acquire_or_warn();
    let budget = if quick { Budget::QUICK } else { Budget::DEFAULT };
    let mut stage = None;
    let mut watcher = |progress: &Progress<'_>| {
        if stage != Some(progress.stage) {
            stage = Some(progress.stage);
            eprintln!("{}, after {:.0} s", progress.stage, progress.spent.as_secs_f64());
        }
        ControlFlow::Continue(())
    };
    let mut bench = Bench::new(&mut target, budget, Findings::default(), &mut watcher);
    let ended = profiler::measure(&mut bench);
    bench.drain();
    let spent = bench.spent();
    let mut findings = core::mem::take(&mut bench.findings);
    drop(bench);
    drop(target);
    daemon.stop().context("cannot stop the daemon")?;
    if let Err(reason @ (StopReason::OutOfTime | StopReason::Interrupted)) = ended {
        findings.add_note(reason.to_string());
    }
    Ok((findings, spent))
}

/// The profiler's findings on the simulated drive, without a socket between and with the correct
/// layout. They stand in for figures that no data sheet has, such as the range of good chunk
/// lengths.
fn simulated(model: &Arc<Model>) -> Findings {
    let mut target = BenchTarget::new(AnyModel::from(Arc::clone(model)), Duration::ZERO, 1);
    let mut watcher = |_: &Progress<'_>| ControlFlow::Continue(());
    let map = drive_library::profile::assumed(model);
    let mut bench = Bench::new(&mut target, Budget::DEFAULT, Findings::default(), &mut watcher);
    // A figure that this does not reach is missing and is not compared.
    let _ = profiler::dynamics::measure(&mut bench, &map);
    core::mem::take(&mut bench.findings)
}

fn print(shown: &Shown) {
    let row = |row: &Row| {
        let verdict = if row.holds { "" } else { "missed" };
        let cells = [&row.what, &row.found, &row.is, &row.off, &row.may_be_off];
        let mut cells: Vec<String> = cells.into_iter().cloned().collect();
        cells.push(verdict.to_owned());
        cells
    };
    let rows: Vec<_> = shown.figures.iter().map(row).collect();
    let head = [shown.drive.as_str(), "measured", "model", "error", "bound", ""];
    print!("{}", table::text(&head, &rows));
    for note in &shown.notes {
        println!("- {note}");
    }
    let load = |load: Option<f64>| load.map_or("unknown".to_owned(), |load| load.to_string());
    let [before, after] = shown.load_average;
    println!("in {:.0} s, load {} to {}", shown.seconds, load(before), load(after));
}
