//! Forced writes that share a flush, where a drive's FUA is not used.

mod common;

use common::{Timeline, block, ms, reserve};
use proptest::prelude::*;
use spindle_engine::limits::FLUSH_BATCH_MAX;
use spindle_engine::{
    Action, Charging, ChooserName, Command, Contract, ForcedWrites, Outcome, PolicyName, Reply,
    RequestId, Settings,
};
use units::{DiskTime, Op, Operation};

fn settings(depth: u32) -> Settings {
    Settings {
        policy: PolicyName::Spindle,
        depth,
        chooser: ChooserName::Sweep,
        charging: Charging::Completions,
        forced_writes: ForcedWrites::FlushedInPairs,
        ..Settings::default()
    }
}

fn timeline(depth: u32, contracts: &[Contract]) -> Timeline {
    Timeline::new(settings(depth), contracts)
}

fn forced(number: u64) -> Operation {
    Operation { op: Op::Write, ..block(number) }.with_fua()
}

/// All that the engine wants at one instant.
fn actions(timeline: &mut Timeline) -> (Vec<Command>, Vec<Reply>) {
    let (mut commands, mut replies) = (Vec::new(), Vec::new());
    while let Some(action) = timeline.poll() {
        match action {
            Action::Issue(command) => commands.push(command),
            Action::Reply(reply) => replies.push(reply),
        }
        timeline.engine.invariants();
    }
    (commands, replies)
}

/// Completes one command, and returns what follows.
fn next(
    timeline: &mut Timeline,
    command: &Command,
    (after, outcome): (u64, Outcome),
) -> (Vec<Command>, Vec<Reply>) {
    timeline.after(ms(after)).complete(command, outcome);
    actions(timeline)
}

const DONE: Outcome = Outcome::Done;

#[test]
fn the_forced_writes_of_a_volume_share_a_flush_and_are_answered_after_it() {
    let mut timeline = timeline(1, &[Contract::BEST_EFFORT]);
    let requests: Vec<RequestId> =
        [10, 30, 50].map(|number| timeline.submit(0, forced(number))).to_vec();
    let (mut commands, _) = actions(&mut timeline);
    for _ in 0..3 {
        let command = commands[0];
        assert_eq!((commands.len(), command.operation.op), (1, Op::Write));
        assert!(!command.operation.fua, "the flush makes it durable");
        let replies;
        (commands, replies) = next(&mut timeline, &command, (1, DONE));
        assert!(replies.is_empty(), "nothing is durable yet");
    }
    let flush = commands[0];
    assert_eq!(flush.operation, Operation::flush());
    let (commands, replies) = next(&mut timeline, &flush, (27, DONE));
    assert!(commands.is_empty(), "one flush is enough");
    let answered: Vec<RequestId> = replies.iter().map(|reply| reply.request).collect();
    assert_eq!(answered, requests);
    // Each is charged its own time and a third of the flush's.
    for reply in replies {
        assert_eq!((reply.outcome, reply.disk_time), (DONE, DiskTime::from_millis(10)));
    }
    assert_eq!(timeline.engine.busy(), DiskTime::from_millis(30));
}

#[test]
fn another_volume_is_served_after_the_flush() {
    let mut timeline = timeline(4, &[reserve(50), reserve(50)]);
    timeline.submit(0, forced(10));
    timeline.submit(0, forced(30));
    let (writes, _) = actions(&mut timeline);
    assert_eq!(writes.len(), 2, "both are in the drive at once");
    let read = timeline.submit(1, block(1_000));
    let (commands, _) = next(&mut timeline, &writes[0], (1, DONE));
    assert!(commands.is_empty(), "the other write is in the drive");
    let (commands, _) = next(&mut timeline, &writes[1], (1, DONE));
    assert_eq!(commands.len(), 1, "nothing goes beside the flush");
    assert_eq!(commands[0].operation, Operation::flush());
    assert_eq!(commands[0].volume, writes[0].volume, "it is in the time of the writer");
    let (commands, replies) = next(&mut timeline, &commands[0], (20, DONE));
    assert_eq!(replies.len(), 2);
    assert_eq!((commands.len(), commands[0].request), (1, read));
}

#[test]
fn a_read_of_the_same_volume_and_a_write_that_is_not_forced_end_a_batch() {
    for other in [block(40), Operation { op: Op::Write, ..block(40) }, Operation::flush()] {
        let mut timeline = timeline(1, &[Contract::BEST_EFFORT]);
        timeline.submit(0, forced(10));
        let (commands, _) = actions(&mut timeline);
        let request = timeline.submit(0, other);
        let (commands, _) = next(&mut timeline, &commands[0], (1, DONE));
        assert_eq!(commands[0].operation, Operation::flush());
        let (commands, replies) = next(&mut timeline, &commands[0], (1, DONE));
        assert_eq!((replies.len(), commands[0].request), (1, request), "{other:?}");
    }
}

#[test]
fn a_write_that_failed_fails_alone_and_a_failed_flush_fails_the_batch() {
    for (of_write, of_flush) in [(Outcome::Failed, DONE), (DONE, Outcome::Failed)] {
        let mut timeline = timeline(2, &[Contract::BEST_EFFORT]);
        timeline.submit(0, forced(10));
        timeline.submit(0, forced(30));
        let (writes, _) = actions(&mut timeline);
        next(&mut timeline, &writes[0], (1, of_write));
        let (flush, _) = next(&mut timeline, &writes[1], (1, DONE));
        let (commands, replies) = next(&mut timeline, &flush[0], (1, of_flush));
        assert!(commands.is_empty());
        let outcomes: Vec<Outcome> = replies.iter().map(|reply| reply.outcome).collect();
        assert_eq!(outcomes, [if of_write == DONE { of_flush } else { of_write }, of_flush]);
    }
}

#[test]
fn the_parts_of_a_merged_write_that_failed_are_written_again_and_flushed() {
    let mut timeline = timeline(1, &[Contract::BEST_EFFORT]);
    for number in [10, 11, 12] {
        timeline.submit(0, forced(number));
    }
    let (commands, _) = actions(&mut timeline);
    assert_eq!(commands[0].operation.extent.len.0, 24, "neighbours are one command");
    let (flush, _) = next(&mut timeline, &commands[0], (1, Outcome::Failed));
    let (mut commands, replies) = next(&mut timeline, &flush[0], (1, DONE));
    assert!(replies.is_empty(), "each is written again");
    let mut all = Vec::new();
    for outcome in [DONE, Outcome::Failed, DONE] {
        assert_eq!(commands[0].operation.extent.len.0, 8);
        let replies;
        (commands, replies) = next(&mut timeline, &commands[0], (1, outcome));
        all.extend(replies);
    }
    assert!(all.is_empty(), "the flush is to come");
    let (_, replies) = next(&mut timeline, &commands[0], (1, DONE));
    let outcomes: Vec<Outcome> = replies.iter().map(|reply| reply.outcome).collect();
    assert_eq!(outcomes, [DONE, Outcome::Failed, DONE]);
}

#[test]
fn a_long_write_has_a_flush_of_its_own() {
    let mut timeline = timeline(1, &[Contract::BEST_EFFORT]);
    timeline.submit(0, forced(0));
    let (commands, _) = actions(&mut timeline);
    let mut long = forced(1_000);
    long.extent.len = units::Sectors(4_096);
    timeline.submit(0, long);
    let mut seen = Vec::new();
    let mut command = commands[0];
    while timeline.engine.requests() > 0 {
        seen.push((command.operation.op, command.operation.extent.len.0));
        let (commands, _) = next(&mut timeline, &command, (1, DONE));
        let Some(following) = commands.first() else { break };
        command = *following;
    }
    let (write, flush) = (Op::Write, (Op::Flush, 0));
    assert_eq!(seen, [(write, 8), flush, (write, 2_048), (write, 2_048), flush]);
}

#[test]
fn a_batch_is_bounded() {
    let mut timeline = timeline(1, &[Contract::BEST_EFFORT]);
    let count = FLUSH_BATCH_MAX as u64 + 5;
    for number in 0..count {
        timeline.submit(0, forced(2 * number));
    }
    let (mut commands, _) = actions(&mut timeline);
    let mut batches = vec![0];
    while let Some(command) = commands.first().copied() {
        match command.operation.op {
            Op::Flush => batches.push(0),
            _ => *batches.last_mut().expect("one is begun") += 1,
        }
        (commands, _) = next(&mut timeline, &command, (1, DONE));
    }
    assert_eq!(batches, [FLUSH_BATCH_MAX, 5, 0]);
}

proptest! {
    /// Whatever arrives and whenever, a forced write is answered when a flush that began after it
    /// has ended, no other volume is served before, and all is charged.
    #[test]
    fn every_forced_write_is_flushed_before_it_is_answered(
        depth in 1_u32..5,
        arrivals in prop::collection::vec((0_u32..3, 0_u8..6, 0_u64..400, 0_u64..4), 1..80),
        failing in 2_usize..40,
    ) {
        let contracts = [reserve(40), reserve(20), Contract::BEST_EFFORT];
        let mut timeline = timeline(depth, &contracts);
        let mut arrivals = arrivals.into_iter().peekable();
        // Commands in the drive; the volumes, numbers and requests of what it has written and not
        // flushed.
        let (mut inside, mut unflushed) = (Vec::<Command>::new(), Vec::<(u32, RequestId)>::new());
        let (mut forced_ids, mut answered, mut count) = (Vec::new(), 0, 0);
        let mut sent = 0;
        loop {
            while let Some((volume, kind, number, _)) = arrivals.next_if(|a| a.3 > 0 || sent == 0) {
                let operation = match kind {
                    0..4 => forced(number),
                    4 => block(number),
                    _ => Operation::flush(),
                };
                let id = timeline.submit(volume, operation);
                if operation.fua {
                    forced_ids.push(id);
                }
                sent += 1;
                if kind == 0 {
                    break;
                }
            }
            let (commands, replies) = actions(&mut timeline);
            for command in commands {
                let others = unflushed.iter().any(|(volume, _)| *volume != command.volume.0);
                prop_assert!(!others, "another volume's writes are not flushed");
                inside.push(command);
            }
            for reply in replies {
                answered += 1;
                let is_left = unflushed.iter().any(|(_, id)| *id == reply.request);
                prop_assert!(!is_left || reply.outcome == Outcome::Failed, "it is on the medium");
            }
            if inside.is_empty() {
                if let Some((_, _, _, pause)) = arrivals.peek_mut() {
                    *pause = 1;
                    timeline.after(ms(20));
                    continue;
                }
                if let Some(at) = timeline.engine.next_wakeup() {
                    timeline.now = timeline.now.max(at);
                    continue;
                }
                break;
            }
            let command = inside.remove(0);
            let pieces: Vec<Command> = timeline.engine.command_pieces(&command).collect();
            count += 1;
            let outcome = if count % failing == 0 { Outcome::Failed } else { DONE };
            timeline.after(ms(3)).complete(&command, outcome);
            match command.operation.op {
                Op::Flush if outcome == DONE => {
                    // What is written beside it may have come later.
                    unflushed.retain(|(volume, _)| *volume != command.volume.0);
                }
                Op::Write if outcome == DONE && !command.operation.fua => {
                    let written = pieces.iter().map(|piece| piece.request);
                    let of_batch = written.filter(|id| forced_ids.contains(id));
                    unflushed.extend(of_batch.map(|id| (command.volume.0, id)));
                }
                Op::Flush => unflushed.clear(),
                _ => {}
            }
        }
        prop_assert_eq!(answered, sent, "each is answered");
        timeline.engine.invariants();
    }
}
