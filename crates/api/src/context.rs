//! What all routes work on: the operator, and the threads beside the server's own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use daemon::Operator;

use crate::events::Events;
use crate::problem::Problem;
use crate::promises::PromiseHistory;

/// What the routes work on.
#[derive(Clone, Debug)]
pub struct Api {
    pub(crate) operator: Operator,
    pub(crate) closing: Closing,
    pub(crate) events: Events,
    promises: Arc<Mutex<PromiseHistory>>,
}

/// A JSON reply, or the reason why there is none.
pub(crate) type Answered<T> = Result<Json<T>, Problem>;

/// Tells live traces that the server is stopping.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closing(Arc<AtomicBool>);

impl Closing {
    pub(crate) fn close(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Api {
    /// The API of this daemon.
    pub fn new(operator: Operator) -> Self {
        Self {
            operator,
            closing: Closing::default(),
            events: Events::default(),
            promises: Arc::default(),
        }
    }

    /// What was kept of contracts.
    pub(crate) fn promises(&self) -> MutexGuard<'_, PromiseHistory> {
        // A sample that has panicked is complete for the volumes before it.
        self.promises.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does work that may wait for a disk or a file on a thread beside the server's own.
    pub(crate) async fn work<T: Send + 'static>(
        self,
        work: impl FnOnce(Operator) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let done = tokio::task::spawn_blocking(move || work(self.operator)).await;
        done.map_err(|_| daemon::ChangeError::Stopping.into())
    }
}
