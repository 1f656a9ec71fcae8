//! Properties of a flash drive under any commands.

use proptest::prelude::*;
use units::{Duration, Instant, Op, Operation, Sectors};

use super::tests::{at, device, extent, us_of};
use super::{Amplification, FlashSpec, Suspend};
use crate::device_tests::RecordedRng;
use crate::{Done, Tag};

#[derive(Clone, Copy, Debug)]
struct Step {
    think: u64,
    operation: Operation,
}

fn step() -> impl Strategy<Value = Step> {
    let place = prop_oneof![0_u64..200, 0_u64..99_000];
    (0_u64..2_000, place, 1_u64..200, 0_u8..14, any::<bool>()).prop_map(
        |(think, start, len, kind, fua)| {
            let op = match kind {
                0..5 => Op::Read,
                5..10 => Op::Write,
                10..12 => Op::Flush,
                12 => Op::Trim,
                _ => Op::WriteZeroes,
            };
            let extent = if op == Op::Flush { extent(0, 0) } else { extent(start, len) };
            // Half of all think times are zero.
            let think = if think % 2 == 0 { 0 } else { think };
            Step { think, operation: Operation { op, extent, fua: fua && op != Op::Flush } }
        },
    )
}

#[derive(Clone, Copy, Debug)]
struct Options {
    protected: bool,
    duplex: bool,
    suspend: bool,
    amplification: u32,
    units_per_block: u32,
    read_ahead: u64,
}

fn options() -> impl Strategy<Value = Options> {
    (any::<[bool; 3]>(), 1_000_u32..5_000, 1_u32..20, 0_u64..128).prop_map(
        |([protected, duplex, suspend], amplification, units_per_block, read_ahead)| Options {
            protected,
            duplex,
            suspend,
            amplification,
            units_per_block,
            read_ahead,
        },
    )
}

impl Options {
    fn change(self, spec: &mut FlashSpec) {
        spec.power_loss_protection = self.protected;
        spec.host.duplex = self.duplex;
        let suspend = Suspend { enter: us_of(30), resume: us_of(40), count_max: 3 };
        spec.nand.suspend = self.suspend.then_some(suspend);
        spec.nand.write_amplification = Amplification(self.amplification);
        spec.nand.units_per_block = self.units_per_block;
        spec.memory.read_ahead = Sectors(self.read_ahead);
    }
}

/// Submits at fixed instants, asks all the time or as little as may be, and gives what came out.
fn play(steps: &[Step], options: Options, often: bool) -> Vec<Done> {
    let mut device = device(|spec| options.change(spec));
    let mut now = at(0);
    let mut all = Vec::new();
    for (tag, step) in (0..).zip(steps) {
        for quarter in (1..=4).filter(|_| often) {
            device.advance(now + us_of(step.think) * quarter / 4);
            device.invariants();
        }
        now += us_of(step.think);
        all.extend(std::iter::from_fn(|| device.complete(now)));
        while !device.can_accept() {
            now = now.max(device.next_completion().expect("it is full"));
            all.extend(device.complete(now));
        }
        device.submit(now, Tag(tag), step.operation);
        assert!(device.buffered() <= Sectors(64), "the buffer never holds more than its size");
    }
    while let Some(then) = device.next_completion() {
        let due = then >= now;
        now = now.max(then);
        let done = device.complete(now);
        // Nothing is answered before the instant that it names.
        assert!(!due || done.is_none_or(|done| done.at == then), "{done:?} at {then}");
        all.extend(done);
        device.invariants();
    }
    device.advance(now + Duration::from_secs(10));
    assert!(device.is_quiescent());
    all
}

/// When each step was submitted, as long as the queue is never full.
fn submitted(steps: &[Step]) -> Vec<Instant> {
    let mut now = at(0);
    let each = |step: &Step| {
        now += us_of(step.think);
        now
    };
    steps.iter().map(each).collect()
}

/// The least that an operation takes, on a drive that does nothing else.
fn least(operation: &Operation) -> Duration {
    let len = operation.extent.len.0;
    match operation.op {
        Op::Read => us_of(2 + len + 10),
        Op::Write => us_of(3 + len + 20),
        Op::Trim | Op::WriteZeroes | Op::Seek => us_of(3 + 20),
        Op::Flush => us_of(5),
    }
}

proptest! {
    #[test]
    fn commands_are_answered_once_in_the_order_of_time_and_no_sooner_than_they_can_be(
        steps in proptest::collection::vec(step(), 1..60),
        options in options(),
    ) {
        let all = play(&steps, options, false);
        let mut tags: Vec<_> = all.iter().map(|done| done.tag.0).collect();
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..steps.len() as u64).collect::<Vec<_>>());
        prop_assert!(all.windows(2).all(|pair| pair[0].at <= pair[1].at));
        let submitted = submitted(&steps);
        for done in &all {
            let place = usize::try_from(done.tag.0).expect("a step");
            let took = done.at.since(submitted[place]);
            prop_assert_eq!(done.parts.sum(), took);
            prop_assert!(took >= least(&steps[place].operation), "{:?}", done);
            // A forced read comes from the cells.
            let operation = steps[place].operation;
            let sensed = operation.op == Op::Read && operation.fua;
            prop_assert!(!sensed || took >= least(&operation) + us_of(50), "{:?}", done);
        }
    }

    #[test]
    fn how_often_the_device_is_asked_changes_nothing(
        steps in proptest::collection::vec(step(), 1..60),
        options in options(),
    ) {
        prop_assert_eq!(play(&steps, options, false), play(&steps, options, true));
    }

    #[test]
    fn a_flush_without_protection_is_answered_when_all_that_came_before_is_programmed(
        steps in proptest::collection::vec(step(), 1..40),
        options in options(),
    ) {
        let options = Options { protected: false, ..options };
        let mut device = device(|spec| options.change(spec));
        let mut now = at(0);
        for (tag, step) in (0..).zip(&steps) {
            now += us_of(step.think);
            device.submit(now, Tag(tag), step.operation);
        }
        device.submit(now, Tag(1_000), Operation::flush());
        loop {
            now = now.max(device.next_completion().expect("the flush is inside"));
            if device.complete(now).is_some_and(|done| done.tag == Tag(1_000)) {
                break;
            }
        }
        // Nothing came after it: whatever is in the buffer then was not durable.
        prop_assert_eq!(device.buffered(), Sectors::ZERO);
    }

    #[test]
    fn writes_of_the_same_sectors_are_answered_in_their_order(
        steps in proptest::collection::vec(step(), 1..60),
        options in options(),
    ) {
        let writes = |operation: &Operation| operation.op.writes();
        let all = play(&steps, options, false);
        for (place, one) in all.iter().enumerate() {
            let first = steps[usize::try_from(one.tag.0).expect("a step")].operation;
            for other in all[place..].iter().filter(|other| other.tag < one.tag) {
                let second = steps[usize::try_from(other.tag.0).expect("a step")].operation;
                let apart = first.extent.end() <= second.extent.start
                    || second.extent.end() <= first.extent.start;
                prop_assert!(!writes(&first) || !writes(&second) || apart, "{:?} {:?}", one, other);
            }
        }
    }
}

#[test]
fn the_same_commands_give_the_same_nanoseconds_on_every_machine_and_in_every_build() {
    let mut rng = RecordedRng(3);
    let mut roll = |below: u64| rng.below(below);
    let ops = [Op::Read, Op::Read, Op::Write, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes];
    let mut steps = Vec::new();
    let mut end = 0;
    for _ in 0..2_000 {
        let op = ops[usize::try_from(roll(7)).expect("small")];
        // A third of the commands begin where the one before ended.
        let start = if roll(3) == 0 { end } else { roll(99_000) };
        let place = extent(start, 1 + roll(300));
        end = place.end().0 % 99_000;
        let place = if op == Op::Flush { extent(0, 0) } else { place };
        let operation = Operation { op, extent: place, fua: op == Op::Write && roll(4) == 0 };
        steps.push(Step { think: roll(8_000), operation });
    }
    let options = Options {
        protected: false,
        duplex: false,
        suspend: true,
        amplification: 2_345,
        units_per_block: 7,
        read_ahead: 100,
    };
    let mut sum = 0_u64;
    for done in play(&steps, options, false) {
        let number = done.at.as_nanos() ^ done.tag.0;
        sum = sum.wrapping_mul(1_000_003).wrapping_add(number);
    }
    // Changes only where the model is meant to change.
    assert_eq!(sum, GOLDEN);
}

/// The completions of the commands of the test above when it was written.
const GOLDEN: u64 = 17_118_642_911_163_291_668;
