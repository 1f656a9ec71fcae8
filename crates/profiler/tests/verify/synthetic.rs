//! Synthetic drives from a seeded random number generator.

use drive::{Mapping, ReadAhead, SeekCurve, Skip, Spec, Zone};
use sim::SeededRng;
use units::{Angle, Duration, Sectors};

use super::real;

/// A synthetic drive: random zones, skews, heads and speed.
pub(crate) fn random_zones(seed: u64) -> Spec {
    let mut rng = SeededRng::new(seed, 77);
    let mut between = |low: u64, high: u64| low + rng.below(high - low + 1);
    let small = |number: u64| u32::try_from(number).expect("small");
    let mut spec = drive_library::find_mechanical("st318437lw").expect("in it");
    let rpm = [5_400, 7_200, 10_000, 15_000][usize::try_from(between(0, 3)).expect("small")];
    spec.period = Spec::period_of_rpm(rpm);
    spec.surfaces = small(between(2, 12));
    spec.mapping = [Mapping::Cylinder, Mapping::SerpentineZone, Mapping::Serpentine]
        [usize::try_from(between(0, 2)).expect("small")];
    spec.arm.variation = Duration::ZERO;
    // The fastest of these tracks pass at 260 MB/s, and the bus is faster than the media.
    spec.bus_sector = Duration::from_micros(1);
    let zone = spec.zones[0].clone();
    spec.zones.clear();
    let (mut first, mut sectors) = (0, between(300, 2_000));
    for _ in 0..between(2, 6) {
        let last = first + small(between(800, 3_000));
        let skew = sectors * between(11, 18) / 100;
        spec.zones.push(drive::Zone {
            first_cylinder: first,
            last_cylinder: last,
            sectors_per_track: small(sectors),
            track_skew: small(skew),
            cylinder_skew: small(skew + sectors * between(4, 9) / 100),
            first_sector_angle: Angle(small(between(0, u64::from(u32::MAX)))),
            ..zone.clone()
        });
        first = last + 1;
        sectors = sectors * between(84, 97) / 100;
    }
    // The arm is a library drive's, up to the number of cylinders.
    spec.seek.points.retain(|point| point.0 < first);
    spec
}

/// What drives of one era have in common.
struct Age {
    /// The library drives whose firmware it may have.
    like: &'static [&'static str],
    rpm: &'static [u32],
    surfaces: (u64, u64),
    zones: (u64, u64),
    cylinders: (u64, u64),
    /// Sectors on the outermost track.
    sectors: (u64, u64),
    segments: (u64, u64),
    /// KiB of each segment.
    segment: (u64, u64),
    /// Whether it has slipped and spare sectors.
    defects: bool,
}

const AGES: [Age; 3] = [
    Age {
        like: &["atlas-ii", "barracuda-st32171w", "cheetah9LP", "hp_c2247a", "hp_c3323a"],
        rpm: &[4_500, 5_400, 7_200, 10_000],
        surfaces: (2, 20),
        zones: (3, 12),
        cylinders: (1_500, 7_000),
        sectors: (80, 260),
        segments: (1, 12),
        segment: (64, 256),
        defects: true,
    },
    Age {
        like: &["st318437lw", "deskstar-34gxp", "atlas10k"],
        rpm: &[5_400, 7_200, 10_000, 15_000],
        surfaces: (1, 10),
        zones: (5, 16),
        cylinders: (8_000, 30_000),
        sectors: (350, 1_000),
        segments: (2, 24),
        segment: (128, 1_024),
        defects: true,
    },
    Age {
        like: &["barracuda-2t", "hgst-7k8", "nearline-20t"],
        rpm: &[5_400, 5_900, 7_200],
        surfaces: (2, 18),
        zones: (8, 24),
        cylinders: (60_000, 450_000),
        sectors: (1_500, 5_000),
        segments: (4, 32),
        segment: (1_024, 8_192),
        defects: false,
    },
];

/// A synthetic drive of any era with a library drive's firmware; heads, zones, spares, skews, arm,
/// electronics and cache are random. Its skews equal the time of a track switch, as an engineer
/// would choose them.
pub(crate) fn synthetic(seed: u64) -> (String, Spec) {
    let mut rng = SeededRng::new(seed, 78);
    let age = &AGES[index(&mut rng, AGES.len())];
    let like = age.like[index(&mut rng, age.like.len())];
    let mut spec = drive_library::find_mechanical(like).expect("in it");
    spec.period = Spec::period_of_rpm(age.rpm[index(&mut rng, age.rpm.len())]);
    spec.surfaces = between_32(&mut rng, age.surfaces);
    spec.mapping =
        [Mapping::Cylinder, Mapping::SerpentineZone, Mapping::Serpentine][index(&mut rng, 3)];
    electronics(&mut spec, age, &mut rng);
    arm(&mut spec, age, &mut rng);
    zones(&mut spec, age, &mut rng);
    (format!("{seed}, like {like}"), spec)
}

fn index(rng: &mut SeededRng, len: usize) -> usize {
    usize::try_from(rng.below(len as u64)).expect("small")
}

fn between(rng: &mut SeededRng, (low, high): (u64, u64)) -> u64 {
    low + rng.below(high - low + 1)
}

fn between_32(rng: &mut SeededRng, range: (u64, u64)) -> u32 {
    u32::try_from(between(rng, range)).expect("small")
}

fn micros(rng: &mut SeededRng, range: (u64, u64)) -> Duration {
    Duration::from_micros(between(rng, range))
}

fn electronics(spec: &mut Spec, age: &Age, rng: &mut SeededRng) {
    let part = |time: Duration, rng: &mut SeededRng| time * between(rng, (60, 150)) / 100;
    for times in [&mut spec.overheads, &mut spec.overheads_after_write] {
        times.read_hit = part(times.read_hit, rng);
        times.read_miss = part(times.read_miss, rng);
        times.write_cached = part(times.write_cached, rng);
        times.write_media = part(times.write_media, rng);
    }
    let buffer = &mut spec.read_buffer;
    buffer.segments = between_32(rng, age.segments);
    buffer.segment = Sectors(between(rng, age.segment) * 2);
    let ahead = buffer.segment.0 * between(rng, (50, 100)) / 100;
    buffer.read_ahead_max = match spec.firmware.read_ahead {
        ReadAhead::Fixed => Sectors((ahead / 2).max(1)),
        _ => Sectors(ahead),
    };
    spec.write_buffer = Sectors(spec.write_buffer.0 * between(rng, (50, 200)) / 100);
}

/// Seek times rise as a power of the distance, as in data sheets.
fn arm(spec: &mut Spec, age: &Age, rng: &mut SeededRng) {
    let high = 2 * age.cylinders.1;
    let reach = real(high / 2);
    let head_switch = between(rng, (300, 1_200));
    let first = head_switch + between(rng, (0, 800));
    let full = between(rng, (12_000, 24_000));
    let power = real(between(rng, (42, 60))) / 100.0;
    let part = |distance: u32| (f64::from(distance) - 1.0) / reach;
    spec.head_switch = Duration::from_micros(head_switch);
    spec.write_settle = micros(rng, (0, 500));
    spec.arm.variation = micros(rng, (0, 200));
    let mut points = Vec::new();
    let mut distance = 1_u32;
    while u64::from(distance) < high {
        let time = real(first) + real(full - first) * part(distance).powf(power);
        points.push((distance, Duration::from_nanos(whole(time * 1e3))));
        distance = (distance + distance / 3).max(distance + 1);
    }
    spec.seek = SeekCurve { points, fall_max: Duration::ZERO };
    spec.seek_write = None;
}

fn zones(spec: &mut Spec, age: &Age, rng: &mut SeededRng) {
    let count = between(rng, age.zones);
    let cylinders = between(rng, age.cylinders);
    let mut sectors = between(rng, age.sectors);
    // The innermost track is about half as long as the outermost.
    let step = sectors * 45 / 100 / count;
    let spare = rng.below(3);
    let slips = if age.defects { rng.below(60) } else { 0 };
    let settle = |time: Duration, sectors: u64| {
        let nanos = (time + spec.write_settle).as_nanos() * sectors * 105 / 100;
        u32::try_from(nanos.div_ceil(spec.period.as_nanos())).expect("small")
    };
    let surfaces = u64::from(spec.surfaces);
    let change = spec.seek.points[0].1.max(spec.head_switch);
    spec.zones.clear();
    let mut first = 0;
    for _ in 0..count {
        let wide = cylinders / count * between(rng, (60, 140)) / 100;
        let last = first + u32::try_from(wide.max(30)).expect("small");
        let tracks = (u64::from(last - first) + 1) * surfaces;
        // Defects are anywhere in the zone, well before the spare sectors at its end.
        let room = (tracks - 4 * surfaces) * sectors;
        let mut slipped: Vec<u64> = (0..slips / count).map(|_| rng.below(room)).collect();
        slipped.sort_unstable();
        slipped.dedup_by(|next, before| *next < *before + 2);
        let mut skips: Vec<Skip> =
            slipped.into_iter().map(|first| Skip { first, count: 1 }).collect();
        if spare > 0 {
            let spared = spare * sectors * between(rng, (1, surfaces));
            skips.push(Skip { first: tracks * sectors - spared, count: spared });
        }
        spec.zones.push(Zone {
            first_cylinder: first,
            last_cylinder: last,
            sectors_per_track: u32::try_from(sectors).expect("small"),
            track_skew: settle(spec.head_switch, sectors),
            cylinder_skew: settle(change, sectors),
            first_sector_angle: Angle(between_32(rng, (0, u64::from(u32::MAX)))),
            skips,
            ..Zone::default()
        });
        first = last + 1;
        sectors -= (step * between(rng, (50, 150)) / 100).max(2);
    }
    spec.seek.points.retain(|point| point.0 < first);
    // Where the library drive's bus is faster than its media, this drive's is too.
    let fastest = spec.period / u64::from(spec.zones[0].sectors_per_track);
    if spec.bus_sector < Duration::from_micros(70) {
        spec.bus_sector = spec.bus_sector.min(fastest * 4 / 5);
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in ns")]
const fn whole(nanos: f64) -> u64 {
    nanos as u64
}
