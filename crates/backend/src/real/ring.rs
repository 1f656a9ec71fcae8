//! io_uring: asynchronous transfers, submitted in one batch by one system call.
//!
//! ```text
//!  push ─▶ queue ─ start: one system call ─▶ the kernel, with the flight's memory ─▶ queue ─▶ reap
//! ```
//!
//! The only module with unsafe code, and its justification. Invariant: memory that the kernel may
//! access belongs to a [`Flight`], which stays in `flights` from before it is pushed until its
//! completion is taken out of the queue; no other code has access to it meanwhile. A ring that is
//! dropped waits for its commands; if it cannot, the memory is leaked.

#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use io_uring::{IoUring, Probe, opcode, squeue, types};
use rustix::io::{Errno, ReadWriteFlags};
use units::{Extent, SECTOR_BYTES, Sectors};

use super::caller::Open;
use crate::buffers::{Buffers, Part};
use crate::device::{AlignedBuffer, MEMORY_ALIGN};
use crate::disk::Job;
use crate::limits::PARTS_MAX;

/// The size of a registered buffer. There is one per unit of queue depth: few enough for the limit
/// on locked memory of an unprivileged process (8 MiB by default; the depth is at most 32).
pub(super) const SLOT: Sectors = Sectors(256);

/// A transfer in flight.
#[derive(Debug)]
pub(super) struct Flight {
    /// Its job. The data of a write have been moved or copied to `memory`.
    pub(super) job: Job,
    pub(super) does: Does,
    pub(super) memory: Memory,
    /// The blocks of the disk.
    pub(super) blocks: Extent,
    /// Bytes transferred so far.
    moved: usize,
}

/// The operation of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Read,
    /// Durable on completion, if forced.
    Write {
        forced: bool,
    },
    Flush,
}

/// The buffer of a flight, as long as its blocks.
#[derive(Debug)]
pub(super) enum Memory {
    None,
    /// Registered with the kernel, by this index.
    Slot(u16, AlignedBuffer),
    Own(AlignedBuffer),
    /// The job's; for a read, spare capacity. With room for what describes a list to the kernel.
    Payload(Buffers, Vec<IoVec>),
}

/// The kernel's `struct iovec`. The address is a number, so that a thread can hand a flight on.
#[derive(Debug)]
#[repr(C)]
pub(super) struct IoVec {
    base: usize,
    len: usize,
}

/// The parts of a list behind its first `skip` bytes.
fn describe(parts: &mut [Part], mut skip: usize, vector: &mut Vec<IoVec>) {
    vector.clear();
    for part in parts {
        let all = part.len.bytes_usize();
        assert!(all <= part.bytes.capacity(), "a transfer fits its buffer");
        let from = skip.min(all);
        skip -= from;
        if from < all {
            let base = part.bytes.as_mut_ptr().wrapping_add(from).expose_provenance();
            vector.push(IoVec { base, len: all - from });
        }
    }
    assert!(vector.len() <= PARTS_MAX, "longer lists are copied");
}

impl Memory {
    /// The first bytes of a slot or an own buffer, as many as `len` sectors.
    pub(super) fn bytes(&mut self, len: Sectors) -> Option<&mut [u8]> {
        match self {
            Self::Slot(_, aligned) | Self::Own(aligned) => Some(aligned.bytes(len.bytes_usize())),
            Self::None | Self::Payload(..) => None,
        }
    }

    /// The address of `len` bytes or of capacity for them; none for a list.
    fn start(&mut self, len: usize) -> *mut u8 {
        match self {
            Self::None | Self::Payload(Buffers::List(_), _) => core::ptr::null_mut(),
            Self::Slot(_, aligned) | Self::Own(aligned) => aligned.bytes(len).as_mut_ptr(),
            Self::Payload(Buffers::One(data), _) => {
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

    /// The submission queue entry for the rest of the transfer.
    fn entry(&mut self, file: &impl AsRawFd) -> squeue::Entry {
        let file = types::Fd(file.as_raw_fd());
        let all = self.blocks.len.bytes_usize();
        let len = u32::try_from(all - self.moved).expect("commands are bounded");
        let at = self.blocks.start.0 * SECTOR_BYTES + self.moved as u64;
        let slot = if let Memory::Slot(slot, _) = &self.memory { Some(*slot) } else { None };
        let start = self.memory.start(all).wrapping_add(self.moved);
        let forced = ReadWriteFlags::DSYNC.bits().cast_signed();
        let flags = if self.does == (Does::Write { forced: true }) { forced } else { 0 };
        if let Memory::Payload(Buffers::List(parts), vector) = &mut self.memory {
            describe(parts, self.moved, vector);
            let count = u32::try_from(vector.len()).expect("lists are bounded");
            let vector = vector.as_ptr().cast();
            return if self.does == Does::Read {
                opcode::Readv::new(file, vector, count).offset(at).build()
            } else {
                opcode::Writev::new(file, vector, count).offset(at).rw_flags(flags).build()
            };
        }
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

    /// Evaluates a completion: whether the flight has ended, and how.
    fn evaluate(&mut self, result: i32) -> Option<io::Result<()>> {
        if result == -Errno::INTR.raw_os_error() {
            // Nothing was transferred, and nothing has failed.
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
        if let (Does::Read, Memory::Payload(data, _)) = (self.does, &mut self.memory) {
            for (part, bytes) in data.parts_mut(self.blocks) {
                // SAFETY: `start` and `describe` have checked that the buffer has capacity for its
                // part, and the kernel has reported that it wrote the whole of each part from its
                // beginning; it no longer accesses the buffers.
                unsafe { bytes.set_len(part.len.bytes_usize()) };
            }
        }
        Some(Ok(()))
    }
}

/// An io_uring instance of one disk.
pub(super) struct Ring {
    kernel: IoUring,
    /// Kept open for commands in flight.
    open: Arc<Open>,
    /// Flights that are pushed or submitted, by their user data.
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    slots: Vec<(u16, AlignedBuffer)>,
    /// Buffers for transfers longer than a slot, each as long as the longest so far.
    spares: Vec<AlignedBuffer>,
    /// What describes lists to the kernel, between two flights.
    vectors: Vec<Vec<IoVec>>,
    registered: bool,
}

impl Ring {
    /// A ring for `depth` flights.
    ///
    /// # Errors
    /// The kernel has no io_uring, forbids it, or lacks an operation.
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
            opcode::Readv::CODE,
            opcode::Writev::CODE,
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
        let (open, spares, vectors) = (Arc::clone(open), Vec::new(), Vec::new());
        Ok(Self { kernel, open, flights, free, slots, spares, vectors, registered })
    }

    /// Whether the buffers of short transfers are registered.
    pub(super) const fn is_registered(&self) -> bool {
        self.registered
    }

    /// A buffer for `bytes` bytes.
    pub(super) fn memory(&mut self, bytes: usize) -> Memory {
        if bytes <= SLOT.bytes_usize()
            && let Some((slot, aligned)) = self.slots.pop()
        {
            return Memory::Slot(slot, aligned);
        }
        let spare = self.spares.pop().filter(|spare| spare.len() >= bytes);
        Memory::Own(spare.unwrap_or_else(|| AlignedBuffer::new(bytes, MEMORY_ALIGN)))
    }

    /// The memory of a flight that uses its job's buffers.
    pub(super) fn payload(&mut self, data: Buffers) -> Memory {
        let is_list = matches!(data, Buffers::List(_));
        let vector = if is_list { self.vectors.pop() } else { None };
        Memory::Payload(data, vector.unwrap_or_default())
    }

    /// Takes a buffer back from an ended flight; a job's own are returned.
    pub(super) fn keep(&mut self, memory: Memory) -> Option<Buffers> {
        match memory {
            Memory::Slot(slot, aligned) => self.slots.push((slot, aligned)),
            Memory::Own(aligned) => self.spares.push(aligned),
            Memory::Payload(data, vector) => {
                if matches!(data, Buffers::List(_)) {
                    self.vectors.push(vector);
                }
                return Some(data);
            }
            Memory::None => {}
        }
        None
    }

    /// Queues a flight for the next [`Ring::start`].
    ///
    /// # Panics
    /// If `depth` flights are queued or in flight.
    pub(super) fn push(&mut self, flight: Flight) {
        let index = self.free.pop().expect("no more is in flight than the ring was made for");
        let flight = self.flights[index].insert(flight);
        let entry = flight.entry(&self.open.file).user_data(index as u64);
        // SAFETY: the entry's memory, and what describes a list, belong to the flight, which stays
        // in `flights` until its completion is reaped, or outlives the ring: they are neither freed
        // nor accessed meanwhile. The items of a `Vec` do not move with it; an `IoVec` has the
        // layout of iovec. `self.open` keeps the file open.
        let pushed = unsafe { self.kernel.submission().push(&entry) };
        pushed.expect("the queue has an entry for each flight");
    }

    /// Submits the queued flights. Returns whether all were submitted; otherwise the kernel lacks a
    /// resource, and the caller retries.
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

    /// Whether a completion can be reaped.
    pub(super) fn has_ended(&mut self) -> bool {
        !self.kernel.completion().is_empty()
    }

    /// A completion, and its outcome. The rest of a short transfer is queued again, and needs a
    /// start.
    pub(super) fn reap(&mut self) -> Option<(Flight, io::Result<()>)> {
        loop {
            let entry = self.kernel.completion().next()?;
            let index = usize::try_from(entry.user_data()).expect("an index");
            let mut flight = self.flights[index].take().expect("it was in flight");
            self.free.push(index);
            match flight.evaluate(entry.result()) {
                Some(how) => return Some((flight, how)),
                // The rest is not a retry: it has not been transferred.
                None => self.push(flight),
            }
        }
    }
}

impl AsFd for Ring {
    /// Readable when a completion can be reaped.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.kernel.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.flights.iter().any(Option::is_some) {
            match self.kernel.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    // The kernel may write there until the process ends.
                    core::mem::forget(core::mem::take(&mut self.flights));
                    return;
                }
                _ => {}
            }
            for entry in self.kernel.completion() {
                let index = usize::try_from(entry.user_data()).expect("an index");
                self.flights[index] = None;
            }
        }
    }
}

/// Sets up io_uring; if supported, completions do not interrupt a running thread.
fn set_up(entries: u32) -> io::Result<IoUring> {
    let calm = IoUring::builder().dontfork().setup_coop_taskrun().build(entries);
    calm.or_else(|_| IoUring::builder().dontfork().build(entries))
}

/// Registers the slots, by their indices.
fn register(kernel: &IoUring, slots: &mut [AlignedBuffer]) -> io::Result<()> {
    let mut buffers: Vec<_> =
        slots.iter_mut().map(|slot| IoSliceMut::new(slot.bytes(slot.len()))).collect();
    // SAFETY: `IoSliceMut` has the layout of iovec (documented), and the count is that of the
    // vector.
    let buffers =
        unsafe { core::slice::from_raw_parts(buffers.as_mut_ptr().cast(), buffers.len()) };
    // SAFETY: the buffers are whole and owned by the slots. The kernel pins their pages while the
    // ring exists, and accesses them for flights only; each belongs to one flight or to none.
    unsafe { kernel.submitter().register_buffers(buffers) }
}

#[cfg(test)]
mod tests {
    use units::{Lba, Op, Operation};

    use super::*;
    use crate::disk::Tag;

    fn flight(does: Does) -> Flight {
        let blocks = Extent::new(Lba(8), Sectors(4));
        let operation = Operation { op: Op::Read, extent: blocks, fua: false };
        let job = Job { tag: Tag(1), operation, data: Buffers::default(), no_hole: false };
        let memory = Memory::Payload(Vec::with_capacity(2_048).into(), Vec::new());
        Flight::new(job, does, blocks, memory)
    }

    /// The outcomes of these results, in order.
    fn outcomes(flight: &mut Flight, results: &[i32]) -> Vec<Option<Result<(), io::ErrorKind>>> {
        let outcomes = results.iter().map(|result| flight.evaluate(*result));
        outcomes.map(|how| how.map(|how| how.map_err(|error| error.kind()))).collect()
    }

    #[test]
    fn what_was_cut_short_goes_on_where_it_was_and_fails_where_nothing_comes() {
        let mut read = flight(Does::Read);
        let interrupted = -Errno::INTR.raw_os_error();
        assert_eq!(outcomes(&mut read, &[512, interrupted]), [None, None]);
        assert_eq!(read.moved, 512);
        assert_eq!(outcomes(&mut read, &[0]), [Some(Err(io::ErrorKind::UnexpectedEof))]);
        let forced = Does::Write { forced: true };
        assert_eq!(outcomes(&mut flight(forced), &[1_024, 1_024]), [None, Some(Ok(()))]);
        assert_eq!(outcomes(&mut flight(forced), &[0]), [Some(Err(io::ErrorKind::WriteZero))]);
        let full = -Errno::NOSPC.raw_os_error();
        assert_eq!(outcomes(&mut flight(forced), &[full]), [Some(Err(io::ErrorKind::StorageFull))]);
    }

    #[test]
    fn a_list_that_was_cut_short_goes_on_in_the_middle_of_a_part() {
        let part = |len| Part { len: Sectors(len), bytes: vec![0; Sectors(len).bytes_usize()] };
        let mut parts = [part(1), part(2), part(3)];
        let at: Vec<_> = parts.iter().map(|part| part.bytes.as_ptr().addr()).collect();
        let mut vector = Vec::new();
        let mut rest = |skip| {
            describe(&mut parts, skip, &mut vector);
            vector.iter().map(|part| (part.base, part.len)).collect::<Vec<_>>()
        };
        assert_eq!(rest(0), [(at[0], 512), (at[1], 1_024), (at[2], 1_536)]);
        assert_eq!(rest(512), [(at[1], 1_024), (at[2], 1_536)]);
        assert_eq!(rest(700), [(at[1] + 188, 836), (at[2], 1_536)]);
        assert_eq!(rest(3_071), [(at[2] + 1_535, 1)]);
    }
}
