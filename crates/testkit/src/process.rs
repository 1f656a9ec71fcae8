//! Processes that are run to their end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The exit code and the output of a process that has ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    /// The exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Ran {
    /// The one JSON object on standard output, with nothing beside it.
    ///
    /// # Panics
    /// If standard output is anything else.
    pub fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "one line: {self:?}");
        let value: Value = serde_json::from_str(&self.stdout).expect("JSON");
        assert!(value.is_object(), "one object: {value}");
        value
    }

    /// The one line on standard error of a command that was refused as bad input.
    ///
    /// # Panics
    /// If the exit code is not 2, or anything else was written.
    pub fn refusal(&self) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (Some(2), ""), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "one message: {}", self.stderr);
        self.stderr.trim_end()
    }
}

/// Runs `command` in `directory` until it ends.
///
/// # Panics
/// If it cannot be started.
pub fn run(mut command: Command, directory: &Path) -> Ran {
    command.current_dir(directory).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The directory of the binaries that were built with the running test.
pub(crate) fn target_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let deps = test.parent().expect("a test lies in a directory");
    deps.parent().expect("which lies in that of the binaries").to_owned()
}

/// The project's binary `name`, as it was built with the running test.
///
/// # Panics
/// If it was not built.
pub fn binary(name: &str) -> PathBuf {
    let path = target_directory().join(name);
    assert!(path.is_file(), "{} is not built: `cargo build` builds it", path.display());
    path
}

fn run_binary(name: &str, directory: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(binary(name));
    command.args(arguments);
    run(command, directory)
}

/// Runs `spindle` with `arguments` in `directory` until it ends.
pub fn spindle(directory: &Path, arguments: &[&str]) -> Ran {
    run_binary("spindle", directory, arguments)
}

/// Runs `spindle-lab` with `arguments` in `directory` until it ends.
pub fn lab(directory: &Path, arguments: &[&str]) -> Ran {
    run_binary("spindle-lab", directory, arguments)
}

/// The client `name` of another project.
///
/// # Panics
/// If it is not installed.
pub fn client(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    assert!(
        found,
        "`{name}` is not installed: `make test` installs the clients that these tests need"
    );
    Command::new(name)
}

/// Runs the client `name` in `directory` with `arguments`; returns its standard output.
///
/// # Panics
/// If it fails.
pub fn succeed(name: &str, arguments: &[&str], directory: &Path) -> String {
    let mut command = client(name);
    command.args(arguments);
    let ran = run(command, directory);
    assert_eq!(ran.code, Some(0), "{name} {arguments:?}: {}\n{}", ran.stdout, ran.stderr);
    ran.stdout
}
