//! Paths that a config names.

use std::path::{Path, PathBuf};

use input::{InputError, Value};

use crate::limits::PATH_BYTES_MAX;

/// An error in a file that the config names: its message becomes part of one line of the config's.
pub(crate) fn unusable(value: &Value<'_>, what: &str, error: impl std::fmt::Display) -> InputError {
    let error = error.to_string();
    let error = error.trim().lines().collect::<Vec<_>>().join(", ").replace(char::is_control, " ");
    value.refuse(format_args!("{what} that can be used ({error})"))
}

/// The path relative to the working directory.
pub(crate) fn path(value: &Value<'_>, text: &str, base_dir: &Path) -> Result<PathBuf, InputError> {
    let path = base_dir.join(text);
    if text.is_empty() || text.contains('\0') || path.as_os_str().len() > PATH_BYTES_MAX {
        return Err(
            value.refuse(format_args!("a path of 1 to {PATH_BYTES_MAX} bytes, none of them zero"))
        );
    }
    Ok(path)
}

/// The canonical path of a file, so that two disks do not overwrite each other through a link or a
/// `./`. A file that does not exist yet is identified by its directory; if that does not exist
/// either, by its text.
pub(crate) fn same_file(path: &Path) -> PathBuf {
    let in_directory = || {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = parent.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(directory.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(in_directory).unwrap_or_else(|| path.components().collect())
}
