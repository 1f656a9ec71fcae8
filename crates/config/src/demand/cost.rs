//! The worst-case time of a stream's blocks on a disk.

use std::sync::Arc;

use drive_profile::{Profile, TransferKind};
use engine::limits::COMMAND_MAX;
use engine::stream::{RequestedLatency, RequestedStream, Task};
use engine::{CommandBound, Execution, WorstCase};
use units::{Bytes, DiskTime, Duration, Extent, SECTOR_BYTES, Sectors};

use crate::limits::BLOCK_MIN;
use crate::plan::Disk;

/// The worst-case time of a block on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockCost {
    /// Of all of its commands together.
    pub whole: DiskTime,
    /// Of the longest of them.
    pub longest: DiskTime,
}

impl Disk {
    /// The worst case of a block of `block` bytes, read or written anywhere inside `range` of this
    /// disk, in the commands that requests are split into. Each command includes its own
    /// positioning.
    pub fn block_cost(&self, worst: &WorstCase, range: Extent, block: Bytes) -> BlockCost {
        let sectors = Sectors(block.0.div_ceil(SECTOR_BYTES).min(range.len.0));
        // Writes with FUA are not split into chunks.
        let (read, write) = match self.execution {
            Execution::Whole { split } => {
                let most = split.unwrap_or(COMMAND_MAX);
                (most, most)
            }
            Execution::Preemptible(how) => (how.chunk.unwrap_or(COMMAND_MAX), COMMAND_MAX),
        };
        let cost = |most: Sectors, transfer| {
            let command = |len| worst.within(range, len, transfer);
            let (full, rest) = (sectors.0 / most.0, Sectors(sectors.0 % most.0));
            let longest = command(most.min(sectors));
            let rest = if rest.0 > 0 { command(rest) } else { DiskTime::ZERO };
            let full = i64::try_from(full).expect("a block is short");
            (DiskTime::from_nanos(longest.as_nanos() * full) + rest, longest)
        };
        let (reads, writes) = (cost(read, TransferKind::Read), cost(write, TransferKind::Write));
        BlockCost { whole: reads.0.max(writes.0), longest: reads.1.max(writes.1) }
    }

    /// The worst case of a command, from which deadlines are admitted: as declared, or by the
    /// profile; `None` if nothing bounds it. `host_lateness` is added either way.
    pub fn worst_command(&self) -> Option<WorstCase> {
        let declared = self.worst_case.map(|CommandBound { positioning, sector }| {
            let positioning = positioning + DiskTime::from(self.host_lateness);
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
    Task::new(period, cost.whole, cost.longest).ok()
}

/// The task of a bounded latency on a disk; `None` if no disk could admit it.
pub(crate) fn latency_task(
    (disk, worst): (&Disk, &WorstCase),
    requested: RequestedLatency,
    range: Extent,
) -> Option<Task> {
    let RequestedLatency { within, interval, burst, size } = requested;
    let cost = disk.block_cost(worst, range, size.bytes());
    Task::sporadic(interval, within, burst, cost.whole, cost.longest).ok()
}
