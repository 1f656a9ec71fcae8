//! The layout: cylinder, surface, sector and angle of every address.
//!
//! A zone is a sequence of physical sectors, in the order in which addresses fill them. Spares and
//! slipped defects hold no data. Invariants: addresses rise with physical sectors, and
//! [`Layout::place`] and [`Layout::lba`] are each other's inverse.
//!
//! ```text
//! zone     |<------ track 0 ------>|<------ track 1 ------>| ...
//! physical 0 1 2 3 4 5 6 7 8 9 ...
//! skips            x x
//! lba      0 1 2 3     4 5 6 7 ...      place(lba 1).run = 3: sectors 1, 2, 3
//! ```

use units::{Angle, Extent, FULL_REVOLUTION, Lba, Sectors};

use crate::rotation::Sweep;
use crate::spec::{Mapping, Remap, Spec};

/// The physical location of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Cylinder, from 0 at the outside.
    pub cylinder: u32,
    /// Surface, from 0.
    pub surface: u32,
    /// Physical sector on the track, from 0.
    pub sector: u32,
    /// The angle of its first edge, from the index mark.
    pub angle: Angle,
}

/// The position of an address, and the number of addresses that follow without a gap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) position: Position,
    /// The number of addresses from this one on that lie on consecutive sectors of this track; at
    /// least one.
    pub(crate) run: u64,
    /// The rotation during one sector.
    pub(crate) sector: Sweep,
}

/// A checked zone, with its addresses.
#[derive(Clone, Debug)]
pub(crate) struct ZoneTable {
    /// The addresses of the zone.
    pub(crate) lbas: Extent,
    /// The first address behind the zone.
    behind: Lba,
    pub(crate) first_cylinder: u32,
    pub(crate) last_cylinder: u32,
    pub(crate) sectors_per_track: u32,
    track_skew: u64,
    cylinder_skew: u64,
    track_skew_remainder: u32,
    cylinder_skew_remainder: u32,
    first_angle: Angle,
    /// The angle of one sector, rounded down, as by the divider of a drive's servo.
    sector: u32,
    skips: Box<[Gap]>,
    /// Gaps per data sector, times 2³². If spares are spread evenly, it gives the index of the gap
    /// of a sector.
    gap_rate: u64,
    track_slips: Box<[u64]>,
    remaps: Box<[Remap]>,
}

/// A run of physical sectors without data.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// The first of them, from the first sector of the zone.
    physical: u64,
    /// The number of data sectors before it in the zone.
    data: u64,
    /// The number of sectors without data before its end in the zone.
    skipped: u64,
}

/// All zones of a drive.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    zones: Box<[ZoneTable]>,
    surfaces: u32,
    mapping: Mapping,
    capacity: Sectors,
    /// The first zone that may hold an address, by the address's upper bits. A binary search costs
    /// more, because its branches are not predictable.
    hints: Box<[u16]>,
    hint_shift: u32,
}

/// The largest number of hints: a few for each zone of any drive.
const HINTS_MAX: u64 = 1_024;

impl ZoneTable {
    /// The physical sector of the zone's data sector `data`, and the number of data sectors from it
    /// to the next gap.
    fn physical(&self, data: u64) -> (u64, u64) {
        if self.skips.is_empty() {
            return (data, self.lbas.len.0 - data);
        }
        let before = self.gaps_up_to(data);
        let skipped = if before == 0 { 0 } else { self.skips[before - 1].skipped };
        let next = self.skips.get(before).map_or(self.lbas.len.0, |gap| gap.data);
        (data + skipped, next - data)
    }

    /// The number of gaps before the data sector.
    ///
    /// The search begins at the index that evenly spread gaps would have. In a zone with spares on
    /// each track it ends there at once, whereas a binary search would read a dozen distant
    /// entries.
    fn gaps_up_to(&self, data: u64) -> usize {
        let gaps = &self.skips[..];
        let is_before = |nth: usize| gaps[nth].data <= data;
        let guess = usize::try_from((data * self.gap_rate) >> 32).unwrap_or(usize::MAX);
        let guess = guess.min(gaps.len());
        let (mut low, mut high, mut step) = (guess, guess, 1);
        while low > 0 && !is_before(low - 1) {
            (high, low) = (low - 1, low.saturating_sub(step));
            step *= 2;
        }
        if low == guess {
            while high < gaps.len() && is_before(high) {
                (low, high) = (high + 1, (high + step).min(gaps.len()));
                step *= 2;
            }
        }
        low + gaps[low..high].partition_point(|gap| gap.data <= data)
    }

    /// The number of the data sector on the physical sector, if it holds data.
    fn data(&self, physical: u64) -> Option<u64> {
        let before = self.skips.partition_point(|gap| gap.physical <= physical);
        let (start, skipped) = match before {
            0 => (0, 0),
            _ => (self.skips[before - 1].data, self.skips[before - 1].skipped),
        };
        let data = physical.checked_sub(skipped)?;
        (data >= start && data < self.lbas.len.0).then_some(data)
    }

    /// The number of data sectors before a physical sector.
    fn data_before(&self, physical: u64) -> u64 {
        let before = self.skips.partition_point(|gap| gap.physical < physical);
        let Some(gap) = before.checked_sub(1).map(|nth| &self.skips[nth]) else { return physical };
        physical.saturating_sub(gap.skipped).max(gap.data)
    }

    /// The addresses of the track or cylinder, of `unit` physical sectors, that holds the data
    /// sector `data`.
    fn around(&self, data: u64, unit: u64) -> Extent {
        let nth = self.physical(data).0 / unit;
        let first = self.data_before(nth * unit);
        let behind = self.data_before((nth + 1) * unit);
        Extent::new(self.lbas.start + Sectors(first), Sectors(behind - first))
    }

    /// The largest number of physical sectors that `len` consecutive data sectors span.
    pub(crate) fn span_max(&self, len: Sectors) -> u64 {
        // No transfer passes a gap before the zone's first data sector or behind its last one.
        let inner = |gap: &&Gap| gap.data > 0 && gap.data < self.lbas.len.0;
        let mut most = 0;
        let mut first = self.skips.partition_point(|gap| gap.data == 0);
        for gap in self.skips.iter().filter(inner) {
            // A transfer passes both gaps only if it has a data sector before the first of them and
            // one behind the second.
            while gap.data - self.skips[first].data + 1 >= len.0.max(2) {
                first += 1;
            }
            let before = if first == 0 { 0 } else { self.skips[first - 1].skipped };
            most = most.max(gap.skipped - before);
        }
        len.0 + if len.0 > 1 { most } else { 0 }
    }

    /// The rotation between the end of a track and the start of the next one in the layout: at a
    /// head switch, and at a change of cylinder.
    pub(crate) fn skew_gaps(&self) -> (u64, u64) {
        let (per_track, sector) = (u64::from(self.sectors_per_track), u64::from(self.sector));
        let gap = |skew, rest| (skew % per_track * sector + u64::from(rest)) % FULL_REVOLUTION;
        (
            gap(self.track_skew, self.track_skew_remainder),
            gap(self.cylinder_skew, self.cylinder_skew_remainder),
        )
    }

    /// The number of track slips and the number of remapped runs.
    pub(crate) fn irregular(&self) -> (usize, usize) {
        (self.track_slips.len(), self.remaps.len())
    }

    /// The physical sector that holds the data of this one after remapping, and the number of
    /// sectors, of `run` from it on, that are consecutive there too.
    fn remapped(&self, physical: u64, run: u64) -> (u64, u64) {
        let next = self.remaps.partition_point(|remap| remap.from + remap.count <= physical);
        match self.remaps.get(next) {
            Some(remap) if remap.from <= physical => {
                let done = physical - remap.from;
                (remap.to + done, run.min(remap.count - done))
            }
            Some(remap) => (physical, run.min(remap.from - physical)),
            None => (physical, run),
        }
    }

    /// The physical sector whose data this one holds; `None` if this one is remapped.
    fn original(&self, physical: u64) -> Option<u64> {
        let inside = |first: u64, count: u64| (first..first + count).contains(&physical);
        if self.remaps.iter().any(|remap| inside(remap.from, remap.count)) {
            return None;
        }
        let here = self.remaps.iter().find(|remap| inside(remap.to, remap.count));
        Some(here.map_or(physical, |remap| physical - remap.to + remap.from))
    }

    /// The rotation during one sector.
    pub(crate) fn sector_sweep(&self) -> Sweep {
        Sweep(u64::from(self.sector))
    }
}

impl Layout {
    /// The layout of a checked drive.
    pub(crate) fn of_checked(spec: &Spec) -> Self {
        let mut start = Lba(0);
        let mut zones = Vec::with_capacity(spec.zones.len());
        for zone in &spec.zones {
            let tracks = zone.cylinders() * u64::from(spec.surfaces);
            let per_track = u64::from(zone.sectors_per_track);
            let mut skipped = 0;
            let mut skips = Vec::with_capacity(zone.skips.len());
            for skip in &zone.skips {
                let data = skip.first - skipped;
                skipped += skip.count;
                skips.push(Gap { physical: skip.first, data, skipped });
            }
            let lbas = Extent::new(start, Sectors(tracks * per_track - skipped));
            let gaps = u128::try_from(skips.len()).expect("a length");
            let gap_rate = u64::try_from((gaps << 32) / u128::from(lbas.len.0))
                .expect("no more gaps than sectors, and one");
            start = lbas.end();
            zones.push(ZoneTable {
                lbas,
                behind: start,
                first_cylinder: zone.first_cylinder,
                last_cylinder: zone.last_cylinder,
                sectors_per_track: zone.sectors_per_track,
                track_skew: zone.track_skew.into(),
                cylinder_skew: zone.cylinder_skew.into(),
                track_skew_remainder: zone.track_skew_remainder.0,
                cylinder_skew_remainder: zone.cylinder_skew_remainder.0,
                first_angle: zone.first_sector_angle,
                sector: u32::try_from(FULL_REVOLUTION / per_track).unwrap_or(u32::MAX),
                skips: skips.into_boxed_slice(),
                gap_rate,
                track_slips: zone.track_slips.clone().into_boxed_slice(),
                remaps: zone.remaps.clone().into_boxed_slice(),
            });
        }
        let (surfaces, mapping, capacity) = (spec.surfaces, spec.mapping, Sectors(start.0));
        let mut hint_shift = 0;
        while capacity.0 >> hint_shift >= HINTS_MAX {
            hint_shift += 1;
        }
        let hint = |upper: u64| {
            let lba = Lba(upper << hint_shift);
            let zone = zones.partition_point(|zone| zone.lbas.start <= lba) - 1;
            u16::try_from(zone).expect("no more than ZONES_MAX")
        };
        let hints = (0..=capacity.0 >> hint_shift).map(hint).collect();
        Self { zones: zones.into_boxed_slice(), surfaces, mapping, capacity, hints, hint_shift }
    }

    pub(crate) const fn capacity(&self) -> Sectors {
        self.capacity
    }

    pub(crate) fn zones(&self) -> &[ZoneTable] {
        &self.zones
    }

    pub(crate) fn cylinders(&self) -> u32 {
        self.zones.last().map_or(0, |zone| zone.last_cylinder + 1)
    }

    /// The zone of an address, which is below the capacity.
    pub(crate) fn zone_index(&self, lba: Lba) -> usize {
        debug_assert!(lba.0 < self.capacity.0, "{lba} is on the disk");
        let upper = usize::try_from(lba.0 >> self.hint_shift).expect("under HINTS_MAX");
        let mut zone = usize::from(self.hints[upper]);
        while lba >= self.zones[zone].behind {
            zone += 1;
        }
        zone
    }

    /// The place of an address, which is below the capacity.
    pub(crate) fn place(&self, lba: Lba) -> Place {
        let zone = &self.zones[self.zone_index(lba)];
        let (mut physical, mut until_gap) = zone.physical(lba.0 - zone.lbas.start.0);
        if !zone.remaps.is_empty() {
            (physical, until_gap) = zone.remapped(physical, until_gap);
        }
        let per_track = u64::from(zone.sectors_per_track);
        let (track, sector) = (physical / per_track, physical % per_track);
        let relative = track / u64::from(self.surfaces);
        let nth = track % u64::from(self.surfaces);
        let surface = self.surface(zone, relative, nth);
        let position = Position {
            cylinder: zone.first_cylinder + small(relative),
            surface: small(surface),
            sector: small(sector),
            angle: self.angle(zone, (relative, nth), sector),
        };
        let run = until_gap.min(per_track - sector);
        Place { position, run, sector: zone.sector_sweep() }
    }

    /// The addresses of the track of an address, which is below the capacity.
    pub(crate) fn track(&self, lba: Lba) -> Extent {
        let zone = &self.zones[self.zone_index(lba)];
        zone.around(lba.0 - zone.lbas.start.0, zone.sectors_per_track.into())
    }

    /// The addresses of the cylinder of an address, which is below the capacity.
    pub(crate) fn cylinder(&self, lba: Lba) -> Extent {
        let zone = &self.zones[self.zone_index(lba)];
        let sectors = u64::from(zone.sectors_per_track) * u64::from(self.surfaces);
        zone.around(lba.0 - zone.lbas.start.0, sectors)
    }

    /// The address at this cylinder, surface and sector, if the sector holds data. The angle is
    /// ignored.
    pub(crate) fn lba(&self, position: Position) -> Option<Lba> {
        let behind = self.zones.partition_point(|zone| zone.first_cylinder <= position.cylinder);
        let zone = &self.zones[behind.checked_sub(1)?];
        let inside = position.cylinder <= zone.last_cylinder
            && position.surface < self.surfaces
            && position.sector < zone.sectors_per_track;
        if !inside {
            return None;
        }
        let relative = u64::from(position.cylinder - zone.first_cylinder);
        // The order of surfaces is its own inverse.
        let nth = self.surface(zone, relative, position.surface.into());
        let track = relative * u64::from(self.surfaces) + nth;
        let physical = track * u64::from(zone.sectors_per_track) + u64::from(position.sector);
        zone.data(zone.original(physical)?).map(|data| zone.lbas.start + Sectors(data))
    }

    /// The surface of track number `nth` of a cylinder, in the order of addresses.
    fn surface(&self, zone: &ZoneTable, relative: u64, nth: u64) -> u64 {
        let down = match self.mapping {
            Mapping::Cylinder => false,
            Mapping::SerpentineZone => relative % 2 == 1,
            Mapping::Serpentine => (relative + u64::from(zone.first_cylinder)) % 2 == 1,
        };
        if down { u64::from(self.surfaces) - 1 - nth } else { nth }
    }

    /// The angle of a sector. Each change of cylinder before it in the zone adds the cylinder skew,
    /// each head switch the track skew, each track slip one sector. Tracks count in the order of
    /// addresses, whatever the order of the surfaces is.
    fn angle(&self, zone: &ZoneTable, (relative, nth): (u64, u64), sector: u64) -> Angle {
        let last = u64::from(self.surfaces) - 1;
        let switches = nth + last * relative;
        let mut sectors = switches * zone.track_skew + relative * zone.cylinder_skew + sector;
        if !zone.track_slips.is_empty() {
            let track = nth + (last + 1) * relative;
            sectors += zone.track_slips.partition_point(|slip| *slip <= track) as u64;
        }
        let on = sectors % u64::from(zone.sectors_per_track);
        // The parts of the skews beyond whole sectors add up separately, modulo a revolution.
        let rest = small(switches).wrapping_mul(zone.track_skew_remainder);
        let rest = rest.wrapping_add(small(relative).wrapping_mul(zone.cylinder_skew_remainder));
        Angle(small(on * u64::from(zone.sector))) + Angle(rest) + zone.first_angle
    }
}

/// A number that the check has bounded by a 32-bit one.
fn small(number: u64) -> u32 {
    u32::try_from(number).expect("bounded by the check")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::small as sample;
    use crate::spec::Skip;
    use proptest::prelude::*;
    use rng::SeededRng;

    fn layout(change: impl FnOnce(&mut Spec)) -> Layout {
        let mut spec = sample();
        change(&mut spec);
        Layout::of_checked(&spec)
    }

    #[test]
    fn every_address_has_a_place_of_its_own_under_every_mapping() {
        for mapping in [Mapping::Cylinder, Mapping::SerpentineZone, Mapping::Serpentine] {
            let layout = layout(|spec| {
                spec.mapping = mapping;
                spec.zones[0].skips =
                    vec![Skip { first: 0, count: 3 }, Skip { first: 199, count: 450 }];
                spec.zones[1].skips = vec![Skip { first: 23_990, count: 10 }];
                spec.zones[1].track_slips = vec![3, 3, 40];
                let kept = |from, to, count| Remap { from, to, count };
                spec.zones[0].remaps = vec![kept(7, 300, 2), kept(9, 200, 90), kept(47_999, 0, 1)];
                spec.zones[1].remaps = vec![kept(150, 23_991, 1)];
            });
            assert_eq!(layout.capacity(), Sectors(60 * 800 - 453 + 40 * 600 - 10));
            for lba in (0..layout.capacity().0).map(Lba) {
                let place = layout.place(lba);
                assert_eq!(layout.lba(place.position), Some(lba));
                assert!(place.run >= 1);
                let last = layout.place(lba + Sectors(place.run - 1)).position;
                let (first, run) = (place.position, u32::try_from(place.run).expect("small"));
                assert_eq!((last.cylinder, last.surface), (first.cylinder, first.surface));
                assert_eq!(last.sector, first.sector + run - 1);
            }
        }
    }

    #[test]
    fn a_sector_that_is_skipped_has_no_address() {
        let layout = layout(|spec| spec.zones[0].skips = vec![Skip { first: 5, count: 2 }]);
        let at = |sector| Position { cylinder: 0, surface: 0, sector, angle: Angle::ZERO };
        assert_eq!(
            [4, 5, 6, 7].map(|s| layout.lba(at(s))),
            [Some(Lba(4)), None, None, Some(Lba(5))]
        );
    }

    #[test]
    fn gaps_are_counted_however_they_are_spread() {
        let mut rng = SeededRng::new(9, 0);
        let mut below = |most: u64| rng.below(most);
        for _ in 0..50 {
            let mut skips: Vec<Skip> = Vec::new();
            let mut next = below(3);
            // Clusters, voids and even spacing.
            while next + 9 < 48_000 {
                skips.push(Skip { first: next, count: 1 + below(4) });
                next += 6 + if below(9) == 0 { below(9_000) } else { below(40) * below(3) };
            }
            let layout = layout(|spec| spec.zones[0].skips = skips);
            let zone = &layout.zones()[0];
            for data in 0..zone.lbas.len.0 {
                let expected = zone.skips.partition_point(|gap| gap.data <= data);
                assert_eq!(zone.gaps_up_to(data), expected, "data sector {data}");
            }
        }
    }

    #[test]
    fn a_remapped_sector_is_found_where_it_is_kept() {
        let layout = layout(|spec| {
            spec.zones[0].skips = vec![Skip { first: 190, count: 10 }];
            spec.zones[0].remaps = vec![Remap { from: 5, to: 195, count: 2 }];
        });
        let places = [4, 5, 6, 7].map(|lba| layout.place(Lba(lba)));
        assert_eq!(places.map(|place| place.position.sector), [4, 195, 196, 7]);
        assert_eq!(places.map(|place| place.run), [1, 2, 1, 183]);
        let at = |sector| Position { cylinder: 0, surface: 0, sector, angle: Angle::ZERO };
        assert_eq!([5, 194, 196].map(|s| layout.lba(at(s))), [None, None, Some(Lba(6))]);
    }

    #[test]
    fn surfaces_that_are_filled_to_and_fro_begin_later_one_after_the_other() {
        let layout = layout(|spec| spec.mapping = Mapping::Serpentine);
        let sector = small(FULL_REVOLUTION / 200);
        let start = |track: u64| layout.place(Lba(track * 200)).position;
        assert_eq!([3, 4, 5].map(|track| start(track).surface), [3, 3, 2]);
        assert_eq!(start(4).angle - start(3).angle, Angle(40 * sector));
        assert_eq!(start(5).angle - start(4).angle, Angle(30 * sector));
    }

    #[test]
    fn what_a_skew_has_beyond_whole_sectors_adds_up_and_a_slip_turns_what_follows() {
        let layout = layout(|spec| {
            spec.zones[0].track_skew_remainder = Angle(1_000);
            spec.zones[0].cylinder_skew_remainder = Angle(50);
            spec.zones[0].track_slips = vec![5];
        });
        let sector = small(FULL_REVOLUTION / 200);
        let start = |track: u64| layout.place(Lba(track * 200)).position.angle;
        assert_eq!(start(2) - start(0), Angle(60 * sector + 2_000));
        assert_eq!(start(4) - start(3), Angle(40 * sector + 50));
        assert_eq!(start(5) - start(4), Angle(31 * sector + 1_000));
        assert_eq!(start(6) - start(5), Angle(30 * sector + 1_000));
    }

    #[test]
    fn a_track_begins_later_by_its_skew() {
        let layout = layout(|_| {});
        let sector = small(FULL_REVOLUTION / 200);
        let angle = |lba| layout.place(Lba(lba)).position.angle;
        assert_eq!(angle(200) - angle(0), Angle(30 * sector));
        assert_eq!(angle(800) - angle(600), Angle(40 * sector));
    }

    proptest! {
        #[test]
        fn address_and_place_are_each_others_inverse(
            surfaces in 1_u32..9,
            cylinders in 1_u32..50,
            sectors in 1_u32..400,
            skew in 0_u32..400,
            mapping in 0_usize..3,
            gap in (1_u64..100, 1_u64..100),
            pick in 0_u64..1_000_000,
        ) {
            let layout = layout(|spec| {
                spec.surfaces = surfaces;
                spec.mapping =
                    [Mapping::Cylinder, Mapping::SerpentineZone, Mapping::Serpentine][mapping];
                let total = u64::from(surfaces) * u64::from(cylinders) * u64::from(sectors);
                let zone = &mut spec.zones[0];
                zone.last_cylinder = cylinders - 1;
                zone.sectors_per_track = sectors;
                zone.track_skew = skew % sectors;
                if gap.0 + gap.1 < total {
                    zone.skips = vec![Skip { first: gap.0, count: gap.1 }];
                }
                spec.zones[1].first_cylinder = cylinders;
                spec.zones[1].last_cylinder = cylinders + 40;
            });
            let lba = Lba(pick % layout.capacity().0);
            let position = layout.place(lba).position;
            prop_assert_eq!(layout.lba(position), Some(lba));
            // No two sectors of one track begin at one angle.
            if layout.place(lba).run > 1 {
                let next = layout.place(lba + Sectors(1)).position;
                prop_assert_ne!(next.angle, position.angle);
            }
        }
    }
}
