//! The servers: ours in this process, the others each in one of its own.

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
use crate::bench::live::pause;

/// File systems in memory are looked for here.
const IN_MEMORY: &str = "/dev/shm";
/// How long a server may take until it listens.
const START_MAX: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const LOCAL: &str = "127.0.0.1";
const VOLUME: &str = "v";

/// Whose a server is, and so what its figures are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Ours,
    /// Spindle without a backing, which is compared with none.
    OursNull,
    Theirs,
}

pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) whose: Whose,
    pub(super) uri: String,
    running: Running,
    directory: TempDir,
}

enum Running {
    Here(Option<Daemon>),
    Child(Child),
    /// It went into the background, and this is its number.
    Background(u32),
}

/// All servers that are installed, each with an empty disk of this size, and those that are not.
pub(super) fn start(size: Bytes) -> anyhow::Result<(Vec<Server>, Vec<&'static str>)> {
    let ours = [("memory", Whose::Ours), ("null", Whose::OursNull)];
    let mut servers = Vec::new();
    for (name, whose) in ours {
        servers.push(here(name, whose, size)?);
    }
    let mut missing = Vec::new();
    let others: [(&str, Start); 3] =
        [("nbdkit", nbdkit), ("nbd-server", nbd_server), ("qemu-nbd", qemu_nbd)];
    for (name, start) in others {
        let directory = scratch()?;
        match start(directory.path(), size) {
            Ok((running, export)) => {
                let socket = directory.path().join("nbd.sock");
                let uri = uri(&Address::Unix(socket.clone()), export);
                let server = Server { name, whose: Whose::Theirs, uri, running, directory };
                server.wait_for(&socket)?;
                servers.push(server);
            }
            Err(error) if is_missing(&error) => missing.push(name),
            Err(error) => return Err(error.context(name)),
        }
    }
    Ok((servers, missing))
}

/// Starts one in a directory, where it is to listen on `nbd.sock`; gives the name of its export,
/// too.
type Start = fn(&Path, Bytes) -> anyhow::Result<(Running, &'static str)>;

fn is_missing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}

fn scratch() -> anyhow::Result<TempDir> {
    tempfile::tempdir_in(IN_MEMORY).map_err(|error| {
        bad_input(format!("a directory in memory is wanted in {IN_MEMORY}: {error}"))
    })
}

/// Ours: one volume with the whole of a disk that takes no time, under the policy that sells disk
/// time.
fn here(name: &'static str, whose: Whose, size: Bytes) -> anyhow::Result<Server> {
    let text = format!(
        "[[disk]]\nname = \"d\"\ndrive = \"{name}\"\nsize = \"{0}B\"\npolicy = \"utilization\"\n\
         [[volume]]\nname = \"{VOLUME}\"\ndisk = \"d\"\nsize = \"{0}B\"\nreserve = \"100%\"\n",
        size.0
    );
    let plan = Plan::parse(&text, "the bench's config", Path::new(".")).map_err(bad_input)?;
    let directory = scratch()?;
    let address = Address::Unix(directory.path().join("nbd.sock"));
    let daemon = Daemon::start(&plan, &[address]).map_err(bad_input)?;
    let uri = uri(&daemon.addresses()[0], VOLUME);
    Ok(Server { name, whose, uri, running: Running::Here(Some(daemon)), directory })
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

/// It stays in the foreground only to serve one client at a time; so it is left to go into the
/// background.
fn nbd_server(directory: &Path, size: Bytes) -> anyhow::Result<(Running, &'static str)> {
    let (config, pid) = (directory.join("config"), directory.join("pid"));
    let (socket, raw) = (directory.join("nbd.sock"), raw(directory, size)?);
    // It listens on a port besides, whatever else it is told, and ends without a word on port 0:
    // here one that was free.
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
        bail!("it ended with {code}: {}", fs::read_to_string(directory.join("log.txt"))?);
    }
    for _ in 0..START_MAX.as_nanos() / LOOK_AGAIN.as_nanos() {
        if let Ok(pid) = fs::read_to_string(&pid).unwrap_or_default().trim().parse() {
            return Ok((Running::Background(pid), VOLUME));
        }
        pause(LOOK_AGAIN);
    }
    bail!("it wrote no number of its process within {START_MAX}")
}

impl Server {
    fn wait_for(&self, socket: &Path) -> anyhow::Result<()> {
        for _ in 0..START_MAX.as_nanos() / LOOK_AGAIN.as_nanos() {
            if UnixStream::connect(socket).is_ok() {
                return Ok(());
            }
            pause(LOOK_AGAIN);
        }
        let said = fs::read_to_string(self.directory.path().join("log.txt")).unwrap_or_default();
        bail!("{} does not listen after {START_MAX}: {said}", self.name)
    }

    /// Where it may leave things.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Processor time of whatever serves.
    pub(super) fn processor(&self) -> anyhow::Result<Duration> {
        let (pid, with_children) = match &self.running {
            // Its children are the other servers, and fio.
            Running::Here(_) => (std::process::id(), false),
            Running::Child(child) => (child.id(), true),
            Running::Background(pid) => (*pid, true),
        };
        processor::time(pid, with_children).context(self.name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already has ended.
        match &mut self.running {
            Running::Here(daemon) => drop(daemon.take().map(Daemon::stop)),
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
