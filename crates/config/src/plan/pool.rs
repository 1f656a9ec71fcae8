//! `[pool]`: disks whose space is shared, and what is promised to the volumes on them.
//!
//! Two truths, and they do not meet: the pool's own metadata, on its disks, say which volumes there are, how large, and where
//! each block of them lies; the config says what each is promised. A volume that only the metadata know has no promise
//! ([`PoolPlan::best_effort_contracts`]); one that only the config knows is made as the config says.
//!
//! Each disk of a volume admits its part of the contract, or none does.

use engine::stream::{RequestedStream, Span};
use engine::{Contract, Priority};
use units::{Bytes, Extent, Lba, Sectors, Share};
use volume::pool::format::Geometry;
use volume::pool::limits::{BLOCK_SECTORS, DISK_BLOCKS_MAX};
use volume::pool::{Blocks, Layout, Zone};

use super::disk::{Disk, DiskIndex};

/// The config's words for the layouts of a volume.
pub(crate) const LAYOUTS: [(&str, Layout); 3] =
    [("single", Layout::Single), ("stripe", Layout::Stripe), ("random", Layout::Random)];
/// The config's words for the zones of a disk.
pub(crate) const ZONES: [(&str, Zone); 3] =
    [("fast", Zone::Fast), ("slow", Zone::Slow), ("any", Zone::Any)];

/// A pool, and what is promised to its volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPlan {
    /// The disks that belong to it, in the file's order; at least one, none twice. No [`crate::Volume`] lies on one of
    /// them. Which label each has is not said: a daemon looks.
    pub disks: Vec<DiskIndex>,
    /// What the metadata have of each disk in any case. Above zero.
    pub metadata_share: Share,
    /// What moving blocks has of each disk, reserve and limit alike. Above zero.
    pub relocation_share: Share,
    /// The volumes that are promised something, in the file's order. Their names are no names of [`crate::Volume`]s.
    pub volumes: Vec<PoolVolume>,
    /// The line of its table, from 1.
    pub line: usize,
}

/// A volume of a pool, and what it is promised.
///
/// A stream's part is worked out for wherever blocks of the volume's zone can lie on a disk ([`Disk::zone`]). So a volume
/// that grows, on the same disks and in the same zone, stays within its contract, as RTAS 2000 §2 has it; one that is to
/// lie elsewhere is admitted again ([`crate::Document::relocate_pool_volume`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolVolume {
    /// Its name, unique among all volumes: clients ask for it.
    pub name: String,
    /// Who may open it, by `CN=NAME` or `sha256:FINGERPRINT`; `None`: whoever gets that far.
    pub clients: Option<Vec<String>>,
    /// How large it is made where the pool has none of this name: whole blocks, at least one. Otherwise the pool knows.
    pub size: Bytes,
    /// The disks that it is to lie on, of the pool's; those of a stripe, at least two, in the order of the rotation.
    pub disks: Vec<DiskIndex>,
    /// How its blocks follow each other.
    pub layout: Layout,
    /// On which part of its disks they are to lie.
    pub zone: Zone,
    /// Whether blocks appear when they are first written. Not beside a stream.
    pub thin: bool,
    /// Where blocks of it may still lie, while it is moved from there.
    pub from: Option<PlacementSpec>,
    /// Its contract on each disk that it lies on, or is moved from; each of them admitted, each disk once.
    pub parts: Vec<DiskContract>,
    /// Whether it goes before everybody of a lower class, on all of its disks.
    pub priority: Priority,
    /// What it asked for by deadlines. What this comes to on a disk is in the contract of that disk's part.
    pub stream: Option<PoolStream>,
    /// The line of its table, from 1.
    pub line: usize,
}

/// Where a volume of a pool lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementSpec {
    /// On which part of the disks.
    pub zone: Zone,
    /// On which disks; those of a stripe in the order of the rotation.
    pub disks: Vec<DiskIndex>,
}

/// What a volume is promised on one of its disks: a reserve, or a limit, is that share of each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskContract {
    /// Which disk.
    pub disk: DiskIndex,
    /// What it is promised there. A stream here is one of *pieces* ([`PoolStream`]).
    pub contract: Contract,
}

/// What is promised to the stream of a pool's volume, as the config says it.
///
/// A client's block is cut at every 1 MiB of the volume, and each piece is a request of its own to its disk. Where up to m
/// pieces of a block can be one disk's, that disk's part is a stream of pieces with an m-th of the period: the m-th of
/// them, which came with the first, is due when the block is. Which of a volume's disks has a block is the client's choice, so
/// that each disk keeps time for every block; a stripe that is read in order takes one block in k of that.
///
/// The promise is for blocks that begin at multiples of their own size from the volume's beginning, if that is 1 MiB, so many
/// MiB or a 2ⁿ-th of one: those are cut at no more edges than they need. For blocks of other sizes it is wherever they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStream {
    /// Bytes a second, and bytes a request.
    pub asked: RequestedStream,
    /// When, from the start of the daemon.
    pub span: Span,
}

impl PoolPlan {
    /// What the metadata have of a disk.
    pub fn metadata_contract(&self) -> Contract {
        Contract::reserve(self.metadata_share)
    }

    /// What moving blocks has of `disk`. Under a policy that serves deadlines nobody has a limit, and what is above the reserve is best effort.
    pub fn relocation_contract(&self, disk: &Disk) -> Contract {
        let reserve = Contract::reserve(self.relocation_share);
        if disk.policy.has_deadlines() {
            return reserve;
        }
        Contract { limit: self.relocation_share, ..reserve }
    }

    /// What a volume has on these disks that the pool holds and the config does not know: nothing that is promised.
    pub fn best_effort_contracts(disks: &[DiskIndex]) -> Vec<DiskContract> {
        disks.iter().map(|&disk| DiskContract { disk, contract: Contract::BEST_EFFORT }).collect()
    }

    /// The volume of this name, if it is promised something.
    pub fn volume(&self, name: &str) -> Option<&PoolVolume> {
        self.volumes.iter().find(|volume| volume.name == name)
    }
}

impl PoolVolume {
    /// When its parts' streams hold; always if it has none.
    pub fn span(&self) -> Span {
        self.stream.map_or(Span::ALWAYS, |stream| stream.span)
    }

    /// What it is promised on a disk; best effort where the config does not know of it.
    pub fn contract(&self, disk: DiskIndex) -> Contract {
        let part = self.parts.iter().find(|part| part.disk == disk);
        part.map_or(Contract::BEST_EFFORT, |part| part.contract)
    }

    /// How many blocks it is made of.
    ///
    /// # Panics
    /// Never: its size is whole blocks, and bounded.
    pub fn blocks(&self) -> Blocks {
        let blocks = self.size.sectors_floor().0 / BLOCK_SECTORS.0;
        Blocks(u32::try_from(blocks).expect("a size is bounded"))
    }
}

impl Disk {
    /// How many blocks it has for a pool, metadata and all.
    pub fn pool_blocks(&self) -> u32 {
        let blocks = self.drive.model.capacity().0 / BLOCK_SECTORS.0;
        u32::try_from(blocks).map_or(DISK_BLOCKS_MAX, |blocks| blocks.min(DISK_BLOCKS_MAX))
    }

    /// The sectors in which blocks of `zone` can lie. A config does not know how much the metadata take, which moves the
    /// end of the fast part: so this is what holds for the least metadata and for the most, and the two parts overlap.
    ///
    /// It is right for a disk that the pool has all of: [`Self::pool_blocks`].
    pub fn zone(&self, zone: Zone) -> Extent {
        let blocks = self.pool_blocks();
        let end = Sectors(u64::from(blocks) * BLOCK_SECTORS.0);
        let edge = |geometry: Geometry| Blocks(geometry.fast_end(blocks).min(blocks)).sectors();
        match zone {
            Zone::Any => Extent::new(Lba(0), end),
            Zone::Fast => Extent::new(Lba(0), edge(Geometry::LARGEST)),
            Zone::Slow => {
                let start = edge(Geometry::SMALLEST);
                Extent::new(Lba(start.0), Sectors(end.0 - start.0))
            }
        }
    }
}

/// The config's word for a layout.
///
/// # Panics
/// Never: each has one.
pub fn layout_name(layout: Layout) -> &'static str {
    let word = LAYOUTS.into_iter().find(|(_, meant)| *meant == layout);
    word.expect("each has one").0
}

/// The config's word for a zone.
///
/// # Panics
/// Never: each has one.
pub fn zone_name(zone: Zone) -> &'static str {
    ZONES.into_iter().find(|(_, meant)| *meant == zone).expect("each has one").0
}
