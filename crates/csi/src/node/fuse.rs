//! Volumes as loop devices over `nbdfuse`: for tests on kernels without NBD. A process is in the
//! path of the data, so that this is no transport for production.

use std::fmt::Write;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nbd::Address;
use tonic::Status;

use super::mounts::Mounts;
use super::{steps, tools};

/// The longest time that `nbdfuse` takes to show its file.
const SHOWN_MAX: Duration = Duration::from_secs(20);
/// The interval in which the file is looked for.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest name in hexadecimal digits that is the name of a directory.
const HEX_MAX: usize = 200;

/// Makes loop devices of volumes.
#[derive(Clone, Debug)]
pub(crate) struct Fuse {
    /// Where the daemon serves NBD.
    pub(super) server: Address,
    /// Where `nbdfuse` mounts its files, one directory a volume.
    pub(super) directory: PathBuf,
}

/// The bytes of a name in hexadecimal digits, each after `mark`.
fn hex(name: &str, mark: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        write!(text, "{mark}{byte:02x}").expect("a string takes any text");
    }
    text
}

impl Fuse {
    /// The directory of a volume's `nbdfuse`: any name of a volume gives the name of a file.
    fn of(&self, volume: &str) -> PathBuf {
        let hex = hex(volume, "");
        let name = if hex.len() <= HEX_MAX {
            hex
        } else {
            format!("{}{:016x}", &hex[..HEX_MAX / 2], checksum::crc64(volume.as_bytes()))
        };
        self.directory.join(name)
    }

    /// The loop device of a file.
    fn loop_of(file: &Path) -> Result<Option<String>, Status> {
        let shown = tools::expect("losetup", &["-n", "-O", "NAME,BACK-FILE"])?;
        let file = file.display().to_string();
        let of = |line: &str| {
            let (device, found) = line.split_once(' ')?;
            (found.trim() == file).then(|| device.to_owned())
        };
        Ok(shown.lines().find_map(of))
    }

    /// Whether the `nbdfuse` of a volume runs: a connection of the volume is its.
    pub(super) fn is_started(&self, volume: &str) -> bool {
        self.of(volume).join("nbd").exists()
    }

    /// The device of a volume whose `nbdfuse` runs.
    pub(super) fn find(&self, volume: &str) -> Result<Option<String>, Status> {
        let file = self.of(volume).join("nbd");
        if file.exists() { Self::loop_of(&file) } else { Ok(None) }
    }

    /// Attaches a volume; what a call or a process that was killed has left is used or removed.
    pub(super) fn attach(&self, volume: &str) -> Result<String, Status> {
        let directory = self.of(volume);
        let file = directory.join("nbd");
        if !file.exists() {
            self.start(volume, &directory)?;
            wait_for(&file)?;
        }
        let file = file.display().to_string();
        tools::expect("losetup", &["--find", "--show", "--direct-io=on", &file])
    }

    fn start(&self, volume: &str, directory: &Path) -> Result<(), Status> {
        let Address::Unix(socket) = &self.server else {
            return Err(Status::unimplemented("nbdfuse: expected a Unix socket of the daemon"));
        };
        if let Some(device) = Self::loop_of(&directory.join("nbd"))? {
            tools::expect("losetup", &["--detach", &device])?;
        }
        // Fails if no process has left a mount there.
        let _ = tools::run("umount", &["-l", &directory.display().to_string()]);
        let made = steps::after(std::fs::create_dir_all(directory));
        made.map_err(|error| Status::internal(format!("{}: {error}", directory.display())))?;
        let uri = format!("nbd+unix:///{}?socket={}", hex(volume, "%"), socket.display());
        // The process ends when its directory is unmounted, not with this one.
        let started = Command::new("nbdfuse")
            .arg(directory)
            .arg(uri)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn();
        let failed = |error| Status::internal(format!("nbdfuse cannot be run: {error}"));
        let mut child = steps::after(started).map_err(failed)?;
        // Its end is awaited, so that no zombie is left.
        std::thread::spawn(move || child.wait());
        Ok(())
    }

    /// Detaches a volume from its device.
    pub(super) fn detach(&self, volume: &str, device: &str) -> Result<(), Status> {
        tools::expect("losetup", &["--detach", device])?;
        self.stop(volume)
    }

    /// Ends the `nbdfuse` of a volume, if it has one.
    pub(super) fn stop(&self, volume: &str) -> Result<(), Status> {
        let directory = self.of(volume).display().to_string();
        if Mounts::read()?.source(&directory).is_some() {
            tools::expect("umount", &["--", &directory])?;
        }
        match steps::after(std::fs::remove_dir(&directory)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Status::internal(format!("{directory}: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Grows a device: the file of `nbdfuse` keeps the size that it began with.
    pub(super) fn grow(device: &str) -> Result<(), Status> {
        tools::expect("losetup", &["-c", device]).map(drop)
    }
}

/// Waits until a process has made its file.
#[expect(clippy::disallowed_methods, reason = "no event says that another process has made it")]
fn wait_for(file: &Path) -> Result<(), Status> {
    let begun = Instant::now();
    while !file.exists() {
        if begun.elapsed() > SHOWN_MAX {
            return Err(Status::unavailable("nbdfuse shows no file: does the daemon serve NBD?"));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
