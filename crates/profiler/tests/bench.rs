//! The bench keeps to its budget, and a simulated target's noise does not accumulate.

use core::ops::ControlFlow;

use drive_profile::findings::Findings;
use sim::BenchTarget;
use spindle_profiler::{Bench, Budget, Progress, StopReason};
use units::{Duration, Extent, Lba, Operation, Sectors};

fn target(noise: Duration) -> BenchTarget {
    let model =
        drive_library::find_mechanical("st318437lw").expect("in it").check().expect("a drive");
    BenchTarget::new(drive::AnyModel::from(std::sync::Arc::new(model)), noise, 1)
}

fn read(lba: u64) -> Operation {
    Operation::read(Extent::new(Lba(lba), Sectors(1)))
}

#[test]
fn measuring_ends_with_the_budget_or_at_the_progress_sinks_request() {
    let mut quiet = target(Duration::ZERO);
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let budget = Budget { total: Duration::from_secs(1), quick: false };
    let mut bench = Bench::new(&mut quiet, budget, Findings::default(), &mut watcher);
    let mut lba = 0;
    let reason = loop {
        lba = (lba + 7_919_111) % 30_000_000;
        if let Err(reason) = bench.time(read(lba)) {
            break reason;
        }
    };
    assert_eq!(reason, StopReason::OutOfTime);
    assert!(bench.spent() < Duration::from_millis(1_050), "{}", bench.spent());

    let mut calls = 0;
    let mut watcher = |_: &Progress| {
        calls += 1;
        if calls > 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut bench = Bench::new(&mut quiet, budget, Findings::default(), &mut watcher);
    let ended = bench.series((0..100).map(|nth| read(nth * 1_000_003)));
    assert_eq!(ended, Err(StopReason::Interrupted));
}

#[test]
fn noise_is_as_large_as_told_and_does_not_add_up() {
    let mut noisy = target(Duration::from_micros(200));
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let mut bench = Bench::new(&mut noisy, Budget::DEFAULT, Findings::default(), &mut watcher);
    // Repeated reads of one sector are cache hits: their time varies by the noise alone.
    let _ = bench.time(read(5)).expect("in time");
    let mut sum = 0.0_f64;
    let mut square = 0.0_f64;
    for _ in 0..2_000 {
        let at = bench.now() + Duration::from_millis(10);
        let took = bench.time_at(at, read(5)).expect("in time").took().as_millis_f64();
        sum += took;
        square += took * took;
    }
    let (mean, square) = (sum / 2e3, square / 2e3);
    let deviation = (square - mean * mean).sqrt();
    assert!((0.18..0.21).contains(&deviation), "{deviation} ms");
    assert!(
        (0.38..0.43).contains(&mean),
        "{mean} ms for a hit of 0.395 ms and a sector on the bus"
    );
}
