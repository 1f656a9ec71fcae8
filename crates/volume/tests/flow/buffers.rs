//! The write buffers of one disk between the pieces of a flow and the disk, as the daemon has them:
//! what they hold is lost with the power.

use std::collections::BTreeMap;

use engine::{
    Buffering, Destage, Handling, Outcome, PieceId, Request, RequestId, VolumeId, WriteBuffer,
    WriteBufferAction, WriteBufferSettings,
};
use rng::SplitMix64;
use spindle_volume::pool::flow::ChargeTo;
use spindle_volume::pool::{PoolVolumeId, flow};
use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

use crate::common::disk::Disk;
use crate::world::Contents;

/// The internal volumes: their writes are not buffered.
const METADATA: VolumeId = VolumeId(0);
const RELOCATION: VolumeId = VolumeId(1);

/// What the disk has not carried out.
#[derive(Debug)]
pub(crate) enum Sent {
    Piece(u64),
    Destage(Destage, Contents),
}

/// Whose the writes of an account are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A volume with one copy, on disks that do not fail.
    Single,
    /// A volume with one copy, on disks that fail: its writes are not buffered.
    Fragile,
    Mirror,
}

/// A piece that has not ended.
#[derive(Debug)]
struct Open {
    operation: Operation,
    volume: VolumeId,
    /// What it writes.
    contents: Contents,
    /// Whether a trim of it is sure to erase.
    erases: bool,
    /// What a read has copied from the buffer: the parts, and what they hold.
    copied: Vec<(Extent, Contents)>,
}

/// A piece has ended. A read has what it saw.
pub(crate) struct Ended {
    pub(crate) piece: flow::PieceId,
    pub(crate) seen: Option<Contents>,
    pub(crate) is_done: bool,
}

pub(crate) struct Buffers {
    buffer: WriteBuffer,
    settings: WriteBufferSettings,
    accounts: BTreeMap<PoolVolumeId, VolumeId>,
    /// Of whose volumes a failed destage was not reported to the pool, and what it was to write.
    losses: Vec<(PoolVolumeId, Contents)>,
    /// Whether the disk is known to be gone: nothing more is promised in memory.
    is_offline: bool,
    held: BTreeMap<PieceId, Contents>,
    open: BTreeMap<u64, Open>,
    sent: Vec<Sent>,
    ended: Vec<Ended>,
    now: Instant,
    /// Writes that were answered from memory.
    pub(crate) buffered: u64,
}

/// What `contents` has of `from`, as if it lay at `to`.
fn part(contents: &Contents, from: Extent, to: Lba) -> Contents {
    let range = contents.range(from.start.0..from.end().0);
    range.map(|(at, bytes)| (at - from.start.0 + to.0, bytes.clone())).collect()
}

impl Buffers {
    pub(crate) fn new(rng: &mut SplitMix64) -> Self {
        let settings = WriteBufferSettings {
            memory: Sectors(2_048 + rng.draw() % 16_384),
            age: Duration::from_millis(100),
            depth: 1 + rng.below(4),
            is_shared: true,
        };
        let mut buffer = WriteBuffer::new(settings);
        for volume in [METADATA, RELOCATION] {
            buffer.add_volume(volume, Sectors::ZERO);
            buffer.pass_flushes(volume);
        }
        Self {
            buffer,
            settings,
            accounts: BTreeMap::new(),
            losses: Vec::new(),
            is_offline: false,
            held: BTreeMap::new(),
            open: BTreeMap::new(),
            sent: Vec::new(),
            ended: Vec::new(),
            now: Instant::ZERO,
            buffered: 0,
        }
    }

    fn account(&mut self, payer: ChargeTo, owner: Owner, rng: &mut SplitMix64) -> VolumeId {
        let volume = match payer {
            ChargeTo::Metadata => return METADATA,
            ChargeTo::Relocation | ChargeTo::Rebuild | ChargeTo::Scrub => return RELOCATION,
            ChargeTo::Volume(volume) => volume,
        };
        let next = VolumeId(2 + u32::try_from(self.accounts.len()).unwrap());
        *self.accounts.entry(volume).or_insert_with(|| {
            let is_off = owner == Owner::Fragile || rng.below(4) == 0;
            let bound = if is_off { 0 } else { rng.draw() % 6_000 };
            self.buffer.add_volume(next, Sectors(bound));
            if owner == Owner::Mirror {
                self.buffer.report_losses(next);
                self.buffer.set_buffering(next, Buffering::HostAndDrive);
            }
            next
        })
    }

    /// A piece goes to the disk: a write with what it writes.
    pub(crate) fn submit(
        &mut self,
        (piece, payer, owner): (flow::PieceId, ChargeTo, Owner),
        (operation, contents, erases): (Operation, Contents, bool),
        rng: &mut SplitMix64,
    ) {
        let volume = self.account(payer, owner, rng);
        let open = Open { operation, volume, contents, erases, copied: Vec::new() };
        assert!(self.open.insert(piece.0, open).is_none(), "a piece is issued once");
        self.serve(piece.0);
        self.poll();
    }

    fn serve(&mut self, id: u64) {
        let Open { operation, volume, .. } = self.open[&id];
        let request = Request { id: RequestId(id), volume, operation };
        if self.is_offline {
            return self.sent.push(Sent::Piece(id));
        }
        match self.buffer.submit(&request, self.now) {
            Handling::Buffered(piece) => {
                self.keep(piece, id);
                self.end(id, None, Outcome::Done);
            }
            Handling::Forced(piece) => self.keep(piece, id),
            Handling::Waits => {}
            Handling::Memory => {
                self.copy(id);
                let seen = self.read(id, &Contents::new());
                self.end(id, Some(seen), Outcome::Done);
            }
            Handling::Overlaid => {
                self.copy(id);
                self.sent.push(Sent::Piece(id));
            }
            Handling::Disk => self.sent.push(Sent::Piece(id)),
            Handling::Flushed(outcome) => self.end(id, None, outcome),
        }
    }

    fn keep(&mut self, piece: PieceId, id: u64) {
        let Open { operation, contents, .. } = &self.open[&id];
        let contents = part(contents, operation.extent, Lba(0));
        assert!(self.held.insert(piece, contents).is_none(), "a piece is kept once");
        self.buffered += 1;
    }

    /// What the buffer holds of an extent, part by part.
    fn parts(&self, volume: VolumeId, extent: Extent) -> Vec<(Extent, Contents)> {
        let parts = self.buffer.parts(volume, extent);
        let of = |one: engine::BufferedPart| {
            let from = Extent::new(Lba(one.offset.0), one.extent.len);
            (one.extent, part(&self.held[&one.piece], from, one.extent.start))
        };
        parts.map(of).collect()
    }

    fn copy(&mut self, id: u64) {
        let Open { operation, volume, .. } = self.open[&id];
        let copied = self.parts(volume, operation.extent);
        self.open.get_mut(&id).unwrap().copied = copied;
    }

    /// What a read sees: what it has copied, over what the disk has.
    fn read(&self, id: u64, disk: &Contents) -> Contents {
        let mut seen = disk.clone();
        for (extent, contents) in &self.open[&id].copied {
            seen.retain(|at, _| !(extent.start.0..extent.end().0).contains(at));
            seen.extend(contents.iter().map(|(at, bytes)| (*at, bytes.clone())));
        }
        seen
    }

    fn end(&mut self, id: u64, seen: Option<Contents>, outcome: Outcome) {
        assert!(self.open.remove(&id).is_some(), "a piece ends once");
        let (piece, is_done) = (flow::PieceId(id), outcome == Outcome::Done);
        self.ended.push(Ended { piece, seen, is_done });
    }

    fn poll(&mut self) {
        while let Some(action) = self.buffer.poll(self.sent.len(), self.now) {
            match action {
                WriteBufferAction::Accept { request, piece, forced } => {
                    self.keep(piece, request.0);
                    if !forced {
                        self.end(request.0, None, Outcome::Done);
                    }
                }
                WriteBufferAction::Destage(destage) => {
                    let parts = self.parts(destage.volume, destage.operation.extent);
                    let contents = parts.into_iter().flat_map(|(_, contents)| contents).collect();
                    self.sent.push(Sent::Destage(destage, contents));
                }
                WriteBufferAction::Submit(request) => self.sent.push(Sent::Piece(request.0)),
                WriteBufferAction::Again(request) => self.serve(request.0),
                WriteBufferAction::Answer { request, outcome } => {
                    self.end(request.0, None, outcome);
                }
                WriteBufferAction::Drop(piece) => {
                    assert!(self.held.remove(&piece).is_some(), "a piece is released once");
                }
            }
            self.buffer.invariants();
        }
    }

    /// A piece that has ended.
    pub(crate) fn take_ended(&mut self, rng: &mut SplitMix64) -> Option<Ended> {
        let count = u32::try_from(self.ended.len()).unwrap();
        (count > 0).then(|| self.ended.swap_remove(rng.below(count) as usize))
    }

    /// Whether the disk is known to be gone.
    pub(crate) fn set_offline(&mut self, is_offline: bool) {
        self.is_offline = is_offline;
    }

    /// One of the disk's commands; with none, time passes.
    pub(crate) fn take_sent(&mut self, rng: &mut SplitMix64) -> Option<Sent> {
        self.now += Duration::from_micros(rng.draw() % 20_000);
        let count = u32::try_from(self.sent.len()).unwrap();
        if count > 0 {
            return Some(self.sent.swap_remove(rng.below(count) as usize));
        }
        self.now += self.settings.age;
        self.poll();
        assert!(self.sent.len() < 1_000, "commands are bounded");
        None
    }

    /// Whether the disk has a command, or a piece has ended.
    pub(crate) fn is_busy(&self) -> bool {
        !self.sent.is_empty() || !self.ended.is_empty()
    }

    /// What was lost, and is not reported.
    pub(crate) fn take_losses(&mut self) -> Vec<(PoolVolumeId, Contents)> {
        std::mem::take(&mut self.losses)
    }

    /// What is in memory alone, in the order of its sectors, as its log has it.
    pub(crate) fn logged(&self) -> Vec<(Extent, Contents)> {
        let parts = self.buffer.held();
        let of = |one: engine::BufferedPart| {
            let from = Extent::new(Lba(one.offset.0), one.extent.len);
            (one.extent, part(&self.held[&one.piece], from, one.extent.start))
        };
        parts.map(of).collect()
    }

    /// The disk carries a command out, or fails it: a destage that fails may have been carried out.
    pub(crate) fn perform(
        &mut self,
        sent: Sent,
        (disk, fails, is_lost): (&mut Disk, bool, bool),
        rng: &mut SplitMix64,
    ) {
        match sent {
            Sent::Destage(destage, contents) => {
                let Operation { op, extent, fua } = destage.operation;
                match (op, fua) {
                    _ if is_lost => {}
                    (Op::Flush, _) => disk.flush(),
                    (_, true) => disk.enter_forced(extent, &contents),
                    (_, false) => disk.enter(extent, contents.clone()),
                }
                let outcome = if fails { Outcome::Failed } else { Outcome::Done };
                self.buffer.destaged(&destage, outcome);
                if fails && self.buffer.reports_losses(destage.volume) {
                    let own = self.accounts.iter().find(|(_, account)| **account == destage.volume);
                    self.losses.push((*own.expect("its account").0, contents));
                }
            }
            Sent::Piece(id) if fails => {
                let volume = self.open[&id].volume;
                self.end(id, None, Outcome::Failed);
                self.buffer.ended(volume, RequestId(id));
            }
            Sent::Piece(id) => self.carry_out(id, disk, rng),
        }
        self.poll();
    }

    fn carry_out(&mut self, id: u64, disk: &mut Disk, rng: &mut SplitMix64) {
        let Open { operation, volume, erases, .. } = self.open[&id];
        let Operation { op, extent, .. } = operation;
        let mut seen = None;
        let request = Request { id: RequestId(id), volume, operation };
        let is_forced = operation.fua || self.buffer.forces(&request, self.now);
        match op {
            Op::Read => seen = Some(self.read(id, &disk.moved(extent, extent.start))),
            Op::Write if is_forced => disk.enter_forced(extent, &self.open[&id].contents),
            Op::Write => disk.enter(extent, self.open[&id].contents.clone()),
            Op::WriteZeroes => disk.enter_forced(extent, &Contents::new()),
            Op::Trim if erases || rng.below(2) == 0 => disk.erase(extent),
            Op::Flush => disk.flush(),
            Op::Trim | Op::Seek => {}
        }
        self.end(id, seen, Outcome::Done);
        self.buffer.ended(volume, RequestId(id));
    }
}
