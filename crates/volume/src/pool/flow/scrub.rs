//! The progress of a scrub, and the blocks that it examines.
//!
//! The copies of a block are read side by side, and nothing is held for them. What happened to the
//! block meanwhile is noted: copies that differ are read again then. A block that is written to all
//! the time has its writes held in the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use crate::location::DiskId;
use crate::pool::flow::values::{Digest, Fault, RecordSums, Verified, VerifyId};
use crate::pool::names::{BlockExtent, Blocks, Copies, PoolVolumeId, VolumeBlock};
use crate::pool::state::scrub::{ScrubPhase, ScrubRecord, UnixTime};

/// The limit on blocks that are examined at a time: with three copies 24 MiB of memory, and enough
/// for the disks of a stripe to read side by side.
pub const EXAMINATIONS_MAX: usize = 8;

/// The blocks that are read before their number is stored: 4 GiB, half a minute of a hard disk. A
/// crash loses no more of a scrub.
pub const SCRUB_RECORD_BLOCKS: u64 = 4_096;

/// The limit on findings that are listed. All are counted.
pub const SCRUB_FINDINGS_MAX: usize = 64;

/// How often copies that differ are read while the block is written to, before its writes are held.
pub(crate) const TOUCHED_TRIES_MAX: u8 = 3;

/// How often a copy is written from another because it cannot be read.
pub(crate) const MENDS_MAX: u8 = 2;

const _: () = assert!(EXAMINATIONS_MAX > 0);
const _: () = assert!(SCRUB_FINDINGS_MAX > 0);
const _: () = assert!(SCRUB_RECORD_BLOCKS > EXAMINATIONS_MAX as u64);
const _: () = assert!(TOUCHED_TRIES_MAX > 0);
const _: () = assert!(MENDS_MAX > 0);

/// What a scrub has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubVerdict {
    /// The copy could not be read, was written from another, and then was read.
    Mended,
    /// The copy cannot be read although it was written from another.
    Unmended,
    /// The block can be read from no copy.
    Lost,
    /// The copy differs from the first one. Which of them is right is not known.
    Differs,
}

/// A copy that is not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubFinding {
    /// The volume or snapshot; others of its group may share the block.
    pub volume: PoolVolumeId,
    /// The block.
    pub block: VolumeBlock,
    /// The disk of the copy.
    pub disk: DiskId,
    /// What it is.
    pub verdict: ScrubVerdict,
}

/// How far a scrub is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubProgress {
    /// What it has read and found: of blocks that are examined nothing yet.
    pub record: ScrubRecord,
    /// The blocks of all disks that volumes have: what there is to read.
    pub allotted: u64,
    /// Whether it waits until copies are equal, or until the pool can be written.
    pub is_waiting: bool,
}

/// A copy that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyRead {
    pub(crate) place: BlockExtent,
    pub(crate) end: Option<Result<Verified, Fault>>,
}

/// What came of an examination.
#[derive(Clone, Debug, Default)]
pub(crate) struct Examined {
    /// The copies that were read.
    pub(crate) read: u64,
    pub(crate) findings: Vec<(DiskId, ScrubVerdict)>,
}

/// The checksums that an examination records, once its copies were read and compared.
#[derive(Clone, Debug)]
pub(crate) enum Recording {
    /// It is not known yet whether any is missing.
    NotYet,
    /// The copies on these disks are read once more for it. `digest` is that of all of them, if
    /// they were compared, and `examined` what came of it.
    Of { disks: Vec<DiskId>, digest: Option<Digest>, examined: Examined },
    /// It was tried.
    Over,
}

#[derive(Clone, Debug)]
pub(crate) enum ExaminationStage {
    /// Until the block is quiet, or its copies are equal.
    Waiting,
    /// `pieces` are in flight, mapped in `epoch` of the snapshot group.
    Reading { pieces: usize, epoch: u64 },
    /// Until those before it have ended.
    Ended(Examined),
}

/// The examination of a block.
#[derive(Clone, Debug)]
pub(crate) struct Examination {
    pub(crate) volume: PoolVolumeId,
    pub(crate) group: PoolVolumeId,
    pub(crate) block: VolumeBlock,
    pub(crate) stage: ExaminationStage,
    pub(crate) copies: Vec<CopyRead>,
    /// Whether the block was written to, or copied, since it began to be read.
    pub(crate) is_touched: bool,
    pub(crate) touched_tries: u8,
    pub(crate) mends: u8,
    /// Whether it has failed, or differed, once: it is read again before that is said.
    pub(crate) is_confirming: bool,
    /// The disks whose copy could not be read.
    pub(crate) failed: BTreeSet<DiskId>,
    pub(crate) recording: Recording,
    /// Whether the scrub was stopped: its pieces end, and nothing comes of them.
    pub(crate) is_dropped: bool,
}

/// A scrub.
#[derive(Clone, Debug)]
pub(crate) struct Scrub {
    /// Of what has ended.
    pub(crate) record: ScrubRecord,
    /// The next block to begin with.
    pub(crate) next: (PoolVolumeId, VolumeBlock),
    /// By number, in the order of their blocks.
    pub(crate) examinations: BTreeMap<u64, Examination>,
    pub(crate) numbers: u64,
    /// The value of `record.read` that was stored last, or is being.
    pub(crate) recorded: u64,
    pub(crate) is_paused: bool,
    /// The time of day that the flow was told last.
    pub(crate) now: UnixTime,
    /// The last ones.
    pub(crate) findings: VecDeque<ScrubFinding>,
    /// The findings that were taken from the list, or left it.
    pub(crate) findings_told: u64,
}

impl Scrub {
    /// A scrub that goes on from a record.
    pub(crate) fn of(record: ScrubRecord) -> Self {
        Self {
            record,
            next: record.next(),
            examinations: BTreeMap::new(),
            numbers: 0,
            recorded: record.read,
            is_paused: false,
            now: UnixTime(0),
            findings: VecDeque::new(),
            findings_told: 0,
        }
    }

    /// Another scrub, or the end of this one: what is being examined is dropped.
    pub(crate) fn adopt(&mut self, record: ScrubRecord) {
        self.examinations.retain(|_, one| matches!(one.stage, ExaminationStage::Reading { .. }));
        self.examinations.values_mut().for_each(|one| one.is_dropped = true);
        (self.record, self.next, self.recorded) = (record, record.next(), record.read);
        assert!(!self.is_waiting(), "nothing waits to be read");
        assert!(self.examinations.values().all(|one| one.is_dropped), "nothing counts");
    }

    /// The record, with the first block that has not ended.
    pub(crate) fn snapshot(&self) -> ScrubRecord {
        let first = self.examinations.values().find(|one| !one.is_dropped);
        let (volume, block) = first.map_or(self.next, |one| (one.volume, one.block));
        assert!((volume, block) <= self.next, "examinations are of blocks that were begun");
        ScrubRecord { volume, block, ..self.record }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.examinations.values().any(|one| matches!(one.stage, ExaminationStage::Waiting))
    }

    /// Whether a piece is in flight for a copy.
    pub(crate) fn is_reading(&self, id: VerifyId) -> bool {
        debug_assert!(id.examination < self.numbers, "it was begun");
        let one = self.examinations.get(&id.examination);
        one.is_some_and(|one| one.copies.get(id.copy).is_some_and(|copy| copy.end.is_none()))
    }

    /// Blocks of these volumes are written to or copied from here on.
    pub(crate) fn touch(
        &mut self,
        is_of: impl Fn(PoolVolumeId, PoolVolumeId) -> bool,
        blocks: &Range<u32>,
    ) {
        debug_assert!(blocks.start <= blocks.end, "a range of blocks");
        let own = self.examinations.values_mut();
        for one in own.filter(|one| blocks.contains(&one.block.0) && is_of(one.volume, one.group)) {
            one.is_touched = true;
        }
    }

    /// Ends an examination.
    pub(crate) fn end(&mut self, id: u64, examined: Examined) {
        let one = self.examinations.get_mut(&id).expect("it is in progress");
        assert!(matches!(one.stage, ExaminationStage::Waiting), "nothing is in flight for it");
        assert!(!one.is_dropped, "what is dropped finds nothing");
        one.stage = ExaminationStage::Ended(examined);
    }

    /// Counts the examinations that have ended, in the order of their blocks. Returns whether there
    /// were any.
    pub(crate) fn retire(&mut self) -> bool {
        let mut progressed = false;
        while let Some(first) = self.examinations.first_entry() {
            let ExaminationStage::Ended(examined) = &first.get().stage else { break };
            let (examined, one) = (examined.clone(), first.remove());
            assert!(!one.is_dropped, "what is dropped is not counted");
            progressed = true;
            self.record.read += examined.read;
            for (disk, verdict) in examined.findings {
                self.find(ScrubFinding { volume: one.volume, block: one.block, disk, verdict });
            }
        }
        progressed
    }

    fn find(&mut self, finding: ScrubFinding) {
        let count = match finding.verdict {
            ScrubVerdict::Mended => &mut self.record.mended,
            ScrubVerdict::Unmended => &mut self.record.unmended,
            ScrubVerdict::Lost => &mut self.record.lost,
            ScrubVerdict::Differs => &mut self.record.differing,
        };
        *count += 1;
        if self.findings.len() == SCRUB_FINDINGS_MAX {
            self.findings.pop_front();
            self.findings_told += 1;
        }
        self.findings.push_back(finding);
        assert!(self.findings.len() <= SCRUB_FINDINGS_MAX, "findings are within their limit");
    }

    /// Checks it.
    ///
    /// # Panics
    /// If it is inconsistent.
    pub(crate) fn invariants(&self) {
        let live = self.examinations.values().filter(|one| !one.is_dropped).count();
        let all = self.examinations.len();
        assert!(all <= EXAMINATIONS_MAX, "examinations are within their limit");
        assert!(self.recorded <= self.record.read, "what is stored was read");
        let last = self.examinations.last_key_value().map(|(id, _)| *id);
        assert!(last.is_none_or(|last| last < self.numbers), "examinations are numbered");
        assert!(live == 0 || self.record.phase == ScrubPhase::Running, "a scrub examines");
        let live = self.examinations.values().filter(|one| !one.is_dropped);
        let blocks: Vec<_> = live.map(|one| (one.volume, one.block)).collect();
        assert!(blocks.is_sorted(), "blocks are examined in their order");
        for one in self.examinations.values() {
            let open = one.copies.iter().filter(|copy| copy.end.is_none()).count();
            let in_flight = match one.stage {
                ExaminationStage::Reading { pieces, .. } => pieces,
                ExaminationStage::Waiting | ExaminationStage::Ended(_) => 0,
            };
            assert_eq!(open, in_flight, "its pieces are counted");
            assert!(one.copies.len() <= Copies::MAX.into(), "a block has few copies");
            assert!(one.mends <= MENDS_MAX, "a copy is mended a few times");
        }
    }
}

impl Examination {
    pub(crate) fn new((volume, group): (PoolVolumeId, PoolVolumeId), block: VolumeBlock) -> Self {
        Self {
            volume,
            group,
            block,
            stage: ExaminationStage::Waiting,
            copies: Vec::new(),
            is_touched: false,
            touched_tries: 0,
            mends: 0,
            is_confirming: false,
            failed: BTreeSet::new(),
            recording: Recording::NotYet,
            is_dropped: false,
        }
    }

    /// Whether writes to its block are held.
    pub(crate) fn holds(&self) -> bool {
        let is_over = matches!(self.stage, ExaminationStage::Ended(_));
        !self.is_dropped && !is_over && self.touched_tries >= TOUCHED_TRIES_MAX
    }

    /// Those of its copies that are read now, and whether they record checksums.
    pub(crate) fn to_read(&self, mut copies: Vec<BlockExtent>) -> (Vec<BlockExtent>, RecordSums) {
        let Recording::Of { disks, digest, .. } = &self.recording else {
            return (copies, RecordSums::Never);
        };
        copies.retain(|place| disks.contains(&place.disk));
        debug_assert!(copies.len() <= disks.len(), "a disk has one copy");
        (copies, digest.map_or(RecordSums::Always, RecordSums::IfEqual))
    }

    /// Its block.
    pub(crate) fn blocks(&self) -> Range<u32> {
        debug_assert!(self.block.0 < u32::MAX, "a block of a volume");
        self.block.0..self.block.0 + Blocks(1).0
    }
}
