//! The `spindle` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    spindle_cli::main()
}
