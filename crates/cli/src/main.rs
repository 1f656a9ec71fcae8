//! The `spindle` binary: reads the command line, prints what comes of it.
//!
//! Results go to standard output (one JSON object with `--json`), words and progress to standard error. Exit
//! codes: 0 done; 1 the promise or check did not hold; 2 bad usage or input, with one message that says where and
//! what would be accepted.

mod args;
mod bench;
mod demo;
mod exit;
mod load;
mod serve;
mod sim;
mod table;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Bench, Command, Sim};

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.command {
        Command::Demo(demo) => demo::run(&demo, args.json),
        Command::Serve(serve) => serve::run(&serve, args.json),
        Command::Sim(Sim::Run(run)) => sim::run(&run, args.json),
        Command::Sim(Sim::Reproduce(reproduce)) => sim::reproduce(&reproduce, args.json),
        Command::Bench(Bench::Shares(shares)) => bench::shares(&shares, args.json),
    };
    exit::code(done)
}
