//! A `spindle` under test: run to its end, or serving until it is stopped; and the clients that it is tested with.
//!
//! Nothing here waits for time to pass: a server says when it listens, and a process says when it has ended.

#![allow(dead_code, reason = "each file of tests uses its part of this")]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// One disk, two volumes; `BACKING` is to be replaced. The drive is quick: it has a write cache.
const CONFIG: &str = r#"[[disk]]
name = "d0"
drive = "hgst-7k8"
backing = "BACKING"

[[volume]]
name = "a"
disk = "d0"
size = "64MiB"
reserve = "50%"

[[volume]]
name = "b"
disk = "d0"
size = "32MiB"
reserve = "30%"
"#;

/// A config of two volumes, `a` of 64 MiB and `b` of 32 MiB, with their data in memory (`ram`) or in a file.
pub(crate) fn config(backing: &str) -> String {
    CONFIG.replace("BACKING", backing)
}

/// A directory that goes away with the test.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().expect("a scratch directory"))
    }

    /// The same beside the test, which lies on a disk: temporary files may be in memory, which takes no direct access.
    pub(crate) fn beside() -> Self {
        let beside = Path::new(env!("CARGO_BIN_EXE_spindle")).parent().expect("a directory");
        Self(TempDir::new_in(beside).expect("a scratch directory"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file, and gives its name as the commands that run here take it.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.join(name), content).expect("a scratch file");
        name.to_owned()
    }

    /// The names of everything in it, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).expect("it is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// What a process had to say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    /// `None`: a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The one JSON object on standard output, and nothing beside it.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "one line: {self:?}");
        let value: Value = serde_json::from_str(&self.stdout).expect("JSON");
        assert!(value.is_object(), "one object: {value}");
        value
    }
}

/// Runs it in `directory` until it ends.
pub(crate) fn run(mut command: Command, directory: &Path) -> Ran {
    command.current_dir(directory).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs `spindle` in `directory` until it ends.
pub(crate) fn spindle(directory: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
    command.args(arguments);
    run(command, directory)
}

/// A client of another project, by its name.
pub(crate) fn client(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    assert!(
        found,
        "`{name}` is not installed: `make test` installs the clients that these tests need"
    );
    Command::new(name)
}

/// Runs a client in `directory` with these arguments. It succeeds; gives what it printed.
pub(crate) fn succeed(name: &str, arguments: &[&str], directory: &Path) -> String {
    let mut command = client(name);
    command.args(arguments);
    let ran = run(command, directory);
    assert_eq!(ran.code, Some(0), "{name} {arguments:?}: {}\n{}", ran.stdout, ran.stderr);
    ran.stdout
}

/// A running `spindle serve`. It is killed when it is dropped before it was stopped.
pub(crate) struct Server {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// What it said before it listened, and that line.
    said: String,
    /// Where it listens, as it says itself.
    pub(crate) address: String,
}

impl Server {
    /// Runs `spindle serve` in `directory` until it listens, or has ended without.
    fn spawn(directory: &Path, arguments: &[&str]) -> Result<Self, Ran> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
        command.arg("serve").args(arguments).current_dir(directory);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it was built");
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut server = Self { child, stderr, said: String::new(), address: String::new() };
        loop {
            let start = server.said.len();
            if server.stderr.read_line(&mut server.said).expect("text") == 0 {
                return Err(server.ended());
            }
            if let Some(address) = server.said[start..].trim_end().strip_prefix("listening on ") {
                server.address = address.to_owned();
                return Ok(server);
            }
        }
    }

    /// Serves `config`, a file in `directory`, with further `arguments`. When this returns, it listens.
    pub(crate) fn start(directory: &Path, config: &str, arguments: &[&str]) -> Self {
        let started = Self::spawn(directory, &[&[config], arguments].concat());
        started.unwrap_or_else(|ran| panic!("it ended before it listened: {ran:?}"))
    }

    /// Would serve, but is refused.
    pub(crate) fn refused(directory: &Path, arguments: &[&str]) -> Ran {
        match Self::spawn(directory, arguments) {
            Ok(server) => panic!("it serves, on {}", server.address),
            Err(ran) => ran,
        }
    }

    /// Serves on a Unix socket in `directory`.
    pub(crate) fn unix(directory: &Path, config: &str) -> Self {
        let socket = format!("unix:{}", directory.join("nbd.sock").display());
        Self::start(directory, config, &["--json", "--listen", &socket])
    }

    /// An export as clients name it.
    pub(crate) fn uri(&self, export: &str) -> String {
        match self.address.strip_prefix("unix:") {
            Some(path) => format!("nbd+unix:///{export}?socket={path}"),
            None => format!("nbd://{}/{export}", self.address),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Waits until it has ended by itself.
    pub(crate) fn ended(mut self) -> Ran {
        let mut stderr = core::mem::take(&mut self.said);
        // Both at once: who writes much to the one would wait for it to be read before the other ends.
        let mut pipe = self.child.stdout.take().expect("piped");
        let stdout = std::thread::spawn(move || {
            let mut stdout = String::new();
            pipe.read_to_string(&mut stdout).expect("text");
            stdout
        });
        self.stderr.read_to_string(&mut stderr).expect("text");
        let stdout = stdout.join().expect("it reads to the end");
        let code = self.child.wait().expect("it has ended").code();
        Ran { code, stdout, stderr }
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) fn stop(self) -> Ran {
        self.signal(Signal::TERM);
        let ran = self.ended();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // By the handle, not by a name; of one that has ended this does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes that repeat nowhere soon, the same for the same seed.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| next()).collect()
}
