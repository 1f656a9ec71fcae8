//! The daemon of this node, over its API, with its refusals as the statuses of calls.

use std::path::Path;
use std::time::{Duration, Instant};

use api::{
    Admission, AdmissionAnswer, Answer, Client, ClientError, DisksAnswer, NamedSpec, Problem,
    Volume, VolumeAnswer, VolumeChange, VolumeSpec, VolumesAnswer,
};
use serde::de::DeserializeOwned;
use tonic::{Code, Status};

/// The longest time for which the end of a connection is awaited.
const CLOSED_MAX: Duration = Duration::from_secs(5);
/// The interval in which it is looked for.
const CLOSED_PAUSE: Duration = Duration::from_millis(5);

/// The daemon of this node.
#[derive(Clone, Debug)]
pub(crate) struct Daemon(Client);

/// The status of a call that the daemon refuses. What does not fit is `refused` there, which means
/// something else in each call.
fn status(answer: &Answer, refused: Code) -> Status {
    let problem: Result<Problem, _> = serde_json::from_value(answer.body.clone());
    let Ok(Problem { error, .. }) = problem else {
        return Status::unavailable(format!("the daemon answers with {}", answer.status));
    };
    let code = match error.code.as_str() {
        "invalid" => Code::InvalidArgument,
        "refused" => refused,
        "missing" => Code::NotFound,
        "exists" => Code::AlreadyExists,
        "in_use" => Code::FailedPrecondition,
        "edited" => Code::Aborted,
        _ => Code::Unavailable,
    };
    Status::new(code, error.message.clone())
}

fn parsed<T: DeserializeOwned>(answer: Answer) -> Result<T, Status> {
    let shape = |error| Status::internal(format!("the daemon's answer: {error}"));
    serde_json::from_value(answer.body).map_err(shape)
}

/// The answer, if it is a success.
fn accepted(answer: Result<Answer, ClientError>, refused: Code) -> Result<Answer, Status> {
    let answer = answer.map_err(|error| Status::unavailable(error.to_string()))?;
    if (200..300).contains(&answer.status) { Ok(answer) } else { Err(status(&answer, refused)) }
}

/// `None` for what is not there.
fn found<T>(answer: Result<T, Status>) -> Result<Option<T>, Status> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(status) if status.code() == Code::NotFound => Ok(None),
        Err(status) => Err(status),
    }
}

impl Daemon {
    pub(crate) fn new(socket: &Path) -> Self {
        Self(Client::new(socket))
    }

    /// All volumes and snapshots of the pool.
    pub(crate) fn all(&self) -> Result<Vec<Volume>, Status> {
        let answer = accepted(self.0.get("volumes", None), Code::Unavailable)?;
        let all = parsed::<VolumesAnswer>(answer)?.volumes;
        Ok(all.into_iter().filter(|volume| volume.pool.is_some()).collect())
    }

    /// Whether every disk of the daemon is healthy, by name.
    pub(crate) fn disks(&self) -> Result<Vec<(String, api::DiskHealth)>, Status> {
        let answer = accepted(self.0.get("disks", None), Code::Unavailable)?;
        let all = parsed::<DisksAnswer>(answer)?.disks;
        Ok(all.into_iter().map(|disk| (disk.name.clone(), disk.health())).collect())
    }

    /// A volume or snapshot of the pool.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Volume>, Status> {
        let answer = found(accepted(self.0.get("volumes", Some(name)), Code::Unavailable))?;
        let volume = answer.map(parsed::<VolumeAnswer>).transpose()?.map(|answer| answer.volume);
        Ok(volume.filter(|volume| volume.pool.is_some()))
    }

    /// A volume of the pool that is no snapshot.
    ///
    /// # Errors
    /// `NOT_FOUND`, or the daemon does not answer.
    pub(crate) fn volume(&self, name: &str) -> Result<Volume, Status> {
        if name.is_empty() {
            return Err(Status::invalid_argument("expected volume_id"));
        }
        let found = self.find(name)?.filter(|volume| snapshot_of(volume).is_none());
        found.ok_or_else(|| Status::not_found(format!("there is no volume \"{name}\"")))
    }

    /// Creates a volume; one that is equal is as good.
    pub(crate) fn create(&self, spec: &VolumeSpec) -> Result<Volume, Status> {
        let answer = accepted(self.0.post("pool/volumes", spec), Code::ResourceExhausted)?;
        Ok(parsed::<VolumeAnswer>(answer)?.volume)
    }

    /// Changes a volume; `refused` is the code of what does not fit.
    pub(crate) fn set(
        &self,
        name: &str,
        change: &VolumeChange,
        refused: Code,
    ) -> Result<Volume, Status> {
        let answer = accepted(self.0.patch("volumes", name, change), refused)?;
        Ok(parsed::<VolumeAnswer>(answer)?.volume)
    }

    /// The device that the daemon serves a volume as, by ublk.
    pub(crate) fn block_device(&self, name: &str) -> Result<Option<String>, Status> {
        Ok(self.find(name)?.and_then(|volume| volume.block_device).map(|device| device.path))
    }

    /// Serves a volume as a device, or serves it so no longer.
    pub(crate) fn serve_block_device(&self, name: &str, is_served: bool) -> Result<(), Status> {
        let change = VolumeChange { ublk: Some(is_served), ..VolumeChange::default() };
        self.set(name, &change, Code::FailedPrecondition).map(drop)
    }

    /// Waits until a volume that was detached has no connections, for [`CLOSED_MAX`] at most: a
    /// device's connection ends after its detachment, and a volume with connections is not removed.
    #[expect(clippy::disallowed_methods, reason = "the API has no event for a connection's end")]
    pub(crate) fn await_closed(&self, name: &str) {
        let begun = Instant::now();
        while begun.elapsed() < CLOSED_MAX {
            match self.find(name) {
                Ok(Some(volume)) if volume.connections > 0 => std::thread::sleep(CLOSED_PAUSE),
                // A daemon that does not answer has no connections.
                _ => return,
            }
        }
    }

    /// Removes a volume or snapshot; one that is not there is removed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Status> {
        let removed = self.0.delete("volumes", name, Some(false));
        found(accepted(removed, Code::FailedPrecondition)).map(drop)
    }

    /// Takes a snapshot.
    pub(crate) fn snapshot(&self, volume: &str, name: &str) -> Result<(), Status> {
        let spec = NamedSpec { name: name.to_owned() };
        accepted(self.0.have(volume, "snapshots", &spec), Code::ResourceExhausted).map(drop)
    }

    /// Whether a volume would fit, and what would.
    pub(crate) fn admission(&self, spec: &VolumeSpec) -> Result<Admission, Status> {
        let answer = accepted(self.0.post("pool/admission", spec), Code::Unavailable)?;
        Ok(parsed::<AdmissionAnswer>(answer)?.admission)
    }
}

/// The volume that this is a snapshot of, if it is one.
pub(crate) fn snapshot_of(volume: &Volume) -> Option<&str> {
    volume.pool.as_ref()?.snapshot_of.as_deref()
}
