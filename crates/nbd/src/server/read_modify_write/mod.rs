//! Writes to parts of sectors: the sectors are read, changed and written whole.
//!
//! ```text
//!  ReadModifyWrite ─▶ waits for what changes these sectors ─▶ reads the first and the last ─▶ writes ─▶ Reply
//!  Request that changes them meanwhile ─▶ waits for those before it ─────────────▶ handler
//! ```
//!
//! Sans-IO, and nothing is watched as long as nobody writes less than a sector: who keeps to whole sectors pays for one look
//! at that. Reads need none of this: a sector is written whole, so whoever reads it reads it before or after.
//!
//! Several loops share one read_modify_writes, and each knows only what it has sent to the handler itself. So an export is watched from its
//! first splice on: every loop is told, says what it has under way, and sends what changes the export through here from
//! then on. Nothing begins before the last one has been told.
//!
//! Invariants:
//! - between the read of a sector and its write, nothing else changes it: no byte that somebody else wrote is put back to
//!   what it was;
//! - who waits, waits for what came before it alone, so that nobody waits for ever;
//! - what is kept of a job does not grow with those that it waits for.

mod queue;
#[cfg(test)]
mod tests;

pub(crate) use queue::ReadModifyWriteQueue;
