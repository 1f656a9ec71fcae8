//! The write buffer: what was written and is not yet programmed.
//!
//! ```text
//! reserved ─▶ on the link ─▶ open unit ─▶ closed unit, queued or programmed ─▶ retired
//! ├────────────────────── counted against the buffer's size ─────────────────┤
//! ```

use std::collections::VecDeque;

use units::{Extent, Sectors};

use super::spec::Amplification;

/// The granularity of look-ups: 4 KiB, as in file systems and most commands.
const BLOCK: u64 = 8;
/// Places for a block, for each that the buffer holds: two blocks of one place make the drive
/// forget that the first is in memory, which costs time and nothing else.
const PLACES_PER_BLOCK: u64 = 2;

/// A unit of data that is programmed at once, counted from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UnitId(pub(super) u64);

#[derive(Clone, Copy, Debug)]
struct Unit {
    fill: Sectors,
    programmed: bool,
}

/// A unit that is to be programmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Closed {
    pub(super) unit: UnitId,
    /// Programs that garbage collection is owed for it.
    pub(super) collect: u32,
}

#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    size: Sectors,
    /// Sectors in it, and on the way to it.
    used: Sectors,
    /// The sectors in a unit.
    unit: Sectors,
    open: Sectors,
    /// From the oldest that is not programmed on.
    closed: VecDeque<Unit>,
    /// The oldest of them.
    oldest: UnitId,
    /// Sectors that garbage collection is owed, in thousandths.
    owed: u64,
    /// Of each place, the block that was last written there and its unit.
    blocks: Vec<(u64, UnitId)>,
}

impl WriteBuffer {
    pub(super) fn new(size: Sectors, unit: Sectors) -> Self {
        let places = (size.0 / BLOCK * PLACES_PER_BLOCK).next_power_of_two();
        let places = usize::try_from(places).expect("a checked buffer is small");
        // Padded units hold as little as a block.
        let units = usize::try_from(size.0 / unit.0 + 1).expect("a checked buffer is small");
        Self {
            size,
            used: Sectors::ZERO,
            unit,
            open: Sectors::ZERO,
            closed: VecDeque::with_capacity(units),
            oldest: UnitId(0),
            owed: 0,
            blocks: vec![(u64::MAX, UnitId(0)); places],
        }
    }

    /// Sectors that are in it or on the way to it.
    pub(super) const fn used(&self) -> Sectors {
        self.used
    }

    /// Reserves space for a piece, if there is enough.
    pub(super) fn reserve(&mut self, len: Sectors) -> bool {
        let fits = self.used + len <= self.size;
        if fits {
            self.used += len;
        }
        fits
    }

    /// The unit that is open, or will be the next.
    fn next(&self) -> UnitId {
        UnitId(self.oldest.0 + self.closed.len() as u64)
    }

    /// Takes in a piece for which there was room, and says what unit it completed. `extent` is what
    /// may be read of it, and empty for a record of the mapping. No piece is longer than a unit.
    pub(super) fn put(
        &mut self,
        extent: Extent,
        len: Sectors,
        amplification: Amplification,
    ) -> Option<Closed> {
        let more = u64::from(amplification.0 - Amplification::NONE.0);
        self.owed += len.0 * more;
        let rest = (self.open + len).0.checked_sub(self.unit.0);
        let closed = rest.map(|rest| {
            self.open = self.unit;
            let closed = self.close().expect("it is full");
            self.open = Sectors(rest);
            closed
        });
        if rest.is_none() {
            self.open += len;
        }
        // A block on two units counts as in memory until the later is programmed, or the earlier if
        // that is all.
        let in_unit = match closed {
            Some(closed) if self.open == Sectors::ZERO => closed.unit,
            _ => self.next(),
        };
        for block in blocks(extent) {
            let place = self.block_place(block);
            self.blocks[place] = (block, in_unit);
        }
        closed
    }

    /// Closes the open unit, full or not; none if there is nothing in it.
    pub(super) fn close(&mut self) -> Option<Closed> {
        if self.open == Sectors::ZERO {
            return None;
        }
        let unit = self.next();
        self.closed.push_back(Unit { fill: self.open, programmed: false });
        self.open = Sectors::ZERO;
        let whole = self.unit.0 * u64::from(Amplification::NONE.0);
        let collect = u32::try_from(self.owed / whole).expect("a few for each unit");
        self.owed %= whole;
        Some(Closed { unit, collect })
    }

    /// The first unit that is not closed: once [`WriteBuffer::is_durable`] up to it, all that was
    /// closed is.
    pub(super) fn closed_end(&self) -> UnitId {
        self.next()
    }

    /// Whether all units before `end` are programmed.
    pub(super) fn is_durable(&self, end: UnitId) -> bool {
        self.oldest >= end
    }

    /// A unit is programmed: its room is free.
    pub(super) fn retire(&mut self, unit: UnitId) {
        let place = usize::try_from(unit.0 - self.oldest.0).expect("it is one of the closed");
        let closed = &mut self.closed[place];
        assert!(!closed.programmed, "a unit is programmed once");
        closed.programmed = true;
        self.used = Sectors(self.used.0 - closed.fill.0);
        while self.closed.front().is_some_and(|unit| unit.programmed) {
            self.closed.pop_front();
            self.oldest.0 += 1;
        }
    }

    /// Whether all of `extent` is in memory.
    pub(super) fn holds(&self, extent: Extent) -> bool {
        self.used > Sectors::ZERO
            && blocks(extent).all(|block| {
                let (held, unit) = self.blocks[self.block_place(block)];
                held == block && self.is_in_memory(unit)
            })
    }

    fn is_in_memory(&self, unit: UnitId) -> bool {
        let Some(place) = unit.0.checked_sub(self.oldest.0) else { return false };
        let closed = usize::try_from(place).ok().and_then(|place| self.closed.get(place));
        closed.map_or(unit == self.next() && self.open > Sectors::ZERO, |unit| !unit.programmed)
    }

    fn block_place(&self, block: u64) -> usize {
        usize::try_from(block % self.blocks.len() as u64).expect("one of the places")
    }

    pub(super) fn invariants(&self) {
        assert!(self.used <= self.size, "the buffer never holds more than its size");
        assert!(self.open < self.unit, "a full unit is closed");
        let closed: u64 = self.closed.iter().filter(|u| !u.programmed).map(|u| u.fill.0).sum();
        assert!(closed + self.open.0 <= self.used.0, "what is in it has room");
    }
}

fn blocks(extent: Extent) -> core::ops::Range<u64> {
    extent.start.0 / BLOCK..extent.end().0.div_ceil(BLOCK)
}
