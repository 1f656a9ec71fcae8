//! The order of the requests of one volume that go past its buffer: long writes, trims, writes of
//! zeroes, and all writes of a volume whose buffer is off.
//!
//! Invariant: of two requests that share sectors and change data, the one that was sent first
//! reaches the disk first. So one that goes past waits until those before it are there, and none
//! after it is accepted or sent before it has ended.

use units::{Extent, Op};

use super::parts::overlap;
use crate::limits::REQUESTS_MAX;
use crate::request::RequestId;

/// A request that goes past the buffer and has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct PastRequest {
    pub(super) request: RequestId,
    pub(super) op: Op,
    pub(super) extent: Extent,
    /// Its number in the order in which the volume's changes were sent.
    pub(super) number: u64,
    /// Whether the disk has it; else it waits.
    pub(super) is_sent: bool,
}

/// The requests of one volume that go past its buffer and have not ended.
#[derive(Debug, Default)]
pub(super) struct PastRequests(Vec<PastRequest>);

impl PastRequests {
    pub(super) fn add(&mut self, past: PastRequest) {
        debug_assert!(self.0.iter().all(|other| other.request != past.request), "sent once");
        debug_assert!(!past.extent.is_empty(), "a change has sectors");
        self.0.push(past);
    }

    /// Whether one of them that was sent before `number` shares sectors with `extent`.
    pub(super) fn is_before(&self, number: u64, extent: Extent) -> bool {
        debug_assert!(!extent.is_empty(), "a change has sectors");
        self.0.iter().any(|past| past.number < number && overlap(past.extent, extent))
    }

    /// The one that had to wait for another volume, if `request` is one, to be handled again.
    pub(super) fn take_again(&mut self, request: RequestId) -> Option<PastRequest> {
        let again = |past: &PastRequest| past.request == request && !past.is_sent;
        let position = self.0.iter().position(again)?;
        let again = self.0.swap_remove(position);
        debug_assert!(again.op.writes(), "only changes have an order");
        Some(again)
    }

    /// One that waited goes to the disk.
    pub(super) fn send(&mut self, request: RequestId) {
        let found = self.0.iter_mut().find(|past| past.request == request);
        let past = found.expect("a request that waits is known");
        assert!(!core::mem::replace(&mut past.is_sent, true), "it goes to the disk once");
    }

    /// One of them, if it is one, has ended: also one that was to be handled again, and went to a
    /// disk that refuses it instead.
    pub(super) fn end(&mut self, request: RequestId) -> Option<PastRequest> {
        let position = self.0.iter().position(|past| past.request == request)?;
        let ended = self.0.swap_remove(position);
        debug_assert!(self.0.iter().all(|other| other.request != request), "sent once");
        Some(ended)
    }

    pub(super) fn is_empty(&self) -> bool {
        debug_assert!(self.0.len() <= REQUESTS_MAX, "requests are bounded");
        self.0.is_empty()
    }
}
