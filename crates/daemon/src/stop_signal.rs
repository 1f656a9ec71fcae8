//! Tells a thread that does something at intervals to end.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Whether a thread is to end.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    stopped: Mutex<bool>,
    /// Notified when the thread is to end.
    changed: Condvar,
}

impl StopSignal {
    /// Waits for `interval`, or until the thread is to end; returns whether it is.
    pub(crate) fn wait(&self, interval: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stopped, interval, |stopped| !*stopped);
        let (stopped, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *stopped
    }

    /// Whether the thread is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the thread to end.
    pub(crate) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}
