//! `write_buffer_memory`, `write_buffer`, `write_age` and `write_buffer_log`: the memory in which
//! the host holds what clients have written.

use std::path::Path;

use engine::limits::{
    WRITE_AGE, WRITE_AGE_MAX, WRITE_BUFFER, WRITE_BUFFER_MEMORY, WRITE_BUFFER_MEMORY_MAX,
};
use engine::{PolicyName, WriteBufferSettings};
use units::{Bytes, Sectors};

use crate::defaults;
use crate::limits::{WRITE_AGE_MIN, WRITE_BUFFER_PROCESS_MAX};
use crate::plan::{Backing, Disk, Volume, VolumeIndex, WriteBufferLog};
use input::{InputError, Table, size_text};

use super::path::path;

/// The buffer of a disk; `None`: writes go to the drive as they come, and it may keep them in its
/// own buffer. By default it is on where a drive's own buffer undoes contracts, under the policy
/// that keeps them. A disk that is written through the page cache has a buffer in the kernel.
pub(crate) fn of_disk(
    table: &Table<'_>,
    (policy, rotational): (PolicyName, bool),
    backing: &Backing,
) -> Result<Option<WriteBufferSettings>, InputError> {
    let is_cached = backing.capabilities().is_cached;
    let auto = (rotational && !is_cached).then_some(WRITE_BUFFER_MEMORY);
    let memory = memory(table, policy, auto)?;
    let Some(memory) = memory else {
        return match table.value("write_age") {
            Some(value) => Err(value.refuse("no such field, or a `write_buffer` of the disk")),
            None => Ok(None),
        };
    };
    let age = table.duration("write_age", WRITE_AGE_MIN..=WRITE_AGE_MAX, "", WRITE_AGE)?;
    Ok(Some(WriteBufferSettings { memory, age, ..WriteBufferSettings::default() }))
}

/// Divides the memory of the process among the disks: each that has no size of its own gets an
/// equal part of what the others leave, and at most [`WRITE_BUFFER_MEMORY`].
pub(crate) fn divide(
    top: &Table<'_>,
    tables: &[Table<'_>],
    disks: &mut [Disk],
) -> Result<(), InputError> {
    let all = match top.value("write_buffer_memory") {
        Some(value) => {
            let most = size_text(WRITE_BUFFER_PROCESS_MAX);
            let expected = format!("\"0\", or a size of at most {most}");
            let size = size(value.text(&expected)?);
            let size = size.filter(|size| size.bytes() <= WRITE_BUFFER_PROCESS_MAX);
            size.ok_or_else(|| value.refuse(expected))?
        }
        None => defaults::WRITE_BUFFER_PROCESS,
    };
    let mut rest = all;
    let mut unsized_disks = Vec::new();
    for (table, disk) in tables.iter().zip(disks) {
        let Some(buffer) = &mut disk.write_buffer else { continue };
        match table.value("write_buffer") {
            Some(value) if value.text("")? != "auto" => {
                let left = rest.0.checked_sub(buffer.memory.0);
                rest = Sectors(left.ok_or_else(|| {
                    let (left, all) = (size_text(rest.bytes()), size_text(all.bytes()));
                    value.refuse(format_args!(
                        "at most {left}: all disks together have `write_buffer_memory`, {all}"
                    ))
                })?);
            }
            _ => unsized_disks.push(buffer),
        }
    }
    let part = Sectors(rest.0 / (unsized_disks.len() as u64).max(1));
    for buffer in unsized_disks {
        buffer.memory = buffer.memory.min(part);
    }
    Ok(())
}

/// Where what is buffered is logged.
pub(crate) fn log(table: &Table<'_>, base_dir: &Path) -> Result<WriteBufferLog, InputError> {
    let Some(value) = table.value("write_buffer_log") else { return Ok(WriteBufferLog::Auto) };
    Ok(match value.text("\"auto\", \"off\", or the path of a directory")? {
        "auto" => WriteBufferLog::Auto,
        "off" => WriteBufferLog::Off,
        text => WriteBufferLog::Directory(path(&value, text, base_dir)?),
    })
}

fn memory(
    table: &Table<'_>,
    policy: PolicyName,
    auto: Option<Sectors>,
) -> Result<Option<Sectors>, InputError> {
    let Some(value) = table.value("write_buffer") else {
        return Ok(auto.filter(|_| policy.buffers_writes()));
    };
    let most = WRITE_BUFFER_MEMORY_MAX.bytes();
    let expected = format!("\"auto\", \"off\", \"0\", or a size of at most {}", size_text(most));
    let text = value.text(&expected)?;
    if text == "off" {
        return Ok(None);
    }
    if !policy.buffers_writes() {
        let policy = PolicyName::DEFAULT;
        return Err(value.refuse(format_args!("\"off\", or policy = \"{policy}\"")));
    }
    if text == "auto" {
        return Ok(auto);
    }
    let size = size(text).filter(|size| size.bytes() <= most);
    size.map(Some).ok_or_else(|| value.refuse(expected))
}

/// A size, or zero.
fn size(text: &str) -> Option<Sectors> {
    if text == "0" {
        return Some(Sectors::ZERO);
    }
    text.parse().ok().map(|size: Bytes| size.sectors_floor())
}

/// Why a volume that shares its sectors with another has no buffer: each would not see what the
/// other has written.
pub(crate) const SHARED: &str = "it shares its sectors with another volume";

/// The bound of a volume's buffer. `unbuffered` says why it has none, if so.
pub(crate) fn of_volume(
    table: &Table<'_>,
    disk: &Disk,
    unbuffered: Option<&str>,
) -> Result<Sectors, InputError> {
    let default = if unbuffered.is_some() { Sectors::ZERO } else { WRITE_BUFFER };
    let Some(value) = table.value("write_buffer") else { return Ok(default) };
    let most = WRITE_BUFFER_MEMORY_MAX.bytes();
    let expected = format!("\"0\", or a size of at most {}", size_text(most));
    let size = size(value.text(&expected)?).filter(|size| size.bytes() <= most);
    let size = size.ok_or_else(|| value.refuse(expected))?;
    if size > Sectors::ZERO && disk.write_buffer.is_none() {
        return Err(value
            .refuse(format_args!("no such field, or a `write_buffer` of disk \"{}\"", disk.name)));
    }
    if let Some(reason) = unbuffered.filter(|_| size > Sectors::ZERO) {
        return Err(value.refuse(format_args!("\"0\": {reason}")));
    }
    Ok(size)
}

/// The volume whose sectors another one shares has no buffer either.
pub(crate) fn shared(tables: &[Table<'_>], volumes: &mut [Volume]) -> Result<(), InputError> {
    let shared: Vec<VolumeIndex> = volumes.iter().filter_map(|volume| volume.same_as).collect();
    for VolumeIndex(index) in shared {
        if let Some(value) = tables[index].value("write_buffer")
            && volumes[index].write_buffer > Sectors::ZERO
        {
            return Err(value.refuse("\"0\": another volume shares its sectors"));
        }
        volumes[index].write_buffer = Sectors::ZERO;
    }
    Ok(())
}
