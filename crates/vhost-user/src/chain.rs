//! Descriptor chains, and the requests that they describe (virtio 1.2, sections 2.7 and 5.2.6).
//!
//! Descriptors are copied out of the guest's memory one by one, and what is checked is the copy.
//! The order of the two directions, the header and the limits are checked before anything is done.

use units::{Extent, Lba, SECTOR_BYTES, Sectors};
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use crate::limits::DISCARD_SECTORS_MAX;
use crate::segments::Segments;

const DESCRIPTOR_BYTES: u64 = 16;
/// The header of a request: its type, four reserved bytes, and its first sector.
const HEADER_BYTES: usize = 16;
/// The range of a discard: its first sector, the number of sectors, and flags.
const RANGE_BYTES: usize = 16;
/// In the flags of a range: the sectors may be deallocated.
const UNMAP: u32 = 1;

mod kind {
    pub(super) const READ: u32 = 0;
    pub(super) const WRITE: u32 = 1;
    pub(super) const FLUSH: u32 = 4;
    pub(super) const GET_ID: u32 = 8;
    pub(super) const DISCARD: u32 = 11;
    pub(super) const WRITE_ZEROES: u32 = 13;
}

/// The status of a request, in its last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 0,
    IoError = 1,
    Unsupported = 2,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Read(Extent),
    Write(Extent),
    Flush,
    Discard(Extent),
    WriteZeroes { extent: Extent, unmap: bool },
    Serial,
}

/// A request's chain, taken apart. The status is one byte.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The bytes from the driver, behind the header.
    pub(crate) from_driver: Segments,
    /// The bytes for the driver, before the status.
    pub(crate) to_driver: Segments,
    pub(crate) status: Segments,
    header: [u8; HEADER_BYTES],
}

/// Why a chain is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadChain {
    /// A descriptor outside of its table, a chain longer than its table, or a table within a table.
    Descriptors,
    /// Memory outside of the guest's, or more of it than a request may have.
    Memory,
    /// A descriptor from the driver behind one for the driver.
    Order,
    /// No whole header.
    Header,
    /// No byte for the status.
    Status,
}

impl Chain {
    /// Takes apart the chain that begins at `head`, in a table of `size` descriptors.
    pub(crate) fn read(
        memory: &GuestMemoryMmap,
        (table, size): (GuestAddress, u16),
        head: u16,
    ) -> Result<Self, BadChain> {
        let (mut from_driver, mut to_driver) = (Segments::default(), Segments::default());
        let mut walk = Walk { memory, table, size, next: Some(head), left: size, indirect: false };
        while let Some(descriptor) = walk.step()? {
            let part = if descriptor.is_write_only() {
                &mut to_driver
            } else if to_driver.len() == 0 {
                &mut from_driver
            } else {
                return Err(BadChain::Order);
            };
            let pushed = part.push(memory, descriptor.addr(), descriptor.len());
            pushed.map_err(|_| BadChain::Memory)?;
        }
        if from_driver.len() < HEADER_BYTES {
            return Err(BadChain::Header);
        }
        if to_driver.len() == 0 {
            return Err(BadChain::Status);
        }
        let data = from_driver.split_off(HEADER_BYTES);
        let mut header = [0; HEADER_BYTES];
        from_driver.read(memory, &mut header).map_err(|_| BadChain::Memory)?;
        let status = to_driver.split_off(to_driver.len() - 1);
        Ok(Self { from_driver: data, to_driver, status, header })
    }

    /// Whether it asks for bytes of the disk.
    pub(crate) fn is_read(&self) -> bool {
        self.header[..4] == kind::READ.to_le_bytes()
    }

    /// What it asks for.
    pub(crate) fn asked(&self, memory: &GuestMemoryMmap) -> Result<Asked, Status> {
        let kind = self.header.first_chunk::<4>().expect("sixteen bytes");
        let sector = self.header.last_chunk::<8>().expect("sixteen bytes");
        let first = Lba(u64::from_le_bytes(*sector));
        let extent = |len: usize| {
            let sectors = len as u64 / SECTOR_BYTES;
            let whole = len > 0 && (len as u64).is_multiple_of(SECTOR_BYTES);
            whole.then_some(()).and_then(|()| extent(first, sectors)).ok_or(Status::IoError)
        };
        match u32::from_le_bytes(*kind) {
            kind::READ => extent(self.to_driver.len()).map(Asked::Read),
            kind::WRITE => extent(self.from_driver.len()).map(Asked::Write),
            kind::FLUSH => Ok(Asked::Flush),
            kind::GET_ID => Ok(Asked::Serial),
            kind::DISCARD => match self.range(memory)? {
                (extent, 0) => Ok(Asked::Discard(extent)),
                _ => Err(Status::Unsupported),
            },
            kind::WRITE_ZEROES => match self.range(memory)? {
                (extent, flags @ 0..=UNMAP) => {
                    Ok(Asked::WriteZeroes { extent, unmap: flags == UNMAP })
                }
                _ => Err(Status::Unsupported),
            },
            _ => Err(Status::Unsupported),
        }
    }

    /// The range of a discard or of a write of zeroes, and its flags. One range is allowed, as the
    /// configuration space says.
    fn range(&self, memory: &GuestMemoryMmap) -> Result<(Extent, u32), Status> {
        let mut range = [0; RANGE_BYTES];
        if self.from_driver.len() != RANGE_BYTES {
            return Err(Status::IoError);
        }
        self.from_driver.read(memory, &mut range).map_err(|_| Status::IoError)?;
        let (first, rest) = range.split_first_chunk::<8>().expect("sixteen bytes");
        let (count, flags) = rest.split_first_chunk::<4>().expect("eight bytes");
        let flags = flags.first_chunk::<4>().expect("four bytes");
        let (count, flags) = (u32::from_le_bytes(*count), u32::from_le_bytes(*flags));
        if count == 0 || count > DISCARD_SECTORS_MAX {
            return Err(Status::IoError);
        }
        let extent = extent(Lba(u64::from_le_bytes(*first)), count.into());
        Ok((extent.ok_or(Status::IoError)?, flags))
    }
}

/// An extent whose end is a sector number.
fn extent(first: Lba, sectors: u64) -> Option<Extent> {
    first.0.checked_add(sectors).map(|_| Extent::new(first, Sectors(sectors)))
}

/// A walk along the descriptors of a chain.
struct Walk<'a> {
    memory: &'a GuestMemoryMmap,
    table: GuestAddress,
    size: u16,
    next: Option<u16>,
    /// The descriptors that the chain may still have: one in a circle has more.
    left: u16,
    indirect: bool,
}

impl Walk<'_> {
    /// The next descriptor with an address of bytes.
    fn step(&mut self) -> Result<Option<Descriptor>, BadChain> {
        loop {
            let Some(index) = self.next.take() else { return Ok(None) };
            if index >= self.size || self.left == 0 {
                return Err(BadChain::Descriptors);
            }
            self.left -= 1;
            let at = self.table.0.checked_add(u64::from(index) * DESCRIPTOR_BYTES);
            let at = at.ok_or(BadChain::Descriptors)?;
            let descriptor: Descriptor =
                self.memory.read_obj(GuestAddress(at)).map_err(|_| BadChain::Descriptors)?;
            if !descriptor.refers_to_indirect_table() {
                self.next = descriptor.has_next().then_some(descriptor.next());
                return Ok(Some(descriptor));
            }
            // A table ends the chain, and has no table in it.
            let bytes = u64::from(descriptor.len());
            let size = u16::try_from(bytes / DESCRIPTOR_BYTES).ok();
            let size = size.filter(|size| *size > 0 && bytes.is_multiple_of(DESCRIPTOR_BYTES));
            if self.indirect || descriptor.has_next() {
                return Err(BadChain::Descriptors);
            }
            self.size = size.ok_or(BadChain::Descriptors)?;
            (self.table, self.left, self.indirect) = (descriptor.addr(), self.size, true);
            self.next = Some(0);
        }
    }
}
