//! The name of the driver, what it offers, and whether its daemon answers.

use tonic::{Request, Response, Status, async_trait};

use super::Driver;
use crate::blocking;
use crate::proto::identity_server::Identity;
use crate::proto::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
use crate::proto::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, PluginCapability, ProbeRequest, ProbeResponse,
};

/// The name of the driver, as classes name it.
pub(crate) const NAME: &str = "csi.spindle.io";

/// Which driver this is.
pub(crate) fn info() -> GetPluginInfoResponse {
    GetPluginInfoResponse {
        name: NAME.to_owned(),
        vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Default::default()
    }
}

/// What the driver offers.
pub(crate) fn capabilities() -> GetPluginCapabilitiesResponse {
    let of = |kind: service::Type| Type::Service(Service { r#type: kind.into() });
    let online =
        Type::VolumeExpansion(VolumeExpansion { r#type: volume_expansion::Type::Online.into() });
    let all = [
        of(service::Type::ControllerService),
        of(service::Type::VolumeAccessibilityConstraints),
        online,
    ];
    let capabilities = all.map(|one| PluginCapability { r#type: Some(one) }).to_vec();
    GetPluginCapabilitiesResponse { capabilities }
}

#[async_trait]
impl Identity for Driver {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(info()))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(capabilities()))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let daemon = self.daemon.clone();
        // A daemon that restarts is no reason to restart the driver.
        blocking::run(move || Ok(ProbeResponse { ready: Some(daemon.disks().is_ok()) })).await
    }
}
