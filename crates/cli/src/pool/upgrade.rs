//! `spindle pool upgrade`: a pool in the newest version of its format, and with checksums.

use std::collections::BTreeMap;

use clap::Args as ClapArgs;
use console::{ExitStatus, bad_input, eprintln};
use volume::DiskId;
use volume::pool::sums::blocks_with_area;
use volume::pool::{Action, Blocks, Operation, Pool, Refusal, find};

use super::live;
use super::offline::{Device, Disks, media, open_all, perform, perform_all, refused, show};
use crate::daemon_api::ApiSocket;

/// How many blocks are moved together, to be committed together.
const MOVED_TOGETHER_MAX: usize = 64;

#[derive(Debug, ClapArgs)]
pub(crate) struct Upgrade {
    #[command(flatten)]
    api: ApiSocket,
    #[command(flatten)]
    disks: Disks,
    /// Keep a checksum of each 4 KiB from here on, in the last thousandth of each disk, whose
    /// blocks are moved first. No daemon may serve the pool meanwhile.
    #[arg(long)]
    checksums: bool,
}

pub(super) fn run(upgrade: &Upgrade, json: bool) -> anyhow::Result<ExitStatus> {
    match upgrade {
        Upgrade { disks, checksums, .. } if disks.are_given() => offline(disks, *checksums, json),
        Upgrade { checksums: true, .. } => Err(bad_input(
            "--checksums: found no disks, expected files, or --config CONFIG: the pool gets its \
             checksums while no daemon serves it",
        )),
        Upgrade { api, .. } => live::upgrade(api, json),
    }
}

/// Upgrades a pool that no daemon serves. All is tried in memory first, so that what is refused
/// changes nothing.
fn offline(disks: &Disks, checksums: bool, json: bool) -> anyhow::Result<ExitStatus> {
    let devices = open_all(disks, true)?;
    let found = find(&media(&devices)).map_err(|error| refused(&devices, &error))?;
    if !found.missing.is_empty() {
        return Err(bad_input(Refusal::ReadOnly { missing: found.missing.len() }));
    }
    let of: BTreeMap<DiskId, &Device> =
        found.devices.iter().map(|(id, device)| (*id, &devices[*device])).collect();
    let mut pool = Pool::open(found);
    let run = |pool: &mut Pool, perform: &mut dyn FnMut(&Action) -> anyhow::Result<()>| {
        perform_all(pool, perform)?;
        if checksums {
            return add_sums(pool, &of, perform);
        }
        pool.begin(&Operation::Upgrade).map_err(bad_input)?;
        perform_all(pool, perform).map(|()| 0)
    };
    run(&mut pool.clone(), &mut |_| Ok(()))?;
    let moved = run(&mut pool, &mut |action| perform(&of, action))?;
    if moved > 0 {
        eprintln!("spindle: {moved} blocks of 1MiB were moved");
    }
    if checksums {
        eprintln!("spindle: `spindle pool scrub` records the checksums of what is there");
    }
    let found = find(&media(&devices)).map_err(|error| refused(&devices, &error))?;
    show(&devices, found, Vec::new(), json)
}

/// Moves the blocks that are where checksums go, and gives each disk its area. Returns how many
/// blocks were moved.
fn add_sums(
    pool: &mut Pool,
    of: &BTreeMap<DiskId, &Device>,
    perform: &mut dyn FnMut(&Action) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let areas: BTreeMap<DiskId, Blocks> =
        of.iter().map(|(id, device)| (*id, Blocks(blocks_with_area(device.size)))).collect();
    pool.reserve_areas(&areas).map_err(bad_input)?;
    let blocks = pool.blocks_in_areas();
    for (nth, (id, block, disk)) in blocks.iter().enumerate() {
        let operation = Operation::Move { volume: *id, block: *block };
        if nth % MOVED_TOGETHER_MAX == 0 {
            perform_all(pool, perform)?;
        }
        let begun = match pool.begin(&operation) {
            Err(Refusal::Busy | Refusal::TooMany) => {
                perform_all(pool, perform)?;
                pool.begin(&operation)
            }
            begun => begun,
        };
        begun.map_err(|refusal| {
            let volume = pool.state().volume(*id).map_or("", |volume| volume.name.as_str());
            let file = of[disk].path.display();
            bad_input(format_args!(
                "volume \"{volume}\": block {} is at the end of {file}, where the checksums go, \
                 and cannot be moved: {refusal}; make the volume smaller, or remove another from \
                 the disk, or move it with `spindle vol move`",
                block.0
            ))
        })?;
    }
    perform_all(pool, perform)?;
    pool.begin(&Operation::AddSums { areas }).map_err(bad_input)?;
    perform_all(pool, perform)?;
    Ok(blocks.len())
}
