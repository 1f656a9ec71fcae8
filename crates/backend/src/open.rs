//! The factory of backends: the only place that names each of them.

use core::fmt;
use std::path::Path;

use drive::AnyModel;
use units::Sectors;

use crate::disk::Disk;
use crate::emulated::EmulatedDisk;
use crate::emulated::store::{FileStore, FileStoreError, RamStore};
use crate::memory::{MemoryDisk, NullDisk};
use crate::real::{RealDisk, RealError, RealOptions};

/// Which backend to open, and on what.
#[derive(Clone, Debug)]
pub enum Backend<'a> {
    /// A drive model with its data in memory.
    EmulatedInMemory(AnyModel),
    /// A drive model with its data in a file, which is created if there is none.
    EmulatedInFile(AnyModel, &'a Path),
    /// Memory, completed on submission.
    Memory(Sectors),
    /// Nothing is stored; completed on submission.
    Null(Sectors),
    /// A block device, or a regular file.
    Real(&'a Path, RealOptions),
}

/// An open disk.
pub struct Opened {
    /// The disk.
    pub disk: Box<dyn Disk>,
    /// Whether opening it created its file: a caller that fails later removes the file.
    pub created_file: bool,
}

/// Why a disk cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The file of an emulated drive.
    File(FileStoreError),
    /// The real disk.
    Real(RealError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Real(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

/// Opens a disk.
///
/// # Errors
/// See [`OpenError`].
pub fn open(backend: Backend<'_>) -> Result<Opened, OpenError> {
    let mut created_file = false;
    let disk: Box<dyn Disk> = match backend {
        Backend::EmulatedInMemory(model) => {
            Box::new(EmulatedDisk::new(model, Box::<RamStore>::default()))
        }
        Backend::EmulatedInFile(model, path) => {
            let store = FileStore::open(path, model.capacity()).map_err(OpenError::File)?;
            created_file = store.is_new();
            Box::new(EmulatedDisk::new(model, Box::new(store)))
        }
        Backend::Memory(capacity) => Box::new(MemoryDisk::new(capacity)),
        Backend::Null(capacity) => Box::new(NullDisk::new(capacity)),
        Backend::Real(path, options) => {
            Box::new(RealDisk::open(path, options).map_err(OpenError::Real)?)
        }
    };
    Ok(Opened { disk, created_file })
}
