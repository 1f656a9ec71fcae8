//! The span of time in which each disk of a pool's volume serves its stream, where the client plays
//! the volume from its beginning (RTAS 2000 §3.1: "bandwidth on disk j for the duration of n
//! blocks, and bandwidth in advance for disk k to play back the n'th to the (n+m)'th block").
//!
//! ```text
//!  the volume            ├──── n on disk j ────┼────── m on disk k ──────┤
//!  play at B, from S     S                   S + n/B                 S + (n+m)/B
//!  the span of disk j    ├──────────────────────────┤
//!  the span of disk k                   ├────────────────────────────────────┤
//!                                       └ 4 blocks ┘ └ 4 blocks and 3 to answer ┘
//! ```
//!
//! *What is known.* The stream's `parts` say which part of the volume each disk has: a volume that
//! is created with them is placed so, and the daemon compares those of one that exists. The stream
//! has a `span`, from S to E, and its client asks in the volume's order. So play that begins at S
//! comes to byte x at S + x/B.
//!
//! *The span of a disk.* A client in contract is ahead of that by [`BLOCKS_AHEAD`] blocks or late
//! by [`BLOCKS_LATE`] at most, and what it asks for last is answered within [`BLOCKS_TO_ANSWER`]:
//! the three periods in which a byte of a client in order is answered. A block is one of the
//! stream, or 1 MiB if that is longer. A span is rounded outwards, to the nanosecond, and lies
//! within that of the stream.
//!
//! *Outside.* Before and after its span a disk has no stream of the volume. The volume's requests
//! are best effort there, and their bytes are counted as outside of the stream. The disk's time is
//! free for others: admission has one booking for each disk, with that disk's span.

use engine::stream::{RequestedStream, Span};
use units::{Duration, Instant};
use volume::pool::limits::BLOCK_SECTORS;

use crate::plan::{DiskIndex, PoolVolume};

/// The blocks by which a client in contract is ahead of play.
const BLOCKS_AHEAD: u64 = 4;
/// The blocks by which a client in contract is late.
const BLOCKS_LATE: u64 = 4;
/// The blocks in whose time a request is answered.
const BLOCKS_TO_ANSWER: u64 = 3;

/// When the stream of `volume` is in force on `disk`; `None` if the stream's span ends before play
/// comes to what the disk has.
pub(crate) fn span_on(volume: &PoolVolume, disk: DiskIndex) -> Option<Span> {
    let whole = volume.span();
    let Some(stream) = volume.stream.filter(|_| !volume.stream_parts.is_empty()) else {
        return Some(whole);
    };
    let place = volume.disks.iter().position(|there| *there == disk)?;
    let before = volume.stream_parts[..place].iter().map(|part| u64::from(part.0)).sum::<u64>();
    let part = u64::from(volume.stream_parts[place].0);
    let span = span_of_part(stream.requested, whole, (before, before + part));
    Some(span).filter(|span| !span.is_empty())
}

/// When play at the bandwidth from the beginning of `whole` is within these blocks of the pool,
/// give or take the blocks above.
fn span_of_part(requested: RequestedStream, whole: Span, (first, end): (u64, u64)) -> Span {
    let RequestedStream { bandwidth, block } = requested;
    let long = u128::from(block.0.max(BLOCK_SECTORS.bytes().0));
    let bytes = |blocks: u64| u128::from(blocks) * u128::from(BLOCK_SECTORS.bytes().0);
    let ahead = long * u128::from(BLOCKS_AHEAD);
    let late = long * u128::from(BLOCKS_LATE + BLOCKS_TO_ANSWER);
    let at = |bytes: u128, round: fn(u128, u128) -> u128| {
        let nanos = round(bytes * 1_000_000_000, u128::from(bandwidth.0.max(1)));
        // What is beyond any time is beyond the end of the stream's span too.
        whole.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX >> 1))
    };
    let start = at(bytes(first).saturating_sub(ahead), |bytes, rate| bytes / rate);
    let end = at(bytes(end) + late, u128::div_ceil);
    Span { start, end: end.min(whole.end) }
}

/// When play at the bandwidth comes to the first of what a disk has.
pub(crate) fn reached(volume: &PoolVolume, requested: RequestedStream, place: usize) -> Instant {
    let whole = Span { end: Instant::FAR_FUTURE, ..volume.span() };
    let before = volume.stream_parts[..place].iter().map(|part| u64::from(part.0)).sum();
    span_of_part(requested, whole, (before, before)).start
}
