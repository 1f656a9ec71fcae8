//! A node under test: a daemon with a pool on emulated disks, and the driver beside it.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod caller;
pub(crate) mod calls;
pub(crate) mod node;

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use testkit::{Scratch, Server, binary};

/// A pool of two hard disks, the data in files.
const POOL: &str = r#"[[disk]]
name = "d0"
drive = "hgst-7k8"
write_buffer = "auto"
backing = "d0.img"

[[disk]]
name = "d1"
drive = "hgst-7k8"
write_buffer = "auto"
backing = "d1.img"

[pool]
disks = ["d0", "d1"]
"#;

/// What is killed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killed {
    Nothing,
    Driver,
    Daemon,
    Both,
}

impl Killed {
    pub(crate) const ALL: [Self; 4] = [Self::Nothing, Self::Driver, Self::Daemon, Self::Both];

    pub(crate) fn has_driver(self) -> bool {
        matches!(self, Self::Driver | Self::Both)
    }

    pub(crate) fn has_daemon(self) -> bool {
        matches!(self, Self::Daemon | Self::Both)
    }
}

/// A running `spindle-csi`. It is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct DriverProcess {
    child: Child,
    /// Held open, so that the driver can go on reporting.
    _stderr: BufReader<ChildStderr>,
}

impl DriverProcess {
    /// Starts a driver in a node's directory. When this returns, it serves.
    ///
    /// # Panics
    /// If it ends before.
    pub(crate) fn start(directory: &Path, node: &str, attach: &str) -> Self {
        Self::start_with(directory, (node, attach), &[])
    }

    /// Starts a driver with more options, as the leader of a group of processes.
    ///
    /// # Panics
    /// If it ends before it serves.
    pub(crate) fn start_with(
        directory: &Path,
        (node, attach): (&str, &str),
        options: &[String],
    ) -> Self {
        let of = |name: &str| directory.join(name).display().to_string();
        let mut command = Command::new(binary("spindle-csi"));
        command
            .args(["--endpoint", &of("csi.sock"), "--api", &of("spindle-api.sock")])
            .args(["--server", &format!("unix:{}", of("nbd.sock"))])
            .args(["--node", node, "--attach", attach, "--directory", &of("fuse")])
            .args(options);
        Self::spawn(command)
    }

    /// Starts the driver of a cluster's resizer, which has neither a node nor a daemon.
    ///
    /// # Panics
    /// If it ends before it serves.
    pub(crate) fn start_central(directory: &Path) -> Self {
        let mut command = Command::new(binary("spindle-csi"));
        command.arg("--central").arg("--endpoint").arg(directory.join("csi.sock"));
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it was built");
        let mut stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut said = String::new();
        loop {
            let start = said.len();
            // Devices that it keeps connected may report before.
            let read = stderr.read_line(&mut said).expect("text");
            assert!(read > 0, "the driver ends before it serves: {said}");
            if said[start..].starts_with("serving on ") {
                break;
            }
        }
        Self { child, _stderr: stderr }
    }

    /// Kills it, as a node that is out of memory does.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// Whether it has ended. A call that its end has cut short is answered before the end is known.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is a child").is_some()
    }

    fn end(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for DriverProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Creates the pool of a node in its directory.
pub(crate) fn create_pool(scratch: &Scratch) {
    scratch.write("plan.toml", POOL);
    let created = testkit::spindle(scratch.path(), &["pool", "create", "--config", "plan.toml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
}

/// Starts the daemon of a node whose pool is created.
pub(crate) fn serve(scratch: &Scratch) -> Server {
    Server::unix(scratch.path(), "plan.toml")
}

/// The number that a variable of the environment gives to a test.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("it is a number"))
}

/// The seeds of a test: `SPINDLE_SEED` is one, `SPINDLE_CASES` their number.
pub(crate) fn seeds(count: u64) -> std::ops::Range<u64> {
    match number("SPINDLE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + number("SPINDLE_CASES").unwrap_or(count),
    }
}

/// The volumes and snapshots that a node's daemon has.
pub(crate) fn volumes(scratch: &Scratch) -> Vec<api::Volume> {
    let listed = testkit::spindle(scratch.path(), &["vol", "ls", "--json"]).json();
    serde_json::from_value::<api::VolumesAnswer>(listed).expect("its shape").volumes
}

/// Why volumes cannot be mounted here, if they cannot.
pub(crate) fn cannot_mount() -> Option<&'static str> {
    let can_open = |path: &str| std::fs::File::options().read(true).write(true).open(path).is_ok();
    if !rustix::process::geteuid().is_root() {
        Some("not root")
    } else if node::attach() != "nbdfuse" {
        None
    } else if !can_open("/dev/fuse") {
        Some("/dev/fuse cannot be opened")
    } else if !can_open("/dev/loop-control") {
        Some("/dev/loop-control cannot be opened")
    } else {
        None
    }
}
