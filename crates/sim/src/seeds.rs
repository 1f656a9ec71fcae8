//! Scenarios generated from a seed: the seed chooses the options too.
//!
//! A generated scenario is text in the config's format, so that one that violates an oracle can be
//! kept, read, and run with `spindle sim run`. The traces that it replays are text too.

use core::fmt;
use std::fmt::Write;
use std::path::Path;

use config::{Plan, VolumeIndex};
use engine::stream::Span;
use engine::{Contract, PolicyName, Priority, Weight};
use units::{Duration, Instant, Share};

use crate::{Report, SeededRng, Simulation};

/// The random-number stream of generated scenarios; the workloads' streams count from zero.
const STREAM: u64 = u64::MAX;
/// That of the memory for read-ahead.
const READ_AHEAD_STREAM: u64 = STREAM - 1;
/// That of bounded latencies, and that of live changes.
const LATENCY_STREAM: u64 = STREAM - 2;
const CHANGES_STREAM: u64 = STREAM - 3;

/// Drives, each with the largest queue depth that is generated for it.
const DRIVES: [(&str, u64); 5] = [
    ("deskstar-34gxp", 1),
    ("st318437lw", 8),
    ("hgst-7k8", 32),
    ("barracuda-2t", 32),
    ("nearline-20t", 32),
];
/// Sizes of volumes, as text and in sectors.
const SIZES: [(&str, u64); 3] = [("1MiB", 1 << 11), ("64MiB", 1 << 17), ("2GiB", 1 << 22)];
const TRACE_RECORDS_MAX: u64 = 2_000;

/// A generated scenario and its traces.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// The scenario, in the config's format.
    pub text: String,
    /// The name and the content of each trace.
    pub traces: Vec<(String, String)>,
    /// The live changes, in their order.
    pub changes: Vec<Change>,
    /// Where in the text a volume's contract ends that may have a bounded latency.
    contracts: Vec<usize>,
}

/// A live change of a volume's contract. One that does not fit is refused, and changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub at: Duration,
    /// The number of the volume, in the order of the config.
    pub volume: usize,
    /// What is changed.
    pub to: ChangeTo,
}

/// What a live change sets. The rest of the contract stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeTo {
    /// This part of the reserve of the config, in per cent.
    Reserve(u32),
    /// The weight.
    Weight(u32),
    /// The limit, in per cent.
    Limit(u32),
    /// Whether the volume has the stream and the bounded latency of the config.
    Promised(bool),
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.changes.iter().try_for_each(|change| write!(f, "\n---- {change:?}"))?;
        self.traces.iter().try_for_each(|(name, content)| write!(f, "\n---- {name}\n{content}"))
    }
}

fn one_of<T: Copy>(rng: &mut SeededRng, of: &[T]) -> T {
    of[usize::try_from(rng.below(of.len() as u64)).expect("an index")]
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = SeededRng::new(seed, STREAM);
    let text = format!("seed = {seed}\nduration = \"{}s\"\n", 2 + rng.below(9));
    let mut generated = Scenario { text, ..Scenario::default() };
    let mut memory = SeededRng::new(seed, READ_AHEAD_STREAM);
    let disks = 1 + rng.below(2);
    let policies: Vec<_> = (0..disks)
        .map(|disk| {
            let shares = generate_disk(&mut rng, &mut generated.text, disk);
            if shares != Shares::Deadlines {
                let size = one_of(&mut memory, &["auto", "auto", "off", "1MiB", "16MiB"]);
                let _ = writeln!(generated.text, "read_ahead = \"{size}\"");
            }
            shares
        })
        .collect();
    for (disk, policy) in (0..).zip(policies) {
        generate_volumes(&mut rng, &mut generated, (disk, policy));
    }
    generate_latencies(&mut SeededRng::new(seed, LATENCY_STREAM), &mut generated);
    generate_changes(&mut SeededRng::new(seed, CHANGES_STREAM), &mut generated);
    generated
}

fn parse(text: &str, name: &str, base: &Path) -> Result<Plan, config::ConfigError> {
    Plan::parse(text, name, base).and_then(Plan::for_sim)
}

/// Gives some volumes a bounded latency, as far as that is admitted.
fn generate_latencies(rng: &mut SeededRng, generated: &mut Scenario) {
    // From the last on: what is inserted moves no contract before it.
    for end in core::mem::take(&mut generated.contracts).into_iter().rev() {
        if rng.below(2) == 0 {
            continue;
        }
        let within = one_of(rng, &[200, 500, 1_000, 2_000, 5_000]);
        let requests = one_of(rng, &[1, 1, 2, 5]);
        let burst = one_of(rng, &[1, 1, 2, 4]);
        let size = one_of(rng, &["4KiB", "64KiB"]);
        let mut text = generated.text.clone();
        let contract = format!(
            "latency = {{ within = \"{within}ms\", requests = \"{requests}/s\", \
             burst = {burst}, size = \"{size}\" }}\n"
        );
        text.insert_str(end, &contract);
        if parse(&text, "with a latency", Path::new(".")).is_ok() {
            generated.text = text;
        }
    }
}

/// Generates live changes of volumes under the policy `spindle`. No reserve is raised above that of
/// the config, beside which the volumes of high priority are admitted.
fn generate_changes(rng: &mut SeededRng, generated: &mut Scenario) {
    let Ok(plan) = parse(&generated.text, "changes", Path::new(".")) else { return };
    let duration = plan.duration.expect("a generated scenario has a duration");
    let is_changed = |index: &usize| {
        let volume = &plan.volumes[*index];
        let policy = plan.disks[volume.disk.0].policy;
        // The timetable of a stream that begins and ends is the config's.
        let is_always = volume.span() == Span::ALWAYS;
        policy == PolicyName::Spindle && volume.priority == Priority::Normal && is_always
    };
    let volumes: Vec<usize> = (0..plan.volumes.len()).filter(is_changed).collect();
    if volumes.is_empty() {
        return;
    }
    let mut at = Duration::ZERO;
    for _ in 0..rng.below(2) * rng.below(8) {
        at += Duration::from_millis(rng.below(2_000));
        let volume = one_of(rng, &volumes);
        let to = match rng.below(4) {
            0 => ChangeTo::Reserve(one_of(rng, &[0, 10, 50, 100])),
            1 => ChangeTo::Weight(one_of(rng, &[1, 3, 100])),
            2 => ChangeTo::Limit(one_of(rng, &[1, 30, 100])),
            _ => ChangeTo::Promised(rng.below(2) == 0),
        };
        if at < duration {
            generated.changes.push(Change { at, volume, to });
        }
    }
}

impl ChangeTo {
    /// The contract `now` with this change; `config`: that of the config.
    fn of(self, now: Contract, config: Contract) -> Contract {
        match self {
            Self::Reserve(part) => {
                let ppb = u64::from(config.reserve.ppb()) * u64::from(part) / 100;
                let ppb = u32::try_from(ppb).expect("a part of a share is a share");
                Contract { reserve: Share::from_ppb(ppb), ..now }
            }
            Self::Weight(weight) => {
                let weight = Weight::new(weight).expect("a generated weight is within its bounds");
                Contract { weight, ..now }
            }
            // A latency and a limit exclude each other, and so do a stream and a limit.
            Self::Limit(_) if config.latency.is_some() || config.stream.is_some() => now,
            Self::Limit(percent) => Contract { limit: Share::from_percent(percent), ..now },
            Self::Promised(true) => {
                Contract { stream: config.stream, latency: config.latency, ..now }
            }
            Self::Promised(false) => Contract { stream: None, latency: None, ..now },
        }
    }
}

/// The unit of a disk's reserves and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shares {
    /// Disk time.
    Time,
    /// [`NOMINAL`] requests a second.
    Rate,
    /// Disk time, beside streams: no limits and no priorities.
    Deadlines,
    /// Disk time, beside streams, limits and priorities.
    Beside,
}

/// The nominal rate in requests a second: 1 % of it is half a request a second.
const NOMINAL: u64 = 50;

impl Shares {
    /// A percentage in the config's format.
    fn text(self, percent: u64) -> String {
        match self {
            Self::Time | Self::Deadlines | Self::Beside => format!("{percent}%"),
            Self::Rate => format!("{}.{}/s", percent / 2, percent % 2 * 5),
        }
    }
}

fn generate_disk(rng: &mut SeededRng, text: &mut String, disk: u64) -> Shares {
    let (drive, depth_max) = one_of(rng, &DRIVES);
    if rng.below(5) == 0 {
        return generate_deadlines(rng, text, (disk, drive));
    }
    let depth = if rng.chance(Share::from_percent(50)) { 1 } else { 1 + rng.below(depth_max) };
    let policy = match rng.below(20) {
        0..=1 => "fcfs",
        2..=3 => "throughput",
        4..=11 => "utilization",
        _ => "spindle",
    };
    let period = one_of(rng, &[200, 1_000, 1_000, 3_000]);
    let batch = one_of(rng, &[0, 50, 200]);
    let linger = one_of(rng, &[0, 1, 2, 10]);
    let random = one_of(rng, &["20ms", "5ms"]);
    let _ = write!(
        text,
        "\n[[disk]]\nname = \"d{disk}\"\ndrive = \"{drive}\"\npolicy = \"{policy}\"\n\
         depth = {depth}\n\
         period = \"{period}ms\"\nbatch = \"{batch}ms\"\nlinger = \"{linger}ms\"\n\
         estimate_random = \"{random}\"\n",
    );
    let estimate = one_of(rng, &["constants", "constants", "profile", "learned"]);
    let _ = writeln!(text, "estimate = \"{estimate}\"");
    if policy == "fcfs" {
        let _ = writeln!(text, "unkept_contracts = \"allowed\"");
    }
    generate_execution(rng, text, drive);
    if policy == "throughput" {
        let _ = writeln!(text, "nominal_rate = \"{NOMINAL}/s\"");
        return Shares::Rate;
    }
    Shares::Time
}

/// Generates a disk on which requests have deadlines.
fn generate_deadlines(
    rng: &mut SeededRng,
    text: &mut String,
    (disk, drive): (u64, &str),
) -> Shares {
    let policies = ["edf", "lst", "delta-l", "delta-l", "delta-star", "delta-star"];
    let beside = rng.chance(Share::from_percent(50));
    let policy = if beside { "spindle" } else { one_of(rng, &policies) };
    let period = one_of(rng, &[1_000, 3_000]);
    let _ = writeln!(
        text,
        "\n[[disk]]\nname = \"d{disk}\"\ndrive = \"{drive}\"\npolicy = \"{policy}\"\n\
         period = \"{period}ms\""
    );
    if rng.chance(Share::from_percent(30)) {
        let _ = writeln!(text, "best_effort = {{ share = \"20%\", period = \"2s\" }}");
    }
    if rng.chance(Share::from_percent(40)) {
        let chunk = one_of(rng, &["64KiB", "256KiB"]);
        let _ = writeln!(text, "execution = \"preemptible\"\nchunk = \"{chunk}\"");
    }
    if beside {
        let _ = writeln!(text, "batch = \"{}ms\"", one_of(rng, &[0, 50, 250]));
        return Shares::Beside;
    }
    Shares::Deadlines
}

/// Generates the stream of a volume and the workload that plays it.
fn generate_stream(rng: &mut SeededRng, text: &mut String, name: &str) {
    let bandwidth = one_of(rng, &["50KB/s", "100KB/s", "172KB/s"]);
    let block = one_of(rng, &["128KiB", "256KiB"]);
    let op = one_of(rng, &["read", "read", "write"]);
    let span = match rng.below(4) {
        0 => format!(", span = [\"{}ms\", \"{}s\"]", rng.below(2_000), 3 + rng.below(5)),
        _ => String::new(),
    };
    let start = rng.below(1_500);
    let _ = write!(
        text,
        "size = \"64MiB\"\nstream = {{ bandwidth = \"{bandwidth}\", block = \"{block}\"{span} }}\n\
         \n[[workload]]\nvolume = \"{name}\"\nop = \"{op}\"\naccess = \"stream\"\n\
         start = \"{start}ms\"\n"
    );
}

/// Generates the execution: a request as one command, as several in a row, or preemptible.
fn generate_execution(rng: &mut SeededRng, text: &mut String, drive: &str) {
    match rng.below(5) {
        0 => {
            let split = one_of(rng, &["4KiB", "64KiB", "128KiB"]);
            let _ = writeln!(text, "execution = \"whole\"\nsplit = \"{split}\"");
            return;
        }
        1 | 2 => {}
        _ => return,
    }
    let chunk = one_of(rng, &["auto", "auto", "4KiB", "25KiB", "256KiB"]);
    let offset = one_of(rng, &["off", "0ms", "1ms", "1ms", "5ms"]);
    let split = one_of(rng, &["\"off\"", "\"hidden\"", "\"hidden\"", "1000", "15000"]);
    let (prefetch, writes) = (one_of(rng, &[true, false]), one_of(rng, &[true, true, false]));
    let _ = writeln!(
        text,
        "execution = \"preemptible\"\nchunk = \"{chunk}\"\njit_offset = \"{offset}\"\n\
         seek_split = {split}\n\
         free_prefetch = {prefetch}\npreempt_writes = {writes}"
    );
    // Only SCSI drives have a seek command.
    let approaches: &[&str] = if drive == "st318437lw" {
        &["ahead", "in-time", "transfer"]
    } else {
        &["in-time", "ahead", "short-read", "transfer"]
    };
    let _ = writeln!(text, "approach = \"{}\"", one_of(rng, approaches));
}

fn generate_volumes(rng: &mut SeededRng, generated: &mut Scenario, (disk, shares): (u64, Shares)) {
    // The generated reserves must fit beside the streams.
    let mut left = match shares {
        Shares::Deadlines => 10,
        Shares::Beside => 25,
        Shares::Time | Shares::Rate => 100,
    };
    // The volumes that others can alias with `same_as`, with their sizes in sectors.
    let mut own: Vec<(String, u64)> = Vec::new();
    for volume in 0..=rng.below(6) {
        let name = format!("d{disk}v{volume}");
        let reserve = rng.below(left + 1);
        left -= reserve;
        let text = &mut generated.text;
        let _ = write!(text, "\n[[volume]]\nname = \"{name}\"\ndisk = \"d{disk}\"\n");
        let streams = matches!(shares, Shares::Deadlines | Shares::Beside);
        if streams && rng.chance(Share::from_percent(60)) {
            generate_stream(rng, text, &name);
            continue;
        }
        let is_alias = !own.is_empty() && rng.chance(Share::from_percent(20));
        let sectors = if is_alias {
            let which = usize::try_from(rng.below(own.len() as u64)).expect("an index");
            let (other, sectors) = &own[which];
            let _ = writeln!(text, "same_as = \"{other}\"");
            *sectors
        } else {
            let (size, sectors) = one_of(rng, &SIZES);
            let _ = writeln!(text, "size = \"{size}\"");
            own.push((name.clone(), sectors));
            sectors
        };
        if reserve > 0 || shares != Shares::Rate {
            let _ = writeln!(text, "reserve = \"{}\"", shares.text(reserve));
        }
        let is_unlimited = text.len();
        if shares == Shares::Deadlines {
            // The deadline policies have no limits and no priorities.
        } else if reserve + left > 0 && rng.chance(Share::from_percent(25)) {
            // A high-priority volume is admitted with its limit.
            let least = u64::from(reserve == 0);
            let beyond = least + rng.below(left + 1 - least);
            left -= beyond;
            let _ = writeln!(
                text,
                "limit = \"{}\"\npriority = \"high\"",
                shares.text(reserve + beyond)
            );
        } else if rng.chance(Share::from_percent(30)) {
            let least = reserve.max(1);
            let _ = writeln!(text, "limit = \"{}\"", shares.text(least + rng.below(101 - least)));
        }
        if matches!(shares, Shares::Beside | Shares::Time) && text.len() == is_unlimited {
            generated.contracts.push(is_unlimited);
        }
        for _ in 0..=rng.below(2) {
            if rng.chance(Share::from_percent(15)) {
                generate_trace(rng, generated, &name, sectors);
            } else {
                generate_workload(rng, &mut generated.text, &name);
            }
        }
    }
}

fn generate_workload(rng: &mut SeededRng, text: &mut String, volume: &str) {
    let op =
        one_of(rng, &["op = \"read\"", "op = \"write\"", "op = \"mix\"\nread_share = \"70%\""]);
    let block = one_of(rng, &["512B", "4KiB", "4KiB", "64KiB", "1MiB"]);
    let access = match rng.below(4) {
        0 => "access = \"random\"".to_owned(),
        1 => format!("access = \"random\"\nelevator = {}", 1 + rng.below(60)),
        2 => "access = \"sequential\"".to_owned(),
        _ => format!("access = \"sequential\"\nrun = {}", 1 + rng.below(2_000)),
    };
    let arrival = if rng.chance(Share::from_percent(25)) {
        let arrivals = one_of(rng, &["constant", "poisson"]);
        format!("rate = \"{}/s\"\narrivals = \"{arrivals}\"", 1 + rng.below(100))
    } else {
        let think = one_of(rng, &["0ms", "0ms", "100us", "5ms", "300ms"]);
        format!("outstanding = {}\nthink = \"{think}\"", one_of(rng, &[1, 2, 16, 64]))
    };
    let start = rng.below(1_500);
    let _ = write!(
        text,
        "\n[[workload]]\nvolume = \"{volume}\"\n{op}\n{access}\nblock = \"{block}\"\n\
         {arrival}\nstart = \"{start}ms\"\n"
    );
    if rng.chance(Share::from_percent(30)) {
        let _ = writeln!(text, "stop = \"{}ms\"", start + 1 + rng.below(5_000));
    }
}

/// Generates a workload that replays a generated trace. Its addresses may lie past the end of the
/// volume and are then taken modulo its size.
fn generate_trace(rng: &mut SeededRng, generated: &mut Scenario, volume: &str, sectors: u64) {
    let file = format!("{volume}-{}.trace", generated.traces.len());
    let folded = rng.chance(Share::from_percent(50));
    let (remap, range) = if folded { ("modulo", sectors * 8) } else { ("refuse", sectors) };
    let scale = one_of(rng, &["0.5", "1", "3"]);
    let _ = write!(
        generated.text,
        "\n[[workload]]\nvolume = \"{volume}\"\naccess = \"trace\"\nfile = \"{file}\"\n\
         remap = \"{remap}\"\n\
         scale = {scale}\nstart = \"{}ms\"\n",
        rng.below(1_500)
    );
    let mut trace = String::from("spindle trace 1\n");
    let pause = one_of(rng, &[100_000, 10_000_000, 100_000_000]);
    let (mut at, mut next) = (0, 0);
    for _ in 0..=rng.below(TRACE_RECORDS_MAX) {
        // Half of the requests arrive in bursts.
        at += if rng.chance(Share::from_percent(50)) { 0 } else { rng.below(pause) };
        let longest = one_of(rng, &[8, 64, 1_024]);
        let len = 1 + rng.below(longest);
        let start = if rng.chance(Share::from_percent(50)) { next } else { rng.below(range) };
        let start = start.min(range - len);
        next = start + len;
        let op = one_of(rng, &["R", "R", "R", "W", "W", "W+", "Z", "T", "F"]);
        let (start, len) = if op == "F" { (0, 0) } else { (start, len) };
        let _ = writeln!(trace, "{at} {op} {start} {len} 0");
    }
    generated.traces.push((file, trace));
}

/// Runs the scenario of a seed under every oracle. Its traces are written to `scratch`.
///
/// # Panics
/// When an oracle does not hold, or `scratch` cannot be written.
pub fn run(seed: u64, scratch: &Path) -> Report {
    let generated = scenario(seed);
    for (name, content) in &generated.traces {
        std::fs::write(scratch.join(name), content).expect("the scratch directory has space");
    }
    run_text(&generated.text, &generated.changes, &format!("seed {seed}"), scratch)
}

/// Runs a scenario with these live changes under every oracle. Its traces are in `base`.
///
/// # Panics
/// When the scenario is invalid, a trace cannot be replayed, or an oracle does not hold.
pub fn run_text(text: &str, changes: &[Change], name: &str, base: &Path) -> Report {
    let plan = parse(text, name, base)
        .unwrap_or_else(|error| panic!("the scenario is invalid: {error}\n{text}"));
    let mut simulation = Simulation::new(&plan);
    for change in changes {
        simulation.run_until(Instant::ZERO + change.at);
        let volume = VolumeIndex(change.volume);
        let contract =
            change.to.of(simulation.contract(volume), plan.volumes[change.volume].contract);
        // What is refused changes nothing.
        let _ = simulation.change_contract(volume, contract);
    }
    simulation
        .run_until(Instant::ZERO + plan.duration.expect("a generated scenario has a duration"));
    simulation.report()
}
