//! Why a change was not made.

use std::{fmt, io};

use config::ConfigError;
use ublk::UblkError;
use volume::pool::Failure;

/// Why a change was not made.
#[derive(Debug)]
pub enum ChangeError {
    /// An invalid value, or one that admission refuses ([`ConfigError::admission_failure`]).
    /// Remedy: as it says.
    Config(ConfigError),
    /// There is no volume or disk of this name. Remedy: as it says.
    Missing(ConfigError),
    /// There is another volume of this name. Remedy: use another name, or change that volume.
    Exists {
        /// The name.
        name: String,
    },
    /// Clients have it open. Remedy: disconnect them, or use force.
    InUse {
        /// The volume.
        name: String,
        /// The number of connections.
        connections: usize,
    },
    /// It is a block device. Remedy: detach it.
    Attached {
        /// The volume.
        name: String,
        /// The device.
        device: String,
    },
    /// Its block device could not be made or removed. Remedy: as the error says.
    BlockDevice(UblkError),
    /// The config was edited since it was read. Remedy: restart to apply the edit, or undo it.
    Edited {
        /// The config.
        file: String,
    },
    /// The config could not be written. Remedy: as the system's error says.
    Io {
        /// The config.
        file: String,
        /// The system's error.
        error: io::Error,
    },
    /// The disk could not erase the space. Remedy: check the disk.
    Disk(backend::Failure),
    /// The change is refused. Remedy: as the explanation says.
    Refused(String),
    /// The pool could not make the change. Remedy: check its disks; if it is not known whether the
    /// change is in effect, restart.
    Pool(Failure),
    /// There is no pool. Remedy: `[pool]` in the config, and a restart.
    NoPool,
    /// The daemon is stopping.
    Stopping,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) | Self::Missing(error) => error.fmt(f),
            Self::Exists { name } => write!(f, "there is another volume \"{name}\""),
            Self::InUse { name, connections } => {
                write!(f, "volume \"{name}\" is open on {connections} connections")
            }
            Self::Attached { name, device } => write!(f, "volume \"{name}\" is {device}"),
            Self::BlockDevice(error) => error.fmt(f),
            Self::Edited { file } => write!(f, "{file} was edited since it was read"),
            Self::Io { file, error } => write!(f, "{file} cannot be written: {error}"),
            Self::Disk(failure) => write!(f, "the disk cannot erase the space: {failure:?}"),
            Self::Refused(explanation) => f.write_str(explanation),
            Self::Pool(Failure::Disk) => f.write_str("a disk failed: nothing was changed"),
            Self::Pool(Failure::Cancelled) => f.write_str("it was cancelled: nothing was changed"),
            Self::Pool(Failure::Unknown) => f.write_str(
                "a disk failed under the pool's metadata: a restart shows whether it holds",
            ),
            Self::NoPool => f.write_str(
                "there is no pool: expected `[pool]` in the config that the daemon was started \
                 with",
            ),
            Self::Stopping => f.write_str("the daemon is stopping"),
        }
    }
}

impl From<ConfigError> for ChangeError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// A refusal with this explanation.
pub(super) fn refused<T>(explanation: impl Into<String>) -> Result<T, ChangeError> {
    Err(ChangeError::Refused(explanation.into()))
}
