//! The command line of `spindle-lab`.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::figures::Plot;
use crate::peers::Peers;
use crate::recorder::Recorder;
use crate::validate_command::Validate;

static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    console::long_version(env!("CARGO_PKG_VERSION"), &["experiments", "comparisons", "plots"])
});

/// The laboratory of Spindle: comparisons, the published experiments, validation of models, plots.
#[derive(Debug, Parser)]
#[command(name = "spindle-lab", version, long_version = LONG_VERSION.as_str(), about)]
#[command(propagate_version = true)]
pub(crate) struct Args {
    /// Print one JSON object on standard output.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure a live daemon with real clients.
    #[command(subcommand)]
    Bench(Bench),
    /// Reproduce published experiments by name: figures as SVG, numbers as CSV, checks as JSON.
    Reproduce(Reproduce),
    /// Replay a trace of measured requests against a drive model and compare service times.
    Validate(Validate),
    /// A live camera recorder: sixteen streams with deadlines beside best-effort load.
    Recorder(Recorder),
    /// Compare Spindle with Linux's schedulers, from what tests/guest/peers.sh measured in a guest.
    Peers(Peers),
    /// Draw figures as SVG.
    #[command(subcommand)]
    Plot(Plot),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Reproduce {
    /// The experiments to run. Without IDs all of them run.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// The directory for the files.
    #[arg(long, default_value = "out", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// The scheduling policy of worth-grid, instead of its own.
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    pub(crate) policy: Option<engine::PolicyName>,
    /// Run a part of worth-grid's settings: one reserve, four think times, one seed, 20 s.
    #[arg(long)]
    pub(crate) sample: bool,
}

fn policy(name: &str) -> Result<engine::PolicyName, String> {
    let known = || engine::PolicyName::ALL.map(engine::PolicyName::as_str).join(", ");
    name.parse().map_err(|_| format!("expected one of {}", known()))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Shares and insulation with fio: two exports at 50/50, 70/30 and 90/10, against each job
    /// alone.
    Shares(Shares),
    /// The worth of reserves to clients that wait for each answer, with fio: a single reader beside
    /// a backlog, and a database and a log that flush each write beside a backup.
    Clients(Clients),
    /// The waiting time of a high-priority reader beside long reads, with and without preemption,
    /// at 1 and 10 requests per second.
    Preempt(Preempt),
    /// Figures 4 and 11 of Zygaria (RTAS 2008) with fio, compared with the simulation of the same
    /// scenarios.
    Vdisk(LiveVdisk),
    /// Figure 4 of Clockwise (RTAS 2000): best-effort latency beside streams, by policy, compared
    /// with the simulation of the same load.
    Clockwise(Clockwise),
    /// Isolation: a volume's share and throughput beside a neighbour with a changing load, in
    /// windows of 2 and 5 s; and the accuracy of a limit.
    Insulation(Insulation),
    /// What a disk gives with the default settings and shares kept, beside the bare drive with 32
    /// commands in its queue, with fio: a hard disk with and without a profile, and a flash drive.
    Depth(Pooled),
    /// The throughput of a stripe over three disks relative to one disk, and a volume's share while
    /// blocks of another are relocated off its disk, with fio.
    Pool(Pooled),
    /// The throughput of a volume of a pool with checksums relative to one without, on an emulated
    /// hard disk and on a file in memory, with fio.
    Checksums(Pooled),
    /// The speed of a rebuild with idle neighbours relative to sequential reads, the disk time of
    /// one whose reserve is its limit, and what busy neighbours keep beside it, with fio.
    Rebuild(Pooled),
    /// Requests per second and CPU time per request over NBD on a disk in memory, compared with
    /// nbdkit, nbd-server and qemu-nbd.
    Nbd(NbdBench),
    /// Requests per second of one volume over an NBD socket, as a device of the kernel's NBD driver
    /// and by ublk, on a disk in memory; or of block devices that are named.
    Fronts(FrontsBench),
    /// The throughput of a file or device over NBD relative to direct access with fio: at least
    /// 0.97.
    Real(RealBench),
    /// The shares of two volumes while clients attack: malformed messages, slow clients, floods of
    /// connections, and all connections taken.
    Attack(Attack),
    /// The shares of 64 volumes on four disks under 256 connections.
    Connections(Connections),
    /// A drive of the library, emulated in real time and profiled over NBD: each measured figure
    /// compared with the model.
    Profile(LiveProfile),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LiveProfile {
    /// A mechanical drive of the library, or a drive file.
    #[arg(long, default_value = "atlas-ii")]
    pub(crate) drive: String,
    /// A quick profile: at most one minute instead of ten.
    #[arg(long)]
    pub(crate) quick: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NbdBench {
    /// Run only rows whose names contain one of these, such as randread, d32, 128k or c4.
    #[arg(value_name = "ROW")]
    pub(crate) rows: Vec<String>,
    /// The duration of each fio run, in seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(crate) seconds: u64,
    /// The number of times that each server runs each row.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct FrontsBench {
    /// Measure these devices, each with a name, instead: their content is OVERWRITTEN.
    #[arg(value_name = "NAME=DEVICE")]
    pub(crate) devices: Vec<NamedDevice>,
    /// The duration of each fio run, in seconds.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(crate) seconds: u64,
    /// The number of times that each front runs each row.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub(crate) rounds: u32,
}

/// A block device, and what the table calls it.
#[derive(Clone, Debug)]
pub(crate) struct NamedDevice {
    pub(crate) name: String,
    pub(crate) path: String,
}

impl core::str::FromStr for NamedDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let whole = text.split_once('=').filter(|(name, path)| {
            // fio takes several files, separated by colons.
            !name.is_empty() && path.starts_with("/dev/") && !path.contains(':')
        });
        let (name, path) = whole.ok_or("expected NAME=DEVICE, such as vhost-user=/dev/vda")?;
        Ok(Self { name: name.to_owned(), path: path.to_owned() })
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RealBench {
    /// The file to create, which is removed at the end; or, with --overwrite, an existing file or
    /// device.
    pub(crate) path: PathBuf,
    /// Overwrite an existing file or device: repeat PATH to confirm.
    #[arg(long, value_name = "PATH")]
    pub(crate) overwrite: Option<PathBuf>,
    /// Use threads instead of io_uring.
    #[arg(long)]
    pub(crate) threads: bool,
    #[command(flatten)]
    pub(crate) run: NbdBench,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Attack {
    /// The duration of each attack, in seconds. A quantum is up to half a second, so that a short
    /// run alone deviates by some points.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..=600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Connections {
    /// The duration of the measurement, in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(10..=600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LiveVdisk {
    /// The figures to measure. Without IDs both are measured.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<Figure>,
    /// The duration of each of figure 4's five runs, in seconds. Figure 11's run takes 60 s.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(2..=600))]
    pub(crate) seconds: u64,
    /// The directory for the files.
    #[arg(long, default_value = "out", value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// A figure that can be measured live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// Achieved against reserved share.
    #[value(name = "vdisk-fig4")]
    Fig4,
    /// Three streams that start and stop.
    #[value(name = "vdisk-fig11")]
    Fig11,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Insulation {
    /// The duration of each run, in seconds. Runs of the limit take a third of it.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..=600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Pooled {
    /// The duration of each run, in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..=600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Shares {
    /// The duration of each fio run, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Clients {
    /// The duration of each of the fifteen runs, in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..=600))]
    pub(crate) seconds: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Clockwise {
    /// Three disks of a pool, which places the blocks, instead of one disk of hand-made layouts.
    #[arg(long)]
    pub(crate) pool: bool,
    /// The duration of each run, in seconds. There is one run per load and policy, of which there
    /// are four, and with `--pool` five.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(2..=1200))]
    pub(crate) seconds: u64,
    /// The number of loads, evenly spread up to the highest admitted one.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    pub(crate) loads: u8,
    /// The directory for the files.
    #[arg(long, default_value = "out", value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Preempt {
    /// The duration of each of the four runs: in seconds. At 1 request per second the percentiles
    /// are over this many requests.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub(crate) seconds: u64,
    /// The size of each of the two volumes, which are adjacent from the start of the disk.
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub(crate) size: units::Bytes,
}
