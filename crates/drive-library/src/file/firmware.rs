//! The tables `[firmware]` and `[bus]` of a drive file, whose keys are optional.

use drive::{Bus, DestageBeforeRead, ExtraDisconnect, Firmware, MediaCache, ReadAhead, WriteAhead};
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
    #[serde(alias = "read_once")]
    discard_after_read: bool,
    whole_track: bool,
    zero_latency_read: bool,
    zero_latency_write: bool,
    writes_in_segments: bool,
    write_segments: u32,
    write_seek_min: Option<Time>,
    destage_before_read: Option<DestageTable>,
    media_cache: Option<MediaCacheTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DestageTable {
    runs: u32,
    run_max: Size,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MediaCacheTable {
    run_max: Size,
    append: Time,
    close: Time,
    records_max: u32,
    #[serde(alias = "home")]
    write_back: Time,
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
    #[serde(alias = "read_release")]
    read_disconnect: Option<Time>,
    #[serde(alias = "read_release_after_write")]
    read_disconnect_after_write: Option<Time>,
    #[serde(alias = "write_release")]
    write_disconnect: Option<Time>,
    reselect: Option<Time>,
    prepare: Option<Time>,
    read_done: Option<Time>,
    write_done: Option<Time>,
    read_share: Option<Written<Share>>,
    write_ahead: Option<AheadTable>,
    #[serde(alias = "detour")]
    extra_disconnect: Option<ExtraDisconnectTable>,
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
struct ExtraDisconnectTable {
    command: Time,
    #[serde(alias = "release")]
    disconnect: Time,
    pause: Time,
    #[serde(alias = "release_again")]
    second_disconnect: Time,
    #[serde(alias = "reselect_again")]
    second_reselect: Time,
    #[serde(alias = "arm_later")]
    seek_delay: Time,
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
            discard_after_read: self.discard_after_read,
            whole_track: self.whole_track,
            zero_latency_read: self.zero_latency_read,
            zero_latency_write: self.zero_latency_write,
            writes_in_segments: self.writes_in_segments,
            write_segments: self.write_segments,
            write_seek_min: time(self.write_seek_min),
            destage_before_read: self
                .destage_before_read
                .map(|table| DestageBeforeRead { runs: table.runs, run_max: table.run_max.0 }),
            media_cache: self.media_cache.map(|cache| MediaCache {
                run_max: cache.run_max.0,
                append: cache.append.0,
                close: cache.close.0,
                records_max: cache.records_max,
                write_back: cache.write_back.0,
            }),
            bus: Bus::default(),
        }
    }
}

impl BusTable {
    pub(super) fn bus(self) -> Bus {
        Bus {
            write_sector: self.write_sector.map(|time| time.0),
            read_disconnect: time(self.read_disconnect),
            read_disconnect_after_write: time(self.read_disconnect_after_write),
            write_disconnect: time(self.write_disconnect),
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
            extra_disconnect: self.extra_disconnect.map(|extra| ExtraDisconnect {
                command: extra.command.0,
                disconnect: extra.disconnect.0,
                pause: extra.pause.0,
                second_disconnect: extra.second_disconnect.0,
                second_reselect: extra.second_reselect.0,
                seek_delay: extra.seek_delay.0,
            }),
        }
    }
}
