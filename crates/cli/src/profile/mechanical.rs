//! The tables of a mechanical drive.

use console::table;
use drive_library::profile::ProfileFile;
use drive_profile::findings::{Chunks, Dynamics, Prediction, Seeks};
use drive_profile::findings::{Figure, Findings, Geometry, Spindle, Zone};
use units::{Duration, Sectors};

use super::cells::{FIGURE, figure, section};

/// Rows of the table; further rows are only counted.
const ZONES_SHOWN: usize = 40;
const SEEKS_SHOWN: usize = 16;

pub(super) fn tables(measured: &ProfileFile) -> String {
    let found = &measured.findings;
    let mut text = section(&figures(found));
    if let Some(geometry) = found.geometry.as_ref().filter(|found| !found.zones.is_empty()) {
        text += &section(&zones(geometry));
    }
    let dynamics = &found.dynamics;
    for (name, seeks) in [("reads", &dynamics.seek), ("writes", &dynamics.seek_write)] {
        text += &seeks.as_ref().map_or(String::new(), |found| section(&curve(name, found)));
    }
    for (name, chunks) in [("reads", &dynamics.chunks_read), ("writes", &dynamics.chunks_write)] {
        text += &chunks.as_ref().map_or(String::new(), |found| section(&throughput(name, found)));
    }
    text + &section(&queue(dynamics))
}

fn sectors(of: &Figure<Sectors>) -> Vec<String> {
    let Figure { value, spread, samples, confidence } = *of;
    figure(&Figure { value: value.bytes(), spread: spread.bytes(), samples, confidence })
}

/// The table of single figures.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn figures(found: &Findings) -> String {
    let mut rows = Vec::new();
    let mut row =
        |name: &str, cells: Vec<String>| rows.push([vec![name.to_owned()], cells].concat());
    let plain = |text: String| vec![text, String::new(), String::new(), String::new()];
    if let Some(Spindle::Rotating(rotation)) = &found.spindle {
        row("one revolution", figure(&rotation.period));
        let rpm = 60e12 / rotation.period_picos.max(1) as f64;
        row("revolutions a minute", plain(format!("{rpm:.4}")));
        row("noise of completions", plain(rotation.noise.to_string()));
    }
    if let Some(geometry) = &found.geometry {
        if let Some(heads) = &geometry.heads {
            row("heads", figure(heads));
        }
        row("cylinders", plain(geometry.cylinders.to_string()));
    }
    let all = &found.dynamics.overheads;
    let times = [
        ("path to the drive and back", &all.path),
        ("overhead of a hit", &all.hit),
        ("of a read", &all.read),
        ("of a cached write", &all.cached),
        ("of a forced write", &all.write),
        ("of a seek command", &all.seek),
        ("a sector on the bus, reading", &all.bus_read),
        ("a sector on the bus, writing", &all.bus_write),
        ("head switch", &all.head_switch),
        ("head switch before a write", &all.head_switch_write),
    ];
    for (name, time) in times {
        if let Some(time) = time {
            row(name, figure(time));
        }
    }
    if let Some(buffer) = &found.dynamics.read_buffer {
        row("read ahead", sectors(&buffer.ahead));
        row("segments", figure(&buffer.segments));
        row("segment", sectors(&buffer.segment));
    }
    if let Some(buffer) = &found.dynamics.write_buffer {
        if let Some(size) = &buffer.size {
            row("write buffer", sectors(size));
        }
        if let Some(destage) = &buffer.destage {
            row("flush, by scattered write", figure(destage));
        }
    }
    if rows.is_empty() { String::new() } else { table::text(&FIGURE, &rows) }
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn zones(geometry: &Geometry) -> String {
    let head = [
        "zone, from sector",
        "confidence",
        "sectors",
        "a track",
        "track skew",
        "error",
        "cylinder skew",
        "error",
        "MB/s",
        "in a row",
    ];
    let row = |zone: &Zone| {
        let spread = |skew: &Figure<Duration>| format!("± {}", skew.spread);
        let rate = |rate: u64| format!("{:.2}", rate as f64 / 1e6);
        vec![
            zone.lbas.start.0.to_string(),
            zone.begin_confidence.to_string(),
            zone.lbas.len.0.to_string(),
            zone.sectors_per_track.value.to_string(),
            zone.track_skew.value.to_string(),
            spread(&zone.track_skew),
            zone.cylinder_skew.value.to_string(),
            spread(&zone.cylinder_skew),
            rate(zone.media_rate),
            rate(zone.sustained_rate),
        ]
    };
    let rows: Vec<_> = geometry.zones.iter().take(ZONES_SHOWN).map(row).collect();
    let more = geometry.zones.len() - rows.len();
    let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
    table::text(&head, &rows) + &more
}

fn curve(name: &str, seeks: &Seeks) -> String {
    let title = format!("seeks before {name}");
    let head = [title.as_str(), "time", "error", "varies by"];
    let step = seeks.points.len().div_ceil(SEEKS_SHOWN).max(1);
    let shown = seeks.points.iter().step_by(step).chain(seeks.points.last());
    let mut rows: Vec<_> = shown
        .map(|point| {
            vec![
                point.distance.to_string(),
                point.time.to_string(),
                format!("± {}", point.error),
                point.variation.to_string(),
            ]
        })
        .collect();
    rows.dedup();
    let Seeks { least, mean, full_stroke, samples, .. } = seeks;
    table::text(&head, &rows)
        + &format!(
            "least {least}, mean {mean}, full stroke {full_stroke}, from {samples} movements\n"
        )
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn throughput(name: &str, chunks: &Chunks) -> String {
    let title = format!("{name} in a row, by command");
    let rate = |bytes: units::Bytes| format!("{:.2}", bytes.0 as f64 / 1e6);
    let row = |at: &drive_profile::findings::ChunkPoint| {
        vec![at.chunk.bytes().to_string(), rate(at.seen), rate(at.drive)]
    };
    let rows: Vec<_> = chunks.points.iter().map(row).collect();
    let (from, to) = chunks.optimal;
    let sure = chunks.confidence.map_or(String::new(), |sure| format!(", sure to {sure}"));
    table::text(&[title.as_str(), "MB/s seen", "MB/s without the host"], &rows)
        + &format!("best from {} to {}{sure}\n", from.bytes(), to.bytes())
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn queue(dynamics: &Dynamics) -> String {
    let waits = dynamics.starvation.as_ref().map(|starved| &starved.waits[..]).unwrap_or_default();
    let mut depths: Vec<u32> = dynamics.depths.iter().map(|point| point.depth).collect();
    depths.extend(waits.iter().map(|(depth, _)| *depth));
    depths.sort_unstable();
    depths.dedup();
    if depths.is_empty() {
        return String::new();
    }
    let row = |depth: &u32| {
        let rate = dynamics.depths.iter().find(|point| point.depth == *depth);
        let wait = waits.iter().find(|(at, _)| at == depth);
        vec![
            depth.to_string(),
            rate.map_or(String::new(), |at| format!("{:.1}", at.per_1000_s as f64 / 1e3)),
            wait.map_or(String::new(), |(_, wait)| wait.to_string()),
        ]
    };
    let head = ["depth", "random reads/s", "longest wait beside a stream"];
    let text = table::text(&head, &depths.iter().map(row).collect::<Vec<_>>());
    let safe = dynamics.starvation.as_ref().map(|starved| starved.safe_depth);
    let safe = safe.map_or(String::new(), |depth| format!("deepest safe depth: {depth}\n"));
    text + &safe + &dynamics.prediction.map_or(String::new(), prediction_line)
}

fn prediction_line(prediction: Prediction) -> String {
    let Prediction { missed, samples, offset, just_in_time_gains, .. } = prediction;
    let worth = if just_in_time_gains { "are" } else { "are not" };
    format!(
        "of {samples} predicted arrivals {missed} were missed with a margin of {offset}: \
         just-in-time seeks {worth} worthwhile\n"
    )
}
