//! `spindle sim replay`: replays flight records with the same engines.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use console::{ExitStatus, bad_input, eprintln, println};
use flight::{End, Reader, ReplayOutcome};
use serde::Serialize;
use stats::SCHEMA;
use units::Instant;

use crate::args;

/// The results of all records.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    same: bool,
    records: Vec<RecordReport>,
}

/// The result of one record.
#[derive(Debug, Serialize)]
struct RecordReport {
    file: String,
    program: String,
    disk: String,
    policy: &'static str,
    from_ns: u64,
    until_ns: u64,
    events: u64,
    decisions: u64,
    commands: u64,
    replies: u64,
    same: bool,
    /// `closed`, `open` or `torn`; `None` after a difference.
    end: Option<&'static str>,
    torn_bytes: u64,
    difference: Option<DifferenceReport>,
}

#[derive(Debug, Serialize)]
struct DifferenceReport {
    entry: u64,
    at_ns: u64,
    recorded: String,
    decided: String,
}

pub(crate) fn run(args: &args::Replay, json: bool) -> anyhow::Result<ExitStatus> {
    let mut records = Vec::new();
    for file in &args.records {
        let record = replay(file).map_err(|why| bad_input(format!("{}: {why}", file.display())))?;
        if !json {
            tell(&record);
        }
        records.push(record);
    }
    let same = records.iter().all(|record| record.same);
    if json {
        println!("{}", serde_json::to_string(&Report { schema: SCHEMA, same, records })?);
    }
    Ok(same.into())
}

fn replay(file: &Path) -> Result<RecordReport, String> {
    let words = |error: &dyn std::fmt::Display| error.to_string();
    let open = File::open(file).map_err(|error| words(&error))?;
    let mut reader = Reader::new(BufReader::new(open)).map_err(|error| words(&error))?;
    let done = flight::replay(&mut reader).map_err(|error| words(&error))?;
    let header = reader.header();
    let nanos = |at: Instant| at.since(Instant::ZERO).as_nanos();
    let ReplayOutcome { events, decisions, commands, replies, until, end, difference } = done;
    let (end, torn_bytes) = match end {
        None => (None, 0),
        Some(End::Closed) => (Some("closed"), 0),
        Some(End::Open) => (Some("open"), 0),
        Some(End::Torn { bytes }) => (Some("torn"), bytes),
    };
    Ok(RecordReport {
        file: file.display().to_string(),
        program: header.program.clone(),
        disk: header.disk.clone(),
        policy: header.settings.policy.as_str(),
        from_ns: nanos(header.started_at),
        until_ns: nanos(until),
        events,
        decisions,
        commands,
        replies,
        same: difference.is_none(),
        end,
        torn_bytes,
        difference: difference.map(|difference| DifferenceReport {
            entry: difference.entry,
            at_ns: nanos(difference.at),
            recorded: difference.recorded.to_string(),
            decided: difference.decided.to_string(),
        }),
    })
}

#[expect(clippy::cast_precision_loss, reason = "shown, never computed with")]
fn tell(record: &RecordReport) {
    let RecordReport { file, disk, policy, events, commands, replies, .. } = record;
    if let Some(difference) = &record.difference {
        println!(
            "{file}: disk {disk}, {policy}: another decision at entry {}, {:.6} s\n  recorded: \
             {}\n  decided:  {}",
            difference.entry,
            difference.at_ns as f64 / 1e9,
            difference.recorded,
            difference.decided
        );
        return;
    }
    let seconds = (record.until_ns - record.from_ns) as f64 / 1e9;
    println!(
        "{file}: disk {disk}, {policy}: the same, {} decisions ({commands} commands, {replies} \
         replies) on {events} events in \
         {seconds:.3} s",
        record.decisions
    );
    match record.end {
        Some("open") => eprintln!("{file}: it was not closed: its last entries may be missing"),
        Some("torn") => eprintln!(
            "{file}: its end is torn: the last {} bytes are unreadable",
            record.torn_bytes
        ),
        _ => {}
    }
}
