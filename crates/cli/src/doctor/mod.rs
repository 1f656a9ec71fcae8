//! `spindle doctor`: looks at what costs speed or puts guarantees at risk on this machine, and says
//! what to do about it. It changes nothing.

mod inspect;
mod rules;

use std::path::PathBuf;

use clap::Args;
use console::{ExitStatus, print, println, table};
use host::Machine;
use serde::Serialize;
use stats::SCHEMA;

use rules::{Finding, Level};

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The config whose disks to look at; without one, the machine alone.
    config: Option<PathBuf>,
    /// Say what is as it should be, too.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    /// Whether nothing is a problem.
    ok: bool,
    findings: Vec<Finding>,
}

pub(crate) fn run(doctor: &Doctor, json: bool) -> anyhow::Result<ExitStatus> {
    let machine = Machine::default();
    let plan = doctor.config.as_deref().map(crate::check::plan).transpose()?;
    let mut findings = inspect::machine(&machine, plan.as_ref());
    if let (Some(plan), Some(path)) = (&plan, &doctor.config) {
        findings.extend(inspect::disks(&machine, plan, path));
    }
    let ok = findings.iter().all(|finding| finding.level < Level::Problem);
    if json {
        println!("{}", serde_json::to_string(&Shown { schema: SCHEMA, ok, findings })?);
    } else {
        findings.retain(|finding| doctor.all || finding.level > Level::Ok);
        if findings.is_empty() {
            println!("nothing to mend");
        } else {
            print!("{}", text(&findings));
        }
    }
    Ok(ok.into())
}

fn text(findings: &[Finding]) -> String {
    let level = |level| match level {
        Level::Ok => "ok",
        Level::Advice => "advice",
        Level::Problem => "problem",
    };
    let row = |finding: &Finding| {
        let Finding { subject, found, remedy, .. } = finding.clone();
        vec![level(finding.level).to_owned(), subject, finding.topic.to_owned(), found, remedy]
    };
    table::text(
        &["level", "of", "topic", "found", "what to do"],
        &findings.iter().map(row).collect::<Vec<_>>(),
    )
}
