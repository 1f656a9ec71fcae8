//! The decisions of a recorded run, with late completions and changes by the operator, are the same
//! in a replay; a damaged record is reported.

use std::sync::{Arc, Mutex};

use config::Plan;
use drive::AnyDevice;
use engine::{Action, Contract, Event, Outcome, Priority, Request, RequestId, VolumeId};
use proptest::prelude::*;
use rng::SeededRng;
use spindle_flight::{
    Decision, Encoder, End, Entry, Header, Input, MAGIC, ReadError, Reader, RecordSink,
    RecordedEngine, ReplayError, ReplayOutcome, SinkClosed, VERSION, replay,
};
use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors, Share};

/// A file in memory.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl RecordSink for Memory {
    fn write(&mut self, bytes: Vec<u8>) -> Result<(), SinkClosed> {
        self.0.lock().expect("not poisoned").extend(bytes);
        Ok(())
    }
}

fn place(rng: &mut SeededRng, len: usize) -> usize {
    usize::try_from(rng.below(len as u64)).expect("it is small")
}

const DISKS: [&str; 7] = [
    "policy = \"fcfs\"",
    "depth = 4\nbatch = \"0ms\"",
    "estimate = \"learned\"",
    "execution = \"preemptible\"",
    "policy = \"delta-l\"\nestimate = \"profile\"",
    "policy = \"delta-star\"\nexecution = \"preemptible\"\nchunk = \"64KiB\"",
    "policy = \"throughput\"",
];

fn header(disk: &str) -> (Header, AnyDevice) {
    let text = format!("[[disk]]\nname = \"d0\"\ndrive = \"st318437lw\"\n{disk}\n");
    let plan = Plan::parse(&text, "plan.toml", std::path::Path::new("")).expect("a plan");
    let disk = &plan.disks[0];
    let header = Header {
        program: "spindle 0".to_owned(),
        disk: disk.name.clone(),
        config: text,
        settings: disk.settings(),
        profile: disk.host_profile(),
        started_at: Instant::from_nanos(123_456),
    };
    (header, AnyDevice::new(disk.drive.model.clone()).slowed(disk.slowed))
}

/// Serves a disk for `iterations` iterations of its loop, as a daemon's thread does. Returns the
/// bytes of its record.
fn serve(disk: &str, seed: u64, turns: u64) -> Vec<u8> {
    let (header, mut device) = header(disk);
    let (memory, mut rng) = (Memory::default(), SeededRng::new(seed, 0));
    let mut engine =
        RecordedEngine::new(&header, Box::new(memory.clone())).expect("memory takes all");
    let mut now = header.started_at;
    let reserve = |percent| Contract::reserve(Share::from_percent(percent));
    for percent in [40, 10, 0] {
        engine.add_volume(reserve(percent), now).expect("it fits");
    }
    if !header.settings.policy.has_deadlines() {
        engine.set_priority(VolumeId(2), Priority::High, now);
    }
    let mut open: Vec<Option<VolumeId>> = Vec::new();
    for turn in 0..turns {
        if turn == turns / 3 {
            let limit = Share::from_percent(60);
            let contract = Contract { limit, ..reserve(20) };
            engine.handle(Event::ContractChanged { volume: VolumeId(0), contract }, now);
            engine.add_volume(reserve(5), now).expect("it fits");
        }
        if turn == turns / 2 {
            let (period, batch) = (Duration::from_millis(500), Duration::ZERO);
            engine.handle(Event::PeriodChanged { period, batch }, now);
            let _ = engine.balance(VolumeId(1), now);
            if !open.contains(&Some(VolumeId(3))) {
                engine.handle(Event::VolumeRemoved { volume: VolumeId(3) }, now);
            }
        }
        while open.iter().flatten().count() < 6 {
            let volume = VolumeId(u32::try_from(rng.below(3)).expect("small"));
            let slot = open.iter().position(Option::is_none).unwrap_or(open.len());
            if slot == open.len() {
                open.push(None);
            }
            open[slot] = Some(volume);
            let op = [Op::Read, Op::Read, Op::Write, Op::Trim, Op::Flush][place(&mut rng, 5)];
            let extent = Extent::new(Lba(rng.below(30_000_000)), Sectors(8 << rng.below(9)));
            let none = Extent::new(Lba(0), Sectors::ZERO);
            let extent = if op == Op::Flush { none } else { extent };
            let operation = Operation { op, extent, fua: rng.below(9) == 0 };
            let id = RequestId(slot as u64);
            engine.handle(Event::Submit(Request { id, volume, operation }), now);
        }
        while let Some(done) = device.complete(now) {
            let outcome = if rng.below(50) == 0 { Outcome::Failed } else { Outcome::Done };
            let command = engine::CommandId(done.tag.0);
            engine.handle(Event::Completed { command, outcome }, now);
        }
        while let Some(action) = engine.poll(now) {
            match action {
                Action::Issue(command) => {
                    device.submit(now, drive::Tag(command.id.0), command.operation);
                }
                Action::Reply(reply) => {
                    open[usize::try_from(reply.request.0).expect("small")] = None;
                }
            }
        }
        engine.keep(now);
        let next = [device.next_completion(), engine.next_wakeup()].into_iter().flatten().min();
        let next = next.map_or(now, |next| next.max(now));
        now = next + Duration::from_nanos(1 + rng.below(400_000));
    }
    engine.close();

    memory.0.lock().expect("not poisoned").clone()
}

fn replayed(bytes: &[u8]) -> Result<ReplayOutcome, ReplayError> {
    replay(&mut Reader::new(bytes)?)
}

/// All entries.
fn entries(bytes: &[u8]) -> (Header, Vec<(Instant, Entry)>) {
    let mut reader = Reader::new(bytes).expect("a record");
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry().expect("it is whole") {
        entries.push(entry);
    }
    (reader.header().clone(), entries)
}

/// A record of these entries, with sound checksums.
fn written(header: &Header, entries: &[(Instant, Entry)]) -> Vec<u8> {
    let (mut encoder, mut bytes) = Encoder::new(header);
    for (at, entry) in entries {
        bytes.extend(encoder.put(*at, entry).unwrap_or_default());
    }
    bytes.extend(encoder.end());
    bytes
}

#[test]
fn every_decision_is_made_again_under_every_policy_and_execution() {
    for disk in DISKS {
        for seed in 1..=3 {
            let bytes = serve(disk, seed, 3_000);
            let done =
                replayed(&bytes).unwrap_or_else(|error| panic!("{disk}, seed {seed}: {error}"));
            assert_eq!(done.difference, None, "{disk}, seed {seed}");
            assert_eq!(done.end, Some(End::Closed), "{disk}, seed {seed}");
            assert!(done.commands > 300 && done.replies > 100, "{disk}, seed {seed}: {done:?}");
            let (header, all) = entries(&bytes);
            let again = written(&header, &all);
            assert!(entries(&again) == (header, all), "what was read is written the same");
        }
    }
}

#[test]
fn a_decision_that_was_changed_is_the_first_difference_and_so_is_what_follows_from_an_event() {
    let bytes = serve(DISKS[3], 5, 600);
    let (header, entries) = entries(&bytes);
    let issued = |(_, entry): &(Instant, Entry)| {
        matches!(entry, Entry::Decision(Decision::Act(Action::Issue(_))))
    };
    let place =
        entries.len() / 2 + entries[entries.len() / 2..].iter().position(issued).expect("some");
    let mut changed = entries.clone();
    let Entry::Decision(Decision::Act(Action::Issue(command))) = &mut changed[place].1 else {
        panic!()
    };
    command.operation.extent.start = Lba(command.operation.extent.start.0 + 1);
    let done = replayed(&written(&header, &changed)).expect("it can be replayed");
    let difference = done.difference.expect("one is told");
    assert_eq!(difference.entry, place as u64 + 1);
    assert_eq!(
        (Entry::Decision(difference.recorded), Entry::Decision(difference.decided)),
        (changed[place].1, entries[place].1)
    );
    let mut later = entries;
    let reads = |(_, entry): &(Instant, Entry)| {
        let Entry::Input(Input::Event(Event::Submit(request))) = entry else { return false };
        request.operation.op == Op::Read
    };
    let place = later.len() / 2;
    let place = place + later[place..].iter().position(reads).expect("there are reads");
    let Entry::Input(Input::Event(Event::Submit(request))) = &mut later[place].1 else { panic!() };
    request.operation.extent.len = Sectors(request.operation.extent.len.0 + 1);
    let told = replayed(&written(&header, &later));
    assert!(told.is_ok_and(|done| done.difference.is_some_and(|d| d.entry > place as u64)));
}

#[test]
fn wherever_a_record_is_torn_all_before_is_replayed_and_the_end_is_told() {
    let bytes = serve(DISKS[2], 2, 2_500);
    let whole = replayed(&bytes).expect("it is whole");
    let first = 12 + 12 + u32::from_le_bytes(bytes[12..16].try_into().expect("four")) as usize;
    let mut rng = SeededRng::new(1, 0);
    for _ in 0..200 {
        let end = first + place(&mut rng, bytes.len() - first);
        let done = replayed(&bytes[..end]).unwrap_or_else(|error| panic!("cut at {end}: {error}"));
        assert_eq!(done.difference, None, "cut at {end}");
        assert!(matches!(done.end, Some(End::Open | End::Torn { .. })), "cut at {end}: {done:?}");
        assert!(done.decisions < whole.decisions, "cut at {end}");
    }
    assert!(matches!(
        replayed(&bytes[..first - 1]),
        Err(ReplayError::Read(ReadError::NotARecord(_)))
    ));
}

#[test]
fn a_record_of_another_version_is_refused_with_the_version_that_is_read_and_documented() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/reference/flight-format.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    assert!(page.contains(&format!("\nVersion {VERSION}. ")));
    assert!(page.contains(&format!("u32, little-endian: {VERSION}\n")));
    let mut bytes = serve(DISKS[0], 7, 100);
    bytes[MAGIC.len()..][..4].copy_from_slice(&(VERSION - 1).to_le_bytes());
    let refusal = Reader::new(&bytes[..]).expect_err("it is another version").to_string();
    assert!(refusal.contains(&format!("version {VERSION}")), "{refusal}");
}

#[test]
fn a_byte_that_is_another_is_noticed_wherever_it_is() {
    let bytes = serve(DISKS[0], 4, 2_500);
    let mut rng = SeededRng::new(8, 0);
    for _ in 0..300 {
        let mut damaged = bytes.clone();
        let at = place(&mut rng, bytes.len());
        damaged[at] ^= 1 << rng.below(8);
        let told = match replayed(&damaged) {
            Err(ReplayError::Read(_)) => true,
            // A wrong length, or a wrong last block, is read as a truncated record.
            Ok(done) => matches!(done.end, Some(End::Torn { .. })),
            Err(_) => false,
        };
        assert!(told, "byte {at}");
    }
}

#[test]
fn a_block_that_is_missing_is_noticed() {
    let bytes = serve(DISKS[1], 6, 6_000);
    let len =
        |at: usize| 12 + u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
    let second = 12 + len(12);
    let third = second + len(second);
    assert!(third < bytes.len(), "it has three blocks");
    let short = [&bytes[..second], &bytes[third..]].concat();
    assert!(matches!(replayed(&short), Err(ReplayError::Read(ReadError::Damaged(_)))));
}

proptest! {
    /// With valid checksums: impossible inputs are refused and never cause a panic.
    #[test]
    fn entries_that_were_made_up_are_refused_or_differ(seed: u64, disk in 0..DISKS.len()) {
        let (header, mut entries) = entries(&serve(DISKS[disk], seed % 5, 120));
        let mut rng = SeededRng::new(seed, 0);
        for _ in 0..=rng.below(3) {
            let (one, other) = (place(&mut rng, entries.len()), place(&mut rng, entries.len()));
            match rng.below(3) {
                0 => {
                    let entry = entries[one].1;
                    entries[other].1 = entry;
                }
                1 => drop(entries.remove(one)),
                _ => {
                    let (at, entry) = (entries[one].0, entries[other].1);
                    entries.insert(one, (at, entry));
                }
            }
        }
        match replayed(&written(&header, &entries)) {
            Ok(done) => prop_assert!(done.difference.is_some() || done.end == Some(End::Closed)),
            Err(ReplayError::Impossible { .. }) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
