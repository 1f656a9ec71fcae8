//! What holds of drives that share a bus.

use std::sync::Arc;

use proptest::prelude::*;
use units::{Duration, Instant, Operation, Sectors, Share};

use crate::device_properties::{Step, step};
use crate::device_tests::{at, model, read, us};
use crate::flash::tests::spec as flash;
use crate::{AnyDevice, AnyModel, BusSpec, Done, SharedBus, Tag};

fn bus(sector: Duration, burst: u64) -> SharedBus {
    SharedBus::new(BusSpec { sector, burst: Sectors(burst) })
}

fn mechanical() -> AnyDevice {
    AnyDevice::new(AnyModel::Mechanical(model(|spec| spec.queue_depth_max = 1)))
}

fn flash_drive() -> AnyDevice {
    AnyDevice::new(AnyModel::Flash(Arc::new(flash().check().expect("a drive"))))
}

/// A command that was answered: its drive, its operation, when it was submitted, and how it ended.
type Answered = (usize, Operation, Instant, Done);

/// Each drive serves its steps one after the other, and all drives at once.
fn play(mut drives: Vec<AnyDevice>, steps: &[Vec<Step>]) -> Vec<Answered> {
    let mut all = Vec::new();
    let mut running: Vec<Option<(Operation, Instant)>> = vec![None; drives.len()];
    let mut next: Vec<(usize, Instant)> = vec![(0, at(0)); drives.len()];
    loop {
        let ends = drives.iter().filter_map(AnyDevice::next_completion);
        let starts = (0..drives.len())
            .filter(|drive| running[*drive].is_none() && next[*drive].0 < steps[*drive].len())
            .map(|drive| next[drive].1);
        let Some(now) = ends.chain(starts).min() else { return all };
        for (index, drive) in drives.iter_mut().enumerate() {
            if let Some(done) = drive.complete(now) {
                let (operation, submitted) = running[index].take().expect("it was submitted");
                all.push((index, operation, submitted, done));
                let (step, start) = &mut next[index];
                *start = now + us(steps[index].get(*step).map_or(0, |step| step.think));
            }
            let (step, start) = &mut next[index];
            if running[index].is_none() && *step < steps[index].len() && *start <= now {
                let operation = steps[index][*step].operation;
                drive.submit(now, Tag(*step as u64), operation);
                running[index] = Some((operation, now));
                *step += 1;
            }
        }
    }
}

fn carries(operation: &Operation) -> u64 {
    let moves = matches!(operation.op, units::Op::Read | units::Op::Write);
    if moves { operation.extent.len.0 } else { 0 }
}

proptest! {
    #[test]
    fn a_bus_carries_no_more_than_it_can_and_no_command_takes_less_than_alone(
        steps in proptest::collection::vec(proptest::collection::vec(step(), 1..20), 1..5),
        sector in 1_u64..60_000,
        burst in 1_u64..300,
        ppb in 100_000_000_u32..=1_000_000_000,
    ) {
        let shared = bus(Duration::from_nanos(sector), burst);
        let drive = |index: usize| {
            let drive = if index % 4 == 3 { flash_drive() } else { mechanical() };
            drive.slowed(Share::from_ppb(ppb))
        };
        let on_bus = (0..steps.len()).map(|index| drive(index).on_bus(shared.clone())).collect();
        let all = play(on_bus, &steps);
        prop_assert_eq!(all.len(), steps.iter().map(Vec::len).sum::<usize>());
        let mut carried = 0;
        for (index, operation, submitted, done) in &all {
            let took = done.at.since(*submitted);
            prop_assert_eq!(done.parts.sum(), took, "{}: {:?}", index, operation);
            prop_assert!(took.as_nanos() >= carries(operation) * sector, "{:?}", operation);
            carried += carries(operation) * sector;
        }
        let end = all.iter().map(|(_, _, _, done)| done.at).max().expect("some");
        prop_assert!(carried <= end.as_nanos(), "{} ns of transfers until {}", carried, end);
    }

    #[test]
    fn a_drive_alone_on_a_bus_of_no_time_is_the_drive(
        steps in proptest::collection::vec(step(), 1..30),
        ppb in 100_000_000_u32..=1_000_000_000,
    ) {
        let steps = vec![steps];
        for drive in [mechanical(), flash_drive()] {
            let drive = drive.slowed(Share::from_ppb(ppb));
            let alone = play(vec![drive.clone()], &steps);
            prop_assert_eq!(alone, play(vec![drive.on_bus(bus(Duration::ZERO, 128))], &steps));
        }
    }
}

#[test]
fn two_drives_that_read_at_once_get_half_of_a_bus_each() {
    let step = |start| Step { think: 0, operation: read(start, 200) };
    let steps: Vec<Step> = (0..50).map(|number| step(number * 200)).collect();
    let rate = |drives: usize, shared: &SharedBus| {
        let on_bus = (0..drives).map(|_| mechanical().on_bus(shared.clone())).collect();
        let all = play(on_bus, &vec![steps.clone(); drives]);
        let end = all.iter().map(|(_, _, _, done)| done.at).max().expect("some");
        (drives as u64 * 50 * 200 * 1_000_000) / end.since(at(0)).as_micros()
    };
    // Sectors a second: this bus carries 10,000, to which the drive alone comes close.
    let slow = || bus(Duration::from_micros(100), 64);
    let (one, two) = (rate(1, &slow()), rate(2, &slow()));
    assert!((9_000..=10_000).contains(&one), "{one}");
    assert!((9_500..=10_000).contains(&two), "{two} of 10,000");
    let fast = || bus(Duration::from_micros(1), 64);
    let (one, two) = (rate(1, &fast()), rate(2, &fast()));
    assert!((2 * one - 200..=2 * one).contains(&two), "{two} of two times {one}");
}
