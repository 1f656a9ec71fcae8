//! `[[workload]]` tables with `access = "trace"`.
//!
//! The trace is opened and its first record is read, so that a wrong path, an unknown format or a
//! missing device is reported with the config. The rest is read during the replay: a trace may be
//! larger than memory.

use std::path::Path;

use trace::{FileReader, Format, Options, Scale};
use units::Bytes;

use super::path::path;

use crate::plan::{Remap, Replay};
use input::{InputError, Table};

/// Checks the table's keys about a trace.
pub(crate) fn check(table: &Table<'_>, size: Bytes, base_dir: &Path) -> Result<Replay, InputError> {
    const EXPECTED: &str = "the path of a trace";
    let file = table.require("file", EXPECTED)?;
    let path = path(&file, file.text(EXPECTED)?, base_dir)?;
    let remap = remap(table)?;
    let options = Options {
        format: format(table)?,
        device: device(table)?,
        capacity: match remap {
            Remap::Refuse => size.sectors_exact(),
            Remap::Modulo => None,
        },
        lenient: false,
    };
    let scale = table.value("scale");
    let scale = scale.map_or(Ok(Scale::ONE), |scale| scale.factor(Scale::EXPECTED))?;
    let first = FileReader::open(&path, options).and_then(|mut trace| trace.next().transpose());
    match first {
        Ok(Some(_)) => Ok(Replay { path, options, scale, remap }),
        Ok(None) => Err(file.refuse("a trace with a request to this device")),
        Err(error) => Err(file.refuse(format_args!("a trace that can be replayed ({error})"))),
    }
}

fn remap(table: &Table<'_>) -> Result<Remap, InputError> {
    const EXPECTED: &str = "\"refuse\" or \"modulo\"";
    let Some(value) = table.value("remap") else { return Ok(Remap::Refuse) };
    match value.text(EXPECTED)? {
        "refuse" => Ok(Remap::Refuse),
        "modulo" => Ok(Remap::Modulo),
        _ => Err(value.refuse(EXPECTED)),
    }
}

fn format(table: &Table<'_>) -> Result<Option<Format>, InputError> {
    let Some(value) = table.value("format") else { return Ok(None) };
    value.quantity(format_args!("one of the formats {}", Format::names())).map(Some)
}

fn device(table: &Table<'_>) -> Result<Option<u32>, InputError> {
    let Some(value) = table.value("device") else { return Ok(None) };
    let device = value.integer(0..=u32::MAX.into(), "")?;
    Ok(Some(u32::try_from(device).expect("within its range")))
}
