//! What waits for a disk's thread.
//!
//! Bounded by what the frontend lets in: every message but the few of the daemon itself is a request that a
//! connection's and the server's own limits have counted.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use backend::{Failure, Reopening};
use engine::VolumeId;
use frontend::{ExportId, RequestId};
use units::{Duration, Extent, Instant, Operation};
use volume::pool::flow::PieceId;

use crate::disk::Joins;
use crate::status::DiskView;

/// A client's request, with its extent already one of the disk's.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) id: RequestId,
    /// When the sockets' turn began in which it came.
    pub(crate) asked: Instant,
    pub(crate) volume: VolumeId,
    pub(crate) operation: Operation,
    pub(crate) data: Vec<u8>,
    /// For a write of zeroes: the space stays the volume's.
    pub(crate) no_hole: bool,
}

/// One command of a pool's, to the disk that it is for.
#[derive(Debug)]
pub(crate) struct Portion {
    pub(crate) piece: PieceId,
    /// Whether a client asked for it, or else the pool itself.
    pub(crate) client: bool,
    /// Who pays.
    pub(crate) volume: VolumeId,
    pub(crate) operation: Operation,
    pub(crate) data: Vec<u8>,
    /// For a write of zeroes: the space stays the volume's.
    pub(crate) no_hole: bool,
}

/// How much is to be told. A thousand histograms of latencies take longer to copy than everything else together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Everything.
    All,
    /// No latencies.
    Accounts,
    /// The latencies of this export alone.
    One(ExportId),
}

/// What an operator changes. It was checked, and is carried out before anything else is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A volume joins.
    Add { export: ExportId, joins: Joins },
    /// A volume's contract changes, and what it was worked out from.
    Contract { volume: VolumeId, joins: Joins },
    /// The accounting period changes, and with it, where it was longer, a batch.
    Period { period: Duration, batch: Duration },
    /// The volume's sectors here, on the disk, are to read as zeroes: answered when they do, for good.
    Erase { volume: VolumeId, extent: Extent },
    /// Answered when everything that the volume was asked for has been done.
    Drain { volume: VolumeId },
    /// A drained volume leaves.
    Remove { volume: VolumeId },
}

/// How a change ended. [`Change::Add`] gives the volume's number; the others give theirs back.
pub(crate) type Changed = Result<VolumeId, Failure>;

#[derive(Debug)]
pub(crate) enum Message {
    Request(Incoming),
    /// Part of a request to a pool's volume, or something of the pool's own.
    Portion(Portion),
    /// Tell a client which of these sectors of the disk hold data.
    Ask(RequestId, Extent),
    /// Tell how things stand.
    Look(Look, mpsc::SyncSender<DiskView>),
    /// Carry out a change.
    Change(Change, mpsc::SyncSender<Changed>),
    /// Open the disk again.
    Reopen(Reopening),
    /// No client is read any more: nothing is released by deadlines from now on.
    Close,
    /// End when everything is answered.
    Stop,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: Vec<Message>,
    /// The disk has something to reap.
    nudged: bool,
}

impl Inbox {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nobody panics while holding the lock; should it happen, the messages are still whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts messages in, in their order, and wakes the disk's thread. Leaves the vector empty.
    pub(crate) fn put(&self, messages: &mut Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        self.waiting().messages.append(messages);
        self.arrived.notify_one();
    }

    /// Wakes the disk's thread without a message, or keeps it from falling asleep.
    pub(crate) fn nudge(&self) {
        self.waiting().nudged = true;
        self.arrived.notify_one();
    }

    /// Has a change carried out, and waits for it.
    pub(crate) fn change(&self, change: Change) -> Changed {
        let (to, from) = mpsc::sync_channel(1);
        self.put(&mut vec![Message::Change(change, to)]);
        from.recv().expect("a disk's thread answers")
    }

    /// Has a volume leave when all that it was asked for is answered, and waits for it.
    pub(crate) fn dismiss(&self, volume: VolumeId) {
        self.change(Change::Drain { volume }).expect("nothing fails to end");
        self.change(Change::Remove { volume }).expect("it leaves without the disk");
    }

    /// Waits until there are messages or somebody nudges, or for at most so long; then takes all there are.
    pub(crate) fn wait(&self, at_most: Duration, into: &mut Vec<Message>) {
        let at_most = std::time::Duration::from_nanos(at_most.as_nanos());
        let idle = |waiting: &mut Waiting| waiting.messages.is_empty() && !waiting.nudged;
        let (mut waiting, _) = self
            .arrived
            .wait_timeout_while(self.waiting(), at_most, idle)
            .unwrap_or_else(PoisonError::into_inner);
        waiting.nudged = false;
        core::mem::swap(&mut waiting.messages, into);
    }
}
