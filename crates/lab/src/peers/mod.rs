//! `spindle-lab peers`: what tests/guest/peers.sh measured of Linux's schedulers and of Spindle on
//! the same emulated disk, as a table and a figure.
//!
//! A client's *worth* here is its rate ÷ (its share × the rate of the same client alone on the same
//! disk, without a scheduler). A scheduler's score in a cell is the least worth of the cell's
//! clients × the sum of their rates, each ÷ the client's rate alone: the first alone could be had
//! by leaving the disk idle, the second alone by serving the cheapest client only.

mod measured;

use std::path::PathBuf;

use clap::Args;
use console::{ExitStatus, bad_input, eprintln, print, println, table};
use plot::{Line, Plot};
use serde::Serialize;
use stats::SCHEMA;

use measured::{Measured, read};

/// Spindle's name among the schedulers.
const SPINDLE: &str = "spindle";
/// Each client alone, without a scheduler.
const ALONE: &str = "alone";

#[derive(Debug, Args)]
pub(crate) struct Peers {
    /// What tests/guest/peers.sh wrote.
    results: PathBuf,
    /// The directory for the figure.
    #[arg(long, default_value = "out", value_name = "DIR")]
    out: PathBuf,
}

/// A client beside the others of its cell.
#[derive(Debug, PartialEq, Serialize)]
struct Client {
    load: String,
    share_percent: u32,
    requests_per_s: f64,
    p99_ms: f64,
    alone_requests_per_s: f64,
    alone_p99_ms: f64,
    worth: f64,
}

/// A cell under one scheduler.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    cell: String,
    scheduler: String,
    clients: Vec<Client>,
    least_worth: f64,
    efficiency: f64,
    score: f64,
}

#[derive(Debug, Serialize)]
struct Told {
    schema: u32,
    setting: String,
    rows: Vec<Row>,
    /// The cells in which another scheduler's score is above Spindle's.
    behind: Vec<String>,
    files: Vec<PathBuf>,
}

pub(crate) fn run(args: &Peers, json: bool) -> anyhow::Result<ExitStatus> {
    let name = args.results.display().to_string();
    let text = std::fs::read_to_string(&args.results);
    let text = text.map_err(|error| bad_input(format!("{name}: {error}")))?;
    let (setting, measured) = read(&text, &name).map_err(bad_input)?;
    let rows = rows(&measured).map_err(|why| bad_input(format!("{name}: {why}")))?;
    let behind = behind(&rows);
    std::fs::create_dir_all(&args.out)
        .map_err(|error| bad_input(format!("{}: {error}", args.out.display())))?;
    let path = args.out.join("peers.svg");
    figure(&rows, &setting).write(&path)?;
    eprintln!("wrote {}", path.display());
    let holds = behind.is_empty();
    if json {
        let told = Told { schema: SCHEMA, setting, rows, behind, files: vec![path] };
        println!("{}", serde_json::to_string(&told)?);
    } else {
        print(&setting, &rows, &behind);
    }
    Ok(holds.into())
}

/// A row for each cell and scheduler, in the order in which they were measured.
fn rows(measured: &[Measured]) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = Vec::new();
    for one in measured.iter().filter(|one| one.scheduler != ALONE) {
        let same = |other: &&Measured| {
            other.scheduler == ALONE && other.cell == one.cell && other.client == one.client
        };
        let alone = measured.iter().find(same).filter(|alone| alone.requests_per_s > 0.0);
        let alone = alone.ok_or_else(|| {
            format!("client {} of {} was not measured alone", one.client, one.cell)
        })?;
        let share = f64::from(one.share_percent) / 100.0;
        let client = Client {
            load: one.load.clone(),
            share_percent: one.share_percent,
            requests_per_s: one.requests_per_s,
            p99_ms: one.p99_ms,
            alone_requests_per_s: alone.requests_per_s,
            alone_p99_ms: alone.p99_ms,
            worth: one.requests_per_s / (share * alone.requests_per_s),
        };
        match rows.last_mut() {
            Some(row) if row.cell == one.cell && row.scheduler == one.scheduler => {
                row.clients.push(client);
            }
            _ => rows.push(Row {
                cell: one.cell.clone(),
                scheduler: one.scheduler.clone(),
                clients: vec![client],
                least_worth: 0.0,
                efficiency: 0.0,
                score: 0.0,
            }),
        }
    }
    for row in &mut rows {
        row.least_worth = row.clients.iter().map(|one| one.worth).fold(f64::INFINITY, f64::min);
        row.efficiency =
            row.clients.iter().map(|one| one.requests_per_s / one.alone_requests_per_s).sum();
        row.score = row.least_worth * row.efficiency;
    }
    Ok(rows)
}

/// The distinct values of a column, in the order of the rows.
fn distinct(rows: &[Row], of: fn(&Row) -> &str) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for name in rows.iter().map(of) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

fn find<'a>(rows: &'a [Row], cell: &str, scheduler: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.cell == cell && row.scheduler == scheduler)
}

/// The cells that Spindle was not measured in, or in which another scheduler's score is higher.
fn behind(rows: &[Row]) -> Vec<String> {
    let is_behind = |cell: &&str| {
        let ours = find(rows, cell, SPINDLE).map_or(0.0, |row| row.score);
        rows.iter().any(|row| row.cell == **cell && row.scheduler != SPINDLE && row.score >= ours)
    };
    distinct(rows, |row| &row.cell).into_iter().filter(is_behind).map(str::to_owned).collect()
}

fn figure(rows: &[Row], setting: &str) -> Plot {
    let cells = distinct(rows, |row| &row.cell);
    let line = |scheduler: &str| {
        let points = (1_u32..).zip(&cells).filter_map(|(number, cell)| {
            find(rows, cell, scheduler).map(|row| (f64::from(number), row.least_worth))
        });
        Line { name: scheduler.to_owned(), points: points.collect(), dashed: false }
    };
    let schedulers = distinct(rows, |row| &row.scheduler);
    Plot {
        caption: format!("What the worst-off client had of its due, by scheduler: {setting}"),
        // Their names are too long for an axis.
        x: "clients, by row of the table".to_owned(),
        y: "least worth (1 = its share of what it has alone)".to_owned(),
        lines: schedulers.into_iter().map(line).collect(),
        bars: true,
        ..Plot::default()
    }
}

fn print(setting: &str, rows: &[Row], behind: &[String]) {
    println!("{setting}");
    let head =
        ["cell", "scheduler", "clients: requests/s (worth, p99 ms)", "least", "sum", "score"];
    let cells = rows.iter().map(|row| {
        let client = |one: &Client| {
            format!("{:.1} ({:.2}, {:.0})", one.requests_per_s, one.worth, one.p99_ms)
        };
        let clients: Vec<_> = row.clients.iter().map(client).collect();
        vec![
            row.cell.clone(),
            row.scheduler.clone(),
            clients.join("  "),
            format!("{:.2}", row.least_worth),
            format!("{:.2}", row.efficiency),
            format!("{:.2}", row.score),
        ]
    });
    print!("{}", table::text(&head, &cells.collect::<Vec<_>>()));
    for cell in behind {
        println!("{cell}: another scheduler's score is at least Spindle's");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = "\
# hgst-7k8, 12 s each
alone two 0 50 random16 200.0 90.0
alone two 1 50 random1 80.0 20.0
none two 0 50 random16 190.0 100.0
none two 1 50 random1 4.0 400.0
spindle two 0 50 random16 100.0 200.0
spindle two 1 50 random1 40.0 60.0
";

    fn judged(text: &str) -> Result<Vec<Row>, String> {
        rows(&read(text, "results").expect("sound").1)
    }

    #[test]
    fn the_score_is_the_least_worth_times_the_sum_of_the_parts() {
        let rows = judged(RESULTS).expect("complete");
        let none = &rows[0];
        assert_eq!((none.scheduler.as_str(), none.clients.len()), ("none", 2));
        assert!((none.least_worth - 0.1).abs() < 1e-9, "4 of 40");
        assert!((none.efficiency - 1.0).abs() < 1e-9, "190 of 200 and 4 of 80");
        assert!((rows[1].score - 1.0).abs() < 1e-9, "each has its half: {}", rows[1].score);
        assert_eq!(behind(&rows), Vec::<String>::new());
    }

    #[test]
    fn a_cell_is_behind_when_another_scheduler_does_as_well_or_spindle_is_missing() {
        let equal = RESULTS.replace("none two 0 50 random16 190.0", "none two 0 50 random16 100.0");
        let equal = equal.replace("none two 1 50 random1 4.0", "none two 1 50 random1 40.0");
        assert_eq!(behind(&judged(&equal).expect("complete")), ["two"]);
        let without: String = RESULTS
            .lines()
            .filter(|line| !line.starts_with(SPINDLE))
            .collect::<Vec<_>>()
            .join("\n");
        assert_eq!(behind(&judged(&without).expect("complete")), ["two"]);
    }

    #[test]
    fn a_client_that_was_not_measured_alone_is_refused() {
        let without = RESULTS.replace("alone two 1 50 random1 80.0 20.0\n", "");
        let why = judged(&without).expect_err("no reference");
        assert_eq!(why, "client 1 of two was not measured alone");
    }

    #[test]
    fn the_figure_has_a_bar_for_each_scheduler_and_cell() {
        let drawn = figure(&judged(RESULTS).expect("complete"), "hgst-7k8");
        let names: Vec<_> = drawn.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["none", "spindle"]);
        assert!(drawn.lines.iter().all(|line| line.points.len() == 1));
    }
}
