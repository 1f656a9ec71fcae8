//! What a volume is guaranteed on one disk.

use engine::stream::Span;
use engine::{Contract, Priority, RateContract};
use units::Sectors;

/// A volume's contract on one disk, with everything that the disk's thread keeps beside it. It has
/// passed admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VolumeTerms {
    pub(crate) contract: Contract,
    /// The time span in which the contract's stream is in force on this disk.
    pub(crate) span: Span,
    /// The time span in which it is in force on some disk.
    pub(crate) stream_span: Span,
    /// The rate from which the reserve was derived, if it was derived from one.
    pub(crate) declared: Option<RateContract>,
    pub(crate) priority: Priority,
    pub(crate) write_buffer: BufferTerms,
}

/// The write buffer of a volume on one disk, where the disk has buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferTerms {
    pub(crate) bound: Sectors,
    /// Whether its flushes go to the disk: those of the pool's own volumes do, since what they make
    /// durable was written and trimmed for others too.
    pub(crate) passes_flushes: bool,
    /// Whether the pool is told what the disk fails to write of it, and no flush: it is one copy of
    /// several, and the pool goes on with the others.
    pub(crate) reports_losses: bool,
}

impl BufferTerms {
    /// Those of a client's volume.
    pub(crate) const fn of_client(bound: Sectors) -> Self {
        Self { bound, passes_flushes: false, reports_losses: false }
    }

    /// Those of the pool's own volumes.
    pub(crate) const INTERNAL: Self =
        Self { passes_flushes: true, ..Self::of_client(Sectors::ZERO) };
}

impl VolumeTerms {
    /// The terms of a configured volume that lies on one disk.
    pub(crate) fn of(volume: &config::Volume) -> Self {
        let &config::Volume { contract, declared, priority, write_buffer, .. } = volume;
        let write_buffer = BufferTerms::of_client(write_buffer);
        let (span, stream_span) = (volume.span(), volume.span());
        Self { contract, span, stream_span, declared, priority, write_buffer }
    }

    /// Terms without a time span, a declared rate or a priority.
    pub(crate) fn always(contract: Contract, write_buffer: BufferTerms) -> Self {
        let (span, declared, priority) = (Span::ALWAYS, None, Priority::Normal);
        Self { contract, span, stream_span: span, declared, priority, write_buffer }
    }
}
