//! `spindle-lab reproduce`: the published experiments.

use anyhow::Context;
use console::{ExitStatus, Progress, bad_input, eprintln, print, println, table};
use engine::PolicyName;
use serde::Serialize;

use crate::args;
use crate::experiments::{self, Experiment, Options, Outcome, Verdict};

pub(crate) fn run(args: &args::Reproduce, json: bool) -> anyhow::Result<ExitStatus> {
    let experiments = choose(&args.ids)?;
    let options = Options { policy: args.policy, sample: args.sample };
    if let Some(policy) = args.policy {
        check_policy(policy, &experiments)?;
    }
    // Before the run, so that a directory that cannot be created costs no computation.
    std::fs::create_dir_all(&args.out)
        .map_err(|error| bad_input(format!("{}: {error}", args.out.display())))?;
    let mut outcomes = Vec::new();
    for experiment in experiments {
        let bar = Progress::new(experiment.id);
        let outcome = experiments::run(&experiment, options, &args.out, &mut |part| bar.set(part));
        bar.finish();
        let outcome = outcome.with_context(|| format!("{}", args.out.display()))?;
        if !json {
            print(&experiment, &outcome);
        }
        outcomes.push(outcome);
    }
    let count = |verdict| outcomes.iter().map(|outcome| outcome.count(verdict)).sum();
    let checks = Counts {
        held: count(Verdict::Held),
        missed: count(Verdict::Missed),
        known: count(Verdict::Known),
    };
    if json {
        println!("{}", to_json(&outcomes, checks)?);
    } else {
        let Counts { held, missed, known } = checks;
        println!("checks: {held} held, {missed} missed, {known} known to be missed");
    }
    Ok((checks.missed == 0).into())
}

fn choose(ids: &[String]) -> anyhow::Result<Vec<Experiment>> {
    if ids.is_empty() {
        return Ok(experiments::ALL.to_vec());
    }
    let find = |id: &String| {
        experiments::find(id).ok_or_else(|| {
            let known: Vec<_> = experiments::ALL.iter().map(|known| known.id).collect();
            bad_input(format!("no experiment `{id}`: expected one of {}", known.join(", ")))
        })
    };
    ids.iter().map(find).collect()
}

/// Rejects a policy beside experiments of which none takes one.
fn check_policy(policy: PolicyName, chosen: &[Experiment]) -> anyhow::Result<()> {
    if !chosen.iter().any(experiments::is_optional) {
        let expected = "no --policy, or worth-grid among the experiments";
        return Err(bad_input(format!("--policy {policy}: expected {expected}")));
    }
    experiments::check_policy(policy)
        .map_err(|error| bad_input(format!("--policy {policy}: {error}")))
}

/// The checks of a run, by their verdict.
#[derive(Clone, Copy, Debug, Serialize)]
struct Counts {
    held: usize,
    missed: usize,
    known: usize,
}

/// One JSON object: the outcome of a single experiment, or an object with all outcomes.
fn to_json(outcomes: &[Outcome], checks: Counts) -> serde_json::Result<String> {
    if let [outcome] = outcomes {
        return serde_json::to_string(outcome);
    }
    let all =
        serde_json::json!({ "schema": stats::SCHEMA, "checks": checks, "experiments": outcomes });
    serde_json::to_string(&all)
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
                match check.verdict {
                    Verdict::Held => "held",
                    Verdict::Missed => "MISSED",
                    Verdict::Known => "known",
                    Verdict::Told => check.relation,
                }
                .into(),
            ]
        })
        .collect();
    print!("{}", table::text(&["check", "ours", "paper", "bound", "unit", ""], &rows));
    for check in &outcome.checks {
        let word = match check.verdict {
            Verdict::Held | Verdict::Told => "",
            Verdict::Missed => "MISSED: ",
            Verdict::Known => "known: ",
        };
        if let Some(remark) = &check.reason {
            println!("{}: {word}{remark}", check.name);
        }
    }
    for file in &outcome.files {
        eprintln!("wrote {file}");
    }
}

/// A bound with at most three decimals, without trailing zeros.
fn shown(bound: f64) -> String {
    let text = format!("{bound:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
