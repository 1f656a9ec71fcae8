//! A daemon under test.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::process::{Ran, binary};

/// One disk, two volumes; `BACKING` is replaced. The drive has a write cache, so that writes do not
/// wait for its rotation.
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

/// A config of two volumes, `a` of 64 MiB and `b` of 32 MiB, with their data in memory (`ram`) or
/// in a file.
pub fn config(backing: &str) -> String {
    CONFIG.replace("BACKING", backing)
}

/// A running `spindle serve`, or `spindle emulate`. A value that is dropped before it was stopped
/// kills its process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// Standard error up to the line that says that it listens, inclusive.
    said: String,
    /// The address on which it listens, as it reports it.
    pub address: String,
}

impl Server {
    /// Runs `spindle` in `directory` until it listens, or has ended without listening.
    fn spawn(directory: &Path, arguments: &[&str]) -> Result<Self, Ran> {
        let mut command = Command::new(binary("spindle"));
        command.args(arguments).current_dir(directory);
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

    /// Serves `config`, a file in `directory`, with further `arguments`. When this returns, the
    /// server listens.
    ///
    /// # Panics
    /// If it ends before it listens.
    pub fn start(directory: &Path, config: &str, arguments: &[&str]) -> Self {
        Self::run(directory, &[&["serve", config], arguments].concat())
    }

    /// Runs a command of `spindle` that serves. When this returns, it listens.
    ///
    /// # Panics
    /// If it ends before it listens.
    pub fn run(directory: &Path, arguments: &[&str]) -> Self {
        let started = Self::spawn(directory, arguments);
        started.unwrap_or_else(|ran| panic!("it ended before it listened: {ran:?}"))
    }

    /// Runs `spindle serve` with `arguments` that it refuses.
    ///
    /// # Panics
    /// If it serves.
    pub fn refused(directory: &Path, arguments: &[&str]) -> Ran {
        match Self::spawn(directory, &[&["serve"], arguments].concat()) {
            Ok(server) => panic!("it serves, on {}", server.address),
            Err(ran) => ran,
        }
    }

    /// Serves on a Unix socket in `directory`.
    pub fn unix(directory: &Path, config: &str) -> Self {
        let socket = format!("unix:{}", directory.join("nbd.sock").display());
        Self::start(directory, config, &["--json", "--listen", &socket])
    }

    /// The URI of an export.
    pub fn uri(&self, export: &str) -> String {
        match self.address.strip_prefix("unix:") {
            Some(path) => format!("nbd+unix:///{export}?socket={path}"),
            None => format!("nbd://{}/{export}", self.address),
        }
    }

    /// Sends `signal` to the process.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Its resident memory, in KiB.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn resident_kib(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let size = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        size.expect("its size in KiB")
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// If its output is no text.
    pub fn ended(mut self) -> Ran {
        let mut stderr = core::mem::take(&mut self.said);
        // Both pipes are read at once: a process that fills one of them waits for its reader.
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

    /// Stops it with SIGTERM, and waits until it has ended.
    ///
    /// # Panics
    /// If its exit code is not 0.
    pub fn stop(self) -> Ran {
        self.signal(Signal::TERM);
        let ran = self.ended();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let before = self.child.try_wait();
        // By its handle; a process that has ended ignores this.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            // The test fails: what the daemon reported, and whether it had ended, say why.
            let _ = self.stderr.read_to_string(&mut self.said);
            let state = match before {
                Ok(Some(status)) => format!("had ended before ({status})"),
                _ => "was killed now".to_owned(),
            };
            eprintln!("the daemon {state}; its standard error:\n{}", self.said);
        }
    }
}
