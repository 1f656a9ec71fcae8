//! Facts about the engine, each a timeline: events at given times, and the expected actions.

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
fn a_long_request_is_issued_in_pieces_in_order_and_answered_after_the_last() {
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
fn a_failed_piece_fails_its_request_and_no_other() {
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
fn idle_time_is_charged_to_no_volume() {
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
fn commands_in_flight_never_exceed_the_depth() {
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
    // Three commands in flight share nine milliseconds.
    assert_eq!(line.had(0) + line.had(1), DiskTime::from_millis(3));
}

#[test]
fn fcfs_serves_requests_in_the_order_of_arrival_whatever_the_contracts() {
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
fn slack_goes_to_the_volume_with_the_lowest_recent_usage() {
    let contracts = [Contract::BEST_EFFORT; 3];
    let settings = Settings { batch: Duration::ZERO, ..utilization() };
    let mut line = Timeline::new(settings, &contracts);
    let mut number = 0;
    let mut submit = |line: &mut Timeline, volume: u32| {
        number += 10_000;
        line.submit(volume, block(number))
    };
    for volume in 0..3 {
        submit(&mut line, volume);
    }
    // A request of volume 1 takes three times as long as one of the others.
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
fn a_volume_at_its_limit_waits_while_the_disk_idles_until_its_limit_bucket_refills() {
    let mut line = Timeline::new(utilization(), &[limit(30)]);
    line.after(ms(10)).submit(0, block(1));
    line.submit(0, block(50_000));
    // The limit bucket has accrued 3 ms by now; the command takes 12.
    assert_eq!(line.serve(ms(12)), VolumeId(0));
    line.quiet();
    let wakeup = line.engine.next_wakeup().expect("the limit bucket refills");
    // The debt is 9 ms less 30 % of the 12 ms, and one nanosecond must be left: 5.4 ms at 30 %.
    assert_eq!(wakeup, line.now + Duration::from_nanos(18_000_004));
    line.now = wakeup.saturating_sub(Duration::from_nanos(1));
    line.quiet();
    line.now = wakeup;
    line.issued();
}

#[test]
fn a_sequential_run_is_served_for_one_quantum_and_then_preempted() {
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
    // The quantum: what a reserve of half of the disk accrues in a period.
    assert!((ms(499)..=ms(501)).contains(&run), "the quantum lasted {run}");
}

#[test]
fn a_small_reserve_is_preempted_when_its_debt_is_one_periods_worth() {
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
    let debt = -line.engine.balance(VolumeId(0), line.now).expect("the policy has buckets");
    assert!(debt <= DiskTime::from_millis(51), "a period's worth is 50 ms; the debt is {debt}");
    assert!((ms(90)..=ms(180)).contains(&run), "the batch lasted {run}");
}

/// A client that sends the next block of its sequential run within 100 µs of each answer, beside a
/// backlogged volume.
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
fn the_disk_lingers_for_a_quick_client_in_a_run_and_charges_its_volume() {
    let mut line = quick_client_in_a_run();
    let had = line.had(0);
    line.quiet();
    assert_eq!(line.engine.next_wakeup(), Some(line.now + ms(2)));
    let before = line.engine.balance(VolumeId(0), line.now).expect("the policy has buckets");
    line.after(Duration::from_micros(100)).submit(0, block(5));
    let after = line.engine.balance(VolumeId(0), line.now).expect("the policy has buckets");
    // The reserve accrued half of the idle time and was debited all of it.
    assert_eq!(before - after, DiskTime::from_micros(50));
    assert_eq!(line.serve(ms(1)), VolumeId(0));
    assert_eq!(line.had(0) - had, DiskTime::from_micros(1_100));
    assert_eq!(line.engine.usage(VolumeId(0)).anticipation, DiskTime::from_micros(100));
}

#[test]
fn after_a_linger_in_vain_the_disk_does_not_linger_for_that_volume_again() {
    let mut line = quick_client_in_a_run();
    line.quiet();
    let wakeup = line.engine.next_wakeup().expect("the disk lingers");
    line.now = wakeup;
    assert_eq!(line.serve(ms(10)), VolumeId(1), "the other volume is served");
    assert_eq!(line.engine.usage(VolumeId(0)).anticipation, DiskTime::from_millis(2));
    line.submit(0, block(5));
    while line.serve(ms(10)) != VolumeId(0) {}
    assert!(matches!(line.poll(), Some(Action::Issue(command)) if command.volume == VolumeId(1)));
}

#[test]
fn an_idle_volume_accumulates_one_period_and_no_more() {
    let mut line = Timeline::new(utilization(), &[reserve(40)]);
    line.after(Duration::from_secs(60));
    let balance = line.engine.balance(VolumeId(0), line.now);
    assert_eq!(balance, Some(DiskTime::from_millis(400)));
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
fn an_engine_whose_time_runs_backwards_panics() {
    let mut line = Timeline::new(utilization(), &[reserve(60)]);
    line.after(ms(5)).quiet();
    line.now = Instant::ZERO;
    line.quiet();
}

/// Two volumes that always have random work, and the order and the lengths in milliseconds of their
/// quanta.
fn quanta(service: impl Fn(u64) -> Duration) -> Vec<(VolumeId, Duration)> {
    let mut line = Timeline::new(utilization(), &[reserve(50), reserve(50)]);
    for number in 0..20_000 {
        line.submit(0, block(number * 1_000));
        line.submit(1, block(100_000_000 + number * 1_000));
    }
    let mut quanta: Vec<(VolumeId, Duration)> = Vec::new();
    for number in 0..3_000 {
        let took = service(number);
        let volume = line.serve(took);
        match quanta.last_mut() {
            Some((last, length)) if *last == volume => *length += took,
            _ => quanta.push((volume, took)),
        }
    }
    quanta
}

#[test]
fn no_volume_has_two_quanta_in_a_row_and_an_overrun_shortens_the_next_quantum() {
    let quanta = quanta(|number| ms(5 + number % 13));
    assert!(quanta.len() > 40, "half a second each: {} quanta", quanta.len());
    let whole = &quanta[..quanta.len() - 1];
    for (number, (_, length)) in whole.iter().enumerate() {
        assert!((ms(480)..=ms(520)).contains(length), "quantum {number} lasted {length}");
    }
    // Each volume has half of any two periods: no error accumulates.
    for four in whole.windows(4) {
        let had = four[0].1 + four[2].1;
        assert!((ms(980)..=ms(1_020)).contains(&had), "{had} of two periods");
    }
}

/// Two volumes with reserves of 50 % and 39 % are backlogged; a third with 10 % has one outstanding
/// request, which is served between their quanta.
#[test]
fn a_volume_with_one_outstanding_request_does_not_cause_two_quanta_of_another() {
    let mut line = Timeline::new(utilization(), &[reserve(50), reserve(39), reserve(10)]);
    for number in 0..20_000 {
        line.submit(0, block(number * 1_000));
        line.submit(1, block(100_000_000 + number * 1_000));
    }
    line.submit(2, block(200_000_000));
    let mut had = vec![[Duration::ZERO; 3]];
    let mut submitted = 1;
    for number in 0..5_000 {
        let took = ms(5 + number % 13);
        let volume = line.serve(took);
        if volume == VolumeId(2) {
            line.submit(2, block(200_000_000 + submitted * 1_000));
            submitted += 1;
        }
        let mut now = *had.last().expect("a beginning");
        now[volume.0 as usize] += took;
        had.push(now);
    }
    assert!(submitted > 100, "the third always has a request: {submitted}");
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
fn the_return_cost_of_a_preempted_run_is_charged_to_all_active_volumes() {
    let mut line = Timeline::new(utilization(), &[reserve(20), reserve(80)]);
    for number in 0..20_000 {
        line.submit(0, block(number));
        line.submit(1, block(100_000_000 + number));
    }
    // A block of a run takes 1 ms; the first block after a switch takes 15 ms more.
    let (mut last, mut blocks) = (None, [0_u64; 2]);
    let end = Instant::ZERO + Duration::from_secs(12);
    while line.now < end {
        let command = line.issued();
        let returns = last.replace(command.volume) != Some(command.volume);
        line.after(ms(if returns { 16 } else { 1 })).complete(&command, Outcome::Done);
        line.replied();
        blocks[command.volume.0 as usize] += 1;
    }
    line.engine.invariants();
    // Switching costs 30 ms in a round of one second: the small share has a fifth of the rest. If
    // it paid its own return cost, it would have 185 blocks of 200 per round.
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
    // Of 100 commands a second one volume reserves 30 and the other 20; the rest is slack, divided
    // equally.
    let mut line = Timeline::new(throughput(), &[reserve(30), reserve(20)]);
    let mut number = 0;
    for _ in 0..4 {
        for volume in [0, 1] {
            number += 10_000;
            line.submit(volume, block(number));
        }
    }
    let mut done = [0_u32; 2];
    while line.now < Instant::ZERO + Duration::from_secs(20) {
        let volume = line.serve(ms(18)).0;
        done[volume as usize] += 1;
        number += 10_000;
        line.submit(volume, block(number));
    }
    // The disk serves 55 a second, and 50 are reserved: both reserves are met, although each
    // command exceeds its nominal time.
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
            line.now = line.engine.next_wakeup().expect("the limit bucket refills");
        }
    }
    assert!((48..=51).contains(&done), "{done} in 5 s at 10 a second");
}

#[test]
fn a_volume_served_out_of_order_pays_its_own_positioning_and_all_pay_the_return_cost() {
    let mut line = Timeline::new(utilization(), &[reserve(50), reserve(30), limit(20)]);
    line.engine.set_priority(VolumeId(2), Priority::High);
    for number in 0..2_000 {
        line.submit(0, block(number));
    }
    // Its mean service time is known, and its quantum is not over.
    for _ in 0..100 {
        assert_eq!(line.serve(ms(1)), VolumeId(0));
    }
    let before = line.had(0);
    line.submit(2, block(500_000_000));
    assert_eq!(line.serve(ms(16)), VolumeId(2), "before the quantum of the first is over");
    assert_eq!(line.had(2), DiskTime::from_millis(16), "its own positioning");
    assert_eq!(line.serve(ms(16)), VolumeId(0), "its quantum goes on");
    let charge = line.had(0) - before;
    assert!(charge < DiskTime::from_millis(3), "{charge} for 1 ms and a return cost of 15 ms");
    line.engine.invariants();
    while line.had(0) < DiskTime::from_millis(1_500) {
        line.serve(ms(1));
    }
    line.engine.invariants();
    let all = line.had(0) + line.had(2);
    let uncharged = line.engine.busy() - all;
    assert!(
        uncharged < DiskTime::from_millis(4),
        "{uncharged} of 15 ms is uncharged after a second"
    );
}

/// A request that arrived while its volume had high priority is served out of order, and its entry
/// among the urgent ones ends with it.
#[test]
fn a_volume_may_change_its_priority_while_its_requests_are_queued() {
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
