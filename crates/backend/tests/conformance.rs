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
    Allocation, Completion, Disk, EmulatedDisk, FaultRates, FaultScript, FileStore, HealthMonitor,
    HealthState, IoMethod, Job, MemoryDisk, NullDisk, RamStore, RandomFaults, RealDisk,
    RealOptions, ScriptedFaults, Store, Tag,
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

    fn submit(&mut self, operation: Operation, data: Vec<u8>, no_hole: bool) -> Tag {
        self.tags += 1;
        let tag = Tag(self.tags);
        self.in_flight.insert(tag, operation);
        self.disk.submit(Job { tag, operation, data, no_hole }, self.now);
        tag
    }

    /// The next completion, of a job in flight: waits by timer, completion descriptor and waker.
    fn reap(&mut self) -> Completion {
        loop {
            if let Some(completion) = self.disk.reap(self.now) {
                let operation = self.in_flight.remove(&completion.tag);
                let operation = operation.expect("a job in flight completes, and once");
                if let (Op::Read, Ok(data)) = (operation.op, &completion.result) {
                    assert_eq!(data.len(), operation.extent.len.bytes_usize(), "all of the extent");
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
        completion.result.expect("no fault is injected")
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
            let Completion { tag, result, .. } = driver.reap();
            let place = expected.remove(&tag).expect("a read's tag, once");
            let data = result.expect("no fault");
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
    let failure = spindle_backend::Failure::Io;
    let kind = spindle_backend::FaultKind::Fails(failure);
    script.add(spindle_backend::FaultRule { op: Some(Op::Flush), extent: None, after: 0, kind });
    let operation = Operation { op: Op::Flush, extent: extent(0, 0), fua: false };
    let job = |tag| Job { tag: Tag(tag), operation, data: Vec::new(), no_hole: false };
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
