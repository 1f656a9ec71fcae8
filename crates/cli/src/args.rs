//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Args as ClapArgs, Parser, Subcommand};

use crate::admit::Admit;
use crate::attach::{Attach, Detach};
use crate::check::Check;
use crate::disk::DiskCommand;
use crate::doctor::Doctor;
use crate::drive::Drive;
use crate::emulate::Emulate;
use crate::events::Events;
use crate::init::Init;
use crate::lab::Forwarded;
use crate::live::TraceLive;
use crate::pool::PoolCommand;
use crate::profile::Profile;
use crate::top::Top;
use crate::vol::Vol;

/// Fronts, methods of I/O and interfaces that this binary has.
const FEATURES: [&str; 7] =
    ["nbd", "tls", "attach", "ublk", "vhost-user", "io-uring", "control-api"];

static LONG_VERSION: LazyLock<String> =
    LazyLock::new(|| console::long_version(env!("CARGO_PKG_VERSION"), &FEATURES));

/// A storage server that guarantees disk time.
#[derive(Debug, Parser)]
#[command(name = "spindle", version, long_version = LONG_VERSION.as_str(), about)]
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
    /// Serve an emulated disk with a 70 % and a 30 % volume, load both over NBD, and show the share
    /// of each.
    Demo(Demo),
    /// Write a commented config that can be served at once.
    Init(Init),
    /// Say everything that is wrong with a config, or how its disks are reserved.
    Check(Check),
    /// Look at what costs speed or puts guarantees at risk on this machine, and say what to do.
    Doctor(Doctor),
    /// Serve the volumes of a config over NBD until SIGINT or SIGTERM.
    Serve(Serve),
    /// Create, show, change and remove volumes of a running daemon.
    #[command(subcommand)]
    Vol(Vol),
    /// Show disks of a running daemon, change their period, and reopen them.
    #[command(subcommand)]
    Disk(DiskCommand),
    /// Create, show, check and change pools of disks.
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Attach a volume as a block device of this machine's kernel, or list what is attached.
    Attach(Attach),
    /// Detach a block device that nothing uses.
    Detach(Detach),
    /// Emulate a drive of the library, or of a measured profile, as a block device of this
    /// machine's kernel.
    Emulate(Emulate),
    /// Watch a running daemon: the share and the rates of each volume, now.
    Top(Top),
    /// Print what happens to a running daemon: changes, refusals, health, missed deadlines.
    Events(Events),
    /// Ask a running daemon whether a volume fits, and if not, what does.
    Admit(Admit),
    /// Simulate scenarios in virtual time, and replay flight records.
    #[command(subcommand)]
    Sim(Sim),
    /// Moved to `spindle-lab bench`.
    #[command(hide = true, disable_help_flag = true)]
    Bench(Forwarded),
    /// Summarise and convert traces of block I/O, and trace the requests of a running daemon.
    #[command(subcommand)]
    Trace(Trace),
    /// Show and import drive models.
    #[command(subcommand)]
    Drive(Drive),
    /// Measure a profile of a drive, from which its service times are predicted; show and compare
    /// profiles.
    Profile(Profile),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// The duration of the load, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub(crate) seconds: u64,
    /// The directory for the samples, as `demo.csv`.
    #[arg(long, default_value = "out", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Moved to `spindle-lab recorder`.
    #[arg(long, hide = true)]
    pub(crate) recorder: bool,
    /// Moved to `spindle-lab recorder --policy`.
    #[arg(long, hide = true, requires = "recorder")]
    pub(crate) policy: Option<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// The config: disks and the volumes on them.
    pub(crate) config: PathBuf,
    /// An address to listen on, instead of the config's `[listen]`: unix:PATH or ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// An address for the control API: unix:PATH, ADDRESS:PORT, or none. Default:
    /// `spindle-api.sock` beside the config.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) api: Vec<String>,
    /// The file with the token that clients of the API send over TCP.
    #[arg(long, value_name = "FILE")]
    pub(crate) api_token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) log: Log,
}

/// The log of slow requests and the flight records, in place of the config's `[log]`.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct Log {
    /// Log requests that take at least this time, such as 500ms, with the parts of their latency;
    /// as JSON with --json.
    #[arg(long, value_name = "TIME")]
    pub(crate) slow: Option<units::Duration>,
    /// Record all inputs and decisions of the engines in this directory, for `sim replay`.
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// The space for all records, such as 256MiB; the oldest are deleted first.
    #[arg(long, value_name = "SIZE")]
    pub(crate) record_max: Option<units::Bytes>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Run a scenario and report the share and the latencies of each volume.
    Run(Run),
    /// Moved to `spindle-lab reproduce`.
    #[command(hide = true, disable_help_flag = true)]
    Reproduce(Forwarded),
    /// Replay flight records with the same engines, and compare the decisions.
    Replay(Replay),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Replay {
    /// The records: one for each disk and run.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) records: Vec<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// The scenario: a config with workloads.
    pub(crate) scenario: PathBuf,
    /// The seed, instead of the scenario's `seed`.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Measure the worth of each reserve: the rate of the volume's closed loops, divided by their
    /// rate alone on the drive slowed to the reserve. The first 5 s of each run, at most a quarter
    /// of it, are not counted.
    #[arg(long)]
    pub(crate) worth: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// Summarise a trace: requests, bytes, sizes, locations, times.
    Stat(TraceStat),
    /// Write a trace in another format.
    Convert(TraceConvert),
    /// Print a running daemon's requests as they are answered, each with the parts of its latency.
    Live(TraceLive),
}

/// How a trace is read.
#[derive(Debug, ClapArgs)]
pub(crate) struct TraceInput {
    /// The trace.
    pub(crate) file: PathBuf,
    /// Its format, where the content does not identify it: spindle, hp-srt, disksim-ascii,
    /// disksim-validate, blkparse, blkparse-issue, fio-v2, fio-v3, msr, vscsi, alicloud or tencent.
    #[arg(long)]
    pub(crate) format: Option<trace::Format>,
    /// Read only the requests of this device.
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u32>,
    /// Refuse a request past this size, such as 2GB.
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<units::Bytes>,
    /// Count a truncated last record and empty requests instead of refusing them.
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
    /// The new trace.
    pub(crate) output: PathBuf,
    /// Its format: spindle, disksim-ascii, fio-v2 or fio-v3.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: trace::Target,
    /// Multiply times by this: 0.5 doubles the speed.
    #[arg(long, value_name = "X", default_value = "1")]
    pub(crate) scale_time: trace::Scale,
}
