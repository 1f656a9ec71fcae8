//! The keys of a `[[disk]]` table about execution.

use engine::{Approach, Execution, FreePrefetch, Jit, Preemptible, SeekSplit};
use units::{Duration, Sectors};

use super::real;
use crate::plan::DriveRef;
use input::{InputError, Table, size_text};

/// The keys of preemptible execution only.
const PREEMPTIBLE: [&str; 6] =
    ["chunk", "jit_offset", "approach", "seek_split", "free_prefetch", "preempt_writes"];
/// The chunk of a drive without seeks: short beside its rate, long beside a command's overhead.
const CHUNK_FLASH: Sectors = Sectors(128);
const EXPECTED: &str = "\"whole\" or \"preemptible\"";

/// Checks the keys of a table about execution.
pub(crate) fn check(table: &Table<'_>, drive: &DriveRef) -> Result<Execution, InputError> {
    let preemptible = match table.value("execution") {
        None => false,
        Some(value) => match value.text(EXPECTED)? {
            "whole" => false,
            "preemptible" => true,
            _ => return Err(value.refuse(EXPECTED)),
        },
    };
    let (strange, cure): (&[&str], _) = if preemptible {
        (&["split"], "no such field, or execution = \"whole\"")
    } else {
        (&PREEMPTIBLE, "no such field, or execution = \"preemptible\"")
    };
    if let Some(value) = strange.iter().find_map(|key| table.value(key)) {
        return Err(value.refuse(cure));
    }
    if !preemptible {
        return Ok(Execution::Whole { split: piece(table, "split")? });
    }
    let Some(model) = drive.model.mechanical() else {
        let blind = real::is_unmeasured(&drive.model) && drive.model.rotational();
        return match table.value("execution").filter(|_| blind) {
            Some(value) => {
                Err(value.refuse(format_args!("\"whole\", or {}", real::HELP_MEASURE_PROFILE)))
            }
            None => flash(table),
        };
    };
    let default = Preemptible::default();
    let prefetches = table.value("free_prefetch").map_or(Ok(false), |value| value.boolean())?;
    let flag = |key, default| table.value(key).map_or(Ok(default), |value| value.boolean());
    Ok(Execution::Preemptible(Preemptible {
        chunk: chunk(table)?,
        jit: jit(table, model)?,
        seek_split: seek_split(table, model)?,
        // `read_ahead` says whether there is memory for it.
        free_prefetch: if prefetches { FreePrefetch::ToHost } else { FreePrefetch::Off },
        preempt_writes: flag("preempt_writes", default.preempt_writes)?,
    }))
}

/// A drive without seeks is preempted by chunks only.
fn flash(table: &Table<'_>) -> Result<Execution, InputError> {
    const ARM: [&str; 4] = ["jit_offset", "approach", "seek_split", "free_prefetch"];
    if let Some(value) = ARM.iter().find_map(|key| table.value(key)) {
        return Err(value.refuse("no such field: the drive has no arm"));
    }
    let chunk = Some(chunk(table)?.unwrap_or(CHUNK_FLASH));
    let preempt_writes = table.value("preempt_writes").map_or(Ok(true), |value| value.boolean())?;
    let (jit, seek_split, free_prefetch) = (None, None, FreePrefetch::Off);
    Ok(Execution::Preemptible(Preemptible {
        chunk,
        jit,
        seek_split,
        free_prefetch,
        preempt_writes,
    }))
}

/// The size of a command.
fn piece(table: &Table<'_>, key: &str) -> Result<Option<Sectors>, InputError> {
    let Some(value) = table.value(key) else { return Ok(None) };
    let size = value.size()?;
    let most = engine::limits::COMMAND_MAX;
    let sectors = size.sectors_exact().filter(|sectors| *sectors <= most);
    let most = size_text(most.bytes());
    sectors.map(Some).ok_or_else(|| value.refuse(format_args!("at most {most} (one command)")))
}

/// `chunk = "auto"`, the default, takes the chunk from the profile.
fn chunk(table: &Table<'_>) -> Result<Option<Sectors>, InputError> {
    match table.value("chunk") {
        Some(value) if value.text("a size or \"auto\"")? == "auto" => Ok(None),
        _ => piece(table, "chunk"),
    }
}

fn jit(table: &Table<'_>, drive: &drive::Model) -> Result<Option<Jit>, InputError> {
    let Some(default) = Preemptible::default().jit else { return Ok(None) };
    let offset = match table.value("jit_offset") {
        None => Some(default.offset),
        Some(value) if value.text("a time or \"off\"")? == "off" => None,
        Some(value) => Some(value.duration(Duration::ZERO..=engine::limits::JIT_OFFSET_MAX, "")?),
    };
    let expected = "\"ahead\", \"short-read\", \"transfer\" or \"in-time\"";
    let approach = match table.value("approach") {
        None => default.approach,
        Some(value) => match value.text(expected)? {
            "in-time" => Approach::InTime,
            "ahead" => Approach::Ahead,
            "short-read" if drive.spec().arm.seek_command => {
                return Err(value.refuse("\"ahead\": the drive has a seek command"));
            }
            "short-read" => Approach::ShortRead,
            "transfer" => Approach::Transfer,
            _ => return Err(value.refuse(expected)),
        },
    };
    Ok(offset.map(|offset| Jit { offset, approach }))
}

fn seek_split(table: &Table<'_>, drive: &drive::Model) -> Result<Option<SeekSplit>, InputError> {
    let expected = "\"hidden\", \"off\" or a number of cylinders";
    let Some(value) = table.value("seek_split") else {
        return Ok(Preemptible::default().seek_split);
    };
    if let Ok(text) = value.text(expected) {
        return match text {
            "hidden" => Ok(Some(SeekSplit::Hidden)),
            "off" => Ok(None),
            _ => Err(value.refuse(expected)),
        };
    }
    let most = drive.cylinders().into();
    let longest =
        value.integer(1..=most, " (the cylinders of the drive), \"hidden\" or \"off\"")?;
    let longest = u32::try_from(longest).expect("within its range");
    Ok(Some(SeekSplit::Always(longest)))
}
