//! The data of emulated disks.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::{fmt, io};

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use units::{Bytes, Extent, SECTOR_BYTES, Sectors};

use crate::buffers::Buffers;
use crate::disk::{Allocation, Failure};
use crate::vectored;

/// The memory that one store may use. A write past it fails with [`Failure::NoSpace`].
pub const RAM_BYTES_MAX: Bytes = Bytes(8 << 30);

const PAGE_BYTES: u64 = 64 << 10;

/// Synchronous storage of sectors.
pub trait Store: Send {
    /// Reads as many sectors as `into` holds. Unwritten sectors read as zeroes.
    ///
    /// # Errors
    /// See [`Failure`].
    fn read(&mut self, extent: Extent, into: &mut [u8]) -> Result<(), Failure>;

    /// Writes `data`, as long as the extent.
    ///
    /// # Errors
    /// See [`Failure`]; some of the sectors may have been written.
    fn write(&mut self, extent: Extent, data: &[u8]) -> Result<(), Failure>;

    /// Reads the extent into its buffers, which grow as needed; what they held is gone.
    ///
    /// # Errors
    /// See [`Failure`]; the bytes mean nothing then.
    fn read_parts(&mut self, extent: Extent, into: &mut Buffers) -> Result<(), Failure> {
        for (part, bytes) in into.parts_mut(extent) {
            bytes.resize(part.len.bytes_usize(), 0);
            self.read(part, bytes)?;
        }
        Ok(())
    }

    /// Writes the extent from its buffers.
    ///
    /// # Errors
    /// See [`Failure`]; some of the sectors may have been written.
    fn write_parts(&mut self, extent: Extent, data: &Buffers) -> Result<(), Failure> {
        for (part, bytes) in data.parts(extent) {
            self.write(part, bytes)?;
        }
        Ok(())
    }

    /// Makes the sectors read as zeroes, and deallocates them if possible.
    ///
    /// # Errors
    /// See [`Failure`].
    fn deallocate(&mut self, extent: Extent) -> Result<(), Failure>;

    /// Makes the sectors read as zeroes, and allocates them.
    ///
    /// # Errors
    /// See [`Failure`]; some of the sectors may have been written.
    fn write_zeroes(&mut self, extent: Extent) -> Result<(), Failure> {
        let zeroes = vec![0; index(PAGE_BYTES)];
        let mut rest = extent;
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(Sectors(PAGE_BYTES / SECTOR_BYTES));
            self.write(piece, &zeroes[..piece.len.bytes_usize()])?;
            rest = tail;
        }
        Ok(())
    }

    /// The allocation of the extent's first sectors, and the number of sectors that share it, at
    /// least one. The extent is not empty.
    fn allocation(&mut self, extent: Extent) -> (Allocation, Sectors);

    /// Makes all writes durable, as far as the store can.
    ///
    /// # Errors
    /// See [`Failure`].
    fn sync(&mut self) -> Result<(), Failure>;
}

/// Memory, in pages that are allocated by the first write.
#[derive(Debug, Default)]
pub struct RamStore {
    pages: BTreeMap<u64, Box<[u8]>>,
}

/// The pages that `extent` touches: page number, offset in it, number of bytes.
fn pages(extent: Extent) -> impl Iterator<Item = (u64, usize, usize)> {
    let (mut at, end) = (extent.start.0 * SECTOR_BYTES, extent.end().0 * SECTOR_BYTES);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (page, offset) = (at / PAGE_BYTES, at % PAGE_BYTES);
        let len = (PAGE_BYTES - offset).min(end - at);
        at += len;
        Some((page, index(offset), index(len)))
    })
}

impl RamStore {
    /// Appends the sectors to `into`.
    pub(crate) fn append(&self, extent: Extent, into: &mut Vec<u8>) {
        for (page, offset, len) in pages(extent) {
            match self.pages.get(&page) {
                Some(page) => into.extend_from_slice(&page[offset..offset + len]),
                None => into.resize(into.len() + len, 0),
            }
        }
    }
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a page fits the address space")
}

impl Store for RamStore {
    fn read(&mut self, extent: Extent, into: &mut [u8]) -> Result<(), Failure> {
        let mut rest = into;
        for (page, offset, len) in pages(extent) {
            let (piece, tail) = rest.split_at_mut(len);
            match self.pages.get(&page) {
                Some(page) => piece.copy_from_slice(&page[offset..offset + len]),
                None => piece.fill(0),
            }
            rest = tail;
        }
        Ok(())
    }

    /// The buffers are not filled with zeroes first.
    fn read_parts(&mut self, extent: Extent, into: &mut Buffers) -> Result<(), Failure> {
        into.prepare(extent);
        for (part, bytes) in into.parts_mut(extent) {
            self.append(part, bytes);
        }
        Ok(())
    }

    fn write(&mut self, extent: Extent, data: &[u8]) -> Result<(), Failure> {
        let mut rest = data;
        for (page, offset, len) in pages(extent) {
            let (piece, tail) = rest.split_at(len);
            let held = self.pages.len() as u64 * PAGE_BYTES;
            if held >= RAM_BYTES_MAX.0 && !self.pages.contains_key(&page) {
                return Err(Failure::NoSpace);
            }
            let empty = || vec![0; index(PAGE_BYTES)].into_boxed_slice();
            let page = self.pages.entry(page).or_insert_with(empty);
            page[offset..offset + len].copy_from_slice(piece);
            rest = tail;
        }
        Ok(())
    }

    fn deallocate(&mut self, extent: Extent) -> Result<(), Failure> {
        for (page, offset, len) in pages(extent) {
            if len == index(PAGE_BYTES) {
                self.pages.remove(&page);
            } else if let Some(page) = self.pages.get_mut(&page) {
                page[offset..offset + len].fill(0);
            }
        }
        Ok(())
    }

    fn allocation(&mut self, extent: Extent) -> (Allocation, Sectors) {
        let (start, end) = (extent.start.0 * SECTOR_BYTES, extent.end().0 * SECTOR_BYTES);
        let first = start / PAGE_BYTES;
        let mut held = self.pages.range(first..).map(|(page, _)| *page);
        let (space, until) = match held.next() {
            Some(page) if page == first => {
                // Consecutive pages are one extent.
                let wanted = first + 1..=end / PAGE_BYTES;
                let more = wanted.zip(held).take_while(|(next, page)| next == page).count() as u64;
                (Allocation::Data, (first + 1 + more) * PAGE_BYTES)
            }
            Some(page) => (Allocation::Hole, page * PAGE_BYTES),
            None => (Allocation::Hole, end),
        };
        (space, Sectors((until.min(end) - start) / SECTOR_BYTES))
    }

    fn sync(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// A file, locked by one process at a time.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    is_new: bool,
}

/// A backing file that cannot be used.
#[derive(Debug)]
pub enum FileStoreError {
    /// It cannot be opened or extended to the disk's size. Cure: see the system's error.
    Io(io::Error),
    /// Another process has locked it. Cure: stop that one, or name another file.
    InUse,
    /// It is larger than the disk: it belongs to another. Cure: the drive that it was created for,
    /// or another file.
    TooLarge {
        /// Its size.
        found: Bytes,
        /// The disk's size.
        expected: Bytes,
    },
    /// It is not a regular file. Cure: name one.
    NotAFile,
}

impl fmt::Display for FileStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::InUse => f.write_str("it is in use by another process"),
            Self::TooLarge { found, expected } => {
                write!(f, "it holds {found}, but the disk holds {expected}: it belongs to another")
            }
            Self::NotAFile => f.write_str("it is not a regular file"),
        }
    }
}

impl std::error::Error for FileStoreError {}

impl From<io::Error> for FileStoreError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl FileStore {
    /// Opens or creates the file at `path`, extended sparsely to the disk's size.
    ///
    /// # Errors
    /// See [`FileStoreError`]; the file is unchanged then.
    pub fn open(path: &Path, capacity: Sectors) -> Result<Self, FileStoreError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let store = match options.clone().create_new(true).open(path) {
            Ok(file) => Self { file, is_new: true },
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = options.create(true).truncate(false).open(path)?;
                Self { file, is_new: false }
            }
            Err(error) => return Err(error.into()),
        };
        let claimed = store.claim(capacity);
        if store.is_new && !matches!(claimed, Ok(()) | Err(FileStoreError::InUse)) {
            // A new file that no other process has opened meanwhile is removed.
            let _ = std::fs::remove_file(path);
        }
        claimed.map(|()| store)
    }

    /// Whether [`FileStore::open`] created the file.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    fn claim(&self, capacity: Sectors) -> Result<(), FileStoreError> {
        let found = self.file.metadata()?;
        if !found.is_file() {
            return Err(FileStoreError::NotAFile);
        }
        self.file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => FileStoreError::InUse,
            TryLockError::Error(error) => FileStoreError::Io(error),
        })?;
        let (found, expected) = (Bytes(found.len()), capacity.bytes());
        if found > expected {
            return Err(FileStoreError::TooLarge { found, expected });
        }
        if found < expected {
            self.file.set_len(expected.0)?;
        }
        Ok(())
    }
}

/// The allocation of a file, as [`Store::allocation`] reports it.
pub(crate) fn allocation_of(file: &File, extent: Extent) -> (Allocation, Sectors) {
    let (at, end) = (extent.start.0 * SECTOR_BYTES, extent.end().0 * SECTOR_BYTES);
    // The next data: here, behind a hole, or none.
    let data = match seek(file, SeekFrom::Data(at)) {
        Ok(data) => data.min(end),
        Err(Errno::NXIO) => end,
        Err(_) => return (Allocation::Data, extent.len),
    };
    // A sector in which data begins is data.
    let hole = Sectors(data / SECTOR_BYTES - extent.start.0);
    if hole > Sectors::ZERO {
        return (Allocation::Hole, hole);
    }
    let until = seek(file, SeekFrom::Hole(at)).map_or(end, |hole| hole.min(end));
    (Allocation::Data, Sectors(until.div_ceil(SECTOR_BYTES) - extent.start.0))
}

fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Failure::NoSpace,
        _ => Failure::Io,
    }
}

impl Store for FileStore {
    fn read(&mut self, extent: Extent, into: &mut [u8]) -> Result<(), Failure> {
        let at = extent.start.0 * SECTOR_BYTES;
        self.file.read_exact_at(into, at).map_err(|error| failure(&error))
    }

    fn write(&mut self, extent: Extent, data: &[u8]) -> Result<(), Failure> {
        let at = extent.start.0 * SECTOR_BYTES;
        self.file.write_all_at(data, at).map_err(|error| failure(&error))
    }

    fn read_parts(&mut self, extent: Extent, into: &mut Buffers) -> Result<(), Failure> {
        vectored::read(&self.file, extent, into).map_err(|error| failure(&error))
    }

    fn write_parts(&mut self, extent: Extent, data: &Buffers) -> Result<(), Failure> {
        vectored::write(&self.file, extent, data, false).map_err(|error| failure(&error))
    }

    fn deallocate(&mut self, extent: Extent) -> Result<(), Failure> {
        let (at, len) = (extent.start.0 * SECTOR_BYTES, extent.len.bytes().0);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(&self.file, hole, at, len).is_ok() {
            return Ok(());
        }
        // Not every file system has holes; every one can write zeroes.
        self.write_zeroes(extent)
    }

    fn allocation(&mut self, extent: Extent) -> (Allocation, Sectors) {
        allocation_of(&self.file, extent)
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.file.sync_data().map_err(|error| failure(&error))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use units::Lba;

    use super::*;

    const SECTORS: u64 = 512;

    #[derive(Clone, Debug)]
    enum Step {
        Write(Extent, u8),
        Zero(Extent),
    }

    fn extent() -> impl Strategy<Value = Extent> {
        (0..SECTORS, 1_u64..200)
            .prop_map(|(start, len)| Extent::new(Lba(start), Sectors(len.min(SECTORS - start))))
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (extent(), any::<u8>()).prop_map(|(extent, byte)| Step::Write(extent, byte)),
            extent().prop_map(Step::Zero),
        ]
    }

    /// What every store guarantees: it returns what was last written.
    fn holds_what_was_last_written(store: &mut dyn Store, steps: &[Step]) {
        let mut model = vec![0_u8; Sectors(SECTORS).bytes_usize()];
        let range = |extent: Extent| {
            let start = Sectors(extent.start.0).bytes_usize();
            start..start + extent.len.bytes_usize()
        };
        for step in steps {
            match step {
                Step::Write(extent, byte) => {
                    let data = vec![*byte; extent.len.bytes_usize()];
                    store.write(*extent, &data).expect("there is space");
                    model[range(*extent)].copy_from_slice(&data);
                }
                Step::Zero(extent) => {
                    store.deallocate(*extent).expect("zeroes are cheap");
                    model[range(*extent)].fill(0);
                }
            }
        }
        let mut found = vec![1; model.len()];
        store.sync().expect("it is there");
        store.read(Extent::new(Lba(0), Sectors(SECTORS)), &mut found).expect("it is there");
        assert!(found == model, "the store holds something else than what was written");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_store_holds_what_was_last_written(steps in prop::collection::vec(step(), 0..20)) {
            holds_what_was_last_written(&mut RamStore::default(), &steps);
            let dir = tempfile::tempdir().expect("a scratch directory");
            let path = dir.path().join("disk");
            let mut file = FileStore::open(&path, Sectors(SECTORS)).expect("it is new");
            holds_what_was_last_written(&mut file, &steps);
        }
    }

    #[test]
    fn a_new_file_that_cannot_be_as_large_as_its_disk_is_not_left_behind() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let path = dir.path().join("disk");
        let refused = FileStore::open(&path, Sectors(1 << 54));
        assert!(
            matches!(refused, Err(FileStoreError::Io(_))),
            "no file is this large: {refused:?}"
        );
        assert!(!path.exists());
    }

    #[test]
    fn a_file_serves_one_disk_at_a_time_and_keeps_its_data() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let path = dir.path().join("disk");
        let place = Extent::new(Lba(7), Sectors(1));
        let mut first = FileStore::open(&path, Sectors(SECTORS)).expect("it is new");
        first.write(place, &[9; 512]).expect("there is space");
        assert!(matches!(FileStore::open(&path, Sectors(SECTORS)), Err(FileStoreError::InUse)));
        drop(first);
        let smaller = FileStore::open(&path, Sectors(8));
        assert!(matches!(smaller, Err(FileStoreError::TooLarge { .. })));
        let mut again = FileStore::open(&path, Sectors(SECTORS)).expect("it is free again");
        let mut found = [0; 512];
        again.read(place, &mut found).expect("it is there");
        assert_eq!(found, [9; 512]);
        assert!(matches!(FileStore::open(dir.path(), Sectors(8)), Err(FileStoreError::Io(_))));
    }

    fn spaces(store: &mut dyn Store, mut rest: Extent) -> Vec<(Allocation, u64)> {
        let mut all = Vec::new();
        while !rest.is_empty() {
            let (space, len) = store.allocation(rest);
            assert!(len > Sectors::ZERO && len <= rest.len, "something, and no more than asked");
            all.push((space, len.0));
            rest = rest.split_at(len).1;
        }
        all
    }

    #[test]
    fn space_is_where_something_was_written_and_is_kept_where_it_is_asked_for() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let file = FileStore::open(&dir.path().join("disk"), Sectors(1024)).expect("it is new");
        let stores: [Box<dyn Store>; 2] = [Box::<RamStore>::default(), Box::new(file)];
        let extent = |start, len| Extent::new(Lba(start), Sectors(len));
        let (taken, hole) = (Allocation::Data, Allocation::Hole);
        for mut store in stores {
            assert_eq!(spaces(&mut *store, extent(0, 1024)), [(hole, 1024)]);
            store.write(extent(128, 256), &vec![1; 256 * 512]).expect("there is space");
            let expected = [(hole, 120), (taken, 256), (hole, 640)];
            assert_eq!(spaces(&mut *store, extent(8, 1016)), expected);
            assert_eq!(spaces(&mut *store, extent(200, 8)), [(taken, 8)]);
            store.deallocate(extent(128, 128)).expect("zeroes are cheap");
            store.write_zeroes(extent(512, 128)).expect("there is space");
            let expected = [(hole, 256), (taken, 128), (hole, 128), (taken, 128), (hole, 384)];
            assert_eq!(spaces(&mut *store, extent(0, 1024)), expected);
            let mut found = [1; 512];
            store.read(extent(600, 1), &mut found).expect("it is there");
            assert_eq!(found, [0; 512]);
        }
    }

    #[test]
    fn memory_given_back_is_given_back() {
        let mut store = RamStore::default();
        store.write(Extent::new(Lba(0), Sectors(512)), &vec![1; 512 * 512]).expect("fits");
        assert_eq!(store.pages.len(), 4);
        store.deallocate(Extent::new(Lba(1), Sectors(511))).expect("cheap");
        assert_eq!(store.pages.len(), 1, "only the page with the first sector is still needed");
    }
}
