//! The scrub: every copy of every block is read, in the order of the volumes, a few blocks at a
//! time.
//!
//! | what is found | what is done |
//! |---|---|
//! | a copy cannot be read, another can | it is written from the other, and read again |
//! | no copy can be read | it is read once more, and told as lost |
//! | copies differ that nothing wrote to meanwhile | they are read once more, and told |
//! | checksums are not known, and the copies are equal | they are read once more, and recorded |
//!
//! Copies that differ are left as they are: without checksums nothing says which is right.
//! Resynchronisation comes first: it makes copies safe of which it is known that they differ. A
//! block that volumes and snapshots share is read once, for the oldest of them.

use crate::location::DiskId;
use crate::pool::flow::change::{PendingChange, Quiesced, Scope};
use crate::pool::flow::core::Flow;
use crate::pool::flow::scrub::{
    CopyRead, EXAMINATIONS_MAX, Examination, ExaminationStage, Examined, MENDS_MAX, Recording,
    SCRUB_RECORD_BLOCKS, ScrubFinding, ScrubProgress, ScrubVerdict,
};
use crate::pool::flow::values::{
    ChangeId, ChangeOutcome, ChargeTo, Fault, Output, Owner, PieceId, Verified, VerifyId, Work,
};
use crate::pool::names::{BlockExtent, PoolVolumeId, VolumeBlock};
use crate::pool::operation::kinds::Operation;
use crate::pool::operation::refusal::Refusal;
use crate::pool::state::scrub::{ScrubPhase, ScrubRecord, UnixTime};
use crate::pool::state::volume::Volume;

impl Flow {
    /// Begins a scrub, or goes on with one that was stopped. The change ends when that is durable.
    pub fn start_scrub(&mut self, now: UnixTime) -> ChangeId {
        self.scrub.now = now;
        let scrub = match self.scrub.record.phase {
            ScrubPhase::Running => return self.refuse_scrub(Refusal::Scrubbing),
            ScrubPhase::Stopped => ScrubRecord { phase: ScrubPhase::Running, ..self.scrub.record },
            ScrubPhase::Never | ScrubPhase::Done => {
                ScrubRecord { phase: ScrubPhase::Running, began: now, ..ScrubRecord::default() }
            }
        };
        self.change(Operation::RecordScrub { scrub })
    }

    /// Stops a scrub. The change ends when its position is durable; what is in flight ends.
    pub fn stop_scrub(&mut self) -> ChangeId {
        if self.scrub.record.phase != ScrubPhase::Running {
            return self.refuse_scrub(Refusal::NotScrubbing);
        }
        let scrub = ScrubRecord { phase: ScrubPhase::Stopped, ..self.scrub.snapshot() };
        debug_assert!(scrub.read == self.scrub.record.read, "what has ended is stored");
        self.change(Operation::RecordScrub { scrub })
    }

    fn refuse_scrub(&mut self, refusal: Refusal) -> ChangeId {
        let id = self.number_change();
        self.outputs.push_back(Output::Ended(id, ChangeOutcome::Refused(refusal)));
        id
    }

    /// Pauses the scrub, and stores its position, or goes on with it.
    pub fn pause_scrub(&mut self, paused: bool) {
        self.scrub.is_paused = paused;
        self.dirty = true;
    }

    /// Tells the time of day, for when a scrub ends.
    pub fn tell_time(&mut self, now: UnixTime) {
        self.scrub.now = now;
    }

    /// How far the scrub is, and what it has found.
    pub fn scrub(&self) -> ScrubProgress {
        let status = self.pool.status();
        debug_assert!(status.free <= status.blocks, "a part of the blocks is free");
        ScrubProgress {
            record: self.scrub.record,
            allotted: status.blocks - status.free,
            is_waiting: self.scrub.record.phase == ScrubPhase::Running
                && (!self.may_scrub() || self.is_resync_first()),
        }
    }

    /// The findings since the daemon's start from number `from` on, as far as they are listed, and
    /// the number behind the last.
    pub fn scrub_findings(&self, from: u64) -> (Vec<ScrubFinding>, u64) {
        let (told, listed) = (self.scrub.findings_told, &self.scrub.findings);
        let skip = usize::try_from(from.saturating_sub(told)).unwrap_or(usize::MAX);
        let end = told + listed.len() as u64;
        assert!(from <= end, "findings are numbered in their order");
        (listed.iter().skip(skip).copied().collect(), end)
    }

    /// Whether a scrub goes on now.
    fn may_scrub(&self) -> bool {
        let is_whole = self.pool.missing().is_empty() && self.pool.failing().is_empty();
        let is_running = self.scrub.record.phase == ScrubPhase::Running && !self.scrub.is_paused;
        is_running && is_whole && !self.pool.is_poisoned()
    }

    /// Whether copies are to be made equal that can be.
    fn is_resync_first(&self) -> bool {
        let rests = self.resync_paused || self.resync.resting;
        self.resync.running > 0 || (!rests && self.pool.has_unequal())
    }

    /// Whether writes to one of these blocks are held, because it was written to whenever it was
    /// read.
    pub(crate) fn is_held_for_scrub(
        &self,
        group: PoolVolumeId,
        blocks: &core::ops::Range<u32>,
    ) -> bool {
        debug_assert!(blocks.start <= blocks.end, "a range of blocks");
        let mut own = self.scrub.examinations.values().filter(|one| one.holds());
        own.any(|one| one.group == group && blocks.contains(&one.block.0)) && self.may_scrub()
    }

    /// Advances the scrub. Returns whether it did.
    pub(crate) fn advance_scrub(&mut self) -> bool {
        let mut progressed = self.scrub.retire();
        progressed |= self.record_scrub();
        if !self.may_scrub() {
            return progressed;
        }
        let waits = |one: &Examination| matches!(one.stage, ExaminationStage::Waiting);
        let waiting = self.scrub.examinations.iter().filter(|(_, one)| waits(one));
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            progressed |= self.examine(id);
        }
        while self.scrub.examinations.len() < EXAMINATIONS_MAX && !self.is_resync_first() {
            let Some((volume, block)) = self.next_to_scrub() else {
                progressed |= self.finish_scrub();
                break;
            };
            let group = self.pool.state().group_of(volume);
            let id = self.scrub.numbers;
            self.scrub.numbers += 1;
            let before =
                self.scrub.examinations.insert(id, Examination::new((volume, group), block));
            assert!(before.is_none(), "numbers of examinations are not reused");
            self.scrub.next = (volume, VolumeBlock(block.0 + 1));
            self.examine(id);
            progressed = true;
        }
        progressed
    }

    /// All was read.
    fn finish_scrub(&mut self) -> bool {
        if !self.scrub.examinations.is_empty() {
            return false;
        }
        let record = &mut self.scrub.record;
        assert!(record.phase == ScrubPhase::Running, "a scrub ends once");
        (record.phase, record.ended) = (ScrubPhase::Done, self.scrub.now);
        (record.volume, record.block) = (PoolVolumeId(0), VolumeBlock(0));
        self.scrub.next = record.next();
        self.record_scrub();
        true
    }

    /// Stores how far the scrub is: when it ends, when it pauses, and now and then. Returns whether
    /// it began to.
    fn record_scrub(&mut self) -> bool {
        let is_able = self.pool.missing().is_empty() && !self.pool.is_poisoned();
        let stored = self.pool.state().scrub;
        let is_due = match self.scrub.record.phase {
            ScrubPhase::Running if self.scrub.is_paused => self.scrub.snapshot() != stored,
            ScrubPhase::Running => {
                self.scrub.record.read - self.scrub.recorded >= SCRUB_RECORD_BLOCKS
            }
            ScrubPhase::Done => stored.phase != ScrubPhase::Done,
            ScrubPhase::Never | ScrubPhase::Stopped => false,
        };
        let is_record =
            |one: &PendingChange| matches!(one.operation, Operation::RecordScrub { .. });
        if !is_able || !is_due || self.changes.values().any(is_record) {
            return false;
        }
        let scrub = self.scrub.snapshot();
        debug_assert!(scrub.phase != ScrubPhase::Never, "there is something to store");
        self.scrub.recorded = scrub.read;
        let id = self.number_change();
        self.changes.insert(id, PendingChange::internal(Operation::RecordScrub { scrub }));
        true
    }

    /// A record is durable.
    pub(crate) fn on_scrub_recorded(&mut self, scrub: ScrubRecord) {
        let own = &self.scrub.record;
        if (own.phase, own.began) != (scrub.phase, scrub.began) {
            // An operator has started or stopped it.
            self.scrub.adopt(scrub);
        }
    }

    /// The next block that a volume has, and no older one of its group.
    fn next_to_scrub(&self) -> Option<(PoolVolumeId, VolumeBlock)> {
        let (from, block) = self.scrub.next;
        let state = self.pool.state();
        state.volumes.range(from..).find_map(|(id, volume)| {
            let first = if *id == from { block.0 } else { 0 };
            let count = volume.size.0.saturating_sub(first);
            let next = |column: usize| {
                let rows = volume.rows(column, first, count);
                let row = self.next_row((*id, volume), column, rows)?;
                Some(volume.block(column, row))
            };
            Some((*id, (0..volume.width() as usize).filter_map(next).min()?))
        })
    }

    /// The next of these rows of a column that is mapped, and not to what an older volume of the
    /// group has there.
    fn next_row(
        &self,
        (id, volume): (PoolVolumeId, &Volume),
        column: usize,
        rows: core::ops::Range<u32>,
    ) -> Option<u32> {
        debug_assert!(column < volume.columns.len(), "a column of the volume");
        let mut row = rows.start;
        'rows: while row < rows.end {
            let run = volume.columns[column].next(row).filter(|run| run.row < rows.end)?;
            row = row.max(run.row);
            let place = volume.columns[column].block(row).expect("it is mapped");
            let older = self.pool.state().members(volume.group).take_while(|(one, _)| *one < id);
            for (_, other) in older {
                let Some(theirs) = other.columns[column].get(row) else { continue };
                let own = BlockExtent { block: theirs.place.block + (row - theirs.row), ..place };
                if theirs.disk() == place.disk && own == place {
                    row = theirs.end().min(run.end());
                    continue 'rows;
                }
            }
            return Some(row);
        }
        None
    }

    /// The copies of a block that are read, and whether they are to be equal.
    fn copies_to_scrub(&self, volume: &Volume, block: VolumeBlock) -> (Vec<BlockExtent>, bool) {
        if !volume.layout.is_mirror() {
            let place = volume.locate(block).filter(|place| self.pool.is_live(place.disk));
            return (place.into_iter().collect(), false);
        }
        let known = &self.pool.redundancy;
        let mut copies: Vec<BlockExtent> = self.pool.whole_copies(volume, block).collect();
        let are_synced = !copies.iter().any(|place| known.is_unsynced(*place));
        if copies.iter().any(|place| !known.is_unreadable(*place)) {
            copies.retain(|place| !known.is_unreadable(*place));
        }
        let are_equal = are_synced && copies.len() > 1;
        debug_assert!(copies.len() <= volume.layout.copies(), "no more than there are");
        (copies, are_equal)
    }

    /// Reads the copies of a block, if it is quiet and they are equal as far as is known. Returns
    /// whether it did, or had nothing to read.
    fn examine(&mut self, id: u64) -> bool {
        let one = &self.scrub.examinations[&id];
        let (volume_id, group, block) = (one.volume, one.group, one.block);
        let volume = self.pool.state().volume(volume_id).filter(|one| block.0 < one.size.0);
        let Some(volume) = volume.filter(|volume| volume.locate(block).is_some()) else {
            self.scrub.end(id, Examined::default());
            return true;
        };
        let rests = self.resync_paused || self.resync.resting;
        if !rests && self.pool.next_unequal(volume_id, block) == Some(block) {
            return false;
        }
        let own = Quiesced { scope: Scope::Group(group), blocks: one.blocks(), reads: false };
        let meets =
            |rest: &Quiesced| rest.is_of(volume_id, group) && rest.blocks.contains(&block.0);
        let mut rests = self.changes.values().filter_map(|change| change.rest.as_ref());
        if rests.any(meets) || self.requests.values().any(|request| request.overlaps(&own)) {
            return false;
        }
        let (places, are_equal) = self.copies_to_scrub(volume, block);
        // A copy that is still not readable was written from another as often as it can be.
        let failed = self.scrub.examinations[&id].failed.clone();
        let left = volume.copies(block).map(|place| place.disk);
        let left = left.filter(|disk| {
            failed.contains(disk) && !places.iter().any(|place| place.disk == *disk)
        });
        let left: Vec<DiskId> = left.filter(|disk| self.pool.is_live(*disk)).collect();
        if places.is_empty() || !left.is_empty() {
            let findings = left.into_iter().map(|disk| (disk, ScrubVerdict::Unmended)).collect();
            self.scrub.end(id, Examined { read: places.len() as u64, findings });
            return true;
        }
        let (places, records) = self.scrub.examinations[&id].to_read(places);
        if places.is_empty() {
            self.end_recording(id);
            return true;
        }
        let epoch = self.groups.get_mut(&group).expect("every group is listed").enter_epoch();
        let one = self.scrub.examinations.get_mut(&id).expect("it is in progress");
        one.stage = ExaminationStage::Reading { pieces: places.len(), epoch };
        one.is_touched = false;
        one.copies = places.iter().map(|place| CopyRead { place: *place, end: None }).collect();
        for (copy, place) in places.into_iter().enumerate() {
            let owner = Owner::Verify(VerifyId { examination: id, copy });
            let extent = place.extent();
            let work = Work::Verify { extent, has_copies: are_equal, records };
            self.issue(owner, place.disk, ChargeTo::Scrub, work);
        }
        true
    }

    /// Completes a piece that reads for the scrub.
    ///
    /// # Panics
    /// If the piece is not in flight, or is another.
    pub fn verified(&mut self, piece: PieceId, end: Result<Verified, Fault>) {
        let (owner, _) = self.end_piece(piece);
        let Owner::Verify(VerifyId { examination: id, copy }) = owner else {
            unreachable!("a piece that verifies")
        };
        self.dirty = true;
        let one = self.scrub.examinations.get_mut(&id).expect("it has a piece in flight");
        let before = one.copies[copy].end.replace(end);
        assert!(before.is_none(), "a copy is read once");
        let ExaminationStage::Reading { pieces, epoch } = &mut one.stage else {
            unreachable!("a piece is in flight")
        };
        assert!(*pieces > 0, "a piece in flight was counted");
        *pieces -= 1;
        if *pieces > 0 {
            return;
        }
        let (group, epoch) = (one.group, *epoch);
        one.stage = ExaminationStage::Waiting;
        if one.is_dropped {
            self.scrub.examinations.remove(&id);
        } else {
            self.judge(id);
        }
        let free = self.groups.get_mut(&group).expect("it has a reader").leave_epoch(epoch);
        self.release(free);
        self.forget(group);
    }

    /// The copies of a block were read.
    fn judge(&mut self, id: u64) {
        let one = &self.scrub.examinations[&id];
        let volume = self.pool.state().volume(one.volume).filter(|two| one.block.0 < two.size.0);
        let is_mirror = volume.is_some_and(|volume| volume.layout.is_mirror());
        // A copy that was moved, freed, taken out or found stale meanwhile does not count.
        let counts = |place: BlockExtent| {
            let is_there = |volume: &Volume| volume.copies(one.block).any(|now| now == place);
            volume.is_some_and(is_there)
                && if is_mirror { self.pool.is_whole(place) } else { self.pool.is_live(place.disk) }
        };
        let end = |copy: &CopyRead| copy.end.expect("it has ended");
        let copies = one.copies.iter().filter(|copy| counts(copy.place));
        let (good, bad): (Vec<CopyRead>, Vec<CopyRead>) =
            copies.partition(|copy| end(copy).is_ok());
        let (read, is_confirming) = (one.copies.len() as u64, one.is_confirming);
        let digest = |copy: &CopyRead| end(copy).map(|verified| verified.digest);
        let first = good.first().map(|copy| (copy.place, digest(copy)));
        let other = first.and_then(|(_, first)| good.iter().find(|copy| digest(copy) != first));
        if matches!(one.recording, Recording::Of { .. }) {
            return if bad.is_empty() { self.end_recording(id) } else { self.examine_again(id) };
        }
        if bad.is_empty() {
            let is_known = first.is_some_and(|(place, _)| self.pool.redundancy.is_unsynced(place));
            if let Some(other) = other.filter(|_| is_mirror && !is_known) {
                let disk = other.place.disk;
                return self.note_difference(id, disk, read);
            }
            let mended =
                one.failed.iter().filter(|disk| good.iter().any(|copy| copy.place.disk == **disk));
            let findings = mended.map(|disk| (*disk, ScrubVerdict::Mended)).collect();
            let examined = Examined { read, findings };
            let keeps_sums = volume.is_some_and(|volume| volume.sums) && !is_known;
            return self.end_or_record(id, examined, if keeps_sums { &good } else { &[] });
        }
        let mends = one.mends;
        if !good.is_empty() && mends < MENDS_MAX {
            for copy in &bad {
                self.pool.redundancy.note_unreadable(copy.place.disk, copy.place.extent());
            }
            self.wake_resync();
            let one = self.scrub.examinations.get_mut(&id).expect("it is in progress");
            one.mends += 1;
            one.failed.extend(bad.iter().map(|copy| copy.place.disk));
            return;
        }
        if good.is_empty() && !is_confirming {
            let one = self.scrub.examinations.get_mut(&id).expect("it is in progress");
            one.is_confirming = true;
            return;
        }
        let verdict = if good.is_empty() { ScrubVerdict::Lost } else { ScrubVerdict::Unmended };
        let count = if good.is_empty() { 1 } else { bad.len() };
        let findings = bad.iter().take(count).map(|copy| (copy.place.disk, verdict)).collect();
        self.scrub.end(id, Examined { read, findings });
    }

    /// The copies of a block are as they should be: those among `good` of which checksums are
    /// missing are read once more, to record them. Nothing else is in flight for it.
    fn end_or_record(&mut self, id: u64, examined: Examined, good: &[CopyRead]) {
        let read = |copy: &CopyRead| copy.end.and_then(Result::ok);
        let lacks = |copy: &&CopyRead| read(copy).is_some_and(|verified| verified.lacks_sums);
        let disks: Vec<DiskId> = good.iter().filter(lacks).map(|copy| copy.place.disk).collect();
        let one = self.scrub.examinations.get_mut(&id).expect("it is in progress");
        if disks.is_empty() || matches!(one.recording, Recording::Over) {
            return self.scrub.end(id, examined);
        }
        let digest = good.iter().find_map(read).map(|verified| verified.digest);
        let digest = digest.filter(|_| one.copies.len() > 1);
        assert!(matches!(one.recording, Recording::NotYet), "it is tried once");
        one.recording = Recording::Of { disks, digest, examined };
    }

    /// Checksums were recorded, as far as the copies are still there.
    fn end_recording(&mut self, id: u64) {
        let one = self.scrub.examinations.get_mut(&id).expect("it is in progress");
        match core::mem::replace(&mut one.recording, Recording::Over) {
            Recording::Of { examined, .. } => self.scrub.end(id, examined),
            Recording::NotYet | Recording::Over => unreachable!("copies are read first"),
        }
    }

    /// A copy could not be read once more: it is examined from the beginning, and records nothing.
    fn examine_again(&mut self, id: u64) {
        let one = self.scrub.examinations.get_mut(&id).expect("it is in progress");
        assert!(matches!(one.stage, ExaminationStage::Waiting), "nothing is in flight for it");
        one.recording = Recording::Over;
    }

    /// Copies of a block differ: they are read again, unless that was not because of a write.
    fn note_difference(&mut self, id: u64, disk: DiskId, read: u64) {
        let one = self.scrub.examinations.get_mut(&id).expect("it is in progress");
        debug_assert!(read > 1, "copies were read");
        if one.is_touched {
            one.touched_tries = one.touched_tries.saturating_add(1);
        } else if !one.is_confirming {
            one.is_confirming = true;
        } else {
            let findings = vec![(disk, ScrubVerdict::Differs)];
            self.scrub.end(id, Examined { read, findings });
        }
    }
}
