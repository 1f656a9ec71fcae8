//! A daemon under a mixed load, whose connections are cut and which is stopped and killed
//! repeatedly: all acknowledged data is there.
//!
//! The test runs a few rounds, or for `SPINDLE_SOAK_SECONDS`. `SPINDLE_SEED` repeats a run's random
//! numbers, which determine the run except for the progress of the clients when the daemon ends.

mod range;

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use range::Range;
use rustix::process::Signal;
use sim::SeededRng;
use testkit::{Scratch, Server, spindle};

/// Without write buffers: an injected fault is the reply to the write that it fails.
const PLAN: &str = r#"[[disk]]
name = "d0"
drive = "hgst-7k8"
backing = "arm.img"
write_buffer = "off"
faults = {}

[[disk]]
name = "d1"
drive = "samsung-870evo-1t"
backing = "flash.img"
faults = {}

[[volume]]
name = "a"
disk = "d0"
size = "16MiB"
reserve = "50%"

[[volume]]
name = "b"
disk = "d0"
size = "16MiB"
reserve = "30%"

[[volume]]
name = "c"
disk = "d1"
size = "16MiB"
reserve = "60%"
"#;
/// The volumes. Each has two clients, and each client has its own part of the volume.
const VOLUMES: [&str; 3] = ["a", "b", "c"];
/// The number of clients on the mechanical disk, which are the first ones. They determine the
/// length of a round, because the other clients are much faster.
const SLOW: u64 = 4;
const ROUNDS: u32 = 8;
/// The largest growth of the daemon's resident memory within a round.
const GROWTH_MAX_KIB: u64 = 16 << 10;

/// The end of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The clients receive all replies and disconnect; then the daemon is stopped.
    Finished,
    /// SIGTERM with requests in flight.
    Stopped,
    /// SIGKILL with requests in flight.
    Killed,
}

/// Whether the run continues: for the configured time, or for [`ROUNDS`].
fn continues(round: u32, since: Instant) -> bool {
    match std::env::var("SPINDLE_SOAK_SECONDS") {
        Ok(seconds) => since.elapsed() < Duration::from_secs(seconds.parse().expect("seconds")),
        Err(_) => round < ROUNDS,
    }
}

/// The faults of a round: none in every fourth one, and in every fifth a disk goes offline.
fn faults(round: u32, rng: &mut SeededRng) -> [String; 2] {
    [0, 1].map(|disk| {
        let seed = rng.below(1 << 32);
        let offline = match (round + 2 * disk) % 5 {
            0 => format!(", vanish_after = {}", 1_500 + rng.below(3_000)),
            _ => String::new(),
        };
        if round.is_multiple_of(4) {
            return "faults = {}".to_owned();
        }
        format!(
            "faults = {{ seed = {seed}, read = \"0.5%\", write = \"0.5%\", flush = \"0.2%\", \
             stall = \"0.5%\", \
             stall_for = \"50ms\"{offline} }}"
        )
    })
}

/// Replaces the faults in the config, which the daemon may have changed.
fn replace_faults(scratch: &Scratch, faults: &[String; 2]) {
    let text = std::fs::read_to_string(scratch.join("plan.toml")).expect("the config");
    let mut faults = faults.iter();
    let replace = |line: &str| {
        if line.starts_with("faults = ") {
            faults.next().expect("two disks").clone()
        } else {
            line.to_owned()
        }
    };
    let lines: Vec<String> = text.lines().map(replace).collect();
    scratch.write("plan.toml", lines.join("\n") + "\n");
}

fn changes_contract(directory: &Path, rng: &mut SeededRng) {
    let reserve = format!("{}%", 10 + 10 * rng.below(5));
    let ran = spindle(directory, &["vol", "set", "a", "--reserve", &reserve]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn however_a_daemon_ends_acknowledged_data_is_kept_and_every_request_gets_a_reply() {
    let seed = std::env::var("SPINDLE_SEED").map_or(1, |seed| seed.parse().expect("a seed"));
    let soak = std::env::var_os("SPINDLE_SOAK_SECONDS").is_some();
    println!("seed {seed}");
    let mut rng = SeededRng::new(seed, 0);
    let scratch = Scratch::new();
    let plan = scratch.write("plan.toml", PLAN);
    let part = |(number, stream)| {
        Range::new(VOLUMES[number / 2], number % 2, SeededRng::new(seed, stream))
    };
    let mut ranges: Vec<Range> = (0..2 * VOLUMES.len()).zip(1..).map(part).collect();
    #[expect(clippy::disallowed_methods, reason = "a soak lasts as long as it was asked to")]
    let since = Instant::now();
    let (mut round, endings) = (0, [Ending::Finished, Ending::Stopped, Ending::Killed]);
    while continues(round, since) {
        let ending = endings[usize::try_from(round % 3).expect("small")];
        round += 1;
        replace_faults(&scratch, &faults(round, &mut rng));
        let requests = if soak { 1_000 + rng.below(5_000) } else { 50 + rng.below(200) };
        let server = Server::unix(scratch.path(), &plan);
        run_round(&server, &mut ranges, ending, requests, &mut || {
            changes_contract(scratch.path(), &mut rng);
        });
        match ending {
            Ending::Finished => drop(server.stop()),
            Ending::Stopped => assert_eq!(server.ended().code, Some(0), "round {round}"),
            Ending::Killed => assert_eq!(server.ended().code, None, "round {round}"),
        }
    }
    replace_faults(&scratch, &[0, 1].map(|_| "faults = {}".to_owned()));
    let server = Server::unix(scratch.path(), &plan);
    for range in &mut ranges {
        range.verify(&server.address);
    }
    server.stop();
    let sum = |of: fn(&Range) -> u64| ranges.iter().map(of).sum::<u64>();
    assert!(
        sum(|range| range.errors) > 0,
        "the disks injected faults, and no client received an error"
    );
    println!(
        "{round} rounds: {} answers, {} of them errors, {} connections cut, \
         {} requests left open by a cut or an end",
        sum(|range| range.answered),
        sum(|range| range.errors),
        sum(|range| range.cuts),
        sum(|range| range.open)
    );
}

/// One round's load: all data is verified, then all clients work until those of the slow disk have
/// received `requests` replies together.
fn run_round(
    server: &Server,
    ranges: &mut [Range],
    ending: Ending,
    requests: u64,
    change: &mut dyn FnMut(),
) {
    let quota = match ending {
        Ending::Finished => requests / SLOW,
        Ending::Stopped | Ending::Killed => u64::MAX,
    };
    std::thread::scope(|scope| {
        for range in ranges.iter_mut() {
            scope.spawn(|| range.verify(&server.address));
        }
    });
    std::thread::scope(|scope| {
        let (progress, answers) = mpsc::channel();
        for (number, range) in (0..).zip(ranges.iter_mut()) {
            let progress = (number < SLOW).then(|| progress.clone());
            scope.spawn(move || range.work(&server.address, quota, progress.as_ref()));
        }
        drop(progress);
        let mut early = None;
        for answered in 1..=requests {
            // With a quota per client there may be fewer replies; then all clients have ended.
            if answers.recv().is_err() {
                break;
            }
            if answered == requests / 4 {
                change();
                early = Some(server.resident_kib());
            }
        }
        let late = server.resident_kib();
        if let Some(early) = early {
            println!("{ending:?} after {requests} answers: {early} KiB resident, then {late}");
            assert!(late <= early + GROWTH_MAX_KIB, "memory grew from {early} KiB to {late}");
        }
        match ending {
            Ending::Finished => {}
            Ending::Stopped => server.signal(Signal::TERM),
            Ending::Killed => server.signal(Signal::KILL),
        }
    });
}
