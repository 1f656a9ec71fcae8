//! How requests get to a disk: through its thread, or, where the disk never has to be waited for, right here.
//!
//! Handing a request to another thread and its answer back are two wake-ups, which take longer than a disk of memory and
//! everything else about the request together. A disk that is prompt ([`backend::Disk::completes_synchronously`]) is therefore driven by
//! the thread that brings its requests, engine and all; its own thread carries out what operators want, and what is due
//! later, such as the request of a volume at its limit.
//!
//! So is a disk with a bell ([`backend::Disk::completion_fd`]), a ring of the kernel's: commands of a turn begin by one system call at
//! its end, and who sleeps at the sockets is woken by what ends, too. A disk of a pool is not: its requests come from
//! several threads, through its inbox, and its own thread answers the bell.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use nbd::Reply;

use crate::disk::DiskThread;
use crate::inbox::{Inbox, Message};

/// A disk that two threads drive, one at a time.
pub(crate) type Shared = Arc<Mutex<DiskThread>>;

pub(crate) fn lock(disk: &Mutex<DiskThread>) -> MutexGuard<'_, DiskThread> {
    disk.lock().expect("who drives a disk does not panic")
}

pub(crate) enum Door {
    /// Its thread takes them up.
    Inbox(Arc<Inbox>),
    /// Whoever brings them carries them out, and answers the disk's bell if it has one.
    Here { disk: Shared, bell: bool },
}

impl Door {
    pub(crate) fn of(disk: &Shared, inbox: &Arc<Inbox>) -> Self {
        let driven = lock(disk);
        if driven.is_driven_here() {
            Self::Here { disk: disk.clone(), bell: driven.bell().is_some() }
        } else {
            Self::Inbox(inbox.clone())
        }
    }

    /// Passes messages on, in their order; leaves the vector empty. What could be answered at once is in `answered` then.
    pub(crate) fn enter(&self, messages: &mut Vec<Message>, answered: &mut Vec<Reply>) {
        if messages.is_empty() {
            return;
        }
        match self {
            Self::Inbox(inbox) => inbox.put(messages),
            Self::Here { disk, .. } => lock(disk).carry_out(messages, answered),
        }
    }

    /// What is to be listened to here.
    pub(crate) fn bell(&self) -> Option<io::Result<OwnedFd>> {
        match self {
            Self::Inbox(_) => None,
            Self::Here { disk, .. } => lock(disk).bell(),
        }
    }

    /// Goes on with what has ended, where that is seen to here.
    pub(crate) fn look(&self, answered: &mut Vec<Reply>) {
        if let Self::Here { disk, bell: true } = self {
            lock(disk).look(answered);
        }
    }
}
