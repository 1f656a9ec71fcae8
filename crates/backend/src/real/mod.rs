//! A real disk: a block device of this machine, or a file that stands for one.
//!
//! ```text
//!  submit ─▶ [waits for a block that another changes] ─┬─▶ ring ─ start: one system call for all ─▶ the disk
//!                                                      └─▶ workers ─ a system call each ──────────▶
//!  reap ◀── what has ended ◀── ring (its bell), workers (the waker)
//! ```
//!
//! Reads, writes of whole blocks and flushes go through io_uring; trims, zeroes and writes of parts
//! of blocks, which are several system calls each, are made by a few threads. Where the kernel lets
//! us have no ring, threads make them all, as many as the disk's depth.
//!
//! A flush is fdatasync(2), a forced write one with `RWF_DSYNC`. What is trimmed or zeroed reads as
//! zeroes from then on, and keeps its space only if that was asked for. What does not begin and end
//! on the disk's blocks is read, changed and written.
//!
//! Invariants: of two commands that share a block of which one changes a part, the second begins
//! when the first has ended; an error is told as it came, and nothing is tried again; the disk is
//! this process's alone for as long as it is open.

mod caller;
mod open;
mod ring;
#[cfg(test)]
mod tests;
mod workers;

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use units::{Extent, Instant, Op, Sectors};

use self::caller::{Caller, Open, within};
pub use self::open::{RealError, RealOptions};
use self::ring::{Does, Flight, Memory, Ring};
use self::workers::Workers;
use crate::device::DeviceInfo;
use crate::disk::{Allocation, Completion, Disk, Failure, IoMethod, Job, Tag, Waker};
use crate::emulated::store::allocation_of;

/// Threads beside a ring, for what takes several system calls.
const WORKERS_BESIDE: u32 = 4;
/// What is shorter is copied to or from memory that the kernel knows, which takes less than to tell
/// it of the request's.
const COPY_MAX: Sectors = Sectors(64);

/// A real disk.
pub struct RealDisk {
    open: Arc<Open>,
    ring: Option<Ring>,
    workers: Workers,
    /// How many jobs they have.
    at_workers: usize,
    /// Whether everything had begun when that was last asked for: the kernel may be short of
    /// something.
    started: bool,
    /// For looks at it outside of commands.
    caller: Caller,
    capacity: Sectors,
    depth: usize,
    block_device: bool,
    /// What the ring and the workers have.
    given: Vec<Claim>,
    /// What has to wait for one of those, or for one that waits before it.
    waiting: VecDeque<(Claim, Job)>,
    done: VecDeque<Completion>,
    now: Instant,
}

/// What of the disk a job touches.
#[derive(Clone, Copy, Debug)]
struct Claim {
    tag: Tag,
    /// In whole blocks.
    blocks: Extent,
    writes: bool,
    /// Whether it reads a block to change a part of it.
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
        Self::serve(file, &facts, opening)
    }

    /// Starts on what is open.
    fn serve(file: File, facts: &DeviceInfo, opening: RealOptions) -> Result<Self, RealError> {
        let open = Arc::new(Open::new(file, facts, opening.buffered));
        let depth = usize::try_from(opening.depth).expect("a few");
        let wanted = opening.ring && !opening.buffered;
        // Why there is none does not matter: threads do as well, if not as fast.
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
            given: Vec::new(),
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

    /// Has begun what need not wait any longer.
    fn give(&mut self) {
        let mut nth = 0;
        while let Some((claim, _)) = self.waiting.get(nth) {
            let before = self.waiting.iter().take(nth).map(|(claim, _)| claim);
            if self.given.iter().chain(before).any(|other| other.excludes(claim)) {
                nth += 1;
                continue;
            }
            let (claim, job) = self.waiting.remove(nth).expect("it is there");
            self.given.push(claim);
            self.begin(claim, job);
        }
    }

    fn begin(&mut self, claim: Claim, job: Job) {
        let does = match job.operation.op {
            Op::Read => Some(Does::Read),
            Op::Write if !claim.changes => Some(Does::Write { forced: job.operation.fua }),
            Op::Flush => Some(Does::Flush),
            _ => None,
        };
        if let (Some(ring), Some(does)) = (&mut self.ring, does) {
            let flight = flight(&self.open, ring, does, claim.blocks, job);
            ring.push(flight);
        } else {
            self.at_workers += 1;
            self.workers.give(job);
        }
    }

    /// What the ring says has ended.
    fn landed(&mut self) -> Option<Completion> {
        let ring = self.ring.as_mut()?;
        let (mut flight, how) = ring.reap()?;
        let (tag, extent, blocks) = (flight.job.tag, flight.job.operation.extent, flight.blocks);
        let mut data = core::mem::take(&mut flight.job.data);
        if flight.does == Does::Read
            && how.is_ok()
            && let Some(memory) = flight.memory.bytes(blocks.len)
        {
            data.clear();
            data.extend_from_slice(&memory[within(blocks, extent)]);
        }
        let data = ring.keep(flight.memory).unwrap_or(data);
        let result = how.map(|()| data).map_err(|error| self.open.failure(&error));
        Some(Completion { tag, result, delay: None })
    }
}

/// The job with the memory that it is carried out in: its own, if that is worth it and lies as it
/// has to.
fn flight(open: &Open, ring: &mut Ring, does: Does, blocks: Extent, mut job: Job) -> Flight {
    if does == Does::Flush {
        return Flight::new(job, does, blocks, Memory::None);
    }
    let bytes = blocks.len.bytes_usize();
    let whole = blocks == job.operation.extent && blocks.len > COPY_MAX;
    if whole && job.data.capacity() >= bytes && open.suits(&job.data) {
        let data = core::mem::take(&mut job.data);
        return Flight::new(job, does, blocks, Memory::Payload(data));
    }
    let mut memory = ring.memory(bytes);
    if let (Does::Write { .. }, Some(memory)) = (does, memory.bytes(blocks.len)) {
        memory.copy_from_slice(&job.data);
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
        let expected = if op == Op::Write { extent.len.bytes_usize() } else { 0 };
        assert_eq!(job.data.len(), expected, "a write brings its data, nothing else brings any");
        assert!(self.given.len() + self.waiting.len() < self.depth, "a worker is free");
        self.now = now;
        let claim = self.claim(&job);
        self.waiting.push_back((claim, job));
        self.give();
    }

    fn next_event(&self) -> Option<Instant> {
        // What ends wakes whoever waits; what has been taken and not reaped is there already, and
        // what could not begin is tried again.
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
            None => self.landed()?,
        };
        let place = self.given.iter().position(|claim| claim.tag == finished.tag);
        self.given.swap_remove(place.expect("what has ended was given"));
        self.give();
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
