//! Checks a [`Spec`] and builds its [`Model`], or reports why it cannot.
//!
//! All properties of a drive that the rest of the crate asserts are checked here, once.

use core::fmt;

use units::{Duration, Sectors};

use crate::Model;
use crate::spec::{
    AGE_LIMIT_MAX, CYLINDERS_MAX, Choosing, MOVE_MAX, Overheads, PERIOD_MAX, PERIOD_MIN,
    QUEUE_DEPTH_MAX, Remap, SECTORS_PER_TRACK_MAX, SEGMENTS_MAX, SURFACES_MAX, SeekCurve, Spec,
    ZONES_MAX, Zone,
};

use crate::firmware::{LOG_RECORDS_MAX, MediaCache};
use crate::write_buffer::{DESTAGE_SECTORS_MAX, DIRTY_EXTENTS_MAX};

/// Where in a [`Spec`] a value stands; shows as `zones[2].track_skew`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The table or list it stands in, if any.
    pub table: Option<&'static str>,
    /// Which element of the list, from 0.
    pub index: Option<usize>,
    /// Its own name.
    pub name: &'static str,
}

/// Why a [`Spec`] is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    /// A number is out of range.
    Range {
        /// Which.
        field: Field,
        /// What it is.
        found: u64,
        /// The least that would be accepted.
        least: u64,
        /// The most that would be accepted.
        most: u64,
        /// What is counted.
        unit: &'static str,
    },
    /// A list is empty or too long.
    Count {
        /// Which.
        field: Field,
        /// How many elements it has.
        found: usize,
        /// The most that would be accepted; the least is one.
        most: usize,
    },
    /// A zone does not begin where the one before ended: they overlap or leave a gap.
    ZoneStart {
        /// Which zone.
        zone: usize,
        /// Where it begins.
        found: u32,
        /// Where it would have to begin.
        expected: u64,
    },
    /// A zone ends before it begins.
    ZoneBackwards {
        /// Which zone.
        zone: usize,
        /// Its first cylinder.
        first: u32,
        /// Its last cylinder.
        last: u32,
    },
    /// Runs of sectors without data overlap, are out of order, or leave the zone.
    Skips {
        /// Which zone.
        zone: usize,
        /// Which run.
        skip: usize,
        /// Sectors of the zone.
        sectors: u64,
    },
    /// Tracks that begin later are out of order or leave the zone.
    TrackSlips {
        /// Which zone.
        zone: usize,
        /// Which of its entries.
        slip: usize,
        /// Tracks of the zone.
        tracks: u64,
    },
    /// Remapped sectors are out of order, hold no data, or go where data or another of them is.
    Remaps {
        /// Which zone.
        zone: usize,
        /// Which of its remaps.
        remap: usize,
    },
    /// A zone has no sector that holds data.
    ZoneEmpty {
        /// Which zone.
        zone: usize,
    },
    /// The distances of a seek curve do not rise from point to point.
    SeekOrder {
        /// Which curve.
        curve: &'static str,
        /// Which point.
        point: usize,
        /// Its distance, in cylinders.
        found: u32,
        /// The least that would be accepted.
        least: u32,
    },
    /// A longer seek takes less time.
    SeekFalls {
        /// Which curve.
        curve: &'static str,
        /// Which point.
        point: usize,
        /// Its time.
        found: Duration,
        /// The least that would be accepted.
        least: Duration,
    },
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.table, self.index) {
            (Some(table), Some(index)) if self.name.is_empty() => write!(f, "{table}[{index}]"),
            (Some(table), Some(index)) => write!(f, "{table}[{index}].{}", self.name),
            (Some(table), None) => write!(f, "{table}.{}", self.name),
            (None, _) => f.write_str(self.name),
        }
    }
}

impl SpecError {
    /// The field that is wrong.
    pub fn field(&self) -> Field {
        match *self {
            Self::Range { field, .. } | Self::Count { field, .. } => field,
            Self::ZoneStart { zone, .. } => zone_field(zone, "first_cylinder"),
            Self::ZoneBackwards { zone, .. } => zone_field(zone, "last_cylinder"),
            Self::Skips { zone, .. } => zone_field(zone, "skips"),
            Self::TrackSlips { zone, .. } => zone_field(zone, "track_slips"),
            Self::Remaps { zone, .. } => zone_field(zone, "remaps"),
            Self::ZoneEmpty { zone } => zone_field(zone, "sectors_per_track"),
            Self::SeekOrder { curve, point, .. } | Self::SeekFalls { curve, point, .. } => {
                Field { table: Some(curve), index: Some(point), name: "" }
            }
        }
    }

    /// What is wrong with it and what would be accepted, without its name.
    pub fn reason(&self) -> String {
        match self {
            Self::Range { found, least, most, unit, .. } => {
                format!("is {found} {unit}, expected {least} to {most}")
            }
            Self::Count { found, most, .. } => {
                format!("has {found} elements, expected 1 to {most}")
            }
            Self::ZoneStart { found, expected, .. } => {
                format!("is {found}, expected {expected}, where the zone before ends")
            }
            Self::ZoneBackwards { first, last, .. } => {
                format!("is {last}, expected at least {first}, its first cylinder")
            }
            Self::Skips { skip, sectors, .. } => format!(
                "run {skip} is out of place, expected rising runs that do not touch inside \
                 {sectors} sectors"
            ),
            Self::TrackSlips { slip, tracks, .. } => {
                format!("number {slip} is out of place, expected tracks in order, under {tracks}")
            }
            Self::Remaps { remap, .. } => format!(
                "run {remap} is out of place, expected rising runs with data, kept on runs without \
                 data"
            ),
            Self::ZoneEmpty { .. } => {
                "leaves no sector with data, expected more sectors or fewer skips".to_owned()
            }
            Self::SeekOrder { found, least, .. } => {
                format!("is at {found} cylinders, expected at least {least}: distances rise")
            }
            Self::SeekFalls { found, least, .. } => {
                format!(
                    "takes {found}, expected at least {least}: a longer seek takes no less time"
                )
            }
        }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "field `{}`: {}", self.field(), self.reason())
    }
}

impl std::error::Error for SpecError {}

const fn top(name: &'static str) -> Field {
    Field { table: None, index: None, name }
}

const fn inside(table: &'static str, name: &'static str) -> Field {
    Field { table: Some(table), index: None, name }
}

const fn zone_field(zone: usize, name: &'static str) -> Field {
    Field { table: Some("zones"), index: Some(zone), name }
}

fn range(
    field: Field,
    found: u64,
    (least, most): (u64, u64),
    unit: &'static str,
) -> Result<(), SpecError> {
    if (least..=most).contains(&found) {
        Ok(())
    } else {
        Err(SpecError::Range { field, found, least, most, unit })
    }
}

fn time(field: Field, found: Duration) -> Result<(), SpecError> {
    range(field, found.as_nanos(), (0, MOVE_MAX.as_nanos()), "ns")
}

impl Spec {
    /// Builds the model of this description.
    ///
    /// # Errors
    /// Names the first invalid field, and what is accepted.
    pub fn check(self) -> Result<Model, SpecError> {
        self.check_numbers()?;
        self.check_zones()?;
        self.seek.check("seek")?;
        if let Some(curve) = &self.seek_write {
            curve.check("seek_write")?;
        }
        self.overheads.check("overheads")?;
        self.overheads_after_write.check("overheads_after_write")?;
        let runs = u64::from(self.firmware.write_segments);
        let most = DIRTY_EXTENTS_MAX as u64;
        range(inside("firmware", "write_segments"), runs, (0, most), "runs")?;
        if let Some(destage) = self.firmware.destage_before_read {
            let field = |name| inside("firmware.destage_before_read", name);
            range(field("runs"), destage.runs.into(), (1, most), "runs")?;
            let longest = DESTAGE_SECTORS_MAX.0;
            range(field("run_max"), destage.run_max.0, (1, longest), "sectors")?;
        }
        time(inside("firmware", "write_seek_min"), self.firmware.write_seek_min)?;
        if let Some(cache) = &self.firmware.media_cache {
            cache.check()?;
        }
        for (name, value) in self.firmware.bus.times() {
            time(inside("bus", name), value)?;
        }
        Ok(Model::of_checked(self))
    }

    fn check_numbers(&self) -> Result<(), SpecError> {
        let periods = (PERIOD_MIN.as_nanos(), PERIOD_MAX.as_nanos());
        range(top("period"), self.period.as_nanos(), periods, "ns")?;
        range(top("surfaces"), self.surfaces.into(), (1, SURFACES_MAX.into()), "surfaces")?;
        time(top("head_switch"), self.head_switch)?;
        time(top("write_settle"), self.write_settle)?;
        time(top("seek_variation"), self.arm.variation)?;
        time(top("bus_sector"), self.bus_sector)?;
        let depth = (1, u64::from(QUEUE_DEPTH_MAX));
        range(top("queue_depth_max"), self.queue_depth_max.into(), depth, "commands")?;
        if let Some(Choosing { age_limit, stream_hold, decision_latency }) =
            self.discipline.choosing()
        {
            let limits = (self.period.as_nanos(), AGE_LIMIT_MAX.as_nanos());
            range(inside("queue", "age_limit"), age_limit.as_nanos(), limits, "ns")?;
            time(inside("queue", "stream_hold"), stream_hold)?;
            time(inside("queue", "decision_latency"), decision_latency)?;
        }
        let buffer = &self.read_buffer;
        let segments = (0, u64::from(SEGMENTS_MAX));
        let field = |name| inside("read_buffer", name);
        range(field("segments"), buffer.segments.into(), segments, "segments")?;
        if buffer.segments > 0 {
            let whole = (1, 1 << 32);
            range(field("segment"), buffer.segment.0, whole, "sectors")?;
            let ahead = (0, buffer.segment.0);
            range(field("read_ahead_max"), buffer.read_ahead_max.0, ahead, "sectors")?;
        }
        range(top("write_buffer"), self.write_buffer.0, (0, 1 << 32), "sectors")
    }

    fn check_zones(&self) -> Result<(), SpecError> {
        let count = self.zones.len();
        if !(1..=ZONES_MAX).contains(&count) {
            return Err(SpecError::Count { field: top("zones"), found: count, most: ZONES_MAX });
        }
        let mut expected = 0_u64;
        for (index, zone) in self.zones.iter().enumerate() {
            let (first, last) = (zone.first_cylinder, zone.last_cylinder);
            if u64::from(first) != expected {
                return Err(SpecError::ZoneStart { zone: index, found: first, expected });
            }
            if last < first {
                return Err(SpecError::ZoneBackwards { zone: index, first, last });
            }
            let most = u64::from(CYLINDERS_MAX) - 1;
            range(zone_field(index, "last_cylinder"), last.into(), (0, most), "")?;
            expected = u64::from(last) + 1;
            zone.check(index, self.surfaces)?;
        }
        Ok(())
    }
}

impl Zone {
    fn check(&self, index: usize, surfaces: u32) -> Result<(), SpecError> {
        let per_track = u64::from(self.sectors_per_track);
        let most = u64::from(SECTORS_PER_TRACK_MAX);
        range(zone_field(index, "sectors_per_track"), per_track, (1, most), "sectors")?;
        let skews = [("track_skew", self.track_skew), ("cylinder_skew", self.cylinder_skew)];
        for (name, skew) in skews {
            range(zone_field(index, name), skew.into(), (0, per_track - 1), "sectors")?;
        }
        let sectors = self.cylinders() * u64::from(surfaces) * per_track;
        let mut behind = None;
        let mut skipped = Sectors::ZERO;
        for (skip, run) in self.skips.iter().enumerate() {
            let refused = SpecError::Skips { zone: index, skip, sectors };
            let end = run.first.checked_add(run.count).filter(|end| *end <= sectors);
            let Some(end) = end else { return Err(refused) };
            // Two runs that touch are one run: the layout takes it that data lies between any two.
            if run.count == 0 || behind.is_some_and(|behind| run.first <= behind) {
                return Err(refused);
            }
            behind = Some(end);
            skipped += Sectors(run.count);
        }
        if skipped.0 == sectors {
            return Err(SpecError::ZoneEmpty { zone: index });
        }
        self.check_track_slips(index, self.cylinders() * u64::from(surfaces))?;
        self.check_remaps(index, sectors)
    }

    fn check_track_slips(&self, zone: usize, tracks: u64) -> Result<(), SpecError> {
        let mut before = 1;
        for (slip, track) in self.track_slips.iter().enumerate() {
            if !(before..tracks).contains(track) {
                return Err(SpecError::TrackSlips { zone, slip, tracks });
            }
            before = *track;
        }
        Ok(())
    }

    fn check_remaps(&self, zone: usize, sectors: u64) -> Result<(), SpecError> {
        let end = |first: u64, count: u64| first.checked_add(count).filter(|_| count > 0);
        // The first run without data that ends behind the sector.
        let next = |sector: u64| {
            self.skips.get(self.skips.partition_point(|skip| skip.first + skip.count <= sector))
        };
        let mut behind = 0;
        for (remap, &Remap { from, to, count }) in self.remaps.iter().enumerate() {
            let refused = SpecError::Remaps { zone, remap };
            let (Some(from_end), Some(to_end)) = (end(from, count), end(to, count)) else {
                return Err(refused);
            };
            let data = next(from).is_none_or(|skip| from_end <= skip.first);
            let spare =
                next(to).is_some_and(|skip| skip.first <= to && to_end <= skip.first + skip.count);
            if from < behind || from_end > sectors || !data || !spare {
                return Err(refused);
            }
            behind = from_end;
        }
        let mut targets: Vec<(u64, u64, usize)> =
            (0..).zip(&self.remaps).map(|(nth, r)| (r.to, r.to + r.count, nth)).collect();
        targets.sort_unstable();
        match targets.windows(2).find(|pair| pair[1].0 < pair[0].1) {
            Some(pair) => Err(SpecError::Remaps { zone, remap: pair[1].2 }),
            None => Ok(()),
        }
    }
}

impl MediaCache {
    fn check(&self) -> Result<(), SpecError> {
        let field = |name| inside("firmware.media_cache", name);
        let most = DESTAGE_SECTORS_MAX.0;
        range(field("run_max"), self.run_max.0, (1, most), "sectors")?;
        // A record without a duration would not occupy the media, and one that is never written
        // back would fill the log.
        let some = (1, MOVE_MAX.as_nanos());
        range(field("append"), self.append.as_nanos(), some, "ns")?;
        time(field("close"), self.close)?;
        let records = (1, LOG_RECORDS_MAX.into());
        range(field("records_max"), self.records_max.into(), records, "records")?;
        range(field("write_back"), self.write_back.as_nanos(), some, "ns")
    }
}

impl SeekCurve {
    fn check(&self, curve: &'static str) -> Result<(), SpecError> {
        let most = CYLINDERS_MAX as usize;
        let found = self.points.len();
        if !(1..=most).contains(&found) {
            return Err(SpecError::Count { field: inside(curve, "points"), found, most });
        }
        let mut before = (0, Duration::ZERO);
        for (point, &(distance, takes)) in self.points.iter().enumerate() {
            let field = Field { table: Some(curve), index: Some(point), name: "" };
            range(field, takes.as_nanos(), (0, MOVE_MAX.as_nanos()), "ns")?;
            if distance <= before.0 {
                let least = before.0.saturating_add(1);
                return Err(SpecError::SeekOrder { curve, point, found: distance, least });
            }
            let least = before.1.saturating_sub(self.fall_max);
            if takes < least {
                return Err(SpecError::SeekFalls { curve, point, found: takes, least });
            }
            before = (distance, takes);
        }
        Ok(())
    }
}

impl Overheads {
    fn check(&self, table: &'static str) -> Result<(), SpecError> {
        time(inside(table, "read_hit"), self.read_hit)?;
        time(inside(table, "read_miss"), self.read_miss)?;
        time(inside(table, "write_cached"), self.write_cached)?;
        time(inside(table, "write_media"), self.write_media)?;
        time(inside(table, "control"), self.control)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::small;
    use crate::{Discipline, Skip};

    fn changed(change: impl FnOnce(&mut Spec)) -> Result<Model, SpecError> {
        let mut spec = small();
        change(&mut spec);
        spec.check()
    }

    fn refused(change: impl FnOnce(&mut Spec)) -> String {
        changed(change).expect_err("it is no drive").to_string()
    }

    #[test]
    fn the_sample_is_a_drive() {
        assert!(small().check().is_ok());
    }

    #[test]
    fn each_refusal_names_the_field_and_what_would_be_accepted() {
        let cases = [
            (
                refused(|s| s.period = Spec::period_of_rpm(0)),
                "field `period`: is 0 ns, expected 100000 to",
            ),
            (refused(|s| s.surfaces = 0), "field `surfaces`: is 0 surfaces, expected 1 to 64"),
            (refused(|s| s.zones.clear()), "field `zones`: has 0 elements, expected 1 to"),
            (
                refused(|s| s.zones[1].first_cylinder += 1),
                "field `zones[1].first_cylinder`: is 61, expected 60",
            ),
            (
                refused(|s| s.zones[1].first_cylinder -= 1),
                "field `zones[1].first_cylinder`: is 59, expected 60",
            ),
            (
                refused(|s| s.zones[1].last_cylinder = 3),
                "field `zones[1].last_cylinder`: is 3, expected at least 60",
            ),
            (
                refused(|s| s.zones[0].sectors_per_track = 0),
                "field `zones[0].sectors_per_track`: is 0 sectors",
            ),
            (refused(|s| s.zones[0].track_skew = 99_999), "field `zones[0].track_skew`"),
            (
                refused(|s| s.zones[0].skips = vec![Skip { first: 0, count: 0 }]),
                "field `zones[0].skips`",
            ),
            (
                refused(|s| s.zones[0].skips = vec![Skip { first: u64::MAX, count: 9 }]),
                "field `zones[0].skips`",
            ),
            (refused(|s| s.seek.points.clear()), "field `seek.points`: has 0 elements"),
            (
                refused(|s| s.seek.points[1].0 = 1),
                "field `seek[1]`: is at 1 cylinders, expected at least 2",
            ),
            (
                refused(|s| s.seek.points[1].1 = Duration::ZERO),
                "field `seek[1]`: takes 0ns, expected at least 1ms",
            ),
            (refused(|s| s.write_settle = Duration::from_secs(5)), "field `write_settle`"),
            (refused(|s| s.overheads.read_hit = Duration::MAX), "field `overheads.read_hit`"),
            (refused(|s| s.queue_depth_max = 0), "field `queue_depth_max`: is 0 commands"),
            (
                refused(|s| {
                    let stream_hold = Duration::ZERO;
                    let age_limit = Duration::from_millis(9);
                    let choosing =
                        Choosing { age_limit, stream_hold, decision_latency: Duration::ZERO };
                    s.discipline = Discipline::ShortestSeek(choosing);
                }),
                "field `queue.age_limit`: is 9000000 ns, expected 10000000 to",
            ),
            (
                refused(|s| {
                    s.firmware.media_cache =
                        Some(MediaCache { write_back: Duration::ZERO, ..crate::samples::LOG });
                }),
                "field `firmware.media_cache.write_back`: is 0 ns, expected 1 to",
            ),
            (
                refused(|s| s.read_buffer.read_ahead_max = Sectors(1 << 30)),
                "field `read_buffer.read_ahead_max`",
            ),
        ];
        for (message, expected) in cases {
            assert!(message.starts_with(expected), "{message}\nnot\n{expected}");
        }
    }

    #[test]
    fn a_zone_without_data_is_refused() {
        let whole = Skip { first: 0, count: 60 * 4 * 200 };
        assert!(refused(|s| s.zones[0].skips = vec![whole]).contains("leaves no sector with data"));
    }

    #[test]
    fn turns_and_remaps_that_go_nowhere_are_refused() {
        let spares = || vec![Skip { first: 100, count: 4 }];
        let remapped = |all: &[(u64, u64, u64)]| {
            let all = all.iter().map(|&(from, to, count)| Remap { from, to, count }).collect();
            let checked = changed(|s| (s.zones[0].skips, s.zones[0].remaps) = (spares(), all));
            checked.map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(remapped(&[(5, 101, 2), (7, 100, 1)]), Ok(()));
        let wrong: [&[(u64, u64, u64)]; 8] = [
            &[(5, 6, 1)],
            &[(5, 102, 3)],
            &[(99, 100, 2)],
            &[(101, 102, 1)],
            &[(5, 100, 0)],
            &[(7, 100, 1), (5, 101, 1)],
            &[(5, 100, 2), (9, 101, 1)],
            &[(u64::MAX, 100, 1)],
        ];
        for all in wrong {
            let message = remapped(all).expect_err("no drive");
            assert!(message.starts_with("field `zones[0].remaps`: run "), "{message}");
        }
        for slips in [vec![0], vec![5, 4], vec![240]] {
            let message = refused(|s| s.zones[0].track_slips = slips);
            assert!(message.starts_with("field `zones[0].track_slips`: number "), "{message}");
        }
    }

    #[test]
    fn a_measured_curve_may_scatter() {
        let mut spec = small();
        spec.seek.points =
            vec![(1, Duration::from_micros(1_003)), (2, Duration::from_micros(1_000))];
        assert!(spec.clone().check().is_err());
        spec.seek.fall_max = Duration::from_micros(3);
        assert!(spec.check().is_ok());
    }
}
