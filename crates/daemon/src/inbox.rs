//! What waits for a disk's thread.
//!
//! Bounded by what the frontend lets in: every message but the few of the daemon itself is a request that a
//! connection's and the server's own limits have counted.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use engine::VolumeId;
use frontend::RequestId;
use units::{Duration, Operation};

use crate::status::DiskView;

/// A client's request, with its extent already one of the disk's.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) id: RequestId,
    pub(crate) volume: VolumeId,
    pub(crate) operation: Operation,
    pub(crate) data: Vec<u8>,
}

#[derive(Debug)]
pub(crate) enum Message {
    Request(Incoming),
    /// Tell how things stand.
    Look(mpsc::SyncSender<DiskView>),
    /// End when everything is answered.
    Stop,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    messages: Mutex<Vec<Message>>,
    arrived: Condvar,
}

impl Inbox {
    fn messages(&self) -> MutexGuard<'_, Vec<Message>> {
        // Nobody panics while holding the lock; should it happen, the messages are still whole.
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts messages in, in their order, and wakes the disk's thread. Leaves the vector empty.
    pub(crate) fn put(&self, messages: &mut Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        self.messages().append(messages);
        self.arrived.notify_one();
    }

    /// Waits until there are messages, or for at most so long; then takes all there are.
    pub(crate) fn wait(&self, at_most: Duration, into: &mut Vec<Message>) {
        let at_most = std::time::Duration::from_nanos(at_most.as_nanos());
        let messages = self.messages();
        let empty = |messages: &mut Vec<Message>| messages.is_empty();
        let (mut messages, _) = self
            .arrived
            .wait_timeout_while(messages, at_most, empty)
            .unwrap_or_else(PoisonError::into_inner);
        core::mem::swap(&mut *messages, into);
    }
}
