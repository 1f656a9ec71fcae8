//! Small drives for the tests of this crate, whose every figure can be worked out by hand.

use units::{Angle, Duration, Sectors};

use crate::firmware::{Firmware, MediaCache};
use crate::spec::{Discipline, Mapping, Overheads, ReadBuffer, SeekCurve, Spec, Zone};

/// A log whose records take a revolution of the small drive and 1 ms.
pub(crate) const LOG: MediaCache = MediaCache {
    run_max: Sectors(16),
    append: Duration::from_millis(11),
    close: Duration::from_millis(20),
    records_max: 40,
    write_back: Duration::from_millis(15),
};

/// Two zones, four surfaces, a revolution of 10 ms: a sector of the outer zone takes 50 µs.
pub(crate) fn small() -> Spec {
    let zone = |first_cylinder, last_cylinder, sectors_per_track, track_skew, cylinder_skew| Zone {
        first_cylinder,
        last_cylinder,
        sectors_per_track,
        track_skew,
        cylinder_skew,
        first_sector_angle: Angle::ZERO,
        skips: Vec::new(),
        ..Zone::default()
    };
    let overheads = Overheads {
        read_hit: Duration::from_micros(100),
        read_miss: Duration::from_micros(300),
        write_cached: Duration::from_micros(150),
        write_media: Duration::from_micros(250),
        control: Duration::from_micros(50),
    };
    Spec {
        period: Duration::from_millis(10),
        surfaces: 4,
        mapping: Mapping::Cylinder,
        zones: vec![zone(0, 59, 200, 30, 40), zone(60, 99, 150, 25, 30)],
        seek: SeekCurve {
            points: vec![(1, Duration::from_millis(1)), (99, Duration::from_micros(10_800))],
            fall_max: Duration::ZERO,
        },
        seek_write: None,
        head_switch: Duration::from_micros(800),
        write_settle: Duration::from_micros(400),
        overheads,
        overheads_after_write: overheads,
        bus_sector: Duration::from_micros(5),
        read_buffer: ReadBuffer {
            segments: 4,
            segment: Sectors(512),
            read_ahead_max: Sectors(512),
        },
        write_buffer: Sectors(256),
        write_cache: true,
        queue_depth_max: 32,
        discipline: Discipline::Fifo,
        firmware: Firmware::default(),
        arm: crate::Arm::default(),
    }
}
