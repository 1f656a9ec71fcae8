//! Positions on the disk, and times between them.

use units::{Angle, Duration, Extent, FULL_REVOLUTION, Lba, Sectors};

use crate::band::{Band, HeadOrder};
use crate::profile::Profile;

/// Where a sector should lie: cylinder, head and angle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysicalAddress {
    /// Cylinder, from the outside.
    pub cylinder: u32,
    /// Head.
    pub surface: u32,
    /// The angle at which the sector begins.
    pub angle: Angle,
    /// Sectors from this one to the end of its track or band, at least one.
    pub run: Sectors,
    /// The angle that one sector spans.
    pub sector: Angle,
}

impl Profile {
    /// The band that contains a logical block.
    ///
    /// # Panics
    /// If the block lies outside the profile.
    pub fn band(&self, lba: Lba) -> &Band {
        let behind = self.bands.partition_point(|band| band.lbas.start <= lba);
        let band = &self.bands[behind.checked_sub(1).expect("bands begin at 0")];
        assert!(lba < band.lbas.end(), "{lba} is in the profile");
        band
    }

    /// Where a logical block should lie.
    ///
    /// # Panics
    /// If the block lies outside the profile.
    pub fn locate(&self, lba: Lba) -> PhysicalAddress {
        let band = self.band(lba);
        let (tracks, heads) = (u64::from(band.sectors_per_track), u64::from(self.surfaces));
        let nth = band.first_sector + (lba.0 - band.lbas.start.0);
        let (track, sector) = (nth / tracks, nth % tracks);
        let (relative, head) = (track / heads, track % heads);
        let is_descending = match band.heads {
            HeadOrder::Up => false,
            HeadOrder::UpOnEven => relative % 2 == 1,
            HeadOrder::DownOnEven => relative.is_multiple_of(2),
        };
        let surface = if is_descending { heads - 1 - head } else { head };
        // Skews accumulate in the order in which tracks are filled, whatever the order of heads.
        let switches = head + (heads - 1) * relative;
        let width = FULL_REVOLUTION / tracks;
        let skewed = switches
            .wrapping_mul(band.track_skew.0)
            .wrapping_add(relative.wrapping_mul(band.cylinder_skew.0));
        let angle = (skewed >> 32) + sector * width;
        let left = (tracks - sector).min(band.lbas.end().0 - lba.0);
        debug_assert!(left > 0 && surface < heads, "{lba} lies on a track");
        PhysicalAddress {
            cylinder: band.first_cylinder + low(relative),
            surface: low(surface),
            angle: band.first_angle + Angle(low(angle)),
            run: Sectors(left),
            sector: Angle(low(width)),
        }
    }

    /// The first logical block that should lie on a cylinder, or after it if the cylinder holds
    /// none.
    pub fn first_lba_on(&self, cylinder: u32) -> Lba {
        let behind = self.bands.partition_point(|band| band.first_cylinder <= cylinder);
        let mut at = behind.max(1) - 1;
        // Several bands may share a grid: the last of them that begins before the cylinder holds
        // it.
        let sector = |band: &Band| {
            let per_cylinder = u64::from(band.sectors_per_track) * u64::from(self.surfaces);
            u64::from(cylinder.saturating_sub(band.first_cylinder)) * per_cylinder
        };
        while at > 0
            && self.bands[at].first_cylinder == self.bands[at - 1].first_cylinder
            && self.bands[at].first_sector > sector(&self.bands[at])
        {
            at -= 1;
        }
        let band = &self.bands[at];
        let into = sector(band).saturating_sub(band.first_sector).min(band.lbas.len.0 - 1);
        band.lbas.start + Sectors(into)
    }

    /// The time to move from a cylinder and head to an address before a transfer: the longer of the
    /// seek and the head switch.
    pub fn movement_time(&self, from: (u32, u32), to: &PhysicalAddress, write: bool) -> Duration {
        let distance = from.0.abs_diff(to.cylinder);
        let curve = if write { &self.seek_write } else { &self.seek };
        let switch = match (from.1 != to.surface, write) {
            (false, _) => Duration::ZERO,
            (true, false) => self.head_switch,
            (true, true) => self.head_switch + self.write_settle,
        };
        curve.time(distance).max(switch)
    }

    /// From the moment at which the first sector of `extent` comes under the head to that at which
    /// the last has passed.
    pub fn transfer_time(&self, extent: Extent) -> Duration {
        let mut sweep = 0_u64;
        let mut at = extent.start;
        let mut end: Option<Angle> = None;
        while at < extent.end() {
            let address = self.locate(at);
            let run = address.run.0.min(extent.end().0 - at.0);
            if let Some(end) = end {
                sweep += u64::from((address.angle - end).0);
            }
            let swept = run * u64::from(address.sector.0);
            sweep += swept;
            end = Some(address.angle + Angle(low(swept)));
            at = at + Sectors(run);
        }
        let period = u128::from(self.rotation_period.as_nanos());
        let nanos = u128::from(sweep) * period / u128::from(FULL_REVOLUTION);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Where the head is when the last sector of `extent` has passed.
    ///
    /// # Panics
    /// If `extent` is empty or leaves the profile.
    pub fn end_of(&self, extent: Extent) -> PhysicalAddress {
        assert!(!extent.is_empty(), "an extent that ends somewhere has sectors");
        let last = self.locate(Lba(extent.end().0 - 1));
        PhysicalAddress { angle: last.angle + last.sector, ..last }
    }
}

/// The low 32 bits: an angle without its whole revolutions, or a number that fits 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "only the low 32 bits are wanted")]
const fn low(number: u64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example_profile;

    #[test]
    fn sectors_lie_where_skews_put_them() {
        let profile = example_profile();
        profile.assert_valid();
        let at = |lba| profile.locate(Lba(lba));
        assert_eq!((at(0).cylinder, at(0).surface, at(0).run), (0, 0, Sectors(100)));
        assert_eq!((at(150).cylinder, at(150).surface, at(150).run), (0, 1, Sectors(50)));
        assert_eq!((at(230).cylinder, at(230).surface), (1, 0));
        let sector = at(0).sector.0;
        // Rounded down, each by less than a sector's own rounding.
        assert!((at(100).angle - Angle(10 * sector)).0 < 100);
        assert!((at(200).angle - Angle(22 * sector)).0 < 100);
    }

    #[test]
    fn a_transfer_over_a_track_change_takes_its_skew_too() {
        let profile = example_profile();
        let time =
            |start, len| profile.transfer_time(Extent::new(Lba(start), Sectors(len))).as_micros();
        assert!((999..=1_000).contains(&time(0, 10)), "{}", time(0, 10));
        // Ten sectors, the skew of ten, ten sectors.
        assert!((2_999..=3_000).contains(&time(90, 20)), "{}", time(90, 20));
    }

    #[test]
    fn the_first_sector_of_a_cylinder_is_on_it() {
        let mut profile = example_profile();
        // The same disk, with a slipped sector in the middle of cylinder 10.
        let mut second = profile.bands[0];
        profile.bands[0].lbas.len = Sectors(2_100);
        second.lbas = Extent::new(Lba(2_100), Sectors(197_000));
        second.first_sector = 2_101;
        profile.bands.push(second);
        profile.assert_valid();
        for cylinder in [0, 1, 9, 10, 11, 500, 990] {
            let first = profile.first_lba_on(cylinder);
            assert_eq!(profile.locate(first).cylinder, cylinder);
            let before = first.0.checked_sub(1).map(|lba| profile.locate(Lba(lba)).cylinder);
            assert!(before.is_none_or(|before| before < cylinder), "{cylinder}");
        }
    }
}
