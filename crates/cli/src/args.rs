//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use crate::admit::Admit;
use crate::disk::DiskCommand;
use crate::drive::Drive;
use crate::lab::Forwarded;
use crate::live::TraceLive;
use crate::pool::PoolCommand;
use crate::profile::Profile;
use crate::top::Top;
use crate::vol::Vol;

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
    /// Moved to `spindle-lab bench`.
    #[command(hide = true, disable_help_flag = true)]
    Bench(Forwarded),
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
    /// Moved to `spindle-lab reproduce`.
    #[command(hide = true, disable_help_flag = true)]
    Reproduce(Forwarded),
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
