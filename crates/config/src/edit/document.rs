//! A config that is edited in place: comments and layout around the changed values stay.
//!
//! A change returns another [`Document`], whose text is checked like any config; only an accepted
//! document can be written. Before a volume is created, deleted or resized, the location of every
//! volume is written (`at`), so that no volume moves because of another.
//!
//! Invariant: [`Document::text`], read again, gives [`Document::plan`] except for the lines.

use std::path::{Path, PathBuf};

use engine::stream::Span;
use input::{Problem, list, shorten, size_text, time_text};
use toml_edit::{ArrayOfTables, DocumentMut, Table};
use units::{Bytes, Extent, Instant};

use super::text::{put, tables_in, write};
use super::values::VolumeEdit;
use crate::error::ConfigError;
use crate::plan::{Plan, Volume, VolumeIndex};

/// A checked config, and its text.
#[derive(Clone, Debug)]
pub struct Document {
    path: PathBuf,
    text: String,
    pub(super) edited: DocumentMut,
    pub(super) plan: Plan,
}

impl Document {
    /// Reads the config at `path`, for a daemon.
    ///
    /// # Errors
    /// As [`Plan::read`] and [`Plan::for_serve`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let plan = Plan::read(path)?.for_serve()?;
        let unreadable = |found: String| {
            let parts = refusal(&plan, None, None, Some(found), "a file that can be read twice");
            ConfigError::from(Problem { is_refusal: false, ..parts })
        };
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let edited = text.parse::<DocumentMut>();
        let edited = edited.map_err(|error| unreadable(error.message().to_owned()))?;
        let as_read = text.clone();
        let document = Self { path: path.to_owned(), text, edited, plan }.checked()?;
        Ok(Self { text: as_read, ..document })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The checked config.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The file's content.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The volume of this name, and its index.
    ///
    /// # Errors
    /// There is none.
    pub fn volume(&self, name: &str) -> Result<(usize, &Volume), ConfigError> {
        let index = self.plan.volumes.iter().position(|volume| volume.name == name);
        let names = self.plan.volumes.iter().map(|volume| volume.name.as_str());
        let index = index.ok_or_else(|| self.missing(name, names))?;
        Ok((index, &self.plan.volumes[index]))
    }

    /// An error about a name that is not in `names`.
    pub(super) fn missing<'a>(
        &self,
        name: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> ConfigError {
        let expected = match list(names, '"') {
            none if none.is_empty() => "the name of a volume, and there is none".to_owned(),
            names => format!("one of the volumes {names}"),
        };
        let found = Some(shorten(name));
        let parts = refusal(&self.plan, None, Some("name"), found, &expected);
        Problem { is_refusal: false, ..parts }.into()
    }

    /// The document with one more volume.
    ///
    /// # Errors
    /// The config is refused, or has no capacity for the volume.
    pub fn create(&self, name: &str, disk: &str, edit: &VolumeEdit) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        changed.pin()?;
        let mut table = Table::new();
        put(&mut table, "name", name);
        put(&mut table, "disk", disk);
        write(&mut table, edit);
        changed.volumes_mut()?.push(table);
        let mut changed = changed.checked()?;
        // The volume keeps the location that it was given: every other location was taken, so that
        // it is found again.
        changed.pin()?;
        changed.text = changed.edited.to_string();
        Ok(changed)
    }

    /// The volume that [`Document::create`] would create if there were none of this name, for
    /// comparison with the existing one.
    ///
    /// # Errors
    /// The config is refused, or has no capacity for the volume.
    pub fn preview_create(
        &self,
        name: &str,
        disk: &str,
        edit: &VolumeEdit,
    ) -> Result<Volume, ConfigError> {
        let (index, _) = self.volume(name)?;
        let mut changed = self.clone();
        let table = changed.table_mut(index)?;
        table.clear();
        put(table, "name", name);
        put(table, "disk", disk);
        write(table, edit);
        let mut plan = changed.checked()?.plan;
        Ok(plan.volumes.swap_remove(index))
    }

    /// The document with a volume changed.
    ///
    /// # Errors
    /// The config is refused, or has no capacity for the change. There is no such volume.
    pub fn set(&self, name: &str, edit: &VolumeEdit) -> Result<Self, ConfigError> {
        let (index, _) = self.volume(name)?;
        let mut changed = self.clone();
        if let Some(size) = &edit.size {
            changed.pin()?;
            self.room_behind(index, size)?;
        }
        write(changed.table_mut(index)?, edit);
        changed.checked()
    }

    /// The document without a volume.
    ///
    /// # Errors
    /// There is no such volume, or a workload of the config loads it.
    pub fn delete(&self, name: &str) -> Result<Self, ConfigError> {
        let (index, _) = self.volume(name)?;
        let mut changed = self.clone();
        changed.pin()?;
        changed.volumes_mut()?.remove(index);
        changed.checked()
    }

    /// The document with another accounting period of a disk.
    ///
    /// # Errors
    /// The config is refused. There is no such disk.
    pub fn set_period(&self, disk: &str, period: &str) -> Result<Self, ConfigError> {
        let index = self.plan.disks.iter().position(|there| there.name == disk);
        let index = index.ok_or_else(|| {
            let names = self.plan.disks.iter().map(|disk| disk.name.as_str());
            let expected = format!("one of the disks {}", list(names, '"'));
            let found = Some(shorten(disk));
            let parts = refusal(&self.plan, None, Some("disk"), found, &expected);
            ConfigError::from(Problem { is_refusal: false, ..parts })
        })?;
        let mut changed = self.clone();
        put(
            changed.tables_mut("disk")?.get_mut(index).expect("as many as disks"),
            "period",
            period,
        );
        changed.checked()
    }

    /// Refuses a volume's stream whose span has ended at `now`, counted from the daemon's start.
    ///
    /// # Errors
    /// The span has ended.
    pub fn reject_expired_span(&self, index: usize, now: Instant) -> Result<(), ConfigError> {
        let volume = &self.plan.volumes[index];
        let title = format!("[[volume]] \"{}\": stream", volume.name);
        past(&self.plan, title, volume.stream.map(|stream| stream.span), now)
    }

    /// The sectors of the volume's disk up to the next volume, or the disk's end.
    pub fn growth_extent(&self, index: usize) -> Extent {
        let volume = &self.plan.volumes[index];
        let behind = self.plan.volumes.iter().filter(|other| other.disk == volume.disk);
        let behind =
            behind.map(|other| other.extent.start).filter(|start| *start > volume.extent.start);
        let capacity = self.plan.disks[volume.disk.0].drive.model.capacity();
        let end = behind.min().unwrap_or(units::Lba(capacity.0));
        Extent::new(volume.extent.start, end.distance(volume.extent.start))
    }

    /// A volume grows at its location, or not at all.
    fn room_behind(&self, index: usize, size: &str) -> Result<(), ConfigError> {
        let volume = &self.plan.volumes[index];
        let available = self.growth_extent(index).len.bytes();
        let door = self.plan.volumes.iter().find(|other| other.same_as == Some(VolumeIndex(index)));
        if let Some(door) = door {
            let title = format!("[[volume]] \"{}\"", volume.name);
            let expected =
                format!("no other size while volume \"{}\" is the same as this one", door.name);
            let found = Some(shorten(size));
            return Err(refusal(&self.plan, Some(title), Some("size"), found, &expected).into());
        }
        if size.parse::<Bytes>().is_ok_and(|size| size > available) {
            let (title, disk) = (format!("[[volume]] \"{}\"", volume.name), volume.disk.0);
            let (available, disk) = (size_text(available), &self.plan.disks[disk].name);
            let expected = format!(
                "at most {available} (up to the next volume, or the end, of disk \"{disk}\")"
            );
            let found = Some(shorten(size));
            return Err(refusal(&self.plan, Some(title), Some("size"), found, &expected).into());
        }
        Ok(())
    }

    /// Writes the location of every volume.
    pub(super) fn pin(&mut self) -> Result<(), ConfigError> {
        let extents: Vec<Extent> = self.plan.volumes.iter().map(|volume| volume.extent).collect();
        for (table, extent) in self.volumes_mut()?.iter_mut().zip(extents) {
            // A volume with `same_as` is at the location of the other.
            if !table.contains_key("at") && !table.contains_key("same_as") {
                let at = Bytes(extent.start.0 * units::SECTOR_BYTES);
                put(table, "at", size_text(at));
            }
        }
        Ok(())
    }

    pub(super) fn volumes_mut(&mut self) -> Result<&mut ArrayOfTables, ConfigError> {
        self.tables_mut("volume")
    }

    fn table_mut(&mut self, index: usize) -> Result<&mut Table, ConfigError> {
        Ok(self.volumes_mut()?.get_mut(index).expect("as many as volumes"))
    }

    /// The tables `[[key]]`, also if the file has them as an array on one line.
    pub(super) fn tables_mut(&mut self, key: &str) -> Result<&mut ArrayOfTables, ConfigError> {
        let expected = format!("tables `[[{key}]]`");
        let error = refusal(&self.plan, None, Some(key), None, &expected);
        tables_in(self.edited.as_table_mut(), key).ok_or_else(|| error.into())
    }

    /// The document with its text updated, if the text is a valid config.
    pub(super) fn checked(mut self) -> Result<Self, ConfigError> {
        self.text = self.edited.to_string();
        let base_dir = self.path.parent().unwrap_or(Path::new(""));
        let known = core::mem::take(&mut self.plan.disks);
        let plan = Plan::parse_knowing(&self.text, &self.plan.file, base_dir, &known)?;
        self.plan = plan.for_serve()?;
        Ok(self)
    }
}

/// Refuses a span that has ended at `now`.
pub(super) fn past(
    plan: &Plan,
    title: String,
    span: Option<Span>,
    now: Instant,
) -> Result<(), ConfigError> {
    let Some(span) = span.filter(|span| span.end <= now) else { return Ok(()) };
    let since = |at: Instant| time_text(at.since(Instant::ZERO));
    let expected = format!("a span that ends after {} (now)", since(now));
    let found = Some(since(span.end));
    let parts = refusal(plan, Some(title), Some("span"), found, &expected);
    Err(Problem { is_refusal: false, ..parts }.into())
}

pub(super) fn refusal(
    plan: &Plan,
    table: Option<String>,
    field: Option<&str>,
    found: Option<String>,
    expected: &str,
) -> Problem {
    Problem {
        file: plan.file.clone(),
        line: None,
        table,
        field: field.map(str::to_owned),
        found,
        expected: expected.to_owned(),
        is_refusal: true,
    }
}
