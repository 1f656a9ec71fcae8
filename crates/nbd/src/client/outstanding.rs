//! The requests that a client has sent and whose replies it expects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::ClientError;
use crate::proto::request::Errno;
use crate::proto::wire::length;

/// The reply that a request expects.
#[derive(Debug)]
pub(super) struct ExpectedReply {
    /// The first byte of the request on the export.
    pub(super) offset: u64,
    /// The number of bytes in a successful reply.
    pub(super) bytes: usize,
    /// The data received so far, if the reply comes in several chunks.
    pub(super) data: Vec<u8>,
    pub(super) error: Option<Errno>,
}

impl ExpectedReply {
    pub(super) const fn new(offset: u64, bytes: usize) -> Self {
        Self { offset, bytes, data: Vec::new(), error: None }
    }

    /// The range in the reply of `count` bytes from `offset` on the export.
    pub(super) fn place(
        &self,
        offset: u64,
        count: usize,
    ) -> Result<core::ops::Range<usize>, ClientError> {
        let start = offset.checked_sub(self.offset).map(length);
        let place = start.and_then(|start| Some(start..start.checked_add(count)?));
        let inside = place.filter(|place| place.end <= self.bytes);
        inside.ok_or(ClientError::Protocol("data that was not asked for"))
    }
}

/// The outstanding requests, by cookie.
pub(super) type Outstanding = Arc<Mutex<BTreeMap<u64, ExpectedReply>>>;

pub(super) fn lock(outstanding: &Outstanding) -> MutexGuard<'_, BTreeMap<u64, ExpectedReply>> {
    outstanding.lock().unwrap_or_else(PoisonError::into_inner)
}
