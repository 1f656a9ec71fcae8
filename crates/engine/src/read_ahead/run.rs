//! A run: a position in a volume from which reads go on in order, and what was read ahead of it.

use std::collections::VecDeque;

use units::{Bytes, Duration, Extent, Instant, Lba, Sectors};

use super::interface::SegmentId;
use crate::VolumeId;
use crate::limits::{READ_AHEAD_REQUEST_MAX, READ_AHEAD_REQUEST_MIN};
use crate::request::RequestId;

/// A run without a read for this long gives its memory to others.
pub(super) const RUN_IDLE: Duration = Duration::from_secs(1);
/// The time for which a run's client is to be served from the memory: positioning is paid once in
/// it, and what is read in vain is at most what the client would have read in it.
const HORIZON: Duration = Duration::from_secs(2);
/// A client that could read more than this in a second does not wait for its own pauses, but for
/// the drive: they are less than a fifth of the time in which drives with positioning transfer as
/// much.
const FAST_BYTES_PER_S: Bytes = Bytes(2 << 30);
/// A client that is read ahead is fast at this many times the rate. Between the two it stays as it
/// is: a client whose reads come from the memory and from the drive in turn is served by neither.
const FAST_AHEAD: u64 = 4;
/// A client that sends this many reads in succession before the one before is answered, each as
/// long as a request of the read-ahead, keeps the drive busy itself. What is read ahead of it goes
/// to the drive twice: 4 reads of 1 MiB at a time beside 16 random ones had 0.82 of their half of
/// hgst-7k8, and 0.98 without. Bursts are shorter. Of short reads many become one long request,
/// however many are outstanding.
const OVERLAPPED_READS: u32 = 64;
const SECOND: Duration = Duration::from_secs(1);
/// The EWMA divisor of the pauses between reads.
const PAUSE_DIVISOR: u64 = 8;

/// A run, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RunId(pub(super) u32);

/// How a segment is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilledBy {
    /// By a request of the read-ahead.
    Request,
    /// By a request for the rest of a client's read whose first sectors are in memory.
    RestOfRead,
    /// By a prefetch in a rotational wait.
    Prefetch,
}

/// What one request or one prefetch fills.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) volume: VolumeId,
    /// The run that it belongs to; `None` if it is not needed any more.
    pub(super) run: Option<RunId>,
    pub(super) filled_by: FilledBy,
    pub(super) extent: Extent,
    /// The end of what was transferred without a gap.
    pub(super) filled: Lba,
    /// Transfers behind a gap: several commands in the drive complete in any order.
    later: Vec<Extent>,
    /// The end of what no write has overlapped.
    pub(super) valid: Lba,
    /// Sectors that the client has read.
    pub(super) taken: Sectors,
    pub(super) in_flight: bool,
    /// Whether its sectors are among those that were read ahead for its volume.
    pub(super) is_counted: bool,
}

impl Segment {
    pub(super) fn new(
        (volume, run): (VolumeId, RunId),
        filled_by: FilledBy,
        extent: Extent,
    ) -> Self {
        assert!(!extent.is_empty(), "a segment has sectors");
        Self {
            volume,
            run: Some(run),
            filled_by,
            extent,
            filled: extent.start,
            later: Vec::new(),
            valid: extent.end(),
            taken: Sectors::ZERO,
            in_flight: true,
            is_counted: false,
        }
    }

    /// The end of what may be read from it.
    pub(super) fn end(&self) -> Lba {
        debug_assert!(self.filled >= self.extent.start, "it is filled from its start on");
        self.filled.min(self.valid)
    }

    /// Notes a transfer.
    pub(super) fn transferred(&mut self, extent: Extent) {
        debug_assert!(extent.start >= self.filled, "no sector is transferred twice");
        self.later.push(extent);
        while let Some(next) = self.later.iter().position(|extent| extent.start == self.filled) {
            self.filled = self.later.swap_remove(next).end();
        }
        debug_assert!(self.filled <= self.extent.end(), "a transfer lies in its request");
    }

    /// Counts the sectors of a client's read that lie here.
    pub(super) fn take(&mut self, extent: Extent) -> Sectors {
        let start = self.extent.start.max(extent.start);
        let end = self.end().min(extent.end());
        let sectors = if start < end { between(start, end) } else { Sectors::ZERO };
        self.taken += sectors;
        debug_assert!(self.taken <= self.extent.len, "each sector is read once");
        sectors
    }
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) volume: VolumeId,
    /// Where the client's next read begins.
    pub(super) position: Lba,
    /// The end of what was read ahead or is in flight; the position if there is nothing.
    pub(super) ahead: Lba,
    /// Where reading ahead ends.
    pub(super) bounds: Extent,
    /// In the order of their sectors.
    pub(super) segments: VecDeque<SegmentId>,
    pub(super) last_read: Instant,
    /// When the last read was answered; `None` if it is outstanding.
    pub(super) answered: Option<Instant>,
    /// Long reads in succession that came while the one before was outstanding.
    overlapped: u32,
    /// The write that overlaps what was read ahead and is not answered.
    pub(super) blocked_by: Option<RequestId>,
    /// How far is read ahead of the position.
    window: Sectors,
    /// Whether reading goes on until the window is full.
    is_filling: bool,
    /// Whether its client was slow enough, the last time that it was looked at.
    is_slow: bool,
    /// The mean pause between two reads, in nanoseconds; `None` before the first.
    pause: Option<u64>,
    read: Sectors,
}

impl Run {
    pub(super) fn new(volume: VolumeId, position: Lba, bounds: Extent, now: Instant) -> Self {
        debug_assert!(bounds.start <= position, "a run begins within its bounds");
        debug_assert!(position <= bounds.end(), "and ends there");
        Self {
            volume,
            position,
            ahead: position,
            bounds,
            segments: VecDeque::new(),
            last_read: now,
            answered: None,
            overlapped: 0,
            blocked_by: None,
            window: READ_AHEAD_REQUEST_MIN,
            is_filling: false,
            is_slow: false,
            pause: None,
            read: Sectors(1),
        }
    }

    /// Whether its client has read lately.
    pub(super) fn is_active(&self, now: Instant) -> bool {
        debug_assert!(self.last_read <= now, "a run was read in the past");
        now.since(self.last_read) < RUN_IDLE
    }

    /// Notes a read that continues the run.
    pub(super) fn access(&mut self, extent: Extent, is_alone: bool, now: Instant) {
        let last = self.answered.filter(|_| is_alone);
        let pause = last.map(|last| now.since(last).min(HORIZON).as_nanos());
        if let Some(pause) = pause {
            let mean = self.pause.unwrap_or(pause);
            let rest = mean - mean / PAUSE_DIVISOR;
            self.pause = Some(rest + pause / PAUSE_DIVISOR);
        }
        debug_assert!(!extent.is_empty(), "a read has sectors");
        let overlaps = self.answered.take().is_none() && extent.len >= READ_AHEAD_REQUEST_MIN;
        self.overlapped = if overlaps { self.overlapped.saturating_add(1) } else { 0 };
        (self.last_read, self.read) = (now, extent.len);
    }

    /// Begins again with a short window.
    pub(super) fn reset_window(&mut self) {
        (self.window, self.is_filling) = (READ_AHEAD_REQUEST_MIN, false);
        debug_assert!(self.window <= READ_AHEAD_REQUEST_MAX, "a short window is one request");
    }

    /// The length of the next request, if it is time for one. The run may have `share` of the
    /// memory.
    pub(super) fn wanted(&mut self, share: Sectors) -> Option<Sectors> {
        let left = between(self.ahead.min(self.bounds.end()), self.bounds.end());
        // Long reads pay for their positioning themselves.
        let is_long = self.read.0 > READ_AHEAD_REQUEST_MAX.0 / 2;
        let is_busy = self.overlapped >= OVERLAPPED_READS || self.is_fast();
        if self.blocked_by.is_some() || left == Sectors::ZERO || is_long || is_busy {
            return None;
        }
        let ahead = between(self.position, self.ahead);
        let most = self.most(share);
        self.window = self.window.min(most);
        if !self.is_filling {
            if ahead.0 > self.window.0 / 2 {
                return None;
            }
            self.is_filling = true;
            self.window = Sectors(self.window.0 * 2).min(most);
        }
        if ahead >= self.window {
            self.is_filling = false;
            return None;
        }
        let request = Sectors(self.window.0 / 2).max(READ_AHEAD_REQUEST_MIN);
        let len = Sectors((self.window - ahead).0.next_multiple_of(self.read.0));
        let len = len.min(request).min(READ_AHEAD_REQUEST_MAX);
        debug_assert!(len.0 > 0, "a request has sectors");
        Some(len.min(left))
    }

    /// Whether its client pauses so little that the drive alone bounds it: the drive's own
    /// read-ahead serves it.
    fn is_fast(&mut self) -> bool {
        let Some(pause) = self.pause else { return false };
        let rate = u128::from(self.read.bytes().0) * u128::from(SECOND.as_nanos());
        debug_assert!(rate > 0, "a read has sectors");
        let times = if self.is_slow { FAST_AHEAD } else { 1 };
        self.is_slow = rate <= u128::from(FAST_BYTES_PER_S.0 * times) * u128::from(pause);
        !self.is_slow
    }

    /// The longest window: what the client reads in the horizon, at least two reads, within its
    /// share of the memory.
    pub(super) fn most(&self, share: Sectors) -> Sectors {
        let pause = u128::from(self.pause.unwrap_or(HORIZON.as_nanos()).max(1));
        let wanted = u128::from(self.read.0) * u128::from(HORIZON.as_nanos()) / pause;
        let wanted = Sectors(u64::try_from(wanted).unwrap_or(u64::MAX));
        debug_assert!(share >= READ_AHEAD_REQUEST_MIN, "a share holds a request");
        // What a client has read of a segment is released with all of it.
        let share = Sectors(share.0 - share.0 / 4).max(READ_AHEAD_REQUEST_MIN);
        wanted.max(Sectors(self.read.0 * 2)).max(READ_AHEAD_REQUEST_MIN).min(share)
    }
}

/// The sectors from one to the other.
fn between(start: Lba, end: Lba) -> Sectors {
    debug_assert!(start <= end, "from the lower to the higher");
    Sectors(end.0 - start.0)
}
