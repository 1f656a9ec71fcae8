//! The records of a write buffer's log, and what they say the disk does not have yet. Pure.

use std::collections::BTreeMap;

use checksum::crc64;
use units::{Extent, Lba, Sectors};

/// The length of a record, and of the head of the file.
pub(super) const RECORD_BYTES: usize = 40;

const WRITE: u32 = 1;
const DONE: u32 = 2;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// The write of this number is buffered: its bytes are in the data file from `at` on.
    Write { number: u64, extent: Extent, at: u64 },
    /// What was written to `extent` before the write of this number is on the disk.
    Done { before: u64, extent: Extent },
}

/// A record is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

impl Record {
    pub(super) fn encode(self) -> [u8; RECORD_BYTES] {
        let (kind, number, extent, at) = match self {
            Self::Write { number, extent, at } => (WRITE, number, extent, at),
            Self::Done { before, extent } => (DONE, before, extent, 0),
        };
        let sectors = u32::try_from(extent.len.0).expect("a write is within the buffer's memory");
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&sectors.to_le_bytes());
        bytes[8..16].copy_from_slice(&extent.start.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&number.to_le_bytes());
        bytes[24..32].copy_from_slice(&at.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8; RECORD_BYTES]) -> Result<Self, Damaged> {
        if !is_sealed(bytes) {
            return Err(Damaged);
        }
        let (kind, sectors) = (half(bytes, 0), u64::from(half(bytes, 4)));
        let (start, number, at) = (word(bytes, 8), word(bytes, 16), word(bytes, 24));
        let is_sound = sectors > 0 && start.checked_add(sectors).is_some();
        let extent = Extent::new(Lba(start), Sectors(sectors));
        match kind {
            WRITE if is_sound => Ok(Self::Write { number, extent, at }),
            DONE if is_sound => Ok(Self::Done { before: number, extent }),
            _ => Err(Damaged),
        }
    }
}

/// Ends a record with its checksum.
pub(super) fn seal(bytes: &mut [u8; RECORD_BYTES]) {
    let sum = crc64(&bytes[..RECORD_BYTES - 8]);
    bytes[RECORD_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
}

fn is_sealed(bytes: &[u8; RECORD_BYTES]) -> bool {
    word(bytes, RECORD_BYTES - 8) == crc64(&bytes[..RECORD_BYTES - 8])
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Sectors that the disk does not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) extent: Extent,
    /// Where their bytes begin in the data file.
    pub(super) at: u64,
}

/// What the disk does not have yet, after some records.
#[derive(Debug, Default)]
pub(super) struct Undone {
    /// By the first sector; they do not overlap.
    runs: BTreeMap<u64, Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    end: u64,
    number: u64,
    at: u64,
}

impl Undone {
    /// Reads records in their order. A last one that is shorter than a record was not written to
    /// its end, and the write was not answered.
    pub(super) fn read(records: &[u8]) -> Result<Self, Damaged> {
        let mut undone = Self::default();
        for bytes in records.as_chunks::<RECORD_BYTES>().0 {
            undone.apply(Record::decode(bytes)?);
        }
        Ok(undone)
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Write { number, extent, at } => {
                self.remove(extent, u64::MAX);
                let run = Run { end: extent.end().0, number, at };
                self.runs.insert(extent.start.0, run);
            }
            Record::Done { before, extent } => self.remove(extent, before),
        }
    }

    /// Removes what was written to `extent` before the write of this number.
    fn remove(&mut self, extent: Extent, before: u64) {
        let (start, end) = (extent.start.0, extent.end().0);
        let first = self.runs.range(..start).next_back().map_or(start, |(first, _)| *first);
        let touched: Vec<_> = self
            .runs
            .range(first..end)
            .filter(|(_, run)| run.end > start && run.number < before)
            .map(|(first, run)| (*first, *run))
            .collect();
        for (first, run) in touched {
            self.runs.remove(&first);
            if first < start {
                self.runs.insert(first, Run { end: start, ..run });
            }
            if run.end > end {
                let at = run.at + Sectors(end - first).bytes().0;
                self.runs.insert(end, Run { at, ..run });
            }
        }
    }

    /// In the order of the sectors.
    pub(super) fn kept(&self) -> impl Iterator<Item = Kept> {
        self.runs.iter().map(|(start, run)| Kept {
            extent: Extent::new(Lba(*start), Sectors(run.end - start)),
            at: run.at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: u64 = 64;
    const SECTORS: usize = 64;

    /// A disk of few sectors, each with the number of the write that it has, and the buffer above
    /// it: what a reader sees.
    struct World {
        records: Vec<u8>,
        disk: [u64; SECTORS],
        seen: [u64; SECTORS],
        next: u64,
    }

    impl World {
        fn new() -> Self {
            let none = [0; SECTORS];
            Self { records: Vec::new(), disk: none, seen: none, next: 1 }
        }

        fn write(&mut self, extent: Extent) {
            let number = self.next;
            self.next += 1;
            let at = number * 1_000_000;
            self.records.extend(Record::Write { number, extent, at }.encode());
            self.seen[sectors(extent)].fill(number);
        }

        /// A write to the disk takes what the buffer has at `cut`, and later ones stay.
        fn destage(&mut self, extent: Extent, cut: u64, taken: &[u64]) {
            self.disk[sectors(extent)].copy_from_slice(taken);
            self.records.extend(Record::Done { before: cut, extent }.encode());
        }

        /// What a reader sees after the records were read back over the disk.
        fn recovered(&self, records: &[u8]) -> [u64; SECTORS] {
            let mut disk = self.disk;
            for Kept { extent, at } in Undone::read(records).expect("sound records").kept() {
                for (sector, index) in sectors(extent).zip(0..) {
                    let bytes = at + Sectors(index).bytes().0;
                    let number = bytes / 1_000_000;
                    assert!(bytes % 1_000_000 < DISK * 512, "within its write");
                    disk[sector] = number;
                }
            }
            disk
        }
    }

    fn sectors(extent: Extent) -> core::ops::Range<usize> {
        let at = |lba: u64| usize::try_from(lba).expect("few");
        at(extent.start.0)..at(extent.end().0)
    }

    /// A generator of small numbers.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % bound
        }

        fn extent(&mut self) -> Extent {
            let start = self.below(DISK - 1);
            let len = 1 + self.below((DISK - start).min(16));
            Extent::new(Lba(start), Sectors(len.min(DISK - start)))
        }
    }

    #[test]
    fn what_was_answered_is_there_after_any_kill() {
        for seed in 0..2_000 {
            let (mut world, mut numbers) = (World::new(), Numbers(seed));
            for _ in 0..40 {
                if numbers.below(3) > 0 {
                    let extent = numbers.extent();
                    world.write(extent);
                } else {
                    let extent = numbers.extent();
                    let (cut, taken) = (world.next, world.seen[sectors(extent)].to_vec());
                    // Writes that come while it is on its way, to the same sectors too.
                    for _ in 0..numbers.below(3) {
                        let extent = numbers.extent();
                        world.write(extent);
                    }
                    world.destage(extent, cut, &taken);
                }
                assert_eq!(world.recovered(&world.records), world.seen, "seed {seed}");
                let some = usize::try_from(numbers.below(40)).expect("few");
                let torn = [&world.records[..], &[7; 39][..some]].concat();
                assert_eq!(world.recovered(&torn), world.seen, "seed {seed}, torn");
            }
        }
    }

    #[test]
    fn damage_is_found() {
        let extent = Extent::new(Lba(5), Sectors(3));
        let sound = Record::Write { number: 1, extent, at: 4096 }.encode();
        for index in 0..RECORD_BYTES {
            let mut bytes = sound;
            bytes[index] ^= 1;
            assert_eq!(Undone::read(&bytes).err(), Some(Damaged), "byte {index}");
        }
        let mut empty = [0; RECORD_BYTES];
        seal(&mut empty);
        assert_eq!(Undone::read(&empty).err(), Some(Damaged), "no kind of record");
    }
}
