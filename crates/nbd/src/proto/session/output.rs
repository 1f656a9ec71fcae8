//! The output of one connection, in order, without copying data.
//!
//! A piece is a head of a few bytes and its data, in the buffer that the disk filled.
//! [`Output::slices`] prepares many pieces for one vectored write.

use std::collections::VecDeque;
use std::io::IoSlice;

use super::budget::Budget;
use crate::proto::reply::Head;

#[derive(Debug)]
struct Piece {
    head: Option<Head>,
    data: Vec<u8>,
    /// The payload memory that it holds until it is sent. Handshake messages do not count.
    payload: usize,
}

impl Piece {
    fn head(&self) -> &[u8] {
        self.head.as_ref().map_or(&[], |head| head)
    }

    fn len(&self) -> usize {
        self.head().len() + self.data.len()
    }
}

/// A queue of bytes to send.
#[derive(Debug, Default)]
pub struct Output {
    pieces: VecDeque<Piece>,
    /// The number of bytes sent of the first piece.
    head_sent: usize,
    bytes: usize,
    data_bytes: usize,
}

impl Output {
    /// Whether everything is sent.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The number of unsent bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of messages not sent completely.
    pub(crate) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The payload bytes of all messages that are not sent completely: a message holds its buffer
    /// until then.
    pub(crate) const fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    pub(crate) fn push_bytes(&mut self, data: Vec<u8>) {
        self.push(Piece { head: None, data, payload: 0 });
    }

    /// A reply and its payload.
    pub(crate) fn push_reply(&mut self, head: Head, data: Vec<u8>) {
        let payload = data.len();
        self.push(Piece { head: Some(head), data, payload });
    }

    /// A reply whose data is not payload memory.
    pub(crate) fn push_words(&mut self, head: Head, data: Vec<u8>) {
        self.push(Piece { head: Some(head), data, payload: 0 });
    }

    fn push(&mut self, piece: Piece) {
        if piece.len() > 0 {
            self.bytes += piece.len();
            self.data_bytes += piece.payload;
            self.pieces.push_back(piece);
        }
    }

    /// Fills `slices` with the first unsent bytes. Returns the number of slices and of bytes.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> (usize, usize) {
        let (mut used, mut bytes, mut skip) = (0, 0, self.head_sent);
        for part in self.pieces.iter().flat_map(|piece| [piece.head(), &piece.data]) {
            let skipped = skip.min(part.len());
            skip -= skipped;
            if skipped == part.len() {
                continue;
            }
            let Some(slice) = slices.get_mut(used) else { break };
            *slice = IoSlice::new(&part[skipped..]);
            used += 1;
            bytes += part.len() - skipped;
        }
        (used, bytes)
    }

    /// `count` bytes were sent: releases memory that is no longer held. Returns whether a message
    /// was completed.
    pub(crate) fn sent(&mut self, count: usize, budget: &mut Budget) -> bool {
        assert!(count <= self.bytes, "sent what there was");
        self.bytes -= count;
        self.head_sent += count;
        let (mut freed, mut completed) = (0, false);
        while self.pieces.front().is_some_and(|piece| self.head_sent >= piece.len()) {
            let Some(piece) = self.pieces.pop_front() else { break };
            self.head_sent -= piece.len();
            freed += piece.payload;
            completed = true;
            if piece.payload > 0 {
                budget.recycle(piece.data);
            }
        }
        self.data_bytes -= freed;
        budget.release(freed);
        completed
    }

    pub(crate) fn memory(&self) -> usize {
        let data = self.pieces.iter().map(|piece| piece.data.capacity()).sum::<usize>();
        data + self.pieces.capacity() * size_of::<Piece>()
    }

    pub(crate) fn invariants(&self) {
        let all = self.pieces.iter().map(Piece::len).sum::<usize>();
        assert_eq!(all - self.head_sent, self.bytes, "the bytes are those of the pieces");
        let payload = self.pieces.iter().map(|piece| piece.payload).sum::<usize>();
        assert_eq!(payload, self.data_bytes, "as is the payload");
    }
}

/// All unsent bytes: for tests and for transports without a vectored write.
impl From<&Output> for Vec<u8> {
    fn from(output: &Output) -> Self {
        let all = output.pieces.iter().flat_map(|piece| [piece.head(), &piece.data]);
        let mut bytes = all.fold(Self::new(), |mut bytes, part| {
            bytes.extend_from_slice(part);
            bytes
        });
        bytes.drain(..output.head_sent);
        bytes
    }
}
