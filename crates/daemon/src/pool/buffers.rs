//! The bytes of a pool's requests and copies that are in progress.

use std::collections::BTreeMap;

use backend::Failure;
use nbd::{ClientRequestId, Errno, Transport};
use units::{Op, Operation, Sectors};
use volume::pool::flow::{CopyId, PoolRequestId};

use crate::slots::Slots;

/// A client's request.
#[derive(Debug)]
pub(super) struct BufferedRequest {
    pub(super) id: ClientRequestId,
    operation: Operation,
    /// The bytes to write, or those read so far.
    data: Vec<u8>,
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
    copies: BTreeMap<CopyId, Vec<u8>>,
}

impl Buffers {
    /// Takes a client's request to a volume that is a mirror, or is none.
    pub(super) fn insert(&mut self, request: nbd::Request, is_mirrored: bool) -> PoolRequestId {
        let nbd::Request { id, operation, mut data, .. } = request;
        if operation.op == Op::Read {
            data.clear();
        }
        let request = BufferedRequest { id, operation, data, is_mirrored };
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
    pub(super) fn insert_copy(&mut self, copy: CopyId, data: Vec<u8>) {
        let previous = self.copies.insert(copy, data);
        assert!(previous.is_none(), "a copy is read once before it is written");
    }

    /// The bytes that a copy writes.
    pub(super) fn remove_copy(&mut self, copy: CopyId) -> Vec<u8> {
        self.copies.remove(&copy).expect("a copy is read before it is written")
    }
}
