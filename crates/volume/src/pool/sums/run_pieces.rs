//! Pieces at one disk: each waits for its turn and for the checksums of its regions, and leaves its
//! own when it is done.

use core::ops::Range;

use units::Extent;

use crate::pool::sums::area::{PAGE_BYTES, SUMS_OF_REGION, place_of, whole_sums};
use crate::pool::sums::machine::{DiskSums, Region, Stage, StepOf};
use crate::pool::sums::order::SumsPiece;
use crate::pool::sums::values::{
    Access, Submitted, Sum, SumsAction, SumsOutput, SumsSerial, Verdict,
};

/// What becomes of a piece now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceStep {
    Waits,
    Goes,
    Refused,
}

/// The whole 4 KiB of an extent.
fn count_of(extent: Extent) -> usize {
    let whole = whole_sums(extent);
    debug_assert!(whole.start <= whole.end, "a range");
    usize::try_from(whole.end - whole.start).expect("a piece is in memory")
}

impl<P: Copy + Ord> DiskSums<P> {
    /// Takes a piece.
    ///
    /// # Panics
    /// If it lies beyond the data of the disk, or brings another number of checksums than it has
    /// whole 4 KiB.
    pub fn submit(&mut self, id: P, extent: Extent, access: Access) -> Submitted {
        assert!(!extent.is_empty(), "a piece has sectors");
        assert!(extent.end() <= self.area.extent().start, "a piece lies in front of the area");
        if let Access::Write(sums) = &access {
            assert_eq!(count_of(extent), sums.len(), "one checksum for each 4 KiB");
        }
        self.uses += 1;
        for region in self.regions_of(extent) {
            if let Some(region) = self.regions.get_mut(&region) {
                region.pins += 1;
                region.used = self.uses;
            }
        }
        let (moves_data, writes) = (access != Access::Erase, access != Access::Read);
        let serial = self.order.insert(id, (extent, access));
        let step = self.advance_piece(serial);
        if moves_data {
            let ahead = self.runs.note((extent, writes), self.uses, self.area);
            self.prepare(ahead, writes);
        }
        self.dirty |= step == PieceStep::Waits;
        if step == PieceStep::Refused {
            self.outputs.push_back(SumsOutput::Refuse(id));
        }
        Submitted { serial, goes: step == PieceStep::Goes }
    }

    /// A piece that was issued has ended: a read with the checksums of the whole 4 KiB of its
    /// extent, in their order.
    ///
    /// # Panics
    /// If it was not issued, or brings another number of checksums than it has whole 4 KiB.
    pub fn done(&mut self, serial: SumsSerial, end: Result<&[Sum], ()>) -> Verdict {
        let piece = self.order.remove(serial);
        assert!(piece.is_issued, "a piece ends after it was issued");
        let verdict = match (&piece.access, end) {
            (Access::Read, Ok(sums)) => self.compare(piece.extent, sums),
            (Access::Record, Ok(sums)) => self.record(piece.extent, sums),
            (Access::Read | Access::Record, Err(())) => Verdict::Unknown,
            (Access::Write(sums), Ok(_)) => {
                self.forget_sums(&piece);
                let whole = whole_sums(piece.extent);
                whole.zip(sums).for_each(|(place, sum)| self.set(place, *sum));
                Verdict::Right
            }
            // What a failed write has left is not known.
            (Access::Write(_), Err(())) | (Access::Erase, _) => {
                self.forget_sums(&piece);
                Verdict::Right
            }
        };
        self.unpin(piece.extent);
        // Whatever else could be done now has begun before.
        let has_too_many = self.has_too_many_open() || self.regions.len() > self.resident_max;
        self.dirty |= self.order.has_waiting() || has_too_many || self.is_closing;
        verdict
    }

    fn regions_of(&self, extent: Extent) -> Range<u32> {
        let touched = self.area.touched(extent);
        debug_assert!(!touched.is_empty(), "a piece touches a region");
        touched
    }

    fn unpin(&mut self, extent: Extent) {
        for region in self.regions_of(extent) {
            let region = self.regions.get_mut(&region).expect("a pinned region stays");
            assert!(region.pins > 0, "a piece had pinned it");
            region.pins -= 1;
        }
    }

    fn compare(&mut self, extent: Extent, sums: &[Sum]) -> Verdict {
        assert_eq!(count_of(extent), sums.len(), "one checksum for each 4 KiB");
        let (mut unknown, mut right, mut wrong) = (0, 0, 0);
        for (place, found) in whole_sums(extent).zip(sums) {
            match self.sum(place) {
                Sum::UNKNOWN => unknown += 1,
                expected if expected == *found => right += 1,
                _ => wrong += 1,
            }
        }
        self.status.unverified += unknown;
        self.status.verified += right + wrong;
        self.status.wrong += wrong;
        match (unknown, right, wrong) {
            (_, _, 1..) => Verdict::Wrong,
            (_, 0, 0) => Verdict::Unknown,
            (0, _, 0) => Verdict::Right,
            _ => Verdict::Incomplete,
        }
    }

    /// Compares what was read, and takes the checksums of the rest for known if nothing differs.
    fn record(&mut self, extent: Extent, sums: &[Sum]) -> Verdict {
        let verdict = self.compare(extent, sums);
        if verdict == Verdict::Wrong {
            return verdict;
        }
        for (place, found) in whole_sums(extent).zip(sums) {
            let known = self.sum(place);
            debug_assert!(known == Sum::UNKNOWN || known == *found, "nothing differs");
            self.set(place, *found);
        }
        verdict
    }

    /// A piece that was to record records nothing, because what it has read is not what was meant.
    /// It ends next.
    ///
    /// # Panics
    /// If it does not record, or was not issued.
    pub fn record_nothing(&mut self, serial: SumsSerial) {
        self.order.record_nothing(serial);
    }

    fn sum(&self, place: u64) -> Sum {
        let (region, at) = place_of(place);
        debug_assert!(self.regions.contains_key(&region), "a pinned region stays");
        let sums = self.regions[&region].sums.as_ref();
        sums.map_or(Sum::UNKNOWN, |sums| sums[at])
    }

    fn set(&mut self, place: u64, sum: Sum) {
        let (number, at) = place_of(place);
        let region = self.regions.get_mut(&number).expect("a pinned region stays");
        debug_assert!(region.stage == Stage::Open, "it is open while it is written");
        match &mut region.sums {
            Some(sums) => sums[at] = sum,
            None if sum == Sum::UNKNOWN => {}
            none @ None => {
                let mut sums = vec![Sum::UNKNOWN; SUMS_OF_REGION].into_boxed_slice();
                sums[at] = sum;
                *none = Some(sums);
            }
        }
    }

    /// The checksums of what a piece touches become unknown.
    fn forget_sums(&mut self, piece: &SumsPiece) {
        assert!(piece.writes(), "a read changes nothing");
        for number in self.regions_of(piece.extent) {
            if self.area.covers(piece.extent, number) {
                self.regions.get_mut(&number).expect("a pinned region stays").sums = None;
            }
        }
        let mut place = piece.sums().start;
        while place < piece.sums().end {
            let (number, at) = place_of(place);
            let rest = (SUMS_OF_REGION - at) as u64;
            if self.regions[&number].sums.is_none() {
                place += rest;
                continue;
            }
            self.set(place, Sum::UNKNOWN);
            place += 1;
        }
    }

    /// Issues the pieces that can be.
    pub(crate) fn advance_pieces(&mut self) {
        for serial in self.order.waiting() {
            let id = self.order.pieces[&serial].0;
            match self.advance_piece(serial) {
                PieceStep::Waits => {}
                PieceStep::Goes => self.outputs.push_back(SumsOutput::Go(id)),
                PieceStep::Refused => self.outputs.push_back(SumsOutput::Refuse(id)),
            }
        }
    }

    /// Issues a piece, or begins what it waits for.
    fn advance_piece(&mut self, serial: SumsSerial) -> PieceStep {
        if !self.order.is_first(serial) {
            return PieceStep::Waits;
        }
        let (_, piece) = &self.order.pieces[&serial];
        let (extent, writes) = (piece.extent, piece.writes());
        let erases = piece.access == Access::Erase;
        assert!(!piece.is_issued, "it waits");
        assert!(writes || !erases, "what erases writes");
        let (mut is_ready, mut is_refused) = (true, false);
        for number in self.regions_of(extent) {
            let needs_page = !(erases && self.area.covers(extent, number));
            let stage = self.stage_for(number, extent, needs_page);
            let is_able = match stage {
                Stage::Open => true,
                Stage::Clean | Stage::Closing => !writes,
                Stage::Loading => false,
            };
            if stage == Stage::Clean && writes {
                let is_broken = self.status.is_broken;
                is_refused |= is_broken;
                self.regions.get_mut(&number).expect("it is there").is_wanted |= !is_broken;
            }
            is_ready &= is_able;
        }
        assert!(!is_ready || !is_refused, "one of the two");
        if is_ready {
            self.order.issue(serial);
            return PieceStep::Goes;
        }
        if is_refused {
            self.order.remove(serial);
            self.unpin(extent);
            self.dirty = true;
            return PieceStep::Refused;
        }
        PieceStep::Waits
    }

    /// Reads the pages of regions that no piece needs yet, those that follow each other with one
    /// command, and has them opened if they will be written.
    fn prepare(&mut self, numbers: Range<u32>, will_be_written: bool) {
        if self.is_closing || self.status.is_broken {
            return;
        }
        assert!(numbers.end <= self.area.regions(), "regions of the disk");
        let mut absent: Vec<Range<u32>> = Vec::new();
        for number in numbers {
            if !self.regions.contains_key(&number) {
                self.insert_region(number, Stage::Loading);
                match absent.last_mut() {
                    Some(run) if run.end == number => run.end += 1,
                    _ => absent.push(number..number + 1),
                }
            }
            let uses = self.uses;
            let region = self.regions.get_mut(&number).expect("it is there");
            assert!(region.used <= uses, "it was used before");
            region.used = uses;
            let is_closed = matches!(region.stage, Stage::Clean | Stage::Loading);
            region.is_wanted |= will_be_written && is_closed;
            self.dirty = true;
        }
        for run in absent {
            self.load(run);
        }
    }

    /// Reads the pages of regions.
    fn load(&mut self, numbers: Range<u32>) {
        assert!(numbers.start < numbers.end, "some regions");
        let (first, count) = (numbers.start, numbers.end - numbers.start);
        let from = self.area.page(first).start;
        let len = from.distance(self.area.page(numbers.end - 1).end());
        assert_eq!(len.bytes_usize(), count as usize * PAGE_BYTES, "pages follow each other");
        self.step(StepOf::Load { first, count }, SumsAction::Read(Extent::new(from, len)));
    }

    /// The stage of a region, which is read if it is to be.
    fn stage_for(&mut self, number: u32, extent: Extent, needs_page: bool) -> Stage {
        debug_assert!(self.area.touched(extent).contains(&number), "a region of the piece");
        if let Some(region) = self.regions.get(&number) {
            return region.stage;
        }
        let stage = if needs_page { Stage::Loading } else { Stage::Clean };
        self.insert_region(number, stage);
        if stage == Stage::Loading {
            self.load(number..number + 1);
        }
        assert!(self.regions[&number].pins > 0, "a piece needs it");
        stage
    }

    /// Keeps a region from here on.
    fn insert_region(&mut self, number: u32, stage: Stage) {
        let area = self.area;
        let pieces = self.order.pieces.values();
        let pins = pieces.filter(|(_, piece)| area.touched(piece.extent).contains(&number));
        let region = Region { pins: pins.count(), used: self.uses, ..Region::new(stage) };
        let before = self.regions.insert(number, region);
        assert!(before.is_none(), "it was not there");
    }
}
