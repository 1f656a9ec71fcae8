//! Writes to parts of sectors: the sectors are read, modified and written whole.
//!
//! ```text
//!  ReadModifyWrite ─▶ waits for earlier writes ─▶ reads the first and the last ─▶ writes ─▶ Reply
//!  overlapping writing Request ─▶ waits for earlier read-modify-writes ─▶ handler
//! ```
//!
//! Sans-IO. An export without writes to parts of sectors is not tracked and costs one check per
//! iteration. Reads need no ordering: a sector is written whole, so that a read returns it before
//! or after.
//!
//! All event loops share one queue, and each loop knows only the requests that it submitted itself.
//! An export is tracked from its first read-modify-write on: every loop is told, reports its
//! requests in flight, and sends writing requests for the export through the queue from then on. No
//! read-modify-write begins before the last loop has reported.
//!
//! Invariants:
//! - between the read of a sector and its write, nothing else changes the sector: no byte of
//!   another write is reverted;
//! - a queued write waits only for earlier ones, so that there is no deadlock;
//! - the memory of a job does not depend on the number of writes that it waits for.

mod queue;
#[cfg(test)]
mod tests;

pub(crate) use queue::ReadModifyWriteQueue;
