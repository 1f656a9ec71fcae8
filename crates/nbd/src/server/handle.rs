//! The way back into the server's loops, from any thread.
//!
//! Invariants:
//! - a loop is woken at most once per sleep, and never while it is awake: a wake-up is a system
//!   call, and at full load the loop comes by anyway;
//! - a question goes from the first loop to the last, and the last one answers it: then all have
//!   seen it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use mio::Waker;

use crate::proto::export::ExportId;
use crate::proto::request::{BlockStatusReply, ClientRequestId, Reply};
use crate::server::connection::Stream;
use crate::server::loop_id::LoopId;

/// What is asked of the loops, and where the answer goes.
#[derive(Debug)]
pub(crate) enum ControlMessage {
    /// Is there something to do?
    Wake,
    /// Parts of sectors of this export are written from now on: what is under way?
    TrackChanges(ExportId),
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
pub struct ServerStopped;

#[derive(Debug, Default)]
struct Inbox {
    replies: Vec<Reply>,
    block_statuses: Vec<BlockStatusReply>,
    control: Vec<ControlMessage>,
    /// Clients that the first loop has accepted for this one.
    streams: Vec<Stream>,
    ended: bool,
    stopping: bool,
    /// Set by the loop before it sleeps; cleared by whoever wakes it.
    asleep: bool,
}

/// What the loop takes out in one go.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) replies: Vec<Reply>,
    pub(crate) block_statuses: Vec<BlockStatusReply>,
    pub(crate) control: Vec<ControlMessage>,
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

    /// Answers many requests at once, for the price of one; leaves the vector empty, to be filled
    /// again.
    pub fn reply_many(&self, replies: &mut Vec<Reply>) {
        if let [member] = &self.members[..] {
            if !replies.is_empty() {
                let mut inbox = member.inbox();
                inbox.replies.append(replies);
                member.wake(inbox);
            }
            return;
        }
        while let Some(loop_id) = replies.last().map(|reply| LoopId::of(reply.id.connection)) {
            let its = replies.extract_if(.., |reply| LoopId::of(reply.id.connection) == loop_id);
            let Some(member) = self.members.get(loop_id.index()) else {
                its.for_each(drop);
                continue;
            };
            let mut inbox = member.inbox();
            inbox.replies.extend(its);
            member.wake(inbox);
        }
    }

    /// Answers one question about sectors.
    pub fn reply_block_status(&self, told: BlockStatusReply) {
        let Some(member) = self.member_of(told.id) else { return };
        let mut inbox = member.inbox();
        inbox.block_statuses.push(told);
        member.wake(inbox);
    }

    /// Asks the server to stop: it accepts nobody, reads no further request, sends the answers of
    /// those it has, closes, and its `run` returns. Asking twice is as good as once.
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
    pub fn connections(&self) -> Result<BTreeMap<ExportId, usize>, ServerStopped> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.pass(LoopId::FIRST, ControlMessage::Connections { so_far: BTreeMap::new(), answer });
        answered.recv().map_err(|_| ServerStopped)
    }

    /// Gives an export up: whoever has it open is read no further, gets the answers that are due,
    /// and is disconnected. When this returns, no request for it reaches the handler any more; some
    /// may still be there. Without `force`, only if nobody has it open.
    ///
    /// # Errors
    /// The server has ended; or, within, somebody has it open and there was no `force`: nothing has
    /// changed.
    pub fn withdraw(
        &self,
        export: ExportId,
        force: bool,
    ) -> Result<Result<(), InUse>, ServerStopped> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.pass(LoopId::FIRST, ControlMessage::Withdraw { export, force, answer });
        answered.recv().map_err(|_| ServerStopped)
    }

    /// Hands a question to a loop.
    pub(crate) fn pass(&self, loop_id: LoopId, question: ControlMessage) {
        let Some(member) = self.members.get(loop_id.index()) else { return };
        let mut inbox = member.inbox();
        // Who asks a server that has ended sees its question dropped.
        if !inbox.ended {
            inbox.control.push(question);
        }
        member.wake(inbox);
    }

    /// Hands a client to a loop; gives it back if that one has ended.
    pub(crate) fn hand(&self, loop_id: LoopId, stream: Stream) -> Result<(), Stream> {
        let member = &self.members[loop_id.index()];
        let mut inbox = member.inbox();
        if inbox.ended {
            return Err(stream);
        }
        inbox.streams.push(stream);
        member.wake(inbox);
        Ok(())
    }

    /// A loop answers nobody from now on.
    pub(crate) fn end(&self, loop_id: LoopId) {
        let mut inbox = self.members[loop_id.index()].inbox();
        inbox.ended = true;
        inbox.control.clear();
        inbox.streams.clear();
    }

    /// Takes everything out that is for this loop, adding to what is there; says whether it is to
    /// stop.
    pub(crate) fn take(&self, loop_id: LoopId, taken: &mut Received) -> bool {
        let mut inbox = self.members[loop_id.index()].inbox();
        if taken.replies.is_empty() {
            core::mem::swap(&mut inbox.replies, &mut taken.replies);
        } else {
            taken.replies.append(&mut inbox.replies);
        }
        taken.block_statuses.append(&mut inbox.block_statuses);
        taken.control.append(&mut inbox.control);
        taken.streams.append(&mut inbox.streams);
        inbox.stopping
    }

    /// The loop is about to sleep: true if it may, false if there is something in its inbox
    /// already.
    pub(crate) fn may_sleep(&self, loop_id: LoopId, knows_of_stop: bool) -> bool {
        let mut inbox = self.members[loop_id.index()].inbox();
        let empty = inbox.replies.is_empty()
            && inbox.block_statuses.is_empty()
            && inbox.control.is_empty()
            && inbox.streams.is_empty();
        inbox.asleep = empty && (knows_of_stop || !inbox.stopping);
        inbox.asleep
    }

    /// The loop is awake.
    pub(crate) fn awake(&self, loop_id: LoopId) {
        self.members[loop_id.index()].inbox().asleep = false;
    }

    /// How many loops there are.
    pub(crate) fn members(&self) -> usize {
        self.members.len()
    }

    /// The loop that a request came through; `None` for a number that was never given.
    fn member_of(&self, id: ClientRequestId) -> Option<&Member> {
        self.members.get(LoopId::of(id.connection).index())
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
