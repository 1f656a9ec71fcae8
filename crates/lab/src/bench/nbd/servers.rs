//! The servers under comparison: Spindle runs in this process, each other server in a child.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use config::Plan;
use console::{bad_input, uri};
use daemon::Daemon;
use nbd::Address;
use tempfile::TempDir;
use units::{Bytes, Duration};

use super::processor;
use crate::bench::live::{in_memory, pause};

/// The time within which a server must listen.
const START_MAX: Duration = Duration::from_secs(10);
/// The interval between two checks whether a server listens.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const LOCAL: &str = "127.0.0.1";
const VOLUME: &str = "v";

/// The kind of a server, which decides what its figures are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerKind {
    /// Spindle with a disk in memory, compared with the other servers.
    Spindle,
    /// Spindle with a disk that discards data; shown, but not compared.
    SpindleNull,
    Other,
}

pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) kind: ServerKind,
    pub(super) uri: String,
    running: Running,
    directory: TempDir,
}

enum Running {
    InProcess(Option<Daemon>),
    Child(Child),
    /// The process identifier of a server that daemonised.
    Background(u32),
}

/// Starts all installed servers, each with an empty disk of this size. The second list names the
/// servers that are not installed.
pub(super) fn start(size: Bytes) -> anyhow::Result<(Vec<Server>, Vec<&'static str>)> {
    let ours = [("memory", ServerKind::Spindle), ("null", ServerKind::SpindleNull)];
    let mut servers = Vec::new();
    for (name, kind) in ours {
        servers.push(in_process(name, kind, size)?);
    }
    let mut missing = Vec::new();
    let others: [(&str, Start); 3] =
        [("nbdkit", nbdkit), ("nbd-server", nbd_server), ("qemu-nbd", qemu_nbd)];
    for (name, start) in others {
        let directory = in_memory()?;
        match start(directory.path(), size) {
            Ok((running, export)) => {
                let socket = directory.path().join("nbd.sock");
                let uri = uri(&Address::Unix(socket.clone()), export);
                let server = Server { name, kind: ServerKind::Other, uri, running, directory };
                server.wait_for(&socket)?;
                servers.push(server);
            }
            Err(error) if is_missing(&error) => missing.push(name),
            Err(error) => return Err(error.context(name)),
        }
    }
    Ok((servers, missing))
}

/// Starts a server that listens on `nbd.sock` in a directory. Returns the name of its export too.
type Start = fn(&Path, Bytes) -> anyhow::Result<(Running, &'static str)>;

fn is_missing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Starts Spindle with one volume that reserves all of a disk without service time, under the
/// `utilization` policy.
fn in_process(name: &'static str, kind: ServerKind, size: Bytes) -> anyhow::Result<Server> {
    let text = format!(
        "[[disk]]\nname = \"d\"\ndrive = \"{name}\"\nsize = \"{0}B\"\npolicy = \"utilization\"\n\
         [[volume]]\nname = \"{VOLUME}\"\ndisk = \"d\"\nsize = \"{0}B\"\nreserve = \"100%\"\n",
        size.0
    );
    let plan = Plan::parse(&text, "the bench's config", Path::new(".")).map_err(bad_input)?;
    let directory = in_memory()?;
    let address = Address::Unix(directory.path().join("nbd.sock"));
    let daemon = Daemon::start(&plan, &[address]).map_err(bad_input)?;
    let uri = uri(&daemon.addresses()[0], VOLUME);
    Ok(Server { name, kind, uri, running: Running::InProcess(Some(daemon)), directory })
}

fn command(program: &str, directory: &Path) -> anyhow::Result<Command> {
    let log = File::create(directory.join("log.txt"))?;
    let mut command = Command::new(program);
    command.current_dir(directory).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}

fn raw(directory: &Path, size: Bytes) -> anyhow::Result<PathBuf> {
    let path = directory.join("disk.raw");
    File::create(&path)?.set_len(size.0)?;
    Ok(path)
}

fn nbdkit(directory: &Path, size: Bytes) -> anyhow::Result<(Running, &'static str)> {
    let mut command = command("nbdkit", directory)?;
    command.args(["--foreground", "--unix"]).arg(directory.join("nbd.sock"));
    let child = command.arg("memory").arg(size.0.to_string()).spawn()?;
    Ok((Running::Child(child), ""))
}

fn qemu_nbd(directory: &Path, size: Bytes) -> anyhow::Result<(Running, &'static str)> {
    let mut command = command("qemu-nbd", directory)?;
    command.args(["--persistent", "--shared=8", "--format=raw", "--socket"]);
    let child = command.arg(directory.join("nbd.sock")).arg(raw(directory, size)?).spawn()?;
    Ok((Running::Child(child), ""))
}

/// nbd-server daemonises, because in the foreground it serves one client at a time only.
fn nbd_server(directory: &Path, size: Bytes) -> anyhow::Result<(Running, &'static str)> {
    let (config, pid) = (directory.join("config"), directory.join("pid"));
    let (socket, raw) = (directory.join("nbd.sock"), raw(directory, size)?);
    // nbd-server always listens on a TCP port too and exits on port 0, so it gets a free port.
    let port = TcpListener::bind((LOCAL, 0))?.local_addr()?.port();
    let text = format!(
        "[generic]\nunixsock = {}\nlistenaddr = {LOCAL}\nport = {port}\n[{VOLUME}]\nexportname = \
         {}\n",
        socket.display(),
        raw.display()
    );
    fs::write(&config, text)?;
    let mut command = command("nbd-server", directory)?;
    let code = command.arg("-C").arg(&config).arg("-p").arg(&pid).status()?;
    if !code.success() {
        bail!("it exited with {code}: {}", fs::read_to_string(directory.join("log.txt"))?);
    }
    for _ in 0..START_MAX.as_nanos() / POLL_INTERVAL.as_nanos() {
        if let Ok(pid) = fs::read_to_string(&pid).unwrap_or_default().trim().parse() {
            return Ok((Running::Background(pid), VOLUME));
        }
        pause(POLL_INTERVAL);
    }
    bail!("it wrote no process identifier within {START_MAX}")
}

impl Server {
    fn wait_for(&self, socket: &Path) -> anyhow::Result<()> {
        for _ in 0..START_MAX.as_nanos() / POLL_INTERVAL.as_nanos() {
            if UnixStream::connect(socket).is_ok() {
                return Ok(());
            }
            pause(POLL_INTERVAL);
        }
        let log = fs::read_to_string(self.directory.path().join("log.txt")).unwrap_or_default();
        bail!("{} does not listen after {START_MAX}: {log}", self.name)
    }

    /// The server's working directory.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// CPU time of the server's processes so far.
    pub(super) fn processor_time(&self) -> anyhow::Result<Duration> {
        let (pid, with_children) = match &self.running {
            // The children of this process are the other servers and fio.
            Running::InProcess(_) => (std::process::id(), false),
            Running::Child(child) => (child.id(), true),
            Running::Background(pid) => (*pid, true),
        };
        processor::time(pid, with_children).context(self.name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors are ignored: the server may have exited already.
        match &mut self.running {
            Running::InProcess(daemon) => drop(daemon.take().map(Daemon::stop)),
            Running::Child(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Running::Background(pid) => {
                let _ = Command::new("kill").arg(pid.to_string()).status();
            }
        }
    }
}
