//! `spindle init`: writes a commented config that can be served at once.
//!
//! The disks are those that are named, else the free ones of this machine that the operator
//! chooses. With none to spare it is an emulated drive or a file: data is safe there, and disk time
//! is shared as on a disk of its own. No device is written to, and no file that exists is replaced
//! unless that is asked for.

mod choose;
mod text;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use config::{Plan, Purpose};
use console::{ExitStatus, bad_input, eprintln, println};
use host::Machine;
use serde::Serialize;
use stats::SCHEMA;
use units::Bytes;

use choose::{Choice, is_spare};
use text::DiskLines;

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The config to write.
    #[arg(default_value = "spindle.toml")]
    config: PathBuf,
    /// A block device to serve; may be given more than once.
    #[arg(long, value_name = "DEVICE")]
    disk: Vec<PathBuf>,
    /// A file to serve as a disk; it is created if it does not exist.
    #[arg(long, value_name = "FILE", conflicts_with = "emulate")]
    file: Option<PathBuf>,
    /// Emulate this drive of the library (`spindle drive ls`), delays included, in a file beside
    /// the config.
    #[arg(long, value_name = "DRIVE")]
    emulate: Option<String>,
    /// The size of a file that is created. Default: 10GiB; a file that exists keeps its own.
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// The address on which NBD clients connect: unix:PATH or ADDRESS:PORT. Default: the socket
    /// that systemd hands over, or `spindle.sock` in the working directory.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Ask nothing: take what is named, or a file.
    #[arg(long)]
    yes: bool,
    /// Replace the config if it exists.
    #[arg(long)]
    force: bool,
}

/// The size of a file that is created where none is given.
const FILE_SIZE: Bytes = Bytes(10 << 30);

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    config: PathBuf,
    disks: Vec<String>,
    volumes: Vec<String>,
    /// The command that serves it.
    serve: String,
}

pub(crate) fn run(init: &Init, json: bool) -> anyhow::Result<ExitStatus> {
    let path = &init.config;
    if path.exists() && !init.force {
        let found = format!("{}: exists already", path.display());
        return Err(bad_input(format!("{found}: name another file, or replace it with --force")));
    }
    let lines = disk_lines(init)?;
    let text = text::config(init.listen.as_deref(), &lines);
    let base_dir = path.parent().unwrap_or(Path::new(""));
    let created = lines.iter().filter_map(|disk| disk.create.as_ref());
    for (file, size) in created {
        create(&base_dir.join(file), *size)?;
    }
    let plan = Plan::check(&text, &path.display().to_string(), base_dir, Purpose::Serve);
    let plan = plan.map_err(|errors| bad_input(&errors[0]))?;
    write(path, &text, init.force)?;
    let created = lines.iter().filter_map(|disk| Some(base_dir.join(&disk.create.as_ref()?.0)));
    created.chain([path.clone()]).try_for_each(|file| give_to_owner_of_directory(&file))?;
    let serve = format!("spindle serve {}", path.display());
    if json {
        let disks = plan.disks.iter().map(|disk| disk.name.clone()).collect();
        let volumes = plan.volumes.iter().map(|volume| volume.name.clone()).collect();
        let shown = Shown { schema: SCHEMA, config: path.clone(), disks, volumes, serve };
        println!("{}", serde_json::to_string(&shown)?);
    } else {
        eprintln!("wrote {}", path.display());
        println!("{serve}");
    }
    Ok(ExitStatus::Success)
}

/// The disks that were named or chosen, as the config has them.
fn disk_lines(init: &Init) -> anyhow::Result<Vec<DiskLines>> {
    if let Some(drive) = &init.emulate {
        let spec = drive_library::open(drive).map_err(bad_input)?;
        let model = spec.check().map_err(bad_input)?;
        return Ok(vec![DiskLines::emulated(drive, model.capacity().bytes())]);
    }
    if let Some(file) = &init.file {
        return Ok(vec![DiskLines::file(file, file_size(init, file)?)]);
    }
    let named = if init.disk.is_empty() {
        let devices = Machine::default().block_devices();
        choose::choose(&devices.into_iter().filter(is_spare).collect::<Vec<_>>(), init.yes)?
    } else {
        Choice::Devices(init.disk.clone())
    };
    match named {
        Choice::File => {
            let file = Path::new("disk0.img");
            Ok(vec![DiskLines::file(file, file_size(init, file)?)])
        }
        Choice::Devices(devices) => {
            let sized = |path: PathBuf| Ok((path.clone(), choose::check(&path)?));
            let devices: Vec<_> = devices.into_iter().map(sized).collect::<anyhow::Result<_>>()?;
            Ok(DiskLines::devices(&devices))
        }
    }
}

/// The size of the file that serves as a disk: its own if there is one, and then no other may be
/// asked for, as it may hold data.
fn file_size(init: &Init, file: &Path) -> anyhow::Result<Bytes> {
    let path = init.config.parent().unwrap_or(Path::new("")).join(file);
    let found = match std::fs::metadata(&path) {
        Ok(found) if found.is_file() => Bytes(found.len()),
        Ok(_) => return Err(bad_input(format!("{}: expected a file", path.display()))),
        Err(_) => return Ok(init.size.unwrap_or(FILE_SIZE)),
    };
    if let Some(size) = init.size.filter(|&size| size != found) {
        let path = path.display();
        let what_next = "name another file, or leave --size out to keep it";
        return Err(bad_input(format!("{path}: found {found}, expected {size}: {what_next}")));
    }
    Ok(found)
}

/// Creates a file of this size without blocks, unless there is one.
fn create(path: &Path, size: Bytes) -> anyhow::Result<()> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => {
            let sized = file.set_len(size.0);
            sized.with_context(|| format!("{}: a size of {size}", path.display()))?;
            eprintln!("created {} with {size}", path.display());
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(bad_input(format!("{}: {error}", path.display()))),
    }
}

/// Gives a new file to the owner of its directory, where that is another user: the daemon's user
/// owns its own directory, and an administrator sets it up.
fn give_to_owner_of_directory(file: &Path) -> anyhow::Result<()> {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = std::fs::metadata(directory.unwrap_or(Path::new(".")))?;
    let owner = std::fs::metadata(file)?;
    if directory.uid() == owner.uid() {
        return Ok(());
    }
    let given = chown(file, Some(directory.uid()), Some(directory.gid()));
    given.with_context(|| format!("{}: to the owner of its directory", file.display()))
}

/// Writes the config in one step: under another name, then renamed.
fn write(path: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    let refused = |error: std::io::Error| bad_input(format!("{}: {error}", path.display()));
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut file =
        tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new("."))).map_err(refused)?;
    file.write_all(text.as_bytes()).map_err(refused)?;
    file.as_file().sync_all().map_err(refused)?;
    let placed = if force { file.persist(path) } else { file.persist_noclobber(path) };
    placed.map(drop).map_err(|error| refused(error.error))
}
