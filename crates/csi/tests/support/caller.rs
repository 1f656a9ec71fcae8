//! The calls of a cluster's parts about the volumes of one node, in their order and with their
//! repetitions: the provisioner's, the resizer's, the snapshotter's and the kubelet's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use spindle_csi::proto::volume_capability::access_mode::Mode;
use spindle_csi::proto::volume_content_source::{SnapshotSource, Type};
use spindle_csi::proto::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, CreateSnapshotRequest,
    CreateSnapshotResponse, CreateVolumeRequest, CreateVolumeResponse, DeleteSnapshotRequest,
    DeleteSnapshotResponse, DeleteVolumeRequest, DeleteVolumeResponse, NodeExpandVolumeRequest,
    NodeExpandVolumeResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
    NodeUnstageVolumeRequest, NodeUnstageVolumeResponse, VolumeCapability, VolumeContentSource,
};
use tonic::{Code, Status};

use super::calls::{Calls, at_least, capability};

/// The deadline of a call. The kubelet's is two minutes.
pub(crate) const DEADLINE: Duration = Duration::from_mins(2);

/// The time between two calls of the kubelet, which is longer and grows there.
const REPEAT: Duration = Duration::from_millis(20);
/// The repetitions after which a call is given up: what it waits for would never end.
const REPEATED_MAX: u32 = 500;

/// A call of the kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Stage,
    Publish,
    Unpublish,
    Unstage,
}

/// A volume, and as what it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) name: String,
    pub(crate) file_system: Option<&'static str>,
}

impl Claim {
    pub(crate) fn new(name: &str, file_system: Option<&'static str>) -> Self {
        Self { name: name.to_owned(), file_system }
    }

    /// The same volume, used otherwise.
    pub(crate) fn used_as(&self, file_system: Option<&'static str>) -> Self {
        Self { file_system, ..self.clone() }
    }

    fn capability(&self) -> VolumeCapability {
        capability(self.file_system, Mode::SingleNodeWriter)
    }
}

/// Calls the driver of one node.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    calls: Calls,
    directory: PathBuf,
    deadline: Duration,
}

impl Caller {
    pub(crate) fn new(directory: &Path) -> Self {
        let directory = directory.to_owned();
        Self { calls: Calls::new(&directory), directory, deadline: DEADLINE }
    }

    /// Calls with another deadline. One that is too short for a call grows with its repetitions.
    pub(crate) fn within(&self, deadline: Duration) -> Self {
        Self { deadline, ..self.clone() }
    }

    fn path(&self, claim: &Claim, kind: &str) -> String {
        self.directory.join(format!("{kind}-{}", claim.name)).display().to_string()
    }

    /// Where the volume is visible to a pod.
    pub(crate) fn target(&self, claim: &Claim) -> String {
        self.path(claim, "target")
    }

    async fn finish<Q, A>(&self, method: &'static str, asked: &Q) -> Result<A, Status>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.calls.finish(method, asked, self.deadline).await
    }

    /// Provisions a volume, with the content of a snapshot if one is named. Returns its size.
    pub(crate) async fn create(&self, claim: &Claim, bytes: i64, snapshot: Option<&str>) -> i64 {
        let source = snapshot.map(|id| VolumeContentSource {
            r#type: Some(Type::Snapshot(SnapshotSource { snapshot_id: id.to_owned() })),
        });
        let asked = CreateVolumeRequest {
            name: claim.name.clone(),
            capacity_range: Some(at_least(bytes)),
            volume_capabilities: vec![claim.capability()],
            volume_content_source: source,
            ..Default::default()
        };
        let answer: Result<CreateVolumeResponse, _> =
            self.finish("/csi.v1.Controller/CreateVolume", &asked).await;
        let volume = answer.expect("there is space").volume.expect("it is described");
        volume.capacity_bytes
    }

    pub(crate) async fn delete(&self, claim: &Claim) {
        let asked = DeleteVolumeRequest { volume_id: claim.name.clone(), ..Default::default() };
        let answer: Result<DeleteVolumeResponse, _> =
            self.finish("/csi.v1.Controller/DeleteVolume", &asked).await;
        answer.expect("it is not in use");
    }

    /// Takes a snapshot; returns its identifier.
    pub(crate) async fn snapshot(&self, claim: &Claim, name: &str) -> String {
        let asked = CreateSnapshotRequest {
            source_volume_id: claim.name.clone(),
            name: name.to_owned(),
            ..Default::default()
        };
        let answer: Result<CreateSnapshotResponse, _> =
            self.finish("/csi.v1.Controller/CreateSnapshot", &asked).await;
        let snapshot = answer.expect("there is space").snapshot.expect("it is described");
        assert!(snapshot.ready_to_use, "a snapshot can be used at once");
        snapshot.snapshot_id
    }

    pub(crate) async fn delete_snapshot(&self, id: &str) {
        let asked = DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() };
        let answer: Result<DeleteSnapshotResponse, _> =
            self.finish("/csi.v1.Controller/DeleteSnapshot", &asked).await;
        answer.expect("it is not in use");
    }

    /// Grows a published volume, as the resizer and then the kubelet do.
    pub(crate) async fn expand(&self, claim: &Claim, bytes: i64) {
        let asked = ControllerExpandVolumeRequest {
            volume_id: claim.name.clone(),
            capacity_range: Some(at_least(bytes)),
            ..Default::default()
        };
        let answer: Result<ControllerExpandVolumeResponse, _> =
            self.finish("/csi.v1.Controller/ControllerExpandVolume", &asked).await;
        let answer = answer.expect("there is space");
        assert!(answer.node_expansion_required, "the device grows on the node");
        let asked = NodeExpandVolumeRequest {
            volume_id: claim.name.clone(),
            volume_path: self.target(claim),
            staging_target_path: self.path(claim, "staged"),
            capacity_range: Some(at_least(answer.capacity_bytes)),
            volume_capability: Some(claim.capability()),
            ..Default::default()
        };
        let method = "/csi.v1.Node/NodeExpandVolume";
        let answer = self.make::<_, NodeExpandVolumeResponse>(method, asked, false).await;
        answer.expect("it is published");
    }

    /// The bytes that the kubelet is told that a published volume has.
    pub(crate) async fn total(&self, claim: &Claim) -> i64 {
        let asked = NodeGetVolumeStatsRequest {
            volume_id: claim.name.clone(),
            volume_path: self.target(claim),
            ..Default::default()
        };
        let answer: Result<NodeGetVolumeStatsResponse, _> =
            self.finish("/csi.v1.Node/NodeGetVolumeStats", &asked).await;
        answer.expect("it is published").usage[0].total
    }

    /// Makes a call, once or until its answer is final.
    async fn make<Q, A>(&self, method: &'static str, asked: Q, is_once: bool) -> Result<(), Status>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        if is_once {
            let calls = Calls::new(&self.directory);
            return calls.call::<Q, A>(method, &asked).await.map(drop);
        }
        // The kubelet repeats a call whatever its answer is: a process that a killed driver has
        // started may not be done yet.
        let mut repeated = 0;
        loop {
            match self.finish::<Q, A>(method, &asked).await {
                Err(status) if repeated < REPEATED_MAX => {
                    assert_eq!(status.code(), Code::FailedPrecondition, "{method}: {status}");
                    repeated += 1;
                    tokio::time::sleep(REPEAT).await;
                }
                other => return other.map(drop),
            }
        }
    }

    async fn carry_out(&self, call: Call, claim: &Claim, is_once: bool) -> Result<(), Status> {
        let (staged, target) = (self.path(claim, "staged"), self.target(claim));
        let (volume_id, volume_capability) = (claim.name.clone(), Some(claim.capability()));
        match call {
            Call::Stage => {
                let asked = NodeStageVolumeRequest {
                    volume_id,
                    volume_capability,
                    staging_target_path: staged,
                    ..Default::default()
                };
                let method = "/csi.v1.Node/NodeStageVolume";
                self.make::<_, NodeStageVolumeResponse>(method, asked, is_once).await
            }
            Call::Publish => {
                let asked = NodePublishVolumeRequest {
                    volume_id,
                    volume_capability,
                    staging_target_path: staged,
                    target_path: target,
                    ..Default::default()
                };
                let method = "/csi.v1.Node/NodePublishVolume";
                self.make::<_, NodePublishVolumeResponse>(method, asked, is_once).await
            }
            Call::Unpublish => {
                let asked = NodeUnpublishVolumeRequest { volume_id, target_path: target };
                let method = "/csi.v1.Node/NodeUnpublishVolume";
                self.make::<_, NodeUnpublishVolumeResponse>(method, asked, is_once).await
            }
            Call::Unstage => {
                let asked = NodeUnstageVolumeRequest { volume_id, staging_target_path: staged };
                let method = "/csi.v1.Node/NodeUnstageVolume";
                self.make::<_, NodeUnstageVolumeResponse>(method, asked, is_once).await
            }
        }
    }

    /// Makes a call, once, on a connection of its own: one to an earlier driver would fail.
    pub(crate) async fn once(&self, call: Call, claim: &Claim) -> Result<(), Status> {
        self.carry_out(call, claim, true).await
    }

    /// Makes calls, each until its answer is final, which has to be a success.
    pub(crate) async fn all(&self, calls: &[Call], claim: &Claim) {
        for call in calls {
            let done = self.carry_out(*call, claim, false).await;
            done.unwrap_or_else(|status| panic!("{call:?} of {claim:?}: {status}"));
        }
    }
}
