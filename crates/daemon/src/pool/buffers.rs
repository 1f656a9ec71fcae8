//! The bytes of requests and copies, while they are under way.

use std::collections::BTreeMap;

use backend::Failure;
use nbd::Errno;
use units::{Op, Operation, Sectors};
use volume::pool::flow::{CopyId, PoolRequestId};

/// A client's request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: nbd::ClientRequestId,
    operation: Operation,
    /// What is to be written, or was read so far.
    data: Vec<u8>,
    failure: Option<Failure>,
}

impl Request {
    /// The answer.
    pub(super) fn result(self, refused: Option<Errno>) -> Result<Vec<u8>, Errno> {
        match (self.failure, refused) {
            (Some(Failure::NoSpace), _) => Err(Errno::NoSpc),
            (Some(Failure::Io | Failure::Offline), _) => Err(Errno::Io),
            (None, Some(errno)) => Err(errno),
            (None, None) => {
                let mut data = self.data;
                if self.operation.op == Op::Read {
                    // What lies nowhere reads as zeroes.
                    data.resize(self.operation.extent.len.bytes_usize(), 0);
                }
                Ok(data)
            }
        }
    }
}

/// Requests by their number, and copies by theirs.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    requests: Vec<Option<Request>>,
    free: Vec<u64>,
    copies: BTreeMap<CopyId, Vec<u8>>,
}

fn index(id: PoolRequestId) -> usize {
    usize::try_from(id.0).expect("it indexed before")
}

impl Buffers {
    /// A request comes.
    pub(super) fn enter(&mut self, request: nbd::Request) -> PoolRequestId {
        let nbd::Request { id, operation, mut data, .. } = request;
        if operation.op == Op::Read {
            data.clear();
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() as u64 - 1
        });
        let slot = PoolRequestId(slot);
        self.requests[index(slot)] = Some(Request { id, operation, data, failure: None });
        slot
    }

    /// A request goes.
    pub(super) fn leave(&mut self, id: PoolRequestId) -> Request {
        self.free.push(id.0);
        self.requests[index(id)].take().expect("a request is answered once")
    }

    fn request(&mut self, id: PoolRequestId) -> &mut Request {
        self.requests[index(id)].as_mut().expect("a piece is part of a request")
    }

    /// What a piece of a request writes. The whole of it is its own buffer.
    pub(super) fn payload(&mut self, id: PoolRequestId, at: Sectors, len: Sectors) -> Vec<u8> {
        let request = self.request(id);
        if len == request.operation.extent.len {
            return core::mem::take(&mut request.data);
        }
        let start = at.bytes_usize();
        request.data[start..start + len.bytes_usize()].to_vec()
    }

    /// What a piece of a request has read, or that it could not.
    pub(super) fn collect(
        &mut self,
        id: PoolRequestId,
        at: Sectors,
        result: Result<Vec<u8>, Failure>,
    ) {
        let request = self.request(id);
        match result {
            Err(failure) => request.failure = Some(failure),
            Ok(_) if request.operation.op != Op::Read => {}
            Ok(data) => {
                let whole = request.operation.extent.len.bytes_usize();
                if data.len() == whole {
                    request.data = data;
                    return;
                }
                request.data.resize(whole, 0);
                let start = at.bytes_usize();
                request.data[start..start + data.len()].copy_from_slice(&data);
            }
        }
    }

    /// What a copy has read.
    pub(super) fn keep(&mut self, copy: CopyId, data: Vec<u8>) {
        self.copies.insert(copy, data);
    }

    /// What a copy is to write.
    pub(super) fn take(&mut self, copy: CopyId) -> Vec<u8> {
        self.copies.remove(&copy).expect("a copy is read before it is written")
    }
}
