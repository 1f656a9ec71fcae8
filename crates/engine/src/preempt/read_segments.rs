//! What the drive's read buffer holds, as far as its profile and the commands sent tell.
//!
//! A read that the buffer serves needs no positioning, and its command must not wait for one: the
//! drive answers it while it goes on reading ahead for another run. The segments here are those of
//! [`drive_profile::BufferSegments`]: each holds consecutive sectors, the least recently used one
//! is replaced, and the one of the last read from the media grows at the pace of the media until
//! another command moves the arm.
//!
//! A prediction that is wrong costs little one way and a revolution the other: a command that is
//! sent at once although the buffer has nothing waits in the drive, as all commands do without
//! just-in-time seeks, while a command that waits although the buffer could serve it loses that
//! time. So what the drive may hold is taken for held.

use drive_profile::Profile;
use units::{Duration, Extent, Instant, Lba, Sectors};

use super::arm::Arm;

/// The most segments that are predicted. A drive with more of them holds at least the last ones.
const SEGMENTS_MAX: u32 = 64;

/// The longest time that a read of `extent` takes if the drive's buffer serves it: before the heads
/// could be halfway from `arm` to its sectors, and those halfway past them. One that takes longer
/// came from the media.
pub(crate) fn hit_time_max(profile: &Profile, arm: &Arm, extent: Extent) -> Duration {
    debug_assert!(!extent.is_empty(), "a read has sectors");
    debug_assert!(extent.end().0 <= profile.capacity().0, "a read lies on the disk");
    let start = profile.locate(extent.start);
    let travel = profile.movement_time((arm.cylinder, arm.surface), &start, false);
    let media = profile.transfer_time(extent);
    profile.overheads.hit + profile.bus_sector * extent.len.0 + travel / 2 + media / 2
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    start: Lba,
    end: Lba,
    /// The number of the read that last used it.
    used: u64,
}

/// The read-ahead into a segment.
#[derive(Clone, Copy, Debug)]
struct Growth {
    segment: usize,
    /// Where it was at `since`, and where it stops.
    from: Lba,
    since: Instant,
    limit: Lba,
}

/// The predicted contents of the drive's read buffer.
#[derive(Debug)]
pub(crate) struct ReadSegments {
    segments: Vec<Segment>,
    growth: Option<Growth>,
    reads: u64,
}

impl ReadSegments {
    /// An empty buffer.
    pub(crate) fn new(profile: &Profile) -> Self {
        let buffer = profile.read_buffer;
        let count = if buffer.segment > Sectors::ZERO { buffer.segments } else { 0 };
        let empty = Segment { start: Lba(0), end: Lba(0), used: 0 };
        let count = count.min(SEGMENTS_MAX) as usize;
        debug_assert!(count <= SEGMENTS_MAX as usize, "segments are bounded");
        Self { segments: vec![empty; count], growth: None, reads: 0 }
    }

    /// The first sector of a read of `extent` that needs the media; `None` if the buffer holds all
    /// of it, or the read-ahead is about to.
    pub(crate) fn missing(&self, profile: &Profile, extent: Extent, now: Instant) -> Option<Lba> {
        debug_assert!(!extent.is_empty(), "a read has sectors");
        let mut missing = extent.start;
        for (index, segment) in self.segments.iter().enumerate() {
            let growth = self.growth.filter(|growth| growth.segment == index);
            let end = growth.map_or(segment.end, |growth| growth.reached(profile, now));
            if segment.start == segment.end || extent.start < segment.start || extent.start > end {
                continue;
            }
            // The read-ahead goes on to the read's end.
            if growth.is_some() || extent.end() <= end {
                return None;
            }
            missing = missing.max(end);
        }
        Some(missing)
    }

    /// Another command moves the arm at `now`: the read-ahead ends.
    pub(crate) fn stop(&mut self, profile: &Profile, now: Instant) {
        let Some(growth) = self.growth.take() else { return };
        let segment = &mut self.segments[growth.segment];
        segment.end = growth.reached(profile, now);
        segment.keep(profile.read_buffer.segment);
        debug_assert!(self.growth.is_none(), "the read-ahead has ended");
    }

    /// A read of `extent` has completed at `now`; `is_hit`: without the media.
    pub(crate) fn read(&mut self, profile: &Profile, extent: Extent, is_hit: bool, now: Instant) {
        if self.segments.is_empty() {
            return;
        }
        debug_assert!(!extent.is_empty(), "a read has sectors");
        self.reads += 1;
        let used = self.reads;
        let ahead = profile.read_buffer.read_ahead_max;
        let limit = Lba(extent.end().0.saturating_add(ahead.0).min(profile.capacity().0));
        if is_hit {
            let growing = self.growth.map(|growth| growth.segment);
            let holds = |segment: &Segment| {
                segment.start <= extent.start && extent.start <= segment.end.max(extent.start)
            };
            if let Some(growth) = &mut self.growth
                && holds(&self.segments[growth.segment])
                && extent.end() <= growth.limit.max(growth.reached(profile, now)).max(limit)
            {
                let reached = growth.reached(profile, now).max(extent.end());
                (growth.from, growth.since) = (reached, now);
                growth.limit = growth.limit.max(limit);
                let segment = &mut self.segments[growth.segment];
                (segment.end, segment.used) = (reached, used);
                segment.keep(profile.read_buffer.segment);
                return;
            }
            let held = self.segments.iter_mut().enumerate().filter(|(index, segment)| {
                Some(*index) != growing
                    && segment.start <= extent.start
                    && extent.end() <= segment.end
            });
            held.for_each(|(_, segment)| segment.used = used);
            return;
        }
        self.stop(profile, now);
        let index = self.continued(extent).unwrap_or_else(|| self.oldest());
        let segment = &mut self.segments[index];
        let on = segment.start <= extent.start && extent.start <= segment.end && segment.used > 0;
        let start = if on { segment.start } else { extent.start };
        *segment = Segment { start, end: extent.end(), used };
        segment.keep(profile.read_buffer.segment);
        let (segment, from, since) = (index, extent.end(), now);
        self.growth = Some(Growth { segment, from, since, limit });
        debug_assert!(limit >= from, "read-ahead goes forwards");
    }

    /// The sectors of `extent` are written: none is held any more.
    pub(crate) fn written(&mut self, extent: Extent) {
        for segment in &mut self.segments {
            if segment.start < extent.end() && extent.start < segment.end {
                segment.end = extent.start.max(segment.start);
            }
        }
        debug_assert!(self.segments.len() <= SEGMENTS_MAX as usize, "segments are bounded");
    }

    /// The segment that ends inside a read, or at its first sector.
    fn continued(&self, extent: Extent) -> Option<usize> {
        debug_assert!(!extent.is_empty(), "a read has sectors");
        self.segments.iter().position(|segment| {
            segment.start < segment.end
                && segment.start <= extent.start
                && extent.start <= segment.end
        })
    }

    fn oldest(&self) -> usize {
        let oldest = self.segments.iter().enumerate().min_by_key(|(_, segment)| segment.used);
        debug_assert!(oldest.is_some(), "there are segments");
        oldest.map_or(0, |(index, _)| index)
    }
}

impl Segment {
    /// Keeps the last `len` sectors.
    fn keep(&mut self, len: Sectors) {
        debug_assert!(len > Sectors::ZERO, "a segment holds sectors");
        self.start = self.start.max(Lba(self.end.0.saturating_sub(len.0)));
    }
}

impl Growth {
    /// How far the media have passed at `now`: at the rate of the track, the change to the next one
    /// included.
    fn reached(&self, profile: &Profile, now: Instant) -> Lba {
        if self.from >= self.limit {
            return self.from;
        }
        let band = profile.band(self.from);
        let per_track = u128::from(band.sectors_per_track);
        let skew = u128::from(band.track_skew.0) * u128::from(profile.rotation_period.as_nanos());
        let track = u128::from(profile.rotation_period.as_nanos()) + (skew >> 64);
        let passed = u128::from(now.saturating_since(self.since).as_nanos()) * per_track / track;
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        debug_assert!(self.limit.0 <= profile.capacity().0, "read-ahead stays on the disk");
        self.limit.min(Lba(self.from.0.saturating_add(passed)))
    }
}

#[cfg(test)]
mod tests {
    use drive_profile::{BufferSegments, example_profile};

    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn extent(start: u64, len: u64) -> Extent {
        Extent::new(Lba(start), Sectors(len))
    }

    fn profile() -> Profile {
        let read_buffer = BufferSegments {
            segments: 2,
            segment: Sectors(400),
            read_ahead: Sectors(200),
            read_ahead_max: Sectors(200),
        };
        Profile { read_buffer, ..example_profile() }
    }

    #[test]
    fn a_run_is_held_as_far_as_the_media_have_passed_when_the_arm_moves() {
        let profile = profile();
        let mut buffer = ReadSegments::new(&profile);
        let missing = |buffer: &ReadSegments, of, now| buffer.missing(&profile, of, at(now));
        assert_eq!(missing(&buffer, extent(0, 8), 0), Some(Lba(0)));
        buffer.read(&profile, extent(0, 8), false, at(10));
        // It goes on to the end of any read that it has reached.
        assert_eq!(missing(&buffer, extent(8, 50), 10), None);
        assert_eq!(missing(&buffer, extent(100, 8), 11), Some(Lba(100)));
        // 11 ms of a revolution and its skew are 100 sectors.
        buffer.stop(&profile, at(21));
        assert_eq!(missing(&buffer, extent(8, 100), 21), None);
        assert_eq!(missing(&buffer, extent(100, 16), 30), Some(Lba(108)));
        buffer.read(&profile, extent(5_000, 8), false, at(30));
        assert_eq!(missing(&buffer, extent(8, 100), 40), None, "the other segment has it");
        buffer.read(&profile, extent(9_000, 8), false, at(40));
        assert_eq!(missing(&buffer, extent(8, 8), 50), Some(Lba(8)), "two segments are all");
    }

    #[test]
    fn a_written_sector_is_not_held_and_an_unknown_buffer_holds_nothing() {
        let profile = profile();
        let mut buffer = ReadSegments::new(&profile);
        buffer.read(&profile, extent(0, 100), false, at(0));
        buffer.stop(&profile, at(0) + Duration::from_micros(1));
        buffer.written(extent(50, 1));
        assert_eq!(buffer.missing(&profile, extent(40, 10), at(1)), None);
        assert_eq!(buffer.missing(&profile, extent(40, 11), at(1)), Some(Lba(50)));
        let unknown = example_profile();
        let mut buffer = ReadSegments::new(&unknown);
        buffer.read(&unknown, extent(0, 100), false, at(0));
        assert_eq!(buffer.missing(&unknown, extent(0, 8), at(1)), Some(Lba(0)));
    }
}
