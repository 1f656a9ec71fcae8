//! Writes to parts of sectors: the sectors are read, modified and written whole.
//!
//! ```text
//!  ReadModifyWrite ─▶ waits for what changes these sectors ─▶ reads the first and the last ─▶ writes ─▶ Reply
//!  Request that changes them meanwhile ─▶ waits for those before it ─────────────▶ handler
//! ```
//!
//! Sans-IO. An export without writes to parts of sectors is not tracked and costs one check per
//! iteration. Reads need no ordering: a sector is written whole, so that a read returns it before
//! or after.
//!
//! Several loops share one read_modify_writes, and each knows only what it has sent to the handler
//! itself. So an export is watched from its first splice on: every loop is told, says what it has
//! under way, and sends what changes the export through here from then on. Nothing begins before
//! the last one has been told.
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
