//! Writes flight records to a directory with one file for each disk and run, and a size limit for
//! all files together.
//!
//! The disks' threads hand over blocks and never wait; one thread writes them. At the size limit
//! the records of the oldest runs are removed. A record that reaches the limit by itself ends, and
//! so does one whose blocks arrive faster than they can be written: an engine's decisions depend on
//! all its inputs since its start, so a record with a gap cannot be replayed.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use config::{Disk, DiskIndex, Plan, RecordSettings};
use flight::{Header, RecordSink, RecordedEngine, SinkClosed};
use units::Instant;

/// The largest number of blocks that wait to be written: 4 MiB.
const BLOCKS_QUEUED_MAX: usize = 128;

/// The flight records of one run.
#[derive(Debug)]
pub(crate) struct Recorder {
    to: SyncSender<Block>,
    ended: Arc<AtomicBool>,
    writing: JoinHandle<()>,
}

#[derive(Debug)]
struct Block {
    disk: DiskIndex,
    bytes: Vec<u8>,
}

/// The sink of one disk's blocks.
#[derive(Debug)]
struct DiskSink {
    disk: DiskIndex,
    to: SyncSender<Block>,
    ended: Arc<AtomicBool>,
}

impl RecordSink for DiskSink {
    fn write(&mut self, bytes: Vec<u8>) -> Result<(), SinkClosed> {
        if self.ended.load(Ordering::Relaxed) {
            return Err(SinkClosed);
        }
        self.to.try_send(Block { disk: self.disk, bytes }).map_err(|_| {
            eprintln!("flight record: it ends here: blocks arrive faster than they are written");
            SinkClosed
        })
    }
}

/// The run's number in a file name such as `run-000007-disk-0.flight`.
fn run_of(name: &str) -> Option<u64> {
    let (run, disk) = name.strip_prefix("run-")?.strip_suffix(".flight")?.split_once("-disk-")?;
    disk.parse::<usize>().ok()?;
    run.parse().ok()
}

/// The record files of one directory.
#[derive(Debug)]
struct Files {
    directory: PathBuf,
    run: u64,
    bytes_max: u64,
    bytes: u64,
    /// The files of earlier runs, oldest first, with their lengths.
    earlier: Vec<(u64, PathBuf, u64)>,
    open: BTreeMap<DiskIndex, File>,
}

impl Files {
    fn new(record: &RecordSettings) -> io::Result<Self> {
        fs::create_dir_all(&record.directory)?;
        let mut earlier = Vec::new();
        for entry in fs::read_dir(&record.directory)? {
            let entry = entry?;
            if let Some(run) = entry.file_name().to_str().and_then(run_of) {
                earlier.push((run, entry.path(), entry.metadata()?.len()));
            }
        }
        earlier.sort();
        let run = earlier.last().map_or(1, |(run, ..)| run + 1);
        let (directory, bytes_max) = (record.directory.clone(), record.bytes_max.0);
        let bytes = earlier.iter().map(|(.., len)| len).sum();
        Ok(Self { directory, run, bytes_max, bytes, earlier, open: BTreeMap::new() })
    }

    /// Appends a block; false if the size limit does not allow it.
    fn append(&mut self, block: &Block) -> io::Result<bool> {
        let len = block.bytes.len() as u64;
        while self.bytes + len > self.bytes_max {
            if self.earlier.is_empty() {
                return Ok(false);
            }
            let (_, path, len) = self.earlier.remove(0);
            fs::remove_file(path)?;
            self.bytes -= len;
        }
        if !self.open.contains_key(&block.disk) {
            let name = format!("run-{:06}-disk-{}.flight", self.run, block.disk.0);
            let path = self.directory.join(name);
            let file = OpenOptions::new().append(true).create_new(true).open(path)?;
            self.open.insert(block.disk, file);
        }
        let mut file = &self.open[&block.disk];
        file.write_all(&block.bytes)?;
        self.bytes += len;
        Ok(true)
    }
}

/// Writes blocks until all senders are gone.
fn write(mut files: Files, from: &Receiver<Block>, ended: &AtomicBool) {
    for block in from {
        let reason = match files.append(&block) {
            _ if ended.load(Ordering::Relaxed) => continue,
            Ok(true) => continue,
            Ok(false) => format!("records have reached their limit of {} bytes", files.bytes_max),
            Err(error) => format!("{}: {error}", files.directory.display()),
        };
        eprintln!("flight record: it ends here: {reason}");
        ended.store(true, Ordering::Relaxed);
    }
}

impl Recorder {
    /// Opens the directory and starts a run.
    ///
    /// # Errors
    /// The directory cannot be made or read, or the system gives no thread.
    pub(crate) fn start(record: &RecordSettings) -> io::Result<Self> {
        let files = Files::new(record)?;
        eprintln!("flight record: run {} in {}", files.run, record.directory.display());
        let ended = Arc::new(AtomicBool::new(false));
        let (to, from) = sync_channel(BLOCKS_QUEUED_MAX);
        let (seen, builder) =
            (ended.clone(), std::thread::Builder::new().name("flight".to_owned()));
        let writing = builder.spawn(move || write(files, &from, &seen))?;
        Ok(Self { to, ended, writing })
    }

    /// An engine for this disk that is recorded from its start on.
    pub(crate) fn engine(
        &self,
        plan: &Plan,
        index: DiskIndex,
        disk: &Disk,
        now: Instant,
    ) -> RecordedEngine {
        // The text is for readers: the engine is built from the values beside it. A plan that a
        // program generated has no file.
        let config = fs::read_to_string(Path::new(&plan.file)).unwrap_or_default();
        let header = Header {
            program: format!("spindle {}", env!("CARGO_PKG_VERSION")),
            disk: disk.name.clone(),
            config,
            settings: disk.settings(),
            profile: disk.host_profile(),
            started_at: now,
        };
        let sink = DiskSink { disk: index, to: self.to.clone(), ended: self.ended.clone() };
        RecordedEngine::new(&header, Box::new(sink))
            .unwrap_or_else(|SinkClosed| disk.engine_on_host(now).into())
    }

    /// Waits until all blocks are written. The disks' threads have ended.
    ///
    /// # Panics
    /// If its thread has panicked.
    pub(crate) fn finish(self) {
        drop(self.to);
        self.writing.join().expect("the writer does not panic");
    }
}

#[cfg(test)]
mod tests {
    use units::Bytes;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).expect("it is there");
        let mut names: Vec<String> =
            entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_runs_are_removed_first_and_a_single_run_ends_at_the_limit() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let record =
            RecordSettings { directory: scratch.path().join("new"), bytes_max: Bytes(100) };
        for run in 1..=3 {
            let mut files = Files::new(&record).expect("a directory");
            assert_eq!(files.run, run);
            for disk in 0..2 {
                let block = Block { disk: DiskIndex(disk), bytes: vec![0; 20] };
                assert!(files.append(&block).expect("it is written"), "run {run}, disk {disk}");
            }
        }
        let of = |run, disk| format!("run-{run:06}-disk-{disk}.flight");
        assert_eq!(names(&record.directory), [of(1, 1), of(2, 0), of(2, 1), of(3, 0), of(3, 1)]);
        fs::write(record.directory.join("notes.txt"), [0; 500]).expect("a scratch file");
        let mut files = Files::new(&record).expect("a directory");
        let block = Block { disk: DiskIndex(0), bytes: vec![0; 60] };
        assert!(files.append(&block).expect("it is written"));
        assert!(!files.append(&block).expect("nothing is wrong"), "there is no room for both");
        assert_eq!(names(&record.directory), ["notes.txt".to_owned(), of(4, 0)]);
    }
}
