//! The parameters of a drive's firmware that a data sheet does not state: buffer policies, bus
//! protocol.
//!
//! The default is a simple drive. It reads ahead until its buffer is full, waits for sectors that
//! are about to pass the head, keeps writes in separate memory, and has no bus overhead. SCSI
//! drives of the 1990s differ from it and from each other measurably; the library's values for
//! them were extracted from such drives.

use units::{Duration, Sectors, Share};

/// The policies of read-ahead, cache hits and cached writes, and the times of the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a policy of its own")]
pub struct Firmware {
    /// The end of read-ahead.
    pub read_ahead: ReadAhead,
    /// Whether a read is a miss if its first sector has not passed the head yet. Otherwise a read
    /// of sectors that are about to pass waits for them and is a hit.
    pub strict_hits: bool,
    /// Whether read-ahead that has reached its limit stays there after a hit. Otherwise a hit
    /// extends the limit.
    pub rest_on_hit: bool,
    /// Whether the sectors of a read leave the segment when the read is done, in favour of
    /// read-ahead.
    pub discard_after_read: bool,
    /// Whether a read buffers all sectors that pass the head on its track, from the sector at which
    /// the head settles.
    pub whole_track: bool,
    /// Whether a read begins with the first of its sectors to pass the head.
    pub zero_latency_read: bool,
    /// Whether a write begins with the first of its sectors to pass the head.
    pub zero_latency_write: bool,
    /// Whether writes pass through a segment of the read buffer and stay readable there.
    pub writes_in_segments: bool,
    /// The largest number of runs of cached writes, which are destaged in the order of arrival. 0
    /// means that the size of the write buffer is the only limit and that destaging sweeps the
    /// disk.
    pub write_segments: u32,
    /// The shortest time between the decoding of a write and its first access to the media. A
    /// write that continues the write before it is exempt.
    pub write_seek_min: Duration,
    /// The segments of a write buffer that is emptied before a read, if the drive has such a
    /// buffer. They replace `write_segments`.
    pub destage_before_read: Option<DestageBeforeRead>,
    /// The log on the disk for scattered cached writes, if the drive has one.
    pub media_cache: Option<MediaCache>,
    /// The times of the bus protocol.
    pub bus: Bus,
}

/// A write buffer of segments, each of which holds one run of cached writes. The runs go to the
/// disk in the order of their position, and all of them before a read that needs the media and
/// before a forced write: such a command waits for several seeks (FAST 2003 §3.1.3, external
/// waiting).
///
/// A write that continues the run that goes to the disk at the time is accepted as the media take
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DestageBeforeRead {
    /// The number of segments.
    pub runs: u32,
    /// The length of a segment. A longer write goes to the media at once.
    pub run_max: Sectors,
}

/// The largest number of records of a log on the disk.
pub const LOG_RECORDS_MAX: u32 = 1 << 24;

/// A log on the disk for scattered cached writes: a vendor's "media cache". Each short run of the
/// write buffer is appended to it as one record, whatever its addresses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaCache {
    /// The longest run that is logged. A longer run goes to its home location, as does a run that
    /// begins at the position of the heads.
    pub run_max: Sectors,
    /// The time for which one record occupies the media: its preparation, and one revolution,
    /// because the end of the log has just passed the head when the next record is ready.
    pub append: Duration,
    /// The time that a flush takes after the last record, to write the index of the log.
    pub close: Duration,
    /// The largest number of records in the log.
    pub records_max: u32,
    /// The time to write one record back to its home location, while the media are idle.
    pub write_back: Duration,
}

/// Where the read-ahead that follows a read stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAhead {
    /// When the segment is full. The sectors of the read stay in the segment if they fill at most
    /// half of it.
    #[default]
    Segment,
    /// At once.
    Never,
    /// After the largest number of sectors of read-ahead, also across tracks and cylinders. Sectors
    /// that are on their way to the host are not overwritten meanwhile.
    Fixed,
    /// At the end of the track, or before it when the largest read-ahead is reached.
    Track,
    /// At the end of the cylinder, or before it when the largest read-ahead is reached.
    Cylinder,
    /// At the end of the track. If the segment holds the whole track, at the end of the next track.
    TrackAndNext,
}

/// The times of the bus protocol: disconnecting from the bus, reselecting it, messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bus {
    /// The time for one sector of a write; `None` if it equals that of a read.
    pub write_sector: Option<Duration>,
    /// Disconnecting after a read command was received, if the previous command was a read.
    pub read_disconnect: Duration,
    /// Disconnecting after a read command was received, if the previous command was a write.
    pub read_disconnect_after_write: Duration,
    /// Disconnecting after the data of a write.
    pub write_disconnect: Duration,
    /// Reselecting the bus.
    pub reselect: Duration,
    /// The preparation of a data transfer. It runs in parallel with a reselection.
    pub prepare: Duration,
    /// The message that ends a read.
    pub read_done: Duration,
    /// The message that ends a write.
    pub write_done: Duration,
    /// The share of a read that has left the media before its data goes on the bus.
    pub read_share: Share,
    /// The number of sectors of a write that are in the buffer before the media begins.
    pub write_ahead: WriteAhead,
    /// The additional times of a write that follows a write of other addresses, if the drive
    /// disconnects once more before its data.
    pub extra_disconnect: Option<ExtraDisconnect>,
}

/// The number of sectors of a write that have crossed the bus before the first goes to the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteAhead {
    /// One.
    #[default]
    One,
    /// A number that depends on the length of the write. A shorter write is complete before.
    Sectors {
        /// The number of sectors of a write shorter than `long`.
        short: Sectors,
        /// The length from which a write is a long one.
        long: Sectors,
        /// The number of sectors of a long write.
        of_long: Sectors,
    },
}

/// An additional disconnection before the data of a write that follows a write of other addresses.
///
/// ```text
/// command | disconnect | pause | reselect | data | second disconnect | media | second reselect
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraDisconnect {
    /// The command overhead, in place of that of other writes to the media.
    pub command: Duration,
    /// Disconnecting from the bus.
    pub disconnect: Duration,
    /// The time from the disconnection to the reselection.
    pub pause: Duration,
    /// Disconnecting after the data.
    pub second_disconnect: Duration,
    /// Reselecting the bus to report the end of the write.
    pub second_reselect: Duration,
    /// The delay from the end of the command to the start of the arm movement.
    pub seek_delay: Duration,
}

impl Firmware {
    /// Whether a write into an empty buffer begins to go to the media while it comes over the bus.
    pub(crate) const fn begins_writes_at_once(&self) -> bool {
        self.write_segments > 0 || self.destage_before_read.is_some()
    }
}

impl WriteAhead {
    /// The number for a write of `len` sectors.
    pub(crate) fn of(self, len: Sectors) -> Sectors {
        match self {
            Self::One => Sectors(len.0.min(1)),
            Self::Sectors { long, of_long, .. } if len >= long => of_long.min(len),
            Self::Sectors { short, .. } => short.min(len),
        }
    }
}

impl Bus {
    /// Each time with the key of the drive file, for checking.
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

    /// The longest time that the bus adds to a command, besides that of its data.
    pub(crate) fn longest(&self) -> Duration {
        self.times().map(|(_, time)| time).sum()
    }
}
