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
    /// Its time, beside streams.
    Deadlines,
}

/// So many that half a request a second is a hundredth of it.
const NOMINAL: u64 = 50;

impl Shares {
    /// So many hundredths, as a config has them.
    fn text(self, percent: u64) -> String {
        match self {
            Self::Time | Self::Deadlines => format!("{percent}%"),
            Self::Rate => format!("{}.{}/s", percent / 2, percent % 2 * 5),
        }
    }
}

fn draw_disk(dice: &mut Dice, text: &mut String, disk: u64) -> Shares {
    let (drive, depth_max) = one_of(dice, &DRIVES);
    if dice.below(5) == 0 {
        return draw_deadlines(dice, text, (disk, drive));
    }
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
    let _ = writeln!(text, "estimate = \"{estimate}\"");
    draw_execution(dice, text, drive);
    if policy == "throughput" {
        let _ = writeln!(text, "nominal_rate = \"{NOMINAL}/s\"");
        return Shares::Rate;
    }
    Shares::Time
}

/// A disk on which requests have deadlines.
fn draw_deadlines(dice: &mut Dice, text: &mut String, (disk, drive): (u64, &str)) -> Shares {
    let policy = one_of(dice, &["edf", "lst", "delta-l", "delta-l", "delta-star", "delta-star"]);
    let period = one_of(dice, &[1_000, 3_000]);
    let _ = writeln!(
        text,
        "\n[[disk]]\nname = \"d{disk}\"\ndrive = \"{drive}\"\npolicy = \"{policy}\"\nperiod = \"{period}ms\""
    );
    if dice.chance(Share::from_percent(30)) {
        let _ = writeln!(text, "best_effort = {{ share = \"20%\", period = \"2s\" }}");
    }
    if dice.chance(Share::from_percent(40)) {
        let chunk = one_of(dice, &["64KiB", "256KiB"]);
        let _ = writeln!(text, "execution = \"preemptible\"\nchunk = \"{chunk}\"");
    }
    Shares::Deadlines
}

/// A volume with a stream, which plays it; now and then somebody reads beside it through the same volume.
fn draw_stream(dice: &mut Dice, text: &mut String, name: &str) {
    let bandwidth = one_of(dice, &["50KB/s", "100KB/s", "172KB/s"]);
    let block = one_of(dice, &["128KiB", "256KiB"]);
    let op = one_of(dice, &["read", "read", "write"]);
    let span = match dice.below(4) {
        0 => format!(", span = [\"{}ms\", \"{}s\"]", dice.below(2_000), 3 + dice.below(5)),
        _ => String::new(),
    };
    let start = dice.below(1_500);
    let _ = write!(
        text,
        "size = \"64MiB\"\nstream = {{ bandwidth = \"{bandwidth}\", block = \"{block}\"{span} }}\n\
         \n[[workload]]\nvolume = \"{name}\"\nop = \"{op}\"\naccess = \"stream\"\nstart = \"{start}ms\"\n"
    );
}

/// How requests become commands: as one, as several in a row, or as short ones.
fn draw_execution(dice: &mut Dice, text: &mut String, drive: &str) {
    match dice.below(5) {
        0 => {
            let split = one_of(dice, &["4KiB", "64KiB", "128KiB"]);
            let _ = writeln!(text, "execution = \"whole\"\nsplit = \"{split}\"");
            return;
        }
        1 | 2 => {}
        _ => return,
    }
    let chunk = one_of(dice, &["auto", "auto", "4KiB", "25KiB", "256KiB"]);
    let offset = one_of(dice, &["off", "0ms", "1ms", "1ms", "5ms"]);
    let split = one_of(dice, &["\"off\"", "\"hidden\"", "\"hidden\"", "1000", "15000"]);
    let (prefetch, writes) = (one_of(dice, &[true, false]), one_of(dice, &[true, true, false]));
    let _ = writeln!(
        text,
        "execution = \"preemptible\"\nchunk = \"{chunk}\"\njit_offset = \"{offset}\"\nseek_split = {split}\n\
         free_prefetch = {prefetch}\npreempt_writes = {writes}"
    );
    // What drives of SCSI take, and others refuse.
    let approaches: &[&str] =
        if drive == "st318437lw" { &["ahead", "in-time"] } else { &["in-time"] };
    let _ = writeln!(text, "approach = \"{}\"", one_of(dice, approaches));
}

fn draw_volumes(dice: &mut Dice, drawn: &mut Scenario, (disk, shares): (u64, Shares)) {
    // Whatever is drawn has to fit, and streams take their part.
    let mut left = if shares == Shares::Deadlines { 10 } else { 100 };
    // Those that others can be a second door to, with their sectors.
    let mut own: Vec<(String, u64)> = Vec::new();
    for volume in 0..=dice.below(6) {
        let name = format!("d{disk}v{volume}");
        let reserve = dice.below(left + 1);
        left -= reserve;
        let text = &mut drawn.text;
        let _ = write!(text, "\n[[volume]]\nname = \"{name}\"\ndisk = \"d{disk}\"\n");
        if shares == Shares::Deadlines && dice.chance(Share::from_percent(60)) {
            draw_stream(dice, text, &name);
            continue;
        }
        let door = !own.is_empty() && dice.chance(Share::from_percent(20));
        let sectors = if door {
            let which = usize::try_from(dice.below(own.len() as u64)).expect("an index");
            let (other, sectors) = &own[which];
            let _ = writeln!(text, "same_as = \"{other}\"");
            *sectors
        } else {
            let (size, sectors) = one_of(dice, &SIZES);
            let _ = writeln!(text, "size = \"{size}\"");
            own.push((name.clone(), sectors));
            sectors
        };
        if reserve > 0 || shares != Shares::Rate {
            let _ = writeln!(text, "reserve = \"{}\"", shares.text(reserve));
        }
        if shares == Shares::Deadlines {
            // Limits and classes are none there.
        } else if reserve + left > 0 && dice.chance(Share::from_percent(25)) {
            // Admitted with its limit: it goes before those with reserves up to that.
            let least = u64::from(reserve == 0);
            let beyond = least + dice.below(left + 1 - least);
            left -= beyond;
            let _ = writeln!(
                text,
                "limit = \"{}\"\npriority = \"high\"",
                shares.text(reserve + beyond)
            );
        } else if dice.chance(Share::from_percent(30)) {
            let least = reserve.max(1);
            let _ = writeln!(text, "limit = \"{}\"", shares.text(least + dice.below(101 - least)));
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
    let access = match dice.below(4) {
        0 => "access = \"random\"".to_owned(),
        1 => format!("access = \"random\"\nelevator = {}", 1 + dice.below(60)),
        2 => "access = \"sequential\"".to_owned(),
        _ => format!("access = \"sequential\"\nrun = {}", 1 + dice.below(2_000)),
    };
    let arrival = if dice.chance(Share::from_percent(25)) {
        let arrivals = one_of(dice, &["constant", "poisson"]);
        format!("rate = \"{}/s\"\narrivals = \"{arrivals}\"", 1 + dice.below(100))
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
