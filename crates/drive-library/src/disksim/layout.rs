//! `dm_layout_g1`: zones, skews, spares, slips and defects.
//!
//! A zone of DiskSim has sectors of data, spares whose location depends on one of eleven schemes,
//! and slips that are counted in sectors (or tracks) of the zone. [`Zone`] has physical sectors,
//! runs without data, track slips and remapped sectors, which express all schemes.

use drive::{CYLINDERS_MAX, Mapping, SECTORS_PER_TRACK_MAX, SURFACES_MAX, ZONES_MAX, Zone};
use units::Angle;

use super::sparing::{self, DEFECTS_MAX, Misfit, Scheme, push};
use super::tree::{Block, Kind, Value};
use super::warning::{Warning, Warnings};
use input::InputError;

/// The largest accepted error of a stated capacity, in per cent; published files have up to 1 %.
const CAPACITY_PER_CENT_MAX: u64 = 5;
/// The largest index of a sector or a track, so that products do not overflow.
const NUMBER_MAX: u64 = u64::MAX >> 24;

const FIRST: &str = "First cylinder number";
const LAST: &str = "Last cylinder number";

/// A skew: whole sectors, each of the angle that DiskSim gives it, and the remainder.
#[derive(Clone, Copy, Debug, Default)]
struct Skew {
    sectors: u64,
    rest: Angle,
}

/// A zone with the parameters of its block.
struct Written<'b> {
    block: &'b Block,
    first: u32,
    last: u32,
    per_track: u64,
    offset: Skew,
    dead: u64,
    track_skew: Skew,
    cylinder_skew: Skew,
    spares: u64,
    slips: Vec<u64>,
    defects: Vec<(u64, u64)>,
}

/// The zones of the block, without gaps between them, and the order of surfaces.
pub(crate) fn read(
    model: &Block,
    warnings: &mut Warnings,
) -> Result<(u32, Mapping, Vec<Zone>), InputError> {
    let surfaces = model.whole("Number of data surfaces", 1, SURFACES_MAX.into())?;
    let cylinders = model.whole("Number of cylinders", 1, CYLINDERS_MAX.into())?;
    let layout = model.block("Layout Model", "a dm_layout_g1 block")?;
    if layout.kind != "dm_layout_g1" {
        let lacks = match layout.kind.as_str() {
            "dm_layout_g2" => {
                ": the extents of a map file have no zones with one order of surfaces"
            }
            "dm_layout_g4" => {
                ": its tracks may follow one another on one surface over many cylinders, and the \
                 drive model fills all surfaces of a cylinder before the next"
            }
            _ => "",
        };
        let expected = format!("dm_layout_g1{lacks}");
        return Err(layout.at.refuse("Layout Model", Some(&layout.kind), expected));
    }
    let mapping = match layout.whole("LBN-to-PBN mapping scheme", 0, 2)? {
        0 => Mapping::Cylinder,
        1 => Mapping::SerpentineZone,
        _ => Mapping::Serpentine,
    };
    let scheme = Scheme::of(
        layout.whole("Sparing scheme used", 0, 10)?,
        layout.whole_or("Rangesize for sparing", (0, CYLINDERS_MAX.into()), 1)?.max(1),
    );
    let revolutions = revolutions(layout)?.unwrap_or(false);
    let mut zones: Vec<Zone> = Vec::new();
    let mut renumbered = 0;
    let all = layout.list("Zones")?;
    if all.is_empty() || all.len() > ZONES_MAX {
        let expected = format!("1 to {ZONES_MAX} zones");
        return Err(layout.at("Zones").refuse("Zones", Some(&all.len().to_string()), expected));
    }
    for value in all {
        let Kind::Block(block) = &value.kind else {
            return Err(value.at.refuse("Zones", None, "a dm_layout_g1_zone block"));
        };
        let mut zone = Written::read(block, cylinders, revolutions)?;
        if u64::from(zone.last) == cylinders {
            let made = format!(
                "the cylinder after the {cylinders} of `Number of cylinders` is taken as one of \
                 the disk: its cylinders are those of its zones"
            );
            warnings.push(Warning::new(block.at(LAST), LAST, made));
        }
        if zones.is_empty() && mapping == Mapping::SerpentineZone && zone.first % 2 == 1 {
            // The surfaces of a zone are filled in an order that begins with its first cylinder.
            renumbered = zone.first;
            let made = format!("cylinder {renumbered} is taken as the first of the disk");
            warnings.push(Warning::new(block.at(FIRST), FIRST, made));
        }
        zone.renumber(renumbered);
        zone.follow(&mut zones, surfaces)?;
        zones.push(zone.zone(zones.is_empty(), surfaces, scheme)?);
    }
    check_capacity(model, &zones, surfaces)?;
    Ok((u32::try_from(surfaces).expect("in its range"), mapping, zones))
}

/// Whether skews are in revolutions, if the block names their unit.
fn revolutions(block: &Block) -> Result<Option<bool>, InputError> {
    let (key, expected) = ("Skew units", "sectors or revolutions");
    if block.find(key).is_none() {
        return Ok(None);
    }
    match block.words(key, expected)? {
        ("sectors", _) => Ok(Some(false)),
        ("revolutions", _) => Ok(Some(true)),
        (words, at) => Err(at.refuse(key, Some(words), expected)),
    }
}

/// Checks the stated capacity. DiskSim ignores it and published files state it with small errors; a
/// large error means that the zones belong to another drive.
fn check_capacity(model: &Block, zones: &[Zone], surfaces: u64) -> Result<(), InputError> {
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
    fn read(block: &'b Block, cylinders: u64, revolutions: bool) -> Result<Self, InputError> {
        if block.kind != "dm_layout_g1_zone" {
            return Err(block.at.refuse("Zones", Some(&block.kind), "a dm_layout_g1_zone block"));
        }
        // Cylinders may be counted from one: `cylinders` is then the last.
        let most = cylinders.min(u64::from(CYLINDERS_MAX) - 1);
        let first = block.whole(FIRST, 0, most)?;
        let last = block.whole(LAST, first, most)?;
        let per_track = block.whole("Blocks per track", 1, SECTORS_PER_TRACK_MAX.into())?;
        let revolutions = self::revolutions(block)?.unwrap_or(revolutions);
        let skew = |key| Skew::read(block, key, per_track, revolutions);
        let number = |value: &Value| value.whole("slips", 0, NUMBER_MAX);
        let mut slips = block.list("slips")?.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        slips.sort_unstable();
        slips.dedup();
        Ok(Self {
            first: small(first),
            last: small(last),
            per_track,
            offset: skew("Offset of first block")?,
            dead: block.whole_or("Empty space at zone front", (0, NUMBER_MAX), 0)?,
            track_skew: skew("Skew for track switch")?,
            cylinder_skew: skew("Skew for cylinder switch")?,
            spares: block.whole_or("Number of spares", (0, NUMBER_MAX), 0)?,
            slips,
            defects: defects(block)?,
            block,
        })
    }

    fn cylinders(&self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    /// Counts cylinders from the disk's cylinder number `first` on.
    fn renumber(&mut self, first: u32) {
        self.first = self.first.saturating_sub(first);
        self.last = self.last.saturating_sub(first);
    }

    /// Extends the last of the previous zones to this one: the cylinders between the two hold no
    /// data.
    fn follow(&self, zones: &mut [Zone], surfaces: u64) -> Result<(), InputError> {
        let at = self.block.at(FIRST);
        let Some(before) = zones.last_mut() else { return Ok(()) };
        if self.first <= before.last_cylinder {
            let expected = format!("at least {}: zones do not overlap", before.last_cylinder + 1);
            return Err(at.refuse(FIRST, Some(&self.first.to_string()), expected));
        }
        let cylinder = surfaces * u64::from(before.sectors_per_track);
        let end = u64::from(before.last_cylinder + 1 - before.first_cylinder) * cylinder;
        let gap = u64::from(self.first - before.last_cylinder - 1) * cylinder;
        push(&mut before.skips, end, gap);
        before.last_cylinder = self.first - 1;
        Ok(())
    }

    /// The zone; the disk's first begins at cylinder 0.
    fn zone(&self, is_first: bool, surfaces: u64, scheme: Scheme) -> Result<Zone, InputError> {
        let sparing = sparing::Zone {
            surfaces,
            per_track: self.per_track,
            cylinders: self.cylinders(),
            dead: self.dead,
            spares: self.spares,
            slips: &self.slips,
        };
        let skips = scheme.skips(&sparing).map_err(|misfit| self.refuse("slips", misfit))?;
        let remaps = scheme
            .remaps(&sparing, &self.defects, &skips)
            .map_err(|misfit| self.refuse("defects", misfit))?;
        let mut zone = Zone {
            first_cylinder: self.first,
            last_cylinder: self.last,
            sectors_per_track: small(self.per_track),
            track_skew: small(self.track_skew.sectors),
            cylinder_skew: small(self.cylinder_skew.sectors),
            first_sector_angle: self.angle(self.offset),
            track_skew_remainder: self.track_skew.rest,
            cylinder_skew_remainder: self.cylinder_skew.rest,
            skips,
            track_slips: scheme.track_slips(&sparing),
            remaps,
        };
        if is_first && self.first > 0 {
            self.begin_at_zero(&mut zone, surfaces);
        }
        Ok(zone)
    }

    fn refuse(&self, key: &str, misfit: Misfit) -> InputError {
        let count = self.block.find(key).map(|_| match key {
            "slips" => self.slips.len().to_string(),
            _ => self.defects.len().to_string(),
        });
        match misfit {
            Misfit::NoSpares => {
                let expected = format!("no {key} without spares that could take them up");
                self.block.at(key).refuse(key, count.as_deref(), expected)
            }
            Misfit::TooManySlips => {
                let expected = "no more slips than there are spares for them";
                self.block.at(key).refuse(key, count.as_deref(), expected)
            }
            Misfit::NoData(physical) => {
                let key = "Empty space at zone front";
                let expected =
                    format!("less than the {physical} sectors of the zone, with its spares");
                self.block.at(key).refuse(key, Some(&self.dead.to_string()), expected)
            }
            Misfit::TooManyRuns(most) => {
                let expected = format!("at most {most} runs of spares in a zone");
                self.block.at.refuse("Number of spares", None, expected)
            }
        }
    }

    /// Makes the disk's first zone begin at cylinder 0, with unused cylinders before its own first.
    fn begin_at_zero(&self, zone: &mut Zone, surfaces: u64) {
        let missing = u64::from(zone.first_cylinder);
        let switches = missing * (surfaces - 1);
        let rest = u64::from(self.track_skew.rest.0) * switches
            + u64::from(self.cylinder_skew.rest.0) * missing;
        let before = Skew {
            sectors: switches * self.track_skew.sectors + missing * self.cylinder_skew.sectors,
            rest: Angle(small(rest & u64::from(u32::MAX))),
        };
        zone.first_sector_angle = zone.first_sector_angle - self.angle(before);
        let shift = missing * surfaces * self.per_track;
        let mut skips = Vec::new();
        push(&mut skips, 0, shift);
        for skip in &zone.skips {
            push(&mut skips, skip.first + shift, skip.count);
        }
        zone.skips = skips;
        zone.track_slips.iter_mut().for_each(|shifted| *shifted += missing * surfaces);
        for remap in &mut zone.remaps {
            (remap.from, remap.to) = (remap.from + shift, remap.to + shift);
        }
        zone.first_cylinder = 0;
    }

    /// The angle of a skew. The angle of one sector is rounded down, as in DiskSim.
    fn angle(&self, skew: Skew) -> Angle {
        let whole = skew.sectors % self.per_track * ((1_u64 << 32) / self.per_track);
        Angle(small(whole)) + skew.rest
    }
}

impl Skew {
    /// The skew under a key. A number of sectors is truncated, as in DiskSim; revolutions are
    /// exact.
    fn read(
        block: &Block,
        key: &str,
        per_track: u64,
        revolutions: bool,
    ) -> Result<Self, InputError> {
        let number = block.number(key)?.unwrap_or(0.0);
        if number.abs() > f64::from(u32::MAX) {
            let expected = format!("a skew of at most {} sectors", u32::MAX);
            return Err(block.at(key).refuse(key, Some(&number.to_string()), expected));
        }
        if !revolutions {
            #[expect(clippy::cast_precision_loss, reason = "sectors of one track")]
            let sectors = number.trunc().rem_euclid(per_track as f64);
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
            return Ok(Self { sectors: (sectors as u64).min(per_track - 1), rest: Angle::ZERO });
        }
        let angle = (number.rem_euclid(1.0) * 4_294_967_296.0).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "under a revolution"
        )]
        let angle = (angle as u64) & u64::from(u32::MAX);
        let width = (1_u64 << 32) / per_track;
        let sectors = (angle / width).min(per_track - 1);
        Ok(Self { sectors, rest: Angle(small(angle - sectors * width)) })
    }
}

/// Pairs of a defect and the location of its data, in the order of the disk; the first pair of a
/// defect counts.
fn defects(block: &Block) -> Result<Vec<(u64, u64)>, InputError> {
    let key = "defects";
    let all = block.list(key)?;
    let refuse = |found: usize, expected: String| {
        Err(block.at(key).refuse(key, Some(&found.to_string()), expected))
    };
    if !all.len().is_multiple_of(2) {
        return refuse(all.len(), "pairs: a defect, and where its data is kept".into());
    }
    if all.len() / 2 > DEFECTS_MAX {
        return refuse(all.len() / 2, format!("at most {DEFECTS_MAX} defects in a zone"));
    }
    let number = |value: &Value| value.whole(key, 0, NUMBER_MAX);
    let mut pairs = Vec::new();
    for pair in all.chunks_exact(2) {
        pairs.push((number(&pair[0])?, number(&pair[1])?));
    }
    pairs.sort_by_key(|pair| pair.0);
    pairs.dedup_by_key(|pair| pair.0);
    Ok(pairs)
}

fn small(number: u64) -> u32 {
    u32::try_from(number).expect("in its range")
}
