//! Pieces at one disk: each waits for its turn and for the checksums of its regions, and leaves its
//! own when it is done.

use units::Extent;

use crate::pool::sums::area::{SUMS_OF_REGION, place_of, whole_sums};
use crate::pool::sums::machine::{DiskSums, Region, Stage, StepOf};
use crate::pool::sums::order::SumsPiece;
use crate::pool::sums::values::{Access, Sum, SumsAction, SumsOutput, Verdict};

impl<P: Copy + Ord> DiskSums<P> {
    /// Takes a piece: it may be issued at [`SumsOutput::Go`].
    ///
    /// # Panics
    /// If it lies beyond the data of the disk, was submitted before, or brings another number of
    /// checksums than it has whole 4 KiB.
    pub fn submit(&mut self, id: P, extent: Extent, access: Access) {
        assert!(!extent.is_empty(), "a piece has sectors");
        assert!(extent.end() <= self.area.extent().start, "a piece lies in front of the area");
        if let Access::Write(sums) = &access {
            assert_eq!(whole_sums(extent).count(), sums.len(), "one checksum for each 4 KiB");
        }
        self.uses += 1;
        for region in self.regions_of(extent) {
            if let Some(region) = self.regions.get_mut(&region) {
                region.pins += 1;
                region.used = self.uses;
            }
        }
        let serial = self.order.insert(id, SumsPiece { extent, access, is_issued: false });
        self.advance_piece(serial);
        self.dirty |= self.order.pieces.get(&serial).is_some_and(|(_, piece)| !piece.is_issued);
    }

    /// A piece that was issued has ended: a read with the checksums of the whole 4 KiB of its
    /// extent, in their order.
    ///
    /// # Panics
    /// If it was not issued, or brings another number of checksums than it has whole 4 KiB.
    pub fn done(&mut self, id: P, end: Result<&[Sum], ()>) -> Verdict {
        let piece = self.order.remove(id);
        assert!(piece.is_issued, "a piece ends after it was issued");
        let verdict = match (&piece.access, end) {
            (Access::Read, Ok(sums)) => self.compare(piece.extent, sums),
            (Access::Read, Err(())) => Verdict::Right,
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
        self.dirty = true;
        verdict
    }

    fn regions_of(&self, extent: Extent) -> core::ops::Range<u32> {
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
        assert_eq!(whole_sums(extent).count(), sums.len(), "one checksum for each 4 KiB");
        let mut verdict = Verdict::Right;
        for (place, found) in whole_sums(extent).zip(sums) {
            let expected = self.sum(place);
            if expected == Sum::UNKNOWN {
                self.status.unverified += 1;
                continue;
            }
            self.status.verified += 1;
            if expected != *found {
                self.status.wrong += 1;
                verdict = Verdict::Wrong;
            }
        }
        verdict
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
            self.advance_piece(serial);
        }
    }

    /// Issues a piece, or begins what it waits for.
    fn advance_piece(&mut self, serial: u64) {
        if !self.order.is_first(serial) {
            return;
        }
        let (id, piece) = &self.order.pieces[&serial];
        let (id, extent, writes) = (*id, piece.extent, piece.writes());
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
        if is_ready {
            self.order.pieces.get_mut(&serial).expect("it waits").1.is_issued = true;
            self.outputs.push_back(SumsOutput::Go(id));
        } else if is_refused {
            self.order.remove(id);
            self.unpin(extent);
            self.outputs.push_back(SumsOutput::Refuse(id));
            self.dirty = true;
        }
    }

    /// The stage of a region, which is read if it is to be.
    fn stage_for(&mut self, number: u32, extent: Extent, needs_page: bool) -> Stage {
        debug_assert!(self.area.touched(extent).contains(&number), "a region of the piece");
        if let Some(region) = self.regions.get(&number) {
            return region.stage;
        }
        let stage = if needs_page { Stage::Loading } else { Stage::Clean };
        let area = self.area;
        let pieces = self.order.pieces.values();
        let pins = pieces.filter(|(_, piece)| area.touched(piece.extent).contains(&number));
        let region = Region { pins: pins.count(), used: self.uses, ..Region::new(stage) };
        assert!(region.pins > 0, "a piece needs it");
        let before = self.regions.insert(number, region);
        assert!(before.is_none(), "it was not there");
        if needs_page {
            self.step(StepOf::Load(number), SumsAction::Read(self.area.page(number)));
        }
        stage
    }
}
