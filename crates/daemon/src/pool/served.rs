//! The pool at work.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use backend::Failure;
use nbd::limits::STATUS_SEGMENTS_MAX;
use nbd::{
    Allocation, BlockStatusReply, BlockStatusRequest, Errno, ExportId, Handle, Reply, Segment,
};
use units::{Extent, Lba, Op, Operation, Sectors};
use volume::DiskId;
use volume::pool::flow::{
    ChangeId, ChangeOutcome, ChargeTo, CopyId, Fault, Flow, Output, Piece, PieceId, PoolRequestId,
    Work,
};
use volume::pool::{Pool, PoolVolumeId};

use super::buffers::Buffers;
use crate::inbox::{Inbox, Message, Portion};

/// A piece that has ended, and what it read.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) piece: PieceId,
    pub(crate) result: Result<Vec<u8>, Failure>,
}

/// A volume, or what is like one, among those of a disk's engine.
pub(crate) type Account = engine::VolumeId;

/// A disk of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Its place among the daemon's disks.
    pub(crate) disk: usize,
    /// Who pays for metadata.
    pub(crate) metadata: Account,
    /// Who pays for blocks that are moved.
    pub(crate) moving: Account,
}

/// A volume of the pool: its account on each of the daemon's disks that are the pool's.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    /// The number that clients' requests come by, and that its accounts have in common.
    pub(crate) export: ExportId,
    pub(crate) accounts: BTreeMap<usize, Account>,
}

/// What becomes of a piece's result.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Request(PoolRequestId, Sectors),
    Load(CopyId),
    Other,
}

/// A pool, and the way to its disks.
#[derive(Debug)]
pub(crate) struct Served {
    inner: Mutex<Inner>,
    /// The flow may have come to rest.
    rested: Condvar,
    /// Whether nobody tidies up any more.
    pub(super) closed: Mutex<bool>,
    pub(super) closing: Condvar,
    inboxes: Vec<Arc<Inbox>>,
    handle: Handle,
}

#[derive(Debug)]
struct Inner {
    flow: Flow,
    members: BTreeMap<DiskId, Member>,
    /// A disk that is about to join, before its number is known.
    joining: Option<Member>,
    tenants: BTreeMap<PoolVolumeId, Tenant>,
    buffers: Buffers,
    pieces: BTreeMap<PieceId, Purpose>,
    changes: BTreeMap<ChangeId, SyncSender<ChangeOutcome>>,
    replies: Vec<Reply>,
    /// Messages by disk.
    waiting: Vec<Vec<Message>>,
}

impl Served {
    pub(crate) fn new(
        pool: Pool,
        members: BTreeMap<DiskId, Member>,
        tenants: BTreeMap<PoolVolumeId, Tenant>,
        inboxes: Vec<Arc<Inbox>>,
        handle: Handle,
    ) -> Self {
        let inner = Inner {
            flow: Flow::new(pool),
            members,
            joining: None,
            tenants,
            buffers: Buffers::default(),
            pieces: BTreeMap::new(),
            changes: BTreeMap::new(),
            replies: Vec::new(),
            waiting: inboxes.iter().map(|_| Vec::new()).collect(),
        };
        Self {
            inner: Mutex::new(inner),
            rested: Condvar::new(),
            closed: Mutex::default(),
            closing: Condvar::new(),
            inboxes,
            handle,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A thread that panics with the lock held takes the daemon with it: its pieces are never answered.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins: what was found damaged is repaired.
    pub(crate) fn begin(&self) {
        self.pump(&mut self.inner());
    }

    /// Carries out what follows from what was brought.
    fn pump(&self, inner: &mut Inner) {
        while let Some(output) = inner.flow.poll() {
            match output {
                Output::Issue(piece) => inner.issue(piece),
                Output::Answer(id, result) => inner.answer(id, result),
                Output::Ended(change, end) => {
                    // Who asked may have gone.
                    let asked = inner.changes.remove(&change);
                    let _ = asked.map(|to| to.try_send(end));
                }
            }
        }
        for (inbox, messages) in self.inboxes.iter().zip(&mut inner.waiting) {
            inbox.put(messages);
        }
        self.handle.reply_many(&mut inner.replies);
        if inner.flow.is_idle() {
            self.rested.notify_all();
        }
    }

    /// Takes clients' requests to volumes of the pool; leaves none.
    pub(crate) fn submit(&self, requests: &mut Vec<(PoolVolumeId, nbd::Request)>) {
        if requests.is_empty() {
            return;
        }
        let mut inner = self.inner();
        for (volume, request) in requests.drain(..) {
            let (operation, no_hole) = (request.operation, request.no_hole);
            let id = inner.buffers.enter(request);
            inner.flow.submit(id, volume, operation, no_hole);
        }
        self.pump(&mut inner);
    }

    /// Takes what disks have done; leaves nothing.
    pub(crate) fn ended(&self, ended: &mut Vec<Ended>) {
        if ended.is_empty() {
            return;
        }
        let mut inner = self.inner();
        for Ended { piece, result } in ended.drain(..) {
            inner.collect(piece, result);
        }
        self.pump(&mut inner);
    }

    /// Tells a client which sectors of a volume have a place.
    pub(crate) fn tell(&self, volume: PoolVolumeId, query: BlockStatusRequest) {
        let inner = self.inner();
        // A volume that has shrunk or gone since is told as data: what is asked of it fails.
        let whole = |one: &volume::pool::Volume| Extent::new(Lba(0), one.size.sectors());
        let there = inner.flow.pool().state().volume(volume).map(whole);
        if !there.is_some_and(|whole| whole.contains(query.extent)) {
            let segment = Segment { len: query.extent.len, allocation: Allocation::Data };
            return self
                .handle
                .reply_block_status(BlockStatusReply { id: query.id, result: Ok(vec![segment]) });
        }
        let segment = |(extent, placed): (Extent, bool)| Segment {
            len: extent.len,
            allocation: if placed { Allocation::Data } else { Allocation::Hole },
        };
        let segments = inner.flow.allocation(volume, query.extent).map(segment);
        let segments = segments.take(STATUS_SEGMENTS_MAX).collect();
        drop(inner);
        self.handle.reply_block_status(BlockStatusReply { id: query.id, result: Ok(segments) });
    }

    /// Changes the pool, and waits for it.
    pub(crate) fn change(&self, operation: volume::pool::Operation) -> ChangeOutcome {
        let (to, from) = mpsc::sync_channel(1);
        let mut inner = self.inner();
        let change = inner.flow.change(operation);
        inner.changes.insert(change, to);
        self.pump(&mut inner);
        drop(inner);
        from.recv().expect("a change ends")
    }

    /// Looks at the flow.
    pub(crate) fn look<T>(&self, at: impl FnOnce(&Flow) -> T) -> T {
        at(&self.inner().flow)
    }

    /// The daemon's disks that a volume is to lie on.
    pub(crate) fn disks_of(&self, volume: PoolVolumeId) -> Vec<usize> {
        let inner = self.inner();
        let found = inner.flow.pool().state().volume(volume);
        let disks = found.map(|volume| volume.disks.clone()).unwrap_or_default();
        disks.iter().filter_map(|disk| Some(inner.members.get(disk)?.disk)).collect()
    }

    /// Has blocks moved, or not.
    pub(crate) fn pause_moving(&self, paused: bool) {
        let mut inner = self.inner();
        inner.flow.pause_relocation(paused);
        self.pump(&mut inner);
    }

    /// The accounts of a volume that is about to come.
    pub(crate) fn seat(&self, volume: PoolVolumeId, tenant: Tenant) {
        self.inner().tenants.insert(volume, tenant);
    }

    /// The accounts of a volume that has gone.
    pub(crate) fn unseat(&self, volume: PoolVolumeId) -> Option<Tenant> {
        self.inner().tenants.remove(&volume)
    }

    /// The accounts of a volume.
    pub(crate) fn tenant(&self, volume: PoolVolumeId) -> Option<Tenant> {
        self.inner().tenants.get(&volume).cloned()
    }

    /// All that have accounts.
    pub(crate) fn tenants(&self) -> BTreeMap<PoolVolumeId, Tenant> {
        self.inner().tenants.clone()
    }

    /// A disk is about to join: the pool will give it a number.
    pub(crate) fn expect(&self, member: Member) {
        self.inner().joining = Some(member);
    }

    /// The disk that was to join has this number, or none: it did not.
    pub(crate) fn joined(&self, disk: Option<DiskId>) {
        let mut inner = self.inner();
        let member = inner.joining.take().expect("it was about to join");
        inner.members.extend(disk.map(|disk| (disk, member)));
    }

    /// A disk has left.
    pub(crate) fn leave(&self, disk: DiskId) -> Option<Member> {
        self.inner().members.remove(&disk)
    }

    /// The pool's disks.
    pub(crate) fn members(&self) -> BTreeMap<DiskId, Member> {
        self.inner().members.clone()
    }

    /// Ends what is under way and begins nothing more of the pool's own.
    pub(crate) fn rest(&self) {
        self.pause_moving(true);
        let inner = self.inner();
        let moving = |inner: &mut Inner| !inner.flow.is_idle();
        drop(self.rested.wait_while(inner, moving).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Inner {
    /// Sends a piece to its disk.
    fn issue(&mut self, piece: Piece) {
        let Piece { id, disk, payer, work } = piece;
        let member = self.members.get(&disk).or(self.joining.as_ref());
        let member = *member.expect("a piece is for a disk of the pool, or one that joins");
        let nowhere = Extent::new(Lba(0), Sectors::ZERO);
        let plain = |op, extent, fua| Operation { op, extent, fua };
        let (mut data, mut keep, mut client) = (Vec::new(), false, false);
        let (operation, purpose) = match work {
            Work::Request { request, op, extent, at, fua, no_hole } => {
                if op == Op::Write {
                    data = self.buffers.payload(request, at, extent.len);
                }
                (keep, client) = (no_hole, true);
                (plain(op, extent, fua), Purpose::Request(request, at))
            }
            Work::Metadata { extent, bytes } => {
                data = bytes.to_vec();
                (plain(Op::Write, extent, false), Purpose::Other)
            }
            Work::Flush => (plain(Op::Flush, nowhere, false), Purpose::Other),
            Work::Erase { extent } => (plain(Op::Trim, extent, false), Purpose::Other),
            Work::Load { copy, extent } => (plain(Op::Read, extent, false), Purpose::Load(copy)),
            Work::Store { copy, extent } => {
                data = self.buffers.take(copy);
                (plain(Op::Write, extent, false), Purpose::Other)
            }
        };
        self.pieces.insert(id, purpose);
        let volume = self.account(payer, member);
        let portion = Portion { piece: id, client, volume, operation, data, no_hole: keep };
        self.waiting[member.disk].push(Message::Portion(portion));
    }

    /// Who pays on a disk.
    fn account(&self, payer: ChargeTo, member: Member) -> Account {
        match payer {
            ChargeTo::Metadata => member.metadata,
            ChargeTo::Relocation => member.moving,
            ChargeTo::Volume(volume) => {
                let tenant = self.tenants.get(&volume);
                let account = tenant.and_then(|tenant| tenant.accounts.get(&member.disk));
                account.copied().unwrap_or(member.metadata)
            }
        }
    }

    /// A piece has ended.
    fn collect(&mut self, piece: PieceId, result: Result<Vec<u8>, Failure>) {
        let end = match &result {
            Ok(_) => Ok(()),
            Err(Failure::Io | Failure::Offline) => Err(Fault::Disk),
            Err(Failure::NoSpace) => Err(Fault::NoSpace),
        };
        match (self.pieces.remove(&piece).expect("a piece ends once"), result) {
            (Purpose::Request(request, at), result) => self.buffers.collect(request, at, result),
            (Purpose::Load(copy), Ok(data)) => self.buffers.keep(copy, data),
            (Purpose::Load(_) | Purpose::Other, _) => {}
        }
        self.flow.done(piece, end);
    }

    fn answer(&mut self, id: PoolRequestId, result: Result<(), Fault>) {
        let refused = result.err().map(|fault| match fault {
            Fault::Disk => Errno::Io,
            Fault::NoSpace => Errno::NoSpc,
            Fault::ReadOnly => Errno::Perm,
            Fault::Invalid => Errno::Inval,
        });
        let request = self.buffers.leave(id);
        self.replies.push(Reply { id: request.id, result: request.result(refused) });
    }
}
