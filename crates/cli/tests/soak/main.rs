//! A daemon that is cut off, stopped and killed amid a mixed load, time and again: what it
//! acknowledged is there.
//!
//! A few rounds, or for as long as `SPINDLE_SOAK_SECONDS` says; `SPINDLE_SEED` repeats a run's
//! random numbers. What a run does is drawn from them, but for how far its clients have come at the
//! moment of an end: that is the machine's.

mod range;

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use range::Range;
use rustix::process::Signal;
use sim::SeededRng;
use testkit::{Scratch, Server, spindle};

const PLAN: &str = r#"[[disk]]
name = "d0"
drive = "hgst-7k8"
backing = "arm.img"
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
/// Clients, two to a volume, each with a part of its own.
const VOLUMES: [&str; 3] = ["a", "b", "c"];
/// The number of clients, the first ones, on the mechanical disk. They set the length of a round:
/// the others are far quicker.
const SLOW: u64 = 4;
const ROUNDS: u32 = 8;
/// How much more memory a daemon may hold at a round's end than early in it.
const GROWTH_MAX_KIB: u64 = 16 << 10;

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The clients have had their answers and leave; then the daemon is stopped.
    Finished,
    /// SIGTERM, amid requests.
    Stopped,
    /// SIGKILL, amid requests.
    Killed,
}

/// Whether the run goes on: for the time that was asked for, or a few rounds.
fn goes_on(round: u32, since: Instant) -> bool {
    match std::env::var("SPINDLE_SOAK_SECONDS") {
        Ok(seconds) => since.elapsed() < Duration::from_secs(seconds.parse().expect("seconds")),
        Err(_) => round < ROUNDS,
    }
}

/// What goes wrong in a round: nothing in every fourth one, and in every fifth a disk goes away.
fn faults(round: u32, rng: &mut SeededRng) -> [String; 2] {
    [0, 1].map(|disk| {
        let seed = rng.below(1 << 32);
        let gone = match (round + 2 * disk) % 5 {
            0 => format!(", vanish_after = {}", 1_500 + rng.below(3_000)),
            _ => String::new(),
        };
        if round.is_multiple_of(4) {
            return "faults = {}".to_owned();
        }
        format!(
            "faults = {{ seed = {seed}, read = \"0.5%\", write = \"0.5%\", flush = \"0.2%\", \
             stall = \"0.5%\", \
             stall_for = \"50ms\"{gone} }}"
        )
    })
}

/// Puts other faults into the config, which the daemon has changed meanwhile.
fn put_faults(scratch: &Scratch, faults: &[String; 2]) {
    let text = std::fs::read_to_string(scratch.join("plan.toml")).expect("the config");
    let mut faults = faults.iter();
    let put = |line: &str| {
        if line.starts_with("faults = ") {
            faults.next().expect("two disks").clone()
        } else {
            line.to_owned()
        }
    };
    let lines: Vec<String> = text.lines().map(put).collect();
    scratch.write("plan.toml", lines.join("\n") + "\n");
}

fn changes_contract(directory: &Path, rng: &mut SeededRng) {
    let reserve = format!("{}%", 10 + 10 * rng.below(5));
    let ran = spindle(directory, &["vol", "set", "a", "--reserve", &reserve]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

#[test]
fn whatever_ends_a_daemon_what_it_acknowledged_is_kept_and_no_request_goes_unanswered() {
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
    while goes_on(round, since) {
        let ending = endings[usize::try_from(round % 3).expect("small")];
        round += 1;
        put_faults(&scratch, &faults(round, &mut rng));
        let requests = if soak { 1_000 + rng.below(5_000) } else { 50 + rng.below(200) };
        let server = Server::unix(scratch.path(), &plan);
        live(&server, &mut ranges, ending, requests, &mut || {
            changes_contract(scratch.path(), &mut rng);
        });
        match ending {
            Ending::Finished => drop(server.stop()),
            Ending::Stopped => assert_eq!(server.ended().code, Some(0), "round {round}"),
            Ending::Killed => assert_eq!(server.ended().code, None, "round {round}"),
        }
    }
    put_faults(&scratch, &[0, 1].map(|_| "faults = {}".to_owned()));
    let server = Server::unix(scratch.path(), &plan);
    for range in &mut ranges {
        range.verify(&server.address);
    }
    server.stop();
    let sum = |of: fn(&Range) -> u64| ranges.iter().map(of).sum::<u64>();
    assert!(sum(|range| range.errors) > 0, "faults were put into the disks, and no client saw one");
    println!(
        "{round} rounds: {} answers, {} of them errors, {} connections cut, \
         {} requests left open by a cut or an end",
        sum(|range| range.answered),
        sum(|range| range.errors),
        sum(|range| range.cuts),
        sum(|range| range.open)
    );
}

/// One round's load: everything is read back, then all clients work until those of
/// the slow disk have had this number of answers together.
fn live(
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
            // Fewer come where each client has a quota; then all have ended.
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
