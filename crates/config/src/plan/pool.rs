//! `[pool]`: disks whose space is shared, and the contracts of the volumes on them.
//!
//! The pool's metadata, on its disks, are the authority on which volumes exist, on their sizes and
//! on the location of each block; the config is the authority on their contracts. A volume that
//! only the metadata contain is best effort ([`PoolPlan::best_effort_contracts`]); one that only
//! the config contains is created as the config says.
//!
//! Either every disk of a volume admits its contract there, or none does.

use std::collections::BTreeSet;

use engine::stream::{RequestedLatency, RequestedStream, Span};
use engine::{Contract, Feature, Priority, RateContract, RateRequirement};
use units::{Bytes, Duration, Extent, Instant, Lba, Sectors, Share};
use volume::pool::format::Geometry;
use volume::pool::limits::{BLOCK_SECTORS, DISK_BLOCKS_MAX};
use volume::pool::sums::blocks_with_area;
use volume::pool::{Blocks, Copies, Layout, Percent, Zone};

use super::disk::{Disk, DiskIndex};
use super::labels::Labels;

/// The config's words for the layouts of a volume.
pub(crate) const LAYOUTS: [(&str, Layout); 4] = [
    ("single", Layout::Single),
    ("stripe", Layout::Stripe),
    ("random", Layout::Random),
    ("mirror", Layout::Mirror(Copies::DEFAULT)),
];
/// The config's words for the zones of a disk. A first part of the disk is [`FASTEST`], with its
/// per cent.
pub(crate) const ZONES: [(&str, Zone); 3] =
    [("fast", Zone::Fast), ("slow", Zone::Slow), ("any", Zone::Any)];
/// The config's word before the per cent of a first part.
const FASTEST: &str = "fastest ";
/// The config's words for the orders of a stream.
pub(crate) const ORDERS: [(&str, StreamOrder); 2] =
    [("any", StreamOrder::Any), ("sequential", StreamOrder::Sequential)];

/// The span of a stream on a disk that does without it.
const NEVER: Span = Span { start: Instant::ZERO, end: Instant::ZERO };

/// A pool, and the contracts of its volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPlan {
    /// The disks that belong to it, in the file's order; at least one, none twice. No
    /// [`crate::Volume`] is placed on one of them. The daemon reads which label each disk has.
    pub disks: Vec<DiskIndex>,
    /// The reserve of the metadata on each disk. Above zero.
    pub metadata_share: Share,
    /// The reserve and limit of relocating blocks on each disk. Above zero.
    pub relocation_share: Share,
    /// The contract of making copies equal, on each disk; `None`: it has that of relocation.
    pub rebuild: Option<FloorContract>,
    /// The contract of scrubbing, on each disk; `None`: it has that of relocation.
    pub scrub: Option<FloorContract>,
    /// How long a disk has been out before a spare takes its place.
    pub spare_after: Duration,
    /// From when on an answer of one of its disks is slow: one that is slow again and again, or
    /// does not answer, is taken out if the pool can do without.
    pub slow_after: Duration,
    /// The names of volumes whose removal was begun: those of them that the pool still has are
    /// removed at the next start. None of them is in `volumes`.
    pub removing: Vec<String>,
    /// The volumes with a contract, in the file's order. Their names differ from those of
    /// [`crate::Volume`]s.
    pub volumes: Vec<PoolVolume>,
    /// The line of its table, from 1.
    pub line: usize,
}

/// What making a mirror's copies equal, or scrubbing, has of each disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloorContract {
    /// Above zero, so that it ends whatever else the disk does.
    pub reserve: Share,
    /// At least the reserve.
    pub limit: Share,
}

impl FloorContract {
    /// The same on `disk`.
    fn on(self, disk: &Disk) -> Contract {
        disk.limited(self.reserve, self.limit).in_background()
    }
}

/// A volume of the pool, by its index in [`PoolPlan::volumes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolVolumeIndex(pub usize);

/// A change of the pool, by its index in [`crate::Plan::changes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolChangeIndex(pub usize);

/// A change of the pool that a simulation makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolChange {
    /// When, from the beginning of the run.
    pub at: Duration,
    /// The volume that it is about.
    pub volume: PoolVolumeIndex,
    /// What it does.
    pub action: PoolAction,
    /// The line of its table, from 1.
    pub line: usize,
}

/// What a change of the pool does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolAction {
    /// Relocates the volume from [`PoolVolume::from`], which it has, to its placement.
    Relocate,
    /// Takes a snapshot of the volume.
    Snapshot {
        /// The snapshot's name, unique among all volumes.
        name: String,
    },
}

/// A volume of a pool, and its contracts.
///
/// A stream's worst case on a disk covers every location that blocks of the volume's zone can have
/// there ([`Disk::zone`]). So a volume that grows, on the same disks and in the same zone, stays
/// within its contract (RTAS 2000 §2), and so do the copies that its writes make beside a snapshot;
/// a volume that moves elsewhere is admitted again ([`crate::Document::relocate_pool_volume`]).
/// [`Zone::Fastest`] is the way to a cost that is that of the volume's own tracks (RTAS 2000 §3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolVolume {
    /// Its name, unique among all volumes: clients open it by this name.
    pub name: String,
    /// The clients that may open it, by `CN=NAME` or `sha256:FINGERPRINT`; `None`: all clients.
    pub clients: Option<Vec<String>>,
    /// The size with which it is created if the pool has no volume of this name: whole blocks, at
    /// least one. Otherwise the size in the pool's metadata holds.
    pub size: Bytes,
    /// The pool's disks that it is placed on; those of a stripe, at least two, and those of a
    /// mirror, at least as many as copies, in the order of the rotation.
    pub disks: Vec<DiskIndex>,
    /// How consecutive blocks are placed on the disks.
    pub layout: Layout,
    /// The part of the disks that it is placed on.
    pub zone: Zone,
    /// Whether blocks are allocated when they are first written. Not beside a stream.
    pub thin: bool,
    /// Whether checksums of its data are kept, on disks that have an area for them. It counts when
    /// the volume is created.
    pub checksums: bool,
    /// The placement from which its blocks are being relocated.
    pub from: Option<PlacementSpec>,
    /// Its contract on each disk that it is placed on or is relocated from; each of them admitted,
    /// each disk once.
    pub parts: Vec<DiskContract>,
    /// Whether it is served before volumes of a lower class, on all of its disks.
    pub priority: Priority,
    /// The rate that its reserve is derived from, as written in the config.
    pub rate: Option<RateRequirement>,
    /// Its requested stream. The stream on one disk is in the contract of that disk.
    pub stream: Option<PoolStream>,
    /// The number of its blocks on each of [`Self::disks`], if the stream has a span for each of
    /// them; else empty.
    pub stream_parts: Vec<Blocks>,
    /// Its requested latency. That of its pieces on one disk is in the contract of that disk.
    pub latency: Option<RequestedLatency>,
    /// The bound of its write buffer on each disk; zero: each of its writes is on the medium when
    /// it is answered.
    pub write_buffer: Sectors,
    /// The volume or snapshot of the pool with whose content it is created.
    pub source: Option<String>,
    /// What it is for, in the words of its user.
    pub labels: Labels,
    /// Whether it is a block device of the daemon's machine too.
    pub ublk: bool,
    /// The line of its table, from 1.
    pub line: usize,
}

/// The placement of a pool's volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementSpec {
    /// The part of the disks.
    pub zone: Zone,
    /// The disks; those of a stripe in the order of the rotation.
    pub disks: Vec<DiskIndex>,
}

/// A volume's contract on one of its disks: a reserve or limit is that share of each disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskContract {
    /// The disk.
    pub disk: DiskIndex,
    /// The contract there. A stream here is a stream of *pieces* ([`PoolStream`]).
    pub contract: Contract,
    /// The rate of pieces there that its reserve is derived from, if it is derived from one.
    pub declared: Option<RateContract>,
    /// When the stream there is guaranteed, from the start of the daemon; not empty.
    pub span: Span,
}

/// The stream of a pool's volume, as written in the config.
///
/// A client's block is split at each 1 MiB of the volume, and each piece is a request of its own to
/// its disk. Where up to m pieces of a block can belong to one disk, that disk's contract is a
/// stream of pieces with an m-th of the period: the m-th piece, which arrived with the first, is
/// due when the block is. The client chooses which disk's blocks it reads, so that each disk
/// reserves time for every block; a stripe that is read in order uses one block in k of that, and
/// with [`StreamOrder::Sequential`] each disk reserves no more.
///
/// The guarantee is for blocks that begin at multiples of their own size from the volume's
/// beginning, if that size is a multiple of 1 MiB or 1 MiB divided by a power of two: those are
/// split at the fewest edges. For blocks of other sizes it holds wherever they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStream {
    /// The bandwidth and the block size.
    pub requested: RequestedStream,
    /// When the guarantee holds, from the start of the daemon.
    pub span: Span,
    /// The order in which its client asks for the volume's bytes.
    pub order: StreamOrder,
    /// How many of a mirror's disks may be lost while the guarantee holds: less than there are
    /// copies. 0 for other layouts.
    pub survive: u8,
}

/// The order in which a stream's client asks for the bytes of a pool's volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StreamOrder {
    /// Any: each disk reserves time for every block.
    #[default]
    Any,
    /// That of the volume: each disk of a stripe reserves time for its part of the blocks (RTAS
    /// 2000 §3.1). What is asked for earlier than that at a disk is best effort until its release.
    Sequential,
}

impl PoolPlan {
    /// The contract of the metadata on each disk.
    pub fn metadata_contract(&self) -> Contract {
        Contract::reserve(self.metadata_share)
    }

    /// The contract of relocating blocks on `disk`. Under a policy that keeps no limits, what
    /// exceeds the reserve is best effort.
    pub fn relocation_contract(&self, disk: &Disk) -> Contract {
        disk.limited(self.relocation_share, self.relocation_share).in_background()
    }

    /// The contract of making copies equal on `disk`, if it has one of its own; without a limit
    /// under a policy that keeps none.
    pub fn rebuild_contract(&self, disk: &Disk) -> Option<Contract> {
        self.rebuild.map(|floor| floor.on(disk))
    }

    /// The contract of scrubbing `disk`, if it has one of its own; without a limit under a policy
    /// that keeps none.
    pub fn scrub_contract(&self, disk: &Disk) -> Option<Contract> {
        self.scrub.map(|floor| floor.on(disk))
    }

    /// The contracts of the pool's own work on `disk`, each with its key.
    pub fn own_contracts(&self, disk: &Disk) -> impl Iterator<Item = (&'static str, Contract)> {
        let shares = [
            ("metadata_share", self.metadata_contract()),
            ("relocation_share", self.relocation_contract(disk)),
        ];
        let rebuild = self.rebuild_contract(disk).map(|contract| ("rebuild", contract));
        let scrub = self.scrub_contract(disk).map(|contract| ("scrub", contract));
        shares.into_iter().chain(rebuild).chain(scrub)
    }

    /// The contracts of a volume that the pool contains and the config does not: best effort.
    pub fn best_effort_contracts(disks: &[DiskIndex]) -> Vec<DiskContract> {
        let best_effort = |&disk| {
            let (contract, declared) = (Contract::BEST_EFFORT, None);
            DiskContract { disk, contract, declared, span: Span::ALWAYS }
        };
        disks.iter().map(best_effort).collect()
    }

    /// The volume of this name, if it has a contract.
    pub fn volume(&self, name: &str) -> Option<&PoolVolume> {
        self.volumes.iter().find(|volume| volume.name == name)
    }
}

impl PoolVolume {
    /// Whether it has a stream whose client asks in the volume's order.
    pub fn is_sequential(&self) -> bool {
        self.stream.is_some_and(|stream| stream.order == StreamOrder::Sequential)
    }

    /// When its stream is guaranteed on some disk; always if it has none.
    pub fn span(&self) -> Span {
        self.stream.map_or(Span::ALWAYS, |stream| stream.span)
    }

    /// When its stream is guaranteed on a disk; always if it has none there.
    pub fn span_on(&self, disk: DiskIndex) -> Span {
        let part = self.parts.iter().find(|part| part.disk == disk);
        part.map_or(Span::ALWAYS, |part| part.span)
    }

    /// When a disk keeps its stream; never if others do and it does not; always if there is none.
    pub fn stream_span_on(&self, disk: DiskIndex) -> Span {
        let part = self.parts.iter().find(|part| part.disk == disk);
        let has_none = part.is_some_and(|part| part.contract.stream.is_none());
        if has_none && self.stream.is_some() { NEVER } else { self.span_on(disk) }
    }

    /// How much of it is on each of its disks, and when the disk keeps the stream, in the disks'
    /// order; nothing if its stream has no parts.
    pub fn disks_of_parts(&self) -> impl Iterator<Item = (DiskIndex, Bytes, Span)> + '_ {
        let parts = self.disks.iter().zip(&self.stream_parts);
        parts.map(|(disk, part)| (*disk, part.sectors().bytes(), self.span_on(*disk)))
    }

    /// Its contract on a disk; best effort if the config has none.
    pub fn contract(&self, disk: DiskIndex) -> Contract {
        let part = self.parts.iter().find(|part| part.disk == disk);
        part.map_or(Contract::BEST_EFFORT, |part| part.contract)
    }

    /// The rate that its reserve on a disk is derived from, if it is derived from one.
    pub fn declared(&self, disk: DiskIndex) -> Option<RateContract> {
        self.parts.iter().find(|part| part.disk == disk)?.declared
    }

    /// The number of its blocks.
    ///
    /// # Panics
    /// Never: its size is whole blocks, and bounded.
    pub fn blocks(&self) -> Blocks {
        let blocks = self.size.sectors_floor().0 / BLOCK_SECTORS.0;
        Blocks(u32::try_from(blocks).expect("a size is bounded"))
    }
}

/// The numbers of the failure domains of disks, by [`DiskIndex`]; `None`: it fails alone.
pub fn domain_numbers(disks: &[Disk]) -> Vec<Option<u32>> {
    let names: BTreeSet<&str> = disks.iter().filter_map(|disk| disk.domain.as_deref()).collect();
    let number = |disk: &Disk| {
        let at = names.iter().position(|name| disk.domain.as_deref() == Some(*name))?;
        Some(u32::try_from(at).expect("few disks"))
    };
    disks.iter().map(number).collect()
}

impl Disk {
    /// A reserve with a limit; without it under a policy that keeps none.
    fn limited(&self, reserve: Share, limit: Share) -> Contract {
        let contract = Contract::reserve(reserve);
        if self.policy.keeps(Feature::Limit) { Contract { limit, ..contract } } else { contract }
    }

    /// The number of blocks that the disk has for a pool, metadata included.
    pub fn pool_blocks(&self) -> u32 {
        let blocks = self.drive.model.capacity().0 / BLOCK_SECTORS.0;
        u32::try_from(blocks).map_or(DISK_BLOCKS_MAX, |blocks| blocks.min(DISK_BLOCKS_MAX))
    }

    /// The same in a pool whose disks have checksum areas.
    pub fn pool_blocks_with_sums(&self) -> u32 {
        blocks_with_area(self.drive.model.capacity())
    }

    /// The one or the other.
    pub fn blocks_in_pool(&self, has_sums: bool) -> u32 {
        if has_sums { self.pool_blocks_with_sums() } else { self.pool_blocks() }
    }

    /// The sectors that blocks of `zone` can occupy. A config does not know the size of the
    /// metadata, which moves the end of the fast part, nor whether there are checksum areas: the
    /// extent holds for the smallest metadata and for the largest, with an area and without, and
    /// the two parts overlap.
    ///
    /// It is correct for a disk of which the pool has [`Self::pool_blocks`], or
    /// [`Self::pool_blocks_with_sums`].
    pub fn zone(&self, zone: Zone) -> Extent {
        let blocks = self.pool_blocks();
        let end = Sectors(u64::from(blocks) * BLOCK_SECTORS.0);
        let edge = |geometry: Geometry, blocks: u32| {
            Blocks(geometry.fast_end(blocks).min(blocks)).sectors()
        };
        match zone {
            Zone::Any => Extent::new(Lba(0), end),
            Zone::Fast => Extent::new(Lba(0), edge(Geometry::LARGEST, blocks)),
            // The pool counts the blocks that it has, which may be fewer.
            Zone::Fastest(part) => Extent::new(Lba(0), Blocks(part.end(blocks)).sectors()),
            Zone::Slow => {
                let start = edge(Geometry::SMALLEST, self.pool_blocks_with_sums());
                Extent::new(Lba(start.0), Sectors(end.0 - start.0))
            }
        }
    }
}

/// The config's word for a layout; that for a mirror does not say how many copies it has.
///
/// # Panics
/// Never: each has one.
pub fn layout_name(layout: Layout) -> &'static str {
    let is_of = |(_, meant): &(&str, Layout)| match layout {
        Layout::Mirror(_) => meant.is_mirror(),
        _ => *meant == layout,
    };
    LAYOUTS.into_iter().find(is_of).expect("each has one").0
}

/// The config's number of a mirror's copies; `None` for other layouts.
pub fn layout_copies(layout: Layout) -> Option<u8> {
    match layout {
        Layout::Mirror(copies) => u8::try_from(copies.number()).ok(),
        Layout::Single | Layout::Stripe | Layout::Random => None,
    }
}

/// The config's words for a zone.
///
/// # Panics
/// Never: each has some.
pub fn zone_name(zone: Zone) -> String {
    if let Zone::Fastest(part) = zone {
        return format!("{FASTEST}{}%", part.number());
    }
    ZONES.into_iter().find(|(_, meant)| *meant == zone).expect("each has one").0.to_owned()
}

/// The zone of which these are the config's words.
pub fn zone_of(words: &str) -> Option<Zone> {
    if let Some((_, zone)) = ZONES.into_iter().find(|(word, _)| *word == words) {
        return Some(zone);
    }
    let percent = words.strip_prefix(FASTEST)?.strip_suffix('%')?;
    // One spelling for each: no sign, no zero in front.
    let part = Percent::new(percent.parse().ok()?)?;
    let zone = Zone::Fastest(part);
    (zone_name(zone) == words).then_some(zone)
}

/// What is accepted as the words of a zone.
pub const ZONE_WORDS: &str = "\"fast\", \"slow\", \"any\", or \"fastest 1%\" to \"fastest 99%\"";

/// The config's word for the order of a stream.
///
/// # Panics
/// Never: each has one.
pub fn order_name(order: StreamOrder) -> &'static str {
    ORDERS.into_iter().find(|(_, meant)| *meant == order).expect("each has one").0
}
