//! Clients that pause: think times and bursts.

use std::path::Path;

use config::{Plan, VolumeIndex};
use spindle_sim::Simulation;
use units::{Duration, Instant};

fn plan(workload: &str) -> Plan {
    let text = format!(
        "duration = \"20s\"\n[[disk]]\nname = \"d\"\ndrive = \"hgst-7k8\"\n\
         [[volume]]\nname = \"v\"\ndisk = \"d\"\nsize = \"100GiB\"\nreserve = \"50%\"\n\
         [[workload]]\nvolume = \"v\"\nop = \"read\"\naccess = \"random\"\nblock = \"4KiB\"\n\
         {workload}\n"
    );
    Plan::parse(&text, "think.toml", Path::new("")).expect("a good config")
}

/// The number of requests answered after each millisecond.
fn answered(plan: &Plan) -> Vec<u64> {
    let mut simulation = Simulation::new(plan);
    (0..20_000)
        .map(|millis| {
            simulation.run_until(Instant::ZERO + Duration::from_millis(millis));
            simulation.volume(VolumeIndex(0)).requests
        })
        .collect()
}

#[test]
fn a_burst_begins_when_the_burst_before_it_is_answered_and_its_think_time_has_passed() {
    let answered = answered(&plan("burst = 8\nthink = \"100ms\""));
    // A random read takes less than 50 ms: after 50 ms without an answer, the client pauses.
    let pauses = answered.windows(51).filter(|window| window[0] == window[50]);
    let counts: Vec<u64> = pauses.map(|window| window[0]).collect();
    assert!(counts.len() > 1_000, "the client pauses");
    assert!(counts.iter().all(|count| count % 8 == 0), "a pause lies between two bursts");
    let most = answered.windows(100).map(|window| window[99] - window[0]).max();
    assert!(most <= Some(8), "requests of two bursts are in flight: {most:?}");
}

#[test]
fn an_exponential_think_time_slows_a_client_down_by_its_mean() {
    let rate = |think: &str| {
        let answered = answered(&plan(&format!("outstanding = 1\n{think}")));
        f64::from(u32::try_from(*answered.last().expect("some")).expect("few")) / 20.0
    };
    let (without, with) = (rate(""), rate("think = { exponential = \"10ms\" }"));
    let pause = 1_000.0 / with - 1_000.0 / without;
    assert!((pause - 10.0).abs() < 0.7, "{pause} ms between an answer and the next request");
}
