//! `spindle events`: what happens to a running daemon, as it happens.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use api::EventQuery;
use clap::Args;
use console::ExitStatus;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::daemon_api::{ApiSocket, accepted};

/// The interval at which signals are polled.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct Events {
    #[command(flatten)]
    api: ApiSocket,
    /// This client's name, for the daemon's messages about it.
    #[arg(long, value_name = "NAME", default_value = "spindle events")]
    client: String,
    /// Print a frame each second too: what `spindle top --json` prints.
    #[arg(long)]
    frames: bool,
    /// End after N events.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// Prints one event: one JSON object a line with `json`.
fn print(event: &str, data: &str, json: bool, out: &mut impl Write) -> std::io::Result<()> {
    let mut data: Value = serde_json::from_str(data).unwrap_or(Value::Null);
    if json {
        if let Some(fields) = data.as_object_mut() {
            fields.insert("event".to_owned(), json!(event));
        }
        writeln!(out, "{data}")?;
    } else {
        let fields = data.as_object().into_iter().flatten().filter(|(name, value)| {
            // Tables are for programs.
            *name != "schema" && !value.is_array() && !value.is_null()
        });
        let fields: Vec<String> = fields.map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(out, "{event}: {}", fields.join(" "))?;
    }
    out.flush()
}

pub(crate) fn run(args: &Events, json: bool) -> anyhow::Result<ExitStatus> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stopped.clone()).context("cannot listen to signals")?;
    }
    let Events { api, client, frames, count } = args;
    let query =
        EventQuery { client: Some(client.clone()), frames: Some(*frames), ..EventQuery::default() };
    let (mut event, mut printed) = (String::new(), 0);
    let mut out = std::io::stdout().lock();
    let refused = api.client().events(&query, PAUSE, |line| {
        let line = line.map(String::from_utf8_lossy).unwrap_or_default();
        if let Some(kind) = line.strip_prefix("event: ") {
            kind.clone_into(&mut event);
        } else if let Some(data) = line.strip_prefix("data: ") {
            printed += 1;
            // A reader that has closed the pipe needs no more.
            if print(&event, data, json, &mut out).is_err() {
                return ControlFlow::Break(());
            }
        }
        if count.is_some_and(|count| printed >= count) || stopped.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    if let Some(answer) = refused? {
        accepted(Ok(answer))?;
    }
    Ok(ExitStatus::Success)
}
