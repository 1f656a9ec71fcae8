//! `spindle pool`: disks whose space is shared. A pool is created and checked while no daemon
//! serves it, and changed while one does.

mod health;
mod live;
mod offline;
mod upgrade;

use clap::{Args as ClapArgs, Subcommand};
use console::ExitStatus;

use crate::daemon_api::ApiSocket;
use offline::{Create, Disks, Fsck};
use upgrade::Upgrade;

pub(crate) use live::{placement, wait};

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Create a pool of empty disks.
    Create(Create),
    /// Show a pool: its disks, its volumes and its free space. Without disks: the pool that a
    /// daemon serves.
    Status(Status),
    /// Read every copy of a pool's metadata, and report what is damaged or missing.
    Fsck(Fsck),
    /// Add a disk of the daemon's config to its pool. The data on it is lost.
    Add(PoolDiskArgs),
    /// Remove a disk from the daemon's pool, after its blocks have been relocated. Volumes stay in
    /// use.
    Remove(PoolDiskArgs),
    /// Give the place of a disk that failed to another disk of the daemon's config. The data on
    /// that disk is lost; it gets its blocks from the other copies.
    Replace(ReplaceArgs),
    /// Write a pool in the newest version of its format from here on. Older versions of Spindle
    /// refuse it then. Without disks: the pool that a daemon serves.
    Upgrade(Upgrade),
    /// Pause the relocation of blocks.
    Pause(ApiSocket),
    /// Resume the relocation of blocks.
    Resume(ApiSocket),
    /// Read every copy of every block: what cannot be read is written again from another copy,
    /// blocks that no copy has and copies that differ are told. Goes on after a restart.
    Scrub(ScrubArgs),
    /// Set the level at which the pool raises its alarm.
    Alarm(Alarm),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Status {
    #[command(flatten)]
    api: ApiSocket,
    #[command(flatten)]
    disks: Disks,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct PoolDiskArgs {
    #[command(flatten)]
    api: ApiSocket,
    /// The disk, by its name in the config.
    disk: String,
    /// Wait until it is removed.
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReplaceArgs {
    #[command(flatten)]
    api: ApiSocket,
    /// The disk that is out, by its name in the config.
    old: String,
    /// The disk that takes its place, by its name in the config.
    new: String,
    /// Wait until it has its blocks.
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ScrubArgs {
    #[command(flatten)]
    api: ApiSocket,
    /// Stop it. The next `scrub` goes on from there.
    #[arg(long)]
    stop: bool,
    /// Wait until all was read.
    #[arg(long, conflicts_with = "stop")]
    wait: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Alarm {
    #[command(flatten)]
    api: ApiSocket,
    /// The part of the pool in use, such as 90%.
    level: String,
}

pub(crate) fn run(command: &PoolCommand, json: bool) -> anyhow::Result<ExitStatus> {
    match command {
        PoolCommand::Create(create) => offline::create(create, json),
        PoolCommand::Status(Status { disks, .. }) if disks.are_given() => {
            offline::status(disks, json)
        }
        PoolCommand::Status(Status { api, .. }) => live::status(api, json),
        PoolCommand::Fsck(fsck) => offline::fsck(fsck, json),
        PoolCommand::Add(PoolDiskArgs { api, disk, .. }) => live::add(api, disk, json),
        PoolCommand::Remove(PoolDiskArgs { api, disk, wait }) => {
            live::remove(api, disk, *wait, json)
        }
        PoolCommand::Replace(ReplaceArgs { api, old, new, wait }) => {
            live::replace(api, (old, new), *wait, json)
        }
        PoolCommand::Upgrade(upgrade) => upgrade::run(upgrade, json),
        PoolCommand::Pause(api) => live::pause(api, true, json),
        PoolCommand::Resume(api) => live::pause(api, false, json),
        PoolCommand::Scrub(ScrubArgs { api, stop: true, .. }) => live::stop_scrub(api, json),
        PoolCommand::Scrub(ScrubArgs { api, wait, .. }) => live::scrub(api, *wait, json),
        PoolCommand::Alarm(Alarm { api, level }) => live::alarm(api, level, json),
    }
}
