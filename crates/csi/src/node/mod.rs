//! Volumes on this node: block devices, file systems and mounts. What is there is read back from
//! the kernel at each call.

mod file_system;
mod fuse;
mod kernel;
mod mounts;
pub(crate) mod steps;
mod tools;
pub(crate) mod transport;

use std::path::Path;

use tonic::Status;
use units::Bytes;

use crate::capabilities::{Access, Asked};
use file_system::FileSystem;
use mounts::Mounts;
use transport::Transport;

/// Bytes or inodes of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) total: i64,
    pub(crate) used: i64,
    pub(crate) available: i64,
}

/// The volumes of this node.
#[derive(Debug)]
pub(crate) struct NodeVolumes {
    transport: Transport,
}

fn failed(what: &str, path: &str, error: &std::io::Error) -> Status {
    Status::internal(format!("{path}: cannot {what}: {error}"))
}

/// Makes the directory that a file system, or the file that a device, is bound to.
fn make_target(target: &str, access: &Access) -> std::io::Result<()> {
    match access {
        Access::Mount { .. } => std::fs::create_dir_all(target),
        Access::Block => {
            Path::new(target).parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::OpenOptions::new().create(true).append(true).open(target).map(drop)
        }
    }
}

impl NodeVolumes {
    pub(crate) fn new(transport: Transport) -> Self {
        Self { transport }
    }

    /// The device that a volume is attached as.
    pub(crate) fn device(&self, volume: &str) -> Result<Option<String>, Status> {
        self.transport.find(volume)
    }

    /// Whether a call that was cut short has left a part of a device of the volume.
    pub(crate) fn is_attaching(&self, volume: &str) -> bool {
        match &self.transport {
            Transport::Nbdfuse(fuse) => fuse.is_started(volume),
            Transport::Nbd(_) | Transport::Ublk(_) => false,
        }
    }

    /// Attaches a volume, and mounts its file system at `at` if it is to have one. A volume that is
    /// staged already stays as it is.
    pub(crate) fn stage(&self, volume: &str, at: &str, access: &Access) -> Result<(), Status> {
        let found = self.transport.find(volume)?;
        let device = match &found {
            Some(device) => device.clone(),
            None => self.transport.attach(volume)?,
        };
        let Access::Mount { file_system, options } = access else { return Ok(()) };
        let mut mounts = Mounts::read()?;
        // A mount from before the device was attached is one of a device that is gone: a crash, or
        // a time-out, has left it.
        while mounts.source(at).is_some_and(|source| found.is_none() || *source != device) {
            mounts::unmount(at)?;
            mounts = Mounts::read()?;
        }
        if let Some(present) = mounts.file_system(at) {
            if present == *file_system {
                // A call that was cut short may have mounted it, and not have grown it.
                return FileSystem::grow(&device, at, file_system);
            }
            return Err(Status::already_exists(format!(
                "volume \"{volume}\" is staged with {present}: expected {file_system}"
            )));
        }
        if let Some(other) = mounts.points(&device).next() {
            return Err(Status::failed_precondition(format!(
                "volume \"{volume}\" is mounted at {other}: expected nowhere but at {at}"
            )));
        }
        let made = steps::after(std::fs::create_dir_all(at));
        made.map_err(|error| failed("make it", at, &error))?;
        FileSystem::prepare(volume, &device, file_system)?;
        mounts::mount(&device, at, file_system, options)?;
        // A clone of a smaller volume, or one that grew while it was not in use.
        FileSystem::grow(&device, at, file_system)
    }

    /// Undoes [`NodeVolumes::stage`]; what is undone already is skipped.
    pub(crate) fn unstage(&self, volume: &str, at: &str) -> Result<(), Status> {
        while Mounts::read()?.source(at).is_some() {
            mounts::unmount(at)?;
        }
        match self.transport.find(volume)? {
            Some(device) => self.transport.detach(volume, &device),
            None => self.transport.end_detaching(volume),
        }
    }

    /// Makes a staged volume visible at `target`.
    pub(crate) fn publish(
        &self,
        volume: &str,
        (staged, target): (&str, &str),
        asked: &Asked,
    ) -> Result<(), Status> {
        let not_staged =
            || Status::failed_precondition(format!("volume \"{volume}\" is not staged"));
        let device = self.transport.find(volume)?.ok_or_else(not_staged)?;
        let mut mounts = Mounts::read()?;
        let from = match asked.access {
            Access::Block => device.as_str(),
            Access::Mount { .. } if mounts.source(staged) == Some(&device) => staged,
            Access::Mount { .. } => return Err(not_staged()),
        };
        // What a device that is gone has left is no publication.
        while mounts.source(target).is_some_and(|source| *source != device) {
            mounts::unmount(target)?;
            mounts = Mounts::read()?;
        }
        if let Some(is_read_only) = mounts.is_read_only(target) {
            if is_read_only == asked.is_read_only {
                return Ok(());
            }
            return Err(Status::already_exists(format!(
                "{target}: volume \"{volume}\" is published there with another access"
            )));
        }
        let mut others = mounts.points(&device).filter(|point| *point != staged);
        if let Some(other) = others.next().filter(|_| asked.is_exclusive) {
            return Err(Status::failed_precondition(format!(
                "volume \"{volume}\" is published at {other}: its mode is of one pod alone"
            )));
        }
        steps::after(make_target(target, &asked.access))
            .map_err(|error| failed("make it", target, &error))?;
        mounts::bind(from, target, asked.is_read_only)
    }

    /// Undoes [`NodeVolumes::publish`].
    pub(crate) fn unpublish(target: &str) -> Result<(), Status> {
        while Mounts::read()?.source(target).is_some() {
            mounts::unmount(target)?;
        }
        let removed = match std::fs::symlink_metadata(target) {
            Ok(found) if found.is_dir() => std::fs::remove_dir(target),
            Ok(_) => std::fs::remove_file(target),
            Err(_) => Ok(()),
        };
        steps::after(removed).map_err(|error| failed("remove it", target, &error))
    }

    /// The bytes and the inodes of the file system at `path`; `None` if a device is there.
    pub(crate) fn usage(path: &str) -> Result<Option<(Usage, Usage)>, Status> {
        let nothing = || Status::not_found(format!("{path}: nothing is published there"));
        let found = std::fs::metadata(path).map_err(|_| nothing())?;
        if !found.is_dir() {
            return Ok(None);
        }
        Mounts::read()?.source(path).ok_or_else(nothing)?;
        let found = rustix::fs::statvfs(path)
            .map_err(|error| failed("read its usage", path, &error.into()))?;
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let bytes = |blocks: u64| signed(blocks.saturating_mul(found.f_frsize));
        let used = found.f_blocks.saturating_sub(found.f_bfree);
        let (total, used) = (bytes(found.f_blocks), bytes(used));
        let of_bytes = Usage { total, used, available: bytes(found.f_bavail) };
        let of_inodes = Usage {
            total: signed(found.f_files),
            used: signed(found.f_files.saturating_sub(found.f_ffree)),
            available: signed(found.f_favail),
        };
        Ok(Some((of_bytes, of_inodes)))
    }

    /// Grows the device of a volume, and the file system that is mounted at `path`.
    pub(crate) fn expand(&self, volume: &str, path: &str, size: Bytes) -> Result<(), Status> {
        let nothing = || Status::not_found(format!("{path}: volume \"{volume}\" is not there"));
        let device = self.transport.find(volume)?.ok_or_else(nothing)?;
        std::fs::metadata(path).map_err(|_| nothing())?;
        self.transport.grow(volume, &device, size)?;
        match Mounts::read()?.file_system(path) {
            Some(file_system) if Path::new(path).is_dir() => {
                FileSystem::grow(&device, path, &file_system)
            }
            _ => Ok(()),
        }
    }
}
