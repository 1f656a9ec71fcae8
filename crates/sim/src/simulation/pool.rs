//! A pool in virtual time: requests of clients go through its flow, whose pieces the simulated
//! disks carry out.
//!
//! ```text
//!  a load ──▶ Flow ── pieces ──▶ the engines of its disks
//!    ▲         ▲                      │
//!    └ answers ┴───── pieces done ────┘
//! ```
//!
//! On each disk of the pool each of its volumes is a volume of the engine, and so are two internal
//! ones, for metadata and for relocation, as in the daemon.

use std::collections::BTreeMap;

use config::{DiskIndex, Plan, PoolAction, PoolPlan, PoolVolumeIndex};
use engine::{Contract, Outcome, Request};
use units::{Bytes, Extent, Instant, Lba, Op, Operation, Sectors};
use volume::pool::flow::{
    ChangeId, ChangeOutcome, Fault, Output, Piece, PieceId, PoolRequestId, Verified,
};
use volume::pool::{DiskUid, Operation as PoolOperation, PoolVolumeId, UnixTime};
use volume::{DiskExtent, DiskId};

use super::disks::Terms;
use super::load::Target;
use super::pool_state::{Action, Change, Member, Pending, PoolVolume, Purpose, SimulatedPool};
use super::write_buffer::MEMORY_TIME;
use super::{BACKLOG_MAX, DISK_BACKLOG_MAX, Disk, Entry, Sender, Sent, Simulation, Volume};
use crate::oracle::{Content, PoolOracle, Written, watched};

impl SimulatedPool {
    /// The pool of the plan, if it has one, attached to its disks.
    ///
    /// # Panics
    /// On an unchecked plan.
    pub(super) fn new(plan: &Plan, disks: &mut [Disk], volumes: &mut Vec<Volume>) -> Option<Self> {
        let planned = plan.pool.as_ref()?;
        let initial = planned.create(&plan.disks).expect("the plan was checked");
        let numbers: Vec<(DiskId, DiskIndex)> =
            initial.disks.iter().copied().zip(planned.disks.iter().copied()).collect();
        let first_place = volumes.len();
        let whole = |disk: DiskIndex| {
            (disk.0, Extent::new(Lba(0), plan.disks[disk.0].drive.model.capacity()))
        };
        let mut attach = |name: &str, disk: DiskIndex, terms: &Terms| {
            let name = format!("{name} on {}", plan.disks[disk.0].name);
            let place = volumes.len();
            volumes.push(Volume::attach((place, name), whole(disk), terms, disks));
            place
        };
        let mut members = BTreeMap::new();
        for (id, disk) in &numbers {
            let of =
                |contract| Terms { passes_flushes: true, ..Terms::always(contract, Sectors::ZERO) };
            let metadata = attach("metadata", *disk, &of(planned.metadata_contract()));
            let relocation = planned.relocation_contract(&plan.disks[disk.0]);
            let relocation = attach("relocation", *disk, &of(relocation));
            let rebuild = planned.rebuild_contract(&plan.disks[disk.0]);
            let rebuild = rebuild.map_or(relocation, |own| attach("rebuild", *disk, &of(own)));
            let scrub = planned.scrub_contract(&plan.disks[disk.0]);
            let scrub = scrub.map_or(relocation, |own| attach("scrub", *disk, &of(own)));
            let disk = disk.0;
            members.insert(*id, Member { disk, metadata, relocation, rebuild, scrub });
        }
        let mut own = Vec::new();
        for (volume, id) in planned.volumes.iter().zip(&initial.volumes) {
            let terms = |disk| Terms {
                span: volume.span_on(disk),
                priority: volume.priority,
                ..Terms::always(volume.contract(disk), volume.write_buffer)
            };
            let places = numbers
                .iter()
                .map(|(_, disk)| (disk.0, attach(&volume.name, *disk, &terms(*disk))));
            let places = places.collect();
            own.push(PoolVolume::new(&volume.name, volume, (Some(*id), places)));
        }
        for change in &plan.changes {
            let PoolAction::Snapshot { name } = &change.action else { continue };
            let terms = Terms::always(Contract::BEST_EFFORT, Sectors::ZERO);
            let places = numbers.iter().map(|(_, disk)| (disk.0, attach(name, *disk, &terms)));
            let places = places.collect();
            own.push(PoolVolume::new(name, &planned.volumes[change.volume.0], (None, places)));
        }
        let mut pool = Self {
            flow: initial.flow,
            members,
            volumes: own,
            planned: planned.volumes.len(),
            first_place,
            requests: BTreeMap::new(),
            numbers: 0,
            pieces: BTreeMap::new(),
            changes: Vec::new(),
            running: BTreeMap::new(),
            relocated: Bytes::ZERO,
            relocated_at: None,
            oracle: PoolOracle::default(),
        };
        pool.plan_changes(plan, planned, &numbers);
        for (volume, id) in planned.volumes.iter().zip(&initial.volumes) {
            pool.count_on_stream(*id, volume, &numbers);
        }
        pool.flow.pause_relocation(false);
        Some(pool)
    }

    /// Does what the disks that keep a volume's stream count on.
    fn count_on_stream(
        &mut self,
        id: PoolVolumeId,
        volume: &config::PoolVolume,
        numbers: &[(DiskId, DiskIndex)],
    ) {
        self.flow.watch_order(id, volume.is_sequential());
        let read_disks = volume.read_disks().map(|disks| {
            let is_one = |(_, disk): &&(DiskId, DiskIndex)| disks.contains(disk);
            numbers.iter().filter(is_one).map(|(id, _)| *id).collect()
        });
        self.flow.set_read_disks(id, read_disks);
    }

    /// The plan's changes, and the relocations that no change begins: they begin at once.
    fn plan_changes(&mut self, plan: &Plan, planned: &PoolPlan, numbers: &[(DiskId, DiskIndex)]) {
        let number = |disk: &DiskIndex| {
            let found = numbers.iter().find(|(_, there)| there == disk);
            found.expect("a volume's disks are the pool's").0
        };
        let mut snapshots = self.planned..;
        let relocate = |volume: usize| {
            let one = &planned.volumes[volume];
            Action::Relocate { zone: one.zone, disks: one.disks.iter().map(number).collect() }
        };
        let mut add = |at, volume, action| {
            let (begun, ended, error) = (None, None, None);
            self.changes.push(Change { at, volume, action, begun, ended, error });
        };
        for change in &plan.changes {
            let PoolVolumeIndex(volume) = change.volume;
            let action = match change.action {
                PoolAction::Relocate => relocate(volume),
                PoolAction::Snapshot { .. } => {
                    Action::Snapshot { volume: snapshots.next().expect("without end") }
                }
            };
            add(Instant::ZERO + change.at, volume, action);
        }
        for (volume, one) in planned.volumes.iter().enumerate() {
            let is_timed = plan
                .changes
                .iter()
                .any(|change| change.volume.0 == volume && change.action == PoolAction::Relocate);
            if one.from.is_some() && !is_timed {
                add(Instant::ZERO, volume, relocate(volume));
            }
        }
    }
}

impl Simulation {
    /// Sends the next request of a load to a volume of the pool.
    pub(super) fn send_to_pool(&mut self, index: usize, volume: usize, traced: Option<Operation>) {
        let pool = self.pool.as_mut().expect("the volume is of a pool");
        let load = &mut self.loads[index];
        let PoolVolume { id, places, dropped, .. } = &mut pool.volumes[volume];
        let id = id.expect("a load begins when its volume is there");
        let is_closed = load.source.outstanding().is_some();
        let is_full = |disk: &usize| self.disks[*disk].engine.requests() >= DISK_BACKLOG_MAX;
        if load.in_flight >= BACKLOG_MAX || !is_closed && places.keys().any(is_full) {
            *dropped += 1;
            return;
        }
        let operation = traced.unwrap_or_else(|| load.source.generate());
        load.in_flight += 1;
        let number = PoolRequestId(pool.numbers);
        pool.numbers += 1;
        let pending = Pending { load: index, at: self.now, operation, has_pieces: false };
        pool.requests.insert(number, pending);
        let group = pool.flow.pool().state().group_of(id);
        pool.oracle.sent(number, (id, group), operation);
        pool.flow.submit(number, id, operation, false);
    }

    /// Carries out what the flow decides. Returns whether it sent anything to a disk.
    pub(super) fn advance_pool(&mut self) -> bool {
        let mut has_issued = false;
        while let Some(output) = self.pool.as_mut().and_then(|pool| pool.flow.poll()) {
            match output {
                Output::Issue(piece) => {
                    self.issue_piece(&piece);
                    has_issued = true;
                }
                Output::Answer(id, result) => {
                    let pool = self.pool.as_ref().expect("it was just polled");
                    let is_done = result.is_ok();
                    if pool.requests[&id].has_pieces {
                        self.answer_pool_client(id, is_done);
                    } else {
                        let at = self.now + MEMORY_TIME;
                        self.events.schedule(at, Entry::PoolAnswer(id, is_done));
                    }
                }
                Output::Ended(change, outcome) => self.change_ended(change, outcome),
            }
        }
        has_issued
    }

    fn issue_piece(&mut self, piece: &Piece) {
        let pool = self.pool.as_mut().expect("it was just polled");
        let (operation, purpose, mut written) = SimulatedPool::command(piece);
        let place = pool.place(piece.payer, piece.disk);
        let index = pool.members[&piece.disk].disk;
        if let Purpose::Request(id, at) = purpose {
            let request = pool.requests.get_mut(&id).expect("a request with a piece");
            request.has_pieces = true;
            if let Target::Pool(volume) = self.loads[request.load].target {
                pool.volumes[volume].count_outside(index, &operation, self.now);
            }
            let sector = request.operation.extent.start + at;
            written = match operation.op {
                Op::Write => {
                    Some(Written::Client { request: id, at: operation.extent.start, sector })
                }
                Op::WriteZeroes => Some(Written::Zeroes),
                Op::Read | Op::Trim | Op::Flush | Op::Seek => None,
            };
        }
        let before = pool.pieces.insert(piece.id, purpose);
        assert!(before.is_none(), "a piece is issued once");
        let nothing = Extent::new(Lba(0), Sectors::ZERO);
        let sent = self.disks[index].data.sent(&operation, nothing);
        if let Some(written) = written {
            pool.oracle.writes(index, sent.version(), &written);
        }
        let by = Sender::Pool(piece.id);
        let sent = Sent { by, volume: place, at: self.now, operation, watched: sent };
        let id = self.sent.insert(sent);
        let request = Request { id, volume: self.volumes[place].id, operation };
        self.submit(index, request, None);
    }

    /// A piece has ended.
    pub(super) fn piece_done(&mut self, piece: PieceId, sent: &Sent, outcome: Outcome) {
        let pool = self.pool.as_mut().expect("it issued the piece");
        let index = self.volumes[sent.volume].disk;
        let data = &self.disks[index].data;
        let extent = sent.operation.extent;
        let contents = |oracle: &PoolOracle| {
            let content = |lba| {
                let version = data.sent_as(sent.watched.seen(lba));
                (lba, oracle.content(index, lba, version))
            };
            watched(extent).map(content).collect::<Vec<(Lba, Content)>>()
        };
        let purpose = pool.pieces.remove(&piece).expect("a piece ends once");
        if outcome == Outcome::Done {
            match purpose {
                Purpose::Request(id, at) if sent.operation.op == Op::Read => {
                    let start = pool.requests[&id].operation.extent.start + at;
                    let of_volume = |(lba, content)| (start + extent.start.distance(lba), content);
                    let seen = contents(&pool.oracle).into_iter().map(of_volume).collect();
                    pool.oracle.seen(id, seen);
                }
                Purpose::Load(copy) => {
                    let offset = |(lba, content)| (extent.start.distance(lba), content);
                    let loaded = contents(&pool.oracle).into_iter().map(offset).collect();
                    pool.oracle.loaded(copy, loaded);
                }
                Purpose::Store => {
                    if pool.members.values().any(|member| member.relocation == sent.volume) {
                        pool.relocated += extent.len.bytes();
                        pool.relocated_at = Some(self.now);
                    }
                }
                Purpose::Erase => pool.oracle.erased(index, extent, data.last()),
                Purpose::Request(..) | Purpose::Verify | Purpose::Other => {}
            }
        }
        let end = match outcome {
            Outcome::Done => Ok(()),
            Outcome::Failed => Err(Fault::Disk),
        };
        match purpose {
            // Simulated copies are equal.
            Purpose::Verify => pool.flow.verified(piece, end.map(|()| Verified::default())),
            _ => pool.flow.done(piece, end),
        }
    }

    /// Answers a client of the pool.
    pub(super) fn answer_pool_client(&mut self, id: PoolRequestId, is_done: bool) {
        let pool = self.pool.as_mut().expect("it answers");
        let pending = pool.requests.remove(&id).expect("a request is answered exactly once");
        pool.oracle.answered(id, is_done, self.now);
        let Pending { load, at, operation, .. } = pending;
        let Target::Pool(index) = self.loads[load].target else { unreachable!("it is a pool's") };
        self.record.add_to_pool(pool.first_place + index, (operation, at), is_done, self.now);
        let volume = &mut pool.volumes[index];
        volume.answered += 1;
        volume.latency.record(self.now.since(at));
        if matches!(operation.op, Op::Read | Op::Write) {
            volume.bytes += operation.extent.len.bytes();
        }
        if !is_done {
            self.failed += 1;
        }
        self.after_answer(load);
    }

    /// A disk of the pool fails, and the pool goes on without it. Returns its number.
    ///
    /// # Panics
    /// If the plan has no pool, or the pool does not go on without the disk.
    pub fn fail_disk(&mut self, disk: DiskIndex) -> DiskId {
        let pool = self.pool.as_mut().expect("the disk is of a pool");
        let member = pool.members.iter().find(|(_, member)| member.disk == disk.0);
        let number = *member.expect("the disk is the pool's").0;
        assert!(pool.flow.fail(number), "the pool goes on without it");
        number
    }

    /// A disk of the pool fails, and an empty one takes its place: what mirrors had there is made
    /// equal from now on.
    ///
    /// # Panics
    /// If the plan has no pool, or the pool does not go on without the disk.
    pub fn replace_disk(&mut self, disk: DiskIndex) {
        let number = self.fail_disk(disk);
        let pool = self.pool.as_mut().expect("the disk is of a pool");
        let old = pool.flow.pool().state().disk(number).expect("it is the pool's");
        let uid = DiskUid(old.uid.0.map(|byte| !byte));
        let replace = PoolOperation::ReplaceDisk { disk: number, uid, blocks: old.blocks };
        pool.flow.change(replace);
    }

    /// A scrub of the pool begins.
    ///
    /// # Panics
    /// If the plan has no pool.
    pub fn start_scrub(&mut self) {
        let pool = self.pool.as_mut().expect("the plan has a pool");
        pool.flow.start_scrub(UnixTime(0));
    }

    /// The blocks that the scrub has read, each copy by itself.
    ///
    /// # Panics
    /// If the plan has no pool.
    pub fn scrubbed_blocks(&self) -> u64 {
        self.pool.as_ref().expect("the plan has a pool").flow.scrub().record.read
    }

    /// The blocks of the pool's disks that are still to be made equal.
    ///
    /// # Panics
    /// If the plan has no pool.
    pub fn stale_blocks(&self) -> u64 {
        let resync = self.pool.as_ref().expect("the plan has a pool").flow.resync();
        resync.stale + resync.stale_out
    }

    /// Begins a change of the plan.
    pub(super) fn change_pool(&mut self, index: usize) {
        let pool = self.pool.as_mut().expect("it has the change");
        let Change { volume, action, begun, .. } = &mut pool.changes[index];
        *begun = Some(self.now);
        let volume = pool.volumes[*volume].id.expect("the plan's volumes are there");
        let operation = match action {
            Action::Relocate { zone, disks } => {
                PoolOperation::Relocate { volume, zone: *zone, disks: disks.clone() }
            }
            Action::Snapshot { volume: snapshot } => {
                PoolOperation::Snapshot { volume, name: pool.volumes[*snapshot].name.clone() }
            }
        };
        let id = pool.flow.change(operation);
        pool.running.insert(id, index);
    }

    /// A change has ended: what waited for its snapshot begins.
    fn change_ended(&mut self, id: ChangeId, outcome: ChangeOutcome) {
        let now = self.now;
        let pool = self.pool.as_mut().expect("it made the change");
        let Some(index) = pool.running.remove(&id) else {
            assert_eq!(outcome, ChangeOutcome::Done, "an empty disk takes a place");
            return;
        };
        let change = &mut pool.changes[index];
        change.ended = Some(now);
        match outcome {
            ChangeOutcome::Done => {}
            ChangeOutcome::Refused(refusal) => change.error = Some(refusal.to_string()),
            ChangeOutcome::Failed(_) => change.error = Some("a disk failed".to_owned()),
        }
        let Action::Snapshot { volume } = change.action else { return };
        if change.error.is_some() {
            return;
        }
        let origin = pool.volumes[change.volume].id.expect("the plan's volumes are there");
        let state = pool.flow.pool().state();
        let (snapshot, _) = state.named(&pool.volumes[volume].name).expect("it was just taken");
        pool.volumes[volume].id = Some(snapshot);
        pool.oracle.snapshot(origin, snapshot);
        for (index, load) in self.loads.iter_mut().enumerate() {
            if load.target == Target::Pool(volume) {
                load.start = load.start.max(now);
                load.schedule_first(|at| self.events.schedule(at, Entry::Send { load: index }));
            }
        }
    }

    /// Checks that each sector of a volume whose content is certain is where the volume's map says.
    /// What disks with write buffers hold is in memory in part, and is not checked.
    pub(super) fn check_placement(&mut self) {
        let Some(pool) = &mut self.pool else { return };
        if pool.members.values().any(|member| self.disks[member.disk].buffer.is_some()) {
            return;
        }
        pool.flow.invariants();
        let state = pool.flow.pool().state();
        for (id, lba) in pool.oracle.certain().collect::<Vec<_>>() {
            let volume = state.volume(id).expect("volumes are not removed");
            let mapped = volume.map(Extent::new(lba, Sectors(1))).next().expect("a sector of it");
            let content = match mapped.location {
                None => Content::Zeroes,
                Some(DiskExtent { disk, extent }) => {
                    let disk = pool.members[&disk].disk;
                    let data = &self.disks[disk].data;
                    let version = data.content(extent).next().map_or(0, |(_, version)| version);
                    pool.oracle.content(disk, extent.start, data.sent_as(version))
                }
            };
            pool.oracle.placed((id, lba), volume.group, content, self.now);
        }
    }
}
