//! A device as a client of an event loop.

use core::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use nbd::{
    ConnectionId, Errno, Export, Handle, Intake, QueueClient, Refused, Registration, Transport,
};

use crate::limits::SUBMIT_ATTEMPTS_MAX;
use crate::queue::{Driver, Queue, QueueState};
use crate::ring::QueueRing;
use crate::uapi::{Descriptor, data_offset};

/// A device, served by the thread of one event loop.
pub struct UblkClient {
    export: Export,
    file: Arc<File>,
    depth: u16,
    queue: Queue,
    /// Made by the thread that serves the device: the driver takes a queue's commands from one
    /// thread.
    ring: Option<QueueRing>,
    /// Tells that the device is served, or why not.
    started: SyncSender<io::Result<()>>,
    server: Handle,
    connection: Option<ConnectionId>,
}

impl fmt::Debug for UblkClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UblkClient").field("file", &self.file).finish_non_exhaustive()
    }
}

impl UblkClient {
    /// A client for the device whose control node is `file`. It tells `started` when it has
    /// fetched the first request of each tag.
    pub(crate) fn new(
        (file, depth): (File, u16),
        (export, server): (Export, Handle),
        started: SyncSender<io::Result<()>>,
    ) -> Self {
        let (file, queue) = (Arc::new(file), Queue::new(depth));
        Self { export, file, depth, queue, ring: None, started, server, connection: None }
    }

    fn start(&self, registration: &Registration) -> io::Result<QueueRing> {
        let mut ring = QueueRing::new(Arc::clone(&self.file), self.depth)?;
        registration.add(ring.as_fd())?;
        (0..self.depth).for_each(|tag| ring.fetch(tag));
        submit(&mut ring)?;
        Ok(ring)
    }

    /// Lets the ring go. One that the driver has not ended stays until this thread ends, by which
    /// the kernel notices, and keeps the requests for the next daemon. If it were closed before, a
    /// request that comes meanwhile would be given to this thread, which lives, and would belong to
    /// no daemon: the driver would wait for its answer, and the next daemon for the driver (seen on
    /// Linux 6.12: `ublk_abort_queue` runs once, `ublk_wait_tagset_rqs_idle` has no end).
    fn release(&mut self) {
        let Some(ring) = self.ring.take() else { return };
        if !self.queue.is_ended() {
            core::mem::forget(ring);
        }
    }

    /// The device is served no more: it is dropped when its requests are answered.
    fn end(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.server.detach(connection);
        }
    }
}

impl Drop for UblkClient {
    fn drop(&mut self) {
        self.release();
    }
}

/// Hands the queued commands to the kernel.
fn submit(ring: &mut QueueRing) -> io::Result<()> {
    for _ in 0..SUBMIT_ATTEMPTS_MAX {
        if ring.submit()? {
            return Ok(());
        }
        // It lacks memory for the moment.
        std::thread::yield_now();
    }
    Err(io::ErrorKind::OutOfMemory.into())
}

impl QueueClient for UblkClient {
    fn export(&self) -> &Export {
        &self.export
    }

    fn transport(&self) -> Transport {
        Transport::Ublk
    }

    fn attached(&mut self, connection: ConnectionId, registration: Registration) {
        self.connection = Some(connection);
        let started = self.start(&registration);
        let told = started.map(|ring| self.ring = Some(ring));
        if told.is_err() {
            self.end();
        }
        // The receiver may have stopped waiting: then the device is removed.
        let _ = self.started.try_send(told);
    }

    fn refused(&mut self, why: Refused) {
        let _ = self.started.try_send(Err(io::Error::other(why.to_string())));
    }

    fn receive(&mut self, intake: &mut Intake<'_>) {
        let Some(ring) = &mut self.ring else { return };
        if self.queue.receive(ring, intake) == QueueState::Ended {
            self.end();
        }
    }

    fn complete(&mut self, cookie: u64, result: Result<Vec<u8>, Errno>) -> Vec<u8> {
        let ring = self.ring.as_mut().expect("requests come from the ring");
        let tag = u16::try_from(cookie).expect("it was made of a tag");
        self.queue.complete(ring, tag, result)
    }

    fn flush(&mut self) {
        if let Some(ring) = &mut self.ring
            && let Err(error) = submit(ring)
        {
            eprintln!("a ublk device of {} is served no more: {error}", self.export.name);
            self.end();
        }
    }

    fn closed(&mut self) {
        self.release();
    }
}

impl Driver for QueueRing {
    fn completion(&mut self) -> Option<(u16, i32)> {
        Self::completion(self)
    }

    fn descriptor(&self, tag: u16) -> Descriptor {
        Self::descriptor(self, tag)
    }

    fn copy_from(&self, tag: u16, data: &mut [u8]) -> io::Result<()> {
        let (mut done, at) = (0, data_offset(tag));
        while done < data.len() {
            match rustix::io::pread(self.file(), &mut data[done..], at + done as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                some => done += some,
            }
        }
        Ok(())
    }

    fn copy_to(&self, tag: u16, data: &[u8]) -> io::Result<()> {
        let (mut done, at) = (0, data_offset(tag));
        while done < data.len() {
            match rustix::io::pwrite(self.file(), &data[done..], at + done as u64)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                some => done += some,
            }
        }
        Ok(())
    }

    fn commit(&mut self, tag: u16, result: i32) {
        Self::commit(self, tag, result);
    }
}
