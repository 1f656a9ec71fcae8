//! A rotating disk, made of a profile, for tests of preemptible execution. It is no drive model: it
//! has an arm, a write buffer and one run of read-ahead.

use std::collections::BTreeSet;

use drive_profile::{
    Band, BufferSegments, CommandOverheads, Extremes, HeadOrder, Profile, SeekTable, Skew,
};
use spindle_engine::Command;
use units::{Angle, Duration, Extent, Instant, Lba, Op, Sectors};

use super::ms;

/// A disk of one zone: 2 heads, 1,000 cylinders, 100 sectors a track, 10 ms per revolution.
pub fn profile() -> Profile {
    let points = vec![(1, ms(1)), (999, ms(11))];
    Profile {
        rotation_period: ms(10),
        rotation_error_ppb: 20_000,
        surfaces: 2,
        cylinders: 1_000,
        bands: vec![Band {
            lbas: Extent::new(Lba(0), Sectors(200_000)),
            first_sector: 0,
            first_cylinder: 0,
            sectors_per_track: 100,
            track_skew: Skew::of(10, 100),
            cylinder_skew: Skew::of(12, 100),
            first_angle: Angle::ZERO,
            heads: HeadOrder::Up,
            chunk_read: Sectors(16),
            chunk_write: Sectors(16),
        }],
        seek: SeekTable { points: points.clone() },
        seek_write: SeekTable { points },
        seek_variation: Duration::from_micros(300),
        head_switch: Duration::from_micros(800),
        write_settle: Duration::ZERO,
        overheads: CommandOverheads {
            hit: Duration::from_micros(300),
            read: Duration::from_micros(500),
            cached: Duration::from_micros(300),
            write: Duration::from_micros(500),
            seek: Duration::from_micros(200),
        },
        bus_sector: Duration::from_micros(3),
        completion: Duration::from_micros(3),
        seek_command: true,
        write_cache: true,
        read_buffer: BufferSegments::default(),
        extremes: Extremes::default(),
    }
}

/// The disk. It rotates a little slower than its profile says.
pub struct Spinning {
    profile: Profile,
    period: Duration,
    at: (u32, u32),
    /// The sector after the last read.
    read_end: Lba,
    /// Sectors in the write buffer that are not on the media.
    volatile: BTreeSet<u64>,
    /// Sectors that have been written to the media.
    pub durable: BTreeSet<u64>,
    /// By how much successive seeks exceed the profile, in µs, repeated.
    seek_errors: Vec<u64>,
    moves: usize,
}

impl Spinning {
    pub fn new(seek_errors: Vec<u64>) -> Self {
        let profile = profile();
        let period = profile.rotation_period + Duration::from_nanos(50);
        let (volatile, durable) = (BTreeSet::new(), BTreeSet::new());
        let (at, read_end, moves) = ((0, 0), Lba(0), 0);
        Self { profile, period, at, read_end, volatile, durable, seek_errors, moves }
    }

    /// The completion of the command. One command is in flight at a time.
    pub fn serve(&mut self, command: &Command, now: Instant) -> Instant {
        let extent = command.operation.extent;
        let overheads = self.profile.overheads;
        match command.operation.op {
            Op::Flush => {
                self.durable.append(&mut self.volatile);
                now + ms(20)
            }
            Op::Seek => {
                let moved = self.move_to(extent.start);
                now + overheads.seek + moved
            }
            Op::Write if !command.operation.fua => {
                self.volatile.extend(extent.start.0..extent.end().0);
                now + overheads.cached + self.profile.bus_sector * extent.len.0
            }
            Op::Read if extent.start == self.read_end => {
                self.read_end = extent.end();
                now + overheads.hit + self.profile.transfer_time(extent)
            }
            _ => {
                if command.operation.op == Op::Write {
                    self.durable.extend(extent.start.0..extent.end().0);
                }
                let ready = now + overheads.read + self.move_to(extent.start);
                let angle = self.profile.locate(extent.start).angle.time(self.period).as_nanos();
                let period = self.period.as_nanos();
                let swept = ready.as_nanos() % period;
                let wait = (angle + period - swept) % period;
                self.read_end = extent.end();
                let end = self.profile.end_of(extent);
                self.at = (end.cylinder, end.surface);
                let transfer = self.profile.transfer_time(extent);
                ready + Duration::from_nanos(wait) + transfer + self.profile.completion
            }
        }
    }

    fn move_to(&mut self, lba: Lba) -> Duration {
        let to = self.profile.locate(lba);
        let time = self.profile.movement_time(self.at, &to, false);
        self.at = (to.cylinder, to.surface);
        self.moves += 1;
        let error = self.seek_errors[self.moves % self.seek_errors.len()];
        if time == Duration::ZERO { time } else { time + Duration::from_micros(error) }
    }
}
