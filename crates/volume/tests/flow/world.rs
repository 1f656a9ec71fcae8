//! Clients and an operator at a flow, over disks that do what they are told in any order, fail, and
//! lose power.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rng::SplitMix64;
use spindle_volume::DiskId;
use spindle_volume::pool::flow::{
    COPIES_MAX, ChangeId, ChangeOutcome, ChargeTo, CopyId, Digest, Fault, Flow, Output, Piece,
    PieceId, PoolRequestId, RecordSums, Work,
};
use spindle_volume::pool::format::Geometry;
use spindle_volume::pool::{Blocks, Failure, Operation, Pool, PoolVolumeId, State};
use units::{Extent, Lba, Op, Sectors};

use crate::buffers::Buffers;
use crate::common::disk::Disk;
use crate::common::world::{BLOCKS, POOL, uid};
use crate::every_write::MetadataCrashes;
use crate::model::{Cell, Certainty, Version};
use crate::scrub::digest;

/// The distance of the sectors that are checked.
pub(crate) const PROBE: u64 = 512;
const SPARE: usize = 1;

type Sector = Arc<[u8; 512]>;
/// What sectors hold; what is not there is zero.
pub(crate) type Contents = BTreeMap<u64, Sector>;

/// A client's request that is not answered.
pub(crate) struct Asked {
    pub(crate) volume: PoolVolumeId,
    pub(crate) operation: units::Operation,
    stamp: u64,
    submitted: u64,
    pub(crate) read: BTreeMap<u64, u64>,
}

/// A piece that has not ended.
pub(crate) struct Running {
    pub(crate) piece: Piece,
    pub(crate) device: usize,
    performed: bool,
}

pub(crate) struct World {
    /// Of each disk.
    pub(crate) blocks: u32,
    pub(crate) disks: Vec<Disk>,
    pub(crate) flow: Flow,
    pub(crate) rng: SplitMix64,
    pub(crate) volumes: BTreeMap<PoolVolumeId, Vec<Cell>>,
    pub(crate) asked: BTreeMap<PoolRequestId, Asked>,
    pub(crate) changes: BTreeMap<ChangeId, Operation>,
    pub(crate) running: Vec<Running>,
    pub(crate) copies: BTreeMap<CopyId, (Extent, Contents)>,
    /// Of each disk, where the host buffers writes.
    pub(crate) buffers: Vec<Buffers>,
    /// Writes that buffers had answered before the last loss of power.
    pub(crate) buffered: u64,
    /// Devices that were pulled.
    pub(crate) dead: BTreeSet<usize>,
    /// Devices that will fail to carry out what the host has answered from memory, once.
    pub(crate) refusing: BTreeSet<usize>,
    /// Blocks of devices whose reads fail until they are written.
    pub(crate) bad: BTreeSet<(usize, u64)>,
    /// Changes of which it is not known whether they hold.
    pub(crate) unknown: Vec<Operation>,
    /// What copies held differently after a loss of power, until they are equal again.
    pub(crate) alternates: BTreeSet<u64>,
    /// How often the daemon was killed.
    pub(crate) kills: u64,
    /// How often the power went, on a copy of the disks or on themselves.
    pub(crate) crashes: u64,
    /// Of a world whose power goes at every metadata write.
    pub(crate) metadata: Option<MetadataCrashes>,
    /// Whether disks fail.
    pub(crate) has_faults: bool,
    /// Writes to disks that failed after their clients had been answered.
    pub(crate) lost: u64,
    /// Whether no request may fail for want of a disk.
    pub(crate) is_strict: bool,
    /// Blocks that were written to make copies equal.
    pub(crate) resynced: u64,
    /// What was read to be verified, of pieces that have not ended.
    pub(crate) digests: BTreeMap<PieceId, Digest>,
    /// Copies that were verified.
    pub(crate) verified: u64,
    /// Whether checksums of what is verified are missing, and what was read to record them.
    pub(crate) lacks_sums: bool,
    pub(crate) recordings: Vec<(DiskId, RecordSums)>,
    /// One of this number of pieces fails; none if 0.
    pub(crate) failing: u32,
    pub(crate) answers: Vec<(PoolRequestId, Result<(), Fault>)>,
    pub(crate) ends: Vec<(ChangeId, ChangeOutcome)>,
    pub(crate) done: Vec<Operation>,
    /// The next block of a client that writes the first mirror in order.
    pub(crate) order: Option<u32>,
    /// Blocks that were written where they are to lie.
    pub(crate) moved: u64,
    pub(crate) time: u64,
    numbers: u64,
}

/// The probes of an extent.
pub(crate) fn probes(extent: Extent) -> std::ops::Range<u64> {
    extent.start.0.div_ceil(PROBE)..extent.end().0.div_ceil(PROBE)
}

pub(crate) fn cells(blocks: u32) -> usize {
    usize::try_from(Blocks(blocks).sectors().0 / PROBE).unwrap()
}

fn sector(stamp: u64, probe: u64) -> Sector {
    let mut bytes = [0; 512];
    bytes[..8].copy_from_slice(&stamp.to_le_bytes());
    bytes[8..16].copy_from_slice(&probe.to_le_bytes());
    Arc::new(bytes)
}

pub(crate) fn stamp(disk: &Disk, at: Lba, probe: u64) -> u64 {
    stamp_of(&disk.read_now(Extent::new(at, Sectors(1))), probe)
}

pub(crate) fn stamp_of(bytes: &[u8], probe: u64) -> u64 {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert!(word(0) == 0 || word(8) == probe, "probe {probe} holds what belongs to {}", word(8));
    word(0)
}

pub(crate) fn device(state: &State, disk: DiskId) -> Option<usize> {
    Some(usize::from(state.disk(disk)?.uid.0[0]) - 1)
}

/// Where a piece is on its disk.
fn place(work: &Work) -> Extent {
    match work {
        Work::Request { extent, .. }
        | Work::Metadata { extent, .. }
        | Work::Erase { extent }
        | Work::Load { extent, .. }
        | Work::Store { extent, .. }
        | Work::Verify { extent, .. } => *extent,
        Work::Flush => Extent::new(Lba(0), Sectors::ZERO),
    }
}

/// Whether two pieces may be under way at the same sectors.
fn agree(one: &Work, other: &Work) -> bool {
    match (one, other) {
        (Work::Request { .. }, Work::Request { .. }) | (Work::Load { .. }, Work::Load { .. }) => {
            true
        }
        // What is verified may be written to meanwhile, and is never given back meanwhile.
        (Work::Verify { .. }, other) | (other, Work::Verify { .. }) => {
            !matches!(other, Work::Erase { .. } | Work::Metadata { .. })
        }
        // What makes copies equal writes what is there, or what may be read as well.
        (Work::Request { op, .. }, Work::Store { .. } | Work::Load { .. })
        | (Work::Store { .. } | Work::Load { .. }, Work::Request { op, .. }) => !op.writes(),
        _ => false,
    }
}

impl World {
    pub(crate) fn new(seed: u64, members: usize) -> Self {
        Self::of(seed, members, BLOCKS)
    }

    /// The same on disks of this number of blocks.
    pub(crate) fn of(seed: u64, members: usize, blocks: u32) -> Self {
        let geometry = Geometry::new(8, 16).unwrap();
        let disks = vec![Disk::new(Blocks(blocks).sectors()); members + SPARE];
        let uids: Vec<_> = (0..members).map(|device| (uid(device), blocks)).collect();
        let flow = Flow::new(Pool::create(POOL, geometry, &uids).unwrap());
        let mut world = Self {
            blocks,
            disks,
            flow,
            rng: SplitMix64::new(seed),
            volumes: BTreeMap::new(),
            asked: BTreeMap::new(),
            changes: BTreeMap::new(),
            running: Vec::new(),
            copies: BTreeMap::new(),
            buffers: Vec::new(),
            buffered: 0,
            unknown: Vec::new(),
            alternates: BTreeSet::new(),
            kills: 0,
            crashes: 0,
            metadata: None,
            has_faults: false,
            lost: 0,
            is_strict: false,
            resynced: 0,
            digests: BTreeMap::new(),
            verified: 0,
            lacks_sums: false,
            recordings: Vec::new(),
            dead: BTreeSet::new(),
            refusing: BTreeSet::new(),
            bad: BTreeSet::new(),
            failing: 0,
            answers: Vec::new(),
            ends: Vec::new(),
            done: Vec::new(),
            order: None,
            moved: 0,
            time: 0,
            numbers: 0,
        };
        world.drain();
        world
    }

    /// The same, and the host buffers writes.
    pub(crate) fn with_buffers(mut self) -> Self {
        let buffers = self.disks.iter().map(|_| Buffers::new(&mut self.rng));
        self.buffers = buffers.collect();
        self
    }

    /// Writes that buffers have answered.
    pub(crate) fn buffered(&self) -> u64 {
        self.buffered + self.buffers.iter().map(|one| one.buffered).sum::<u64>()
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.rng.below(u32::try_from(end).unwrap()) as usize
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(crate) fn submit(
        &mut self,
        volume: PoolVolumeId,
        operation: units::Operation,
        no_hole: bool,
    ) -> PoolRequestId {
        let id = PoolRequestId(self.number());
        self.time += 1;
        let stamp = if operation.op == Op::Write { id.0 } else { 0 };
        let (submitted, answered) = (self.time, None);
        let is_sure = operation.op != Op::Trim;
        let certainty = if is_sure { Certainty::Sure } else { Certainty::Unsure };
        let (durable, in_parts) = (false, operation.op != Op::Write);
        let version = Version { stamp, submitted, answered, certainty, durable, in_parts };
        if operation.op.writes() {
            for cell in self.cells(volume, operation.extent) {
                cell.submit(version);
            }
        }
        let asked = Asked { volume, operation, stamp, submitted, read: BTreeMap::new() };
        self.asked.insert(id, asked);
        self.flow.submit(id, volume, operation, no_hole);
        self.listen();
        id
    }

    fn cells(&mut self, volume: PoolVolumeId, extent: Extent) -> impl Iterator<Item = &mut Cell> {
        let probes = probes(extent);
        let cells = self.volumes.get_mut(&volume).into_iter().flatten().zip(0..);
        cells.filter(move |(_, probe)| probes.contains(probe)).map(|(cell, _)| cell)
    }

    pub(crate) fn change(&mut self, operation: Operation) -> ChangeId {
        let id = self.flow.change(operation.clone());
        self.changes.insert(id, operation);
        self.listen();
        id
    }

    /// Hears all that the flow has to say.
    pub(crate) fn listen(&mut self) {
        while let Some(output) = self.flow.poll() {
            match output {
                Output::Issue(piece) => self.take(piece),
                Output::Answer(id, end) => self.answered(id, end),
                Output::Ended(id, end) => self.ended(id, end),
            }
        }
        self.flow.pool().invariants();
    }

    fn take(&mut self, piece: Piece) {
        let joining = self.flow.joining().filter(|(disk, _)| *disk == piece.disk);
        let device = joining
            .map(|(_, uid)| usize::from(uid.0[0]) - 1)
            .or(device(self.flow.pool().state(), piece.disk))
            .expect("a piece goes to a disk of the pool");
        let own = place(&piece.work);
        for other in self.running.iter().filter(|other| other.device == device) {
            let theirs = place(&other.piece.work);
            let meet = own.start < theirs.end() && theirs.start < own.end();
            let right = !meet || agree(&piece.work, &other.piece.work);
            assert!(right, "{piece:?} meets {:?}", other.piece);
        }
        // The flush before a snapshot is of the volume whose data it makes durable.
        let is_right = match (&piece.work, piece.payer) {
            (Work::Metadata { .. }, payer) => payer == ChargeTo::Metadata,
            (Work::Flush, payer) => payer != ChargeTo::Relocation,
            _ => true,
        };
        assert!(is_right, "{piece:?} is charged to another");
        if !self.buffers.is_empty() {
            let what = self.command(&piece.work);
            let of = (piece.id, piece.payer, self.owner(piece.payer));
            self.learn(device);
            self.buffers[device].submit(of, what, &mut self.rng);
        }
        self.running.push(Running { piece, device, performed: false });
        assert!(self.running.len() < 2_000, "pieces are bounded");
    }

    fn answered(&mut self, id: PoolRequestId, end: Result<(), Fault>) {
        self.time += 1;
        let asked = self.asked.remove(&id).expect("a request is answered once");
        let Asked { volume, operation, stamp, submitted, read } = asked;
        let time = self.time;
        self.answers.push((id, end));
        let borne = !self.is_strict || end != Err(Fault::Disk);
        assert!(borne, "{id:?} to {volume:?} fails: {operation:?}");
        let pool = self.flow.pool();
        let is_mirror = pool.state().volume(volume).is_some_and(|one| one.layout.is_mirror());
        let is_written = is_mirror && operation.op == Op::Write && end.is_ok();
        assert!(!is_written || !pool.is_opening(), "{id:?} is where one disk alone says");
        match operation.op {
            Op::Read if end.is_ok() => {
                let cells = &self.volumes[&volume];
                for probe in probes(operation.extent) {
                    let found = read.get(&probe).copied().unwrap_or(0);
                    let cell = &cells[usize::try_from(probe).unwrap()];
                    // Of a mirror that lost a copy too, the other may have been written to last.
                    let alternate = !self.is_strict && self.alternates.contains(&found);
                    assert!(
                        alternate || cell.may_read(found, submitted),
                        "{id:?}: probe {probe} of {volume:?} reads {found}, since {submitted} of \
                         {cell:?}"
                    );
                }
            }
            Op::Flush if end.is_ok() => {
                let reads = self.asked.values().map(|asked| asked.submitted);
                let reading = reads.min().unwrap_or(time);
                for cell in self.volumes.get_mut(&volume).into_iter().flatten() {
                    cell.flush(submitted, reading);
                }
            }
            Op::Flush => {
                for cell in self.volumes.get_mut(&volume).into_iter().flatten() {
                    cell.fail_flush(submitted);
                }
            }
            Op::Read | Op::Seek => {}
            Op::Write | Op::Trim | Op::WriteZeroes => {
                for cell in self.cells(volume, operation.extent) {
                    cell.answer(stamp, submitted, time, end.is_ok(), operation.fua);
                }
            }
        }
    }

    fn ended(&mut self, id: ChangeId, end: ChangeOutcome) {
        self.time += 1;
        let operation = self.changes.remove(&id).expect("a change ends once");
        let well = end == ChangeOutcome::Done;
        if end == ChangeOutcome::Failed(Failure::Unknown) {
            self.unknown.push(operation.clone());
        }
        self.ends.push((id, end));
        if !well {
            return;
        }
        let time = self.time;
        self.done.push(operation.clone());
        let state = self.flow.pool().state();
        match &operation {
            Operation::Create(volume) => {
                let (id, _) = state.named(&volume.name).unwrap();
                self.volumes.insert(id, vec![Cell::of(&[0], time); cells(volume.size.0)]);
            }
            Operation::Resize { volume, size } => {
                let all = self.volumes.get_mut(volume).unwrap();
                all.resize(cells(size.0), Cell::of(&[0], time));
            }
            Operation::Remove { volume } => drop(self.volumes.remove(volume)),
            Operation::Snapshot { volume, name } => {
                let (id, _) = state.named(name).unwrap();
                let frozen = self.volumes[volume].iter().map(|cell| cell.frozen(time));
                let frozen = frozen.collect();
                self.volumes.insert(id, frozen);
            }
            Operation::Clone { source, name, size } => {
                let (id, _) = state.named(name).unwrap();
                let frozen = self.volumes[source].iter().map(|cell| cell.frozen(time));
                let mut frozen: Vec<Cell> = frozen.collect();
                frozen.resize(cells(size.0), Cell::of(&[0], time));
                self.volumes.insert(id, frozen);
            }
            Operation::RollBack { snapshot } => {
                let origin = state.volume(*snapshot).unwrap().origin.unwrap();
                let (from, to) = (&self.volumes[snapshot], &self.volumes[&origin]);
                let none = Cell::of(&[], time);
                let cells = from
                    .iter()
                    .enumerate()
                    .map(|(at, cell)| to.get(at).unwrap_or(&none).rolled_back(cell, time));
                let cells = cells.collect();
                self.volumes.insert(origin, cells);
            }
            _ => {}
        }
    }

    /// A piece, drawn, is carried out or ends.
    pub(crate) fn step(&mut self) -> bool {
        if !self.buffers.is_empty() {
            return self.step_buffered();
        }
        if self.running.is_empty() {
            return false;
        }
        let at = self.below(self.running.len());
        self.step_one(at);
        true
    }

    pub(crate) fn step_one(&mut self, at: usize) {
        let dead = self.dead.contains(&self.running[at].device);
        let unreadable = self.is_unreadable(at);
        let fails = dead || unreadable || self.failing > 0 && self.rng.below(self.failing) == 0;
        let never = fails && (dead || unreadable || self.rng.below(2) == 0);
        if !self.running[at].performed && !never {
            self.crash_at_metadata(at);
            self.perform(at);
            self.running[at].performed = true;
            self.crash_at_metadata(at);
            if self.rng.below(2) == 0 {
                return;
            }
        }
        let one = self.running.swap_remove(at);
        let end = if fails { Err(Fault::Disk) } else { Ok(()) };
        let store = matches!(one.piece.work, Work::Store { .. });
        self.moved += u64::from(store && one.piece.payer == ChargeTo::Relocation);
        self.resynced += u64::from(store && one.piece.payer == ChargeTo::Rebuild);
        match one.piece.work {
            Work::Load { copy, .. } if fails => drop(self.copies.remove(&copy)),
            Work::Store { copy, .. } => drop(self.copies.remove(&copy)),
            _ => {}
        }
        self.report(&one.piece, end);
        if let Work::Load { copy, .. } = one.piece.work
            && !self.flow.keeps(copy)
        {
            self.copies.remove(&copy);
        }
        self.listen();
    }

    /// What the disk is asked for, what a write writes, and whether a trim is sure to erase.
    fn command(&mut self, work: &Work) -> (units::Operation, Contents, bool) {
        let plain = |op, extent, fua| units::Operation { op, extent, fua };
        let none = Contents::new();
        match work {
            Work::Request { request, op, extent, at, fua, .. } => {
                let asked = &self.asked[request];
                let start = asked.operation.extent.start + *at;
                let here = |probe: u64| probe * PROBE - start.0 + extent.start.0;
                let covered = probes(Extent::new(start, extent.len)).filter(|_| *op == Op::Write);
                let contents = covered.map(|probe| (here(probe), sector(asked.stamp, probe)));
                (plain(*op, *extent, *fua), contents.collect(), false)
            }
            Work::Metadata { extent, bytes, fua } => {
                let sectors = bytes.chunks(512).zip(extent.start.0..);
                let sectors = sectors.map(|(bytes, at)| (at, Arc::new(bytes.try_into().unwrap())));
                (plain(Op::Write, *extent, *fua), sectors.collect(), false)
            }
            Work::Flush => (units::Operation::flush(), none, false),
            Work::Erase { extent } => (plain(Op::Trim, *extent, false), none, true),
            Work::Load { extent, .. } | Work::Verify { extent, .. } => {
                (plain(Op::Read, *extent, false), none, false)
            }
            Work::Store { copy, extent, fua } => {
                let (_, contents) = self.copies.remove(copy).expect("it was loaded");
                let contents = contents.into_iter().map(|(at, bytes)| (at + extent.start.0, bytes));
                (plain(Op::Write, *extent, *fua), contents.collect(), false)
            }
        }
    }

    /// Whether a piece reads a block that cannot be read; a write of one mends it.
    pub(crate) fn is_unreadable(&mut self, at: usize) -> bool {
        let Running { piece, device, .. } = &self.running[at];
        let extent = place(&piece.work);
        if self.bad.is_empty() || extent.is_empty() {
            return false;
        }
        let blocks = extent.start.0 / 2_048..extent.end().0.div_ceil(2_048);
        let mut bad = blocks.clone().filter(|block| self.bad.contains(&(*device, *block)));
        let reads = matches!(
            piece.work,
            Work::Load { .. } | Work::Verify { .. } | Work::Request { op: Op::Read, .. }
        );
        if reads {
            return bad.next().is_some();
        }
        let device = *device;
        self.mend(device, extent);
        false
    }

    /// Blocks of a device are written: they can be read again.
    pub(crate) fn mend(&mut self, device: usize, extent: Extent) {
        for block in extent.start.0 / 2_048..extent.end().0.div_ceil(2_048) {
            self.bad.remove(&(device, block));
        }
    }

    fn perform(&mut self, at: usize) {
        let Running { piece, device, .. } = &self.running[at];
        let disk = &mut self.disks[*device];
        match &piece.work {
            Work::Request { request, op, extent, at, fua, .. } => {
                let asked =
                    self.asked.get_mut(request).expect("it is not answered before its pieces end");
                let start = asked.operation.extent.start + *at;
                let here = |probe: u64| Lba(probe * PROBE - start.0 + extent.start.0);
                let covered = probes(Extent::new(start, extent.len));
                match op {
                    Op::Read => {
                        asked
                            .read
                            .extend(covered.map(|probe| (probe, stamp(disk, here(probe), probe))));
                    }
                    Op::Write => {
                        let stamp = asked.stamp;
                        let contents = covered.map(|probe| (here(probe).0, sector(stamp, probe)));
                        disk.enter(*extent, contents.collect());
                    }
                    Op::WriteZeroes => disk.erase(*extent),
                    Op::Trim if self.rng.below(2) == 0 => disk.erase(*extent),
                    Op::Flush => disk.flush(),
                    Op::Trim | Op::Seek => {}
                }
                if *fua {
                    disk.flush();
                }
            }
            Work::Metadata { extent, bytes, fua: false } => disk.write(*extent, bytes),
            Work::Metadata { extent, bytes, fua: true } => disk.force(*extent, bytes),
            Work::Flush => disk.flush(),
            Work::Erase { extent } => disk.erase(*extent),
            Work::Load { copy, extent } => {
                let before = self.copies.insert(*copy, (*extent, disk.moved(*extent, Lba(0))));
                assert!(before.is_none() && self.copies.len() <= COPIES_MAX, "few copies");
            }
            Work::Verify { extent, .. } => {
                let seen = disk.moved(*extent, Lba(0));
                self.digests.insert(piece.id, digest(&seen));
            }
            Work::Store { copy, extent, .. } => {
                let (from, contents) = &self.copies[copy];
                assert_eq!(from.len, extent.len, "what was read is written");
                let contents =
                    contents.iter().map(|(at, bytes)| (at + extent.start.0, Arc::clone(bytes)));
                disk.enter(*extent, contents.collect());
            }
        }
    }

    /// All that is under way ends, and all has been said.
    pub(crate) fn drain(&mut self) {
        self.listen();
        for step in 0_u32.. {
            if !self.step() {
                break;
            }
            assert!(step < 200_000, "what is under way ends");
        }
        assert!(self.asked.is_empty(), "every request is answered: {:?}", self.asked.keys());
        assert!(self.changes.is_empty(), "every change ends: {:?}", self.changes);
        assert!(self.flow.is_idle(), "a flow with nothing to do rests");
        assert!(self.copies.is_empty(), "no copy is kept");
    }
}
