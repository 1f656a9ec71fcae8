//! `spindle-lab validate`: a measured trace against a drive model.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use console::{ExitStatus, bad_input, eprintln, print, println, table};
use drive::Model;
use serde::Serialize;

use crate::validate::{Comparison, MeasuredTrace, Validation, validate};

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// A name of the library, a drive file, or a DiskSim .parv or .diskspecs file.
    drive: String,
    /// The trace: one request a line, with its measured time.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Where the figure of both distributions goes.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The drive that a name stands for.
fn open(name: &str) -> anyhow::Result<Arc<Model>> {
    let spec = drive_library::open_mechanical(name).map_err(bad_input)?;
    Ok(Arc::new(spec.check().map_err(bad_input)?))
}

#[derive(Debug, Serialize)]
struct Told<'a> {
    drive: &'a str,
    trace: PathBuf,
    #[serde(flatten)]
    validation: &'a Validation,
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: &Validate, json: bool) -> anyhow::Result<ExitStatus> {
    let model = open(&args.drive)?;
    let name = args.trace.display().to_string();
    let file = File::open(&args.trace).map_err(|error| bad_input(format!("{name}: {error}")))?;
    let trace = MeasuredTrace::read(BufReader::new(file), &name, model.capacity());
    let validation = validate(&model, &trace.map_err(bad_input)?);
    let mut files = Vec::new();
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out)
            .map_err(|error| bad_input(format!("{}: {error}", out.display())))?;
        let stem = args.trace.file_stem().unwrap_or_default().to_string_lossy();
        let path = out.join(format!("{stem}-validate.svg"));
        let caption =
            format!("{stem}: measured and modelled, demerit {:.3} ms", validation.all.demerit_ms);
        validation.plot(&caption).write(&path)?;
        files.push(path);
    }
    if json {
        let told =
            Told { drive: &args.drive, trace: args.trace.clone(), validation: &validation, files };
        println!("{}", serde_json::to_string(&told)?);
        return Ok(ExitStatus::Success);
    }
    print(&validation);
    for file in &files {
        eprintln!("wrote {}", file.display());
    }
    Ok(ExitStatus::Success)
}

fn print(validation: &Validation) {
    let head = ["requests", "count", "measured ms", "modelled ms", "demerit ms", "each r.m.s. ms"];
    let row = |name: &str, comparison: &Comparison| {
        vec![
            name.to_owned(),
            comparison.requests.to_string(),
            format!("{:.3}", comparison.measured_mean_ms),
            format!("{:.3}", comparison.modelled_mean_ms),
            format!("{:.3}", comparison.demerit_ms),
            format!("{:.3}", comparison.request_error_ms),
        ]
    };
    let mut rows = vec![row("all", &validation.all)];
    rows.extend(validation.reads.iter().map(|reads| row("reads", reads)));
    rows.extend(validation.writes.iter().map(|writes| row("writes", writes)));
    rows.extend(validation.classes.iter().map(|class| row(&class.name, &class.comparison)));
    print!("{}", table::text(&head, &rows));
}
