//! The state of a pool as operators see it.

use std::collections::BTreeMap;

use units::{Bytes, Duration, Sectors};
use volume::DiskId;
use volume::pool::flow::{ChangeOutcome, Flow, RelocationProgress, ScrubProgress};
use volume::pool::sums::{SUM_SECTORS, SumsStatus};
use volume::pool::{
    BlockExtent, BlockSet, Blocks, Layout, Pool, PoolUid, ScrubPhase, ScrubRecord, UnixTime,
    Volume, Zone,
};

use super::resync_trend::{ResyncEstimate, ResyncTrend, Trends};
use super::sums::PoolSums;

/// The names of the pool's disks that are present, and of their failure domains.
pub(crate) type DiskNames = BTreeMap<DiskId, (String, Option<String>)>;

/// The size of a volume as clients see it.
pub(crate) fn size(volume: &Volume) -> Bytes {
    volume.size.sectors().bytes()
}

/// A pool, its disks and its volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Its unique identifier.
    pub uid: PoolUid,
    /// The number of changes since it was created.
    pub sequence: u64,
    /// Whether it can be written: all of its disks are present, and no write of metadata has
    /// failed.
    pub writable: bool,
    /// The capacity of its disks for volumes.
    pub size: Bytes,
    /// The free part of that capacity.
    pub free: Bytes,
    /// The space that thin volumes may still allocate.
    pub promised: Bytes,
    /// Whether its use has reached the alarm level.
    pub alarm: bool,
    /// The version of its format.
    pub format: u32,
    /// The newest version of the format.
    pub format_newest: u32,
    /// The resynchronisation of its mirrors.
    pub resync: ResyncView,
    /// The scrub of its volumes.
    pub scrub: ScrubView,
    /// Its disks.
    pub disks: Vec<PoolDiskView>,
    /// Its volumes and snapshots.
    pub volumes: Vec<PoolVolumeView>,
}

/// A disk of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolDiskView {
    /// Its number in the pool.
    pub number: u32,
    /// Its name in the config; `None` if it is missing.
    pub name: Option<String>,
    /// Its failure domain, if it has one.
    pub domain: Option<String>,
    /// Its capacity for volumes.
    pub size: Bytes,
    /// The free part of that capacity.
    pub free: Bytes,
    /// Whether it is being drained.
    pub leaving: bool,
    /// Whether the pool uses it.
    pub state: PoolDiskState,
    /// The part of it that missed writes: it is written again when the disk is in.
    pub stale: Bytes,
    /// The checksums of its data, if it has a checksum area.
    pub checksums: Option<ChecksumsView>,
    /// What becomes of its place, if it is out and there is a spare.
    pub spare: Option<SpareView>,
}

/// What becomes of the place of a disk that is out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpareView {
    /// A spare takes it after this time.
    Waits(Duration),
    /// No spare may have it, for these reasons.
    Refused(String),
}

/// What becomes of the places of the disks that are out.
pub(crate) type SpareViews = BTreeMap<DiskId, SpareView>;

/// What a view shows beside the flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewParts<'a> {
    pub(crate) trends: Trends<'a>,
    pub(crate) sums: &'a PoolSums,
    pub(crate) spares: &'a SpareViews,
}

/// The checksums of the data of a disk, since the daemon's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChecksumsView {
    /// What was read and compared.
    pub verified: Bytes,
    /// What was read while its checksum was not known.
    pub unverified: Bytes,
    /// The 4 KiB that differed: each time they were read.
    pub wrong: u64,
    /// Pages of checksums that were damaged.
    pub pages_damaged: u64,
    /// Whether its checksums cannot be stored: it takes no writes to regions that are closed.
    pub is_broken: bool,
}

/// Whether a pool uses one of its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolDiskState {
    /// It does.
    In,
    /// It failed, and the pool has not stored yet that it is out.
    Failing,
    /// It failed, and is there.
    Out,
    /// It is out, and not there.
    OutMissing,
    /// It is not there, and the pool does not go on without it.
    Missing,
}

/// The resynchronisation of a pool's mirrors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResyncView {
    /// Whether blocks are made equal now.
    pub is_running: bool,
    /// Whether some cannot be until something has changed.
    pub is_stuck: bool,
    /// Whether copies may differ that are not known to be stale: those of mirrors that were written
    /// to when the daemon was killed or the power failed.
    pub is_verifying: bool,
    /// The stale part of the disks that are in.
    pub left: Bytes,
    /// What was examined and made equal since the daemon's start.
    pub done: Bytes,
    /// The time until all copies are equal; `None` while there is no progress, and while copies may
    /// differ that are not counted in `left`.
    pub estimate: Option<ResyncEstimate>,
}

/// The scrub of a pool that goes on, or the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubView {
    /// Whether it goes on.
    pub phase: ScrubPhase,
    /// Whether it waits until copies are equal, or until the pool can be written.
    pub is_waiting: bool,
    /// When it began, and when all was read, in seconds since 1970.
    pub began: Option<u64>,
    /// The same; `None` before.
    pub ended: Option<u64>,
    /// What was read of all copies.
    pub read: Bytes,
    /// What is left to be read, as far as blocks were not given or freed since it began.
    pub left: Bytes,
    /// Copies that could not be read, were written from another, and then were read.
    pub mended: u64,
    /// Copies that cannot be read although they were written from another.
    pub unmended: u64,
    /// Blocks that no copy has.
    pub lost: u64,
    /// Blocks whose copies differ.
    pub differing: u64,
    /// The time until all is read; `None` without progress.
    pub estimate: Option<ResyncEstimate>,
}

/// What a scrub that goes on has left to read.
pub(crate) fn scrub_left(scrub: &ScrubProgress) -> Bytes {
    match scrub.record.phase {
        ScrubPhase::Running | ScrubPhase::Stopped => {
            bytes(scrub.allotted.saturating_sub(scrub.record.read))
        }
        ScrubPhase::Never | ScrubPhase::Done => Bytes::ZERO,
    }
}

impl ResyncView {
    fn new(flow: &Flow, trend: &ResyncTrend) -> Self {
        let (resync, is_verifying) = (flow.resync(), flow.pool().is_unsynced());
        Self {
            is_running: resync.is_running,
            is_stuck: resync.is_stuck,
            is_verifying,
            left: bytes(resync.stale),
            done: bytes(resync.done),
            estimate: trend.estimate().filter(|_| !is_verifying && !resync.is_stuck),
        }
    }
}

impl ScrubView {
    fn new(scrub: &ScrubProgress, trend: &ResyncTrend) -> Self {
        let ScrubRecord { phase, began, ended, mended, unmended, lost, differing, .. } =
            scrub.record;
        let at = |time: UnixTime| Some(time.0).filter(|seconds| *seconds > 0);
        Self {
            phase,
            is_waiting: scrub.is_waiting,
            began: at(began),
            ended: at(ended),
            read: bytes(scrub.record.read),
            left: scrub_left(scrub),
            mended,
            unmended,
            lost,
            differing,
            estimate: trend.estimate().filter(|_| phase == ScrubPhase::Running),
        }
    }
}

/// A volume or a snapshot of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are separate facts of a volume")]
pub struct PoolVolumeView {
    /// Its name.
    pub name: String,
    /// Its size as clients see it.
    pub size: Bytes,
    /// The mapped part of its size.
    pub mapped: Bytes,
    /// The number of its extents.
    pub extents: usize,
    /// The layout of its blocks.
    pub layout: Layout,
    /// The part of its disks that it is placed on.
    pub zone: Zone,
    /// Whether blocks are allocated when they are first written.
    pub thin: bool,
    /// Whether checksums of its data are kept: its disks have areas for them, and it was not
    /// created without.
    pub has_sums: bool,
    /// The volume that it is a snapshot of.
    pub snapshot_of: Option<String>,
    /// The names of the disks that it is placed on, as far as they are present.
    pub disks: Vec<String>,
    /// Whether each of its blocks can be read: its disk is present, or that of another copy.
    pub whole: bool,
    /// The number of copies of each block of a mirror.
    pub copies: Option<u8>,
    /// The size of a mirror's copies that are stale, or on a disk that is not served.
    pub degraded: Bytes,
    /// The size of a mirror's blocks that have no whole copy.
    pub lost: Bytes,
    /// Whether each block of a mirror is read from a disk that keeps its stream; `None` if all
    /// disks keep it, or it has none.
    pub stream_kept: Option<bool>,
    /// Whether two copies of a block of a mirror are placed in one failure domain.
    pub shares_domain: bool,
    /// The progress of its relocation; `None` if all blocks are where they belong.
    pub moving: Option<Moving>,
}

/// The progress of a volume's relocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moving {
    /// The data moved since the daemon's start.
    pub moved: Bytes,
    /// The data that remains to be moved.
    pub left: Bytes,
    /// The reason why no block can be moved, if none can.
    pub stuck: Option<String>,
}

pub(crate) fn bytes(blocks: u64) -> Bytes {
    Bytes(blocks * Blocks(1).sectors().bytes().0)
}

fn moving(one: &RelocationProgress) -> Moving {
    let stuck = one.stuck.as_ref().map(|end| match end {
        ChangeOutcome::Done => "nothing".to_owned(),
        ChangeOutcome::Refused(why) => why.to_string(),
        ChangeOutcome::Failed(_) => "a disk failed".to_owned(),
    });
    Moving { moved: bytes(one.moved), left: bytes(one.misplaced), stuck }
}

/// Whether the pool uses a disk.
fn disk_state(pool: &Pool, id: DiskId, names: &DiskNames) -> PoolDiskState {
    let is_there = names.contains_key(&id);
    if pool.missing().contains(&id) {
        PoolDiskState::Missing
    } else if !pool.state().is_in(id) {
        if is_there { PoolDiskState::Out } else { PoolDiskState::OutMissing }
    } else if pool.failing().contains(&id) {
        PoolDiskState::Failing
    } else {
        PoolDiskState::In
    }
}

impl From<SumsStatus> for ChecksumsView {
    fn from(status: SumsStatus) -> Self {
        let SumsStatus { verified, unverified, wrong, pages_damaged, is_broken, .. } = status;
        let of = |count: u64| Sectors(count * SUM_SECTORS).bytes();
        let (verified, unverified) = (of(verified), of(unverified));
        Self { verified, unverified, wrong, pages_damaged, is_broken }
    }
}

impl PoolView {
    /// The volumes whose streams are best effort: blocks of them are read from disks that do not
    /// keep them.
    pub fn unkept_streams(&self) -> impl Iterator<Item = &PoolVolumeView> {
        self.volumes.iter().filter(|volume| volume.stream_kept == Some(false))
    }

    /// A view of the pool whose disks the daemon knows by these names.
    pub(crate) fn new(
        flow: &Flow,
        ViewParts { trends, sums, spares }: ViewParts<'_>,
        names: &DiskNames,
    ) -> Self {
        let (pool, relocations) = (flow.pool(), flow.relocations());
        let (state, status) = (pool.state(), pool.status());
        let name = |id: DiskId| names.get(&id).map(|(name, _)| name.clone());
        let disks = state.disks().map(|(id, disk)| {
            let (all, free) = pool.free(id);
            let (size, free) = (bytes(all.0.into()), bytes(free.0.into()));
            PoolDiskView {
                number: id.0,
                name: name(id),
                domain: names.get(&id).and_then(|(_, domain)| domain.clone()),
                size,
                free,
                leaving: disk.draining,
                state: disk_state(pool, id, names),
                stale: bytes(state.stale(id).map_or(0, BlockSet::blocks)),
                checksums: disk.has_sums.then(|| ChecksumsView::from(sums.status(id))),
                spare: spares.get(&id).cloned(),
            }
        });
        let volumes = state.volumes().map(|(id, volume)| {
            let origin = volume.origin.and_then(|id| state.volume(id));
            let is_present = |place: BlockExtent| names.contains_key(&place.disk);
            let progress = relocations.iter().find(|one| one.volume == id && one.misplaced > 0);
            let shortfall = pool.shortfall(volume);
            let has_area = |volume: &Volume| {
                let mut disks = volume.disks.iter();
                disks.all(|disk| state.disk(*disk).is_some_and(|disk| disk.has_sums))
            };
            let whole = match volume.layout {
                Layout::Mirror(_) => shortfall.lost == 0 && pool.missing().is_empty(),
                _ => volume.places().all(|place| is_present(place) && state.is_in(place.disk)),
            };
            PoolVolumeView {
                name: volume.name.clone(),
                size: size(volume),
                mapped: bytes(volume.mapped().0.into()),
                extents: volume.extents(),
                layout: volume.layout,
                zone: volume.zone,
                thin: volume.thin,
                has_sums: volume.sums && has_area(volume),
                snapshot_of: origin.map(|origin| origin.name.clone()),
                disks: volume.disks.iter().filter_map(|disk| name(*disk)).collect(),
                whole,
                copies: config::layout_copies(volume.layout),
                degraded: bytes(shortfall.copies),
                lost: bytes(shortfall.lost),
                stream_kept: flow.is_read_there(id),
                shares_domain: pool.shares_domain(id),
                moving: progress.map(moving),
            }
        });
        let (disks, mut volumes): (Vec<_>, Vec<_>) = (disks.collect(), volumes.collect());
        volumes.sort_by(|one, two| one.name.cmp(&two.name));
        Self {
            uid: state.pool,
            sequence: state.sequence,
            writable: pool.missing().is_empty() && !pool.is_poisoned(),
            size: bytes(status.blocks),
            free: bytes(status.free),
            promised: bytes(status.promised),
            alarm: status.alarm,
            format: state.version,
            format_newest: volume::pool::format::VERSION,
            resync: ResyncView::new(flow, trends.resync),
            scrub: ScrubView::new(&flow.scrub(), trends.scrub),
            disks,
            volumes,
        }
    }
}
