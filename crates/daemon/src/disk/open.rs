//! Opens the backends of a config's disks.

use std::fmt;
use std::path::{Path, PathBuf};

use backend::device::{WriteCacheState, WriteCacheUse};
use backend::{
    Disk, EmulatedDisk, FaultRates, FileStore, MemoryDisk, NullDisk, OpenFn, RamStore,
    RandomFaults, RealDisk, RealOptions, SharedBus, Store,
};
use config::{Backing, DiskIndex, Document, Plan, SharedBuses, WriteBufferLog, WriteCache};

use super::write_buffer_log::{LogFiles, Rewritten};

/// A disk's backend cannot be used.
#[derive(Debug)]
pub struct BackendError {
    /// The config's file, and the line of the disk's table.
    pub place: String,
    /// The disk's name.
    pub disk: String,
    /// The reason, with its remedy.
    pub reason: String,
}

impl std::error::Error for BackendError {}

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

/// A disk's backend, open.
pub struct OpenedBackend {
    /// The disk.
    pub disk: Box<dyn Disk>,
    /// The file that opening it has created, if it has.
    pub created_file: Option<PathBuf>,
}

/// Opens a disk's backend, without injected faults and on no bus of others.
///
/// # Errors
/// See [`BackendError`].
pub fn open_backend(plan: &Plan, disk: &config::Disk) -> Result<OpenedBackend, BackendError> {
    open_on(plan, disk, None)
}

/// The same; an emulated disk transfers over `bus`. The only `match` that opens backings.
fn open_on(
    plan: &Plan,
    disk: &config::Disk,
    bus: Option<SharedBus>,
) -> Result<OpenedBackend, BackendError> {
    let model = disk.served_model();
    let mut created_file = None;
    let emulated = |model, store: Box<dyn Store>| {
        let emulated = EmulatedDisk::new(model, store).slowed(disk.slowed);
        Box::new(match bus {
            Some(bus) => emulated.on_bus(bus),
            None => emulated,
        })
    };
    let opened: Box<dyn Disk> = match &disk.backing {
        Backing::Ram => emulated(model, Box::<RamStore>::default()),
        Backing::File(path) => {
            let store = open_file(plan, disk, path)?;
            created_file = store.is_new().then(|| path.clone());
            emulated(model, Box::new(store))
        }
        Backing::Memory => Box::new(MemoryDisk::new(model.capacity())),
        Backing::Null => Box::new(NullDisk::new(model.capacity())),
        Backing::Real(real) => Box::new(open_real(plan, disk, real)?),
    };
    Ok(OpenedBackend { disk: opened, created_file })
}

/// The disk with the way past its drive's write cache that was found when it was opened.
pub(crate) fn with_found_cache(
    disk: &config::Disk,
    found: Option<WriteCacheState>,
) -> config::Disk {
    let write_cache = match found {
        Some(WriteCacheState::Flushed) => WriteCache::Flushed,
        Some(WriteCacheState::Forced) => WriteCache::Forced,
        Some(WriteCacheState::Off) => WriteCache::Off,
        Some(WriteCacheState::None) | None => disk.write_cache,
    };
    config::Disk { write_cache, ..disk.clone() }
}

/// Opens a disk's backend, with injected faults if the config asks for them.
pub(crate) fn open(
    plan: &Plan,
    disk: &config::Disk,
    buses: &SharedBuses,
    new: &mut NewFiles,
) -> Result<Box<dyn Disk>, BackendError> {
    let opened = open_on(plan, disk, buses.shared(disk.bus.as_ref()))?;
    new.0.extend(opened.created_file);
    Ok(match disk.faults {
        Some(faults) => with_faults(&disk.name, faults, opened.disk),
        None => opened.disk,
    })
}

/// Opens a disk's backend, after what an earlier daemon had buffered for it is written to it. Also
/// returns where this daemon logs what it buffers.
pub(crate) fn open_with_log(
    plan: &Plan,
    disk: &config::Disk,
    buses: &SharedBuses,
    new: &mut NewFiles,
) -> Result<(Box<dyn Disk>, Option<LogFiles>), BackendError> {
    let opened = open(plan, disk, buses, new)?;
    let Some(path) = disk.backing.capabilities().path else { return Ok((opened, None)) };
    let files = match LogFiles::of(path, &disk.write_buffer_log) {
        Ok(Some(files)) => files,
        Ok(None) => return Ok((opened, None)),
        Err(cause) if disk.write_buffer_log == WriteBufferLog::Auto => {
            let name = &disk.name;
            eprintln!("disk {name}: {cause}: a kill of the daemon loses what is buffered");
            return Ok((opened, None));
        }
        Err(cause) => {
            let expected = "expected a directory in memory";
            let reason = format!("field `write_buffer_log`: found {cause}, {expected}");
            return Err(error(plan, disk, reason));
        }
    };
    let refused = |reason| error(plan, disk, reason);
    if !files.is_left().map_err(refused)? {
        return Ok((opened, Some(files)));
    }
    // The disk is locked by now; what its backend has read of it is read again.
    let Rewritten { writes, size } = files.write_back(opened.capacity()).map_err(refused)?;
    eprintln!(
        "disk {}: {writes} writes ({size}) that an earlier daemon had buffered are on the disk now",
        disk.name
    );
    drop(opened);
    Ok((open(plan, disk, buses, new)?, Some(files)))
}

/// How a disk that has failed is opened again while it is served.
pub(crate) fn reopening(document: &Document, index: DiskIndex, buses: &SharedBuses) -> OpenFn {
    let Some(backing) = document.plan().disks[index.0].backing.reopened() else {
        return Box::new(|mut old| {
            old.reopen();
            Ok(old)
        });
    };
    let (document, buses) = (document.clone(), buses.clone());
    Box::new(move |old| {
        // The old disk's lock is released first.
        drop(old);
        let plan = document.plan();
        let disk = config::Disk { backing, ..plan.disks[index.0].clone() };
        let bus = buses.shared(disk.bus.as_ref());
        let opened = open_on(plan, &disk, bus).map_err(|error| error.to_string())?;
        Ok(opened.disk)
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

fn open_real(
    plan: &Plan,
    disk: &config::Disk,
    real: &config::RealDisk,
) -> Result<RealDisk, BackendError> {
    let (capacity, depth) = (disk.drive.model.capacity(), disk.depth);
    let config::RealDisk { buffered, adopt, io_method, .. } = *real;
    let ring = io_method == config::IoMethod::IoUring;
    let write_cache = match disk.write_cache {
        // Without write buffers the drive's own is meant to be used.
        WriteCache::Auto if disk.write_buffer.is_none() => WriteCacheUse::Forced,
        WriteCache::Auto => WriteCacheUse::Auto(disk.bypass_order()),
        WriteCache::Forced => WriteCacheUse::Forced,
        WriteCache::Off => WriteCacheUse::Off,
        WriteCache::Flushed => WriteCacheUse::Flushed,
    };
    let options = RealOptions { capacity, depth, buffered, adopt, ring, write_cache };
    RealDisk::open(&real.path, options).map_err(|cause| {
        error(plan, disk, format!("field `path`: found `{}`, {cause}", real.path.display()))
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use backend::{Buffers, Job, Tag};
    use config::Retention;
    use units::{Duration, Extent, Instant, Lba, Operation, SECTOR_BYTES, Sectors};

    use super::*;

    /// One disk of each kind of backing.
    const CONFIG: &str = r#"
[[disk]]
name = "ram"
drive = "samsung-870evo-1t"

[[disk]]
name = "file"
drive = "samsung-870evo-1t"
backing = "emulated.img"

[[disk]]
name = "memory"
drive = "memory"
size = "1MiB"

[[disk]]
name = "null"
drive = "null"
size = "1MiB"

[[disk]]
name = "real"
path = "real.img"
buffered = true
io_uring = false
"#;

    fn plan(dir: &Path) -> Plan {
        let file = std::fs::File::create(dir.join("real.img")).expect("a file");
        file.set_len(1 << 20).expect("a sparse one");
        Plan::parse(CONFIG, "plan.toml", dir).expect("a sound config")
    }

    const BLOCK: Extent = Extent::new(Lba(8), Sectors(8));

    fn write(disk: &mut dyn Disk) {
        let operation = Operation::write(BLOCK);
        let data = vec![7; BLOCK.len.bytes_usize()].into();
        disk.submit(Job { tag: Tag(1), operation, data, no_hole: false }, Instant::ZERO);
        disk.start();
        let done = std::iter::repeat_with(|| {
            let now = disk.next_event().unwrap_or(Instant::ZERO);
            std::thread::yield_now();
            disk.reap(now)
        });
        let completion = done.flatten().next().expect("the job completes");
        completion.result.expect("it is written");
    }

    fn holds_data(disk: &mut dyn Disk) -> bool {
        disk.read_blocking(BLOCK).expect("it is read").iter().all(|byte| *byte == 7)
    }

    #[test]
    fn each_backing_keeps_data_as_long_as_its_retention_says() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let plan = plan(dir.path());
        for disk in &plan.disks {
            let open = || open_backend(&plan, disk).map(|opened| opened.disk);
            let mut opened = open().expect("the backend opens");
            write(opened.as_mut());
            let before = holds_data(opened.as_mut());
            drop(opened);
            let after = holds_data(open().expect("the backend opens again").as_mut());
            let expected = match disk.backing.capabilities().retention {
                Retention::Discarded => (false, false),
                Retention::UntilExit => (true, false),
                Retention::Durable => (true, true),
            };
            assert_eq!((before, after), expected, "disk {}", disk.name);
        }
    }

    /// When the last of these disks of the plan has read 1 MiB, all from the beginning on.
    fn read_at_once(plan: &Plan, disks: &[usize]) -> Instant {
        let buses = plan.shared_buses();
        let mut new = NewFiles::default();
        let open = |index: &usize| open(plan, &plan.disks[*index], &buses, &mut new);
        let opened: Result<Vec<_>, _> = disks.iter().map(open).collect();
        let mut opened = opened.expect("the backends open");
        let operation = Operation::read(Extent::new(Lba(0), Sectors(2_048)));
        for disk in &mut opened {
            let job = Job { tag: Tag(1), operation, data: Buffers::default(), no_hole: false };
            disk.submit(job, Instant::ZERO);
        }
        let mut last = Instant::ZERO;
        while let Some(now) = opened.iter().filter_map(|disk| disk.next_event()).min() {
            let reaped = opened.iter_mut().filter_map(|disk| disk.reap(now)).count();
            last = if reaped > 0 { now } else { last };
        }
        last
    }

    #[test]
    fn emulated_disks_on_one_bus_share_its_bandwidth() {
        let disk = |name: &str, bus: &str| {
            format!("[[disk]]\nname = \"{name}\"\ndrive = \"atlas-ii\"\nbus = \"{bus}\"\n")
        };
        let bus = |name: &str| format!("[[bus]]\nname = \"{name}\"\nbandwidth = \"10MB/s\"\n");
        let text = [bus("one"), bus("two"), disk("a", "one"), disk("b", "one"), disk("c", "two")];
        let plan = Plan::parse(&text.concat(), "plan.toml", Path::new("/")).expect("sound");
        // Two MiB cross a bus of 10 MB/s in no less.
        let least = Instant::ZERO + Duration::from_micros(209_715);
        let apart = read_at_once(&plan, &[0, 2]);
        assert_eq!(apart, read_at_once(&plan, &[0]), "each has a bus of its own");
        assert!(apart < least, "{apart}");
        let together = read_at_once(&plan, &[0, 1]);
        assert!(together >= least, "{together}");
    }

    #[test]
    fn a_backing_with_a_path_holds_its_data_at_that_path() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let plan = plan(dir.path());
        for disk in &plan.disks {
            let capabilities = disk.backing.capabilities();
            let is_durable = capabilities.retention == Retention::Durable;
            assert_eq!(capabilities.path.is_some(), is_durable, "disk {}", disk.name);
            let Some(path) = capabilities.path else { continue };
            let mut opened = open_backend(&plan, disk).expect("the backend opens").disk;
            write(opened.as_mut());
            drop(opened);
            let mut bytes = vec![0; BLOCK.len.bytes_usize()];
            let file = std::fs::File::open(path).expect("a file");
            file.read_exact_at(&mut bytes, BLOCK.start.0 * SECTOR_BYTES).expect("it is read");
            assert!(bytes.iter().all(|byte| *byte == 7), "disk {}", disk.name);
        }
    }

    #[test]
    fn a_disk_that_is_slowed_to_half_its_speed_is_served_so() {
        let service_time = |lines: &str| -> Duration {
            let text = format!("[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\n{lines}\n");
            let plan = Plan::parse(&text, "plan.toml", Path::new("")).expect("a good config");
            let mut disk = open_backend(&plan, &plan.disks[0]).expect("in memory").disk;
            let operation = Operation::read(Extent::new(Lba(1 << 30), Sectors(8)));
            let job = Job { tag: Tag(1), operation, data: Buffers::default(), no_hole: false };
            disk.submit(job, Instant::ZERO);
            disk.next_event().expect("a command is in the drive").since(Instant::ZERO)
        };
        assert_eq!(service_time("slowed = 0.5"), service_time("") * 2);
    }
}
