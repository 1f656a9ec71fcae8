//! A drive model from a profile: a user's own disk, simulated and emulated.
//!
//! A profile does not contain all parameters of a model. The others are typical of the drives of
//! the library, and each such place says so.

use ::drive::{
    AnySpec, Arm, Bus, Discipline, Firmware, Mapping, Overheads, ReadAhead, ReadBuffer, SeekCurve,
    Skip, Spec, Zone,
};
use drive_profile::findings::{
    CHUNK_MIN, Chunks, Dynamics, Geometry, Outlier, OutlierReason, Seeks, Spindle,
};
use drive_profile::{Band, Extremes, HeadOrder, Profile, Skew};
use units::{Angle, Duration, SECTOR_BYTES, Sectors, Share};

use super::missing::MissingFindings;
use super::queue;
use crate::profile::values::ProfileFile;

/// The error of a measured movement: this part of it, and at least `OFF_MIN`.
const OFF_PARTS: u64 = 20;
const OFF_MIN: Duration = Duration::from_micros(50);
/// Sequential access that is slower than the tracks by more than this part has late track changes.
const LATE_PARTS: u128 = 20;
/// The largest number of slips at one location: a larger one has another cause.
const TRACK_SLIPS_MAX: u32 = 64;

impl ProfileFile {
    /// A model of the drive, of either kind. Unchecked.
    ///
    /// # Errors
    /// Names the missing findings.
    pub fn spec(&self) -> Result<AnySpec, MissingFindings> {
        if self.findings.spindle == Some(Spindle::NotRotating) {
            return self.flash_spec().map(|spec| AnySpec::Flash(Box::new(spec)));
        }
        self.mechanical_spec().map(|spec| AnySpec::Mechanical(Box::new(spec)))
    }

    /// The profile for an engine.
    ///
    /// # Errors
    /// Names the missing findings.
    pub fn profile(&self) -> Result<Profile, MissingFindings> {
        let found = &self.findings;
        let rotation = match found.spindle {
            Some(Spindle::Rotating(rotation)) => rotation,
            Some(Spindle::NotRotating) => return Err(MissingFindings::NotRotating),
            None => return Err(MissingFindings::Rotation),
        };
        let whole = |found: &&Geometry| found.is_complete(self.device.capacity);
        let geometry = found.geometry.as_ref().filter(whole).ok_or(MissingFindings::Layout)?;
        if found.dynamics.seek.is_none() {
            return Err(MissingFindings::Seeks);
        }
        let mut profile = geometry.profile(&rotation.period);
        found.dynamics.apply(&mut profile, self.device.block, self.device.seeks);
        // The values of the file take precedence, so that they can be edited there.
        for (band, found) in profile.bands.iter_mut().zip(&geometry.bands) {
            if found.chunk_read >= CHUNK_MIN {
                band.chunk_read = found.chunk_read;
            }
            if found.chunk_write >= CHUNK_MIN {
                band.chunk_write = found.chunk_write;
            }
        }
        profile.extremes = self.extremes(&profile, rotation.noise);
        Ok(profile)
    }

    /// The worst cases of commands, from means and their errors: three times the error and the
    /// noise above the mean.
    fn extremes(&self, profile: &Profile, noise: Duration) -> Extremes {
        let all = &self.findings.dynamics.overheads;
        let figures = [all.hit, all.read, all.cached, all.write, all.seek].into_iter().flatten();
        let most = figures.map(|figure| figure.value + (figure.spread + noise) * 3).max();
        let elsewhere = |outlier: &&Outlier| outlier.reason == OutlierReason::Remapped;
        let seen = self.findings.outliers.iter().filter(elsewhere).count() as u64;
        Extremes {
            command: most.unwrap_or(profile.overheads.read),
            bus_sector_write: all.bus_write.map_or(profile.bus_sector, |sector| sector.value),
            // Where it was not measured how long the drive withholds data: until all of it is read.
            read_share: all.read_share.map_or(Share::ALL, |share| {
                let most = share.value.checked_add(share.spread);
                most.and_then(|most| most.checked_add(share.spread)).unwrap_or(Share::ALL)
            }),
            write_ahead: Sectors(1),
            detours: seen,
            bus: None,
        }
    }

    /// A model of a mechanical drive. Unchecked: wrong measurements may not form a valid drive.
    ///
    /// # Errors
    /// Names the missing findings.
    pub fn mechanical_spec(&self) -> Result<Spec, MissingFindings> {
        let profile = self.profile()?;
        let dynamics = &self.findings.dynamics;
        let reads = Changes::of(&profile, dynamics.chunks_read.as_ref());
        let writes = Changes::of(&profile, dynamics.chunks_write.as_ref());
        let head_switch = reads.fitted(profile.head_switch, |band| band.track_skew);
        let settled = writes.fitted(head_switch + profile.write_settle, |band| band.track_skew);
        let mut seek = curve(dynamics.seek.as_ref(), Duration::ZERO).unwrap_or_default();
        if let Some(next) = seek.points.first_mut().filter(|point| point.0 == 1) {
            next.1 = reads.fitted(next.1, |band| band.cylinder_skew);
        }
        let write_settle = settled.saturating_sub(head_switch);
        let mut seek_write = curve(dynamics.seek_write.as_ref(), profile.write_settle);
        let next = seek_write.as_mut().and_then(|seek| seek.points.first_mut());
        if let Some(next) = next.filter(|point| point.0 == 1) {
            // The heads also settle after a seek to the next cylinder, and both fit within the
            // skew.
            let both = writes.fitted(next.1 + profile.write_settle, |band| band.cylinder_skew);
            next.1 = next.1.min(both.saturating_sub(write_settle));
        }
        let overheads = Overheads {
            read_hit: profile.overheads.hit,
            read_miss: profile.overheads.read,
            write_cached: profile.overheads.cached,
            write_media: profile.overheads.write,
            // Unknown for a drive without a seek command: taken to equal a hit.
            control: dynamics.overheads.seek.map_or(profile.overheads.hit, |seek| seek.value),
        };
        let (read_buffer, read_ahead) = read_buffer(dynamics);
        let write = dynamics.write_buffer;
        let held = write.and_then(|write| write.size).map_or(Sectors::ZERO, |size| size.value);
        let spec = Spec {
            period: profile.rotation_period,
            surfaces: profile.surfaces,
            mapping: mapping(&profile.bands),
            zones: zones(&profile),
            seek,
            seek_write,
            head_switch,
            write_settle,
            overheads,
            overheads_after_write: overheads,
            bus_sector: profile.bus_sector,
            read_buffer,
            write_buffer: held,
            write_cache: profile.write_cache && held > Sectors::ZERO,
            queue_depth_max: self.device.depth_max.max(1),
            discipline: Discipline::Fifo,
            firmware: firmware(dynamics, read_ahead),
            arm: Arm { seek_command: self.device.seeks, variation: profile.seek_variation },
        };
        Ok(Spec { discipline: queue::discipline(&spec, dynamics), ..spec })
    }
}

/// Measured points scatter: one may be below its predecessor by the largest fall.
fn curve(seeks: Option<&Seeks>, less: Duration) -> Option<SeekCurve> {
    let points: Vec<_> = seeks?
        .points
        .iter()
        .filter(|point| point.distance > 0)
        .map(|point| (point.distance, point.time.saturating_sub(less)))
        .collect();
    let mut longest = Duration::ZERO;
    let mut fall_max = Duration::ZERO;
    for (_, time) in &points {
        fall_max = fall_max.max(longest.saturating_sub(*time));
        longest = longest.max(*time);
    }
    (!points.is_empty()).then_some(SeekCurve { points, fall_max })
}

fn read_buffer(dynamics: &Dynamics) -> (ReadBuffer, ReadAhead) {
    let Some(found) = dynamics.read_buffer else {
        return (ReadBuffer::default(), ReadAhead::Never);
    };
    let (segment, ahead) = (found.segment.value, found.ahead.value);
    let buffer =
        ReadBuffer { segments: found.segments.value, segment, read_ahead_max: ahead.min(segment) };
    let kind = match () {
        () if ahead == Sectors::ZERO => ReadAhead::Never,
        () if found.reads_next_track => ReadAhead::TrackAndNext,
        () if found.ends_with_track => ReadAhead::Track,
        () => ReadAhead::Segment,
    };
    (buffer, kind)
}

/// The observed firmware policies; the others are those of a plain drive.
fn firmware(dynamics: &Dynamics, read_ahead: ReadAhead) -> Firmware {
    let reads = dynamics.read_buffer;
    let share = dynamics.overheads.read_share.map_or(Share::NONE, |share| share.value);
    Firmware {
        read_ahead,
        strict_hits: reads.and_then(|reads| reads.waits) == Some(false),
        discard_after_read: reads.and_then(|reads| reads.keeps) == Some(false),
        write_segments: dynamics.write_buffer.and_then(|writes| writes.runs).unwrap_or(0),
        bus: Bus { read_share: share, ..Bus::default() },
        ..Firmware::default()
    }
}

/// One mapping for the whole disk: by zone, unless a zone begins in the other direction.
fn mapping(bands: &[Band]) -> Mapping {
    let any = |heads: HeadOrder| bands.iter().any(|band| band.heads == heads);
    match (any(HeadOrder::DownOnEven), any(HeadOrder::UpOnEven)) {
        (true, _) => Mapping::Serpentine,
        (false, true) => Mapping::SerpentineZone,
        (false, false) => Mapping::Cylinder,
    }
}

/// Bands with one grid form one zone; the sectors between them hold no data.
fn zones(profile: &Profile) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    let mut rest = &profile.bands[..];
    while let Some(first) = rest.first() {
        let grid = |band: &&Band| {
            band.first_cylinder == first.first_cylinder
                && band.sectors_per_track == first.sectors_per_track
        };
        let count = rest.iter().take_while(grid).count().max(1);
        let (own, behind) = rest.split_at(count);
        rest = behind;
        let next = behind.first().map_or(profile.cylinders, |band| band.first_cylinder);
        // Every address needs a sector: where too few cylinders were counted, the inner ones are
        // shifted.
        let from = zones.last().map_or(0, |zone| zone.last_cylinder + 1);
        let counted = next.saturating_sub(first.first_cylinder);
        zones.push(zone(own, from, counted, profile.surfaces));
    }
    zones
}

/// The zone of bands with one grid, from the cylinder `from` on, of `counted` cylinders or as many
/// as the bands need.
fn zone(bands: &[Band], from: u32, counted: u32, surfaces: u32) -> Zone {
    let first = bands[0];
    let track = u64::from(first.sectors_per_track);
    let (track_skew, track_skew_remainder) = skew(first.track_skew, first.sectors_per_track);
    let (cylinder_skew, cylinder_skew_remainder) =
        skew(first.cylinder_skew, first.sectors_per_track);
    let (mut skips, mut track_slips) = (Vec::new(), Vec::new());
    let (mut at, mut angle) = (0, first.first_angle);
    let width = u32::try_from((1_u64 << 32) / track.max(1)).unwrap_or(u32::MAX);
    for band in bands {
        if band.first_sector > at {
            skips.push(Skip { first: at, count: band.first_sector - at });
        }
        // Each slip shifts the layout after it by one sector.
        let shift = (band.first_angle - angle).0.saturating_add(width / 2) / width.max(1);
        track_slips
            .extend((0..shift.min(TRACK_SLIPS_MAX)).map(|_| band.first_sector.div_ceil(track)));
        angle = band.first_angle;
        at = at.max(band.first_sector) + band.lbas.len.0;
    }
    let cylinder = u64::from(surfaces) * track;
    let cylinders = u64::from(counted.max(1)).max(at.div_ceil(cylinder));
    let cylinders = u32::try_from(cylinders).unwrap_or(u32::MAX);
    let sectors = u64::from(cylinders) * cylinder;
    if at < sectors {
        skips.push(Skip { first: at, count: sectors - at });
    }
    Zone {
        first_cylinder: from,
        last_cylinder: from.saturating_add(cylinders - 1),
        sectors_per_track: first.sectors_per_track,
        track_skew,
        cylinder_skew,
        track_skew_remainder,
        cylinder_skew_remainder,
        first_sector_angle: first.first_angle,
        skips,
        track_slips,
        remaps: Vec::new(),
    }
}

/// Track changes in sequential access: whether all of them are in time for the next sector.
///
/// Skews are as short as possible, so that a movement that was measured to take as long as a skew,
/// within the error, is in time; a model that is slower by a microsecond would lose a revolution at
/// each track. Where sequential access is slower than the tracks, some changes are late: they take
/// just as long as the skew.
#[derive(Clone, Copy, Debug)]
struct Changes<'a> {
    profile: &'a Profile,
    late: bool,
}

impl<'a> Changes<'a> {
    /// Of sequential commands from the first sector on.
    fn of(profile: &'a Profile, rates: Option<&Chunks>) -> Self {
        let best =
            rates.into_iter().flat_map(|rates| &rates.points).map(|point| point.drive.0).max();
        let band = &profile.bands[0];
        let skew = |skew: Skew| {
            (u128::from(skew.0) * u128::from(profile.rotation_period.as_nanos())) >> 64
        };
        let heads = u128::from(profile.surfaces);
        let revolutions = heads * u128::from(profile.rotation_period.as_nanos());
        let took = revolutions + (heads - 1) * skew(band.track_skew) + skew(band.cylinder_skew);
        let bytes = heads * u128::from(band.sectors_per_track) * u128::from(SECTOR_BYTES);
        let rate = bytes * 1_000_000_000 / took.max(1);
        // Where the bus is the bottleneck, nothing is known of the tracks.
        let media = profile.rotation_period / u64::from(band.sectors_per_track);
        let least = rate - rate / LATE_PARTS;
        let late = media > profile.bus_sector && best.is_some_and(|best| u128::from(best) < least);
        Self { profile, late }
    }

    /// The time of a movement that has to be done within a skew.
    fn fitted(self, time: Duration, of: fn(&Band) -> Skew) -> Duration {
        let period = u128::from(self.profile.rotation_period.as_nanos());
        let room = |band: &Band| {
            let skew = u128::from(of(band).0) * period;
            let skew = if self.late { skew.div_ceil(1 << 64) } else { skew >> 64 };
            let skew = Duration::from_nanos(u64::try_from(skew).unwrap_or(u64::MAX));
            let sector = self.profile.rotation_period / u64::from(band.sectors_per_track);
            if self.late { skew } else { skew.saturating_sub(sector) }
        };
        let room = self.profile.bands.iter().map(room).min().unwrap_or(time);
        let off = (time / OFF_PARTS).max(OFF_MIN);
        let apart = if self.late {
            time.max(room).saturating_sub(time.min(room))
        } else {
            time.saturating_sub(room)
        };
        if apart <= off && (self.late || time > room) { room } else { time }
    }
}

/// A skew as whole sectors and the remaining angle.
fn skew(skew: Skew, sectors_per_track: u32) -> (u32, Angle) {
    let exact = u128::from(skew.0) * u128::from(sectors_per_track);
    let whole = u32::try_from(exact >> 64).unwrap_or(0);
    let rest = skew.0.wrapping_sub(Skew::of(whole, sectors_per_track).0) >> 32;
    (whole, Angle(u32::try_from(rest).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use units::Lba;

    use super::*;
    use crate::catalogue;
    use crate::profile::assumed::assumed;

    #[test]
    fn a_map_gives_back_the_zones_that_it_was_made_of() {
        for name in catalogue::names() {
            let Some(spec) = catalogue::find_mechanical(name) else { continue };
            let model = spec.check().expect("a drive");
            let known = assumed(&model);
            let again = Spec {
                zones: zones(&known),
                mapping: mapping(&known.bands),
                ..model.spec().clone()
            };
            let again = again.check().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(again.capacity(), model.capacity(), "{name}");
            let step = model.capacity().0 / 4_001 + 1;
            for lba in (0..model.capacity().0).step_by(usize::try_from(step).expect("small")) {
                let (ours, theirs) = (again.position(Lba(lba)), model.position(Lba(lba)));
                let at = (ours.cylinder, ours.surface);
                assert_eq!(at, (theirs.cylinder, theirs.surface), "{name}: {lba}");
                let off = (ours.angle - theirs.angle).0.min((theirs.angle - ours.angle).0);
                assert!(off <= 2 << 22, "{name}: {lba} is off by {off}");
            }
        }
    }
}
