//! Exit codes that scripts can trust.

use std::fmt::Display;
use std::process::ExitCode;

/// How a command ended that could be carried out at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Done, and what was promised held.
    Held,
    /// Done, and it did not.
    Missed,
}

impl From<bool> for Ended {
    fn from(held: bool) -> Self {
        if held { Self::Held } else { Self::Missed }
    }
}

/// Bad usage or input: something the caller can mend.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// Marks an error as the caller's to mend.
pub(crate) fn bad_input(error: impl Display) -> anyhow::Error {
    BadInput(error.to_string()).into()
}

pub(crate) fn code(done: anyhow::Result<Ended>) -> ExitCode {
    match done {
        Ok(Ended::Held) => ExitCode::SUCCESS,
        Ok(Ended::Missed) => ExitCode::from(1),
        Err(error) => {
            eprintln!("spindle: {error:#}");
            let mendable = error.chain().any(<dyn std::error::Error>::is::<BadInput>);
            ExitCode::from(if mendable { 2 } else { 1 })
        }
    }
}
