//! Exit codes that scripts can trust.

use std::fmt::Display;
use std::process::ExitCode;

/// How a command ended that could be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Done, and every guarantee and check held. Exit code 0.
    Success,
    /// Done, and a guarantee or a check did not hold. Exit code 1.
    CheckFailed,
}

impl From<bool> for ExitStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::Success } else { Self::CheckFailed }
    }
}

/// Bad usage or input: an error that the caller can correct. Exit code 2.
#[derive(Debug)]
pub struct BadInput(pub String);

impl Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Marks an error as one that the caller can correct.
pub fn bad_input(error: impl Display) -> anyhow::Error {
    BadInput(error.to_string()).into()
}

/// Runs the command of the binary `program`, reports its error, and returns its exit code.
pub fn run(program: &str, command: impl FnOnce() -> anyhow::Result<ExitStatus>) -> ExitCode {
    abort_on_panic();
    match command() {
        Ok(ExitStatus::Success) => ExitCode::SUCCESS,
        Ok(ExitStatus::CheckFailed) => ExitCode::from(1),
        Err(error) => {
            crate::eprintln!("{program}: {error:#}");
            let is_correctable = error.chain().any(<dyn std::error::Error>::is::<BadInput>);
            ExitCode::from(if is_correctable { 2 } else { 1 })
        }
    }
}

/// A panic in any thread ends the process, as one in the main thread does: the clients of a disk
/// whose thread is gone would wait without end otherwise.
fn abort_on_panic() {
    let (report, main) = (std::panic::take_hook(), std::thread::current().id());
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        if std::thread::current().id() != main {
            std::process::abort();
        }
    }));
}
