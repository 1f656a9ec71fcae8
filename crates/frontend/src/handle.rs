//! The way back into the server's loop, from any thread.
//!
//! Invariant: the loop is woken at most once per sleep, and never while it is awake: a wake-up is a system
//! call, and at full load the loop comes by anyway.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mio::Waker;

use crate::request::Reply;

#[derive(Debug, Default)]
struct Inbox {
    replies: Vec<Reply>,
    stopping: bool,
    /// Set by the loop before it sleeps; cleared by whoever wakes it.
    asleep: bool,
}

#[derive(Debug)]
struct Shared {
    inbox: Mutex<Inbox>,
    waker: Waker,
}

/// Sends replies to the server, and stops it. Clones are handles of the same server.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { shared: Arc::new(Shared { inbox: Mutex::default(), waker }) }
    }

    /// Answers one request.
    pub fn reply(&self, reply: Reply) {
        let mut inbox = self.inbox();
        inbox.replies.push(reply);
        self.wake(inbox);
    }

    /// Answers many requests at once, for the price of one; leaves the vector empty, to be filled again.
    pub fn reply_many(&self, replies: &mut Vec<Reply>) {
        if replies.is_empty() {
            return;
        }
        let mut inbox = self.inbox();
        inbox.replies.append(replies);
        self.wake(inbox);
    }

    /// Asks the server to stop: it accepts nobody, reads no further request, sends the answers of those it
    /// has, closes, and its `run` returns. Asking twice is as good as once.
    pub fn stop(&self) {
        let mut inbox = self.inbox();
        inbox.stopping = true;
        self.wake(inbox);
    }

    fn wake(&self, mut inbox: MutexGuard<'_, Inbox>) {
        let asleep = core::mem::replace(&mut inbox.asleep, false);
        drop(inbox);
        if asleep {
            // Fails only when the server is gone, and then nobody waits.
            let _ = self.shared.waker.wake();
        }
    }

    /// Nobody panics while holding the lock; should it happen, the inbox is still whole.
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.shared.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Swaps the replies out; says whether the server is to stop.
    pub(crate) fn take(&self, replies: &mut Vec<Reply>) -> bool {
        let mut inbox = self.inbox();
        if replies.is_empty() {
            core::mem::swap(&mut inbox.replies, replies);
        } else {
            replies.append(&mut inbox.replies);
        }
        inbox.stopping
    }

    /// The loop is about to sleep: true if it may, false if there is something in the inbox already.
    pub(crate) fn may_sleep(&self, knows_of_stop: bool) -> bool {
        let mut inbox = self.inbox();
        inbox.asleep = inbox.replies.is_empty() && (knows_of_stop || !inbox.stopping);
        inbox.asleep
    }

    /// The loop is awake.
    pub(crate) fn awake(&self) {
        self.inbox().asleep = false;
    }
}

/// Replaces a waker's error with words.
pub(crate) fn waker_failed(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot make the server's waker: {error}"))
}
