//! Calls that wait for a daemon, a disk or a tool, on threads beside the server's own, and one at a
//! time for each volume.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tonic::{Response, Status};

/// The volumes about which a call runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct InProgress(Arc<Mutex<BTreeSet<String>>>);

/// Keeps other calls about a volume out, until it is dropped.
#[derive(Debug)]
struct Exclusion {
    all: InProgress,
    volume: String,
}

impl InProgress {
    fn volumes(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, volume: &str) -> Result<Exclusion, Status> {
        if !self.volumes().insert(volume.to_owned()) {
            let message = format!("another call about volume \"{volume}\" runs: expected none");
            return Err(Status::aborted(message));
        }
        Ok(Exclusion { all: self.clone(), volume: volume.to_owned() })
    }

    /// Runs a call about a volume, unless another one runs.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        volume: &str,
        call: impl FnOnce() -> Result<T, Status> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let exclusion = self.enter(volume)?;
        let done = tokio::task::spawn_blocking(move || {
            let answer = call();
            drop(exclusion);
            answer
        });
        let stopping = |_| Status::unavailable("the driver is stopping");
        done.await.map_err(stopping)?.map(Response::new)
    }
}

impl Drop for Exclusion {
    fn drop(&mut self) {
        self.all.volumes().remove(&self.volume);
    }
}

/// Runs a call that is about no single volume.
pub(crate) async fn run<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<Response<T>, Status> {
    let stopping = |_| Status::unavailable("the driver is stopping");
    tokio::task::spawn_blocking(call).await.map_err(stopping)?.map(Response::new)
}
