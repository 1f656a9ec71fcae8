//! `spindle trace live`: a running daemon's requests as they are answered, each with the parts of
//! its latency.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use api::LiveQuery;
use clap::Args;
use console::{ExitStatus, eprintln};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use stats::{DroppedReport, RequestReport, SCHEMA};

use crate::daemon_api::{ApiSocket, accepted};

/// The interval at which signals are polled.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct TraceLive {
    #[command(flatten)]
    api: ApiSocket,
    /// Print only requests of this volume.
    #[arg(long)]
    volume: Option<String>,
    /// Print one request in N.
    #[arg(long, value_name = "N")]
    every: Option<u32>,
    /// Print requests that took at least this time, such as 5ms.
    #[arg(long, value_name = "TIME")]
    at_least: Option<String>,
    /// End after N requests.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// The counts of a trace: the last line with `--json`.
#[derive(Debug, Default, Serialize)]
struct Summary {
    schema: u32,
    requests: u64,
    dropped: u64,
}

pub(crate) fn run(args: &TraceLive, json: bool) -> anyhow::Result<ExitStatus> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stopped.clone()).context("cannot listen to signals")?;
    }
    let TraceLive { api, volume, every, at_least, count } = args;
    let query = LiveQuery { volume: volume.clone(), every: *every, at_least: at_least.clone() };
    let mut summary = Summary { schema: SCHEMA, ..Summary::default() };
    let mut out = std::io::stdout().lock();
    let refused = api.client().trace(&query, PAUSE, |line| {
        let printed = line.map_or(Ok(()), |line| print_line(line, json, &mut summary, &mut out));
        let enough = count.is_some_and(|count| summary.requests >= count);
        // A reader that has closed the pipe needs no more.
        if printed.is_err() || enough || stopped.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    if let Some(answer) = refused? {
        accepted(Ok(answer))?;
    }
    // As above.
    let _ = if json { writeln!(out, "{}", serde_json::to_string(&summary)?) } else { out.flush() };
    eprintln!("{} requests printed, {} dropped", summary.requests, summary.dropped);
    Ok(ExitStatus::Success)
}

/// Prints one line of the daemon's trace.
fn print_line(
    line: &[u8],
    json: bool,
    summary: &mut Summary,
    out: &mut impl Write,
) -> std::io::Result<()> {
    let text = String::from_utf8_lossy(line);
    if let Ok(DroppedReport { dropped, .. }) = serde_json::from_str(&text) {
        summary.dropped += dropped;
        if !json {
            return writeln!(out, "({dropped} dropped: they arrived faster than they were read)");
        }
    } else {
        summary.requests += 1;
    }
    if json {
        writeln!(out, "{text}")?;
        return out.flush();
    }
    match serde_json::from_str::<RequestReport>(&text) {
        Ok(report) => writeln!(out, "{}", report.line())?,
        // A line of a daemon of another version.
        Err(_) => writeln!(out, "{text}")?,
    }
    out.flush()
}
