//! A day of mixed load in virtual time under every oracle, with failing commands and changing
//! contracts: `cargo run --release -p spindle-sim --example day -- [HOURS]`. Memory is checked each
//! hour.

use std::path::Path;
use std::process::ExitCode;

use config::Plan;
use spindle_sim::Simulation;
use units::{Duration, Instant, Share};

const PLAN: &str = r#"
[[disk]]
name = "arm"
drive = "hgst-7k8"
period = "1s"

[[disk]]
name = "flash"
drive = "samsung-870evo-1t"

[[volume]]
name = "vm"
disk = "arm"
size = "256MiB"
reserve = "40%"

[[volume]]
name = "log"
disk = "arm"
size = "64MiB"
reserve = "20%"

[[volume]]
name = "backup"
disk = "arm"
size = "1GiB"

[[volume]]
name = "fast"
disk = "flash"
size = "64MiB"
reserve = "50%"

[[workload]]
volume = "vm"
op = "mix"
read_share = "60%"
access = "random"
block = "4KiB"
outstanding = 6

[[workload]]
volume = "log"
op = "write"
access = "sequential"
block = "16KiB"
rate = "20/s"

[[workload]]
volume = "backup"
op = "read"
access = "sequential"
block = "1MiB"
outstanding = 2
think = "200ms"

[[workload]]
volume = "fast"
op = "mix"
read_share = "50%"
access = "random"
block = "8KiB"
rate = "100/s"
"#;
const HOURS: u64 = 24;
/// One command in this number fails.
const FAIL_ONE_IN: u64 = 1_000;
/// The reserves of `vm` and `log`, each pair for ten minutes.
const RESERVES: [(u32, u32); 3] = [(40, 20), (20, 40), (60, 10)];
const CHANGE_EVERY: Duration = Duration::from_secs(600);
/// The most memory that the run may gain after the second hour, by which every watched sector was
/// written.
const GROWTH_MAX_KIB: u64 = 16 << 10;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn main() -> ExitCode {
    let hours = std::env::args().nth(1).map_or(Ok(HOURS), |text| text.parse());
    let Ok(hours) = hours else {
        eprintln!("usage: day [HOURS]");
        return ExitCode::from(2);
    };
    let plan = Plan::parse(PLAN, "a day", Path::new(".")).expect("the plan is valid");
    let mut simulation = Simulation::new(&plan);
    simulation.fail_one_in(FAIL_ONE_IN);
    let (mut now, mut settled) = (Instant::ZERO, None);
    for hour in 1..=hours {
        for reserves in RESERVES.iter().cycle().take(6) {
            let share = Share::from_percent;
            simulation.change_reserves(&[(0, Share::NONE), (1, Share::NONE)]);
            simulation.change_reserves(&[(0, share(reserves.0)), (1, share(reserves.1))]);
            now += CHANGE_EVERY;
            simulation.run_until(now);
        }
        let (report, resident) = (simulation.report(), resident_kib());
        println!(
            "hour {hour}: {} answered, {} of them failed, {} reads of written data checked, \
             {} reserves checked; {resident} KiB resident",
            report.oracles.answered,
            simulation.failed(),
            report.oracles.reads_checked,
            report.oracles.promises_checked
        );
        if hour == 2 {
            settled = Some(resident);
        }
    }
    let grown = settled.map_or(0, |settled| resident_kib().saturating_sub(settled));
    println!("every oracle held; memory grew by {grown} KiB after the second hour");
    if grown <= GROWTH_MAX_KIB { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
