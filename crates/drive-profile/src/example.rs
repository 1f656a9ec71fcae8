//! A small disk with round numbers, for tests of this crate and of the crates that use profiles.

use units::{Angle, Duration, Extent, Lba, Sectors};

use crate::{
    Band, BufferSegments, CommandOverheads, Extremes, HeadOrder, Profile, SeekTable, Skew,
};

/// A disk of one zone for tests: 2 heads, 1,000 cylinders, 100 sectors per track, 10 ms per
/// revolution.
pub fn example_profile() -> Profile {
    let points = vec![(1, Duration::from_millis(1)), (999, Duration::from_millis(11))];
    Profile {
        rotation_period: Duration::from_millis(10),
        rotation_error_ppb: 0,
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
            chunk_read: Sectors(50),
            chunk_write: Sectors(50),
        }],
        seek: SeekTable { points: points.clone() },
        seek_write: SeekTable { points },
        seek_variation: Duration::ZERO,
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
