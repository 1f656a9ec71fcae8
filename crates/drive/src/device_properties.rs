//! What holds of a device whatever commands come.

use proptest::prelude::*;
use units::{Angle, Duration, Op, Operation, Sectors};

use crate::device_tests::{RecordedRng, at, device, extent, model, read, run, transfer, us, write};
use crate::{Done, Mapping, Remap, Skip, Spec, Tag};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) think: u64,
    pub(crate) operation: Operation,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let place = prop_oneof![0_u64..2_000, 0_u64..71_000];
    (0_u64..30_000, place, 1_u64..400, 0_u8..12, any::<bool>()).prop_map(
        |(think, start, len, kind, fua)| {
            let op = match kind {
                0..5 => Op::Read,
                5..9 => Op::Write,
                9 => Op::Flush,
                10 => Op::Trim,
                _ => Op::WriteZeroes,
            };
            let extent = if op == Op::Flush { extent(0, 0) } else { extent(start, len) };
            // Half of all thinking is none at all.
            let think = if think % 2 == 0 { 0 } else { think };
            Step { think, operation: Operation { op, extent, fua: fua && op == Op::Write } }
        },
    )
}

/// Submits at fixed instants, asks all the time or not before the end, and returns what came out.
fn play(steps: &[Step], often: bool) -> Vec<Done> {
    play_with(steps, often, |_| {})
}

/// The same with a drive that is changed.
pub(crate) fn play_with(steps: &[Step], often: bool, change: impl FnOnce(&mut Spec)) -> Vec<Done> {
    let mut device = device(|spec| {
        spec.queue_depth_max = 64;
        change(spec);
    });
    let mut now = at(0);
    let mut all = Vec::new();
    for (tag, step) in (0..).zip(steps) {
        for quarter in (1..=4).filter(|_| often) {
            let then = now + us(step.think) * quarter / 4;
            all.extend(std::iter::from_fn(|| device.complete(then)));
            device.advance(then);
        }
        now += us(step.think);
        if !device.can_accept() {
            all.extend(device.complete(now));
        }
        device.submit(now, Tag(tag), step.operation);
    }
    while let Some(end) = device.next_completion() {
        now = now.max(end);
        all.extend(device.complete(now));
    }
    device.advance(now + us(100_000_000));
    assert!(device.is_quiescent());
    all
}

#[test]
fn the_same_commands_give_the_same_nanoseconds_on_every_machine_and_in_every_build() {
    let mut rng = RecordedRng(3);
    let mut steps = Vec::new();
    for _ in 0..2_000 {
        let extent = extent(rng.below(71_000), 1 + rng.below(300));
        let op = transfer(rng.below(4));
        let operation = Operation { op, extent, fua: op == Op::Write && rng.below(4) == 0 };
        steps.push(Step { think: 40_000 + rng.below(20_000), operation });
    }
    let sum = play(&steps, false)
        .iter()
        .fold(0_u64, |sum, done| sum.wrapping_mul(1_000_003).wrapping_add(done.at.as_nanos()));
    // Changes only where the model is meant to change.
    assert_eq!(sum, GOLDEN);
}

/// What the commands of the test above gave when it was written.
const GOLDEN: u64 = 15_234_956_506_366_371_988;

proptest! {
    #[test]
    fn any_commands_end_in_order_no_sooner_than_they_can_and_within_the_worst_case(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let all = play(&steps, false);
        prop_assert_eq!(all.len(), steps.len());
        let model = model(|_| {});
        let mut submitted = at(0);
        let mut before = at(0);
        for (done, step) in all.iter().zip(&steps) {
            submitted += us(step.think);
            prop_assert!(done.at >= before, "{:?}", done);
            prop_assert_eq!(done.parts.sum(), done.at.since(submitted));
            let len = step.operation.extent.len;
            let (least, sectors) = match step.operation.op {
                Op::Read | Op::Write => (us(5) * len.0, len),
                Op::Trim | Op::Flush | Op::WriteZeroes | Op::Seek => (Duration::ZERO, len),
            };
            // What waits for no other command: the bus carries it all, and nothing takes longer
            // than the worst case.
            let alone = done.parts.sum().saturating_sub(done.parts.queue);
            prop_assert!(alone >= least, "{:?}", done);
            if matches!(step.operation.op, Op::Read) {
                prop_assert!(alone <= model.worst_case(sectors), "{:?}", done);
            }
            before = done.at;
        }
    }

    #[test]
    fn how_often_the_device_is_asked_changes_nothing(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        prop_assert_eq!(play(&steps, false), play(&steps, true));
    }

    #[test]
    fn a_command_alone_takes_no_longer_than_the_worst_case(
        from in 0_u64..68_000,
        start in 0_u64..66_000,
        len in 1_u64..2_000,
        think in 0_u64..20_000,
        writes in any::<bool>(),
        skews in (0_u32..60, 0_u32..60),
        rests in (any::<u32>(), any::<u32>()),
        slips in proptest::collection::vec(1_u64..160, 0..20),
        remaps in any::<bool>(),
        mapping in 0_usize..3,
    ) {
        let mut device = device(|spec| {
            spec.write_cache = false;
            let all = [Mapping::Cylinder, Mapping::SerpentineZone, Mapping::Serpentine];
            spec.mapping = all[mapping];
            for zone in &mut spec.zones {
                (zone.track_skew, zone.cylinder_skew) = skews;
                zone.skips = (0..100)
                    .map(|n| Skip { first: n * 170, count: n % 7 * 5 + 1 })
                    .collect();
                zone.track_skew_remainder = Angle(rests.0 >> 8);
                zone.cylinder_skew_remainder = Angle(rests.1 >> 8);
                zone.track_slips.clone_from(&slips);
                zone.track_slips.sort_unstable();
                let kept = |n: u64| Remap { from: n * 170 + 60, to: (99 - n) * 170, count: 1 };
                zone.remaps = if remaps { (0..100).map(kept).collect() } else { Vec::new() };
            }
        });
        let first = run(&mut device, at(0), read(from, 1));
        let operation = if writes { write(start, len) } else { read(start, len) };
        let done = run(&mut device, first.at + us(think), operation);
        let worst = device.model().worst_case_within(extent(start, len), Sectors(len));
        prop_assert!(done.parts.sum() <= worst, "{:?} > {}", done.parts, worst);
    }
}
