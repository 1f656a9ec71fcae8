//! A file, and where the machine lets us, loop devices: what is written is there, whatever its blocks are.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Condvar;
use std::sync::Mutex;

use proptest::prelude::*;
use tempfile::TempDir;
use units::{Bytes, Lba, Operation};

use super::*;

const SECTORS: u64 = 4_096;

fn extent(start: u64, len: u64) -> Extent {
    Extent::new(Lba(start), Sectors(len))
}

const OPENING: Opening =
    Opening { capacity: Sectors(SECTORS), depth: 16, buffered: false, adopt: false };

fn scratch(sectors: u64) -> (TempDir, PathBuf) {
    // Where the test itself lies, not where temporary files do: that may be memory, which takes no direct access.
    let beside = std::env::current_exe().expect("it runs");
    let beside = beside.parent().expect("it lies somewhere");
    let dir = tempfile::tempdir_in(beside).expect("a scratch directory");
    let path = dir.path().join("disk.img");
    std::fs::File::create(&path).expect("a file").set_len(sectors * 512).expect("a sparse one");
    (dir, path)
}

/// A disk whose blocks are so many sectors, on a file.
fn disk(path: &Path, block: u64) -> Real {
    let (file, facts) = open::open(path, OPENING).expect("it is ours alone");
    let logical_sector = Bytes(block * 512).max(facts.logical_sector);
    Real::serve(file, &Facts { logical_sector, ..facts }, OPENING).expect("threads")
}

/// A disk, driven from one thread that is woken.
struct Driven {
    disk: Real,
    woken: Arc<(Mutex<bool>, Condvar)>,
    tag: u64,
    outstanding: usize,
}

impl Driven {
    fn new(mut disk: Real) -> Self {
        let woken = Arc::<(Mutex<bool>, Condvar)>::default();
        let (bell, tag, outstanding) = (Arc::clone(&woken), 0, 0);
        disk.wake_by(Arc::new(move || {
            *bell.0.lock().expect("nobody panics") = true;
            bell.1.notify_one();
        }));
        Self { disk, woken, tag, outstanding }
    }

    fn submit(
        &mut self,
        op: Op,
        extent: Extent,
        (fua, no_hole): (bool, bool),
        data: Vec<u8>,
    ) -> Tag {
        self.tag += 1;
        self.outstanding += 1;
        let (tag, operation) = (Tag(self.tag), Operation { op, extent, fua });
        self.disk.submit(Job { tag, operation, data, no_hole }, Instant::ZERO);
        tag
    }

    /// Sleeps until it is woken, as whoever drives a disk does, and never asks twice in between.
    fn reap(&mut self) -> Finished {
        loop {
            if let Some(finished) = self.disk.reap(Instant::ZERO) {
                self.outstanding -= 1;
                return finished;
            }
            assert!(self.outstanding > 0, "something is under way");
            let woken = self.woken.0.lock().expect("nobody panics");
            let mut woken = self.woken.1.wait_while(woken, |woken| !*woken).expect("nobody panics");
            *woken = false;
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
        finished.result
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
        assert_eq!(driven.does(*op, *extent, *how, data), Ok(Vec::new()), "{op}");
        let read = driven.does(Op::Read, *extent, (false, false), Vec::new()).expect("it is there");
        assert!(
            read == model[start..start + read.len()],
            "it reads otherwise after {op} of {extent:?}"
        );
    }
    let all = driven.disk.read_now(extent(0, SECTORS)).expect("it is there");
    assert!(all == model, "the disk holds something else than what was written");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_file_holds_what_was_last_written_whatever_its_blocks(steps in steps()) {
        for block in [1, 8] {
            let (_dir, path) = scratch(SECTORS);
            holds_what_was_last_written(&mut Driven::new(disk(&path, block)), &steps);
        }
    }
}

#[test]
fn parts_of_one_block_that_are_written_at_once_are_all_there() {
    let (_dir, path) = scratch(SECTORS);
    let mut driven = Driven::new(disk(&path, 8));
    for round in 1..40_u8 {
        // Sixteen commands that share four blocks, two by two in a sector's distance.
        for nth in 0..16_u64 {
            let byte = round.wrapping_mul(16).wrapping_add(u8::try_from(nth).expect("few"));
            driven.submit(Op::Write, extent(nth * 2 + 1, 2), (false, false), vec![byte; 1_024]);
        }
        for _ in 0..16 {
            assert_eq!(driven.reap().result, Ok(Vec::new()));
        }
        let found = driven.disk.read_now(extent(1, 32)).expect("it is there");
        let expected =
            (0..16_u8).flat_map(|nth| vec![round.wrapping_mul(16).wrapping_add(nth); 1_024]);
        assert!(found.iter().copied().eq(expected), "a write was lost in round {round}");
    }
}

#[test]
fn a_disk_serves_one_process_at_a_time() {
    let (_dir, path) = scratch(SECTORS);
    let first = disk(&path, 1);
    assert!(matches!(Real::open(&path, OPENING), Err(RealError::Locked)));
    drop(first);
    Real::open(&path, OPENING).expect("it is free again");
    let more = Opening { capacity: Sectors(SECTORS + 8), ..OPENING };
    assert!(matches!(Real::open(&path, more), Err(RealError::Smaller { .. })));
    assert!(matches!(Real::open(Path::new("/dev/null"), OPENING), Err(RealError::NoDevice)));
}

#[test]
fn what_is_trimmed_gives_its_space_back_and_what_is_zeroed_keeps_it_if_asked_to() {
    let (_dir, path) = scratch(SECTORS);
    let mut driven = Driven::new(disk(&path, 1));
    let space = |driven: &mut Driven| driven.disk.space(extent(0, 512)).expect("a file tells").0;
    assert_eq!(space(&mut driven), Space::Hole);
    let (none, keep) = ((true, false), (true, true));
    driven.does(Op::Write, extent(0, 512), none, vec![1; 512 * 512]).expect("there is room");
    assert_eq!(space(&mut driven), Space::Taken);
    driven.does(Op::Trim, extent(0, 512), none, Vec::new()).expect("a file can");
    assert_eq!(space(&mut driven), Space::Hole);
    driven.does(Op::WriteZeroes, extent(0, 512), keep, Vec::new()).expect("a file can");
    // What is kept and was never written may be told as a hole; what it takes of the file system says more.
    assert!(std::fs::metadata(&path).expect("it is there").blocks() >= 512, "the space is its own");
}

#[test]
fn what_cannot_be_read_is_an_error_and_stays_one() {
    let (_dir, path) = scratch(SECTORS);
    let mut driven = Driven::new(disk(&path, 1));
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(512 * 2_048))
        .expect("a shorter file");
    let lost = driven.does(Op::Read, extent(3_000, 8), (false, false), Vec::new());
    assert_eq!(lost, Err(Failure::Io));
    driven.does(Op::Read, extent(0, 8), (false, false), Vec::new()).expect("the rest is there");
}

/// Who starts a process has what is open here open for a moment too, and a claim on a device lasts as long as that: one test
/// with devices at a time.
static DEVICES: Mutex<()> = Mutex::new(());

/// A loop device over the file with blocks of so many bytes, for as long as it lives.
struct Loop(PathBuf);

impl Loop {
    /// Nothing, loudly, where the machine lets us have none.
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
        // What cannot be taken down is seen in the next run.
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
            matches!(Real::open(&path, OPENING), Err(RealError::InUse(_))),
            "a loop is over it"
        );
        let real = Real::open(&device.0, OPENING).expect("nobody uses it");
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
        let again = Real::open(&device.0, OPENING);
        assert!(matches!(again, Err(RealError::InUse(_) | RealError::Locked)), "it is claimed");
    }
}

#[test]
fn what_somebody_put_on_a_block_device_is_served_only_if_that_is_said() {
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
    let refused = Real::open(&device.0, OPENING).map(drop).expect_err("it holds something");
    assert!(matches!(refused, RealError::Foreign(_)), "{refused}");
    assert!(refused.to_string().contains("`adopt = true`"), "{refused}");
    Real::open(&device.0, Opening { adopt: true, ..OPENING }).expect("it was said");
    drop(device);
    Real::open(&path, OPENING).expect("whoever names a file means it");
}
