//! Opens the backends of a config's disks.

use std::fmt;
use std::path::{Path, PathBuf};

use backend::{
    Disk, EmulatedDisk, FaultRates, FileStore, MemoryDisk, NullDisk, RamStore, RandomFaults,
    RealDisk, RealOptions,
};
use config::{Backing, Plan};

/// A disk's backend cannot be used.
#[derive(Debug)]
pub(crate) struct BackendError {
    /// The config's file, and the line of the disk's table.
    pub(crate) place: String,
    /// The disk's name.
    pub(crate) disk: String,
    pub(crate) reason: String,
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, disk, reason } = self;
        write!(f, "{place}: [[disk]] \"{disk}\": {reason}")
    }
}

/// Backing files that this start has created. They are removed unless the start succeeds.
#[derive(Default)]
pub(crate) struct NewFiles(Vec<PathBuf>);

impl NewFiles {
    pub(crate) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // A file that cannot be removed is empty, and the next start uses it.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Opens a disk's backend, with injected faults if the config asks for them.
pub(crate) fn open(
    plan: &Plan,
    disk: &config::Disk,
    new: &mut NewFiles,
) -> Result<Box<dyn Disk>, BackendError> {
    let model = disk.drive.model.clone();
    let opened: Box<dyn Disk> = match &disk.backing {
        Backing::Ram => Box::new(EmulatedDisk::new(model, Box::<RamStore>::default())),
        Backing::File(path) => {
            let store = open_file(plan, disk, path)?;
            new.0.extend(store.is_new().then(|| path.clone()));
            Box::new(EmulatedDisk::new(model, Box::new(store)))
        }
        Backing::Memory => Box::new(MemoryDisk::new(model.capacity())),
        Backing::Null => Box::new(NullDisk::new(model.capacity())),
        Backing::Real(real) => Box::new(open_real(plan, disk, real)?),
    };
    Ok(match disk.faults {
        Some(faults) => with_faults(&disk.name, faults, opened),
        None => opened,
    })
}

/// The disk with injected faults, and a warning about them.
fn with_faults(name: &str, faults: config::Faults, disk: Box<dyn Disk>) -> Box<dyn Disk> {
    let config::Faults { seed, read, write, flush, stall, stall_for, vanish_after } = faults;
    let gone = vanish_after.map(|last| format!(", and gone after {last} commands"));
    eprintln!(
        "disk {name}: faults are injected with seed {seed}: reads fail {read}, writes {write}, \
         flushes {flush}; {stall} of the commands stall for {stall_for}{}",
        gone.unwrap_or_default()
    );
    let rates = FaultRates { seed, read, write, flush, stall, stall_for, vanish_after };
    Box::new(RandomFaults::new(disk, rates))
}

fn error(plan: &Plan, disk: &config::Disk, reason: String) -> BackendError {
    let place = format!("{}:{}", plan.file, disk.line);
    BackendError { place, disk: disk.name.clone(), reason }
}

fn open_file(plan: &Plan, disk: &config::Disk, path: &Path) -> Result<FileStore, BackendError> {
    FileStore::open(path, disk.drive.model.capacity()).map_err(|cause| {
        let path = path.display();
        let expected = "expected a file that can be used";
        error(plan, disk, format!("field `backing`: found `{path}`, {expected} ({cause})"))
    })
}

/// Opens a real disk.
pub(crate) fn open_real(
    plan: &Plan,
    disk: &config::Disk,
    real: &config::RealDisk,
) -> Result<RealDisk, BackendError> {
    let (capacity, depth) = (disk.drive.model.capacity(), disk.depth);
    let config::RealDisk { buffered, adopt, io_method, .. } = *real;
    let ring = io_method == config::IoMethod::IoUring;
    let options = RealOptions { capacity, depth, buffered, adopt, ring };
    RealDisk::open(&real.path, options).map_err(|cause| {
        error(plan, disk, format!("field `path`: found `{}`, {cause}", real.path.display()))
    })
}

/// Whether a disk's data is lost when the daemon ends.
pub(crate) const fn is_volatile(disk: &config::Disk) -> bool {
    matches!(disk.backing, Backing::Ram | Backing::Memory)
}
