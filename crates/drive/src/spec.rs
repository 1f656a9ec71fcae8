//! The description of a drive, as a plain value from a file, an importer or a test.
//!
//! A [`Spec`] is unchecked. [`Spec::check`] makes a [`Model`](crate::Model) of it or names the
//! invalid field and what is accepted.

use units::{Angle, Duration, Sectors};

use crate::firmware::Firmware;

/// Most surfaces (heads) a drive may have.
pub const SURFACES_MAX: u32 = 64;
/// Most zones a drive may have.
pub const ZONES_MAX: usize = 1_024;
/// Most cylinders a drive may have: the seek curve is kept as a table, one entry a distance.
pub const CYLINDERS_MAX: u32 = 1 << 22;
/// Most sectors a track may have.
pub const SECTORS_PER_TRACK_MAX: u32 = 1 << 20;
/// Most read segments a drive may have: they are searched one by one.
pub const SEGMENTS_MAX: u32 = 64;
/// Most commands a drive may hold.
pub const QUEUE_DEPTH_MAX: u32 = 256;
/// The longest seek, head switch, settle or overhead: a longer value is a typing error.
pub const MOVE_MAX: Duration = Duration::from_secs(4);
/// The longest age limit: hosts give a command up after 30 s.
pub const AGE_LIMIT_MAX: Duration = Duration::from_secs(60);
/// The shortest revolution (600,000 rpm).
pub const PERIOD_MIN: Duration = Duration::from_micros(100);
/// The longest revolution (60 rpm).
pub const PERIOD_MAX: Duration = Duration::from_secs(1);

/// A drive as its data sheet, its profile or its author describes it. Unchecked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// One revolution of the spindle; see [`Spec::period_of_rpm`].
    pub period: Duration,
    /// Recording surfaces, which is heads.
    pub surfaces: u32,
    /// In which order the surfaces of a cylinder are filled.
    pub mapping: Mapping,
    /// From the outside in: cylinder 0 first, no gaps.
    pub zones: Vec<Zone>,
    /// Time to move the arm, for reads.
    pub seek: SeekCurve,
    /// Time to move the arm for writes, where it is known apart; else that for reads.
    pub seek_write: Option<SeekCurve>,
    /// Time to change to another surface. It runs beside a seek: the longer of the two counts.
    pub head_switch: Duration,
    /// Added to every arm movement and head switch that ends in a write.
    pub write_settle: Duration,
    /// What the electronics take before each command, if the command before it was a read (or
    /// none).
    pub overheads: Overheads,
    /// The same after a write.
    pub overheads_after_write: Overheads,
    /// Time for one sector on the bus.
    pub bus_sector: Duration,
    /// Memory that holds what was read and what is read ahead.
    pub read_buffer: ReadBuffer,
    /// Memory for writes that were answered and are not yet on the disk; none means write through.
    pub write_buffer: Sectors,
    /// Whether writes are answered out of that memory.
    pub write_cache: bool,
    /// Most commands the drive holds at once, with the one it works on.
    pub queue_depth_max: u32,
    /// In which order it serves them.
    pub discipline: Discipline,
    /// What its firmware does beyond that.
    pub firmware: Firmware,
    /// What else there is to know of its arm.
    pub arm: Arm,
}

/// How far an arm's movements can be commanded and predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arm {
    /// Whether the drive has a command that moves the arm and transfers nothing, as SCSI's SEEK.
    pub seek_command: bool,
    /// The standard deviation of a movement's time about the seek curve; nothing for an arm that is
    /// always on time.
    pub variation: Duration,
}

/// In which order a drive serves the commands that wait in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// As they came.
    #[default]
    Fifo,
    /// What memory can serve, then what the arm reaches first, wherever the disk has rotated.
    ShortestSeek(Choosing),
    /// What memory can serve, then whatever comes under the heads first.
    ShortestPositioning(Choosing),
}

/// How a drive chooses, and how long it lets commands wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choosing {
    /// A command that has waited for this time is served before all that arrived after it.
    pub age_limit: Duration,
    /// How long the arm stays with a running read-ahead after a command was served from it, though
    /// others wait: the stream's next command may be on its way. Commands that the buffers can
    /// serve continue meanwhile.
    pub stream_hold: Duration,
    /// The time between the head position that a choice is based on and the choice's effect. A
    /// sector that passes in this time costs a revolution, although the choice expected to reach
    /// it. Zero for an ideal drive.
    pub decision_latency: Duration,
}

impl Discipline {
    /// How it chooses; nothing if commands go as they came.
    pub const fn choosing(self) -> Option<Choosing> {
        match self {
            Self::Fifo => None,
            Self::ShortestSeek(choosing) | Self::ShortestPositioning(choosing) => Some(choosing),
        }
    }
}

/// In which order consecutive sectors fill the surfaces of consecutive cylinders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mapping {
    /// Surface 0 to the last on every cylinder.
    #[default]
    Cylinder,
    /// Up on even and down on odd cylinders, counted from the first of the zone.
    SerpentineZone,
    /// Up on even and down on odd cylinders, counted from the first of the disk.
    Serpentine,
}

/// Cylinders with equally many sectors on every track.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// The outermost cylinder of the zone.
    pub first_cylinder: u32,
    /// The innermost cylinder of the zone.
    pub last_cylinder: u32,
    /// Physical sectors on each track, spares with them.
    pub sectors_per_track: u32,
    /// Sectors by which a track begins later than the one before it on the same cylinder.
    pub track_skew: u32,
    /// Sectors by which the first track of a cylinder begins later than the last of the cylinder
    /// before.
    pub cylinder_skew: u32,
    /// The part of the track skew beyond whole sectors.
    pub track_skew_remainder: Angle,
    /// The part of the cylinder skew beyond whole sectors.
    pub cylinder_skew_remainder: Angle,
    /// Where the first sector of the zone begins.
    pub first_sector_angle: Angle,
    /// Physical sectors that hold no data, in order: spares, slipped defects, reserved tracks.
    pub skips: Vec<Skip>,
    /// The tracks from which on all tracks of the zone begin one sector later, because a slipped
    /// sector before them shifts the layout. They are numbered from the zone's first track in the
    /// order of addresses, and rise; a track after two slips is listed twice.
    pub track_slips: Vec<u64>,
    /// Defects that were found later: their data is kept elsewhere. In order.
    pub remaps: Vec<Remap>,
}

/// Physical sectors whose data is kept on others that hold no data of their own. Both are counted
/// as in [`Skip`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remap {
    /// The first that is not used.
    pub from: u64,
    /// The first that is used in its place.
    pub to: u64,
    /// How many there are in a row.
    pub count: u64,
}

/// A run of physical sectors that have no address. Sectors are counted from the first of the zone,
/// track after track in the order in which they are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The first of them.
    pub first: u64,
    /// How many there are.
    pub count: u64,
}

/// Time to move the arm, against the distance. Linear between points and beyond the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeekCurve {
    /// Distance in cylinders, at least 1 and rising, and the time of a seek over it.
    pub points: Vec<(u32, Duration)>,
    /// By how much a point may lie under the one before it. Nothing for a drawn curve; a measured
    /// one scatters.
    pub fall_max: Duration,
}

/// What the electronics take, per command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// A read out of the buffer.
    pub read_hit: Duration,
    /// A read off the disk.
    pub read_miss: Duration,
    /// A write into the buffer.
    pub write_cached: Duration,
    /// A write onto the disk.
    pub write_media: Duration,
    /// A flush or a trim.
    pub control: Duration,
}

/// Segments of memory for reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadBuffer {
    /// How many runs of sectors are held; 0 means that nothing is read ahead or kept.
    pub segments: u32,
    /// The length of each.
    pub segment: Sectors,
    /// How far past the last sector asked for the drive reads on, at most.
    pub read_ahead_max: Sectors,
}

impl Spec {
    /// The rotation period of a disk at `rpm`, rounded down to a nanosecond; zero (which no check
    /// passes) at 0 rpm.
    pub fn period_of_rpm(rpm: u32) -> Duration {
        Duration::from_nanos(60_000_000_000_u64.checked_div(u64::from(rpm)).unwrap_or(0))
    }
}

impl Zone {
    /// The cylinders of the zone; none if they are the wrong way round.
    pub(crate) fn cylinders(&self) -> u64 {
        (u64::from(self.last_cylinder) + 1).saturating_sub(u64::from(self.first_cylinder))
    }
}
