//! Streams on a disk that splits requests into chunks: it admits what a disk admits that does not,
//! and more beside long commands; and what it admits is kept.

use std::fmt::Write as _;
use std::path::Path;

use config::Plan;
use spindle_sim::Simulation;
use units::{Duration, Instant};

/// `count` streams of 64 KiB every 0.6 s, half reading and half writing, beside a best-effort share
/// in requests of 1 MiB.
fn plan(drive: &str, chunk: Option<&str>, count: usize) -> Option<Plan> {
    let execution = chunk.map_or(String::new(), |chunk| {
        format!("execution = \"preemptible\"\nchunk = \"{chunk}\"\n")
    });
    let mut text = format!(
        "duration = \"8s\"\n[[disk]]\nname = \"d\"\ndrive = \"{drive}\"\n{execution}\
         best_effort = {{ share = \"25%\", period = \"2s\" }}\n"
    );
    let mut add = |name: &str, contract: &str, workload: &str| {
        write!(
            text,
            "[[volume]]\nname = \"{name}\"\ndisk = \"d\"\nsize = \"8MiB\"\n{contract}\
             [[workload]]\nvolume = \"{name}\"\n{workload}"
        )
        .expect("a string takes all");
    };
    for (index, op) in (0..count).zip(["read", "write"].into_iter().cycle()) {
        let stream = "stream = { bandwidth = \"109KB/s\", block = \"64KiB\" }\n";
        add(&format!("s{index}"), stream, &format!("op = \"{op}\"\naccess = \"stream\"\n"));
    }
    let random = "op = \"write\"\naccess = \"random\"\nblock = \"1MiB\"\noutstanding = 8\n";
    // A buffer would hold the whole volume, and no write would reach the disk.
    add("rest", "write_buffer = \"0\"\n", random);
    Plan::parse(&text, "plan.toml", Path::new("")).ok()
}

/// How many streams a disk admits. One more needs more of everything that is tested.
fn admitted(drive: &str, chunk: Option<&str>) -> usize {
    let (mut most, mut refused) = (0, 64);
    while refused - most > 1 {
        let count = usize::midpoint(most, refused);
        if plan(drive, chunk, count).is_some() {
            most = count;
        } else {
            refused = count;
        }
    }
    most
}

/// Holds each stream that a disk admits in chunks to its deadlines. Returns with how many chunk
/// lengths of two it admits more than whole.
fn more_in_chunks(drive: &str) -> usize {
    let whole = admitted(drive, None);
    let mut more = 0;
    for chunk in ["512KiB", "64KiB"] {
        let count = admitted(drive, Some(chunk));
        println!("{drive}: {whole} streams whole, {count} in chunks of {chunk}");
        assert!(count >= whole, "{drive}, {chunk}: {count} of {whole}");
        more += usize::from(count > whole);
        let plan = plan(drive, Some(chunk), count).expect("it is admitted");
        let mut simulation = Simulation::new(&plan);
        simulation.run_until(Instant::ZERO + Duration::from_secs(8));
        let mut met = 0;
        for volume in simulation.report().volumes {
            let Some(kept) = volume.deadlines else { continue };
            assert_eq!(kept.missed, 0, "{drive}, {chunk}: {volume:?}");
            met += kept.met;
        }
        assert!(met >= 12 * count as u64, "{drive}, {chunk}: {met} blocks of {count} streams");
    }
    more
}

#[test]
fn chunks_admit_more_streams_beside_long_commands_where_the_media_are_slow_and_none_is_late() {
    assert_eq!((more_in_chunks("cheetah9LP"), more_in_chunks("hp_c3323a")), (2, 2));
}

#[test]
fn chunks_admit_no_fewer_streams_on_a_disk_of_today_and_none_is_late() {
    assert_eq!(more_in_chunks("hgst-7k8"), 0);
}
