//! A merged command allocates no memory: its list and its buffers are used again.

use std::path::Path;

use spindle_backend::device::WriteCacheUse;
use spindle_backend::{
    Buffers, Disk, EmulatedDisk, Job, MemoryDisk, Part, RamStore, RealDisk, RealOptions, Tag,
};
use units::{Extent, Instant, Lba, Op, Operation, Sectors};

/// Lengths of the parts of a command, 128 KiB together: short ones, and long ones, which io_uring
/// transfers where they are.
const SPLITS: [&[u64]; 2] = [&[8, 1, 127, 64, 16, 40], &[80, 176]];
const COMMAND: Extent = Extent { start: Lba(64), len: Sectors(256) };
const COMMANDS: u64 = 200;

/// A buffer of ones that begins where direct access takes it.
fn aligned(len: Sectors) -> Vec<u8> {
    let mut others = Vec::new();
    loop {
        // Not a multiple of the alignment: the next one begins elsewhere.
        let mut bytes = Vec::with_capacity(len.bytes_usize() + 16);
        bytes.resize(len.bytes_usize(), 1);
        if bytes.as_ptr().align_offset(4_096) == 0 {
            return bytes;
        }
        others.push(bytes);
        assert!(others.len() < 100_000, "the allocator gives all addresses");
    }
}

/// Allocations of writes and reads in turn, once each kind has been there.
fn allocations(disk: &mut dyn Disk, lengths: &[u64]) -> u64 {
    let part = |len: &u64| Part { len: Sectors(*len), bytes: aligned(Sectors(*len)) };
    let (mut list, mut now) = (lengths.iter().map(part).collect::<Vec<_>>(), Instant::ZERO);
    let mut run = |op: Op| {
        if op == Op::Read {
            for part in &mut list {
                part.bytes.clear();
            }
        }
        let operation = Operation { op, extent: COMMAND, fua: false };
        let data = Buffers::List(core::mem::take(&mut list));
        disk.submit(Job { tag: Tag(1), operation, data, no_hole: false }, now);
        disk.start();
        let done = loop {
            now = now.max(disk.next_event().unwrap_or(now));
            if let Some(done) = disk.reap(now) {
                break done;
            }
            std::thread::yield_now();
        };
        assert_eq!(done.result, Ok(()));
        let Buffers::List(back) = done.data else { panic!("the list comes back") };
        assert!(back.iter().all(|part| part.bytes.iter().all(|byte| *byte == 1)));
        list = back;
    };
    let mut both = || [Op::Write, Op::Read].into_iter().for_each(&mut run);
    both();
    allocation_counter::measure(|| (0..COMMANDS).for_each(|_| both())).count_total
}

fn real(dir: &Path) -> RealDisk {
    let path = dir.join("disk.img");
    std::fs::File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("space");
    let (capacity, depth, write_cache) = (Sectors(2_048), 1, WriteCacheUse::Flushed);
    let (buffered, adopt, ring) = (false, false, true);
    let options = RealOptions { capacity, depth, buffered, adopt, ring, write_cache };
    RealDisk::open(&path, options).expect("a scratch directory takes it")
}

#[test]
fn a_merged_command_allocates_nothing() {
    let model = drive_library::find("hgst-7k8").expect("in the library").check().expect("sound");
    // Beside the test binary: the directory of temporary files can be memory, which takes no
    // direct access.
    let beside = std::env::current_exe().expect("it runs");
    let dir = tempfile::tempdir_in(beside.parent().expect("a directory")).expect("space");
    let (mut memory, mut real) = (MemoryDisk::new(Sectors(2_048)), real(dir.path()));
    for lengths in SPLITS {
        let mut emulated = EmulatedDisk::new(model.clone(), Box::new(RamStore::default()));
        assert_eq!(allocations(&mut memory, lengths), 0, "in memory");
        assert_eq!(allocations(&mut emulated, lengths), 0, "behind a drive model");
        assert_eq!(allocations(&mut real, lengths), 0, "in a file");
    }
}
