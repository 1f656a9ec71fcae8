//! `spindle sim`: virtual time.

use anyhow::Context;
use config::Plan;
use indicatif::{ProgressBar, ProgressStyle};
use sim::{Experiment, Outcome, World};
use units::{Duration, Instant};

use crate::args;
use crate::declared;
use crate::exit::{Ended, bad_input};
use crate::table;

const STEPS: u64 = 200;

/// A bar on standard error, and only if somebody is there to see it.
pub(crate) fn bar(message: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:24} {wide_bar} {percent:>3} %");
    let style = style.expect("the template is sound");
    ProgressBar::new(STEPS).with_style(style).with_message(message.to_owned())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a bar's position")]
#[expect(clippy::cast_precision_loss, reason = "a bar's position")]
pub(crate) fn set(bar: &ProgressBar, part: f64) {
    bar.set_position((part.clamp(0.0, 1.0) * STEPS as f64) as u64);
}

pub(crate) fn run(args: &args::Run, json: bool) -> anyhow::Result<Ended> {
    let mut plan = Plan::read(&args.scenario).and_then(Plan::for_sim).map_err(bad_input)?;
    if let Some(seed) = args.seed {
        plan.seed = seed;
    }
    declared::say(&plan);
    let length = plan.duration.expect("a checked scenario says how long");
    let bar = bar("simulating");
    let mut world = World::new(&plan);
    for step in 1..=STEPS {
        let end = Instant::ZERO + part(length, step);
        world.advance(end).map_err(|error| {
            bar.finish_and_clear();
            bad_input(error)
        })?;
        bar.set_position(step);
    }
    bar.finish_and_clear();
    let report = world.report();
    declared::warn(&report.volumes);
    if json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{}", table::volumes(&report.volumes));
        let oracles = report.oracles;
        for trace in &report.traces {
            let end = if trace.whole { "the whole of it" } else { "the run ended before it did" };
            eprintln!("{}: {} requests sent, {end}", trace.file, trace.sent);
        }
        eprintln!(
            "{length} of virtual time, seed {}; the oracles watched {} answers, {} reads of written data, \
             {} rests and {} promises",
            report.seed,
            oracles.answered,
            oracles.reads_checked,
            oracles.rests_checked,
            oracles.promises_checked,
        );
    }
    Ok(Ended::Held)
}

/// So many of the steps, exact at the last one.
fn part(length: Duration, step: u64) -> Duration {
    if step == STEPS { length } else { length / STEPS * step }
}

pub(crate) fn reproduce(args: &args::Reproduce, json: bool) -> anyhow::Result<Ended> {
    let experiments = choose(&args.ids)?;
    // Before anything is run: what is known to have no place need not be computed.
    std::fs::create_dir_all(&args.out)
        .map_err(|error| bad_input(format!("{}: {error}", args.out.display())))?;
    let mut outcomes = Vec::new();
    for experiment in experiments {
        let bar = bar(experiment.id);
        let outcome = experiment.run(&args.out, &mut |part| set(&bar, part));
        bar.finish_and_clear();
        let outcome = outcome.with_context(|| format!("{}", args.out.display()))?;
        if !json {
            print(&experiment, &outcome);
        }
        outcomes.push(outcome);
    }
    let held = outcomes.iter().all(Outcome::holds);
    if json {
        println!("{}", to_json(&outcomes)?);
    }
    Ok(held.into())
}

fn choose(ids: &[String]) -> anyhow::Result<Vec<Experiment>> {
    if ids.is_empty() {
        return Ok(Experiment::ALL.to_vec());
    }
    let find = |id: &String| {
        Experiment::find(id).ok_or_else(|| {
            let known: Vec<_> = Experiment::ALL.iter().map(|known| known.id).collect();
            bad_input(format!("no experiment `{id}`: expected one of {}", known.join(", ")))
        })
    };
    ids.iter().map(find).collect()
}

/// One object: the outcome itself for one experiment, or all of them in one.
fn to_json(outcomes: &[Outcome]) -> serde_json::Result<String> {
    if let [outcome] = outcomes {
        return serde_json::to_string(outcome);
    }
    serde_json::to_string(&serde_json::json!({ "schema": stats::SCHEMA, "experiments": outcomes }))
}

fn print(experiment: &Experiment, outcome: &Outcome) {
    println!("{}: {}", experiment.id, experiment.title);
    let rows: Vec<Vec<String>> = outcome
        .checks
        .iter()
        .map(|check| {
            vec![
                check.name.clone(),
                format!("{:.3}", check.ours),
                check.paper.map_or("-".into(), |paper| format!("{paper:.3}")),
                check
                    .bound
                    .map_or("-".into(), |bound| format!("{} {}", check.relation, shown(bound))),
                check.unit.into(),
                match (check.holds, &check.reason) {
                    (Some(true), _) => "holds",
                    (Some(false), Some(_)) => "explained",
                    (Some(false), None) => "MISSED",
                    (None, _) => check.relation,
                }
                .into(),
            ]
        })
        .collect();
    print!("{}", table::text(&["check", "ours", "paper", "bound", "unit", ""], &rows));
    for check in outcome.checks.iter().filter(|check| check.holds.is_none()) {
        if let Some(remark) = &check.reason {
            println!("{}: {remark}", check.name);
        }
    }
    let mut told = Vec::new();
    let explained = outcome.checks.iter().filter(|check| check.holds == Some(false));
    for reason in explained.filter_map(|check| check.reason.as_ref()) {
        if !told.contains(&reason) {
            println!("explained: {reason}");
            told.push(reason);
        }
    }
    for file in &outcome.files {
        eprintln!("wrote {file}");
    }
}

/// A bound: three digits behind the point at most, and none that say nothing.
fn shown(bound: f64) -> String {
    let text = format!("{bound:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
