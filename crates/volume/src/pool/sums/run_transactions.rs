//! Regions are opened, and closed, several at a time; one such transaction is in progress at a
//! time, so that the slots of the ledger are written in turn.

use units::Sectors;

use crate::pool::format::structures::DecodeError;
use crate::pool::limits::UNIT_BYTES;
use crate::pool::sums::area::{PAGE_BYTES, SUM_SECTORS};
use crate::pool::sums::format::{decode_page, encode_page};
use crate::pool::sums::machine::{DiskSums, Stage, StepOf};
use crate::pool::sums::transaction::{Phase, Transaction};
use crate::pool::sums::values::{SumsAction, SumsStepId};

/// Regions that are closed together, at most: their pages are written behind one flush.
pub(crate) const CLOSED_TOGETHER_MAX: usize = 64;

impl<P: Copy + Ord> DiskSums<P> {
    /// A step has ended: of a read with the bytes.
    ///
    /// # Panics
    /// If it is not in progress.
    pub fn step_done(&mut self, id: SumsStepId, end: Result<&[u8], ()>) {
        self.dirty = true;
        match self.steps.remove(&id).expect("a step ends once") {
            StepOf::Load { first, count } => {
                for (nth, number) in (first..first + count).enumerate() {
                    let part = nth * PAGE_BYTES..(nth + 1) * PAGE_BYTES;
                    self.page_read(number, end.ok().and_then(|bytes| bytes.get(part)));
                }
            }
            StepOf::Transaction => {
                let transaction = self.transaction.as_mut().expect("it has a step");
                assert!(transaction.steps > 0, "its steps are counted");
                transaction.steps -= 1;
                transaction.has_failed |= end.is_err();
            }
        }
    }

    /// The page of a region has been read, or could not be.
    fn page_read(&mut self, number: u32, bytes: Option<&[u8]>) {
        let damaged = Err(DecodeError::Damaged);
        let owner = self.ledger.owner;
        let page = bytes.map_or(damaged, |bytes| decode_page(bytes, &owner, number));
        // One that was never written, or in an earlier area, is no damage.
        let is_damaged = page == Err(DecodeError::Damaged);
        self.status.pages_damaged += u64::from(is_damaged);
        let region = self.regions.get_mut(&number).expect("it is being read");
        assert!(region.stage == Stage::Loading, "it is being read");
        region.stage = Stage::Clean;
        region.sums = page.ok();
        debug_assert!(!is_damaged || region.sums.is_none(), "nothing is taken from it");
    }

    /// Begins the next transaction, or the next phase of the one in progress.
    pub(crate) fn advance_transaction(&mut self) {
        if self.transaction.is_none() {
            self.begin_transaction();
            return;
        }
        let transaction = self.transaction.as_ref().expect("one is in progress");
        if transaction.steps > 0 {
            return;
        }
        if transaction.has_failed || transaction.phase == Phase::Ledger {
            self.end_transaction();
            self.begin_transaction();
            return;
        }
        let next = match transaction.phase {
            Phase::Data => Phase::Pages,
            Phase::Pages => Phase::PagesFlush,
            Phase::PagesFlush | Phase::Ledger => Phase::Ledger,
        };
        self.begin_phase(next);
    }

    fn begin_transaction(&mut self) {
        if self.status.is_broken {
            return;
        }
        let wanted = self.regions_to_open();
        let (opens, regions) =
            if wanted.is_empty() { (false, self.regions_to_close()) } else { (true, wanted) };
        if regions.is_empty() {
            return;
        }
        assert!(self.transaction.is_none(), "one at a time");
        assert!(opens || regions.len() <= CLOSED_TOGETHER_MAX, "a few are closed together");
        for number in regions.iter().filter(|_| !opens) {
            self.regions.get_mut(number).expect("it is open").stage = Stage::Closing;
        }
        let phase = if opens { Phase::Ledger } else { Phase::Data };
        self.transaction = Some(Transaction { opens, regions, phase, steps: 0, has_failed: false });
        self.begin_phase(phase);
    }

    /// The regions that are opened next: those that are wanted and whose pages are read. While
    /// others are being read, those that no piece waits for wait for them.
    fn regions_to_open(&self) -> Vec<u32> {
        let wanted = || self.regions.iter().filter(|(_, region)| region.is_wanted);
        let is_loading = wanted().any(|(_, region)| region.stage == Stage::Loading);
        let has_pieces = wanted().any(|(_, one)| one.stage == Stage::Clean && one.pins > 0);
        if is_loading && !has_pieces {
            return Vec::new();
        }
        let loaded = wanted().filter(|(_, region)| region.stage == Stage::Clean);
        let loaded: Vec<u32> = loaded.map(|(number, _)| *number).collect();
        debug_assert!(is_loading || loaded.len() == wanted().count(), "nothing else waits");
        loaded
    }

    /// The regions that are closed next: all, to end; else, above the limit, those that were not
    /// used for longest, half of the limit together.
    fn regions_to_close(&self) -> Vec<u32> {
        if !self.is_closing && !self.has_too_many_open() {
            return Vec::new();
        }
        let open = self.open;
        let idle = |number: &u32| self.regions[number].pins == 0;
        let mut idle: Vec<u32> = self.open_regions().filter(idle).collect();
        if self.is_closing {
            idle.truncate(CLOSED_TOGETHER_MAX);
            return idle;
        }
        debug_assert!(idle.len() <= open, "some of them");
        idle.sort_by_key(|number| self.regions[number].used);
        idle.truncate(CLOSED_TOGETHER_MAX.min(self.resident_max / 4).max(1));
        idle
    }

    /// Whether regions are to be closed: room is left for those that are only read.
    pub(crate) fn has_too_many_open(&self) -> bool {
        debug_assert!(self.open <= self.regions.len(), "an open region is in memory");
        self.open > self.resident_max * 3 / 4
    }

    fn begin_phase(&mut self, phase: Phase) {
        let transaction = self.transaction.as_mut().expect("one is in progress");
        assert_eq!(transaction.steps, 0, "the phase before has ended");
        assert!(!transaction.regions.is_empty(), "there is something to do");
        transaction.phase = phase;
        let (opens, regions) = (transaction.opens, transaction.regions.clone());
        let actions = match phase {
            Phase::Data => vec![SumsAction::FlushData],
            Phase::PagesFlush => vec![SumsAction::Flush],
            Phase::Pages => regions.iter().map(|number| self.write_page(*number)).collect(),
            Phase::Ledger => {
                for number in &regions {
                    self.ledger.open[*number as usize] = opens;
                }
                vec![self.write_ledger()]
            }
        };
        self.transaction.as_mut().expect("one is in progress").steps = actions.len();
        for action in actions {
            self.step(StepOf::Transaction, action);
        }
    }

    fn write_page(&self, number: u32) -> SumsAction {
        let place = self.area.page(number);
        let Some(sums) = self.regions[&number].sums.as_deref() else {
            // Without its magic number a page is none.
            let blank = vec![0; UNIT_BYTES];
            return SumsAction::Write(place.split_at(Sectors(SUM_SECTORS)).0, blank.into());
        };
        let bytes = encode_page(&self.ledger.owner, number, sums);
        assert_eq!(bytes.len(), place.len.bytes_usize(), "a whole page");
        SumsAction::Write(place, bytes.into())
    }

    fn write_ledger(&mut self) -> SumsAction {
        self.ledger.sequence += 1;
        let slot = u32::from(self.ledger.sequence % 2 == 1);
        let bytes = self.ledger.encode(slot);
        let place = self.area.ledger(slot);
        assert_eq!(bytes.len(), place.len.bytes_usize(), "a slot is written whole");
        SumsAction::WriteDurably(place, bytes.into())
    }

    /// The transaction is durable, or has failed: then nothing says what the disk has, so that no
    /// region is opened any more.
    fn end_transaction(&mut self) {
        let ended = self.transaction.take().expect("one is in progress");
        assert_eq!(ended.steps, 0, "its last phase has ended");
        self.status.is_broken |= ended.has_failed;
        if self.status.is_broken {
            self.regions.values_mut().for_each(|region| region.is_wanted = false);
        }
        for number in ended.regions {
            let region = self.regions.get_mut(&number).expect("it is in use");
            region.is_wanted = false;
            // What the ledger has is not known if that failed.
            let was_marked = matches!(ended.phase, Phase::Data | Phase::Pages | Phase::PagesFlush);
            let is_open = if ended.opens { !ended.has_failed } else { was_marked };
            region.stage = if is_open { Stage::Open } else { Stage::Clean };
            if ended.has_failed {
                self.ledger.open[number as usize] = true;
            }
        }
        self.open = self.open_regions().count();
        self.dirty = true;
    }
}
