//! Reads of best effort in the rotational waits of other volumes' commands.

mod common;

use std::sync::Arc;

use common::spinning::{Spinning, profile};
use common::{Timeline, block, limit, ms, reserve};
use spindle_engine::{
    Action, ChooserName, Command, Contract, Engine, Event, Outcome, PolicyName, Priority, Request,
    RequestId, Settings, VolumeId,
};
use units::{DiskTime, Duration, Extent, Instant, Lba, Op, Operation, Sectors};

fn settings(freeblock: bool) -> Settings {
    let chooser = ChooserName::Predicted;
    Settings { policy: PolicyName::Spindle, chooser, freeblock, ..Settings::default() }
}

/// A reserve, and best effort, on a drive whose rotation the engine has seen.
fn timeline(freeblock: bool, contracts: &[Contract]) -> (Timeline, Spinning) {
    let mut timeline = Timeline::new(settings(freeblock), &[]);
    timeline.engine =
        Engine::new(settings(freeblock), Instant::ZERO).with_profile(Arc::new(profile()));
    for contract in contracts {
        timeline.engine.add_volume(*contract, Instant::ZERO).expect("it fits");
    }
    let mut drive = Spinning::new(vec![0]);
    for number in [1_000, 3, 5_000] {
        timeline.submit(0, block(number));
        serve(&mut timeline, &mut drive);
        timeline.replied();
    }
    (timeline, drive)
}

/// The next command, carried out.
fn serve(timeline: &mut Timeline, drive: &mut Spinning) -> Command {
    let command = timeline.issued();
    let done = drive.serve(&command, timeline.now);
    timeline.after(done.since(timeline.now)).complete(&command, Outcome::Done);
    command
}

/// A block of volume 0 on the cylinder of the last one whose sector has just passed, so that the
/// command waits for most of a revolution.
const PASSED: u64 = 4_999;

#[test]
fn a_read_that_is_done_before_the_target_passes_goes_first_and_delays_nothing() {
    let served = |freeblock| {
        let (mut timeline, mut drive) = timeline(freeblock, &[reserve(50), Contract::BEST_EFFORT]);
        let before = timeline.engine.busy();
        timeline.submit(0, block(PASSED));
        // Half a revolution on, on the same track.
        timeline.submit(1, block(PASSED + 6));
        let order = [0, 1].map(|_| {
            let command = serve(&mut timeline, &mut drive);
            assert_eq!(timeline.replied().volume, command.volume);
            command.volume.0
        });
        timeline.engine.invariants();
        let charged = timeline.had(0) + timeline.had(1);
        assert_eq!(charged, timeline.engine.busy(), "the charges add up");
        (order, timeline.engine.busy() - before, timeline.engine.lent(VolumeId(0)))
    };
    let (order, without, lent) = served(false);
    assert_eq!((order, lent), ([0, 1], DiskTime::ZERO));
    let (order, with, lent) = served(true);
    assert_eq!(order, [1, 0]);
    assert!(lent > DiskTime::ZERO && with < without, "{with} with, {without} without, {lent} lent");
}

#[test]
fn only_reads_of_volumes_without_a_guarantee_go_first_and_none_that_others_would_have_to_wait_for()
{
    let goes_first = |contract: Contract, operation: Operation, before: Option<Operation>| {
        let (mut timeline, mut drive) = timeline(true, &[reserve(30), contract]);
        timeline.submit(0, block(PASSED));
        if let Some(before) = before {
            timeline.submit(1, before);
        }
        timeline.submit(1, operation);
        // The reserve of the first is due: it is served before the other's.
        serve(&mut timeline, &mut drive).volume == VolumeId(1)
    };
    let read = block(PASSED + 6);
    assert!(goes_first(Contract::BEST_EFFORT, read, None));
    assert!(goes_first(Contract::BEST_EFFORT, read, Some(block(20_000))), "in any order");
    let write = Operation { op: Op::Write, fua: true, ..read };
    assert!(!goes_first(Contract::BEST_EFFORT, write, None));
    assert!(!goes_first(Contract::BEST_EFFORT, read, Some(write)), "a write is not overtaken");
    assert!(!goes_first(Contract::BEST_EFFORT, block(PASSED + 1), None), "no time to return");
    let long = Operation::read(Extent::new(read.extent.start, Sectors(60)));
    assert!(!goes_first(Contract::BEST_EFFORT, long, None), "longer than the wait");
}

#[test]
fn it_needs_a_chooser_that_predicts() {
    for chooser in ChooserName::ALL {
        let settings = Settings { chooser, ..settings(true) };
        assert_eq!(settings.check().is_ok(), chooser == ChooserName::Predicted, "{chooser}");
    }
}

#[test]
fn a_drive_that_is_not_as_predicted_loses_a_bounded_number_of_revolutions() {
    let run = |freeblock, errors: &[u64]| {
        let (mut timeline, _) = timeline(freeblock, &[reserve(90), Contract::BEST_EFFORT]);
        timeline.engine.set_priority(VolumeId(0), Priority::High);
        let mut drive = Spinning::new(errors.to_vec());
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            block((state >> 33) % 400 + 5_000)
        };
        timeline.submit(0, next());
        for number in 0..64 {
            timeline.submit(1, block(5_000 + number * 6));
        }
        let mut served = 0;
        while served < 3_000 {
            let command = serve(&mut timeline, &mut drive);
            timeline.replied();
            served += u32::from(command.volume == VolumeId(0));
            timeline.submit(command.volume.0, next());
        }
        (timeline.now, timeline.engine.freeblock_stats())
    };
    // Now and then a seek takes 4 ms longer than the profile says.
    let errors = [0, 100, 4_000, 50, 0, 3_500, 20, 0, 4_200];
    let (end, stats) = run(true, &errors);
    let (without, none) = run(false, &errors);
    let stats = stats.expect("it is on");
    assert_eq!(none, None);
    assert!(stats.reads > 0 && stats.pauses > 0, "{stats:?}");
    let lost = end.saturating_since(without);
    assert!(lost <= Duration::from_nanos(end.as_nanos() / 50), "{lost} of {end}: {stats:?}");
}

/// Whether the order of the two can be told from the data.
fn conflicts(one: &Operation, other: &Operation) -> bool {
    let (a, b) = (one.extent, other.extent);
    let shares = a.start < b.end() && b.start < a.end();
    shares && (one.op.writes() || other.op.writes())
}

/// Volumes of all contracts, which change on the way, with reads and writes that overlap.
#[test]
fn every_request_is_answered_once_in_an_order_that_data_allows_and_charges_add_up() {
    let mut reads = 0;
    for seed in 0..60_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = move |end: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % end
        };
        let best_effort = Contract::BEST_EFFORT;
        let mut contracts = [reserve(40), reserve(10), best_effort, limit(10), best_effort];
        let (mut timeline, mut drive) = timeline(true, &contracts);
        if below(2) == 0 {
            timeline.engine.set_priority(VolumeId(0), Priority::High);
        }
        let mut open: Vec<(RequestId, u32, Operation)> = Vec::new();
        let mut waiting: Vec<(RequestId, u32, Operation)> = Vec::new();
        let mut number = 1_000_000;
        for _ in 0..1_500 {
            while open.len() < 24 {
                let volume = u32::try_from(below(5)).expect("few");
                let start = Lba(5_000 + 8 * below(3_000));
                let extent = Extent::new(start, Sectors(1 + below(24)));
                let op = if below(12) == 0 { Op::Write } else { Op::Read };
                let operation = Operation { op, extent, fua: op == Op::Write };
                let (id, volume) = (RequestId(number), volume);
                number += 1;
                let request = Request { id, volume: VolumeId(volume), operation };
                timeline.engine.handle(Event::Submit(request), timeline.now);
                open.push((id, volume, operation));
                waiting.push((id, volume, operation));
            }
            match timeline.poll() {
                Some(Action::Issue(command)) => {
                    for piece in timeline.engine.command_pieces(&command) {
                        let place = waiting.iter().position(|(id, ..)| *id == piece.request);
                        let (_, volume, operation) = waiting.remove(place.expect("queued"));
                        let mut before = waiting[..place.expect("queued")].iter();
                        let is_broken =
                            before.any(|(_, v, o)| *v == volume && conflicts(o, &operation));
                        assert!(!is_broken, "seed {seed}: a request overtook another");
                    }
                    let failed = below(40) == 0;
                    let outcome = if failed { Outcome::Failed } else { Outcome::Done };
                    let done = drive.serve(&command, timeline.now);
                    timeline.after(done.since(timeline.now)).complete(&command, outcome);
                }
                Some(Action::Reply(reply)) => {
                    let place = open.iter().position(|(id, ..)| *id == reply.request);
                    open.remove(place.expect("each is answered once"));
                }
                None => drop(timeline.after(ms(1))),
            }
            timeline.engine.invariants();
            if below(100) == 0 {
                let changed = usize::try_from(below(5)).expect("few");
                contracts[changed] = [reserve(5), best_effort, limit(20)][changed % 3];
                let volume = VolumeId(u32::try_from(changed).expect("few"));
                if timeline.engine.admits(volume, contracts[changed]).is_ok() {
                    let event = Event::ContractChanged { volume, contract: contracts[changed] };
                    timeline.engine.handle(event, timeline.now);
                }
            }
        }
        reads += timeline.engine.freeblock_stats().expect("it is on").reads;
    }
    assert!(reads > 1_000, "{reads} reads in rotational waits");
}
