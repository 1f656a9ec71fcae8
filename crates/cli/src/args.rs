//! The command line.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::drive::Drive;
use crate::live::TraceLive;
use crate::pool::PoolCommand;
use crate::profile::Profile;
use crate::top::Top;
use crate::vol::{Admit, DiskCommand, Vol};

/// Storage that keeps promises: disk time, sold by the share.
#[derive(Debug, Parser)]
#[command(name = "spindle", version, about, propagate_version = true)]
pub(crate) struct Args {
    /// Print one JSON object on standard output.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve an emulated disk with a 70 % and a 30 % volume, load both over NBD, and show who gets what.
    Demo(Demo),
    /// Serve the volumes of a config over NBD until SIGINT or SIGTERM.
    Serve(Serve),
    /// Volumes of a running daemon: make, look at, change and remove them.
    #[command(subcommand)]
    Vol(Vol),
    /// Disks of a running daemon: look at them, and change their period.
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Pools of disks: make, look at and check them. Nothing is served from one yet.
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Watch a running daemon: who gets what of each disk, now.
    Top(Top),
    /// Ask a running daemon whether a volume would fit, and if not, what would.
    Admit(Admit),
    /// Simulate, in virtual time.
    #[command(subcommand)]
    Sim(Sim),
    /// Measure, with real clients.
    #[command(subcommand)]
    Bench(Bench),
    /// Look at traces of block I/O, convert them, and look on while requests are answered.
    #[command(subcommand)]
    Trace(Trace),
    /// Drives: the library, import, and how true they are.
    #[command(subcommand)]
    Drive(Drive),
    /// Measure a drive until it can be predicted, and look at what was measured.
    Profile(Profile),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// How long to load the disk.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub(crate) seconds: u64,
    /// Where the plot and its numbers go.
    #[arg(long, default_value = "out", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// A video recorder instead: sixteen cameras with deadlines, a playback, a delete and a scrub beside them.
    #[arg(long)]
    pub(crate) recorder: bool,
    /// With this policy instead of the recorder's own: fcfs, utilization, edf, lst, delta-l or delta-star.
    #[arg(long, requires = "recorder", value_parser = policy)]
    pub(crate) policy: Option<engine::PolicyName>,
}

fn policy(text: &str) -> Result<engine::PolicyName, String> {
    let known =
        engine::PolicyName::ALL.into_iter().filter(|p| *p != engine::PolicyName::Throughput);
    let names: Vec<_> = known.map(engine::PolicyName::as_str).collect();
    let policy = text.parse().ok().filter(|p| *p != engine::PolicyName::Throughput);
    policy.ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// The config: disks and the volumes on them.
    pub(crate) config: PathBuf,
    /// Where to listen, instead of the config's `[listen]`: unix:PATH or ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// Where the control API listens: unix:PATH, ADDRESS:PORT, or none. Without it, on `spindle-api.sock` beside the
    /// config.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) api: Vec<String>,
    /// The file with the token that clients of the API show over TCP.
    #[arg(long, value_name = "FILE")]
    pub(crate) api_token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: Log,
}

/// What is told of single requests, and recorded: in place of the config's `[log]`.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Log {
    /// Tell of requests that take at least so long, such as 500ms, with where their time went; JSON with --json.
    #[arg(long, value_name = "TIME")]
    pub(crate) slow: Option<units::Duration>,
    /// Record everything that engines are told and decide in this directory: see `sim replay`.
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// What records may take there together, such as 256MiB; those of the oldest runs go first.
    #[arg(long, value_name = "SIZE")]
    pub(crate) record_max: Option<units::Bytes>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Run a scenario and report what each volume got.
    Run(Run),
    /// Reproduce experiments of the papers by name: figures as SVG, numbers as CSV, checks as JSON.
    Reproduce(Reproduce),
    /// Give flight records to the same engines again, and see whether they decide the same.
    Replay(Replay),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Replay {
    /// The records, one a disk and run.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) records: Vec<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// The scenario: a config with workloads.
    pub(crate) scenario: PathBuf,
    /// Start the dice here, instead of at the scenario's `seed`.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Reproduce {
    /// Which experiments; none: all of them.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Where the files go.
    #[arg(long, default_value = "out", value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Shares and insulation with fio: two exports at 50/50, 70/30 and 90/10, against each job alone.
    Shares(Shares),
    /// Waiting of a high-priority reader beside a large one, with preemption and without, once and ten times a second.
    Preempt(Preempt),
    /// Figures 4 and 11 of RTAS 2008 with fio, beside the simulation of the same scenarios.
    Vdisk(LiveVdisk),
    /// Figure 4 of RTAS 2000: latency of best effort beside streams, by policy, beside the simulation of the same load.
    Clockwise(Clockwise),
    /// A victim beside a neighbour who changes what he does, in windows of 2 and 5 s; and a limit.
    Insulation(Insulation),
    /// A stripe over three disks beside one disk, and a share while blocks are moved off its disk, with fio.
    Pool(Pooled),
    /// Requests a second and processor time a request over NBD on a disk of memory, beside nbdkit, nbd-server and qemu-nbd.
    Nbd(NbdBench),
    /// A file or device through us, over NBD, beside the same without us: whether fio has of ours 0.97 of what it has of that.
    Real(RealBench),
    /// Two volumes at work while clients attack: malformed, slow, in floods, and with every connection taken.
    Attack(Attack),
    /// 256 connections to 64 volumes on four disks, and whether each volume has its share.
    Connections(Connections),
    /// A drive of the library, emulated in real time and profiled over NBD: each figure beside the drive's own.
    Profile(LiveProfile),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LiveProfile {
    /// A drive of the library that has an arm, or a drive's file.
    #[arg(long, default_value = "atlas-ii")]
    pub(crate) drive: String,
    /// A glance of a minute, in place of up to ten.
    #[arg(long)]
    pub(crate) quick: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NbdBench {
    /// Only rows with one of these in their names, such as randread, d32, 128k or c4.
    #[arg(value_name = "ROW")]
    pub(crate) rows: Vec<String>,
    /// How long each fio run is.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(crate) seconds: u64,
    /// How often each server runs each row.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
}

impl NbdBench {
    pub(crate) fn wants(&self, shape: &crate::bench::Shape) -> bool {
        let name = shape.name();
        self.rows.is_empty() || self.rows.iter().any(|part| name.contains(part.as_str()))
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RealBench {
    /// Where to make a file, which is gone in the end; or, with --overwrite, a file or device that is there.
    pub(crate) path: PathBuf,
    /// Overwrite what is there: say PATH again.
    #[arg(long, value_name = "PATH")]
    pub(crate) overwrite: Option<PathBuf>,
    /// Have threads make the commands, as where the kernel lets us have no io_uring.
    #[arg(long)]
    pub(crate) threads: bool,
    #[command(flatten)]
    pub(crate) run: NbdBench,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Attack {
    /// How long each attack is looked at. A turn is up to half a second: in few seconds that alone is some points.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..=600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Connections {
    /// How long the shares are looked at.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(10..=600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LiveVdisk {
    /// Which figures; none: both.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<Figure>,
    /// How long each of figure 4's five runs is; figure 11's takes its own 60.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(2..=600))]
    pub(crate) seconds: u64,
    /// Where the files go.
    #[arg(long, default_value = "out", value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// A figure that can be had live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// Achieved against reserved share.
    #[value(name = "vdisk-fig4")]
    Fig4,
    /// Three streams that come and go.
    #[value(name = "vdisk-fig11")]
    Fig11,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Insulation {
    /// How long each victim's run is; a limit's is a third of it.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..=600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Pooled {
    /// How long each run is.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..=600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Shares {
    /// How long each fio run is.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Clockwise {
    /// How long each run is: four policies at each load.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(2..=1200))]
    pub(crate) seconds: u64,
    /// How many loads, evenly spread up to the highest that is admitted.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    pub(crate) loads: u8,
    /// Where the files go.
    #[arg(long, default_value = "out", value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Preempt {
    /// How long each of the four runs is: at one request a second as many as that make the percentile.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub(crate) seconds: u64,
    /// The size of each of the two volumes, which lie side by side from the disk's beginning.
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub(crate) size: units::Bytes,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// Count what is in a trace: requests, bytes, sizes, places, times.
    Stat(TraceStat),
    /// Write a trace in another format.
    Convert(TraceConvert),
    /// Tell of a running daemon's requests as they are answered, each with where its time went.
    Live(TraceLive),
}

/// How a trace is read.
#[derive(Debug, ClapArgs)]
pub(crate) struct TraceInput {
    /// The trace.
    pub(crate) file: PathBuf,
    /// Its format, where the content does not tell it: spindle, hp-srt, disksim-ascii, disksim-validate, blkparse,
    /// blkparse-issue, fio-v2, fio-v3, msr, vscsi, alicloud or tencent.
    #[arg(long)]
    pub(crate) format: Option<trace::Format>,
    /// Take the requests of this device alone.
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u32>,
    /// Refuse a request past this size, such as 2GB.
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<units::Bytes>,
    /// Count a last record that is cut short, and requests of nothing, and go on.
    #[arg(long)]
    pub(crate) lenient: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TraceStat {
    #[command(flatten)]
    pub(crate) input: TraceInput,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TraceConvert {
    #[command(flatten)]
    pub(crate) input: TraceInput,
    /// Where the new trace goes.
    pub(crate) output: PathBuf,
    /// Its format: spindle, disksim-ascii, fio-v2 or fio-v3.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: trace::Target,
    /// Multiply times by this: 0.5 is twice as fast.
    #[arg(long, value_name = "X", default_value = "1")]
    pub(crate) scale_time: trace::Scale,
}
