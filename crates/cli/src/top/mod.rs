//! `spindle top`: who gets what of each disk, now. Over the API, so that it costs what `vol ls` costs.
//!
//! On a terminal a screen that is redrawn; elsewhere, or with `--once`, tables. `--json` is one look as one object.

mod screen;
mod watch;

use std::io::{IsTerminal, Write};

use api::{Client, DisksAnswer, VolumesAnswer};
use clap::Args;
use console::{ExitStatus, table};
use units::Duration;

use crate::vol::{Reach, accepted, shape};

use watch::{Look, Watch};

#[derive(Debug, Args)]
pub(crate) struct Top {
    #[command(flatten)]
    reach: Reach,
    /// How long a look is, in milliseconds: what is shown is what happened within.
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    interval: u64,
    /// One look, as tables, and no more.
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(top: &Top, json: bool) -> anyhow::Result<ExitStatus> {
    let client = top.reach.client();
    let mut watch = Watch::new(sample(&client)?);
    let interval = Duration::from_millis(top.interval);
    if !json && !top.once && std::io::stdout().is_terminal() {
        screen::run(&client, &mut watch, interval)?;
        return Ok(ExitStatus::Success);
    }
    loop {
        pause(interval);
        watch.add(sample(&client)?);
        let told =
            if json { serde_json::to_string(&watch.look())? + "\n" } else { tables(&watch.look()) };
        let written = std::io::stdout().lock().write_all(told.as_bytes());
        // Who reads no more has seen enough.
        if json || top.once || written.is_err() {
            return Ok(ExitStatus::Success);
        }
    }
}

/// How things stand.
fn sample(client: &Client) -> anyhow::Result<watch::Sample> {
    let disks = shape::<DisksAnswer>(&accepted(client.get("disks", None))?)?.disks;
    let volumes = shape::<VolumesAnswer>(&accepted(client.get("volumes", None))?)?.volumes;
    Ok(watch::Sample { disks, volumes })
}

#[expect(clippy::disallowed_methods, reason = "a person watches; nothing else depends on it")]
fn pause(length: Duration) {
    std::thread::sleep(std::time::Duration::from_nanos(length.as_nanos()));
}

/// The heads of the two tables, and their rows: the screen shows the same.
const DISK_HEAD: [&str; 8] =
    ["disk", "drive", "busy", "reserved", "IOPS", "MB/s", "waiting", "busy, of late"];
const VOLUME_HEAD: [&str; 10] = [
    "volume",
    "disk",
    "share",
    "reserve",
    "limit",
    "IOPS",
    "MB/s",
    "waiting",
    "mean ms",
    "share, of late",
];

fn percent(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn disk_row(disk: &watch::DiskLook) -> Vec<String> {
    vec![
        disk.name.clone(),
        disk.drive.clone(),
        percent(disk.busy_share),
        percent(disk.reserved),
        format!("{:.1}", disk.iops),
        format!("{:.2}", disk.bytes_per_s / 1e6),
        disk.in_flight.to_string(),
        sparkline(&disk.busy_of_late),
    ]
}

fn volume_row(volume: &watch::VolumeLook) -> Vec<String> {
    vec![
        volume.name.clone(),
        volume.disk.clone(),
        percent(volume.share),
        percent(volume.reserve),
        percent(volume.limit),
        format!("{:.1}", volume.iops),
        format!("{:.2}", volume.bytes_per_s / 1e6),
        volume.in_flight.to_string(),
        volume.mean_ms.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.2}")),
        sparkline(&volume.share_of_late),
    ]
}

/// Parts of a whole as a line of bars: one that is not nothing is seen.
fn sparkline(parts: &[f64]) -> String {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "one of nine")]
    let bar = |part: &f64| BARS[(part.clamp(0.0, 1.0) * 8.0).ceil() as usize];
    parts.iter().map(bar).collect()
}

fn tables(look: &Look) -> String {
    let disks: Vec<_> = look.disks.iter().map(disk_row).collect();
    let volumes: Vec<_> = look.volumes.iter().map(volume_row).collect();
    table::text(&DISK_HEAD, &disks) + "\n" + &table::text(&VOLUME_HEAD, &volumes) + "\n"
}
