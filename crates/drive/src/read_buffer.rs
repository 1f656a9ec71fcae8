//! The read buffer: segments of sectors that were read, one of which may still receive read-ahead.
//!
//! A [`Stream`] is the read-ahead into a segment after a read. It is computed on demand, without
//! events of its own. Invariant: a segment's sectors are contiguous, and only the stream's segment
//! grows.

use units::{Extent, Instant, Lba, Sectors};

use crate::Model;
use crate::firmware::ReadAhead;
use crate::mechanism::Mechanism;
use crate::spec::SECTORS_PER_TRACK_MAX;

/// The part of a read that the buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// None.
    Miss,
    /// All of it.
    All,
    /// The rest is on its way: the stream has reached the read, or reaches it on this track.
    Arriving,
    /// Its first sectors, up to this address, in the segment of this index, which does not grow.
    Head(usize, Lba),
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    start: Lba,
    end: Lba,
    /// The number of the read that last used it.
    used: u64,
    /// Whether its sectors come from writes.
    written: bool,
}

/// The read-ahead.
#[derive(Clone, Copy, Debug)]
struct Stream {
    segment: usize,
    /// The first address that has not passed the head.
    next: Lba,
    /// The address at which the read-ahead stops, unless a hit extends it.
    limit: Lba,
    /// The address at which it waits for space while the last read is on its way to the host.
    full: Lba,
    /// The instant at which the host has the last read.
    served: Instant,
    /// The instant before which destaging does not move the arm.
    hold: Instant,
}

/// All segments, and the read-ahead into one of them.
#[derive(Clone, Debug)]
pub(crate) struct ReadBuffer {
    segments: Box<[Segment]>,
    stream: Option<Stream>,
    reads: u64,
}

impl ReadBuffer {
    pub(crate) fn new(model: &Model) -> Self {
        let empty = Segment { start: Lba(0), end: Lba(0), used: 0, written: false };
        let count = model.read_buffer().segments as usize;
        Self { segments: vec![empty; count].into_boxed_slice(), stream: None, reads: 0 }
    }

    /// The instant before which destaging does not interrupt the stream, if there is one.
    pub(crate) fn hold(&self) -> Option<Instant> {
        self.stream.map(|stream| stream.hold)
    }

    /// Whether the stream is below its limit.
    pub(crate) fn is_reading(&self) -> bool {
        self.stream.is_some_and(|stream| stream.next < stream.limit)
    }

    /// Continues the read-ahead until `at`.
    pub(crate) fn advance(&mut self, model: &Model, mechanism: &mut Mechanism, at: Instant) {
        if self.is_reading() && at > mechanism.free() {
            self.read_ahead(model, mechanism, Lba(u64::MAX), Some(at));
        }
    }

    fn read_ahead(
        &mut self,
        model: &Model,
        mechanism: &mut Mechanism,
        until: Lba,
        stop: Option<Instant>,
    ) {
        let Some(stream) = &mut self.stream else { return };
        let limit = stream.limit.min(until);
        stream.next = mechanism.read_ahead(model, stream.next, limit.min(stream.full), stop);
        let waited = stop.is_none_or(|at| at > stream.served);
        if stream.next >= stream.full && stream.next < limit && waited {
            // The disk rotates while the segment is full.
            mechanism.rest_until(model.rotation(), stream.served);
            stream.full = stream.limit;
            stream.next = mechanism.read_ahead(model, stream.next, limit, stop);
        }
        let segment = &mut self.segments[stream.segment];
        segment.end = stream.next;
        let oldest = segment.end.0.saturating_sub(model.read_buffer().segment.0);
        segment.start = segment.start.max(Lba(oldest));
    }

    /// Ends the stream, because another operation moves the arm.
    pub(crate) fn stop(&mut self) {
        self.stream = None;
    }

    /// The part of a read of `extent` that the buffer holds.
    pub(crate) fn find(&self, model: &Model, extent: Extent) -> Found {
        let mut head = Found::Miss;
        for (index, segment) in self.segments.iter().enumerate() {
            if extent.start < segment.start || extent.start > segment.end {
                continue;
            }
            if extent.end() <= segment.end {
                return Found::All;
            }
            let touches = extent.start == segment.end && model.firmware().strict_hits;
            if segment.end > segment.start && !touches {
                head = Found::Head(index, segment.end);
            }
        }
        if let Some(stream) = self.stream {
            // A read waits for sectors that the stream reaches on this track: a seek to them would
            // take no less time.
            let segment = self.segments[stream.segment];
            let ahead = extent.start.0.saturating_sub(stream.next.0);
            let reach =
                || ahead <= u64::from(SECTORS_PER_TRACK_MAX) && ahead <= stream.on_track(model);
            let is_stopped = stream.next >= stream.limit;
            let arriving = if model.firmware().strict_hits {
                // A stopped stream needs a seek, and a sector that has not passed is no hit.
                extent.start < stream.next && !is_stopped
            } else {
                let goes_on = !is_stopped || !model.firmware().rest_on_hit;
                goes_on && (extent.start <= stream.next || reach())
            };
            if extent.start >= segment.start && arriving {
                return Found::Arriving;
            }
        }
        head
    }

    /// Serves a read of `extent` at `at` that was found [`Found::All`]: marks its segment as used
    /// and extends the stream.
    pub(crate) fn hit(
        &mut self,
        model: &Model,
        mechanism: &mut Mechanism,
        extent: Extent,
        at: Instant,
    ) {
        self.reads += 1;
        for segment in &mut self.segments {
            if extent.start >= segment.start && extent.end() <= segment.end {
                segment.used = self.reads;
            }
        }
        if let Some(stream) = self.stream {
            let segment = self.segments[stream.segment];
            if extent.start >= segment.start && extent.end() <= segment.end {
                self.extend(model, mechanism, extent, at);
            }
        }
        self.discard_read(model, extent);
    }

    /// Serves a read of `extent` at `at` that was found [`Found::Arriving`]: continues the stream
    /// to its last sector.
    pub(crate) fn arrive(
        &mut self,
        model: &Model,
        mechanism: &mut Mechanism,
        extent: Extent,
        at: Instant,
    ) {
        self.reads += 1;
        self.extend(model, mechanism, extent, at);
        self.read_ahead(model, mechanism, extent.end(), None);
        if let Some(stream) = self.stream {
            self.segments[stream.segment].used = self.reads;
        }
    }

    /// Raises the stream's limit: the sectors that the host has read free space in the segment.
    fn extend(&mut self, model: &Model, mechanism: &mut Mechanism, extent: Extent, at: Instant) {
        let Some(stream) = &mut self.stream else { return };
        let is_stopped = stream.next >= stream.limit;
        if is_stopped && model.firmware().rest_on_hit {
            return;
        }
        let boundary = boundary(model, extent, self.segments[stream.segment].start);
        let limit = space_end(model, extent).min(boundary);
        if is_stopped && limit > stream.limit {
            // The stream had stopped at its limit, and the disk has rotated since.
            mechanism.rest_until(model.rotation(), at);
        }
        stream.limit = stream.limit.max(limit);
        stream.full = full(model, extent).max(stream.next);
    }

    /// Keeps a read of `extent` from the media, whose first sectors were in segment `head` before,
    /// and begins the read-ahead.
    ///
    /// `passed` sectors passed the head on the track before the first sector of the read.
    pub(crate) fn fill(&mut self, model: &Model, extent: Extent, head: Option<usize>, passed: u64) {
        self.reads += 1;
        self.stream = None;
        if self.segments.is_empty() {
            return;
        }
        let index = head.unwrap_or_else(|| self.oldest());
        let oldest = Lba(extent.end().0.saturating_sub(model.read_buffer().segment.0));
        let segment = &mut self.segments[index];
        let start = match head {
            Some(_) => segment.start,
            None if model.firmware().whole_track => {
                let track = model.track(extent.start).start;
                track.max(Lba(extent.start.0.saturating_sub(passed)))
            }
            None => extent.start,
        };
        *segment = Segment {
            start: start.max(oldest),
            end: extent.end(),
            used: self.reads,
            written: false,
        };
        let boundary = boundary(model, extent, segment.start).max(extent.end());
        let limit = space_end(model, extent).min(boundary).max(extent.end());
        self.stream = Some(Stream {
            segment: index,
            next: extent.end(),
            limit,
            full: full(model, extent).max(extent.end()),
            served: Instant::ZERO,
            hold: Instant::ZERO,
        });
    }

    /// Keeps the sectors of a write of `extent`, if the firmware passes writes through segments.
    pub(crate) fn written(&mut self, model: &Model, extent: Extent) {
        if !model.firmware().writes_in_segments || self.segments.is_empty() {
            return;
        }
        self.reads += 1;
        self.stream = None;
        let appended = |segment: &Segment| segment.written && segment.end == extent.start;
        let index = self.segments.iter().position(appended).unwrap_or_else(|| self.oldest());
        let oldest = Lba(extent.end().0.saturating_sub(model.read_buffer().segment.0));
        let segment = &mut self.segments[index];
        let start = if appended(segment) { segment.start } else { extent.start };
        *segment = Segment {
            start: start.max(oldest),
            end: extent.end(),
            used: self.reads,
            written: true,
        };
    }

    /// Discards the sectors of `extent`, which the host has read, if the firmware does so.
    fn discard_read(&mut self, model: &Model, extent: Extent) {
        for segment in &mut self.segments {
            let has = segment.start <= extent.start && extent.end() <= segment.end;
            if has && model.firmware().discard_after_read && !segment.written {
                segment.start = extent.end();
            }
        }
    }

    /// The least recently used segment.
    fn oldest(&self) -> usize {
        let mut oldest = 0;
        for (index, segment) in self.segments.iter().enumerate() {
            if segment.used < self.segments[oldest].used {
                oldest = index;
            }
        }
        oldest
    }

    /// The host has the last read at `at`; destaging does not interrupt the stream, if there is
    /// one, until `hold`.
    pub(crate) fn served(&mut self, at: Instant, hold: Instant) {
        if let Some(stream) = &mut self.stream {
            stream.served = at;
            stream.hold = stream.hold.max(hold);
        }
    }

    /// Discards the sectors of `extent`, which is about to be written, and the segment's sectors
    /// behind it.
    pub(crate) fn invalidate(&mut self, model: &Model, extent: Extent) {
        let whole = model.firmware().strict_hits;
        for segment in &mut self.segments {
            if segment.start < extent.end() && extent.start < segment.end {
                let kept = if whole { segment.start } else { extent.start };
                segment.end = segment.end.min(kept).max(segment.start);
                if segment.end == segment.start {
                    segment.used = 0;
                }
            }
        }
        if let Some(stream) = &mut self.stream {
            if self.segments[stream.segment].end < stream.next {
                self.stream = None;
            } else if extent.start < stream.limit && extent.end() > stream.next {
                stream.limit = extent.start;
            }
        }
    }
}

impl Stream {
    /// The number of addresses from the stream's next one to the end of the track.
    fn on_track(&self, model: &Model) -> u64 {
        if self.next.0 >= model.capacity().0 { 0 } else { model.place(self.next).run }
    }
}

/// The address at which the firmware's policy ends the read-ahead after a read of `extent` into a
/// segment that begins at `start`.
fn boundary(model: &Model, extent: Extent, start: Lba) -> Lba {
    let disk = Lba(model.capacity().0);
    let last = Lba(extent.end().0 - 1);
    if extent.end() == disk {
        return disk;
    }
    match model.firmware().read_ahead {
        ReadAhead::Segment | ReadAhead::Fixed => disk,
        ReadAhead::Never => extent.end(),
        ReadAhead::Track => model.track(last).end(),
        ReadAhead::Cylinder => model.cylinder(last).end(),
        ReadAhead::TrackAndNext => {
            let track = model.track(extent.end());
            let next = start < track.start && track.end() < disk;
            if next { model.track(track.end()).end() } else { track.end() }
        }
    }
}

/// The address at which a segment that is filled without a policy's boundary is full while a read
/// of `extent` is on its way to the host.
fn full(model: &Model, extent: Extent) -> Lba {
    match model.firmware().read_ahead {
        ReadAhead::Fixed => extent.start + model.read_buffer().segment,
        _ => Lba(u64::MAX),
    }
}

/// The address up to which the segment has space for read-ahead after a read of `extent`, without
/// overwriting sectors that the host has not read.
fn space_end(model: &Model, extent: Extent) -> Lba {
    let buffer = model.read_buffer();
    let ahead = extent.end() + buffer.read_ahead_max;
    match model.firmware().read_ahead {
        ReadAhead::Segment => {
            // The sectors of the read stay for the next read of them, but in no more than half of
            // the segment: the other half is for read-ahead.
            let half = extent.end() + Sectors(buffer.segment.0 / 2);
            ahead.min((extent.start + buffer.segment).max(half))
        }
        ReadAhead::TrackAndNext => extent.end() + buffer.segment,
        _ => ahead,
    }
}
