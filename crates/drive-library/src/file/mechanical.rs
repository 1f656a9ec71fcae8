//! The tables of a mechanical drive's file.

use drive::{
    Arm, Bus, Choosing, Discipline, Firmware, Mapping, Overheads, ReadBuffer, Remap, SeekCurve,
    Skip, Spec, Zone,
};
use serde::Deserialize;
use units::{Angle, Duration};

use super::firmware::{BusTable, FirmwareTable};
use super::kind::Kind;
use super::value::{Size, Time};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DriveFile {
    /// Read before all other keys: see [`super::kind::KindTable`].
    #[serde(rename = "kind")]
    _kind: Option<Kind>,
    rpm: Option<u32>,
    /// Instead of `rpm`, for a drive whose rotation period is not that of a whole number of them.
    period: Option<Time>,
    surfaces: u32,
    #[serde(default)]
    mapping: MappingName,
    head_switch: Time,
    write_settle: Time,
    #[serde(default)]
    seek_command: bool,
    seek_variation: Option<Time>,
    bus_sector: Time,
    write_buffer: Size,
    write_cache: bool,
    queue_depth_max: u32,
    queue: Option<QueueTable>,
    overheads: OverheadsTable,
    overheads_after_write: Option<OverheadsTable>,
    read_buffer: ReadBufferTable,
    seek: SeekTable,
    seek_write: Option<SeekTable>,
    firmware: Option<FirmwareTable>,
    bus: Option<BusTable>,
    zones: Vec<ZoneTable>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum MappingName {
    #[default]
    Cylinder,
    SerpentineZone,
    Serpentine,
}

/// A drive without this table serves its commands in the order of arrival.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueTable {
    order: OrderName,
    age_limit: Option<Time>,
    stream_hold: Option<Time>,
    #[serde(alias = "lead")]
    decision_latency: Option<Time>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OrderName {
    Fifo,
    ShortestSeek,
    ShortestPositioning,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct OverheadsTable {
    read_hit: Time,
    read_miss: Time,
    write_cached: Time,
    write_media: Time,
    control: Time,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadBufferTable {
    segments: u32,
    segment: Size,
    read_ahead_max: Size,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeekTable {
    points: Vec<(u32, Time)>,
    fall_max: Option<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ZoneTable {
    first_cylinder: u32,
    last_cylinder: u32,
    sectors_per_track: u32,
    track_skew: u32,
    cylinder_skew: u32,
    /// In 2⁻³² of a revolution.
    #[serde(default)]
    first_sector_angle: u32,
    /// In 2⁻³² of a revolution.
    #[serde(default, alias = "track_skew_rest")]
    track_skew_remainder: u32,
    /// In 2⁻³² of a revolution.
    #[serde(default, alias = "cylinder_skew_rest")]
    cylinder_skew_remainder: u32,
    /// Pairs of first sector and count.
    #[serde(default)]
    skips: Vec<(u64, u64)>,
    #[serde(default, alias = "turns")]
    track_slips: Vec<u64>,
    /// Triples of first sector, its new location, and count.
    #[serde(default)]
    remaps: Vec<(u64, u64, u64)>,
}

impl DriveFile {
    /// The drive, or the error in its rotation.
    pub(super) fn spec(self) -> Result<Spec, String> {
        let period = match (self.rpm, self.period) {
            (Some(rpm), None) => Spec::period_of_rpm(rpm),
            (None, Some(period)) => period.0,
            (None, None) => return Err("missing field `rpm`, expected rpm or period".into()),
            (Some(_), Some(_)) => return Err("stands beside period, expected one of them".into()),
        };
        let overheads = self.overheads.overheads();
        let bus = self.bus.map_or_else(Bus::default, BusTable::bus);
        let firmware = self.firmware.map_or_else(Firmware::default, FirmwareTable::firmware);
        Ok(Spec {
            period,
            surfaces: self.surfaces,
            mapping: match self.mapping {
                MappingName::Cylinder => Mapping::Cylinder,
                MappingName::SerpentineZone => Mapping::SerpentineZone,
                MappingName::Serpentine => Mapping::Serpentine,
            },
            zones: self.zones.into_iter().map(ZoneTable::zone).collect(),
            seek: self.seek.curve(),
            seek_write: self.seek_write.map(SeekTable::curve),
            head_switch: self.head_switch.0,
            write_settle: self.write_settle.0,
            overheads,
            overheads_after_write: self
                .overheads_after_write
                .map_or(overheads, OverheadsTable::overheads),
            bus_sector: self.bus_sector.0,
            read_buffer: ReadBuffer {
                segments: self.read_buffer.segments,
                segment: self.read_buffer.segment.0,
                read_ahead_max: self.read_buffer.read_ahead_max.0,
            },
            write_buffer: self.write_buffer.0,
            write_cache: self.write_cache,
            queue_depth_max: self.queue_depth_max,
            discipline: self.queue.map_or(Discipline::Fifo, QueueTable::discipline),
            firmware: Firmware { bus, ..firmware },
            arm: Arm {
                seek_command: self.seek_command,
                variation: self.seek_variation.map_or(units::Duration::ZERO, |time| time.0),
            },
        })
    }
}

impl QueueTable {
    /// A limit that is absent is zero, which no check accepts.
    fn discipline(self) -> Discipline {
        let time = |written: Option<Time>| written.map_or(Duration::ZERO, |time| time.0);
        let choosing = Choosing {
            age_limit: time(self.age_limit),
            stream_hold: time(self.stream_hold),
            decision_latency: time(self.decision_latency),
        };
        match self.order {
            OrderName::Fifo => Discipline::Fifo,
            OrderName::ShortestSeek => Discipline::ShortestSeek(choosing),
            OrderName::ShortestPositioning => Discipline::ShortestPositioning(choosing),
        }
    }
}

impl OverheadsTable {
    fn overheads(self) -> Overheads {
        Overheads {
            read_hit: self.read_hit.0,
            read_miss: self.read_miss.0,
            write_cached: self.write_cached.0,
            write_media: self.write_media.0,
            control: self.control.0,
        }
    }
}

impl SeekTable {
    fn curve(self) -> SeekCurve {
        SeekCurve {
            points: self.points.into_iter().map(|(distance, time)| (distance, time.0)).collect(),
            fall_max: self.fall_max.map_or(Duration::ZERO, |time| time.0),
        }
    }
}

impl ZoneTable {
    fn zone(self) -> Zone {
        Zone {
            first_cylinder: self.first_cylinder,
            last_cylinder: self.last_cylinder,
            sectors_per_track: self.sectors_per_track,
            track_skew: self.track_skew,
            cylinder_skew: self.cylinder_skew,
            first_sector_angle: Angle(self.first_sector_angle),
            track_skew_remainder: Angle(self.track_skew_remainder),
            cylinder_skew_remainder: Angle(self.cylinder_skew_remainder),
            skips: self.skips.into_iter().map(|(first, count)| Skip { first, count }).collect(),
            track_slips: self.track_slips,
            remaps: self
                .remaps
                .into_iter()
                .map(|(from, to, count)| Remap { from, to, count })
                .collect(),
        }
    }
}
