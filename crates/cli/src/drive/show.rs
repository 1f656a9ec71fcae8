//! `spindle drive ls` and `show`: what the models do, worked out by asking them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use drive::{AnyModel, Device, Model, Tag};
use plot::{Line, Plot};
use serde::Serialize;
use sim::Dice;
use stats::SCHEMA;
use units::{Duration, Extent, Instant, Lba, Operation, Sectors};

use super::surface::Surface;
use super::{Show, flash};
use crate::exit::{Ended, bad_input};
use crate::table;

/// The block of the random reads.
const BLOCK: Sectors = Sectors(8);
const RANDOM_READS: u64 = 20_000;
/// The request of the sequential reads: long enough that overheads do not count.
const STREAM: Sectors = Sectors(2_048);
const STREAM_READS: u64 = 64;
const SEED: u64 = 1;
const CURVE_POINTS: u32 = 500;

/// What a drive does, in the shape of `spindle drive ls --json` and `show --json`.
#[derive(Debug, Serialize)]
struct Facts {
    kind: &'static str,
    name: String,
    sectors: u64,
    bytes: u64,
    rpm: f64,
    cylinders: u32,
    zones: usize,
    seek_mean_ms: f64,
    full_stroke_ms: f64,
    random_read_4k_ms: f64,
    outer_bytes_per_s: f64,
    inner_bytes_per_s: f64,
}

#[derive(Debug, Serialize)]
struct Listed {
    schema: u32,
    drives: Vec<Any>,
}

/// A drive of either kind.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Any {
    Mechanical(Facts),
    Flash(flash::Facts),
}

#[derive(Debug, Serialize)]
struct Shown {
    schema: u32,
    #[serde(flatten)]
    facts: Facts,
    zone_rates: Vec<Zone>,
    service_times: Surface,
    files: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Zone {
    first_sector: u64,
    sectors: u64,
    first_cylinder: u32,
    last_cylinder: u32,
    sectors_per_track: u32,
    media_bytes_per_s: u64,
}

/// Reads one after the other without a pause, and gives the mean time of one.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn mean_ms(model: &Arc<Model>, extents: impl Iterator<Item = Extent>) -> f64 {
    let mut device = Device::new(Arc::clone(model));
    let (mut now, mut count) = (Instant::ZERO, 0);
    for extent in extents {
        device.submit(now, Tag(count), Operation::read(extent));
        now = device.next_completion().expect("one is in service");
        device.complete(now).expect("it is done");
        count += 1;
    }
    now.since(Instant::ZERO).as_millis_f64() / count.max(1) as f64
}

/// Bytes a second of a sequential read from `start` on, as far as `end`.
#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn stream(model: &Arc<Model>, start: Lba, end: Lba) -> f64 {
    let len = Sectors(STREAM.0.min((end.0 - start.0).max(1)));
    let count = ((end.0 - start.0) / len.0).clamp(1, STREAM_READS);
    let each = mean_ms(model, (0..count).map(|nth| Extent::new(start + Sectors(len.0 * nth), len)));
    len.bytes().0 as f64 * 1e3 / each
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn facts(name: &str, model: &Arc<Model>) -> Facts {
    let mut dice = Dice::new(SEED, 0);
    let blocks = (model.capacity().0 / BLOCK.0).max(1);
    let len = Sectors(BLOCK.0.min(model.capacity().0));
    let random = (0..RANDOM_READS).map(|_| Extent::new(Lba(dice.below(blocks) * len.0), len));
    let (outer, inner) = (model.zones().next(), model.zones().last());
    let (outer, inner) = (outer.expect("a zone").lbas, inner.expect("a zone").lbas);
    Facts {
        kind: "mechanical",
        name: name.to_owned(),
        sectors: model.capacity().0,
        bytes: model.capacity().bytes().0,
        rpm: 60e9 / model.period().as_nanos() as f64,
        cylinders: model.cylinders(),
        zones: model.zones().len(),
        seek_mean_ms: model.seek_mean().as_millis_f64(),
        full_stroke_ms: model.full_stroke().as_millis_f64(),
        random_read_4k_ms: mean_ms(model, random),
        outer_bytes_per_s: stream(model, outer.start, outer.end()),
        inner_bytes_per_s: stream(model, inner.start, inner.end()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn row(facts: &Facts) -> Vec<String> {
    vec![
        facts.name.clone(),
        format!("{:.2}", facts.bytes as f64 / 1e9),
        format!("{:.0}", facts.rpm),
        format!("{:.2}", facts.seek_mean_ms),
        format!("{:.2}", facts.random_read_4k_ms),
        format!("{:.1}", facts.outer_bytes_per_s / 1e6),
        format!("{:.1}", facts.inner_bytes_per_s / 1e6),
    ]
}

fn print(all: &[Facts]) {
    let head = ["drive", "GB", "rpm", "seek ms", "random 4 KiB ms", "outer MB/s", "inner MB/s"];
    print!("{}", table::text(&head, &all.iter().map(row).collect::<Vec<_>>()));
}

pub(crate) fn list(json: bool) -> anyhow::Result<Ended> {
    let (mut mechanical, mut flash) = (Vec::new(), Vec::new());
    for name in config::drives::names() {
        match config::drives::open_any(name).map_err(bad_input)?.check().map_err(bad_input)? {
            AnyModel::Mechanical(model) => mechanical.push(facts(name, &model)),
            AnyModel::Flash(model) => flash.push(flash::facts(name, &model)),
            AnyModel::Unknown(_) => unreachable!("a drive file describes a drive"),
        }
    }
    if json {
        let mechanical = mechanical.into_iter().map(Any::Mechanical);
        let drives = mechanical.chain(flash.into_iter().map(Any::Flash)).collect();
        println!("{}", serde_json::to_string(&Listed { schema: SCHEMA, drives })?);
    } else {
        print(&mechanical);
        println!();
        flash::print(&flash);
    }
    Ok(Ended::Held)
}

pub(crate) fn show(args: &Show, json: bool) -> anyhow::Result<Ended> {
    let stem = Path::new(&args.drive).file_stem().unwrap_or_default().to_string_lossy();
    let spec = config::drives::open_any(&args.drive).map_err(bad_input)?;
    let model = match spec.check().map_err(bad_input)? {
        AnyModel::Mechanical(model) => model,
        AnyModel::Flash(model) => return flash::show(&stem, &model, args.out.as_ref(), json),
        AnyModel::Unknown(_) => unreachable!("a drive file describes a drive"),
    };
    let facts = facts(&stem, &model);
    let surface = Surface::of(&model);
    let mut files = Vec::new();
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out)
            .map_err(|error| bad_input(format!("{}: {error}", out.display())))?;
        for (what, plot) in
            [("seek", seek_plot(&stem, &model)), ("zones", zone_plot(&stem, &model))]
        {
            let path = out.join(format!("{stem}-{what}.svg"));
            plot.write(&path)?;
            files.push(path);
        }
        let path = out.join(format!("{stem}-surface.svg"));
        surface.figure(&stem, &model).write(&path)?;
        files.push(path);
    }
    if json {
        let zone_rates = model.zones().map(|zone| Zone {
            first_sector: zone.lbas.start.0,
            sectors: zone.lbas.len.0,
            first_cylinder: zone.first_cylinder,
            last_cylinder: zone.last_cylinder,
            sectors_per_track: zone.sectors_per_track,
            media_bytes_per_s: zone.media_rate.0,
        });
        let zone_rates = zone_rates.collect();
        let shown = Shown { schema: SCHEMA, facts, zone_rates, service_times: surface, files };
        println!("{}", serde_json::to_string(&shown)?);
        return Ok(Ended::Held);
    }
    print(&[facts]);
    for file in &files {
        eprintln!("wrote {}", file.display());
    }
    Ok(Ended::Held)
}

fn seek_plot(name: &str, model: &Model) -> Plot {
    let longest = model.cylinders() - 1;
    let step = longest.div_ceil(CURVE_POINTS).max(1);
    // Short seeks are where a curve bends: all of the first are drawn.
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
        let rate = stream(model, zone.lbas.start, zone.lbas.end()) / 1e6;
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
