//! Volumes of the pool.

use config::{Document, NamedVolume, PoolVolumeEdit, VolumeEdit};
use units::Bytes;
use volume::pool::{Operation, PoolVolumeId, Volume};

use super::backend::{NewVolumeBackend, VolumeBackend};
use super::error::{ChangeError, refused};
use super::operator::Operator;
use super::pool_state::fits;
use crate::pool::view::size;
use crate::routing::routes::Route;

/// A volume that is to be created in the pool.
pub(super) struct NewPoolVolume<'a> {
    pub(super) operator: &'a Operator,
    pub(super) name: &'a str,
    pub(super) edit: &'a PoolVolumeEdit,
}

impl NewPoolVolume<'_> {
    /// The edit with the placement of the source, which a clone shares.
    ///
    /// # Errors
    /// It asks for another placement, or for a size that is smaller than that of the source.
    fn placed_as(&self, source: &Volume) -> Result<PoolVolumeEdit, ChangeError> {
        let disks = self.operator.pool_disk_names(&source.disks)?;
        let layout = config::layout_name(source.layout).to_owned();
        let copies = config::layout_copies(source.layout).map(i64::from);
        let zone = config::zone_name(source.zone);
        let edit = self.edit;
        let differs = [
            ("disks", edit.disks.as_ref().is_some_and(|given| *given != disks)),
            ("layout", edit.layout.as_ref().is_some_and(|given| *given != layout)),
            ("copies", edit.copies.is_some() && edit.copies != copies),
            ("zone", edit.zone.as_ref().is_some_and(|given| *given != zone)),
            ("thin", edit.thin.is_some_and(|given| given != source.thin)),
            ("checksums", edit.checksums.is_some_and(|given| given != source.sums)),
        ];
        if let Some((key, _)) = differs.iter().find(|(_, differs)| *differs) {
            return refused(format!(
                "{key}: found another than that of \"{}\", expected none: a clone has the \
                 placement of its source",
                source.name
            ));
        }
        let (disks, layout, zone) = (Some(disks), Some(layout), Some(zone));
        let thin = source.thin.then_some(true);
        let checksums = (!source.sums).then_some(false);
        Ok(PoolVolumeEdit { disks, layout, copies, zone, thin, checksums, ..edit.clone() })
    }
}

impl NewVolumeBackend for NewPoolVolume<'_> {
    fn equals_existing(&self, before: &Document) -> Result<Option<bool>, ChangeError> {
        let Ok((_, existing)) = before.pool_volume(self.name) else { return Ok(None) };
        if self.edit.source != existing.source {
            return Ok(Some(false));
        }
        // The source may have been removed since: the clone has its placement.
        let edit = match (&self.edit.source, self.operator.state.pool_volume(self.name)) {
            (Some(_), Some((_, volume))) => &self.placed_as(&volume)?,
            _ => self.edit,
        };
        let asked = match before.preview_create_pool_volume(self.name, edit) {
            Ok(asked) => asked,
            // A volume that does not fit beside the others is not the existing one.
            Err(error) if error.is_refusal() => return Ok(Some(false)),
            Err(error) => return Err(error.into()),
        };
        let fields = |one: &config::PoolVolume| {
            let placement = (one.disks.clone(), one.layout, one.zone, one.thin, one.checksums);
            let requested =
                (one.rate, one.latency, one.stream.map(|stream| (stream.order, stream.survive)));
            let parts = (one.parts.clone(), one.stream_parts.clone());
            (placement, parts, one.priority, one.span(), requested)
        };
        let found = self.operator.state.pool_volume(self.name);
        let same_size = found.is_some_and(|(_, volume)| size(&volume) == asked.size);
        Ok(Some(fields(&asked) == fields(existing) && same_size))
    }

    fn add_to(&self, before: &Document) -> Result<Document, ChangeError> {
        let edit = match &self.edit.source {
            None => self.edit,
            Some(source) => {
                let found = self.operator.state.pool_volume(source);
                let (_, volume) = found.ok_or_else(|| self.operator.not_in_pool(source))?;
                &self.placed_as(&volume)?
            }
        };
        let after = before.create_pool_volume(self.name, edit)?;
        let (index, planned) = after.pool_volume(self.name)?;
        after.reject_expired_pool_span(index, self.operator.now())?;
        if self.edit.source.is_none() {
            self.operator.state.check_mirror_disks(after.plan(), planned)?;
        }
        Ok(after)
    }

    fn create(&self, before: &Document, after: &Document) -> Result<(), ChangeError> {
        let (_, planned) = after.pool_volume(self.name)?;
        // What the pool refuses afterwards stays in the config if the daemon is killed before it is
        // restored, and the next daemon would not start.
        self.operator.state.check_pool_space(after.plan(), planned)?;
        self.operator.persist(before, after)?;
        let created = self.operator.state.create_pool_volume(after.plan(), planned);
        self.operator.restore_on_error(after, before, created)
    }
}

/// A volume or a snapshot of the pool.
pub(super) struct PoolVolume<'a> {
    operator: &'a Operator,
    name: &'a str,
    id: PoolVolumeId,
    volume: Volume,
}

impl<'a> PoolVolume<'a> {
    pub(super) fn new(
        operator: &'a Operator,
        name: &'a str,
        id: PoolVolumeId,
        volume: Volume,
    ) -> Self {
        Self { operator, name, id, volume }
    }

    /// Whether the config knows the volume: one that only the pool has is served as best effort.
    fn is_in(&self, document: &Document) -> bool {
        matches!(document.find(self.name), Ok(NamedVolume::InPool(..)))
    }

    /// The config with the volume as it is in the pool, edited.
    fn adopt(&self, before: &Document, edit: &VolumeEdit) -> Result<Document, ChangeError> {
        let Volume { layout, zone, thin, sums, .. } = self.volume;
        let disks = self.operator.pool_disk_names(&self.volume.disks)?;
        let present = config::size_text(size(&self.volume));
        let edit = VolumeEdit { size: edit.size.clone().or(Some(present)), ..edit.clone() };
        let edit = PoolVolumeEdit {
            volume: edit,
            disks: Some(disks),
            layout: Some(config::layout_name(layout).to_owned()),
            copies: config::layout_copies(layout).map(i64::from),
            zone: Some(config::zone_name(zone)),
            thin: thin.then_some(true),
            checksums: (!sums).then_some(false),
            source: None,
        };
        Ok(before.create_pool_volume(self.name, &edit)?)
    }
}

impl VolumeBackend for PoolVolume<'_> {
    fn size(&self) -> Bytes {
        size(&self.volume)
    }

    fn edit_in(
        &self,
        before: &Document,
        edit: &VolumeEdit,
    ) -> Result<(Document, Bytes), ChangeError> {
        Operator::refuse_snapshot(self.name, &self.volume)?;
        let after = if self.is_in(before) {
            before.set_pool_volume(self.name, edit)?
        } else {
            self.adopt(before, edit)?
        };
        let (index, new) = after.pool_volume(self.name)?;
        self.operator.state.check_stream_parts(new, &self.volume)?;
        if edit.stream.is_some() {
            after.reject_expired_pool_span(index, self.operator.now())?;
        }
        // Without a new size the pool's size holds, even if the config has another.
        let blocks = if edit.size.is_some() { new.blocks() } else { self.volume.size };
        Ok((after, blocks.sectors().bytes()))
    }

    fn check_space(&self, size: Bytes) -> Result<(), ChangeError> {
        let Volume { layout, zone, thin, ref disks, .. } = self.volume;
        if thin || size <= self.size() {
            return Ok(());
        }
        let pool = self.operator.state.pool()?;
        let free = pool.inspect(|flow| flow.pool().size_max(layout, zone, disks));
        fits(size, Bytes(self.size().0 + free.sectors().bytes().0))
    }

    fn remove_from(&self, before: &Document) -> Result<Document, ChangeError> {
        let has_snapshots = self.operator.state.pool()?.inspect(|flow| {
            let state = flow.pool().state();
            self.volume.origin.is_none() && state.snapshots(self.id).next().is_some()
        });
        if has_snapshots {
            return refused(format!("\"{}\" has snapshots: remove those first", self.name));
        }
        if !self.is_in(before) {
            return Ok(Document::clone(before));
        }
        Ok(before.delete_pool_volume(self.name)?)
    }

    fn resize(&self, before: &Document, after: &Document, size: Bytes) -> Result<(), ChangeError> {
        if size == self.size() {
            return self.operator.persist(before, after);
        }
        let (_, new) = after.pool_volume(self.name)?;
        assert_eq!(new.blocks().sectors().bytes(), size, "a new size comes from the config");
        let resize = Operation::Resize { volume: self.id, size: new.blocks() };
        self.operator.state.check_pool_change(&resize)?;
        self.operator.persist(before, after)?;
        let resized = self.operator.state.change_pool(resize);
        self.operator.restore_on_error(after, before, resized)
    }

    fn apply_terms(&self, after: &Document) -> Result<(), ChangeError> {
        if let Some(accounts) = self.operator.state.pool()?.accounts(self.id) {
            self.operator.state.set_pool_terms(after.plan(), self.name, &accounts);
        }
        Ok(())
    }

    fn resized_route(&self, after: &Document, _: Route) -> Result<Route, ChangeError> {
        let found = self.operator.state.pool_volume(self.name);
        let (id, volume) = found.ok_or_else(|| self.operator.not_in_pool(self.name))?;
        self.operator.state.pool_route(after.plan(), (id, &volume))
    }

    fn remove(&self, before: &Document, after: &Document) -> Result<(), ChangeError> {
        // A pool's volume that the config does not have is served as best effort. So that one whose
        // removal a crash cuts short does not become such a volume, the config has the removal
        // until the pool has it.
        let is_planned = self.is_in(before);
        let during = is_planned.then(|| after.begin_removal(self.name)).transpose()?;
        let during = during.as_ref().unwrap_or(after);
        self.operator.persist(before, during)?;
        let removed = self.operator.state.remove_pool_volume(self.id);
        self.operator.restore_on_error(during, before, removed)?;
        if let Err(error) = self.operator.persist(during, after) {
            // It is done, and does no harm until the next start or the next use of the name.
            eprintln!("the config keeps the removal of volume {}: {error}", self.name);
        }
        Ok(())
    }
}
