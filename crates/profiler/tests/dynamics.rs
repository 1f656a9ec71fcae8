//! What is found of a drive's dynamics is what the drive does, through noise, for drives of every kind.

use core::ops::ControlFlow;
use std::sync::Arc;

use config::{drives, profile};
use drive::{AnyModel, Model};
use sim::BenchTarget;
use spindle_profiler::dynamics::{self, Dynamics};
use spindle_profiler::{Bench, Budget, Findings, Progress};
use units::Duration;

const NOISE: Duration = Duration::from_micros(200);

fn model(name: &str) -> Arc<Model> {
    Arc::new(drives::library(name).expect("in it").check().expect("a drive"))
}

/// What was found of a drive, and what that took of its time.
fn measured(model: &Arc<Model>, budget: Budget, seed: u64) -> (Findings, Duration) {
    let map = profile::assumed(model);
    let mut target = BenchTarget::new(
        AnyModel::from(Arc::clone(model)),
        if std::env::var("QUIET").is_ok() { Duration::ZERO } else { NOISE },
        seed,
    );
    let mut watcher = |_: &Progress| ControlFlow::Continue(());
    let mut bench = Bench::new(&mut target, budget, Findings::default(), &mut watcher);
    let ended = dynamics::measure(&mut bench, &map);
    println!("ended: {ended:?}");
    let spent = bench.spent();
    (bench.findings, spent)
}

/// The worst of a found curve: at which distance, by how much of the curve, by how many µs, and by which part of what is
/// allowed: 3 % or 50 µs, whichever is more.
fn worst(model: &Model, found: &Dynamics) -> (u32, f64, f64, f64) {
    let curve = found.seek.as_ref().expect("found").curve();
    let mut worst = (0, 0.0, 0.0, 0.0);
    for distance in 1..model.cylinders() {
        let (is, true_time) = (curve.time(distance), model.seek(distance));
        let off = (is.as_millis_f64() - true_time.as_millis_f64()) * 1e3;
        let part = off / (true_time.as_millis_f64() * 1e3);
        let allowed = off.abs() / (true_time.as_millis_f64() * 30.0).max(50.0);
        if allowed > worst.3 {
            worst = (distance, part * 100.0, off, allowed);
        }
    }
    worst
}

#[test]
fn explore() {
    let names = std::env::var("DRIVES").unwrap_or_else(|_| "st318437lw".into());
    let quick = std::env::var("QUICK").is_ok();
    for name in names.split(',') {
        let model = model(name);
        let budget = if quick { Budget::QUICK } else { Budget::DEFAULT };
        let began = std::time::Instant::now();
        let (found, spent) =
            measured(&model, budget, std::env::var("SEED").map_or(1, |s| s.parse().unwrap()));
        let d = &found.dynamics;
        println!("== {name}: {:.1} s, {:?} cpu", spent.as_secs_f64(), began.elapsed());
        if d.seek.is_some() {
            let seek = d.seek.as_ref().expect("some");
            println!(
                "   worst seek {:?}; {} points, {} samples, least {} mean {} full {}; variation {:?}",
                worst(&model, d),
                seek.points.len(),
                seek.samples,
                seek.least,
                seek.mean,
                seek.full_stroke,
                seek.points
                    .iter()
                    .step_by(seek.points.len() / 5 + 1)
                    .map(|p| p.variation)
                    .collect::<Vec<_>>()
            );
        }
        let o = &d.overheads;
        let f = |f: Option<spindle_profiler::Figure<Duration>>| {
            f.map_or("-".into(), |f| format!("{}±{}", f.value, f.spread))
        };
        println!(
            "   hit {} read {} cached {} write {} seek {} bus {} {} head {} {}",
            f(o.hit),
            f(o.read),
            f(o.cached),
            f(o.write),
            f(o.seek),
            f(o.bus_read),
            f(o.bus_write),
            f(o.head_switch),
            f(o.head_switch_write)
        );
        let t = model.spec();
        println!(
            "   true hit {} read {} cached {} write {} seek {} bus {} {:?} head {} {}; {:?} wb {} {}",
            t.overheads.read_hit,
            t.overheads.read_miss,
            t.overheads.write_cached,
            t.overheads.write_media,
            t.overheads.control,
            t.bus_sector,
            t.firmware.bus.write_sector,
            t.head_switch,
            t.head_switch + t.write_settle,
            t.read_buffer,
            t.write_buffer,
            t.firmware.write_segments
        );
        println!(
            "   read {:?}",
            d.read_buffer.map(|b| (
                b.ahead.value,
                b.ends_with_track,
                b.segments.value,
                b.segment.value
            ))
        );
        println!(
            "   write {:?}",
            d.write_buffer.map(|b| (
                b.answers_early,
                b.size.map(|s| s.value),
                b.runs,
                b.destage.map(|s| s.value),
                b.destages_when_idle
            ))
        );
        println!("   chunks {:?}", d.chunks_read.as_ref().map(|c| c.optimal));
        println!("   chunks {:?}", d.chunks_write.as_ref().map(|c| c.optimal));
        println!(
            "   depths {:?}",
            d.depths.iter().map(|d| (d.depth, d.per_1000_s / 1000)).collect::<Vec<_>>()
        );
        println!("   starvation {:?}", d.starvation);
        println!("   prediction {:?}", d.prediction);
        println!("   outliers {} {:?}", found.outliers.len(), found.notes);
    }
}
