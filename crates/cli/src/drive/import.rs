//! `spindle drive import`: a drive file from other formats.

use std::path::{Path, PathBuf};

use clap::Args;
use console::{ExitStatus, bad_input, eprintln, print, println};
use drive::AnySpec;
use serde::Serialize;
use stats::SCHEMA;

const DEPTH_MAX: i64 = drive::QUEUE_DEPTH_MAX as i64;

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The .parv or .diskspecs file. The files that it names are expected beside it.
    #[arg(required_unless_present = "profile")]
    file: Option<PathBuf>,
    /// A profile, as `spindle profile` writes it. The result can be simulated and emulated.
    #[arg(long, value_name = "PROFILE.toml", conflicts_with = "file")]
    profile: Option<PathBuf>,
    /// The drive file to write, instead of standard output.
    #[arg(short, long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
    /// Give the drive a queue of N commands, served in order of shortest positioning time first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=DEPTH_MAX))]
    queue: Option<u32>,
}

/// The imported drive, in the shape of `--json`.
#[derive(Debug, Serialize)]
struct Imported {
    schema: u32,
    sectors: u64,
    /// Only of a mechanical drive, as are its zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    cylinders: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zones: Option<usize>,
    /// The drive file, if it was not written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    toml: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

/// The drive, and the file that it comes from.
fn imported(args: &Import) -> anyhow::Result<(AnySpec, &Path)> {
    if let Some(path) = &args.profile {
        let measured = drive_library::profile::ProfileFile::read(path).map_err(bad_input)?;
        let spec = measured.spec();
        let spec = spec.map_err(|lacks| bad_input(format!("{}: {lacks}", path.display())))?;
        return Ok((spec, path));
    }
    let path = args.file.as_deref().expect("one of the two is required");
    let imported = drive_library::disksim::import(path).map_err(bad_input)?;
    for warning in &imported.warnings {
        eprintln!("warning: {warning}");
    }
    Ok((AnySpec::Mechanical(Box::new(imported.spec)), path))
}

pub(super) fn run(args: &Import, json: bool) -> anyhow::Result<ExitStatus> {
    let (mut spec, from) = imported(args)?;
    if let (Some(depth), AnySpec::Mechanical(mechanical)) = (args.queue, &mut spec) {
        **mechanical =
            drive_library::disksim::with_shortest_positioning((**mechanical).clone(), depth);
    }
    let text = match &spec {
        AnySpec::Mechanical(spec) => drive_library::to_toml(spec),
        AnySpec::Flash(spec) => drive_library::flash_to_toml(spec),
    };
    let name = from.file_name().unwrap_or_default().to_string_lossy();
    let text = format!("# Imported from {name}.\n\n{text}");
    let model = spec.check().map_err(|error| bad_input(format!("{}: {error}", from.display())))?;
    if let Some(out) = &args.out {
        let failed = |error| bad_input(format!("{}: {error}", out.display()));
        std::fs::write(out, &text).map_err(failed)?;
    }
    if json {
        let imported = Imported {
            schema: SCHEMA,
            sectors: model.capacity().0,
            cylinders: model.mechanical().map(|model| model.cylinders()),
            zones: model.mechanical().map(|model| model.zones().len()),
            toml: args.out.is_none().then_some(text),
            file: args.out.clone(),
        };
        println!("{}", serde_json::to_string(&imported)?);
    } else if let Some(out) = &args.out {
        eprintln!("wrote {}", out.display());
    } else {
        print!("{text}");
    }
    Ok(ExitStatus::Success)
}
