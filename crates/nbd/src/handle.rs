//! The way back into the server's loops, from any thread.
//!
//! Invariants:
//! - a loop is woken at most once per sleep, and never while it is awake: a wake-up is a system call, and at full load the
//!   loop comes by anyway;
//! - a question goes from the first loop to the last, and the last one answers it: then all have seen it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use mio::Waker;

use crate::connection::Stream;
use crate::crew::Place;
use crate::export::ExportId;
use crate::request::{ClientRequestId, Reply, Told};

/// What is asked of the loops, and where the answer goes.
#[derive(Debug)]
pub(crate) enum Question {
    /// Is there something to do?
    Look,
    /// Parts of sectors of this export are written from now on: what is under way?
    Watched(ExportId),
    /// How many connections has each export? So many with the loops that were asked before.
    Connections {
        so_far: BTreeMap<ExportId, usize>,
        answer: mpsc::SyncSender<BTreeMap<ExportId, usize>>,
    },
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
    /// Clients that the first loop has accepted for this one.
    streams: Vec<Stream>,
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
    pub(crate) streams: Vec<Stream>,
}

/// One loop, as others reach it.
#[derive(Debug)]
struct Member {
    inbox: Mutex<Inbox>,
    waker: Waker,
}

/// Sends replies to the server, and stops it. Clones are handles of the same server.
#[derive(Clone, Debug)]
pub struct Handle {
    members: Arc<Vec<Member>>,
}

impl Handle {
    /// Of loops that are woken by these, at least one.
    pub(crate) fn new(wakers: Vec<Waker>) -> Self {
        let member = |waker| Member { inbox: Mutex::default(), waker };
        Self { members: Arc::new(wakers.into_iter().map(member).collect()) }
    }

    /// Answers one request.
    pub fn reply(&self, reply: Reply) {
        let Some(member) = self.member_of(reply.id) else { return };
        let mut inbox = member.inbox();
        inbox.replies.push(reply);
        member.wake(inbox);
    }

    /// Answers many requests at once, for the price of one; leaves the vector empty, to be filled again.
    pub fn reply_many(&self, replies: &mut Vec<Reply>) {
        if let [member] = &self.members[..] {
            if !replies.is_empty() {
                let mut inbox = member.inbox();
                inbox.replies.append(replies);
                member.wake(inbox);
            }
            return;
        }
        while let Some(place) = replies.last().map(|reply| Place::of(reply.id.connection)) {
            let its = replies.extract_if(.., |reply| Place::of(reply.id.connection) == place);
            let Some(member) = self.members.get(place.index()) else {
                its.for_each(drop);
                continue;
            };
            let mut inbox = member.inbox();
            inbox.replies.extend(its);
            member.wake(inbox);
        }
    }

    /// Answers one question about sectors.
    pub fn tell(&self, told: Told) {
        let Some(member) = self.member_of(told.id) else { return };
        let mut inbox = member.inbox();
        inbox.told.push(told);
        member.wake(inbox);
    }

    /// Asks the server to stop: it accepts nobody, reads no further request, sends the answers of those it
    /// has, closes, and its `run` returns. Asking twice is as good as once.
    pub fn stop(&self) {
        for member in &*self.members {
            let mut inbox = member.inbox();
            inbox.stopping = true;
            member.wake(inbox);
        }
    }

    /// How many connections have opened each export; an export without one is not in it.
    ///
    /// # Errors
    /// The server has ended.
    pub fn connections(&self) -> Result<BTreeMap<ExportId, usize>, ServerGone> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.pass(Place::FIRST, Question::Connections { so_far: BTreeMap::new(), answer });
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
        self.pass(Place::FIRST, Question::Withdraw { export, force, answer });
        answered.recv().map_err(|_| ServerGone)
    }

    /// Hands a question to a loop.
    pub(crate) fn pass(&self, place: Place, question: Question) {
        let Some(member) = self.members.get(place.index()) else { return };
        let mut inbox = member.inbox();
        // Who asks a server that has ended sees its question dropped.
        if !inbox.ended {
            inbox.questions.push(question);
        }
        member.wake(inbox);
    }

    /// Hands a client to a loop; gives it back if that one has ended.
    pub(crate) fn hand(&self, place: Place, stream: Stream) -> Result<(), Stream> {
        let member = &self.members[place.index()];
        let mut inbox = member.inbox();
        if inbox.ended {
            return Err(stream);
        }
        inbox.streams.push(stream);
        member.wake(inbox);
        Ok(())
    }

    /// A loop answers nobody from now on.
    pub(crate) fn end(&self, place: Place) {
        let mut inbox = self.members[place.index()].inbox();
        inbox.ended = true;
        inbox.questions.clear();
        inbox.streams.clear();
    }

    /// Takes everything out that is for this loop, adding to what is there; says whether it is to stop.
    pub(crate) fn take(&self, place: Place, taken: &mut Taken) -> bool {
        let mut inbox = self.members[place.index()].inbox();
        if taken.replies.is_empty() {
            core::mem::swap(&mut inbox.replies, &mut taken.replies);
        } else {
            taken.replies.append(&mut inbox.replies);
        }
        taken.told.append(&mut inbox.told);
        taken.questions.append(&mut inbox.questions);
        taken.streams.append(&mut inbox.streams);
        inbox.stopping
    }

    /// The loop is about to sleep: true if it may, false if there is something in its inbox already.
    pub(crate) fn may_sleep(&self, place: Place, knows_of_stop: bool) -> bool {
        let mut inbox = self.members[place.index()].inbox();
        let empty = inbox.replies.is_empty()
            && inbox.told.is_empty()
            && inbox.questions.is_empty()
            && inbox.streams.is_empty();
        inbox.asleep = empty && (knows_of_stop || !inbox.stopping);
        inbox.asleep
    }

    /// The loop is awake.
    pub(crate) fn awake(&self, place: Place) {
        self.members[place.index()].inbox().asleep = false;
    }

    /// How many loops there are.
    pub(crate) fn members(&self) -> usize {
        self.members.len()
    }

    /// The loop that a request came through; `None` for a number that was never given.
    fn member_of(&self, id: ClientRequestId) -> Option<&Member> {
        self.members.get(Place::of(id.connection).index())
    }
}

impl Member {
    fn wake(&self, mut inbox: MutexGuard<'_, Inbox>) {
        let asleep = core::mem::replace(&mut inbox.asleep, false);
        drop(inbox);
        if asleep {
            // Fails only when the server is gone, and then nobody waits.
            let _ = self.waker.wake();
        }
    }

    /// Nobody panics while holding the lock; should it happen, the inbox is still whole.
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Replaces a waker's error with words.
pub(crate) fn waker_failed(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot make the server's waker: {error}"))
}
