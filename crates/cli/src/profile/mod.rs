//! `spindle profile`: measures, shows and compares profiles of drives.

mod args;
mod bus;
mod cells;
mod compare;
mod device;
mod file;
mod measure;
mod mechanical;
mod show;

use clap::{Args, Subcommand};
use console::ExitStatus;

use args::Measure;
use bus::Bus;
use compare::Compare;
use show::Show;

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
    /// Show a profile as tables.
    Show(Show),
    /// Compare two profiles: report figures that differ by more than the errors of both.
    Compare(Compare),
    /// Measure whether several disks share a bus, and its bandwidth.
    Bus(Bus),
}

pub(crate) fn run(args: &Profile, json: bool) -> anyhow::Result<ExitStatus> {
    match &args.command {
        None => measure::run(&args.measure, json),
        Some(Command::Show(show)) => show::run(show, json),
        Some(Command::Compare(compare)) => compare::run(compare, json),
        Some(Command::Bus(bus)) => bus::run(bus, json),
    }
}
