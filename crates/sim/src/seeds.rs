//! Scenarios drawn from a seed: the seed draws the options too.
//!
//! A drawn scenario is text, as a person would have written it, so that one that breaks an oracle can be kept,
//! read, and run with `spindle sim run`. So are the traces that it replays.

use core::fmt;
use std::fmt::Write;
use std::path::Path;

use config::Plan;
use units::{Instant, Share};

use crate::{Dice, Report, World};

/// The stream of the dice that draw scenarios; workloads count from zero.
const STREAM: u64 = u64::MAX;

/// Each with the most commands that are put into it.
const DRIVES: [(&str, u64); 5] = [
    ("deskstar-34gxp", 1),
    ("st318437lw", 8),
    ("hgst-7k8", 32),
    ("barracuda-2t", 32),
    ("nearline-20t", 32),
];
/// Sizes of volumes, as a person writes them and in sectors.
const SIZES: [(&str, u64); 3] = [("1MiB", 1 << 11), ("64MiB", 1 << 17), ("2GiB", 1 << 22)];
const TRACE_RECORDS_MAX: u64 = 2_000;

/// A scenario that was drawn, and the traces that stand beside it.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// The scenario.
    pub text: String,
    /// Name and content of each trace.
    pub traces: Vec<(String, String)>,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.traces.iter().try_for_each(|(name, content)| write!(f, "\n---- {name}\n{content}"))
    }
}

fn one_of<T: Copy>(dice: &mut Dice, of: &[T]) -> T {
    of[usize::try_from(dice.below(of.len() as u64)).expect("an index")]
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut dice = Dice::new(seed, STREAM);
    let text = format!("seed = {seed}\nduration = \"{}s\"\n", 2 + dice.below(9));
    let mut drawn = Scenario { text, traces: Vec::new() };
    let disks = 1 + dice.below(2);
    let policies: Vec<_> =
        (0..disks).map(|disk| draw_disk(&mut dice, &mut drawn.text, disk)).collect();
    for (disk, policy) in (0..).zip(policies) {
        draw_volumes(&mut dice, &mut drawn, (disk, policy));
    }
    drawn
}

/// What the shares of a disk are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shares {
    /// Its time.
    Time,
    /// [`NOMINAL`] requests a second.
    Rate,
}

/// So many that half a request a second is a hundredth of it.
const NOMINAL: u64 = 50;

impl Shares {
    /// So many hundredths, as a config has them.
    fn text(self, percent: u64) -> String {
        match self {
            Self::Time => format!("{percent}%"),
            Self::Rate => format!("{}.{}/s", percent / 2, percent % 2 * 5),
        }
    }
}

fn draw_disk(dice: &mut Dice, text: &mut String, disk: u64) -> Shares {
    let (drive, depth_max) = one_of(dice, &DRIVES);
    let depth = if dice.chance(Share::from_percent(50)) { 1 } else { 1 + dice.below(depth_max) };
    let policy = match dice.below(20) {
        0..=1 => "fcfs",
        2..=3 => "throughput",
        _ => "utilization",
    };
    let period = one_of(dice, &[200, 1_000, 1_000, 3_000]);
    let batch = one_of(dice, &[0, 50, 200]);
    let linger = one_of(dice, &[0, 1, 2, 10]);
    let random = one_of(dice, &["20ms", "5ms"]);
    let _ = write!(
        text,
        "\n[[disk]]\nname = \"d{disk}\"\ndrive = \"{drive}\"\npolicy = \"{policy}\"\ndepth = {depth}\n\
         period = \"{period}ms\"\nbatch = \"{batch}ms\"\nlinger = \"{linger}ms\"\nestimate_random = \"{random}\"\n",
    );
    let estimate = one_of(dice, &["constants", "constants", "profile", "learned"]);
    let execution = one_of(dice, &["", "", "split = \"32KiB\"\n", "execution = \"preemptible\"\n"]);
    let _ = write!(text, "estimate = \"{estimate}\"\n{execution}");
    if policy == "throughput" {
        let _ = writeln!(text, "nominal_rate = \"{NOMINAL}/s\"");
        return Shares::Rate;
    }
    Shares::Time
}

fn draw_volumes(dice: &mut Dice, drawn: &mut Scenario, (disk, shares): (u64, Shares)) {
    let mut left = 100;
    for volume in 0..=dice.below(6) {
        let name = format!("d{disk}v{volume}");
        let reserve = dice.below(left + 1);
        left -= reserve;
        let (size, sectors) = one_of(dice, &SIZES);
        let text = &mut drawn.text;
        let _ = write!(
            text,
            "\n[[volume]]\nname = \"{name}\"\ndisk = \"d{disk}\"\nsize = \"{size}\"\n"
        );
        if reserve > 0 || shares == Shares::Time {
            let _ = writeln!(text, "reserve = \"{}\"", shares.text(reserve));
        }
        if dice.chance(Share::from_percent(30)) {
            let limit = reserve.max(1) + dice.below(101 - reserve.max(1));
            let _ = writeln!(text, "limit = \"{}\"", shares.text(limit));
            // Who goes before everybody is admitted with its limit.
            let beyond = limit - reserve;
            if beyond <= left && dice.chance(Share::from_percent(40)) {
                left -= beyond;
                text.push_str("priority = \"high\"\n");
            }
        }
        for _ in 0..=dice.below(2) {
            if dice.chance(Share::from_percent(15)) {
                draw_trace(dice, drawn, &name, sectors);
            } else {
                draw_workload(dice, &mut drawn.text, &name);
            }
        }
    }
}

fn draw_workload(dice: &mut Dice, text: &mut String, volume: &str) {
    let op =
        one_of(dice, &["op = \"read\"", "op = \"write\"", "op = \"mix\"\nread_share = \"70%\""]);
    let block = one_of(dice, &["512B", "4KiB", "4KiB", "64KiB", "1MiB"]);
    let access = match dice.below(3) {
        0 => "access = \"random\"".to_owned(),
        1 => "access = \"sequential\"".to_owned(),
        _ => format!("access = \"sequential\"\nrun = {}", 1 + dice.below(2_000)),
    };
    let arrival = if dice.chance(Share::from_percent(25)) {
        format!("rate = \"{}/s\"", 1 + dice.below(100))
    } else {
        let think = one_of(dice, &["0ms", "0ms", "100us", "5ms", "300ms"]);
        format!("outstanding = {}\nthink = \"{think}\"", one_of(dice, &[1, 2, 16, 64]))
    };
    let start = dice.below(1_500);
    let _ = write!(
        text,
        "\n[[workload]]\nvolume = \"{volume}\"\n{op}\n{access}\nblock = \"{block}\"\n{arrival}\nstart = \"{start}ms\"\n"
    );
    if dice.chance(Share::from_percent(30)) {
        let _ = writeln!(text, "stop = \"{}ms\"", start + 1 + dice.below(5_000));
    }
}

/// A workload that replays a drawn trace, whose addresses may lie past the volume and are folded in.
fn draw_trace(dice: &mut Dice, drawn: &mut Scenario, volume: &str, sectors: u64) {
    let file = format!("{volume}-{}.trace", drawn.traces.len());
    let folded = dice.chance(Share::from_percent(50));
    let (remap, range) = if folded { ("modulo", sectors * 8) } else { ("refuse", sectors) };
    let scale = one_of(dice, &["0.5", "1", "3"]);
    let _ = write!(
        drawn.text,
        "\n[[workload]]\nvolume = \"{volume}\"\naccess = \"trace\"\nfile = \"{file}\"\nremap = \"{remap}\"\n\
         scale = {scale}\nstart = \"{}ms\"\n",
        dice.below(1_500)
    );
    let mut trace = String::from("spindle trace 1\n");
    let pause = one_of(dice, &[100_000, 10_000_000, 100_000_000]);
    let (mut at, mut next) = (0, 0);
    for _ in 0..=dice.below(TRACE_RECORDS_MAX) {
        // Half of them come in bursts.
        at += if dice.chance(Share::from_percent(50)) { 0 } else { dice.below(pause) };
        let longest = one_of(dice, &[8, 64, 1_024]);
        let len = 1 + dice.below(longest);
        let start = if dice.chance(Share::from_percent(50)) { next } else { dice.below(range) };
        let start = start.min(range - len);
        next = start + len;
        let op = one_of(dice, &["R", "R", "R", "W", "W", "W+", "Z", "T", "F"]);
        let (start, len) = if op == "F" { (0, 0) } else { (start, len) };
        let _ = writeln!(trace, "{at} {op} {start} {len} 0");
    }
    drawn.traces.push((file, trace));
}

/// Runs the scenario of a seed under every oracle. Its traces are written into `scratch`.
///
/// # Panics
/// When an oracle does not hold, or nothing can be written into `scratch`.
pub fn run(seed: u64, scratch: &Path) -> Report {
    let drawn = scenario(seed);
    for (name, content) in &drawn.traces {
        std::fs::write(scratch.join(name), content).expect("there is room for traces");
    }
    run_text(&drawn.text, &format!("seed {seed}"), scratch)
}

/// Runs a scenario under every oracle; its traces stand in `base`.
///
/// # Panics
/// When the scenario is not sound, a trace cannot be replayed, or an oracle does not hold.
pub fn run_text(text: &str, name: &str, base: &Path) -> Report {
    let plan = Plan::parse(text, name, base)
        .and_then(Plan::for_sim)
        .unwrap_or_else(|error| panic!("a scenario is sound: {error}\n{text}"));
    let mut world = World::new(&plan);
    world.run_until(Instant::ZERO + plan.duration.expect("a drawn scenario says how long"));
    world.report()
}
