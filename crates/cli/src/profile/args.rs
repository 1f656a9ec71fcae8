//! The command line of a measurement.

use std::path::PathBuf;

use clap::Args;
use units::{Duration, Share};

#[derive(Debug, Args)]
pub(super) struct Measure {
    #[command(flatten)]
    pub(super) of: Of,
    /// The profile to write, instead of standard output. If it exists, its stages are kept and the
    /// missing ones measured.
    #[arg(short, long, value_name = "PROFILE.toml")]
    pub(super) output: Option<PathBuf>,
    /// Continue this profile, and write it.
    #[arg(long, value_name = "PROFILE.toml", conflicts_with_all = ["output", "fresh"])]
    pub(super) resume: Option<PathBuf>,
    /// Measure every stage, also those that the file has.
    #[arg(long)]
    pub(super) fresh: bool,
    /// Repeat stages of an existing profile that have a figure with less confidence than this, such
    /// as 95%.
    #[arg(long, value_name = "SHARE", conflicts_with = "fresh")]
    pub(super) at_least: Option<Share>,
    /// The time to spend on the device. Default: 10m, or 55s with --quick.
    #[arg(long, value_name = "TIME")]
    pub(super) budget: Option<Duration>,
    /// A quick profile, in less than a minute.
    #[arg(long)]
    pub(super) quick: bool,
    /// Measure writes too, which overwrites the data on the device: repeat DEVICE to confirm.
    #[arg(long, value_name = "DEVICE")]
    pub(super) write: Option<String>,
    /// Use the page cache where direct access is impossible: reads may then be served from memory.
    #[arg(long)]
    pub(super) buffered: bool,
    /// Add noise with this standard deviation to the times of a simulated drive.
    #[arg(long, value_name = "TIME")]
    pub(super) noise: Option<Duration>,
    /// The seed of a simulated drive.
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Of {
    /// A block device, a file, or the URI of an NBD export: `nbd+unix:///EXPORT?socket=PATH` or
    /// `nbd://ADDRESS:PORT/EXPORT`.
    pub(super) device: Option<String>,
    /// An emulated drive, in real time: a name of the library or a drive file.
    #[arg(long, value_name = "DRIVE")]
    pub(super) emulated: Option<String>,
    /// A simulated drive, in virtual time: a name of the library or a drive file.
    #[arg(long, value_name = "DRIVE")]
    pub(super) simulated: Option<String>,
}
