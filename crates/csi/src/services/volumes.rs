//! Volumes of the daemon's pool, as volumes of the cluster.

use api::{Volume, VolumeChange, VolumeSpec};
use tonic::{Code, Status};
use units::Bytes;

use super::Driver;
use super::snapshots::id_of;
use crate::proto::volume_content_source::{SnapshotSource, Type, VolumeSource};
use crate::proto::{
    self, ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerModifyVolumeRequest, ControllerModifyVolumeResponse, CreateVolumeRequest,
    CreateVolumeResponse, DeleteVolumeRequest, DeleteVolumeResponse, ListVolumesRequest,
    ListVolumesResponse, VolumeContentSource, list_volumes_response,
};
use crate::services::pages::page;
use crate::size::{SizeRange, signed};
use crate::{capabilities, class, daemon};

/// The name of what a new volume begins with, and its size.
struct Source {
    name: String,
    size: Bytes,
}

impl Driver {
    /// A volume as the cluster knows it.
    pub(super) fn describe(
        &self,
        volume: &Volume,
        source: Option<VolumeContentSource>,
    ) -> proto::Volume {
        proto::Volume {
            capacity_bytes: signed(Bytes(volume.size_bytes)),
            volume_id: volume.name.clone(),
            content_source: source,
            accessible_topology: vec![self.topology()],
            ..Default::default()
        }
    }

    /// The volume or snapshot that a new volume is to begin with.
    fn source(&self, asked: Option<&VolumeContentSource>) -> Result<Option<Source>, Status> {
        let Some(asked) = asked else { return Ok(None) };
        let found = match &asked.r#type {
            Some(Type::Snapshot(SnapshotSource { snapshot_id })) => {
                let found = self.daemon.find(snapshot_id)?;
                let found = found.filter(|one| daemon::snapshot_of(one).is_some());
                found.ok_or_else(|| {
                    Status::not_found(format!("there is no snapshot \"{snapshot_id}\""))
                })?
            }
            Some(Type::Volume(VolumeSource { volume_id })) => self.daemon.volume(volume_id)?,
            None => return Err(Status::invalid_argument("expected a snapshot or a volume")),
        };
        Ok(Some(Source { size: Bytes(found.size_bytes), name: found.name }))
    }

    pub(super) fn create(
        &self,
        asked: &CreateVolumeRequest,
    ) -> Result<CreateVolumeResponse, Status> {
        if asked.name.is_empty() {
            return Err(Status::invalid_argument("expected a name"));
        }
        capabilities::check(&asked.volume_capabilities)?;
        let range = SizeRange::of(asked.capacity_range.as_ref())?;
        let spec = class::volume(&asked.parameters, &asked.mutable_parameters)?;
        if !self.meets(asked.accessibility_requirements.as_ref()) {
            let node = &self.node;
            return Err(Status::resource_exhausted(format!(
                "accessibility_requirements: expected node \"{node}\", whose disks this driver has"
            )));
        }
        let name = id_of(&asked.name);
        // The source is looked for first: a driver that was killed may have left a request that
        // the daemon carries out meanwhile, and it makes no clone of a source that is not there.
        let source = self.source(asked.volume_content_source.as_ref());
        let existing = self.daemon.find(&name)?;
        let source = match (&existing, source) {
            // The source of a volume that is there may have been removed since.
            (Some(volume), _) => {
                let size = Bytes(volume.size_bytes);
                asked_source(asked).map(|name| Source { name, size })
            }
            (None, source) => source?,
        };
        let size = match &existing {
            Some(volume) if range.accepts(Bytes(volume.size_bytes)) => Bytes(volume.size_bytes),
            Some(volume) => {
                let size = volume.size_bytes;
                return Err(Status::already_exists(format!(
                    "volume \"{name}\" is there with {size} bytes: expected a range with that"
                )));
            }
            None => range.choose(source.as_ref().map_or(Bytes::ZERO, |source| source.size))?,
        };
        let spec = VolumeSpec { name, size: size.0.to_string() + "B", ..spec };
        let spec = match source {
            None => spec,
            // A clone has the placement of its source.
            Some(source) => VolumeSpec {
                source: Some(source.name),
                disks: None,
                layout: None,
                zone: None,
                thin: None,
                checksums: None,
                ..spec
            },
        };
        let volume = self.daemon.create(&spec)?;
        let volume = self.describe(&volume, asked.volume_content_source.clone());
        Ok(CreateVolumeResponse { volume: Some(volume) })
    }

    /// Removes a volume that this driver has created. A snapshot of its name is none.
    pub(super) fn delete(
        &self,
        asked: &DeleteVolumeRequest,
    ) -> Result<DeleteVolumeResponse, Status> {
        if asked.volume_id.is_empty() {
            return Err(Status::invalid_argument("expected volume_id"));
        }
        let found = self.daemon.find(&asked.volume_id)?;
        let Some(volume) = found.filter(|one| daemon::snapshot_of(one).is_none()) else {
            return Ok(DeleteVolumeResponse {});
        };
        let (label, value) = class::CREATED_BY;
        if volume.labels.get(label).is_none_or(|found| found != value) {
            return Err(Status::failed_precondition(format!(
                "volume \"{}\" was not created by this driver (it has no label {label}={value}): \
                 expected it to be removed with `spindle vol rm`",
                volume.name
            )));
        }
        self.daemon.remove(&volume.name)?;
        Ok(DeleteVolumeResponse {})
    }

    pub(super) fn list(&self, asked: &ListVolumesRequest) -> Result<ListVolumesResponse, Status> {
        let all = self.daemon.all()?;
        let all = all.into_iter().filter(|one| daemon::snapshot_of(one).is_none()).collect();
        let (some, next_token) = page(all, asked.max_entries, &asked.starting_token)?;
        let entry = |volume: Volume| list_volumes_response::Entry {
            volume: Some(self.describe(&volume, None)),
            status: None,
        };
        Ok(ListVolumesResponse { entries: some.into_iter().map(entry).collect(), next_token })
    }

    pub(super) fn expand(
        &self,
        asked: &ControllerExpandVolumeRequest,
    ) -> Result<ControllerExpandVolumeResponse, Status> {
        if asked.capacity_range.is_none() {
            return Err(Status::invalid_argument("expected capacity_range"));
        }
        let range = SizeRange::of(asked.capacity_range.as_ref())?;
        let volume = self.daemon.volume(&asked.volume_id)?;
        let capacity_bytes = signed(self.grown(&volume, range)?);
        Ok(ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required: true })
    }

    /// Grows a volume to a size of the range, unless it has one; returns its size.
    pub(super) fn grown(&self, volume: &Volume, range: SizeRange) -> Result<Bytes, Status> {
        let present = Bytes(volume.size_bytes);
        let size = range.choose(present)?;
        if size == present {
            return Ok(present);
        }
        let change =
            VolumeChange { size: Some(size.0.to_string() + "B"), ..VolumeChange::default() };
        let grown = self.daemon.set(&volume.name, &change, Code::OutOfRange)?;
        Ok(Bytes(grown.size_bytes))
    }

    /// Changes a contract while the volume is in use. What does not fit changes nothing.
    pub(super) fn modify(
        &self,
        asked: &ControllerModifyVolumeRequest,
    ) -> Result<ControllerModifyVolumeResponse, Status> {
        let volume = self.daemon.volume(&asked.volume_id)?;
        let change = class::change(&asked.mutable_parameters, &volume)?;
        self.daemon.set(&volume.name, &change, Code::InvalidArgument)?;
        Ok(ControllerModifyVolumeResponse {})
    }
}

/// The name of the source that is asked for.
fn asked_source(asked: &CreateVolumeRequest) -> Option<String> {
    match asked.volume_content_source.as_ref()?.r#type.as_ref()? {
        Type::Snapshot(SnapshotSource { snapshot_id }) => Some(snapshot_id.clone()),
        Type::Volume(VolumeSource { volume_id }) => Some(volume_id.clone()),
    }
}
