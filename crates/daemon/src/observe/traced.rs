//! A finished request, and where its time went.

use nbd::{ClientRequestId, ExportId};
use units::{Duration, Instant, Operation};
use volume::pool::flow::PieceId;

use super::Breakdown;

/// Of those that were served while a request waited so many are told by name.
pub const NAMED_MAX: usize = 4;

/// Whose request it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracedId {
    /// A client's.
    Client(ClientRequestId),
    /// A part of a request to a pool's volume, or something of the pool's own.
    Piece(PieceId),
    /// The daemon's: space is erased before it is given out.
    Erasure,
}

/// Why a volume that had work was not let have an idle disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Withholder {
    /// As far as is known, none of the others.
    #[default]
    Policy,
    /// It is at its limit.
    Limit,
    /// The deadlines of others leave no slack.
    Deadlines,
}

/// A finished request, and where its time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Which.
    pub id: TracedId,
    /// The disk's place in the config.
    pub disk: usize,
    /// Of which volume.
    pub export: ExportId,
    /// What it asked of the disk.
    pub operation: Operation,
    /// When it was answered.
    pub at: Instant,
    /// Whether the disk could not.
    pub failed: bool,
    /// How many commands it was.
    pub commands: u32,
    /// Where its time went.
    pub breakdown: Breakdown,
    /// What it was withheld by, if it was.
    pub withheld_by: Withholder,
    /// Who was served while others were, longest first; nothing behind the last.
    pub served: [Option<(ExportId, Duration)>; NAMED_MAX],
}

#[cfg(test)]
impl Traced {
    /// A read that took nothing.
    pub(crate) fn example(export: ExportId, at: Instant) -> Self {
        use units::{Extent, Lba, Sectors};
        Self {
            id: TracedId::Erasure,
            disk: 0,
            export,
            operation: Operation::read(Extent::new(Lba(0), Sectors(8))),
            at,
            failed: false,
            commands: 1,
            breakdown: Breakdown::default(),
            withheld_by: Withholder::Policy,
            served: [None; NAMED_MAX],
        }
    }
}
