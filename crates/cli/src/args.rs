//! The command line.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use crate::drive::Drive;

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
    /// Simulate, in virtual time.
    #[command(subcommand)]
    Sim(Sim),
    /// Measure, with real clients.
    #[command(subcommand)]
    Bench(Bench),
    /// Drives: the library, import, and how true they are.
    #[command(subcommand)]
    Drive(Drive),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// How long to load the disk.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub(crate) seconds: u64,
    /// Where the plot and its numbers go.
    #[arg(long, default_value = "out", value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// The config: disks and the volumes on them.
    pub(crate) config: PathBuf,
    /// Where to listen, instead of the config's `[listen]`: unix:PATH or ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Run a scenario and report what each volume got.
    Run(Run),
    /// Reproduce experiments of the papers by name: figures as SVG, numbers as CSV, checks as JSON.
    Reproduce(Reproduce),
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
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Shares {
    /// How long each fio run is.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=600))]
    pub(crate) seconds: u64,
}
