//! A file, and loop devices where the machine permits: data is read back with any block size and
//! any I/O method.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use tempfile::TempDir;
use units::{Bytes, Lba, Operation};

use super::*;
use crate::buffers::{Buffers, Part};
use crate::device::WriteCacheUse;

const SECTORS: u64 = 4_096;

fn extent(start: u64, len: u64) -> Extent {
    Extent::new(Lba(start), Sectors(len))
}

const OPENING: RealOptions = RealOptions {
    capacity: Sectors(SECTORS),
    depth: 16,
    buffered: false,
    adopt: false,
    ring: true,
    write_cache: WriteCacheUse::Forced,
};

fn scratch(sectors: u64) -> (TempDir, PathBuf) {
    // Beside the test binary, not in the directory of temporary files: that can be memory, which
    // takes no direct access.
    let beside = std::env::current_exe().expect("it runs");
    let beside = beside.parent().expect("it lies somewhere");
    let dir = tempfile::tempdir_in(beside).expect("a scratch directory");
    let path = dir.path().join("disk.img");
    std::fs::File::create(&path).expect("a file").set_len(sectors * 512).expect("a sparse one");
    (dir, path)
}

/// With io_uring, if the machine permits, and with threads.
fn ways() -> impl Iterator<Item = RealOptions> {
    [true, false].into_iter().map(|ring| RealOptions { ring, ..OPENING })
}

/// A disk with blocks of `block` sectors, on a file.
fn disk(path: &Path, block: u64, opening: RealOptions) -> RealDisk {
    let (file, facts) = open::open(path, opening).expect("it is ours alone");
    let logical_sector = Bytes(block * 512).max(facts.logical_sector);
    let disk = RealDisk::serve(file, &DeviceInfo { logical_sector, ..facts }, (opening, None))
        .expect("threads");
    if opening.ring && disk.io_method() == Some(IoMethod::Threads) {
        eprintln!("skipped: this machine lets us have no ring");
    }
    assert!(opening.ring || disk.io_method() == Some(IoMethod::Threads), "it was asked for");
    disk
}

/// A disk with a driver that waits for its completion descriptor and its waker.
struct Driven {
    disk: RealDisk,
    woken: Arc<(AtomicBool, OwnedFd)>,
    tag: u64,
    outstanding: usize,
}

impl Driven {
    fn new(mut disk: RealDisk) -> Self {
        let alarm = eventfd(0, EventfdFlags::empty()).expect("a descriptor");
        let woken = Arc::new((AtomicBool::new(false), alarm));
        let (bell, tag, outstanding) = (Arc::clone(&woken), 0, 0);
        disk.set_waker(Arc::new(move || {
            bell.0.store(true, Ordering::SeqCst);
            rustix::io::write(&bell.1, &1_u64.to_ne_bytes()).expect("it counts far");
        }));
        Self { disk, woken, tag, outstanding }
    }

    fn submit(
        &mut self,
        op: Op,
        extent: Extent,
        (fua, no_hole): (bool, bool),
        data: impl Into<Buffers>,
    ) -> Tag {
        self.tag += 1;
        self.outstanding += 1;
        let (tag, operation) = (Tag(self.tag), Operation { op, extent, fua });
        self.disk.submit(Job { tag, operation, data: data.into(), no_hole }, Instant::ZERO);
        tag
    }

    /// Sleeps until it is woken, as a disk thread does, and never polls in between.
    fn reap(&mut self) -> Completion {
        loop {
            if let Some(finished) = self.disk.reap(Instant::ZERO) {
                self.outstanding -= 1;
                return finished;
            }
            assert!(self.outstanding > 0, "something is under way");
            self.disk.start();
            let watch = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
            let mut watched = vec![watch(self.woken.1.as_fd())];
            watched.extend(self.disk.completion_fd().map(watch));
            while poll(&mut watched, None).is_err() {}
            if self.woken.0.swap(false, Ordering::SeqCst) {
                rustix::io::read(&self.woken.1, &mut [0; 8]).expect("it was written to");
            }
        }
    }

    fn does(
        &mut self,
        op: Op,
        extent: Extent,
        how: (bool, bool),
        data: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let tag = self.submit(op, extent, how, data);
        let finished = self.reap();
        assert_eq!(finished.tag, tag);
        finished.into_bytes()
    }
}

#[derive(Clone, Debug)]
struct Step {
    op: Op,
    extent: Extent,
    how: (bool, bool),
    byte: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let op = prop_oneof![Just(Op::Write), Just(Op::Trim), Just(Op::WriteZeroes), Just(Op::Flush)];
    let place = (0..SECTORS, 1_u64..300);
    let step =
        (op, place, any::<(bool, bool)>(), 1_u8..).prop_map(|(op, (start, len), how, byte)| Step {
            op,
            extent: extent(start, len.min(SECTORS - start)),
            how,
            byte,
        });
    prop::collection::vec(step, 1..24)
}

fn holds_what_was_last_written(driven: &mut Driven, steps: &[Step]) {
    let mut model = vec![0_u8; Sectors(SECTORS).bytes_usize()];
    for Step { op, extent, how, byte } in steps {
        let start = Sectors(extent.start.0).bytes_usize();
        let range = start..start + extent.len.bytes_usize();
        let mut data = Vec::new();
        match op {
            Op::Write => {
                data = vec![*byte; extent.len.bytes_usize()];
                model[range].copy_from_slice(&data);
            }
            Op::Flush => {}
            _ => model[range].fill(0),
        }
        driven.does(*op, *extent, *how, data).expect("nothing fails");
        let read = driven.does(Op::Read, *extent, (false, false), Vec::new()).expect("it is there");
        assert!(
            read == model[start..start + read.len()],
            "it reads otherwise after {op} of {extent:?}"
        );
    }
    let all = driven.disk.read_blocking(extent(0, SECTORS)).expect("it is there");
    assert!(all == model, "the disk holds something else than what was written");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_file_holds_what_was_last_written_whatever_its_blocks(steps in steps()) {
        let cases = [1, 8].into_iter().flat_map(|block| ways().map(move |way| (block, way)));
        for (block, opening) in cases {
            let (_dir, path) = scratch(SECTORS);
            holds_what_was_last_written(&mut Driven::new(disk(&path, block, opening)), &steps);
        }
    }
}

#[test]
fn parts_of_one_block_that_are_written_at_once_are_all_there() {
    ways().for_each(writes_parts_at_once);
}

fn writes_parts_at_once(opening: RealOptions) {
    let (_dir, path) = scratch(SECTORS);
    let mut driven = Driven::new(disk(&path, 8, opening));
    for round in 1..40_u8 {
        // Sixteen commands that share four blocks, in pairs one sector apart.
        for nth in 0..16_u64 {
            let byte = round.wrapping_mul(16).wrapping_add(u8::try_from(nth).expect("few"));
            driven.submit(Op::Write, extent(nth * 2 + 1, 2), (false, false), vec![byte; 1_024]);
        }
        for _ in 0..16 {
            driven.reap().result.expect("nothing fails");
        }
        let found = driven.disk.read_blocking(extent(1, 32)).expect("it is there");
        let expected =
            (0..16_u8).flat_map(|nth| vec![round.wrapping_mul(16).wrapping_add(nth); 1_024]);
        assert!(found.iter().copied().eq(expected), "a write was lost in round {round}");
    }
}

#[test]
fn a_disk_serves_one_process_at_a_time() {
    let (_dir, path) = scratch(SECTORS);
    let first = disk(&path, 1, OPENING);
    assert!(matches!(RealDisk::open(&path, OPENING), Err(RealError::Locked)));
    drop(first);
    RealDisk::open(&path, OPENING).expect("it is free again");
    let more = RealOptions { capacity: Sectors(SECTORS + 8), ..OPENING };
    assert!(matches!(RealDisk::open(&path, more), Err(RealError::Smaller { .. })));
    assert!(matches!(RealDisk::open(Path::new("/dev/null"), OPENING), Err(RealError::NoDevice)));
    // What is behind a file has no write cache of its own.
    let off = RealOptions { write_cache: WriteCacheUse::Off, ..OPENING };
    assert!(matches!(RealDisk::open(&path, off), Err(RealError::WriteCache(_))));
}

#[test]
fn what_is_trimmed_gives_its_space_back_and_what_is_zeroed_keeps_it_if_asked_to() {
    let (_dir, path) = scratch(SECTORS);
    let mut driven = Driven::new(disk(&path, 1, OPENING));
    let space =
        |driven: &mut Driven| driven.disk.allocation(extent(0, 512)).expect("a file tells").0;
    assert_eq!(space(&mut driven), Allocation::Hole);
    let (none, keep) = ((true, false), (true, true));
    driven.does(Op::Write, extent(0, 512), none, vec![1; 512 * 512]).expect("there is room");
    assert_eq!(space(&mut driven), Allocation::Data);
    driven.does(Op::Trim, extent(0, 512), none, Vec::new()).expect("a file can");
    assert_eq!(space(&mut driven), Allocation::Hole);
    driven.does(Op::WriteZeroes, extent(0, 512), keep, Vec::new()).expect("a file can");
    // Allocated sectors that were never written may be reported as a hole; the file's block count
    // is decisive.
    assert!(std::fs::metadata(&path).expect("it is there").blocks() >= 512, "the space is its own");
}

#[test]
fn what_cannot_be_read_is_an_error_and_stays_one() {
    ways().for_each(reads_behind_the_end);
}

fn reads_behind_the_end(opening: RealOptions) {
    let (_dir, path) = scratch(SECTORS);
    let mut driven = Driven::new(disk(&path, 1, opening));
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(512 * 2_048))
        .expect("a shorter file");
    let lost = driven.does(Op::Read, extent(3_000, 8), (false, false), Vec::new());
    assert_eq!(lost, Err(Failure::Io));
    driven.does(Op::Read, extent(0, 8), (false, false), Vec::new()).expect("the rest is there");
}

/// Bytes in which each sector carries its address.
fn numbered(extent: Extent) -> Vec<u8> {
    let sectors = extent.start.0..extent.end().0;
    sectors.flat_map(|sector| sector.to_ne_bytes().repeat(64)).collect()
}

#[test]
fn requests_of_all_lengths_that_are_under_way_at_once_are_each_their_own() {
    // Shorter and longer than a copied transfer and than a slot; in the request's memory if
    // aligned.
    let lengths = [1, 8, 64, 65, 128, 256, 257, 512];
    for opening in ways() {
        let (_dir, path) = scratch(SECTORS);
        let mut driven = Driven::new(disk(&path, 1, opening));
        let mut at = 0;
        let places = lengths.map(|len| {
            at += len;
            extent(at - len, len)
        });
        for place in places {
            // Memory a few bytes into an allocation is aligned differently than the allocation.
            driven.submit(Op::Write, place, (place.len.0 % 2 == 0, false), numbered(place));
        }
        for _ in places {
            driven.reap().result.expect("nothing fails");
        }
        let expected: BTreeMap<_, _> = places
            .into_iter()
            .map(|place| {
                let room = Vec::with_capacity(place.len.bytes_usize().next_power_of_two());
                (driven.submit(Op::Read, place, (false, false), room), place)
            })
            .collect();
        driven.submit(Op::Flush, extent(0, 0), (false, false), Vec::new());
        for _ in 0..=places.len() {
            let completion = driven.reap();
            let Some(place) = expected.get(&completion.tag) else { continue };
            assert!(completion.into_bytes() == Ok(numbered(*place)), "{place:?} reads otherwise");
        }
    }
}

/// A buffer whose bytes begin on a multiple of 4 KiB, as direct access may want it.
fn aligned(len: Sectors) -> Vec<u8> {
    let mut others = Vec::new();
    for _ in 0..100_000 {
        // Not a multiple of the alignment: the next one begins elsewhere.
        let bytes = Vec::<u8>::with_capacity(len.bytes_usize() + 16);
        if bytes.as_ptr().align_offset(4_096) == 0 {
            return bytes;
        }
        others.push(bytes);
    }
    panic!("none of {} buffers is aligned", others.len());
}

/// Lists of short buffers, which io_uring copies, and of long ones, which it does not.
const SPLITS: [[u64; 2]; 2] = [[8, 24], [80, 176]];

/// An aligned list for `place` whose parts have these lengths in turn.
fn aligned_list(place: Extent, lengths: [u64; 2]) -> Buffers {
    let (mut parts, mut rest) = (Vec::new(), place);
    while !rest.is_empty() {
        let len = Sectors(lengths[parts.len() % 2]).min(rest.len);
        parts.push(Part { len, bytes: aligned(len) });
        rest = rest.split_at(len).1;
    }
    Buffers::List(parts)
}

#[test]
fn an_aligned_list_is_transferred_into_its_buffers_and_so_is_another() {
    let cases = SPLITS.into_iter().flat_map(|lengths| ways().map(move |way| (lengths, way)));
    for (lengths, opening) in cases {
        let (_dir, path) = scratch(SECTORS);
        let mut driven = Driven::new(disk(&path, 8, opening));
        let place = extent(8, 256);
        let mut data = aligned_list(place, lengths);
        for (part, bytes) in data.parts_mut(place) {
            bytes.extend(numbered(part));
        }
        assert!(driven.disk.open.suits(place, &data), "each part is aligned, and has whole blocks");
        let tag = driven.submit(Op::Write, place, (true, false), data);
        let done = driven.reap();
        assert_eq!((done.tag, done.result), (tag, Ok(())));
        assert!(done.into_bytes() == Ok(numbered(place)), "the buffers come back");
        let data = aligned_list(place, lengths);
        let addresses = |data: &Buffers| -> Vec<_> {
            data.parts(place).map(|(_, bytes)| bytes.as_ptr().addr()).collect()
        };
        let at = addresses(&data);
        driven.submit(Op::Read, place, (false, false), data);
        let read = driven.reap();
        assert_eq!(addresses(&read.data), at, "the buffers are the same");
        assert!(read.into_bytes() == Ok(numbered(place)));
        let split = Buffers::List(vec![
            Part { len: Sectors(4), bytes: aligned(Sectors(4)) },
            Part { len: Sectors(252), bytes: aligned(Sectors(252)) },
        ]);
        assert!(!driven.disk.open.suits(place, &split), "a part ends within a block");
        driven.submit(Op::Read, place, (false, false), split);
        assert!(driven.reap().into_bytes() == Ok(numbered(place)));
    }
}

#[test]
fn the_buffers_of_a_write_that_the_system_fails_come_back() {
    for opening in ways() {
        let (_dir, path) = scratch(SECTORS);
        // No file that is open for reading takes a write.
        let (file, facts) = open::open(&path, opening).expect("it is ours alone");
        drop(file);
        let file = File::open(&path).expect("it can be read");
        let disk = RealDisk::serve(file, &facts, (opening, None)).expect("threads");
        let mut driven = Driven::new(disk);
        let cases = [(16, None), (256, Some(SPLITS[0])), (256, Some(SPLITS[1])), (256, None)];
        for (len, lengths) in cases {
            let place = extent(8, len);
            let mut data = if let Some(lengths) = lengths {
                aligned_list(place, lengths)
            } else {
                Buffers::List(vec![
                    Part { len: Sectors(1), bytes: Vec::new() },
                    Part { len: Sectors(len - 1), bytes: Vec::new() },
                ])
            };
            for (part, bytes) in data.parts_mut(place) {
                bytes.extend(numbered(part));
            }
            driven.submit(Op::Write, place, (false, false), data);
            let failed = driven.reap();
            assert_eq!(failed.result, Err(Failure::Io));
            assert!(failed.data.into_bytes() == numbered(place), "{len} sectors come back");
        }
    }
}

#[test]
fn a_disk_that_is_closed_has_done_what_was_begun() {
    let (_dir, path) = scratch(SECTORS);
    let places: Vec<_> = (0..16).map(|nth| extent(nth * 256, 256)).collect();
    for opening in ways() {
        let mut driven = Driven::new(disk(&path, 1, opening));
        for place in &places {
            driven.submit(Op::Write, *place, (false, false), numbered(*place));
        }
        driven.disk.start();
        drop(driven);
        let mut again = disk(&path, 1, OPENING);
        for place in &places {
            assert!(again.read_blocking(*place) == Ok(numbered(*place)), "{place:?} was begun");
        }
        drop(again);
        std::fs::write(&path, vec![0; Sectors(SECTORS).bytes_usize()]).expect("room");
    }
}

/// A process that starts another shares its open files with it for a moment, and a claim on a
/// device lasts as long: one test with devices at a time.
static DEVICES: Mutex<()> = Mutex::new(());

/// A loop device over the file with blocks of `block` bytes; detached on drop.
struct Loop(PathBuf);

impl Loop {
    /// `None`, with a note, if the machine permits none.
    fn over(path: &Path, block: &str) -> Option<Self> {
        let made =
            Command::new("losetup").args(["--find", "--show", "-b", block]).arg(path).output();
        let device = made.ok().filter(|made| made.status.success());
        let Some(device) = device.and_then(|made| String::from_utf8(made.stdout).ok()) else {
            eprintln!("skipped: this machine lets us have no loop device");
            return None;
        };
        Some(Self(device.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // A device that cannot be detached shows in the next run.
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

#[test]
fn a_block_device_holds_what_was_last_written_and_is_ours_alone() {
    let _alone = DEVICES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for block in ["512", "4096"] {
        let (_dir, path) = scratch(SECTORS);
        let Some(device) = Loop::over(&path, block) else { return };
        assert!(
            matches!(RealDisk::open(&path, OPENING), Err(RealError::InUse(_))),
            "a loop is over it"
        );
        let real = RealDisk::open(&device.0, OPENING).expect("it is not in use");
        assert!(
            real.block_device
                && real.open.block == Bytes(block.parse().expect("a number")).sectors_floor()
        );
        let mut driven = Driven::new(real);
        let write = |start, len, byte| Step {
            op: Op::Write,
            extent: extent(start, len),
            how: (true, false),
            byte,
        };
        let zero =
            |start, len, op| Step { op, extent: extent(start, len), how: (true, true), byte: 0 };
        let flush = Step { op: Op::Flush, extent: extent(0, 0), how: (false, false), byte: 0 };
        let steps = [
            write(0, 64, 1),
            write(3, 9, 2),
            zero(5, 20, Op::Trim),
            write(7, 1, 3),
            zero(2, 30, Op::WriteZeroes),
            write(4_095, 1, 4),
        ];
        let steps: Vec<_> = steps.into_iter().chain([flush]).collect();
        holds_what_was_last_written(&mut driven, &steps);
        let again = RealDisk::open(&device.0, OPENING);
        assert!(matches!(again, Err(RealError::InUse(_) | RealError::Locked)), "it is claimed");
    }
}

#[test]
fn foreign_data_on_a_block_device_is_served_only_if_adopted() {
    let _alone = DEVICES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (_dir, path) = scratch(SECTORS);
    let mut head = vec![0; 4_096];
    head[510..512].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(&path, &head).expect("room");
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(SECTORS * 512))
        .expect("a longer file");
    let Some(device) = Loop::over(&path, "512") else { return };
    let refused = RealDisk::open(&device.0, OPENING).map(drop).expect_err("it holds something");
    assert!(matches!(refused, RealError::Foreign(_)), "{refused}");
    assert!(refused.to_string().contains("`adopt = true`"), "{refused}");
    RealDisk::open(&device.0, RealOptions { adopt: true, ..OPENING }).expect("it was said");
    drop(device);
    RealDisk::open(&path, OPENING).expect("naming a file is enough");
}
