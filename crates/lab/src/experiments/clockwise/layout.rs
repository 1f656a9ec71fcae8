//! The placement of streams and partitions on the three disks, and the task set of each disk (RTAS
//! 2000 §3.1, §4.1).

use drive_profile::{Profile, TransferKind};
use engine::stream::{Task, TaskId, TaskSet};
use units::{Bytes, DiskTime, Duration, Extent, Lba, Sectors};

use sim::SeededRng;
use sim::loads::{Media, Pace};

/// The number of disks.
pub(super) const DISKS: usize = 3;
/// The size of a dynamic partition's block.
pub(super) const SLOT: Sectors = Sectors(2_048);
/// Blocks of a stream on each of its disks. Playback wraps around at the end.
const STREAM_SLOTS: usize = 32;
/// Blocks of a best-effort partition on each disk, for a third of a CELLO disk.
pub(super) const PARTITION_SLOTS: usize =
    (sim::loads::Cello::UNIT.0 / SLOT.0).div_ceil(DISKS as u64) as usize;
/// The KB of RTAS 2000: 1,024 bytes, because it calls 172 KB/s CD quality.
const KB: u64 = 1 << 10;

/// The distribution of a stream's blocks over and on the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Consecutive blocks on consecutive disks; streams in the fastest zones, partitions in the
    /// slowest.
    Rotation,
    /// Consecutive blocks on consecutive disks; at random locations on each disk.
    Random,
    /// All blocks of a stream on one disk; zones as for `Rotation`.
    Memory,
    /// As `Memory`, with blocks of twice the size.
    MemoryLarge,
}

/// A kind of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Video of 817 KB/s, in blocks of 1 MB.
    Large,
    /// Video of 245 KB/s, in blocks of 256 KB.
    Small,
    /// Sound of CD quality, 172 KB/s, in blocks of 256 KB.
    Audio,
}

/// One stream on one disk.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) disk: usize,
    /// The blocks on this disk, in the order of the stream.
    pub(super) slots: Vec<Lba>,
    pub(super) task: Task,
}

/// A stream with its blocks allocated.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) kind: Kind,
    pub(super) block: Bytes,
    /// The parts on its disks, beginning with the disk of its first block.
    pub(super) parts: Vec<Part>,
}

/// The allocation of the disks' blocks, and the streams admitted so far.
#[derive(Clone, Debug)]
pub(super) struct Allocation<'a> {
    layout: Layout,
    profile: &'a Profile,
    /// The free blocks of each disk. Streams take the first ones, partitions the last ones.
    free: Vec<std::collections::VecDeque<Lba>>,
    sets: Vec<TaskSet>,
    streams: Vec<Stream>,
}

impl Kind {
    pub(super) fn rate(self) -> Bytes {
        Bytes(KB * [817, 245, 172][self as usize])
    }

    pub(super) fn block(self) -> Bytes {
        Bytes(KB * [1_024, 256, 256][self as usize])
    }

    pub(super) fn pace(self) -> Pace {
        if self == Self::Audio { Pace::Even } else { Pace::Frames }
    }
}

impl Layout {
    fn block(self, kind: Kind) -> Bytes {
        Bytes(kind.block().0 * if self == Self::MemoryLarge { 2 } else { 1 })
    }

    fn is_on_all(self) -> bool {
        matches!(self, Self::Rotation | Self::Random)
    }
}

impl Stream {
    /// The generator of the instants at which its blocks are released.
    pub(super) fn media(&self, rng: SeededRng) -> Media {
        Media::new(self.kind.pace(), self.kind.rate(), self.block, rng)
    }

    /// Its contract on one of its disks.
    pub(super) fn contract(&self, part: &Part) -> engine::StreamContract {
        engine::StreamContract { task: part.task, block: sectors(self.block), range: None }
    }

    /// The disk and the extent of its `nth` block.
    pub(super) fn locate(&self, nth: usize) -> (usize, Extent) {
        let part = &self.parts[nth % self.parts.len()];
        let len = sectors(self.block);
        let at = (nth / self.parts.len()) as u64 * len.0;
        (part.disk, Extent::new(locate(&part.slots, Lba(at)), len))
    }
}

/// Maps an address within the blocks `slots` to an LBA. Addresses wrap around at the end.
pub(super) fn locate(slots: &[Lba], at: Lba) -> Lba {
    let slot = usize::try_from(at.0 / SLOT.0).expect("disks have few blocks") % slots.len();
    slots[slot] + Sectors(at.0 % SLOT.0)
}

/// Maps a partition's address to a disk and an address on that disk: consecutive blocks lie on
/// consecutive disks.
pub(super) fn striped(at: Lba) -> (usize, Lba) {
    let (slot, disks) = (at.0 / SLOT.0, DISKS as u64);
    let disk = usize::try_from(slot % disks).expect("three");
    (disk, Lba(slot / disks * SLOT.0 + at.0 % SLOT.0))
}

impl<'a> Allocation<'a> {
    /// Three empty disks with this profile.
    pub(super) fn new(layout: Layout, profile: &'a Profile, seed: u64) -> Self {
        let free = (0..DISKS as u64).map(|disk| {
            let mut slots: Vec<Lba> =
                (0..profile.capacity().0 / SLOT.0).map(|slot| Lba(slot * SLOT.0)).collect();
            if layout == Layout::Random {
                SeededRng::new(seed, disk).shuffle(&mut slots);
            }
            slots.into()
        });
        // As in RTAS 2000, requests are not preempted.
        let sets = vec![TaskSet::new(DiskTime::ZERO); DISKS];
        Self { layout, profile, free: free.collect(), sets, streams: Vec::new() }
    }

    /// The task set of each disk.
    pub(super) fn sets(&self) -> &[TaskSet] {
        &self.sets
    }

    /// The admitted streams.
    pub(super) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// The total rate of the streams, in MB/s.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub(super) fn load(&self) -> f64 {
        let bytes: u64 = self.streams.iter().map(|stream| stream.kind.rate().0).sum();
        bytes as f64 / f64::from(1 << 20)
    }

    /// All loads that these disks admit, in ascending order: n large videos, without and with one
    /// small video, each video with its audio stream. A video and its audio stream are admitted
    /// together or not at all.
    pub(super) fn loads(self) -> Vec<Self> {
        let mut loads = Vec::new();
        let mut large = self;
        loop {
            loads.extend(large.with_pair(Kind::Small));
            let Some(larger) = large.with_pair(Kind::Large) else { return loads };
            loads.push(larger.clone());
            large = larger;
        }
    }

    fn with_pair(&self, video: Kind) -> Option<Self> {
        let (mut allocation, pair) = (self.clone(), self.streams.len() / 2);
        [video, Kind::Audio]
            .into_iter()
            .all(|kind| allocation.add(kind, pair))
            .then_some(allocation)
    }

    /// Adds a stream if every disk admits its part. Returns whether it was added.
    fn add(&mut self, kind: Kind, pair: usize) -> bool {
        let block = self.layout.block(kind);
        let count = if self.layout.is_on_all() { DISKS } else { 1 };
        let id = TaskId(u32::try_from(self.streams.len()).expect("streams are few"));
        let mut parts = Vec::with_capacity(count);
        // Block n of a stream on all disks lies on disk n mod 3.
        let first = if self.layout.is_on_all() { 0 } else { pair };
        for disk in (first..first + count).map(|disk| disk % DISKS) {
            let slots: Vec<Lba> = self.free[disk].drain(..STREAM_SLOTS).collect();
            let cost = cost(self.profile, &slots, sectors(block));
            let period = period(kind, block) * count as u64;
            let task = Task::whole(period, cost.into()).expect("a block takes a second or so");
            if self.sets[disk].admit(id, task).is_err() {
                return false;
            }
            parts.push(Part { disk, slots, task });
        }
        self.streams.push(Stream { kind, block, parts });
        true
    }

    /// Allocates the blocks of one more best-effort partition, by disk.
    pub(super) fn partition(&mut self) -> Vec<Vec<Lba>> {
        let take = |free: &mut std::collections::VecDeque<Lba>| {
            let from = free.len() - PARTITION_SLOTS;
            free.drain(from..).collect()
        };
        self.free.iter_mut().map(take).collect()
    }
}

fn sectors(block: Bytes) -> Sectors {
    block.sectors_exact().expect("blocks are whole sectors")
}

/// The period `T = b / B` of a stream on one disk.
fn period(kind: Kind, block: Bytes) -> Duration {
    Media::new(kind.pace(), kind.rate(), block, SeededRng::new(0, 0)).period()
}

/// The cost `C`: the worst case of a block's transfer in any of the zones of `slots`.
fn cost(profile: &Profile, slots: &[Lba], len: Sectors) -> Duration {
    let runs = slots.chunk_by(|one, next| *one + SLOT == *next);
    let worst = |run: &[Lba]| {
        let extent = Extent::new(run[0], Sectors(SLOT.0 * run.len() as u64));
        profile.worst_case(extent, len, TransferKind::Read)
    };
    runs.map(worst).max().expect("a stream has blocks")
}
