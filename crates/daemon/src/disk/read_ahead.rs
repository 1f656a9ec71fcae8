//! The memory of a disk's read-ahead: the bytes of the segments that [`engine::ReadAhead`] names.

use std::collections::BTreeMap;

use engine::{
    Outcome, ReadAhead, ReadAheadAction, ReadAheadUsage, Request, SegmentId, ServedBy, VolumeId,
};
use units::{Extent, Instant, Sectors};

use crate::observe::status::ReadAheadStatus;

/// Where the bytes of a segment are.
#[derive(Debug)]
enum Segment {
    /// In the buffer of the open request with this slot.
    InFlight(u64),
    Held(Vec<u8>),
}

/// The read-ahead of one disk.
#[derive(Debug)]
pub(crate) struct HostReadAhead {
    ahead: ReadAhead,
    segments: BTreeMap<SegmentId, Segment>,
    stopped: bool,
}

impl HostReadAhead {
    /// With this much memory; `None` with none.
    pub(crate) fn new(memory: Sectors) -> Option<Self> {
        (memory > Sectors::ZERO).then(|| Self {
            ahead: ReadAhead::new(memory),
            segments: BTreeMap::new(),
            stopped: false,
        })
    }

    /// Says where a request is served. Its volume's sectors are `within`; without them nothing is
    /// read ahead of it.
    pub(crate) fn submit(
        &mut self,
        request: &Request,
        within: Option<Extent>,
        now: Instant,
    ) -> ServedBy {
        self.ahead.submit(request, within.filter(|_| !self.stopped), now)
    }

    /// The next action. A dropped segment's bytes are released.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<ReadAheadAction> {
        loop {
            match self.ahead.poll(now)? {
                ReadAheadAction::Drop(segment) => drop(self.segments.remove(&segment)),
                action => return Some(action),
            }
        }
    }

    /// A segment is filled by the open request with this slot.
    pub(crate) fn started(&mut self, segment: SegmentId, slot: u64) {
        let before = self.segments.insert(segment, Segment::InFlight(slot));
        assert!(before.is_none(), "a segment is filled once");
    }

    /// A part of a segment was read.
    pub(crate) fn progress(&mut self, segment: SegmentId, extent: Extent) {
        self.ahead.progress(segment, extent);
    }

    /// The request that fills a segment is answered, with these bytes.
    pub(crate) fn finished(
        &mut self,
        segment: SegmentId,
        (outcome, data): (Outcome, Vec<u8>),
        now: Instant,
    ) {
        self.segments.insert(segment, Segment::Held(data));
        self.ahead.finished(segment, outcome, now);
    }

    /// A client's request is answered.
    pub(crate) fn answered(&mut self, request: &Request, now: Instant) {
        self.ahead.answered(request, now);
    }

    /// Appends the bytes of a read that is in memory to `data`. `in_flight` returns the buffer of
    /// an open request.
    pub(crate) fn copy<'a>(
        &'a self,
        extent: Extent,
        in_flight: impl Fn(u64) -> &'a [u8],
        data: &mut Vec<u8>,
    ) {
        for part in self.ahead.parts(extent) {
            let bytes = match &self.segments[&part.segment] {
                Segment::InFlight(slot) => in_flight(*slot),
                Segment::Held(bytes) => bytes,
            };
            let start = part.offset.bytes_usize();
            data.extend_from_slice(&bytes[start..start + part.extent.len.bytes_usize()]);
        }
        assert_eq!(data.len(), extent.len.bytes_usize(), "the memory holds all of the read");
    }

    /// A volume is attached, or has another contract: volumes with deadlines are not read ahead.
    pub(crate) fn set_enabled(&mut self, volume: VolumeId, is_enabled: bool) {
        self.ahead.set_enabled(volume, is_enabled);
    }

    pub(crate) fn remove_volume(&mut self, volume: VolumeId) {
        self.ahead.remove_volume(volume);
    }

    /// Removes everything from the memory: a command has failed, or the disk is not what it was.
    pub(crate) fn clear(&mut self) {
        self.ahead.clear();
    }

    /// Nothing more is read ahead.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        self.ahead.clear();
    }

    pub(crate) fn usage(&self, volume: VolumeId) -> ReadAheadUsage {
        self.ahead.usage(volume)
    }

    /// Its memory, and what it has done so far.
    pub(crate) fn status(&self) -> ReadAheadStatus {
        let (memory, used) = (self.ahead.memory().bytes(), self.ahead.used().bytes());
        ReadAheadStatus { memory, used, usage: self.ahead.total() }
    }
}
