//! A thousand volumes of one disk whose clients write as much as they can.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::Simulation;
use units::{Duration, Instant};

const VOLUMES: u32 = 1_000;
/// Writes that each client keeps outstanding.
const OUTSTANDING: u32 = 8;
/// In which each volume's buffer has filled, and each has been served.
const WARM_UP: Duration = Duration::from_secs(60);
const LENGTH: Duration = Duration::from_secs(300);
/// How often the memory is looked at.
const LOOKS: u32 = 4;
/// The longest quantum of a volume while others wait, and a command that ends after it.
const QUANTUM_MAX: Duration = Duration::from_millis(250 + 50);

fn plan() -> Plan {
    let mut text = "[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\n".to_owned();
    for volume in 0..VOLUMES {
        let _ = write!(
            text,
            "[[volume]]\nname = \"v{volume}\"\ndisk = \"d\"\nsize = \"4GiB\"\nreserve = \"0.1%\"\n\
             write_buffer = \"64KiB\"\n\
             [[workload]]\nvolume = \"v{volume}\"\nop = \"write\"\naccess = \"random\"\n\
             block = \"4KiB\"\noutstanding = {OUTSTANDING}\n"
        );
    }
    Plan::parse(&text, "flooded.toml", Path::new("")).expect("a sound scenario")
}

/// Each volume has the same share, and the same memory. A write that finds it full is in the buffer
/// when as many of the volume's are on the disk as were outstanding before it. So it waits for
/// `OUTSTANDING` ÷ the volume's rate in the mean, whatever the others do; and for a round of all
/// others' quanta at most, as one quantum writes more than what is outstanding.
#[test]
#[expect(clippy::cast_precision_loss, reason = "rates are compared with bounds")]
fn a_client_that_floods_waits_for_its_own_share_of_the_disk() {
    let plan = plan();
    let part = plan.volumes[0].write_buffer.bytes().0;
    let mut simulation = Simulation::new(&plan);
    simulation.run_until(Instant::ZERO + WARM_UP);
    simulation.restart_latencies();
    let before = simulation.report();
    for look in 1..=u64::from(LOOKS) {
        simulation.run_until(Instant::ZERO + WARM_UP + LENGTH * look / u64::from(LOOKS));
        let report = simulation.report();
        let buffers = report.volumes.iter().filter_map(|volume| volume.write_buffer.as_ref());
        let buffered: Vec<u64> = buffers.map(|buffer| buffer.buffered_bytes).collect();
        assert_eq!(buffered.len(), VOLUMES as usize, "each has a buffer");
        assert!(buffered.iter().all(|one| *one <= part), "each has its part, {part}");
        assert!(buffered.iter().sum::<u64>() > u64::from(VOLUMES) * part / 2, "they flood it");
    }
    let after = simulation.report();
    let (begun, length) = (WARM_UP.as_secs_f64(), LENGTH.as_secs_f64());
    let both = || before.volumes.iter().zip(&after.volumes);
    let rates: Vec<f64> =
        both().map(|(before, after)| (after.requests - before.requests) as f64 / length).collect();
    let time = both().map(|(before, after)| {
        after.disk_time_share * (begun + length) - before.disk_time_share * begun
    });
    let times: Vec<f64> = time.map(|time| time / length * f64::from(VOLUMES)).collect();
    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = rates.iter().sum::<f64>() / f64::from(VOLUMES);
    let longest = after.volumes.iter().map(|volume| volume.latency_ms.max).fold(0.0, f64::max);
    let waits: Vec<f64> = after.volumes.iter().map(|volume| volume.latency_ms.mean).collect();
    let due = f64::from(OUTSTANDING) / mean * 1e3;
    let longest_mean = waits.iter().copied().fold(0.0, f64::max);
    println!(
        "{:.1} writes a second, each {mean:.3}, the least {:.2} of that, {:.2} of its share of the \
         time; waits: {due:.0} ms due, {longest_mean:.0} ms the longest mean, {longest:.0} ms the \
         longest",
        mean * f64::from(VOLUMES),
        least(&rates) / mean,
        least(&times),
    );
    assert!(least(&rates) >= 0.7 * mean, "{:.3} of {mean:.3} a second", least(&rates));
    assert!(least(&times) >= 0.8, "{:.3} of its share", least(&times));
    assert!(longest_mean <= 1.5 * due, "{longest_mean} ms of {due}");
    let round = QUANTUM_MAX.as_millis_f64() * f64::from(VOLUMES);
    assert!(longest <= round, "{longest} ms, {round} a round");
}
