//! The pool in service: its flow, its disks and its requests in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backend::Failure;
use config::DiskIndex;
use engine::VolumeId;
use host::WallTime;
use nbd::limits::STATUS_SEGMENTS_MAX;
use nbd::{
    Allocation, BlockStatusReply, BlockStatusRequest, Errno, ExportId, Handle, Reply, Segment,
};
use units::{Extent, Instant, Lba, Op, Sectors};
use volume::DiskId;
use volume::pool::flow::{
    ChangeId, ChangeOutcome, ChargeTo, CopyId, Fault, Flow, Output, Piece, PieceId, PoolRequestId,
    RecordSums, Verified, Work,
};
use volume::pool::sums::Sum;
use volume::pool::{DiskUid, Layout, Operation, Pool, PoolVolumeId, UnixTime};

use super::accounts::{PoolDisk, PoolVolumeAccounts};
use super::buffers::Buffers;
use super::piece::{PieceDone, ReadData, ReadUse, sums_of};
use super::resync_trend::{ResyncTrend, Trends};
use super::sums::{Issue, PoolSums, SumsUse};
use super::view::{SpareViews, ViewParts, bytes, scrub_left};
use crate::disk::inbox::Inbox;
use crate::disk::message::Message;
use crate::disk::request::{DiskRequest, Origin};
use crate::stop_signal::StopSignal;

mod members;

/// The use of a piece's result.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// It belongs at this offset of a request.
    Request(PoolRequestId, Sectors),
    /// It is the data of a copy.
    Load(CopyId),
    /// Its digest is compared.
    Verify,
    /// Only its success matters.
    Other,
}

/// A pool and its connections to its disks and to the server.
#[derive(Debug)]
pub(crate) struct PoolService {
    inner: Mutex<Inner>,
    /// Notified when the flow is idle.
    idle: Condvar,
    /// Notified when each disk that has failed is out.
    taken_out: Condvar,
    /// The end of maintenance.
    maintenance: StopSignal,
    /// Whether one of its disks has a checksum area.
    has_sums: bool,
    /// The inboxes of the daemon's disks.
    inboxes: Vec<Arc<Inbox>>,
    handle: Handle,
}

#[derive(Debug)]
struct Inner {
    flow: Flow,
    disks: BTreeMap<DiskId, PoolDisk>,
    /// A disk that is being added, and has no number in the pool yet or that of another.
    joining: Option<(DiskUid, PoolDisk)>,
    trend: ResyncTrend,
    scrub_trend: ResyncTrend,
    accounts: BTreeMap<PoolVolumeId, PoolVolumeAccounts>,
    buffers: Buffers,
    sums: PoolSums,
    spares: SpareViews,
    /// The pieces in flight.
    pieces: BTreeMap<PieceId, Purpose>,
    /// Those of them that are for disks of the pool that are not there.
    unreachable: Vec<PieceId>,
    changes: BTreeMap<ChangeId, SyncSender<ChangeOutcome>>,
    /// Replies that are not handed to the server yet.
    replies: Vec<Reply>,
    /// Messages that are not sent yet, by disk.
    messages: Vec<Vec<Message>>,
}

impl PoolService {
    pub(crate) fn new(
        (pool, sums): (Pool, PoolSums),
        disks: BTreeMap<DiskId, PoolDisk>,
        accounts: BTreeMap<PoolVolumeId, PoolVolumeAccounts>,
        inboxes: Vec<Arc<Inbox>>,
        handle: Handle,
    ) -> Self {
        let has_sums = pool.state().disks().any(|(_, disk)| disk.has_sums);
        let inner = Inner {
            flow: Flow::new(pool),
            disks,
            joining: None,
            trend: ResyncTrend::default(),
            scrub_trend: ResyncTrend::default(),
            accounts,
            buffers: Buffers::default(),
            sums,
            spares: SpareViews::new(),
            pieces: BTreeMap::new(),
            unreachable: Vec::new(),
            changes: BTreeMap::new(),
            replies: Vec::new(),
            messages: inboxes.iter().map(|_| Vec::new()).collect(),
        };
        Self {
            inner: Mutex::new(inner),
            idle: Condvar::new(),
            taken_out: Condvar::new(),
            maintenance: StopSignal::default(),
            has_sums,
            inboxes,
            handle,
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A thread that panics with the lock held takes the daemon with it: its pieces are never
        // answered.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the repair of what was found damaged.
    pub(crate) fn begin(&self) {
        self.advance(&mut self.inner());
    }

    /// Carries out what the flow decides.
    fn advance(&self, inner: &mut Inner) {
        loop {
            while let Some(output) = inner.flow.poll() {
                match output {
                    Output::Issue(piece) => inner.issue(piece),
                    Output::Answer(id, result) => inner.answer(id, result),
                    Output::Ended(change, end) => {
                        // The receiver may have stopped waiting.
                        let asked = inner.changes.remove(&change);
                        let _ = asked.map(|to| to.try_send(end));
                    }
                }
            }
            while let Some(issue) = inner.sums.poll() {
                inner.carry_out(issue);
            }
            let Some(piece) = inner.unreachable.pop() else { break };
            let of = ReadData::of(ReadUse::Dropped);
            inner.collect(PieceDone::new(piece, of, Err(Failure::Offline)));
        }
        for (inbox, messages) in self.inboxes.iter().zip(&mut inner.messages) {
            inbox.send(messages);
        }
        self.handle.reply_many(&mut inner.replies);
        if inner.is_idle() {
            debug_assert!(inner.pieces.is_empty(), "an idle flow has no pieces in flight");
            self.idle.notify_all();
        }
        if inner.flow.pool().failing().is_empty() {
            self.taken_out.notify_all();
        }
    }

    /// Takes clients' requests to volumes of the pool; leaves the vector empty.
    pub(crate) fn submit(&self, requests: &mut Vec<(PoolVolumeId, nbd::Request)>) {
        if requests.is_empty() {
            return;
        }
        let mut sums = self.sums_of_writes(requests).into_iter();
        let mut inner = self.inner();
        for (volume, request) in requests.drain(..) {
            let sums = sums.next().flatten();
            let (operation, no_hole) = (request.operation, request.no_hole);
            let found = inner.flow.pool().state().volume(volume);
            let is_mirrored = found.is_some_and(|volume| volume.layout.is_mirror());
            let id = inner.buffers.insert((request, sums), is_mirrored);
            inner.flow.submit(id, volume, operation, no_hole);
        }
        self.advance(&mut inner);
    }

    /// The checksums of what each request writes, of a pool that has some. They are computed before
    /// the pool's lock is taken.
    fn sums_of_writes(&self, requests: &[(PoolVolumeId, nbd::Request)]) -> Vec<Option<Vec<Sum>>> {
        if !self.has_sums {
            return Vec::new();
        }
        let inner = self.inner();
        let is_summed = |(volume, request): &(PoolVolumeId, nbd::Request)| {
            request.operation.op == Op::Write && inner.is_summed(*volume)
        };
        let summed: Vec<bool> = requests.iter().map(is_summed).collect();
        drop(inner);
        let sums = |(is_summed, (_, request)): (bool, &(PoolVolumeId, nbd::Request))| {
            is_summed.then(|| sums_of(request.operation.extent, &request.data))
        };
        summed.into_iter().zip(requests).map(sums).collect()
    }

    /// Takes completed pieces; leaves the vector empty.
    pub(crate) fn pieces_done(&self, done: &mut Vec<PieceDone>) {
        if done.is_empty() {
            return;
        }
        let mut inner = self.inner();
        for done in done.drain(..) {
            inner.collect(done);
        }
        self.advance(&mut inner);
    }

    /// Tells a client which sectors of a volume are mapped.
    pub(crate) fn block_status(&self, volume: PoolVolumeId, query: BlockStatusRequest) {
        let inner = self.inner();
        // A volume that has shrunk or gone meanwhile is reported as data: its requests fail.
        let whole = |one: &volume::pool::Volume| Extent::new(Lba(0), one.size.sectors());
        let there = inner.flow.pool().state().volume(volume).map(whole);
        if !there.is_some_and(|whole| whole.contains(query.extent)) {
            let segment = Segment { len: query.extent.len, allocation: Allocation::Data };
            return self
                .handle
                .reply_block_status(BlockStatusReply { id: query.id, result: Ok(vec![segment]) });
        }
        let segment = |(extent, is_mapped): (Extent, bool)| Segment {
            len: extent.len,
            allocation: if is_mapped { Allocation::Data } else { Allocation::Hole },
        };
        let segments = inner.flow.allocation(volume, query.extent).map(segment);
        let segments = segments.take(STATUS_SEGMENTS_MAX).collect();
        drop(inner);
        self.handle.reply_block_status(BlockStatusReply { id: query.id, result: Ok(segments) });
    }

    /// Changes the pool, and waits for the end of the change.
    pub(crate) fn change(&self, operation: Operation) -> ChangeOutcome {
        self.change_by(|flow| flow.change(operation))
    }

    /// Begins or stops a scrub, and waits until that is durable.
    pub(crate) fn scrub(&self, starts: bool, now: WallTime) -> ChangeOutcome {
        let now = UnixTime(now.seconds());
        self.change_by(|flow| if starts { flow.start_scrub(now) } else { flow.stop_scrub() })
    }

    /// Begins a change, and waits for its end.
    fn change_by(&self, begin: impl FnOnce(&mut Flow) -> ChangeId) -> ChangeOutcome {
        let (to, from) = mpsc::sync_channel(1);
        let mut inner = self.inner();
        let change = begin(&mut inner.flow);
        let previous = inner.changes.insert(change, to);
        assert!(previous.is_none(), "a change has a number of its own");
        self.advance(&mut inner);
        drop(inner);
        from.recv().expect("a change ends")
    }

    /// Whether a change could be made now, after those in progress.
    pub(crate) fn check(&self, operation: &Operation) -> Result<(), volume::pool::Refusal> {
        self.inner().flow.check(operation)
    }

    /// Reads the flow.
    pub(crate) fn inspect<T>(&self, read: impl FnOnce(&Flow) -> T) -> T {
        read(&self.inner().flow)
    }

    /// Reads the flow, and what a view shows beside it.
    pub(crate) fn view<T>(&self, read: impl FnOnce(&Flow, ViewParts<'_>) -> T) -> T {
        let inner = self.inner();
        let trends = Trends { resync: &inner.trend, scrub: &inner.scrub_trend };
        read(&inner.flow, ViewParts { trends, sums: &inner.sums, spares: &inner.spares })
    }

    /// Notes what becomes of the places of the disks that are out.
    pub(crate) fn note_spares(&self, spares: SpareViews) {
        self.inner().spares = spares;
    }

    /// Takes a sample of what is left to be made equal. Returns whether anything is, or may be.
    pub(crate) fn sample_resync(&self, now: Instant) -> bool {
        let mut inner = self.inner();
        let stale = inner.flow.resync().stale;
        inner.trend.record(now, bytes(stale));
        stale > 0 || inner.flow.pool().is_unsynced()
    }

    /// Takes a sample of what is left to be read by the scrub, and tells it the time of day.
    pub(crate) fn sample_scrub(&self, now: Instant, day: WallTime) {
        let mut inner = self.inner();
        inner.flow.tell_time(UnixTime(day.seconds()));
        let left = scrub_left(&inner.flow.scrub());
        inner.scrub_trend.record(now, left);
    }

    /// How the blocks of a volume are placed.
    pub(crate) fn layout(&self, volume: PoolVolumeId) -> Layout {
        let inner = self.inner();
        inner.flow.pool().state().volume(volume).map_or(Layout::Single, |one| one.layout)
    }

    /// The daemon's disks that a volume is placed on.
    pub(crate) fn disks_of(&self, volume: PoolVolumeId) -> Vec<DiskIndex> {
        let inner = self.inner();
        let found = inner.flow.pool().state().volume(volume);
        let disks = found.map(|volume| volume.disks.clone()).unwrap_or_default();
        disks.iter().filter_map(|disk| Some(inner.disks.get(disk)?.disk)).collect()
    }

    /// Pauses relocation, or resumes it.
    pub(crate) fn pause_relocation(&self, paused: bool) {
        let mut inner = self.inner();
        inner.flow.pause_relocation(paused);
        self.advance(&mut inner);
    }

    /// Watches, or no longer watches, the order of a volume's requests.
    pub(crate) fn watch_order(&self, volume: PoolVolumeId, is_watched: bool) {
        self.inner().flow.watch_order(volume, is_watched);
    }

    /// Sends reads of a mirror to these of its disks where they have a copy; with `None`, to any.
    pub(crate) fn set_read_disks(&self, volume: PoolVolumeId, disks: Option<BTreeSet<DiskId>>) {
        self.inner().flow.set_read_disks(volume, disks);
    }

    /// What was asked for out of order of the volumes whose order is watched, or was.
    pub(crate) fn out_of_order(&self) -> Vec<(ExportId, Sectors)> {
        let inner = self.inner();
        let all = inner.accounts.iter();
        let all = all.map(|(id, accounts)| (accounts.export, inner.flow.out_of_order(*id)));
        all.filter(|(_, sectors)| *sectors > Sectors::ZERO).collect()
    }

    /// Sets the numbers of a volume on the disks.
    pub(crate) fn set_accounts(&self, volume: PoolVolumeId, accounts: PoolVolumeAccounts) {
        self.inner().accounts.insert(volume, accounts);
    }

    /// Removes the numbers of a volume that is removed.
    pub(crate) fn remove_accounts(&self, volume: PoolVolumeId) -> Option<PoolVolumeAccounts> {
        self.inner().accounts.remove(&volume)
    }

    /// The numbers of a volume on the disks.
    pub(crate) fn accounts(&self, volume: PoolVolumeId) -> Option<PoolVolumeAccounts> {
        self.inner().accounts.get(&volume).cloned()
    }

    /// The numbers of all volumes on the disks.
    pub(crate) fn all_accounts(&self) -> BTreeMap<PoolVolumeId, PoolVolumeAccounts> {
        self.inner().accounts.clone()
    }

    /// Stops relocation, resynchronisation and the scrub, and waits until no request and no change
    /// is in progress. Mirrors whose copies are equal are marked as such.
    pub(crate) fn quiesce(&self) {
        self.pause_relocation(true);
        let mut inner = self.inner();
        inner.flow.pause_resync(true);
        inner.flow.pause_scrub(true);
        self.advance(&mut inner);
        let is_busy = |inner: &mut Inner| !inner.is_idle();
        let inner = self.idle.wait_while(inner, is_busy).unwrap_or_else(PoisonError::into_inner);
        let has_open = inner.flow.pool().state().volumes().any(|(_, volume)| volume.open);
        drop(inner);
        // What fails leaves them marked as open: the next start makes their copies equal.
        if has_open && self.check(&Operation::Close).is_ok() {
            self.change(Operation::Close);
        }
        let mut inner = self.inner();
        inner.sums.close();
        self.advance(&mut inner);
        let inner = self.idle.wait_while(inner, is_busy).unwrap_or_else(PoisonError::into_inner);
        drop(inner);
    }

    /// Waits until each disk that has failed is out, or for `most`.
    pub(crate) fn wait_for_losses(&self, most: Duration) {
        let is_failing = |inner: &mut Inner| !inner.flow.pool().failing().is_empty();
        drop(self.taken_out.wait_timeout_while(self.inner(), most, is_failing));
    }

    /// Waits for `interval`, or until maintenance is to stop; returns whether it is to stop.
    pub(crate) fn wait_for_maintenance(&self, interval: Duration) -> bool {
        self.maintenance.wait(interval)
    }

    /// Tells the maintenance thread to stop.
    pub(crate) fn stop_maintenance(&self) {
        self.maintenance.stop();
    }
}

impl Inner {
    /// Sends a piece to its disk.
    fn issue(&mut self, piece: Piece) {
        let Piece { id, disk, payer, work } = piece;
        let place = self.place_of(disk);
        let nowhere = Extent::new(Lba(0), Sectors::ZERO);
        let plain = |op, extent, fua| units::Operation { op, extent, fua };
        let (mut data, mut sums, mut keep, mut client) = (Vec::new(), None, false, None);
        let (mut read_data, mut sums_use) = (ReadUse::Kept, SumsUse::of(&work));
        if let (Work::Request { .. }, ChargeTo::Volume(volume)) = (&work, payer)
            && !self.is_summed(volume)
        {
            sums_use = None;
        }
        let (operation, purpose) = match work {
            Work::Request { request, op, extent, at, fua, no_hole } => {
                if op == Op::Write {
                    sums = self.buffers.sums(request, at, extent);
                    data = self.buffers.payload(request, at, extent.len);
                }
                (keep, client) = (no_hole, Some(self.buffers.transport(request)));
                (plain(op, extent, fua), Purpose::Request(request, at))
            }
            Work::Metadata { extent, bytes, fua } => {
                data = bytes.to_vec();
                (plain(Op::Write, extent, fua), Purpose::Other)
            }
            Work::Flush => (plain(Op::Flush, nowhere, false), Purpose::Other),
            Work::Erase { extent } => (plain(Op::Trim, extent, false), Purpose::Other),
            Work::Load { copy, extent } => (plain(Op::Read, extent, false), Purpose::Load(copy)),
            Work::Verify { extent, has_copies, records } => {
                let is_digested = has_copies || matches!(records, RecordSums::IfEqual(_));
                read_data = if is_digested { ReadUse::Digested } else { ReadUse::Dropped };
                (plain(Op::Read, extent, false), Purpose::Verify)
            }
            Work::Store { copy, extent, fua } => {
                let is_known;
                (data, is_known) = self.buffers.remove_copy(copy);
                if !is_known {
                    sums_use = Some(SumsUse::WriteUnknown);
                }
                (plain(Op::Write, extent, fua), Purpose::Other)
            }
        };
        let previous = self.pieces.insert(id, purpose);
        assert!(previous.is_none(), "a piece is issued once");
        let Some(place) = place else { return self.unreachable.push(id) };
        let request = DiskRequest {
            origin: Origin::Pool { piece: id, client, read_data: ReadData::of(read_data) },
            volume: self.charged_volume(payer, place),
            operation,
            data,
            no_hole: keep,
            received: None,
            within: None,
        };
        let state = self.flow.pool().state();
        let there = state.disk(disk).filter(|there| there.has_sums);
        if let Some((there, sums_use)) = there.zip(sums_use) {
            let disk = (disk, there, state.pool);
            let now = self.sums.submit(disk, (place, request), (sums_use, sums));
            if let Some(request) = now {
                self.carry_out(Issue::Send(place, request));
            }
        } else {
            self.carry_out(Issue::Send(place, request));
        }
    }

    fn carry_out(&mut self, issue: Issue) {
        match issue {
            Issue::Send(place, request) => {
                self.messages[place.disk.0].push(Message::Request(request));
            }
            Issue::Refuse(piece) => self.unreachable.push(piece),
        }
    }

    /// Whether checksums of a volume's data are kept, where its disks have room for them. Those of
    /// one without are unknown from when its blocks are erased, or copied to, so that its requests
    /// need not pass them.
    fn is_summed(&self, volume: PoolVolumeId) -> bool {
        self.flow.pool().state().volume(volume).is_none_or(|volume| volume.sums)
    }

    fn is_idle(&self) -> bool {
        self.flow.is_idle() && self.sums.is_idle()
    }

    /// The number of a disk in the pool: of one that is being added, once it is in.
    fn number_of(&self, disk: DiskIndex) -> Option<DiskId> {
        let joining = self.joining.filter(|(_, place)| place.disk == disk);
        let state = self.flow.pool().state();
        let joined = joining
            .and_then(|(uid, _)| state.disks().find(|(_, one)| one.uid == uid).map(|(id, _)| id));
        let own = || self.disks.iter().find(|(_, one)| one.disk == disk).map(|(id, _)| *id);
        joined.or_else(own)
    }

    /// Where a disk is: one of the pool, or the one that is being added; `None` if it is missing.
    fn place_of(&self, disk: DiskId) -> Option<PoolDisk> {
        let is_joining = |uid: DiskUid| {
            self.flow.joining() == Some((disk, uid))
                || self.flow.pool().state().disk(disk).is_some_and(|found| found.uid == uid)
        };
        let joining = self.joining.filter(|(uid, _)| is_joining(*uid));
        joining.map(|(_, place)| place).or_else(|| self.disks.get(&disk).copied())
    }

    /// The volume that is charged on a disk.
    fn charged_volume(&self, payer: ChargeTo, disk: PoolDisk) -> VolumeId {
        match payer {
            ChargeTo::Metadata => disk.metadata,
            ChargeTo::Relocation => disk.moving,
            ChargeTo::Rebuild => disk.rebuild,
            ChargeTo::Scrub => disk.scrub,
            ChargeTo::Volume(volume) => {
                let accounts = self.accounts.get(&volume);
                let account = accounts.and_then(|accounts| accounts.by_disk.get(&disk.disk));
                account.copied().unwrap_or(disk.metadata)
            }
        }
    }

    /// Takes a completed piece.
    fn collect(&mut self, done: PieceDone) {
        let Some(done) = self.sums.collect(done) else { return };
        let PieceDone { piece, result, digest, is_known, lacks_sums, .. } = done;
        let end = match &result {
            Ok(_) => Ok(()),
            Err(Failure::Io | Failure::Offline) => Err(Fault::Disk),
            Err(Failure::NoSpace) => Err(Fault::NoSpace),
        };
        let purpose = self.pieces.remove(&piece).expect("a piece completes once");
        let is_done = result.is_ok();
        match (purpose, result) {
            (Purpose::Request(request, at), result) => self.buffers.collect(request, at, result),
            (Purpose::Load(copy), Ok(data)) => self.buffers.insert_copy(copy, (data, is_known)),
            (Purpose::Verify, _) => {
                let verified = Verified { digest, lacks_sums };
                return self.flow.verified(piece, end.map(|()| verified));
            }
            (Purpose::Load(_) | Purpose::Other, _) => {}
        }
        self.flow.done(piece, end);
        if let Purpose::Load(copy) = purpose
            && is_done
            && !self.flow.keeps(copy)
        {
            self.buffers.remove_copy(copy);
        }
    }

    /// Answers a request.
    fn answer(&mut self, id: PoolRequestId, result: Result<(), Fault>) {
        let refused = result.err().map(|fault| match fault {
            Fault::Disk => Errno::Io,
            Fault::NoSpace => Errno::NoSpc,
            Fault::ReadOnly => Errno::Perm,
            Fault::Invalid => Errno::Inval,
        });
        let request = self.buffers.remove(id);
        self.replies.push(Reply { id: request.id, result: request.result(refused) });
    }
}
