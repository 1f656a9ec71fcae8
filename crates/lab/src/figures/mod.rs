//! `spindle-lab plot`: figures as SVG.

mod demo;
mod drive;
mod profile;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use console::{ExitStatus, bad_input, eprintln, println};
use serde::Serialize;
use stats::SCHEMA;

#[derive(Debug, Subcommand)]
pub(crate) enum Plot {
    /// A drive model: its seek curve, the rates of its zones, its service times.
    Drive(DrivePlot),
    /// A measured profile: each of its figures.
    Profile(ProfilePlot),
    /// The disk time of the demo's volumes, from its CSV file.
    Demo(DemoPlot),
}

#[derive(Debug, Args)]
pub(crate) struct DrivePlot {
    /// A name of the library, a drive file, or a DiskSim .parv or .diskspecs file.
    drive: String,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct ProfilePlot {
    /// The profile.
    profile: PathBuf,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct DemoPlot {
    /// The file that `spindle demo` wrote.
    #[arg(default_value = "out/demo.csv")]
    csv: PathBuf,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Output {
    /// The directory for the figures.
    #[arg(long, default_value = "out", value_name = "DIR")]
    out: PathBuf,
}

/// The files written, in the shape of `--json`.
#[derive(Debug, Serialize)]
struct Drawn {
    schema: u32,
    files: Vec<PathBuf>,
}

pub(crate) fn run(plot: &Plot, json: bool) -> anyhow::Result<ExitStatus> {
    let (Plot::Drive(DrivePlot { output: Output { out }, .. })
    | Plot::Profile(ProfilePlot { output: Output { out }, .. })
    | Plot::Demo(DemoPlot { output: Output { out }, .. })) = plot;
    std::fs::create_dir_all(out)
        .map_err(|error| bad_input(format!("{}: {error}", out.display())))?;
    let files = match plot {
        Plot::Drive(DrivePlot { drive, .. }) => drive::write(drive, out)?,
        Plot::Profile(ProfilePlot { profile, .. }) => profile::write(profile, out)?,
        Plot::Demo(DemoPlot { csv, .. }) => vec![demo::write(csv, out)?],
    };
    for file in &files {
        eprintln!("wrote {}", file.display());
    }
    if json {
        println!("{}", serde_json::to_string(&Drawn { schema: SCHEMA, files })?);
    }
    Ok(ExitStatus::Success)
}
