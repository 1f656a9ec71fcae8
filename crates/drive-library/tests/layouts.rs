//! Layouts of DiskSim's files against a slow model written from the description of the format
//! alone: every sector of small disks drawn at random, for each sparing scheme, mapping and unit of
//! skews.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use drive::{Model, Position};
use spindle_drive_library::disksim;
use units::{Angle, Lba};

const SEEDS: u64 = 60;
const TURN: u128 = 1 << 32;

/// Rng with a seed, so that a failure can be repeated.
struct Rng(u64);

impl Rng {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most.max(1)
    }
}

#[derive(Debug)]
struct Zone {
    first: u64,
    last: u64,
    per_track: u64,
    /// In thousandths of a turn if skews are in revolutions, else in sectors.
    offset: u64,
    skews: (u64, u64),
    dead: u64,
    spares: u64,
    slips: Vec<u64>,
    defects: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct Disk {
    surfaces: u64,
    cylinders: u64,
    mapping: u64,
    scheme: u64,
    range: u64,
    revolutions: bool,
    zones: Vec<Zone>,
}

impl Disk {
    fn draw(scheme: u64, rng: &mut Rng) -> Self {
        let (surfaces, mapping) = (1 + rng.below(5), rng.below(3));
        let (range, revolutions) = (1 + rng.below(4), rng.below(3) == 0);
        let mut next = 2 * rng.below(3);
        let mut disk =
            Self { surfaces, cylinders: 0, mapping, scheme, range, revolutions, zones: Vec::new() };
        for _ in 0..=rng.below(3) {
            let zone = disk.draw_zone(next, rng);
            next = zone.last + 1 + rng.below(3);
            disk.zones.push(zone);
        }
        disk.cylinders = next;
        disk
    }

    fn draw_zone(&self, first: u64, rng: &mut Rng) -> Zone {
        let (last, per_track) = (first + 5 + rng.below(9), 12 + rng.below(30));
        let turn = if self.revolutions { 1_000 } else { per_track };
        let mut zone = Zone {
            first,
            last,
            per_track,
            offset: rng.below(turn),
            skews: (rng.below(turn), rng.below(turn)),
            dead: rng.below(20),
            spares: if self.scheme == 0 || self.scheme == 7 { 0 } else { 2 + rng.below(3) },
            slips: Vec::new(),
            defects: Vec::new(),
        };
        if self.scheme == 0 {
            return zone;
        }
        // As many slips in each unit as it has spares, less one that is left for a defect.
        let (unit, hole) = (self.unit(&zone), if self.scheme == 1 { per_track } else { 1 });
        let mut slips = BTreeSet::new();
        for _ in 0..rng.below(8) {
            let slip = rng.below(zone.sectors(self.surfaces) / hole);
            let beside = slips.iter().filter(|other| **other * hole / unit == slip * hole / unit);
            let movable = matches!(self.scheme, 4 | 6 | 7 | 10);
            // Behind the last whole range nothing can take it up.
            if self.scheme == 8 && slip / unit >= zone.sectors(self.surfaces) / unit {
                continue;
            }
            if movable || (beside.count() as u64) < zone.spares - 1 {
                slips.insert(slip);
            }
        }
        zone.slips = slips.into_iter().collect();
        let data = self.data(&zone);
        let (used, holes): (BTreeSet<u64>, BTreeSet<u64>) = (
            data.iter().map(|sector| sector / hole).collect(),
            zone.slips.iter().copied().collect(),
        );
        let spare = (0..zone.sectors(self.surfaces) / hole)
            .rev()
            .find(|place| !used.contains(place) && !holes.contains(place));
        if let Some(spare) = spare.filter(|_| rng.below(2) == 0) {
            let from = data[usize::try_from(rng.below(data.len() as u64)).expect("small")] / hole;
            zone.defects = vec![(from, spare)];
        }
        zone
    }

    /// Physical sectors that share spares.
    fn unit(&self, zone: &Zone) -> u64 {
        let cylinder = self.surfaces * zone.per_track;
        match self.scheme {
            2 | 4 | 5 | 6 => cylinder,
            3 => zone.per_track,
            8 => self.range * cylinder,
            _ => zone.sectors(self.surfaces),
        }
    }

    /// The capacity by the format's table.
    fn capacity(&self, zone: &Zone) -> u64 {
        let (cylinders, slips) = (zone.last + 1 - zone.first, zone.slips.len() as u64);
        let spares = zone.spares;
        let lost = match self.scheme {
            0 => 0,
            1 => spares * zone.per_track,
            2 | 5 => spares * cylinders,
            3 => spares * cylinders * self.surfaces,
            4 | 6 => spares * cylinders + slips,
            7 => slips,
            8 => spares * (cylinders / self.range),
            9 => spares,
            _ => spares + slips,
        };
        zone.sectors(self.surfaces) - zone.dead - lost
    }

    /// The physical sector of each address of the zone, before defects.
    fn data(&self, zone: &Zone) -> Vec<u64> {
        let (unit, spares) = (self.unit(zone), zone.spares);
        let slipped = |sector: &u64| zone.slips.contains(sector);
        if matches!(self.scheme, 4..=6) {
            // Sector by sector: what the formulas for spares at the front and moved slips come to.
            let mut all = Vec::new();
            for start in
                (0..zone.sectors(self.surfaces)).step_by(usize::try_from(unit).expect("small"))
            {
                let window = match self.scheme {
                    4 => start..start + unit - spares,
                    6 => start + spares..start + unit,
                    _ => start..start + unit,
                };
                let good: Vec<u64> = window.filter(|sector| !slipped(sector)).collect();
                let kept = if self.scheme == 5 {
                    good.len() - usize::try_from(unit - spares).expect("small")
                } else {
                    0
                };
                all.extend_from_slice(&good[kept..]);
            }
            let dead = usize::try_from(zone.dead).expect("small");
            let len = usize::try_from(self.capacity(zone)).expect("small");
            return all[dead..][..len].to_vec();
        }
        let one = |lbn: u64| {
            let l = lbn + zone.dead;
            if self.scheme == 1 {
                let track = |track: u64, slip: &u64| track + u64::from(*slip <= track);
                let track = zone.slips.iter().fold(l / zone.per_track, track);
                return track * zone.per_track + l % zone.per_track;
            }
            let (mut first, mut inside) = (0, l);
            if matches!(self.scheme, 2 | 3 | 8) {
                let data = unit - spares;
                (first, inside) = (l / data * unit, l % data);
            }
            let slip =
                |k: u64, slip: &u64| k + u64::from(*slip >= first && *slip - first <= inside + k);
            first + inside + zone.slips.iter().fold(0, slip)
        };
        (0..self.capacity(zone)).map(one).collect()
    }

    /// Where each address lies, with its angle, by the format's formulas.
    fn places(&self) -> Vec<Position> {
        let mut all = Vec::new();
        for zone in &self.zones {
            let hole = if self.scheme == 1 { zone.per_track } else { 1 };
            let defects: BTreeMap<u64, u64> = zone.defects.iter().copied().collect();
            for sector in self.data(zone) {
                let kept = defects.get(&(sector / hole));
                all.push(self.place(zone, kept.map_or(sector, |to| to * hole + sector % hole)));
            }
        }
        all
    }

    fn place(&self, zone: &Zone, r: u64) -> Position {
        let cylinder = self.surfaces * zone.per_track;
        let relative = r / cylinder;
        let (surface, sector) = (r % cylinder / zone.per_track, r % zone.per_track);
        let odd = match self.mapping {
            0 => false,
            1 => relative % 2 == 1,
            _ => (zone.first + relative) % 2 == 1,
        };
        let before = match self.scheme {
            2 | 4 | 5 | 6 => relative * cylinder,
            3 => r / zone.per_track * zone.per_track,
            _ => 0,
        };
        let slips = zone.slips.iter().filter(|slip| **slip < before).count() as u128;
        let width = TURN / u128::from(zone.per_track);
        let skew = |number: u64| {
            let number = u128::from(number);
            if self.revolutions { number * TURN / 1_000 } else { number * width }
        };
        let switches = u128::from(surface + (self.surfaces - 1) * relative);
        let angle = skew(zone.offset)
            + switches * skew(zone.skews.0)
            + u128::from(relative) * skew(zone.skews.1)
            + (slips + u128::from(sector)) * width;
        // In sectors the remainder of a turn is added once per wrap.
        let wraps = if self.revolutions { 0 } else { angle / TURN };
        let angle = angle + wraps * (TURN % u128::from(zone.per_track));
        let small = |number: u64| u32::try_from(number).expect("small");
        Position {
            cylinder: small(zone.first + relative),
            surface: small(if odd { self.surfaces - 1 - surface } else { surface }),
            sector: small(sector),
            angle: Angle(u32::try_from(angle % TURN).expect("under a turn")),
        }
    }

    fn text(&self) -> String {
        let Self { surfaces, cylinders, mapping, scheme, range, revolutions, zones } = self;
        let units = if *revolutions { "Skew units = revolutions," } else { "" };
        let mut text = format!(
            "dm_disk D {{ Number of data surfaces = {surfaces}, Number of cylinders = {cylinders}, \
             Layout Model = dm_layout_g1 {{ LBN-to-PBN mapping scheme = {mapping}, {units} \
             Sparing scheme used = {scheme}, Rangesize for sparing = {range}, Zones = ["
        );
        for zone in zones {
            let skew = |number: u64| match revolutions {
                true => format!("0.{number:03}"),
                false => number.to_string(),
            };
            let list =
                |all: &[u64]| all.iter().fold(String::new(), |text, n| format!("{text}{n},"));
            let defects: Vec<u64> =
                zone.defects.iter().flat_map(|(from, to)| [*from, *to]).collect();
            write!(
                text,
                "dm_layout_g1_zone {{ First cylinder number = {}, Last cylinder number = {}, \
                 Blocks per \
                 track = {}, Offset of first block = {}, Skew for track switch = {}, Skew for \
                 cylinder \
                 switch = {}, Empty space at zone front = {}, Number of spares = {}, slips = [ \
                 {} ], \
                 defects = [ {} ] }},",
                zone.first,
                zone.last,
                zone.per_track,
                skew(zone.offset),
                skew(zone.skews.0),
                skew(zone.skews.1),
                zone.dead,
                zone.spares,
                list(&zone.slips),
                list(&defects)
            )
            .expect("a string takes everything");
        }
        text + "] }, Mechanical Model = dm_mech_g1 { Seek type = extracted, Full seek curve = s, \
                Rotation speed (in rpms) = 6000 } }"
    }

    fn model(&self) -> Model {
        let disk = "disksim_disk D { Model = source m }".to_owned();
        let files =
            [("d.diskspecs", disk), ("m", self.text()), ("s", "1, 1.0\n900, 9.0\n".to_owned())];
        let files: BTreeMap<PathBuf, String> =
            files.into_iter().map(|(name, text)| (PathBuf::from(name), text)).collect();
        let mut read = |path: &Path| files.get(path).cloned().ok_or("a file".to_owned());
        let spec = disksim::import_with(Path::new("d.diskspecs"), &mut read);
        spec.unwrap_or_else(|error| panic!("{error}\n{self:?}")).spec.check().expect("a drive")
    }
}

impl Zone {
    fn sectors(&self, surfaces: u64) -> u64 {
        (self.last + 1 - self.first) * surfaces * self.per_track
    }
}

/// Angles are compared to within the sectors of a track in 2⁻³² of a turn, which is under a
/// nanosecond: the format adds up rounded widths.
fn compare(disk: &Disk, context: &str) {
    let (model, places) = (disk.model(), disk.places());
    let capacity: u64 = disk.zones.iter().map(|zone| disk.capacity(zone)).sum();
    assert_eq!((model.capacity().0, places.len() as u64), (capacity, capacity), "{context}");
    let mut taken = BTreeSet::new();
    for (lba, expected) in (0..).map(Lba).zip(&places) {
        let found = model.position(lba);
        let at = |place: &Position| (place.cylinder, place.surface, place.sector);
        assert_eq!(at(&found), at(expected), "{lba} {context}\n{disk:?}");
        assert!(taken.insert(at(&found)), "{lba} has a sector of its own: {context}\n{disk:?}");
        assert_eq!(model.lba(found), Some(lba), "{context}\n{disk:?}");
        let apart = (found.angle - expected.angle).0.min((expected.angle - found.angle).0);
        let most = if disk.revolutions { 20_000 } else { 128 };
        assert!(apart <= most, "{lba} is {apart} off: {context}\n{disk:?}");
    }
}

#[test]
fn every_sector_of_every_scheme_lies_where_the_description_says() {
    for scheme in 0..=10 {
        for seed in 0..SEEDS {
            let context = format!("scheme {scheme}, seed {seed}");
            let mut rng = Rng(seed * 11 + scheme);
            for _ in 0..8 {
                rng.below(2);
            }
            compare(&Disk::draw(scheme, &mut rng), &context);
        }
    }
}
