//! The requests that a client has sent and whose replies it expects.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::ClientError;
use crate::proto::request::Errno;
use crate::proto::wire::length;

/// What a request waits for.
#[derive(Debug)]
pub(super) struct ExpectedReply {
    /// Where what it reads begins on the export.
    pub(super) offset: u64,
    /// The bytes that a good answer carries.
    pub(super) bytes: usize,
    /// What has come of it, if it came in more than one chunk.
    pub(super) data: Vec<u8>,
    pub(super) error: Option<Errno>,
}

impl ExpectedReply {
    pub(super) const fn new(offset: u64, bytes: usize) -> Self {
        Self { offset, bytes, data: Vec::new(), error: None }
    }

    /// Where `count` bytes that begin at `offset` on the export lie in the answer.
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

/// What was asked and is not answered, by cookie.
pub(super) type Outstanding = Arc<Mutex<BTreeMap<u64, ExpectedReply>>>;

pub(super) fn lock(outstanding: &Outstanding) -> MutexGuard<'_, BTreeMap<u64, ExpectedReply>> {
    outstanding.lock().unwrap_or_else(PoisonError::into_inner)
}
