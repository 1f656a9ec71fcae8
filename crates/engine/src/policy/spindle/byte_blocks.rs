//! The bytes of a stream: which belong to which block, when a block is released and due, and when
//! each byte is, in whatever requests they were asked for.
//!
//! A *block* is what admission has a task for: at most `block` bytes and a cost C of disk time, in
//! one command, or in several if it is longer than the longest. A block begins with the first byte
//! that is queued, one period T after the previous block began at the earliest (its *release*), and
//! is due T after its release. It takes queued bytes in their order until it has `block` of them,
//! until nothing is queued, or until the worst case of the next command exceeds what is left of C.
//! The next command covers all bytes that are queued, follow each other on the disk, and fit: small
//! requests are *gathered*, long ones are several blocks.
//!
//! ```text
//! requests   ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
//! blocks     ├── first bytes: what is queued at its dispatch ──┤├── `block` bytes ──┤├── …
//!            release                            due = release + T
//! ```
//!
//! **What is promised.** Let the queue be empty until an instant a, and let x bytes have been asked
//! for since when a byte arrives, this one included, before the queue is empty again. The byte is
//! answered by a + x ÷ bandwidth + 2 T: not later than two periods after a device that transfers
//! the stream alone at its bandwidth (a latency-rate server). A byte that arrives within bandwidth
//! × time + one block of all before it, so at x ÷ bandwidth - T after a or later, is answered
//! within 3 T; requests of the block's size at least a period apart each within T. Jitter adds
//! itself.
//!
//! *Proof.* Admission and the guard answer every block by its release + T. The first block
//! after a is released by a + T, because the one before was released before a. From then on blocks
//! are released T apart, and each takes `block` bytes, since a block that took less left the queue
//! empty, unless a run of bytes ended in it. So x bytes are answered by a + T + ⌈x ÷ block⌉ T. What
//! the slack serves before its release only advances the rest. ∎
//!
//! A request that does not continue the one before ends a *run* of bytes, and the next one begins a
//! block of its own: in the promise, a run counts as whole blocks. Requests outside of the range,
//! trims and writes of zeroes are best effort; the bytes behind one are promised as if they had
//! arrived when it is dispatched. A flush is a run of no bytes, so that it is not best effort.
//!
//! **What waits to be gathered.** A block is served from its release on, when the slack does not
//! suffice for anything else: late blocks are long. Bytes that are not released yet may be served
//! as best effort: a whole block at once; less of it not before twice the time has passed in which
//! as much as the last request arrives at the stream's bandwidth, since more is to be expected.
//!
//! Nothing is held back while no other volume uses the disk, nor for a client that *waits for its
//! answers* ([`turnaround`]). As many requests as that has outstanding are not delayed, and the
//! selector may serve them as best effort after their release, too: a block that is served as late
//! as it may be would slow the client down to one request a period. Each such command costs a
//! positioning that no contract pays for.

use std::collections::VecDeque;

use units::{DiskTime, Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use self::ahead::Ahead;
use self::turnaround::Turnaround;
use crate::StreamContract;
use crate::request::DeadlineStats;
use crate::stream::{Granularity, Task};

mod ahead;
mod turnaround;

/// The periods by which a byte may be answered later than the bandwidth alone would.
const LATENCY_PERIODS: u64 = 2;

/// A queued request, or the rest of one.
#[derive(Clone, Copy, Debug)]
struct Queued {
    at: Instant,
    /// What has not been dispatched.
    rest: Operation,
    /// Whether it is part of the stream.
    covered: bool,
    /// Whether it continues the request before.
    continues: bool,
    /// Whether a part of it has been dispatched.
    begun: bool,
    /// The time in which the bandwidth transfers it and all before it since the clock's start.
    until: Duration,
}

/// Bytes of one request that are in the drive.
#[derive(Clone, Copy, Debug)]
struct Sent {
    due: Instant,
    len: Sectors,
}

/// The command in the drive.
#[derive(Debug, Default)]
struct InDrive {
    sent: Vec<Sent>,
    /// Whether it is part of a block.
    is_real: bool,
    /// The requests that end with it.
    ended: u32,
}

/// A block that has begun.
#[derive(Clone, Copy, Debug)]
struct OpenBlock {
    release: Instant,
    /// The bytes that it may still take.
    left: Sectors,
    /// The disk time of its completed commands.
    spent: DiskTime,
    /// Whether a command has completed.
    begun: bool,
}

#[derive(Debug)]
pub(super) struct ByteBlocks {
    pub(super) stream: StreamContract,
    /// At which its blocks are served.
    granularity: Granularity,
    /// The longest command, and whether commands gather requests.
    command_max: Sectors,
    gathers: bool,
    queue: VecDeque<Queued>,
    /// The requests at the head of the queue that follow each other, and their sectors.
    run: (usize, Sectors),
    ahead: Ahead,
    block: Option<OpenBlock>,
    /// The release of the first queued byte, if it is part of the stream and that is active.
    release: Option<Instant>,
    /// The earliest release of the next block.
    expected: Instant,
    is_active: bool,
    /// Whether the open block needs positioning again because it was preempted.
    interrupted: bool,
    in_drive: InDrive,
    /// The promise's a, with the time at which the present run began and its sectors.
    clock: Instant,
    run_began: Duration,
    run_sectors: u64,
    /// Where the last read or write ended.
    last_end: Option<Lba>,
    turnaround: Turnaround,
}

/// The time in which `sectors` arrive at one block per period, rounded up.
fn time_of(stream: &StreamContract, sectors: u64) -> Duration {
    let period = u128::from(stream.task.period().as_nanos());
    debug_assert!(stream.block > Sectors::ZERO, "a block has sectors");
    let nanos = (period * u128::from(sectors)).div_ceil(u128::from(stream.block.0));
    Duration::from_nanos(u64::try_from(nanos).expect("a queue is under 584 years"))
}

/// Whether `next` is transferred by the same command as `last` if they are queued together.
fn follows(last: &Operation, next: &Operation) -> bool {
    debug_assert!(next.op != Op::Seek, "no client submits a seek");
    matches!(next.op, Op::Read | Op::Write)
        && (last.op, last.fua) == (next.op, next.fua)
        && last.extent.end() == next.extent.start
}

impl ByteBlocks {
    /// The bytes of `stream` in commands of at most `command_max`, which gather requests or belong
    /// to one each.
    pub(super) fn new(
        (stream, granularity): (StreamContract, Granularity),
        command_max: Sectors,
        gathers: bool,
    ) -> Self {
        assert!(stream.block > Sectors::ZERO, "a block has sectors");
        assert!(command_max > Sectors::ZERO, "a command has sectors");
        Self {
            stream,
            granularity,
            command_max,
            gathers,
            queue: VecDeque::new(),
            run: (0, Sectors::ZERO),
            ahead: Ahead::default(),
            block: None,
            release: None,
            expected: Instant::ZERO,
            is_active: false,
            interrupted: false,
            in_drive: InDrive::default(),
            clock: Instant::ZERO,
            run_began: Duration::ZERO,
            run_sectors: 0,
            last_end: None,
            turnaround: Turnaround::new(),
        }
    }

    /// The task of its blocks, as they are served.
    pub(super) fn task(&self) -> Task {
        debug_assert!(self.stream.task.cost() > DiskTime::ZERO, "a block takes time");
        self.stream.task.at(self.granularity)
    }

    /// Its blocks are served at another granularity from now on. None is released.
    pub(super) fn set_granularity(&mut self, granularity: Granularity) {
        debug_assert!(self.in_drive.sent.is_empty(), "the drive is idle");
        self.granularity = granularity;
        // What has been served of a block says nothing of the rest at the other one.
        if let Some(block) = &mut self.block {
            block.spent = DiskTime::ZERO;
        }
    }

    /// Whether a request is part of the stream. Its length does not matter if commands gather.
    fn covers(&self, operation: &Operation) -> bool {
        let extent = operation.extent;
        let within = |range: Extent| range.start <= extent.start && extent.end() <= range.end();
        debug_assert!(operation.op != Op::Seek, "no client submits a seek");
        match operation.op {
            Op::Read | Op::Write if !self.gathers => self.stream.covers(operation),
            Op::Read | Op::Write => self.stream.range.is_none_or(within),
            Op::Flush => true,
            Op::Trim | Op::WriteZeroes | Op::Seek => false,
        }
    }

    /// A request arrives in the queue.
    pub(super) fn on_arrival(
        &mut self,
        operation: &Operation,
        stats: &mut DeadlineStats,
        now: Instant,
    ) {
        let covered = self.covers(operation);
        debug_assert!(!covered || operation.op != Op::Trim, "a trim is best effort");
        let last = self.queue.back().copied();
        debug_assert!(last.is_none_or(|last| last.at <= now), "requests arrive in order");
        let len = operation.extent.len;
        self.turnaround.on_arrival(len, (self.queue.len(), time_of(&self.stream, len.0)), now);
        if last.is_none() {
            (self.clock, self.run_began, self.run_sectors) = (now, Duration::ZERO, 0);
        }
        let continues = self.gathers
            && covered
            && last.is_some_and(|last| last.covered && follows(&last.rest, operation));
        if !continues {
            self.end_run(operation, stats);
        }
        let before = self.run_began + time_of(&self.stream, self.run_sectors);
        // A flush counts as a block, and so does the smallest run.
        self.run_sectors += if covered { operation.extent.len.0.max(1) } else { 0 };
        let until = self.run_began + time_of(&self.stream, self.run_sectors);
        if covered {
            stats.bytes.asked += operation.extent.len;
            self.count_beyond(before, operation.extent.len, stats, now);
            self.ahead.on_arrival(operation.extent.len, self.stream.block);
        } else {
            stats.bytes.outside += operation.extent.len;
        }
        if !operation.extent.is_empty() {
            self.last_end = Some(operation.extent.end());
        }
        let (at, rest, begun) = (now, *operation, false);
        self.queue.push_back(Queued { at, rest, covered, continues, begun, until });
        if self.run.0 + 1 == self.queue.len() && (continues || last.is_none()) {
            self.run = (self.run.0 + 1, self.run.1 + operation.extent.len);
        }
        if last.is_none() {
            self.release_head(Instant::ZERO);
        }
    }

    /// A run ends, which counts as whole blocks: `next` does not continue it.
    fn end_run(&mut self, next: &Operation, stats: &mut DeadlineStats) {
        let block = self.stream.block.0;
        debug_assert!(block > 0, "a block has sectors");
        let is_whole = self.run_sectors.is_multiple_of(block);
        let is_ordered = next.extent.is_empty() || self.last_end == Some(next.extent.start);
        if !is_whole && !is_ordered {
            stats.bytes.out_of_order += next.extent.len;
        }
        self.run_began += self.stream.task.period() * self.run_sectors.div_ceil(block);
        self.run_sectors = 0;
    }

    /// Counts a request that arrives earlier than the bandwidth allows by more than one block and
    /// the jitter of half a period, or of half the time of such a request, either way.
    fn count_beyond(
        &self,
        before: Duration,
        len: Sectors,
        stats: &mut DeadlineStats,
        now: Instant,
    ) {
        let period = self.stream.task.period();
        let borne = period + period.max(time_of(&self.stream, len.0));
        debug_assert!(self.clock <= now, "the clock starts with an arrival");
        if self.clock + before > now + borne {
            stats.bytes.beyond_rate += len;
        }
    }

    /// The requests that were queued before the stream began are not part of it.
    pub(super) fn rebuild(&mut self, queued: usize, now: Instant) {
        assert!(!self.is_active, "a stream is rebuilt before its activation");
        assert!(self.release.is_none(), "nothing is released before the activation");
        let (rest, until) = (Operation::flush(), Duration::ZERO);
        let (at, covered, continues, begun) = (now, false, false, false);
        let other = Queued { at, rest, covered, continues, begun, until };
        self.queue = (0..queued).map(|_| other).collect();
        self.find_run();
    }

    /// Releases bytes from now on.
    pub(super) fn activate(&mut self, now: Instant) {
        assert!(!self.is_active, "a stream is activated once");
        assert!(self.release.is_none(), "nothing is released before the activation");
        (self.is_active, self.expected) = (true, now);
        // What arrived before is promised from now on.
        self.clock = self.clock.max(now);
        self.release_head(now);
    }

    /// Releases the first queued byte: with the open block, or with the next one, at `soonest` at
    /// the earliest.
    fn release_head(&mut self, soonest: Instant) {
        let head = self.queue.front().filter(|head| head.covered && self.is_active);
        let open = self.block.filter(|block| block.left > Sectors::ZERO);
        self.release = head.map(|head| match open {
            Some(block) => block.release,
            None => head.at.max(self.expected).max(soonest),
        });
        let is_new = open.is_none();
        debug_assert!(!is_new || self.release.is_none_or(|at| at >= self.expected), "T apart");
    }

    /// Finds the run at the head of the queue. Each request is looked at once.
    fn find_run(&mut self) {
        debug_assert_eq!(self.run.0, 0, "the run before has ended");
        let Some(head) = self.queue.front() else {
            self.run = (0, Sectors::ZERO);
            return;
        };
        self.run = (1, head.rest.extent.len);
        for next in self.queue.iter().skip(1).take_while(|next| next.continues) {
            self.run = (self.run.0 + 1, self.run.1 + next.rest.extent.len);
        }
        debug_assert!(self.run.0 <= self.queue.len(), "a run is queued");
    }

    /// The most sectors that the next command covers, gathered from several requests; `None` if it
    /// belongs to the first request alone.
    pub(super) fn gather(&self) -> Option<Sectors> {
        let head = self.queue.front().filter(|head| head.covered && self.gathers)?;
        let left = self.block.map(|block| block.left).filter(|left| *left > Sectors::ZERO);
        let transfers = matches!(head.rest.op, Op::Read | Op::Write);
        debug_assert!(self.run.0 > 0, "a queue has a run");
        let most = left.unwrap_or(self.stream.block).min(self.command_max);
        transfers.then(|| self.run.1.min(most))
    }

    /// The next command; `None` if nothing of the stream is first in the queue.
    pub(super) fn head(&self) -> Option<Operation> {
        let head = self.queue.front().filter(|head| head.covered)?;
        let alone = head.rest.extent.len.min(self.command_max);
        let len = self.gather().unwrap_or(alone);
        debug_assert!(len <= self.run.1, "a command is a part of the run");
        Some(Operation { extent: Extent::new(head.rest.extent.start, len), ..head.rest })
    }

    /// A command goes to the drive. It covers the first `len` queued sectors, and is the last one
    /// of `ended` requests. `is_real`: as part of a block, not as best effort.
    pub(super) fn on_dispatch(
        &mut self,
        command: &Operation,
        (ended, is_real): (u32, bool),
        stats: &mut DeadlineStats,
        now: Instant,
    ) {
        assert!(self.in_drive.sent.is_empty(), "one command is in flight beside streams");
        (self.in_drive.is_real, self.in_drive.ended) = (is_real, ended);
        if self.is_growing() {
            let time = time_of(&self.stream, self.turnaround.last_len().0);
            self.turnaround.on_dispatch((self.queue.len(), time), now);
        }
        let head = *self.queue.front().expect("a dispatched request was queued");
        if self.release.is_some_and(|release| release <= now) {
            self.take_from_block(if is_real { command.extent.len } else { Sectors::ZERO });
        }
        if head.covered {
            self.send((command.extent.len, ended));
        } else {
            assert!(ended <= 1, "what is outside of the stream is not gathered");
            (0..ended).for_each(|_| self.pop());
        }
        if !head.covered && self.queue.front().is_some_and(|next| next.covered) {
            // What waited behind it is promised from now on.
            self.clock = self.clock.max(now.saturating_sub(head.until));
        }
        let is_short = command.extent.len < self.stream.block.min(self.command_max);
        if head.covered && is_short && self.queue.is_empty() && self.turnaround.is_known() {
            stats.bytes.not_gathered += command.extent.len;
        }
        // Where a block is one request, none of its time is left for the next: the pieces of that
        // may be longer than those that the slack has served.
        let is_next = ended > 0 && !self.gathers;
        let goes_on = !is_next && self.queue.front().is_some_and(|next| next.covered);
        if !is_real && let Some(block) = self.block.take_if(|_| !goes_on) {
            // The slack has served what was left of a block.
            stats.answered(block.release + self.stream.task.period(), now);
        }
        self.release_head(if head.covered { Instant::ZERO } else { now });
    }

    /// Moves the first `len` sectors to the drive, with which `ended` requests end.
    fn send(&mut self, (mut len, ended): (Sectors, u32)) {
        self.ahead.on_dispatch(len, self.stream.block);
        let latency = self.stream.task.period() * LATENCY_PERIODS;
        for _ in 0..ended {
            let Queued { rest, until, .. } = self.queue[0];
            self.in_drive
                .sent
                .push(Sent { due: self.clock + until + latency, len: rest.extent.len });
            len = len - rest.extent.len;
            self.pop();
        }
        if len > Sectors::ZERO {
            let head = self.queue.front_mut().expect("a dispatched request was queued");
            let (_, rest) = head.rest.extent.split_at(len);
            (head.rest.extent, head.begun) = (rest, true);
            self.run.1 = self.run.1 - len;
            let until = head.until.saturating_sub(time_of(&self.stream, rest.len.0));
            self.in_drive.sent.push(Sent { due: self.clock + until + latency, len });
        }
        // What was served before the stream was active was not promised.
        self.in_drive.sent.retain(|_| self.is_active);
        debug_assert!(
            self.in_drive.sent.len() as u64 <= self.command_max.0,
            "a request has sectors"
        );
    }

    /// Removes the first request.
    fn pop(&mut self) {
        let first = self.queue.pop_front().expect("a dispatched request was queued");
        self.run = (self.run.0 - 1, self.run.1 - first.rest.extent.len);
        if self.run.0 == 0 {
            self.find_run();
        }
        debug_assert!(self.run.0 <= self.queue.len(), "a run is queued");
    }

    /// A command takes `len` sectors from the block of the first byte, and begins it if it is the
    /// first: none if the slack serves it, so that the block has the more for the rest.
    fn take_from_block(&mut self, len: Sectors) {
        let release = self.release.expect("only released bytes belong to a block");
        let (left, spent, begun) = (self.stream.block, DiskTime::ZERO, false);
        let open = self.block.filter(|block| block.left > Sectors::ZERO);
        let block = open.unwrap_or(OpenBlock { release, left, spent, begun });
        self.block = Some(OpenBlock { left: block.left - len.min(block.left), ..block });
        self.expected = block.release + self.stream.task.period();
        assert!(self.expected > release, "releases are a period apart");
    }

    /// The command in the drive had the service time `took`. `worst` gives the worst case of a
    /// command; a return positioning takes at most `preemption`.
    pub(super) fn on_completion(
        &mut self,
        (took, preemption): (DiskTime, DiskTime),
        worst: impl Fn(&Operation) -> DiskTime,
        stats: &mut DeadlineStats,
        now: Instant,
    ) {
        assert!(took >= DiskTime::ZERO, "a service time is not negative: {took}");
        for Sent { due, len } in self.in_drive.sent.drain(..) {
            stats.bytes.answered(len, due, now);
        }
        if self.in_drive.ended > 0 {
            let outstanding = self.queue.len() + core::mem::take(&mut self.in_drive.ended) as usize;
            self.turnaround.on_answer(outstanding, now);
        }
        if !core::mem::take(&mut self.in_drive.is_real) {
            return;
        }
        let is_interrupted = core::mem::take(&mut self.interrupted);
        let Some(mut block) = self.block else { return };
        // A return positioning, if there was one, is not part of the admitted cost.
        let return_cost = if is_interrupted { preemption } else { DiskTime::ZERO };
        block.spent += (took - return_cost).max(DiskTime::ZERO);
        block.begun = true;
        let left = self.continues(block, worst);
        if left > Sectors::ZERO {
            self.block = Some(OpenBlock { left, ..block });
            return;
        }
        stats.answered(block.release + self.stream.task.period(), now);
        self.block = None;
        self.release_head(Instant::ZERO);
    }

    /// The sectors with which `block` continues; zero if it ends.
    fn continues(&self, block: OpenBlock, worst: impl Fn(&Operation) -> DiskTime) -> Sectors {
        debug_assert!(block.begun, "a block that has not begun does not end");
        let fits = |head: &Operation| block.spent + worst(head) <= self.task().cost();
        let Some(head) = self.head().filter(|_| block.left > Sectors::ZERO) else {
            return Sectors::ZERO;
        };
        if !self.gathers {
            // A block is one request, in pieces whose sum was admitted.
            let is_rest = self.queue.front().is_some_and(|head| head.begun);
            return if is_rest { block.left } else { Sectors::ZERO };
        }
        // More may be gathered before the next command goes: as much as fits then, too.
        let longest = Extent::new(head.extent.start, block.left.min(self.command_max));
        if fits(&Operation { extent: longest, ..head }) {
            return block.left;
        }
        if fits(&head) { head.extent.len } else { Sectors::ZERO }
    }

    /// Another volume is served now. Returns whether that interrupts a block.
    pub(super) fn preempt(&mut self) -> bool {
        // The worst case of a gathered command includes its positioning.
        self.interrupted = !self.gathers && self.is_begun();
        debug_assert!(!self.interrupted || self.block.is_some(), "a begun block is open");
        self.interrupted
    }

    /// Whether a block has begun and continues.
    pub(super) fn is_begun(&self) -> bool {
        debug_assert!(self.block.is_none() || self.is_active, "an active stream has blocks");
        self.block.is_some_and(|block| block.begun) && !self.queue.is_empty()
    }

    /// The worst case of the rest of the first block, whose next command takes `head` at most, with
    /// a return positioning of `preemption`.
    pub(super) fn remaining(&self, head: DiskTime, preemption: DiskTime) -> DiskTime {
        debug_assert!(head >= DiskTime::ZERO, "a worst case is not negative: {head}");
        let return_cost = if self.interrupted { preemption } else { DiskTime::ZERO };
        let spent = self.block.map_or(DiskTime::ZERO, |block| block.spent);
        (self.task().cost() - spent + return_cost).max(head)
    }

    /// When the first queued byte is released.
    pub(super) fn release(&self) -> Option<Instant> {
        debug_assert!(self.release.is_none() || self.is_active, "an active stream releases");
        self.release
    }

    /// When the block of the first queued byte is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        debug_assert!(self.release.is_none() || !self.queue.is_empty(), "what is due is queued");
        self.release.map(|release| release + self.stream.task.period())
    }

    /// The earliest release of a block that is not released by `now`.
    pub(super) fn next_release(&self, now: Instant) -> Instant {
        let next = match (self.release, self.block) {
            (Some(release), _) if release > now => release,
            (Some(release), None) => (release + self.stream.task.period()).max(now),
            _ => self.expected.max(now),
        };
        debug_assert!(next >= now, "a further block is not released in the past");
        next
    }

    /// Whether the next command is shorter than one may be, and a request may still join it.
    fn is_growing(&self) -> bool {
        let whole = self.command_max.min(self.stream.block);
        debug_assert!(whole > Sectors::ZERO, "a command has sectors");
        self.gathers && self.run.0 == self.queue.len() && self.run.1 < whole
    }

    /// When the first bytes may be served by the slack: not while more that belong to the same
    /// command are to be expected.
    pub(super) fn waits_until(&self) -> Instant {
        let time = time_of(&self.stream, self.turnaround.last_len().0);
        let hold = if self.is_growing() {
            self.turnaround.hold(self.queue.len(), time)
        } else {
            Duration::ZERO
        };
        debug_assert!(hold <= time * 2, "more is expected soon");
        self.turnaround.last_arrival() + hold
    }

    /// Whether the slack may serve the first bytes although they are released: the client seems to
    /// wait for them, and sends nothing that could be gathered, or it is far ahead, or the volume
    /// has a reserve besides, which serves what cannot be gathered further: a run that has ended.
    pub(super) fn is_offered(&self, has_reserve: bool, now: Instant) -> bool {
        let waits = self.turnaround.is_waiting(self.queue.len());
        debug_assert!(!waits || !self.queue.is_empty(), "a client waits for something");
        let is_whole = has_reserve && !self.is_growing();
        waits || is_whole || self.ahead.is_far() || self.is_growing() && self.waits_until() <= now
    }

    pub(super) fn invariants(&self) {
        let run = self.queue.iter().take(self.run.0).map(|queued| queued.rest.extent.len);
        assert_eq!(run.fold(Sectors::ZERO, |sum, len| sum + len), self.run.1, "a run's sectors");
        assert!(self.run.0 <= self.queue.len(), "a run is queued");
        assert_eq!(self.run.0 == 0, self.queue.is_empty(), "a queue has a run");
        let covered = self.queue.iter().filter(|queued| queued.covered);
        let sum = covered.fold(Sectors::ZERO, |sum, queued| sum + queued.rest.extent.len);
        assert_eq!(sum, self.ahead.queued(), "the queued sectors of the stream");
        assert!(self.release.is_none() || self.queue[0].covered, "only a covered head is released");
    }
}

#[cfg(test)]
mod tests;
