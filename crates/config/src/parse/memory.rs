//! `drive = "memory"` and `drive = "null"`: disks without service times, to measure everything
//! else.

use drive::{AnyModel, Unmeasured};

use crate::limits::{DEPTH_MAX, DISK_SIZE_MIN, MEMORY_SIZE_MAX};
use crate::plan::{Backing, DriveRef};
use input::{InputError, Table, size_text};

const KEY: &str = "size";

/// The disk, if the table names one of the two.
pub(crate) fn check(table: &Table<'_>) -> Result<Option<(DriveRef, Backing)>, InputError> {
    let named = table.value("drive").and_then(|value| value.text("").ok());
    let (name, backing) = match named {
        Some(name @ "memory") => (name, Backing::Memory),
        Some(name @ "null") => (name, Backing::Null),
        _ => return Ok(None),
    };
    for key in ["backing", "bus", "profile", "slowed"] {
        if let Some(other) = table.value(key) {
            return Err(other.refuse(format_args!("no such field beside drive = \"{name}\"")));
        }
    }
    let (least, most) = (size_text(DISK_SIZE_MIN), size_text(MEMORY_SIZE_MAX));
    let expected = format!("a size from {least} to {most}");
    let value = table.require(KEY, &expected)?;
    let capacity = value.size()?;
    if !(DISK_SIZE_MIN..=MEMORY_SIZE_MAX).contains(&capacity) {
        return Err(value.refuse(expected));
    }
    let model = AnyModel::Unknown(Unmeasured {
        capacity: capacity.sectors_floor(),
        rotational: false,
        queue_depth_max: DEPTH_MAX,
    });
    Ok(Some((DriveRef { name: name.to_owned(), model }, backing)))
}

/// Rejects the size of a disk whose drive has one of its own.
pub(crate) fn sized(table: &Table<'_>) -> Result<(), InputError> {
    let expected = "no such field, or drive = \"memory\" or \"null\"";
    table.value(KEY).map_or(Ok(()), |value| Err(value.refuse(expected)))
}
