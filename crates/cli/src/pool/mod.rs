//! `spindle pool`: disks whose space is shared. Made and checked while nobody serves it, changed while somebody does.

mod live;
mod offline;

use clap::{Args as ClapArgs, Subcommand};
use console::ExitStatus;

use crate::vol::Reach;
use offline::{Create, Disks, Fsck};

pub(crate) use live::{lies, wait};

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Make a pool of empty disks.
    Create(Create),
    /// Show a pool: its disks, its volumes, and how full it is. Without disks: the one that a daemon serves.
    Status(Status),
    /// Read every copy of a pool's metadata, and name what is damaged or missing.
    Fsck(Fsck),
    /// Have a disk of the daemon's config join its pool. What it holds is lost.
    Add(OneDisk),
    /// Empty a disk of the daemon's pool, which then leaves it. Its volumes are used meanwhile.
    Remove(OneDisk),
    /// Have blocks that are to lie elsewhere wait where they are.
    Pause(Reach),
    /// Have blocks that are to lie elsewhere go on.
    Resume(Reach),
    /// Have the pool raise its alarm at a level.
    Alarm(Alarm),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Status {
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    disks: Disks,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct OneDisk {
    #[command(flatten)]
    reach: Reach,
    /// The disk, by its name in the config.
    disk: String,
    /// Wait until it has left.
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Alarm {
    #[command(flatten)]
    reach: Reach,
    /// The level, such as 90%.
    level: String,
}

pub(crate) fn run(command: &PoolCommand, json: bool) -> anyhow::Result<ExitStatus> {
    match command {
        PoolCommand::Create(create) => offline::make(create, json),
        PoolCommand::Status(Status { disks, .. }) if disks.are_given() => {
            offline::status(disks, json)
        }
        PoolCommand::Status(Status { reach, .. }) => live::status(reach, json),
        PoolCommand::Fsck(fsck) => offline::examine(fsck, json),
        PoolCommand::Add(OneDisk { reach, disk, .. }) => live::add(reach, disk, json),
        PoolCommand::Remove(OneDisk { reach, disk, wait }) => {
            live::remove(reach, disk, *wait, json)
        }
        PoolCommand::Pause(reach) => live::pause(reach, true, json),
        PoolCommand::Resume(reach) => live::pause(reach, false, json),
        PoolCommand::Alarm(Alarm { reach, level }) => live::alarm(reach, level, json),
    }
}
