//! What waits for a disk's thread.
//!
//! Bounded by what the frontend lets in: every message but the few of the daemon itself is a request that a
//! connection's and the server's own limits have counted.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use backend::{Failure, ReopenRequest};
use engine::VolumeId;
use nbd::{ClientRequestId, ExportId};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use units::{Duration, Extent, Instant, Operation};
use volume::pool::flow::PieceId;

use crate::disk::Joins;
use crate::status::DiskView;

/// A client's request, with its extent already one of the disk's.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) id: ClientRequestId,
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
    Ask(ClientRequestId, Extent),
    /// Tell how things stand.
    Look(Look, mpsc::SyncSender<DiskView>),
    /// Carry out a change.
    Change(Change, mpsc::SyncSender<Changed>),
    /// Open the disk again.
    Reopen(ReopenRequest),
    /// No client is read any more: nothing is released by deadlines from now on.
    Close,
    /// Nobody else answers the disk's bell any more.
    Alone,
    /// End when everything is answered.
    Stop,
}

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    /// In place of the above, for a thread that waits for something else too.
    alarm: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: Vec<Message>,
    /// The disk has something to reap.
    nudged: bool,
    /// The alarm is on.
    alarmed: bool,
}

impl Waiting {
    const fn is_idle(&self) -> bool {
        self.messages.is_empty() && !self.nudged
    }
}

impl Inbox {
    /// For a thread that waits for a file's readiness too.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub(crate) fn with_alarm() -> io::Result<Self> {
        let alarm = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { alarm: Some(alarm), ..Self::default() })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nobody panics while holding the lock; should it happen, the messages are still whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts messages in, in their order, and wakes the disk's thread. Leaves the vector empty.
    pub(crate) fn put(&self, messages: &mut Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        waiting.messages.append(messages);
        self.wake(waiting);
    }

    /// Wakes the disk's thread without a message, or keeps it from falling asleep.
    pub(crate) fn nudge(&self) {
        let mut waiting = self.waiting();
        waiting.nudged = true;
        self.wake(waiting);
    }

    fn wake(&self, mut waiting: MutexGuard<'_, Waiting>) {
        let Some(alarm) = &self.alarm else {
            drop(waiting);
            return self.arrived.notify_one();
        };
        if !core::mem::replace(&mut waiting.alarmed, true) {
            rustix::io::write(alarm, &1_u64.to_ne_bytes()).expect("it counts further than to one");
        }
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

    /// Whether nothing has come and nobody has nudged.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting().is_idle()
    }

    /// Waits until there are messages or somebody nudges or the bell rings, or for at most so long; then takes all there
    /// are. For a bell, it has to have an alarm.
    pub(crate) fn wait(
        &self,
        at_most: Duration,
        bell: Option<BorrowedFd<'_>>,
        into: &mut Vec<Message>,
    ) {
        let mut waiting = match &self.alarm {
            Some(alarm) => {
                self.wait_for_either(at_most, alarm.as_fd(), bell.unwrap_or(alarm.as_fd()))
            }
            None => self.wait_for_messages(at_most),
        };
        waiting.nudged = false;
        core::mem::swap(&mut waiting.messages, into);
    }

    fn wait_for_messages(&self, at_most: Duration) -> MutexGuard<'_, Waiting> {
        let at_most = std::time::Duration::from_nanos(at_most.as_nanos());
        let waited =
            self.arrived.wait_timeout_while(self.waiting(), at_most, |waiting| waiting.is_idle());
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn wait_for_either(
        &self,
        at_most: Duration,
        alarm: BorrowedFd<'_>,
        bell: BorrowedFd<'_>,
    ) -> MutexGuard<'_, Waiting> {
        let watched = [alarm, bell];
        let mut watched = watched.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let at_most = std::time::Duration::from_nanos(at_most.as_nanos());
        let at_most = at_most.try_into().expect("nobody sleeps for so long");
        // Who is interrupted looks whether there is something to do: an interruption may come with what the bell is for.
        let _ = poll(&mut watched, Some(&at_most));
        let mut waiting = self.waiting();
        if core::mem::take(&mut waiting.alarmed) {
            rustix::io::read(alarm, &mut [0; 8]).expect("it was written to");
        }
        waiting
    }
}
