//! `spindle profile compare`: the figures of two profiles that differ by more than their errors.

use std::path::PathBuf;

use clap::Args;
use console::{ExitStatus, print, println, table};
use drive_profile::findings::Seeks;
use serde::Serialize;
use serde_json::Value;
use stats::SCHEMA;

use super::file::read;

#[derive(Debug, Args)]
pub(super) struct Compare {
    /// A profile.
    one: PathBuf,
    /// Another.
    other: PathBuf,
}

/// The largest difference between two figures of one thing, in standard errors of both: one pair in
/// a hundred differs by more.
const ERRORS_MAX: f64 = 2.6;
/// The smallest difference that counts, as a part of the larger figure: two devices of a kind
/// differ by more.
const PART_MIN: f64 = 0.002;

/// A figure that differs between the profiles.
#[derive(Debug, Serialize)]
struct Difference {
    what: String,
    one: String,
    other: String,
    /// The difference in standard errors of both; `None` for figures without an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Compared {
    schema: u32,
    same: usize,
    differences: Vec<Difference>,
    /// Figures that only one of them has.
    only_one: Vec<String>,
    only_other: Vec<String>,
}

pub(super) fn run(args: &Compare, json: bool) -> anyhow::Result<ExitStatus> {
    let (one, other) = (read(&args.one)?, read(&args.other)?);
    let table = |of: &drive_library::profile::ProfileFile| serde_json::to_value(of.found());
    let mut compared = Compared {
        schema: SCHEMA,
        same: 0,
        differences: Vec::new(),
        only_one: Vec::new(),
        only_other: Vec::new(),
    };
    compared.visit(String::new(), &table(&one)?, &table(&other)?);
    let (ours, theirs) = (&one.findings.dynamics, &other.findings.dynamics);
    compared.curves("seek", ours.seek.as_ref(), theirs.seek.as_ref());
    compared.curves("seek_write", ours.seek_write.as_ref(), theirs.seek_write.as_ref());
    let held = compared.differences.is_empty();
    if json {
        println!("{}", serde_json::to_string(&compared)?);
        return Ok(ExitStatus::from(held));
    }
    let row = |found: &Difference| {
        let errors = found.errors.map_or(String::new(), |errors| format!("{errors:.1}"));
        vec![found.what.clone(), found.one.clone(), found.other.clone(), errors]
    };
    let rows: Vec<_> = compared.differences.iter().map(row).collect();
    if !rows.is_empty() {
        print!("{}", table::text(&["differs", "one", "other", "errors"], &rows));
    }
    println!("{} figures differ, {} do not", rows.len(), compared.same);
    for (which, only) in [("the first", &compared.only_one), ("the second", &compared.only_other)] {
        if !only.is_empty() {
            println!("in {which} alone: {}", only.join(", "));
        }
    }
    Ok(ExitStatus::from(held))
}

/// The keys that identify a table of a list.
const NAMES: [&str; 7] = ["op", "access", "length", "depth", "quantity", "writes", "first_lba"];
/// Keys of figures without an error: they are equal or not.
const EXACT: [&str; 6] =
    ["surfaces", "cylinders", "sectors_per_track", "first_cylinder", "head_order", "verdict"];
/// Ratio of consecutive distances at which seek curves are compared.
const FARTHER: u32 = 3;

/// The name of a table of a list, from its identifying keys; else its number.
fn name(value: &Value, index: usize) -> String {
    let parts = NAMES.iter().filter_map(|key| value.get(key).map(plain));
    let name = parts.collect::<Vec<_>>().join(" ");
    if name.is_empty() { index.to_string() } else { name }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The number of a value: times in nanoseconds, sizes in bytes, shares as fractions.
#[expect(clippy::cast_precision_loss, reason = "compared, never computed with")]
fn number(value: &Value) -> Option<f64> {
    let Some(text) = value.as_str() else { return value.as_f64() };
    let time = text.parse::<units::Duration>().map(|time| time.as_nanos() as f64);
    let size = || text.parse::<units::Bytes>().map(|bytes| bytes.0 as f64);
    let share = || text.parse::<units::Share>().map(units::Share::as_f64);
    time.or_else(|_| size()).or_else(|_| share()).ok()
}

impl Compared {
    fn visit(&mut self, path: String, one: &Value, other: &Value) {
        match (one, other) {
            (Value::Object(left), Value::Object(right)) => {
                if let Some(found) = figures(one, other) {
                    return self.note(path, &left["value"], &right["value"], found);
                }
                let within = |key: &str| {
                    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
                };
                for (key, value) in left {
                    match right.get(key) {
                        Some(other) => self.visit(within(key), value, other),
                        None => self.only_one.push(within(key)),
                    }
                }
                let more = right.keys().filter(|key| !left.contains_key(*key));
                self.only_other.extend(more.map(|key| within(key)));
            }
            (Value::Array(left), Value::Array(right)) if left.iter().all(Value::is_object) => {
                let named = |all: &[Value]| {
                    all.iter().enumerate().map(|(nth, value)| name(value, nth)).collect::<Vec<_>>()
                };
                let (ours, theirs) = (named(left), named(right));
                for (name, value) in ours.iter().zip(left) {
                    match theirs.iter().position(|their| their == name) {
                        Some(place) => self.visit(format!("{path}[{name}]"), value, &right[place]),
                        None => self.only_one.push(format!("{path}[{name}]")),
                    }
                }
                let more = theirs.iter().filter(|name| !ours.contains(name));
                self.only_other.extend(more.map(|name| format!("{path}[{name}]")));
            }
            _ => {
                let key = path.rsplit('.').next().unwrap_or_default();
                if one.is_boolean() || EXACT.contains(&key) {
                    self.note(path, one, other, (None, one != other));
                }
            }
        }
    }

    /// Compares seek curves. Their points were measured at different distances, so that they are
    /// compared by interpolation.
    fn curves(&mut self, name: &str, one: Option<&Seeks>, other: Option<&Seeks>) {
        let (Some(one), Some(other)) = (one, other) else { return };
        let last = |seeks: &Seeks| seeks.points.last().map_or(0, |point| point.distance);
        let most = last(one).min(last(other));
        let distances = core::iter::successors(Some(1_u32), |at| at.checked_mul(FARTHER));
        for distance in distances.take_while(|distance| *distance <= most) {
            let [ours, theirs] = [one, other].map(|seeks| at(seeks, distance));
            let shown = |(time, error): (units::Duration, units::Duration)| {
                let (value, spread) = (time.to_string(), error.to_string());
                serde_json::json!({ "value": value, "spread": spread })
            };
            let [ours, theirs] = [shown(ours), shown(theirs)];
            if let Some(found) = figures(&ours, &theirs) {
                let what = format!("dynamics.{name} over {distance} cylinders");
                self.note(what, &ours["value"], &theirs["value"], found);
            }
        }
    }

    fn note(&mut self, what: String, one: &Value, other: &Value, found: (Option<f64>, bool)) {
        let (errors, differs) = found;
        if differs {
            let (one, other) = (plain(one), plain(other));
            self.differences.push(Difference { what, one, other, errors });
        } else {
            self.same += 1;
        }
    }
}

/// The seek time over `distance`, and its error.
fn at(seeks: &Seeks, distance: u32) -> (units::Duration, units::Duration) {
    let nearest = seeks.points.iter().min_by_key(|point| point.distance.abs_diff(distance));
    let error = nearest.map_or(units::Duration::ZERO, |point| point.error);
    (seeks.curve().time(distance), error)
}

/// The difference of two figures in errors of both, and whether it counts as a difference.
fn figures(one: &Value, other: &Value) -> Option<(Option<f64>, bool)> {
    let of = |of: &Value| Some((number(of.get("value")?)?, number(of.get("spread")?)?));
    let ((one, off), (other, off_other)) = (of(one)?, of(other)?);
    let apart = (one - other).abs();
    let error = off.hypot(off_other);
    let part = apart > PART_MIN * one.abs().max(other.abs());
    if error == 0.0 {
        return Some((None, apart > 0.0));
    }
    let errors = apart / error;
    Some((Some(errors), errors > ERRORS_MAX && part))
}
