//! A real disk: a block device of this machine, or a file that stands for one.
//!
//! ```text
//!  submit ─▶ [waits for a block that another changes] ─▶ workers ─ system calls ─▶ the disk
//!  reap ◀──────────────────── what has ended ◀──────────────┘ └─▶ waker
//! ```
//!
//! A flush is fdatasync(2), a forced write one with `RWF_DSYNC`. What is trimmed or zeroed reads as zeroes from then on, and
//! keeps its space only if that was asked for. What does not begin and end on the disk's blocks is read, changed and written.
//!
//! Invariants: of two commands that share a block of which one changes a part, the second begins when the first has ended;
//! an error is told as it came, and nothing is tried again; the disk is this process's alone for as long as it is open.

mod caller;
mod open;
#[cfg(test)]
mod tests;
mod workers;

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use units::{Extent, Instant, Op, Sectors};

use self::caller::{Caller, Open};
pub use self::open::{Opening, RealError};
use self::workers::Workers;
use crate::device::Facts;
use crate::store::space_of;
use crate::{Disk, Failure, Finished, Job, Space, Tag, Waker};

/// A real disk.
pub struct Real {
    open: Arc<Open>,
    workers: Workers,
    /// For looks at it outside of commands.
    caller: Caller,
    capacity: Sectors,
    depth: usize,
    block_device: bool,
    /// What the workers have.
    given: Vec<Claim>,
    /// What has to wait for one of those, or for one that waits before it.
    waiting: VecDeque<(Claim, Job)>,
    done: VecDeque<Finished>,
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

impl Real {
    /// Opens the disk at `path`.
    ///
    /// # Errors
    /// See [`RealError`].
    ///
    /// # Panics
    /// If the depth is zero.
    pub fn open(path: &Path, opening: Opening) -> Result<Self, RealError> {
        assert!(opening.depth > 0, "a disk takes a command");
        let (file, facts) = open::open(path, opening)?;
        Self::serve(file, &facts, opening)
    }

    /// Starts on what is open.
    fn serve(file: File, facts: &Facts, opening: Opening) -> Result<Self, RealError> {
        let open = Arc::new(Open::new(file, facts, opening.buffered));
        let workers = Workers::start(&open, opening.depth)?;
        Ok(Self {
            caller: Caller::new(Arc::clone(&open)),
            open,
            workers,
            capacity: opening.capacity,
            depth: usize::try_from(opening.depth).expect("a few"),
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

    /// Gives the workers what need not wait any longer.
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
            self.workers.give(job);
        }
    }
}

impl Disk for Real {
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
        // What ends wakes whoever waits; what has been taken and not reaped is there already.
        (!self.done.is_empty()).then_some(self.now)
    }

    fn reap(&mut self, now: Instant) -> Option<Finished> {
        self.now = now;
        if self.done.is_empty() {
            self.workers.take(&mut self.done);
        }
        let finished = self.done.pop_front()?;
        let place = self.given.iter().position(|claim| claim.tag == finished.tag);
        self.given.swap_remove(place.expect("what has ended was given"));
        self.give();
        Some(finished)
    }

    fn space(&mut self, extent: Extent) -> Option<(Space, Sectors)> {
        (!self.block_device).then(|| space_of(&self.open.file, extent))
    }

    fn read_now(&mut self, extent: Extent) -> Result<Vec<u8>, Failure> {
        assert!(extent.end().0 <= self.capacity.0, "the extent lies inside the disk");
        self.caller.read(extent)
    }

    fn wake_by(&mut self, waker: Waker) {
        self.workers.wake_by(waker);
    }
}
