//! How requests get to a disk: through the inbox of its thread, or inline.
//!
//! Handing a request to another thread and its reply back costs two wake-ups, which take longer
//! than a memory disk and everything else about the request together. So if a disk completes
//! commands synchronously ([`backend::Disk::completes_synchronously`]), the server's thread that
//! submits a request runs the disk's engine and backend inline. The disk's own thread carries out
//! operators' changes and what is due later, such as the request of a volume at its limit.
//!
//! The same holds for a disk with a completion file ([`backend::Disk::completion_fd`]), an
//! io_uring: the commands of an event-loop iteration start with one system call at its end, and
//! completions wake a thread that sleeps at its sockets. A disk of a pool is not driven inline: its
//! requests come from several threads through its inbox, and its own thread handles completions.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use nbd::Reply;

use super::inbox::Inbox;
use super::message::Message;
use super::thread::{DiskThread, lock};

/// A disk that several threads drive, one at a time.
pub(crate) type SharedDisk = Arc<Mutex<DiskThread>>;

/// How one of the server's threads reaches a disk.
pub(crate) enum DiskHandle {
    /// The disk's thread takes the messages from its inbox.
    Queued(Arc<Inbox>),
    /// The calling thread drives the disk, and polls its completions if it has a completion file.
    Inline { disk: SharedDisk, polls_completions: bool },
}

impl DiskHandle {
    pub(crate) fn new(disk: &SharedDisk, inbox: &Arc<Inbox>) -> Self {
        let driven = lock(disk);
        if driven.is_inline() {
            let polls_completions = driven.completion_fd().is_some();
            Self::Inline { disk: disk.clone(), polls_completions }
        } else {
            Self::Queued(inbox.clone())
        }
    }

    /// Passes messages on in their order; leaves the vector empty. Appends to `replies` those that
    /// are ready at once.
    pub(crate) fn submit(&self, messages: &mut Vec<Message>, replies: &mut Vec<Reply>) {
        if messages.is_empty() {
            return;
        }
        match self {
            Self::Queued(inbox) => inbox.send(messages),
            Self::Inline { disk, .. } => lock(disk).run_inline(messages, replies),
        }
        debug_assert!(messages.is_empty(), "all messages are passed on");
    }

    /// The file that the server's threads poll for completions of this disk.
    pub(crate) fn completion_fd(&self) -> Option<io::Result<OwnedFd>> {
        match self {
            Self::Queued(_) => None,
            Self::Inline { disk, .. } => lock(disk).completion_fd(),
        }
    }

    /// Handles completions, if the server's threads handle those of this disk.
    pub(crate) fn poll_completions(&self, replies: &mut Vec<Reply>) {
        if let Self::Inline { disk, polls_completions: true } = self {
            lock(disk).poll_completions(replies);
        }
    }
}
