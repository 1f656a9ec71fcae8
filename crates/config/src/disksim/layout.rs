//! `dm_layout_g1`: zones, skews, spares and slips.
//!
//! A zone there is sectors of data with spares somewhere among them, after one of eleven schemes, and slips
//! that are counted in sectors (or tracks) of the zone. Here it is physical sectors with runs that hold no
//! data: every scheme comes down to that. What a slip does to the angle of all that follows it in its zone
//! (where spares belong to a cylinder) cuts the zone in two.

use drive::{CYLINDERS_MAX, Mapping, SECTORS_PER_TRACK_MAX, SURFACES_MAX, Skip, ZONES_MAX, Zone};
use units::Angle;

use super::tree::{Block, Kind};
use crate::ConfigError;

/// Runs without data that a zone may have.
const SKIPS_MAX: usize = 1 << 20;
/// A stated capacity that is off by more belongs to another drive: those of real files are off by 1 %.
const CAPACITY_PER_CENT_MAX: u64 = 5;

/// Where a scheme keeps its spares, and what its slips count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spares {
    None,
    /// Whole tracks at the end of the zone; slips are tracks.
    Tracks,
    /// Sectors at the end of the zone, taken up by slips or beside them.
    Zone {
        beside: bool,
    },
    /// Sectors at the end of the disk: a zone loses its slips.
    Disk,
    /// Sectors at the end of each so many cylinders.
    Cylinders(u64),
    /// Sectors at the end of each track.
    Track,
}

/// A zone as it is written.
struct Written<'b> {
    block: &'b Block,
    first: u32,
    last: u32,
    per_track: u64,
    offset: u64,
    dead: u64,
    track_skew: u64,
    cylinder_skew: u64,
    spares: u64,
    slips: Vec<u64>,
}

/// The zones of the block, without gaps between them, and how surfaces follow each other.
pub(crate) fn read(model: &Block) -> Result<(u32, Mapping, Vec<Zone>), ConfigError> {
    let surfaces = model.whole("Number of data surfaces", 1, SURFACES_MAX.into())?;
    let cylinders = model.whole("Number of cylinders", 1, CYLINDERS_MAX.into())?;
    let layout = model.block("Layout Model", "a dm_layout_g1 block")?;
    if layout.kind != "dm_layout_g1" {
        let expected = "dm_layout_g1, the one layout that can be represented";
        return Err(layout.at.refuse("Layout Model", Some(&layout.kind), expected));
    }
    let mapping = match layout.whole("LBN-to-PBN mapping scheme", 0, 2)? {
        0 => Mapping::Cylinder,
        1 => Mapping::SerpentineZone,
        _ => Mapping::Serpentine,
    };
    let spares = scheme(layout)?;
    let revolutions = match layout.find("Skew units") {
        None => false,
        Some(_) => match layout.words("Skew units", "sectors or revolutions")? {
            ("sectors", _) => false,
            ("revolutions", _) => true,
            (words, at) => {
                return Err(at.refuse("Skew units", Some(words), "sectors or revolutions"));
            }
        },
    };
    let mut zones: Vec<Zone> = Vec::new();
    let all = layout.list("Zones")?;
    if all.is_empty() || all.len() > ZONES_MAX {
        let expected = format!("1 to {ZONES_MAX} zones");
        return Err(layout.at("Zones").refuse("Zones", Some(&all.len().to_string()), expected));
    }
    for value in all {
        let Kind::Block(block) = &value.kind else {
            return Err(value.at.refuse("Zones", None, "a dm_layout_g1_zone block"));
        };
        let zone = Written::read(block, cylinders, revolutions)?;
        zone.follow(&mut zones, surfaces, mapping)?;
        zone.add(&mut zones, surfaces, spares, mapping)?;
    }
    agree(model, &zones, surfaces)?;
    Ok((u32::try_from(surfaces).expect("in its range"), mapping, zones))
}

fn scheme(layout: &Block) -> Result<Spares, ConfigError> {
    let key = "Sparing scheme used";
    let number = layout.whole(key, 0, 10)?;
    let range = || layout.whole("Rangesize for sparing", 1, CYLINDERS_MAX.into());
    Ok(match number {
        0 => Spares::None,
        1 => Spares::Tracks,
        2 => Spares::Cylinders(1),
        3 => Spares::Track,
        7 => Spares::Disk,
        8 => Spares::Cylinders(range()?),
        9 => Spares::Zone { beside: false },
        10 => Spares::Zone { beside: true },
        _ => {
            let expected = "one of the sparing schemes 0, 1, 2, 3, 7, 8, 9 and 10";
            return Err(layout.at(key).refuse(key, Some(&number.to_string()), expected));
        }
    })
}

/// The capacity that the file states is not what its own reader goes by, and is off by a little in real
/// files; far off it is another drive's.
fn agree(model: &Block, zones: &[Zone], surfaces: u64) -> Result<(), ConfigError> {
    let key = "Block count";
    let Some(stated) = model.find(key) else { return Ok(()) };
    let stated = stated.whole(key, 0, u64::MAX)?;
    let sum = zones.iter().map(|zone| {
        let physical = u64::from(zone.last_cylinder - zone.first_cylinder + 1)
            * surfaces
            * u64::from(zone.sectors_per_track);
        physical - zone.skips.iter().map(|skip| skip.count).sum::<u64>()
    });
    let sum: u64 = sum.sum();
    if u128::from(stated.abs_diff(sum)) * 100 > u128::from(sum) * u128::from(CAPACITY_PER_CENT_MAX)
    {
        let expected = format!("{sum}, within {CAPACITY_PER_CENT_MAX} %: what the zones add up to");
        return Err(model.at(key).refuse(key, Some(&stated.to_string()), expected));
    }
    Ok(())
}

impl<'b> Written<'b> {
    fn read(block: &'b Block, cylinders: u64, revolutions: bool) -> Result<Self, ConfigError> {
        if block.kind != "dm_layout_g1_zone" {
            return Err(block.at.refuse("Zones", Some(&block.kind), "a dm_layout_g1_zone block"));
        }
        let (first_key, last_key) = ("First cylinder number", "Last cylinder number");
        let first = block.whole(first_key, 0, cylinders - 1)?;
        let last = block.whole(last_key, first, cylinders - 1)?;
        let per_track = block.whole("Blocks per track", 1, SECTORS_PER_TRACK_MAX.into())?;
        let angle = |key: &str| -> Result<u64, ConfigError> {
            if !revolutions {
                return Ok(block.whole_or(key, (0, u32::MAX.into()), 0)? % per_track);
            }
            let turns = block.number(key)?.unwrap_or(0.0);
            #[expect(clippy::cast_precision_loss, reason = "sectors of one track")]
            let sectors = turns.rem_euclid(1.0) * per_track as f64;
            if (sectors - sectors.round()).abs() > 1e-3 {
                let expected = format!("a whole number of sectors, 1/{per_track} of a turn each");
                return Err(block.at(key).refuse(key, Some(&turns.to_string()), expected));
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            Ok(sectors.round() as u64 % per_track)
        };
        if let Some(first) = block.list("defects")?.first() {
            let expected = "no defects: sectors that are kept elsewhere cannot be represented";
            return Err(first.at.refuse("defects", None, expected));
        }
        let most = u64::MAX >> 8;
        let slips = block.list("slips")?.iter().map(|slip| slip.whole("slips", 0, most));
        let slips: Vec<u64> = slips.collect::<Result<_, _>>()?;
        if slips.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(block.at("slips").refuse("slips", None, "slips in rising order"));
        }
        Ok(Self {
            first: u32::try_from(first).expect("in its range"),
            last: u32::try_from(last).expect("in its range"),
            per_track,
            offset: angle("Offset of first block")?,
            dead: block.whole_or("Empty space at zone front", (0, most), 0)?,
            track_skew: angle("Skew for track switch")?,
            cylinder_skew: angle("Skew for cylinder switch")?,
            spares: block.whole_or("Number of spares", (0, most), 0)?,
            slips,
            block,
        })
    }

    fn cylinders(&self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    /// Where the zones before end: cylinders between two zones are skipped at the end of the first.
    fn follow(
        &self,
        zones: &mut [Zone],
        surfaces: u64,
        mapping: Mapping,
    ) -> Result<(), ConfigError> {
        let key = "First cylinder number";
        let at = self.block.at(key);
        let Some(before) = zones.last_mut() else {
            let serpentine = mapping == Mapping::SerpentineZone && self.first % 2 == 1;
            if self.first > 0 && serpentine {
                let expected = "0: surfaces would be filled in the other order";
                return Err(at.refuse(key, Some(&self.first.to_string()), expected));
            }
            return Ok(());
        };
        if self.first <= before.last_cylinder {
            let expected = format!("at least {}: zones do not overlap", before.last_cylinder + 1);
            return Err(at.refuse(key, Some(&self.first.to_string()), expected));
        }
        let cylinder = surfaces * u64::from(before.sectors_per_track);
        let end = u64::from(before.last_cylinder + 1 - before.first_cylinder) * cylinder;
        let gap = u64::from(self.first - before.last_cylinder - 1) * cylinder;
        push(&mut before.skips, end, gap);
        before.last_cylinder = self.first - 1;
        Ok(())
    }

    /// Adds the zone, in pieces where slips turn what follows them.
    fn add(
        &self,
        zones: &mut Vec<Zone>,
        surfaces: u64,
        spares: Spares,
        mapping: Mapping,
    ) -> Result<(), ConfigError> {
        let cylinder = surfaces * self.per_track;
        let skips = self.skips(surfaces, spares)?;
        let turning =
            matches!(spares, Spares::Cylinders(1) | Spares::Track) && !self.slips.is_empty();
        if turning && spares == Spares::Track {
            let expected = "no slips where each track has spares: they turn the tracks that follow";
            return Err(self.block.at("slips").refuse("slips", None, expected));
        }
        let mut cuts: Vec<u64> = vec![0];
        if turning {
            cuts.extend(self.slips.iter().map(|slip| slip / cylinder + 1));
            cuts.dedup();
            cuts.retain(|cut| *cut < self.cylinders());
        }
        let odd = cuts.iter().any(|cut| cut % 2 == 1);
        if zones.len() + cuts.len() > ZONES_MAX || (odd && mapping == Mapping::SerpentineZone) {
            let expected =
                "fewer slips: they turn what follows them, and the zone has to be cut there";
            return Err(self.block.at("slips").refuse("slips", None, expected));
        }
        for (nth, cut) in cuts.iter().enumerate() {
            let end = cuts.get(nth + 1).copied().unwrap_or(self.cylinders());
            let turned = if turning {
                self.slips.partition_point(|slip| *slip < cut * cylinder) as u64
            } else {
                0
            };
            let first_zone = zones.is_empty();
            let mut piece = self.piece(&skips, (*cut, end), surfaces, turned);
            if first_zone && self.first > 0 {
                self.begin_at_zero(&mut piece, surfaces);
            }
            zones.push(piece);
        }
        Ok(())
    }

    /// The cylinders from one to before another, counted from the first of the zone.
    fn piece(&self, skips: &[Skip], (from, to): (u64, u64), surfaces: u64, turned: u64) -> Zone {
        let cylinder = surfaces * self.per_track;
        let (start, end) = (from * cylinder, to * cylinder);
        let inside = skips.iter().filter_map(|skip| {
            let first = skip.first.max(start);
            let behind = (skip.first + skip.count).min(end);
            (first < behind).then(|| Skip { first: first - start, count: behind - first })
        });
        let sectors =
            self.offset + from * ((surfaces - 1) * self.track_skew + self.cylinder_skew) + turned;
        Zone {
            first_cylinder: self.first + small(from),
            last_cylinder: self.first + small(to - 1),
            sectors_per_track: small(self.per_track),
            track_skew: small(self.track_skew),
            cylinder_skew: small(self.cylinder_skew),
            first_sector_angle: self.angle(sectors),
            skips: inside.collect(),
        }
    }

    /// Makes the disk's first zone begin at cylinder 0, where nothing is kept before its own first.
    fn begin_at_zero(&self, zone: &mut Zone, surfaces: u64) {
        let missing = u64::from(zone.first_cylinder);
        let sectors = missing * ((surfaces - 1) * self.track_skew + self.cylinder_skew);
        zone.first_sector_angle =
            Angle(zone.first_sector_angle.0.wrapping_sub(self.angle(sectors).0));
        let shift = missing * surfaces * self.per_track;
        let mut skips = Vec::new();
        push(&mut skips, 0, shift);
        for skip in &zone.skips {
            push(&mut skips, skip.first + shift, skip.count);
        }
        zone.skips = skips;
        zone.first_cylinder = 0;
    }

    /// The angle of so many sectors, each rounded down as the format's own reader does.
    fn angle(&self, sectors: u64) -> Angle {
        let one = (1_u64 << 32) / self.per_track;
        Angle(u32::try_from(sectors % self.per_track * one).expect("under a turn"))
    }

    /// The runs of sectors that hold no data.
    fn skips(&self, surfaces: u64, spares: Spares) -> Result<Vec<Skip>, ConfigError> {
        let track = self.per_track;
        let cylinder = surfaces * track;
        let physical = self.cylinders() * cylinder;
        let slips = self.slips.len() as u64;
        let hole = if spares == Spares::Tracks { track } else { 1 };
        let (unit, kept, lost) = match spares {
            Spares::None => (physical, 0, 0),
            Spares::Tracks => (physical, 0, self.spares.saturating_mul(track)),
            Spares::Zone { beside: false } => (physical, 0, self.spares),
            Spares::Zone { beside: true } => (physical, 0, self.spares.saturating_add(slips)),
            Spares::Disk => (physical, 0, slips),
            Spares::Cylinders(range) => {
                let unit = range * cylinder;
                (unit, self.spares, self.spares.saturating_mul(physical / unit))
            }
            Spares::Track => (track, self.spares, self.spares.saturating_mul(physical / track)),
        };
        if spares == Spares::None && slips > 0 {
            let expected = "no slips without spares (sparing scheme 0)";
            return Err(self.block.at("slips").refuse("slips", None, expected));
        }
        let data = self.dead.checked_add(lost).and_then(|lost| physical.checked_sub(lost));
        let Some(data) = data.filter(|data| *data > 0) else {
            let key = "Empty space at zone front";
            let expected = format!("less than the {physical} sectors of the zone, with its spares");
            return Err(self.block.at(key).refuse(key, Some(&self.dead.to_string()), expected));
        };
        if physical / unit > SKIPS_MAX as u64 {
            let expected = format!("at most {SKIPS_MAX} runs of spares in a zone");
            return Err(self.block.at.refuse("Number of spares", None, expected));
        }
        let mut holes = self.slips.iter().map(|slip| slip.saturating_mul(hole)).peekable();
        let mut runs = Runs { dead: self.dead, data, skips: Vec::new(), end: 0 };
        let mut start = 0;
        while start < physical {
            let end = start.saturating_add(unit).min(physical);
            // What is left over at the end of the zone has no spares.
            let mut left =
                if end - start == unit { unit.saturating_sub(kept) } else { end - start };
            let mut at = start;
            while left > 0 && at < end {
                let next = holes.peek().copied().unwrap_or(u64::MAX).min(end);
                if at >= next && at < end {
                    holes.next();
                    at = (next + hole).max(at);
                    continue;
                }
                let run = left.min(next - at);
                runs.push(at, run);
                (at, left) = (at + run, left - run);
            }
            while holes.peek().is_some_and(|hole| *hole < end) {
                holes.next();
            }
            start = end;
        }
        if runs.data > 0 {
            let expected = "no more slips than there are spares for them";
            return Err(self.block.at("slips").refuse("slips", Some(&slips.to_string()), expected));
        }
        push(&mut runs.skips, runs.end, physical - runs.end);
        Ok(runs.skips)
    }
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
fn push(skips: &mut Vec<Skip>, first: u64, count: u64) {
    match skips.last_mut() {
        _ if count == 0 => {}
        Some(last) if last.first + last.count == first => last.count += count,
        _ => skips.push(Skip { first, count }),
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).expect("in its range")
}
