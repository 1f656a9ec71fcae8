//! Whether a client is far ahead of its stream's bandwidth.
//!
//! A page cache writes what it has gathered for seconds, and `fsync` waits for all of it. Such a
//! client would have its bandwidth alone beside neighbours that always have requests, whatever is
//! not reserved. So until no more than a block is queued, the selector may serve its released bytes
//! as best effort, too.

use units::Sectors;

/// A client is far ahead when more is queued than this many blocks: in one request or in many. A
/// page cache's requests are merged to ten blocks and more, of which each would wait for a period.
/// A client that sends at its pace, in requests of up to four blocks, is not.
const BLOCKS: u64 = 4;

/// The queued sectors of a stream, and whether its client is far ahead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead {
    queued: Sectors,
    is_far: bool,
}

impl Ahead {
    pub(super) fn queued(&self) -> Sectors {
        self.queued
    }

    pub(super) fn is_far(&self) -> bool {
        debug_assert!(!self.is_far || self.queued > Sectors::ZERO, "what is ahead is queued");
        self.is_far
    }

    /// A request of `len` arrives; a block of the stream has `block` sectors.
    pub(super) fn on_arrival(&mut self, len: Sectors, block: Sectors) {
        self.queued += len;
        let most = block.0 * BLOCKS;
        debug_assert!(most > block.0, "far ahead is more than a block");
        self.is_far |= self.queued.0 > most;
    }

    /// `len` sectors go to the drive.
    pub(super) fn on_dispatch(&mut self, len: Sectors, block: Sectors) {
        assert!(len <= self.queued, "what goes to the drive was queued");
        self.queued = self.queued - len;
        self.is_far &= self.queued > block;
    }
}
