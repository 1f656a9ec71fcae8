//! Blocking system calls on an open disk: by whole blocks, from aligned memory.
//!
//! A write of a part of a block is a read-modify-write. No other command touches such a block
//! meanwhile: the caller ensures it.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use units::{Extent, Lba, Op, Operation, SECTOR_BYTES, Sectors};

use super::open::RealOptions;
use crate::buffers::Buffers;
use crate::device::{AlignedBuffer, DeviceInfo, MEMORY_ALIGN, WriteCache, WriteCacheUse};
use crate::disk::{Failure, Job};
use crate::limits::PARTS_MAX;
use crate::vectored;

/// The zeroes that are written at a time where the file system or device cannot zero.
const FILL: Sectors = Sectors(2_048);

/// An open disk, shared by all threads.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) file: File,
    /// The logical block: every access begins and ends on one.
    pub(super) block: Sectors,
    /// The alignment of memory for direct access.
    memory_align: usize,
    /// The sysfs directory of a block device, which exists while the device does.
    sysfs: Option<PathBuf>,
    /// The drive's write cache, which is as it was when this is dropped.
    pub(super) cache: Option<WriteCache>,
    /// Whether a flush is to follow a forced write.
    pub(super) flushes: bool,
}

impl Drop for Open {
    /// A process that is being started shares the file until its exec: closing ours alone would not
    /// release the lock.
    fn drop(&mut self) {
        // Before another process can open the disk.
        drop(self.cache.take());
        // A lock that cannot be released ends with the process.
        let _ = self.file.unlock();
    }
}

impl Open {
    pub(super) fn new(
        file: File,
        facts: &DeviceInfo,
        (opening, cache): (RealOptions, Option<WriteCache>),
    ) -> Self {
        let RealOptions { buffered, write_cache, .. } = opening;
        let block = facts.logical_sector.sectors_floor();
        let block = if buffered { Sectors(1) } else { block };
        // The page cache takes any address.
        let memory_align = if buffered { 1 } else { facts.memory_align };
        let sysfs = facts.sysfs.clone();
        let flushes = match &cache {
            Some(cache) => cache.needs_flush(),
            None => write_cache == WriteCacheUse::Flushed,
        };
        Self { file, block, memory_align, sysfs, cache, flushes }
    }

    /// The whole blocks that the extent touches.
    pub(super) fn blocks(&self, extent: Extent) -> Extent {
        let block = self.block.0;
        let start = extent.start.0 / block * block;
        let end = extent.end().0.div_ceil(block) * block;
        Extent::new(Lba(start), Sectors(end - start))
    }

    /// Whether the extent begins or ends within a block.
    pub(super) fn splits_blocks(&self, extent: Extent) -> bool {
        self.blocks(extent) != extent
    }

    /// Whether the kernel can transfer the extent from or to these buffers where they are: each has
    /// capacity for its part, is aligned for direct access and holds whole blocks.
    pub(super) fn suits(&self, extent: Extent, data: &Buffers) -> bool {
        data.count() <= PARTS_MAX
            && data.parts(extent).all(|(part, bytes)| {
                bytes.capacity() >= part.len.bytes_usize()
                    && bytes.as_ptr().align_offset(self.memory_align) == 0
                    && !self.splits_blocks(part)
            })
    }

    /// Classifies an error; [`Failure::Offline`] if the device has been removed.
    pub(super) fn failure(&self, error: &io::Error) -> Failure {
        let gone = [Errno::NODEV, Errno::NXIO, Errno::NOMEDIUM].map(Errno::raw_os_error);
        let gone = error.raw_os_error().is_some_and(|errno| gone.contains(&errno))
            || self.sysfs.as_ref().is_some_and(|sysfs| !sysfs.exists());
        match error.kind() {
            _ if gone => Failure::Offline,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Failure::NoSpace,
            _ => Failure::Io,
        }
    }
}

/// Makes blocking system calls, with a buffer of its own.
#[derive(Debug)]
pub(super) struct Caller {
    open: Arc<Open>,
    memory: AlignedBuffer,
}

impl Caller {
    pub(super) fn new(open: Arc<Open>) -> Self {
        Self { open, memory: AlignedBuffer::new(0, MEMORY_ALIGN) }
    }

    /// Executes a job. What it reads is in its buffers then.
    pub(super) fn carry_out(&mut self, job: &mut Job) -> Result<(), Failure> {
        let Operation { op, extent, fua } = job.operation;
        let done = match op {
            Op::Read => self.read_into(extent, &mut job.data),
            Op::Write => self.write(extent, &job.data, fua),
            Op::Flush => self.open.file.sync_data(),
            Op::Seek => Ok(()),
            Op::Trim | Op::WriteZeroes => {
                let keep = op == Op::WriteZeroes && job.no_hole;
                let zeroed = self.zero(extent, keep);
                zeroed.and_then(|()| if fua { self.open.file.sync_data() } else { Ok(()) })
            }
        };
        done.map_err(|error| self.open.failure(&error))
    }

    pub(super) fn read(&mut self, extent: Extent) -> Result<Vec<u8>, Failure> {
        let mut data = Buffers::default();
        let read = self.read_into(extent, &mut data);
        read.map(|()| data.into_bytes()).map_err(|error| self.open.failure(&error))
    }

    fn read_into(&mut self, extent: Extent, data: &mut Buffers) -> io::Result<()> {
        data.prepare(extent);
        if self.open.suits(extent, data) {
            return vectored::read(&self.open.file, extent, data);
        }
        let blocks = self.open.blocks(extent);
        let bytes = blocks.len.bytes_usize();
        self.reach(bytes);
        let memory = self.memory.bytes(bytes);
        self.open.file.read_exact_at(memory, at(blocks))?;
        data.scatter(extent, &self.memory.bytes(bytes)[within(blocks, extent)]);
        Ok(())
    }

    fn write(&mut self, extent: Extent, data: &Buffers, fua: bool) -> io::Result<()> {
        let (flushes, forced) = (fua && self.open.flushes, fua && !self.open.flushes);
        if self.open.suits(extent, data) {
            vectored::write(&self.open.file, extent, data, forced)?;
        } else {
            self.write_copied(extent, data, forced)?;
        }
        if flushes { self.open.file.sync_data() } else { Ok(()) }
    }

    /// Writes from the aligned buffer, which has room for the rest of the blocks.
    fn write_copied(&mut self, extent: Extent, data: &Buffers, forced: bool) -> io::Result<()> {
        let blocks = self.open.blocks(extent);
        let bytes = blocks.len.bytes_usize();
        self.reach(bytes);
        if blocks != extent {
            self.read_edges(blocks)?;
        }
        let memory = self.memory.bytes(bytes);
        data.gather(extent, &mut memory[within(blocks, extent)]);
        if forced {
            return write_through(&self.open.file, memory, at(blocks));
        }
        self.open.file.write_all_at(memory, at(blocks))
    }

    /// Reads the first and the last block of a read-modify-write.
    fn read_edges(&mut self, blocks: Extent) -> io::Result<()> {
        let block = self.open.block;
        let bytes = blocks.len.bytes_usize();
        let edge = block.bytes_usize();
        let memory = self.memory.bytes(bytes);
        self.open.file.read_exact_at(&mut memory[..edge], at(blocks))?;
        if bytes > edge {
            let last = at(blocks) + (bytes - edge) as u64;
            self.open.file.read_exact_at(&mut memory[bytes - edge..], last)?;
        }
        Ok(())
    }

    /// Zeroes the sectors: by a hole, by a zeroed range, or by writing. None is a retry of a
    /// failure: an unsupported method has had no effect.
    fn zero(&mut self, extent: Extent, keep: bool) -> io::Result<()> {
        let (before, whole, after) = self.parts(extent);
        for part in [before, after] {
            self.fill(part)?;
        }
        if whole.is_empty() {
            return Ok(());
        }
        // On a block device both methods guarantee zeroes (blkdev_fallocate), unlike BLKDISCARD.
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let kept = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        for how in [hole, kept] {
            if keep && how == hole {
                continue;
            }
            match fallocate(&self.open.file, how, at(whole), whole.len.bytes().0) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                other => return other.map_err(io::Error::from),
            }
        }
        self.fill(whole)
    }

    /// Splits the extent: the part before its whole blocks, those, and the part behind them.
    fn parts(&self, extent: Extent) -> (Extent, Extent, Extent) {
        let block = self.open.block.0;
        let start = extent.start.0.next_multiple_of(block).min(extent.end().0);
        let end = (extent.end().0 / block * block).max(start);
        let part = |from: u64, to: u64| Extent::new(Lba(from), Sectors(to - from));
        (part(extent.start.0, start), part(start, end), part(end, extent.end().0))
    }

    fn fill(&mut self, extent: Extent) -> io::Result<()> {
        let mut rest = extent;
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(FILL.min(rest.len));
            self.write(piece, &vec![0; piece.len.bytes_usize()].into(), false)?;
            rest = tail;
        }
        Ok(())
    }

    /// Grows the buffer to at least `bytes`.
    fn reach(&mut self, bytes: usize) {
        if bytes > self.memory.len() {
            self.memory = AlignedBuffer::new(bytes, MEMORY_ALIGN);
        }
    }
}

fn at(extent: Extent) -> u64 {
    extent.start.0 * SECTOR_BYTES
}

/// The extent's bytes among those of its blocks.
pub(super) fn within(blocks: Extent, extent: Extent) -> Range<usize> {
    let start = Sectors(extent.start.0 - blocks.start.0).bytes_usize();
    start..start + extent.len.bytes_usize()
}

/// Writes durably (`RWF_DSYNC`).
fn write_through(file: &File, mut data: &[u8], mut at: u64) -> io::Result<()> {
    while !data.is_empty() {
        match pwritev2(file, &[IoSlice::new(data)], at, ReadWriteFlags::DSYNC) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(moved) => {
                data = &data[moved..];
                at += moved as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
