//! A profile that is assumed from a drive's parameters, with the uncertainty that a profiler would
//! leave.

use ::drive::{Mapping, Model, ReadAhead, SeekCurve, WriteAhead, Zone};
use drive_profile::{
    Band, BufferSegments, CommandOverheads, Extremes, HeadOrder, Profile, SeekTable, Skew,
};
use units::{Angle, Duration, Extent, FULL_REVOLUTION, Sectors};

/// The smallest assumed variation of a seek: FAST 2003 §3.4 names the order of a millisecond, which
/// is taken for two standard deviations.
pub const SEEK_VARIATION: Duration = Duration::from_micros(500);
/// The assumed rotation period is off by this many parts in a billion, as a measured one would be:
/// a crystal's tolerance.
pub const PERIOD_OFF_PPB: u64 = 7_000;
/// The largest error of the rotation period that the profile states.
const PERIOD_ERROR_PPB: u32 = 20_000;
/// The smallest and the largest useful chunk: a file system's block, and the usual limit of
/// operating systems.
const CHUNKS: (u64, u64) = (8, 256);
/// In real time a chunk is this factor longer than the drive alone requires.
const HOST_CHUNKS: u64 = 2;

/// The profile that is assumed of a drive until it is measured.
///
/// It is derived from the drive's published parameters, not from its state; a measured profile
/// replaces it.
pub fn assumed(model: &Model) -> Profile {
    let spec = model.spec();
    let curve = |curve: &SeekCurve, more: Duration| SeekTable {
        points: curve.points.iter().map(|(distance, time)| (*distance, *time + more)).collect(),
    };
    let read = &spec.overheads;
    let period = model.period().as_nanos();
    Profile {
        rotation_period: Duration::from_nanos(period + period * PERIOD_OFF_PPB / 1_000_000_000),
        rotation_error_ppb: PERIOD_ERROR_PPB,
        surfaces: spec.surfaces,
        cylinders: model.cylinders(),
        bands: bands(model),
        seek: curve(&spec.seek, Duration::ZERO),
        seek_write: curve(spec.seek_write.as_ref().unwrap_or(&spec.seek), spec.write_settle),
        seek_variation: spec.arm.variation.max(SEEK_VARIATION),
        head_switch: spec.head_switch,
        write_settle: spec.write_settle,
        overheads: CommandOverheads {
            hit: read.read_hit,
            read: read.read_miss,
            cached: read.write_cached,
            write: read.write_media,
            seek: read.control,
        },
        bus_sector: spec.bus_sector,
        completion: spec.bus_sector + spec.firmware.bus.read_done,
        seek_command: spec.arm.seek_command,
        write_cache: spec.write_cache && spec.write_buffer > Sectors::ZERO,
        read_buffer: read_buffer(model),
        extremes: extremes(model),
    }
}

/// What is certain of the drive's read-ahead: half of a segment is free for it.
fn read_buffer(model: &Model) -> BufferSegments {
    let (spec, firmware) = (model.spec(), &model.spec().firmware);
    let ::drive::ReadBuffer { segments, segment, read_ahead_max } = spec.read_buffer;
    let crosses = matches!(firmware.read_ahead, ReadAhead::Segment | ReadAhead::Fixed);
    let goes_on = segments > 0 && crosses && !firmware.strict_hits && !firmware.discard_after_read;
    let most = read_ahead_max.min(Sectors(segment.0 / 2));
    let read_ahead = if goes_on { most } else { Sectors::ZERO };
    let stops = segments == 0 || firmware.read_ahead == ReadAhead::Never;
    let read_ahead_max = if stops { Sectors::ZERO } else { read_ahead_max.min(segment) };
    BufferSegments { segments, segment, read_ahead, read_ahead_max }
}

/// The worst cases of this drive's commands, beyond what the rest of the profile contains.
fn extremes(model: &Model) -> Extremes {
    let (spec, bus) = (model.spec(), &model.spec().firmware.bus);
    let write_ahead = match bus.write_ahead {
        WriteAhead::One => Sectors(1),
        WriteAhead::Sectors { short, of_long, .. } => short.max(of_long),
    };
    let detours = spec.zones.iter().map(|zone| zone.remaps.len() as u64).sum();
    Extremes {
        command: model.command_longest(),
        bus_sector_write: bus.write_sector.unwrap_or(spec.bus_sector),
        read_share: bus.read_share,
        write_ahead,
        detours,
        bus: None,
    }
}

/// The profile of a disk in real time. Chunks that just keep up with the media never catch up after
/// a command was sent late, and threads wake late: chunks longer by `HOST_CHUNKS` leave half of
/// their time for that.
pub fn on_host(mut profile: Profile) -> Profile {
    for band in &mut profile.bands {
        for chunk in [&mut band.chunk_read, &mut band.chunk_write] {
            *chunk = Sectors((chunk.0 * HOST_CHUNKS).min(CHUNKS.1));
        }
    }
    profile
}

/// Each zone, split where sectors are skipped and where a slip shifts the layout.
fn bands(model: &Model) -> Vec<Band> {
    let spec = model.spec();
    let mut bands = Vec::new();
    for (zone, facts) in spec.zones.iter().zip(model.zones()) {
        let heads = match spec.mapping {
            Mapping::Cylinder => HeadOrder::Up,
            Mapping::Serpentine if zone.first_cylinder % 2 == 1 => HeadOrder::DownOnEven,
            Mapping::Serpentine | Mapping::SerpentineZone => HeadOrder::UpOnEven,
        };
        let skew = |sectors: u32, rest: Angle| {
            let whole = Skew::of(sectors, zone.sectors_per_track);
            Skew(whole.0.wrapping_add(u64::from(rest.0) << 32))
        };
        let pass = model.period().as_nanos() / u64::from(zone.sectors_per_track);
        let grid = Band {
            lbas: Extent::new(facts.lbas.start, Sectors::ZERO),
            first_sector: 0,
            first_cylinder: zone.first_cylinder,
            sectors_per_track: zone.sectors_per_track,
            track_skew: skew(zone.track_skew, zone.track_skew_remainder),
            cylinder_skew: skew(zone.cylinder_skew, zone.cylinder_skew_remainder),
            first_angle: zone.first_sector_angle,
            heads,
            chunk_read: chunk(spec.overheads.read_hit, spec.bus_sector, pass),
            chunk_write: chunk(spec.overheads.write_cached, spec.bus_sector, pass),
        };
        let mut lba = facts.lbas.start;
        for (first, end) in runs(zone, facts.lbas.len) {
            let sector = u32::try_from(FULL_REVOLUTION / u64::from(zone.sectors_per_track))
                .unwrap_or(u32::MAX);
            let track = first / u64::from(zone.sectors_per_track);
            let shifts = zone.track_slips.partition_point(|shifted| *shifted <= track);
            let shifted = u32::try_from(shifts).unwrap_or(u32::MAX).wrapping_mul(sector);
            let lbas = Extent::new(lba, Sectors(end - first));
            let first_angle = grid.first_angle + Angle(shifted);
            bands.push(Band { lbas, first_sector: first, first_angle, ..grid });
            lba = lbas.end();
        }
    }
    bands
}

/// The runs of physical sectors of a zone that hold `len` consecutive sectors of data, on tracks
/// with the same shift: first sectors and ends. Remapped sectors count at their original location,
/// as a profiler would see them.
fn runs(zone: &Zone, len: Sectors) -> Vec<(u64, u64)> {
    let mut remaining = len.0;
    let mut runs = Vec::new();
    let mut at = 0;
    let shifted_tracks =
        zone.track_slips.iter().map(|track| track * u64::from(zone.sectors_per_track));
    let skips = zone.skips.iter().map(|skip| (skip.first, skip.first + skip.count));
    let mut breaks: Vec<(u64, u64)> =
        skips.chain(shifted_tracks.map(|first| (first, first))).collect();
    breaks.sort_unstable();
    for (first, behind) in breaks.into_iter().chain([(u64::MAX, u64::MAX)]) {
        let end = first.min(at + remaining);
        if end > at {
            runs.push((at, end));
            remaining -= end - at;
        }
        at = at.max(behind);
    }
    runs
}

/// The smallest command that keeps up with the media: in its overhead and bus time the media passes
/// as many sectors.
fn chunk(overhead: Duration, bus_sector: Duration, pass: u64) -> Sectors {
    let gained = pass.saturating_sub(bus_sector.as_nanos()).max(1);
    Sectors(overhead.as_nanos().div_ceil(gained).clamp(CHUNKS.0, CHUNKS.1))
}

#[cfg(test)]
mod tests {
    use units::Lba;

    use super::*;
    use crate::catalogue;

    #[test]
    fn a_profile_puts_every_sector_where_the_drive_has_it() {
        for name in catalogue::names() {
            let Some(spec) = catalogue::find_mechanical(name) else { continue };
            let model = spec.check().expect("a drive");
            let profile = assumed(&model);
            profile.assert_valid();
            assert_eq!(profile.capacity(), model.capacity(), "{name}");
            let step = model.capacity().0 / 10_007 + 1;
            for lba in
                (0..model.capacity().0).step_by(usize::try_from(step).expect("small")).map(Lba)
            {
                let (ours, theirs) = (profile.locate(lba), model.position(lba));
                let at = (ours.cylinder, ours.surface);
                assert_eq!(at, (theirs.cylinder, theirs.surface), "{name}: {lba}");
                // Rounding over whole revolutions is below one sector.
                let off = (ours.angle - theirs.angle).0.min((theirs.angle - ours.angle).0);
                assert!(
                    off <= ours.sector.0,
                    "{name}: {lba} at {:?} for {:?}",
                    ours.angle,
                    theirs.angle
                );
            }
        }
    }

    #[test]
    fn the_drive_of_semi_preemptible_io_has_the_chunk_of_fast_2003() {
        let model =
            catalogue::find_mechanical("st318437lw").expect("in it").check().expect("a drive");
        let profile = assumed(&model);
        assert_eq!(profile.bands[0].chunk_read, Sectors(50));
        // Shorter tracks need shorter chunks.
        assert!(profile.bands.last().expect("some").chunk_read < Sectors(30));
    }
}
