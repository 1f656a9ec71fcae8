//! The node service: volumes become block devices and mounts of this node.

use api::Volume;
use tonic::{Request, Response, Status, async_trait};
use units::Bytes;

use super::{Driver, health};
use crate::blocking;
use crate::capabilities::asked as asked_by;
use crate::limits::NODE_VOLUMES_MAX;
use crate::node::{NodeVolumes, Usage};
use crate::proto::node_server::Node;
use crate::proto::node_service_capability::{Rpc, Type, rpc};
use crate::proto::volume_usage::Unit;
use crate::proto::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse,
    NodeGetStorageHealthRequest, NodeGetStorageHealthResponse, NodeGetVolumeHealthRequest,
    NodeGetVolumeHealthResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeServiceCapability,
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnpublishVolumeRequest,
    NodeUnpublishVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse, VolumeUsage,
};
use crate::size::{SizeRange, signed};

/// What the node can do.
const CAPABILITIES: [rpc::Type; 6] = [
    rpc::Type::StageUnstageVolume,
    rpc::Type::GetVolumeStats,
    rpc::Type::ExpandVolume,
    rpc::Type::SingleNodeMultiWriter,
    rpc::Type::GetVolumeHealth,
    rpc::Type::GetStorageHealth,
];

/// A path of a request, which has to be there.
fn path(name: &str, given: &str) -> Result<String, Status> {
    if given.starts_with('/') {
        return Ok(given.to_owned());
    }
    Err(Status::invalid_argument(format!("{name}: found `{given}`, expected an absolute path")))
}

impl Driver {
    /// A volume, and the path at which it is said to be published: a relative one is none.
    fn published(&self, volume: &str, at: &str) -> Result<(Volume, String), Status> {
        if at.is_empty() {
            return Err(Status::invalid_argument("expected volume_path"));
        }
        let volume = self.daemon.volume(volume)?;
        if at.starts_with('/') {
            return Ok((volume, at.to_owned()));
        }
        Err(Status::not_found(format!("volume_path: nothing is published at `{at}`")))
    }

    fn stage(&self, asked: &NodeStageVolumeRequest) -> Result<NodeStageVolumeResponse, Status> {
        let at = path("staging_target_path", &asked.staging_target_path)?;
        let access = asked_by(asked.volume_capability.as_ref())?.access;
        let volume = self.daemon.volume(&asked.volume_id)?;
        // Another client, such as a VM, writes to it already: the two would not see each other.
        let is_ours =
            self.volumes.is_attaching(&volume.name) || self.volumes.device(&volume.name)?.is_some();
        if volume.connections > 0 && !is_ours {
            return Err(Status::failed_precondition(format!(
                "volume \"{}\" is open on {} connections of other clients: expected none",
                volume.name, volume.connections
            )));
        }
        self.volumes.stage(&volume.name, &at, &access)?;
        Ok(NodeStageVolumeResponse {})
    }

    fn publish(
        &self,
        asked: &NodePublishVolumeRequest,
    ) -> Result<NodePublishVolumeResponse, Status> {
        let target = path("target_path", &asked.target_path)?;
        let mut use_as = asked_by(asked.volume_capability.as_ref())?;
        let staged = path("staging_target_path", &asked.staging_target_path)?;
        let volume = self.daemon.volume(&asked.volume_id)?;
        use_as.is_read_only |= asked.readonly;
        self.volumes.publish(&volume.name, (&staged, &target), &use_as)?;
        Ok(NodePublishVolumeResponse {})
    }

    fn stats(
        &self,
        asked: &NodeGetVolumeStatsRequest,
    ) -> Result<NodeGetVolumeStatsResponse, Status> {
        let (volume, path) = self.published(&asked.volume_id, &asked.volume_path)?;
        let usage = |unit: Unit, Usage { total, used, available }: Usage| VolumeUsage {
            total,
            used,
            available,
            unit: unit.into(),
        };
        let usage = if let Some((bytes, inodes)) = NodeVolumes::usage(&path)? {
            vec![usage(Unit::Bytes, bytes), usage(Unit::Inodes, inodes)]
        } else {
            let total = signed(Bytes(volume.size_bytes));
            vec![VolumeUsage { total, unit: Unit::Bytes.into(), ..Default::default() }]
        };
        Ok(NodeGetVolumeStatsResponse { usage })
    }

    fn expand_on_node(
        &self,
        asked: &NodeExpandVolumeRequest,
    ) -> Result<NodeExpandVolumeResponse, Status> {
        let (volume, path) = self.published(&asked.volume_id, &asked.volume_path)?;
        // Without a controller that has grown it, the volume grows here.
        let size = match asked.capacity_range.as_ref() {
            Some(range) => self.grown(&volume, SizeRange::of(Some(range))?)?,
            None => Bytes(volume.size_bytes),
        };
        self.volumes.expand(&volume.name, &path, size)?;
        Ok(NodeExpandVolumeResponse { capacity_bytes: signed(size) })
    }
}

#[async_trait]
impl Node for Driver {
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        self.in_progress.run(&asked.volume_id.clone(), move || driver.stage(&asked)).await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        self.in_progress
            .run(&asked.volume_id.clone(), move || {
                let at = path("staging_target_path", &asked.staging_target_path)?;
                if asked.volume_id.is_empty() {
                    return Err(Status::invalid_argument("expected volume_id"));
                }
                driver.volumes.unstage(&asked.volume_id, &at)?;
                driver.daemon.await_closed(&asked.volume_id);
                Ok(NodeUnstageVolumeResponse {})
            })
            .await
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        self.in_progress.run(&asked.volume_id.clone(), move || driver.publish(&asked)).await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let asked = request.into_inner();
        self.in_progress
            .run(&asked.volume_id.clone(), move || {
                let target = path("target_path", &asked.target_path)?;
                if asked.volume_id.is_empty() {
                    return Err(Status::invalid_argument("expected volume_id"));
                }
                NodeVolumes::unpublish(&target)?;
                Ok(NodeUnpublishVolumeResponse {})
            })
            .await
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<NodeGetVolumeStatsRequest>,
    ) -> Result<Response<NodeGetVolumeStatsResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        blocking::run(move || driver.stats(&asked)).await
    }

    async fn node_get_volume_health(
        &self,
        request: Request<NodeGetVolumeHealthRequest>,
    ) -> Result<Response<NodeGetVolumeHealthResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        blocking::run(move || {
            let volume = driver.daemon.volume(&asked.volume_id)?;
            let at = &asked.volume_publish_path;
            if !at.is_empty() && !std::path::Path::new(at).exists() {
                return Err(Status::not_found(format!("{at}: nothing is published there")));
            }
            Ok(NodeGetVolumeHealthResponse { volume_health: Some(health::of(&volume)) })
        })
        .await
    }

    async fn node_get_storage_health(
        &self,
        _: Request<NodeGetStorageHealthRequest>,
    ) -> Result<Response<NodeGetStorageHealthResponse>, Status> {
        let driver = self.clone();
        blocking::run(move || {
            Ok(NodeGetStorageHealthResponse { backend_health: driver.storage()? })
        })
        .await
    }

    async fn node_expand_volume(
        &self,
        request: Request<NodeExpandVolumeRequest>,
    ) -> Result<Response<NodeExpandVolumeResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        self.in_progress.run(&asked.volume_id.clone(), move || driver.expand_on_node(&asked)).await
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let of = |kind: rpc::Type| NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: kind.into() })),
        };
        let capabilities = CAPABILITIES.map(of).to_vec();
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(
        &self,
        _: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        Ok(Response::new(NodeGetInfoResponse {
            node_id: self.node.clone(),
            max_volumes_per_node: NODE_VOLUMES_MAX,
            accessible_topology: Some(self.topology()),
        }))
    }
}
