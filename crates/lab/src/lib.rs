//! The `spindle-lab` binary, as a library: comparisons of a live daemon with other servers and with
//! simulation, the published experiments, validation of drive models, and plots.
//!
//! Results go to standard output (one JSON object with `--json`), messages and progress to
//! standard error. Exit codes: 0 done; 1 a guarantee or a check did not hold; 2 bad usage or
//! input, with a message that names the location and the accepted values.

mod args;
mod bench;
mod experiments;
mod figures;
mod mclock;
mod peers;
mod recorder;
mod reproduce;
mod validate;
mod validate_command;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use console::ExitStatus;

use args::{Args, Bench, Command};

/// The command line, for man pages, completions and the reference.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the binary.
pub fn main() -> ExitCode {
    let args = Args::parse();
    console::run("spindle-lab", || run(args.command, args.json))
}

fn run(command: Command, json: bool) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Bench(command) => bench(&command, json),
        Command::Reproduce(args) => reproduce::run(&args, json),
        Command::Validate(args) => validate_command::run(&args, json),
        Command::Recorder(args) => recorder::run(&args, json),
        Command::Peers(args) => peers::run(&args, json),
        Command::Plot(plot) => figures::run(&plot, json),
    }
}

fn bench(command: &Bench, json: bool) -> anyhow::Result<ExitStatus> {
    match command {
        Bench::Shares(args) => bench::shares(args, json),
        Bench::Clients(args) => bench::clients(args, json),
        Bench::Preempt(args) => bench::preempt(args, json),
        Bench::Clockwise(args) => bench::clockwise(args, json),
        Bench::Vdisk(args) => bench::vdisk(args, json),
        Bench::Depth(args) => bench::depth(args, json),
        Bench::Pool(args) => bench::pool(args, json),
        Bench::Checksums(args) => bench::checksums(args, json),
        Bench::Rebuild(args) => bench::rebuild(args, json),
        Bench::Profile(args) => bench::profile(args, json),
        Bench::Attack(args) => bench::attack(args, json),
        Bench::Connections(args) => bench::connections(args, json),
        Bench::Insulation(args) => bench::insulation(args, json),
        Bench::Nbd(args) => bench::nbd(args, json),
        Bench::Fronts(args) => bench::fronts(args, json),
        Bench::Real(args) => bench::real(args, json),
    }
}
