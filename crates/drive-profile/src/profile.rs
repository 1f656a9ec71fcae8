//! The profile of a drive.

use units::{Duration, Lba, Sectors, Share};

use crate::band::Band;
use crate::bus::BusShare;
use crate::seek::SeekTable;

/// What is known of one disk. FAST 2003 §3.4 lists what semi-preemptible IO needs of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// One revolution of the spindle.
    pub rotation_period: Duration,
    /// The uncertainty of `rotation_period`, in parts per billion.
    pub rotation_error_ppb: u32,
    /// Heads.
    pub surfaces: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// Where sectors lie, in the order of their addresses, without gaps from address 0 on.
    pub bands: Vec<Band>,
    /// Time to move the arm before a read.
    pub seek: SeekTable,
    /// Time to move the arm before a write, its settle time included.
    pub seek_write: SeekTable,
    /// The standard deviation of single seeks about the curves.
    pub seek_variation: Duration,
    /// Time to change to another head; it overlaps with a seek.
    pub head_switch: Duration,
    /// What a head switch before a write takes in addition.
    pub write_settle: Duration,
    /// The time between a command's arrival at the drive and its effect.
    pub overheads: CommandOverheads,
    /// One sector's time on the bus.
    pub bus_sector: Duration,
    /// From the moment when the last sector of a read has passed under the head to the command's
    /// completion.
    pub completion: Duration,
    /// Whether the drive has a command that moves the arm and transfers nothing.
    pub seek_command: bool,
    /// Whether writes are acknowledged from the write buffer.
    pub write_cache: bool,
    /// The memory for what was read and read ahead.
    pub read_buffer: BufferSegments,
    /// The inputs of [`Profile::worst_case`].
    pub extremes: Extremes,
}

/// The drive's memory for what was read and read ahead. The default is a drive of which nothing is
/// known: then no read is expected to be served from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferSegments {
    /// The number of sequential runs that it holds.
    pub segments: u32,
    /// The most sectors of one run.
    pub segment: Sectors,
    /// The sectors that the drive certainly reads on behind a read, across tracks and cylinders,
    /// until another command moves the arm, and of which a read that arrives meanwhile waits for
    /// the rest. Zero if it stops earlier, or if that is not known.
    pub read_ahead: Sectors,
    /// The most sectors that it reads on: what a prediction expects, and no bound relies on.
    pub read_ahead_max: Sectors,
}

/// The time between a command's arrival at the drive and its effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandOverheads {
    /// A read from the drive's cache: until its data is on the bus.
    pub hit: Duration,
    /// A read from the media: until the arm moves.
    pub read: Duration,
    /// A write into the drive's write buffer: until it accepts data.
    pub cached: Duration,
    /// A write to the media: until the arm moves.
    pub write: Duration,
    /// A seek command: until the arm moves.
    pub seek: Duration,
}

/// Maxima that a bound on the service time needs beside the expected values that predictions use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extremes {
    /// The longest time that electronics and bus messages take for one command, whatever preceded
    /// it.
    pub command: Duration,
    /// One sector of a write on the bus.
    pub bus_sector_write: Duration,
    /// The part of a read that has left the media before its data goes on the bus.
    pub read_share: Share,
    /// Sectors of a write that have crossed the bus before the first goes to the media.
    pub write_ahead: Sectors,
    /// Runs of sectors, on the whole disk, that lie elsewhere than the bands say (remapped
    /// sectors): each costs a seek there and back.
    pub detours: u64,
    /// The bus that the disk shares with others; `None`: it has its own, whose time is in the other
    /// fields.
    pub bus: Option<BusShare>,
}

impl Profile {
    /// The number of logical blocks that the profile covers.
    pub fn capacity(&self) -> Sectors {
        self.bands.last().map_or(Sectors::ZERO, |band| Sectors(band.lbas.end().0))
    }

    /// The profile of the same drive slowed to `share` of its speed: every time is divided by the
    /// share and rounded up.
    ///
    /// # Panics
    /// If the share is zero.
    #[must_use]
    pub fn slowed(self, share: Share) -> Self {
        let slow = |time| share.stretched(time);
        let curve = |table: SeekTable| SeekTable {
            points: table.points.into_iter().map(|(at, time)| (at, slow(time))).collect(),
        };
        let CommandOverheads { hit, read, cached, write, seek } = self.overheads;
        Self {
            rotation_period: slow(self.rotation_period),
            seek: curve(self.seek),
            seek_write: curve(self.seek_write),
            seek_variation: slow(self.seek_variation),
            head_switch: slow(self.head_switch),
            write_settle: slow(self.write_settle),
            overheads: CommandOverheads {
                hit: slow(hit),
                read: slow(read),
                cached: slow(cached),
                write: slow(write),
                seek: slow(seek),
            },
            bus_sector: slow(self.bus_sector),
            completion: slow(self.completion),
            extremes: Extremes {
                command: slow(self.extremes.command),
                bus_sector_write: slow(self.extremes.bus_sector_write),
                ..self.extremes
            },
            ..self
        }
    }

    /// Whether this is a profile of a disk.
    ///
    /// # Errors
    /// The property that it lacks.
    pub fn check(&self) -> Result<(), &'static str> {
        let mut next = Lba(0);
        let (mut in_a_row, mut chunks) = (true, true);
        for band in &self.bands {
            in_a_row &= band.lbas.start == next && !band.lbas.is_empty();
            in_a_row &= band.sectors_per_track > 0;
            chunks &= band.chunk_read.0 > 0 && band.chunk_write.0 > 0;
            next = band.lbas.end();
        }
        let increasing = self.seek.is_increasing() && self.seek_write.is_increasing();
        let checks = [
            (self.rotation_period > Duration::ZERO, "a disk that rotates"),
            (self.surfaces > 0 && self.cylinders > 0, "a disk with tracks"),
            (!self.bands.is_empty(), "a disk with sectors"),
            (in_a_row, "bands with sectors that follow one another"),
            (chunks, "chunks of at least one sector"),
            (increasing, "seek distances that increase"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, expected)| Err(expected))
    }

    /// Asserts [`Profile::check`]: code that makes a profile from outside data checks it there.
    ///
    /// # Panics
    /// If this is not a profile of a disk.
    pub fn assert_valid(&self) {
        assert_eq!(self.check(), Ok(()), "a profile describes a disk");
    }
}
