//! The memory of a disk's read-ahead: the bytes of the segments that [`engine::ReadAhead`] names.

use std::collections::BTreeMap;

use engine::{
    Outcome, ReadAhead, ReadAheadAction, ReadAheadSettings, ReadAheadUsage, Request, SegmentId,
    ServedBy, VolumeId,
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
    /// `None` without memory.
    pub(crate) fn new(settings: ReadAheadSettings) -> Option<Self> {
        (settings.memory > Sectors::ZERO).then(|| Self {
            ahead: ReadAhead::new(settings),
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

    /// The engine prefetches this for the volume.
    pub(crate) fn prefetch_started(&mut self, volume: VolumeId, extent: Extent) {
        self.ahead.prefetch_started(volume, extent);
    }

    /// The prefetch in progress has ended, with these bytes.
    pub(crate) fn prefetch_ended(&mut self, (outcome, data): (Outcome, Vec<u8>), now: Instant) {
        if let Some(segment) = self.ahead.prefetch_ended(outcome, now) {
            let before = self.segments.insert(segment, Segment::Held(data));
            assert!(before.is_none(), "a segment is filled once");
        }
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

#[cfg(test)]
mod tests {
    use engine::RequestId;
    use engine::limits::READ_AHEAD_MEMORY_MIN;
    use units::{Lba, Operation};

    use super::*;

    const VOLUME: VolumeId = VolumeId(0);

    fn extent(start: u64, len: u64) -> Extent {
        Extent::new(Lba(start), Sectors(len))
    }

    fn request(id: u64, operation: Operation) -> Request {
        Request { id: RequestId(id), volume: VOLUME, operation }
    }

    /// Each sector's bytes are its number, and `salt`.
    fn bytes(of: Extent, salt: u8) -> Vec<u8> {
        let byte = |sector: u64| u8::try_from(sector % 200).expect("a byte") + salt;
        (of.start.0..of.end().0).flat_map(|sector| [byte(sector); 512]).collect()
    }

    /// The memory of a client that has read sectors 0 to 31 in order, in which the 100 behind them
    /// are prefetched.
    fn prefetched() -> HostReadAhead {
        let (memory, prefetches) = (READ_AHEAD_MEMORY_MIN, true);
        let settings = ReadAheadSettings { memory, requests: false, prefetches };
        let mut ahead = HostReadAhead::new(settings).expect("it has memory");
        let (now, within) = (Instant::ZERO, Some(extent(0, 10_000)));
        let mut offers = Vec::new();
        for id in 0..4 {
            let read = request(id, Operation::read(extent(8 * id, 8)));
            assert_eq!(ahead.submit(&read, within, now), ServedBy::Disk);
            ahead.answered(&read, now);
            offers.extend(std::iter::from_fn(|| ahead.poll(now)));
        }
        let Some(ReadAheadAction::Offer { extent: Some(offer), .. }) = offers.last() else {
            panic!("{offers:?}")
        };
        let (first, _) = offer.split_at(Sectors(100));
        assert_eq!(first.start, Lba(32), "behind the client's position");
        ahead.prefetch_started(VOLUME, first);
        ahead.prefetch_ended((Outcome::Done, bytes(first, 1)), now);
        ahead
    }

    #[test]
    fn a_client_reads_the_bytes_that_were_prefetched_for_it() {
        let mut ahead = prefetched();
        let wanted = extent(40, 50);
        let read = request(9, Operation::read(wanted));
        let served = ahead.submit(&read, Some(extent(0, 10_000)), Instant::ZERO);
        assert_eq!(served, ServedBy::Memory);
        let mut data = Vec::new();
        ahead.copy(wanted, |_| unreachable!("nothing is in flight"), &mut data);
        assert_eq!(data, bytes(wanted, 1));
        assert_eq!(ahead.usage(VOLUME).prefetched_used, Sectors(50), "what was read alone counts");
    }

    #[test]
    fn what_is_overwritten_is_not_read_from_what_was_prefetched() {
        let mut ahead = prefetched();
        let within = Some(extent(0, 10_000));
        let write = request(9, Operation::write(extent(60, 8)));
        assert_eq!(ahead.submit(&write, within, Instant::ZERO), ServedBy::Disk);
        ahead.answered(&write, Instant::ZERO);
        while ahead.poll(Instant::ZERO).is_some() {}
        let before = request(10, Operation::read(extent(32, 28)));
        assert_eq!(ahead.submit(&before, within, Instant::ZERO), ServedBy::Memory);
        let overwritten = request(11, Operation::read(extent(60, 8)));
        assert_eq!(ahead.submit(&overwritten, within, Instant::ZERO), ServedBy::Disk);
    }
}
