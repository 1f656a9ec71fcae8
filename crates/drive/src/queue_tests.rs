//! What a drive's queue does, one fact a test, and what holds of it whatever commands come.

use proptest::prelude::*;
use rng::SeededRng;
use units::{Duration, Instant, Op, Operation, Sectors};

use crate::device_properties::{Step, step};
use crate::device_tests::{RecordedRng, at, device, extent, read, run, transfer, us, write};
use crate::{Choosing, Device, Discipline, Done, Order, Spec, Tag};

const AGE_LIMIT: Duration = Duration::from_millis(500);
const DEPTH: u32 = 16;

fn shortest(spec: &mut Spec) {
    spec.discipline = Discipline::ShortestPositioning(Choosing {
        age_limit: AGE_LIMIT,
        stream_hold: us(1_000),
        decision_latency: Duration::ZERO,
    });
}

/// Nothing but the mechanism, and a queue before it.
fn bare(spec: &mut Spec) {
    shortest(spec);
    spec.read_buffer.segments = 0;
    spec.write_cache = false;
}

/// All that is done from now on, in its order.
fn finish(device: &mut Device) -> Vec<Done> {
    let next = || {
        let end = device.next_completion()?;
        Some(device.complete(end))
    };
    std::iter::from_fn(next).flatten().collect()
}

fn tags(all: &[Done]) -> Vec<u64> {
    all.iter().map(|done| done.tag.0).collect()
}

/// The order in which commands are served that come while a first one, numbered 0, is in service.
fn served(change: impl FnOnce(&mut Spec), commands: &[(Operation, Order)]) -> Vec<u64> {
    let mut device = device(change);
    device.submit(at(0), Tag(0), read(0, 1));
    for (tag, (operation, order)) in (1..).zip(commands) {
        device.submit_tagged(at(1), Tag(tag), *operation, *order);
    }
    tags(&finish(&mut device))
}

fn simple(operation: Operation) -> (Operation, Order) {
    (operation, Order::Simple)
}

#[test]
fn what_the_heads_reach_first_goes_first() {
    // On the first track, at 25, 150 and 90 of 200 sectors; and far away.
    let commands = [60_000, 150, 25, 90].map(|lba| simple(read(lba, 1)));
    assert_eq!(served(bare, &commands), [0, 3, 4, 2, 1]);
    assert_eq!(served(|spec| spec.read_buffer.segments = 0, &commands), [0, 1, 2, 3, 4]);
}

#[test]
fn what_the_arm_reaches_first_goes_first_if_the_drive_does_not_look_at_the_angle() {
    let seek = |spec: &mut Spec| {
        bare(spec);
        let choosing = spec.discipline.choosing().expect("it chooses");
        spec.discipline = Discipline::ShortestSeek(choosing);
    };
    let commands = [60_000, 40_000, 9_000, 150, 25, 90].map(|lba| simple(read(lba, 1)));
    assert_eq!(served(seek, &commands), [0, 4, 5, 6, 3, 2, 1]);
}

#[test]
fn a_sector_that_the_arm_would_just_miss_costs_a_turn() {
    // The next cylinder takes 1 ms and begins at (3 × 30 + 40) × 50 µs = 6.5 ms; sector 80 of this
    // one passes at 4 ms, sector 75 of the next at 6.5 + 3.75 - 10 = 0.25 ms: it is just missed.
    let commands = [875, 80].map(|lba| simple(read(lba, 1)));
    assert_eq!(served(bare, &commands), [0, 2, 1]);
    let commands = [800, 180].map(|lba| simple(read(lba, 1)));
    assert_eq!(served(bare, &commands), [0, 1, 2]);
}

#[test]
fn a_drive_that_chooses_ahead_takes_what_has_just_passed_for_what_comes() {
    let ahead = |spec: &mut Spec| {
        bare(spec);
        let choosing = spec.discipline.choosing().expect("it chooses");
        spec.discipline =
            Discipline::ShortestPositioning(Choosing { decision_latency: us(200), ..choosing });
    };
    // The first read ends behind sector 0: sector 199 has passed 55 µs ago.
    let commands = [100, 199, 0].map(|lba| simple(read(lba, 1)));
    assert_eq!(served(bare, &commands), [0, 1, 2, 3]);
    assert_eq!(served(ahead, &commands)[..2], [0, 2]);
}

#[test]
fn what_memory_holds_goes_before_what_lies_under_the_heads() {
    let mut device = device(shortest);
    let first = run(&mut device, at(0), read(20_000, 8));
    // The drive has read on.
    device.submit(first.at + us(20_000), Tag(0), read(40_000, 8));
    device.submit(first.at + us(20_001), Tag(1), read(45_000, 8));
    device.submit(first.at + us(20_002), Tag(2), read(20_008, 8));
    assert_eq!(tags(&finish(&mut device)), [0, 2, 1]);
}

#[test]
fn ordered_commands_stay_where_they_came_and_those_at_the_head_go_before_all() {
    let ordered = (read(30_000, 1), Order::Ordered);
    let commands =
        [simple(read(60_000, 1)), simple(read(20, 1)), ordered, simple(read(40, 1)), ordered];
    assert_eq!(served(bare, &commands), [0, 2, 1, 3, 4, 5]);
    let head = |lba| (read(lba, 1), Order::HeadOfQueue);
    let commands = [simple(read(20, 1)), ordered, head(60_000), head(50_000)];
    assert_eq!(served(bare, &commands), [0, 4, 3, 1, 2]);
    let fifo = |spec: &mut Spec| spec.discipline = Discipline::Fifo;
    assert_eq!(served(fifo, &commands), [0, 4, 3, 1, 2]);
}

#[test]
fn commands_that_share_sectors_keep_their_order_if_one_of_them_writes() {
    let commands = [simple(write(60_000, 8)), simple(read(20, 1)), simple(read(60_004, 1))];
    let far = [simple(read(59_000, 200)), simple(read(20, 400)), simple(write(300, 1))];
    assert_eq!(served(bare, &commands), [0, 2, 1, 3]);
    assert_eq!(served(bare, &far), [0, 2, 3, 1]);
}

#[test]
fn a_flush_waits_for_what_came_before_it_and_is_overtaken_by_nothing() {
    let commands = [simple(read(60_000, 1)), simple(Operation::flush()), simple(read(20, 1))];
    assert_eq!(served(bare, &commands), [0, 1, 2, 3]);
}

/// The wait of a random read beside a stream that keeps `outstanding` commands in the drive.
fn starved(change: impl FnOnce(&mut Spec), outstanding: u64) -> Duration {
    const RANDOM: Tag = Tag(u64::MAX);
    let mut device = device(change);
    let mut now = at(0);
    let mut next = 0;
    let mut stream = |device: &mut Device, now: Instant| {
        device.submit(now, Tag(next), read(next % 1_000 * 64, 64));
        next += 1;
    };
    for _ in 0..outstanding {
        stream(&mut device, now);
    }
    let mut came = None;
    loop {
        let end = device.next_completion().expect("the stream never ends");
        if came.is_none() && end > at(30_000) {
            came = Some(now);
            device.submit(now, RANDOM, read(35_000, 8));
        }
        now = end;
        match (device.complete(now), came) {
            (Some(done), Some(came)) if done.tag == RANDOM => return now.since(came),
            (Some(_), _) => stream(&mut device, now),
            (None, _) => {}
        }
    }
}

#[test]
fn a_random_read_starves_beside_a_stream_until_the_age_limit_if_the_queue_is_two_or_more() {
    for outstanding in [1, 2, 8] {
        let wait = starved(shortest, outstanding);
        assert!(wait >= AGE_LIMIT && wait <= AGE_LIMIT + us(60_000), "{outstanding}: {wait}");
    }
    assert!(starved(|_| {}, 8) < us(100_000));
}

#[test]
fn a_stream_of_one_is_left_if_the_arm_is_not_held_for_it() {
    let eager = |spec: &mut Spec| {
        let stream_hold = Duration::ZERO;
        spec.discipline = Discipline::ShortestPositioning(Choosing {
            age_limit: AGE_LIMIT,
            stream_hold,
            decision_latency: Duration::ZERO,
        });
    };
    assert!(starved(eager, 1) < us(60_000));
    // The second command of the stream is there before the first is done: nothing needs to be held.
    assert!(starved(eager, 2) >= AGE_LIMIT);
}

#[test]
fn the_arm_is_held_no_longer_than_told_and_not_for_a_command_that_finds_the_drive_at_rest() {
    let mut device = device(shortest);
    let first = run(&mut device, at(0), read(0, 8));
    let alone = run(&mut device, first.at, read(8, 8));
    let random = run(&mut device, alone.at, read(40_000, 8));
    assert_eq!(random.parts.queue, Duration::ZERO);
    let mut device = self::device(shortest);
    let first = run(&mut device, at(0), read(0, 8));
    device.submit(first.at, Tag(0), read(8, 8));
    device.submit(first.at, Tag(1), read(40_000, 8));
    let hit = device.next_completion().expect("one is in service");
    assert_eq!(device.complete(hit).map(|done| done.tag), Some(Tag(0)));
    assert_eq!(device.next_completion(), Some(hit + us(1_000)));
    let random = finish(&mut device)[0];
    assert_eq!(random.parts.queue, hit.since(first.at) + us(1_000));
}

#[test]
fn the_deeper_the_queue_the_more_a_drive_does() {
    let rate = |depth: u64| {
        let mut device = device(shortest);
        let mut rng = SeededRng::new(5, 0);
        let mut operation = || read(rng.below(8_500) * 8, 8);
        (0..depth).for_each(|tag| device.submit(at(0), Tag(tag), operation()));
        let (mut done, mut now) = (0, at(0));
        while done < 5_000 {
            now = device.next_completion().expect("commands wait");
            if device.complete(now).is_some() {
                done += 1;
                device.submit(now, Tag(done + depth), operation());
            }
        }
        5_000 * 1_000_000_000 / now.as_nanos()
    };
    let rates = [1, 2, 4, 16, 32].map(rate);
    assert!(rates.is_sorted() && rates[3] >= 2 * rates[0], "{rates:?}");
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![8 => Just(Order::Simple), 1 => Just(Order::Ordered), 1 => Just(Order::HeadOfQueue)]
}

/// Submits at fixed instants, as long as there is room; asks all the time or not before it must.
fn play(change: fn(&mut Spec), steps: &[(Step, Order)], often: bool) -> Vec<Done> {
    let mut device = device(|spec| {
        change(spec);
        spec.queue_depth_max = 256;
    });
    let mut now = at(0);
    let mut all = Vec::new();
    for (tag, (step, order)) in (0..).zip(steps) {
        for part in (1..=8).filter(|_| often) {
            let then = now + us(step.think) * part / 8;
            all.extend(std::iter::from_fn(|| device.complete(then)));
            device.advance(then);
        }
        now += us(step.think);
        device.submit_tagged(now, Tag(tag), step.operation, *order);
    }
    while let Some(next) = device.next_completion() {
        now = now.max(next);
        all.extend(device.complete(now));
    }
    assert_eq!(device.outstanding(), 0);
    all
}

/// When each command came, by tag.
fn submitted(steps: &[(Step, Order)]) -> Vec<Instant> {
    let mut now = at(0);
    let came = steps.iter().map(|(step, _)| {
        now += us(step.think);
        now
    });
    came.collect()
}

/// A stream and a random reader, whose commands come when a die says so.
fn beside_a_stream() -> impl Strategy<Value = Vec<(Step, Order)>> {
    let one = (0_u64..4_000, 0_u8..4, 0_u64..71_000);
    proptest::collection::vec(one, 1..100).prop_map(|all| {
        let mut next = 0;
        let step = |(think, kind, place)| {
            let start = if kind == 0 { place } else { next };
            next += if kind == 0 { 0 } else { 64 };
            let operation = read(start, 64);
            (Step { think, operation }, Order::Simple)
        };
        all.into_iter().map(step).collect()
    })
}

proptest! {
    #[test]
    fn every_command_is_done_once_and_its_parts_add_up(
        steps in proptest::collection::vec((step(), order()), 1..80),
    ) {
        let all = play(shortest, &steps, false);
        let came = submitted(&steps);
        let mut tags = tags(&all);
        tags.sort_unstable();
        prop_assert!(tags.iter().copied().eq(0..steps.len() as u64));
        prop_assert!(all.is_sorted_by_key(|done| done.at));
        for done in &all {
            let came = came[usize::try_from(done.tag.0).expect("an index")];
            prop_assert_eq!(done.parts.sum(), done.at.since(came));
        }
    }

    #[test]
    fn how_often_a_queue_is_asked_changes_nothing(
        steps in proptest::collection::vec((step(), order()), 1..80),
    ) {
        prop_assert_eq!(play(shortest, &steps, false), play(shortest, &steps, true));
        prop_assert_eq!(play(bare, &steps, false), play(bare, &steps, true));
    }

    #[test]
    fn how_often_a_stream_that_holds_the_arm_is_asked_changes_nothing(steps in beside_a_stream()) {
        prop_assert_eq!(play(shortest, &steps, false), play(shortest, &steps, true));
    }

    #[test]
    fn nobody_waits_longer_than_the_age_limit_and_the_whole_queue_after_it(
        seed in any::<u64>(),
        streams in 0_u64..4,
    ) {
        let mut device = device(|spec| {
            shortest(spec);
            spec.write_cache = false;
            spec.queue_depth_max = DEPTH;
        });
        let worst = device.model().worst_case(Sectors(64));
        let bound = AGE_LIMIT + worst * u64::from(DEPTH);
        let mut rng = SeededRng::new(seed, 0);
        let (mut tag, mut next, mut now) = (0, 0, at(0));
        for _ in 0..600 {
            while device.can_accept() && rng.below(8) > 0 {
                let stream = rng.below(4) < streams;
                let start = if stream { next } else { rng.below(71_000) };
                next = if stream { (next + 64) % 70_000 } else { next };
                let op = if !stream && rng.below(4) == 0 { Op::Write } else { Op::Read };
                let operation = Operation { op, extent: extent(start, 64), fua: false };
                device.submit(now, Tag(tag), operation);
                tag += 1;
            }
            let Some(end) = device.next_completion() else { continue };
            now = end;
            if let Some(done) = device.complete(now) {
                prop_assert!(done.parts.sum() <= bound, "{:?} > {}", done, bound);
            }
        }
    }

    #[test]
    fn what_writes_and_what_shares_its_sectors_stay_in_order(
        steps in proptest::collection::vec((step(), Just(Order::Simple)), 1..80),
    ) {
        let all = play(shortest, &steps, false);
        let index = |done: &Done| usize::try_from(done.tag.0).expect("an index");
        let operation = |done: &Done| steps[index(done)].0.operation;
        for (place, late) in all.iter().enumerate() {
            let (one, tag) = (operation(late), late.tag);
            for early in all[..place].iter().filter(|early| early.tag > tag) {
                let other = operation(early);
                let apart = one.extent.end() <= other.extent.start
                    || other.extent.end() <= one.extent.start;
                let reads = one.op == Op::Read && other.op == Op::Read;
                prop_assert!(apart || reads, "{:?} after {:?}", late, early);
            }
        }
    }
}

#[test]
fn the_same_queue_gives_the_same_nanoseconds_on_every_machine_and_in_every_build() {
    let mut rng = RecordedRng(4);
    let steps: Vec<_> = (0..200)
        .map(|_| {
            let extent = extent(rng.below(71_000), 1 + rng.below(100));
            let operation =
                Operation { op: transfer(rng.below(4)), extent, fua: rng.below(4) == 0 };
            (Step { think: rng.below(20_000), operation }, Order::Simple)
        })
        .collect();
    let sum = play(shortest, &steps, false)
        .iter()
        .fold(0_u64, |sum, done| sum.wrapping_mul(1_000_003).wrapping_add(done.at.as_nanos()));
    // Changes only where the model is meant to change.
    assert_eq!(sum, GOLDEN);
}

/// What the commands of the test above gave when it was written.
const GOLDEN: u64 = 17_129_841_110_558_205_994;
