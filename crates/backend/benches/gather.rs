//! What it costs to copy the requests of a merged command into one buffer and out of it, and what
//! a list of their buffers costs instead: `cargo bench -p spindle-backend --bench gather`.
//!
//! Neighbours of 4, 32 or 64 KiB are one command of 128 KiB. Each kind of disk serves it in turn
//! from one buffer, with the copy; from a list; and, a real disk, from a list whose buffers are
//! aligned for direct access. On disks in memory what counts is the time, on a file with direct
//! access the processor time of all threads, as the rest is the device's. Times are per command,
//! the median of the rounds, which alternate. Without `--bench` it only looks whether it runs.

#![expect(clippy::disallowed_methods, reason = "it measures itself by the wall clock")]

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant as Wall};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};
use spindle_backend::device::WriteCacheUse;
use spindle_backend::{
    Buffers, Disk, EmulatedDisk, Job, MemoryDisk, Part, RamStore, RealDisk, RealOptions, Tag,
};
use units::{Extent, Instant, Lba, Op, Operation, Sectors};

const COMMAND: Sectors = Sectors(256);
/// The requests' lengths.
const LENGTHS: [Sectors; 3] = [Sectors(8), Sectors(64), Sectors(128)];
/// The commands that lie in the part that is read and written.
const SPAN: u64 = 256;
/// Where direct access takes any address.
const ALIGN: usize = 4_096;

/// The time of the round in the middle, in nanoseconds.
fn median(mut rounds: Vec<Duration>) -> u128 {
    assert!(!rounds.is_empty(), "there is a round");
    rounds.sort();
    rounds[rounds.len() / 2].as_nanos()
}

/// A buffer of a request, aligned for direct access, or as the allocator gives it.
fn buffer(len: Sectors, is_aligned: bool) -> Vec<u8> {
    let mut others = Vec::new();
    loop {
        // Not a multiple of the alignment: the next one begins elsewhere.
        let mut bytes = Vec::with_capacity(len.bytes_usize() + 16);
        bytes.resize(len.bytes_usize(), 1);
        if !is_aligned || bytes.as_ptr().align_offset(ALIGN) == 0 {
            return bytes;
        }
        others.push(bytes);
        assert!(others.len() < 100_000, "the allocator gives all addresses");
    }
}

/// A disk, what wakes its driver, and the clock that counts.
struct Driver<'a> {
    disk: &'a mut dyn Disk,
    woken: Arc<OwnedFd>,
    now: Instant,
    clock: fn() -> Duration,
}

impl<'a> Driver<'a> {
    fn new(disk: &'a mut dyn Disk, clock: fn() -> Duration) -> Self {
        let woken = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor"));
        let waker = Arc::clone(&woken);
        disk.set_waker(Arc::new(move || {
            rustix::io::write(&*waker, &1_u64.to_ne_bytes()).expect("it counts far");
        }));
        Self { disk, woken, now: Instant::ZERO, clock }
    }

    /// Sleeps until a completion can be reaped.
    fn sleep(&self) {
        let watch = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        // A disk without a descriptor has its waker alone.
        let watched = watch(self.disk.completion_fd().unwrap_or_else(|| self.woken.as_fd()));
        let ready = poll(&mut [watched, watch(self.woken.as_fd())], None).expect("it ends");
        assert!(ready > 0, "a command ends");
        // Drained, so that the next sleep waits for the next wake-up.
        let _ = rustix::io::read(&*self.woken, &mut [0; 8]);
    }

    /// One command, from its submission until it is reaped when it is due.
    fn run(&mut self, operation: Operation, data: Buffers) -> Buffers {
        self.disk.submit(Job { tag: Tag(1), operation, data, no_hole: false }, self.now);
        self.disk.start();
        loop {
            match self.disk.next_event() {
                Some(due) => self.now = self.now.max(due),
                None => self.sleep(),
            }
            if let Some(done) = self.disk.reap(self.now) {
                done.result.expect("nothing fails");
                return done.data;
            }
        }
    }

    /// The requests' data by one buffer, with the copy. What it took.
    fn copied(&mut self, operation: Operation, requests: &mut [Vec<u8>], whole: &mut Vec<u8>) {
        let count = requests.len();
        whole.clear();
        if operation.op == Op::Write {
            for request in requests.iter() {
                whole.extend_from_slice(request);
            }
        }
        let data = self.run(operation, core::mem::take(whole).into());
        *whole = data.into_bytes();
        assert_eq!(whole.len(), COMMAND.bytes_usize(), "a command has all of its requests");
        if operation.op == Op::Read {
            for (part, request) in whole.chunks(COMMAND.bytes_usize() / count).zip(requests) {
                request.clear();
                request.extend_from_slice(part);
            }
        }
    }

    /// The requests' data by a list of their buffers.
    fn listed(&mut self, operation: Operation, requests: &mut [Vec<u8>], list: &mut Vec<Part>) {
        let len = Sectors(COMMAND.0 / requests.len() as u64);
        list.extend(requests.iter_mut().map(|request| {
            let mut bytes = core::mem::take(request);
            if operation.op == Op::Read {
                bytes.clear();
            }
            Part { len, bytes }
        }));
        let Buffers::List(mut back) = self.run(operation, Buffers::List(core::mem::take(list)))
        else {
            unreachable!("the list comes back")
        };
        for (request, part) in requests.iter_mut().zip(back.drain(..)) {
            *request = part.bytes;
        }
        *list = back;
    }
}

fn measure(name: &str, driver: &mut Driver<'_>, len: Sectors, rounds: u64) {
    let count = COMMAND.0 / len.0;
    let mut requests = [false, false, true].map(|is_aligned| {
        let buffers = (0..count).map(|_| buffer(len, is_aligned));
        buffers.collect::<Vec<_>>()
    });
    let (mut whole, mut list) = (Vec::new(), Vec::new());
    for op in [Op::Write, Op::Read] {
        let mut times = [const { Vec::new() }; 3];
        for round in 0..rounds * 3 {
            let extent = Extent::new(Lba(round / 3 % SPAN * COMMAND.0), COMMAND);
            let operation = Operation { op, extent, fua: false };
            let how = usize::try_from(round % 3).expect("one of three");
            let of = &mut requests[how];
            // The command's memory is as warm each time.
            assert!(of.iter().all(|request| request.iter().all(|byte| *byte == 1)));
            let begun = (driver.clock)();
            if how == 0 {
                driver.copied(operation, of, &mut whole);
            } else {
                driver.listed(operation, of, &mut list);
            }
            times[how].push((driver.clock)().saturating_sub(begun));
        }
        let [copied, listed, aligned] = times.map(median);
        println!(
            "{name}, {op} of {count} requests: {copied} ns with the copy, {listed} by a list, \
             {aligned} by an aligned one"
        );
    }
}

fn wall() -> Duration {
    static BEGUN: std::sync::OnceLock<Wall> = std::sync::OnceLock::new();
    BEGUN.get_or_init(Wall::now).elapsed()
}

/// The processor time of all threads.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(now).expect("a process has run for some time")
}

/// A file in `dir`, with io_uring or with threads.
fn real(dir: &Path, ring: bool) -> Result<RealDisk, spindle_backend::RealError> {
    let path = dir.join("gather");
    let capacity = Sectors(SPAN * COMMAND.0);
    File::create(&path).and_then(|file| file.set_len(capacity.bytes().0)).expect("space");
    let write_cache = WriteCacheUse::Flushed;
    let (buffered, adopt) = (false, false);
    RealDisk::open(&path, RealOptions { capacity, depth: 1, buffered, adopt, ring, write_cache })
}

fn main() {
    let is_real = std::env::args().any(|argument| argument == "--bench");
    let rounds = if is_real { 3_000 } else { 2 };
    let spec = drive_library::find("hgst-7k8").expect("it is in the library");
    let model = spec.check().expect("it is sound");
    let memory = &mut MemoryDisk::new(Sectors(1 << 20));
    measure("memory", &mut Driver::new(memory, wall), LENGTHS[0], rounds);
    let emulated = &mut EmulatedDisk::new(model, Box::new(RamStore::default()));
    measure("emulated drive", &mut Driver::new(emulated, wall), LENGTHS[0], rounds);
    let dir = tempfile::tempdir_in(".").expect("a directory that can be written");
    for ring in [true, false] {
        match real(dir.path(), ring) {
            Ok(mut disk) => {
                let name = format!("file ({})", disk.io_method().expect("it is a real disk"));
                let mut driver = Driver::new(&mut disk, processor_time);
                for len in LENGTHS {
                    measure(&name, &mut driver, len, rounds);
                }
            }
            Err(error) => println!("a file: skipped: {error}"),
        }
    }
}
