//! `profile` of a `[[disk]]` table: measured values replace the assumed ones.

use std::path::Path;
use std::sync::Arc;

use super::path::{path, unusable};

use crate::plan::{DriveRef, ProfileRef};
use drive_library::profile::ProfileFile;
use input::{InputError, Table, Value};

/// The profile that the table names, with its value for messages.
pub(crate) fn read<'a>(
    table: &'a Table<'a>,
    base_dir: &Path,
) -> Result<Option<(Value<'a>, String, ProfileFile)>, InputError> {
    let Some(value) = table.value("profile") else { return Ok(None) };
    let name = value.text("the path of a profile (*.toml)")?;
    let measured = ProfileFile::read(&path(&value, name, base_dir)?)
        .map_err(|error| unusable(&value, "a profile", error))?;
    Ok(Some((value, name.to_owned(), measured)))
}

/// The drive that a profile describes, if the table names no other.
pub(crate) fn drive(
    value: &Value<'_>,
    name: &str,
    measured: &ProfileFile,
) -> Result<DriveRef, InputError> {
    let refused = |error: &dyn std::fmt::Display| unusable(value, "a profile", error);
    let spec = measured.spec().map_err(|lacks| refused(&lacks))?;
    let model = spec.check().map_err(|error| refused(&error))?;
    Ok(DriveRef { name: name.to_owned(), model })
}

/// The values that an engine uses of the profile for this drive; `None` for a profile of a drive
/// without seeks.
pub(crate) fn profile(
    value: &Value<'_>,
    name: String,
    measured: &ProfileFile,
    drive: &DriveRef,
) -> Result<Option<ProfileRef>, InputError> {
    if drive.name == name && drive.model.flash().is_some() {
        return Ok(None);
    }
    let profile = measured.profile().map_err(|lacks| unusable(value, "a profile", lacks))?;
    let (known, capacity) = (profile.capacity(), drive.model.capacity());
    if known != capacity {
        return Err(value.refuse(format_args!(
            "a profile of this drive, which has {capacity}; this one is of {known}"
        )));
    }
    if drive.model.mechanical().is_none() {
        return Err(value.refuse("no such field: the drive has no arm"));
    }
    Ok(Some(ProfileRef { name, profile: Arc::new(profile) }))
}
