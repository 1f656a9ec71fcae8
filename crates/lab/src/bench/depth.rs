//! `spindle-lab bench depth`: what a disk gives live with the default settings and shares kept,
//! beside the bare drive, with fio over NBD. `spindle-lab reproduce depth` and `speed` have the
//! same in virtual time.
//!
//! The bare drive is `fcfs` with 32 commands in its own queue. A volume's rate is relative to what
//! is due to it: its share × its rate alone on the bare drive; its rate alone on the drive slowed
//! to its share where it waits for each answer; on flash the lesser of its rate alone and half of
//! what 32 outstanding have alone.

use core::fmt::Write as _;
use std::path::Path;

use config::{Plan, VolumeIndex};
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use serde::Serialize;
use stats::SCHEMA;
use units::{Duration, Share};

use super::live::{self, Job, Live, pause};
use crate::args;
use crate::experiments::{as_it_passes, bare, most_missing};

/// Excluded at the start of a run: full buckets allow up to one period's disk time at once.
const RAMP_SECONDS: u64 = 4;
/// fio runs this much longer than the measured interval.
const TAIL_SECONDS: u64 = 1;
/// The interval of the samples in which shares are looked at. The time of a command that completes
/// between two of them counts as if it had passed evenly.
const SAMPLE: Duration = Duration::from_millis(10);
/// Sample intervals in a window of 2 s.
const WINDOW: (usize, f64) = (200, 2.0);

const HARD_DISK: (&str, u32) = ("hgst-7k8", 7_400);
const FLASH: (&str, u32) = ("samsung-870evo-1t", 900);
/// The order without a profile: by address, and by the drive's own queue.
const NO_PROFILE: &str = "chooser = \"sweep\"\n";
/// Sequential 4 KiB reads with one command at a time and none merged.
const UNMERGED_BYTES_PER_S: f64 = 72e6;
const MERGED_FACTOR: f64 = 2.5;
const FLASH_MIN: f64 = 0.9;
const STREAMS: usize = 16;
/// The least random reads a second beside the streams.
const BESIDE_STREAMS_MIN: f64 = 160.0;

/// A client of fio: its pattern, its requests outstanding, and options.
type Client = (&'static str, u32, &'static [&'static str]);

const RANDOM: Client = ("randread", 32, &[]);
const PAUSING: Client = ("randread", 1, &["--thinktime=100"]);
const SINGLE: Client = ("randread", 1, &[]);
const SEQUENTIAL: Client = ("read", 32, &[]);
const LONG: Client = ("randread", 16, &["--bs=128k"]);

/// A load of the hard disk: the reserve in percent and the client of each volume, and the least
/// part of what is due to each that is wanted.
struct Load {
    name: &'static str,
    disk: &'static str,
    clients: &'static [(u32, Client)],
    kept_min: &'static [f64],
    /// The most that may be missing from a share in 2 s, in points.
    missing_max: Option<f64>,
}

impl Load {
    const fn one(name: &'static str, only: &'static Only) -> Self {
        Self { name, disk: "", clients: &only.0, kept_min: &only.1, missing_max: None }
    }
}

/// The only volume of a disk, and the least that it is to keep.
struct Only([(u32, Client); 1], [f64; 1]);

const ONE_32: Only = Only([(100, RANDOM)], [0.97]);
const ONE_64: Only = Only([(100, ("randread", 64, &[]))], [1.1]);
const ONE_128: Only = Only([(100, ("randread", 128, &[]))], [1.2]);
const EVEN: Load = Load {
    name: "32 beside 32, 50/50",
    disk: "",
    clients: &[(50, RANDOM), (50, RANDOM)],
    kept_min: &[0.93, 0.93],
    missing_max: Some(1.0),
};
const UNEVEN: Load =
    Load { name: "32 beside 32, 80/20", clients: &[(80, RANDOM), (20, RANDOM)], ..EVEN };
const BESIDE: Load = Load {
    name: "1 with pauses of 0.1 ms beside 32, 50/50",
    disk: "",
    clients: &[(50, PAUSING), (50, RANDOM)],
    kept_min: &[0.85, 0.85],
    missing_max: None,
};

const LOADS: [Load; 10] = [
    Load::one("32 outstanding", &ONE_32),
    Load::one("64 outstanding", &ONE_64),
    Load::one("128 outstanding", &ONE_128),
    EVEN,
    UNEVEN,
    BESIDE,
    Load { disk: NO_PROFILE, ..Load::one("32 outstanding, no profile", &ONE_32) },
    Load {
        name: "32 beside 32, 50/50, no profile",
        disk: NO_PROFILE,
        kept_min: &[0.88, 0.88],
        missing_max: Some(3.0),
        ..EVEN
    },
    Load {
        name: "32 beside 32, 80/20, no profile",
        disk: NO_PROFILE,
        kept_min: &[0.88, 0.88],
        missing_max: Some(3.0),
        ..UNEVEN
    },
    Load {
        name: "1 with pauses of 0.1 ms beside 32, 50/50, no profile",
        disk: NO_PROFILE,
        kept_min: &[0.78, 0.62],
        ..BESIDE
    },
];
/// The least sum of rate ÷ alone of two clients that always have requests, relative to the bare
/// drive's on the same load.
const SUM_MIN: f64 = 1.0;

/// A volume beside the others of its load.
#[derive(Debug, Serialize)]
struct Row {
    load: String,
    rate: f64,
    /// The rate that is due to it.
    due_rate: f64,
    kept: f64,
    kept_min: f64,
    holds: bool,
}

/// All volumes of a load.
#[derive(Debug, Serialize)]
struct Together {
    load: String,
    figure: &'static str,
    value: f64,
    bound: f64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    seconds: u64,
    rows: Vec<Row>,
    together: Vec<Together>,
    lateness_us: LatenessUs,
    load_average: Option<f64>,
    holds: bool,
}

pub(crate) fn depth(args: &args::Pooled, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    let mut bench = Bench { seconds: args.seconds, rows: Vec::new(), together: Vec::new() };
    let lateness_us = bench.hard_disk()?;
    bench.sequential()?;
    bench.flash()?;
    bench.streams()?;
    let Bench { seconds, rows, together } = bench;
    let holds = rows.iter().all(|row| row.holds) && together.iter().all(|row| row.holds);
    let load_average = live::load_average();
    let shown = Shown { schema: SCHEMA, seconds, rows, together, lateness_us, load_average, holds };
    if json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print(&shown);
    }
    Ok(holds.into())
}

/// A disk with these keys and volumes of equal size.
fn plan((drive, size_gib): (&str, u32), disk: &str, reserves: &[u32]) -> anyhow::Result<Plan> {
    let mut text =
        format!("[[disk]]\nname = \"d0\"\ndrive = \"{drive}\"\nbacking = \"ram\"\n{disk}");
    let count = u32::try_from(reserves.len()).expect("a few");
    for (number, reserve) in reserves.iter().enumerate() {
        write!(
            text,
            "[[volume]]\nname = \"v{number}\"\ndisk = \"d0\"\nsize = \"{}GiB\"\n\
             reserve = \"{reserve}%\"\n",
            size_gib / count
        )
        .expect("a string takes all");
    }
    Plan::parse(&text, "the bench's config", Path::new(".")).map_err(bad_input)
}

/// A run of some clients: the rates of the plan's volumes, what is missing from a share in the
/// worst 2 s, in points, and how late the emulated drive was.
struct Measured {
    rates: Vec<f64>,
    missing_points: f64,
    lateness_us: LatenessUs,
}

/// Serves the plan, runs the clients of these volumes, and measures between ramp and tail.
fn measure(plan: &Plan, clients: &[(usize, Client)], seconds: u64) -> anyhow::Result<Measured> {
    let length = seconds + RAMP_SECONDS + TAIL_SECONDS;
    let job = |(volume, (rw, depth, more)): &(usize, Client)| Job {
        depth: *depth,
        more,
        ..Job::new(*volume, rw, length)
    };
    let live = Live::start(plan, &clients.iter().map(job).collect::<Vec<_>>())?;
    pause(Duration::from_secs(RAMP_SECONDS));
    let first = live.status();
    let charged = live.watch_charged(SAMPLE, Duration::from_secs(seconds));
    let last = live.status();
    let lateness_us = LatenessUs::of(&live.end()?);
    let elapsed = last.disks[0].at.since(first.disks[0].at);
    let volumes = last.volumes.iter().zip(&first.volumes);
    let rates = volumes.map(|(last, first)| last.report_since(Some(first), elapsed).iops);
    let reserves: Vec<f64> =
        plan.volumes.iter().map(|volume| volume.contract.reserve.as_f64()).collect();
    let missing_points = most_missing(&as_it_passes(&charged), &reserves, WINDOW);
    Ok(Measured { rates: rates.collect(), missing_points, lateness_us })
}

struct Bench {
    seconds: u64,
    rows: Vec<Row>,
    together: Vec<Together>,
}

impl Bench {
    fn measure(
        &self,
        what: &str,
        plan: &Plan,
        clients: &[(usize, Client)],
    ) -> anyhow::Result<Measured> {
        eprintln!("{what}");
        measure(plan, clients, self.seconds)
    }

    fn row(&mut self, load: &str, rate: f64, due_rate: f64, kept_min: f64) {
        let kept = rate / due_rate;
        // A NaN ratio (0 ÷ 0) fails.
        let holds = kept >= kept_min;
        self.rows.push(Row { load: load.to_owned(), rate, due_rate, kept, kept_min, holds });
    }

    fn together(&mut self, load: &str, figure: &'static str, value: f64, bound: (f64, bool)) {
        let (bound, is_most) = bound;
        let holds = if is_most { value <= bound } else { value >= bound };
        self.together.push(Together { load: load.to_owned(), figure, value, bound, holds });
    }

    /// Random reads of the hard disk, and how late the drive was in the last run.
    fn hard_disk(&mut self) -> anyhow::Result<LatenessUs> {
        let (whole, halves) = (plan(HARD_DISK, "", &[100])?, plan(HARD_DISK, "", &[50, 50])?);
        let one = self.measure("the bare drive", &bare(&whole), &[(0, RANDOM)])?.rates[0];
        let mut alone = [0.0; 2];
        for (index, alone) in alone.iter_mut().enumerate() {
            let plan = sim::worth::alone(&bare(&halves), VolumeIndex(index), Share::ALL);
            let what = format!("half {index} of the bare drive");
            *alone = self.measure(&what, &plan, &[(index, RANDOM)])?.rates[index];
        }
        let clients = [(0, RANDOM), (1, RANDOM)];
        let both = self.measure("both halves of it", &bare(&halves), &clients)?.rates;
        let sum = |rates: &[f64]| -> f64 { rates.iter().zip(alone).map(|(r, a)| r / a).sum() };
        let half = Share::from_percent(50);
        let slowed = sim::worth::alone_in_order(&halves, VolumeIndex(0), half);
        let what = "a client that pauses, on half of the drive's speed";
        let reference = self.measure(what, &slowed, &[(0, PAUSING)])?.rates[0];
        let mut lateness = None;
        for load in &LOADS {
            let reserves: Vec<u32> = load.clients.iter().map(|(reserve, _)| *reserve).collect();
            let plan = plan(HARD_DISK, load.disk, &reserves)?;
            let clients = load.clients.iter().map(|(_, client)| *client).enumerate();
            let got = self.measure(load.name, &plan, &clients.collect::<Vec<_>>())?;
            for (index, (reserve, client)) in load.clients.iter().enumerate() {
                let due = match load.clients.len() {
                    1 => one,
                    _ if *client == PAUSING => reference,
                    _ => alone[index] * f64::from(*reserve) / 100.0,
                };
                self.row(load.name, got.rates[index], due, load.kept_min[index]);
            }
            if let Some(most) = load.missing_max {
                let of_bare = sum(&got.rates) / sum(&both);
                self.together(load.name, "sum, of the bare drive's", of_bare, (SUM_MIN, false));
                let missing = got.missing_points;
                self.together(load.name, "points missing in 2 s", missing, (most, true));
            }
            lateness = Some(got.lateness_us);
        }
        Ok(lateness.expect("there are loads"))
    }

    /// Sequential requests of 4 KiB, which are merged.
    fn sequential(&mut self) -> anyhow::Result<()> {
        let name = "sequential 4 KiB, 32 outstanding";
        let got = self.measure(name, &plan(HARD_DISK, "", &[100])?, &[(0, SEQUENTIAL)])?;
        self.row(name, got.rates[0], UNMERGED_BYTES_PER_S / 4_096.0, MERGED_FACTOR);
        Ok(())
    }

    /// Two halves of a flash drive: both with many requests, one with few, and one with long ones.
    fn flash(&mut self) -> anyhow::Result<()> {
        let (whole, halves) = (plan(FLASH, "", &[100])?, plan(FLASH, "", &[50, 50])?);
        let half =
            self.measure("a bare flash drive", &bare(&whole), &[(0, RANDOM)])?.rates[0] / 2.0;
        let alone =
            self.measure("the same, 1 outstanding", &bare(&whole), &[(0, SINGLE)])?.rates[0];
        let long = self.measure("the same, 16 of 128 KiB", &bare(&whole), &[(0, LONG)])?.rates[0];
        let beside = [
            ("flash, 32 beside 32", RANDOM, half),
            ("flash, 32 beside 1", SINGLE, alone.min(half)),
            ("flash, 32 beside 16 of 128 KiB", LONG, long / 2.0),
        ];
        for (name, second, due) in beside {
            let got = self.measure(name, &halves, &[(0, RANDOM), (1, second)])?;
            self.row(name, got.rates[0], half, FLASH_MIN);
            self.row(name, got.rates[1], due, FLASH_MIN);
        }
        Ok(())
    }

    /// Random reads without a contract beside streams of 1 MB, which read a little less than they
    /// may.
    fn streams(&mut self) -> anyhow::Result<()> {
        let mut text =
            format!("[[disk]]\nname = \"d0\"\ndrive = \"{}\"\nbacking = \"ram\"\n", HARD_DISK.0);
        for number in 0..=STREAMS {
            let contract = "stream = { bandwidth = \"1.45MB/s\", block = \"1000448\" }\n";
            let contract = if number < STREAMS { contract } else { "" };
            write!(
                text,
                "[[volume]]\nname = \"v{number}\"\ndisk = \"d0\"\nsize = \"200GiB\"\n{contract}"
            )
            .expect("a string takes all");
        }
        let plan = Plan::parse(&text, "the bench's config", Path::new(".")).map_err(bad_input)?;
        let name = "random reads, 32 outstanding, beside 16 streams of 1 MB";
        eprintln!("{name}");
        let length = self.seconds + RAMP_SECONDS + TAIL_SECONDS;
        let stream = |volume| Job {
            block: "1000448",
            depth: 1,
            more: &["--rate=1420000"],
            ..Job::new(volume, "read", length)
        };
        let mut jobs: Vec<Job> = (0..STREAMS).map(stream).collect();
        jobs.push(Job { depth: 32, ..Job::new(STREAMS, "randread", length) });
        let live = Live::start(&plan, &jobs)?;
        pause(Duration::from_secs(RAMP_SECONDS));
        let first = live.status();
        pause(Duration::from_secs(self.seconds));
        let last = live.status();
        let end = live.end()?;
        let elapsed = last.disks[0].at.since(first.disks[0].at);
        let report = last.volumes[STREAMS].report_since(Some(&first.volumes[STREAMS]), elapsed);
        self.together(name, "reads a second", report.iops, (BESIDE_STREAMS_MIN, false));
        let (mut met, mut late) = (0, 0);
        for stream in &end.volumes[..STREAMS] {
            met += stream.kept.met;
            late += stream.kept.missed;
        }
        eprintln!("{met} blocks in time, {late} late");
        #[expect(clippy::cast_precision_loss, reason = "a few thousands")]
        let [met, late, least] = [met, late, STREAMS as u64 * self.seconds].map(|n| n as f64);
        self.together(name, "blocks late", late, (0.0, true));
        self.together(name, "blocks in time", met, (least, false));
        Ok(())
    }
}

fn print(shown: &Shown) {
    let held = |holds: bool| if holds { "holds" } else { "MISSED" }.to_owned();
    let row = |row: &Row| {
        vec![
            row.load.clone(),
            format!("{:.1}/s", row.rate),
            format!("{:.1}/s", row.due_rate),
            format!("{:.3}", row.kept),
            format!("{:.2}", row.kept_min),
            held(row.holds),
        ]
    };
    let head = ["requests outstanding", "rate", "due", "rate ÷ due", "wanted", ""];
    print!("{}", table::text(&head, &shown.rows.iter().map(row).collect::<Vec<_>>()));
    println!();
    let row = |row: &Together| {
        vec![
            row.load.clone(),
            row.figure.to_owned(),
            format!("{:.2}", row.value),
            format!("{:.2}", row.bound),
            held(row.holds),
        ]
    };
    let head = ["load", "figure", "", "wanted", ""];
    print!("{}", table::text(&head, &shown.together.iter().map(row).collect::<Vec<_>>()));
    println!();
    live::print_machine(&shown.lateness_us, shown.load_average);
}
