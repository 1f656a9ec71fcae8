//! The rings on which commands go to the driver, and the memory that it shares.
//!
//! ```text
//!  Command: one command to /dev/ublk-control, waited for
//!  QueueRing: fetch and commit ─▶ /dev/ublkcN ─▶ completions: a tag has a request
//!             descriptors: memory of the driver, mapped to be read
//! ```
//!
//! The only module of this crate with unsafe code, and its justification. Invariants:
//! - memory of this process that the driver may access is the buffer of a control command alone. It
//!   is owned by the function that pushes the command, until the completion has been taken; if that
//!   cannot be, the buffer is leaked, and the ring is used no more;
//! - commands of a queue carry no address: data are copied by system calls that the caller makes;
//! - the descriptors are mapped for reading as long as the ring exists, are read as a copy, and are
//!   never referred to.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use core::ffi::c_void;
use core::ptr::NonNull;

use io_uring::cqueue;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, opcode, types};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::uapi::{
    COMMAND_BYTES, COMMIT_AND_FETCH, ControlCommand, DESCRIPTOR_BYTES, DESCRIPTORS_OFFSET,
    Descriptor, FETCH, io_command,
};

type Ring = IoUring<Entry128, cqueue::Entry>;

/// A ring of commands to the control file, one at a time.
pub(crate) struct ControlRing {
    ring: Ring,
    file: File,
    /// Whether a command's completion could not be waited for.
    is_broken: bool,
}

impl ControlRing {
    /// # Errors
    /// The kernel has no io_uring with commands to drivers, or forbids it.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        Ok(Self { ring: Ring::builder().dontfork().build(1)?, file, is_broken: false })
    }

    /// Carries one command out, with `buffer` as its input and output. Returns its result.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn carry_out(
        &mut self,
        command: ControlCommand,
        buffer: &mut [u8],
    ) -> io::Result<i32> {
        if self.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let len = u16::try_from(buffer.len()).expect("a structure of the driver");
        let mut memory = buffer.to_vec();
        let address = if buffer.is_empty() { 0 } else { memory.as_mut_ptr().expose_provenance() };
        let bytes = command.bytes(address as u64, len);
        let entry = command_entry(&self.file, command.op.code(), bytes);
        // SAFETY: the driver accesses `memory`, which is neither freed nor accessed before `wait`
        // has taken the completion of this command, the only one in the ring; without it the
        // memory is leaked. The file is open as long as the ring.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has room for a command, and no other is in it");
        match self.wait() {
            Ok(result) => {
                buffer.copy_from_slice(&memory);
                result_of(result)
            }
            Err(error) => {
                self.is_broken = true;
                core::mem::forget(memory);
                Err(error)
            }
        }
    }

    /// Waits for the completion of the command in the ring.
    fn wait(&mut self) -> io::Result<i32> {
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            if let Some(completion) = self.ring.completion().next() {
                return Ok(completion.result());
            }
        }
    }
}

/// The submission entry of a command to a driver.
fn command_entry(file: &impl AsRawFd, code: u32, bytes: [u8; COMMAND_BYTES]) -> Entry128 {
    opcode::UringCmd80::new(types::Fd(file.as_raw_fd()), code).cmd(bytes).build()
}

fn result_of(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}

/// The descriptors of a queue, mapped for reading.
struct Descriptors {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread, and is only read.
unsafe impl Send for Descriptors {}

impl Descriptors {
    fn map(file: &File, depth: u16) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let bytes = (usize::from(depth) * DESCRIPTOR_BYTES).next_multiple_of(page);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps no other memory.
        let start = unsafe {
            rustix::mm::mmap(
                core::ptr::null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED | MapFlags::POPULATE,
                file,
                DESCRIPTORS_OFFSET,
            )
        };
        let start = NonNull::new(start?).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// A copy of the descriptor of a tag.
    fn read(&self, tag: u16) -> Descriptor {
        let at = usize::from(tag) * DESCRIPTOR_BYTES;
        assert!(at + DESCRIPTOR_BYTES <= self.bytes, "the tag is one of the queue's");
        let place = self.start.as_ptr().wrapping_byte_add(at).cast::<[u8; DESCRIPTOR_BYTES]>();
        // SAFETY: the place lies within the mapping, by the assertion above; bytes need no
        // alignment and have no invalid values. The driver writes a tag's descriptor before it
        // completes the tag's fetch, and not again until the tag's result is committed: the queue
        // reads it between the two.
        let bytes = unsafe { place.read_volatile() };
        Descriptor::from_bytes(&bytes)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with these values, and no reference to it exists: `read`
        // copies.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own is unmapped");
    }
}

/// The ring of the one queue of a device.
pub(crate) struct QueueRing {
    ring: Ring,
    /// Declared after the ring: the ring's commands are cancelled before the mapping ends.
    descriptors: Descriptors,
    /// The device's control node.
    file: Arc<File>,
    depth: u16,
}

impl QueueRing {
    /// A ring for a device whose control node is `file`.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn new(file: Arc<File>, depth: u16) -> io::Result<Self> {
        let entries = u32::from(depth).next_power_of_two();
        // Without interrupts of a running thread: the loop makes system calls all the time.
        let calm = Ring::builder().dontfork().setup_coop_taskrun().build(entries);
        let ring = calm.or_else(|_| Ring::builder().dontfork().build(entries))?;
        let descriptors = Descriptors::map(&file, depth)?;
        Ok(Self { ring, descriptors, file, depth })
    }

    /// Queues the first fetch of a tag.
    pub(crate) fn fetch(&mut self, tag: u16) {
        self.push(tag, FETCH, 0);
    }

    /// Queues the result of a tag's request, and the fetch of its next one.
    pub(crate) fn commit(&mut self, tag: u16, result: i32) {
        self.push(tag, COMMIT_AND_FETCH, result);
    }

    fn push(&mut self, tag: u16, code: u32, result: i32) {
        assert!(tag < self.depth, "the tag is one of the queue's");
        let entry = command_entry(&*self.file, code, io_command(tag, result)).user_data(tag.into());
        // SAFETY: the command carries no address: the driver accesses no memory of this process
        // for it. `self.file` keeps the file open as long as the ring.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("a tag has one command at a time, and the ring has an entry for each");
    }

    /// Hands the queued commands to the kernel. Returns false if it lacks a resource: the caller
    /// tries again.
    ///
    /// # Errors
    /// The kernel's: the ring is of no more use.
    pub(crate) fn submit(&mut self) -> io::Result<bool> {
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let short = [Errno::AGAIN, Errno::BUSY, Errno::NOMEM].map(Errno::raw_os_error);
                    let is_short = error.raw_os_error().is_some_and(|errno| short.contains(&errno));
                    return if is_short { Ok(false) } else { Err(error) };
                }
            }
        }
        Ok(true)
    }

    /// A tag whose command has completed, and the driver's result.
    pub(crate) fn completion(&mut self) -> Option<(u16, i32)> {
        let completion = self.ring.completion().next()?;
        let tag = u16::try_from(completion.user_data()).expect("it was made of a tag");
        Some((tag, completion.result()))
    }

    /// The request of a tag whose command has completed.
    pub(crate) fn descriptor(&self, tag: u16) -> Descriptor {
        self.descriptors.read(tag)
    }

    /// The device's control node, for the data of its requests.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl AsFd for QueueRing {
    /// Readable when a command has completed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
