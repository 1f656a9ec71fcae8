//! `spindle top`: the disk time and the rates of each volume, now. One update costs the daemon what
//! `spindle vol ls` costs.
//!
//! On a terminal a screen that is redrawn; elsewhere, or with `--once`, tables. `--json` prints one
//! interval as one object.

mod rows;
mod sample;
mod screen;

use std::io::IsTerminal;

use api::{History, Window};
use clap::Args;
use console::{ExitStatus, print, table};
use units::Duration;

use crate::daemon_api::ApiSocket;

use rows::{DISK_HEAD, VOLUME_HEAD, disk_row, volume_row};
use sample::sample;

#[derive(Debug, Args)]
pub(crate) struct Top {
    #[command(flatten)]
    api: ApiSocket,
    /// The interval that is shown, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=60_000))]
    interval: u64,
    /// Print one interval as tables, and end.
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(top: &Top, json: bool) -> anyhow::Result<ExitStatus> {
    let client = top.api.client();
    let mut history = History::new(sample(&client)?);
    let interval = Duration::from_millis(top.interval);
    if !json && !top.once && std::io::stdout().is_terminal() {
        screen::run(&client, &mut history, interval)?;
        return Ok(ExitStatus::Success);
    }
    loop {
        pause(interval);
        history.add(sample(&client)?);
        let text = if json {
            serde_json::to_string(&history.interval())? + "\n"
        } else {
            tables(&history.interval())
        };
        print!("{text}");
        if json || top.once {
            return Ok(ExitStatus::Success);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a person watches; nothing else depends on it")]
fn pause(length: Duration) {
    std::thread::sleep(std::time::Duration::from_nanos(length.as_nanos()));
}

fn tables(interval: &Window) -> String {
    let disks: Vec<_> = interval.disks.iter().map(disk_row).collect();
    let volumes: Vec<_> = interval.volumes.iter().map(volume_row).collect();
    table::text(&DISK_HEAD, &disks) + "\n" + &table::text(&VOLUME_HEAD, &volumes) + "\n"
}
