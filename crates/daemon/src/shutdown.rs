//! Stopping the daemon.

use std::io;
use std::sync::PoisonError;

use crate::observe::status::Status;
use crate::startup::daemon::Daemon;

impl Daemon {
    /// Stops: reads no further requests, answers those in progress, and returns the final
    /// statistics.
    ///
    /// # Errors
    /// The server's error, if it ended with one.
    ///
    /// # Panics
    /// If a thread has panicked.
    pub fn stop(self) -> io::Result<Status> {
        self.state.handle.stop();
        // Its last look is at the streams as they were.
        self.state.stop_stream_watch.stop();
        let watch = self.state.stream_watch.lock();
        let watch = watch.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(watch) = watch {
            watch.join().expect("the thread that watches the streams does not panic");
        }
        self.state.cancel_streams();
        let served = self.server.join().expect("the server's thread does not panic");
        // Their requests have ended with the server's threads.
        if let Some(vhost_user) = self.vhost_user {
            vhost_user.stop();
        }
        self.state.server_stopped();
        if let Some(pool) = &self.state.pool {
            pool.stop_maintenance();
            let thread = self.state.maintenance.lock();
            let thread = thread.unwrap_or_else(PoisonError::into_inner).take();
            if let Some(thread) = thread {
                thread.join().expect("the maintenance thread does not panic");
            }
            pool.quiesce();
        }
        self.state.stop_disks();
        let snapshots = self.disks.into_iter();
        let snapshots = snapshots.map(|disk| disk.join().expect("a disk's thread does not panic"));
        let status = self.state.assemble(snapshots.collect());
        if let Some(recorder) = self.recorder {
            recorder.finish();
        }
        served.map(|()| status)
    }
}
