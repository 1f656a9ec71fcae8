//! Sparing: the physical sectors of a zone without data, its track slips and its remapped sectors.
//!
//! ```text
//! scheme  location of the spares        sectors that a slip consumes
//! 0       nowhere                       -
//! 1       at the end of the zone        its spares; slips and spares are whole tracks
//! 2, 4    at the end of each cylinder   2: the cylinder's spares; 4: the sectors that follow
//! 3       at the end of each track      the track's spares
//! 5, 6    at the front of each cylinder 5: the cylinder's spares; 6: the sectors that follow
//! 7       at the end of the disk        the sectors that follow in the zone
//! 8       at the end of a cylinder range their spares
//! 9, 10   at the end of the zone        9: the spares; 10: the sectors that follow
//! ```
//!
//! If a track, a cylinder or a range has fewer spares than slips, its remaining sectors move to the
//! next one; at the end of the zone, to the last free spares before it.

use std::collections::BTreeMap;

use drive::{Remap, Skip};

/// The largest number of runs without data in a zone.
const SKIPS_MAX: u64 = 1 << 20;
/// The largest number of defects in a zone.
pub(super) const DEFECTS_MAX: usize = 1 << 12;

/// One of the eleven schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scheme {
    unit: Unit,
    /// Whether the spares are at the front of the unit.
    front: bool,
    /// Whether a slip shifts all following sectors of the zone, instead of consuming a spare.
    to_end: bool,
}

/// The unit that has spares of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    None,
    /// The zone: whole tracks.
    Tracks,
    Zone,
    Disk,
    Cylinder,
    Cylinders(u64),
    Track,
}

/// The properties of a zone that sparing depends on. Slips are in order, without duplicates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zone<'a> {
    pub(super) surfaces: u64,
    pub(super) per_track: u64,
    pub(super) cylinders: u64,
    /// The number of unused sectors at the front.
    pub(super) dead: u64,
    pub(super) spares: u64,
    pub(super) slips: &'a [u64],
}

/// The reason why a zone is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// The zone has no free spare for a slip or a defect.
    NoSpares,
    /// Spares and unused sectors leave no sector for data; the number of the zone's sectors.
    NoData(u64),
    /// The zone has more runs of spares than this number.
    TooManyRuns(u64),
    /// The slips exceed the spares.
    TooManySlips,
}

impl Scheme {
    /// The scheme of a number. `range` is the number of cylinders that share spares in scheme 8.
    pub(super) fn of(number: u64, range: u64) -> Self {
        let unit = match number {
            0 => Unit::None,
            1 => Unit::Tracks,
            2 | 4..=6 => Unit::Cylinder,
            3 => Unit::Track,
            7 => Unit::Disk,
            8 => Unit::Cylinders(range),
            _ => Unit::Zone,
        };
        Self { unit, front: matches!(number, 5 | 6), to_end: matches!(number, 4 | 6 | 10) }
    }

    /// The number of sectors of one slip or defect.
    pub(super) fn hole(self, zone: &Zone<'_>) -> u64 {
        if self.unit == Unit::Tracks { zone.per_track } else { 1 }
    }

    /// The tracks from which on the layout begins one sector later. If spares belong to a cylinder
    /// or a track, a slip shifts all later cylinders or tracks of the zone. Ranges of cylinders,
    /// even of one cylinder, do not shift.
    pub(super) fn track_slips(self, zone: &Zone<'_>) -> Vec<u64> {
        let (unit, tracks) = match self.unit {
            Unit::Cylinder => (zone.cylinder(), zone.surfaces),
            Unit::Track => (zone.per_track, 1),
            _ => return Vec::new(),
        };
        let all = zone.slips.iter().map(|slip| (slip / unit + 1).saturating_mul(tracks));
        all.filter(|track| *track < zone.cylinders * zone.surfaces).collect()
    }

    /// The runs of sectors that hold no data.
    pub(super) fn skips(self, zone: &Zone<'_>) -> Result<Vec<Skip>, Misfit> {
        let physical = zone.physical();
        let (unit, kept) = match self.unit {
            Unit::Cylinder => (zone.cylinder(), zone.spares),
            Unit::Cylinders(range) => (range.saturating_mul(zone.cylinder()), zone.spares),
            Unit::Track => (zone.per_track, zone.spares),
            Unit::None | Unit::Tracks | Unit::Zone | Unit::Disk => (physical, 0),
        };
        if self.unit == Unit::None && !zone.slips.is_empty() {
            return Err(Misfit::NoSpares);
        }
        let lost = zone.dead.checked_add(self.lost(zone, unit));
        let data = lost.and_then(|lost| physical.checked_sub(lost)).filter(|data| *data > 0);
        let data = data.ok_or(Misfit::NoData(physical))?;
        if physical / unit > SKIPS_MAX {
            return Err(Misfit::TooManyRuns(SKIPS_MAX));
        }
        let hole = self.hole(zone);
        let holes = holes_of(zone, hole);
        let mut holes = holes.as_slice();
        let mut runs = Runs { dead: zone.dead, data, skips: Vec::new(), end: 0 };
        let (mut start, mut carried) = (0_u64, 0);
        while start < physical {
            let end = start.saturating_add(unit).min(physical);
            let (inside, rest) = holes.split_at(holes.partition_point(|hole| *hole < end));
            // The remainder at the end of the zone has no spares.
            let kept = if end - start == unit { kept.min(unit) } else { 0 };
            let capacity = end - start - kept + carried;
            let window = match (self.front, self.to_end) {
                (false, false) => (start, end),
                (false, true) => (start, end - kept),
                (true, false) => (window_start(inside, (start, end), capacity), end),
                (true, true) => (start + kept, end),
            };
            let unplaced = runs.fill(window, inside, hole, capacity);
            carried = if self.to_end { 0 } else { unplaced };
            (start, holes) = (end, rest);
        }
        push(&mut runs.skips, runs.end, physical - runs.end);
        match place_on_last_spares(&mut runs.skips, runs.data, zone.dead, &holes_of(zone, hole)) {
            0 => Ok(runs.skips),
            _ => Err(Misfit::TooManySlips),
        }
    }

    /// The remapped sectors. A defect is a pair: its location, and the spare that holds its data.
    /// Defects without data are omitted. If the spare is in use (it holds data, is a slip or
    /// belongs to another defect), the next free one takes its place.
    pub(super) fn remaps(
        self,
        zone: &Zone<'_>,
        defects: &[(u64, u64)],
        skips: &[Skip],
    ) -> Result<Vec<Remap>, Misfit> {
        let hole = self.hole(zone);
        let slips = zone.slips.iter().map(|slip| slip.saturating_mul(hole));
        let mut used: BTreeMap<u64, u64> = slips.map(|at| (at, at.saturating_add(hole))).collect();
        let mut all: Vec<Remap> = Vec::new();
        for &(from, to) in defects.iter().filter(|(from, to)| from != to) {
            let (from, to) = (from.saturating_mul(hole), to.saturating_mul(hole));
            let end = from.saturating_add(hole).min(zone.physical());
            let pieces = with_data((from, end), skips);
            if pieces.is_empty() {
                continue;
            }
            let spare = free_spare(to, hole, skips, &used).ok_or(Misfit::NoSpares)?;
            used.insert(spare, spare + hole);
            let kept =
                |(first, end)| Remap { from: first, to: spare + first - from, count: end - first };
            all.extend(pieces.into_iter().map(kept));
        }
        Ok(all)
    }

    /// The number of sectors by which spares and slips reduce the zone's capacity.
    fn lost(self, zone: &Zone<'_>, unit: u64) -> u64 {
        let slips = zone.slips.len() as u64;
        let spares = match self.unit {
            Unit::None | Unit::Disk => 0,
            Unit::Tracks => zone.spares.saturating_mul(zone.per_track),
            Unit::Zone => zone.spares,
            Unit::Cylinder | Unit::Cylinders(_) | Unit::Track => {
                zone.spares.saturating_mul(zone.physical() / unit)
            }
        };
        spares.saturating_add(if self.to_end || self.unit == Unit::Disk { slips } else { 0 })
    }
}

impl Zone<'_> {
    fn cylinder(&self) -> u64 {
        self.surfaces * self.per_track
    }

    pub(super) fn physical(&self) -> u64 {
        self.cylinders * self.cylinder()
    }
}

fn holes_of(zone: &Zone<'_>, hole: u64) -> Vec<u64> {
    zone.slips.iter().map(|slip| slip.saturating_mul(hole)).collect()
}

/// Places `data` sectors, for which slips behind the last unit with spares have left no space, on
/// the last spares of the zone. Returns the number of sectors without a spare.
fn place_on_last_spares(skips: &mut Vec<Skip>, mut data: u64, dead: u64, slips: &[u64]) -> u64 {
    for skip in skips.iter_mut().rev() {
        while data > 0
            && skip.count > 0
            && skip.first >= dead
            && slips.binary_search(&skip.first).is_err()
        {
            (skip.first, skip.count, data) = (skip.first + 1, skip.count - 1, data - 1);
        }
    }
    skips.retain(|skip| skip.count > 0);
    data
}

/// The start of a window that ends at `end` and has `capacity` sectors besides its holes.
fn window_start(holes: &[u64], (start, end): (u64, u64), capacity: u64) -> u64 {
    let (mut need, mut at) = (capacity, end);
    for hole in holes.iter().rev() {
        let run = at - (hole + 1);
        if run >= need {
            break;
        }
        (need, at) = (need - run, *hole);
    }
    at.saturating_sub(need).max(start)
}

/// Collects the gaps between runs of data that are added in order.
struct Runs {
    /// The number of sectors at the front that remain unused.
    dead: u64,
    /// The number of sectors of data that are not placed yet.
    data: u64,
    skips: Vec<Skip>,
    /// The sector behind the last one with data.
    end: u64,
}

impl Runs {
    /// Fills the window, except for its holes of `hole` sectors, with `capacity` sectors. Returns
    /// the number of sectors that do not fit.
    fn fill(&mut self, (start, end): (u64, u64), holes: &[u64], hole: u64, capacity: u64) -> u64 {
        let (mut at, mut remaining) = (start, capacity);
        for next in holes.iter().copied().chain([end]) {
            let run = remaining.min(next.min(end).saturating_sub(at));
            self.push(at, run);
            remaining -= run;
            at = at.max(next.saturating_add(hole));
        }
        remaining
    }

    fn push(&mut self, start: u64, len: u64) {
        let unused = self.dead.min(len);
        self.dead -= unused;
        let (start, len) = (start + unused, (len - unused).min(self.data));
        if len > 0 {
            push(&mut self.skips, self.end, start - self.end);
            (self.end, self.data) = (start + len, self.data - len);
        }
    }
}

/// Adds a run, which extends the last one if it touches it.
pub(super) fn push(skips: &mut Vec<Skip>, first: u64, count: u64) {
    match skips.last_mut() {
        _ if count == 0 => {}
        Some(last) if last.first + last.count == first => last.count += count,
        _ => skips.push(Skip { first, count }),
    }
}

/// The parts of a run that hold data.
fn with_data((mut at, end): (u64, u64), skips: &[Skip]) -> Vec<(u64, u64)> {
    let mut pieces = Vec::new();
    for skip in &skips[skips.partition_point(|skip| skip.first + skip.count <= at)..] {
        if skip.first >= end {
            break;
        }
        if at < skip.first {
            pieces.push((at, skip.first));
        }
        at = skip.first + skip.count;
    }
    if at < end {
        pieces.push((at, end));
    }
    pieces
}

/// The first of `count` consecutive unused sectors without data, from `to` on; if there are none,
/// from the front of the zone.
fn free_spare(to: u64, count: u64, skips: &[Skip], used: &BTreeMap<u64, u64>) -> Option<u64> {
    let behind = skips.partition_point(|skip| skip.first + skip.count <= to);
    let from = |skip: &Skip, least: u64| {
        let mut at = skip.first.max(least);
        while at + count <= skip.first + skip.count {
            match used.range(..at + count).next_back() {
                Some((_, end)) if *end > at => at = *end,
                _ => return Some(at),
            }
        }
        None
    };
    let onwards = skips[behind..].iter().find_map(|skip| from(skip, to));
    onwards.or_else(|| skips.iter().find_map(|skip| from(skip, 0)))
}
