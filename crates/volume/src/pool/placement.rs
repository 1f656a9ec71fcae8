//! Where blocks are laid: by a volume's layout, on the part of the disks that it asks for.

use std::collections::BTreeMap;
use std::ops::Range;

use super::dice::Dice;
use super::error::Refusal;
use super::machine::Pool;
use super::names::{Layout, Place, VolumeBlock, VolumeId, Zone};
use super::runs::Run;
use super::space::Space;
use super::state::Volume;
use crate::DiskId;

impl Pool {
    /// The first block of a volume, from `from` on, that does not lie where it is to lie.
    pub fn misplaced(&self, id: VolumeId, from: VolumeBlock) -> Option<VolumeBlock> {
        let volume = self.state.volume(id)?;
        let astray = |column: usize, run: Run| {
            let on = match volume.layout {
                Layout::Stripe => volume.disks[column] == run.disk(),
                Layout::Single | Layout::Random => volume.disks.contains(&run.disk()),
            };
            let fast_end = self.state.disks[&run.disk()].fast_end;
            let Place { block, .. } = run.place;
            match volume.zone {
                _ if !on => Some(run.row),
                Zone::Any => None,
                Zone::Fast if run.place.end() <= fast_end => None,
                Zone::Fast => Some(run.row + fast_end.saturating_sub(block)),
                Zone::Slow => (block < fast_end).then_some(run.row),
            }
        };
        let first = |column: usize| {
            let rows = volume.rows(column, from.0, volume.size.0.saturating_sub(from.0));
            let mut runs =
                volume.columns[column].within(rows.start, rows.end.saturating_sub(rows.start));
            let row = runs.find_map(|run| astray(column, run))?;
            Some(volume.block(column, row))
        };
        (0..volume.columns.len()).filter_map(first).min()
    }

    /// Places for rows of a column, held from here on. Where there are too few, none is held.
    pub(super) fn place(
        &mut self,
        volume: &Volume,
        column: usize,
        rows: Range<u32>,
    ) -> Result<Vec<Run>, Refusal> {
        let mut runs: Vec<Run> = Vec::new();
        let placed = match volume.layout {
            Layout::Stripe => {
                let disks = &volume.disks[column..=column];
                place_in_turn(&mut self.spaces, volume, disks, column, rows, &mut runs)
            }
            Layout::Single => {
                let disks = &volume.disks;
                place_in_turn(&mut self.spaces, volume, disks, column, rows, &mut runs)
            }
            Layout::Random => place_at_random(&mut self.spaces, volume, rows, &mut runs),
        };
        if let Err(refusal) = placed {
            self.give_back(&runs.iter().map(|run| run.place).collect::<Vec<_>>());
            return Err(refusal);
        }
        Ok(runs)
    }
}

/// Rows on these disks, one after the other, behind the row before them where that is free.
fn place_in_turn(
    spaces: &mut BTreeMap<DiskId, Space>,
    volume: &Volume,
    disks: &[DiskId],
    column: usize,
    rows: Range<u32>,
    runs: &mut Vec<Run>,
) -> Result<(), Refusal> {
    let before = rows.start.checked_sub(1).and_then(|row| volume.columns[column].get(row));
    let mut row = rows.start;
    let mut last = DiskId(0);
    for disk in disks {
        last = *disk;
        let space = spaces.get_mut(disk).ok_or(Refusal::NoSuchDisk(*disk))?;
        let count = (rows.end - row).min(space.left(volume.zone));
        if count == 0 {
            continue;
        }
        let near = before.filter(|run| run.disk() == *disk && row == rows.start);
        let near = near.map(|run| run.place.block + (rows.start - run.row));
        for place in space.find(volume.zone, count, near).expect("so many are left") {
            space.hold(place);
            runs.push(Run { row, place });
            row += place.len;
        }
    }
    if row == rows.end {
        return Ok(());
    }
    Err(Refusal::NoSpace { disk: last, zone: volume.zone, missing: rows.end - row })
}

/// Each row on a disk and at a place that the seed says, or at the next that is free.
fn place_at_random(
    spaces: &mut BTreeMap<DiskId, Space>,
    volume: &Volume,
    rows: Range<u32>,
    runs: &mut Vec<Run>,
) -> Result<(), Refusal> {
    let width = u32::try_from(volume.disks.len()).expect("few disks");
    for row in rows.clone() {
        let mut dice = Dice::new(volume.seed ^ (u64::from(row) << 32));
        let (first, target) = (dice.below(width), dice.below(u32::MAX));
        let order = (0..width).map(|n| volume.disks[((first + n) % width) as usize]);
        let found = order.map(|disk| spaces[&disk].find_at(volume.zone, target));
        let Some(place) = found.flatten().next() else {
            let (disk, missing) = (volume.disks[0], rows.end - row);
            return Err(Refusal::NoSpace { disk, zone: volume.zone, missing });
        };
        spaces.get_mut(&place.disk).expect("it was found there").hold(place);
        runs.push(Run { row, place });
    }
    Ok(())
}

/// The rows of the blocks from `first` on that lie nowhere.
pub(super) fn holes(volume: &Volume, first: u32, count: u32) -> Vec<(usize, Range<u32>)> {
    let mut holes = Vec::new();
    for (column, map) in volume.columns.iter().enumerate() {
        let rows = volume.rows(column, first, count);
        let mut at = rows.start;
        for run in map.within(rows.start, rows.end - rows.start) {
            if at < run.row {
                holes.push((column, at..run.row));
            }
            at = run.end();
        }
        if at < rows.end {
            holes.push((column, at..rows.end));
        }
    }
    holes
}
