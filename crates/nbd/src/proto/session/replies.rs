//! Replies: from the disk's results to the bytes that the client gets.

use units::SECTOR_BYTES;

use super::budget::Budget;
use super::in_flight::{Entry, ReplyKind};
use super::metadata::ALLOCATION_ID;
use super::state::Session;
use crate::limits::{STATUS_BYTES_MAX, STATUS_SEGMENTS_MAX};
use crate::proto::reply::{self, Refusal, RequestTag, Style};
use crate::proto::request::{Allocation, Errno, Segment};

impl Session {
    /// Answers a request. Returns false if no request of that number is outstanding. Data is sent
    /// only for reads.
    pub fn reply(
        &mut self,
        sequence: u64,
        result: Result<Vec<u8>, Errno>,
        budget: &mut Budget,
    ) -> bool {
        let Some(entry) = self.in_flight.close(sequence) else { return false };
        match (result, entry.reply_kind) {
            // A read of the wrong length becomes an error: the client relies on the length that it
            // asked for.
            (Ok(data), ReplyKind::Data | ReplyKind::Part { .. }) if data.len() != entry.bytes => {
                self.fail(&entry, Errno::Io, budget);
            }
            (Ok(data), ReplyKind::Data) => self.give_data(entry.tag, data, budget),
            (Ok(mut data), ReplyKind::Part { before, length }) => {
                data.truncate(before + length);
                data.drain(..before);
                budget.release(entry.bytes - length);
                self.give_data(entry.tag, data, budget);
            }
            (Ok(data), ReplyKind::Nothing | ReplyKind::Change(_)) => {
                budget.release(entry.bytes);
                budget.recycle(data);
                self.output.push_reply(reply::done(self.style, entry.tag), Vec::new());
            }
            // A block status request is not answered with data.
            (Ok(_), ReplyKind::Status { .. }) => self.fail(&entry, Errno::Io, budget),
            (Err(errno), _) => self.fail(&entry, errno, budget),
        }
        true
    }

    /// Answers a block status request; the first segment begins at the start of the request.
    /// Returns false if no request of that number is outstanding.
    pub fn reply_block_status(
        &mut self,
        sequence: u64,
        result: Result<&[Segment], Errno>,
        budget: &mut Budget,
    ) -> bool {
        let Some(entry) = self.in_flight.close(sequence) else { return false };
        match (result, entry.reply_kind) {
            (Ok(segments), ReplyKind::Status { before, length, one }) => {
                let asked = (before as u64, length);
                let (count, words) = descriptors(self.style, segments, asked, one);
                budget.release(entry.bytes - words.len());
                let head = reply::status(self.style, entry.tag, ALLOCATION_ID, count);
                self.output.push_reply(head, words);
            }
            (Ok(_), _) => self.fail(&entry, Errno::Io, budget),
            (Err(errno), _) => self.fail(&entry, errno, budget),
        }
        true
    }

    /// The data of a read. Zeroes are sent as a hole where the client has structured replies:
    /// checking is cheaper than sending.
    fn give_data(&mut self, tag: RequestTag, data: Vec<u8>, budget: &mut Budget) {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        if self.style != Style::Simple && is_zero(&data) {
            budget.release(data.len());
            budget.recycle(data);
            self.output.push_reply(reply::hole(self.style, tag, length), Vec::new());
        } else {
            let head = reply::data(self.style, tag, data.len());
            self.output.push_reply(head, data);
        }
    }

    fn fail(&mut self, entry: &Entry, errno: Errno, budget: &mut Budget) {
        budget.release(entry.bytes);
        let why = if errno == Errno::Io { "the disk failed" } else { "" };
        self.refuse(entry.tag, Refusal::new(errno, why));
    }

    pub(super) fn refuse(&mut self, tag: RequestTag, refusal: Refusal) {
        let (head, words) = reply::error(self.style, tag, refusal);
        self.output.push_words(head, words);
    }
}

/// Whether all bytes are zero. In most cases the first bytes already differ.
fn is_zero(data: &[u8]) -> bool {
    const LOOK: usize = 64;
    let (first, rest) = data.split_at(data.len().min(LOOK));
    // The compiler vectorises a fold over whole pieces.
    first.iter().all(|byte| *byte == 0)
        && rest.chunks(4096).all(|piece| piece.iter().fold(0, |or, byte| or | byte) == 0)
}

/// The flags of the context `base:allocation`.
const fn flags(allocation: Allocation) -> u64 {
    const HOLE: u64 = 1;
    const ZERO: u64 = 2;
    match allocation {
        Allocation::Data => 0,
        Allocation::Zeroes => ZERO,
        Allocation::Hole => HOLE | ZERO,
    }
}

/// Descriptors of `length` bytes after the first `before`, as many as one reply holds. There is at
/// least one, and none is empty: bytes without a segment count as data.
fn descriptors(
    style: Style,
    segments: &[Segment],
    (before, length): (u64, u64),
    one: bool,
) -> (usize, Vec<u8>) {
    let most = if one { 1 } else { STATUS_SEGMENTS_MAX };
    let (mut skip, mut left) = (before, length);
    let mut runs: Vec<(u64, Allocation)> = Vec::with_capacity(most.min(segments.len() + 1));
    for segment in segments {
        let told = segment.len.0.saturating_mul(SECTOR_BYTES);
        let len = told.saturating_sub(skip).min(left);
        skip = skip.saturating_sub(told);
        left -= len;
        if len == 0 {
            continue;
        }
        if let Some((run, _)) = runs.last_mut().filter(|(_, last)| *last == segment.allocation) {
            *run += len;
        } else if runs.len() < most {
            runs.push((len, segment.allocation));
        } else {
            break;
        }
    }
    if runs.is_empty() {
        runs.push((left, Allocation::Data));
    }
    let mut words = Vec::with_capacity(STATUS_BYTES_MAX);
    for &(bytes, ref allocation) in &runs {
        if style == Style::Extended {
            words.extend_from_slice(&bytes.to_be_bytes());
            words.extend_from_slice(&flags(*allocation).to_be_bytes());
        } else {
            // A request without extended headers is about less than 4 GiB.
            words.extend_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes());
            let flags = u32::try_from(flags(*allocation)).unwrap_or(0);
            words.extend_from_slice(&flags.to_be_bytes());
        }
    }
    (runs.len(), words)
}
