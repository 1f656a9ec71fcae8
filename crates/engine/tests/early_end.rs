//! Long forced writes, which a flush ends, beside a volume that waits for it.

mod common;

use common::{Timeline, block, ms, reserve};
use spindle_engine::{
    Action, Command, Contract, Outcome, PolicyName, Reply, RequestId, Settings, VolumeId,
};
use units::{DiskTime, Duration, Extent, Lba, Op, Operation, Sectors};

const DONE: Outcome = Outcome::Done;
/// The writes that are outstanding: the writer keeps many requests.
const WRITES: u64 = 9;
/// A MiB, the length of a command.
const COMMAND: u64 = 2_048;
/// The length of the write in commands.
const COMMANDS: u64 = 16;
const WRITER: u32 = 1;

/// A write that goes to the drive in 16 commands, which this takes into its buffer.
fn long_write(number: u64) -> Operation {
    let len = Sectors(COMMANDS * COMMAND);
    let extent = Extent::new(Lba((1 << 30) + number * len.0), len);
    Operation { op: Op::Write, extent, fua: false }.with_fua()
}

fn timeline(other: Contract) -> (Timeline, RequestId) {
    let settings = Settings { policy: PolicyName::Spindle, ..Settings::default() };
    assert_eq!(settings.command_max, Sectors(COMMAND));
    let mut timeline = Timeline::new(settings, &[other, reserve(70)]);
    let writes = (0..WRITES).map(|number| timeline.submit(WRITER, long_write(number)));
    let writes: Vec<RequestId> = writes.collect();
    (timeline, writes[0])
}

/// The drive carries out the one command that is issued now, which is of this kind.
fn carry_out(timeline: &mut Timeline, op: Op, (took, outcome): (Duration, Outcome)) -> Command {
    let command = timeline.issued();
    timeline.quiet();
    assert_eq!(command.operation.op, op, "{command:?}");
    timeline.after(took).complete(&command, outcome);
    command
}

/// So it does with these commands of the write, none of which is forced.
fn write(timeline: &mut Timeline, commands: core::ops::Range<u64>) {
    for number in commands {
        let command = carry_out(timeline, Op::Write, (ms(2), DONE));
        assert_eq!(command.volume, VolumeId(WRITER));
        assert_eq!(command.offset, Sectors(number * COMMAND), "each part is written once");
        assert!(!command.operation.fua, "the flush makes it durable");
    }
}

fn answer(timeline: &mut Timeline) -> Reply {
    match timeline.poll() {
        Some(Action::Reply(reply)) => reply,
        other => panic!("at {}: expected a reply, found {other:?}", timeline.now),
    }
}

#[test]
fn what_the_drive_has_of_a_long_write_is_flushed_for_a_volume_whose_reserve_pays() {
    let (mut timeline, long) = timeline(reserve(30));
    write(&mut timeline, 0..5);
    let read = timeline.submit(0, block(7));
    let flush = carry_out(&mut timeline, Op::Flush, (ms(16), DONE));
    assert_eq!((flush.request, flush.volume), (long, VolumeId(WRITER)), "in the writer's time");
    let served = carry_out(&mut timeline, Op::Read, (ms(9), DONE));
    assert_eq!(served.request, read, "a part of the write is not the write: it is not answered");
    assert_eq!(answer(&mut timeline).request, read);
    // The rest goes where it was, and ends with a flush of its own.
    write(&mut timeline, 5..COMMANDS);
    carry_out(&mut timeline, Op::Flush, (ms(28), DONE));
    let reply = answer(&mut timeline);
    assert_eq!((reply.request, reply.outcome), (long, DONE));
    assert_eq!(reply.disk_time, DiskTime::from_millis(32 + 16 + 28));
    assert_eq!(timeline.engine.busy(), DiskTime::from_millis(32 + 16 + 28 + 9));
}

#[test]
fn a_long_write_fails_if_one_of_its_flushes_does() {
    let (mut timeline, long) = timeline(reserve(30));
    write(&mut timeline, 0..5);
    timeline.submit(0, block(7));
    carry_out(&mut timeline, Op::Flush, (ms(16), Outcome::Failed));
    carry_out(&mut timeline, Op::Read, (ms(9), DONE));
    answer(&mut timeline);
    write(&mut timeline, 5..COMMANDS);
    carry_out(&mut timeline, Op::Flush, (ms(28), DONE));
    let reply = answer(&mut timeline);
    assert_eq!((reply.request, reply.outcome), (long, Outcome::Failed));
}

#[test]
fn a_volume_without_a_reserve_waits_for_the_whole_write() {
    let (mut timeline, long) = timeline(Contract::BEST_EFFORT);
    write(&mut timeline, 0..5);
    timeline.submit(0, block(7));
    write(&mut timeline, 5..COMMANDS);
    carry_out(&mut timeline, Op::Flush, (ms(38), DONE));
    assert_eq!(answer(&mut timeline).request, long);
}

#[test]
fn a_long_write_goes_on_when_a_command_from_before_it_is_the_last_that_has_ended() {
    let settings = Settings { policy: PolicyName::Spindle, depth: 2, ..Settings::default() };
    let mut timeline = Timeline::new(settings, &[reserve(30), reserve(70)]);
    timeline.submit(WRITER, block(7));
    let long = timeline.submit(WRITER, long_write(0));
    let before = timeline.issued();
    let first = timeline.issued();
    timeline.quiet();
    assert_eq!((first.request, before.operation.op), (long, Op::Read));
    // A drive orders its queue, and the host is told of both at once.
    timeline.after(ms(9)).complete(&first, DONE);
    timeline.complete(&before, DONE);
    assert_eq!(answer(&mut timeline).request, before.request);
    let second = timeline.issued();
    assert_eq!((second.request, second.offset), (long, Sectors(COMMAND)));
    timeline.engine.invariants();
}
