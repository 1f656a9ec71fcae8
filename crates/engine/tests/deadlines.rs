//! Streams on a timeline: releases, the order of service, and the slack of best effort.

mod common;

use common::{Timeline, ms};
use spindle_engine::stream::{SlackRange, Task};
use spindle_engine::{
    Action, BestEffortServer, CommandBound, Contract, Deadlines, Event, Execution, Outcome,
    PolicyName, Preemptible, Refusal, Settings, StreamContract, VolumeId,
};
use units::{DiskTime, Duration, Extent, Lba, Op, Operation, Sectors, Share};

/// A disk that takes a millisecond for each sector.
fn settings(policy: PolicyName) -> Settings {
    let worst = CommandBound { positioning: DiskTime::ZERO, sector: DiskTime::from_millis(1) };
    Settings {
        policy,
        deadlines: Deadlines { worst, ..Deadlines::default() },
        ..Settings::default()
    }
}

fn stream(period: u64, cost: u32) -> Contract {
    let task = Task::whole(ms(period), DiskTime::from_millis(cost.into())).expect("a task");
    Contract::stream(StreamContract { task, block: Sectors(cost.into()), range: None })
}

/// A read with a service time in milliseconds.
fn read(millis: u64) -> Operation {
    Operation::read(Extent::new(Lba(millis * 1_000), Sectors(millis)))
}

/// Serves all queued requests, each command for its worst case. Returns the volumes in order.
fn serve_all(line: &mut Timeline) -> Vec<u32> {
    let mut order = Vec::new();
    while line.engine.queued() > 0 {
        let command = line.issued();
        order.push(command.volume.0);
        line.after(ms(command.operation.extent.len.0)).complete(&command, Outcome::Done);
        line.replied();
    }
    order
}

#[test]
fn released_requests_go_by_deadline() {
    let mut line = Timeline::new(settings(PolicyName::Edf), &[stream(60, 5), stream(40, 5)]);
    line.submit(0, read(5));
    line.submit(1, read(5));
    assert_eq!(serve_all(&mut line), [1, 0]);
    let kept = line.engine.deadline_stats(VolumeId(0)).expect("a stream");
    assert_eq!((kept.met, kept.missed), (1, 0));
}

#[test]
fn an_early_request_is_best_effort_until_its_release_and_a_late_one_shifts_later_releases() {
    let contracts = [stream(40, 5), stream(60, 5)];
    let mut line = Timeline::new(settings(PolicyName::Edf), &contracts);
    line.submit(0, read(5));
    assert_eq!(line.serve(ms(5)), VolumeId(0));
    // Released at 40, due at 80: the other volume's request, due at 65, goes first although its
    // period is longer.
    line.submit(0, read(5));
    line.submit(1, read(5));
    assert_eq!(line.serve(ms(5)), VolumeId(1));
    assert_eq!(line.serve(ms(5)), VolumeId(0), "out of the slack");
    // A late request: expected at 80, released at 200, due at 240.
    line.after(ms(185));
    line.submit(0, read(5));
    let command = line.issued();
    line.after(ms(40)).complete(&command, Outcome::Done);
    line.replied();
    assert_eq!(
        line.engine.deadline_stats(VolumeId(0)).expect("a stream").missed,
        0,
        "an answer at 240 is in time"
    );
}

#[test]
fn a_request_outside_the_stream_is_best_effort() {
    let mut line = Timeline::new(settings(PolicyName::Edf), &[stream(40, 5), stream(1_000, 5)]);
    line.submit(0, read(6));
    line.submit(1, read(5));
    assert_eq!(serve_all(&mut line), [1, 0]);
    assert_eq!(line.engine.deadline_stats(VolumeId(0)).expect("a stream").met, 0);
}

#[test]
fn each_policy_serves_best_effort_first_up_to_its_slack() {
    // One stream: 20 ms of 60. ΔL is 40 ms, and so is the slack beside a request released at 0.
    let first = |policy, best_effort: u64| {
        let mut line = Timeline::new(settings(policy), &[stream(60, 20), Contract::BEST_EFFORT]);
        line.submit(0, read(20));
        line.submit(1, read(best_effort));
        line.issued().volume.0
    };
    for policy in [PolicyName::Lst, PolicyName::DeltaL, PolicyName::DeltaStar] {
        assert_eq!((first(policy, 40), first(policy, 41)), (1, 0), "{policy}");
    }
    assert_eq!(first(PolicyName::Edf, 1), 0);
}

#[test]
fn the_dynamic_slack_exceeds_the_static_slack() {
    // After its request, the stream cannot release another before 60: 40 ms more than after idle
    // time.
    let taken = |policy| {
        let mut line = Timeline::new(settings(policy), &[stream(60, 20), Contract::BEST_EFFORT]);
        line.submit(0, read(20));
        line.serve(ms(20));
        line.submit(1, read(70));
        line.poll().is_some()
    };
    assert!(taken(PolicyName::DeltaStar));
    assert!(!taken(PolicyName::DeltaL));
}

/// Three sets, in the smallest unit of time (1 ns). Best effort takes ΔL by the range of RTAS 2000
/// at 0, just before all tasks release at once.
#[test]
fn the_published_range_makes_the_first_stream_late() {
    let sets: [(&[(u64, u32)], u64); 3] = [
        (&[(15, 5), (25, 5), (27, 6), (29, 5)], 5),
        (&[(14, 5), (20, 6), (24, 2), (25, 6)], 4),
        (&[(17, 3), (23, 8), (26, 3), (28, 10)], 3),
    ];
    for (tasks, slack) in sets {
        let missed = |slack_range| {
            let mut settings = settings(PolicyName::DeltaL);
            settings.deadlines.slack_range = slack_range;
            settings.deadlines.worst.sector = DiskTime::from_nanos(1);
            let mut contracts: Vec<Contract> =
                tasks.iter().map(|(period, cost)| tiny(*period, *cost)).collect();
            contracts.push(Contract::BEST_EFFORT);
            let mut line = Timeline::new(settings, &contracts);
            line.submit(u32::try_from(tasks.len()).expect("few"), read(slack));
            periodic(&mut line, tasks, 2_000);
            (0..tasks.len())
                .filter_map(|volume| {
                    line.engine.deadline_stats(VolumeId(u32::try_from(volume).expect("few")))
                })
                .map(|kept| kept.missed)
                .sum::<u64>()
        };
        assert!(missed(SlackRange::Published) > 0, "{tasks:?}");
        assert_eq!(missed(SlackRange::All), 0, "{tasks:?}");
    }
}

/// The same in nanoseconds.
fn tiny(period: u64, cost: u32) -> Contract {
    let cost_time = DiskTime::from_nanos(cost.into());
    let task = Task::whole(Duration::from_nanos(period), cost_time).expect("a task");
    Contract::stream(StreamContract { task, block: Sectors(cost.into()), range: None })
}

/// Every task requests one block per period from now on, for `nanos` nanoseconds; each command
/// takes its worst case.
fn periodic(line: &mut Timeline, tasks: &[(u64, u32)], nanos: u64) {
    let mut running = None;
    for now in 0..nanos {
        if let Some((command, done)) = running.take() {
            if done == now {
                line.complete(&command, Outcome::Done);
            } else {
                running = Some((command, done));
            }
        }
        if now == 0
            && let Some(Action::Issue(command)) = line.poll()
        {
            // A request that was queued before begins before.
            running = Some((command, command.operation.extent.len.0));
        }
        for (volume, (period, cost)) in (0_u32..).zip(tasks) {
            if now % period == 0 {
                line.submit(volume, read((*cost).into()));
            }
        }
        while let Some(action) = line.poll() {
            if let Action::Issue(command) = action {
                running = Some((command, now + command.operation.extent.len.0));
            }
        }
        line.after(Duration::from_nanos(1));
    }
}

#[test]
fn a_stream_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut line = Timeline::new(settings(PolicyName::DeltaL), &[stream(10, 5)]);
    let refused = line.engine.add_volume(stream(100, 6), line.now);
    assert!(matches!(refused, Err(Refusal::Deadlines(_))), "{refused:?}");
    assert_eq!(line.engine.tasks().expect("deadlines are kept").len(), 1);
    assert!(line.engine.add_volume(stream(100, 5), line.now).is_ok());
}

#[test]
fn a_new_stream_releases_nothing_while_an_earlier_command_is_in_service() {
    let mut line = Timeline::new(settings(PolicyName::DeltaL), &[Contract::BEST_EFFORT]);
    line.submit(0, read(500));
    let long = line.issued();
    let volume = line.engine.add_volume(stream(60, 20), line.now).expect("it fits");
    line.submit(volume.0, read(20));
    line.submit(0, read(30));
    line.after(ms(500)).complete(&long, Outcome::Done);
    line.replied();
    // The stream is activated at 500, its block is due at 560, and best effort has 40 ms before.
    assert_eq!(serve_all(&mut line), [0, volume.0]);
    let kept = line.engine.deadline_stats(volume).expect("a stream");
    assert_eq!((kept.met, kept.missed), (1, 0));
}

#[test]
fn a_stream_that_ends_returns_its_disk_time_to_the_slack() {
    let contracts = [stream(60, 20), Contract::BEST_EFFORT];
    let mut line = Timeline::new(settings(PolicyName::DeltaL), &contracts);
    line.submit(1, read(50));
    assert_eq!(line.poll(), None, "50 ms do not fit 40");
    let change = Event::ContractChanged { volume: VolumeId(0), contract: Contract::BEST_EFFORT };
    line.engine.handle(change, line.now);
    assert_eq!(line.serve(ms(50)), VolumeId(1));
}

#[test]
fn a_server_keeps_best_effort_from_starving() {
    let mut settings = settings(PolicyName::DeltaL);
    settings.deadlines.best_effort =
        Some(BestEffortServer { share: Share::from_percent(10), period: ms(100) });
    // Beside the server there is no slack: 50 of 100 ms, 40 of 100 and 10 of 100.
    let contracts = [stream(100, 50), stream(100, 40), Contract::BEST_EFFORT];
    let mut line = Timeline::new(settings, &contracts);
    line.submit(0, read(50));
    line.submit(1, read(40));
    line.submit(2, read(10));
    assert_eq!(serve_all(&mut line).len(), 3);
    assert_eq!(line.now.as_nanos(), ms(100).as_nanos());
    assert_eq!(line.engine.deadline_stats(VolumeId(1)).expect("a stream").missed, 0);
}

#[test]
fn a_reserve_is_real_time_as_long_as_its_budget_pays() {
    let reserve = Contract::reserve(Share::from_percent(10));
    let batch = Duration::ZERO;
    let settings = Settings { period: ms(100), batch, ..settings(PolicyName::Edf) };
    let mut line = Timeline::new(settings, &[reserve, stream(400, 50)]);
    for _ in 0..2 {
        line.submit(0, read(10));
    }
    line.submit(1, read(50));
    // The first request is due at 100, before the stream's; the second waits for its budget until
    // 100.
    assert_eq!(serve_all(&mut line), [0, 1, 0]);
}

#[test]
fn without_guarantees_writes_are_whole_and_forced_to_the_media_and_reads_are_split() {
    let how = Preemptible { chunk: Some(Sectors(4)), ..Preemptible::default() };
    let settings =
        Settings { execution: Execution::Preemptible(how), ..settings(PolicyName::DeltaL) };
    let mut line = Timeline::new(settings, &[Contract::BEST_EFFORT]);
    line.submit(0, Operation { op: Op::Write, ..read(16) });
    let write = line.issued();
    assert_eq!((write.operation.extent.len, write.operation.fua), (Sectors(16), true));
    line.after(ms(16)).complete(&write, Outcome::Done);
    line.replied();
    line.submit(0, read(16));
    assert_eq!(line.issued().operation.extent.len, Sectors(4));
}

#[test]
fn a_split_request_is_preempted_by_an_earlier_deadline_between_two_pieces() {
    let how = Preemptible { chunk: Some(Sectors(4)), ..Preemptible::default() };
    let settings =
        Settings { execution: Execution::Preemptible(how), ..settings(PolicyName::DeltaStar) };
    let task =
        Task::new(ms(100), DiskTime::from_millis(40), DiskTime::from_millis(4)).expect("a task");
    let long = Contract::stream(StreamContract { task, block: Sectors(40), range: None });
    // Beside whole requests of 40 ms no stream could have a period of 10.
    let mut line = Timeline::new(settings, &[long, stream(10, 3)]);
    line.submit(0, read(40));
    let mut order = Vec::new();
    for at in [0, 4, 8] {
        if at == 4 {
            line.submit(1, read(3));
        }
        let command = line.issued();
        order.push(command.volume.0);
        let took = Duration::from_millis(command.operation.extent.len.0);
        line.after(took).complete(&command, Outcome::Done);
        if at == 4 {
            line.replied();
        }
    }
    assert_eq!(order, [0, 1, 0]);
}
