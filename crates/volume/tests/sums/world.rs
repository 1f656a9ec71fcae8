//! A disk with a volatile buffer, which loses, corrupts and misdirects what it is told to write,
//! and a client whose pieces go through the checksums of that disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rng::SeededRng;
use spindle_volume::pool::sums::{
    Access, DiskSums, Ledger, PageOwner, Sum, SumsAction, SumsArea, SumsLimits, SumsOutput,
    SumsSerial, SumsStepId, Verdict, whole_sums,
};
use spindle_volume::pool::{Blocks, DiskUid, PoolUid};
use units::{Extent, Lba, Sectors};

/// 4 KiB of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Data, named by a number.
    Data(u64),
    /// A part of something that the checksums wrote.
    Own(Arc<[u8]>, usize),
}

/// What happens to a write of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    None,
    /// It is not done, and answered.
    Lost,
    /// It goes to this 4 KiB instead.
    Misdirected(u64),
    /// Other bytes arrive.
    Corrupted,
}

#[derive(Clone, Debug)]
struct Piece {
    extent: Extent,
    is_read: bool,
    /// Whether it records checksums that are not known.
    records: bool,
    /// What is written to the 4 KiB that it touches; `None` erases.
    data: Option<u64>,
}

pub(crate) struct World {
    pub(crate) sums: DiskSums<u64>,
    pub(crate) rng: SeededRng,
    area: SumsArea,
    owner: PageOwner,
    limit: usize,
    durable: BTreeMap<u64, Cell>,
    buffer: Vec<(u64, Cell)>,
    waiting: BTreeMap<u64, (SumsSerial, Piece)>,
    flying: Vec<(SumsSerial, Piece)>,
    steps: Vec<(SumsStepId, SumsAction)>,
    numbers: u64,
    /// What a read of each 4 KiB is to return.
    pub(crate) expected: BTreeMap<u64, u64>,
    /// The 4 KiB whose last write was whole.
    pub(crate) whole: BTreeSet<u64>,
    pub(crate) mishap: Mishap,
    /// What is read to be recorded is another content than that which was compared.
    pub(crate) is_other: bool,
    /// Reads that returned something else than was written, and those that were refused.
    pub(crate) wrong: u64,
    pub(crate) refused: u64,
    pub(crate) reads: u64,
    /// The 4 KiB that were told to be wrong before the disk was opened last.
    told: u64,
}

fn sum(data: u64) -> Sum {
    let mixed = data.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
    Sum::of(u32::from_be_bytes(mixed[..4].try_into().expect("four bytes")))
}

fn touched(extent: Extent) -> std::ops::Range<u64> {
    extent.start.0 / 8..extent.end().0.div_ceil(8)
}

impl World {
    pub(crate) fn new(seed: u64, blocks: u32, limit: usize) -> Self {
        let area = SumsArea::of(Blocks(blocks));
        let owner = PageOwner { pool: PoolUid([1; 16]), disk: DiskUid([2; 16]), area: [3; 16] };
        let ledger = Ledger::new(owner, area);
        let mut durable = BTreeMap::new();
        for (slot, bytes) in (0..).zip(ledger.first()) {
            put(&mut durable, area.ledger(slot), &bytes.into());
        }
        let sums = DiskSums::with_limits(area, ledger, limits(limit));
        let (numbers, wrong, refused, reads) = (0, 0, 0, 0);
        Self {
            sums,
            rng: SeededRng::new(seed, 0),
            area,
            owner,
            limit,
            durable,
            buffer: Vec::new(),
            waiting: BTreeMap::new(),
            flying: Vec::new(),
            steps: Vec::new(),
            numbers,
            expected: BTreeMap::new(),
            whole: BTreeSet::new(),
            mishap: Mishap::None,
            is_other: false,
            wrong,
            refused,
            reads,
            told: 0,
        }
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    fn cell(&self, place: u64) -> Option<&Cell> {
        let buffered = self.buffer.iter().rev().find(|(at, _)| *at == place).map(|(_, cell)| cell);
        buffered.or_else(|| self.durable.get(&place))
    }

    /// What the disk has there; nothing reads as zero.
    pub(crate) fn data(&self, place: u64) -> u64 {
        match self.cell(place) {
            Some(Cell::Data(data)) => *data,
            _ => 0,
        }
    }

    /// Other bytes are in that place of the disk from here on.
    pub(crate) fn corrupt(&mut self, place: u64) {
        self.numbers += 1;
        let cell = Cell::Data(self.numbers << 32 | 0xBAD);
        self.buffer.retain(|(at, _)| *at != place);
        self.durable.insert(place, cell);
    }

    /// A byte of the page of a region is damaged.
    pub(crate) fn damage_page(&mut self, region: u32) {
        let place = self.area.page(region).start.0 / 8 + 1;
        let Some(Cell::Own(bytes, at)) = self.durable.get(&place).cloned() else { return };
        let mut bytes = bytes.to_vec();
        bytes[at * 4_096 + 7] ^= 1;
        self.durable.insert(place, Cell::Own(bytes.into(), at));
    }

    pub(crate) fn read(&mut self, extent: Extent) {
        self.submit(Piece { extent, is_read: true, records: false, data: None }, Access::Read);
    }

    /// Reads, and takes what is there for right where nothing is known of it.
    pub(crate) fn record(&mut self, extent: Extent) {
        self.submit(Piece { extent, is_read: true, records: true, data: None }, Access::Record);
    }

    pub(crate) fn write(&mut self, extent: Extent) {
        self.numbers += 1;
        let data = self.numbers << 32;
        let sums = whole_sums(extent).map(|place| sum(data + place)).collect();
        self.submit(
            Piece { extent, is_read: false, records: false, data: Some(data) },
            Access::Write(sums),
        );
    }

    pub(crate) fn erase(&mut self, extent: Extent) {
        self.submit(Piece { extent, is_read: false, records: false, data: None }, Access::Erase);
    }

    fn submit(&mut self, piece: Piece, access: Access) {
        self.numbers += 1;
        let id = self.numbers;
        let submitted = self.sums.submit(id, piece.extent, access);
        if submitted.goes {
            self.flying.push((submitted.serial, piece));
        } else {
            self.waiting.insert(id, (submitted.serial, piece));
        }
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(output) = self.sums.poll() {
            match output {
                SumsOutput::Go(id) => {
                    self.flying.push(self.waiting.remove(&id).expect("a piece goes once"));
                }
                SumsOutput::Refuse(_) => panic!("this disk writes its ledger"),
                SumsOutput::Step(id, action) => self.steps.push((id, action)),
            }
        }
    }

    /// Something that is in flight ends; returns whether anything was.
    pub(crate) fn complete_one(&mut self) -> bool {
        let count = (self.flying.len() + self.steps.len()) as u64;
        if count == 0 {
            return false;
        }
        let which = usize::try_from(self.below(count)).expect("small");
        if which < self.flying.len() {
            let (id, piece) = self.flying.swap_remove(which);
            self.complete(id, &piece);
        } else {
            let (id, action) = self.steps.swap_remove(which - self.flying.len());
            let bytes = self.perform(&action);
            self.sums.step_done(id, Ok(&bytes));
        }
        self.poll();
        true
    }

    fn complete(&mut self, id: SumsSerial, piece: &Piece) {
        if piece.is_read {
            return self.complete_read(id, piece);
        }
        // Erasing what was never written changes nothing.
        let is_affected = |place: &u64| piece.data.is_some() || self.expected.contains_key(place);
        let places: Vec<u64> = touched(piece.extent).filter(is_affected).collect();
        for place in places {
            let is_whole = whole_sums(piece.extent).contains(&place);
            let data = piece.data.map_or(0, |data| data + place);
            self.expected.insert(place, data);
            if is_whole && piece.data.is_some() {
                self.whole.insert(place);
            } else {
                self.whole.remove(&place);
            }
            match self.mishap {
                Mishap::None => self.buffer.push((place, Cell::Data(data))),
                Mishap::Lost => {}
                Mishap::Misdirected(to) => self.buffer.push((to, Cell::Data(data))),
                Mishap::Corrupted => self.buffer.push((place, Cell::Data(data ^ 0x100))),
            }
        }
        assert_eq!(self.sums.done(id, Ok(&[])), Verdict::Right);
    }

    /// What is read is what was written, or it is refused where that is known.
    fn complete_read(&mut self, id: SumsSerial, piece: &Piece) {
        let places = whole_sums(piece.extent);
        let found: Vec<u64> = places.clone().map(|place| self.data(place)).collect();
        let differs = |(place, data): (u64, &u64)| {
            self.whole.contains(&place) && self.expected[&place] != *data
        };
        let is_wrong = places.clone().zip(&found).any(differs);
        let sums: Vec<Sum> = found.iter().copied().map(sum).collect();
        self.reads += 1;
        let records = piece.records && !self.is_other;
        if piece.records && !records {
            self.sums.record_nothing(id);
        }
        match (self.sums.done(id, Ok(&sums)), is_wrong) {
            (Verdict::Wrong, _) => return self.refused += 1,
            (_, true) => self.wrong += 1,
            (_, false) => {}
        }
        if records {
            self.whole.extend(places.clone());
            self.expected.extend(places.zip(found));
        }
    }

    fn perform(&mut self, action: &SumsAction) -> Vec<u8> {
        match action {
            SumsAction::Read(extent) => {
                let part = |place| match self.cell(place) {
                    Some(Cell::Own(bytes, at)) => bytes[at * 4_096..][..4_096].to_vec(),
                    _ => vec![0; 4_096],
                };
                return touched(*extent).flat_map(part).collect();
            }
            SumsAction::Write(extent, bytes) => {
                let cells = (0..).map(|at| Cell::Own(bytes.clone(), at));
                self.buffer.extend(touched(*extent).zip(cells));
            }
            SumsAction::WriteDurably(extent, bytes) => {
                self.buffer.retain(|(at, _)| !touched(*extent).contains(at));
                put(&mut self.durable, *extent, bytes);
            }
            SumsAction::Flush | SumsAction::FlushData => self.flush(),
        }
        Vec::new()
    }

    fn flush(&mut self) {
        self.durable.extend(self.buffer.drain(..));
    }

    /// The pieces that wait for the checksums.
    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn settle(&mut self) {
        while self.complete_one() {}
        assert!(self.sums.is_idle(), "nothing is in flight");
    }

    /// Closes every region, as at a clean end.
    pub(crate) fn close(&mut self) {
        self.settle();
        self.sums.close();
        self.poll();
        self.settle();
        assert_eq!(self.sums.status().open, 0);
    }

    /// The power fails: of what is in the buffer and in flight any part arrives, 4 KiB by 4 KiB.
    /// What the disk has then is what is expected: a client knows no more.
    pub(crate) fn crash(&mut self) {
        for (_, piece) in core::mem::take(&mut self.flying) {
            if let Some(data) = piece.data.filter(|_| !piece.is_read) {
                let cells = touched(piece.extent).map(|at| (at, Cell::Data(data + at)));
                self.buffer.extend(cells.collect::<Vec<_>>());
            }
        }
        for (_, action) in core::mem::take(&mut self.steps) {
            // One that is to be durable need not be yet.
            if let SumsAction::Write(extent, bytes) | SumsAction::WriteDurably(extent, bytes) =
                action
            {
                self.perform(&SumsAction::Write(extent, bytes));
            }
        }
        for (place, cell) in core::mem::take(&mut self.buffer) {
            if self.below(2) == 0 {
                self.durable.insert(place, cell);
            }
        }
        self.waiting.clear();
        let now: Vec<(u64, u64)> =
            self.expected.keys().map(|place| (*place, self.data(*place))).collect();
        self.expected = now.into_iter().collect();
        self.open();
    }

    /// The 4 KiB that were told to be wrong.
    pub(crate) fn told(&self) -> u64 {
        self.told + self.sums.status().wrong
    }

    /// The disk is opened again.
    pub(crate) fn open(&mut self) {
        self.told = self.told();
        let slots = [0, 1].map(|slot| {
            let bytes = self.perform(&SumsAction::Read(self.area.ledger(slot)));
            Ledger::decode(&bytes, slot, (self.owner.pool, self.owner.disk), self.area).ok()
        });
        let ledger = Ledger::newest(slots).expect("a slot is whole");
        self.sums = DiskSums::with_limits(self.area, ledger, limits(self.limit));
        self.poll();
    }
}

/// Two pieces in order are a run.
const fn limits(resident_max: usize) -> SumsLimits {
    SumsLimits { resident_max, run_min: 8 }
}

fn put(cells: &mut BTreeMap<u64, Cell>, extent: Extent, bytes: &Arc<[u8]>) {
    cells.extend(touched(extent).zip((0..).map(|at| Cell::Own(bytes.clone(), at))));
}

/// `count` times 4 KiB, from this one on.
pub(crate) fn whole(first: u64, count: u64) -> Extent {
    Extent::new(Lba(first * 8), Sectors(count * 8))
}
