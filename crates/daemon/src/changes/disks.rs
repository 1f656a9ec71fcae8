//! Changes of single disks: their accounting period, and opening them again.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};

use backend::ReopenRequest;

use super::error::ChangeError;
use super::operator::Operator;
use crate::disk::message::{Change, Message};
use crate::disk::open::reopening;

/// How long a reopening waits for the commands in flight. The disk is reopened when they complete,
/// even if that is later.
pub(super) const REOPEN_MAX: std::time::Duration = std::time::Duration::from_secs(10);

impl Operator {
    /// Changes the period over which a disk keeps its reserves.
    ///
    /// # Errors
    /// See [`ChangeError`]; nothing has changed then.
    pub fn set_period(&self, disk: &str, period: &str) -> Result<(), ChangeError> {
        let _lock = self.lock();
        let before = self.document();
        let after = before.set_period(disk, period).map_err(|error| match error.field() {
            Some("disk") => ChangeError::Missing(error),
            _ => ChangeError::Config(error),
        })?;
        self.persist(&before, &after)?;
        let disks = after.plan().disks.iter().zip(&self.state.inboxes);
        for (disk, inbox) in disks.filter(|(there, _)| there.name == disk) {
            let change = Change::SetPeriod { period: disk.period, batch: disk.batch };
            inbox.change(change).expect("a period changes without the disk");
        }
        Ok(())
    }

    /// Reopens a disk that is poisoned or gone: its volumes can be written again. Data written
    /// before may be lost. Requests wait meanwhile. A real disk uses threads from then on, and
    /// io_uring again after the next restart. One that the pool has taken out is taken back, and
    /// gets what it missed.
    ///
    /// # Errors
    /// [`ChangeError::Refused`]: there is no such disk, it is healthy, it belongs to the pool and
    /// is in it, it cannot be opened, or its commands do not complete.
    ///
    /// # Panics
    /// If the disk's thread has panicked.
    pub fn reopen(&self, disk: &str) -> Result<(), ChangeError> {
        let _lock = self.lock();
        let document = self.document();
        let refused = |why: &str| ChangeError::Refused(format!("disk \"{disk}\" {why}"));
        let index = self.state.disk(disk).ok_or_else(|| refused("is not there"))?;
        let plan = document.plan();
        if plan.pool.as_ref().is_some_and(|pool| pool.disks.contains(&index)) {
            return self.reopen_pool_disk(index);
        }
        let (to, from) = sync_channel(1);
        // The receiver may have stopped waiting.
        let done = move |result| drop(to.try_send(result));
        let reopen = Message::Reopen(ReopenRequest::new(
            reopening(&document, index, &self.state.buses),
            done,
        ));
        self.state.inbox(index).send(&mut vec![reopen]);
        match from.recv_timeout(REOPEN_MAX) {
            Ok(result) => result.map_err(|reason| refused(&reason)),
            Err(RecvTimeoutError::Timeout) => {
                Err(refused("has commands that do not end; it is opened again when they do"))
            }
            Err(RecvTimeoutError::Disconnected) => Err(ChangeError::Stopping),
        }
    }
}
