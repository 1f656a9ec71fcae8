//! io_uring: transfers that the kernel carries out while nobody waits for them, all of a turn begun
//! by one system call.
//!
//! ```text
//!  push ─▶ queue ─ start: one system call ─▶ the kernel, with the flight's memory ─▶ queue ─▶ reap
//! ```
//!
//! This is the one place with unsafe code, and this is what it rests on. Invariant: what the kernel
//! may touch belongs to a [`Flight`], which lies in `flights` from before it is pushed until its
//! completion is taken out of the queue; nobody has a way to a flight that is there. A ring that is
//! dropped waits for what is under way; if it cannot, the memory is never given back.

#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::io::{Errno, ReadWriteFlags};
use units::{Extent, SECTOR_BYTES, Sectors};

use super::caller::Open;
use crate::device::{AlignedBuffer, MEMORY_ALIGN};
use crate::disk::Job;

/// The memory of a transfer that the kernel knows beforehand. As many as a disk's depth, and few
/// enough that a process without privileges may keep those of a disk from being swapped out (8 MiB
/// by default, and a depth is at most 32).
pub(super) const SLOT: Sectors = Sectors(256);

/// What is under way.
#[derive(Debug)]
pub(super) struct Flight {
    /// Whose it is. What it writes has been moved to `memory`, or copied there.
    pub(super) job: Job,
    pub(super) does: Does,
    pub(super) memory: Memory,
    /// Where on the disk, in whole blocks.
    pub(super) blocks: Extent,
    /// Bytes that have been moved.
    moved: usize,
}

/// What a flight is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Read,
    /// Durable when it has ended, if it is forced.
    Write {
        forced: bool,
    },
    Flush,
}

/// Where the bytes of a flight are, as many as its blocks hold.
#[derive(Debug)]
pub(super) enum Memory {
    None,
    /// Registered with the kernel, by this number.
    Slot(u16, AlignedBuffer),
    Own(AlignedBuffer),
    /// The request's: of a read, room for what is read.
    Payload(Vec<u8>),
}

impl Memory {
    /// The first bytes of it, as much as these hold, if it is neither nothing nor the request's.
    pub(super) fn bytes(&mut self, len: Sectors) -> Option<&mut [u8]> {
        match self {
            Self::Slot(_, aligned) | Self::Own(aligned) => Some(aligned.bytes(len.bytes_usize())),
            Self::None | Self::Payload(_) => None,
        }
    }

    /// Where `len` bytes are, or have room.
    fn start(&mut self, len: usize) -> *mut u8 {
        match self {
            Self::None => core::ptr::null_mut(),
            Self::Slot(_, aligned) | Self::Own(aligned) => aligned.bytes(len).as_mut_ptr(),
            Self::Payload(data) => {
                assert!(len <= data.capacity(), "a transfer fits its buffer");
                data.as_mut_ptr()
            }
        }
    }
}

impl Flight {
    pub(super) const fn new(job: Job, does: Does, blocks: Extent, memory: Memory) -> Self {
        Self { job, does, memory, blocks, moved: 0 }
    }

    /// What the kernel is asked for: what has not been moved yet.
    fn entry(&mut self, file: &impl AsRawFd) -> squeue::Entry {
        let file = types::Fd(file.as_raw_fd());
        let all = self.blocks.len.bytes_usize();
        let len = u32::try_from(all - self.moved).expect("commands are bounded");
        let at = self.blocks.start.0 * SECTOR_BYTES + self.moved as u64;
        let slot = if let Memory::Slot(slot, _) = &self.memory { Some(*slot) } else { None };
        let start = self.memory.start(all).wrapping_add(self.moved);
        let forced = ReadWriteFlags::DSYNC.bits().cast_signed();
        let flags = if self.does == (Does::Write { forced: true }) { forced } else { 0 };
        match (self.does, slot) {
            (Does::Flush, _) => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
            (Does::Read, Some(slot)) => {
                opcode::ReadFixed::new(file, start, len, slot).offset(at).build()
            }
            (Does::Read, None) => opcode::Read::new(file, start, len).offset(at).build(),
            (Does::Write { .. }, Some(slot)) => {
                opcode::WriteFixed::new(file, start, len, slot).offset(at).rw_flags(flags).build()
            }
            (Does::Write { .. }, None) => {
                opcode::Write::new(file, start, len).offset(at).rw_flags(flags).build()
            }
        }
    }

    /// What the kernel told of it: whether it is over, and how.
    fn told(&mut self, result: i32) -> Option<io::Result<()>> {
        if result == -Errno::INTR.raw_os_error() {
            // Nothing was done, and nothing has failed.
            return None;
        }
        let Ok(moved) = usize::try_from(result) else {
            return Some(Err(io::Error::from_raw_os_error(-result)));
        };
        if self.does == Does::Flush {
            return Some(Ok(()));
        }
        self.moved += moved;
        let all = self.blocks.len.bytes_usize();
        assert!(self.moved <= all, "no more is moved than was asked for");
        if self.moved < all {
            let end = match self.does {
                Does::Read => io::ErrorKind::UnexpectedEof,
                Does::Write { .. } | Does::Flush => io::ErrorKind::WriteZero,
            };
            return (moved == 0).then(|| Err(end.into()));
        }
        if let (Does::Read, Memory::Payload(data)) = (self.does, &mut self.memory) {
            // SAFETY: `start` found that the buffer has room for `all` bytes, and the kernel has
            // said that it has written so many from its beginning on; it has let go of the buffer.
            unsafe { data.set_len(all) };
        }
        Some(Ok(()))
    }
}

/// A ring of the kernel's, for one disk.
pub(super) struct Ring {
    kernel: IoUring,
    /// Kept open for what is under way.
    open: Arc<Open>,
    /// What is pushed or under way, by its number for the kernel.
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    slots: Vec<(u16, AlignedBuffer)>,
    /// For transfers that no slot holds, each as long as the longest so far.
    spares: Vec<AlignedBuffer>,
    registered: bool,
}

impl Ring {
    /// For so many flights at once.
    ///
    /// # Errors
    /// The kernel has no such thing or does not let us, or it is too old for what is asked of it.
    pub(super) fn new(open: &Arc<Open>, depth: usize) -> io::Result<Self> {
        let entries = u32::try_from(depth).expect("a few").next_power_of_two();
        let kernel = set_up(entries)?;
        let mut probe = Probe::new();
        kernel.submitter().register_probe(&mut probe)?;
        let codes = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::ReadFixed::CODE,
            opcode::WriteFixed::CODE,
            opcode::Fsync::CODE,
        ];
        if !codes.iter().all(|code| probe.is_supported(*code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut slots: Vec<_> =
            (0..depth).map(|_| AlignedBuffer::new(SLOT.bytes_usize(), MEMORY_ALIGN)).collect();
        let registered = register(&kernel, &mut slots).is_ok();
        let slots = if registered { (0..).zip(slots).collect() } else { Vec::new() };
        let flights = (0..depth).map(|_| None).collect();
        let free = (0..depth).rev().collect();
        let (open, spares) = (Arc::clone(open), Vec::new());
        Ok(Self { kernel, open, flights, free, slots, spares, registered })
    }

    /// Whether the kernel knows the memory of short transfers beforehand.
    pub(super) const fn is_registered(&self) -> bool {
        self.registered
    }

    /// Memory for a transfer of so many bytes.
    pub(super) fn memory(&mut self, bytes: usize) -> Memory {
        if bytes <= SLOT.bytes_usize()
            && let Some((slot, aligned)) = self.slots.pop()
        {
            return Memory::Slot(slot, aligned);
        }
        let spare = self.spares.pop().filter(|spare| spare.len() >= bytes);
        Memory::Own(spare.unwrap_or_else(|| AlignedBuffer::new(bytes, MEMORY_ALIGN)))
    }

    /// Takes memory back from what is over; what is the request's is not ours.
    pub(super) fn keep(&mut self, memory: Memory) -> Option<Vec<u8>> {
        match memory {
            Memory::Slot(slot, aligned) => self.slots.push((slot, aligned)),
            Memory::Own(aligned) => self.spares.push(aligned),
            Memory::Payload(data) => return Some(data),
            Memory::None => {}
        }
        None
    }

    /// Has something begin with the next [`Ring::start`].
    ///
    /// # Panics
    /// If as much is under way as the ring was made for.
    pub(super) fn push(&mut self, flight: Flight) {
        let place = self.free.pop().expect("no more is under way than the ring was made for");
        let flight = self.flights[place].insert(flight);
        let entry = flight.entry(&self.open.file).user_data(place as u64);
        // SAFETY: the entry's memory belongs to the flight, which stays in `flights` until its
        // completion is reaped, or longer than the ring: so it is neither freed nor looked at by
        // anybody else meanwhile. A `Vec`'s bytes stay where they are when it is moved. The file is
        // kept open by `self.open`.
        let pushed = unsafe { self.kernel.submission().push(&entry) };
        pushed.expect("the queue has an entry for each flight");
    }

    /// Begins what was pushed. Says whether all of it has begun; else the kernel is short of
    /// something, and is to be asked again.
    pub(super) fn start(&mut self) -> bool {
        while !self.kernel.submission().is_empty() {
            match self.kernel.submit() {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let short = [Errno::AGAIN, Errno::BUSY, Errno::NOMEM].map(Errno::raw_os_error);
                    let is_short = error.raw_os_error().is_some_and(|errno| short.contains(&errno));
                    assert!(is_short, "the ring is whole: {error}");
                    return false;
                }
            }
        }
        true
    }

    /// Whether something has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        !self.kernel.completion().is_empty()
    }

    /// What has ended, and how. What is left of a transfer that was cut short is pushed again, and
    /// wants a start.
    pub(super) fn reap(&mut self) -> Option<(Flight, io::Result<()>)> {
        loop {
            let entry = self.kernel.completion().next()?;
            let place = usize::try_from(entry.user_data()).expect("a number of ours");
            let mut flight = self.flights[place].take().expect("it was under way");
            self.free.push(place);
            match flight.told(entry.result()) {
                Some(how) => return Some((flight, how)),
                // What is left of it is no second try: that much has not been done.
                None => self.push(flight),
            }
        }
    }
}

impl AsFd for Ring {
    /// Readable when something has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.kernel.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.flights.iter().any(Option::is_some) {
            match self.kernel.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    // The kernel may write there until the end of the process.
                    core::mem::forget(core::mem::take(&mut self.flights));
                    return;
                }
                _ => {}
            }
            for entry in self.kernel.completion() {
                let place = usize::try_from(entry.user_data()).expect("a number of ours");
                self.flights[place] = None;
            }
        }
    }
}

/// A ring. Where the kernel knows how, completions do not interrupt a thread that is at work.
fn set_up(entries: u32) -> io::Result<IoUring> {
    let calm = IoUring::builder().dontfork().setup_coop_taskrun().build(entries);
    calm.or_else(|_| IoUring::builder().dontfork().build(entries))
}

/// Tells the kernel of the slots, by their places.
fn register(kernel: &IoUring, slots: &mut [AlignedBuffer]) -> io::Result<()> {
    let mut told: Vec<_> =
        slots.iter_mut().map(|slot| IoSliceMut::new(slot.bytes(slot.len()))).collect();
    // SAFETY: `IoSliceMut` is laid out as an iovec (its documentation guarantees it), and there are
    // as many.
    let told = unsafe { core::slice::from_raw_parts(told.as_mut_ptr().cast(), told.len()) };
    // SAFETY: these are whole buffers of ours. The kernel holds on to their pages by itself, for as
    // long as the ring is there, and touches them for flights alone; each belongs to one, or to
    // nobody.
    unsafe { kernel.submitter().register_buffers(told) }
}

#[cfg(test)]
mod tests {
    use units::{Lba, Op, Operation};

    use super::*;
    use crate::disk::Tag;

    fn flight(does: Does) -> Flight {
        let blocks = Extent::new(Lba(8), Sectors(4));
        let operation = Operation { op: Op::Read, extent: blocks, fua: false };
        let job = Job { tag: Tag(1), operation, data: Vec::new(), no_hole: false };
        Flight::new(job, does, blocks, Memory::Payload(Vec::with_capacity(2_048)))
    }

    /// What becomes of it when the kernel says this, one thing after the other.
    fn told(flight: &mut Flight, results: &[i32]) -> Vec<Option<Result<(), io::ErrorKind>>> {
        let told = results.iter().map(|result| flight.told(*result));
        told.map(|how| how.map(|how| how.map_err(|error| error.kind()))).collect()
    }

    #[test]
    fn what_was_cut_short_goes_on_where_it_was_and_fails_where_nothing_comes() {
        let mut read = flight(Does::Read);
        let interrupted = -Errno::INTR.raw_os_error();
        assert_eq!(told(&mut read, &[512, interrupted]), [None, None]);
        assert_eq!(read.moved, 512);
        assert_eq!(told(&mut read, &[0]), [Some(Err(io::ErrorKind::UnexpectedEof))]);
        let forced = Does::Write { forced: true };
        assert_eq!(told(&mut flight(forced), &[1_024, 1_024]), [None, Some(Ok(()))]);
        assert_eq!(told(&mut flight(forced), &[0]), [Some(Err(io::ErrorKind::WriteZero))]);
        let full = -Errno::NOSPC.raw_os_error();
        assert_eq!(told(&mut flight(forced), &[full]), [Some(Err(io::ErrorKind::StorageFull))]);
    }
}
