//! Neighbours in a volume's queue that go to the drive as one command.

mod common;

use common::{Timeline, block, ms, reserve};
use spindle_engine::{
    Charging, ChooserName, Command, Contract, Event, Outcome, PolicyName, RequestId, Settings,
    VolumeId,
};
use units::{DiskTime, Extent, Lba, Op, Operation, Sectors};

fn settings(policy: PolicyName, depth: u32) -> Settings {
    let chooser = match policy {
        PolicyName::Spindle => ChooserName::Sweep,
        _ => ChooserName::Arrival,
    };
    Settings { policy, depth, chooser, charging: Charging::Completions, ..Settings::default() }
}

fn timeline(policy: PolicyName, depth: u32) -> Timeline {
    Timeline::new(settings(policy, depth), &[Contract::BEST_EFFORT])
}

fn write(number: u64) -> Operation {
    Operation { op: Op::Write, ..block(number) }
}

/// Serves all that is queued, one command at a time: the commands, as blocks and their number.
fn served(timeline: &mut Timeline) -> Vec<(u64, u64)> {
    let mut commands = Vec::new();
    while timeline.engine.requests() > 0 {
        let command = timeline.issued();
        let Extent { start, len } = command.operation.extent;
        commands.push((start.0 / 8, len.0 / 8));
        let covered = timeline.engine.command_pieces(&command).len();
        timeline.after(ms(5)).complete(&command, Outcome::Done);
        for _ in 0..covered {
            timeline.replied();
        }
    }
    commands
}

#[test]
fn neighbours_are_one_command_of_at_most_128_kib_wherever_they_are_in_the_queue() {
    let mut timeline = timeline(PolicyName::Spindle, 1);
    timeline.submit(0, block(9));
    timeline.submit(0, block(500));
    for number in 10..80 {
        timeline.submit(0, block(number));
        timeline.submit(0, block(1_000 + 2 * number));
    }
    let commands = served(&mut timeline);
    // Nothing has followed another request before the second command.
    assert_eq!(commands[..4], [(9, 1), (10, 32), (42, 32), (74, 6)]);
    assert_eq!(commands.iter().map(|(_, count)| count).sum::<u64>(), 142);
}

#[test]
fn only_requests_of_one_kind_that_end_where_the_next_one_begins_are_merged() {
    let mut timeline = timeline(PolicyName::Spindle, 1);
    let forced = Operation { fua: true, ..write(13) };
    for operation in [block(10), block(11), write(12), forced, block(14), block(16)] {
        timeline.submit(0, operation);
    }
    assert_eq!(served(&mut timeline), [(10, 2), (12, 1), (14, 1), (16, 1), (13, 1)]);
}

/// A turn ends between two commands: it is nearer to its length with short ones.
#[test]
fn a_read_that_no_client_waits_for_is_several_commands_one_behind_the_other() {
    let background = Contract::BEST_EFFORT.in_background();
    let long = Operation { extent: Extent::new(Lba(0), Sectors(1_200)), ..block(0) };
    let served_as = |policy: PolicyName, contract: Contract, op: Op| {
        let mut timeline = Timeline::new(settings(policy, 1), &[contract]);
        timeline.submit(0, Operation { op, ..long });
        served_whole(&mut timeline)
    };
    let (spindle, whole) = (PolicyName::Spindle, vec![(0, 1_200)]);
    assert_eq!(
        served_as(spindle, background, Op::Read),
        [(0, 512), (512, 512), (1_024, 176)],
        "a read in the background"
    );
    assert_eq!(served_as(spindle, background, Op::Write), whole, "a write in the background");
    assert_eq!(served_as(spindle, Contract::BEST_EFFORT, Op::Read), whole, "a client's read");
    assert_eq!(served_as(PolicyName::Utilization, background, Op::Read), whole, "RTAS 2008");
}

/// Its head is another command then, of which the policy knows.
#[test]
fn a_volume_may_be_in_the_background_or_not_while_it_reads() {
    let mut timeline = timeline(PolicyName::Spindle, 1);
    let long = Operation { extent: Extent::new(Lba(0), Sectors(1_200)), ..block(0) };
    let volume = VolumeId(0);
    timeline.submit(0, long);
    let change = |timeline: &mut Timeline, contract: Contract| {
        let event = Event::ContractChanged { volume, contract };
        timeline.engine.handle(event, timeline.now);
    };
    change(&mut timeline, Contract::BEST_EFFORT.in_background());
    let first = timeline.issued();
    assert_eq!(first.operation.extent.len, Sectors(512));
    timeline.after(ms(5)).complete(&first, Outcome::Done);
    change(&mut timeline, Contract::BEST_EFFORT);
    assert_eq!(served_whole(&mut timeline), [(512, 688)]);
}

/// The commands of one request, as sectors.
fn served_whole(timeline: &mut Timeline) -> Vec<(u64, u64)> {
    let mut commands = Vec::new();
    while timeline.engine.requests() > 0 {
        let command = timeline.issued();
        let Extent { start, len } = command.operation.extent;
        commands.push((start.0, len.0));
        timeline.after(ms(5)).complete(&command, Outcome::Done);
        if start.0 + len.0 == 1_200 {
            timeline.replied();
        }
    }
    commands
}

#[test]
fn under_the_policies_of_publications_a_command_belongs_to_one_request() {
    for policy in [PolicyName::Fcfs, PolicyName::Utilization] {
        let mut timeline = timeline(policy, 1);
        (10..14).for_each(|number| _ = timeline.submit(0, block(number)));
        assert_eq!(served(&mut timeline), [(10, 1), (11, 1), (12, 1), (13, 1)], "{policy}");
    }
}

#[test]
fn a_run_gathers_while_its_command_is_in_the_drive_and_forced_writes_do_not_wait() {
    let mut timeline = timeline(PolicyName::Spindle, 32);
    timeline.submit(0, block(10));
    let first = timeline.issued();
    (11..20).for_each(|number| _ = timeline.submit(0, block(number)));
    timeline.quiet();
    timeline.after(ms(1)).complete(&first, Outcome::Done);
    timeline.replied();
    let second = timeline.issued();
    assert_eq!(second.operation.extent, Extent::new(Lba(88), Sectors(72)));
    timeline.after(ms(1)).complete(&second, Outcome::Done);
    (0..9).for_each(|_| _ = timeline.replied());

    let forced = |number| Operation { fua: true, ..write(number) };
    timeline.submit(0, forced(50));
    timeline.issued();
    timeline.submit(0, forced(51));
    timeline.issued();
}

/// Serves what is queued on a disk whose block `bad` cannot be read: the outcome of each request,
/// and the number of its commands.
fn outcomes(timeline: &mut Timeline, bad: u64) -> (Vec<(RequestId, Outcome)>, usize) {
    let (mut replies, mut commands) = (Vec::new(), 0);
    while timeline.engine.requests() > 0 {
        let command: Command = timeline.issued();
        commands += 1;
        let is_bad = command.operation.extent.contains(block(bad).extent);
        let outcome = if is_bad { Outcome::Failed } else { Outcome::Done };
        let covered = timeline.engine.command_pieces(&command).len();
        let is_retried = timeline.engine.is_retried_in_parts(&command);
        assert_eq!(is_retried, covered > 1);
        timeline.after(ms(5)).complete(&command, outcome);
        timeline.engine.invariants();
        for _ in 0..if is_retried && outcome == Outcome::Failed { 0 } else { covered } {
            let reply = timeline.replied();
            replies.push((reply.request, reply.outcome));
        }
    }
    (replies, commands)
}

#[test]
fn a_request_fails_if_its_own_sectors_do_and_its_neighbours_do_not() {
    let mut timeline = Timeline::new(settings(PolicyName::Spindle, 4), &[reserve(50)]);
    let ids: Vec<_> = (10..20).map(|number| timeline.submit(0, block(number))).collect();
    let (replies, commands) = outcomes(&mut timeline, 13);
    // The merged command, and each of its ten parts.
    assert_eq!(commands, 11);
    for (number, id) in ids.iter().enumerate() {
        let expected = if number == 3 { Outcome::Failed } else { Outcome::Done };
        assert!(replies.contains(&(*id, expected)), "{number}: {replies:?}");
    }
    assert_eq!(timeline.had(0), DiskTime::from_millis(11 * 5), "their volume pays for all of it");
    assert_eq!(timeline.engine.busy(), DiskTime::from_millis(11 * 5));
}
