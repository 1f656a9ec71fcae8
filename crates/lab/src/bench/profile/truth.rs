//! The profiler's findings compared with the drive model.

use drive::{Model, ReadAhead, SeekCurve, Zone};
use drive_profile::SeekTable;
use drive_profile::findings::{Chunks, Overheads, Seeks};
use drive_profile::findings::{Figure, Findings, Geometry, Spindle};
use profiler::CHUNK_STEPS;
use serde::Serialize;
use units::{Angle, Duration, Sectors};

/// The largest accepted relative error of a figure.
const ERROR_MAX: f64 = 0.05;
/// The largest accepted error of the rotation period, in parts per million.
const PERIOD_ERROR_MAX_PPM: f64 = 200.0;
/// The largest accepted error of the ends of a range of chunk lengths, in steps of
/// [`CHUNK_STEPS`].
const STEPS_ERROR_MAX: usize = 1;
/// The ratio of each compared seek distance to the one before.
const DISTANCE_RATIO: u32 = 3;

/// One figure of the comparison.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) what: String,
    pub(super) found: String,
    pub(super) is: String,
    /// The error of `found` relative to `is`.
    pub(super) off: String,
    pub(super) may_be_off: String,
    pub(super) holds: bool,
}

impl Row {
    fn exact(what: &str, found: Option<u64>, is: u64) -> Self {
        let holds = found == Some(is);
        Self {
            what: what.to_owned(),
            found: found.map_or(String::new(), |found| found.to_string()),
            is: is.to_string(),
            off: String::new(),
            may_be_off: "nothing".to_owned(),
            holds,
        }
    }

    /// A figure with a relative error, which must be at most [`ERROR_MAX`].
    fn part(what: impl Into<String>, (found, is): (String, String), off: f64) -> Self {
        Self {
            what: what.into(),
            found,
            is,
            off: format!("{:+.1} %", off * 100.0),
            may_be_off: format!("{:.0} %", ERROR_MAX * 100.0),
            holds: off.abs() <= ERROR_MAX,
        }
    }

    fn time(what: impl Into<String>, found: Duration, is: Duration) -> Self {
        let off = relative_error(found.as_nanos(), is.as_nanos());
        Self::part(what, (found.to_string(), is.to_string()), off)
    }

    fn size(what: &str, found: Sectors, is: Sectors) -> Self {
        let shown = (found.bytes().to_string(), is.bytes().to_string());
        Self::part(what, shown, relative_error(found.0, is.0))
    }
}

/// The relative error of `found`: `found` ÷ `is` − 1.
#[expect(clippy::cast_precision_loss, reason = "shown as per cent")]
fn relative_error(found: u64, is: u64) -> f64 {
    found as f64 / is.max(1) as f64 - 1.0
}

/// One row per finding that can be compared with the model. `simulated` has the profiler's findings
/// on the simulated drive, for figures that the model does not state.
pub(super) fn rows(findings: &Findings, model: &Model, simulated: &Findings) -> Vec<Row> {
    let mut rows = vec![rotation(findings, model)];
    if let Some(map) = &findings.geometry {
        rows.extend(zones(map, model));
        let heads = map.heads.map(|heads| heads.value.into());
        rows.push(Row::exact("heads", heads, model.spec().surfaces.into()));
    }
    let found = &findings.dynamics;
    rows.extend(overheads(&found.overheads, model));
    let spec = model.spec();
    let curve = |curve: &SeekCurve, more: Duration| SeekTable {
        points: curve.points.iter().map(|(distance, time)| (*distance, *time + more)).collect(),
    };
    let before_writes = spec.seek_write.as_ref().unwrap_or(&spec.seek);
    let curves = [
        ("read", &found.seek, curve(&spec.seek, Duration::ZERO)),
        ("write", &found.seek_write, curve(before_writes, spec.write_settle)),
    ];
    for (before, seeks, is) in curves {
        rows.extend(seeks.iter().flat_map(|seeks| curve_rows(before, seeks, &is)));
    }
    rows.extend(memory(findings, model, simulated));
    let (ours, theirs) = (found, &simulated.dynamics);
    rows.extend(range("reads", ours.chunks_read.as_ref(), theirs.chunks_read.as_ref()));
    rows.extend(range("writes", ours.chunks_write.as_ref(), theirs.chunks_write.as_ref()));
    rows
}

fn rotation(findings: &Findings, model: &Model) -> Row {
    let Some(Spindle::Rotating(turns)) = findings.spindle else {
        return Row::exact("one revolution", None, model.period().as_nanos());
    };
    let off = relative_error(turns.period_picos, model.period().as_nanos() * 1_000) * 1e6;
    Row {
        what: "one revolution".to_owned(),
        found: turns.period.value.to_string(),
        is: model.period().to_string(),
        off: format!("{off:+.2} ppm"),
        may_be_off: format!("{PERIOD_ERROR_MAX_PPM:.0} ppm"),
        holds: off.abs() <= PERIOD_ERROR_MAX_PPM,
    }
}

/// Two rows: the number of zones of which the first sector and the sectors per track are exact, as
/// far as the layout is known, and the skew with the largest error.
fn zones(map: &Geometry, model: &Model) -> Vec<Row> {
    let (mut all, mut exact, mut before) = (0, 0, 0);
    let mut worst: Option<(f64, Row)> = None;
    for (facts, zone) in model.zones().zip(&model.spec().zones) {
        if zone.sectors_per_track == before || facts.lbas.start.0 >= map.known.0 {
            continue;
        }
        before = zone.sectors_per_track;
        all += 1;
        let begins = |found: &&drive_profile::findings::Zone| found.lbas.start == facts.lbas.start;
        let same = |found: &&drive_profile::findings::Zone| found.sectors_per_track.value == before;
        let Some(found) = map.zones.iter().find(begins).filter(same) else { continue };
        exact += 1;
        for (name, found, is) in [
            ("track skew", found.track_skew.value, skew(zone, model, false)),
            ("cylinder skew", found.cylinder_skew.value, skew(zone, model, true)),
        ] {
            let off = relative_error(found.as_nanos(), is.as_nanos()).abs();
            let what = format!("{name} from {}, the worst", facts.lbas.start.0);
            if worst.as_ref().is_none_or(|(known, _)| off > *known) {
                worst = Some((off, Row::time(what, found, is)));
            }
        }
    }
    let zones = Row::exact("zones, to the sector", Some(exact), all);
    core::iter::once(zones).chain(worst.map(|(_, row)| row)).collect()
}

fn skew(zone: &Zone, model: &Model, cylinder: bool) -> Duration {
    let (sectors, Angle(rest)) = if cylinder {
        (zone.cylinder_skew, zone.cylinder_skew_remainder)
    } else {
        (zone.track_skew, zone.track_skew_remainder)
    };
    let rotation = u128::from(model.period().as_nanos());
    let whole = rotation * u128::from(sectors) / u128::from(zone.sectors_per_track);
    let nanos = whole + ((rotation * u128::from(rest)) >> 32);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn overheads(found: &Overheads, model: &Model) -> Vec<Row> {
    let spec = model.spec();
    let (own, bus) = (&spec.overheads, &spec.firmware.bus);
    let asked = bus.reselect.max(bus.prepare);
    // A host cannot distinguish the time after the last sector's passing from the time before the
    // arm moves, so the measured overhead includes both.
    let behind = spec.bus_sector + asked + bus.read_done;
    let all: [(&str, Option<Figure<Duration>>, Duration); 8] = [
        ("overhead of a hit", found.hit, own.read_hit + bus.prepare + bus.read_done),
        ("of a read", found.read, own.read_miss + behind),
        ("of a cached write", found.cached, own.write_cached + bus.prepare + bus.write_done),
        ("of a forced write", found.write, own.write_media + behind),
        ("a sector on the bus, reading", found.bus_read, spec.bus_sector),
        (
            "a sector on the bus, writing",
            found.bus_write,
            bus.write_sector.unwrap_or(spec.bus_sector),
        ),
        ("head switch", found.head_switch, spec.head_switch),
        (
            "head switch before a write",
            found.head_switch_write,
            spec.head_switch + spec.write_settle,
        ),
    ];
    all.into_iter()
        .filter_map(|(what, found, is)| Some(Row::time(what, found?.value, is)))
        .collect()
}

fn curve_rows(before: &str, seeks: &Seeks, is: &SeekTable) -> Vec<Row> {
    let found = seeks.curve();
    let most = seeks.points.last().map_or(0, |point| point.distance);
    let distances = core::iter::successors(Some(1), |distance| Some(distance * DISTANCE_RATIO));
    let distances = distances.take_while(|distance| *distance < most).chain([most]);
    let row = |distance: u32| {
        let what = format!("seek over {distance} before a {before}");
        Row::time(what, found.time(distance), is.time(distance))
    };
    distances.filter(|distance| *distance > 0).map(row).collect()
}

fn memory(findings: &Findings, model: &Model, simulated: &Findings) -> Vec<Row> {
    let (found, theirs) = (&findings.dynamics, &simulated.dynamics);
    let spec = model.spec();
    let mut rows = Vec::new();
    if let Some(reads) = &found.read_buffer {
        if let Some(theirs) = &theirs.read_buffer {
            rows.push(Row::size("read ahead", reads.ahead.value, theirs.ahead.value));
        }
        let segments = u64::from(spec.read_buffer.segments);
        rows.push(Row::exact("segments", Some(reads.segments.value.into()), segments));
        // Read-ahead that ends with a track may never fill a segment.
        if matches!(spec.firmware.read_ahead, ReadAhead::Segment | ReadAhead::Fixed) {
            rows.push(Row::size("a segment", reads.segment.value, spec.read_buffer.segment));
        }
    }
    let caches = spec.write_cache && spec.write_buffer > Sectors::ZERO;
    if let Some(writes) = &found.write_buffer {
        let early = (writes.write_back, caches);
        rows.push(Row::exact("writes are answered early", Some(early.0.into()), early.1.into()));
        if let Some(size) = writes.size.filter(|_| caches) {
            rows.push(Row::size("write buffer", size.value, spec.write_buffer));
        }
    }
    rows
}

/// The two ends of the range of good chunk lengths, each compared in steps of length.
fn range(what: &str, found: Option<&Chunks>, is: Option<&Chunks>) -> Option<Row> {
    let (found, is) = (found?.optimal, is?.optimal);
    let step = |chunk: Sectors| CHUNK_STEPS.iter().position(|step| *step == chunk.0).unwrap_or(0);
    let off =
        [(found.0, is.0), (found.1, is.1)].map(|(one, other)| step(one).abs_diff(step(other)));
    let shown = |(from, to): (Sectors, Sectors)| format!("{} to {}", from.bytes(), to.bytes());
    Some(Row {
        what: format!("good chunks of {what}"),
        found: shown(found),
        is: shown(is),
        off: format!("{} and {} steps", off[0], off[1]),
        may_be_off: format!("{STEPS_ERROR_MAX} step"),
        holds: off.iter().all(|off| *off <= STEPS_ERROR_MAX),
    })
}
