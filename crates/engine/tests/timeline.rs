//! Facts about the engine, each a timeline: what happened when, and what was to be done.

mod common;

use common::{Timeline, block, limit, ms, percent, reserve};
use spindle_engine::limits::COMMAND_MAX;
use spindle_engine::{Action, Contract, Event, Outcome, PolicyName, Priority, Settings, VolumeId};
use units::{DiskTime, Duration, Extent, Instant, Lba, Op, Operation, Sectors};

fn utilization() -> Settings {
    Settings::default()
}

fn fcfs() -> Settings {
    Settings { policy: PolicyName::Fcfs, ..Settings::default() }
}

#[test]
fn a_long_request_goes_out_in_pieces_in_order_and_is_answered_after_the_last() {
    let mut line = Timeline::new(utilization(), &[reserve(100)]);
    let whole = Extent::new(Lba(77), Sectors(COMMAND_MAX.0 * 2 + 5));
    let id = line.submit(0, Operation::write(whole).with_fua());
    let mut rest = whole;
    while !rest.is_empty() {
        let command = line.issued();
        assert_eq!(command.offset, whole.start.distance(rest.start));
        assert_eq!(command.operation.extent.start, rest.start);
        assert!(command.operation.extent.len <= COMMAND_MAX && command.operation.fua);
        rest = rest.split_at(command.operation.extent.len).1;
        line.quiet();
        line.after(ms(10)).complete(&command, Outcome::Done);
    }
    let reply = line.replied();
    assert_eq!((reply.request, reply.outcome), (id, Outcome::Done));
    assert_eq!(reply.disk_time, DiskTime::from_millis(30));
    line.quiet();
}

#[test]
fn a_failed_piece_fails_its_request_and_nobody_elses() {
    let mut line = Timeline::new(utilization(), &[reserve(100)]);
    line.submit(0, Operation::read(Extent::new(Lba(0), Sectors(COMMAND_MAX.0 + 1))));
    line.submit(0, block(9_999));
    let first = line.issued();
    line.after(ms(5)).complete(&first, Outcome::Failed);
    let second = line.issued();
    line.after(ms(5)).complete(&second, Outcome::Done);
    assert_eq!(line.replied().outcome, Outcome::Failed);
    let other = line.issued();
    line.after(ms(5)).complete(&other, Outcome::Done);
    assert_eq!(line.replied().outcome, Outcome::Done);
    let account = line.engine.usage(VolumeId(0));
    assert_eq!((account.requests, account.failures, account.sectors), (2, 1, Sectors(8)));
}

#[test]
fn a_flush_is_a_command_without_an_extent() {
    let mut line = Timeline::new(utilization(), &[reserve(100)]);
    line.submit(0, Operation::flush());
    assert_eq!(line.issued().operation.op, Op::Flush);
}

#[test]
fn idle_time_is_charged_to_nobody() {
    let mut line = Timeline::new(utilization(), &[reserve(50), reserve(50)]);
    line.submit(0, block(1));
    line.serve(ms(7));
    line.quiet();
    line.after(ms(1_000)).submit(1, block(5_000));
    line.serve(ms(9));
    assert_eq!((line.had(0), line.had(1)), (DiskTime::from_millis(7), DiskTime::from_millis(9)));
    assert_eq!(line.engine.busy(), DiskTime::from_millis(16));
}

#[test]
fn no_more_commands_go_out_than_the_drive_is_to_hold() {
    let settings = Settings { depth: 3, ..utilization() };
    let mut line = Timeline::new(settings, &[reserve(50), reserve(50)]);
    for number in 0..5 {
        line.submit(u32::from(number % 2 == 0), block(number * 1_000));
    }
    let commands = [line.issued(), line.issued(), line.issued()];
    line.quiet();
    line.after(ms(9)).complete(&commands[1], Outcome::Done);
    line.replied();
    line.issued();
    line.quiet();
    // Three commands shared nine milliseconds.
    assert_eq!(line.had(0) + line.had(1), DiskTime::from_millis(3));
}

#[test]
fn first_come_first_served_whoever_it_is() {
    let mut line = Timeline::new(fcfs(), &[reserve(90), reserve(10)]);
    for volume in [1, 1, 0, 1] {
        line.submit(volume, block(u64::from(volume) * 1_000));
    }
    let order: Vec<u32> = (0..4).map(|_| line.serve(ms(10)).0).collect();
    assert_eq!(order, [1, 1, 0, 1]);
}

#[test]
fn a_reserve_that_is_due_goes_before_best_effort() {
    let mut line = Timeline::new(utilization(), &[Contract::BEST_EFFORT, reserve(20)]);
    line.submit(0, block(1));
    line.submit(1, block(100_000));
    assert_eq!(line.serve(ms(10)), VolumeId(1));
    assert_eq!(line.serve(ms(10)), VolumeId(0));
}

#[test]
fn slack_goes_to_who_has_had_least_lately() {
    let contracts = [Contract::BEST_EFFORT; 3];
    let settings = Settings { batch: Duration::ZERO, ..utilization() };
    let mut line = Timeline::new(settings, &contracts);
    let mut place = 0;
    let mut submit = |line: &mut Timeline, volume: u32| {
        place += 10_000;
        line.submit(volume, block(place))
    };
    for volume in 0..3 {
        submit(&mut line, volume);
    }
    // Volume 1 takes three times as long a request.
    for _ in 0..500 {
        let command = line.issued();
        let service = if command.volume == VolumeId(1) { ms(30) } else { ms(10) };
        line.after(service).complete(&command, Outcome::Done);
        line.replied();
        submit(&mut line, command.volume.0);
    }
    let third = line.engine.busy().as_nanos() / 3;
    for volume in 0..3 {
        let off = (line.had(volume).as_nanos() - third).abs();
        assert!(off <= 30_000_000, "volume {volume} is {off} ns off its third");
    }
}

#[test]
fn a_volume_at_its_limit_waits_beside_an_idle_disk_and_is_woken_when_it_may() {
    let mut line = Timeline::new(utilization(), &[limit(30)]);
    line.after(ms(10)).submit(0, block(1));
    line.submit(0, block(50_000));
    // It has saved up 3 ms by now, and spends 12.
    assert_eq!(line.serve(ms(12)), VolumeId(0));
    line.quiet();
    let wakeup = line.engine.next_wakeup().expect("it is let in again");
    // 9 ms less 30 % of the 12 are owed, and a nanosecond must be there: 5.4 ms at 30 %.
    assert_eq!(wakeup, line.now + Duration::from_nanos(18_000_004));
    line.now = wakeup.saturating_sub(Duration::from_nanos(1));
    line.quiet();
    line.now = wakeup;
    line.issued();
}

#[test]
fn a_run_keeps_the_arm_for_a_batch_and_then_gives_it_up() {
    let mut line = Timeline::new(utilization(), &[reserve(50), reserve(50)]);
    for number in 0..1_000 {
        line.submit(0, block(number));
    }
    line.serve(ms(1));
    for number in 0..1_000 {
        line.submit(1, block(100_000 + number * 1_000));
    }
    let mut run = ms(1);
    while line.serve(ms(1)) == VolumeId(0) {
        run += ms(1);
    }
    // What half of the disk earns in a period.
    assert!((ms(499)..=ms(501)).contains(&run), "the run was cut after {run}");
}

#[test]
fn a_small_reserve_gives_the_arm_up_when_it_owes_a_periods_worth() {
    let mut line = Timeline::new(utilization(), &[reserve(5), reserve(95)]);
    for number in 0..1_000 {
        line.submit(0, block(number));
        line.submit(1, block(1_000_000 + number * 1_000));
    }
    while line.serve(ms(1)) != VolumeId(0) {}
    let mut run = ms(1);
    while line.serve(ms(1)) == VolumeId(0) {
        run += ms(1);
    }
    let owes = -line.engine.balance(VolumeId(0), line.now).expect("it keeps books");
    assert!(owes <= DiskTime::from_millis(51), "a period's worth is 50 ms; it owes {owes}");
    assert!((ms(90)..=ms(180)).contains(&run), "it had the arm for {run}");
}

/// A client that sends the next block of its run within 100 µs of each answer, beside another with
/// much to do.
fn quick_client_in_a_run() -> Timeline {
    let mut line = Timeline::new(utilization(), &[reserve(50), reserve(50)]);
    line.submit(0, block(0));
    line.serve(ms(1));
    for number in 1..5 {
        line.after(Duration::from_micros(100)).submit(0, block(number));
        if number == 4 {
            for other in 0..100 {
                line.submit(1, block(100_000 + other * 1_000));
            }
        }
        assert_eq!(line.serve(ms(1)), VolumeId(0), "block {number}");
    }
    line
}

#[test]
fn the_disk_waits_a_moment_for_a_quick_client_in_a_run_and_charges_it_for_that() {
    let mut line = quick_client_in_a_run();
    let had = line.had(0);
    line.quiet();
    assert_eq!(line.engine.next_wakeup(), Some(line.now + ms(2)));
    let before = line.engine.balance(VolumeId(0), line.now).expect("it keeps books");
    line.after(Duration::from_micros(100)).submit(0, block(5));
    let after = line.engine.balance(VolumeId(0), line.now).expect("it keeps books");
    // It earned half of the wait and paid all of it.
    assert_eq!(before - after, DiskTime::from_micros(50));
    assert_eq!(line.serve(ms(1)), VolumeId(0));
    assert_eq!(line.had(0) - had, DiskTime::from_micros(1_100));
    assert_eq!(line.engine.usage(VolumeId(0)).anticipation, DiskTime::from_micros(100));
}

#[test]
fn who_was_waited_for_in_vain_is_not_waited_for_again() {
    let mut line = quick_client_in_a_run();
    line.quiet();
    let wakeup = line.engine.next_wakeup().expect("it waits");
    line.now = wakeup;
    assert_eq!(line.serve(ms(10)), VolumeId(1), "others go on");
    assert_eq!(line.engine.usage(VolumeId(0)).anticipation, DiskTime::from_millis(2));
    line.submit(0, block(5));
    while line.serve(ms(10)) != VolumeId(0) {}
    assert!(matches!(line.poll(), Some(Action::Issue(command)) if command.volume == VolumeId(1)));
}

#[test]
fn an_idle_volume_saves_up_one_period_and_no_more() {
    let mut line = Timeline::new(utilization(), &[reserve(40)]);
    line.after(Duration::from_secs(60));
    let saved = line.engine.balance(VolumeId(0), line.now);
    assert_eq!(saved, Some(DiskTime::from_millis(400)));
}

#[test]
fn a_contract_that_does_not_fit_is_refused_and_one_that_does_takes_effect() {
    let mut line = Timeline::new(utilization(), &[reserve(60), reserve(20)]);
    assert!(line.engine.admits(VolumeId(1), reserve(41)).is_err());
    assert_eq!(line.engine.contract(VolumeId(1)), reserve(20));
    line.engine.admits(VolumeId(1), reserve(40)).expect("20 and what is available");
    let (volume, contract) = (VolumeId(1), reserve(40));
    line.engine.handle(Event::ContractChanged { volume, contract }, line.now);
    assert_eq!(line.engine.admission().available(), percent(0));
    line.quiet();
}

#[test]
#[should_panic(expected = "time runs backwards")]
fn an_engine_whose_world_runs_backwards_says_so() {
    let mut line = Timeline::new(utilization(), &[reserve(60)]);
    line.after(ms(5)).quiet();
    line.now = Instant::ZERO;
    line.quiet();
}

/// Two volumes that always have random work, and the order and the lengths in milliseconds of their
/// quanta.
fn turns(service: impl Fn(u64) -> Duration) -> Vec<(VolumeId, Duration)> {
    let mut line = Timeline::new(utilization(), &[reserve(50), reserve(50)]);
    for number in 0..20_000 {
        line.submit(0, block(number * 1_000));
        line.submit(1, block(100_000_000 + number * 1_000));
    }
    let mut turns: Vec<(VolumeId, Duration)> = Vec::new();
    for number in 0..3_000 {
        let took = service(number);
        let volume = line.serve(took);
        match turns.last_mut() {
            Some((last, length)) if *last == volume => *length += took,
            _ => turns.push((volume, took)),
        }
    }
    turns
}

#[test]
fn nobody_has_two_turns_in_a_row_and_an_overrun_is_taken_off_the_next_turn() {
    let turns = turns(|number| ms(5 + number % 13));
    assert!(turns.len() > 40, "half a second each: {} turns", turns.len());
    let whole = &turns[..turns.len() - 1];
    for (number, (_, length)) in whole.iter().enumerate() {
        assert!((ms(480)..=ms(520)).contains(length), "turn {number} took {length}");
    }
    // Of two periods each has half, whenever they begin: nothing drifts.
    for four in whole.windows(4) {
        let had = four[0].1 + four[2].1;
        assert!((ms(980)..=ms(1_020)).contains(&had), "{had} of two periods");
    }
}

/// Half of the disk and two fifths always have work; a tenth asks for one thing at a time, which
/// comes between.
#[test]
fn who_asks_for_one_thing_at_a_time_does_not_lend_its_neighbour_a_second_turn() {
    let mut line = Timeline::new(utilization(), &[reserve(50), reserve(39), reserve(10)]);
    for number in 0..20_000 {
        line.submit(0, block(number * 1_000));
        line.submit(1, block(100_000_000 + number * 1_000));
    }
    line.submit(2, block(200_000_000));
    let mut had = vec![[Duration::ZERO; 3]];
    let mut asked = 1;
    for number in 0..5_000 {
        let took = ms(5 + number % 13);
        let volume = line.serve(took);
        if volume == VolumeId(2) {
            line.submit(2, block(200_000_000 + asked * 1_000));
            asked += 1;
        }
        let mut now = *had.last().expect("a beginning");
        now[volume.0 as usize] += took;
        had.push(now);
    }
    assert!(asked > 100, "the third asks all the time: {asked}");
    let passed = |at: &[Duration; 3]| at[0] + at[1] + at[2];
    for (number, from) in had.iter().enumerate() {
        let Some(to) = had[number..].iter().find(|at| passed(at) >= passed(from) + ms(2_000))
        else {
            break;
        };
        let share = (to[0] - from[0]).as_secs_f64() / (passed(to) - passed(from)).as_secs_f64();
        assert!((0.45..0.58).contains(&share), "{share} of the two seconds from {}", passed(from));
    }
}

#[test]
fn the_way_back_of_an_interrupted_run_is_paid_by_all_who_share() {
    let mut line = Timeline::new(utilization(), &[reserve(20), reserve(80)]);
    for number in 0..20_000 {
        line.submit(0, block(number));
        line.submit(1, block(100_000_000 + number));
    }
    // Each goes on with its run for 1 ms a block; the first block after a switch costs 15 ms more.
    let (mut last, mut blocks) = (None, [0_u64; 2]);
    let end = Instant::ZERO + Duration::from_secs(12);
    while line.now < end {
        let command = line.issued();
        let back = last.replace(command.volume) != Some(command.volume);
        line.after(ms(if back { 16 } else { 1 })).complete(&command, Outcome::Done);
        line.replied();
        blocks[command.volume.0 as usize] += 1;
    }
    line.engine.invariants();
    // 30 ms a round of a second go to ways: of what is left the small share has its fifth. On its
    // own account it would have 185 blocks of 200 a round.
    let fifth = blocks[0] * 5;
    let all = blocks[0] + blocks[1];
    assert!(fifth.abs_diff(all) * 100 <= all * 2, "{} blocks of {all}", blocks[0]);
}

fn throughput() -> Settings {
    let nominal = DiskTime::from_millis(10);
    Settings { policy: PolicyName::Throughput, nominal_cost: nominal, ..Settings::default() }
}

#[test]
fn a_reserved_rate_counts_commands_whatever_they_take() {
    // Of 100 commands a second one volume has 30 and the other 20; the rest is slack, and shared
    // alike.
    let mut line = Timeline::new(throughput(), &[reserve(30), reserve(20)]);
    let mut place = 0;
    for _ in 0..4 {
        for volume in [0, 1] {
            place += 10_000;
            line.submit(volume, block(place));
        }
    }
    let mut done = [0_u32; 2];
    while line.now < Instant::ZERO + Duration::from_secs(20) {
        let volume = line.serve(ms(18)).0;
        done[volume as usize] += 1;
        place += 10_000;
        line.submit(volume, block(place));
    }
    // The disk does 55 a second, and 50 are promised: both have theirs, though each command is over
    // its nominal time.
    assert!(done[0] >= 20 * 30 - 30 && done[1] >= 20 * 20 - 20, "{done:?}");
}

#[test]
fn a_limit_under_throughput_is_a_rate_too() {
    let mut line = Timeline::new(throughput(), &[limit(10)]);
    for number in 0..200 {
        line.submit(0, block(number));
    }
    let mut done = 0;
    while line.now < Instant::ZERO + Duration::from_secs(5) {
        if let Some(Action::Issue(command)) = line.poll() {
            line.after(ms(1)).complete(&command, Outcome::Done);
            line.replied();
            done += 1;
        } else {
            line.now = line.engine.next_wakeup().expect("it is let in again");
        }
    }
    assert!((48..=51).contains(&done), "{done} in 5 s at 10 a second");
}

#[test]
fn who_goes_before_its_turn_pays_its_own_way_and_all_pay_the_way_back_of_whom_it_broke_in_on() {
    let mut line = Timeline::new(utilization(), &[reserve(50), reserve(30), limit(20)]);
    line.engine.set_priority(VolumeId(2), Priority::High);
    for number in 0..2_000 {
        line.submit(0, block(number));
    }
    // What its commands take is known, and its turn is not over.
    for _ in 0..100 {
        assert_eq!(line.serve(ms(1)), VolumeId(0));
    }
    let before = line.had(0);
    line.submit(2, block(500_000_000));
    assert_eq!(line.serve(ms(16)), VolumeId(2), "before the turn of the first is over");
    assert_eq!(line.had(2), DiskTime::from_millis(16), "its own way");
    assert_eq!(line.serve(ms(16)), VolumeId(0), "whose turn it still is");
    let back = line.had(0) - before;
    assert!(back < DiskTime::from_millis(3), "{back} for a block of 1 ms and 15 ms of way");
    line.engine.invariants();
    while line.had(0) < DiskTime::from_millis(1_500) {
        line.serve(ms(1));
    }
    line.engine.invariants();
    let all = line.had(0) + line.had(2);
    let owed = line.engine.busy() - all;
    assert!(owed < DiskTime::from_millis(4), "{owed} of 15 ms is uncharged after a second");
}

/// What came while its volume was of a higher class goes before its turn, and is forgotten when it
/// has gone.
#[test]
fn a_volume_may_change_its_class_while_its_requests_wait() {
    let mut line = Timeline::new(fcfs(), &[limit(100), limit(100)]);
    line.submit(0, block(1));
    line.engine.set_priority(VolumeId(1), Priority::High);
    line.submit(1, block(2));
    line.engine.set_priority(VolumeId(1), Priority::Normal);
    line.submit(0, block(3));
    line.submit(1, block(4));
    let order: Vec<u32> = (0..4).map(|_| line.serve(ms(1)).0).collect();
    assert_eq!(order, [1, 0, 0, 1]);
    line.quiet();
}
