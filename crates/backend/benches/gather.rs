//! What it costs to copy the requests of a merged command into one buffer and out of it:
//! `cargo bench -p spindle-backend --bench gather`.
//!
//! Thirty-two neighbours of 4 KiB are one command of 128 KiB. On disks in memory the command is
//! timed with the copy and without it: the difference is the most that a list of buffers can gain.
//! On a file with direct access the same transfer is made from one buffer with the copy, and from
//! a list of aligned buffers (`preadv`, `pwritev`); what counts is the thread's processor time, as
//! the rest is the device's. Times are per request, the median of the rounds. Without `--bench` it
//! only looks whether it runs.

#![expect(clippy::disallowed_methods, reason = "it measures itself by the wall clock")]

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant as Wall};

use rustix::fs::OFlags;
use rustix::io::{pread, preadv, pwrite, pwritev};
use rustix::time::{ClockId, clock_gettime};
use spindle_backend::device::AlignedBuffer;
use spindle_backend::{Disk, EmulatedDisk, Job, MemoryDisk, RamStore, Tag};
use units::{Extent, Instant, Lba, Op, Operation, Sectors};

/// The requests of a command, of this many bytes each.
const REQUESTS: usize = 32;
const REQUEST_BYTES: usize = 4_096;
const COMMAND_BYTES: usize = REQUESTS * REQUEST_BYTES;
/// The commands that lie in the part that is read and written.
const SPAN: u64 = 256;

/// The time per request of the round in the middle.
fn median(mut rounds: Vec<Duration>) -> u128 {
    assert!(!rounds.is_empty(), "there is a round");
    rounds.sort();
    rounds[rounds.len() / 2].as_nanos() / REQUESTS as u128
}

/// Appends the data of all requests to the buffer of their command.
fn gather(requests: &[Vec<u8>], data: &mut Vec<u8>) {
    data.clear();
    for request in requests {
        data.extend_from_slice(request);
    }
    assert_eq!(data.len(), COMMAND_BYTES, "a command has all of its requests");
}

fn scatter(data: &[u8], requests: &mut [Vec<u8>]) {
    assert_eq!(data.len(), COMMAND_BYTES, "a command has all of its requests");
    for (part, request) in data.chunks(REQUEST_BYTES).zip(requests) {
        request.copy_from_slice(part);
    }
}

/// One command, from its submission until it is reaped when it is due.
fn run(disk: &mut dyn Disk, now: &mut Instant, operation: Operation, data: Vec<u8>) -> Vec<u8> {
    disk.submit(Job { tag: Tag(1), operation, data, no_hole: false }, *now);
    *now = (*now).max(disk.next_event().expect("a command is in the drive"));
    let done = disk.reap(*now).expect("it is due");
    done.result.expect("memory does not fail")
}

fn in_memory(name: &str, disk: &mut dyn Disk, rounds: u64) {
    let (mut now, mut data) = (Instant::ZERO, Vec::new());
    let mut requests = vec![vec![1; REQUEST_BYTES]; REQUESTS];
    for op in [Op::Write, Op::Read] {
        let (mut copied, mut moved) = (Vec::new(), Vec::new());
        for round in 0..rounds * 2 {
            let len = Sectors((COMMAND_BYTES / 512) as u64);
            let extent = Extent::new(Lba(round / 2 % SPAN * len.0), len);
            let operation = Operation { op, extent, fua: false };
            let copies = round % 2 == 0;
            gather(&requests, &mut data);
            let begun = Wall::now();
            if op == Op::Write && copies {
                gather(&requests, &mut data);
            } else if op == Op::Read {
                data.clear();
            }
            let back = run(disk, &mut now, operation, core::mem::take(&mut data));
            if op == Op::Read && copies {
                scatter(&back, &mut requests);
            }
            if copies { &mut copied } else { &mut moved }.push(begun.elapsed());
            data = back;
        }
        let (copied, moved) = (median(copied), median(moved));
        println!("{name}, {op}: {copied} ns a request with the copy, {moved} without");
    }
}

fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("a thread has run for some time")
}

/// The processor time of `work`, which transfers a whole command.
fn timed(into: &mut Vec<Duration>, work: impl FnOnce() -> rustix::io::Result<usize>) {
    let begun = thread_time();
    let moved = work();
    into.push(thread_time().saturating_sub(begun));
    assert_eq!(moved, Ok(COMMAND_BYTES), "the file is as long");
}

fn with_direct_access(file: &File, rounds: u64) {
    let buffer = |bytes| AlignedBuffer::new(bytes, REQUEST_BYTES);
    let mut requests: Vec<AlignedBuffer> = (0..REQUESTS).map(|_| buffer(REQUEST_BYTES)).collect();
    let mut whole = buffer(COMMAND_BYTES);
    let mut times = [const { Vec::new() }; 4];
    for round in 0..rounds {
        let at = round % SPAN * COMMAND_BYTES as u64;
        let data = whole.bytes(COMMAND_BYTES);
        timed(&mut times[0], || {
            for (part, request) in data.chunks_mut(REQUEST_BYTES).zip(&mut requests) {
                part.copy_from_slice(request.bytes(REQUEST_BYTES));
            }
            pwrite(file, data, at)
        });
        timed(&mut times[1], || {
            let parts = requests.iter_mut().map(|request| request.bytes(REQUEST_BYTES));
            let parts: Vec<_> = parts.map(|part| IoSlice::new(part)).collect();
            pwritev(file, &parts, at)
        });
        timed(&mut times[2], || {
            let moved = pread(file, &mut *data, at);
            for (part, request) in data.chunks(REQUEST_BYTES).zip(&mut requests) {
                request.bytes(REQUEST_BYTES).copy_from_slice(part);
            }
            moved
        });
        timed(&mut times[3], || {
            let parts = requests.iter_mut().map(|request| request.bytes(REQUEST_BYTES));
            let mut parts: Vec<_> = parts.map(IoSliceMut::new).collect();
            preadv(file, &mut parts, at)
        });
    }
    let [written, listed, read, scattered] = times.map(median);
    println!("direct access, write: {written} ns a request with the copy, {listed} from a list");
    println!("direct access, read: {read} ns a request with the copy, {scattered} to a list");
}

/// A file in `dir`, written once, so that its blocks are allocated.
fn direct_file(dir: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    let path = dir.join("gather");
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).custom_flags(flags).open(path)?;
    let mut zeroes = AlignedBuffer::new(COMMAND_BYTES, REQUEST_BYTES);
    for command in 0..SPAN {
        pwrite(&file, zeroes.bytes(COMMAND_BYTES), command * COMMAND_BYTES as u64)?;
    }
    Ok(file)
}

fn main() {
    let is_real = std::env::args().any(|argument| argument == "--bench");
    let rounds = if is_real { 3_000 } else { 2 };
    let spec = drive_library::find("hgst-7k8").expect("it is in the library");
    let model = spec.check().expect("it is sound");
    in_memory("memory", &mut MemoryDisk::new(Sectors(1 << 20)), rounds);
    let store = Box::new(RamStore::default());
    in_memory("emulated drive", &mut EmulatedDisk::new(model, store), rounds);
    let dir = tempfile::tempdir_in(".").expect("a directory that can be written");
    match direct_file(dir.path()) {
        Ok(file) => with_direct_access(&file, rounds),
        Err(error) => println!("direct access: skipped: {error}"),
    }
}
