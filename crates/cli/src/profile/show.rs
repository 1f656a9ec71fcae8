//! `spindle profile show`: a profile as tables.

use std::path::PathBuf;

use clap::Args;
use console::{ExitStatus, print, println, table};
use drive_library::profile::ProfileFile;
use drive_profile::findings::Figure;
use drive_profile::findings::{AccessPattern, Flash, LimitedQuantity, Rate};
use serde::Serialize;
use stats::SCHEMA;
use units::{Bytes, Duration};

use super::cells::{FIGURE, figure, section};
use super::file::read;
use super::mechanical;
use crate::lab;

#[derive(Debug, Args)]
pub(super) struct Show {
    /// The profile.
    profile: PathBuf,
    /// Moved to `spindle-lab plot profile`.
    #[arg(long, value_name = "DIR", hide = true)]
    plots: Option<PathBuf>,
}

/// A profile as JSON: its file's tables and keys.
#[derive(Debug, Serialize)]
pub(super) struct Json {
    profile: serde_json::Value,
}

impl Json {
    pub(super) fn of(measured: &ProfileFile) -> anyhow::Result<Self> {
        Ok(Self { profile: serde_json::to_value(measured.table())? })
    }
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    #[serde(flatten)]
    profile: Json,
    files: Vec<PathBuf>,
}

pub(super) fn run(args: &Show, json: bool) -> anyhow::Result<ExitStatus> {
    let measured = read(&args.profile)?;
    let files = match &args.plots {
        Some(directory) => lab::plots("profile", args.profile.as_ref(), directory)?,
        None => Vec::new(),
    };
    if json {
        let shown = Shown { schema: SCHEMA, profile: Json::of(&measured)?, files };
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print!("{}", tables(&measured));
    }
    Ok(ExitStatus::Success)
}

/// All tables of a profile.
pub(super) fn tables(measured: &ProfileFile) -> String {
    let device = &measured.device;
    let model = device.model.as_deref().map_or(String::new(), |model| format!(" ({model})"));
    let capacity = device.capacity.bytes();
    let mut text =
        format!("{}{model}: {capacity}, measured for {}", device.name, measured.run.time);
    let halted = measured.run.halted.iter().map(|halted| format!(", until {halted}"));
    let notes = measured.findings.notes.iter().map(|note| format!("\n- {note}"));
    text.extend(halted.chain(notes));
    text.push('\n');
    text += &mechanical::tables(measured);
    text += &flash(&measured.findings.flash);
    text += &processor(measured);
    text += &outliers(measured);
    text
}

fn flash(flash: &Flash) -> String {
    let mut rows = Vec::new();
    let mut row = |name: String, cells: Vec<String>| rows.push([vec![name], cells].concat());
    for limit in &flash.limits {
        let (what, shown): (_, fn(u64) -> String) = match limit.of {
            LimitedQuantity::Commands => ("commands", |count| count.to_string()),
            LimitedQuantity::Bytes => ("bytes", |bytes| Bytes(bytes).to_string()),
        };
        let cells = |of: &Figure<u64>| {
            let Figure { value, spread, samples, confidence } = *of;
            figure(&Figure { value: shown(value), spread: shown(spread), samples, confidence })
        };
        row(format!("{what} a second, at most"), cells(&limit.per_second));
        row(format!("{what} in a burst"), cells(&limit.burst));
    }
    if let Some(buffer) = &flash.write_buffer {
        let Figure { value, spread, samples, confidence } = *buffer;
        let (value, spread) = (value.bytes(), spread.bytes());
        row("write buffer".to_owned(), figure(&Figure { value, spread, samples, confidence }));
    }
    if let Some(beside) = &flash.reads_during_writes {
        row("random read, alone".to_owned(), figure(&beside.alone));
        row("random read, beside writes".to_owned(), figure(&beside.mean));
    }
    for flush in &flash.flushes {
        row(format!("flush after {} writes", flush.writes), figure(&flush.time));
    }
    let mut text = if rows.is_empty() { String::new() } else { table::text(&FIGURE, &rows) };
    text = section(&text);
    text + &section(&rates(&flash.rates))
}

/// Commands a second, and MB/s.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn pace(rate: &Rate) -> (f64, f64) {
    let per_second = 1e9 / rate.interval.value.as_nanos().max(1) as f64;
    (per_second, per_second * rate.len.bytes().0 as f64 / 1e6)
}

fn rates(rates: &[Rate]) -> String {
    if rates.is_empty() {
        return String::new();
    }
    let head = ["rates", "length", "depth", "IOPS", "MB/s", "mean", "p99", "max", "confidence"];
    let row = |rate: &Rate| {
        let access = match rate.access {
            AccessPattern::Random => "random",
            AccessPattern::Sequential => "sequential",
        };
        let (commands, megabytes) = pace(rate);
        vec![
            format!("{access} {}", rate.op),
            rate.len.bytes().to_string(),
            rate.depth.to_string(),
            format!("{commands:.0}"),
            format!("{megabytes:.1}"),
            rate.latency.value.to_string(),
            rate.latency_p99.to_string(),
            rate.latency_max.to_string(),
            rate.interval.confidence.to_string(),
        ]
    };
    table::text(&head, &rates.iter().map(row).collect::<Vec<_>>())
}

fn processor(measured: &ProfileFile) -> String {
    let all = &measured.run.processor;
    if all.is_empty() {
        return String::new();
    }
    let row = |one: &drive_library::profile::CpuCost| {
        let bytes = one.len.bytes();
        let per_byte = Duration::from_nanos(one.time.as_nanos() * 1_000_000 / bytes.0.max(1));
        vec![
            bytes.to_string(),
            one.time.to_string(),
            format!("{per_byte}"),
            one.samples.to_string(),
        ]
    };
    let head = ["processor, by length", "a command", "a MB", "samples"];
    section(&table::text(&head, &all.iter().map(row).collect::<Vec<_>>()))
}

fn outliers(measured: &ProfileFile) -> String {
    let found = &measured.findings;
    let count = found.outliers.len() as u64 + found.outliers_more;
    if count == 0 {
        return String::new();
    }
    let row = |outlier: &drive_profile::findings::Outlier| {
        let why = match outlier.reason {
            drive_profile::findings::OutlierReason::Failed => "failed",
            drive_profile::findings::OutlierReason::Late => "took much longer than its like",
            drive_profile::findings::OutlierReason::Remapped => "lies elsewhere",
        };
        vec![why.to_owned(), outlier.lba.0.to_string(), outlier.stage.to_string()]
    };
    let rows: Vec<_> = found.outliers.iter().take(OUTLIERS_SHOWN).map(row).collect();
    let more = count - rows.len() as u64;
    let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
    section(&(table::text(&["kept out of the figures", "sector", "while"], &rows) + &more))
}

/// Rows of the table; further rows are only counted.
const OUTLIERS_SHOWN: usize = 12;
