//! The figures of a measured profile. Quantities that were not measured have no figure.

use std::path::{Path, PathBuf};

use console::bad_input;
use drive_library::profile::ProfileFile;
use drive_profile::findings::{Chunks, Seeks};
use drive_profile::findings::{Geometry, Rotation, Spindle};
use plot::{Line, Plot};
use units::Duration;

/// The range of the prediction figure: time since the sector's last observation, in s.
const PREDICTED_S: f64 = 10.0;
const POINTS: u32 = 100;

/// Writes the figures of the profile `path` into `out`; returns their paths.
pub(super) fn write(path: &Path, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let measured = ProfileFile::read(path).map_err(bad_input)?;
    let stem = &path.file_stem().unwrap_or_default().to_string_lossy();
    let found = &measured.findings;
    let rotation = match &found.spindle {
        Some(Spindle::Rotating(rotation)) => Some(rotation),
        Some(Spindle::NotRotating) | None => None,
    };
    let dynamics = &found.dynamics;
    let plots = [
        (
            "seek",
            dynamics.seek.as_ref().map(|seek| seeks(stem, seek, dynamics.seek_write.as_ref())),
        ),
        ("zones", found.geometry.as_ref().map(|found| zones(stem, found))),
        ("chunks", chunks(stem, dynamics.chunks_read.as_ref(), dynamics.chunks_write.as_ref())),
        ("rotation", rotation.map(|turn| prediction(stem, turn, found.geometry.as_ref()))),
        ("rates", rates(stem, &measured)),
    ];
    let mut files = Vec::new();
    for (what, plot) in plots {
        let Some(plot) = plot else { continue };
        let path = out.join(format!("{stem}-{what}.svg"));
        plot.write(&path)?;
        files.push(path);
    }
    Ok(files)
}

fn line(name: &str, points: Vec<(f64, f64)>, dashed: bool) -> Line {
    Line { name: name.to_owned(), points, dashed }
}

fn seeks(name: &str, read: &Seeks, write: Option<&Seeks>) -> Plot {
    let curve =
        |seeks: &Seeks, of: fn(&drive_profile::findings::SeekPoint) -> Duration| -> Vec<_> {
            let points = seeks.points.iter();
            points.map(|point| (f64::from(point.distance), of(point).as_millis_f64())).collect()
        };
    let below = curve(read, |point| point.time.saturating_sub(point.variation));
    let above = curve(read, |point| point.time + point.variation);
    // The band is one line, forward and back, so that both edges have the colour of the curve.
    let band = below.into_iter().chain(above.into_iter().rev()).collect();
    let mut lines = vec![
        line("before reads", curve(read, |point| point.time), false),
        line("a deviation either way", band, true),
    ];
    if let Some(write) = write {
        lines.push(line("before writes", curve(write, |point| point.time), false));
    }
    Plot {
        caption: format!(
            "{name}: time to move the arm, and the band in which two of three movements lie"
        ),
        x: "distance, cylinders".to_owned(),
        y: "time, ms".to_owned(),
        lines,
        ..Plot::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "drawn, never computed with")]
fn zones(name: &str, geometry: &Geometry) -> Plot {
    let line_of = |what: &str, rate: fn(&drive_profile::findings::Zone) -> u64, dashed| {
        let ends = |zone: &drive_profile::findings::Zone| {
            let rate = rate(zone) as f64 / 1e6;
            [zone.lbas.start, zone.lbas.end()].map(|lba| (lba.0 as f64 * 512.0 / 1e9, rate))
        };
        line(what, geometry.zones.iter().flat_map(ends).collect(), dashed)
    };
    Plot {
        caption: format!("{name}: rates of its zones"),
        x: "place on the disk, GB".to_owned(),
        y: "rate, MB/s".to_owned(),
        lines: vec![
            line_of("in a row", |zone| zone.sustained_rate, false),
            line_of("under a head", |zone| zone.media_rate, true),
        ],
        ..Plot::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "drawn, never computed with")]
fn chunks(name: &str, read: Option<&Chunks>, write: Option<&Chunks>) -> Option<Plot> {
    let mut lines = Vec::new();
    for (what, chunks) in [("reads", read), ("writes", write)] {
        let Some(chunks) = chunks else { continue };
        let curve = |of: fn(&drive_profile::findings::ChunkPoint) -> u64| {
            let points = chunks.points.iter();
            points.map(|at| (at.chunk.bytes().0 as f64 / 1024.0, of(at) as f64 / 1e6)).collect()
        };
        lines.push(line(&format!("{what}, as seen"), curve(|at| at.seen.0), false));
        lines.push(line(&format!("{what}, the drive alone"), curve(|at| at.drive.0), true));
    }
    (!lines.is_empty()).then(|| Plot {
        caption: format!("{name}: throughput in a row against the length of a command"),
        x: "length of a command, KiB".to_owned(),
        y: "throughput, MB/s".to_owned(),
        lines,
        x_log: true,
        ..Plot::default()
    })
}

fn prediction(name: &str, turn: &Rotation, map: Option<&Geometry>) -> Plot {
    let period = turn.period.value.as_secs_f64();
    let part = turn.period.spread.as_secs_f64() / period;
    let (noise, wander) = (turn.noise.as_secs_f64(), turn.wander.as_secs_f64() / period);
    let at = |nth: u32| PREDICTED_S * f64::from(nth) / f64::from(POINTS);
    let error = |time: f64| {
        let drift = time * part.hypot(wander);
        (time, noise.hypot(drift) * 1e6)
    };
    let mut lines =
        vec![line("one standard error", (0..=POINTS).map(|nth| error(at(nth))).collect(), false)];
    if let Some(most) =
        map.and_then(|map| map.bands.iter().map(|band| band.sectors_per_track).max())
    {
        let sector = period / f64::from(most) * 1e6;
        lines.push(line("one sector, outside", vec![(0.0, sector), (PREDICTED_S, sector)], false));
    }
    Plot {
        caption: format!("{name}: error of the predicted passing of a sector"),
        x: "time since it was seen last, s".to_owned(),
        y: "error, us".to_owned(),
        lines,
        ..Plot::default()
    }
}

/// Random reads against depth, by length.
#[expect(clippy::cast_precision_loss, reason = "drawn, never computed with")]
fn rates(name: &str, measured: &ProfileFile) -> Option<Plot> {
    use drive_profile::findings::AccessPattern;
    let all = &measured.findings.flash.rates;
    let random = |rate: &&drive_profile::findings::Rate| {
        rate.access == AccessPattern::Random && rate.op == units::Op::Read
    };
    let mut lengths: Vec<_> = all.iter().filter(random).map(|rate| rate.len).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let curve = |len: units::Sectors| {
        let of = all.iter().filter(random).filter(|rate| rate.len == len);
        let points = of.map(|rate| {
            let bytes = len.bytes().0 as f64 * 1e3 / rate.interval.value.as_nanos().max(1) as f64;
            (f64::from(rate.depth), bytes)
        });
        line(&format!("reads of {}", len.bytes()), points.collect(), false)
    };
    let lines: Vec<_> = lengths.into_iter().map(curve).collect();
    (!lines.is_empty()).then(|| Plot {
        caption: format!("{name}: random reads against depth"),
        x: "commands at once".to_owned(),
        y: "throughput, MB/s".to_owned(),
        lines,
        x_log: true,
        y_log: true,
        ..Plot::default()
    })
}
