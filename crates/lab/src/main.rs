//! The `spindle-lab` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    spindle_lab::main()
}
