//! What a scheduler knows of its disk: a plain value that somebody measured, or took from a data sheet.
//!
//! A profile is never the drive. It says where a sector should lie and how long a movement should take, and how
//! far both may be off; what really happened only completions tell. Anybody can fill one in: the drive library
//! with an uncertainty added, or a profiler with what it found.

use units::{Angle, Duration, Extent, Lba, Sectors};

use crate::worst_case::Extremes;

/// One turn in 2⁻³² of a turn.
const TURN: u64 = 1 << 32;

/// Everything that is known of one disk (FAST 2003 §3.4 lists what semi-preemptible I/O needs of it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// One turn of the spindle.
    pub period: Duration,
    /// By how many parts in a billion the real turn may be off from `period`.
    pub period_error_ppb: u32,
    /// Heads.
    pub surfaces: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// Where sectors lie, in the order of their addresses, without gaps from address 0 on.
    pub bands: Vec<Band>,
    /// Time to move the arm before a read.
    pub seek: Curve,
    /// Time to move the arm before a write, its settling included.
    pub seek_write: Curve,
    /// The standard deviation of single seeks about the curves.
    pub seek_variation: Duration,
    /// Time to change to another head; it runs beside a seek.
    pub head_switch: Duration,
    /// What is added to a head switch before a write.
    pub write_settle: Duration,
    /// What passes between a command's arrival at the drive and its effect.
    pub overheads: CommandOverheads,
    /// One sector's time on the bus.
    pub bus_sector: Duration,
    /// From the moment when the last sector of a read has passed under the head to the command's completion.
    pub completion: Duration,
    /// Whether the drive has a command that moves the arm and transfers nothing.
    pub seek_command: bool,
    /// Whether writes are answered out of memory.
    pub write_cache: bool,
    /// What bounds are made of.
    pub extremes: Extremes,
}

/// What passes between a command's arrival at the drive and its effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandOverheads {
    /// A read out of the drive's memory: until its data is on the bus.
    pub hit: Duration,
    /// A read off the disk: until the arm moves.
    pub read: Duration,
    /// A write into the drive's memory: until it takes data.
    pub cached: Duration,
    /// A write onto the disk: until the arm moves.
    pub write: Duration,
    /// A seek command: until the arm moves.
    pub seek: Duration,
}

/// Addresses in a row that lie on consecutive sectors of tracks that are laid out alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// The addresses.
    pub lbas: Extent,
    /// The sector on which the first of them lies, counted from the first of `first_cylinder`.
    pub first_sector: u64,
    /// The outermost cylinder of the grid that `first_sector` is counted on.
    pub first_cylinder: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
    /// By how far a track begins later than the one before it on the same cylinder.
    pub track_skew: Skew,
    /// By how far the first track of a cylinder begins later than the last of the cylinder before.
    pub cylinder_skew: Skew,
    /// Where the first sector of `first_cylinder` begins.
    pub first_angle: Angle,
    /// Which head is the first on a cylinder.
    pub heads: Heads,
    /// The smallest command that reads in a row at full speed: the lower end of the optimal range of FAST 2003 §3.1.
    pub chunk_read: Sectors,
    /// The smallest command that writes in a row at full speed.
    pub chunk_write: Sectors,
}

/// A part of a turn in 2⁻⁶⁴: fine enough to be added up over every cylinder of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew(pub u64);

impl Skew {
    /// `part` of `whole` sectors around a track.
    ///
    /// # Panics
    /// If a track has no sectors.
    pub fn of(part: u32, whole: u32) -> Self {
        let nth = u128::from(part % whole);
        Self(u64::try_from((nth << 64) / u128::from(whole)).expect("under a turn"))
    }
}

/// In which order the heads of a cylinder are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heads {
    /// From 0 up.
    #[default]
    Up,
    /// Up on even cylinders of the grid, down on odd ones.
    UpOnEven,
    /// Down on even cylinders of the grid, up on odd ones.
    DownOnEven,
}

/// Time against distance: linear between points and beyond the last, level before the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// Distances in cylinders, rising from at least 1, and times.
    pub points: Vec<(u32, Duration)>,
}

/// Where a sector should lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Cylinder, from the outside.
    pub cylinder: u32,
    /// Head.
    pub surface: u32,
    /// Where it begins.
    pub angle: Angle,
    /// Sectors from this one to the end of its track or band, at least one.
    pub run: Sectors,
    /// The angle of one sector.
    pub sector: Angle,
}

impl Curve {
    /// The time to move by `distance` cylinders; none for none.
    pub fn time(&self, distance: u32) -> Duration {
        if distance == 0 || self.points.is_empty() {
            return Duration::ZERO;
        }
        let above = self.points.partition_point(|point| point.0 < distance);
        let (low, high) = match above {
            0 => return self.points[0].1,
            _ if self.points.len() == 1 => return self.points[0].1,
            above if above == self.points.len() => (self.points[above - 2], self.points[above - 1]),
            above => (self.points[above - 1], self.points[above]),
        };
        let (run, along) = (i128::from(high.0 - low.0), i128::from(distance - low.0));
        let rise = i128::from(high.1.as_nanos()) - i128::from(low.1.as_nanos());
        let time = i128::from(low.1.as_nanos()) + along * rise / run;
        Duration::from_nanos(u64::try_from(time.max(0)).unwrap_or(u64::MAX))
    }
}

impl Profile {
    /// The addresses that the profile knows.
    pub fn capacity(&self) -> Sectors {
        self.bands.last().map_or(Sectors::ZERO, |band| Sectors(band.lbas.end().0))
    }

    /// Whether it is a profile of a disk.
    ///
    /// # Errors
    /// What it would have to be.
    pub fn check(&self) -> Result<(), &'static str> {
        let mut next = Lba(0);
        let (mut in_a_row, mut chunks) = (true, true);
        for band in &self.bands {
            in_a_row &= band.lbas.start == next && !band.lbas.is_empty();
            in_a_row &= band.sectors_per_track > 0;
            chunks &= band.chunk_read.0 > 0 && band.chunk_write.0 > 0;
            next = band.lbas.end();
        }
        let rising = |curve: &Curve| {
            let first = curve.points.first().is_none_or(|first| first.0 > 0);
            first && curve.points.windows(2).all(|pair| pair[0].0 < pair[1].0)
        };
        let checks = [
            (self.period > Duration::ZERO, "a disk that turns"),
            (self.surfaces > 0 && self.cylinders > 0, "a disk with tracks"),
            (!self.bands.is_empty(), "a disk with sectors"),
            (in_a_row, "bands with sectors that follow one another"),
            (chunks, "chunks that move something"),
            (rising(&self.seek) && rising(&self.seek_write), "distances that rise"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, expected)| Err(expected))
    }

    /// Panics if it is no profile of a disk: whoever makes one asks.
    ///
    /// # Panics
    /// As said.
    pub fn assert_sane(&self) {
        assert_eq!(self.check(), Ok(()), "a profile is of a disk");
    }

    /// The band in which an address lies.
    ///
    /// # Panics
    /// If the profile does not know it.
    pub fn band(&self, lba: Lba) -> &Band {
        let behind = self.bands.partition_point(|band| band.lbas.start <= lba);
        let band = &self.bands[behind.checked_sub(1).expect("bands begin at 0")];
        assert!(lba < band.lbas.end(), "{lba} is in the profile");
        band
    }

    /// Where an address should lie.
    ///
    /// # Panics
    /// If the profile does not know it.
    pub fn spot(&self, lba: Lba) -> Spot {
        let band = self.band(lba);
        let (tracks, heads) = (u64::from(band.sectors_per_track), u64::from(self.surfaces));
        let nth = band.first_sector + (lba.0 - band.lbas.start.0);
        let (track, sector) = (nth / tracks, nth % tracks);
        let (relative, head) = (track / heads, track % heads);
        let down = match band.heads {
            Heads::Up => false,
            Heads::UpOnEven => relative % 2 == 1,
            Heads::DownOnEven => relative.is_multiple_of(2),
        };
        let surface = if down { heads - 1 - head } else { head };
        // Tracks count in the order in which they are filled, whichever way that is.
        let switches = head + (heads - 1) * relative;
        let width = TURN / tracks;
        let skewed = switches
            .wrapping_mul(band.track_skew.0)
            .wrapping_add(relative.wrapping_mul(band.cylinder_skew.0));
        let angle = (skewed >> 32) + sector * width;
        let left = (tracks - sector).min(band.lbas.end().0 - lba.0);
        Spot {
            cylinder: band.first_cylinder + low(relative),
            surface: low(surface),
            angle: band.first_angle + Angle(low(angle)),
            run: Sectors(left),
            sector: Angle(low(width)),
        }
    }

    /// The first address that should lie on a cylinder, or past it where it holds none.
    pub fn first_on(&self, cylinder: u32) -> Lba {
        let behind = self.bands.partition_point(|band| band.first_cylinder <= cylinder);
        let mut at = behind.max(1) - 1;
        // Several bands may share a grid: the last of them that begins before the cylinder holds it.
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

    /// The time to move from one spot to another before a transfer.
    pub fn movement(&self, from: (u32, u32), to: &Spot, write: bool) -> Duration {
        let distance = from.0.abs_diff(to.cylinder);
        let curve = if write { &self.seek_write } else { &self.seek };
        let switch = match (from.1 != to.surface, write) {
            (false, _) => Duration::ZERO,
            (true, false) => self.head_switch,
            (true, true) => self.head_switch + self.write_settle,
        };
        curve.time(distance).max(switch)
    }

    /// From the moment at which the first sector of `extent` comes under the head to that at which the last has
    /// passed.
    pub fn transfer(&self, extent: Extent) -> Duration {
        let mut sweep = 0_u64;
        let mut at = extent.start;
        let mut end: Option<Angle> = None;
        while at < extent.end() {
            let spot = self.spot(at);
            let run = spot.run.0.min(extent.end().0 - at.0);
            if let Some(end) = end {
                sweep += u64::from((spot.angle - end).0);
            }
            let swept = run * u64::from(spot.sector.0);
            sweep += swept;
            end = Some(spot.angle + Angle(low(swept)));
            at = at + Sectors(run);
        }
        let nanos = u128::from(sweep) * u128::from(self.period.as_nanos()) / u128::from(TURN);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Where the head is when the last sector of `extent` has passed.
    pub fn end(&self, extent: Extent) -> Spot {
        let last = self.spot(Lba(extent.end().0 - 1));
        Spot { angle: last.angle + last.sector, ..last }
    }
}

/// The low 32 bits: what is left of an angle after whole turns, or a number that is small.
#[expect(clippy::cast_possible_truncation, reason = "as said")]
const fn low(number: u64) -> u32 {
    number as u32
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A disk of one zone: 2 heads, 1,000 cylinders, 100 sectors a track, 10 ms a turn.
    pub(crate) fn sample() -> Profile {
        let points = vec![(1, Duration::from_millis(1)), (999, Duration::from_millis(11))];
        Profile {
            period: Duration::from_millis(10),
            period_error_ppb: 0,
            surfaces: 2,
            cylinders: 1_000,
            bands: vec![Band {
                lbas: Extent::new(Lba(0), Sectors(200_000)),
                first_sector: 0,
                first_cylinder: 0,
                sectors_per_track: 100,
                track_skew: Skew::of(10, 100),
                cylinder_skew: Skew::of(12, 100),
                first_angle: Angle::ZERO,
                heads: Heads::Up,
                chunk_read: Sectors(50),
                chunk_write: Sectors(50),
            }],
            seek: Curve { points: points.clone() },
            seek_write: Curve { points },
            seek_variation: Duration::ZERO,
            head_switch: Duration::from_micros(800),
            write_settle: Duration::ZERO,
            overheads: CommandOverheads {
                hit: Duration::from_micros(300),
                read: Duration::from_micros(500),
                cached: Duration::from_micros(300),
                write: Duration::from_micros(500),
                seek: Duration::from_micros(200),
            },
            bus_sector: Duration::from_micros(3),
            completion: Duration::from_micros(3),
            seek_command: true,
            write_cache: true,
            extremes: Extremes::default(),
        }
    }

    #[test]
    fn sectors_lie_where_skews_put_them() {
        let profile = sample();
        profile.assert_sane();
        let spot = |lba| profile.spot(Lba(lba));
        assert_eq!((spot(0).cylinder, spot(0).surface, spot(0).run), (0, 0, Sectors(100)));
        assert_eq!((spot(150).cylinder, spot(150).surface, spot(150).run), (0, 1, Sectors(50)));
        assert_eq!((spot(230).cylinder, spot(230).surface), (1, 0));
        let sector = spot(0).sector.0;
        // Rounded down, each by less than a sector's own rounding.
        assert!((spot(100).angle - Angle(10 * sector)).0 < 100);
        assert!((spot(200).angle - Angle(22 * sector)).0 < 100);
    }

    #[test]
    fn a_transfer_over_a_track_change_takes_its_skew_too() {
        let profile = sample();
        let time = |start, len| profile.transfer(Extent::new(Lba(start), Sectors(len))).as_micros();
        assert!((999..=1_000).contains(&time(0, 10)), "{}", time(0, 10));
        // Ten sectors, the skew of ten, ten sectors.
        assert!((2_999..=3_000).contains(&time(90, 20)), "{}", time(90, 20));
    }

    #[test]
    fn the_first_sector_of_a_cylinder_is_on_it() {
        let mut profile = sample();
        // The same disk, with a slipped sector in the middle of cylinder 10.
        let mut second = profile.bands[0];
        profile.bands[0].lbas.len = Sectors(2_100);
        second.lbas = Extent::new(Lba(2_100), Sectors(197_000));
        second.first_sector = 2_101;
        profile.bands.push(second);
        profile.assert_sane();
        for cylinder in [0, 1, 9, 10, 11, 500, 990] {
            let first = profile.first_on(cylinder);
            assert_eq!(profile.spot(first).cylinder, cylinder);
            let before = first.0.checked_sub(1).map(|lba| profile.spot(Lba(lba)).cylinder);
            assert!(before.is_none_or(|before| before < cylinder), "{cylinder}");
        }
    }

    #[test]
    fn seeks_are_linear_between_points_and_beyond() {
        let curve =
            Curve { points: vec![(1, Duration::from_millis(1)), (11, Duration::from_millis(2))] };
        let times: Vec<u64> = [0, 1, 6, 11, 21].map(|d| curve.time(d).as_micros()).to_vec();
        assert_eq!(times, [0, 1_000, 1_500, 2_000, 3_000]);
    }
}
