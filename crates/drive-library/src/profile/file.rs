//! `PROFILE.toml`: the findings about a device, the reason why measuring stopped, and each figure's
//! confidence.
//!
//! Invariant: a written file reads back as the same profile, to the nanosecond (tested with random
//! profiles); a part that was not measured is absent, never guessed.

use std::path::Path;

use drive_profile::findings::{Findings, Outlier, OutlierReason, Stage};
use serde::Serialize;
use units::Lba;

use super::about;
use super::form::{self, Form, Names, Record};
use super::values::{CpuCost, MeasuredDevice, MeasurementRun, ProfileFile};
use super::{dynamics, flash, geometry, rotation};
use input::InputError;
use input::{Source, TableKeys, read_text};

/// The version of the format. A file of another version is refused.
pub const SCHEMA: u32 = 1;
/// The size limit of a profile.
pub const PROFILE_BYTES_MAX: u64 = 16 << 20;
const LENGTHS_MAX: usize = 256;

/// Every table and key of a profile file, with its type and description.
pub fn keys() -> Vec<TableKeys> {
    let mut tables = form::all_keys::<ProfileFile>();
    about::describe(&mut tables);
    tables
}

impl ProfileFile {
    /// Reads the profile at `path`.
    ///
    /// # Errors
    /// The file cannot be read, or [`ProfileFile::parse`] refuses it.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let text = read_text(path, PROFILE_BYTES_MAX)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Checks the profile `text`; messages call it `file`.
    ///
    /// # Errors
    /// The first error: in the syntax, in the version, then in the keys and values.
    pub fn parse(text: &str, file: &str) -> Result<Self, InputError> {
        let source = Source::new(file, text);
        let root = source.parse()?;
        let mut measured: Self = form::read(&source, &root)?;
        measured.findings.done.sort_unstable();
        measured.findings.done.dedup();
        Ok(measured)
    }

    /// The file's tables, for output in another format. A renamed key is there under both names.
    pub fn table(&self) -> impl Serialize {
        self.tables(Names::All)
    }

    /// The table of the findings alone.
    pub fn found(&self) -> impl Serialize {
        self.tables(Names::Current).remove("found")
    }

    fn tables(&self, names: Names) -> toml::Table {
        let text = form::write(&mut self.clone(), names);
        toml::from_str(&text).expect("a written file is TOML, which is tested")
    }

    /// The file for which [`ProfileFile::parse`] returns this profile.
    pub fn to_toml(&self) -> String {
        form::write(&mut self.clone(), Names::Current)
    }
}

impl Record for ProfileFile {
    fn blank() -> Self {
        Self {
            device: MeasuredDevice::default(),
            run: MeasurementRun::default(),
            findings: Findings::default(),
        }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.exactly("schema", SCHEMA)?;
        form.section("device", &mut self.device)?;
        form.section("run", &mut self.run)?;
        form.section("found", &mut self.findings)
    }
}

impl Record for MeasuredDevice {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field("name", &mut self.name)?;
        form.maybe("model", &mut self.model)?;
        form.field("capacity", &mut self.capacity)?;
        form.field("block", &mut self.block)?;
        form.field(("writes_allowed", "written"), &mut self.written)?;
        form.field(("seek_command", "seeks"), &mut self.seeks)?;
        form.field(("queue_depth_max", "depth_max"), &mut self.depth_max)
    }
}

impl Record for MeasurementRun {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field("time", &mut self.time)?;
        form.field("quick", &mut self.quick)?;
        form.maybe(("stop_reason", "halted"), &mut self.halted)?;
        form.maybe("overhead", &mut self.overhead)?;
        form.tables(("cpu_cost", "processor"), &mut self.processor, LENGTHS_MAX)
    }
}

impl Record for CpuCost {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field("length", &mut self.len)?;
        form.field("time", &mut self.time)?;
        form.field("samples", &mut self.samples)
    }
}

impl Record for Findings {
    fn blank() -> Self {
        Self::default()
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.values("done", &mut self.done, Stage::ALL.len())?;
        form.values("notes", &mut self.notes, drive_profile::findings::limits::NOTES_MAX)?;
        form.field(("outliers_unlisted", "outliers_more"), &mut self.outliers_more)?;
        rotation::visit(self, form)?;
        geometry::visit(self, form)?;
        dynamics::visit(self, form)?;
        flash::visit(self, form)?;
        form.tables("outlier", &mut self.outliers, drive_profile::findings::limits::OUTLIERS_MAX)
    }
}

impl Record for Outlier {
    fn blank() -> Self {
        Self { lba: Lba(0), stage: Stage::Rotation, reason: OutlierReason::Failed }
    }

    fn visit(&mut self, form: &mut Form<'_>) -> Result<(), InputError> {
        form.field("sector", &mut self.lba)?;
        form.field(("stage", "while"), &mut self.stage)?;
        form.field(("reason", "why"), &mut self.reason)
    }
}
