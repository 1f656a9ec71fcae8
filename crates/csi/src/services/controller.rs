//! The controller service: each call is carried out by a method of [`Driver`], on a thread beside.

use tonic::{Request, Response, Status, async_trait};

use super::{Driver, health};
use crate::proto::controller_server::Controller;
use crate::proto::controller_service_capability::{Rpc, Type, rpc};
use crate::proto::validate_volume_capabilities_response::Confirmed;
use crate::proto::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerGetVolumeHealthRequest, ControllerGetVolumeHealthResponse,
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, ControllerListVolumeHealthRequest,
    ControllerListVolumeHealthResponse, ControllerModifyVolumeRequest,
    ControllerModifyVolumeResponse, ControllerServiceCapability, CreateSnapshotRequest,
    CreateSnapshotResponse, CreateVolumeRequest, CreateVolumeResponse, DeleteSnapshotRequest,
    DeleteSnapshotResponse, DeleteVolumeRequest, DeleteVolumeResponse, GetCapacityRequest,
    GetCapacityResponse, GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest,
    ListSnapshotsResponse, ListVolumesRequest, ListVolumesResponse,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
    controller_get_volume_response,
};
use crate::services::pages::page;
use crate::{blocking, capabilities, daemon};

/// What the controller can do.
const CAPABILITIES: [rpc::Type; 12] = [
    rpc::Type::CreateDeleteVolume,
    rpc::Type::ListVolumes,
    rpc::Type::GetCapacity,
    rpc::Type::CreateDeleteSnapshot,
    rpc::Type::ListSnapshots,
    rpc::Type::GetSnapshot,
    rpc::Type::CloneVolume,
    rpc::Type::ExpandVolume,
    rpc::Type::SingleNodeMultiWriter,
    rpc::Type::ModifyVolume,
    rpc::Type::GetVolumeHealth,
    rpc::Type::ListVolumeHealth,
];

#[async_trait]
impl Controller for Driver {
    async fn create_volume(
        &self,
        request: Request<CreateVolumeRequest>,
    ) -> Result<Response<CreateVolumeResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        self.in_progress.run(&asked.name.clone(), move || driver.create(&asked)).await
    }

    async fn delete_volume(
        &self,
        request: Request<DeleteVolumeRequest>,
    ) -> Result<Response<DeleteVolumeResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        self.in_progress.run(&asked.volume_id.clone(), move || driver.delete(&asked)).await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<ValidateVolumeCapabilitiesResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        blocking::run(move || {
            driver.daemon.volume(&asked.volume_id)?;
            if asked.volume_capabilities.is_empty() {
                return Err(Status::invalid_argument("expected volume_capabilities"));
            }
            let mut answer = ValidateVolumeCapabilitiesResponse::default();
            match capabilities::check(&asked.volume_capabilities) {
                Ok(()) => {
                    answer.confirmed = Some(Confirmed {
                        volume_context: asked.volume_context,
                        volume_capabilities: asked.volume_capabilities,
                        parameters: asked.parameters,
                        mutable_parameters: asked.mutable_parameters,
                    });
                }
                Err(status) => status.message().clone_into(&mut answer.message),
            }
            Ok(answer)
        })
        .await
    }

    async fn list_volumes(
        &self,
        request: Request<ListVolumesRequest>,
    ) -> Result<Response<ListVolumesResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        blocking::run(move || driver.list(&asked)).await
    }

    async fn get_capacity(
        &self,
        request: Request<GetCapacityRequest>,
    ) -> Result<Response<GetCapacityResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        blocking::run(move || driver.capacity(&asked)).await
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let of = |kind: rpc::Type| ControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: kind.into() })),
        };
        let capabilities = CAPABILITIES.map(of).to_vec();
        Ok(Response::new(ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn create_snapshot(
        &self,
        request: Request<CreateSnapshotRequest>,
    ) -> Result<Response<CreateSnapshotResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        let name = format!("snapshot {}", asked.name);
        self.in_progress.run(&name, move || driver.take_snapshot(&asked)).await
    }

    async fn delete_snapshot(
        &self,
        request: Request<DeleteSnapshotRequest>,
    ) -> Result<Response<DeleteSnapshotResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        self.in_progress
            .run(&asked.snapshot_id.clone(), move || driver.delete_snapshot(&asked))
            .await
    }

    async fn list_snapshots(
        &self,
        request: Request<ListSnapshotsRequest>,
    ) -> Result<Response<ListSnapshotsResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        blocking::run(move || driver.list_snapshots_of(&asked)).await
    }

    async fn get_snapshot(
        &self,
        request: Request<GetSnapshotRequest>,
    ) -> Result<Response<GetSnapshotResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        blocking::run(move || driver.find_snapshot(&asked)).await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<ControllerExpandVolumeRequest>,
    ) -> Result<Response<ControllerExpandVolumeResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        self.in_progress.run(&asked.volume_id.clone(), move || driver.expand(&asked)).await
    }

    async fn controller_get_volume(
        &self,
        request: Request<ControllerGetVolumeRequest>,
    ) -> Result<Response<ControllerGetVolumeResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        blocking::run(move || {
            let volume = driver.daemon.volume(&asked.volume_id)?;
            let status = Some(controller_get_volume_response::VolumeStatus::default());
            Ok(ControllerGetVolumeResponse { volume: Some(driver.describe(&volume, None)), status })
        })
        .await
    }

    async fn controller_modify_volume(
        &self,
        request: Request<ControllerModifyVolumeRequest>,
    ) -> Result<Response<ControllerModifyVolumeResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        self.in_progress.run(&asked.volume_id.clone(), move || driver.modify(&asked)).await
    }

    async fn controller_get_volume_health(
        &self,
        request: Request<ControllerGetVolumeHealthRequest>,
    ) -> Result<Response<ControllerGetVolumeHealthResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        blocking::run(move || {
            let volume = driver.daemon.volume(&asked.volume_id)?;
            Ok(ControllerGetVolumeHealthResponse { volume_health: Some(health::of(&volume)) })
        })
        .await
    }

    async fn controller_list_volume_health(
        &self,
        request: Request<ControllerListVolumeHealthRequest>,
    ) -> Result<Response<ControllerListVolumeHealthResponse>, Status> {
        let (driver, asked) = (self.clone(), request.into_inner());
        blocking::run(move || {
            let all = driver.daemon.all()?;
            let all = all.iter().filter(|one| daemon::snapshot_of(one).is_none());
            let all = all.map(health::of).collect();
            let (entries, next_token) = page(all, asked.max_entries, &asked.starting_token)?;
            Ok(ControllerListVolumeHealthResponse { entries, next_token })
        })
        .await
    }
}
