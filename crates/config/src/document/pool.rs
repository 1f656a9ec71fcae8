//! Changes of `[pool]` and its volumes, in place.
//!
//! What the pool's disks hold does not change by them: they change what is promised.

use toml_edit::{Array, ArrayOfTables, InlineTable, Item, Table, Value};
use units::Instant;
use volume::pool::Zone;

use super::{Document, VolumeEdit, past, put, refusal, tables_in, write};
use crate::error::{ConfigError, Parts};
use crate::plan::{DiskIndex, Volume};
use crate::pool::{Pool, PoolVolume, Whereabouts, zone_text};
use crate::table;

/// A volume, whichever kind it is of, and its number among those of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// It lies where the config says: [`crate::Plan::volumes`].
    OnDisk(usize, &'a Volume),
    /// It lies where the pool says: [`Pool::volumes`].
    InPool(usize, &'a PoolVolume),
}

/// What of a pool's volume is to be written: as the config has it, not yet checked. `None`: the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolVolumeEdit {
    /// Its size and its contract; a stream without a range.
    pub volume: VolumeEdit,
    /// The names of the disks that it is to lie on. `None`: all that the pool has now.
    pub disks: Option<Vec<String>>,
    /// Such as `stripe`.
    pub layout: Option<String>,
    /// Such as `fast`.
    pub zone: Option<String>,
    /// Whether blocks appear when they are first written.
    pub thin: Option<bool>,
}

impl Document {
    /// The volume of this name, of either kind.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str) -> Result<Named<'_>, ConfigError> {
        let mine = self.plan.volumes.iter().position(|volume| volume.name == name);
        if let Some(index) = mine {
            return Ok(Named::OnDisk(index, &self.plan.volumes[index]));
        }
        let pooled = self.pool_volumes();
        if let Some(index) = pooled.iter().position(|volume| volume.name == name) {
            return Ok(Named::InPool(index, &pooled[index]));
        }
        let names = self.plan.volumes.iter().map(|volume| volume.name.as_str());
        let names = names.chain(pooled.iter().map(|volume| volume.name.as_str()));
        Err(self.missing(name, names))
    }

    /// The volume of the pool that has this name, and its number.
    ///
    /// # Errors
    /// There is none.
    pub fn pool_volume(&self, name: &str) -> Result<(usize, &PoolVolume), ConfigError> {
        let pooled = self.pool_volumes();
        let index = pooled.iter().position(|volume| volume.name == name);
        let names = pooled.iter().map(|volume| volume.name.as_str());
        let index = index.ok_or_else(|| self.missing(name, names))?;
        Ok((index, &pooled[index]))
    }

    fn pool_volumes(&self) -> &[PoolVolume] {
        self.plan.pool.as_ref().map_or(&[], |pool| &pool.volumes)
    }

    /// With one volume of the pool more.
    ///
    /// # Errors
    /// What the config would not accept, or has no room for. There is no pool.
    pub fn create_pool_volume(
        &self,
        name: &str,
        edit: &PoolVolumeEdit,
    ) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        let mut table = Table::new();
        self.write_pool_volume(&mut table, name, edit)?;
        changed.pool_volumes_mut()?.push(table);
        changed.checked()
    }

    /// The volume that [`Document::create_pool_volume`] would make if there were none of this name: to be compared with the
    /// one that there is.
    ///
    /// # Errors
    /// What the config would not accept, or has no room for.
    pub fn as_if_pool_volume_created(
        &self,
        name: &str,
        edit: &PoolVolumeEdit,
    ) -> Result<PoolVolume, ConfigError> {
        let (index, _) = self.pool_volume(name)?;
        let mut changed = self.clone();
        let table = changed.pool_volume_mut(index)?;
        table.clear();
        self.write_pool_volume(table, name, edit)?;
        let pool = changed.checked()?.plan.pool.expect("it has a volume");
        Ok(pool.volumes[index].clone())
    }

    /// With another size or contract of a pool's volume. Where it lies is [`Document::settle_pool_volume`]'s.
    ///
    /// # Errors
    /// What the config would not accept, or has no room for. There is no such volume.
    pub fn set_pool_volume(&self, name: &str, edit: &VolumeEdit) -> Result<Self, ConfigError> {
        let (index, _) = self.pool_volume(name)?;
        let mut changed = self.clone();
        write(changed.pool_volume_mut(index)?, edit);
        changed.checked()
    }

    /// Without what was promised to a pool's volume, and without the volume as far as the config is concerned.
    ///
    /// # Errors
    /// There is no such volume.
    pub fn delete_pool_volume(&self, name: &str) -> Result<Self, ConfigError> {
        let (index, _) = self.pool_volume(name)?;
        let mut changed = self.clone();
        changed.pool_volumes_mut()?.remove(index);
        changed.checked()
    }

    /// With a volume that is to lie elsewhere: while its blocks move, and when they have.
    ///
    /// While they do, each disk admits what it has of the volume, old and new, and the config says from where it is moved, so
    /// that a daemon that is started anew keeps the promise. Changes may be made meanwhile: it is [`Document::settled_pool_volume`]
    /// of what is served then that ends it; the second document is what that would be now. A volume that is being moved can
    /// be sent back.
    ///
    /// # Errors
    /// What the config would not accept, or has no room for: all of it, or nothing, is admitted. There is no such volume, or
    /// it is being moved from a third place.
    pub fn settle_pool_volume(
        &self,
        name: &str,
        zone: Zone,
        disks: &[String],
    ) -> Result<(Self, Self), ConfigError> {
        let (index, volume) = self.pool_volume(name)?;
        let from = Whereabouts { zone: volume.zone, disks: volume.disks.clone() };
        if let Some(before) = &volume.from {
            let back = before.zone == zone && self.names(&before.disks).eq(disks);
            if !back {
                return Err(self.on_its_way(volume, before));
            }
        }
        let mut during = self.clone();
        let old = list(self.names(&from.disks));
        let table = during.pool_volume_mut(index)?;
        put(table, "zone", zone_text(zone));
        put(table, "disks", list(disks.iter().map(String::as_str)));
        let mut fields = InlineTable::new();
        fields.insert("zone", zone_text(from.zone).into());
        fields.insert("disks", old);
        put(table, "from", Value::InlineTable(fields));
        let during = during.checked()?;
        let after = during.settled_pool_volume(name)?;
        Ok((during, after))
    }

    /// With a volume of which no block lies where it is moved from any more.
    ///
    /// # Errors
    /// There is no such volume.
    pub fn settled_pool_volume(&self, name: &str) -> Result<Self, ConfigError> {
        let (index, _) = self.pool_volume(name)?;
        let mut changed = self.clone();
        changed.pool_volume_mut(index)?.remove("from");
        changed.checked()
    }

    /// With a disk more in the pool, and with a pool if there was none. The volumes stay on the disks that they have.
    ///
    /// # Errors
    /// What the config would not accept: a disk that is not there, or has volumes of its own.
    pub fn add_pool_disk(&self, disk: &str) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        changed.pin_disks()?;
        let disks = changed.pool_disks_mut()?;
        add(disks, disk);
        changed.checked()
    }

    /// With a disk less in the pool.
    ///
    /// # Errors
    /// It is not the pool's, or its last, or a volume is to lie on it: that is to be settled elsewhere before.
    pub fn remove_pool_disk(&self, disk: &str) -> Result<Self, ConfigError> {
        let pooled = self.plan.pool.as_ref().map_or(&[][..], |pool| &pool.disks);
        let Some(index) = self.names(pooled).position(|name| name == disk) else {
            let expected =
                format!("one of the pool disks {}", table::listed(self.names(pooled), '"'));
            return Err(self.at_fault(Some("[pool]"), "disks", disk, &expected));
        };
        let there = |volume: &&PoolVolume| {
            let from = volume.from.as_ref().map_or(&[][..], |from| &from.disks);
            volume.disks.contains(&pooled[index]) || from.contains(&pooled[index])
        };
        if let Some(volume) = self.pool_volumes().iter().find(there) {
            let expected = format!("a disk that no volume lies on; \"{}\" does", volume.name);
            return Err(self.at_fault(Some("[pool]"), "disks", disk, &expected));
        }
        let mut changed = self.clone();
        take(changed.pool_disks_mut()?, index);
        changed.checked()
    }

    /// Refuses the stream of a pool's volume whose span is over at `now`, counted from the daemon's start.
    ///
    /// # Errors
    /// As said.
    pub fn refuse_pool_past(&self, index: usize, now: Instant) -> Result<(), ConfigError> {
        let volume = &self.pool_volumes()[index];
        let title = format!("[[pool.volume]] \"{}\": stream", volume.name);
        past(&self.plan, title, volume.stream.map(|stream| stream.span), now)
    }

    fn names<'a>(&'a self, disks: &'a [DiskIndex]) -> impl Iterator<Item = &'a str> + Clone {
        disks.iter().map(|disk| self.plan.disks[disk.0].name.as_str())
    }

    fn on_its_way(&self, volume: &PoolVolume, from: &Whereabouts) -> ConfigError {
        let title = format!("[[pool.volume]] \"{}\"", volume.name);
        let (zone, disks) = (zone_text(from.zone), table::listed(self.names(&from.disks), '"'));
        let expected = format!(
            "no third place while it is moved from zone \"{zone}\" of {disks}: wait, or send it back there"
        );
        let parts = refusal(&self.plan, Some(title), Some("from"), None, &expected);
        ConfigError::from(parts)
    }

    fn at_fault(
        &self,
        title: Option<&str>,
        field: &str,
        found: &str,
        expected: &str,
    ) -> ConfigError {
        let (title, found) = (title.map(str::to_owned), Some(table::shortened(found)));
        let parts = refusal(&self.plan, title, Some(field), found, expected);
        Parts { refusal: false, ..parts }.into()
    }

    /// The pool's disks are written down: another disk in the pool later is none of the volume's.
    fn write_pool_volume(
        &self,
        table: &mut Table,
        name: &str,
        edit: &PoolVolumeEdit,
    ) -> Result<(), ConfigError> {
        let pool = self.pool()?;
        let PoolVolumeEdit { volume, disks, layout, zone, thin } = edit;
        put(table, "name", name);
        put(
            table,
            "disks",
            match disks {
                Some(disks) => list(disks.iter().map(String::as_str)),
                None => list(self.names(&pool.disks)),
            },
        );
        for (key, word) in [("layout", layout), ("zone", zone)] {
            if let Some(word) = word {
                put(table, key, word);
            }
        }
        if let Some(thin) = thin {
            put(table, "thin", *thin);
        }
        write(table, volume);
        Ok(())
    }

    fn pool(&self) -> Result<&Pool, ConfigError> {
        let expected = "a table `[pool]`, and there is none";
        let parts = refusal(&self.plan, None, Some("pool"), None, expected);
        self.plan.pool.as_ref().ok_or_else(|| Parts { refusal: false, ..parts }.into())
    }

    /// Writes down which disks each volume is to lie on.
    fn pin_disks(&mut self) -> Result<(), ConfigError> {
        if self.pool_volumes().is_empty() {
            return Ok(());
        }
        let lists: Vec<_> =
            self.pool_volumes().iter().map(|volume| list(self.names(&volume.disks))).collect();
        for (table, disks) in self.pool_volumes_mut()?.iter_mut().zip(lists) {
            if !table.contains_key("disks") {
                put(table, "disks", disks);
            }
        }
        Ok(())
    }

    /// The table `[pool]`, also where the file has it in braces on one line; a new one if there is none.
    fn pool_mut(&mut self) -> Result<&mut Table, ConfigError> {
        let item = self.edited.entry("pool").or_insert_with(|| Item::Table(Table::new()));
        if !item.is_table() {
            *item = core::mem::take(item).into_table().map_or_else(|item| item, Item::Table);
        }
        let error = refusal(&self.plan, None, Some("pool"), None, "a table `[pool]`");
        item.as_table_mut().ok_or_else(|| error.into())
    }

    fn pool_disks_mut(&mut self) -> Result<&mut Array, ConfigError> {
        let error = refusal(&self.plan, Some("[pool]".to_owned()), Some("disks"), None, "a list");
        let item = self.pool_mut()?.entry("disks");
        let item = item.or_insert_with(|| Item::Value(Value::Array(Array::new())));
        item.as_array_mut().ok_or_else(|| error.into())
    }

    fn pool_volumes_mut(&mut self) -> Result<&mut ArrayOfTables, ConfigError> {
        let title = Some("[pool]".to_owned());
        let expected = "tables `[[pool.volume]]`";
        let error = refusal(&self.plan, title, Some("volume"), None, expected);
        tables_in(self.pool_mut()?, "volume").ok_or_else(|| error.into())
    }

    fn pool_volume_mut(&mut self, index: usize) -> Result<&mut Table, ConfigError> {
        Ok(self.pool_volumes_mut()?.get_mut(index).expect("as many as volumes"))
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> Value {
    Value::Array(names.collect())
}

/// What stands before a value, from the comma on.
fn prefix(value: &Value) -> String {
    let prefix = value.decor().prefix().and_then(|prefix| prefix.as_str());
    prefix.unwrap_or_default().to_owned()
}

/// Where the rest of a line ends that has a comment on the value before; nothing is the rest of a list on one line.
fn line_end(text: &str) -> usize {
    text.find('\n').unwrap_or(0)
}

/// What stands behind a list's last value, no matter on which side of a comma.
fn behind(list: &mut Array) -> String {
    let trailing = list.trailing().as_str().unwrap_or_default().to_owned();
    let Some(last) = list.iter_mut().last() else { return trailing };
    let suffix = last.decor().suffix().and_then(|suffix| suffix.as_str());
    let suffix = suffix.unwrap_or_default().to_owned();
    last.decor_mut().set_suffix("");
    suffix + &trailing
}

/// Adds a value to a list, on a line of its own if the last one has one. What is said of the last one stays with it.
fn add(list: &mut Array, name: &str) {
    let behind = behind(list);
    let mut value = Value::from(name);
    let indent = list.iter().last().map_or_else(String::new, |last| {
        let prefix = prefix(last);
        prefix.rfind('\n').map_or_else(|| " ".to_owned(), |at| prefix[at..].to_owned())
    });
    let split = if indent.starts_with('\n') { line_end(&behind) } else { 0 };
    let (of_last, rest) = behind.split_at(split);
    value.decor_mut().set_prefix(format!("{of_last}{indent}"));
    list.push_formatted(value);
    list.set_trailing(rest);
}

/// Takes a value out of a list. What stands behind it on its line goes with it; what stands behind its neighbours stays
/// with them.
fn take(list: &mut Array, index: usize) {
    let trailing = behind(list);
    let before = prefix(&list.remove(index));
    let (of_last, _) = before.split_at(line_end(&before));
    match list.get_mut(index) {
        Some(next) => {
            let own = prefix(next);
            let joined = match index {
                0 => before,
                _ => format!("{of_last}{}", &own[line_end(&own)..]),
            };
            next.decor_mut().set_prefix(joined);
            list.set_trailing(trailing);
        }
        None => list.set_trailing(format!("{of_last}{}", &trailing[line_end(&trailing)..])),
    }
}
