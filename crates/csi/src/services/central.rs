//! The driver of a cluster's resizer: it has no volumes. The resizer asks one driver for all nodes
//! what volumes can do; it is told that they grow on their nodes, marks them, and the kubelet of
//! each node has its own driver grow them.

use tonic::{Request, Response, Status, async_trait};

use super::identity;
use crate::proto::controller_server::Controller;
use crate::proto::identity_server::Identity;
use crate::proto::node_server::Node;
use crate::proto::node_service_capability::{Rpc, Type, rpc};
use crate::proto::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse,
    NodeServiceCapability, ProbeRequest, ProbeResponse,
};

/// A driver without a daemon. Calls about volumes are unimplemented.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Central;

#[async_trait]
impl Identity for Central {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(identity::info()))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(identity::capabilities()))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}

#[async_trait]
impl Controller for Central {
    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        Ok(Response::new(ControllerGetCapabilitiesResponse::default()))
    }
}

#[async_trait]
impl Node for Central {
    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let grows = Rpc { r#type: rpc::Type::ExpandVolume.into() };
        let capabilities = vec![NodeServiceCapability { r#type: Some(Type::Rpc(grows)) }];
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities }))
    }
}
