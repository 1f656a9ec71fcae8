//! A real disk: a block device of this machine, or a regular file.
//!
//! ```text
//!  submit ─▶ [waits for a block that another ─┬─▶ ring ─ start: one system call for all ─▶ disk
//!             command modifies]               └─▶ workers ─ a system call each ─────────▶
//!  reap ◀── completions ◀── ring (its descriptor), workers (the waker)
//! ```
//!
//! Reads, writes of whole blocks and flushes go through io_uring; trims, zeroes and
//! read-modify-writes, which take several system calls each, are made by a few threads. Without
//! io_uring, threads make all of them, as many as the disk's queue depth.
//!
//! A flush is fdatasync(2), a forced write has `RWF_DSYNC`. Trimmed and zeroed sectors read as
//! zeroes; zeroed ones stay allocated on request. A write of a part of a block is a
//! read-modify-write.
//!
//! Invariants: of two commands that share a block which one of them modifies in part, the second
//! begins when the first has completed; an error is reported as it came, and nothing is retried;
//! this process has the disk exclusively while it is open.

mod caller;
mod open;
mod ring;
#[cfg(test)]
mod tests;
mod workers;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use units::{Extent, Instant, Op, Sectors};

use self::caller::{Caller, Open, within};
pub use self::open::{RealError, RealOptions};
use self::ring::{Does, Flight, Memory, Ring};
use self::workers::Workers;
use crate::device::{DeviceInfo, WriteCache, WriteCacheState, WriteCacheUse};
use crate::disk::{Allocation, Completion, Disk, Failure, IoMethod, Job, Tag, Waker};
use crate::emulated::store::allocation_of;

/// Threads beside io_uring, for commands of several system calls.
const WORKERS_BESIDE: u32 = 4;
/// Shorter transfers are copied to or from registered memory: cheaper than mapping the request's.
/// So are lists whose buffers are shorter on average, each of which is mapped on its own: 32 of
/// 4 KiB cost 1.03 to 1.22 of the copy in processor time (`cargo bench --bench gather`).
const COPY_MAX: Sectors = Sectors(64);

/// A real disk.
pub struct RealDisk {
    open: Arc<Open>,
    ring: Option<Ring>,
    workers: Workers,
    /// The number of jobs that the workers have.
    at_workers: usize,
    /// Whether the last start began everything: the kernel may lack a resource.
    started: bool,
    /// For reads outside of the command queue.
    caller: Caller,
    capacity: Sectors,
    depth: usize,
    block_device: bool,
    /// The jobs of the ring and the workers.
    begun: Vec<Claim>,
    /// Jobs that wait for one of those, or for one that waits before them.
    waiting: VecDeque<(Claim, Job)>,
    done: VecDeque<Completion>,
    now: Instant,
}

/// The blocks that a job touches.
#[derive(Clone, Copy, Debug)]
struct Claim {
    tag: Tag,
    /// In whole blocks.
    blocks: Extent,
    writes: bool,
    /// Whether it is a read-modify-write.
    changes: bool,
}

impl Claim {
    fn excludes(&self, other: &Self) -> bool {
        let apart =
            self.blocks.end() <= other.blocks.start || other.blocks.end() <= self.blocks.start;
        !apart && (self.changes && other.writes || other.changes && self.writes)
    }
}

impl RealDisk {
    /// Opens the disk at `path`.
    ///
    /// # Errors
    /// See [`RealError`].
    ///
    /// # Panics
    /// If the depth is zero.
    pub fn open(path: &Path, opening: RealOptions) -> Result<Self, RealError> {
        assert!(opening.depth > 0, "a disk takes a command");
        let (file, facts) = open::open(path, opening)?;
        let asked = opening.write_cache;
        let cache = match facts.sysfs.as_deref() {
            Some(of) => Some(WriteCache::open(of, asked).map_err(RealError::WriteCache)?),
            // What is behind a file is its file system's.
            None if asked == WriteCacheUse::Off => {
                return Err(RealError::WriteCache(io::Error::other("it is a file")));
            }
            None => None,
        };
        Self::serve(file, &facts, (opening, cache))
    }

    /// Starts ring and workers on an open file.
    fn serve(
        file: File,
        facts: &DeviceInfo,
        (opening, cache): (RealOptions, Option<WriteCache>),
    ) -> Result<Self, RealError> {
        let open = Arc::new(Open::new(file, facts, (opening, cache)));
        let depth = usize::try_from(opening.depth).expect("a few");
        let wanted = opening.ring && !opening.buffered;
        // The reason why there is no ring does not matter: threads serve as well, at a higher cost.
        let ring = wanted.then(|| Ring::new(&open, depth).ok()).flatten();
        let beside = opening.depth.min(WORKERS_BESIDE);
        let workers = if ring.is_some() { beside } else { opening.depth };
        let workers = Workers::start(&open, workers)?;
        Ok(Self {
            caller: Caller::new(Arc::clone(&open)),
            open,
            ring,
            workers,
            at_workers: 0,
            started: true,
            capacity: opening.capacity,
            depth,
            block_device: facts.block_device,
            begun: Vec::new(),
            waiting: VecDeque::new(),
            done: VecDeque::new(),
            now: Instant::ZERO,
        })
    }

    fn claim(&self, job: &Job) -> Claim {
        let operation = job.operation;
        let extent = operation.extent;
        let writes = operation.op.writes() && operation.op != Op::Flush;
        let changes = writes && self.open.splits_blocks(extent);
        Claim { tag: job.tag, blocks: self.open.blocks(extent), writes, changes }
    }

    /// Begins the waiting jobs that no other job excludes.
    fn begin_ready(&mut self) {
        let mut index = 0;
        while let Some((claim, _)) = self.waiting.get(index) {
            let before = self.waiting.iter().take(index).map(|(claim, _)| claim);
            if self.begun.iter().chain(before).any(|other| other.excludes(claim)) {
                index += 1;
                continue;
            }
            let (claim, job) = self.waiting.remove(index).expect("it is there");
            self.begun.push(claim);
            self.begin(claim, job);
        }
    }

    fn begin(&mut self, claim: Claim, job: Job) {
        let does = match job.operation.op {
            Op::Read => Some(Does::Read),
            // A flush that follows it is a second system call.
            Op::Write if job.operation.fua && self.open.flushes => None,
            Op::Write if !claim.changes => Some(Does::Write { forced: job.operation.fua }),
            Op::Flush => Some(Does::Flush),
            _ => None,
        };
        if let (Some(ring), Some(does)) = (&mut self.ring, does) {
            let flight = flight(&self.open, ring, does, claim.blocks, job);
            ring.push(flight);
        } else {
            self.at_workers += 1;
            self.workers.submit(job);
        }
    }

    /// A completion of the ring.
    fn reap_ring(&mut self) -> Option<Completion> {
        let ring = self.ring.as_mut()?;
        let (mut flight, how) = ring.reap()?;
        let (tag, extent, blocks) = (flight.job.tag, flight.job.operation.extent, flight.blocks);
        if flight.does == Does::Read
            && how.is_ok()
            && let Some(memory) = flight.memory.bytes(blocks.len)
        {
            flight.job.data.scatter(extent, &memory[within(blocks, extent)]);
        }
        let data = ring.keep(flight.memory).unwrap_or(flight.job.data);
        let result = how.map_err(|error| self.open.failure(&error));
        Some(Completion { tag, result, data, delay: None })
    }
}

/// The job with its memory: its own buffers, if they are long and aligned.
fn flight(open: &Open, ring: &mut Ring, does: Does, blocks: Extent, mut job: Job) -> Flight {
    if does == Does::Flush {
        return Flight::new(job, does, blocks, Memory::None);
    }
    let bytes = blocks.len.bytes_usize();
    let is_long = blocks.len.0 > COPY_MAX.0 * job.data.count() as u64;
    if is_long && blocks == job.operation.extent && open.suits(blocks, &job.data) {
        let memory = ring.payload(core::mem::take(&mut job.data));
        return Flight::new(job, does, blocks, memory);
    }
    let mut memory = ring.memory(bytes);
    if let (Does::Write { .. }, Some(memory)) = (does, memory.bytes(blocks.len)) {
        job.data.gather(blocks, memory);
    }
    Flight::new(job, does, blocks, memory)
}

impl Disk for RealDisk {
    fn capacity(&self) -> Sectors {
        self.capacity
    }

    fn submit(&mut self, job: Job, now: Instant) {
        let (op, extent) = (job.operation.op, job.operation.extent);
        let inside = op == Op::Flush || extent.end().0 <= self.capacity.0;
        assert!(inside, "the extent lies inside the disk");
        assert!(job.data.fit(job.operation), "a write brings its data, nothing else brings any");
        assert!(self.begun.len() + self.waiting.len() < self.depth, "a worker is free");
        self.now = now;
        let claim = self.claim(&job);
        self.waiting.push_back((claim, job));
        self.begin_ready();
    }

    fn next_event(&self) -> Option<Instant> {
        // A completion wakes the driver. One that was taken and not reaped is due now, and a start
        // that failed is retried.
        (!self.done.is_empty() || !self.started).then_some(self.now)
    }

    fn reap(&mut self, now: Instant) -> Option<Completion> {
        self.now = now;
        if self.done.is_empty() && self.at_workers > 0 {
            self.workers.take(&mut self.done);
            self.at_workers -= self.done.len();
        }
        let finished = match self.done.pop_front() {
            Some(finished) => finished,
            None => self.reap_ring()?,
        };
        let index = self.begun.iter().position(|claim| claim.tag == finished.tag);
        self.begun.swap_remove(index.expect("a completed job had begun"));
        self.begin_ready();
        Some(finished)
    }

    fn start(&mut self) {
        self.started = self.ring.as_mut().is_none_or(Ring::start);
    }

    fn completion_fd(&self) -> Option<BorrowedFd<'_>> {
        self.ring.as_ref().map(AsFd::as_fd)
    }

    fn has_completions(&mut self) -> bool {
        self.ring.as_mut().is_some_and(Ring::has_ended)
    }

    fn io_method(&self) -> Option<IoMethod> {
        let through = |ring: &Ring| IoMethod::IoUring { registered: ring.is_registered() };
        Some(self.ring.as_ref().map_or(IoMethod::Threads, through))
    }

    fn write_cache(&self) -> Option<WriteCacheState> {
        self.open.cache.as_ref().map(WriteCache::state)
    }

    fn allocation(&mut self, extent: Extent) -> Option<(Allocation, Sectors)> {
        (!self.block_device).then(|| allocation_of(&self.open.file, extent))
    }

    fn read_blocking(&mut self, extent: Extent) -> Result<Vec<u8>, Failure> {
        assert!(extent.end().0 <= self.capacity.0, "the extent lies inside the disk");
        self.caller.read(extent)
    }

    fn set_waker(&mut self, waker: Waker) {
        self.workers.set_waker(waker);
    }
}
