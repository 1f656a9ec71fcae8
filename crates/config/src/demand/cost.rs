//! The worst-case time of a stream's blocks on a disk.

use std::sync::Arc;

use drive_profile::{Profile, TransferKind};
use engine::limits::COMMAND_MAX;
use engine::stream::{RequestCost, RequestedLatency, RequestedStream, Task};
use engine::{CommandBound, Execution, WorstCase};
use units::{Bytes, DiskTime, Duration, Extent, SECTOR_BYTES, Sectors};

use crate::limits::BLOCK_MIN;
use crate::plan::Disk;

/// The worst-case time of a block on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCost {
    /// In commands that are as long as the disk takes them, each with its own positioning.
    pub whole: RequestCost,
    /// In chunks, with one positioning for all of them; `None` where that is the same, or where
    /// requests are not split.
    pub chunks: Option<RequestCost>,
}

impl BlockCost {
    /// The longest command that a decision waits for if the block is split as far as it may be.
    pub fn longest(&self) -> DiskTime {
        self.chunks.map_or(self.whole.longest, |chunks| chunks.longest)
    }
}

impl Disk {
    /// The worst case of a block of `block` bytes, read or written anywhere inside `range` of this
    /// disk.
    pub fn block_cost(&self, worst: &WorstCase, range: Extent, block: Bytes) -> BlockCost {
        let sectors = Sectors(block.0.div_ceil(SECTOR_BYTES).min(range.len.0));
        let worst = BlockWorstCase { worst, range, sectors };
        let whole = |most| longer(|kind| worst.apart(most, kind));
        match self.execution {
            Execution::Whole { split } => {
                BlockCost { whole: whole(split.unwrap_or(COMMAND_MAX)), chunks: None }
            }
            Execution::Preemptible(how) => {
                let whole = whole(COMMAND_MAX);
                // Without a chunk the profile gives it by location, for the drive's write buffer.
                let chunks = how.chunk.map(|chunk| {
                    let write = if how.preempt_writes { chunk } else { COMMAND_MAX };
                    longer(|kind| match kind {
                        TransferKind::Read => worst.in_chunks(chunk.min(COMMAND_MAX), kind),
                        TransferKind::Write => worst.in_chunks(write.min(COMMAND_MAX), kind),
                    })
                });
                BlockCost { whole, chunks: chunks.filter(|chunks| *chunks != whole) }
            }
        }
    }
}

/// A block is read or written, whichever takes longer.
fn longer(cost: impl Fn(TransferKind) -> RequestCost) -> RequestCost {
    let (read, write) = (cost(TransferKind::Read), cost(TransferKind::Write));
    let (total, longest) = (read.total.max(write.total), read.longest.max(write.longest));
    RequestCost { total, longest }
}

/// What the worst case of a block depends on.
struct BlockWorstCase<'a> {
    worst: &'a WorstCase,
    range: Extent,
    sectors: Sectors,
}

impl BlockWorstCase<'_> {
    /// In commands of at most `most` sectors, each with its own positioning.
    fn apart(&self, most: Sectors, kind: TransferKind) -> RequestCost {
        self.sum(most, |len| self.worst.within(self.range, len, kind))
    }

    /// In commands of at most `most` sectors that follow each other. The longest one is positioned
    /// for, as it is after a preemption.
    fn in_chunks(&self, most: Sectors, kind: TransferKind) -> RequestCost {
        let first = most.min(self.sectors);
        let longest = self.worst.within(self.range, first, kind);
        let positioning = longest - self.worst.continuing(self.range, first, kind);
        let on = self.sum(most, |len| self.worst.continuing(self.range, len, kind));
        RequestCost { total: on.total + positioning, longest }
    }

    fn sum(&self, most: Sectors, command: impl Fn(Sectors) -> DiskTime) -> RequestCost {
        let (full, rest) = (self.sectors.0 / most.0, Sectors(self.sectors.0 % most.0));
        let longest = command(most.min(self.sectors));
        let rest = if rest.0 > 0 && full > 0 { command(rest) } else { DiskTime::ZERO };
        let full = i64::try_from(full.max(1)).expect("a block is short");
        RequestCost { total: DiskTime::from_nanos(longest.as_nanos() * full) + rest, longest }
    }
}

/// The task of blocks that take `cost`, one every `period`; `None` if no disk could admit it.
pub(super) fn task_of(period: Duration, cost: BlockCost) -> Option<Task> {
    let BlockCost { whole, chunks } = cost;
    let Some(chunks) = chunks else { return Task::new(period, whole.total, whole.longest).ok() };
    Task::new(period, chunks.total, chunks.longest).ok()?.with_whole(whole).ok()
}

impl Disk {
    /// The worst case of a command, from which deadlines are admitted: as declared, or by the
    /// profile; `None` if nothing bounds it. `host_lateness` is added either way.
    pub fn worst_command(&self) -> Option<WorstCase> {
        let declared = self.worst_case.map(|CommandBound { positioning, sector }| {
            let bus = self.bus.as_ref().map(|bus| bus.share().linear());
            let (fixed, each) = bus.unwrap_or_default();
            let positioning = positioning + DiskTime::from(self.host_lateness + fixed);
            let sector = sector + DiskTime::from(each);
            WorstCase::Bound(CommandBound { positioning, sector })
        });
        debug_assert!(declared.is_none() || self.profile().is_none(), "one bound of a command");
        declared.or_else(|| Some(WorstCase::Profile(Arc::new(self.profile()?))))
    }

    /// The profile from which deadlines are admitted; `None` for a drive without seeks.
    /// `host_lateness` is added to the drive's time for each command: a host observes a completion
    /// late, and sends the next command late.
    pub fn profile(&self) -> Option<Profile> {
        let mut profile = self.known(self.drive.model.mechanical()?);
        profile.extremes.command += self.host_lateness;
        Some(profile)
    }
}

/// The task of a stream on a disk; `None` if no disk could admit it.
pub(crate) fn task(
    (disk, worst): (&Disk, &WorstCase),
    requested: RequestedStream,
    range: Extent,
) -> Option<Task> {
    if requested.block < BLOCK_MIN
        || requested.block.sectors_floor() > range.len
        || requested.bandwidth.0 == 0
    {
        return None;
    }
    let period = u128::from(requested.block.0) * 1_000_000_000 / u128::from(requested.bandwidth.0);
    let period = Duration::from_nanos(u64::try_from(period).ok()?);
    let cost = disk.block_cost(worst, range, requested.block);
    task_of(period, cost)
}

/// The task of a bounded latency on a disk; `None` if no disk could admit it.
pub(crate) fn latency_task(
    (disk, worst): (&Disk, &WorstCase),
    requested: RequestedLatency,
    range: Extent,
) -> Option<Task> {
    let RequestedLatency { within, interval, burst, size } = requested;
    let BlockCost { whole, chunks } = disk.block_cost(worst, range, size.bytes());
    let task =
        |cost: RequestCost| Task::sporadic(interval, within, burst, cost.total, cost.longest);
    let Some(chunks) = chunks else { return task(whole).ok() };
    task(chunks).ok()?.with_whole(whole).ok()
}
