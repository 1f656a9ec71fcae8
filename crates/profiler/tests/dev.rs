use config::drives;
use core::ops::ControlFlow;
use drive::AnyModel;
use sim::BenchTarget;
use spindle_profiler::{Bench, Budget, Findings, Progress, Spindle, rotation, try_sweep};
use std::sync::Arc;
use units::{Duration, Lba};
#[test]
fn dev() {
    let only = std::env::var("ONLY").unwrap_or_default();
    for name in
        drives::names().filter(|n| only.is_empty() || only.split(',').any(|o| n.starts_with(o)))
    {
        let Some(spec) = drives::library(name) else { continue };
        let model = Arc::new(spec.check().unwrap());
        let mut target =
            BenchTarget::new(AnyModel::from(Arc::clone(&model)), Duration::from_micros(200), 1)
                .read_only();
        let mut watcher = |_: &Progress| ControlFlow::Continue(());
        let budget = Budget { total: Duration::from_secs(1200), quick: false };
        let mut bench = Bench::new(&mut target, budget, Findings::default(), &mut watcher);
        let Ok(Spindle::Turns(f)) = rotation(&mut bench) else { panic!("{name} turns") };
        let p = f.period_picos as f64 / 1e3;
        let ps = try_sweep(
            &mut bench,
            p,
            f.noise.as_nanos() as f64 / p,
            f.hit_below.as_nanos() as f64,
            f.forgets,
        );
        println!("{name}: {} pieces, {} zones", ps.len(), model.zones().len());
        let mut i = 0;
        for (z, s) in model.zones().zip(&model.spec().zones) {
            println!(
                "  T {} {} a {:.4} e {:.4}",
                z.lbas.start.0,
                z.sectors_per_track,
                f64::from(s.track_skew) / f64::from(s.sectors_per_track),
                (f64::from(s.cylinder_skew) - f64::from(s.track_skew))
                    / f64::from(s.sectors_per_track)
            );
            while i < ps.len() && ps[i].0 < z.lbas.end().0 {
                println!("      {:?}", ps[i]);
                i += 1;
            }
        }
    }
}
