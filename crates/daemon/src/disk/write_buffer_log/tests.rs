use std::fs;
use std::path::Path;

use engine::{BufferedPart, DestageId, PieceId};
use units::{Bytes, Extent, Lba, SECTOR_BYTES, Sectors};

use super::*;

const CAPACITY: Sectors = Sectors(4_096);

fn extent(start: u64, len: u64) -> Extent {
    Extent::new(Lba(start), Sectors(len))
}

/// A disk of zeroes in a directory, and its log beside it.
fn files(directory: &Path) -> LogFiles {
    let disk = directory.join("disk.img");
    if !disk.exists() {
        let file = fs::File::create(&disk).expect("it is made");
        file.set_len(CAPACITY.bytes().0).expect("it is sparse");
    }
    LogFiles::inside(directory, &disk).expect("it has an identity")
}

fn sector(directory: &Path, at: u64) -> u8 {
    let bytes = fs::read(directory.join("disk.img")).expect("it is there");
    let start = usize::try_from(at * SECTOR_BYTES).expect("few");
    let sector = &bytes[start..start + 512];
    assert!(sector.iter().all(|byte| *byte == sector[0]), "sector {at} is whole");
    sector[0]
}

fn write(log: &mut WriteBufferLog, piece: u32, extent: Extent, byte: u8) {
    let data = vec![byte; extent.len.bytes_usize()];
    log.write(PieceId(piece), extent, &data).expect("there is memory");
}

#[test]
fn what_a_killed_daemon_had_buffered_is_written_by_the_next() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = WriteBufferLog::create(files(directory.path())).expect("it is made");
    write(&mut log, 0, extent(8, 8), 1);
    write(&mut log, 1, extent(100, 3), 2);
    log.sent(DestageId(5));
    write(&mut log, 2, extent(10, 2), 3);
    // What was sent is on the disk, and what came later is not.
    log.done(DestageId(5), extent(8, 8)).expect("there is memory");
    log.release(PieceId(0));
    log.reclaim(false, core::iter::empty).expect("holes are punched");
    drop(log);
    let files = files(directory.path());
    assert_eq!(files.is_left(), Ok(true));
    let rewritten = files.write_back(CAPACITY).expect("it is written");
    assert_eq!(rewritten, Rewritten { writes: 2, size: Bytes(5 * 512) });
    let found = [8, 10, 11, 12, 100, 102].map(|at| sector(directory.path(), at));
    assert_eq!(found, [0, 3, 3, 0, 2, 2]);
    assert_eq!(files.is_left(), Ok(false), "it is written once");
    let left: Vec<_> = fs::read_dir(directory.path()).expect("a directory").collect();
    assert_eq!(left.len(), 1, "the disk alone: {left:?}");
}

#[test]
fn rewritten_records_say_the_same() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = WriteBufferLog::create(files(directory.path())).expect("it is made");
    log.recorded_max = 1;
    write(&mut log, 0, extent(8, 8), 1);
    log.sent(DestageId(1));
    write(&mut log, 1, extent(8, 2), 2);
    let part = |piece, offset, extent| BufferedPart {
        piece: PieceId(piece),
        offset: Sectors(offset),
        extent,
    };
    let parts = [part(1, 0, extent(8, 2)), part(0, 2, extent(10, 6))];
    log.reclaim(false, || parts.into_iter()).expect("they are written");
    assert_eq!(log.recorded, 3 * RECORD_BYTES as u64);
    log.done(DestageId(1), extent(12, 4)).expect("there is memory");
    drop(log);
    let rewritten = files(directory.path()).write_back(CAPACITY).expect("it is written");
    assert_eq!(rewritten, Rewritten { writes: 2, size: Bytes(4 * 512) });
    let found = [8, 9, 10, 11, 12].map(|at| sector(directory.path(), at));
    assert_eq!(found, [2, 2, 1, 1, 0]);
}

#[test]
fn a_buffer_without_data_leaves_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut log = WriteBufferLog::create(files(directory.path())).expect("it is made");
    write(&mut log, 0, extent(8, 8), 1);
    log.release(PieceId(0));
    log.reclaim(true, core::iter::empty).expect("it is emptied");
    assert_eq!(log.data.metadata().expect("a file").len(), 0);
    drop(log);
    assert_eq!(files(directory.path()).is_left(), Ok(false));
}

#[test]
fn the_log_of_another_disk_or_boot_is_not_read_and_a_damaged_one_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let files = files(directory.path());
    let mut log = WriteBufferLog::create(files.clone()).expect("it is made");
    write(&mut log, 0, extent(8, 8), 1);
    drop(log);
    let path = fs::read_dir(directory.path()).expect("a directory");
    let mut paths = path.map(|entry| entry.expect("a file").path());
    let path = paths.find(|path| path.extension().is_some_and(|end| end == "records"));
    let path = path.expect("the records");
    let whole = fs::read(&path).expect("they are read");
    let mut other = whole.clone();
    other[20] ^= 1;
    fs::write(&path, other).expect("they are written");
    assert_eq!(files.is_left(), Ok(false), "of another boot");
    let mut damaged = whole.clone();
    damaged[RECORD_BYTES + 9] ^= 1;
    fs::write(&path, damaged).expect("they are written");
    let refused = files.is_left().expect_err("damage");
    assert!(refused.contains("found damage in"), "{refused}");
    fs::write(&path, whole).expect("they are written");
    let refused = files.write_back(Sectors(10)).expect_err("a smaller disk");
    assert!(refused.contains("passes the end"), "{refused}");
    assert_eq!(files.is_left(), Ok(true), "what is refused is kept");
}
