//! A node whose volumes are mounted: the kubelet's calls of the driver, and what is left of them.
//!
//! `SPINDLE_CSI_ATTACH` is how volumes become devices: `nbdfuse` unless given, `nbd` or `ublk`
//! where the kernel has those.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use spindle_csi::proto::volume_capability::access_mode::Mode;
use spindle_csi::proto::{
    CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, DeleteVolumeResponse,
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeStageVolumeRequest,
    NodeStageVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
    NodeUnstageVolumeRequest, NodeUnstageVolumeResponse, VolumeCapability,
};
use testkit::{Scratch, Server};
use tonic::{Code, Status};

use super::calls::{Calls, at_least, capability};
use super::{DriverProcess, cannot_mount, create_pool, serve};

/// The deadline of a call. The kubelet's is two minutes.
const DEADLINE: Duration = Duration::from_mins(2);

/// The time between two calls of the kubelet, which is longer and grows there.
const REPEAT: Duration = Duration::from_millis(20);
/// The repetitions after which a call is given up: what it waits for would never end.
const REPEATED_MAX: u32 = 500;

/// How volumes become devices.
pub(crate) fn attach() -> String {
    std::env::var("SPINDLE_CSI_ATTACH").unwrap_or_else(|_| "nbdfuse".to_owned())
}

/// A call of the kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Stage,
    Publish,
    Unpublish,
    Unstage,
}

/// A volume, and as what it is used.
#[derive(Clone, Debug)]
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

/// The node, with a daemon that serves.
pub(crate) struct Node {
    pub(crate) scratch: Scratch,
    pub(crate) server: Option<Server>,
    pub(crate) calls: Calls,
}

impl Node {
    /// A node, or nothing with a notice where volumes cannot be mounted.
    pub(crate) fn new(what: &str) -> Option<Self> {
        if let Some(why) = cannot_mount() {
            eprintln!("SKIPPED: {why}: {what} was NOT tried");
            return None;
        }
        let scratch = Scratch::new();
        create_pool(&scratch);
        let server = Some(serve(&scratch));
        let calls = Calls::new(scratch.path());
        Some(Self { scratch, server, calls })
    }

    pub(crate) fn driver(&self, options: &[String]) -> DriverProcess {
        DriverProcess::start_with(self.scratch.path(), ("node-1", &attach()), options)
    }

    fn path(&self, claim: &Claim, kind: &str) -> String {
        self.scratch.join(&format!("{kind}-{}", claim.name)).display().to_string()
    }

    /// Where the volume is visible to a pod.
    pub(crate) fn target(&self, claim: &Claim) -> String {
        self.path(claim, "target")
    }

    pub(crate) async fn create(&self, claim: &Claim, bytes: i64) {
        let asked = CreateVolumeRequest {
            name: claim.name.clone(),
            capacity_range: Some(at_least(bytes)),
            volume_capabilities: vec![claim.capability()],
            ..Default::default()
        };
        let method = "/csi.v1.Controller/CreateVolume";
        let answer: Result<CreateVolumeResponse, _> =
            self.calls.finish(method, &asked, DEADLINE).await;
        answer.expect("there is space");
    }

    pub(crate) async fn delete(&self, claim: &Claim) {
        let asked = DeleteVolumeRequest { volume_id: claim.name.clone(), ..Default::default() };
        let method = "/csi.v1.Controller/DeleteVolume";
        let answer: Result<DeleteVolumeResponse, _> =
            self.calls.finish(method, &asked, DEADLINE).await;
        answer.expect("it is not in use");
    }

    /// Makes a call, once or until its answer is final.
    async fn make<Q, A>(&self, method: &'static str, asked: Q, is_once: bool) -> Result<(), Status>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        if is_once {
            let calls = Calls::new(self.scratch.path());
            return calls.call::<Q, A>(method, &asked).await.map(drop);
        }
        // The kubelet repeats a call whatever its answer is: a process that a killed driver has
        // started may not be done yet.
        let mut repeated = 0;
        loop {
            match self.calls.finish::<Q, A>(method, &asked, DEADLINE).await {
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

    /// The device of a volume that is published as one.
    pub(crate) fn device(&self, claim: &Claim) -> String {
        let number = std::fs::metadata(self.target(claim)).expect("it is published").rdev();
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"));
        let name = link.expect("a device").file_name().expect("its name").to_owned();
        Path::new("/dev").join(name).display().to_string()
    }

    fn mounts(&self) -> Vec<String> {
        let all = std::fs::read_to_string("/proc/self/mountinfo").expect("proc is mounted");
        let here = self.scratch.path().display().to_string();
        let points = all.lines().filter_map(|line| line.split(' ').nth(4));
        points.filter(|point| point.starts_with(&here)).map(str::to_owned).collect()
    }

    fn loops(&self) -> Vec<String> {
        let shown = Command::new("losetup").args(["-n", "-O", "NAME,BACK-FILE"]).output();
        // Without `losetup` there are none of the driver's.
        let shown = shown.map(|shown| String::from_utf8_lossy(&shown.stdout).into_owned());
        let here = self.scratch.path().display().to_string();
        let shown = shown.unwrap_or_default();
        let of =
            |line: &str| line.contains(&here).then(|| line.split(' ').next().map(str::to_owned));
        shown.lines().filter_map(of).flatten().collect()
    }

    /// Nothing is mounted, attached or connected any more.
    pub(crate) fn check_nothing_left(&self) {
        assert_eq!(self.mounts(), [""; 0], "mounts");
        assert_eq!(self.loops(), [""; 0], "loop devices");
        let open = super::volumes(&self.scratch).into_iter().filter(|one| one.connections > 0);
        assert_eq!(open.map(|one| one.name).collect::<Vec<_>>(), [""; 0], "connections");
    }
}

impl Drop for Node {
    /// A test that fails leaves no mounts and devices.
    fn drop(&mut self) {
        let run = |tool: &str, arguments: &[&str]| {
            // What is gone already needs nothing.
            let _ = Command::new(tool).args(arguments).output();
        };
        self.mounts().iter().rev().filter(|at| !at.contains("/fuse/")).for_each(|at| {
            run("umount", &["-l", at]);
        });
        self.loops().iter().for_each(|device| run("losetup", &["-d", device]));
        self.mounts().iter().rev().for_each(|at| run("umount", &["-l", at]));
    }
}
