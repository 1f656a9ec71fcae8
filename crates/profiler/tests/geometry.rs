//! Geometry from timing alone, held against the drives that were timed.

use core::ops::ControlFlow;
use std::sync::Arc;

use config::drives;
use drive::{AnyModel, Model};
use sim::BenchTarget;
use spindle_profiler::{Bench, Budget, Findings, Progress, Spindle, rotation};
use units::Duration;

const NOISE: Duration = Duration::from_micros(200);

fn mechanical() -> Vec<(&'static str, Arc<Model>)> {
    let model = |name| Some((name, Arc::new(drives::library(name)?.check().expect("a drive"))));
    drives::names().filter_map(model).collect()
}

#[test]
fn a_turn_is_found_within_ten_parts_in_a_million() {
    for (name, model) in mechanical() {
        let mut target = BenchTarget::new(AnyModel::from(Arc::clone(&model)), NOISE, 1).read_only();
        let mut watcher = |_: &Progress| ControlFlow::Continue(());
        let mut bench = Bench::new(&mut target, Budget::DEFAULT, Findings::default(), &mut watcher);
        let Ok(Spindle::Turns(found)) = rotation(&mut bench) else { panic!("{name} turns") };
        let truth = model.period().as_nanos() as f64 * 1e3;
        let ppm = (found.period_picos as f64 / truth - 1.0) * 1e6;
        println!("{name}: {ppm:.2} ppm, {found:?}, in {}", bench.spent());
        assert!(ppm.abs() < 10.0, "{name}: {ppm} ppm");
    }
}
