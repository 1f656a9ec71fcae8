//! The disks that the stream of a pool's volume loads, and the task on each of them.
//!
//! ```text
//!  a client's block, 3.1 MB     ├─────────────────┤
//!  the volume, cut at 1 MiB  ├─────┼─────┼─────┼─────┤      it touches n = 4
//!  a stripe of two             d0    d1    d0    d1    m = ⌈n ÷ 2⌉ pieces on each, due T ÷ m apart
//! ```
//!
//! A client that asks in the volume's order comes to each disk of a stripe of k with one of every k
//! blocks (with c, if the disk has c of the columns while the volume is relocated). The disk's task
//! is one block of the volume in each k ÷ c of the times in which one arrives at the bandwidth B,
//! and it is due after as long (RTAS 2000 §3.1):
//!
//! ```text
//!  the volume, in order      ├─────┼─────┼─────┼─────┼─────┼─────┤   1 MiB ÷ B each
//!  a stripe of three, d0     ├─────┤           ├─────┤               one in each 3 MiB ÷ B
//! ```
//!
//! *What a client in order has.* Let it ask for at most B × time + one request of b bytes in any
//! time. Of x bytes in order a disk has at most c x ÷ k + c MiB, wherever in a round and in a block
//! they begin: at worst with the c blocks that are on the disk, of which a part counts as a whole
//! one. The disk serves c B ÷ k with a latency of two of its periods P = k MiB ÷ (c B) (a
//! latency-rate server: see the engine's byte blocks). So each byte is answered within 3 P + b ÷ B.
//! Blocks of 1 MiB that a client sends at the bandwidth come to a disk of a stripe a period apart,
//! and each is answered within P.
//!
//! A jump makes a disk's next block come up to k - 1 blocks early, and leaves a part of a block
//! that counts as a whole one. What is early is best effort until its release, and what is behind
//! it on that disk is due up to two periods later for each jump, until nothing is queued there.
//! Other streams lose nothing: each disk serves this one by its period. ∎

use core::num::NonZeroU64;

use engine::stream::{RequestedLatency, RequestedStream, Task};
use engine::{Execution, LatencyContract, RateRequirement, WorstCase};
use units::{Bytes, Duration, Extent, SECTOR_BYTES, Sectors};
use volume::pool::flow::SEGMENT_BLOCKS_MAX;
use volume::pool::limits::BLOCK_SECTORS;
use volume::pool::{Layout, Zone};

use super::cost::{latency_task, task_of};
use crate::limits::BLOCK_MIN;
use crate::plan::{Disk, DiskIndex, PoolVolume, StreamOrder};

/// The placement of a volume, and the placement from which it is relocated; with the order in which
/// the client of its stream asks for its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread<'a> {
    layout: Layout,
    now: (Zone, &'a [DiskIndex]),
    before: Option<(Zone, &'a [DiskIndex])>,
    order: StreamOrder,
}

impl<'a> Spread<'a> {
    pub(crate) fn of(volume: &'a PoolVolume) -> Self {
        let PoolVolume { layout, zone, disks, from, .. } = volume;
        let before = from.as_ref().map(|from| (from.zone, from.disks.as_slice()));
        // One disk of a single layout may get every block, as long as its span lasts.
        let order = volume.stream.filter(|_| *layout == Layout::Stripe);
        let order = order.map_or(StreamOrder::Any, |stream| stream.order);
        Self { layout: *layout, now: (*zone, disks), before, order }
    }

    fn both(&self) -> impl Iterator<Item = (Zone, &'a [DiskIndex])> + use<'a> {
        core::iter::once(self.now).chain(self.before)
    }

    /// All of its disks, each once.
    pub(crate) fn disks(&self) -> Vec<DiskIndex> {
        let mut disks: Vec<DiskIndex> = Vec::new();
        for (_, some) in self.both() {
            let more: Vec<_> = some.iter().filter(|disk| !disks.contains(disk)).collect();
            disks.extend(more);
        }
        disks
    }

    /// The largest number of pieces of a client's block on `disk`.
    fn pieces(&self, block: Bytes, disk: DiskIndex) -> u64 {
        self.pieces_of(blocks_touched(block), disk)
    }

    /// The largest number of `all` pieces of a request that are on `disk`.
    fn pieces_of(&self, all: u64, disk: DiskIndex) -> u64 {
        let width = self.now.1.len();
        let copies = match self.layout {
            Layout::Single | Layout::Random => return all,
            Layout::Stripe => 1,
            // Each disk has all blocks.
            Layout::Mirror(copies) if copies.number() == width => return all,
            Layout::Mirror(copies) => copies.number() as u64,
        };
        let (rounds, rest) = (all / width as u64, all % width as u64);
        ((rounds * copies + rest.min(copies)) * self.columns(disk)).min(all)
    }

    /// The columns of which `disk` can have blocks: those of a column may be on its old disk or on
    /// its new one, during a relocation. A mirror writes to all of a block's copies, and may read
    /// any of them.
    fn columns(&self, disk: DiskIndex) -> u64 {
        let of_disk = |column: &usize| self.both().any(|(_, disks)| disks[*column] == disk);
        (0..self.now.1.len()).filter(of_disk).count() as u64
    }

    /// The bytes of a round of the disks.
    pub(crate) fn round(&self) -> Bytes {
        Bytes(BLOCK_SECTORS.bytes().0 * self.now.1.len() as u64)
    }

    /// What a disk has a task for, of a stream in blocks of `block`: the longest piece, and how
    /// many of them there are in a block of the volume.
    ///
    /// Where requests are gathered, the disk gathers what a client in order asks for of a block of
    /// the volume, however short its requests are. Elsewhere a request is a block.
    fn piece(&self, disk: &Disk, block: Bytes) -> (Sectors, u64) {
        match self.order {
            StreamOrder::Sequential if disk.gathers() => (BLOCK_SECTORS, 1),
            StreamOrder::Any | StreamOrder::Sequential => (piece(block), requests_touching(block)),
        }
    }

    /// The longest piece that `disk` has a task for, of a stream in blocks of `block`.
    pub(crate) fn longest_piece(&self, disk: &Disk, block: Bytes) -> Sectors {
        self.piece(disk, block).0
    }

    /// The time between two pieces on a disk, where the client asks in order; rounded down, so that
    /// a disk's pace is no less than the client's. `None` if it is longer than any time.
    fn period_in_order(
        &self,
        disk: &Disk,
        requested: RequestedStream,
        index: DiskIndex,
    ) -> Option<Duration> {
        let (_, pieces) = self.piece(disk, requested.block);
        debug_assert_eq!(self.layout, Layout::Stripe, "the config refuses it");
        let bytes = u128::from(self.round().0);
        let rate = u128::from(requested.bandwidth.0) * u128::from(self.columns(index) * pieces);
        let nanos = bytes * 1_000_000_000 / rate.max(1);
        Some(Duration::from_nanos(u64::try_from(nanos).ok()?))
    }

    /// The sectors of `disk` that its blocks can occupy.
    pub(crate) fn reach(&self, disk: &Disk, index: DiskIndex) -> Extent {
        let there = self.both().filter(|(_, disks)| disks.contains(&index));
        let reaches = there.map(|(zone, _)| disk.zone(zone));
        let cover = |a: Extent, b: Extent| {
            let (start, end) = (a.start.min(b.start), a.end().max(b.end()));
            Extent::new(start, end.distance(start))
        };
        reaches.reduce(cover).expect("it is one of the volume's disks")
    }
}

/// The largest number of a volume's blocks that a client's block touches.
fn blocks_touched(block: Bytes) -> u64 {
    let whole = BLOCK_SECTORS.bytes().0;
    if block.0.is_multiple_of(whole) {
        return block.0 / whole;
    }
    // It begins at a multiple of its own size.
    if whole.is_multiple_of(block.0) {
        return 1;
    }
    // At worst its first sector is the last one of a block.
    let sectors = block.0.div_ceil(SECTOR_BYTES);
    1 + (sectors - 1).div_ceil(BLOCK_SECTORS.0)
}

/// The largest number of a client's blocks, one behind the other, that touch a volume's block.
fn requests_touching(block: Bytes) -> u64 {
    let whole = BLOCK_SECTORS.bytes().0;
    if block.0.is_multiple_of(whole) {
        return 1;
    }
    if whole.is_multiple_of(block.0) {
        return whole / block.0;
    }
    // At worst the first sector of the volume's block is the last one of a client's.
    1 + (BLOCK_SECTORS.0 - 1).div_ceil(block.0.div_ceil(SECTOR_BYTES))
}

/// The most pieces of a request of this size, wherever it begins, that are in flight at a time.
pub(crate) fn pieces_max(size: Bytes) -> u32 {
    let sectors = size.0.div_ceil(SECTOR_BYTES).max(1);
    let touched = 1 + (sectors - 1).div_ceil(BLOCK_SECTORS.0);
    u32::try_from(touched).map_or(SEGMENT_BLOCKS_MAX.0, |all| all.min(SEGMENT_BLOCKS_MAX.0))
}

/// The longest piece of a block.
fn piece(block: Bytes) -> Sectors {
    Sectors(block.0.div_ceil(SECTOR_BYTES)).min(BLOCK_SECTORS)
}

/// The rate of pieces that a disk of the pool is to give for a rate of a client's requests. The
/// client chooses the disk, so that each disk gives the whole rate; a run ends with its block,
/// because the next one may be anywhere.
pub(crate) fn rate_of_pieces(requested: RateRequirement) -> RateRequirement {
    let RateRequirement { interval, run, block } = requested;
    let in_block = NonZeroU64::new(BLOCK_SECTORS.0 / block.0.max(1)).unwrap_or(NonZeroU64::MIN);
    let is_aligned =
        block.0.is_multiple_of(BLOCK_SECTORS.0) || BLOCK_SECTORS.0.is_multiple_of(block.0);
    let pieces = block.0.div_ceil(BLOCK_SECTORS.0) + u64::from(!is_aligned);
    RateRequirement {
        interval: interval / pieces.max(1),
        run: run.min(in_block),
        block: block.min(BLOCK_SECTORS),
    }
}

/// The task of a stream on a disk; `None` if no disk could admit it.
pub(crate) fn task(
    (disk, worst): (&Disk, &WorstCase),
    requested: RequestedStream,
    spread: &Spread<'_>,
    index: DiskIndex,
) -> Option<Task> {
    if requested.block < BLOCK_MIN || requested.bandwidth.0 == 0 {
        return None;
    }
    let period = u128::from(requested.block.0) * 1_000_000_000 / u128::from(requested.bandwidth.0);
    let period = Duration::from_nanos(u64::try_from(period).ok()?);
    let piece = spread.longest_piece(disk, requested.block);
    let cost = disk.block_cost(worst, spread.reach(disk, index), piece.bytes());
    // Rounded down, so that all of them together are no longer than the period of the block.
    let in_any_order = period / spread.pieces(requested.block, index);
    task_of(period, cost)?;
    let period_of_piece = match spread.order {
        StreamOrder::Any => in_any_order,
        // What holds in any order holds in this one.
        StreamOrder::Sequential => {
            spread.period_in_order(disk, requested, index)?.max(in_any_order)
        }
    };
    task_of(period_of_piece, cost)
}

/// The bounded latency of a volume on a disk: that of the pieces of requests, of which each request
/// has several where it crosses the end of a block. `None` if no disk could admit it.
pub(crate) fn latency(
    (disk, index, worst): (&Disk, DiskIndex, &WorstCase),
    requested: RequestedLatency,
    spread: &Spread<'_>,
) -> Option<LatencyContract> {
    // A request begins anywhere: at worst its first sector is the last one of a block.
    let touched = 1 + (requested.size.0 - 1).div_ceil(BLOCK_SECTORS.0);
    let pieces = spread.pieces_of(touched, index);
    let size = piece(requested.size.bytes());
    let burst = u64::from(requested.burst) * pieces;
    let of_pieces = RequestedLatency {
        // Rounded down, so that the pieces of all requests are within the rate.
        interval: requested.interval / pieces,
        burst: u32::try_from(burst).ok()?,
        size,
        ..requested
    };
    let task = latency_task((disk, worst), of_pieces, spread.reach(disk, index))?;
    Some(LatencyContract { task, size })
}

impl Disk {
    /// Whether requests of a stream that follow each other share a command: a block is bytes, in
    /// whatever requests they are asked for.
    fn gathers(&self) -> bool {
        self.policy.keeps_streams()
            && !self.policy.has_deadlines()
            && self.execution == Execution::Whole { split: None }
    }
}
