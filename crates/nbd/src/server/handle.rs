//! The handle through which any thread sends replies and control messages to the event loops.
//!
//! Invariants:
//! - a loop is woken at most once per sleep, and never while it is awake: a wake-up is a system
//!   call, and a loop that is awake reads its inbox in every iteration;
//! - a control message goes from the first loop to the last, and the last one answers it: then all
//!   loops have seen it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use mio::Waker;

use crate::proto::export::ExportId;
use crate::proto::request::{BlockStatusReply, ClientRequestId, ConnectionId, Reply};
use crate::proto::transport::Connections;
use crate::server::connection::Stream;
use crate::server::loop_id::LoopId;
use crate::server::queue_client::QueueClient;

/// A control message to the loops, with the channel for its answer.
#[derive(Debug)]
pub(crate) enum ControlMessage {
    /// Wakes the loop, nothing else.
    Wake,
    /// Writes to parts of sectors of this export follow: report the writing requests in flight.
    TrackChanges(ExportId),
    /// Counts the connections of each export; `so_far` has those of the loops before.
    Connections {
        so_far: BTreeMap<ExportId, Connections>,
        answer: mpsc::SyncSender<BTreeMap<ExportId, Connections>>,
    },
    /// A queue client to be served, on the loop with the fewest clients.
    Attach(Box<dyn QueueClient>),
    /// No further request is taken from a queue client; it is dropped when all are answered.
    Detach(ConnectionId),
    /// Withdraws an export. With `force`, its clients are disconnected.
    Withdraw { export: ExportId, force: bool, answer: mpsc::SyncSender<Result<(), InUse>> },
}

/// An export that clients have open. They have to disconnect first, or use force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// How many connections there are.
    pub connections: usize,
}

/// The server has stopped and answers no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerStopped;

#[derive(Debug, Default)]
struct Inbox {
    replies: Vec<Reply>,
    block_statuses: Vec<BlockStatusReply>,
    control: Vec<ControlMessage>,
    /// Clients that the first loop has accepted for this loop.
    streams: Vec<Stream>,
    queue_clients: Vec<Box<dyn QueueClient>>,
    ended: bool,
    stopping: bool,
    /// Set by the loop before it sleeps; cleared by the thread that wakes it.
    asleep: bool,
}

/// The contents of an inbox, taken at once.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) replies: Vec<Reply>,
    pub(crate) block_statuses: Vec<BlockStatusReply>,
    pub(crate) control: Vec<ControlMessage>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) queue_clients: Vec<Box<dyn QueueClient>>,
}

/// The inbox and the waker of one loop.
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
    /// A handle of the loops with these wakers, at least one.
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

    /// Answers many requests with one wake-up per loop. Leaves the vector empty, for reuse.
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

    /// Answers one block status request.
    pub fn reply_block_status(&self, told: BlockStatusReply) {
        let Some(member) = self.member_of(told.id) else { return };
        let mut inbox = member.inbox();
        inbox.block_statuses.push(told);
        member.wake(inbox);
    }

    /// Asks the server to stop: it accepts no client, reads no further request, sends the replies
    /// to those it has, closes, and its `run` returns. Idempotent.
    pub fn stop(&self) {
        for member in &*self.members {
            let mut inbox = member.inbox();
            inbox.stopping = true;
            member.wake(inbox);
        }
    }

    /// The number of connections of each export; exports without one are absent.
    ///
    /// # Errors
    /// The server has stopped.
    pub fn connections(&self) -> Result<BTreeMap<ExportId, Connections>, ServerStopped> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send_control(
            LoopId::FIRST,
            ControlMessage::Connections { so_far: BTreeMap::new(), answer },
        );
        answered.recv().map_err(|_| ServerStopped)
    }

    /// Withdraws an export. Its connections are read no further, get their outstanding replies, and
    /// are closed. When this returns, no further request for the export reaches the handler; some
    /// may still be at the disks. Without `force`, fails if a connection has it open.
    ///
    /// # Errors
    /// The server has stopped; or, in the inner result, a connection has the export open and
    /// `force` is false. Nothing has changed then.
    pub fn withdraw(
        &self,
        export: ExportId,
        force: bool,
    ) -> Result<Result<(), InUse>, ServerStopped> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send_control(LoopId::FIRST, ControlMessage::Withdraw { export, force, answer });
        answered.recv().map_err(|_| ServerStopped)
    }

    /// Serves a queue client: [`QueueClient::attached`] or [`QueueClient::refused`] is called from
    /// a thread of the server. A server that has stopped drops the client.
    pub fn attach(&self, client: Box<dyn QueueClient>) {
        self.send_control(LoopId::FIRST, ControlMessage::Attach(client));
    }

    /// Takes no further request from a queue client, and drops it when all are answered.
    pub fn detach(&self, connection: ConnectionId) {
        self.send_control(LoopId::of(connection), ControlMessage::Detach(connection));
    }

    /// Sends a control message to a loop.
    pub(crate) fn send_control(&self, loop_id: LoopId, question: ControlMessage) {
        let Some(member) = self.members.get(loop_id.index()) else { return };
        let mut inbox = member.inbox();
        if inbox.ended {
            // The message is dropped, and with it the channel for the answer; without the lock,
            // because a queue client that is dropped may call the handle.
            drop(inbox);
            return;
        }
        inbox.control.push(question);
        member.wake(inbox);
    }

    /// Passes a client to a loop. Returns it if the loop has ended.
    pub(crate) fn send_stream(&self, loop_id: LoopId, stream: Stream) -> Result<(), Stream> {
        let member = &self.members[loop_id.index()];
        let mut inbox = member.inbox();
        if inbox.ended {
            return Err(stream);
        }
        inbox.streams.push(stream);
        member.wake(inbox);
        Ok(())
    }

    /// Passes a queue client to a loop. Returns it if the loop has ended.
    pub(crate) fn send_queue_client(
        &self,
        loop_id: LoopId,
        client: Box<dyn QueueClient>,
    ) -> Result<(), Box<dyn QueueClient>> {
        let member = &self.members[loop_id.index()];
        let mut inbox = member.inbox();
        if inbox.ended {
            return Err(client);
        }
        inbox.queue_clients.push(client);
        member.wake(inbox);
        Ok(())
    }

    /// The loop has ended and accepts no more messages. Returns the number of clients that were
    /// passed to it and that it has not taken.
    pub(crate) fn mark_ended(&self, loop_id: LoopId) -> usize {
        let mut inbox = self.members[loop_id.index()].inbox();
        inbox.ended = true;
        let dropped = (
            core::mem::take(&mut inbox.control),
            core::mem::take(&mut inbox.streams),
            core::mem::take(&mut inbox.queue_clients),
        );
        drop(inbox);
        // A queue client that is dropped may call the handle.
        let (_, streams, clients) = &dropped;
        streams.len() + clients.len()
    }

    /// Takes the contents of the loop's inbox, adding to `taken`. Returns whether the loop is to
    /// stop.
    pub(crate) fn drain_inbox(&self, loop_id: LoopId, taken: &mut Received) -> bool {
        let mut inbox = self.members[loop_id.index()].inbox();
        if taken.replies.is_empty() {
            core::mem::swap(&mut inbox.replies, &mut taken.replies);
        } else {
            taken.replies.append(&mut inbox.replies);
        }
        taken.block_statuses.append(&mut inbox.block_statuses);
        taken.control.append(&mut inbox.control);
        taken.streams.append(&mut inbox.streams);
        taken.queue_clients.append(&mut inbox.queue_clients);
        inbox.stopping
    }

    /// The loop is about to sleep. Returns false if its inbox is not empty.
    pub(crate) fn may_sleep(&self, loop_id: LoopId, knows_of_stop: bool) -> bool {
        let mut inbox = self.members[loop_id.index()].inbox();
        let empty = inbox.replies.is_empty()
            && inbox.block_statuses.is_empty()
            && inbox.control.is_empty()
            && inbox.streams.is_empty()
            && inbox.queue_clients.is_empty();
        inbox.asleep = empty && (knows_of_stop || !inbox.stopping);
        inbox.asleep
    }

    /// The loop is awake.
    pub(crate) fn mark_awake(&self, loop_id: LoopId) {
        self.members[loop_id.index()].inbox().asleep = false;
    }

    /// The number of loops.
    pub(crate) fn members(&self) -> usize {
        self.members.len()
    }

    /// The loop that a request came through; `None` for a number that was never assigned.
    fn member_of(&self, id: ClientRequestId) -> Option<&Member> {
        self.members.get(LoopId::of(id.connection).index())
    }
}

impl Member {
    fn wake(&self, mut inbox: MutexGuard<'_, Inbox>) {
        let asleep = core::mem::replace(&mut inbox.asleep, false);
        drop(inbox);
        if asleep {
            // Fails only when the server has stopped; then no thread waits.
            let _ = self.waker.wake();
        }
    }

    /// A poisoned lock is used on: the inbox is whole between statements.
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds to a waker's error what failed.
pub(crate) fn waker_failed(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot make the server's waker: {error}"))
}
