//! The way back into the server's loop, from any thread.
//!
//! Invariant: the loop is woken at most once per sleep, and never while it is awake: a wake-up is a system
//! call, and at full load the loop comes by anyway.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use mio::Waker;

use crate::export::ExportId;
use crate::request::{Reply, Told};

/// What is asked of the loop, and where its answer goes.
#[derive(Debug)]
pub(crate) enum Question {
    /// How many connections has each export?
    Connections(mpsc::SyncSender<BTreeMap<ExportId, usize>>),
    /// Is this export given up? With `force`, its clients are sent away.
    Withdraw { export: ExportId, force: bool, answer: mpsc::SyncSender<Result<(), InUse>> },
}

/// An export that clients have open. Cure: have them disconnect, or use force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// How many connections there are.
    pub connections: usize,
}

/// The server has ended, and answers nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerGone;

#[derive(Debug, Default)]
struct Inbox {
    replies: Vec<Reply>,
    told: Vec<Told>,
    questions: Vec<Question>,
    ended: bool,
    stopping: bool,
    /// Set by the loop before it sleeps; cleared by whoever wakes it.
    asleep: bool,
}

/// What the loop takes out in one go.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) replies: Vec<Reply>,
    pub(crate) told: Vec<Told>,
    pub(crate) questions: Vec<Question>,
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

    /// Answers one question about sectors.
    pub fn tell(&self, told: Told) {
        let mut inbox = self.inbox();
        inbox.told.push(told);
        self.wake(inbox);
    }

    /// Asks the server to stop: it accepts nobody, reads no further request, sends the answers of those it
    /// has, closes, and its `run` returns. Asking twice is as good as once.
    pub fn stop(&self) {
        let mut inbox = self.inbox();
        inbox.stopping = true;
        self.wake(inbox);
    }

    /// How many connections have opened each export; an export without one is not in it.
    ///
    /// # Errors
    /// The server has ended.
    pub fn connections(&self) -> Result<BTreeMap<ExportId, usize>, ServerGone> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.ask(Question::Connections(answer));
        answered.recv().map_err(|_| ServerGone)
    }

    /// Gives an export up: whoever has it open is read no further, gets the answers that are due, and is
    /// disconnected. When this returns, no request for it reaches the sink any more; some may still be there. Without
    /// `force`, only if nobody has it open.
    ///
    /// # Errors
    /// The server has ended; or, within, somebody has it open and there was no `force`: nothing has changed.
    pub fn withdraw(&self, export: ExportId, force: bool) -> Result<Result<(), InUse>, ServerGone> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.ask(Question::Withdraw { export, force, answer });
        answered.recv().map_err(|_| ServerGone)
    }

    fn ask(&self, question: Question) {
        let mut inbox = self.inbox();
        // Who asks a server that has ended sees its question dropped.
        if !inbox.ended {
            inbox.questions.push(question);
        }
        self.wake(inbox);
    }

    /// Nobody will answer from now on.
    pub(crate) fn end(&self) {
        let mut inbox = self.inbox();
        inbox.ended = true;
        inbox.questions.clear();
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

    /// Takes everything out, adding to what is there; says whether the server is to stop.
    pub(crate) fn take(&self, taken: &mut Taken) -> bool {
        let mut inbox = self.inbox();
        if taken.replies.is_empty() {
            core::mem::swap(&mut inbox.replies, &mut taken.replies);
        } else {
            taken.replies.append(&mut inbox.replies);
        }
        taken.told.append(&mut inbox.told);
        taken.questions.append(&mut inbox.questions);
        inbox.stopping
    }

    /// The loop is about to sleep: true if it may, false if there is something in the inbox already.
    pub(crate) fn may_sleep(&self, knows_of_stop: bool) -> bool {
        let mut inbox = self.inbox();
        let empty = inbox.replies.is_empty() && inbox.told.is_empty() && inbox.questions.is_empty();
        inbox.asleep = empty && (knows_of_stop || !inbox.stopping);
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
