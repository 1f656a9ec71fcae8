//! The `spindle` binary: reads the command line, prints what comes of it.
//!
//! Results go to standard output (one JSON object with `--json`), words and progress to standard error. Exit
//! codes: 0 done; 1 the promise or check did not hold; 2 bad usage or input, with one message that says where and
//! what would be accepted.

mod args;
mod bench;
mod declared;
mod demo;
mod drive;
mod exit;
mod live;
mod load;
mod notify;
mod pool;
mod profile;
mod recorder;
mod replay;
mod serve;
mod sim;
mod slow;
mod table;
mod top;
mod trace;
mod vol;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Bench, Command, Sim, Trace};

/// A thread that panics takes the process with it, as the main thread does: its disk's clients would wait for
/// ever otherwise.
fn abort_on_panic() {
    let (tell, main) = (std::panic::take_hook(), std::thread::current().id());
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        if std::thread::current().id() != main {
            std::process::abort();
        }
    }));
}

fn main() -> ExitCode {
    abort_on_panic();
    let args = Args::parse();
    let done = match args.command {
        Command::Demo(demo) if demo.recorder => recorder::run(&demo, args.json),
        Command::Demo(demo) => demo::run(&demo, args.json),
        Command::Serve(serve) => serve::run(&serve, args.json),
        Command::Vol(command) => vol::run(&command, args.json),
        Command::Pool(command) => pool::run(&command, args.json),
        Command::Top(command) => top::run(&command, args.json),
        Command::Disk(command) => vol::disk(&command, args.json),
        Command::Admit(admit) => vol::admit(&admit, args.json),
        Command::Sim(Sim::Run(run)) => sim::run(&run, args.json),
        Command::Sim(Sim::Reproduce(reproduce)) => sim::reproduce(&reproduce, args.json),
        Command::Sim(Sim::Replay(replay)) => replay::run(&replay, args.json),
        Command::Bench(Bench::Shares(shares)) => bench::shares(&shares, args.json),
        Command::Bench(Bench::Preempt(preempt)) => bench::preempt(&preempt, args.json),
        Command::Bench(Bench::Clockwise(run)) => bench::clockwise(&run, args.json),
        Command::Bench(Bench::Vdisk(vdisk)) => bench::vdisk(&vdisk, args.json),
        Command::Bench(Bench::Pool(run)) => bench::pool(&run, args.json),
        Command::Bench(Bench::Profile(run)) => bench::profile(&run, args.json),
        Command::Bench(Bench::Attack(run)) => bench::attack(&run, args.json),
        Command::Bench(Bench::Connections(run)) => bench::connections(&run, args.json),
        Command::Bench(Bench::Insulation(run)) => bench::insulation(&run, args.json),
        Command::Bench(Bench::Nbd(run)) => bench::nbd(&run, args.json),
        Command::Bench(Bench::Real(run)) => bench::real(&run, args.json),
        Command::Trace(Trace::Stat(stat)) => trace::stat(&stat, args.json),
        Command::Trace(Trace::Convert(convert)) => trace::convert(&convert, args.json),
        Command::Trace(Trace::Live(live)) => live::run(&live, args.json),
        Command::Drive(command) => drive::run(&command, args.json),
        Command::Profile(command) => profile::run(&command, args.json),
    };
    exit::code(done)
}
