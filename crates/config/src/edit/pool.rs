//! Changes of `[pool]` and its volumes, in place.
//!
//! They change contracts and placements in the config; the content of the pool's disks is changed
//! by the daemon.

use input::{Problem, list as listed, shorten};
use toml_edit::{Array, ArrayOfTables, InlineTable, Item, Table, Value};
use units::Instant;
use volume::pool::Zone;

use super::document::{Document, past, refusal};
use super::text::{add, list, put, rename, tables_in, take, write};
use super::values::{NamedVolume, PoolVolumeEdit, VolumeEdit};
use crate::error::ConfigError;
use crate::plan::{DiskIndex, PlacementSpec, PoolPlan, PoolVolume, zone_name};

impl Document {
    /// The volume of this name, of either kind.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, name: &str) -> Result<NamedVolume<'_>, ConfigError> {
        let mine = self.plan.volumes.iter().position(|volume| volume.name == name);
        if let Some(index) = mine {
            return Ok(NamedVolume::OnDisk(index, &self.plan.volumes[index]));
        }
        let pooled = self.pool_volumes();
        if let Some(index) = pooled.iter().position(|volume| volume.name == name) {
            return Ok(NamedVolume::InPool(index, &pooled[index]));
        }
        let names = self.plan.volumes.iter().map(|volume| volume.name.as_str());
        let names = names.chain(pooled.iter().map(|volume| volume.name.as_str()));
        Err(self.missing(name, names))
    }

    /// The volume of the pool that has this name, and its index.
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

    /// The document with one more volume of the pool. If some of its disks do without its stream,
    /// and the edit does not name its disks, these are the ones with the least time left that the
    /// others admit it without.
    ///
    /// # Errors
    /// The config is refused, or has no capacity for the volume. There is no pool.
    pub fn create_pool_volume(
        &self,
        name: &str,
        edit: &PoolVolumeEdit,
    ) -> Result<Self, ConfigError> {
        let without = edit.disks_without_stream();
        if without == 0 || !edit.is_on_any_disks() {
            return self.create_on(name, edit);
        }
        let disks = match &edit.disks {
            Some(disks) => disks.clone(),
            None => self.names(&self.pool()?.disks).map(str::to_owned).collect(),
        };
        self.with_cheapest_disks(&disks, without, |disks| {
            self.create_on(name, &PoolVolumeEdit { disks: Some(disks), ..edit.clone() })
        })
    }

    /// The same on its disks in their order.
    fn create_on(&self, name: &str, edit: &PoolVolumeEdit) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        // The name is free: a volume that had it is removed, or is the one that is adopted.
        changed.forget_removal(name)?;
        let mut table = Table::new();
        self.write_pool_volume(&mut table, name, edit)?;
        changed.pool_volumes_mut()?.push(table);
        changed.checked()
    }

    /// The volume that [`Document::create_pool_volume`] would create if there were none of this
    /// name, for comparison with the existing one.
    ///
    /// # Errors
    /// The config is refused, or has no capacity for the volume.
    pub fn preview_create_pool_volume(
        &self,
        name: &str,
        edit: &PoolVolumeEdit,
    ) -> Result<PoolVolume, ConfigError> {
        let (index, existing) = self.pool_volume(name)?;
        let mut changed = self.clone();
        let table = changed.pool_volume_mut(index)?;
        table.clear();
        self.write_pool_volume(table, name, edit)?;
        if edit.disks_without_stream() > 0 && edit.is_on_any_disks() {
            // The order was chosen when it was created.
            put(table, "disks", list(self.names(&existing.disks)));
        }
        let pool = changed.checked()?.plan.pool.expect("it has a volume");
        Ok(pool.volumes[index].clone())
    }

    /// The document with another size or contract of a pool's volume. Its placement is changed by
    /// [`Document::relocate_pool_volume`]. Which of a mirror's disks do without its stream may
    /// change.
    ///
    /// # Errors
    /// The config is refused, or has no capacity for the change. There is no such volume.
    pub fn set_pool_volume(&self, name: &str, edit: &VolumeEdit) -> Result<Self, ConfigError> {
        let (index, volume) = self.pool_volume(name)?;
        let mut changed = self.clone();
        write(changed.pool_volume_mut(index)?, edit);
        let without = edit.disks_without_stream(volume.layout.copies());
        if without == 0 || volume.from.is_some() {
            return changed.checked();
        }
        // The disks that have had the stream keep it if they admit it.
        changed.clone().checked().or_else(|error| {
            if !error.is_refusal() {
                return Err(error);
            }
            let disks: Vec<String> = self.names(&volume.disks).map(str::to_owned).collect();
            self.with_cheapest_disks(&disks, without, |disks| {
                let mut changed = changed.clone();
                let disks = list(disks.iter().map(String::as_str));
                put(changed.pool_volume_mut(index)?, "disks", disks);
                changed.checked()
            })
        })
    }

    /// The document without a pool's volume and its contract.
    ///
    /// # Errors
    /// There is no such volume.
    pub fn delete_pool_volume(&self, name: &str) -> Result<Self, ConfigError> {
        let (index, _) = self.pool_volume(name)?;
        let mut changed = self.clone();
        changed.pool_volumes_mut()?.remove(index);
        changed.checked()
    }

    /// The document in which a volume, which it does not have, is being removed from the pool: a
    /// daemon that is started with it ends the removal.
    ///
    /// # Errors
    /// It has the volume. There is no pool.
    pub fn begin_removal(&self, name: &str) -> Result<Self, ConfigError> {
        let names = self.removing().iter().map(String::as_str);
        let names = list(names.filter(|other| *other != name).chain([name]));
        let mut changed = self.clone();
        put(changed.pool_mut()?, "removing", names);
        changed.checked()
    }

    /// The document in which the removal of a volume is no longer in progress; the same one, if it
    /// was not.
    ///
    /// # Errors
    /// There is no pool.
    pub fn end_removal(&self, name: &str) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        changed.forget_removal(name)?;
        changed.checked()
    }

    /// The volumes of the pool that are being removed.
    pub fn removing(&self) -> &[String] {
        self.plan.pool.as_ref().map_or(&[], |pool| &pool.removing)
    }

    fn forget_removal(&mut self, name: &str) -> Result<(), ConfigError> {
        let left = self.removing().iter().filter(|other| *other != name);
        let left: Vec<String> = left.cloned().collect();
        if left.len() == self.removing().len() {
            return Ok(());
        }
        let table = self.pool_mut()?;
        if left.is_empty() {
            table.remove("removing");
        } else {
            put(table, "removing", list(left.iter().map(String::as_str)));
        }
        Ok(())
    }

    /// The document with another placement of a volume: during the relocation, and after it.
    ///
    /// During the relocation each disk admits the volume's old and new contracts, and the config
    /// names the old placement, so that a restarted daemon keeps the guarantee. Other changes are
    /// possible meanwhile: [`Document::relocated_pool_volume`] of the document that is then in use
    /// ends the relocation; the second document returned is what it would be now. A relocation can
    /// be reversed.
    ///
    /// # Errors
    /// The config is refused, or has no capacity for both placements. There is no such volume, or
    /// it is being relocated from a third placement.
    pub fn relocate_pool_volume(
        &self,
        name: &str,
        zone: Zone,
        disks: &[String],
    ) -> Result<(Self, Self), ConfigError> {
        let (index, volume) = self.pool_volume(name)?;
        let from = PlacementSpec { zone: volume.zone, disks: volume.disks.clone() };
        if let Some(before) = &volume.from {
            let back = before.zone == zone && self.names(&before.disks).eq(disks);
            if !back {
                return Err(self.on_its_way(volume, before));
            }
        }
        let mut during = self.clone();
        let old = list(self.names(&from.disks));
        let table = during.pool_volume_mut(index)?;
        put(table, "zone", zone_name(zone));
        put(table, "disks", list(disks.iter().map(String::as_str)));
        let mut fields = InlineTable::new();
        fields.insert("zone", zone_name(from.zone).into());
        fields.insert("disks", old);
        put(table, "from", Value::InlineTable(fields));
        let during = during.checked()?;
        let after = during.relocated_pool_volume(name)?;
        Ok((during, after))
    }

    /// The document after a relocation: no block is left at the old placement.
    ///
    /// # Errors
    /// There is no such volume.
    pub fn relocated_pool_volume(&self, name: &str) -> Result<Self, ConfigError> {
        let (index, _) = self.pool_volume(name)?;
        let mut changed = self.clone();
        changed.pool_volume_mut(index)?.remove("from");
        changed.checked()
    }

    /// The document with one more disk in the pool, and with a pool if there was none. The volumes
    /// keep their disks, and a spare is one no more.
    ///
    /// # Errors
    /// The config is refused: the disk does not exist, or has volumes of its own.
    pub fn add_pool_disk(&self, disk: &str) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        changed.pin_disks()?;
        add(changed.pool_disks_mut()?, disk);
        changed.end_spare(disk)?;
        changed.checked()
    }

    /// A disk that is the pool's is no spare any more.
    fn end_spare(&mut self, disk: &str) -> Result<(), ConfigError> {
        let is_it = |table: &&mut Table| table.get("name").and_then(Item::as_str) == Some(disk);
        if let Some(table) = self.tables_mut("disk")?.iter_mut().find(is_it) {
            table.remove("spare");
        }
        Ok(())
    }

    /// The document with one disk less in the pool.
    ///
    /// # Errors
    /// It is not in the pool, or is its last disk, or a volume is placed on it: the volume has to
    /// be relocated first.
    pub fn remove_pool_disk(&self, disk: &str) -> Result<Self, ConfigError> {
        let pooled = self.plan.pool.as_ref().map_or(&[][..], |pool| &pool.disks);
        let Some(index) = self.names(pooled).position(|name| name == disk) else {
            let expected = format!("one of the pool disks {}", listed(self.names(pooled), '"'));
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

    /// The document with another disk in the place of one of the pool's, for its volumes too. A
    /// config that has the new one in that place already stays as it is.
    ///
    /// # Errors
    /// The config is refused: the disk does not exist, has volumes of its own, or does not admit
    /// what the other did.
    pub fn replace_pool_disk(&self, old: &str, new: &str) -> Result<Self, ConfigError> {
        let mut changed = self.clone();
        changed.pin_disks()?;
        let has = |name: &str| {
            let pooled = self.plan.pool.as_ref().map_or(&[][..], |pool| &pool.disks);
            self.names(pooled).any(|disk| disk == name)
        };
        changed.end_spare(new)?;
        if old == new || !has(old) {
            if !has(new) {
                add(changed.pool_disks_mut()?, new);
            }
            return changed.checked();
        }
        if has(new) {
            let expected = "a disk that is none of the pool's";
            return Err(self.at_fault(Some("[pool]"), "disks", new, expected));
        }
        rename(changed.pool_disks_mut()?, old, new);
        if self.pool_volumes().is_empty() {
            return changed.checked();
        }
        for table in changed.pool_volumes_mut()?.iter_mut() {
            if let Some(disks) = table.get_mut("disks").and_then(Item::as_array_mut) {
                rename(disks, old, new);
            }
            let from = table.get_mut("from").and_then(Item::as_table_like_mut);
            let disks = from.and_then(|from| from.get_mut("disks"));
            if let Some(disks) = disks.and_then(Item::as_array_mut) {
                rename(disks, old, new);
            }
        }
        changed.checked()
    }

    /// Refuses the stream of a pool's volume whose span has ended at `now`, counted from the
    /// daemon's start.
    ///
    /// # Errors
    /// The span has ended.
    pub fn reject_expired_pool_span(&self, index: usize, now: Instant) -> Result<(), ConfigError> {
        let volume = &self.pool_volumes()[index];
        let title = format!("[[pool.volume]] \"{}\": stream", volume.name);
        past(&self.plan, title, volume.stream.map(|stream| stream.span), now)
    }

    fn names<'a>(&'a self, disks: &'a [DiskIndex]) -> impl Iterator<Item = &'a str> + Clone {
        disks.iter().map(|disk| self.plan.disks[disk.0].name.as_str())
    }

    fn on_its_way(&self, volume: &PoolVolume, from: &PlacementSpec) -> ConfigError {
        let title = format!("[[pool.volume]] \"{}\"", volume.name);
        let (zone, disks) = (zone_name(from.zone), listed(self.names(&from.disks), '"'));
        let expected = format!(
            "no third place while it is moved from zone \"{zone}\" of {disks}: wait, or send it \
             back there"
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
        let (title, found) = (title.map(str::to_owned), Some(shorten(found)));
        let parts = refusal(&self.plan, title, Some(field), found, expected);
        Problem { is_refusal: false, ..parts }.into()
    }

    /// Writes the pool's disks explicitly: a disk that is added to the pool later is not the
    /// volume's.
    fn write_pool_volume(
        &self,
        table: &mut Table,
        name: &str,
        edit: &PoolVolumeEdit,
    ) -> Result<(), ConfigError> {
        let pool = self.pool()?;
        let PoolVolumeEdit { volume, disks, layout, copies, zone, thin, checksums, source } = edit;
        put(table, "name", name);
        put(
            table,
            "disks",
            match disks {
                Some(disks) => list(disks.iter().map(String::as_str)),
                None => list(self.names(&pool.disks)),
            },
        );
        for (key, word) in [("layout", layout), ("zone", zone), ("source", source)] {
            if let Some(word) = word {
                put(table, key, word);
            }
        }
        if let Some(copies) = copies {
            put(table, "copies", *copies);
        }
        for (key, given) in [("thin", thin), ("checksums", checksums)] {
            if let Some(given) = given {
                put(table, key, *given);
            }
        }
        write(table, volume);
        Ok(())
    }

    fn pool(&self) -> Result<&PoolPlan, ConfigError> {
        let expected = "a table `[pool]`, and there is none";
        let parts = refusal(&self.plan, None, Some("pool"), None, expected);
        self.plan.pool.as_ref().ok_or_else(|| Problem { is_refusal: false, ..parts }.into())
    }

    /// Writes the disks of each volume explicitly.
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

    /// The table `[pool]`, also if the file has it in braces on one line; a new one if there is
    /// none.
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
