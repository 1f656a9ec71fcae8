//! A mechanical drive as a drive file.
//!
//! Invariant: `parse_mechanical(&to_toml(spec))` returns `spec`, to the nanosecond, for every drive
//! that passes its check (tested with the library, the importer, and random drives).

use core::fmt::Write;

use drive::{
    Bus, DestageBeforeRead, Discipline, ExtraDisconnect, Firmware, Mapping, MediaCache, Overheads,
    ReadAhead, Remap, SeekCurve, Spec, WriteAhead, Zone,
};
use units::{Angle, Duration};

use super::text::{exact_time, list, share, size};

/// The drive file for which [`super::parse`] returns this drive.
pub fn to_toml(spec: &Spec) -> String {
    let mut text = String::new();
    write(&mut text, spec).expect("a string takes everything");
    text
}

fn write(text: &mut String, spec: &Spec) -> core::fmt::Result {
    let nanos = spec.period.as_nanos().max(1);
    let near = 60_000_000_000_u64.div_ceil(nanos);
    let rpm = [near, near.saturating_sub(1)].into_iter().filter_map(|rpm| u32::try_from(rpm).ok());
    match rpm.into_iter().find(|rpm| Spec::period_of_rpm(*rpm) == spec.period) {
        Some(rpm) => writeln!(text, "rpm = {rpm}")?,
        None => writeln!(text, "period = {}", exact_time(spec.period))?,
    }
    writeln!(text, "surfaces = {}", spec.surfaces)?;
    let mapping = match spec.mapping {
        Mapping::Cylinder => "cylinder",
        Mapping::SerpentineZone => "serpentine-zone",
        Mapping::Serpentine => "serpentine",
    };
    writeln!(text, "mapping = \"{mapping}\"")?;
    writeln!(text, "head_switch = {}", exact_time(spec.head_switch))?;
    writeln!(text, "write_settle = {}", exact_time(spec.write_settle))?;
    if spec.arm.seek_command {
        writeln!(text, "seek_command = true")?;
    }
    if spec.arm.variation > units::Duration::ZERO {
        writeln!(text, "seek_variation = {}", exact_time(spec.arm.variation))?;
    }
    writeln!(text, "bus_sector = {}", exact_time(spec.bus_sector))?;
    writeln!(text, "write_buffer = {}", size(spec.write_buffer))?;
    writeln!(text, "write_cache = {}", spec.write_cache)?;
    writeln!(text, "queue_depth_max = {}", spec.queue_depth_max)?;
    overheads(text, "overheads", &spec.overheads)?;
    overheads(text, "overheads_after_write", &spec.overheads_after_write)?;
    let buffer = &spec.read_buffer;
    writeln!(text, "\n[read_buffer]\nsegments = {}", buffer.segments)?;
    writeln!(text, "segment = {}", size(buffer.segment))?;
    writeln!(text, "read_ahead_max = {}", size(buffer.read_ahead_max))?;
    queue(text, spec.discipline)?;
    firmware(text, &spec.firmware)?;
    curve(text, "seek", &spec.seek)?;
    if let Some(seek) = &spec.seek_write {
        curve(text, "seek_write", seek)?;
    }
    spec.zones.iter().try_for_each(|each| zone(text, each))
}

fn overheads(text: &mut String, table: &str, all: &Overheads) -> core::fmt::Result {
    let Overheads { read_hit, read_miss, write_cached, write_media, control } = *all;
    writeln!(text, "\n[{table}]")?;
    let keys = ["read_hit", "read_miss", "write_cached", "write_media", "control"];
    let values = [read_hit, read_miss, write_cached, write_media, control];
    keys.iter()
        .zip(values)
        .try_for_each(|(key, value)| writeln!(text, "{key} = {}", exact_time(value)))
}

fn queue(text: &mut String, discipline: Discipline) -> core::fmt::Result {
    let (order, choosing) = match discipline {
        Discipline::Fifo => return Ok(()),
        Discipline::ShortestSeek(choosing) => ("shortest-seek", choosing),
        Discipline::ShortestPositioning(choosing) => ("shortest-positioning", choosing),
    };
    writeln!(text, "\n[queue]\norder = \"{order}\"")?;
    writeln!(text, "age_limit = {}", exact_time(choosing.age_limit))?;
    writeln!(text, "stream_hold = {}", exact_time(choosing.stream_hold))?;
    writeln!(text, "decision_latency = {}", exact_time(choosing.decision_latency))
}

fn firmware(text: &mut String, all: &Firmware) -> core::fmt::Result {
    if *all == Firmware::default() {
        return Ok(());
    }
    let read_ahead = match all.read_ahead {
        ReadAhead::Segment => "segment",
        ReadAhead::Never => "never",
        ReadAhead::Fixed => "fixed",
        ReadAhead::Track => "track",
        ReadAhead::Cylinder => "cylinder",
        ReadAhead::TrackAndNext => "track-and-next",
    };
    writeln!(text, "\n[firmware]\nread_ahead = \"{read_ahead}\"")?;
    let switches = [
        ("strict_hits", all.strict_hits),
        ("rest_on_hit", all.rest_on_hit),
        ("discard_after_read", all.discard_after_read),
        ("whole_track", all.whole_track),
        ("zero_latency_read", all.zero_latency_read),
        ("zero_latency_write", all.zero_latency_write),
        ("writes_in_segments", all.writes_in_segments),
    ];
    switches.iter().try_for_each(|(key, value)| writeln!(text, "{key} = {value}"))?;
    writeln!(text, "write_segments = {}", all.write_segments)?;
    writeln!(text, "write_seek_min = {}", exact_time(all.write_seek_min))?;
    if let Some(DestageBeforeRead { runs, run_max }) = all.destage_before_read {
        writeln!(text, "\n[firmware.destage_before_read]\nruns = {runs}")?;
        writeln!(text, "run_max = {}", size(run_max))?;
    }
    if let Some(cache) = &all.media_cache {
        let MediaCache { run_max, append, close, records_max, write_back } = *cache;
        writeln!(text, "\n[firmware.media_cache]\nrun_max = {}", size(run_max))?;
        writeln!(text, "append = {}\nclose = {}", exact_time(append), exact_time(close))?;
        writeln!(text, "records_max = {records_max}\nwrite_back = {}", exact_time(write_back))?;
    }
    bus(text, &all.bus)
}

fn bus(text: &mut String, all: &Bus) -> core::fmt::Result {
    if *all == Bus::default() {
        return Ok(());
    }
    writeln!(text, "\n[bus]")?;
    if let Some(sector) = all.write_sector {
        writeln!(text, "write_sector = {}", exact_time(sector))?;
    }
    let times = [
        ("read_disconnect", all.read_disconnect),
        ("read_disconnect_after_write", all.read_disconnect_after_write),
        ("write_disconnect", all.write_disconnect),
        ("reselect", all.reselect),
        ("prepare", all.prepare),
        ("read_done", all.read_done),
        ("write_done", all.write_done),
    ];
    times.iter().try_for_each(|(key, value)| writeln!(text, "{key} = {}", exact_time(*value)))?;
    writeln!(text, "read_share = {}", share(all.read_share))?;
    if let WriteAhead::Sectors { short, long, of_long } = all.write_ahead {
        let (short, long, of_long) = (size(short), size(long), size(of_long));
        writeln!(text, "write_ahead = {{ short = {short}, long = {long}, of_long = {of_long} }}")?;
    }
    let Some(extra) = all.extra_disconnect else { return Ok(()) };
    let ExtraDisconnect {
        command,
        disconnect,
        pause,
        second_disconnect,
        second_reselect,
        seek_delay,
    } = extra;
    writeln!(text, "\n[bus.extra_disconnect]")?;
    let keys =
        ["command", "disconnect", "pause", "second_disconnect", "second_reselect", "seek_delay"];
    let values = [command, disconnect, pause, second_disconnect, second_reselect, seek_delay];
    keys.iter()
        .zip(values)
        .try_for_each(|(key, value)| writeln!(text, "{key} = {}", exact_time(value)))
}

fn curve(text: &mut String, table: &str, curve: &SeekCurve) -> core::fmt::Result {
    writeln!(text, "\n[{table}]")?;
    if curve.fall_max > Duration::ZERO {
        writeln!(text, "fall_max = {}", exact_time(curve.fall_max))?;
    }
    let point =
        |(distance, takes): &(u32, Duration)| format!("[{distance}, {}]", exact_time(*takes));
    list(text, "points", curve.points.iter().map(point))
}

fn zone(text: &mut String, zone: &Zone) -> core::fmt::Result {
    writeln!(text, "\n[[zones]]")?;
    writeln!(text, "first_cylinder = {}", zone.first_cylinder)?;
    writeln!(text, "last_cylinder = {}", zone.last_cylinder)?;
    writeln!(text, "sectors_per_track = {}", zone.sectors_per_track)?;
    writeln!(text, "track_skew = {}", zone.track_skew)?;
    writeln!(text, "cylinder_skew = {}", zone.cylinder_skew)?;
    writeln!(text, "first_sector_angle = {}", zone.first_sector_angle.0)?;
    if zone.track_skew_remainder != Angle::ZERO {
        writeln!(text, "track_skew_remainder = {}", zone.track_skew_remainder.0)?;
    }
    if zone.cylinder_skew_remainder != Angle::ZERO {
        writeln!(text, "cylinder_skew_remainder = {}", zone.cylinder_skew_remainder.0)?;
    }
    list(text, "skips", zone.skips.iter().map(|s| format!("[{}, {}]", s.first, s.count)))?;
    list(text, "track_slips", zone.track_slips.iter().map(u64::to_string))?;
    let remap = |r: &Remap| format!("[{}, {}, {}]", r.from, r.to, r.count);
    list(text, "remaps", zone.remaps.iter().map(remap))
}
