//! Opening a disk again that is only read any more, or gone, without a restart.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};

use backend::{OpenFn, ReopenRequest};
use config::Backing;

use crate::inbox::Message;
use crate::operator::{ChangeError, Operator};
use crate::service::open_backing;

/// How long the commands under way have to end. The disk is opened when they do, whether or not somebody still waits for it.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

impl Operator {
    /// Opens a disk again of which a flush failed or that is gone: its volumes are written again from then on. Whoever does this
    /// knows that something written before may be lost. What is asked meanwhile waits. A real disk has threads from then on,
    /// and a ring after the next restart.
    ///
    /// # Errors
    /// [`ChangeError::Refused`]: there is no such disk, nothing is wrong with it, it is one of the pool, it cannot be opened, or
    /// commands at it do not end.
    ///
    /// # Panics
    /// If the disk's thread has panicked.
    pub fn reopen(&self, disk: &str) -> Result<(), ChangeError> {
        let _one_at_a_time = self.one_at_a_time();
        let document = self.document();
        let place = self.live.disks.iter().position(|name| name == disk);
        let refused = |why: &str| ChangeError::Refused(format!("disk \"{disk}\" {why}"));
        let place = place.ok_or_else(|| refused("is not there"))?;
        let plan = document.plan();
        if plan.pool.as_ref().is_some_and(|pool| pool.disks.contains(&config::DiskIndex(place))) {
            return Err(refused("is one of the pool, which wants a restart"));
        }
        let opener: OpenFn = match &plan.disks[place].backing {
            Backing::Real(_) => {
                Box::new(move |old| {
                    // Its lock goes with it.
                    drop(old);
                    let plan = document.plan();
                    let Backing::Real(real) = &plan.disks[place].backing else {
                        unreachable!("it is one")
                    };
                    // Who waits at the sockets listens to the ring that was: threads ring nobody's bell.
                    let real =
                        config::RealDisk { io_method: config::IoMethod::Threads, ..real.clone() };
                    let opened = open_backing(plan, &plan.disks[place], &Backing::Real(real));
                    opened.map(|opened| opened.disk).map_err(|error| error.to_string())
                })
            }
            Backing::Ram | Backing::File(_) | Backing::Memory | Backing::Null => {
                Box::new(|mut old| {
                    old.reopen();
                    Ok(old)
                })
            }
        };
        let (to, from) = sync_channel(1);
        // Who asked may have gone.
        let told = move |result| drop(to.try_send(result));
        self.live.inboxes[place].put(&mut vec![Message::Reopen(ReopenRequest::new(opener, told))]);
        match from.recv_timeout(PATIENCE) {
            Ok(result) => result.map_err(|why| refused(&why)),
            Err(RecvTimeoutError::Timeout) => {
                Err(refused("has commands that do not end; it is opened again when they do"))
            }
            Err(RecvTimeoutError::Disconnected) => Err(ChangeError::Stopping),
        }
    }
}
