//! Why the daemon was not started.

use std::path::PathBuf;
use std::{fmt, io};

use nbd::TlsError;

use crate::changes::error::ChangeError;
use crate::disk::open::BackendError;
use crate::pool::discovery::PoolError;

/// Why the daemon was not started.
#[derive(Debug)]
pub enum StartError {
    /// A disk's backend cannot be used. Remedy: as the reason says.
    Backing {
        /// The config's file, and the line of the disk's table.
        place: String,
        /// The disk's name.
        disk: String,
        /// The reason.
        reason: String,
    },
    /// The server's addresses cannot be used. Remedy: another address, or stop the process that
    /// uses it.
    Listen(io::Error),
    /// The sockets for virtual machines cannot be made. Remedy: another directory.
    VhostUser(io::Error),
    /// The config's pool cannot be opened. Remedy: as the error says.
    Pool(PoolError),
    /// A volume of the config is not in the pool, and cannot be created.
    Volume {
        /// The config's file, and the line of the volume's table.
        place: String,
        /// The volume's name.
        name: String,
        /// The reason.
        error: ChangeError,
    },
    /// A volume of the config has no block device. Remedy: as the error says.
    BlockDevice {
        /// The config's file, and the line of the volume's table.
        place: String,
        /// The volume's name.
        name: String,
        /// The reason.
        error: ChangeError,
    },
    /// The config's TLS files cannot be used. Remedy: as the reason says.
    Tls(TlsError),
    /// Flight records cannot be written to the config's directory. Remedy: as the reason says.
    Record {
        /// The directory.
        directory: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The system provides no thread.
    Thread(io::Error),
}

impl From<BackendError> for StartError {
    fn from(BackendError { place, disk, reason }: BackendError) -> Self {
        Self::Backing { place, disk, reason }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backing { place, disk, reason } => {
                write!(f, "{place}: [[disk]] \"{disk}\": {reason}")
            }
            Self::Pool(error) => error.fmt(f),
            Self::Volume { place, name, error } => {
                let problem = "is not in the pool, and cannot be made";
                write!(f, "{place}: volume \"{name}\" {problem}: {error}")
            }
            Self::BlockDevice { place, name, error } => {
                write!(f, "{place}: volume \"{name}\": field `ublk`: {error}")
            }
            Self::Listen(error) => write!(f, "listen: {error}"),
            Self::VhostUser(error) => write!(f, "[listen]: field `vhost_user`: {error}"),
            Self::Tls(error) => write!(f, "[nbd]: found {error}"),
            Self::Record { directory, error } => {
                let directory = directory.display();
                let expected = "expected a directory that can be written to";
                write!(f, "[log]: field `record`: found `{directory}`, {expected} ({error})")
            }
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}
