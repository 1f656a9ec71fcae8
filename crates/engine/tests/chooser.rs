//! Which of a volume's requests goes next.

mod common;

use std::collections::VecDeque;
use std::sync::Arc;

use common::{Timeline, block, ms, reserve};
use drive_profile::example_profile;
use spindle_engine::limits::CANDIDATES_MAX;
use spindle_engine::{
    Action, ChooserName, Contract, Engine, Event, Execution, Outcome, PolicyName, Preemptible,
    Request, RequestId, Settings, VolumeId,
};
use units::{Duration, Extent, Instant, Lba, Op, Operation, Sectors};

fn settings(chooser: ChooserName) -> Settings {
    Settings { policy: PolicyName::Spindle, chooser, ..Settings::default() }
}

fn timeline(chooser: ChooserName) -> Timeline {
    Timeline::new(settings(chooser), &[Contract::BEST_EFFORT])
}

fn write(number: u64) -> Operation {
    Operation { op: Op::Write, ..block(number) }
}

fn submit(timeline: &mut Timeline, numbers: &[u64]) {
    for number in numbers {
        timeline.submit(0, block(*number));
    }
}

/// Serves all that is queued; the blocks of the commands.
fn order(timeline: &mut Timeline) -> Vec<u64> {
    let mut blocks = Vec::new();
    while timeline.engine.requests() > 0 {
        let command = timeline.issued();
        blocks.push(command.operation.extent.start.0 / 8);
        timeline.after(ms(5)).complete(&command, Outcome::Done);
        timeline.replied();
    }
    blocks
}

#[test]
fn a_sweep_goes_up_from_where_the_head_is_and_begins_again_at_the_lowest() {
    let mut timeline = timeline(ChooserName::Sweep);
    timeline.submit(0, block(500));
    assert_eq!(order(&mut timeline), [500]);
    for number in [900, 100, 600, 400, 800] {
        timeline.submit(0, block(number));
    }
    assert_eq!(order(&mut timeline), [600, 800, 900, 100, 400]);
}

#[test]
fn a_drive_of_several_commands_is_given_the_request_that_is_nearest_to_its_heads() {
    let settings = Settings { depth: 2, ..settings(ChooserName::Sweep) };
    let mut timeline = Timeline::new(settings, &[Contract::BEST_EFFORT]);
    submit(&mut timeline, &[500, 900]);
    let (first, second) = (timeline.issued(), timeline.issued());
    submit(&mut timeline, &[1_000, 880, 480]);
    timeline.after(ms(5)).complete(&first, Outcome::Done);
    timeline.replied();
    assert_eq!(timeline.issued().operation, block(480));
    timeline.after(ms(5)).complete(&second, Outcome::Done);
    timeline.replied();
    assert_eq!(timeline.issued().operation, block(880));
}

#[test]
fn of_many_requests_the_drive_is_given_those_of_a_sweep() {
    let settings = Settings { depth: 2, ..settings(ChooserName::Sweep) };
    let mut timeline = Timeline::new(settings, &[Contract::BEST_EFFORT]);
    submit(&mut timeline, &[500, 900]);
    let first = timeline.issued();
    timeline.issued();
    for number in (1_000..1_400).step_by(10).chain([880, 480]) {
        timeline.submit(0, block(number));
    }
    timeline.after(ms(5)).complete(&first, Outcome::Done);
    timeline.replied();
    assert_eq!(timeline.issued().operation, block(1_000));
}

#[test]
fn in_the_order_of_arrival_requests_go_as_they_came() {
    let mut timeline = timeline(ChooserName::Arrival);
    let numbers = [500, 900, 100, 600];
    for number in numbers {
        timeline.submit(0, block(number));
    }
    assert_eq!(order(&mut timeline), numbers);
}

#[test]
fn requests_that_share_sectors_keep_their_order_if_one_changes_them() {
    let mut timeline = timeline(ChooserName::Sweep);
    timeline.submit(0, block(500));
    order(&mut timeline);
    // The write at 700 waits for the read that overlaps it, and the read at 600 for nothing. It
    // begins below the end of that read: the sweep comes to it after 900.
    let long = Operation::read(Extent::new(Lba(699 * 8), Sectors(32)));
    for operation in [block(900), long, write(700), block(600), block(700)] {
        timeline.submit(0, operation);
    }
    assert_eq!(order(&mut timeline), [600, 699, 900, 700, 700]);
}

#[test]
fn a_flush_does_not_wait_for_requests_that_were_not_answered() {
    let mut timeline = timeline(ChooserName::Sweep);
    timeline.submit(0, block(300));
    timeline.submit(0, write(400));
    timeline.submit(0, Operation::flush());
    let command = timeline.issued();
    assert_eq!(command.operation.op, Op::Flush);
}

#[test]
fn a_deferred_request_waits_for_the_others_until_it_is_due() {
    let mut timeline = timeline(ChooserName::Sweep);
    timeline.submit(0, block(10));
    order(&mut timeline);
    let deferred = |timeline: &mut Timeline, id, number| {
        let request = Request { id: RequestId(id), volume: VolumeId(0), operation: write(number) };
        timeline.engine.handle(Event::SubmitDeferred(request), timeline.now);
    };
    deferred(&mut timeline, 1_000, 20);
    deferred(&mut timeline, 1_001, 40);
    timeline.submit(0, block(900));
    timeline.submit(0, block(30));
    assert_eq!(order(&mut timeline), [30, 900, 20, 40]);
    // With reads without end it goes after a second of its volume's disk time.
    deferred(&mut timeline, 1_002, 500);
    let mut served = 0;
    timeline.submit(0, block(10_000));
    loop {
        timeline.submit(0, block(10_000 + 1_000 * (served % 7)));
        let command = timeline.issued();
        timeline.after(ms(10)).complete(&command, Outcome::Done);
        timeline.replied();
        if command.operation.op == Op::Write {
            break;
        }
        served += 1;
    }
    assert!((100..=130).contains(&served), "{served}");
}

#[test]
fn no_request_waits_beyond_the_bound_in_its_volumes_disk_time() {
    for chooser in [ChooserName::Sweep, ChooserName::Predicted] {
        let engine = Engine::new(settings(chooser), Instant::ZERO);
        let mut timeline = timeline(chooser);
        timeline.engine = engine.with_profile(Arc::new(example_profile()));
        timeline.engine.add_volume(reserve(50), Instant::ZERO).expect("it fits");
        // The far request is never the cheapest: each answer is followed by a nearer one.
        timeline.submit(0, block(100));
        let far = timeline.submit(0, block(24_000));
        let mut near = VecDeque::from([101, 103, 105, 107]);
        for number in &near {
            timeline.submit(0, block(*number));
        }
        let mut waited = Duration::ZERO;
        loop {
            let command = timeline.issued();
            waited += ms(5);
            timeline.after(ms(5)).complete(&command, Outcome::Done);
            if timeline.replied().request == far {
                break;
            }
            let next = near.pop_front().expect("a number");
            timeline.submit(0, block(next));
            near.push_back(next);
        }
        assert!(waited <= ms(1_000 + 3 * 5), "{chooser}: {waited}");
    }
}

/// Requests of all kinds on few sectors, with several commands in the drive.
#[test]
fn each_request_is_answered_once_and_those_that_conflict_begin_in_order() {
    for seed in 0..200_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |end: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % end
        };
        let chooser = [ChooserName::Sweep, ChooserName::Predicted][usize::from(below(2) == 0)];
        let depth = 1 + u32::try_from(below(4)).expect("small");
        let engine = Engine::new(Settings { depth, ..settings(chooser) }, Instant::ZERO);
        let mut engine = engine.with_profile(Arc::new(example_profile()));
        let volumes = [engine.add_volume(reserve(50), Instant::ZERO).expect("it fits"); 1];
        let (mut now, mut sent) = (Instant::ZERO, 0_u64);
        let (mut queued, mut running) = (Vec::<(u64, Operation)>::new(), Vec::new());
        let mut answered = 0;
        while answered < 300 {
            now += Duration::from_micros(below(3_000));
            if sent < 300 && below(3) > 0 {
                let op = [Op::Read, Op::Write, Op::Read, Op::Flush]
                    [usize::try_from(below(4)).expect("one")];
                let extent = Extent::new(Lba(below(200)), Sectors(1 + below(20)));
                let fua = op == Op::Write && below(2) == 0;
                let operation = if op == Op::Flush {
                    Operation::flush()
                } else {
                    Operation { op, extent, fua }
                };
                let request = Request { id: RequestId(sent), volume: volumes[0], operation };
                let event = if below(5) == 0 {
                    Event::SubmitDeferred(request)
                } else {
                    Event::Submit(request)
                };
                engine.handle(event, now);
                queued.push((sent, operation));
                sent += 1;
            }
            if !running.is_empty() && below(2) == 0 {
                let place = usize::try_from(below(running.len() as u64)).expect("one");
                let command = running.swap_remove(place);
                engine.handle(Event::Completed { command, outcome: Outcome::Done }, now);
            }
            while let Some(action) = engine.poll(now) {
                match action {
                    Action::Issue(command) => {
                        for piece in engine.command_pieces(&command) {
                            let place = queued.iter().position(|(id, _)| *id == piece.request.0);
                            let place = place.expect("it was queued");
                            let (_, operation) = queued.remove(place);
                            let overlaps = |other: &Operation| {
                                let (a, b) = (operation.extent, other.extent);
                                a.start < b.end()
                                    && b.start < a.end()
                                    && (operation.op.writes() || other.op.writes())
                            };
                            let before = queued[..place].iter();
                            assert!(!before.into_iter().any(|(_, o)| overlaps(o)), "seed {seed}");
                        }
                        running.push(command.id);
                    }
                    Action::Reply(_) => answered += 1,
                }
            }
            engine.invariants();
        }
        assert_eq!(engine.requests(), 0, "seed {seed}");
    }
}

#[test]
fn more_requests_than_are_considered_are_served_too() {
    let mut timeline = timeline(ChooserName::Sweep);
    let count = CANDIDATES_MAX as u64 + 100;
    for number in 0..count {
        timeline.submit(0, block((count - number) * 50));
    }
    let served = order(&mut timeline);
    assert_eq!(served.len() as u64, count);
    // The first choice is the lowest of those that are considered.
    assert_eq!(served[0], (count - CANDIDATES_MAX as u64 + 1) * 50);
}

#[test]
fn only_requests_that_are_executed_whole_are_reordered_and_not_under_every_policy() {
    let preemptible = Execution::Preemptible(Preemptible::default());
    let cut = Settings { execution: preemptible, ..settings(ChooserName::Sweep) };
    assert!(cut.check().is_err());
    for policy in PolicyName::ALL {
        let settings = Settings { policy, ..settings(ChooserName::Predicted) };
        assert_eq!(settings.check().is_ok(), policy == PolicyName::Spindle, "{policy}");
    }
}
