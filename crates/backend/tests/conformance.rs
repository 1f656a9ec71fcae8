//! What every backend and every layer guarantees, checked for each of them. A new backend is one
//! more entry in [`subjects`].

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use spindle_backend::device::WriteCacheUse;
use spindle_backend::{
    AbsentDisk, Allocation, Buffers, Completion, Disk, EmulatedDisk, Failure, FaultKind,
    FaultRates, FaultRule, FaultScript, FileStore, HealthMonitor, HealthState, IoMethod, Job,
    MemoryDisk, NullDisk, Part, RamStore, RandomFaults, RealDisk, RealOptions, ScriptedFaults,
    Store, Tag,
};
use tempfile::TempDir;
use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors, Share};

/// Sectors of the disks that choose their size; the facts stay within it.
const SECTORS: u64 = 4_096;

/// Jobs in flight at once: every backend's queue holds as many.
const DEPTH: u64 = 8;

/// The longest wait for a wake-up. A backend that loses one fails here instead of hanging.
const WAKE_MAX: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// Opens a disk in a directory.
type Open = Box<dyn Fn(&Path) -> Box<dyn Disk>>;

/// A disk under test.
struct Subject {
    name: String,
    open: Open,
    /// Whether it returns what was written.
    stores: bool,
    /// Whether what was written is there when it is opened again on the same directory.
    survives: bool,
}

fn subject(
    name: &str,
    (stores, survives): (bool, bool),
    open: impl Fn(&Path) -> Box<dyn Disk> + 'static,
) -> Subject {
    Subject { name: name.to_owned(), open: Box::new(open), stores, survives }
}

fn model(name: &str) -> drive::AnyModel {
    drive_library::find(name).expect("in the library").check().expect("sound")
}

fn real(dir: &Path, buffered: bool, ring: bool) -> Box<dyn Disk> {
    let path = dir.join("real.img");
    if !path.exists() {
        std::fs::File::create(&path).and_then(|file| file.set_len(SECTORS * 512)).expect("space");
    }
    let options = RealOptions {
        capacity: Sectors(SECTORS),
        depth: u32::try_from(DEPTH).expect("a few"),
        buffered,
        adopt: false,
        ring,
        write_cache: WriteCacheUse::Flushed,
    };
    let disk = RealDisk::open(&path, options).expect("a scratch directory takes every backend");
    if ring && disk.io_method() == Some(IoMethod::Threads) {
        eprintln!("note: this machine has no io_uring; threads are tested instead");
    }
    Box::new(disk)
}

/// A drive model with its data in `store`.
fn emulated(name: &str, store: impl Store + 'static) -> Box<dyn Disk> {
    Box::new(EmulatedDisk::new(model(name), Box::new(store)))
}

const NO_FAULTS: FaultRates = FaultRates {
    seed: 1,
    read: Share::NONE,
    write: Share::NONE,
    flush: Share::NONE,
    stall: Share::NONE,
    stall_for: Duration::from_millis(1),
    vanish_after: None,
};

/// Every backend.
fn backends() -> Vec<Subject> {
    vec![
        subject("emulated in memory, mechanical", (true, false), |_| {
            emulated("barracuda-2t", RamStore::default())
        }),
        subject("emulated in a file", (true, true), |dir| {
            let capacity = model("barracuda-2t").capacity();
            let store = FileStore::open(&dir.join("emulated.img"), capacity);
            emulated("barracuda-2t", store.expect("a scratch directory takes a sparse file"))
        }),
        subject("memory", (true, false), |_| Box::new(MemoryDisk::new(Sectors(SECTORS)))),
        subject("null", (false, false), |_| Box::new(NullDisk::new(Sectors(SECTORS)))),
        subject("emulated in memory, slowed", (true, false), |_| {
            let disk = EmulatedDisk::new(model("barracuda-2t"), Box::<RamStore>::default());
            Box::new(disk.slowed(Share::from_percent(70)))
        }),
        subject("real file, io_uring", (true, true), |dir| real(dir, false, true)),
        subject("real file, threads", (true, true), |dir| real(dir, false, false)),
        subject("real file, page cache", (true, true), |dir| real(dir, true, false)),
    ]
}

/// A layer that changes nothing, before a disk.
type Layer = fn(Box<dyn Disk>) -> Box<dyn Disk>;

/// Every backend, and every backend behind each layer.
fn subjects() -> Vec<Subject> {
    let layers: [(&str, Layer); 3] = [
        ("health monitor", |disk| Box::new(HealthMonitor::new(disk))),
        ("random faults", |disk| Box::new(RandomFaults::new(disk, NO_FAULTS))),
        ("scripted faults", |disk| Box::new(ScriptedFaults::new(disk, FaultScript::default()))),
    ];
    let mut subjects = backends();
    for (layer, over) in layers {
        for Subject { name, open, stores, survives } in backends() {
            let open = Box::new(move |dir: &Path| over(open(dir)));
            subjects.push(Subject {
                name: format!("{layer} before {name}"),
                open,
                stores,
                survives,
            });
        }
    }
    subjects
}

/// Beside the test binary, not in the directory of temporary files: that can be memory, which takes
/// no direct access.
fn scratch() -> TempDir {
    let beside = std::env::current_exe().expect("it runs");
    tempfile::tempdir_in(beside.parent().expect("it lies in a directory")).expect("space")
}

/// Checks one fact of every subject, and names the one that breaks it.
fn holds(fact: impl Fn(&mut Driver, &Subject)) {
    for subject in subjects() {
        let dir = scratch();
        let mut driver = Driver::new((subject.open)(dir.path()));
        let checked = catch_unwind(AssertUnwindSafe(|| fact(&mut driver, &subject)));
        assert!(checked.is_ok(), "broken by: {}", subject.name);
    }
}

/// A disk with a driver that sleeps until it is woken.
struct Driver {
    disk: Box<dyn Disk>,
    woken: Arc<OwnedFd>,
    now: Instant,
    tags: u64,
    in_flight: BTreeMap<Tag, Operation>,
}

impl Driver {
    fn new(mut disk: Box<dyn Disk>) -> Self {
        let woken = eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor");
        let woken = Arc::new(woken);
        let waker = Arc::clone(&woken);
        disk.set_waker(Arc::new(move || {
            rustix::io::write(&*waker, &1_u64.to_ne_bytes()).expect("an eventfd counts far");
        }));
        Self { disk, woken, now: Instant::ZERO, tags: 0, in_flight: BTreeMap::new() }
    }

    fn submit(&mut self, operation: Operation, data: impl Into<Buffers>, no_hole: bool) -> Tag {
        self.tags += 1;
        let tag = Tag(self.tags);
        self.in_flight.insert(tag, operation);
        self.disk.submit(Job { tag, operation, data: data.into(), no_hole }, self.now);
        tag
    }

    /// The next completion, of a job in flight: waits by timer, completion descriptor and waker.
    fn reap(&mut self) -> Completion {
        loop {
            if let Some(completion) = self.disk.reap(self.now) {
                let operation = self.in_flight.remove(&completion.tag);
                let operation = operation.expect("a job in flight completes, and once");
                if let (Op::Read, Ok(())) = (operation.op, &completion.result) {
                    for (part, bytes) in completion.data.parts(operation.extent) {
                        assert_eq!(bytes.len(), part.len.bytes_usize(), "all of the extent");
                    }
                }
                return completion;
            }
            assert!(!self.in_flight.is_empty(), "a completion is awaited without a job");
            self.disk.start();
            match self.disk.next_event() {
                Some(at) => self.now = self.now.max(at),
                None => self.sleep(),
            }
        }
    }

    fn sleep(&mut self) {
        let watch = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut watched = vec![watch(self.woken.as_fd())];
        watched.extend(self.disk.completion_fd().map(watch));
        let ready = poll(&mut watched, Some(&WAKE_MAX)).expect("poll");
        assert!(ready > 0, "neither the waker nor the completion descriptor wakes the driver");
        let by_fd = watched.get(1).is_some_and(|fd| !fd.revents().is_empty());
        // Drained, so that the next sleep waits for the next wake-up.
        let _ = rustix::io::read(&*self.woken, &mut [0; 8]);
        assert!(!by_fd || self.disk.has_completions(), "the descriptor is readable for nothing");
    }

    /// Submits a job and waits for its completion.
    fn run(&mut self, op: Op, extent: Extent, data: Vec<u8>) -> Vec<u8> {
        self.run_as(Operation { op, extent, fua: false }, data, false)
    }

    fn run_as(&mut self, operation: Operation, data: Vec<u8>, no_hole: bool) -> Vec<u8> {
        let tag = self.submit(operation, data, no_hole);
        let completion = self.reap();
        assert_eq!(completion.tag, tag);
        completion.into_bytes().expect("no fault is injected")
    }
}

fn extent(start: u64, len: u64) -> Extent {
    Extent::new(Lba(start), Sectors(len))
}

/// Bytes in which each sector carries its address and `stamp`.
fn pattern(extent: Extent, stamp: u64) -> Vec<u8> {
    let sectors = extent.start.0..extent.end().0;
    sectors.flat_map(|sector| (sector ^ (stamp << 32)).to_ne_bytes().repeat(64)).collect()
}

#[test]
fn what_was_written_is_read_back_and_the_rest_is_zeroes() {
    holds(|driver, subject| {
        // Aligned and not, short and long, one sector and more than a copied transfer holds.
        let written = [extent(8, 8), extent(17, 1), extent(100, 300), extent(1_024, 512)];
        for place in written {
            driver.run(Op::Write, place, pattern(place, 1));
        }
        for place in written {
            let read = driver.run(Op::Read, place, Vec::new());
            assert!(!subject.stores || read == pattern(place, 1), "{place} reads otherwise");
            let blocking = driver.disk.read_blocking(place).expect("no fault");
            assert!(!subject.stores || blocking == read, "{place} read blocking");
        }
        let between = driver.run(Op::Read, extent(18, 82), Vec::new());
        assert!(!subject.stores || between.iter().all(|byte| *byte == 0));
    });
}

#[test]
fn trimmed_and_zeroed_sectors_read_as_zeroes_and_their_neighbours_keep_their_data() {
    holds(|driver, subject| {
        let all = extent(0, 1_024);
        driver.run(Op::Write, all, pattern(all, 2));
        let zeroed = [(Op::Trim, false, extent(10, 200)), (Op::WriteZeroes, false, extent(300, 7))];
        let kept = [(Op::WriteZeroes, true, extent(512, 129))];
        for (op, no_hole, place) in zeroed.into_iter().chain(kept) {
            driver.run_as(Operation { op, extent: place, fua: false }, Vec::new(), no_hole);
        }
        let mut expected = pattern(all, 2);
        for (_, _, place) in zeroed.into_iter().chain(kept) {
            let start = Sectors(place.start.0).bytes_usize();
            expected[start..start + place.len.bytes_usize()].fill(0);
        }
        assert!(!subject.stores || driver.run(Op::Read, all, Vec::new()) == expected);
    });
}

#[test]
fn flushes_and_forced_writes_complete_and_the_data_survives_where_the_backend_does() {
    for subject in subjects() {
        let dir = scratch();
        let (forced, flushed) = (extent(64, 64), extent(1_000, 9));
        let mut driver = Driver::new((subject.open)(dir.path()));
        let operation = Operation { op: Op::Write, extent: forced, fua: true };
        driver.run_as(operation, pattern(forced, 3), false);
        driver.run(Op::Write, flushed, pattern(flushed, 3));
        driver.run(Op::Flush, extent(0, 0), Vec::new());
        drop(driver);
        if subject.survives {
            let mut again = (subject.open)(dir.path());
            for place in [forced, flushed] {
                assert!(
                    again.read_blocking(place) == Ok(pattern(place, 3)),
                    "{}: {place} is lost",
                    subject.name
                );
            }
        }
    }
}

#[test]
fn completions_carry_their_tags_in_any_order_and_every_job_completes_once() {
    holds(|driver, subject| {
        // Far apart and of different lengths, so that a drive can reorder them.
        let place = |n: u64| extent((n * 1_237) % 3_000, 1 + n * 13);
        let writes: Vec<_> = (0..DEPTH).map(place).collect();
        for write in &writes {
            let operation = Operation { op: Op::Write, extent: *write, fua: false };
            driver.submit(operation, pattern(*write, 4), false);
        }
        for _ in &writes {
            driver.reap().result.expect("no fault");
        }
        let mut expected = BTreeMap::new();
        for read in &writes {
            let operation = Operation { op: Op::Read, extent: *read, fua: false };
            expected.insert(driver.submit(operation, Vec::new(), false), *read);
        }
        let mut seen = 0;
        while !driver.in_flight.is_empty() {
            let completion = driver.reap();
            let place = expected.remove(&completion.tag).expect("a read's tag, once");
            let data = completion.into_bytes().expect("no fault");
            assert!(!subject.stores || data == pattern(place, 4), "{place}: another job's data");
            seen += 1;
        }
        assert_eq!((seen, expected.len()), (DEPTH, 0));
        assert!(driver.disk.reap(driver.now).is_none(), "no completion without a job");
        assert_eq!(driver.disk.next_event(), None, "an idle disk has no event");
    });
}

#[test]
fn a_buffer_is_filled_exactly_whatever_buffer_a_read_brings() {
    holds(|driver, subject| {
        let place = extent(40, 24);
        driver.run(Op::Write, place, pattern(place, 5));
        let bytes = place.len.bytes_usize();
        for capacity in [0, 1, bytes, bytes * 2, bytes * 8] {
            let read = driver.run(Op::Read, place, Vec::with_capacity(capacity));
            assert!(!subject.stores || read == pattern(place, 5), "capacity {capacity}");
        }
        let returned = driver.run(Op::Write, place, pattern(place, 6));
        assert!(returned.capacity() <= bytes.next_power_of_two() * 2, "the write's own buffer");
    });
}

/// A list of buffers for `place`, of which the lengths of the parts repeat `lengths`. `stamp` is
/// that of the bytes to write; a list to read into has none.
fn list(place: Extent, lengths: &[u64], stamp: Option<u64>) -> Buffers {
    let (mut parts, mut rest) = (Vec::new(), place);
    for len in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (head, tail) = rest.split_at(Sectors(*len).min(rest.len));
        let bytes = stamp.map_or_else(Vec::new, |stamp| pattern(head, stamp));
        parts.push(Part { len: head.len, bytes });
        rest = tail;
    }
    Buffers::List(parts)
}

/// The addresses of the buffers of `place`.
fn addresses(data: &Buffers, place: Extent) -> Vec<*const u8> {
    data.parts(place).map(|(_, bytes)| bytes.as_ptr()).collect()
}

#[test]
fn a_list_is_written_and_read_as_one_buffer_is_and_its_buffers_come_back() {
    // Odd and even parts, aligned places and not, few parts and more than a system call takes.
    let splits: [&[u64]; 5] = [&[1, 7, 3], &[8], &[64, 1], &[128, 8], &[1]];
    holds(|driver, subject| {
        for (nth, lengths) in splits.into_iter().enumerate() {
            let stamp = nth as u64;
            let place = extent(40 + stamp * 300, 200 + stamp);
            let data = list(place, lengths, Some(stamp));
            let at = addresses(&data, place);
            let operation = Operation { op: Op::Write, extent: place, fua: nth % 2 == 0 };
            driver.submit(operation, data, false);
            let written = driver.reap();
            assert_eq!(written.result, Ok(()));
            assert_eq!(addresses(&written.data, place), at, "the buffers of a write come back");
            assert!(written.into_bytes() == Ok(pattern(place, stamp)), "with their bytes");
            let whole = driver.run(Op::Read, place, Vec::new());
            assert!(!subject.stores || whole == pattern(place, stamp), "{lengths:?} as one");
            driver.submit(Operation::read(place), list(place, &[3, 1, 90], None), false);
            let read = driver.reap();
            let lengths = read.data.parts(place).map(|(_, bytes)| bytes.len());
            let split: Vec<_> = lengths.take(3).collect();
            assert_eq!(split, [3 * 512, 512, 90 * 512], "each part has its sectors");
            let bytes = read.into_bytes();
            assert!(!subject.stores || bytes == Ok(pattern(place, stamp)), "{split:?} of a list");
        }
    });
}

#[test]
fn the_buffers_of_a_failed_write_come_back_with_their_bytes() {
    let always = FaultRates { write: Share::ALL, ..NO_FAULTS };
    let vanished = FaultRates { vanish_after: Some(0), ..NO_FAULTS };
    let script = FaultScript::default();
    let kind = FaultKind::Fails(Failure::Io);
    script.add(FaultRule { op: Some(Op::Write), extent: Some(extent(12, 1)), after: 0, kind });
    let memory = || Box::new(MemoryDisk::new(Sectors(SECTORS)));
    let layers: [Box<dyn Disk>; 5] = [
        Box::new(ScriptedFaults::new(memory(), script)),
        Box::new(RandomFaults::new(memory(), always)),
        Box::new(RandomFaults::new(memory(), vanished)),
        Box::new(HealthMonitor::offline(memory())),
        Box::new(AbsentDisk::new(Sectors(SECTORS))),
    ];
    for (nth, disk) in layers.into_iter().enumerate() {
        let mut driver = Driver::new(disk);
        // Both kinds of random faults: with the write carried out, and without.
        for _ in 0..8 {
            let place = extent(8, 24);
            let data = list(place, &[1, 7], Some(1));
            let at = addresses(&data, place);
            driver.submit(Operation::write(place), data, false);
            let failed = driver.reap();
            assert!(failed.result.is_err(), "layer {nth} fails it");
            assert_eq!(addresses(&failed.data, place), at, "layer {nth} returns the buffers");
            assert!(failed.data.into_bytes() == pattern(place, 1), "layer {nth} keeps the bytes");
        }
    }
}

#[test]
fn a_disk_that_is_given_up_keeps_the_buffers_that_its_device_may_use() {
    let script = FaultScript::default();
    let rule = FaultRule { op: None, extent: None, after: 0, kind: FaultKind::Stalls };
    script.add(rule);
    let memory = Box::new(MemoryDisk::new(Sectors(SECTORS)));
    let faults = ScriptedFaults::new(memory, script.clone());
    let mut monitor = HealthMonitor::new(Box::new(faults));
    let place = extent(8, 24);
    let job = |data| Job { tag: Tag(1), operation: Operation::write(place), data, no_hole: false };
    monitor.submit(job(list(place, &[8], Some(1))), Instant::ZERO);
    monitor.give_up(Instant::ZERO);
    let failed = monitor.reap(Instant::ZERO).expect("it has failed");
    assert_eq!((failed.result, failed.data), (Err(Failure::Offline), Buffers::default()));
    monitor.submit(job(list(place, &[8], Some(2))), Instant::ZERO);
    let refused = monitor.reap(Instant::ZERO).expect("it is refused");
    assert!(refused.data.into_bytes() == pattern(place, 2), "the device has not seen it");
    script.lift();
    assert!(monitor.reap(Instant::ZERO).is_none(), "what the device says later is dropped");
    assert!(monitor.read_blocking(place) == Ok(pattern(place, 1)), "it had the bytes");
}

#[test]
fn buffers_that_do_not_fit_their_command_are_refused() {
    let place = extent(8, 24);
    let mut accepted = Vec::new();
    for subject in subjects() {
        for data in [list(extent(8, 23), &[8], Some(1)), list(place, &[8], None)] {
            let dir = scratch();
            let mut driver = Driver::new((subject.open)(dir.path()));
            let submitted = catch_unwind(AssertUnwindSafe(|| {
                driver.submit(Operation::write(place), data, false);
            }));
            if submitted.is_ok() {
                accepted.push(subject.name.clone());
            }
        }
    }
    assert!(accepted.is_empty(), "accepted: {accepted:#?}");
}

#[test]
fn the_allocation_status_covers_the_extent_and_written_sectors_are_allocated() {
    holds(|driver, subject| {
        let written = extent(512, 256);
        driver.run(Op::Write, written, pattern(written, 7));
        let mut rest = extent(0, 2_048);
        while !rest.is_empty() {
            let Some((allocation, len)) = driver.disk.allocation(rest) else { return };
            assert!(len > Sectors::ZERO && len <= rest.len, "{len:?} of {rest}");
            let head = rest.split_at(len).0;
            let overlaps = head.start < written.end() && written.start < head.end();
            let hole = subject.stores && allocation == Allocation::Hole;
            assert!(!(overlaps && hole), "{head} was written, and is told as a hole");
            rest = rest.split_at(len).1;
        }
    });
}

#[test]
fn a_disk_that_completes_synchronously_has_the_completion_on_return() {
    holds(|driver, _| {
        if driver.disk.completes_synchronously() {
            let operation = Operation { op: Op::Read, extent: extent(0, 8), fua: false };
            let tag = driver.submit(operation, Vec::new(), false);
            assert_eq!(driver.disk.next_event(), Some(driver.now));
            let completion = driver.disk.reap(driver.now).expect("it has completed");
            assert_eq!(completion.tag, tag);
        }
    });
}

#[test]
fn closing_with_commands_in_flight_neither_hangs_nor_tears_a_sector() {
    for subject in subjects() {
        let dir = scratch();
        let places: Vec<_> = (0..DEPTH).map(|n| extent(n * 256, 256)).collect();
        let mut driver = Driver::new((subject.open)(dir.path()));
        for place in &places {
            let operation = Operation { op: Op::Write, extent: *place, fua: false };
            driver.submit(operation, pattern(*place, 8), false);
        }
        driver.disk.start();
        drop(driver);
        if !subject.survives {
            continue;
        }
        let mut again = (subject.open)(dir.path());
        for place in &places {
            let read = again.read_blocking(*place).expect("no fault");
            let expected = pattern(*place, 8);
            for (found, new) in read.chunks(512).zip(expected.chunks(512)) {
                let whole = found == new || found.iter().all(|byte| *byte == 0);
                assert!(whole, "{}: a sector of {place} is torn", subject.name);
            }
        }
    }
}

#[test]
fn an_extent_past_the_end_is_refused() {
    let mut accepted = Vec::new();
    for subject in subjects() {
        let dir = scratch();
        let end = (subject.open)(dir.path()).capacity().0;
        let past = extent(end - 1, 2);
        for op in [Op::Read, Op::Write] {
            let dir = scratch();
            let mut driver = Driver::new((subject.open)(dir.path()));
            let data = if op == Op::Write { vec![0; 1_024] } else { Vec::new() };
            let operation = Operation { op, extent: past, fua: false };
            let submitted = catch_unwind(AssertUnwindSafe(|| {
                driver.submit(operation, data, false);
            }));
            if submitted.is_ok() {
                accepted.push(format!("{}: {op}", subject.name));
            }
        }
        let mut disk = (subject.open)(scratch().path());
        if catch_unwind(AssertUnwindSafe(|| disk.read_blocking(past))).is_ok() {
            accepted.push(format!("{}: read_blocking", subject.name));
        }
    }
    assert!(accepted.is_empty(), "accepted past the end: {accepted:#?}");
}

#[test]
fn a_fault_behind_a_layer_reaches_the_client_and_the_health_once() {
    let script = FaultScript::default();
    let memory = Box::new(MemoryDisk::new(Sectors(SECTORS)));
    let faults = ScriptedFaults::new(memory, script.clone());
    let mut monitor = HealthMonitor::new(Box::new(faults));
    let failure = Failure::Io;
    let kind = FaultKind::Fails(failure);
    script.add(FaultRule { op: Some(Op::Flush), extent: None, after: 0, kind });
    let operation = Operation { op: Op::Flush, extent: extent(0, 0), fua: false };
    let job = |tag| Job { tag: Tag(tag), operation, data: Buffers::default(), no_hole: false };
    monitor.submit(job(1), Instant::ZERO);
    let failed = monitor.reap(Instant::ZERO).expect("it has completed");
    assert_eq!((failed.tag, failed.result.err()), (Tag(1), Some(failure)));
    assert_eq!(monitor.state(), HealthState::Poisoned);
    script.lift();
    monitor.submit(job(2), Instant::ZERO);
    let refused = monitor.reap(Instant::ZERO).expect("it is refused at once");
    assert_eq!((refused.tag, refused.result.err()), (Tag(2), Some(failure)));
    assert_eq!(monitor.health(Instant::ZERO).refused, 1);
}
