//! One virtqueue: taking requests from it, and returning them.
//!
//! Invariants: a request is returned once; a request that was taken is marked in the memory of
//! requests in progress until it is returned; a driver that breaks the rules stops its own queue,
//! and nothing else.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nbd::{Errno, Intake};
use units::{Op, Operation};
use virtio_queue::{Queue, QueueOwnedT as _, QueueT as _};
use vm_memory::{GuestAddress, GuestMemoryMmap};

use crate::chain::{Asked, BadChain, Chain, Status};
use crate::in_flight::InFlightQueue;
use crate::limits::{QUEUE_SIZE_MAX, REQUEST_BYTES_MAX, SERIAL_BYTES};
use crate::memory::SharedMemory;

/// The addresses of a queue's parts, as the virtual machine monitor knows them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
}

/// What a driver has done that stops its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The available ring is not one.
    AvailableRing,
    /// The used ring cannot be written.
    UsedRing,
    /// A request was made available that is in progress.
    Twice,
    /// A chain that is no request.
    Chain(BadChain),
}

/// A queue that cannot be started: its addresses are not in the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unusable;

/// What the rings of a device share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// The device's name, which a driver can read.
    pub(crate) serial: &'a str,
    /// Whether the driver flushes. Of one that does not, each write is durable.
    pub(crate) flushes: bool,
}

/// A request in progress.
#[derive(Debug)]
struct Open {
    /// The memory that its addresses belong to.
    memory: Arc<GuestMemoryMmap>,
    chain: Chain,
}

/// One virtqueue.
#[derive(Debug)]
pub(crate) struct Ring {
    index: u16,
    queue: Queue,
    addresses: Addresses,
    memory: Option<Arc<GuestMemoryMmap>>,
    pub(crate) kick: Option<File>,
    pub(crate) call: Option<File>,
    pub(crate) enabled: bool,
    started: bool,
    broken: Option<Broken>,
    in_flight: Option<InFlightQueue>,
    /// Requests that the daemon before this one had taken, in their order.
    again: VecDeque<u16>,
    /// By head.
    open: Vec<Option<Open>>,
    open_count: usize,
    /// Requests were returned since the driver was last notified.
    returned: bool,
}

/// The cookie of a request.
pub(crate) const fn cookie(ring: u16, head: u16) -> u64 {
    (ring as u64) << 16 | head as u64
}

/// The ring and the head of a cookie.
pub(crate) fn of_cookie(cookie: u64) -> (usize, u16) {
    let part = |bits: u64| u16::try_from(bits & 0xffff).expect("sixteen bits");
    (part(cookie >> 16).into(), part(cookie))
}

impl Ring {
    pub(crate) fn new(index: u16) -> Self {
        Self {
            index,
            queue: Queue::new(QUEUE_SIZE_MAX).expect("the limit is a power of two"),
            addresses: Addresses::default(),
            memory: None,
            kick: None,
            call: None,
            enabled: false,
            started: false,
            broken: None,
            in_flight: None,
            again: VecDeque::new(),
            open: Vec::new(),
            open_count: 0,
            returned: false,
        }
    }

    pub(crate) fn set_size(&mut self, size: u32) -> Result<(), Unusable> {
        let size = u16::try_from(size).map_err(|_| Unusable)?;
        self.queue.try_set_size(size).map_err(|_| Unusable)
    }

    pub(crate) const fn set_addresses(&mut self, addresses: Addresses) {
        self.addresses = addresses;
    }

    /// Where the driver's next request is.
    pub(crate) fn set_base(&mut self, base: u32) -> Result<(), Unusable> {
        self.queue.set_next_avail(u16::try_from(base).map_err(|_| Unusable)?);
        Ok(())
    }

    pub(crate) fn base(&self) -> u16 {
        self.queue.next_avail()
    }

    pub(crate) fn size(&self) -> u16 {
        self.queue.size()
    }

    pub(crate) const fn is_started(&self) -> bool {
        self.started
    }

    /// Whether no request is in progress, and none is to be carried out again.
    pub(crate) fn is_drained(&self) -> bool {
        self.open_count == 0 && (self.again.is_empty() || self.broken.is_some())
    }

    /// Starts the queue. Requests that were in progress are carried out again.
    pub(crate) fn start(
        &mut self,
        shared: &SharedMemory,
        event_index: bool,
        in_flight: Option<InFlightQueue>,
    ) -> Result<(), Unusable> {
        assert_eq!(self.open_count, 0, "a queue that is started has no request in progress");
        let Addresses { descriptors, available, used } = self.addresses;
        let at = |user| shared.guest_address(user).ok_or(Unusable);
        let (descriptors, available, used) = (at(descriptors)?, at(available)?, at(used)?);
        let queue = &mut self.queue;
        queue.try_set_desc_table_address(descriptors).map_err(|_| Unusable)?;
        queue.try_set_avail_ring_address(available).map_err(|_| Unusable)?;
        queue.try_set_used_ring_address(used).map_err(|_| Unusable)?;
        queue.set_event_idx(event_index);
        queue.set_ready(true);
        let memory = shared.memory();
        if !queue.is_valid(&**memory) {
            return Err(Unusable);
        }
        let used = queue.used_idx(&**memory, Ordering::Acquire).map_err(|_| Unusable)?.0;
        queue.set_next_used(used);
        self.again.clear();
        self.in_flight = in_flight;
        if let Some(in_flight) = &mut self.in_flight {
            self.again.extend(in_flight.recover(used));
            let count = u16::try_from(self.again.len()).map_err(|_| Unusable)?;
            self.queue.set_next_avail(used.wrapping_add(count));
        }
        self.open.clear();
        self.open.resize_with(self.queue.size().into(), || None);
        self.memory = Some(Arc::clone(memory));
        (self.started, self.broken, self.returned) = (true, None, false);
        self.wake();
        Ok(())
    }

    /// The guest's memory has changed.
    pub(crate) fn set_memory(&mut self, shared: &SharedMemory) {
        if self.started {
            self.memory = Some(Arc::clone(shared.memory()));
        }
    }

    /// No further request is taken.
    pub(crate) const fn stop(&mut self) {
        self.started = false;
    }

    /// Has the queue looked at.
    pub(crate) fn wake(&self) {
        signal(self.kick.as_ref());
    }

    /// Takes requests, as long as there is room. Returns what the driver has newly broken.
    pub(crate) fn receive(&mut self, terms: Terms<'_>, intake: &mut Intake<'_>) -> Option<Broken> {
        let memory = self.memory.clone()?;
        while self.broken.is_none() {
            let takes = self.started && self.enabled;
            if !takes && self.again.is_empty() || !intake.has_room(REQUEST_BYTES_MAX) {
                return None;
            }
            let head = match self.next_head(&memory, takes) {
                Ok(Some(head)) => head,
                Ok(None) => return None,
                Err(broken) => return Some(self.stop_broken(broken)),
            };
            if let Err(broken) = self.submit(&memory, head, terms, intake) {
                return Some(self.stop_broken(broken));
            }
        }
        None
    }

    const fn stop_broken(&mut self, broken: Broken) -> Broken {
        self.broken = Some(broken);
        broken
    }

    /// The next request to be carried out.
    fn next_head(
        &mut self,
        memory: &Arc<GuestMemoryMmap>,
        takes: bool,
    ) -> Result<Option<u16>, Broken> {
        if let Some(head) = self.again.pop_front() {
            return Ok(Some(head));
        }
        if !takes {
            return Ok(None);
        }
        loop {
            let mut available = self.queue.iter(&**memory).map_err(|_| Broken::AvailableRing)?;
            if let Some(chain) = available.next() {
                let head = chain.head_index();
                if head >= self.queue.size() {
                    return Err(Broken::AvailableRing);
                }
                if self.open[usize::from(head)].is_some() {
                    return Err(Broken::Twice);
                }
                if let Some(in_flight) = &mut self.in_flight {
                    in_flight.on_taken(head);
                }
                return Ok(Some(head));
            }
            // Requests that come before the driver knows that it has to notify are seen here.
            match self.queue.enable_notification(&**memory) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(_) => return Err(Broken::UsedRing),
            }
        }
    }

    /// Submits the request at `head`, or returns it at once.
    fn submit(
        &mut self,
        memory: &Arc<GuestMemoryMmap>,
        head: u16,
        terms: Terms<'_>,
        intake: &mut Intake<'_>,
    ) -> Result<(), Broken> {
        let table = (GuestAddress(self.queue.desc_table()), self.queue.size());
        let chain = Chain::read(memory, table, head).map_err(Broken::Chain)?;
        let asked = chain.asked(memory);
        let mut open = Open { memory: Arc::clone(memory), chain };
        let mut data = Vec::new();
        let (operation, no_hole) = match asked {
            Err(status) => return self.give_back(head, &mut open, status, 0),
            Ok(Asked::Serial) => {
                let (status, written) = write_serial(&open, terms.serial);
                return self.give_back(head, &mut open, status, written);
            }
            Ok(Asked::Read(extent)) => (Operation::read(extent), false),
            Ok(Asked::Write(extent)) => {
                data = intake.buffer(open.chain.from_driver.len());
                if open.chain.from_driver.read(memory, &mut data).is_err() {
                    return self.give_back(head, &mut open, Status::IoError, 0);
                }
                (Operation { op: Op::Write, extent, fua: !terms.flushes }, false)
            }
            Ok(Asked::Flush) => (Operation::flush(), false),
            Ok(Asked::Discard(extent)) => {
                (Operation { op: Op::Trim, extent, fua: !terms.flushes }, false)
            }
            Ok(Asked::WriteZeroes { extent, unmap }) => {
                (Operation { op: Op::WriteZeroes, extent, fua: !terms.flushes }, !unmap)
            }
        };
        let submitted = intake.submit(cookie(self.index, head), operation, no_hole, data);
        if submitted.is_err() {
            return self.give_back(head, &mut open, Status::IoError, 0);
        }
        self.open[usize::from(head)] = Some(open);
        self.open_count += 1;
        Ok(())
    }

    /// Completes a request that was submitted. Returns a buffer for reuse, and what the driver has
    /// newly broken.
    pub(crate) fn complete(
        &mut self,
        head: u16,
        result: Result<Vec<u8>, Errno>,
    ) -> (Vec<u8>, Option<Broken>) {
        let open = self.open.get_mut(usize::from(head)).and_then(Option::take);
        let mut open = open.expect("a request that is completed is in progress");
        self.open_count -= 1;
        let (status, written, buffer) = match result {
            // Only a read has bytes for the driver; a write may return its own.
            Ok(data) if open.chain.is_read() => {
                match open.chain.to_driver.write(&open.memory, &data) {
                    Ok(written) => (Status::Ok, written, data),
                    Err(_) => (Status::IoError, 0, data),
                }
            }
            Ok(data) => (Status::Ok, 0, data),
            Err(Errno::NotSup) => (Status::Unsupported, 0, Vec::new()),
            Err(_) => (Status::IoError, 0, Vec::new()),
        };
        let broken = self.give_back(head, &mut open, status, written).err();
        let newly = broken.filter(|_| self.broken.is_none());
        (buffer, newly.map(|broken| self.stop_broken(broken)))
    }

    /// Returns a request to the driver.
    fn give_back(
        &mut self,
        head: u16,
        open: &mut Open,
        status: Status,
        written: u32,
    ) -> Result<(), Broken> {
        // The byte was mapped when the chain was read, and its memory is still there.
        let _ = open.chain.status.write(&open.memory, &[status as u8]);
        let memory = self.memory.as_ref().expect("a queue with requests has memory");
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.before_used(head);
        }
        let added = self.queue.add_used(&**memory, head, written + 1);
        added.map_err(|_| Broken::UsedRing)?;
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.after_used(head, self.queue.next_used());
        }
        self.returned = true;
        Ok(())
    }

    /// Notifies the driver of what was returned, if it wants to know.
    pub(crate) fn flush(&mut self) {
        if !core::mem::take(&mut self.returned) {
            return;
        }
        let Some(memory) = &self.memory else { return };
        if self.queue.needs_notification(&**memory).unwrap_or(true) {
            signal(self.call.as_ref());
        }
    }
}

/// Writes the name that a driver can read, without a length: zeroes fill the rest.
fn write_serial(open: &Open, serial: &str) -> (Status, u32) {
    let mut bytes = [0; SERIAL_BYTES];
    let len = serial.len().min(SERIAL_BYTES);
    bytes[..len].copy_from_slice(&serial.as_bytes()[..len]);
    let room = open.chain.to_driver.len().min(SERIAL_BYTES);
    match open.chain.to_driver.write(&open.memory, &bytes[..room]) {
        Ok(written) => (Status::Ok, written),
        Err(_) => (Status::IoError, 0),
    }
}

/// Counts one event in an eventfd.
fn signal(fd: Option<&File>) {
    // One that cannot count is full, or no eventfd: then its owner sees no event.
    let _ = fd.map(|fd| rustix::io::write(fd.as_fd(), &1_u64.to_ne_bytes()));
}
