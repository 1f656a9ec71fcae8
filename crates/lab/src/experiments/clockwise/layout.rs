//! Where streams and partitions lie on the three disks, and what each disk is asked for (RTAS 2000
//! §3.1, §4.1).

use drive_profile::{Profile, TransferKind};
use engine::stream::{Task, TaskId, TaskSet};
use units::{Bytes, DiskTime, Duration, Extent, Lba, Sectors};

use sim::SeededRng;
use sim::loads::{Media, Pace};

/// The disks.
pub(super) const DISKS: usize = 3;
/// A block of a dynamic partition.
pub(super) const SLOT: Sectors = Sectors(2_048);
/// Blocks that a stream has on each of its disks. It is played again from the beginning at its end.
const STREAM_SLOTS: usize = 32;
/// Blocks of a best-effort partition on each disk: a third of a CELLO disk.
pub(super) const PARTITION_SLOTS: usize =
    (sim::loads::Cello::UNIT.0 / SLOT.0).div_ceil(DISKS as u64) as usize;
/// RTAS 2000's streams: its KB are 1,024 bytes, as 172 of them a second are CD-quality sound.
const KB: u64 = 1 << 10;

/// How blocks are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Each block on the disk behind the one before; streams in the fastest zones, partitions in
    /// the slowest.
    Rotation,
    /// On the disks as in rotation; on each disk anywhere.
    Random,
    /// A stream on one disk; on it as in rotation.
    Memory,
    /// The same with blocks that are twice as large.
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
    /// Its blocks there, in their order.
    pub(super) slots: Vec<Lba>,
    pub(super) task: Task,
}

/// A stream that was given its place.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) kind: Kind,
    pub(super) block: Bytes,
    /// The disks that it lies on, the one of its first block first.
    pub(super) parts: Vec<Part>,
}

/// The disks, filling up.
#[derive(Clone, Debug)]
pub(super) struct Ground<'a> {
    layout: Layout,
    profile: &'a Profile,
    /// Of each disk the blocks that are free. Streams take the first of them, partitions the last.
    free: Vec<std::collections::VecDeque<Lba>>,
    sets: Vec<TaskSet>,
    streams: Vec<Stream>,
}

impl Kind {
    pub(super) fn rate(self) -> Bytes {
        Bytes(KB * [817, 245, 172][self as usize])
    }

    fn block(self) -> Bytes {
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
    /// When its blocks are there.
    pub(super) fn media(&self, rng: SeededRng) -> Media {
        Media::new(self.kind.pace(), self.kind.rate(), self.block, rng)
    }

    /// What it is promised by one of its disks.
    pub(super) fn promised(&self, part: &Part) -> engine::StreamContract {
        engine::StreamContract { task: part.task, block: sectors(self.block), range: None }
    }

    /// Its `nth` block: the disk and the place there.
    pub(super) fn place(&self, nth: usize) -> (usize, Extent) {
        let part = &self.parts[nth % self.parts.len()];
        let len = sectors(self.block);
        let at = (nth / self.parts.len()) as u64 * len.0;
        (part.disk, Extent::new(place(&part.slots, Lba(at)), len))
    }
}

/// Where an address of a partition lies on its disk; behind its end it wraps around.
pub(super) fn place(slots: &[Lba], at: Lba) -> Lba {
    let slot = usize::try_from(at.0 / SLOT.0).expect("disks have few blocks") % slots.len();
    slots[slot] + Sectors(at.0 % SLOT.0)
}

/// The disk of a partition's address, and the address there: consecutive blocks lie on consecutive
/// disks.
pub(super) fn in_turn(at: Lba) -> (usize, Lba) {
    let (slot, disks) = (at.0 / SLOT.0, DISKS as u64);
    let disk = usize::try_from(slot % disks).expect("three");
    (disk, Lba(slot / disks * SLOT.0 + at.0 % SLOT.0))
}

impl<'a> Ground<'a> {
    /// Three empty disks of this profile.
    pub(super) fn new(layout: Layout, profile: &'a Profile, seed: u64) -> Self {
        let free = (0..DISKS as u64).map(|disk| {
            let mut slots: Vec<Lba> =
                (0..profile.capacity().0 / SLOT.0).map(|slot| Lba(slot * SLOT.0)).collect();
            if layout == Layout::Random {
                SeededRng::new(seed, disk).shuffle(&mut slots);
            }
            slots.into()
        });
        // As in RTAS 2000: no request is preempted.
        let sets = vec![TaskSet::new(DiskTime::ZERO); DISKS];
        Self { layout, profile, free: free.collect(), sets, streams: Vec::new() }
    }

    /// What the disks are asked for.
    pub(super) fn sets(&self) -> &[TaskSet] {
        &self.sets
    }

    /// The streams that are there.
    pub(super) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// What all of them bring, in MB a second.
    #[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
    pub(super) fn load(&self) -> f64 {
        let bytes: u64 = self.streams.iter().map(|stream| stream.kind.rate().0).sum();
        bytes as f64 / f64::from(1 << 20)
    }

    /// The loads that these disks admit, from the least on: a number of large videos, each number
    /// of them without and with a small one beside, every video with its sound. A pair is admitted
    /// whole or not at all.
    pub(super) fn loads(self) -> Vec<Self> {
        let mut loads = Vec::new();
        let mut large = self;
        loop {
            loads.extend(large.with_pair(Kind::Small));
            let Some(more) = large.with_pair(Kind::Large) else { return loads };
            loads.push(more.clone());
            large = more;
        }
    }

    fn with_pair(&self, video: Kind) -> Option<Self> {
        let (mut ground, pair) = (self.clone(), self.streams.len() / 2);
        [video, Kind::Audio].into_iter().all(|kind| ground.add(kind, pair)).then_some(ground)
    }

    /// Adds a stream if every disk admits its part; whether it did.
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

    /// The blocks of one more best-effort partition, disk by disk.
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

/// `T = b / B`.
fn period(kind: Kind, block: Bytes) -> Duration {
    Media::new(kind.pace(), kind.rate(), block, SeededRng::new(0, 0)).period()
}

/// `C`: the worst that a block's transfer takes in any of the zones that `slots` touch.
fn cost(profile: &Profile, slots: &[Lba], len: Sectors) -> Duration {
    let runs = slots.chunk_by(|one, next| *one + SLOT == *next);
    let worst = |run: &[Lba]| {
        let extent = Extent::new(run[0], Sectors(SLOT.0 * run.len() as u64));
        profile.worst_case(extent, len, TransferKind::Read)
    };
    runs.map(worst).max().expect("a stream has blocks")
}
