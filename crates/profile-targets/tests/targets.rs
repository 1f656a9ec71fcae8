//! Facts about every target in real time: each command completes, later than it was submitted, and
//! nothing is written unless allowed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use profiler::{Outcome, Tag, Target};
use spindle_profile_targets::{AccessMode, BlockTarget, EmulatedTarget, OpenError};
use units::{Duration, Extent, Lba, Operation, Sectors};

const BYTES: usize = 4 << 20;

/// A file with data, on a file system with direct access.
fn file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut file = fs::File::create(&path).expect("a scratch file");
    file.write_all(&vec![7; BYTES]).expect("room");
    file.sync_all().expect("it is written");
    path
}

fn read(lba: u64, len: u64) -> Operation {
    Operation::read(Extent::new(Lba(lba), Sectors(len)))
}

/// One command at a time, and as many as the target accepts.
fn completes_each_command(target: &mut dyn Target) {
    let block = target.facts().block.0;
    for nth in 0..4 {
        let before = target.now();
        let at = target.submit(Tag(nth), read(nth * 64, block));
        let done = target.complete();
        assert_eq!((done.tag, done.outcome), (Tag(nth), Outcome::Done));
        assert!(before <= at && at <= done.completed && done.submitted <= done.completed);
        assert!(done.completed <= target.now());
    }
    let many = u64::from(target.facts().depth_max);
    for nth in 0..many {
        target.submit(Tag(100 + nth), read(nth * 64, 8));
    }
    let until = target.now() + Duration::from_millis(2);
    target.wait_until(until);
    assert!(target.now() >= until);
    let mut tags: Vec<u64> = (0..many).map(|_| target.complete().tag.0).collect();
    tags.sort_unstable();
    assert!(tags.into_iter().eq((0..many).map(|nth| 100 + nth)));
}

fn emulated(name: &str) -> EmulatedTarget {
    let spec = drive_library::find(name).expect("in it");
    EmulatedTarget::new(spec.check().expect("a drive"), false)
}

#[test]
fn a_file_completes_commands() {
    let path = file("answers.img");
    let mut target = BlockTarget::open(&path, AccessMode::default()).expect("it can be opened");
    assert_eq!(target.facts().sectors.bytes().0, BYTES as u64);
    assert!(!target.facts().writable && !target.is_sparse());
    completes_each_command(&mut target);
    assert!(target.processor().values().map(|sum| sum.count).sum::<u64>() >= 36);
}

#[test]
fn emulated_drives_complete_commands() {
    completes_each_command(&mut emulated("samsung-870evo-1t"));
    completes_each_command(&mut emulated("cheetah9LP"));
}

#[test]
fn a_file_that_may_be_overwritten_is_and_another_is_not() {
    let path = file("written.img");
    let write = Operation::write(Extent::new(Lba(8), Sectors(8)));
    let access = AccessMode { write: true, ..AccessMode::default() };
    let mut target = BlockTarget::open(&path, access).expect("it can be opened");
    for (tag, operation) in [(1, write), (2, write.with_fua()), (3, Operation::flush())] {
        target.submit(Tag(tag), operation);
        assert_eq!(target.complete().outcome, Outcome::Done, "{operation:?}");
    }
    let bytes = fs::read(&path).expect("it is there");
    assert!(bytes[4_096..8_192].iter().any(|byte| *byte != 7));
    assert!(bytes[..4_096].iter().chain(&bytes[8_192..]).all(|byte| *byte == 7));

    let mut target = BlockTarget::open(&path, AccessMode::default()).expect("it can be opened");
    let refused = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        target.submit(Tag(1), write);
    }));
    assert!(refused.is_err(), "writing was not allowed");
}

#[test]
fn a_read_behind_the_end_fails_and_is_an_answer() {
    let path = file("short.img");
    let mut target = BlockTarget::open(&path, AccessMode::default()).expect("it can be opened");
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("it is there")
        .set_len(4_096)
        .expect("shorter");
    target.submit(Tag(1), read(4_096, 8));
    assert_eq!(target.complete().outcome, Outcome::Failed);
}

#[test]
fn other_files_are_refused() {
    let open = |path: &Path| BlockTarget::open(path, AccessMode::default());
    assert!(matches!(open(Path::new("/no/such")), Err(OpenError::Io(_))));
    assert!(matches!(open(Path::new("/dev/null")), Err(OpenError::NoDevice)));
    let path = file("small.img");
    fs::write(&path, [0; 4_096]).expect("room");
    assert!(matches!(open(&path), Err(OpenError::TooSmall(_))));
}

#[test]
fn a_file_with_partitions_is_not_overwritten() {
    let path = file("partitioned.img");
    let mut bytes = vec![0; BYTES];
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    fs::write(&path, bytes).expect("room");
    let access = AccessMode { write: true, ..AccessMode::default() };
    assert!(matches!(BlockTarget::open(&path, access), Err(OpenError::InUse(_))));
    assert!(BlockTarget::open(&path, AccessMode::default()).is_ok(), "reading is harmless");
}
