//! The bytes of a pool's requests and copies that are in progress.

use std::collections::BTreeMap;

use backend::Failure;
use nbd::{ClientRequestId, Errno, Transport};
use units::{Extent, Op, Operation, Sectors};
use volume::pool::flow::{CopyId, PoolRequestId};
use volume::pool::sums::{SUM_SECTORS, Sum, whole_sums};

use crate::slots::Slots;

/// A client's request.
#[derive(Debug)]
pub(super) struct BufferedRequest {
    pub(super) id: ClientRequestId,
    operation: Operation,
    /// The bytes to write, or those read so far.
    data: Vec<u8>,
    /// The checksums of the whole 4 KiB that it writes, if they were computed.
    sums: Option<Vec<Sum>>,
    /// Whether its bytes are written more than once: to each copy, and again without a disk that
    /// failed.
    is_mirrored: bool,
}

impl BufferedRequest {
    /// The result that the client is told.
    pub(super) fn result(self, refused: Option<Errno>) -> Result<Vec<u8>, Errno> {
        if let Some(errno) = refused {
            return Err(errno);
        }
        let mut data = self.data;
        if self.operation.op == Op::Read {
            // Unmapped blocks read as zeroes.
            data.resize(self.operation.extent.len.bytes_usize(), 0);
        }
        Ok(data)
    }
}

/// The buffers of requests, by slot, and of copies.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    requests: Slots<BufferedRequest>,
    /// The bytes of each copy, and whether checksums of them were known where they were read.
    copies: BTreeMap<CopyId, (Vec<u8>, bool)>,
}

impl Buffers {
    /// Takes a client's request to a volume that is a mirror, or is none.
    pub(super) fn insert(
        &mut self,
        (request, sums): (nbd::Request, Option<Vec<Sum>>),
        is_mirrored: bool,
    ) -> PoolRequestId {
        let nbd::Request { id, operation, mut data, .. } = request;
        if operation.op == Op::Read {
            data.clear();
        }
        let request = BufferedRequest { id, operation, data, sums, is_mirrored };
        PoolRequestId(self.requests.insert(request))
    }

    /// How the client of a request came.
    pub(super) fn transport(&self, id: PoolRequestId) -> Transport {
        self.requests.get(id.0).id.connection.transport()
    }

    /// Removes a request that is answered.
    pub(super) fn remove(&mut self, id: PoolRequestId) -> BufferedRequest {
        self.requests.remove(id.0)
    }

    /// The bytes that a piece of a request writes. A piece that is the whole request, and the only
    /// one, takes the request's own buffer.
    pub(super) fn payload(&mut self, id: PoolRequestId, at: Sectors, len: Sectors) -> Vec<u8> {
        let request = self.requests.get_mut(id.0);
        if len == request.operation.extent.len && !request.is_mirrored {
            return core::mem::take(&mut request.data);
        }
        let start = at.bytes_usize();
        request.data[start..start + len.bytes_usize()].to_vec()
    }

    /// The checksums of the whole 4 KiB of a piece that writes to this extent of a disk, if they
    /// were computed. Blocks begin at whole 4 KiB of volumes and of disks.
    pub(super) fn sums(
        &mut self,
        id: PoolRequestId,
        at: Sectors,
        extent: Extent,
    ) -> Option<Vec<Sum>> {
        let request = self.requests.get_mut(id.0);
        let start = request.operation.extent.start + at;
        if start.0 % SUM_SECTORS != extent.start.0 % SUM_SECTORS {
            return None;
        }
        if extent.len == request.operation.extent.len && !request.is_mirrored {
            return request.sums.take();
        }
        let sums = request.sums.as_ref()?;
        let part = whole_sums(Extent::new(start, extent.len));
        let first = whole_sums(request.operation.extent).start;
        let index = |sum: u64| usize::try_from(sum - first).expect("a request is in memory");
        Some(sums.get(index(part.start)..index(part.end))?.to_vec())
    }

    /// Stores what a piece of a request has read. Of one that failed nothing is stored: what the
    /// client is told is the pool's to decide.
    pub(super) fn collect(
        &mut self,
        id: PoolRequestId,
        at: Sectors,
        result: Result<Vec<u8>, Failure>,
    ) {
        let request = self.requests.get_mut(id.0);
        let Ok(data) = result else { return };
        if request.operation.op != Op::Read {
            return;
        }
        let whole = request.operation.extent.len.bytes_usize();
        if data.len() == whole {
            request.data = data;
            return;
        }
        request.data.resize(whole, 0);
        let start = at.bytes_usize();
        request.data[start..start + data.len()].copy_from_slice(&data);
    }

    /// Stores what a copy has read.
    pub(super) fn insert_copy(&mut self, copy: CopyId, data: (Vec<u8>, bool)) {
        let previous = self.copies.insert(copy, data);
        assert!(previous.is_none(), "a copy is read once before it is written");
    }

    /// The bytes that a copy writes, and whether checksums of them were known where they were read.
    pub(super) fn remove_copy(&mut self, copy: CopyId) -> (Vec<u8>, bool) {
        self.copies.remove(&copy).expect("a copy is read before it is written")
    }
}
