//! `spindle drive ls` and `spindle drive show` of flash drives.

use std::path::PathBuf;
use std::sync::Arc;

use console::{ExitStatus, print, println, table};
use drive::FlashModel;
use serde::Serialize;
use sim::datasheet::{Depth, Flash, depths};

/// The shape of `spindle drive show --json`.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    schema: u32,
    #[serde(flatten)]
    sheet: &'a Flash,
    depths: &'a [Depth],
    files: &'a [PathBuf],
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn row(sheet: &Flash) -> Vec<String> {
    vec![
        sheet.name.clone(),
        format!("{:.2}", sheet.bytes as f64 / 1e9),
        sheet.dies.to_string(),
        format!("{:.1}", sheet.random_read_4k_ms * 1e3),
        format!("{:.0}", sheet.random_read_4k_iops),
        format!("{:.1}", sheet.random_write_4k_ms * 1e3),
        format!("{:.0}", sheet.random_write_4k_iops),
        format!("{:.0}", sheet.read_bytes_per_s / 1e6),
        format!("{:.0}", sheet.write_bytes_per_s / 1e6),
        format!("{:.1}", sheet.flush_ms * 1e3),
    ]
}

pub(super) fn print(all: &[Flash]) {
    let head = [
        "flash drive",
        "GB",
        "dies",
        "read us",
        "reads/s",
        "write us",
        "writes/s",
        "read MB/s",
        "write MB/s",
        "flush us",
    ];
    print!("{}", table::text(&head, &all.iter().map(row).collect::<Vec<_>>()));
}

fn print_depths(depths: &[Depth]) {
    let head = [
        "depth",
        "reads/s",
        "mean us",
        "p99 us",
        "reads/s beside writes",
        "mean us",
        "p99 us",
        "writes/s alone",
        "mean us",
        "p99 us",
    ];
    let row = |at: &Depth| {
        let us = |ms: f64| format!("{:.1}", ms * 1e3);
        let count = |rate: f64| format!("{rate:.0}");
        vec![
            at.depth.to_string(),
            count(at.read_iops),
            us(at.read_mean_ms),
            us(at.read_p99_ms),
            count(at.beside_writes_read_iops),
            us(at.beside_writes_read_mean_ms),
            us(at.beside_writes_read_p99_ms),
            count(at.write_iops),
            us(at.write_mean_ms),
            us(at.write_p99_ms),
        ]
    };
    println!();
    print!("{}", table::text(&head, &depths.iter().map(row).collect::<Vec<_>>()));
}

pub(super) fn show(
    name: &str,
    model: &Arc<FlashModel>,
    files: &[PathBuf],
    json: bool,
) -> anyhow::Result<ExitStatus> {
    let sheet = Flash::of(name, model);
    let depths = depths(model);
    if json {
        let shown = Shown { schema: stats::SCHEMA, sheet: &sheet, depths: &depths, files };
        println!("{}", serde_json::to_string(&shown)?);
        return Ok(ExitStatus::Success);
    }
    print(&[sheet]);
    print_depths(&depths);
    Ok(ExitStatus::Success)
}
