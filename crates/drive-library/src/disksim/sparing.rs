//! Sparing: which physical sectors of a zone hold data, which shift the layout, and which are
//! kept elsewhere.
//!
//! ```text
//! scheme  spares lie                    a slip is taken up by
//! 0       nowhere                       -
//! 1       at the end of the zone        its spares; slips and spares are whole tracks
//! 2, 4    at the end of each cylinder   2: the cylinder's spares; 4: what follows in the zone
//! 3       at the end of each track      the track's spares
//! 5, 6    at the front of each cylinder 5: the cylinder's spares; 6: what follows in the zone
//! 7       at the end of the disk        what follows in the zone
//! 8       at the end of a cylinder range their spares
//! 9, 10   at the end of the zone        9: the spares; 10: what follows in the zone
//! ```
//!
//! Where a track, a cylinder or a range has fewer spares than slips, the next one's spares take up
//! the rest; at the end of the zone, those before it.

use std::collections::BTreeMap;

use drive::{Remap, Skip};

/// Runs without data that a zone may have.
const SKIPS_MAX: u64 = 1 << 20;
/// Defects that a zone may have.
pub(super) const DEFECTS_MAX: usize = 1 << 12;

/// One of the eleven schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scheme {
    unit: Unit,
    /// Whether spares lie at the front of the unit.
    front: bool,
    /// Whether a slip moves all that follows it in the zone, and leaves the spares alone.
    to_end: bool,
}

/// What has spares of its own.
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

/// A zone, as far as sparing goes. Slips are in order, and each stands once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zone<'a> {
    pub(super) surfaces: u64,
    pub(super) per_track: u64,
    pub(super) cylinders: u64,
    /// Sectors at the front that are not used.
    pub(super) dead: u64,
    pub(super) spares: u64,
    pub(super) slips: &'a [u64],
}

/// Why a zone cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// There are no spares that could take up a slip or a defect.
    NoSpares,
    /// Spares and dead space leave no sector with data; the zone's sectors.
    NoData(u64),
    /// There would be more runs of spares than this.
    TooManyRuns(u64),
    /// Slips do not fit in.
    TooManySlips,
}

impl Scheme {
    /// By its number; scheme 8 has its spares in ranges of this number of cylinders.
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

    /// Sectors that a slip or a defect of this scheme stands for.
    pub(super) fn hole(self, zone: &Zone<'_>) -> u64 {
        if self.unit == Unit::Tracks { zone.per_track } else { 1 }
    }

    /// The tracks from which on the layout begins a sector later: where spares belong to a cylinder
    /// or a track, what follows a slip's is turned on (but not where they belong to a range, even
    /// of one cylinder).
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
                (true, false) => (late(inside, (start, end), capacity), end),
                (true, true) => (start + kept, end),
            };
            let unplaced = runs.fill(window, inside, hole, capacity);
            carried = if self.to_end { 0 } else { unplaced };
            (start, holes) = (end, rest);
        }
        push(&mut runs.skips, runs.end, physical - runs.end);
        match give_back(&mut runs.skips, runs.data, zone.dead, &holes_of(zone, hole)) {
            0 => Ok(runs.skips),
            _ => Err(Misfit::TooManySlips),
        }
    }

    /// Defects, as pairs of where they are and where their data is kept, as runs of sectors. One
    /// without data is left out. One whose place holds data, or is a slip or another's place, goes
    /// to the next behind it that is free: no sector holds two.
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
            let spare = free(to, hole, skips, &used).ok_or(Misfit::NoSpares)?;
            used.insert(spare, spare + hole);
            let kept =
                |(first, end)| Remap { from: first, to: spare + first - from, count: end - first };
            all.extend(pieces.into_iter().map(kept));
        }
        Ok(all)
    }

    /// Sectors that spares and slips take from the zone's capacity.
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

/// Makes data of the last spares of the zone, where slips at its end (behind the last unit that has
/// spares) have pushed `count` sectors out of it; returns the number that does not fit.
fn give_back(skips: &mut Vec<Skip>, mut data: u64, dead: u64, slips: &[u64]) -> u64 {
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

/// The first sector such that `count` sectors of data, without holes, end at the end.
fn late(holes: &[u64], (start, end): (u64, u64), capacity: u64) -> u64 {
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

/// Runs of data as they come, turned into the gaps between them.
struct Runs {
    /// Sectors at the front that are not used.
    dead: u64,
    /// Sectors of data that are still to come.
    data: u64,
    skips: Vec<Skip>,
    /// Behind the last sector of data.
    end: u64,
}

impl Runs {
    /// Fills the window, holes aside, with at most `count` sectors, and returns how many did not
    /// fit in.
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

/// Adds a run; one that touches the last is part of it.
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

/// The first of `count` sectors in a row without data that is unused, from `to` on; failing that,
/// from the front.
fn free(to: u64, count: u64, skips: &[Skip], used: &BTreeMap<u64, u64>) -> Option<u64> {
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
