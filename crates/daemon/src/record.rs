//! Flight records on their way to files: a directory with a file a disk and run, and a bound for all of them together.
//!
//! The disks' threads hand over blocks and never wait; one thread writes. When there is no room left, the records of the
//! oldest runs go first. A record that has grown to the whole bound by itself ends, as does one whose blocks cannot
//! be written as fast as they come: what an engine decides follows from all that it was told since its beginning, so of a
//! record with a gap nothing could be replayed.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use config::{Disk, Plan, Record};
use flight::{Header, RecordSink, RecordedEngine, SinkClosed};
use units::Instant;

/// Blocks that may wait to be written: 4 MiB.
const BLOCKS_WAITING_MAX: usize = 128;

/// The records of one run.
#[derive(Debug)]
pub(crate) struct Recorder {
    to: SyncSender<Block>,
    ended: Arc<AtomicBool>,
    writing: JoinHandle<()>,
}

#[derive(Debug)]
struct Block {
    disk: usize,
    bytes: Vec<u8>,
}

/// Where one disk's blocks go.
#[derive(Debug)]
struct Way {
    disk: usize,
    to: SyncSender<Block>,
    ended: Arc<AtomicBool>,
}

impl RecordSink for Way {
    fn write(&mut self, bytes: Vec<u8>) -> Result<(), SinkClosed> {
        if self.ended.load(Ordering::Relaxed) {
            return Err(SinkClosed);
        }
        self.to.try_send(Block { disk: self.disk, bytes }).map_err(|_| {
            eprintln!("flight record: it ends here: blocks come faster than they are written");
            SinkClosed
        })
    }
}

/// `run-000007-disk-0.flight`: the run's number.
fn run_of(name: &str) -> Option<u64> {
    let (run, disk) = name.strip_prefix("run-")?.strip_suffix(".flight")?.split_once("-disk-")?;
    disk.parse::<usize>().ok()?;
    run.parse().ok()
}

/// The files of one directory.
#[derive(Debug)]
struct Files {
    directory: PathBuf,
    run: u64,
    bytes_max: u64,
    bytes: u64,
    /// Those of runs before, oldest first, with their lengths.
    before: Vec<(u64, PathBuf, u64)>,
    open: BTreeMap<usize, File>,
}

impl Files {
    fn new(record: &Record) -> io::Result<Self> {
        fs::create_dir_all(&record.directory)?;
        let mut before = Vec::new();
        for entry in fs::read_dir(&record.directory)? {
            let entry = entry?;
            if let Some(run) = entry.file_name().to_str().and_then(run_of) {
                before.push((run, entry.path(), entry.metadata()?.len()));
            }
        }
        before.sort();
        let run = before.last().map_or(1, |(run, ..)| run + 1);
        let (directory, bytes_max) = (record.directory.clone(), record.bytes_max.0);
        let bytes = before.iter().map(|(.., len)| len).sum();
        Ok(Self { directory, run, bytes_max, bytes, before, open: BTreeMap::new() })
    }

    /// Appends a block; false where there is no room for it.
    fn append(&mut self, block: &Block) -> io::Result<bool> {
        let len = block.bytes.len() as u64;
        while self.bytes + len > self.bytes_max {
            if self.before.is_empty() {
                return Ok(false);
            }
            let (_, path, len) = self.before.remove(0);
            fs::remove_file(path)?;
            self.bytes -= len;
        }
        if !self.open.contains_key(&block.disk) {
            let name = format!("run-{:06}-disk-{}.flight", self.run, block.disk);
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

/// Writes what comes until nobody sends any more.
fn write(mut files: Files, from: &Receiver<Block>, ended: &AtomicBool) {
    for block in from {
        let kept = match files.append(&block) {
            _ if ended.load(Ordering::Relaxed) => continue,
            Ok(true) => continue,
            Ok(false) => format!("records have the {} bytes that they may have", files.bytes_max),
            Err(error) => format!("{}: {error}", files.directory.display()),
        };
        eprintln!("flight record: it ends here: {kept}");
        ended.store(true, Ordering::Relaxed);
    }
}

impl Recorder {
    /// Opens the directory and begins a run.
    ///
    /// # Errors
    /// The directory cannot be made or read, or the system gives no thread.
    pub(crate) fn start(record: &Record) -> io::Result<Self> {
        let files = Files::new(record)?;
        eprintln!("flight record: run {} in {}", files.run, record.directory.display());
        let ended = Arc::new(AtomicBool::new(false));
        let (to, from) = sync_channel(BLOCKS_WAITING_MAX);
        let (seen, builder) =
            (ended.clone(), std::thread::Builder::new().name("flight".to_owned()));
        let writing = builder.spawn(move || write(files, &from, &seen))?;
        Ok(Self { to, ended, writing })
    }

    /// An engine of this disk, recorded from its beginning on.
    pub(crate) fn engine(
        &self,
        plan: &Plan,
        place: usize,
        disk: &Disk,
        now: Instant,
    ) -> RecordedEngine {
        // For people: the engine is made of the values beside it. A plan that was made up has no file.
        let config = fs::read_to_string(Path::new(&plan.file)).unwrap_or_default();
        let header = Header {
            program: format!("spindle {}", env!("CARGO_PKG_VERSION")),
            disk: disk.name.clone(),
            config,
            settings: disk.settings(),
            profile: disk.knowledge_on_host(),
            started_at: now,
        };
        let way = Way { disk: place, to: self.to.clone(), ended: self.ended.clone() };
        RecordedEngine::new(&header, Box::new(way))
            .unwrap_or_else(|SinkClosed| disk.engine_on_host(now).into())
    }

    /// Waits until all that was handed over is written. The disks' threads have ended.
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
    fn the_records_of_the_oldest_runs_go_first_and_a_run_alone_ends_at_the_bound() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let record = Record { directory: scratch.path().join("new"), bytes_max: Bytes(100) };
        for run in 1..=3 {
            let mut files = Files::new(&record).expect("a directory");
            assert_eq!(files.run, run);
            for disk in 0..2 {
                let block = Block { disk, bytes: vec![0; 20] };
                assert!(files.append(&block).expect("it is written"), "run {run}, disk {disk}");
            }
        }
        let of = |run, disk| format!("run-{run:06}-disk-{disk}.flight");
        assert_eq!(names(&record.directory), [of(1, 1), of(2, 0), of(2, 1), of(3, 0), of(3, 1)]);
        fs::write(record.directory.join("notes.txt"), [0; 500]).expect("a scratch file");
        let mut files = Files::new(&record).expect("a directory");
        let block = Block { disk: 0, bytes: vec![0; 60] };
        assert!(files.append(&block).expect("it is written"));
        assert!(!files.append(&block).expect("nothing is wrong"), "there is no room for both");
        assert_eq!(names(&record.directory), ["notes.txt".to_owned(), of(4, 0)]);
    }
}
