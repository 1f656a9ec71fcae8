//! `write_cache`: what is done about the write cache of a disk's drive.

use drive::AnyModel;
use input::{InputError, Table};

use crate::plan::{Disk, WriteCache};

/// The disk with what its table says of the write cache of its drive.
pub(super) fn checked(table: &Table<'_>, disk: Disk) -> Result<Disk, InputError> {
    Ok(Disk { write_cache: check(table, &disk)?, ..disk })
}

fn check(table: &Table<'_>, disk: &Disk) -> Result<WriteCache, InputError> {
    let Some(value) = table.value("write_cache") else { return Ok(WriteCache::Auto) };
    let is_mechanical = matches!(disk.drive.model, AnyModel::Mechanical(_));
    if !is_mechanical && !disk.backing.capabilities().is_real {
        return Err(value.refuse("no such field, or a `drive` that rotates, or a `path`"));
    }
    let expected = "\"auto\", \"forced\", \"off\" or \"flushed\"";
    Ok(match value.text(expected)? {
        "auto" => WriteCache::Auto,
        "forced" => WriteCache::Forced,
        "off" => WriteCache::Off,
        "flushed" => WriteCache::Flushed,
        _ => return Err(value.refuse(expected)),
    })
}
