//! `PROFILE.toml`: what was measured of a device, when it was stopped, and how sure each figure is.
//!
//! Invariant: a file that was written is read back as what was written, to the nanosecond (a test asks profiles drawn by
//! dice); a part that was not measured is missing, never guessed.

use std::path::Path;

use drive_profile::findings::{Findings, Outlier, OutlierReason, Stage};
use serde::Serialize;
use units::{Duration, Lba, Sectors};

use super::form::{self, Form, Record};
use crate::error::ConfigError;
use crate::file::read_text;
use crate::table::Source;

/// The version of the format. A file of another one is refused.
pub const SCHEMA: u32 = 1;
/// The longest profile: longer is something else by mistake.
pub const PROFILE_BYTES_MAX: u64 = 16 << 20;
const LENGTHS_MAX: usize = 256;

/// What was measured of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// What it was measured of.
    pub device: Device,
    /// How it was measured.
    pub run: Run,
    /// What was found.
    pub findings: Findings,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// As it was called: a path, an URI, `emulated:NAME` or `simulated:NAME`.
    pub name: String,
    /// What it calls itself, if it does.
    pub model: Option<String>,
    /// How much it holds.
    pub capacity: Sectors,
    /// Its logical block.
    pub block: Sectors,
    /// Whether it may have been written to.
    pub written: bool,
    /// Whether it takes a command that moves the arm alone.
    pub seeks: bool,
    /// How many commands it, or the way to it, takes at once.
    pub depth_max: u32,
}

/// How it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// How much of the device's time it took, over all runs.
    pub time: Duration,
    /// Whether a glance was enough.
    pub quick: bool,
    /// Why it ended before everything was measured; nothing if everything was.
    pub halted: Option<String>,
    /// What the host takes to hand a command to a thread and to hear of its end, where threads are between.
    pub overhead: Option<Duration>,
    /// What transfers take of a processor in this process, by their length: the mean of so many.
    pub processor: Vec<Processor>,
}

/// What transfers of one length take of a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// The length.
    pub len: Sectors,
    /// What one takes.
    pub time: Duration,
    /// The mean of so many.
    pub samples: u64,
}

impl Measured {
    /// Reads the profile at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or [`Measured::parse`] refuses it.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = read_text(path, PROFILE_BYTES_MAX)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Checks the profile `text`; messages call it `file`.
    ///
    /// # Errors
    /// The first thing that is wrong: the syntax, the version, then the keys and what they hold.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        let source = Source::new(file, text);
        let root = source.parse()?;
        let mut measured: Self = form::read(&source, &root)?;
        measured.findings.done.sort_unstable();
        measured.findings.done.dedup();
        Ok(measured)
    }

    /// The file's tables, for whoever writes them in another format.
    ///
    /// # Panics
    /// Never: what is written is TOML, which a test asks.
    pub fn table(&self) -> impl Serialize {
        toml::from_str::<toml::Table>(&self.to_toml()).expect("what is written is TOML")
    }

    /// The same of what was found alone.
    pub fn found(&self) -> impl Serialize {
        let mut table = toml::from_str::<toml::Table>(&self.to_toml()).expect("TOML");
        table.remove("found")
    }

    /// The file that [`Measured::parse`] reads back as this very profile.
    pub fn to_toml(&self) -> String {
        form::write(&mut self.clone())
    }
}

impl Record for Measured {
    fn blank() -> Self {
        Self { device: Device::default(), run: Run::default(), findings: Findings::default() }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), ConfigError> {
        form.exactly("schema", SCHEMA)?;
        form.section("device", &mut self.device)?;
        form.section("run", &mut self.run)?;
        form.section("found", &mut self.findings)
    }
}

impl Record for Device {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), ConfigError> {
        form.field("name", &mut self.name)?;
        form.maybe("model", &mut self.model)?;
        form.field("capacity", &mut self.capacity)?;
        form.field("block", &mut self.block)?;
        form.field("written", &mut self.written)?;
        form.field("seeks", &mut self.seeks)?;
        form.field("depth_max", &mut self.depth_max)
    }
}

impl Record for Run {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), ConfigError> {
        form.field("time", &mut self.time)?;
        form.field("quick", &mut self.quick)?;
        form.maybe("halted", &mut self.halted)?;
        form.maybe("overhead", &mut self.overhead)?;
        form.tables("processor", &mut self.processor, LENGTHS_MAX)
    }
}

impl Record for Processor {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), ConfigError> {
        form.field("length", &mut self.len)?;
        form.field("time", &mut self.time)?;
        form.field("samples", &mut self.samples)
    }
}

impl Record for Findings {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), ConfigError> {
        form.values("done", &mut self.done, Stage::ALL.len())?;
        form.values("notes", &mut self.notes, drive_profile::findings::limits::NOTES_MAX)?;
        form.field("outliers_more", &mut self.outliers_more)?;
        super::rotation::visit(self, form)?;
        super::geometry::visit(self, form)?;
        super::dynamics::visit(self, form)?;
        super::flash::visit(self, form)?;
        form.tables("outlier", &mut self.outliers, drive_profile::findings::limits::OUTLIERS_MAX)
    }
}

impl Record for Outlier {
    fn blank() -> Self {
        Self { lba: Lba(0), stage: Stage::Rotation, reason: OutlierReason::Failed }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), ConfigError> {
        form.field("sector", &mut self.lba)?;
        form.field("while", &mut self.stage)?;
        form.field("why", &mut self.reason)
    }
}
