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
use units::{Duration, Extent, FULL_REVOLUTION, Instant, Lba, Op, Operation, Sectors};

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

/// How far the drive reads on behind a read of `len`: where it goes on until the arm moves, as far
/// as the segment has room beside the read, of which it keeps no more than half a segment.
fn read_ahead_after(profile: &Profile, len: Sectors) -> Sectors {
    let buffer = profile.read_buffer;
    debug_assert!(buffer.read_ahead <= buffer.read_ahead_max, "more than is certain");
    if buffer.read_ahead == Sectors::ZERO {
        return buffer.read_ahead_max;
    }
    let room = buffer.segment.0.saturating_sub(len.0).max(buffer.segment.0 / 2);
    buffer.read_ahead_max.min(Sectors(room))
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

    /// Whether the drive certainly reads ahead until `at`, if no command comes before.
    pub(crate) fn is_growing(&self, profile: &Profile, at: Instant) -> bool {
        let is_certain = profile.read_buffer.read_ahead > Sectors::ZERO;
        debug_assert!(!is_certain || !self.segments.is_empty(), "it reads into a segment");
        let growing = |growth: &Growth| growth.reached(profile, at) < growth.limit;
        is_certain && self.growth.as_ref().is_some_and(growing)
    }

    /// A command that moves the arm is issued at `now`: the read-ahead ends. If the drive reads on
    /// until the arm moves, that is when the command is decoded.
    pub(crate) fn stop_for(&mut self, profile: &Profile, operation: &Operation, now: Instant) {
        let decoding = match operation.op {
            _ if profile.read_buffer.read_ahead == Sectors::ZERO => Duration::ZERO,
            Op::Read => profile.overheads.read,
            Op::Seek => profile.overheads.seek,
            Op::Write | Op::WriteZeroes | Op::Flush | Op::Trim => Duration::ZERO,
        };
        debug_assert!(decoding < profile.rotation_period * 2, "a command is decoded soon");
        self.stop(profile, now + decoding);
    }

    /// The arm moves at `now`: the read-ahead ends.
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
        let ahead = read_ahead_after(profile, extent.len);
        let limit = Lba(extent.end().0.saturating_add(ahead.0).min(profile.capacity().0));
        if is_hit {
            self.used(profile, extent, limit, now);
            return;
        }
        self.stop(profile, now);
        let index = self.continued(extent).unwrap_or_else(|| self.oldest());
        let segment = &mut self.segments[index];
        let on = segment.start <= extent.start && extent.start <= segment.end && segment.used > 0;
        let start = if on { segment.start } else { extent.start };
        *segment = Segment { start, end: extent.end(), used };
        segment.keep(profile.read_buffer.segment);
        let media = profile.transfer_time(extent);
        let lag = profile.completion + (profile.bus_sector * extent.len.0).saturating_sub(media);
        let (segment, from, since) = (index, extent.end(), now.saturating_sub(lag));
        self.growth = Some(Growth { segment, from, since, limit });
        debug_assert!(limit >= from, "read-ahead goes forwards");
    }

    /// The buffer has served a read of `extent`. Its segment was used, and the read-ahead into it
    /// goes on to `limit`; if no segment should have it, that one had grown further which ended
    /// nearest in front of it.
    fn used(&mut self, profile: &Profile, extent: Extent, limit: Lba, now: Instant) {
        debug_assert!(limit >= extent.end(), "read-ahead goes forwards");
        let (used, len) = (self.reads, profile.read_buffer.segment);
        if let Some(growth) = &mut self.growth {
            let segment = &mut self.segments[growth.segment];
            let reached = growth.reached(profile, now);
            if segment.start <= extent.start && extent.start <= reached {
                if reached >= growth.limit || reached < extent.end() {
                    // It begins again, or was further than expected.
                    (growth.from, growth.since) = (reached.max(extent.end()), now);
                }
                growth.limit = growth.limit.max(limit);
                (segment.end, segment.used) = (reached.max(extent.end()), used);
                segment.keep(len);
                return;
            }
        }
        let growing = self.growth.map(|growth| growth.segment);
        let still = |index: usize| Some(index) != growing;
        let mut is_held = false;
        for (_, segment) in self.segments.iter_mut().enumerate().filter(|(index, _)| still(*index))
        {
            if segment.start <= extent.start && extent.end() <= segment.end {
                (segment.used, is_held) = (used, true);
            }
        }
        if is_held {
            return;
        }
        let far = profile.read_buffer.read_ahead_max;
        let grown = self.segments.iter_mut().enumerate().filter(|(index, segment)| {
            still(*index)
                && segment.start < segment.end
                && segment.start <= extent.start
                && extent.end().0 <= segment.end.0.saturating_add(far.0)
        });
        if let Some((_, segment)) = grown.max_by_key(|(_, segment)| segment.end) {
            (segment.end, segment.used) = (extent.end(), used);
            segment.keep(len);
        }
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
    /// How far the media have passed at `now`: the sectors of each track, and the angles between
    /// one track and the next.
    fn reached(&self, profile: &Profile, now: Instant) -> Lba {
        debug_assert!(self.limit.0 <= profile.capacity().0, "read-ahead stays on the disk");
        let elapsed = u128::from(now.saturating_since(self.since).as_nanos());
        let sweep =
            elapsed * u128::from(FULL_REVOLUTION) / u128::from(profile.rotation_period.as_nanos());
        let mut sweep = u64::try_from(sweep).unwrap_or(u64::MAX);
        let (mut at, mut end) = (self.from, None);
        while at < self.limit {
            let address = profile.locate(at);
            let change = end.map_or(0, |end| u64::from((address.angle - end).0));
            let track = address.run.0 * u64::from(address.sector.0);
            if sweep < change + track {
                let passed = sweep.saturating_sub(change) / u64::from(address.sector.0);
                return self.limit.min(at + Sectors(passed));
            }
            sweep -= change + track;
            at = at + address.run;
            end = Some(profile.end_of(Extent::new(Lba(at.0 - 1), Sectors(1))).angle);
        }
        self.limit.max(self.from)
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

    /// The read-ahead goes on into the segment of the run whose reads it follows, while reads of
    /// another run are served from theirs.
    #[test]
    fn a_hit_of_another_run_leaves_the_read_ahead_where_it_is() {
        for (first, second) in [(0, 9_000), (9_000, 0)] {
            let profile = profile();
            let mut buffer = ReadSegments::new(&profile);
            buffer.read(&profile, extent(first, 8), false, at(10));
            buffer.stop(&profile, at(20));
            buffer.read(&profile, extent(second, 8), false, at(30));
            buffer.read(&profile, extent(first + 8, 50), true, at(31));
            buffer.stop(&profile, at(36));
            // 6 ms of a track of 100 sectors a revolution of 10 ms.
            let grown = extent(second + 8, 55);
            assert_eq!(buffer.missing(&profile, grown, at(36)), None, "{first}, {second}");
        }
    }

    /// A read that the buffer serves though it should have ended in front of it shows that the
    /// drive had read further.
    #[test]
    fn a_hit_that_was_not_expected_extends_the_segment_in_front_of_it() {
        let profile = profile();
        let mut buffer = ReadSegments::new(&profile);
        buffer.read(&profile, extent(0, 8), false, at(10));
        buffer.stop(&profile, at(11));
        let served = extent(8, 50);
        assert!(buffer.missing(&profile, served, at(12)).is_some(), "one ms is ten sectors");
        buffer.read(&profile, served, true, at(12));
        assert_eq!(buffer.missing(&profile, served, at(13)), None);
    }

    /// Where the drive reads on until the arm moves, that is after it has decoded the command.
    #[test]
    fn the_read_ahead_goes_on_while_the_next_command_is_decoded() {
        let mut profile = profile();
        profile.overheads.read = Duration::from_millis(2);
        for (certain, missing) in [(0, Lba(58)), (100, Lba(78))] {
            profile.read_buffer.read_ahead = Sectors(certain);
            let mut buffer = ReadSegments::new(&profile);
            buffer.read(&profile, extent(0, 8), false, at(10));
            let elsewhere = Operation::read(extent(9_000, 8));
            buffer.stop_for(&profile, &elsewhere, at(15));
            assert_eq!(buffer.missing(&profile, extent(8, 100), at(20)), Some(missing));
        }
    }

    #[test]
    fn a_segment_that_is_nearly_full_of_a_read_has_half_of_itself_for_read_ahead() {
        let mut profile = profile();
        profile.read_buffer.read_ahead = Sectors(100);
        let after = |len| read_ahead_after(&profile, Sectors(len));
        assert_eq!([8, 200, 250, 390].map(after), [200, 200, 200, 200].map(Sectors));
        profile.read_buffer.read_ahead_max = Sectors(400);
        let after = |len| read_ahead_after(&profile, Sectors(len));
        assert_eq!([8, 150, 250, 390].map(after), [392, 250, 200, 200].map(Sectors));
    }
}
