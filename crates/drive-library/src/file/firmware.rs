//! The tables `[firmware]` and `[bus]` of a drive file, whose keys are optional.

use drive::{Bus, Detour, Firmware, MediaCache, ReadAhead, WriteAhead};
use serde::Deserialize;
use units::{Duration, Share};

use super::value::{Size, Time, Written};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file")]
pub(super) struct FirmwareTable {
    read_ahead: ReadAheadName,
    strict_hits: bool,
    rest_on_hit: bool,
    read_once: bool,
    whole_track: bool,
    zero_latency_read: bool,
    zero_latency_write: bool,
    writes_in_segments: bool,
    write_segments: u32,
    write_seek_min: Option<Time>,
    media_cache: Option<MediaCacheTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MediaCacheTable {
    run_max: Size,
    append: Time,
    close: Time,
    records_max: u32,
    home: Time,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ReadAheadName {
    #[default]
    Segment,
    Never,
    Fixed,
    Track,
    Cylinder,
    TrackAndNext,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BusTable {
    write_sector: Option<Time>,
    read_release: Option<Time>,
    read_release_after_write: Option<Time>,
    write_release: Option<Time>,
    reselect: Option<Time>,
    prepare: Option<Time>,
    read_done: Option<Time>,
    write_done: Option<Time>,
    read_share: Option<Written<Share>>,
    write_ahead: Option<AheadTable>,
    detour: Option<DetourTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AheadTable {
    short: Size,
    long: Size,
    of_long: Size,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DetourTable {
    command: Time,
    release: Time,
    pause: Time,
    release_again: Time,
    reselect_again: Time,
    arm_later: Time,
}

fn time(written: Option<Time>) -> Duration {
    written.map_or(Duration::ZERO, |time| time.0)
}

impl FirmwareTable {
    pub(super) fn firmware(self) -> Firmware {
        Firmware {
            read_ahead: match self.read_ahead {
                ReadAheadName::Segment => ReadAhead::Segment,
                ReadAheadName::Never => ReadAhead::Never,
                ReadAheadName::Fixed => ReadAhead::Fixed,
                ReadAheadName::Track => ReadAhead::Track,
                ReadAheadName::Cylinder => ReadAhead::Cylinder,
                ReadAheadName::TrackAndNext => ReadAhead::TrackAndNext,
            },
            strict_hits: self.strict_hits,
            rest_on_hit: self.rest_on_hit,
            read_once: self.read_once,
            whole_track: self.whole_track,
            zero_latency_read: self.zero_latency_read,
            zero_latency_write: self.zero_latency_write,
            writes_in_segments: self.writes_in_segments,
            write_segments: self.write_segments,
            write_seek_min: time(self.write_seek_min),
            media_cache: self.media_cache.map(|cache| MediaCache {
                run_max: cache.run_max.0,
                append: cache.append.0,
                close: cache.close.0,
                records_max: cache.records_max,
                home: cache.home.0,
            }),
            bus: Bus::default(),
        }
    }
}

impl BusTable {
    pub(super) fn bus(self) -> Bus {
        Bus {
            write_sector: self.write_sector.map(|time| time.0),
            read_release: time(self.read_release),
            read_release_after_write: time(self.read_release_after_write),
            write_release: time(self.write_release),
            reselect: time(self.reselect),
            prepare: time(self.prepare),
            read_done: time(self.read_done),
            write_done: time(self.write_done),
            read_share: self.read_share.map_or(Share::NONE, |share| share.0),
            write_ahead: self.write_ahead.map_or(WriteAhead::One, |ahead| WriteAhead::Sectors {
                short: ahead.short.0,
                long: ahead.long.0,
                of_long: ahead.of_long.0,
            }),
            detour: self.detour.map(|detour| Detour {
                command: detour.command.0,
                release: detour.release.0,
                pause: detour.pause.0,
                release_again: detour.release_again.0,
                reselect_again: detour.reselect_again.0,
                arm_later: detour.arm_later.0,
            }),
        }
    }
}
