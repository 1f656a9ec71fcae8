//! A drive by its name in the library, or from a drive file or a DiskSim parameter file.

use core::fmt;
use std::path::Path;

use drive::{AnySpec, Spec};

use input::{InputError, read_at_most};

use crate::catalogue::{find, names};
use crate::disksim;
use crate::file::{DRIVE_FILE_BYTES_MAX, DriveFileError, parse};

/// Why a drive could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenDriveError {
    /// The library has no drive of this name; expected a name that it has, or the path of a file.
    Unknown(String),
    /// The file cannot be read: its name, and what was expected of it.
    Unreadable(String, String),
    /// A drive file that describes no drive.
    DriveFile(DriveFileError),
    /// A DiskSim file that describes no drive, or one that cannot be represented.
    DiskSim(InputError),
    /// A flash drive, where a mechanical one is needed.
    Flash(String),
}

impl fmt::Display for OpenDriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                let known: Vec<_> = names().collect();
                write!(
                    f,
                    "no drive `{name}`: expected one of {}, or the path of a .toml, .parv or \
                     .diskspecs file",
                    known.join(", ")
                )
            }
            Self::Unreadable(file, expected) => write!(f, "{file}: expected {expected}"),
            Self::DriveFile(error) => error.fmt(f),
            Self::DiskSim(error) => error.fmt(f),
            Self::Flash(name) => {
                write!(f, "{name}: is a flash drive, expected a mechanical one: it has no arm")
            }
        }
    }
}

impl std::error::Error for OpenDriveError {}

/// The mechanical drive of this name; its check has passed.
///
/// # Errors
/// There is no such drive, its file describes none, or it is a flash drive.
pub fn open_mechanical(name: &str) -> Result<Spec, OpenDriveError> {
    match open(name)? {
        AnySpec::Mechanical(spec) => Ok(*spec),
        AnySpec::Flash(_) => Err(OpenDriveError::Flash(name.to_owned())),
    }
}

/// The drive of this name, of either kind; its check has passed.
///
/// # Errors
/// There is no such drive, or its file describes none.
pub fn open(name: &str) -> Result<AnySpec, OpenDriveError> {
    if let Some(spec) = find(name) {
        return Ok(spec);
    }
    let path = Path::new(name);
    if disksim::is_named(path) {
        let spec = disksim::import(path).map_err(OpenDriveError::DiskSim)?.spec;
        return Ok(AnySpec::Mechanical(Box::new(spec)));
    }
    if !name.contains('/') && path.extension().is_none_or(|end| end != "toml") {
        return Err(OpenDriveError::Unknown(name.to_owned()));
    }
    let refused = |expected: String| OpenDriveError::Unreadable(name.to_owned(), expected);
    let bytes = read_at_most(path, DRIVE_FILE_BYTES_MAX as u64)
        .map_err(|error| refused(format!("a file that can be read ({error})")))?
        .ok_or_else(|| refused(format!("a drive file of at most {DRIVE_FILE_BYTES_MAX} bytes")))?;
    let text = String::from_utf8(bytes).map_err(|_| refused("a file of text".to_owned()))?;
    parse(&text, name).map_err(OpenDriveError::DriveFile)
}
