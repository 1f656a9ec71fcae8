//! The queue of one device: requests of the kernel become operations, and answers its results.
//!
//! Sans-IO but for a [`Driver`] and an [`Intake`], so that it is tested without either.
//!
//! Invariants:
//! - a tag is with the driver, waits here for room, or is outstanding; a result is committed for a
//!   tag that is here, once;
//! - requests go on in the order in which they came.

use std::collections::VecDeque;
use std::io;

use nbd::{Errno, Intake as ServerIntake};
use units::{Extent, Lba, Op, Operation, Sectors};

use crate::limits::REQUEST_BYTES_MAX;
use crate::uapi::{Descriptor, flag};

/// The driver's side of a queue.
pub(crate) trait Driver {
    /// A tag that has a request, or whose command the driver has ended with an error.
    fn completion(&mut self) -> Option<(u16, i32)>;
    /// The request of a tag.
    fn descriptor(&self, tag: u16) -> Descriptor;
    /// Copies the data that a tag's request writes.
    fn copy_from(&self, tag: u16, data: &mut [u8]) -> io::Result<()>;
    /// Copies what a tag's request has read.
    fn copy_to(&self, tag: u16, data: &[u8]) -> io::Result<()>;
    /// Queues the result of a tag's request: bytes, or an error's number below zero.
    fn commit(&mut self, tag: u16, result: i32);
}

/// The server's side of a queue.
pub(crate) trait Intake {
    /// Whether a request with this payload may be submitted now.
    fn has_room(&mut self, bytes: usize) -> bool;
    /// A buffer of this length with any contents.
    fn buffer(&mut self, bytes: usize) -> Vec<u8>;
    /// Submits a request.
    fn submit(
        &mut self,
        tag: u16,
        operation: Operation,
        no_hole: bool,
        data: Vec<u8>,
    ) -> Result<(), Errno>;
}

impl Intake for ServerIntake<'_> {
    fn has_room(&mut self, bytes: usize) -> bool {
        Self::has_room(self, bytes)
    }

    fn buffer(&mut self, bytes: usize) -> Vec<u8> {
        Self::buffer(self, bytes)
    }

    fn submit(
        &mut self,
        tag: u16,
        operation: Operation,
        no_hole: bool,
        data: Vec<u8>,
    ) -> Result<(), Errno> {
        Self::submit(self, tag.into(), operation, no_hole, data)
    }
}

/// Whether the driver gives further requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueState {
    Open,
    /// The device is being stopped.
    Ended,
}

/// The state of a device's queue.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The operations of the outstanding requests, by their tags.
    outstanding: Vec<Option<Operation>>,
    /// Tags whose requests wait for room, in the order of their arrival.
    waiting: VecDeque<u16>,
    /// Whether the driver has ended a tag's command.
    ended: bool,
}

impl Queue {
    pub(crate) fn new(depth: u16) -> Self {
        let depth = usize::from(depth);
        let waiting = VecDeque::with_capacity(depth);
        Self { outstanding: vec![None; depth], waiting, ended: false }
    }

    /// Whether the driver has ended a tag's command: it gives no further requests.
    pub(crate) const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Takes the requests that have come, and submits those for which there is room.
    pub(crate) fn receive(
        &mut self,
        driver: &mut impl Driver,
        intake: &mut impl Intake,
    ) -> QueueState {
        while let Some((tag, result)) = driver.completion() {
            if result == 0 {
                self.waiting.push_back(tag);
            } else {
                // The tag is with neither side any more.
                self.ended = true;
            }
        }
        while let Some(tag) = self.waiting.front().copied() {
            match operation_of(driver.descriptor(tag)) {
                Some((operation, _)) if !intake.has_room(moved(operation)) => break,
                Some(wanted) => {
                    self.waiting.pop_front();
                    if let Err(number) = self.submit((tag, wanted), driver, intake) {
                        driver.commit(tag, -number);
                    }
                }
                None => {
                    self.waiting.pop_front();
                    driver.commit(tag, -NOT_SUPPORTED);
                }
            }
        }
        if self.ended { QueueState::Ended } else { QueueState::Open }
    }

    /// Submits a request, or returns the number of its error.
    fn submit(
        &mut self,
        (tag, (operation, no_hole)): (u16, (Operation, bool)),
        driver: &impl Driver,
        intake: &mut impl Intake,
    ) -> Result<(), i32> {
        let data = if operation.op == Op::Write {
            let mut data = intake.buffer(moved(operation));
            driver.copy_from(tag, &mut data).map_err(|_| IO)?;
            data
        } else {
            Vec::new()
        };
        intake.submit(tag, operation, no_hole, data).map_err(number)?;
        let before = self.outstanding[usize::from(tag)].replace(operation);
        assert_eq!(before, None, "a tag has one request at a time");
        Ok(())
    }

    /// Commits the result of an outstanding request. Returns its buffer.
    pub(crate) fn complete(
        &mut self,
        driver: &mut impl Driver,
        tag: u16,
        result: Result<Vec<u8>, Errno>,
    ) -> Vec<u8> {
        let taken = self.outstanding[usize::from(tag)].take();
        let operation = taken.expect("a request is answered once");
        let bytes = moved(operation);
        let (committed, data) = match result {
            Err(errno) => (-number(errno), Vec::new()),
            Ok(data) => {
                let copied = if operation.op != Op::Read {
                    Ok(())
                } else if data.len() == bytes {
                    driver.copy_to(tag, &data)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
                let bytes = i32::try_from(bytes).expect("at most a mebibyte");
                (if copied.is_ok() { bytes } else { -IO }, data)
            }
        };
        driver.commit(tag, committed);
        data
    }
}

/// The bytes that an operation moves.
fn moved(operation: Operation) -> usize {
    match operation.op {
        Op::Read | Op::Write => operation.extent.len.bytes_usize(),
        Op::Flush | Op::Trim | Op::WriteZeroes | Op::Seek => 0,
    }
}

/// The operation that a request of the kernel stands for, and whether its sectors stay allocated;
/// `None`: one that the device does not offer.
fn operation_of(descriptor: Descriptor) -> Option<(Operation, bool)> {
    let op = match descriptor.op() {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::Flush,
        3 => Op::Trim,
        5 => Op::WriteZeroes,
        _ => return None,
    };
    if op == Op::Flush {
        return Some((Operation::flush(), false));
    }
    let extent = Extent::new(Lba(descriptor.start), Sectors(descriptor.sectors.into()));
    let fua = op != Op::Read && descriptor.has(flag::FUA);
    let no_hole = op == Op::WriteZeroes && descriptor.has(flag::NO_UNMAP);
    let operation = Operation { op, extent, fua };
    (moved(operation) as u64 <= REQUEST_BYTES_MAX.0).then_some((operation, no_hole))
}

const IO: i32 = 5;
const NOT_SUPPORTED: i32 = 95;

/// The system's number of an error.
const fn number(errno: Errno) -> i32 {
    match errno {
        Errno::Perm => 1,
        Errno::NoMem => 12,
        Errno::Inval => 22,
        Errno::NoSpc => 28,
        Errno::NotSup => NOT_SUPPORTED,
        Errno::Io | Errno::Overflow | Errno::Shutdown => IO,
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
