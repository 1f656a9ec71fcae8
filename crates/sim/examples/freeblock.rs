//! What best effort gets in the rotational waits of others, and what that costs them: `cargo run
//! --release -p spindle-sim --example freeblock [SECONDS [SEED]]`. A volume of high priority reads
//! 8 KiB at random and always has a request, so that without freeblock scheduling nothing else is
//! served. The other one is read as a scrub does: in any order, with many reads outstanding, or in
//! sequence. Seeks vary by 0.1 ms. Exit code 1 if the first loses more than 2 %.

use std::path::Path;
use std::sync::Arc;

use config::{DiskIndex, Plan};
use drive::AnyModel;
use engine::FreeblockStats;
use spindle_sim::Simulation;
use units::{Duration, Instant};

/// Drives, with the size of a volume of half of each.
const DRIVES: [(&str, &str); 5] = [
    ("hgst-7k8", "3700GiB"),
    ("nearline-20t", "9300GiB"),
    ("barracuda-2t", "920GiB"),
    ("st318437lw", "8GiB"),
    ("cheetah9LP", "4300MiB"),
];
/// The other size: both volumes are near each other.
const NEAR: &str = "4GiB";
const OUTSTANDING: [u32; 3] = [1, 4, 16];
/// The scrubs: their order, the bytes of a read, and the reads outstanding.
const SCRUBS: [(&str, &str, u32); 3] =
    [("random", "4KiB", 512), ("random", "64KiB", 512), ("sequential", "64KiB", 64)];
/// The part of the throughput that the reads may cost.
const LOSS_MAX: f64 = 0.02;

#[derive(Clone, Copy)]
struct Case {
    drive: &'static str,
    size: &'static str,
    outstanding: u32,
    scrub: (&'static str, &'static str, u32),
}

impl Case {
    /// Requests a second of the first volume and of the scrub.
    fn run(self, freeblock: bool) -> ([f64; 2], FreeblockStats) {
        let argument = |n, default: &str| std::env::args().nth(n).unwrap_or_else(|| default.into());
        let (seconds, seed) = (argument(1, "30"), argument(2, "1"));
        let Self { drive, size, outstanding, scrub: (access, block, scrubs) } = self;
        let text = format!(
            "seed = {seed}\nduration = \"{seconds}s\"\n[[disk]]\nname = \"d\"\n\
             drive = \"{drive}\"\nfreeblock = {freeblock}\n\
             [[volume]]\nname = \"v\"\ndisk = \"d\"\nsize = \"{size}\"\nreserve = \"90%\"\n\
             priority = \"high\"\n\
             [[volume]]\nname = \"s\"\ndisk = \"d\"\nsize = \"{size}\"\n\
             [[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"random\"\nblock = \"8KiB\"\n\
             outstanding = {outstanding}\n\
             [[workload]]\nvolume = \"s\"\nop = \"read\"\naccess = \"{access}\"\n\
             block = \"{block}\"\noutstanding = {scrubs}\n"
        );
        let plan = Plan::parse(&text, "freeblock.toml", Path::new("")).and_then(Plan::for_sim);
        let mut plan = plan.expect("a sound scenario");
        let disk = &mut plan.disks[0];
        let mut spec = disk.drive.model.mechanical().expect("an arm").spec().clone();
        spec.arm.variation = Duration::from_micros(100);
        disk.drive.model = AnyModel::Mechanical(Arc::new(spec.check().expect("a drive")));
        let mut simulation = Simulation::new(&plan);
        simulation.run_until(Instant::ZERO + plan.duration.expect("the text has one"));
        let report = simulation.report();
        let iops = [report.volumes[0].iops, report.volumes[1].iops];
        (iops, simulation.freeblock(DiskIndex(0)).unwrap_or_default())
    }

    /// Prints a row. Returns the loss.
    fn row(self) -> f64 {
        let ([alone, starved], _) = self.run(false);
        let ([beside, scrubbed], stats) = self.run(true);
        let loss = 1.0 - beside / alone;
        let Self { drive, size, outstanding, scrub: (access, block, _) } = self;
        println!(
            "{drive:<13} {size:>7} {outstanding:>3} {access:<10} {block:>5} {alone:>7.1} \
             {beside:>7.1} {:>6.2} % {starved:>6.1} {scrubbed:>6.1} {:>5}/{:<5} {:>3}",
            loss * 100.0,
            stats.lost,
            stats.commands,
            stats.pauses
        );
        loss
    }
}

fn main() {
    println!(
        "drive            size  out scrub      block     off      on     loss    off     on  \
         lost/waited  pauses"
    );
    let (mut over, mut worst) = (0, 0.0_f64);
    for (drive, half) in DRIVES {
        for size in [half, NEAR] {
            for outstanding in OUTSTANDING {
                for scrub in SCRUBS {
                    let loss = Case { drive, size, outstanding, scrub }.row();
                    over += i32::from(loss > LOSS_MAX);
                    worst = worst.max(loss);
                }
            }
        }
    }
    println!("{over} losses of more than 2 %, at most {:.2} %", worst * 100.0);
    std::process::exit(i32::from(over > 0));
}
