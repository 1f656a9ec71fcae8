//! The driver of a cluster's resizer (`spindle-csi --central`): it answers without a daemon that
//! volumes grow on their nodes, and has no volumes of its own.

mod support;

use std::process::Command;
use std::time::Duration;

use spindle_csi::proto::node_service_capability::Type;
use spindle_csi::proto::node_service_capability::rpc::Type as Rpc;
use spindle_csi::proto::plugin_capability::Type as Plugin;
use spindle_csi::proto::plugin_capability::service::Type as Service;
use spindle_csi::proto::volume_capability::access_mode::Mode;
use spindle_csi::proto::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse,
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerModifyVolumeRequest, ControllerModifyVolumeResponse, CreateSnapshotRequest,
    CreateSnapshotResponse, CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest,
    DeleteVolumeResponse, GetCapacityRequest, GetCapacityResponse, GetPluginCapabilitiesRequest,
    GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse,
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse, NodeStageVolumeRequest,
    NodeStageVolumeResponse, ProbeRequest, ProbeResponse,
};
use support::DriverProcess;
use support::calls::{Calls, at_least, capability};
use testkit::{Scratch, binary, run};
use tonic::Code;

const SECOND: Duration = Duration::from_secs(5);

/// Calls something that the driver does not have: it says so, and goes on.
async fn refuse<Q, A>(calls: &Calls, method: &'static str, asked: Q)
where
    Q: prost::Message + Clone + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static + std::fmt::Debug,
{
    let status = calls.call::<Q, A>(method, &asked).await.expect_err(method);
    assert_eq!(status.code(), Code::Unimplemented, "{method}: {status}");
}

/// The resizer's own questions, in its order: the name, readiness, and what grows where.
async fn answers_the_resizer(calls: &Calls) {
    let info: GetPluginInfoResponse = calls
        .finish("/csi.v1.Identity/GetPluginInfo", &GetPluginInfoRequest {}, SECOND)
        .await
        .expect("it has a name");
    assert_eq!(info.name, "csi.spindle.io", "the name that classes have");
    let probe: ProbeResponse =
        calls.finish("/csi.v1.Identity/Probe", &ProbeRequest {}, SECOND).await.expect("it answers");
    assert_eq!(probe.ready, Some(true));
    let plugin: GetPluginCapabilitiesResponse = calls
        .finish("/csi.v1.Identity/GetPluginCapabilities", &GetPluginCapabilitiesRequest {}, SECOND)
        .await
        .expect("it answers");
    let has = |kind: Service| {
        let of = |one: &Plugin| matches!(one, Plugin::Service(found) if found.r#type() == kind);
        plugin.capabilities.iter().filter_map(|one| one.r#type.as_ref()).any(of)
    };
    assert!(has(Service::ControllerService) && has(Service::VolumeAccessibilityConstraints));
    let grows = |one: &Plugin| matches!(one, Plugin::VolumeExpansion(_));
    assert!(plugin.capabilities.iter().filter_map(|one| one.r#type.as_ref()).any(grows));
    let controller: ControllerGetCapabilitiesResponse = calls
        .finish(
            "/csi.v1.Controller/ControllerGetCapabilities",
            &ControllerGetCapabilitiesRequest {},
            SECOND,
        )
        .await
        .expect("it answers");
    // One that could expand volumes, or change them, would be asked to by the resizer.
    assert_eq!(controller.capabilities, [], "it cannot change volumes");
    let node: NodeGetCapabilitiesResponse = calls
        .finish("/csi.v1.Node/NodeGetCapabilities", &NodeGetCapabilitiesRequest {}, SECOND)
        .await
        .expect("it answers");
    let kinds = node.capabilities.iter().map(|one| match one.r#type.as_ref() {
        Some(Type::Rpc(rpc)) => rpc.r#type(),
        None => Rpc::Unknown,
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [Rpc::ExpandVolume], "nodes grow volumes");
}

/// Every call about a volume: it has none.
async fn has_no_volumes(calls: &Calls) {
    let volume_id = "pvc-1".to_owned();
    let block = || Some(capability(None, Mode::SingleNodeWriter));
    let create = CreateVolumeRequest {
        name: volume_id.clone(),
        capacity_range: Some(at_least(1 << 20)),
        volume_capabilities: block().into_iter().collect(),
        ..Default::default()
    };
    refuse::<_, CreateVolumeResponse>(calls, "/csi.v1.Controller/CreateVolume", create).await;
    let delete = DeleteVolumeRequest { volume_id: volume_id.clone(), ..Default::default() };
    refuse::<_, DeleteVolumeResponse>(calls, "/csi.v1.Controller/DeleteVolume", delete).await;
    let method = "/csi.v1.Controller/GetCapacity";
    refuse::<_, GetCapacityResponse>(calls, method, GetCapacityRequest::default()).await;
    let expand = ControllerExpandVolumeRequest {
        volume_id: volume_id.clone(),
        capacity_range: Some(at_least(2 << 20)),
        ..Default::default()
    };
    let method = "/csi.v1.Controller/ControllerExpandVolume";
    refuse::<_, ControllerExpandVolumeResponse>(calls, method, expand).await;
    let modify =
        ControllerModifyVolumeRequest { volume_id: volume_id.clone(), ..Default::default() };
    let method = "/csi.v1.Controller/ControllerModifyVolume";
    refuse::<_, ControllerModifyVolumeResponse>(calls, method, modify).await;
    let snapshot = CreateSnapshotRequest {
        source_volume_id: volume_id.clone(),
        name: "s".to_owned(),
        ..Default::default()
    };
    refuse::<_, CreateSnapshotResponse>(calls, "/csi.v1.Controller/CreateSnapshot", snapshot).await;
    let stage = NodeStageVolumeRequest {
        volume_id: volume_id.clone(),
        staging_target_path: "/staged".to_owned(),
        volume_capability: block(),
        ..Default::default()
    };
    refuse::<_, NodeStageVolumeResponse>(calls, "/csi.v1.Node/NodeStageVolume", stage).await;
    let grow = NodeExpandVolumeRequest {
        volume_id,
        volume_path: "/published".to_owned(),
        ..Default::default()
    };
    refuse::<_, NodeExpandVolumeResponse>(calls, "/csi.v1.Node/NodeExpandVolume", grow).await;
    let method = "/csi.v1.Node/NodeGetInfo";
    refuse::<_, NodeGetInfoResponse>(calls, method, NodeGetInfoRequest {}).await;
}

#[test]
fn the_resizers_driver_answers_without_a_daemon_and_has_no_volumes() {
    let scratch = Scratch::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a thread").block_on(async {
        let driver = DriverProcess::start_central(scratch.path());
        let calls = Calls::new(scratch.path());
        answers_the_resizer(&calls).await;
        has_no_volumes(&calls).await;
        // A driver that is killed leaves nothing behind that the next one would miss.
        driver.kill();
        let _driver = DriverProcess::start_central(scratch.path());
        answers_the_resizer(&Calls::new(scratch.path())).await;
    });
}

#[test]
fn a_driver_is_of_one_node_or_of_none() {
    let scratch = Scratch::new();
    for (arguments, words) in [
        (&["--central", "--node", "n1"][..], "cannot be used with '--node"),
        (&[], "--node <NAME>"),
    ] {
        let mut command = Command::new(binary("spindle-csi"));
        command.args(arguments).args(["--endpoint", "csi.sock"]);
        let ran = run(command, scratch.path());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(words), "{ran:?}");
        assert_eq!(scratch.names(), [""; 0], "it has made no socket");
    }
}
