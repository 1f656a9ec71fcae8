//! The state of the checksums of one disk.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::pool::sums::area::SumsArea;
use crate::pool::sums::format::{Ledger, PageOwner};
use crate::pool::sums::order::SumsOrder;
use crate::pool::sums::runs::Runs;
use crate::pool::sums::transaction::Transaction;
use crate::pool::sums::values::{Sum, SumsAction, SumsOutput, SumsStatus, SumsStepId};

/// The limit on regions in memory, 64 MiB of checksums: of 64 GiB of a disk. It is passed only
/// while more are in use at once.
pub const RESIDENT_MAX: usize = 256;

/// The limits of the checksums of a disk.
#[derive(Clone, Copy, Debug)]
pub struct SumsLimits {
    /// Regions in memory.
    pub resident_max: usize,
    /// What pieces in order cover before the regions in front of them are read and opened, in 4
    /// KiB.
    pub run_min: u64,
}

impl Default for SumsLimits {
    /// [`RESIDENT_MAX`], and 32 MiB: a region is opened in less time than its last part is written.
    fn default() -> Self {
        Self { resident_max: RESIDENT_MAX, run_min: 8_192 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its page is being read.
    Loading,
    /// Closed, and as on the disk.
    Clean,
    /// Open.
    Open,
    /// Open, and being closed: writes wait.
    Closing,
}

/// A region in memory.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) stage: Stage,
    /// `None`: all are unknown.
    pub(crate) sums: Option<Box<[Sum]>>,
    /// Pieces that are not done.
    pub(crate) pins: usize,
    /// It is to be opened: a write waits for it, or will need it soon.
    pub(crate) is_wanted: bool,
    /// When it was used last, counted in pieces.
    pub(crate) used: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum StepOf {
    /// The pages of regions that follow each other are read.
    Load { first: u32, count: u32 },
    /// A part of the transaction in progress.
    Transaction,
}

/// The checksums of one disk; `P` names the pieces of its driver.
#[derive(Clone, Debug)]
pub struct DiskSums<P> {
    pub(crate) area: SumsArea,
    pub(crate) ledger: Ledger,
    pub(crate) resident_max: usize,
    pub(crate) regions: BTreeMap<u32, Region>,
    pub(crate) order: SumsOrder<P>,
    /// The regions that are open.
    pub(crate) open: usize,
    pub(crate) runs: Runs,
    pub(crate) steps: BTreeMap<SumsStepId, StepOf>,
    pub(crate) step_numbers: u64,
    pub(crate) uses: u64,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) outputs: VecDeque<SumsOutput<P>>,
    pub(crate) dirty: bool,
    pub(crate) is_closing: bool,
    pub(crate) status: SumsStatus,
}

impl<P: Copy + Ord> DiskSums<P> {
    /// The checksums of a disk whose ledger was found. Those of its open regions are unknown.
    ///
    /// # Panics
    /// If the ledger is of another area.
    pub fn new(area: SumsArea, ledger: Ledger) -> Self {
        Self::with_limits(area, ledger, SumsLimits::default())
    }

    /// The same with other limits, for tests.
    ///
    /// # Panics
    /// If the ledger is of another area.
    pub fn with_limits(area: SumsArea, ledger: Ledger, limits: SumsLimits) -> Self {
        let resident_max = limits.resident_max;
        assert_eq!(ledger.open.len(), area.regions() as usize, "the ledger is of the area");
        assert!(resident_max > 0, "a piece needs a region");
        let open = ledger.open.iter().zip(0..).filter(|(open, _)| **open);
        let open = open.map(|(_, region)| (region, Region::new(Stage::Open)));
        let regions: BTreeMap<u32, Region> = open.collect();
        Self {
            area,
            open: regions.len(),
            regions,
            ledger,
            resident_max,
            order: SumsOrder::new(),
            runs: Runs::new(limits.run_min, resident_max),
            steps: BTreeMap::new(),
            step_numbers: 0,
            uses: 0,
            transaction: None,
            outputs: VecDeque::new(),
            dirty: true,
            is_closing: false,
            status: SumsStatus::default(),
        }
    }

    /// The next output. `None`: nothing until a piece is submitted or done, or a step is.
    pub fn poll(&mut self) -> Option<SumsOutput<P>> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
            if !core::mem::take(&mut self.dirty) {
                return None;
            }
            self.advance_pieces();
            self.advance_transaction();
            self.evict();
            if cfg!(debug_assertions) {
                self.invariants();
            }
        }
    }

    /// The disk has been reopened, or is back: what it had answered may be lost, so that all
    /// checksums that it may not have stored are unknown. They are marked as such before anything
    /// is written.
    ///
    /// # Panics
    /// If a piece or a step is in progress.
    pub fn reset(&mut self) {
        assert!(self.is_quiet(), "nothing is in progress");
        self.transaction = None;
        self.status.is_broken = false;
        for (number, open) in (0..).zip(&mut self.ledger.open) {
            *open |= self.regions.get(&number).is_some_and(|region| region.stage != Stage::Clean);
            if *open {
                let unknown = Region { is_wanted: true, ..Region::new(Stage::Clean) };
                self.regions.insert(number, unknown);
            }
        }
        self.open = self.open_regions().count();
        self.dirty = true;
    }

    /// Closes every region when no piece uses it: after that what a crash leaves is known.
    pub fn close(&mut self) {
        self.is_closing = true;
        let idle = self.regions.values_mut().filter(|region| region.pins == 0);
        idle.for_each(|region| region.is_wanted = false);
        self.dirty = true;
    }

    /// Whether no piece and no step is in progress.
    pub fn is_quiet(&self) -> bool {
        self.order.is_empty() && self.steps.is_empty() && self.outputs.is_empty()
    }

    /// Whether nothing is in progress, and, after [`Self::close`], every region is closed.
    pub fn is_idle(&self) -> bool {
        let is_closed = !self.is_closing || self.status.is_broken || self.open == 0;
        self.is_quiet() && is_closed && self.transaction.is_none()
    }

    /// How they are.
    pub fn status(&self) -> SumsStatus {
        SumsStatus { open: self.open, ..self.status }
    }

    /// What the area belongs to.
    pub fn owner(&self) -> &PageOwner {
        &self.ledger.owner
    }

    pub(crate) fn open_regions(&self) -> impl Iterator<Item = u32> + '_ {
        let is_open = |region: &Region| matches!(region.stage, Stage::Open | Stage::Closing);
        self.regions.iter().filter(move |(_, region)| is_open(region)).map(|(number, _)| *number)
    }

    pub(crate) fn step(&mut self, of: StepOf, action: SumsAction) {
        let id = SumsStepId(self.step_numbers);
        self.step_numbers += 1;
        let before = self.steps.insert(id, of);
        assert!(before.is_none(), "step numbers are not reused");
        self.outputs.push_back(SumsOutput::Step(id, action));
    }

    /// Forgets the regions that were not used for longest, beyond the limit.
    fn evict(&mut self) {
        while self.regions.len() > self.resident_max {
            let can_go = |region: &&Region| {
                region.stage == Stage::Clean && region.pins == 0 && !region.is_wanted
            };
            let idle = self.regions.iter().filter(|(_, region)| can_go(region));
            let Some((oldest, _)) = idle.min_by_key(|(_, region)| region.used) else { return };
            let oldest = *oldest;
            self.regions.remove(&oldest);
        }
    }

    /// Checks the tables against each other.
    ///
    /// # Panics
    /// If they differ.
    pub fn invariants(&self) {
        let open: BTreeSet<u32> = self.open_regions().collect();
        assert_eq!(open.len(), self.open, "they are counted");
        for (number, region) in &self.regions {
            let of = |(_, piece): &&(P, crate::pool::sums::order::SumsPiece)| {
                self.area.touched(piece.extent).contains(number)
            };
            assert_eq!(self.order.pieces.values().filter(of).count(), region.pins, "pins");
            let is_closed = matches!(region.stage, Stage::Clean | Stage::Loading);
            assert!(!region.is_wanted || is_closed, "it is to be opened");
        }
        for (_, piece) in self.order.pieces.values().filter(|(_, piece)| piece.is_issued) {
            let touched = self.area.touched(piece.extent);
            assert!(
                touched.clone().all(|number| self.regions.contains_key(&number)),
                "the regions of a piece in flight are in memory"
            );
            let is_open = |number| open.contains(&number);
            assert!(!piece.writes() || touched.clone().all(is_open), "they are open for a write");
        }
        let written = self.regions.iter().filter(|(_, region)| region.stage == Stage::Open);
        let mut marked = written.map(|(number, _)| self.ledger.open[*number as usize]);
        assert!(marked.all(|is_marked| is_marked), "a region is marked before it is written");
    }
}

impl Region {
    pub(crate) const fn new(stage: Stage) -> Self {
        Self { stage, sums: None, pins: 0, is_wanted: false, used: 0 }
    }
}
