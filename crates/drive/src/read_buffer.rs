//! The read buffer: segments of sectors that were read, one of which the drive may still read ahead
//! into.
//!
//! A [`Stream`] reads ahead into a segment after a read. It is computed on demand, without events
//! of its own. Invariant: a segment's sectors are contiguous, and only the stream's segment grows.

use units::{Extent, Instant, Lba, Sectors};

use crate::Model;
use crate::firmware::ReadAhead;
use crate::mechanism::Mechanism;
use crate::spec::SECTORS_PER_TRACK_MAX;

/// What a read finds in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing of use.
    Miss,
    /// All of it.
    All,
    /// The stream is just before it or in it.
    Arriving,
    /// Its head, up to this address, in a segment that no longer grows.
    Head(usize, Lba),
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    start: Lba,
    end: Lba,
    /// The number of the read that last used it.
    used: u64,
    /// Whether it holds what was written.
    written: bool,
}

/// The media reading on.
#[derive(Clone, Copy, Debug)]
struct Stream {
    segment: usize,
    /// The first address that has not passed the head.
    next: Lba,
    limit: Lba,
    /// Where the limit stays, however much room there is.
    boundary: Lba,
    /// Until then the arm is not given to the destaging of writes.
    hold: Instant,
}

/// All segments, and the stream into one of them.
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

    /// Until when the stream keeps the arm from background work, if there is one.
    pub(crate) fn hold(&self) -> Option<Instant> {
        self.stream.map(|stream| stream.hold)
    }

    /// Whether the stream still has something to read.
    pub(crate) fn is_reading(&self) -> bool {
        self.stream.is_some_and(|stream| stream.next < stream.limit)
    }

    /// Reads on until `at`.
    pub(crate) fn advance(&mut self, model: &Model, mechanism: &mut Mechanism, at: Instant) {
        if self.is_reading() && at > mechanism.free() {
            self.go_on(model, mechanism, Lba(u64::MAX), Some(at));
        }
    }

    fn go_on(
        &mut self,
        model: &Model,
        mechanism: &mut Mechanism,
        until: Lba,
        stop: Option<Instant>,
    ) {
        let Some(stream) = &mut self.stream else { return };
        let limit = stream.limit.min(until);
        stream.next = mechanism.read_on(model, stream.next, limit, stop);
        let segment = &mut self.segments[stream.segment];
        segment.end = stream.next;
        let oldest = segment.end.0.saturating_sub(model.read_buffer().segment.0);
        segment.start = segment.start.max(Lba(oldest));
    }

    /// Ends the stream at once: another operation moves the arm.
    pub(crate) fn stop(&mut self) {
        self.stream = None;
    }

    /// What a read of `extent` finds.
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
            // What the stream reaches on this track is waited for: to seek there would take no
            // less.
            let segment = self.segments[stream.segment];
            let ahead = extent.start.0.saturating_sub(stream.next.0);
            let reach =
                || ahead <= u64::from(SECTORS_PER_TRACK_MAX) && ahead <= stream.on_track(model);
            let arriving = if model.firmware().strict_hits {
                // What stands still has to be sought, and what has yet to come is no hit.
                extent.start < stream.next && stream.next < stream.limit
            } else {
                extent.start <= stream.next || reach()
            };
            if extent.start >= segment.start && arriving {
                return Found::Arriving;
            }
        }
        head
    }

    /// A read of `extent` at `at` was found [`Found::All`]: keeps its segment, and lets the stream
    /// go on.
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
        self.consume(model, extent);
    }

    /// A read of `extent` at `at` was found [`Found::Arriving`]: waits for its last sector.
    pub(crate) fn arrive(
        &mut self,
        model: &Model,
        mechanism: &mut Mechanism,
        extent: Extent,
        at: Instant,
    ) {
        self.reads += 1;
        self.extend(model, mechanism, extent, at);
        self.go_on(model, mechanism, extent.end(), None);
        if let Some(stream) = self.stream {
            self.segments[stream.segment].used = self.reads;
        }
    }

    /// What the host has taken makes room for more: the stream's limit goes on with it.
    fn extend(&mut self, model: &Model, mechanism: &mut Mechanism, extent: Extent, at: Instant) {
        let Some(stream) = &mut self.stream else { return };
        let rests = stream.next >= stream.limit;
        if !rests || !model.firmware().rest_on_hit {
            stream.boundary = boundary(model, extent, self.segments[stream.segment].start);
        }
        let limit = room(model, extent).min(stream.boundary);
        if rests && limit > stream.limit {
            // It stood still, full, and the disk has rotated meanwhile.
            mechanism.rest_until(model.rotation(), at);
        }
        stream.limit = stream.limit.max(limit);
    }

    /// A read of `extent` came off the media, of which `from` on was not in segment `head` before:
    /// keeps it, and reads on.
    ///
    /// `passed` sectors came by on the track before the first that was asked for.
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
        let limit = room(model, extent).min(boundary).max(extent.end());
        self.stream = Some(Stream {
            segment: index,
            next: extent.end(),
            limit,
            boundary,
            hold: Instant::ZERO,
        });
    }

    /// `extent` was taken in as a write, through a segment where the firmware does so.
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

    /// What the host has read makes room for what is read ahead, where the firmware keeps no more
    /// of it.
    fn consume(&mut self, model: &Model, extent: Extent) {
        for segment in &mut self.segments {
            let has = segment.start <= extent.start && extent.end() <= segment.end;
            if has && model.firmware().discard_after_read && !segment.written {
                segment.start = extent.end();
            }
        }
    }

    /// The segment least recently used.
    fn oldest(&self) -> usize {
        let mut oldest = 0;
        for (index, segment) in self.segments.iter().enumerate() {
            if segment.used < self.segments[oldest].used {
                oldest = index;
            }
        }
        oldest
    }

    /// Keeps the arm with the stream until `at`, if there is a stream.
    pub(crate) fn hold_until(&mut self, at: Instant) {
        if let Some(stream) = &mut self.stream {
            stream.hold = stream.hold.max(at);
        }
    }

    /// `extent` is about to be written: what is buffered of it and behind it is out of date.
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
    /// How many addresses are left on the track that is being read.
    fn on_track(&self, model: &Model) -> u64 {
        if self.next.0 >= model.capacity().0 { 0 } else { model.place(self.next).run }
    }
}

/// Where the disk makes an end of reading on after a read of `extent` into a segment that begins at
/// `start`.
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

/// How far the segment has room for what is read on after a read of `extent`: what the host has yet
/// to ask for is not overwritten.
fn room(model: &Model, extent: Extent) -> Lba {
    let buffer = model.read_buffer();
    let ahead = extent.end() + buffer.read_ahead_max;
    match model.firmware().read_ahead {
        ReadAhead::Segment => {
            // What was asked for stays, so that it can be asked for again; but no more than half of
            // the segment, as a long read must be read ahead of, too.
            let half = extent.end() + Sectors(buffer.segment.0 / 2);
            ahead.min((extent.start + buffer.segment).max(half))
        }
        ReadAhead::TrackAndNext => extent.end() + buffer.segment,
        _ => ahead,
    }
}
