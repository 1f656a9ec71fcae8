//! The firmware's use of buffer and bus, beyond a data sheet.
//!
//! The default is a simple drive: it reads ahead until its buffer is full, waits for sectors that
//! are about to pass the head, keeps writes in separate memory, and has no bus overhead. SCSI
//! drives of the 1990s differ from it and from each other measurably; these values come from
//! extraction.

use units::{Duration, Sectors, Share};

/// How a drive reads ahead, what counts as a hit, and what its bus costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a trait of its own")]
pub struct Firmware {
    /// Where reading ahead stops.
    pub read_ahead: ReadAhead,
    /// Whether a read whose first sector has yet to pass the head is a miss, even if it passes
    /// next.
    pub strict_hits: bool,
    /// Whether a read that is served from the buffer alone leaves the arm at rest.
    pub rest_on_hit: bool,
    /// Whether what was read makes room for what is read ahead, and is not there to be read again.
    pub discard_after_read: bool,
    /// Whether all that passes the head on a track is kept, from where the head came down on it.
    pub whole_track: bool,
    /// Whether a read begins at whichever of its sectors comes first.
    pub zero_latency_read: bool,
    /// Whether a write begins at whichever of its sectors comes first.
    pub zero_latency_write: bool,
    /// Whether writes go through a segment of the read buffer, and can be read there afterwards.
    pub writes_in_segments: bool,
    /// How many runs of cached writes there may be, which go to the disk in the order in which they
    /// came; 0 means that memory alone limits them, and that the disk is swept.
    pub write_segments: u32,
    /// The least time between the decoding of a write and its media's work, unless it goes on where
    /// the write before it ended.
    pub write_seek_min: Duration,
    /// The log on the disk for scattered cached writes, if there is one.
    pub media_cache: Option<MediaCache>,
    /// What the bus costs.
    pub bus: Bus,
}

/// Most records that a log on the disk may hold.
pub const LOG_RECORDS_MAX: u32 = 1 << 24;

/// A log on the disk for scattered cached writes: a vendor's "media cache". Each short run out of
/// the write buffer is appended to it on its own, wherever it belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaCache {
    /// A run of up to this length is logged; a longer one goes to its home location, as does one
    /// that continues where the heads are.
    pub run_max: Sectors,
    /// How long one record occupies the media: one revolution, because the next place has just
    /// passed when the next record is ready, plus the time to prepare it.
    pub append: Duration,
    /// How long a flush takes, after the last record, to make what was logged findable.
    pub close: Duration,
    /// How many records there is room for.
    pub records_max: u32,
    /// The time to write one record back to its home location, while the media are idle.
    pub write_back: Duration,
}

/// Where reading ahead stops, after a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAhead {
    /// When the segment is full; what was asked for stays in it as long as it fills no more than
    /// half.
    #[default]
    Segment,
    /// At once.
    Never,
    /// This number of sectors after the read, in any case.
    Fixed,
    /// At the end of the track, or sooner.
    Track,
    /// At the end of the cylinder, or sooner.
    Cylinder,
    /// At the end of the track; if all of that track before it is in the segment, at the end of the
    /// next.
    TrackAndNext,
}

/// The times of arbitration: to get the bus, to release it, and to request it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bus {
    /// Time for one sector of a write; nothing means as long as for a read.
    pub write_sector: Option<Duration>,
    /// Releasing it after a read command was received, if the previous command was a read.
    pub read_disconnect: Duration,
    /// The same after a write.
    pub read_disconnect_after_write: Duration,
    /// Releasing it after the data of a write.
    pub write_disconnect: Duration,
    /// Requesting the bus again.
    pub reselect: Duration,
    /// What comes before data; beside asking for the bus, where that is needed.
    pub prepare: Duration,
    /// The message that ends a read.
    pub read_done: Duration,
    /// The message that ends a write.
    pub write_done: Duration,
    /// How much of a read must have come off the media before its data goes on the bus.
    pub read_share: Share,
    /// How many sectors of a write must be there before the media begins.
    pub write_ahead: WriteAhead,
    /// The extra cost of a write that follows another write elsewhere.
    pub extra_disconnect: Option<ExtraDisconnect>,
}

/// How many sectors of a write must have crossed the bus before the first goes to the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteAhead {
    /// The first.
    #[default]
    One,
    /// This number, or all of a shorter write; a longer write needs more.
    Sectors {
        /// Of a write of up to `long` sectors.
        short: Sectors,
        /// A write as long as this is a long one.
        long: Sectors,
        /// Of a long write.
        of_long: Sectors,
    },
}

/// The bus is given up once more before the data of a write, when it follows a write elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraDisconnect {
    /// The electronics' part of the command, in place of the usual.
    pub command: Duration,
    /// Releasing the bus.
    pub disconnect: Duration,
    /// The time until it is requested again.
    pub pause: Duration,
    /// Releasing it after the data.
    pub second_disconnect: Duration,
    /// Requesting it to report the end of the write.
    pub second_reselect: Duration,
    /// The delay from the end of the command to the start of the arm movement.
    pub seek_delay: Duration,
}

impl WriteAhead {
    /// Of a write of `len` sectors.
    pub(crate) fn of(self, len: Sectors) -> Sectors {
        match self {
            Self::One => Sectors(len.0.min(1)),
            Self::Sectors { long, of_long, .. } if len >= long => of_long.min(len),
            Self::Sectors { short, .. } => short.min(len),
        }
    }
}

impl Bus {
    /// All its times, for checking.
    pub(crate) fn times(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        let extra = self.extra_disconnect.unwrap_or_default();
        [
            ("write_sector", self.write_sector.unwrap_or_default()),
            ("read_disconnect", self.read_disconnect),
            ("read_disconnect_after_write", self.read_disconnect_after_write),
            ("write_disconnect", self.write_disconnect),
            ("reselect", self.reselect),
            ("prepare", self.prepare),
            ("read_done", self.read_done),
            ("write_done", self.write_done),
            ("extra_disconnect.command", extra.command),
            ("extra_disconnect.disconnect", extra.disconnect),
            ("extra_disconnect.pause", extra.pause),
            ("extra_disconnect.second_disconnect", extra.second_disconnect),
            ("extra_disconnect.second_reselect", extra.second_reselect),
            ("extra_disconnect.seek_delay", extra.seek_delay),
        ]
        .into_iter()
    }

    /// The most that the bus adds to a command, besides its data.
    pub(crate) fn longest(&self) -> Duration {
        self.times().map(|(_, time)| time).sum()
    }
}
