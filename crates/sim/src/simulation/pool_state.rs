//! A pool in simulation: its flow, what is in progress, and the changes that its plan makes.

use std::collections::BTreeMap;

use config::{LoadedVolume, PoolVolumeIndex};
use engine::stream::Span;
use stats::Latency;
use units::{Bytes, Extent, Instant, Lba, Op, Operation, Sectors};
use volume::DiskId;
use volume::pool::flow::{ChangeId, ChargeTo, CopyId, Flow, Piece, PieceId, PoolRequestId, Work};
use volume::pool::{PoolVolumeId, Zone};

use super::load::Target;
use crate::oracle::{PoolOracle, Written};

/// A disk of the pool: its place among the simulation's disks, and those of its internal volumes
/// among the simulation's volumes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) disk: usize,
    pub(super) metadata: usize,
    pub(super) relocation: usize,
    /// That of relocation, unless the plan has a contract for making copies equal.
    pub(super) rebuild: usize,
    /// The same for scrubbing.
    pub(super) scrub: usize,
}

/// A volume of the pool, or a snapshot that a change takes.
#[derive(Debug)]
pub(super) struct PoolVolume {
    pub(super) name: String,
    pub(super) size: Sectors,
    /// Its number; `None`: the snapshot is not taken yet.
    pub(super) id: Option<PoolVolumeId>,
    /// Its place among the simulation's volumes, by disk.
    pub(super) places: BTreeMap<usize, usize>,
    pub(super) latency: Latency,
    pub(super) bytes: Bytes,
    pub(super) answered: u64,
    pub(super) dropped: u64,
    /// When its stream is in force: on any disk, and on each.
    span: Span,
    spans: BTreeMap<usize, Span>,
    /// What was asked of disks while the stream was in force on others only.
    pub(super) outside: Sectors,
}

/// A client's request in progress.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) load: usize,
    pub(super) at: Instant,
    pub(super) operation: Operation,
    /// Whether a piece of it went to a disk.
    pub(super) has_pieces: bool,
}

/// The use of a piece.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// It belongs at this offset of a request.
    Request(PoolRequestId, Sectors),
    Load(CopyId),
    Store,
    Erase,
    /// It is verified.
    Verify,
    /// Only its success matters.
    Other,
}

#[derive(Debug)]
pub(super) enum Action {
    Relocate { zone: Zone, disks: Vec<DiskId> },
    Snapshot { volume: usize },
}

/// A change that the plan makes.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) at: Instant,
    pub(super) volume: usize,
    pub(super) action: Action,
    pub(super) begun: Option<Instant>,
    pub(super) ended: Option<Instant>,
    pub(super) error: Option<String>,
}

/// The pool of a simulation.
#[derive(Debug)]
pub(super) struct SimulatedPool {
    pub(super) flow: Flow,
    pub(super) members: BTreeMap<DiskId, Member>,
    /// Those of the plan, then the snapshots.
    pub(super) volumes: Vec<PoolVolume>,
    /// The number of volumes of the plan.
    pub(super) planned: usize,
    /// The first of its places among the simulation's volumes.
    pub(super) first_place: usize,
    pub(super) requests: BTreeMap<PoolRequestId, Pending>,
    pub(super) numbers: u64,
    pub(super) pieces: BTreeMap<PieceId, Purpose>,
    pub(super) changes: Vec<Change>,
    pub(super) running: BTreeMap<ChangeId, usize>,
    pub(super) relocated: Bytes,
    pub(super) relocated_at: Option<Instant>,
    pub(super) oracle: PoolOracle,
}

impl SimulatedPool {
    /// Schedules the changes, each by its number.
    pub(super) fn schedule_changes(&self, mut schedule: impl FnMut(Instant, usize)) {
        self.changes.iter().enumerate().for_each(|(index, change)| schedule(change.at, index));
    }

    /// A volume or snapshot of the plan that a workload loads, and its size.
    ///
    /// # Panics
    /// On a volume of one disk.
    pub(super) fn target(&self, volume: LoadedVolume) -> (Target, Sectors) {
        let index = match volume {
            LoadedVolume::Single(_) => unreachable!("it is not the pool's"),
            LoadedVolume::Pool(PoolVolumeIndex(index)) => index,
            LoadedVolume::Snapshot(change) => match self.changes[change.0].action {
                Action::Snapshot { volume } => volume,
                Action::Relocate { .. } => unreachable!("the config refuses it"),
            },
        };
        (Target::Pool(index), self.volumes[index].size)
    }

    /// Whether requests can be sent there: a snapshot is there when it is taken.
    pub(super) fn is_there(&self, target: Target) -> bool {
        match target {
            Target::Volume(_) => true,
            Target::Pool(volume) => self.volumes[volume].id.is_some(),
        }
    }

    /// What its oracle has checked.
    pub(super) fn checked(&self) -> u64 {
        self.oracle.checked
    }

    /// The volume that is charged on a disk.
    pub(super) fn place(&self, payer: ChargeTo, disk: DiskId) -> usize {
        let member = &self.members[&disk];
        match payer {
            ChargeTo::Metadata => member.metadata,
            ChargeTo::Relocation => member.relocation,
            ChargeTo::Rebuild => member.rebuild,
            ChargeTo::Scrub => member.scrub,
            ChargeTo::Volume(id) => {
                let volume = self.volumes.iter().find(|volume| volume.id == Some(id));
                volume.map_or(member.metadata, |volume| volume.places[&member.disk])
            }
        }
    }

    /// The command of a piece, its use, and what it writes.
    pub(super) fn command(piece: &Piece) -> (Operation, Purpose, Option<Written>) {
        let plain = |op, extent, fua| Operation { op, extent, fua };
        match piece.work {
            Work::Request { request, op, extent, at, fua, .. } => {
                let purpose = Purpose::Request(request, at);
                (plain(op, extent, fua), purpose, None)
            }
            Work::Metadata { extent, fua, .. } => {
                (plain(Op::Write, extent, fua), Purpose::Other, Some(Written::Metadata))
            }
            Work::Flush => {
                let nowhere = Extent::new(Lba(0), Sectors::ZERO);
                (plain(Op::Flush, nowhere, false), Purpose::Other, None)
            }
            Work::Erase { extent } => (plain(Op::Trim, extent, false), Purpose::Erase, None),
            Work::Load { copy, extent } => {
                (plain(Op::Read, extent, false), Purpose::Load(copy), None)
            }
            Work::Verify { extent, .. } => (plain(Op::Read, extent, false), Purpose::Verify, None),
            Work::Store { copy, extent, fua } => {
                let written = Written::Copy { copy, at: extent.start };
                (plain(Op::Write, extent, fua), Purpose::Store, Some(written))
            }
        }
    }
}

/// When each disk of a volume keeps its stream.
fn spans_of(volume: &config::PoolVolume) -> BTreeMap<usize, Span> {
    let span = |part: &config::DiskContract| (part.disk.0, volume.stream_span_on(part.disk));
    volume.parts.iter().map(span).collect()
}

impl PoolVolume {
    pub(super) fn new(
        name: &str,
        volume: &config::PoolVolume,
        (id, places): (Option<PoolVolumeId>, BTreeMap<usize, usize>),
    ) -> Self {
        Self {
            name: name.to_owned(),
            size: volume.size.sectors_floor(),
            id,
            places,
            latency: Latency::default(),
            bytes: Bytes::ZERO,
            answered: 0,
            dropped: 0,
            span: volume.span(),
            spans: spans_of(volume),
            outside: Sectors::ZERO,
        }
    }

    /// Counts a read or write of its client on a disk, if it is outside of the disk's span.
    pub(super) fn count_outside(&mut self, disk: usize, operation: &Operation, now: Instant) {
        let is_counted = matches!(operation.op, Op::Read | Op::Write) && self.span.contains(now);
        if is_counted && self.spans.get(&disk).is_some_and(|span| !span.contains(now)) {
            self.outside += operation.extent.len;
        }
    }
}
