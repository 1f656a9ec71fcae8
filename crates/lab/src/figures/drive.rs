//! The figures of a drive model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use console::bad_input;
use drive::{AnyModel, FlashModel, Model};
use plot::{HeatMap, Line, Plot};
use sim::datasheet::{Depth, Surface, depths, sequential_rate};
use units::Duration;

const CURVE_POINTS: u32 = 500;

/// Writes the figures of the drive `name` into `out`; returns their paths.
pub(super) fn write(name: &str, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
    let spec = drive_library::open(name).map_err(bad_input)?;
    match spec.check().map_err(bad_input)? {
        AnyModel::Mechanical(model) => mechanical(&stem, &model, out),
        AnyModel::Flash(model) => flash(&stem, &model, out),
        AnyModel::Unknown(_) => unreachable!("a drive file describes a drive"),
    }
}

fn mechanical(stem: &str, model: &Arc<Model>, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (what, plot) in [("seek", seek_plot(stem, model)), ("zones", zone_plot(stem, model))] {
        let path = out.join(format!("{stem}-{what}.svg"));
        plot.write(&path)?;
        files.push(path);
    }
    let path = out.join(format!("{stem}-surface.svg"));
    surface_plot(stem, model).write(&path)?;
    files.push(path);
    Ok(files)
}

fn flash(stem: &str, model: &Arc<FlashModel>, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let path = out.join(format!("{stem}-latency.svg"));
    latency_plot(stem, &depths(model)).write(&path)?;
    Ok(vec![path])
}

fn surface_plot(name: &str, model: &Model) -> HeatMap {
    HeatMap {
        caption: format!(
            "{name}: service time of a 4 KiB read off the disk, from the outermost cylinder"
        ),
        x: "seek distance, cylinders".to_owned(),
        y: "sector ahead of the heads, ms of rotation".to_owned(),
        value: "service time, ms".to_owned(),
        ends: (f64::from(model.cylinders()), model.period().as_millis_f64()),
        cells: Surface::of(model).service_ms,
    }
}

fn seek_plot(name: &str, model: &Model) -> Plot {
    let longest = model.cylinders() - 1;
    let step = longest.div_ceil(CURVE_POINTS).max(1);
    // A seek curve bends at short distances, so all of the first distances are plotted.
    let distances = (0..=longest).filter(|d| *d < 100 || d % step == 0 || *d == longest);
    let time = |distance: u32| -> Duration { model.seek(distance) };
    Plot {
        caption: format!("{name}: time to move the arm, reading"),
        x: "distance, cylinders".to_owned(),
        y: "time, ms".to_owned(),
        lines: vec![Line {
            name: "seek".to_owned(),
            points: distances.map(|d| (f64::from(d), time(d).as_millis_f64())).collect(),
            dashed: false,
        }],
        ..Plot::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "drawn, never computed with")]
fn zone_plot(name: &str, model: &Arc<Model>) -> Plot {
    let (mut media, mut streamed) = (Vec::new(), Vec::new());
    for zone in model.zones() {
        let ends = [zone.lbas.start, zone.lbas.end()].map(|lba| lba.0 as f64 * 512.0 / 1e9);
        let rate = sequential_rate(model, zone.lbas.start, zone.lbas.end()) / 1e6;
        media.extend(ends.map(|at| (at, zone.media_rate.0 as f64 / 1e6)));
        streamed.extend(ends.map(|at| (at, rate)));
    }
    let line = |name: &str, points, dashed| Line { name: name.to_owned(), points, dashed };
    Plot {
        caption: format!("{name}: rates of its zones"),
        x: "place on the disk, GB".to_owned(),
        y: "rate, MB/s".to_owned(),
        lines: vec![line("1 MiB reads", streamed, false), line("under a head", media, true)],
        ..Plot::default()
    }
}

/// Mean and 99th percentile of read latency against the queue depth, without and with writes.
fn latency_plot(name: &str, depths: &[Depth]) -> Plot {
    let line = |name: &str, dashed, ms: fn(&Depth) -> f64| Line {
        name: name.to_owned(),
        points: depths.iter().map(|at| (f64::from(at.depth), ms(at))).collect(),
        dashed,
    };
    Plot {
        caption: format!("{name}: random 4 KiB reads, alone and beside writes"),
        x: "reads outstanding".to_owned(),
        y: "latency, ms".to_owned(),
        lines: vec![
            line("mean", false, |at| at.read_mean_ms),
            line("99 %", true, |at| at.read_p99_ms),
            line("mean, beside writes", false, |at| at.beside_writes_read_mean_ms),
            line("99 %, beside writes", true, |at| at.beside_writes_read_p99_ms),
        ],
        ..Plot::default()
    }
}
