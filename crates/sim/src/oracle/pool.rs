//! The data of a pool: what a volume's sectors hold, wherever its blocks are.
//!
//! The disks' own oracles say which of their writes each sector holds. This one knows what these
//! writes were: a client's, a copy of a block, or metadata. So a block that is moved, or shared
//! with a snapshot, is followed from disk to disk, and a read of a volume is checked against what
//! its clients wrote:
//!
//! - It returns, for each sector, the last write that was answered before it was sent, or one that
//!   overlaps it in time; of writes that overlap one another, any.
//! - Of a snapshot it returns what the volume held when the snapshot was taken.
//! - It never returns metadata, another volume's data, or another sector's.
//!
//! Data that a trace trims or zeroes is not checked from then on. Flushes of a pool's volumes are
//! not checked.

use std::collections::BTreeMap;

use units::{Extent, Instant, Lba, Op, Operation, Sectors};
use volume::pool::PoolVolumeId;
use volume::pool::flow::{CopyId, PoolRequestId};
use volume::pool::limits::BLOCK_SECTORS;

use super::{NEVER_WRITTEN, Version, watched};

/// What a sector of a disk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing was written there, or it was erased since.
    Zeroes,
    Metadata,
    /// A sector of a volume of this group, by this write of a client.
    Data {
        group: PoolVolumeId,
        sector: Lba,
        write: Version,
    },
}

/// What a write to a disk writes.
#[derive(Debug)]
pub(crate) enum Written {
    /// A part of a client's write: the disk's sectors from `at` on are the volume's from `sector`
    /// on.
    Client {
        request: PoolRequestId,
        at: Lba,
        sector: Lba,
    },
    /// The data of a copy, from this sector on.
    Copy {
        copy: CopyId,
        at: Lba,
    },
    Zeroes,
    Metadata,
}

#[derive(Debug)]
enum Source {
    Client { group: PoolVolumeId, at: Lba, sector: Lba, write: Version },
    Copy { at: Lba, contents: Vec<(Sectors, Content)> },
    Zeroes,
    Metadata,
}

/// What a watched sector of a volume may hold.
#[derive(Clone, Copy, Debug, Default)]
struct Expected {
    /// The first and the last of the writes that it may hold.
    from: Version,
    to: Option<Version>,
    /// A write failed, or the data was trimmed: it may hold anything of the volume's.
    is_undefined: bool,
}

/// A watched sector of a volume.
#[derive(Debug, Default)]
struct Sector {
    expected: Expected,
    /// Writes that are not answered, and the first of all that overlapped with them.
    open: Vec<Version>,
    overlapping_from: Version,
}

#[derive(Debug)]
struct Request {
    volume: PoolVolumeId,
    group: PoolVolumeId,
    operation: Operation,
    write: Version,
    known: Vec<(Lba, Expected)>,
    seen: BTreeMap<Lba, Content>,
}

/// Checks the data of a pool.
#[derive(Debug, Default)]
pub(crate) struct PoolOracle {
    writes: Version,
    sectors: BTreeMap<(PoolVolumeId, Lba), Sector>,
    /// The last write before each snapshot.
    snapshots: BTreeMap<PoolVolumeId, Version>,
    requests: BTreeMap<PoolRequestId, Request>,
    copies: BTreeMap<CopyId, Vec<(Sectors, Content)>>,
    /// By disk and version.
    sources: BTreeMap<(usize, Version), Source>,
    /// By disk and block: the last write before its last erasure.
    erased: BTreeMap<(usize, u64), Version>,
    pub(crate) checked: u64,
}

impl PoolOracle {
    /// A client sends a request to a volume.
    pub(crate) fn sent(
        &mut self,
        id: PoolRequestId,
        (volume, group): (PoolVolumeId, PoolVolumeId),
        operation: Operation,
    ) {
        let (mut write, mut known) = (NEVER_WRITTEN, Vec::new());
        let extent = operation.extent;
        match operation.op {
            Op::Write => {
                self.writes += 1;
                write = self.writes;
                for lba in watched(extent) {
                    let sector = self.sectors.entry((volume, lba)).or_default();
                    if sector.open.is_empty() {
                        sector.overlapping_from = write;
                    }
                    sector.open.push(write);
                }
            }
            Op::Read => {
                let there = self.sectors.range((volume, extent.start)..(volume, extent.end()));
                known.extend(there.map(|((_, lba), sector)| (*lba, sector.expected)));
            }
            Op::Trim | Op::WriteZeroes => {
                let there = self.sectors.range_mut((volume, extent.start)..(volume, extent.end()));
                there.for_each(|(_, sector)| sector.expected.is_undefined = true);
            }
            Op::Flush | Op::Seek => {}
        }
        let seen = BTreeMap::new();
        let request = Request { volume, group, operation, write, known, seen };
        let before = self.requests.insert(id, request);
        assert!(before.is_none(), "requests in progress have numbers of their own");
    }

    /// A write is sent to a disk, as that version of the disk's oracle.
    pub(crate) fn writes(&mut self, disk: usize, version: Version, written: &Written) {
        let source = match *written {
            Written::Client { request, at, sector } => {
                let Request { group, write, .. } = self.requests[&request];
                Source::Client { group, at, sector, write }
            }
            Written::Copy { copy, at } => {
                let contents = self.copies.remove(&copy).expect("a copy is read before");
                Source::Copy { at, contents }
            }
            Written::Zeroes => Source::Zeroes,
            Written::Metadata => Source::Metadata,
        };
        let before = self.sources.insert((disk, version), source);
        assert!(before.is_none(), "a disk's versions are not reused");
    }

    /// Blocks of a disk were erased; `last` is the last version of the disk's oracle.
    pub(crate) fn erased(&mut self, disk: usize, extent: Extent, last: Version) {
        for block in extent.start.0 / BLOCK_SECTORS.0..extent.end().0.div_ceil(BLOCK_SECTORS.0) {
            self.erased.insert((disk, block), last);
        }
    }

    /// What a sector of a disk holds, of which the disk's oracle says that it holds `version`.
    pub(crate) fn content(&self, disk: usize, lba: Lba, version: Version) -> Content {
        let erased = self.erased.get(&(disk, lba.0 / BLOCK_SECTORS.0));
        if erased.is_some_and(|last| version <= *last) || version == NEVER_WRITTEN {
            return Content::Zeroes;
        }
        match &self.sources[&(disk, version)] {
            Source::Client { group, at, sector, write } => {
                let sector = *sector + at.distance(lba);
                Content::Data { group: *group, sector, write: *write }
            }
            Source::Copy { at, contents } => {
                let offset = at.distance(lba);
                let found = contents.binary_search_by_key(&offset, |(offset, _)| *offset);
                found.map_or(Content::Zeroes, |index| contents[index].1)
            }
            Source::Zeroes => Content::Zeroes,
            Source::Metadata => Content::Metadata,
        }
    }

    /// A part of a client's read has this content, by the volume's sectors.
    pub(crate) fn seen(&mut self, id: PoolRequestId, contents: Vec<(Lba, Content)>) {
        let request = self.requests.get_mut(&id).expect("a request with a piece is in progress");
        request.seen.extend(contents);
    }

    /// A copy has read this.
    pub(crate) fn loaded(&mut self, copy: CopyId, contents: Vec<(Sectors, Content)>) {
        let before = self.copies.insert(copy, contents);
        assert!(before.is_none(), "a copy is read once");
    }

    /// A client's request is answered.
    pub(crate) fn answered(&mut self, id: PoolRequestId, is_done: bool, now: Instant) {
        let request = self.requests.remove(&id).expect("a request is answered exactly once");
        let Request { volume, group, operation, write, known, seen } = request;
        match operation.op {
            Op::Write => {
                for lba in watched(operation.extent) {
                    let sector = self.sectors.get_mut(&(volume, lba)).expect("it was sent");
                    sector.open.retain(|open| *open != write);
                    sector.expected.is_undefined |= !is_done;
                    if sector.open.is_empty() {
                        let from = sector.expected.from.max(sector.overlapping_from);
                        sector.expected.from = from;
                    }
                }
            }
            Op::Read if is_done => {
                for (lba, expected) in &known {
                    let content = seen.get(lba).copied().unwrap_or(Content::Zeroes);
                    self.check((group, *lba), expected, content, now);
                }
                let last = self.snapshots.get(&volume).copied();
                for (lba, content) in &seen {
                    let is_known = known.binary_search_by_key(lba, |(lba, _)| *lba).is_ok();
                    if !is_known {
                        let expected = Expected { to: last, ..Expected::default() };
                        self.check((group, *lba), &expected, *content, now);
                    }
                }
            }
            Op::Read | Op::Trim | Op::WriteZeroes | Op::Flush | Op::Seek => {}
        }
    }

    /// Checks what a sector of a volume of this group holds.
    fn check(
        &mut self,
        (group, lba): (PoolVolumeId, Lba),
        expected: &Expected,
        content: Content,
        now: Instant,
    ) {
        let Expected { from, to, is_undefined, .. } = *expected;
        match content {
            Content::Metadata => panic!("at {now}: {lba} of a volume holds metadata"),
            Content::Zeroes => {
                let may_be = from == NEVER_WRITTEN || is_undefined;
                assert!(may_be, "at {now}: {lba} holds zeroes after write {from}");
            }
            Content::Data { group: of, sector, write } => {
                let whose = (of, sector);
                assert_eq!(whose, (group, lba), "at {now}: a sector holds another's data");
                let is_old = write < from && !is_undefined;
                assert!(!is_old, "at {now}: {lba} holds write {write} after {from}");
                let is_late = to.is_some_and(|last| write > last);
                assert!(!is_late, "at {now}: {lba} of a snapshot holds write {write}: {to:?}");
            }
        }
        self.checked += 1;
    }

    /// A snapshot of a volume was taken. Writes that are not answered come after it.
    pub(crate) fn snapshot(&mut self, volume: PoolVolumeId, snapshot: PoolVolumeId) {
        let all = (volume, Lba(0))..(PoolVolumeId(volume.0 + 1), Lba(0));
        let of_snapshot = |((_, lba), one): (&(PoolVolumeId, Lba), &Sector)| {
            let last = one.open.iter().min().map_or(self.writes, |first| first - 1);
            let expected = Expected { to: Some(last), ..one.expected };
            ((snapshot, *lba), Sector { expected, ..Sector::default() })
        };
        let taken: Vec<_> = self.sectors.range(all).map(of_snapshot).collect();
        self.sectors.extend(taken);
        self.snapshots.insert(snapshot, self.writes);
    }

    /// The sectors whose content is certain, with their volumes.
    pub(crate) fn certain(&self) -> impl Iterator<Item = (PoolVolumeId, Lba)> {
        let certain = self.sectors.iter().filter(|(_, one)| {
            let Expected { from, is_undefined, .. } = one.expected;
            one.open.is_empty() && !is_undefined && from != NEVER_WRITTEN
        });
        certain.map(|(key, _)| *key)
    }

    /// Checks what the place of a sector holds.
    pub(crate) fn placed(
        &mut self,
        (volume, lba): (PoolVolumeId, Lba),
        group: PoolVolumeId,
        content: Content,
        now: Instant,
    ) {
        let expected = self.sectors[&(volume, lba)].expected;
        self.check((group, lba), &expected, content, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: PoolVolumeId = PoolVolumeId(1);
    const SNAPSHOT: PoolVolumeId = PoolVolumeId(2);

    fn extent() -> Extent {
        Extent::new(Lba(0), Sectors(8))
    }

    /// A write that is answered.
    fn write(oracle: &mut PoolOracle, id: u64) {
        oracle.sent(PoolRequestId(id), (VOLUME, VOLUME), Operation::write(extent()));
        oracle.answered(PoolRequestId(id), true, Instant::ZERO);
    }

    /// A read of a volume that finds this.
    fn read(oracle: &mut PoolOracle, volume: PoolVolumeId, content: Content) {
        let id = PoolRequestId(99);
        oracle.sent(id, (volume, VOLUME), Operation::read(extent()));
        oracle.seen(id, vec![(Lba(0), content)]);
        oracle.answered(id, true, Instant::ZERO);
    }

    fn data(write: Version) -> Content {
        Content::Data { group: VOLUME, sector: Lba(0), write }
    }

    #[test]
    fn a_read_finds_the_last_write() {
        let mut oracle = PoolOracle::default();
        read(&mut oracle, VOLUME, Content::Zeroes);
        (1..=2).for_each(|id| write(&mut oracle, id));
        read(&mut oracle, VOLUME, data(2));
        assert_eq!(oracle.checked, 2);
    }

    #[test]
    #[should_panic(expected = "holds write 1 after 2")]
    fn an_old_copy_of_a_block_is_found() {
        let mut oracle = PoolOracle::default();
        (1..=2).for_each(|id| write(&mut oracle, id));
        read(&mut oracle, VOLUME, data(1));
    }

    #[test]
    #[should_panic(expected = "holds zeroes after write 1")]
    fn a_block_that_was_lost_is_found() {
        let mut oracle = PoolOracle::default();
        write(&mut oracle, 1);
        read(&mut oracle, VOLUME, Content::Zeroes);
    }

    #[test]
    #[should_panic(expected = "holds metadata")]
    fn metadata_in_a_volume_is_found() {
        read(&mut PoolOracle::default(), VOLUME, Content::Metadata);
    }

    #[test]
    #[should_panic(expected = "another's data")]
    fn a_sector_of_another_place_is_found() {
        let mut oracle = PoolOracle::default();
        write(&mut oracle, 1);
        let content = Content::Data { group: VOLUME, sector: Lba(64), write: 1 };
        read(&mut oracle, VOLUME, content);
    }

    #[test]
    #[should_panic(expected = "of a snapshot holds write 2")]
    fn a_snapshot_that_changes_is_found() {
        let mut oracle = PoolOracle::default();
        write(&mut oracle, 1);
        oracle.snapshot(VOLUME, SNAPSHOT);
        read(&mut oracle, SNAPSHOT, data(1));
        write(&mut oracle, 2);
        read(&mut oracle, SNAPSHOT, data(2));
    }
}
