//! Calls of the driver, as the parts of a cluster make them: with a deadline, and again until there
//! is an answer that is final.

use std::path::Path;
use std::time::Duration;

use spindle_csi::proto::volume_capability::access_mode::Mode;
use spindle_csi::proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use spindle_csi::proto::{CapacityRange, VolumeCapability};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// The attempts after which a call is given up: the driver would be stuck.
const ATTEMPTS_MAX: u32 = 5_000;
/// The time between two attempts. Sidecars wait longer, and double it.
const RETRY: Duration = Duration::from_millis(4);

/// A client of a driver's socket. It connects again when the driver was restarted.
#[derive(Clone, Debug)]
pub(crate) struct Calls(Channel);

impl Calls {
    pub(crate) fn new(directory: &Path) -> Self {
        let uri = format!("unix:{}", directory.join("csi.sock").display());
        Self(Endpoint::from_shared(uri).expect("a plain path").connect_lazy())
    }

    /// Calls once.
    pub(crate) async fn call<Q, A>(&self, method: &'static str, asked: &Q) -> Result<A, Status>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = Grpc::new(self.0.clone());
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = PathAndQuery::from_static(method);
        let codec = tonic_prost::ProstCodec::<Q, A>::default();
        Ok(grpc.unary(Request::new(asked.clone()), path, codec).await?.into_inner())
    }

    /// Calls as a sidecar does: each attempt has a deadline, and an answer that is not final is
    /// followed by another attempt.
    pub(crate) async fn finish<Q, A>(
        &self,
        method: &'static str,
        asked: &Q,
        deadline: Duration,
    ) -> Result<A, Status>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut last = Status::unknown("no attempt");
        // A deadline that is too short for a call would let no attempt end.
        let mut deadline = deadline;
        for _ in 0..ATTEMPTS_MAX {
            match tokio::time::timeout(deadline, self.call(method, asked)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(status)) if is_final(&status) => return Err(status),
                Ok(Err(status)) => last = status,
                Err(_) => {
                    last = Status::deadline_exceeded("the caller's");
                    deadline *= 2;
                }
            }
            tokio::time::sleep(RETRY).await;
        }
        panic!("{method} does not end: {last}");
    }
}

/// Whether a sidecar takes an answer as the end of an operation.
fn is_final(status: &Status) -> bool {
    let again = [
        Code::Aborted,
        Code::Cancelled,
        Code::DeadlineExceeded,
        Code::Internal,
        Code::Unavailable,
        Code::Unknown,
    ];
    !again.contains(&status.code())
}

/// What a claim asks for: a block device, or a file system of this kind.
pub(crate) fn capability(file_system: Option<&str>, mode: Mode) -> VolumeCapability {
    let access_type = match file_system {
        None => AccessType::Block(BlockVolume {}),
        Some(kind) => {
            AccessType::Mount(MountVolume { fs_type: kind.to_owned(), ..Default::default() })
        }
    };
    let access_mode = Some(AccessMode { mode: mode.into() });
    VolumeCapability { access_mode, access_type: Some(access_type) }
}

/// At least this size.
pub(crate) fn at_least(bytes: i64) -> CapacityRange {
    CapacityRange { required_bytes: bytes, limit_bytes: 0 }
}
