//! `spindle profile`: measures a drive, shows what was measured, and compares two.

mod compare;
mod device;
mod file;
mod measure;
mod mechanical;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use console::{ExitStatus, bad_input};
use units::{Duration, Share};

/// Measures a device, a file, an NBD export, or a drive model.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Profile {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    measure: Measure,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show a profile as tables, and as figures.
    Show(Show),
    /// Compare two profiles: what differs by more than both may be off.
    Compare(Compare),
}

#[derive(Debug, Args)]
struct Measure {
    #[command(flatten)]
    of: Of,
    /// Where the profile goes; without it, to standard output. If it is there already, what it has is kept and what is missing
    /// measured.
    #[arg(short, long, value_name = "PROFILE.toml")]
    output: Option<PathBuf>,
    /// Go on from this profile, and write it.
    #[arg(long, value_name = "PROFILE.toml", conflicts_with_all = ["output", "fresh"])]
    resume: Option<PathBuf>,
    /// Measure everything, whatever the file has.
    #[arg(long)]
    fresh: bool,
    /// Of a profile that is gone on from, measure stages again that have a figure which is less sure than this: 95%.
    #[arg(long, value_name = "SHARE", conflicts_with = "fresh")]
    at_least: Option<Share>,
    /// How much of the device's time may be spent: 10m, or 55s with --quick.
    #[arg(long, value_name = "TIME")]
    budget: Option<Duration>,
    /// A glance, in less than a minute.
    #[arg(long)]
    quick: bool,
    /// Overwrite what is on the device, for what can be seen by writing alone: say DEVICE again.
    #[arg(long, value_name = "DEVICE")]
    write: Option<String>,
    /// Go through the page cache, where there is no other way: memory is measured as much as the device.
    #[arg(long)]
    buffered: bool,
    /// Observe a simulated drive with a noise of this standard deviation.
    #[arg(long, value_name = "TIME")]
    noise: Option<Duration>,
    /// Where the dice of a simulated drive start.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Of {
    /// A block device, a file, or the URI of an NBD export: `nbd+unix:///EXPORT?socket=PATH` or `nbd://ADDRESS:PORT/EXPORT`.
    device: Option<String>,
    /// An emulated drive, in real time: a name of the library or a drive file.
    #[arg(long, value_name = "DRIVE")]
    emulated: Option<String>,
    /// A simulated drive, in virtual time: a name of the library or a drive file.
    #[arg(long, value_name = "DRIVE")]
    simulated: Option<String>,
}

#[derive(Debug, Args)]
struct Show {
    /// The profile.
    profile: PathBuf,
    /// Moved to `spindle-lab plot profile`.
    #[arg(long, value_name = "DIR", hide = true)]
    plots: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Compare {
    /// A profile.
    one: PathBuf,
    /// Another.
    other: PathBuf,
}

pub(crate) fn run(args: &Profile, json: bool) -> anyhow::Result<ExitStatus> {
    match &args.command {
        None => measure::run(&args.measure, json),
        Some(Command::Show(show)) => show::run(show, json),
        Some(Command::Compare(compare)) => compare::run(compare, json),
    }
}

fn read(path: &std::path::Path) -> anyhow::Result<drive_library::profile::ProfileFile> {
    drive_library::profile::ProfileFile::read(path).map_err(bad_input)
}
