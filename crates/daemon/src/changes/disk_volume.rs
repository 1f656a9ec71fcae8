//! Volumes that are one extent on one disk.

use config::{DiskIndex, Document, VolumeEdit};
use engine::VolumeId;
use units::Bytes;

use super::backend::{NewVolumeBackend, VolumeBackend};
use super::error::ChangeError;
use super::operator::Operator;
use crate::disk::inbox::Inbox;
use crate::disk::message::Change;
use crate::disk::terms::VolumeTerms;
use crate::routing::placement::{ExtentPlacement, Placement};
use crate::routing::routes::Route;

/// A volume that is to be created on a disk.
pub(super) struct NewDiskVolume<'a> {
    pub(super) operator: &'a Operator,
    pub(super) name: &'a str,
    pub(super) disk: &'a str,
    pub(super) edit: &'a VolumeEdit,
}

impl NewVolumeBackend for NewDiskVolume<'_> {
    fn equals_existing(&self, before: &Document) -> Result<Option<bool>, ChangeError> {
        let Ok((_, volume)) = before.volume(self.name) else { return Ok(None) };
        let asked = match before.preview_create(self.name, self.disk, self.edit) {
            Ok(asked) => asked,
            // A volume that does not fit beside the others is not the existing one.
            Err(error) if error.is_refusal() => return Ok(Some(false)),
            Err(error) => return Err(error.into()),
        };
        let same = (asked.disk, asked.size) == (volume.disk, volume.size);
        Ok(Some(same && VolumeTerms::of(&asked) == VolumeTerms::of(volume)))
    }

    fn add_to(&self, before: &Document) -> Result<Document, ChangeError> {
        let after = before.create(self.name, self.disk, self.edit)?;
        after.reject_expired_span(after.plan().volumes.len() - 1, self.operator.now())?;
        Ok(after)
    }

    fn create(&self, before: &Document, after: &Document) -> Result<(), ChangeError> {
        let (operator, plan) = (self.operator, after.plan());
        let volume = plan.volumes.last().expect("the volume was added");
        assert_eq!(volume.name, self.name, "a new volume is the config's last");
        let routes = &operator.state.routes;
        let inbox = operator.state.inbox(volume.disk);
        let export = routes.next_export();
        let attach = Change::Attach { export, terms: Box::new(VolumeTerms::of(volume)) };
        let id = inbox.change(attach).expect("a volume is attached without the disk");
        let done = inbox
            .change(Change::Erase { volume: id, extent: volume.extent })
            .map_err(ChangeError::Disk)
            .and_then(|_| operator.persist(before, after));
        if let Err(error) = done {
            inbox.change(Change::Detach { volume: id }).expect("detaching does not need the disk");
            return Err(error);
        }
        routes.publish(export, Route::of_extent(plan, volume, id));
        Ok(())
    }
}

/// A volume on a disk.
pub(super) struct DiskVolume<'a> {
    operator: &'a Operator,
    name: &'a str,
    /// Its number in the config.
    index: usize,
    config: config::Volume,
    disk: DiskIndex,
    /// Its number on the disk.
    volume: VolumeId,
}

impl<'a> DiskVolume<'a> {
    pub(super) fn new(operator: &'a Operator, name: &'a str) -> Result<Self, ChangeError> {
        let document = operator.document();
        let (index, config) = document.volume(name).map_err(ChangeError::Missing)?;
        let (_, route) = operator.state.routes.find(name).expect("a volume has a route");
        let Placement::Extent(ExtentPlacement { disk, volume, .. }) = route.placement else {
            unreachable!("a volume of one of the config's disks is not in the pool")
        };
        assert_eq!(disk, config.disk, "route and config agree on the disk");
        Ok(Self { operator, name, index, config: config.clone(), disk, volume })
    }

    fn inbox(&self) -> &Inbox {
        self.operator.state.inbox(self.disk)
    }
}

impl VolumeBackend for DiskVolume<'_> {
    fn size(&self) -> Bytes {
        self.config.size
    }

    fn edit_in(
        &self,
        before: &Document,
        edit: &VolumeEdit,
    ) -> Result<(Document, Bytes), ChangeError> {
        let after = before.set(self.name, edit)?;
        if edit.stream.is_some() {
            after.reject_expired_span(self.index, self.operator.now())?;
        }
        let size = after.plan().volumes[self.index].size;
        Ok((after, size))
    }

    fn check_space(&self, _: Bytes) -> Result<(), ChangeError> {
        // The config has all extents of its disks.
        Ok(())
    }

    fn remove_from(&self, before: &Document) -> Result<Document, ChangeError> {
        Ok(before.delete(self.name)?)
    }

    fn resize(&self, before: &Document, after: &Document, size: Bytes) -> Result<(), ChangeError> {
        let (volume, inbox) = (self.volume, self.inbox());
        if size < self.config.size {
            inbox.change(Change::Drain { volume }).expect("draining does not fail");
        }
        if size > self.config.size {
            let new = &after.plan().volumes[self.index];
            let (_, extent) = new.extent.split_at(self.config.extent.len);
            inbox.change(Change::Erase { volume, extent }).map_err(ChangeError::Disk)?;
        }
        self.operator.persist(before, after)
    }

    fn apply_terms(&self, after: &Document) -> Result<(), ChangeError> {
        let terms = VolumeTerms::of(&after.plan().volumes[self.index]);
        if terms != VolumeTerms::of(&self.config) {
            let changed = self
                .inbox()
                .change(Change::SetTerms { volume: self.volume, terms: Box::new(terms) });
            changed.expect("terms change without the disk");
        }
        Ok(())
    }

    fn resized_route(&self, after: &Document, route: Route) -> Result<Route, ChangeError> {
        let new = &after.plan().volumes[self.index];
        let (disk, volume) = (self.disk, self.volume);
        let placement = Placement::Extent(ExtentPlacement { disk, volume, extent: new.extent });
        Ok(Route { size: new.size, placement, ..route })
    }

    fn remove(&self, before: &Document, after: &Document) -> Result<(), ChangeError> {
        self.operator.persist(before, after)?;
        self.inbox().detach(self.volume);
        Ok(())
    }
}
