//! The queue of messages to a disk's thread.
//!
//! It is bounded by the server's limits: every message but the few of the daemon itself is a
//! request that the limits of its connection and of the server have counted.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use engine::VolumeId;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use units::Duration;

use super::message::{Change, Message};
use super::request::Changed;

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    queue: Mutex<Queue>,
    arrived: Condvar,
    /// Wakes the thread in place of `arrived`, if the thread also polls a file.
    wake_fd: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct Queue {
    messages: Vec<Message>,
    /// The thread is to run an iteration even without a message.
    wake_requested: bool,
    /// `wake_fd` is readable.
    wake_pending: bool,
}

impl Queue {
    const fn is_idle(&self) -> bool {
        self.messages.is_empty() && !self.wake_requested
    }
}

impl Inbox {
    /// An inbox for a thread that also waits for a file to become readable.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub(crate) fn with_wake_fd() -> io::Result<Self> {
        let wake_fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { wake_fd: Some(wake_fd), ..Self::default() })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No code panics while it holds the lock; after a panic the messages would still be whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends messages in their order and wakes the disk's thread. Leaves the vector empty.
    pub(crate) fn send(&self, messages: &mut Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        let mut queue = self.queue();
        queue.messages.append(messages);
        self.wake_thread(queue);
    }

    /// Wakes the disk's thread without a message, or keeps it from falling asleep.
    pub(crate) fn wake(&self) {
        let mut queue = self.queue();
        queue.wake_requested = true;
        self.wake_thread(queue);
    }

    fn wake_thread(&self, mut queue: MutexGuard<'_, Queue>) {
        let Some(wake_fd) = &self.wake_fd else {
            drop(queue);
            return self.arrived.notify_one();
        };
        if !core::mem::replace(&mut queue.wake_pending, true) {
            let one = 1_u64.to_ne_bytes();
            rustix::io::write(wake_fd, &one).expect("an eventfd at zero takes one");
        }
    }

    /// Has a change carried out, and waits for its end.
    pub(crate) fn change(&self, change: Change) -> Changed {
        let (to, from) = mpsc::sync_channel(1);
        self.send(&mut vec![Message::Change(change, to)]);
        from.recv().expect("a disk's thread answers every change")
    }

    /// Detaches a volume once all of its requests are answered, and waits for that.
    pub(crate) fn detach(&self, volume: VolumeId) {
        self.change(Change::Drain { volume }).expect("draining does not fail");
        self.change(Change::Detach { volume }).expect("a volume is detached without the disk");
    }

    /// Whether there is neither a message nor a request to wake up.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue().is_idle()
    }

    /// Waits for a message, a wake-up, or `completion_fd` to become readable, for `at_most` this
    /// time. Then takes all messages. Waiting for `completion_fd` requires a wake fd.
    pub(crate) fn wait(
        &self,
        at_most: Duration,
        completion_fd: Option<BorrowedFd<'_>>,
        into: &mut Vec<Message>,
    ) {
        debug_assert!(into.is_empty(), "the messages of the last wait have been handled");
        let mut queue = if let Some(wake_fd) = &self.wake_fd {
            let wake_fd = wake_fd.as_fd();
            self.poll(at_most, wake_fd, completion_fd.unwrap_or(wake_fd))
        } else {
            assert!(completion_fd.is_none(), "a condition variable cannot wait for a file");
            self.wait_for_messages(at_most)
        };
        queue.wake_requested = false;
        core::mem::swap(&mut queue.messages, into);
    }

    fn wait_for_messages(&self, at_most: Duration) -> MutexGuard<'_, Queue> {
        let at_most = std::time::Duration::from_nanos(at_most.as_nanos());
        let waited =
            self.arrived.wait_timeout_while(self.queue(), at_most, |queue| queue.is_idle());
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn poll(
        &self,
        at_most: Duration,
        wake_fd: BorrowedFd<'_>,
        completion_fd: BorrowedFd<'_>,
    ) -> MutexGuard<'_, Queue> {
        let polled = [wake_fd, completion_fd];
        let mut polled = polled.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let at_most = std::time::Duration::from_nanos(at_most.as_nanos());
        let at_most = at_most.try_into().expect("a wait is at most a second");
        // An interrupted wait is as good as a wake-up: a completion may be the interruption.
        let _ = poll(&mut polled, Some(&at_most));
        let mut queue = self.queue();
        if core::mem::take(&mut queue.wake_pending) {
            rustix::io::read(wake_fd, &mut [0; 8]).expect("a pending wake-up is readable");
        }
        queue
    }
}
