//! `spindle sim run`: a scenario in virtual time.

use config::{Plan, size_text};
use console::{ExitStatus, Progress, bad_input, eprintln, print, println, table};
use sim::{ChangeReport, PoolReport, Simulation};
use units::{Bytes, Duration, Instant};

use crate::args;
use crate::declared;

/// The parts into which a run is divided for its progress bar.
const STEPS: u32 = 200;

pub(crate) fn run(args: &args::Run, json: bool) -> anyhow::Result<ExitStatus> {
    let mut plan = Plan::read(&args.scenario).and_then(Plan::for_sim).map_err(bad_input)?;
    if let Some(seed) = args.seed {
        plan.seed = seed;
    }
    declared::say(&plan);
    let length = plan.duration.expect("a checked scenario says how long");
    let bar = Progress::new("simulating");
    let mut simulation = Simulation::new(&plan);
    for step in 1..=STEPS {
        let end = Instant::ZERO + part(length, step);
        simulation.advance(end).map_err(|error| {
            bar.finish();
            bad_input(error)
        })?;
        bar.set(f64::from(step) / f64::from(STEPS));
    }
    bar.finish();
    let mut report = simulation.report();
    if args.worth {
        let worths = sim::worth::worths(&plan, sim::worth::default_warm_up(length));
        for (volume, worth) in report.volumes.iter_mut().zip(worths) {
            volume.worth = worth;
        }
    }
    declared::warn(&report.volumes);
    if json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", table::volumes(&report.volumes));
        if let Some(pool) = &report.pool {
            print!("\n{}", table::volumes(&pool.parts));
            say_pool(pool);
        }
        let deadlines = table::deadlines(&report.volumes);
        if !deadlines.is_empty() {
            print!("\n{deadlines}");
        }
        if report.volumes.iter().any(|volume| volume.worth.is_some()) {
            print!("\n{}", table::worths(&report.volumes));
        } else if args.worth {
            eprintln!(
                "no volume has a reserve and only closed loops: there is no worth to measure"
            );
        }
        let oracles = report.oracles;
        for trace in &report.traces {
            let end = if trace.whole { "the whole of it" } else { "the run ended before it did" };
            eprintln!("{}: {} requests sent, {end}", trace.file, trace.sent);
        }
        eprintln!(
            "{length} of virtual time, seed {}; the oracles watched {} answers, {} reads of \
             written data, \
             {} rests and {} promises",
            report.seed,
            oracles.answered,
            oracles.reads_checked,
            oracles.rests_checked,
            oracles.promises_checked,
        );
    }
    Ok(ExitStatus::Success)
}

/// Reports on standard error what a pool did beside its volumes' requests.
fn say_pool(pool: &PoolReport) {
    for change in &pool.changes {
        let ChangeReport { volume, action, begun_s, ended_s, error } = change;
        let end = match (error, ended_s) {
            (Some(error), _) => format!("refused: {error}"),
            (None, Some(ended)) => format!("{:.1} ms later", (ended - begun_s) * 1e3),
            (None, None) => "not ended".to_owned(),
        };
        eprintln!("{volume}: {action} at {begun_s} s: {end}");
    }
    let PoolReport { relocated_bytes, relocated_s, misplaced_bytes, .. } = pool;
    if let Some(at) = relocated_s {
        let (moved, left) =
            (size_text(Bytes(*relocated_bytes)), size_text(Bytes(*misplaced_bytes)));
        eprintln!("relocation: {moved} moved, the last at {at:.1} s; {left} left");
    }
}

/// The end of step `step`; that of the last one is exactly `length`.
fn part(length: Duration, step: u32) -> Duration {
    if step == STEPS { length } else { length / u64::from(STEPS) * u64::from(step) }
}
