//! The `spindle` binary, as a library: reads the command line, carries it out, prints the result.
//!
//! Results go to standard output (one JSON object with `--json`), messages and progress to
//! standard error. Exit codes: 0 done; 1 a guarantee or a check did not hold; 2 bad usage or
//! input, with one message that says where it is and what is accepted.
//!
//! What an operator runs is here. Comparisons, experiments and plots are in `spindle-lab`.

mod admit;
mod args;
mod attach;
mod check;
mod contract;
mod daemon_api;
mod declared;
mod demo;
mod disk;
mod doctor;
mod drive;
mod emulate;
mod events;
mod init;
mod lab;
mod listen;
mod live;
mod notify;
mod pool;
mod profile;
mod replay;
mod serve;
mod sim;
mod slow;
mod top;
mod trace;
mod vol;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use console::ExitStatus;

use args::{Args, Command, Sim, Trace};

/// The command line, for man pages, completions and the reference.
pub fn command() -> clap::Command {
    Args::command()
}

/// The whole of the binary.
pub fn main() -> ExitCode {
    let args = Args::parse();
    console::run("spindle", || run(args.command, args.json))
}

fn run(command: Command, json: bool) -> anyhow::Result<ExitStatus> {
    match command {
        Command::Demo(demo) if demo.recorder => Err(demo::exec_recorder(&demo, json)),
        Command::Demo(demo) => demo::run(&demo, json),
        Command::Init(init) => init::run(&init, json),
        Command::Check(check) => check::run(&check, json),
        Command::Doctor(doctor) => doctor::run(&doctor, json),
        Command::Serve(serve) => serve::run(&serve, json),
        Command::Vol(command) => vol::run(&command, json),
        Command::Pool(command) => pool::run(&command, json),
        Command::Attach(command) => attach::attach(&command, json),
        Command::Detach(command) => attach::detach(&command, json),
        Command::Emulate(command) => emulate::run(&command, json),
        Command::Top(command) => top::run(&command, json),
        Command::Disk(command) => disk::run(&command, json),
        Command::Events(args) => events::run(&args, json),
        Command::Admit(admit) => admit::run(&admit, json),
        Command::Sim(Sim::Run(run)) => sim::run(&run, json),
        Command::Sim(Sim::Reproduce(args)) => {
            Err(lab::exec("sim reproduce", "reproduce", &args, json))
        }
        Command::Sim(Sim::Replay(replay)) => replay::run(&replay, json),
        Command::Bench(args) => Err(lab::exec("bench", "bench", &args, json)),
        Command::Trace(Trace::Stat(stat)) => trace::stat(&stat, json),
        Command::Trace(Trace::Convert(convert)) => trace::convert(&convert, json),
        Command::Trace(Trace::Live(live)) => live::run(&live, json),
        Command::Drive(command) => drive::run(&command, json),
        Command::Profile(command) => profile::run(&command, json),
    }
}
