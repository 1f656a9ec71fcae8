//! `spindle-lab bench rebuild`: a disk of a mirror is replaced. How fast its copies are made equal
//! with idle neighbours, relative to sequential reads; what time of the disk a rebuild has whose
//! reserve is its limit, alone and beside busy neighbours; and what those neighbours keep. It
//! begins when what the mirror's client had written is on its disks.

use anyhow::bail;
use console::{ExitStatus, LatenessUs, bad_input, eprintln, print, println, table};
use daemon::{Operator, PoolDiskState, Status, random_uid};
use serde::Serialize;
use stats::SCHEMA;
use units::{Bytes, Duration, Instant};
use volume::pool::DiskUid;

use super::live::{self, Job, Live};
use crate::args;

/// The disk that is read, the one that fails, and the one that takes its place. The pool's mirror
/// is the first volume.
const DISKS: &str = r#"
[[disk]]
name = "d0"
drive = "hgst-7k8"

[[disk]]
name = "d1"
drive = "hgst-7k8"
faults = { vanish_after = 200 }

[[disk]]
name = "d2"
drive = "hgst-7k8"

[pool]
disks = ["d0", "d1"]
metadata_share = "1%"
relocation_share = "1%"
"#;
const MIRROR: &str = r#"
[[pool.volume]]
name = "mirror"
size = "64GiB"
layout = "mirror"
"#;
/// What is on the disk that is read, beside the mirror.
const NEIGHBOURS: &str = r#"
[[pool.volume]]
name = "forty"
size = "1GiB"
disks = ["d0"]
reserve = "40%"

[[pool.volume]]
name = "thirty"
size = "1GiB"
disks = ["d0"]
reserve = "30%"

[[pool.volume]]
name = "stream"
size = "1GiB"
disks = ["d0"]
stream = { bandwidth = "1MiB/s", block = "1MiB" }
"#;
/// A volume on one disk where the mirror's copies are: the outermost tracks, which a plain volume
/// has, are read a fifth faster.
const SINGLE: &str = "[[disk]]\nname = \"d0\"\ndrive = \"hgst-7k8\"\n\n\
                      [pool]\ndisks = [\"d0\"]\n\n\
                      [[pool.volume]]\nname = \"v\"\nsize = \"64GiB\"\n";

const FREE: &str = "rebuild = { reserve = \"20%\" }\n";
const LIMITED: &str = "rebuild = { reserve = \"20%\", limit = \"20%\" }\n";
const FLOOR: f64 = 0.2;

const MIRROR_VOLUME: usize = 0;
/// The neighbours with reserves, by number, and their reserves.
const RESERVED: [(usize, &str, f64); 2] = [(1, "forty", 0.4), (2, "thirty", 0.3)];
const STREAM_VOLUME: usize = 3;
/// The disk that is written, by number.
const WRITTEN: usize = 2;

const SAMPLE: Duration = Duration::from_millis(100);
/// Sample intervals in a window of 2 s.
const WINDOW: usize = 20;
/// The time in which the failed disk is to be found out.
const OUT_WITHIN: Duration = Duration::from_secs(30);
/// The time in which what the mirror's client has written is to be on the disks: as best effort
/// beside the neighbours, of which nothing is to be in the measurement.
const DESTAGED_WITHIN_SECONDS: u64 = 60;
/// The time in which the first blocks are to be made equal.
const RECORDED_WITHIN_SECONDS: u64 = 60;
const RAMP_SECONDS: u64 = 3;
const TAIL_SECONDS: u64 = 8;

const IDLE_RATIO_MIN: f64 = 0.9;
/// How far from its floor a rebuild's time may be, as a part of it.
const FLOOR_ERROR_MAX: f64 = 0.05;
const MISSING_MAX_POINTS: f64 = 2.0;

#[derive(Debug, Serialize)]
struct Idle {
    sequential_bytes_per_s: f64,
    rebuild_bytes_per_s: f64,
    ratio: f64,
    holds: bool,
}

/// A rebuild whose reserve is its limit.
#[derive(Debug, Serialize)]
struct Floor {
    neighbours: bool,
    bytes_per_s: f64,
    /// The share of the written disk's time in which it had work; with the pool's metadata.
    share: f64,
    /// The bytes per second relative to those without neighbours.
    ratio: f64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Neighbour {
    name: &'static str,
    reserve: f64,
    share: f64,
    /// What it lacked of its reserve in the worst window of 2 s.
    worst_2s_missing_points: f64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Stream {
    met: u64,
    late: u64,
    holds: bool,
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    seconds: u64,
    idle: Idle,
    floor: [Floor; 2],
    neighbours: Vec<Neighbour>,
    stream: Stream,
    lateness_us: LatenessUs,
    load_average: Option<f64>,
    holds: bool,
}

pub(crate) fn rebuild(args: &args::Pooled, json: bool) -> anyhow::Result<ExitStatus> {
    live::installed()?;
    let seconds = args.seconds;
    eprintln!("sequential reads of one disk");
    let job = Job { block: "1m", depth: 4, ..Job::new(0, "read", seconds + RAMP_SECONDS + 1) };
    let plan = live::document(SINGLE)?;
    let (sequential, _) = live::throughput(plan.1.plan(), job, (RAMP_SECONDS, seconds))?;
    eprintln!("a rebuild without neighbours");
    let idle = Rebuild::run(&format!("{DISKS}{FREE}{MIRROR}"), &[], seconds)?.bytes_per_s();
    eprintln!("a rebuild with a limit of 20 %, without neighbours");
    let alone = Rebuild::run(&format!("{DISKS}{LIMITED}{MIRROR}"), &[], seconds)?;
    eprintln!("the same beside reserves of 40 % and 30 % and a stream");
    let text = format!("{DISKS}{LIMITED}{MIRROR}{NEIGHBOURS}");
    let beside = Rebuild::run(&text, &jobs(seconds), seconds)?;
    let load_average = live::load_average();
    let ratio = idle / sequential;
    let idle = Idle {
        sequential_bytes_per_s: sequential,
        rebuild_bytes_per_s: idle,
        ratio,
        holds: ratio >= IDLE_RATIO_MIN,
    };
    let floor = [floor(&alone, &alone, false), floor(&beside, &alone, true)];
    let neighbours: Vec<Neighbour> =
        RESERVED.into_iter().map(|reserved| beside.neighbour(reserved)).collect();
    let stream = beside.stream();
    let holds = idle.holds
        && floor.iter().all(|floor| floor.holds)
        && neighbours.iter().all(|neighbour| neighbour.holds)
        && stream.holds;
    let lateness_us = LatenessUs::of(&beside.end);
    let shown = Shown {
        schema: SCHEMA,
        seconds,
        idle,
        floor,
        neighbours,
        stream,
        lateness_us,
        load_average,
        holds,
    };
    if json {
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        print(&shown);
    }
    Ok(holds.into())
}

/// The neighbours' loads, which outlast the measurement.
fn jobs(seconds: u64) -> Vec<Job> {
    let before = RAMP_SECONDS + DESTAGED_WITHIN_SECONDS + RECORDED_WITHIN_SECONDS;
    let length = before + seconds + TAIL_SECONDS;
    let random = |volume| Job { depth: 32, ..Job::new(volume, "randread", length) };
    let mut jobs: Vec<Job> = RESERVED.into_iter().map(|(volume, ..)| random(volume)).collect();
    // Somewhat slower than its contract.
    let more: &[&str] = &["--rate=1000k"];
    let stream = Job::new(STREAM_VOLUME, "read", length);
    jobs.push(Job { block: "1m", depth: 1, more, ..stream });
    jobs
}

fn floor(run: &Rebuild, alone: &Rebuild, neighbours: bool) -> Floor {
    let (bytes_per_s, share) = (run.bytes_per_s(), run.share());
    let ratio = bytes_per_s / alone.bytes_per_s();
    let has_its_time = (share / FLOOR - 1.0).abs() <= FLOOR_ERROR_MAX;
    let holds = has_its_time && (ratio - 1.0).abs() <= FLOOR_ERROR_MAX;
    Floor { neighbours, bytes_per_s, share, ratio, holds }
}

/// A rebuild that was watched.
struct Rebuild {
    samples: Vec<(Instant, Status)>,
    end: Status,
}

impl Rebuild {
    fn run(text: &str, neighbours: &[Job], seconds: u64) -> anyhow::Result<Self> {
        let (_dir, document) = live::document(text)?;
        // Its writes find out that the disk is gone.
        let writes = Job { seconds: 2, ..Job::new(MIRROR_VOLUME, "randwrite", 2) };
        let live = Live::start(document.plan(), &[&[writes], neighbours].concat())?;
        let operator = live.operator(document);
        replace(&live, &operator)?;
        destaged(&live)?;
        let samples = watch(&live, &operator, seconds)?;
        drop(operator);
        Ok(Self { samples, end: live.end()? })
    }

    fn ends(&self) -> (&Status, &Status, f64) {
        let ((begin, from), (end, to)) = (&self.samples[0], &self.samples[self.samples.len() - 1]);
        (from, to, end.since(*begin).as_secs_f64())
    }

    /// What was written to the new disk a second, with the pool's metadata. What the pool has
    /// recorded as equal would be off by some percent of 30 s: it records 128 MiB at a time, up to
    /// a second after they were written.
    #[expect(clippy::cast_precision_loss, reason = "a rate to be shown")]
    fn bytes_per_s(&self) -> f64 {
        let (from, to, seconds) = self.ends();
        let written = |status: &Status| status.disks[WRITTEN].traffic.writes.sectors;
        (written(to) - written(from)).bytes().0 as f64 / seconds
    }

    /// The share of the written disk's time, on which nothing else is.
    fn share(&self) -> f64 {
        let (from, to, seconds) = self.ends();
        let busy = |status: &Status| status.disks[WRITTEN].busy;
        (busy(to) - busy(from)).as_secs_f64() / seconds
    }

    fn neighbour(&self, (volume, name, reserve): (usize, &'static str, f64)) -> Neighbour {
        let spent = |status: &Status| status.volumes[volume].account.disk_time;
        let share = |samples: &[(Instant, Status)]| {
            let ((begin, from), (end, to)) = (&samples[0], &samples[samples.len() - 1]);
            (spent(to) - spent(from)).as_secs_f64() / end.since(*begin).as_secs_f64()
        };
        let worst = self.samples.windows(WINDOW + 1).map(share).fold(1.0, f64::min);
        let worst_2s_missing_points = ((reserve - worst) * 100.0).max(0.0);
        let holds = worst_2s_missing_points <= MISSING_MAX_POINTS;
        Neighbour { name, reserve, share: share(&self.samples), worst_2s_missing_points, holds }
    }

    fn stream(&self) -> Stream {
        let kept = self.end.volumes[STREAM_VOLUME].kept;
        Stream { met: kept.met, late: kept.missed, holds: kept.met > 0 && kept.missed == 0 }
    }
}

/// Gives the failed disk's place to another, once the pool has taken it out.
fn replace(live: &Live, operator: &Operator) -> anyhow::Result<()> {
    let end = operator.now() + OUT_WITHIN;
    let is_out = || {
        let pool = operator.pool().expect("the plan has a pool");
        pool.disks.iter().any(|disk| disk.state == PoolDiskState::Out)
    };
    while !is_out() {
        if operator.now() > end {
            bail!("the disk did not fail: {:?}", live.status().disks[1].health);
        }
        live::pause(SAMPLE);
    }
    operator.replace_pool_disk("d1", "d2", DiskUid(random_uid()?)).map_err(bad_input)
}

/// Waits until the write buffer of the mirror has written nothing for a while.
fn destaged(live: &Live) -> anyhow::Result<()> {
    let written = || live.status().volumes[MIRROR_VOLUME].write_buffer.destages;
    let mut before = written();
    for _ in 0..DESTAGED_WITHIN_SECONDS / RAMP_SECONDS {
        live::pause(Duration::from_secs(RAMP_SECONDS));
        let now = written();
        if now == before {
            return Ok(());
        }
        before = now;
    }
    bail!("the mirror's write buffer was not empty after {DESTAGED_WITHIN_SECONDS} s");
}

/// Samples over `seconds`, once blocks were recorded as equal.
fn watch(live: &Live, operator: &Operator, seconds: u64) -> anyhow::Result<Vec<(Instant, Status)>> {
    let left = || operator.pool().expect("the plan has a pool").resync.left;
    let end = operator.now() + Duration::from_secs(RECORDED_WITHIN_SECONDS);
    let mut before = left();
    loop {
        live::pause(SAMPLE);
        let now = left();
        if now < before {
            break;
        }
        if operator.now() > end {
            bail!("nothing is made equal: {now} are left");
        }
        before = now;
    }
    let samples = live.watch(SAMPLE, Duration::from_secs(seconds));
    if left() == Bytes::ZERO {
        bail!("all copies were equal before the measurement had ended");
    }
    Ok(samples)
}

fn print(shown: &Shown) {
    let held = |holds: bool| if holds { "holds" } else { "MISSED" }.to_owned();
    let rate = |bytes: f64| format!("{:.1} MB/s", bytes / 1e6);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let Idle { sequential_bytes_per_s, rebuild_bytes_per_s, ratio, holds } = shown.idle;
    let rows = [vec![
        rate(sequential_bytes_per_s),
        rate(rebuild_bytes_per_s),
        format!("{ratio:.3}"),
        held(holds),
    ]];
    print!("{}", table::text(&["sequential reads", "rebuild", "ratio", ""], &rows));
    let row = |floor: &Floor| {
        vec![
            if floor.neighbours { "40 %, 30 %, a stream" } else { "none" }.to_owned(),
            percent(floor.share),
            rate(floor.bytes_per_s),
            format!("{:.3}", floor.ratio),
            held(floor.holds),
        ]
    };
    let rows: Vec<_> = shown.floor.iter().map(row).collect();
    let head = ["neighbours of a rebuild at 20 %", "of the disk", "speed", "of that alone", ""];
    print!("\n{}", table::text(&head, &rows));
    let row = |one: &Neighbour| {
        vec![
            format!("{} %", one.reserve * 100.0),
            percent(one.share),
            format!("{:.1} points", one.worst_2s_missing_points),
            held(one.holds),
        ]
    };
    let rows: Vec<_> = shown.neighbours.iter().map(row).collect();
    print!("\n{}", table::text(&["reserve", "share", "missing in the worst 2 s", ""], &rows));
    let Stream { met, late, holds } = shown.stream;
    println!("\nthe stream: {met} blocks in time, {late} late: {}", held(holds));
    live::print_machine(&shown.lateness_us, shown.load_average);
}
