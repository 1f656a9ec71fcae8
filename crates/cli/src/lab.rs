//! Commands that have moved to `spindle-lab`, which stands beside this binary.
//!
//! The old spellings work for one version: they run `spindle-lab` with the new words.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use clap::Args;
use console::{bad_input, eprintln};
use serde::Deserialize;

const NAME: &str = "spindle-lab";

/// Words that are passed on as they are.
#[derive(Debug, Args)]
pub(crate) struct Forwarded {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) words: Vec<OsString>,
}

/// Replaces this process by `spindle-lab NEW WORDS`, where the caller said `spindle OLD WORDS`.
/// Returns only on failure.
pub(crate) fn exec(old: &str, new: &str, args: &Forwarded, json: bool) -> anyhow::Error {
    let program = match beside() {
        Ok(program) => program,
        Err(error) => return error,
    };
    eprintln!("spindle: `spindle {old}` has moved: this runs `{NAME} {new}`");
    let mut command = Command::new(&program);
    command.args(json.then_some("--json")).arg(new).args(&args.words);
    failed(&program, &command.exec())
}

/// Draws figures with `spindle-lab plot KIND SUBJECT --out OUT`; returns the files written.
pub(crate) fn plots(kind: &str, subject: &OsStr, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    #[derive(Deserialize)]
    struct Drawn {
        files: Vec<PathBuf>,
    }
    let program = beside()?;
    eprintln!("spindle: figures have moved: this runs `{NAME} plot {kind}`");
    let mut command = Command::new(&program);
    command.args(["--json", "plot", kind]).arg(subject).arg("--out").arg(out);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| failed(&program, &error))?;
    if !output.status.success() {
        return Err(bad_input(format!("{NAME} plot {kind}: no figures were drawn")));
    }
    let drawn: Drawn = serde_json::from_slice(&output.stdout).context("the answer of a plot")?;
    Ok(drawn.files)
}

fn failed(program: &Path, error: &std::io::Error) -> anyhow::Error {
    bad_input(format!("{}: {error}", program.display()))
}

/// The laboratory's binary, in the directory of this one.
fn beside() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("this program's own path")?.with_file_name(NAME);
    if program.is_file() {
        return Ok(program);
    }
    Err(bad_input(format!(
        "this is a command of {NAME}, which is not there: expected {}; `cargo build -p {NAME}` \
         builds it",
        program.display()
    )))
}
