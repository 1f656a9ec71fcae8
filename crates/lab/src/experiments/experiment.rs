//! An experiment: its name, its procedure and its outcome.

use std::io;
use std::path::Path;

use engine::PolicyName;
use plot::Plot;
use serde::Serialize;
use stats::SCHEMA;

use super::check::{Check, Verdict};
use super::known_misses;

/// One experiment, run by its name.
#[derive(Clone, Copy)]
pub(crate) struct Experiment {
    /// The name on the command line.
    pub(crate) id: &'static str,
    /// One line that says what the experiment measures.
    pub(crate) title: &'static str,
    /// Runs the experiment and reports the completed fraction, from 0 to 1.
    pub(super) run: fn(&mut dyn FnMut(f64)) -> Findings,
}

/// The settings of an experiment that takes some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The policy under which it runs, instead of its own.
    pub(crate) policy: Option<PolicyName>,
    /// Whether a part of its settings is run, for tests.
    pub(crate) sample: bool,
}

/// The procedure of an experiment that takes options.
pub(super) type Optional = fn(Options, &mut dyn FnMut(f64)) -> Findings;

/// The outcome of an experiment, in the shape of `spindle-lab reproduce ID --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Outcome {
    /// [`SCHEMA`].
    pub(crate) schema: u32,
    /// The experiment's name.
    pub(crate) id: String,
    /// The checks.
    pub(crate) checks: Vec<Check>,
    /// The numbers behind the figures.
    pub(crate) series: Vec<Series>,
    /// The files written.
    pub(crate) files: Vec<String>,
}

/// A table of numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Series {
    /// The name, which is part of the CSV file's name.
    pub(crate) name: String,
    /// The columns' names, with their units.
    pub(crate) columns: Vec<String>,
    /// The rows.
    pub(crate) rows: Vec<Vec<f64>>,
}

/// The results of a procedure, before files are written.
pub(super) struct Findings {
    pub(super) checks: Vec<Check>,
    pub(super) series: Vec<Series>,
    pub(super) plots: Vec<(&'static str, Plot)>,
}

impl Series {
    pub(super) fn new(name: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(ToString::to_string).collect();
        Self { name: name.into(), columns, rows: Vec::new() }
    }

    pub(super) fn column(&self, column: usize) -> impl Iterator<Item = f64> {
        self.rows.iter().map(move |row| row[column])
    }

    /// The points of a line: one column against another.
    pub(super) fn points(&self, x: usize, y: usize) -> Vec<(f64, f64)> {
        self.column(x).zip(self.column(y)).collect()
    }

    fn csv(&self) -> String {
        let mut text = self.columns.join(",") + "\n";
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(ToString::to_string).collect();
            text += &(cells.join(",") + "\n");
        }
        text
    }
}

impl Outcome {
    /// The number of checks with this verdict.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.checks.iter().filter(|check| check.verdict == verdict).count()
    }
}

impl Experiment {
    /// Runs the experiment, reports the completed fraction to `progress`, and writes its files into
    /// `out`.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(crate) fn run(&self, out: &Path, progress: &mut dyn FnMut(f64)) -> io::Result<Outcome> {
        let mut findings = (self.run)(progress);
        known_misses::judge(self.id, &mut findings.checks);
        self.write(findings, out)
    }

    /// The same for `procedure`, which is its own with options.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn run_with(
        &self,
        (procedure, options): (Optional, Options),
        out: &Path,
        progress: &mut dyn FnMut(f64),
    ) -> io::Result<Outcome> {
        let mut findings = procedure(options, progress);
        if options == Options::default() {
            known_misses::judge(self.id, &mut findings.checks);
        } else {
            known_misses::judge_part(self.id, &mut findings.checks);
        }
        self.write(findings, out)
    }

    fn write(&self, findings: Findings, out: &Path) -> io::Result<Outcome> {
        let Findings { checks, series, plots } = findings;
        std::fs::create_dir_all(out)?;
        let mut files = Vec::new();
        let mut write = |name: String, text: &str| {
            let path = out.join(name);
            files.push(path.display().to_string());
            std::fs::write(path, text)
        };
        for series in &series {
            write(format!("{}-{}.csv", self.id, series.name), &series.csv())?;
        }
        for (name, plot) in &plots {
            let path = out.join(format!("{}{name}.svg", self.id));
            plot.write(&path).map_err(io::Error::other)?;
            files.push(path.display().to_string());
        }
        let path = out.join(format!("{}.json", self.id));
        files.push(path.display().to_string());
        let outcome = Outcome { schema: SCHEMA, id: self.id.into(), checks, series, files };
        let text = serde_json::to_string_pretty(&outcome).expect("numbers and names");
        std::fs::write(path, text + "\n")?;
        Ok(outcome)
    }
}
