//! `spindle drive ls` and `spindle drive show`: the data sheets of drive models.

use std::path::{Path, PathBuf};

use clap::Args;
use console::{ExitStatus, bad_input, print, println, table};
use drive::AnyModel;
use serde::Serialize;
use sim::datasheet::{Flash, Mechanical, Surface, Zone, zones};
use stats::SCHEMA;

use super::flash;
use crate::lab;

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// A name of the library, a drive file, or a DiskSim .parv or .diskspecs file.
    drive: String,
    /// Moved to `spindle-lab plot drive`.
    #[arg(long, value_name = "DIR", hide = true)]
    out: Option<PathBuf>,
}

/// The shape of `spindle drive ls --json`.
#[derive(Debug, Serialize)]
struct Listed {
    schema: u32,
    drives: Vec<AnySheet>,
}

/// The data sheet of a drive of either kind.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum AnySheet {
    Mechanical(Mechanical),
    Flash(Flash),
}

/// The shape of `spindle drive show --json` for a mechanical drive.
#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    #[serde(flatten)]
    sheet: Mechanical,
    zone_rates: Vec<Zone>,
    service_times: Surface,
    files: Vec<PathBuf>,
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn row(sheet: &Mechanical) -> Vec<String> {
    vec![
        sheet.name.clone(),
        format!("{:.2}", sheet.bytes as f64 / 1e9),
        format!("{:.0}", sheet.rpm),
        format!("{:.2}", sheet.seek_mean_ms),
        format!("{:.2}", sheet.random_read_4k_ms),
        format!("{:.1}", sheet.outer_bytes_per_s / 1e6),
        format!("{:.1}", sheet.inner_bytes_per_s / 1e6),
    ]
}

fn print(all: &[Mechanical]) {
    let head = ["drive", "GB", "rpm", "seek ms", "random 4 KiB ms", "outer MB/s", "inner MB/s"];
    print!("{}", table::text(&head, &all.iter().map(row).collect::<Vec<_>>()));
}

/// What each way past the write caches of drives costs.
fn print_durable(all: &[Mechanical]) {
    let head = ["drive", "past its write cache", "one ms", "32 ms", "16 MiB ms", "mean", ""];
    let rows = all.iter().flat_map(|sheet| {
        sheet.durable_writes.iter().flatten().map(|ways| {
            vec![
                sheet.name.clone(),
                ways.way.to_owned(),
                format!("{:.2}", ways.short_ms),
                format!("{:.1}", ways.batch_ms),
                format!("{:.1}", ways.long_ms),
                format!("{:.3}", ways.relative),
                (if ways.is_first { "auto" } else { "" }).to_owned(),
            ]
        })
    });
    print!("{}", table::text(&head, &rows.collect::<Vec<_>>()));
}

pub(crate) fn list(json: bool) -> anyhow::Result<ExitStatus> {
    let (mut mechanical, mut flash) = (Vec::new(), Vec::new());
    for name in drive_library::names() {
        match drive_library::open(name).map_err(bad_input)?.check().map_err(bad_input)? {
            AnyModel::Mechanical(model) => mechanical.push(Mechanical::of(name, &model)),
            AnyModel::Flash(model) => flash.push(Flash::of(name, &model)),
            AnyModel::Unknown(_) => unreachable!("a drive file describes a drive"),
        }
    }
    if json {
        let mechanical = mechanical.into_iter().map(AnySheet::Mechanical);
        let drives = mechanical.chain(flash.into_iter().map(AnySheet::Flash)).collect();
        println!("{}", serde_json::to_string(&Listed { schema: SCHEMA, drives })?);
    } else {
        print(&mechanical);
        println!();
        print_durable(&mechanical);
        println!();
        flash::print(&flash);
    }
    Ok(ExitStatus::Success)
}

pub(crate) fn show(args: &Show, json: bool) -> anyhow::Result<ExitStatus> {
    let stem = Path::new(&args.drive).file_stem().unwrap_or_default().to_string_lossy();
    let spec = drive_library::open(&args.drive).map_err(bad_input)?;
    let model = spec.check().map_err(bad_input)?;
    let files = match &args.out {
        Some(out) => lab::plots("drive", args.drive.as_ref(), out)?,
        None => Vec::new(),
    };
    let model = match model {
        AnyModel::Mechanical(model) => model,
        AnyModel::Flash(model) => return flash::show(&stem, &model, &files, json),
        AnyModel::Unknown(_) => unreachable!("a drive file describes a drive"),
    };
    let sheet = Mechanical::of(&stem, &model);
    if json {
        let (zone_rates, service_times) = (zones(&model), Surface::of(&model));
        let shown = Shown { schema: SCHEMA, sheet, zone_rates, service_times, files };
        println!("{}", serde_json::to_string(&shown)?);
        return Ok(ExitStatus::Success);
    }
    let sheet = [sheet];
    print(&sheet);
    println!();
    print_durable(&sheet);
    Ok(ExitStatus::Success)
}
